//! Lines, discriminators and inlined functions, from the debug information of a file (DWARF 2 to 5).
//!
//! Listings need the line of an address. Profiles for compilers need more than a line for each address: which of several blocks on the line it is (the
//! discriminator), and, of functions that were put into others, each call on the way with the line that its function is
//! declared at. Coverage needs the lines that were *not* executed. All are read once for a unit, or for a file, and kept as sorted tables.

mod read;
mod sections;
mod units;

use std::sync::Arc;

use crate::{Budget, OverBudget};

pub(crate) use units::LazyUnits;

/// A line of source, as the line table has it for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The number of the file: [`DebugInfo::file`].
    pub file: u32,
    /// The line, from 1 on; 0 if it is not known.
    pub line: u32,
    /// The column, from 1 on; 0 if it is not known.
    pub column: u32,
    /// Which of several blocks on the line it is.
    pub discriminator: u32,
    /// The compiler recommends it for a breakpoint: a statement begins here.
    pub is_statement: bool,
}

/// A function that an instruction belongs to, and where in it that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineFrame<'a> {
    /// Its name in the file; empty if it has none.
    pub function: &'a str,
    /// The line that it is declared at; 0 if it is not known.
    pub declared: u32,
    /// The file of the line; `None` if it is not known.
    pub file: Option<u32>,
    /// The line in it: of the instruction, or of the call of the function that was put into it; 0 if it is not known.
    pub line: u32,
    /// Which of several blocks on the line it is.
    pub discriminator: u32,
}

/// A function as the compiler described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedFunction {
    /// Where its first piece begins.
    pub start: u64,
    /// Its name in the file.
    pub name: String,
    /// The file that it is declared in.
    pub file: u32,
    /// The line that it is declared at.
    pub line: u32,
}

/// The debug information of a file.
#[derive(Clone, Debug, Default)]
pub struct DebugInfo {
    files: Vec<String>,
    /// By address. `None` ends what the rows before speak of.
    rows: Vec<(u64, Option<Line>)>,
    /// Statements that begin at an address for which a later row counts, by address.
    hidden: Vec<(u64, Line)>,
    scopes: Vec<Scope>,
    /// The innermost scope from an address on.
    spans: Vec<(u64, Option<u32>)>,
    has_discriminators: bool,
    is_by_gcc: bool,
}

/// A function, or a copy of one that was put into another.
#[derive(Clone, Debug)]
struct Scope {
    name: Arc<str>,
    declared: u32,
    declared_file: Option<u32>,
    /// The scope around it.
    parent: Option<u32>,
    call_file: Option<u32>,
    call_line: u32,
    call_discriminator: u32,
    start: u64,
}

/// Functions that were put into each other; more is damage.
const DEEPEST: usize = 256;

impl DebugInfo {
    /// Reads the debug information of an ELF file. What cannot be read is left out.
    ///
    /// # Errors
    /// If the budget does not allow it.
    pub fn read(contents: &[u8], budget: &Budget) -> Result<Self, OverBudget> {
        read::read(contents, budget)
    }

    /// The same with other names.
    pub fn renamed(&self, rename: &mut dyn FnMut(&str) -> String) -> Self {
        let mut renamed = self.clone();
        renamed.files.iter_mut().for_each(|name| *name = rename(name));
        renamed.scopes.iter_mut().for_each(|scope| scope.name = rename(&scope.name).into());
        renamed
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Does any line have a discriminator?
    pub fn has_discriminators(&self) -> bool {
        self.has_discriminators
    }

    /// Did GCC make it? Its discriminators are plain numbers.
    pub fn is_by_gcc(&self) -> bool {
        self.is_by_gcc
    }

    /// The name of a file of source.
    pub fn file(&self, number: u32) -> &str {
        self.file_name(number).unwrap_or("?")
    }

    pub(crate) fn file_name(&self, number: u32) -> Option<&str> {
        self.files.get(number as usize).map(String::as_str)
    }

    /// The line of an address.
    pub fn line(&self, address: u64) -> Option<Line> {
        let after = self.rows.partition_point(|&(start, _)| start <= address);
        self.rows.get(after.checked_sub(1)?)?.1
    }

    /// Every row of the line table: first address, address after it, line.
    pub fn lines(&self) -> impl Iterator<Item = (u64, u64, Line)> + '_ {
        self.rows.windows(2).filter_map(|pair| match *pair {
            [(start, Some(line)), (end, _)] if end > start => Some((start, end, line)),
            _ => None,
        })
    }

    /// Every row of the line table, as debuggers stop at them: of several for one address that of the statement counts.
    pub fn stops(&self) -> impl Iterator<Item = (u64, u64, Line)> + '_ {
        self.lines().map(|(start, end, line)| (start, end, self.statement_at(start, line)))
    }

    /// The one of these that an address is in.
    pub fn stop_at(&self, address: u64) -> Option<(u64, u64, Line)> {
        let after = self.rows.partition_point(|&(start, _)| start <= address);
        let &(start, line) = self.rows.get(after.checked_sub(1)?)?;
        let &(end, _) = self.rows.get(after)?;
        Some((start, end, self.statement_at(start, line?)))
    }

    /// The last statement of an address, or what is there.
    fn statement_at(&self, start: u64, line: Line) -> Line {
        let after = self.hidden.partition_point(|&(known, _)| known <= start);
        let hidden = after.checked_sub(1).and_then(|index| self.hidden.get(index));
        match hidden {
            Some(&(known, statement)) if known == start && !line.is_statement => statement,
            _ => line,
        }
    }

    /// The functions at an address, the innermost first. Empty where the compiler described none.
    pub fn frames(&self, address: u64) -> Vec<InlineFrame<'_>> {
        let after = self.spans.partition_point(|&(start, _)| start <= address);
        let span = after.checked_sub(1).and_then(|index| self.spans.get(index));
        let mut scope = span.and_then(|&(_, scope)| scope);
        let line = self.line(address);
        let (mut file, mut number) = (line.map(|line| line.file), line.map_or(0, |line| line.line));
        let mut discriminator = line.map_or(0, |line| line.discriminator);
        let mut frames = Vec::new();
        while let Some(here) = scope.and_then(|scope| self.scopes.get(scope as usize))
            && frames.len() < DEEPEST
        {
            let (function, declared) = (&*here.name, here.declared);
            frames.push(InlineFrame { function, declared, file, line: number, discriminator });
            (file, number, discriminator) = (here.call_file, here.call_line, here.call_discriminator);
            scope = here.parent;
        }
        frames
    }

    /// The functions that have code of their own, by address.
    pub fn functions(&self) -> Vec<DescribedFunction> {
        let own = self.scopes.iter().filter(|scope| scope.parent.is_none() && !scope.name.is_empty());
        let mut functions: Vec<_> = own
            .filter_map(|scope| {
                let (start, name, line) = (scope.start, scope.name.to_string(), scope.declared);
                Some(DescribedFunction { start, name, file: scope.declared_file?, line })
            })
            .collect();
        functions.sort_by_key(|function| function.start);
        functions
    }
}
