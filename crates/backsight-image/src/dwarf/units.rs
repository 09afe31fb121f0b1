//! Debug information that is read unit by unit, when somebody asks for an address of one: most are never asked for.

use std::collections::HashMap;
use std::sync::Arc;

use gimli::{Dwarf, EndianArcSlice, RunTimeEndian};
use object::Object;

use super::DebugInfo;
use super::read::{Reader, flattened, has_code_at_zero};
use super::sections::{self, PlacedUnit};
use crate::{Budget, OverBudget};

type Slice = EndianArcSlice<RunTimeEndian>;

/// Memory for a range of a unit.
const OF_RANGE: u64 = 64;

/// The units of a file, and the tables of those that were asked for.
pub(crate) struct LazyUnits {
    dwarf: Dwarf<Slice>,
    units: Vec<PlacedUnit<Slice>>,
    budget: Budget,
    has_code_at_zero: bool,
    /// The unit from an address on.
    spans: Vec<(u64, Option<u32>)>,
    tables: HashMap<usize, DebugInfo>,
}

impl LazyUnits {
    /// Finds the units of a file.
    ///
    /// # Errors
    /// If the budget does not allow it.
    pub fn read(contents: &[u8], budget: &Budget) -> Result<Option<Self>, OverBudget> {
        let Ok(file) = object::File::parse(contents) else { return Ok(None) };
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let mut dwarf = Dwarf::load(|id| -> Result<Slice, OverBudget> {
            let section = sections::section(&file, id, budget)?;
            budget.take(id.name(), section.len() as u64)?;
            Ok(EndianArcSlice::new(Arc::from(&*section), endian))
        })?;
        let units = sections::units(&mut dwarf, budget)?;
        let (spans, tables, has_code_at_zero) = (Vec::new(), HashMap::new(), has_code_at_zero(&file));
        let mut lazy = Self { dwarf, units, budget: budget.clone(), has_code_at_zero, spans, tables };
        lazy.index()?;
        Ok(Some(lazy))
    }

    fn index(&mut self) -> Result<(), OverBudget> {
        let mut all = Vec::new();
        for number in 0..self.units.len() {
            let before = all.len();
            self.add_ranges(number, &mut all)?;
            // A unit that does not say where its code is has lines there.
            if all.len() == before {
                let table = self.table(number)?;
                all.extend(table.lines().map(|(start, end, _)| (start, end, 0, number as u32)));
            }
        }
        self.spans = flattened(all);
        Ok(())
    }

    fn add_ranges(&self, number: usize, all: &mut Vec<(u64, u64, u32, u32)>) -> Result<(), OverBudget> {
        let Some((_, unit)) = self.units.get(number) else { return Ok(()) };
        let Ok(mut ranges) = self.dwarf.unit_ranges(unit) else { return Ok(()) };
        while let Ok(Some(range)) = ranges.next() {
            self.budget.take("the ranges of units", OF_RANGE)?;
            if range.begin < range.end && (range.begin != 0 || self.has_code_at_zero) {
                all.push((range.begin, range.end, 0, number as u32));
            }
        }
        Ok(())
    }

    /// The tables of the unit that an address is in.
    ///
    /// # Errors
    /// If the budget does not allow it.
    pub fn at(&mut self, address: u64) -> Result<Option<&DebugInfo>, OverBudget> {
        let after = self.spans.partition_point(|&(start, _)| start <= address);
        let span = after.checked_sub(1).and_then(|index| self.spans.get(index));
        match span.and_then(|&(_, unit)| unit) {
            Some(unit) => self.table(unit as usize).map(Some),
            None => Ok(None),
        }
    }

    fn table(&mut self, number: usize) -> Result<&DebugInfo, OverBudget> {
        if !self.tables.contains_key(&number) {
            let mut reader = Reader::new(&self.dwarf, &self.units, &self.budget, self.has_code_at_zero);
            let outcome = reader.unit(number);
            // What is more than the budget allows is not tried again.
            let table = if outcome.is_ok() { reader.finish() } else { DebugInfo::default() };
            self.tables.insert(number, table);
            outcome?;
        }
        Ok(&self.tables[&number])
    }
}
