//! What was executed, written in each of the formats.

use std::collections::BTreeMap;
use std::io::{self, Write};

use backsight_core::{Address, AddressSpace, Context, Describe, Isa, TraceId};
use backsight_flow::etm4::{Record, Step};
use backsight_flow::{Event, Range, opencsd};
use backsight_image::Image;
#[cfg(feature = "disassemble")]
use backsight_image::disassemble;

use super::filter::Filter;
use super::instructions::steps;
use super::json::ObjectWriter;
use crate::{Item, Source, decode};

/// How execution is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutionFormat {
    /// One line a range, to read.
    #[default]
    Text,
    /// One line for each stay in a function, indented by how deep the calls are.
    Calls,
    /// One line a range, and every instruction below it.
    Disassembly,
    /// One JSON object a line.
    Json,
    /// The listing that users of OpenCSD know.
    Opencsd,
    /// One address a line: every instruction.
    Pcs,
}

/// How much to show.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// The format.
    pub format: ExecutionFormat,
    /// The trace unit counted cycles: timestamps of the familiar listing then show a count.
    pub cycle_counts: bool,
}

/// Names of the trace unit's events.
#[derive(Clone, Debug, Default)]
pub struct EventNames(pub BTreeMap<u8, String>);

impl EventNames {
    /// The name of an event, else its number.
    fn name(&self, number: u8) -> String {
        self.0.get(&number).cloned().unwrap_or_else(|| number.to_string())
    }
}

/// Lists the branches of one source: type, cycle, value.
#[derive(Clone, Debug)]
pub struct BranchWriter {
    filter: Filter,
    names: EventNames,
}

impl BranchWriter {
    /// A writer for one source.
    pub fn new(filter: Filter, names: EventNames) -> Self {
        Self { filter, names }
    }

    fn record(&self, out: &mut dyn Write, record: &Record) -> io::Result<()> {
        let (kind, cycle) = (record.step.name(), record.cycle);
        match record.step {
            Step::Branch { target, .. } if !self.filter.wants_address(target) => Ok(()),
            Step::Branch { target, source: Some(source) } => {
                writeln!(out, "{kind}\t{cycle}\t{target}\tfrom {source}")
            }
            Step::Branch { target, source: None } => writeln!(out, "{kind}\t{cycle}\t{target}"),
            Step::Event(number) => writeln!(out, "{kind}\t{cycle}\t{}", self.names.name(number)),
            Step::Exception { number, return_address: Some(address) } => {
                writeln!(out, "{kind}\t{cycle}\t{number:#x}\treturns to {address}")
            }
            Step::Exception { number, return_address: None } => writeln!(out, "{kind}\t{cycle}\t{number:#x}"),
            Step::Gap(gap) => writeln!(out, "{kind}\t{cycle}\t{gap}"),
        }
    }
}

impl decode::Writer<Record> for BranchWriter {
    fn item(&mut self, item: &Item<'_, Record>, text: &mut Vec<u8>) {
        // Memory takes everything.
        let _ = self.record(text, &item.value);
    }
}

/// Lists the execution of one source.
pub struct ExecutionWriter<'i> {
    style: Style,
    id: TraceId,
    image: &'i Image,
    filter: Filter,
    space: AddressSpace,
    visit: Visit,
    object: ObjectWriter,
}

impl decode::Writer<Event> for ExecutionWriter<'_> {
    fn item(&mut self, item: &Item<'_, Event>, text: &mut Vec<u8>) {
        let _ = self.event(text, &|| item.position().unwrap_or(item.offset), &item.value);
    }

    fn finish(&mut self, text: &mut Vec<u8>) {
        let _ = self.end(text);
    }
}

/// A stay in one function.
#[derive(Default)]
struct Visit {
    /// Where the function begins; `None` where the image knows no name.
    function: Option<Address>,
    /// What is shown for it.
    label: String,
    instructions: u64,
    depth: usize,
    /// Calls less returns after the last range.
    next_depth: usize,
}

/// Deepest indentation.
const DEEPEST: usize = 60;

impl<'i> ExecutionWriter<'i> {
    /// A writer for one source.
    pub fn new(style: Style, source: &Source, image: &'i Image, filter: Filter) -> Self {
        let style = Style { cycle_counts: style.cycle_counts || source.counts_cycles(), ..style };
        Self::labelled(style, source.id(), image, filter)
    }

    /// A writer for what is shown with an ID.
    pub fn labelled(style: Style, id: TraceId, image: &'i Image, filter: Filter) -> Self {
        Self {
            style,
            id,
            image,
            filter,
            space: AddressSpace::ANY,
            visit: Visit::default(),
            object: ObjectWriter::default(),
        }
    }

    /// Writes one event; `index` finds where in the capture it was reported.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn event(&mut self, out: &mut dyn Write, index: &dyn Fn() -> u64, event: &Event) -> io::Result<()> {
        if let Event::Context(context, isa) = event {
            self.space = space_of(context, *isa);
        }
        if !self.filter.wants(event) {
            return Ok(());
        }
        match self.style.format {
            ExecutionFormat::Pcs => self.pcs(out, event),
            ExecutionFormat::Opencsd => self.opencsd(out, index, event),
            ExecutionFormat::Json => self.json(out, index(), event),
            ExecutionFormat::Calls => self.calls(out, event),
            ExecutionFormat::Text | ExecutionFormat::Disassembly => self.text(out, event),
        }
    }

    /// Writes what is left at the end.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.style.format == ExecutionFormat::Calls { self.leave(out) } else { Ok(()) }
    }

    fn pcs(&self, out: &mut dyn Write, event: &Event) -> io::Result<()> {
        let Event::Range(range) = event else { return Ok(()) };
        let mut outcome = Ok(());
        steps(range, self.space, self.image, |step| {
            if outcome.is_ok() && self.filter.wants_address(step.address) {
                outcome = write_address(out, step.address);
            }
        });
        outcome
    }

    fn opencsd(&self, out: &mut dyn Write, index: &dyn Fn() -> u64, event: &Event) -> io::Result<()> {
        match opencsd::element(event, self.style.cycle_counts) {
            Some(element) => writeln!(out, "Idx:{}; ID:{:x}; {element}", index(), self.id.get()),
            None => Ok(()),
        }
    }

    fn json(&mut self, out: &mut dyn Write, index: u64, event: &Event) -> io::Result<()> {
        let object = &mut self.object;
        object.text("event", event.name());
        object.number("index", index);
        object.number("id", self.id.get().into());
        if let Event::Range(range) = event
            && let Some(symbol) = self.image.symbolise(self.space, range.start)
        {
            object.text("function", symbol.name);
            object.number("function_offset", symbol.offset);
        }
        object.fields(event);
        object.end(out)
    }

    fn text(&self, out: &mut dyn Write, event: &Event) -> io::Result<()> {
        let Event::Range(range) = event else {
            return writeln!(out, "{:02x}  -- {}", self.id.get(), event);
        };
        let line = format!(
            "{:02x}  {:#x}-{:#x}  {:>4}  {}  {:<16}  {}",
            self.id.get(),
            range.start.0,
            range.end.0,
            range.instructions,
            range.isa,
            range.ending(),
            self.place(range.start)
        );
        writeln!(out, "{}", line.trim_end())?;
        if self.style.format == ExecutionFormat::Disassembly { self.instructions(out, range) } else { Ok(()) }
    }

    fn instructions(&self, out: &mut dyn Write, range: &Range) -> io::Result<()> {
        let mut outcome = Ok(());
        steps(range, self.space, self.image, |step| {
            if outcome.is_ok() && self.filter.wants_address(step.address) {
                let bytes = &step.bytes[..usize::from(step.size)];
                let hex: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
                #[cfg(feature = "disassemble")]
                let text = disassemble(range.isa, bytes, step.address);
                #[cfg(not(feature = "disassemble"))]
                let text = "";
                outcome = writeln!(out, "      {:#x}  {hex:<8}  {text}", step.address.0);
            }
        });
        outcome
    }

    /// Function and source line of an address, as far as the image knows them.
    fn place(&self, address: Address) -> String {
        let Some(symbol) = self.image.symbolise(self.space, address) else { return String::new() };
        let mut place = symbol.name.to_owned();
        if symbol.offset > 0 {
            place.push_str(&format!("+{:#x}", symbol.offset));
        }
        if let Some(line) = self.image.source_line(self.space, address) {
            place.push_str(&format!(" ({}:{})", line.file, line.line));
        }
        place
    }

    /// One line for each stay in a function, indented by how deep the calls are.
    fn calls(&mut self, out: &mut dyn Write, event: &Event) -> io::Result<()> {
        let Event::Range(range) = event else {
            if matches!(event, Event::CycleCount(_) | Event::Timestamp { .. } | Event::Context(..)) {
                return Ok(());
            }
            self.leave(out)?;
            return writeln!(out, "{:02x}  -- {}", self.id.get(), event);
        };
        let symbol = self.image.symbolise(self.space, range.start);
        let function = symbol.map(|symbol| symbol.start);
        let came_by_call = self.visit.next_depth != self.visit.depth;
        if self.visit.instructions == 0 || came_by_call || function != self.visit.function {
            self.leave(out)?;
            self.visit.function = function;
            self.visit.label =
                symbol.map_or_else(|| format!("{:#x}", range.start.0), |symbol| symbol.name.to_owned());
        }
        self.visit.instructions += u64::from(range.instructions);
        if range.executed && range.flags.link {
            self.visit.next_depth = self.visit.depth + 1;
        } else if range.executed && range.flags.returns {
            self.visit.next_depth = self.visit.depth.saturating_sub(1);
        }
        Ok(())
    }

    fn leave(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let visit = std::mem::take(&mut self.visit);
        self.visit.depth = visit.next_depth;
        self.visit.next_depth = visit.next_depth;
        if visit.instructions == 0 {
            return Ok(());
        }
        let indentation = 2 * visit.depth.min(DEEPEST);
        let (id, label) = (self.id.get(), visit.label);
        writeln!(out, "{id:02x}  {:indentation$}{label}  {} instructions", "", visit.instructions)
    }
}

/// The memory that a context fetches from. RISC-V has one memory for all.
fn space_of(context: &Context, isa: Isa) -> AddressSpace {
    match isa {
        Isa::A64 | Isa::A32 | Isa::T32 => context.space(),
        Isa::Rv32 | Isa::Rv64 => AddressSpace::ANY,
    }
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
