//! Lines of source, from the debug information of a file.

use std::sync::Arc;

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection};

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

type Slice = EndianArcSlice<RunTimeEndian>;

/// The debug information of one file. Its sections are copied when the first line is asked for: most users of an
/// image never ask.
pub(crate) struct Lines(Context<Slice>);

impl Lines {
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let load = |id: SectionId| -> Result<Slice, object::Error> {
            let data = match file.section_by_name(id.name()) {
                Some(section) => section.uncompressed_data()?,
                None => Default::default(),
            };
            Ok(EndianArcSlice::new(Arc::from(&*data), endian))
        };
        let dwarf = Dwarf::load(load).ok()?;
        Context::from_dwarf(dwarf).ok().map(Self)
    }

    pub fn find(&self, address: u64) -> Option<SourceLine> {
        let location = self.0.find_location(address).ok()??;
        Some(SourceLine {
            file: location.file?.to_owned(),
            line: location.line.unwrap_or(0),
            column: location.column.unwrap_or(0),
        })
    }
}
