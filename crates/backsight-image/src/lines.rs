//! Lines of source, from the debug information of a file.

use std::sync::Arc;

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection};

use crate::Budget;
use crate::symbols::demangled;

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// The file, as the compiler knew it.
    pub file: String,
    /// The line, from 1 on; 0 if only the file is known.
    pub line: u32,
    /// The column, from 1 on; 0 if it is not known.
    pub column: u32,
}

/// A function that an instruction belongs to: one that the compiler put into another one has a frame of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its name as the programmer wrote it.
    pub function: Option<String>,
    /// Its name in the file.
    pub mangled: Option<String>,
    /// The line in it: of the instruction, or of the call of the function that was put into it.
    pub line: Option<SourceLine>,
}

type Slice = EndianArcSlice<RunTimeEndian>;

/// The debug information of one file. Its sections are copied when the first line is asked for: most users of an
/// image never ask.
pub(crate) struct Lines(Context<Slice>);

impl Lines {
    /// Does a file have what lines are read from?
    pub fn are_in(bytes: &[u8]) -> bool {
        let Ok(file) = object::File::parse(bytes) else { return false };
        // A file whose debug information was taken out may keep the section, with nothing in it.
        [".debug_line", ".zdebug_line"].iter().any(|name| {
            file.section_by_name(name)
                .is_some_and(|section| section.file_range().is_some_and(|(_, size)| size > 0))
        })
    }

    /// Reads the sections; `Ok(None)` if there is no debug information or it cannot be used.
    ///
    /// # Errors
    /// If the budget does not allow it.
    pub fn read(bytes: &[u8], budget: &Budget) -> Result<Option<Self>, String> {
        let Ok(file) = object::File::parse(bytes) else { return Ok(None) };
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let mut refused = None;
        let mut load = |id: SectionId| -> Result<Slice, object::Error> {
            let Some(section) = file.section_by_name(id.name()) else {
                return Ok(EndianArcSlice::new(Arc::from(&[][..]), endian));
            };
            let compressed = section.compressed_data()?;
            if let Err(why) = budget.take(id.name(), cost(id, compressed.uncompressed_size)) {
                refused.get_or_insert(why);
                return Ok(EndianArcSlice::new(Arc::from(&[][..]), endian));
            }
            Ok(EndianArcSlice::new(Arc::from(&*compressed.decompress()?), endian))
        };
        let dwarf = Dwarf::load(&mut load).ok();
        if let Some(why) = refused {
            return Err(why);
        }
        let Some(dwarf) = dwarf else { return Ok(None) };
        budget.take("the units of the debug information", units(&dwarf))?;
        Ok(Context::from_dwarf(dwarf).ok().map(Self))
    }

    pub fn find(&self, address: u64) -> Option<SourceLine> {
        line(self.0.find_location(address).ok()??)
    }

    /// The functions at an address, the innermost first.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        /// How deep functions are put into each other; more is damage.
        const DEEPEST: usize = 256;
        let mut frames = Vec::new();
        let Ok(mut found) = self.0.find_frames(address).skip_all_loads() else { return frames };
        while let Ok(Some(frame)) = found.next() {
            let mangled = frame.function.as_ref().and_then(|name| Some(name.raw_name().ok()?.into_owned()));
            let function = mangled.as_deref().map(demangled);
            frames.push(Frame { function, mangled, line: frame.location.and_then(line) });
            if frames.len() == DEEPEST {
                break;
            }
        }
        frames
    }
}

fn line(location: addr2line::Location<'_>) -> Option<SourceLine> {
    Some(SourceLine {
        file: location.file?.to_owned(),
        line: location.line.unwrap_or(0),
        column: location.column.unwrap_or(0),
    })
}

/// What a section takes once it is in use: itself twice while it is copied, and rows of the line table, which may have
/// one for each byte of it.
fn cost(id: SectionId, size: u64) -> u64 {
    const ROW: u64 = 32;
    size.saturating_mul(if id == SectionId::DebugLine { ROW } else { 2 })
}

/// What the units take: each is kept with its abbreviations.
fn units(dwarf: &Dwarf<Slice>) -> u64 {
    const UNIT: u64 = 1024;
    let mut count = 0;
    let mut headers = dwarf.units();
    while let Ok(Some(_)) = headers.next() {
        count += 1;
    }
    count * UNIT
}
