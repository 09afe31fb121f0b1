//! Calls, written as text and as JSON.

use std::io::{self, Write};

use backsight_core::Describe as _;
use backsight_flow::{Event, PathId, Range};

use super::digits::{append, short_decimal, write_decimal};
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

/// The calls of one hart, on their way to the listing.
pub(super) struct CallLines<'i> {
    is_json: bool,
    stack: ShadowStack<'i>,
    /// Where calls are added up, and not listed one by one.
    tree: Option<CallTree>,
    /// Where the last event was reported.
    index: u64,
    names: Names,
    /// Lines that are on their way.
    lines: Vec<u8>,
}

/// Texts of functions that were listed before, by their numbers.
#[derive(Default)]
struct Names {
    /// The functions are numbered as they were then.
    generation: u32,
    texts: Vec<Option<NameText>>,
}

/// A text in blocks, the last of which it need not fill: to copy a block takes a moment, to copy so and so many bytes takes
/// longer.
#[derive(Clone)]
struct NameText {
    blocks: Box<[[u8; BLOCK]]>,
    length: usize,
}

const BLOCK: usize = 32;

impl NameText {
    fn new(text: &str) -> Self {
        let blocks = text.as_bytes().chunks(BLOCK).map(|part| {
            let mut block = [0; BLOCK];
            block[..part.len()].copy_from_slice(part);
            block
        });
        Self { blocks: blocks.collect(), length: text.len() }
    }

    #[inline]
    fn write(&self, lines: &mut Vec<u8>) {
        let end = lines.len() + self.length;
        self.blocks.iter().for_each(|block| lines.extend_from_slice(block));
        lines.truncate(end);
    }
}

impl Names {
    /// The text of a function.
    #[inline]
    fn of(&mut self, functions: &Functions<'_>, number: u32) -> Option<&NameText> {
        let index = number as usize;
        if functions.generation != self.generation || self.texts.get(index).is_none_or(Option::is_none) {
            self.learn(functions, number);
        }
        self.texts.get(index)?.as_ref()
    }

    #[cold]
    fn learn(&mut self, functions: &Functions<'_>, number: u32) {
        if functions.generation != self.generation {
            *self = Self { generation: functions.generation, texts: Vec::new() };
        }
        let index = number as usize;
        if self.texts.len() <= index {
            self.texts.resize(index + 1, None);
        }
        let text = functions.name(number).map(|name| Printable(&name.to_string()).to_string());
        self.texts[index] = text.as_deref().map(NameText::new);
    }
}

/// Where the lines of a hart go, and what is wanted of them.
pub(super) struct Page<'a> {
    pub label: &'a Label,
    pub hart: u16,
    pub object: &'a mut ObjectWriter,
    /// Instructions that were listed.
    pub listed: &'a mut u64,
    pub filter: &'a Filter,
}

impl<'i> CallLines<'i> {
    /// `None` if no calls are listed in that style.
    pub fn new(style: Style, code: SourceCode<'i>) -> Option<Self> {
        let tree = match style.detail {
            Detail::Ranges | Detail::Instructions => return None,
            Detail::Calls => None,
            Detail::CallTree => Some(CallTree::default()),
        };
        let is_json = style.format == ExecutionFormat::Json;
        let stack = ShadowStack::new(code).naming(style.naming);
        let (names, lines) = Default::default();
        Some(Self { is_json, stack, tree, index: 0, names, lines })
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
        if self.is_json {
            self.index = index();
        }
        self.with_stack_to(page, out, |stack, sink| stack.take_numbered(event, is_shown, sink))?;
        match is_shown && is_wanted && self.tree.is_none() {
            true if self.is_json => page.json_event(out, event, self.index),
            true => write_event(out, page.label, page.hart, event),
            false => Ok(()),
        }
    }

    /// Takes the ranges of a path that was walked before. Not for JSON, which says where each event was reported.
    #[inline]
    pub fn path(
        &mut self,
        page: &mut Page<'_>,
        text: &mut Vec<u8>,
        path: PathId,
        ranges: &mut dyn Iterator<Item = Range>,
    ) {
        self.with_stack(page, text, |stack, sink| stack.walk(path, ranges, sink));
    }

    /// The trace ends.
    pub fn end(&mut self, page: &mut Page<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.with_stack_to(page, out, |stack, sink| stack.end(sink))?;
        match self.tree.take() {
            Some(tree) if self.is_json => page.json_tree(out, &tree, self.index),
            Some(tree) => page.text_tree(out, &tree),
            None => Ok(()),
        }
    }

    fn with_stack_to(
        &mut self,
        page: &mut Page<'_>,
        out: &mut dyn Write,
        go_on: impl FnOnce(&mut ShadowStack<'i>, &mut dyn FnMut(&Functions<'i>, &Stay)),
    ) -> io::Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        self.with_stack(page, &mut lines, go_on);
        let written = if lines.is_empty() { Ok(()) } else { out.write_all(&lines) };
        lines.clear();
        self.lines = lines;
        written
    }

    /// Lets the stack go on, and writes the stays that it gives.
    #[inline]
    fn with_stack(
        &mut self,
        page: &mut Page<'_>,
        lines: &mut Vec<u8>,
        go_on: impl FnOnce(&mut ShadowStack<'i>, &mut dyn FnMut(&Functions<'i>, &Stay)),
    ) {
        let Self { is_json, stack, tree, index, names, .. } = self;
        let Page { label, hart, object, listed, filter } = page;
        let (is_text, takes_all) = (!*is_json && tree.is_none(), filter.takes_all());
        go_on(stack, &mut |functions, stay| {
            let is_wanted = || {
                let function = functions.name(stay.function);
                filter.wants_now() && function.is_some_and(|name| filter.wants_address(name.address))
            };
            if !takes_all && !is_wanted() {
                return;
            }
            **listed += stay.own.instructions;
            if is_text {
                return write_stay(lines, label, *hart, stay, names.of(functions, stay.function));
            }
            let Some(visit) = stay.named(functions) else { return };
            match tree {
                Some(tree) => tree.add(&visit),
                None => {
                    object.text("event", "visit");
                    label.members(object, *hart, *index);
                    visit_members(object, &visit);
                    // Memory takes everything.
                    let _ = object.end(lines);
                }
            }
        });
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
#[inline]
fn write_stay(lines: &mut Vec<u8>, label: &Label, hart: u16, stay: &Stay, name: Option<&NameText>) {
    // Memory takes everything.
    let _ = label.write(lines, hart);
    indent(lines, 2 * stay.depth.min(DEEPEST));
    name.into_iter().for_each(|name| name.write(lines));
    lines.extend_from_slice(b"  ");
    if is_short(stay) {
        return write_short_costs(lines, stay.own.instructions, stay.call.map(|call| call.instructions));
    }
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
#[inline]
fn is_short(stay: &Stay) -> bool {
    let is_short = |cost: &Cost| cost.cycles.is_none() && cost.time.is_none() && cost.instructions < 10_000;
    let has_own = stay.own.instructions > 0 && stay.begin.is_none();
    has_own && is_short(&stay.own) && stay.call.as_ref().is_none_or(is_short)
}

/// What a stay cost, of which [`is_short`] is true. How long the numbers are, and whether the call ended, is as good as random
/// from line to line: all of it is written, and what is too much taken back.
#[inline]
fn write_short_costs(lines: &mut Vec<u8>, own: u64, call: Option<u64>) {
    write_short_cost(lines, own);
    let end = lines.len();
    append(lines, b"; call took     ", 12);
    write_short_cost(lines, call.unwrap_or(0));
    lines.truncate(if call.is_some() { lines.len() } else { end });
    lines.push(b'\n');
}

#[inline(always)]
fn write_short_cost(lines: &mut Vec<u8>, instructions: u64) {
    let (digits, length) = short_decimal(instructions);
    append(lines, &digits, length);
    append(lines, b" instructions   ", 13 - usize::from(instructions == 1));
}

#[inline]
fn indent(lines: &mut Vec<u8>, width: usize) {
    let end = lines.len() + width;
    (0..width.div_ceil(BLOCK)).for_each(|_| lines.extend_from_slice(&[b' '; BLOCK]));
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
        for own in [1, 2, 9, 10, 9_999] {
            for call in [None, Some(0), Some(1), Some(10), Some(123), Some(9_999)] {
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
            own: Cost { instructions: 9_999, ..Cost::default() },
            call: Some(Cost { instructions: 9_999, ..Cost::default() }),
        };
        assert!(is_short(&short) && is_short(&Stay { call: None, ..short }));
        let many = Cost { instructions: 10_000, ..Cost::default() };
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
