//! Calls, written as text and as JSON.

use std::io::{self, Write};
use std::sync::Arc;

use backsight_core::{Describe as _, Printable};
use backsight_flow::{Event, PathId, Range};

use super::event_line::{module_members, write_event};
use super::filter::Filter;
use super::json::ObjectWriter;
use super::label::Label;
use super::stay_line::{NameTexts, indentation, write_stay};
use super::style::{Detail, ExecutionFormat, Style};
use crate::SourceCode;
use crate::calls::{
    CallTree, CallsBoundary, Cost, CountedRange, FunctionName, Functions, Joined, Joining, KnownCalls, Node,
    Recorder, Records, ShadowStack, Stay, Stays, Visit,
};

/// The calls of one hart, on their way to the listing.
pub(super) struct CallLines<'i> {
    /// Whole paths are taken: everything is wanted, and nobody asks where it was reported.
    takes_paths: bool,
    /// A window begins: instructions before it.
    begins: Option<u64>,
    stack: ShadowStack<'i>,
    form: Form,
    /// Lines that are on their way.
    lines: Vec<u8>,
    /// Of a part of a source that is joined with others.
    part: Option<Box<Part>>,
    /// The part that is joined.
    joining: Joining,
}

/// What is known of the part that is listed.
#[derive(Default)]
struct Part {
    recorder: Recorder,
    /// Something of the hart was in it.
    has_begun: bool,
    /// The hart is known: something of it was in this part or in one that it goes on from.
    is_known: bool,
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
    names: NameTexts,
}

/// How lines of events are written, and which are wanted.
pub(super) struct Page<'a> {
    pub label: &'a Label,
    pub hart: u16,
    pub object: &'a mut ObjectWriter,
    pub filter: &'a Filter<'a>,
}

impl<'i> CallLines<'i> {
    /// `None` if no calls are listed in that style.
    pub fn new(style: Style, code: SourceCode<'i>, filter: &Filter<'_>) -> Option<Self> {
        let tree = match style.detail {
            Detail::Ranges | Detail::Instructions => return None,
            Detail::Calls => None,
            Detail::CallTree => Some(CallTree::default()),
        };
        let is_json = style.format == ExecutionFormat::Json;
        let stack = ShadowStack::new(code).naming(style.naming).marking(Arc::clone(filter.functions()));
        let form = Form { is_json, listed: 0, tree, index: 0, names: NameTexts::default() };
        let takes_paths = !is_json && filter.takes_all();
        let (lines, part, joining) = Default::default();
        Some(Self { takes_paths, begins: None, stack, form, lines, part, joining })
    }

    /// A part of the source begins, where another one has ended or anywhere. What is written from now on are records for
    /// [`CallLines::join`].
    pub fn begin_part(&mut self, boundary: Option<&CallsBoundary>) {
        let part = self.part.get_or_insert_default();
        (part.has_begun, part.is_known) = (false, boundary.is_some());
        part.recorder.begin_part();
        self.stack.begin_part(&boundary.copied().unwrap_or_default());
    }

    /// The part ends, and the next one begins. Nothing where the hart is not known.
    pub fn end_part(&mut self, hart: u16, text: &mut Vec<u8>) -> Option<CallsBoundary> {
        let part = self.part.as_mut().filter(|part| part.is_known)?;
        if part.has_begun {
            part.recorder.hart(hart, false);
        }
        let boundary = self.stack.end_part(&mut part.recorder);
        if part.has_begun {
            text.append(&mut part.recorder.bytes);
        }
        part.has_begun = false;
        part.recorder.bytes.clear();
        part.recorder.begin_part();
        Some(boundary)
    }

    /// What follows in the part is of this hart.
    pub fn turn_to(&mut self, hart: u16, text: &mut Vec<u8>) {
        if let Some(part) = &mut self.part {
            let is_first = !std::mem::replace(&mut part.has_begun, true);
            part.is_known = true;
            part.recorder.hart(hart, is_first);
            text.append(&mut part.recorder.bytes);
        }
    }

    /// The next part begins.
    pub fn begin_joining(&mut self) {
        self.stack.begin_joining(&mut self.joining);
    }

    /// Writes what a part has recorded of this hart.
    pub fn join(&mut self, page: &mut Page<'_>, text: &mut Vec<u8>, records: &mut Records<'_>) {
        let Self { stack, form, joining, .. } = self;
        match form.is_json {
            false => {
                let Page { label, hart, .. } = *page;
                stack.join(joining, records, &mut TextLines { form, label, hart, text });
            }
            true => stack.join(joining, records, &mut PageLines { form, page, text }),
        }
    }

    /// Are whole paths taken?
    #[inline(always)]
    pub const fn takes_paths(&self) -> bool {
        self.takes_paths && self.begins.is_none()
    }

    /// Goes on with the calls that are under way somewhere.
    pub fn resume(&mut self, hart: u16, known: &KnownCalls<'_>) {
        known.resume(hart, &mut self.stack);
    }

    /// A window begins. Of stays and calls, what is in it is listed.
    pub fn begin_window(&mut self) {
        self.stack.flush(&mut |_| {});
        self.form.tree = self.form.tree.take().map(|_| CallTree::default());
        self.form.listed = 0;
        self.begins = Some(self.stack.instructions());
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
        out: &mut Vec<u8>,
        is_wanted: bool,
        index: &dyn Fn() -> u64,
        event: &Event,
    ) -> io::Result<()> {
        let is_shown = !matches!(
            event,
            Event::Range(_)
                | Event::CycleCount(_)
                | Event::Timestamp { .. }
                | Event::Context(..)
                | Event::Access(_)
        );
        if self.form.is_json {
            self.form.index = index();
        }
        if let Some(part) = &mut self.part {
            let recorder = &mut part.recorder;
            recorder.index = self.form.is_json.then_some(self.form.index);
            std::mem::swap(out, &mut recorder.bytes);
            self.stack.take_numbered(event, is_shown, recorder);
            if is_shown && self.form.tree.is_none() {
                let index = self.form.index;
                recorder.lines(|lines| page.event(lines, self.form.is_json, event, index));
            }
            std::mem::swap(out, &mut recorder.bytes);
            return Ok(());
        }
        self.with_lines(out, |stack, form, lines| {
            let mut sink = |functions: &Functions<'i>, stay: &Stay| form.write(page, lines, functions, stay);
            stack.take_numbered(event, is_shown, &mut sink);
        })?;
        if let (Some(instructions), Event::Range(_)) = (self.begins, event) {
            self.begins = None;
            // With the first instruction of a window, it is known which calls are under way around it.
            self.list_under_way(page, out, instructions)?;
        }
        if is_shown && is_wanted && self.form.tree.is_none() {
            page.event(out, self.form.is_json, event, self.form.index);
        }
        Ok(())
    }

    /// Lists the calls under way that began before a window.
    fn list_under_way(&mut self, page: &mut Page<'_>, out: &mut dyn Write, before: u64) -> io::Result<()> {
        let outermost = self.stack.forgotten();
        let mut is_inside = false;
        for (call, depth) in self.stack.under_way_before(before).zip(outermost..) {
            let function = call.function;
            is_inside |= page.filter.names(function.address);
            if let Some(tree) = &mut self.form.tree {
                let (own, begin, call) = (Cost::default(), None, None);
                tree.add(&Visit { function, depth, is_entry: false, begin, own, call });
            } else if !page.filter.wants_now() || !(is_inside || page.filter.wants_address(function.address))
            {
            } else if self.form.is_json {
                page.object.text("event", "under_way");
                page.label.members(page.object, page.hart, self.form.index);
                function_members(page.object, &function, depth);
                if let Some(address) = call.return_address {
                    page.object.text("return_address", &address.to_string());
                }
                page.object.end(out)?;
            } else {
                page.label.write(out, page.hart)?;
                let (width, name) = (indentation(depth), function.to_string());
                writeln!(out, "{:width$}{}  under way", "", Printable(&name))?;
            }
        }
        Ok(())
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
        if self.part.is_some() {
            return self.record_path(text, path, &mut { ranges });
        }
        let Self { stack, form, .. } = self;
        stack.walk(path, ranges, &mut TextLines { form, label, hart, text });
    }

    #[inline(never)]
    fn record_path(&mut self, text: &mut Vec<u8>, path: PathId, ranges: &mut dyn Iterator<Item = Range>) {
        self.record(text, |stack, recorder| stack.walk(path, ranges, recorder));
    }

    /// Records what happens in a part.
    #[inline(always)]
    fn record(&mut self, text: &mut Vec<u8>, what: impl FnOnce(&mut ShadowStack<'i>, &mut Recorder)) {
        let Some(part) = &mut self.part else { return };
        let recorder = &mut part.recorder;
        std::mem::swap(text, &mut recorder.bytes);
        what(&mut self.stack, recorder);
        std::mem::swap(text, &mut recorder.bytes);
    }

    /// The same where cycles were counted between the ranges.
    #[inline(always)]
    pub fn counted_path(
        &mut self,
        label: &Label,
        hart: u16,
        text: &mut Vec<u8>,
        path: PathId,
        counts: impl Iterator<Item = Option<u32>>,
        ranges: impl Iterator<Item = CountedRange>,
    ) {
        if self.part.is_some() {
            return self.record_counted_path(text, path, counts, ranges);
        }
        let Self { stack, form, .. } = self;
        stack.walk_counted(path, counts, ranges, &mut TextLines { form, label, hart, text });
    }

    #[inline(never)]
    fn record_counted_path(
        &mut self,
        text: &mut Vec<u8>,
        path: PathId,
        counts: impl Iterator<Item = Option<u32>>,
        ranges: impl Iterator<Item = CountedRange>,
    ) {
        self.record(text, |stack, recorder| stack.walk_counted(path, counts, ranges, recorder));
    }

    /// Takes an event that is not shown, if it [takes paths](Self::takes_paths).
    pub fn take(&mut self, label: &Label, hart: u16, text: &mut Vec<u8>, event: &Event) {
        if self.part.is_some() {
            return self.record(text, |stack, recorder| stack.take_numbered(event, false, recorder));
        }
        let Self { stack, form, .. } = self;
        stack.take_numbered(event, false, &mut TextLines { form, label, hart, text });
    }

    /// What comes next of these calls may be elsewhere. `is_lost`: the last thing that happened was that something is missing.
    pub fn pause(&mut self, page: &mut Page<'_>, out: &mut Vec<u8>, is_lost: bool) {
        let Self { stack, form, .. } = self;
        let mut sink = |functions: &Functions<'i>, stay: &Stay| form.write(page, out, functions, stay);
        stack.pause(is_lost, &mut sink);
    }

    /// Has nothing been executed in them?
    pub const fn is_empty(&self) -> bool {
        self.stack.instructions() == 0
    }

    /// They go on, where this was the last timestamp.
    pub fn go_on(&mut self, time: Option<u64>) {
        self.stack.go_on(time);
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

/// Writes every stay, as text. It is no closure, which nobody could ask to be compiled into where it is called from.
struct TextLines<'a> {
    form: &'a mut Form,
    label: &'a Label,
    hart: u16,
    text: &'a mut Vec<u8>,
}

impl<'i> Stays<'i> for TextLines<'_> {
    #[inline(always)]
    fn take(&mut self, functions: &Functions<'i>, stay: &Stay) {
        self.form.text(self.label, self.hart, self.text, functions, stay);
    }
}

impl Joined<'_> for TextLines<'_> {
    fn lines(&mut self, lines: &[u8]) {
        self.text.extend_from_slice(lines);
    }

    fn index(&mut self, _index: u64) {}
}

/// Writes every stay, as JSON.
struct PageLines<'a, 'p> {
    form: &'a mut Form,
    page: &'a mut Page<'p>,
    text: &'a mut Vec<u8>,
}

impl<'i> Stays<'i> for PageLines<'_, '_> {
    fn take(&mut self, functions: &Functions<'i>, stay: &Stay) {
        self.form.write(self.page, self.text, functions, stay);
    }
}

impl Joined<'_> for PageLines<'_, '_> {
    fn lines(&mut self, lines: &[u8]) {
        self.text.extend_from_slice(lines);
    }

    fn index(&mut self, index: u64) {
        self.form.index = index;
    }
}

impl Form {
    /// Writes a stay, if it is wanted.
    fn write(&mut self, page: &mut Page<'_>, lines: &mut Vec<u8>, functions: &Functions<'_>, stay: &Stay) {
        let &mut Page { label, hart, ref mut object, filter } = page;
        let is_wanted = || {
            let function = functions.name(stay.name);
            filter.wants_now()
                && (stay.is_inside || function.is_some_and(|name| filter.wants_address(name.address)))
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
            None => write_stay(lines, label, hart, stay, self.names.of(functions, stay.name)),
            Some(tree) => stay.named(functions).iter().for_each(|visit| tree.add(visit)),
        }
    }
}

impl Page<'_> {
    fn event(&mut self, out: &mut Vec<u8>, is_json: bool, event: &Event, index: u64) {
        // Memory takes everything.
        let _ = match is_json {
            false => write_event(out, self.label, self.hart, event),
            true => {
                self.object.text("event", event.name());
                self.label.members(self.object, self.hart, index);
                self.object.fields(event);
                self.object.end(out)
            }
        };
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
            let width = indentation(*depth);
            writeln!(out, "  {:width$}{}", "", Printable(name))?;
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

fn function_members(object: &mut ObjectWriter, function: &FunctionName<'_>, depth: usize) {
    object.text("address", &function.address.to_string());
    if let Some(symbol) = function.symbol {
        object.text("function", symbol.name);
        object.number("function_offset", symbol.offset);
    }
    if let Some((module, offset)) = function.module {
        module_members(object, module, offset);
    }
    object.number("depth", depth as u64);
}

fn visit_members(object: &mut ObjectWriter, visit: &Visit<'_>) {
    function_members(object, &visit.function, visit.depth);
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
