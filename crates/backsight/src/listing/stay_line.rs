//! A stay in a function, as a line of text.
//!
//! Calls are listed by the million, and hardly any line differs from the others but by its indentation, its name and two small
//! numbers. Those are put together by copies of fixed sizes, each of which overwrites what the one before copied too much: to
//! copy a fixed number of bytes takes a moment, to copy so and so many takes longer.

use std::io::Write as _;

use super::digits::{Decimal, short_decimal, write_decimal};
use super::label::Label;
use crate::calls::{Cost, Functions, NameId, Stay};
use backsight_core::Printable;

/// Deepest call that is indented deeper than its caller.
const DEEPEST: usize = 60;

/// Bytes that the parts of a short line fit into: label and indentation, name, costs.
const START: usize = 64;
const NAME: usize = 62;
const OWN: usize = 16;
const CALL: usize = 31;

/// Bytes that a short line is put together in.
const LINE: usize = (START + NAME + OWN + CALL).next_multiple_of(16);

/// Bytes that any other line with a short name is put together in.
const LONG_LINE: usize = START + NAME + 256;

/// Costs with fewer instructions are short.
const SHORT: usize = 1000;

/// Spaces before the name of a function.
pub(super) fn indentation(depth: usize) -> usize {
    2 * depth.min(DEEPEST)
}

/// Texts of functions that were listed before, with what comes after them in a line, by their numbers.
#[derive(Default)]
pub(super) struct NameTexts {
    /// The functions are numbered as they were then.
    generation: u32,
    texts: Vec<NameText>,
}

/// A text, in one line of the cache if it is short.
#[derive(Clone)]
#[repr(align(64))]
pub(super) enum NameText {
    /// Nobody has asked for it.
    Unknown,
    Short {
        length: u8,
        text: [u8; NAME],
    },
    Long(Box<[u8]>),
}

const _: () = assert!(size_of::<NameText>() == 64);

impl NameText {
    fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        if bytes.len() > NAME {
            return Self::Long(bytes.into());
        }
        let mut text = [b' '; NAME];
        text[..bytes.len()].copy_from_slice(bytes);
        Self::Short { length: bytes.len() as u8, text }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Unknown => &[],
            Self::Short { length, text } => text.get(..usize::from(*length)).unwrap_or(text),
            Self::Long(text) => text,
        }
    }
}

impl NameTexts {
    /// The text of a function.
    #[inline(always)]
    pub fn of(&mut self, functions: &Functions<'_>, number: NameId) -> &NameText {
        let index = number.get() as usize;
        let is_unknown = |text: &NameText| matches!(text, NameText::Unknown);
        if functions.generation != self.generation || self.texts.get(index).is_none_or(is_unknown) {
            self.learn(functions, number);
        }
        self.texts.get(index).unwrap_or(&NameText::Unknown)
    }

    #[cold]
    fn learn(&mut self, functions: &Functions<'_>, number: NameId) {
        if functions.generation != self.generation {
            *self = Self { generation: functions.generation, texts: Vec::new() };
        }
        let index = number.get() as usize;
        if self.texts.len() <= index {
            self.texts.resize(index + 1, NameText::Unknown);
        }
        let name = functions.name(number).map(|name| Printable(&name.to_string()).to_string());
        self.texts[index] = NameText::new(&format!("{}  ", name.unwrap_or_default()));
    }
}

/// Writes who and where, what the stay cost, and where it is the last of a call what that cost.
#[inline(always)]
pub(super) fn write_stay(lines: &mut Vec<u8>, label: &Label, hart: u16, stay: &Stay, name: &NameText) {
    match (name, label.short(), short_costs(stay)) {
        (NameText::Short { length, text }, Some(label), Some(costs))
            if stay.depth <= (START - label.len()) / 2 =>
        {
            write_short(lines, label, stay.depth, (text, *length), costs);
        }
        (NameText::Short { length, text }, Some(label), None) if stay.depth <= (START - label.len()) / 2 => {
            write_long(lines, label, (text, *length), stay);
        }
        _ => write_any(lines, label, hart, *stay, name),
    }
}

/// What the stay and, if it ended, the call took, in instructions: if nothing else is known of it, and they are few.
#[inline(always)]
fn short_costs(stay: &Stay) -> Option<(u64, Option<u64>)> {
    let is_short =
        |cost: &Cost| cost.cycles.is_none() && cost.time.is_none() && cost.instructions < SHORT as u64;
    let has_own = stay.own.instructions > 0 && stay.begin.is_none();
    let are_short = has_own && is_short(&stay.own) && stay.call.as_ref().is_none_or(is_short);
    are_short.then_some((stay.own.instructions, stay.call.map(|call| call.instructions)))
}

#[inline(always)]
fn write_short(
    lines: &mut Vec<u8>,
    label: [u8; 6],
    depth: usize,
    (name, name_length): (&[u8; NAME], u8),
    (own, call): (u64, Option<u64>),
) {
    let own = COSTS.get(own as usize).unwrap_or(&END_OF_LINE);
    // Whether the call ended is as good as random from line to line: whatever comes, it is one copy of the same size.
    let call = call.map_or(&END_OF_LINE, |call| COSTS.get(call as usize).unwrap_or(&END_OF_LINE));
    let begin = lines.len();
    lines.extend_from_slice(&[b' '; LINE]);
    let Some(line) = lines[begin..].first_chunk_mut::<LINE>() else { return };
    line[..label.len()].copy_from_slice(&label);
    let mut end = label.len() + 2 * depth;
    line[end..][..NAME].copy_from_slice(name);
    end += usize::from(name_length);
    line[end..][..OWN].copy_from_slice(&own.text[CALL_TOOK.len()..][..OWN]);
    end += usize::from(own.length) - CALL_TOOK.len() - 1;
    line[end..][..CALL].copy_from_slice(&call.text);
    end += usize::from(call.length);
    lines.truncate(begin + end);
}

/// Writes a stay of whatever costs.
#[inline(never)]
fn write_long(lines: &mut Vec<u8>, label: [u8; 6], (name, name_length): (&[u8; NAME], u8), stay: &Stay) {
    let begin = lines.len();
    lines.extend_from_slice(&[b' '; LONG_LINE]);
    let Some(text) = lines[begin..].first_chunk_mut::<LONG_LINE>() else { return };
    let mut line = Line { text, end: 0 };
    line.put(&label, label.len() + 2 * stay.depth);
    line.put(name, name_length.into());
    let has_own = stay.own.instructions > 0;
    if has_own {
        line.put_cost(&stay.own);
        if let Some(time) = stay.begin {
            line.put(b", at 0x", 7);
            line.put_hexadecimal(time);
        }
    }
    if let Some(call) = &stay.call {
        match has_own {
            true => line.put(b"; call took ", 12),
            false => line.put(b"call took ", 10),
        }
        line.put_cost(call);
    }
    line.put(b"\n", 1);
    let end = line.end;
    lines.truncate(begin + end);
}

/// A line while it is put together. There is room for the longest.
struct Line<'l> {
    text: &'l mut [u8; LONG_LINE],
    end: usize,
}

impl Line<'_> {
    /// Adds the first `length` of some bytes: what is copied too much is overwritten by what comes next.
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: &[u8; N], length: usize) {
        if let Some(to) = self.text.get_mut(self.end..).and_then(<[u8]>::first_chunk_mut) {
            *to = *bytes;
        }
        self.end += length;
    }

    #[inline(always)]
    fn put_number(&mut self, number: u64) {
        match short_decimal(number) {
            Some((digits, length)) => self.put(&digits, length),
            None => self.put_long_number(number),
        }
    }

    fn put_long_number(&mut self, number: u64) {
        let mut digits = Decimal::default();
        for &digit in digits.bytes_of(number) {
            self.put(&[digit], 1);
        }
    }

    #[inline(always)]
    fn put_hexadecimal(&mut self, number: u64) {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            self.put(&[b"0123456789abcdef"[(number >> (4 * digit) & 15) as usize]], 1);
        }
    }

    #[inline(always)]
    fn put_cost(&mut self, cost: &Cost) {
        let plural = |number: u64| usize::from(number != 1);
        self.put_number(cost.instructions);
        self.put(b" instructions", 12 + plural(cost.instructions));
        if let Some(cycles) = cost.cycles {
            self.put(b", ", 2);
            self.put_number(cycles);
            self.put(b" cycles", 6 + plural(cycles));
        }
        if let Some(time) = cost.time.filter(|&time| time > 0) {
            self.put(b", time ", 7);
            self.put_number(time);
        }
    }
}

/// Writes any stay. It is taken as a copy: else all others would have to be in memory, too.
#[cold]
#[inline(never)]
fn write_any(lines: &mut Vec<u8>, label: &Label, hart: u16, stay: Stay, name: &NameText) {
    // Memory takes everything.
    let _ = label.write(lines, hart);
    lines.resize(lines.len() + indentation(stay.depth), b' ');
    lines.extend_from_slice(name.bytes());
    // What came before the last line, such as an exception, was the end of it.
    let has_own = stay.own.instructions > 0;
    if has_own {
        write_cost(lines, &stay.own);
        stay.begin.map_or(Ok(()), |time| write!(lines, ", at {time:#x}")).unwrap_or_default();
    }
    if let Some(call) = &stay.call {
        lines.extend_from_slice(if has_own { CALL_TOOK } else { b"call took " });
        write_cost(lines, call);
    }
    lines.push(b'\n');
}

#[inline]
fn write_cost(lines: &mut Vec<u8>, cost: &Cost) {
    write_decimal(lines, cost.instructions);
    match cost.instructions {
        1 => lines.extend_from_slice(b" instruction"),
        _ => lines.extend_from_slice(b" instructions"),
    }
    if let Some(cycles) = cost.cycles {
        lines.extend_from_slice(b", ");
        write_decimal(lines, cycles);
        lines.extend_from_slice(if cycles == 1 { b" cycle" } else { b" cycles" });
    }
    if let Some(time) = cost.time.filter(|&time| time > 0) {
        lines.extend_from_slice(b", time ");
        write_decimal(lines, time);
    }
}

const CALL_TOOK: &[u8] = b"; call took ";

/// What a call took, with the end of the line.
#[derive(Clone, Copy)]
struct CostText {
    text: [u8; CALL],
    length: u8,
}

const END_OF_LINE: CostText = CostText { text: [b'\n'; CALL], length: 1 };

/// The text of each number of instructions.
static COSTS: [CostText; SHORT] = {
    let mut costs = [CostText { text: [b' '; CALL], length: 0 }; SHORT];
    let mut number = 0;
    while number < SHORT {
        let mut text = costs[number].with(CALL_TOOK);
        if number >= 100 {
            text = text.with(&[b'0' + (number / 100) as u8]);
        }
        if number >= 10 {
            text = text.with(&[b'0' + (number / 10 % 10) as u8]);
        }
        text = text.with(&[b'0' + (number % 10) as u8]);
        costs[number] = text.with(if number == 1 { b" instruction\n" } else { b" instructions\n" });
        number += 1;
    }
    costs
};

impl CostText {
    const fn with(mut self, more: &[u8]) -> Self {
        let mut at = 0;
        while at < more.len() {
            self.text[self.length as usize] = more[at];
            self.length += 1;
            at += 1;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use backsight_core::TraceId;

    use super::*;

    fn stay(own: u64, call: Option<u64>) -> Stay {
        let cost = |instructions| Cost { instructions, ..Cost::default() };
        Stay {
            is_inside: false,
            name: NameId::MIN,
            depth: 0,
            is_entry: true,
            begin: None,
            own: cost(own),
            call: call.map(cost),
        }
    }

    /// Both ways to write a stay: the one that is chosen, and the one that is for all.
    fn lines(label: &Label, stay: &Stay, name: &NameText) -> [String; 2] {
        let (mut chosen, mut any) = (b"before\n".to_vec(), b"before\n".to_vec());
        write_stay(&mut chosen, label, 3, stay, name);
        write_any(&mut any, label, 3, *stay, name);
        [chosen, any].map(|text| String::from_utf8(text).expect("text"))
    }

    #[test]
    fn lines_with_short_names_are_written_as_all_others_are() {
        let label =
            Label { id: TraceId::new(0x1F), numbers_harts: false, buffer: None, time: None, thread: None };
        let labels = [label.clone(), Label { numbers_harts: true, ..label }];
        let names = [0, 1, 9, NAME - 3, NAME - 2, NAME - 1, NAME, 200].map(|length| "n".repeat(length));
        let stays = [0, 1, 2, 9, 10, 99, 100, 101, 999, 1000].into_iter().flat_map(|own| {
            [None, Some(0), Some(1), Some(10), Some(123), Some(999), Some(1000)].map(|call| stay(own, call))
        });
        let with_time = stays
            .clone()
            .zip([0, 1, 0xF, 0x10, 9_999, 10_000, u64::MAX].into_iter().cycle())
            .map(|(stay, number)| {
                let timed = |cost: Cost| Cost {
                    cycles: Some(number).filter(|_| number % 2 == 0 || cost.instructions < 100),
                    time: Some(number / 2).filter(|_| cost.instructions != 2),
                    ..cost
                };
                let begin = Some(number).filter(|&number| number != 9_999);
                Stay { begin, own: timed(stay.own), call: stay.call.map(timed), ..stay }
            });
        for stay in stays.clone().chain(with_time) {
            for depth in [0, 1, 2, 28, 29, 30, DEEPEST - 1, DEEPEST, DEEPEST + 1, 1000] {
                for (label, name) in
                    labels.iter().flat_map(|label| names.iter().map(move |name| (label, name)))
                {
                    let text = NameText::new(&format!("{name}  "));
                    let [chosen, any] = lines(label, &Stay { depth, ..stay }, &text);
                    assert_eq!(chosen, any);
                }
            }
        }
    }

    #[test]
    fn a_line_says_who_where_and_what_it_cost() {
        let label =
            Label { id: TraceId::new(0x12), numbers_harts: false, buffer: None, time: None, thread: None };
        let name = NameText::new("main  ");
        let line =
            |stay: &Stay| lines(&label, stay, &name).map(|text| text.replace("before\n", ""))[0].clone();
        let deep = Stay { depth: 2, ..stay(7, Some(123)) };
        assert_eq!(line(&deep), "0x12      main  7 instructions; call took 123 instructions\n");
        assert_eq!(line(&stay(1, None)), "0x12  main  1 instruction\n");
        assert_eq!(line(&stay(0, Some(4321))), "0x12  main  call took 4321 instructions\n");
    }

    #[test]
    fn stays_with_times_cycles_or_many_instructions_are_not_short() {
        let short = stay(999, Some(999));
        assert_eq!(short_costs(&short), Some((999, Some(999))));
        assert_eq!(short_costs(&Stay { call: None, ..short }), Some((999, None)));
        let many = Cost { instructions: 1_000, ..Cost::default() };
        let with_cycles = Cost { cycles: Some(1), ..short.own };
        let with_time = Cost { time: Some(1), ..short.own };
        for own in [many, with_cycles, with_time, Cost::default()] {
            assert_eq!(short_costs(&Stay { own, ..short }), None, "{own:?}");
        }
        for call in [many, with_cycles, with_time] {
            assert_eq!(short_costs(&Stay { call: Some(call), ..short }), None, "{call:?}");
        }
        assert_eq!(short_costs(&Stay { begin: Some(1), ..short }), None);
    }
}
