//! Lines of source, from the debug information of a file.

use backsight_core::Address;
use object::{Object, ObjectSection};

use crate::dwarf::LazyUnits;
use crate::symbols::demangled;
use crate::{Budget, OverBudget};

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

/// Code of one line, as a debugger stops at it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceRow {
    /// Its first address.
    pub start: Address,
    /// The address after it.
    pub end: Address,
    /// The line.
    pub line: SourceLine,
    /// Does a statement begin at the first address?
    pub is_statement: bool,
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

/// The debug information of one file. Its sections are copied when the first line is asked for: most users of an
/// image never ask.
pub(crate) struct Lines(LazyUnits);

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
    pub fn read(bytes: &[u8], budget: &Budget) -> Result<Option<Self>, OverBudget> {
        Ok(LazyUnits::read(bytes, budget)?.map(Self))
    }

    /// The line of an address.
    ///
    /// # Errors
    /// If the budget does not allow to read the unit that it is in.
    pub fn find(&mut self, address: u64) -> Result<Option<SourceLine>, OverBudget> {
        let Some(info) = self.0.at(address)? else { return Ok(None) };
        Ok(info.line(address).and_then(|line| {
            let file = info.file_name(line.file)?.to_owned();
            Some(SourceLine { file, line: line.line, column: line.column })
        }))
    }

    /// The code of one line that an address is in.
    ///
    /// # Errors
    /// If the budget does not allow to read the unit that it is in.
    pub fn row(&mut self, address: u64) -> Result<Option<SourceRow>, OverBudget> {
        let Some(info) = self.0.at(address)? else { return Ok(None) };
        Ok(info.stop_at(address).and_then(|(start, end, line)| {
            let file = info.file_name(line.file)?.to_owned();
            let of = SourceLine { file, line: line.line, column: line.column };
            let is_statement = line.is_statement;
            Some(SourceRow { start: Address(start), end: Address(end), line: of, is_statement })
        }))
    }

    /// The functions at an address, the innermost first.
    ///
    /// # Errors
    /// If the budget does not allow to read the unit that it is in.
    pub fn frames(&mut self, address: u64) -> Result<Vec<Frame>, OverBudget> {
        let line = self.find(address)?;
        let Some(info) = self.0.at(address)? else { return Ok(Vec::new()) };
        let mut frames = Vec::new();
        for found in info.frames(address) {
            let mangled = (!found.function.is_empty()).then(|| found.function.to_owned());
            let file = found.file.and_then(|file| info.file_name(file));
            let of_call = file.map(|file| SourceLine { file: file.to_owned(), line: found.line, column: 0 });
            let line = if frames.is_empty() { line.clone() } else { of_call };
            frames.push(Frame { function: mangled.as_deref().map(demangled), mangled, line });
        }
        if frames.is_empty() && line.is_some() {
            frames.push(Frame { function: None, mangled: None, line });
        }
        Ok(frames)
    }
}
