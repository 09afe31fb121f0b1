//! Calls, written as text and as JSON.

use std::io::{self, Write};

use backsight_core::Describe as _;
use backsight_flow::{Event, PathId, Range};

use super::digits::{append, write_decimal};
use super::event_line::{module_members, write_event};
use super::filter::Filter;
use super::json::ObjectWriter;
use super::label::Label;
use super::printable::Printable;
use super::style::{Detail, ExecutionFormat, Style};
use crate::SourceCode;
use crate::calls::{CallTree, Cost, Functions, Node, ShadowStack, Stay, Visit};

/// Deepest indentation.
const DEEPEST: usize = 60;
/// Spaces that are copied at a time: as many as nearly every indentation has.
const SPACES: usize = 64;

/// The calls of one hart, on their way to the listing.
pub(super) struct CallLines<'i> {
    /// Whole paths are taken: everything is wanted, and nobody asks where it was reported.
    pub takes_paths: bool,
    stack: ShadowStack<'i>,
    form: Form,
    /// Lines that are on their way.
    lines: Vec<u8>,
}

/// What becomes of stays in functions.
struct Form {
    is_json: bool,
    /// Instructions that were listed.
    listed: u64,
    /// Where calls are added up, and not listed one by one.
    tree: Option<CallTree>,
    /// Where the last event was reported.
    index: u64,
    names: Names,
}

/// Texts of functions that were listed before, with what comes after them in a line, by their numbers.
#[derive(Default)]
struct Names {
    /// The functions are numbered as they were then.
    generation: u32,
    texts: Vec<NameText>,
}

/// A text. To copy a fixed number of bytes takes a moment, to copy so and so many takes longer: nearly every text is one
/// copy, of one line of the cache.
#[derive(Clone)]
#[repr(align(64))]
struct NameText {
    first: [u8; FIRST],
    /// Bytes of `first` that are of it; [`UNKNOWN`] where no text was asked for.
    length: u32,
    /// What does not fit.
    rest: Option<Box<[u8]>>,
}

const FIRST: usize = 44;
const UNKNOWN: u32 = u32::MAX;

const _: () = assert!(size_of::<NameText>() == 64);

impl NameText {
    const UNKNOWN: Self = Self { first: [b' '; FIRST], length: UNKNOWN, rest: None };

    fn new(text: &str) -> Self {
        let (first, rest) = text.as_bytes().split_at(text.len().min(FIRST));
        let mut name = Self { length: first.len() as u32, ..Self::UNKNOWN };
        name.first[..first.len()].copy_from_slice(first);
        name.rest = (!rest.is_empty()).then(|| rest.into());
        name
    }

    #[inline(always)]
    fn write(&self, lines: &mut Vec<u8>) {
        append(lines, &self.first, self.length as usize);
        if let Some(rest) = &self.rest {
            lines.extend_from_slice(rest);
        }
    }
}

impl Names {
    /// The text of a function.
    #[inline(always)]
    fn of(&mut self, functions: &Functions<'_>, number: u32) -> Option<&NameText> {
        let index = number as usize;
        let is_unknown = |text: &NameText| text.length == UNKNOWN;
        if functions.generation != self.generation || self.texts.get(index).is_none_or(is_unknown) {
            self.learn(functions, number);
        }
        self.texts.get(index)
    }

    #[cold]
    fn learn(&mut self, functions: &Functions<'_>, number: u32) {
        if functions.generation != self.generation {
            *self = Self { generation: functions.generation, texts: Vec::new() };
        }
        let index = number as usize;
        if self.texts.len() <= index {
            self.texts.resize(index + 1, NameText::UNKNOWN);
        }
        let name = functions.name(number).map(|name| Printable(&name.to_string()).to_string());
        self.texts[index] = NameText::new(&format!("{}  ", name.unwrap_or_default()));
    }
}

/// How lines of events are written, and which are wanted.
pub(super) struct Page<'a> {
    pub label: &'a Label,
    pub hart: u16,
    pub object: &'a mut ObjectWriter,
    pub filter: &'a Filter,
}

impl<'i> CallLines<'i> {
    /// `None` if no calls are listed in that style.
    pub fn new(style: Style, code: SourceCode<'i>, filter: &Filter) -> Option<Self> {
        let tree = match style.detail {
            Detail::Ranges | Detail::Instructions => return None,
            Detail::Calls => None,
            Detail::CallTree => Some(CallTree::default()),
        };
        let is_json = style.format == ExecutionFormat::Json;
        let stack = ShadowStack::new(code).naming(style.naming);
        let form = Form { is_json, listed: 0, tree, index: 0, names: Names::default() };
        Some(Self { takes_paths: !is_json && filter.takes_all(), stack, form, lines: Vec::new() })
    }

    /// Instructions that were listed.
    pub const fn listed(&self) -> u64 {
        self.form.listed
    }

    /// The code is not what it was.
    pub fn set_code(&mut self, code: SourceCode<'i>) {
        self.stack.set_code(code);
    }

    /// Takes an event. The stack sees all of them, whatever the filter wants: else it would miss returns.
    pub fn event(
        &mut self,
        page: &mut Page<'_>,
        out: &mut dyn Write,
        is_wanted: bool,
        index: &dyn Fn() -> u64,
        event: &Event,
    ) -> io::Result<()> {
        let is_shown = !matches!(
            event,
            Event::Range(_) | Event::CycleCount(_) | Event::Timestamp { .. } | Event::Context(..)
        );
        if self.form.is_json {
            self.form.index = index();
        }
        self.with_lines(out, |stack, form, lines| {
            let mut sink = |functions: &Functions<'i>, stay: &Stay| form.write(page, lines, functions, stay);
            stack.take_numbered(event, is_shown, &mut sink);
        })?;
        match is_shown && is_wanted && self.form.tree.is_none() {
            true if self.form.is_json => page.json_event(out, event, self.form.index),
            true => write_event(out, page.label, page.hart, event),
            false => Ok(()),
        }
    }

    /// Takes the ranges of a path that was walked before, if it [takes paths](Self::takes_paths).
    #[inline(always)]
    pub fn path(
        &mut self,
        label: &Label,
        hart: u16,
        text: &mut Vec<u8>,
        path: PathId,
        ranges: impl Iterator<Item = Range>,
    ) {
        let Self { stack, form, .. } = self;
        let mut sink = |functions: &Functions<'i>, stay: &Stay| form.text(label, hart, text, functions, stay);
        stack.walk(path, ranges, &mut sink);
    }

    /// The trace ends.
    pub fn end(&mut self, page: &mut Page<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.with_lines(out, |stack, form, lines| {
            stack.end(&mut |functions: &Functions<'i>, stay: &Stay| form.write(page, lines, functions, stay));
        })?;
        match self.form.tree.take() {
            Some(tree) if self.form.is_json => page.json_tree(out, &tree, self.form.index),
            Some(tree) => page.text_tree(out, &tree),
            None => Ok(()),
        }
    }

    /// Collects lines, and writes them.
    fn with_lines(
        &mut self,
        out: &mut dyn Write,
        collect: impl FnOnce(&mut ShadowStack<'i>, &mut Form, &mut Vec<u8>),
    ) -> io::Result<()> {
        let Self { stack, form, lines, .. } = self;
        collect(stack, form, lines);
        let written = if lines.is_empty() { Ok(()) } else { out.write_all(lines) };
        lines.clear();
        written
    }
}

impl Form {
    /// Writes a stay, if it is wanted.
    fn write(&mut self, page: &mut Page<'_>, lines: &mut Vec<u8>, functions: &Functions<'_>, stay: &Stay) {
        let &mut Page { label, hart, ref mut object, filter } = page;
        let is_wanted = || {
            let function = functions.name(stay.function);
            filter.wants_now() && function.is_some_and(|name| filter.wants_address(name.address))
        };
        if !filter.takes_all() && !is_wanted() {
            return;
        }
        if !self.is_json || self.tree.is_some() {
            return self.text(label, hart, lines, functions, stay);
        }
        self.listed += stay.own.instructions;
        let Some(visit) = stay.named(functions) else { return };
        object.text("event", "visit");
        label.members(object, hart, self.index);
        visit_members(object, &visit);
        // Memory takes everything.
        let _ = object.end(lines);
    }

    /// Writes a stay as text, or adds it to the tree.
    #[inline(always)]
    fn text(
        &mut self,
        label: &Label,
        hart: u16,
        lines: &mut Vec<u8>,
        functions: &Functions<'_>,
        stay: &Stay,
    ) {
        self.listed += stay.own.instructions;
        match &mut self.tree {
            None => write_stay(lines, label, hart, stay, self.names.of(functions, stay.function)),
            Some(tree) => stay.named(functions).iter().for_each(|visit| tree.add(visit)),
        }
    }
}

impl Page<'_> {
    fn json_event(&mut self, out: &mut dyn Write, event: &Event, index: u64) -> io::Result<()> {
        self.object.text("event", event.name());
        self.label.members(self.object, self.hart, index);
        self.object.fields(event);
        self.object.end(out)
    }

    fn json_tree(&mut self, out: &mut dyn Write, tree: &CallTree, index: u64) -> io::Result<()> {
        for node in tree.nodes() {
            let object = &mut *self.object;
            object.text("event", "function");
            self.label.members(object, self.hart, index);
            object.text("function", &node.name);
            object.number("depth", node.depth as u64);
            object.number("calls", node.calls);
            cost_members(object, &OWN, &node.own);
            cost_members(object, &TOTAL, &node.total);
            object.end(out)?;
        }
        Ok(())
    }

    fn text_tree(&self, out: &mut dyn Write, tree: &CallTree) -> io::Result<()> {
        let &Self { label, hart, .. } = self;
        let nodes = tree.nodes();
        let has_cycles = nodes.iter().any(|node| node.total.cycles.is_some());
        let cycles = if has_cycles { format!("{:>14}", "cycles") } else { String::new() };
        label.write(out, hart)?;
        writeln!(out, "{:>10}{:>16}{:>16}{cycles}  function", "calls", "instructions", "of its own")?;
        for Node { name, depth, calls, own, total, .. } in &nodes {
            label.write(out, hart)?;
            write!(out, "{calls:>10}{:>16}{:>16}", total.instructions, own.instructions)?;
            if has_cycles {
                write!(out, "{:>14}", total.cycles.unwrap_or(0))?;
            }
            let indentation = 2 * depth.min(&DEEPEST);
            writeln!(out, "  {:indentation$}{}", "", Printable(name))?;
        }
        if tree.folded() > 0 {
            label.write(out, hart)?;
            writeln!(
                out,
                "-- {} stays are in the figures of their callers: too many chains of calls",
                tree.folded()
            )?;
        }
        Ok(())
    }
}

fn visit_members(object: &mut ObjectWriter, visit: &Visit<'_>) {
    object.text("address", &visit.function.address.to_string());
    if let Some(symbol) = visit.function.symbol {
        object.text("function", symbol.name);
        object.number("function_offset", symbol.offset);
    }
    if let Some((module, offset)) = visit.function.module {
        module_members(object, module, offset);
    }
    object.number("depth", visit.depth as u64);
    object.flag("entry", visit.is_entry);
    if let Some(time) = visit.begin {
        object.number("timestamp", time);
    }
    cost_members(object, &OWN, &visit.own);
    if let Some(call) = &visit.call {
        cost_members(object, &CALL, call);
    }
}

/// Names of the members of a cost.
type CostNames = [&'static str; 3];

const OWN: CostNames = ["own.instructions", "own.cycles", "own.time"];
const TOTAL: CostNames = ["total.instructions", "total.cycles", "total.time"];
const CALL: CostNames = ["call.instructions", "call.cycles", "call.time"];

fn cost_members(object: &mut ObjectWriter, names: &CostNames, cost: &Cost) {
    let [instructions, cycles, time] = *names;
    object.number(instructions, cost.instructions);
    if let Some(count) = cost.cycles {
        object.number(cycles, count);
    }
    if let Some(duration) = cost.time {
        object.number(time, duration);
    }
}

/// Name, what the stay cost, and where it is the last of a call what that cost.
#[inline(always)]
fn write_stay(lines: &mut Vec<u8>, label: &Label, hart: u16, stay: &Stay, name: Option<&NameText>) {
    // Memory takes everything.
    let _ = label.write(lines, hart);
    indent(lines, 2 * stay.depth.min(DEEPEST));
    match name {
        Some(name) => name.write(lines),
        None => lines.extend_from_slice(b"  "),
    }
    match is_short(stay) {
        true => write_short_costs(lines, stay.own.instructions, stay.call.map(|call| call.instructions)),
        false => write_costs(lines, *stay),
    }
}

/// What a stay cost. It is taken as a copy: else all others would have to be in memory, too.
#[cold]
#[inline(never)]
fn write_costs(lines: &mut Vec<u8>, stay: Stay) {
    // What came before the last line, such as an exception, was the end of it.
    let has_own = stay.own.instructions > 0;
    if has_own {
        write_cost(lines, &stay.own);
        stay.begin.map_or(Ok(()), |time| write!(lines, ", at {time:#x}")).unwrap_or_default();
    }
    if let Some(call) = &stay.call {
        match has_own {
            true => lines.extend_from_slice(b"; call took "),
            false => lines.extend_from_slice(b"call took "),
        }
        write_cost(lines, call);
    }
    lines.push(b'\n');
}

/// Are there only instructions to be written, of its own and of the call if that ended, and few of them?
#[inline(always)]
fn is_short(stay: &Stay) -> bool {
    let is_short =
        |cost: &Cost| cost.cycles.is_none() && cost.time.is_none() && cost.instructions < SHORT as u64;
    let has_own = stay.own.instructions > 0 && stay.begin.is_none();
    has_own && is_short(&stay.own) && stay.call.as_ref().is_none_or(is_short)
}

/// What a stay cost, of which [`is_short`] is true. How long the numbers are, and whether the call ended, is as good as random
/// from line to line: whatever comes, it is two copies of the same size.
#[inline(always)]
fn write_short_costs(lines: &mut Vec<u8>, own: u64, call: Option<u64>) {
    const END_OF_LINE: CostText = CostText { text: [b'\n'; 47], length: 1 };
    let own = &COSTS[own as usize % SHORT];
    let own_text = own.text[CALL_TOOK.len()..].first_chunk::<COST>();
    append(lines, own_text.unwrap_or(&[b' '; COST]), usize::from(own.length) - CALL_TOOK.len() - 1);
    let call = call.map_or(&END_OF_LINE, |call| &COSTS[call as usize % SHORT]);
    append(lines, call.text.first_chunk::<COST>().unwrap_or(&[b' '; COST]), call.length.into());
}

/// Costs with fewer instructions are short.
const SHORT: usize = 1000;
/// Bytes that the text of one fits into.
const COST: usize = 32;

const CALL_TOOK: &[u8] = b"; call took ";

/// What a call took, with the end of the line.
#[derive(Clone, Copy)]
struct CostText {
    text: [u8; 47],
    length: u8,
}

/// The text of each number of instructions.
static COSTS: [CostText; SHORT] = {
    let mut costs = [CostText { text: [b' '; 47], length: 0 }; SHORT];
    let mut number = 0;
    while number < SHORT {
        let mut text = CostText { text: [b' '; 47], length: 0 }.with(CALL_TOOK);
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

#[inline(always)]
fn indent(lines: &mut Vec<u8>, width: usize) {
    let end = lines.len() + width;
    (0..width.div_ceil(SPACES)).for_each(|_| lines.extend_from_slice(&[b' '; SPACES]));
    lines.truncate(end);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_costs_are_written_as_all_others_are() {
        let cost = |instructions| Cost { instructions, ..Cost::default() };
        for own in [1, 2, 9, 10, 99, 100, 101, 999] {
            for call in [None, Some(0), Some(1), Some(10), Some(123), Some(999)] {
                let (mut short, mut general) = (Vec::new(), Vec::new());
                write_short_costs(&mut short, own, call);
                write_cost(&mut general, &cost(own));
                if let Some(call) = call {
                    general.extend_from_slice(b"; call took ");
                    write_cost(&mut general, &cost(call));
                }
                general.push(b'\n');
                assert_eq!(String::from_utf8(short), String::from_utf8(general));
            }
        }
    }

    #[test]
    fn stays_with_times_cycles_or_many_instructions_are_not_short() {
        let short = Stay {
            function: 0,
            depth: 0,
            is_entry: true,
            begin: None,
            own: Cost { instructions: 999, ..Cost::default() },
            call: Some(Cost { instructions: 999, ..Cost::default() }),
        };
        assert!(is_short(&short) && is_short(&Stay { call: None, ..short }));
        let many = Cost { instructions: 1_000, ..Cost::default() };
        let with_cycles = Cost { cycles: Some(1), ..short.own };
        let with_time = Cost { time: Some(1), ..short.own };
        for own in [many, with_cycles, with_time, Cost::default()] {
            assert!(!is_short(&Stay { own, ..short }), "{own:?}");
        }
        for call in [many, with_cycles, with_time] {
            assert!(!is_short(&Stay { call: Some(call), ..short }), "{call:?}");
        }
        assert!(!is_short(&Stay { begin: Some(1), ..short }));
    }
}
