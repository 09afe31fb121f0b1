//! Calls, written as text and as JSON.

use std::io::{self, Write};

use backsight_core::Describe as _;
use backsight_flow::{Event, PathId, Range};

use super::digits::Decimal;
use super::execution::{Detail, ExecutionFormat, Label, Style, module_members, write_event};
use super::filter::Filter;
use super::json::ObjectWriter;
use super::printable::Printable;
use crate::SourceCode;
use crate::calls::{CallTree, Cost, FunctionName, Node, ShadowStack, Visit};
use crate::recent::Recent;

/// Deepest indentation.
const DEEPEST: usize = 60;

/// The calls of one hart, on their way to the listing.
pub(super) struct CallLines<'i> {
    is_json: bool,
    stack: ShadowStack<'i>,
    /// Where calls are added up, and not listed one by one.
    tree: Option<CallTree>,
    visits: Vec<Visit<'i>>,
    /// Where the last event was reported.
    index: u64,
    /// Texts of functions that were listed before.
    names: Recent<(FunctionName<'i>, Box<str>)>,
    line: Vec<u8>,
}

/// Where the lines of a hart go, and what is wanted of them.
pub(super) struct Page<'a> {
    pub out: &'a mut dyn Write,
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
        let (visits, names, line) = Default::default();
        Some(Self { is_json, stack, tree, visits, index: 0, names, line })
    }

    /// The code is not what it was.
    pub fn set_code(&mut self, code: SourceCode<'i>) {
        self.stack.set_code(code);
    }

    /// Takes an event. The stack sees all of them, whatever the filter wants: else it would miss returns.
    pub fn event(
        &mut self,
        page: &mut Page<'_>,
        is_wanted: bool,
        index: &dyn Fn() -> u64,
        event: &Event,
    ) -> io::Result<()> {
        let is_shown = !matches!(
            event,
            Event::Range(_) | Event::CycleCount(_) | Event::Timestamp { .. } | Event::Context(..)
        );
        let visits = &mut self.visits;
        self.stack.push(event, &mut |visit| visits.push(visit));
        if is_shown {
            self.stack.flush(&mut |visit| visits.push(visit));
        }
        if self.is_json {
            self.index = index();
        }
        self.write_visits(page)?;
        match is_shown && is_wanted && self.tree.is_none() {
            true if self.is_json => page.json_event(event, self.index),
            true => write_event(page.out, page.label, page.hart, event),
            false => Ok(()),
        }
    }

    /// Takes the ranges of a path that was walked before. Not for JSON, which says where each event was reported.
    pub fn path(
        &mut self,
        page: &mut Page<'_>,
        path: PathId,
        ranges: impl Iterator<Item = Range>,
    ) -> io::Result<()> {
        let visits = &mut self.visits;
        self.stack.walk(path, ranges, &mut |visit| visits.push(visit));
        if self.visits.is_empty() { Ok(()) } else { self.write_visits(page) }
    }

    /// The trace ends.
    pub fn end(&mut self, page: &mut Page<'_>) -> io::Result<()> {
        let visits = &mut self.visits;
        self.stack.finish(&mut |visit| visits.push(visit));
        self.write_visits(page)?;
        match self.tree.take() {
            Some(tree) if self.is_json => page.json_tree(&tree, self.index),
            Some(tree) => page.text_tree(&tree),
            None => Ok(()),
        }
    }

    fn write_visits(&mut self, page: &mut Page<'_>) -> io::Result<()> {
        for visit in self.visits.drain(..) {
            if !page.filter.wants_now() || !page.filter.wants_address(visit.function.address) {
                continue;
            }
            *page.listed += visit.own.instructions;
            match &mut self.tree {
                Some(tree) => tree.add(&visit),
                None if self.is_json => page.json_visit(&visit, self.index)?,
                None => {
                    let function = &visit.function;
                    let text = || Printable(&function.to_string()).to_string().into_boxed_str();
                    let (_, name) = self.names.get(
                        function.address,
                        |(known, _)| known.is_named_as(function),
                        || (*function, text()),
                    );
                    page.text_visit(&visit, name, &mut self.line)?;
                }
            }
        }
        Ok(())
    }
}

impl Page<'_> {
    fn json_event(&mut self, event: &Event, index: u64) -> io::Result<()> {
        self.object.text("event", event.name());
        self.label.members(self.object, self.hart, index);
        self.object.fields(event);
        self.object.end(self.out)
    }

    fn json_tree(&mut self, tree: &CallTree, index: u64) -> io::Result<()> {
        for node in tree.nodes() {
            let object = &mut *self.object;
            object.text("event", "function");
            self.label.members(object, self.hart, index);
            object.text("function", &node.name);
            object.number("depth", node.depth as u64);
            object.number("calls", node.calls);
            cost_members(object, &OWN, &node.own);
            cost_members(object, &TOTAL, &node.total);
            object.end(self.out)?;
        }
        Ok(())
    }

    fn json_visit(&mut self, visit: &Visit<'_>, index: u64) -> io::Result<()> {
        let object = &mut *self.object;
        object.text("event", "visit");
        self.label.members(object, self.hart, index);
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
        object.end(self.out)
    }

    /// Name, what the stay cost, and where it is the last of a call what that cost.
    fn text_visit(&mut self, visit: &Visit<'_>, name: &str, line: &mut Vec<u8>) -> io::Result<()> {
        line.clear();
        self.label.write(line, self.hart)?;
        line.resize(line.len() + 2 * visit.depth.min(DEEPEST), b' ');
        line.extend_from_slice(name.as_bytes());
        line.extend_from_slice(b"  ");
        // What came before the last line, such as an exception, was the end of it.
        let has_own = visit.own.instructions > 0;
        if has_own {
            write_cost(line, &visit.own);
            visit.begin.map_or(Ok(()), |time| write!(line, ", at {time:#x}"))?;
        }
        if let Some(call) = &visit.call {
            line.extend_from_slice(if has_own { b"; call took " } else { b"call took " });
            write_cost(line, call);
        }
        line.push(b'\n');
        self.out.write_all(line)
    }

    fn text_tree(&mut self, tree: &CallTree) -> io::Result<()> {
        let Self { out, label, hart, .. } = self;
        let nodes = tree.nodes();
        let has_cycles = nodes.iter().any(|node| node.total.cycles.is_some());
        let cycles = if has_cycles { format!("{:>14}", "cycles") } else { String::new() };
        label.write(*out, *hart)?;
        writeln!(out, "{:>10}{:>16}{:>16}{cycles}  function", "calls", "instructions", "of its own")?;
        for Node { name, depth, calls, own, total, .. } in &nodes {
            label.write(*out, *hart)?;
            write!(out, "{calls:>10}{:>16}{:>16}", total.instructions, own.instructions)?;
            if has_cycles {
                write!(out, "{:>14}", total.cycles.unwrap_or(0))?;
            }
            let indentation = 2 * depth.min(&DEEPEST);
            writeln!(out, "  {:indentation$}{}", "", Printable(name))?;
        }
        if tree.folded() > 0 {
            label.write(*out, *hart)?;
            writeln!(
                out,
                "-- {} stays are in the figures of their callers: too many chains of calls",
                tree.folded()
            )?;
        }
        Ok(())
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

fn write_cost(line: &mut Vec<u8>, cost: &Cost) {
    let mut part = |before: &str, count: u64, after: &str| {
        line.extend_from_slice(before.as_bytes());
        line.extend_from_slice(Decimal::default().of(count).as_bytes());
        line.extend_from_slice(after.as_bytes());
    };
    part("", cost.instructions, if cost.instructions == 1 { " instruction" } else { " instructions" });
    if let Some(cycles) = cost.cycles {
        part(", ", cycles, if cycles == 1 { " cycle" } else { " cycles" });
    }
    if let Some(time) = cost.time.filter(|&time| time > 0) {
        part(", time ", time, "");
    }
}
