//! One event, written in each of the formats.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use backsight_core::{Address, AddressSpace, Describe as _, Printable, is_harmful};
use backsight_flow::{Event, Range, opencsd};

use super::instruction_text::InstructionText;
use super::instructions::{RangeInstruction, steps};
use super::json::ObjectWriter;
use super::label::Label;
use super::range_text::{RangeText, RangeTexts};
use super::style::{Detail, ExecutionFormat, Style};
use crate::SourceCode;

/// One event on its way to the listing.
pub(super) struct EventLine<'a, 'i> {
    pub style: Style,
    pub label: &'a Label,
    pub hart: u16,
    pub code: &'a SourceCode<'i>,
    pub space: AddressSpace,
    pub instruction_text: &'a mut InstructionText,
    pub object: &'a mut ObjectWriter,
    pub index: &'a dyn Fn() -> u64,
    pub lines: &'a mut opencsd::Lines,
    pub texts: &'a mut RangeTexts,
    /// Listings that there are.
    pub listings: usize,
}

impl EventLine<'_, '_> {
    pub fn event(&mut self, out: &mut dyn Write, event: &Event) -> io::Result<()> {
        match self.style.format {
            ExecutionFormat::Pcs | ExecutionFormat::Tarmac => Ok(()),
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

    pub fn range(&mut self, out: &mut dyn Write, range: &Range) -> io::Result<()> {
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
        self.texts.insert(range, self.space, text, self.listings);
        text.write(out, self.index)
    }

    fn write_range(&mut self, out: &mut dyn Write, range: &Range, index: u64) -> io::Result<()> {
        match self.style.format {
            ExecutionFormat::Pcs => self.steps(range, |_, step| write_address(out, step.address)),
            ExecutionFormat::Opencsd | ExecutionFormat::Tarmac => Ok(()),
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
        mut each: impl FnMut(&mut Self, RangeInstruction) -> io::Result<()>,
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
pub(super) fn write_lines(
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
