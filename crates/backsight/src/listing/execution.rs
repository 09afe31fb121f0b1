//! What was executed, written in each of the formats.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use backsight_core::{Address, AddressSpace, Context, Describe, TraceId};
use backsight_flow::{Event, PathId, Range, SourceTime, opencsd};
use backsight_image::{Code as _, Naming, Symbol, Window};

use super::call_lines::{CallLines, Page};
use super::digits::hexadecimal;
use super::filter::Filter;
use super::instruction_text::InstructionText;
use super::instructions::{Step, steps};
use super::json::ObjectWriter;
use super::printable::{Printable, is_harmful};
use super::range_text::{RangeText, RangeTexts};
use crate::decode::{Executor, TimeBounds};
use crate::{Item, Source, SourceCode, decode};

/// How execution is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutionFormat {
    /// One line a range, to read.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// The listing that users of OpenCSD know.
    Opencsd,
    /// One address a line: every instruction.
    Pcs,
}

/// How much of it is listed, as text or as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// One line a range.
    #[default]
    Ranges,
    /// And every instruction below its range.
    Instructions,
    /// One line for each stay in a function, by how deep the calls are.
    Calls,
    /// At the end, what each function cost, by who called it.
    CallTree,
}

/// How to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// The format.
    pub format: ExecutionFormat,
    /// How much.
    pub detail: Detail,
    /// The trace unit counted cycles: timestamps of the familiar listing then show a count.
    pub cycle_counts: bool,
    /// Name the buffer in each JSON object: there are several.
    pub name_buffers: bool,
    /// How functions are named.
    pub naming: Naming,
    /// The line of source of every instruction, where instructions are listed.
    pub source_lines: bool,
}

impl Style {
    /// The name of a function.
    pub(super) fn name_of<'s>(&self, symbol: &Symbol<'s>) -> &'s str {
        match self.naming {
            Naming::Demangled => symbol.name,
            Naming::Mangled => symbol.mangled,
        }
    }
}

/// What listings of several sources have come to, whatever threads they are written on.
#[derive(Debug, Default)]
pub struct ListedCounts {
    instructions: AtomicU64,
    has_time: AtomicBool,
    /// Listings that there are.
    listings: AtomicUsize,
}

impl ListedCounts {
    /// Instructions that were listed.
    pub fn instructions(&self) -> u64 {
        self.instructions.load(Ordering::Relaxed)
    }

    /// The trace said what time it was, at least once.
    pub fn has_time(&self) -> bool {
        self.has_time.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, instructions: u64) {
        self.instructions.fetch_add(instructions, Ordering::Relaxed);
    }
}

/// Who a line is about.
#[derive(Clone, Debug)]
pub(super) struct Label {
    pub id: TraceId,
    /// Its trace says which hart it is about.
    pub numbers_harts: bool,
    /// Where JSON names it.
    pub buffer: Option<String>,
    /// When it happened, on the time axis of all sources.
    pub time: Option<TimeBounds>,
}

impl Label {
    /// What a line of text begins with.
    #[inline]
    pub fn write(&self, out: &mut (impl Write + ?Sized), hart: u16) -> io::Result<()> {
        if let Some(time) = &self.time {
            write!(out, "{time:<28}  ")?;
        }
        let [high, low] = hexadecimal(self.id.get());
        match self.numbers_harts {
            true => write!(out, "0x{}{}.{hart}  ", char::from(high), char::from(low)),
            false => out.write_all(&[b'0', b'x', high, low, b' ', b' ']),
        }
    }

    /// What every JSON object has.
    pub fn members(&self, object: &mut ObjectWriter, hart: u16, index: u64) {
        object.number("index", index);
        object.number("id", self.id.get().into());
        if self.numbers_harts {
            object.number("hart", hart.into());
        }
        if let Some(buffer) = &self.buffer {
            object.text("buffer", buffer);
        }
        if let Some(TimeBounds { earliest, latest, estimate }) = self.time {
            let times = [("at.earliest", earliest), ("at.estimate", estimate), ("at.latest", latest)];
            times.iter().for_each(|(name, time)| object.optional_number(name, *time));
        }
    }
}

/// Lists the execution of one source.
pub struct ExecutionWriter<'i> {
    style: Style,
    label: Label,
    code: SourceCode<'i>,
    filter: Filter,
    counts: Arc<ListedCounts>,
    /// By number.
    harts: Vec<Hart<'i>>,
    /// The one whose event came last.
    current: usize,
    /// The time of the code that is listed.
    window: Option<Window>,
    /// Ranges are listed as they are, with nothing but themselves in their text.
    is_plain: bool,
    /// Instructions that were listed and are in no count yet.
    listed: u64,
    object: ObjectWriter,
    /// The familiar lines of a hart before its first event.
    lines: opencsd::Lines,
}

/// What a listing has to know of one hart.
struct Hart<'i> {
    number: u16,
    filter: Filter,
    context: Option<Context>,
    space: AddressSpace,
    instruction_text: InstructionText,
    lines: opencsd::Lines,
    texts: RangeTexts,
    /// Where calls are listed.
    calls: Option<CallLines<'i>>,
}

impl decode::Writer<Event> for ExecutionWriter<'_> {
    fn item(&mut self, item: &Item<'_, Event>, text: &mut Vec<u8>) {
        self.enter(item.window);
        let index = || item.position().unwrap_or(item.offset);
        if let Event::Range(range) = &item.value
            && self.is_plain
            && let Some(hart) = self.harts.get(self.current)
            && hart.number == item.sub_source
            && let Some(known) = hart.texts.get(range, hart.space)
        {
            self.listed += u64::from(range.instructions);
            // Memory takes everything.
            let _ = known.write(text, index);
            return;
        }
        let _ = self.event(text, item.sub_source, &index, &item.value);
    }

    #[inline(always)]
    fn path<'a>(
        &mut self,
        path: PathId,
        Executor { sub_source: hart, window, .. }: Executor<'a>,
        items: impl Iterator<Item = Item<'a, Event>>,
        text: &mut Vec<u8>,
    ) {
        self.enter(window);
        let Self { style, label, harts, current, listed, object, .. } = self;
        if let Some(state) = harts.get_mut(*current)
            && state.number == hart
            && state.filter.takes_all()
            && style.format != ExecutionFormat::Json
            && let Some(calls) = &mut state.calls
        {
            let mut page = Page { label, hart, object, listed, filter: &state.filter };
            let ranges = items.filter_map(|item| match item.value {
                Event::Range(range) => Some(range),
                _ => None,
            });
            return calls.path(&mut page, text, path, ranges);
        }
        items.for_each(|item| self.item(&item, text));
    }

    fn finish(&mut self, text: &mut Vec<u8>) {
        let _ = self.end(text);
    }

    fn is_local(&self) -> bool {
        let is_of_ranges = matches!(self.style.detail, Detail::Ranges | Detail::Instructions);
        is_of_ranges && self.style.format != ExecutionFormat::Opencsd && self.filter.takes_all()
    }

    fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.listed)
    }

    fn add_count(&mut self, count: u64) {
        self.listed += count;
    }
}

impl<'i> ExecutionWriter<'i> {
    /// A writer for one source. What it lists is added to `counts`.
    pub fn new(
        style: Style,
        source: &Source,
        code: SourceCode<'i>,
        filter: Filter,
        counts: Arc<ListedCounts>,
    ) -> Self {
        let mut writer = Self::labelled(style, source.id(), code, filter, counts);
        writer.lines.cycle_counts |= source.counts_cycles();
        writer.lines.hides_return_addresses = !source.lists_return_addresses();
        writer.label.numbers_harts = source.numbers_harts();
        writer.label.buffer = style.name_buffers.then(|| source.buffer().to_owned());
        writer
    }

    /// A writer for what is shown with an ID.
    pub fn labelled(
        style: Style,
        id: TraceId,
        code: SourceCode<'i>,
        filter: Filter,
        counts: Arc<ListedCounts>,
    ) -> Self {
        let label = Label { id, numbers_harts: false, buffer: None, time: None };
        let (harts, object) = Default::default();
        let lines = opencsd::Lines::new(style.cycle_counts);
        let is_plain =
            style.format != ExecutionFormat::Opencsd && style.detail == Detail::Ranges && filter.takes_all();
        let (current, listed, window) = (0, 0, None);
        Self { style, label, code, filter, counts, harts, current, window, is_plain, listed, object, lines }
    }

    /// What is written next happened then, on the time axis of all sources.
    pub fn at(&mut self, time: TimeBounds) {
        self.label.time = Some(time);
        self.is_plain = false;
    }

    /// What is written next happened in this span of time, and code is shown as it was then.
    #[inline]
    pub fn enter(&mut self, window: Option<Window>) {
        if window != self.window {
            self.window = window;
            window.into_iter().for_each(|window| self.change_code(window));
        }
    }

    #[cold]
    fn change_code(&mut self, window: Window) {
        let is_changed = !self.code.enter(window).is_empty();
        let code = self.code;
        for hart in &mut self.harts {
            // A context may belong to another process now.
            hart.space = hart.context.map_or(hart.space, |context| code.space_of(&context));
            if is_changed {
                hart.texts.clear();
            }
            if let Some(calls) = &mut hart.calls {
                calls.set_code(code);
            }
        }
    }

    /// Writes one event of a hart; `index` finds where in the capture it was reported.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn event(
        &mut self,
        out: &mut dyn Write,
        hart: u16,
        index: &dyn Fn() -> u64,
        event: &Event,
    ) -> io::Result<()> {
        if self.harts.get(self.current).is_none_or(|known| known.number != hart) && !self.turn_to(hart) {
            return Ok(());
        }
        let Self { style, label, code, counts, harts, current, listed, object, .. } = self;
        let Some(state) = harts.get_mut(*current) else { return Ok(()) };
        match event {
            Event::Context(context, _) => {
                (state.context, state.space) = (Some(*context), code.space_of(context));
            }
            Event::Timestamp { .. } | Event::SourceTime(SourceTime::Global { .. }) => {
                counts.has_time.store(true, Ordering::Relaxed)
            }
            _ => {}
        }
        let is_wanted = state.filter.wants(event);
        if let Some(calls) = &mut state.calls {
            let mut page = Page { label, hart, object, listed, filter: &state.filter };
            return calls.event(&mut page, out, is_wanted, index, event);
        }
        if !is_wanted {
            return Ok(());
        }
        let Hart { filter, space, instruction_text, lines, texts, .. } = state;
        let (style, space) = (*style, *space);
        let mut line =
            Line { style, label, hart, code, space, instruction_text, object, index, lines, texts };
        let Event::Range(range) = event else { return line.event(out, event) };
        let mut outcome = Ok(());
        filter.parts(range, space, code, |part| {
            *listed += u64::from(part.instructions);
            if outcome.is_ok() {
                outcome = line.range(out, part);
            }
        });
        outcome
    }

    /// The next events are of this hart. False: nothing of it is wanted.
    #[cold]
    fn turn_to(&mut self, hart: u16) -> bool {
        if !self.filter.wants_hart(hart) {
            return false;
        }
        let place = self.harts.binary_search_by_key(&hart, |known| known.number);
        self.current = place.unwrap_or_else(|place| place);
        if place.is_err() {
            self.counts.listings.fetch_add(1, Ordering::Relaxed);
            let state = Hart {
                number: hart,
                filter: self.filter.clone(),
                context: None,
                space: AddressSpace::ANY,
                instruction_text: InstructionText::default(),
                lines: self.lines.clone(),
                texts: RangeTexts::new(self.counts.listings.load(Ordering::Relaxed)),
                calls: CallLines::new(self.style, self.code),
            };
            self.harts.insert(self.current, state);
        }
        true
    }

    /// Writes what is left at the end.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Self { label, harts, listed, object, .. } = self;
        for state in harts {
            write_lines(out, label, |each| state.lines.finish(each))?;
            if let Some(calls) = &mut state.calls {
                let hart = state.number;
                calls.end(&mut Page { label, hart, object, listed, filter: &state.filter }, out)?;
            }
        }
        Ok(())
    }
}

/// What was listed is counted, however the listing ends.
impl Drop for ExecutionWriter<'_> {
    fn drop(&mut self) {
        self.counts.add(self.listed);
    }
}

/// One event on its way to the listing.
struct Line<'a, 'i> {
    style: Style,
    label: &'a Label,
    hart: u16,
    code: &'a SourceCode<'i>,
    space: AddressSpace,
    instruction_text: &'a mut InstructionText,
    object: &'a mut ObjectWriter,
    index: &'a dyn Fn() -> u64,
    lines: &'a mut opencsd::Lines,
    texts: &'a mut RangeTexts,
}

impl Line<'_, '_> {
    fn event(&mut self, out: &mut dyn Write, event: &Event) -> io::Result<()> {
        match self.style.format {
            ExecutionFormat::Pcs => Ok(()),
            ExecutionFormat::Opencsd => self.opencsd(out, event),
            ExecutionFormat::Json => {
                self.object.text("event", event.name());
                self.label.members(self.object, self.hart, (self.index)());
                self.object.fields(event);
                self.object.end(out)
            }
            ExecutionFormat::Text => write_event(out, self.label, self.hart, event),
        }
    }

    fn range(&mut self, out: &mut dyn Write, range: &Range) -> io::Result<()> {
        if self.style.format == ExecutionFormat::Opencsd {
            return self.opencsd(out, &Event::Range(*range));
        }
        // The text of an instruction may depend on those before it.
        if self.style.detail == Detail::Instructions || self.label.time.is_some() {
            return self.write_range(out, range, (self.index)());
        }
        if let Some(text) = self.texts.get(range, self.space) {
            return text.write(out, self.index);
        }
        let mut line = Vec::new();
        self.write_range(&mut line, range, 0)?;
        let text = match self.style.format {
            ExecutionFormat::Json => around_index(&line),
            _ => RangeText { before: &line, after: &[] },
        };
        self.texts.insert(range, self.space, text);
        text.write(out, self.index)
    }

    fn write_range(&mut self, out: &mut dyn Write, range: &Range, index: u64) -> io::Result<()> {
        match self.style.format {
            ExecutionFormat::Pcs => self.steps(range, |_, step| write_address(out, step.address)),
            ExecutionFormat::Opencsd => Ok(()),
            ExecutionFormat::Json => self.json_range(out, range, index),
            ExecutionFormat::Text => self.text_range(out, range),
        }
    }

    fn opencsd(&mut self, out: &mut dyn Write, event: &Event) -> io::Result<()> {
        let index = (self.index)();
        write_lines(out, self.label, |each| self.lines.push(index, event, each))
    }

    fn json_range(&mut self, out: &mut dyn Write, range: &Range, index: u64) -> io::Result<()> {
        let event = Event::Range(*range);
        let (image, object) = (self.code.names_at(self.space, range.start), &mut *self.object);
        object.text("event", event.name());
        self.label.members(object, self.hart, index);
        if let Some(symbol) = image.symbolise(self.space, range.start) {
            object.text("function", self.style.name_of(&symbol));
            object.number("function_offset", symbol.offset);
        } else if let Some((module, offset)) = image.module_at(self.space, range.start) {
            module_members(object, module.name(), offset);
        }
        if let Some(line) = image.source_line(self.space, range.start) {
            object.text("file", &line.file);
            object.number("line", line.line.into());
        }
        object.fields(&event);
        object.end(out)?;
        if self.style.detail != Detail::Instructions {
            return Ok(());
        }
        self.steps(range, |line, step| {
            let image = line.code.names_at(line.space, step.address);
            let text = line.instruction_text.text(line.style.naming, line.code, line.space, range.isa, &step);
            line.object.text("event", "instruction");
            line.label.members(line.object, line.hart, (line.index)());
            line.object.text("address", &step.address.to_string());
            line.object.text("opcode", &text.encoding);
            line.object.text("text", &text.words);
            let source =
                line.style.source_lines.then(|| image.source_line(line.space, step.address)).flatten();
            if let Some(source) = source {
                line.object.text("file", &source.file);
                line.object.number("line", source.line.into());
            }
            line.object.end(out)
        })
    }

    fn text_range(&mut self, out: &mut dyn Write, range: &Range) -> io::Result<()> {
        self.label.write(out, self.hart)?;
        let (start, end, instructions) = (range.start.0, range.end.0, range.instructions);
        write!(out, "{start:#x}-{end:#x}  {instructions:>4}  {}", range.isa)?;
        match (range.ending(), self.location(range.start)) {
            (ending, location) if !location.is_empty() => writeln!(out, "  {ending:<16}  {location}")?,
            ("", _) => writeln!(out)?,
            (ending, _) => writeln!(out, "  {ending}")?,
        }
        if self.style.detail != Detail::Instructions {
            return Ok(());
        }
        self.steps(range, |line, step| {
            let image = line.code.names_at(line.space, step.address);
            let text = line.instruction_text.text(line.style.naming, line.code, line.space, range.isa, &step);
            let source =
                line.style.source_lines.then(|| image.source_line(line.space, step.address)).flatten();
            text.write(out, step.address, source.as_ref())
        })
    }

    fn steps(
        &mut self,
        range: &Range,
        mut each: impl FnMut(&mut Self, Step) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut outcome, space, code) = (Ok(()), self.space, self.code);
        steps(range, space, code, |step| {
            if outcome.is_ok() {
                outcome = each(self, step);
            }
        });
        outcome
    }

    /// Function and source line of an address, as far as the image knows them; else the file that it is in.
    fn location(&self, address: Address) -> String {
        let image = self.code.names_at(self.space, address);
        let words = image.describe(self.space, address, self.style.naming).unwrap_or_default();
        let mut location = match words.chars().any(is_harmful) {
            true => Printable(&words).to_string(),
            false => words,
        };
        if let Some(line) = image.source_line(self.space, address) {
            // A text takes everything.
            let _ = write!(location, " ({}:{})", Printable(&line.file), line.line);
        }
        location
    }
}

/// What stands before and after the index of a JSON object, which is 0.
fn around_index(line: &[u8]) -> RangeText<'_> {
    const INDEX: &[u8] = br#""index":"#;
    let gap = line.windows(INDEX.len()).position(|part| part == INDEX).map(|at| at + INDEX.len());
    let (before, rest) = line.split_at(gap.unwrap_or(line.len()));
    RangeText { before, after: rest.get(1..).unwrap_or_default() }
}

/// The file of code that has no name, for JSON, and how far into it that is.
pub(super) fn module_members(object: &mut ObjectWriter, module: &Path, offset: u64) {
    object.text("module", &module.file_name().unwrap_or(module.as_os_str()).to_string_lossy());
    object.number("module_offset", offset);
}

/// Writes lines that users of OpenCSD know.
fn write_lines(
    out: &mut dyn Write,
    label: &Label,
    lines: impl FnOnce(&mut dyn FnMut(u64, opencsd::Element<'_>)),
) -> io::Result<()> {
    let (mut outcome, id) = (Ok(()), label.id.get());
    lines(&mut |index, element| {
        if outcome.is_ok() {
            outcome = writeln!(out, "Idx:{index}; ID:{id:x}; {element}");
        }
    });
    outcome
}

/// One line of text for whatever is no range.
pub(super) fn write_event(out: &mut dyn Write, label: &Label, hart: u16, event: &Event) -> io::Result<()> {
    label.write(out, hart)?;
    writeln!(out, "-- {event}")
}

/// One address a line; the most common output of all, so it is written by hand.
pub fn write_address(out: &mut dyn Write, address: Address) -> io::Result<()> {
    let mut line = [0; 19];
    let mut at = line.len() - 1;
    line[at] = b'\n';
    let mut rest = address.0;
    loop {
        at -= 1;
        line[at] = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    line[at - 1] = b'x';
    line[at - 2] = b'0';
    out.write_all(&line[at - 2..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_hexadecimal_numbers() {
        for value in [0, 0x10, 0xFFFF_FFFF_FFFF_FFFF, 0x4d_2488] {
            let mut out = Vec::new();
            write_address(&mut out, Address(value)).expect("memory");
            assert_eq!(String::from_utf8(out).expect("text"), format!("{value:#x}\n"));
        }
    }
}
