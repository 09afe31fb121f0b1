//! Reading DWARF into tables. Whatever is read again for a reference to it, and whatever is kept, is taken from a budget: files
//! may refer to the same lists as often as they like.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, DwarfSections, EndianSlice,
    LineProgramHeader, RunTimeEndian, Unit, UnitOffset, constants as dw,
};
use object::{Object, ObjectSection, SectionFlags};

use super::sections::{self, PlacedUnit};
use super::{DEEPEST, DebugInfo, Line, Scope};
use crate::{Budget, OverBudget};

/// Memory for a row of a line table, for a range of a function, for a function, and for the name of a file besides its letters.
const OF_ROW: u64 = 40;
const OF_RANGE: u64 = 64;
const OF_SCOPE: u64 = 256;
const OF_FILE: u64 = 128;
/// What looking at an attribute counts for: it takes time, not memory.
const OF_ATTRIBUTE: u64 = 8;

pub(super) fn read(contents: &[u8], budget: &Budget) -> Result<DebugInfo, OverBudget> {
    let Ok(file) = object::File::parse(contents) else { return Ok(DebugInfo::default()) };
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let sections = DwarfSections::load(|id| sections::section(&file, id, budget))?;
    let mut dwarf = sections.borrow(|section| EndianSlice::new(section, endian));
    let units = sections::units(&mut dwarf, budget)?;
    let mut reader = Reader::new(&dwarf, &units, budget, has_code_at_zero(&file));
    for number in 0..units.len() {
        reader.unit(number)?;
    }
    Ok(reader.finish())
}

/// Is there code at address 0? If not, what is described there was left out by the linker.
pub(super) fn has_code_at_zero(file: &object::File<'_>) -> bool {
    file.sections().any(|section| {
        let is_code = matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & object::elf::SHF_EXECINSTR.0 != 0);
        is_code && section.address() == 0 && section.size() > 0
    })
}

/// Why reading ends before its end.
enum Stop {
    /// The unit is damaged: what was read of it is kept.
    Damage,
    /// The budget does not allow more.
    Budget(OverBudget),
}

impl From<gimli::Error> for Stop {
    fn from(_: gimli::Error) -> Self {
        Self::Damage
    }
}

impl From<OverBudget> for Stop {
    fn from(why: OverBudget) -> Self {
        Self::Budget(why)
    }
}

/// A function as its declaration describes it.
#[derive(Clone, Debug, Default)]
struct Declaration {
    linkage_name: Option<Arc<str>>,
    name: Option<Arc<str>>,
    line: u32,
    file: Option<u32>,
}

/// Reads units into one set of tables.
pub(super) struct Reader<'a, R: gimli::Reader<Offset = usize>> {
    dwarf: &'a Dwarf<R>,
    units: &'a [PlacedUnit<R>],
    budget: &'a Budget,
    has_code_at_zero: bool,
    info: DebugInfo,
    file_numbers: HashMap<String, u32>,
    /// Files of the units that are read, by their numbers there.
    unit_files: HashMap<(usize, u64), Option<u32>>,
    declarations: HashMap<(usize, usize), Declaration>,
    /// Line programs that were read.
    programs: HashSet<usize>,
    sequences: Vec<Vec<(u64, Option<Line>)>>,
    /// First address, address after the last, depth, scope.
    ranges: Vec<(u64, u64, u32, u32)>,
}

impl<'a, R: gimli::Reader<Offset = usize>> Reader<'a, R> {
    pub fn new(
        dwarf: &'a Dwarf<R>,
        units: &'a [PlacedUnit<R>],
        budget: &'a Budget,
        has_code_at_zero: bool,
    ) -> Self {
        Self {
            dwarf,
            units,
            budget,
            has_code_at_zero,
            info: DebugInfo::default(),
            file_numbers: HashMap::new(),
            unit_files: HashMap::new(),
            declarations: HashMap::new(),
            programs: HashSet::new(),
            sequences: Vec::new(),
            ranges: Vec::new(),
        }
    }

    /// Reads a unit. What cannot be read ends it, and what was read of it is kept.
    ///
    /// # Errors
    /// If the budget does not allow it.
    pub fn unit(&mut self, number: usize) -> Result<(), OverBudget> {
        for outcome in [self.lines(number), self.scopes(number)] {
            if let Err(Stop::Budget(why)) = outcome {
                return Err(why);
            }
        }
        Ok(())
    }

    fn take(&self, what: &'static str, bytes: u64) -> Result<(), Stop> {
        Ok(self.budget.take(what, bytes)?)
    }

    fn lines(&mut self, number: usize) -> Result<(), Stop> {
        let Some((_, unit)) = self.units.get(number) else { return Ok(()) };
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        // Units may share a program: it says the same for each.
        if !self.programs.insert(program.header().offset().0) {
            return Ok(());
        }
        self.take("a line program", program.header().raw_program_buf().len() as u64)?;
        let mut rows = program.rows();
        let mut sequence: Vec<(u64, Option<Line>)> = Vec::new();
        while let Some((_, row)) = rows.next_row()? {
            if row.end_sequence() {
                sequence.push((row.address(), None));
                let finished = std::mem::take(&mut sequence);
                if finished.first().is_some_and(|&(start, _)| start != 0 || self.has_code_at_zero) {
                    self.sequences.push(finished);
                }
                continue;
            }
            let column = match row.column() {
                gimli::ColumnType::LeftEdge => 0,
                gimli::ColumnType::Column(column) => u32::try_from(column.get()).unwrap_or(0),
            };
            let discriminator = u32::try_from(row.discriminator()).unwrap_or(0);
            self.info.has_discriminators |= discriminator != 0;
            self.take("the rows of a line table", OF_ROW)?;
            let line = Line {
                file: self.file(number, row.file_index())?.unwrap_or(u32::MAX),
                line: row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
                column,
                discriminator,
                is_statement: row.is_stmt(),
            };
            match sequence.last_mut() {
                // Of several rows for one address the last counts.
                Some(last) if last.0 == row.address() => {
                    let before = last.1.replace(line);
                    if let Some(statement) = before.filter(|before| before.is_statement && !line.is_statement)
                    {
                        self.info.hidden.push((row.address(), statement));
                    }
                }
                Some(last) if last.0 > row.address() => sequence.clear(),
                _ => sequence.push((row.address(), Some(line))),
            }
        }
        Ok(())
    }

    /// The number of a file that a unit knows by an index.
    fn file(&mut self, unit: usize, index: u64) -> Result<Option<u32>, Stop> {
        if let Some(&known) = self.unit_files.get(&(unit, index)) {
            return Ok(known);
        }
        let name = self.units.get(unit).and_then(|(_, unit)| {
            let header = unit.line_program.as_ref()?.header();
            self.path(unit, header, index)
        });
        self.take(
            "the files of a line program",
            OF_FILE + 2 * name.as_ref().map_or(0, |name| name.len() as u64),
        )?;
        let number = name.map(|name| {
            let next = self.info.files.len() as u32;
            let number = *self.file_numbers.entry(name.clone()).or_insert(next);
            if number == next {
                self.info.files.push(name);
            }
            number
        });
        self.unit_files.insert((unit, index), number);
        Ok(number)
    }

    fn text(&self, unit: &Unit<R>, value: AttributeValue<R>) -> Option<String> {
        let text = self.dwarf.attr_string(unit, value).ok()?;
        Some(text.to_string_lossy().ok()?.into_owned())
    }

    fn path(&self, unit: &Unit<R>, header: &LineProgramHeader<R>, index: u64) -> Option<String> {
        let entry = header.file(index)?;
        let mut path = self.text(unit, entry.path_name())?;
        let folder = entry.directory(header).and_then(|folder| self.text(unit, folder));
        let folder = folder.filter(|folder| !folder.is_empty());
        let home = unit.comp_dir.as_ref().and_then(|home| Some(home.to_string_lossy().ok()?.into_owned()));
        for around in [folder, home].into_iter().flatten() {
            if !path.starts_with('/') && around != "." && !path.starts_with(&format!("{around}/")) {
                path = format!("{}/{path}", around.trim_end_matches('/'));
            }
        }
        Some(path.replace("/./", "/"))
    }

    fn scopes(&mut self, number: usize) -> Result<(), Stop> {
        let Some((_, unit)) = self.units.get(number) else { return Ok(()) };
        let mut cursor = unit.entries();
        // Depth and number of the scopes around.
        let mut around: Vec<(isize, u32)> = Vec::new();
        while let Some(entry) = cursor.next_dfs()? {
            self.take("the debug information", OF_ATTRIBUTE * entry.attrs().len() as u64)?;
            while around.last().is_some_and(|&(depth, _)| depth >= entry.depth()) {
                around.pop();
            }
            match entry.tag() {
                dw::DW_TAG_compile_unit => {
                    let producer = entry.attr_value(dw::DW_AT_producer);
                    let producer = producer.and_then(|value| self.dwarf.attr_string(unit, value).ok());
                    let is_by_gcc = |text: R| text.to_slice().is_ok_and(|text| text.starts_with(b"GNU"));
                    self.info.is_by_gcc |= producer.is_some_and(is_by_gcc);
                }
                dw::DW_TAG_subprogram | dw::DW_TAG_inlined_subroutine => {
                    let is_inlined = entry.tag() == dw::DW_TAG_inlined_subroutine;
                    let parent = around.last().map(|&(_, scope)| scope).filter(|_| is_inlined);
                    if around.len() < DEEPEST
                        && let Some(scope) = self.scope(number, entry, parent, around.len() as u32)?
                    {
                        around.push((entry.depth(), scope));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A function with code; `None` if it has none.
    fn scope(
        &mut self,
        unit_number: usize,
        entry: &DebuggingInformationEntry<R>,
        parent: Option<u32>,
        depth: u32,
    ) -> Result<Option<u32>, Stop> {
        let Some((_, unit)) = self.units.get(unit_number) else { return Ok(None) };
        let Ok(mut ranges) = self.dwarf.die_ranges(unit, entry) else { return Ok(None) };
        let number = self.info.scopes.len() as u32;
        let mut start = None;
        while let Ok(Some(range)) = ranges.next() {
            self.take("the ranges of functions", OF_RANGE)?;
            if range.begin < range.end && (range.begin != 0 || self.has_code_at_zero) {
                start.get_or_insert(range.begin);
                self.ranges.push((range.begin, range.end, depth, number));
            }
        }
        let Some(start) = start else { return Ok(None) };
        self.take("the functions of the debug information", OF_SCOPE)?;
        let declaration = self.declaration(unit_number, entry.offset(), 0)?;
        let value = |name: gimli::DwAt| {
            let value = entry.attr_value(name).and_then(|value| value.udata_value());
            value.and_then(|value| u32::try_from(value).ok())
        };
        let call_file = match entry.attr_value(dw::DW_AT_call_file) {
            Some(AttributeValue::FileIndex(index)) => self.file(unit_number, index)?,
            _ => None,
        };
        self.info.scopes.push(Scope {
            name: declaration.linkage_name.or(declaration.name).unwrap_or_default(),
            declared: declaration.line,
            declared_file: declaration.file,
            parent,
            call_file,
            call_line: value(dw::DW_AT_call_line).unwrap_or(0),
            call_discriminator: value(dw::DW_AT_GNU_discriminator).unwrap_or(0),
            start,
        });
        Ok(Some(number))
    }

    /// Name and line of a function: its own, or of what it is a copy or the definition of.
    fn declaration(
        &mut self,
        unit_number: usize,
        offset: UnitOffset,
        depth: u32,
    ) -> Result<Declaration, Stop> {
        /// Longest way from a copy to its declaration; more is damage.
        const FARTHEST: u32 = 8;
        if let Some(known) = self.declarations.get(&(unit_number, offset.0)) {
            return Ok(known.clone());
        }
        let Some((_, unit)) = self.units.get(unit_number) else { return Ok(Declaration::default()) };
        let Ok(entry) = unit.entry(offset) else { return Ok(Declaration::default()) };
        let text = |name: gimli::DwAt| -> Result<Option<Arc<str>>, Stop> {
            let Some(text) = entry.attr_value(name).and_then(|value| self.text(unit, value)) else {
                return Ok(None);
            };
            self.take("the functions of the debug information", text.len() as u64)?;
            Ok(Some(text.into()))
        };
        let linkage_name = match text(dw::DW_AT_linkage_name)? {
            Some(name) => Some(name),
            None => text(dw::DW_AT_MIPS_linkage_name)?,
        };
        let name = text(dw::DW_AT_name)?;
        self.take(
            "the functions of the debug information",
            OF_SCOPE + OF_ATTRIBUTE * entry.attrs().len() as u64,
        )?;
        let line =
            entry.attr_value(dw::DW_AT_decl_line).and_then(|value| u32::try_from(value.udata_value()?).ok());
        let mut found = Declaration { linkage_name, name, line: line.unwrap_or(0), file: None };
        if let Some(AttributeValue::FileIndex(index)) = entry.attr_value(dw::DW_AT_decl_file) {
            found.file = self.file(unit_number, index)?;
        }
        let references = [dw::DW_AT_abstract_origin, dw::DW_AT_specification];
        let reference = references.iter().find_map(|&name| entry.attr_value(name));
        let origin = match reference {
            Some(AttributeValue::UnitRef(offset)) => Some((unit_number, offset)),
            Some(AttributeValue::DebugInfoRef(offset)) => self.locate(offset),
            _ => None,
        };
        if let Some((unit_number, offset)) = origin
            && depth < FARTHEST
        {
            let of_origin = self.declaration(unit_number, offset, depth + 1)?;
            found.linkage_name = found.linkage_name.or(of_origin.linkage_name);
            found.name = found.name.or(of_origin.name);
            found.file = found.file.or(of_origin.file);
            if found.line == 0 {
                found.line = of_origin.line;
            }
        }
        self.declarations.insert((unit_number, offset.0), found.clone());
        Ok(found)
    }

    /// The unit that an offset is in.
    fn locate(&self, offset: DebugInfoOffset) -> Option<(usize, UnitOffset)> {
        let after = self.units.partition_point(|&(start, _)| start <= offset.0);
        let number = after.checked_sub(1)?;
        let (_, unit) = self.units.get(number)?;
        Some((number, offset.to_unit_offset(&unit.header)?))
    }

    pub fn finish(mut self) -> DebugInfo {
        self.sequences.sort_by_key(|sequence| sequence.first().map(|&(start, _)| start));
        for sequence in self.sequences {
            let end = self.info.rows.last().map_or(0, |&(end, _)| end);
            // Two descriptions of one address: damage, or code that was left out. The first counts.
            if sequence.first().is_some_and(|&(start, _)| start >= end) {
                if sequence.first().is_some_and(|&(start, _)| start == end) {
                    self.info.rows.pop();
                }
                self.info.rows.extend(sequence);
            }
        }
        self.info.hidden.sort_by_key(|&(start, _)| start);
        self.info.spans = flattened(self.ranges);
        self.info
    }
}

/// From ranges inside of each other to the innermost from each address on.
pub(super) fn flattened(mut ranges: Vec<(u64, u64, u32, u32)>) -> Vec<(u64, Option<u32>)> {
    ranges.sort_by_key(|&(start, _, depth, scope)| (start, depth, scope));
    let mut spans: Vec<(u64, Option<u32>)> = Vec::new();
    let mut open: Vec<(u64, u32)> = Vec::new();
    let begin = |spans: &mut Vec<(u64, Option<u32>)>, address: u64, scope: Option<u32>| match spans.last_mut()
    {
        Some(last) if last.0 == address => last.1 = scope,
        Some(last) if last.1 == scope => {}
        _ => spans.push((address, scope)),
    };
    let close = |spans: &mut Vec<(u64, Option<u32>)>, open: &mut Vec<(u64, u32)>, until: u64| {
        while let Some(&(end, _)) = open.last()
            && end <= until
        {
            open.pop();
            // What is around it goes on, unless it ended before.
            while open.last().is_some_and(|&(around, _)| around <= end) {
                open.pop();
            }
            begin(spans, end, open.last().map(|&(_, scope)| scope));
        }
    };
    for (start, end, _, scope) in ranges {
        close(&mut spans, &mut open, start);
        begin(&mut spans, start, Some(scope));
        open.push((end, scope));
    }
    close(&mut spans, &mut open, u64::MAX);
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_is_found_at_every_address() {
        let ranges = vec![(10, 100, 0, 0), (20, 40, 1, 1), (30, 40, 2, 2), (40, 50, 1, 3), (100, 110, 0, 4)];
        let spans = flattened(ranges);
        let expected = [
            (10, Some(0)),
            (20, Some(1)),
            (30, Some(2)),
            (40, Some(3)),
            (50, Some(0)),
            (100, Some(4)),
            (110, None),
        ];
        assert_eq!(spans, expected);
    }
}
