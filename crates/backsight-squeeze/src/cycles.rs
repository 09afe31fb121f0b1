//! Cycles of instructions: each took as many as the last time, or its number is written.

use crate::Damage;
use crate::notes::{Cursor, put_distance, put_number};

const ENTRIES: usize = 1 << 12;

/// How long instructions took, as both sides know it.
#[derive(Clone, Debug)]
struct Table {
    /// Address and cycles of the last time.
    entries: Box<[(u64, u64)]>,
    cycle: u64,
    /// Some instruction took a cycle. Before that, nothing needs to be looked up.
    timed: bool,
}

impl Table {
    fn new() -> Self {
        Self { entries: vec![(0, 0); ENTRIES].into(), cycle: 0, timed: false }
    }

    /// What an instruction took the last time; 0 if that is not known.
    #[inline]
    fn expected(&mut self, address: u64) -> &mut u64 {
        let entry = &mut self.entries[(address >> 1 ^ address >> 13) as usize & (ENTRIES - 1)];
        if entry.0 != address {
            *entry = (address, 0);
        }
        &mut entry.1
    }
}

/// Writes cycles.
#[derive(Clone, Debug)]
pub struct CycleWriter {
    table: Table,
    /// Instructions that took what was expected.
    run: u64,
    bytes: Vec<u8>,
}

impl CycleWriter {
    /// Nothing written.
    pub fn new() -> Self {
        Self { table: Table::new(), run: 0, bytes: Vec::new() }
    }

    /// Takes an instruction if cycles are not known, as up to now; `false` if there is more to do.
    #[inline]
    pub fn put_untimed(&mut self, cycle: u64) -> bool {
        let untimed = !self.table.timed && cycle == 0;
        self.run += u64::from(untimed);
        untimed
    }

    /// Cycles are not known up to now.
    #[inline]
    pub fn is_untimed(&self) -> bool {
        !self.table.timed
    }

    /// Takes so many instructions whose cycles are not known, as up to now.
    #[inline]
    pub fn put_all_untimed(&mut self, count: u64) {
        self.run += count;
    }

    /// An instruction retired in this cycle.
    #[inline]
    pub fn put(&mut self, address: u64, cycle: u64) {
        if self.put_untimed(cycle) {
            return;
        }
        self.table.timed = true;
        let took = cycle.wrapping_sub(self.table.cycle);
        self.table.cycle = cycle;
        let expected = self.table.expected(address);
        if *expected == took {
            self.run += 1;
        } else {
            *expected = took;
            put_number(&mut self.bytes, self.run);
            put_distance(&mut self.bytes, took);
            self.run = 0;
        }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was written. The instructions after the last number took what was expected.
    pub fn take(&mut self) -> Vec<u8> {
        self.run = 0;
        std::mem::take(&mut self.bytes)
    }
}

impl Default for CycleWriter {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads cycles.
#[derive(Clone, Debug)]
pub struct CycleReader {
    table: Table,
}

impl CycleReader {
    /// Nothing read.
    pub fn new() -> Self {
        Self { table: Table::new() }
    }

    /// Cycles are not known up to now.
    pub fn is_untimed(&self) -> bool {
        !self.table.timed
    }

    /// Begins with the bytes of one [`CycleWriter::take`].
    pub fn begin<'a>(&'a mut self, bytes: &'a [u8]) -> Result<CyclesOfFlush<'a>, Damage> {
        let mut cycles =
            CyclesOfFlush { table: &mut self.table, bytes: Cursor::new(bytes), next: None, run: 0 };
        cycles.step()?;
        Ok(cycles)
    }
}

impl Default for CycleReader {
    fn default() -> Self {
        Self::new()
    }
}

/// The cycles of one flush.
pub struct CyclesOfFlush<'a> {
    table: &'a mut Table,
    bytes: Cursor<'a>,
    /// What the instruction after the run took.
    next: Option<u64>,
    run: u64,
}

impl CyclesOfFlush<'_> {
    fn step(&mut self) -> Result<(), Damage> {
        self.next = None;
        if !self.bytes.is_empty() {
            self.run = self.bytes.number()?;
            self.next = Some(self.bytes.distance()?);
            self.table.timed = true;
        }
        Ok(())
    }

    /// The cycle in which the instruction at this address retired.
    #[inline]
    pub fn cycle(&mut self, address: u64) -> Result<u64, Damage> {
        if !self.table.timed && self.next.is_none() {
            return Ok(0);
        }
        let expected = self.table.expected(address);
        match self.next {
            Some(took) if self.run == 0 => {
                *expected = took;
                self.table.cycle = self.table.cycle.wrapping_add(took);
                self.step()?;
            }
            next => {
                let took = *expected;
                self.table.cycle = self.table.cycle.wrapping_add(took);
                self.run -= u64::from(next.is_some());
            }
        }
        Ok(self.table.cycle)
    }

    /// All numbers must have been used.
    pub fn finish(self) -> Result<(), Damage> {
        if self.next.is_none() {
            Ok(())
        } else {
            Err(Damage::Record("cycles of instructions that are not there"))
        }
    }
}
