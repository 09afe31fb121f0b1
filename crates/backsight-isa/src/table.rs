//! Opcode tables: patterns in the manual's notation, each with what the instruction does.
//!
//! A row matches an opcode if `opcode & mask == value`; the first row that matches decides, so that a row can take
//! the exceptions out of a wider one after it. Opcodes that no row matches do nothing to the flow.

use backsight_core::{Address, Isa};

use crate::{Class, Flags, Instruction};

/// Computes the target of a direct branch from its opcode and its own address.
pub type Target = fn(opcode: u32, address: Address) -> Address;

/// What the instructions of a row do.
#[derive(Clone, Copy, Debug)]
pub struct Effect {
    /// The class.
    pub class: Class,
    /// More about it.
    pub flags: Flags,
    /// Where a direct branch goes.
    pub target: Option<Target>,
    /// The instruction set there, where it differs.
    pub target_isa: Option<Isa>,
}

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The bits that are looked at.
    pub mask: u32,
    /// What they have to be.
    pub value: u32,
    /// The instructions, as the manual calls them.
    pub name: &'static str,
    /// What they do.
    pub effect: Effect,
}

/// A row, in the order in which the manual's tables have it.
pub(crate) const fn row(mask: u32, value: u32, name: &'static str, effect: Effect) -> Row {
    assert!(value & !mask == 0, "a value bit outside of the mask never matches");
    Row { mask, value, name, effect }
}

const fn effect(class: Class) -> Effect {
    Effect { class, flags: Flags::NONE, target: None, target_isa: None }
}

/// Nothing to the flow: takes exceptions out of rows further down.
pub(crate) const OTHER: Effect = effect(Class::Other);
pub(crate) const INDIRECT: Effect = effect(Class::IndirectBranch);
pub(crate) const ISB: Effect = effect(Class::Isb);
pub(crate) const DATA_BARRIER: Effect = effect(Class::DataBarrier);
pub(crate) const WAIT: Effect = effect(Class::Wait);
pub(crate) const TRANSACTION_START: Effect = effect(Class::TransactionStart);
pub(crate) const LOAD: Effect = OTHER.load();
pub(crate) const STORE: Effect = OTHER.store();
/// Reads and writes memory: swaps, atomics, copies.
pub(crate) const UPDATE: Effect = LOAD.store();
pub(crate) const UNDEFINED: Effect = OTHER.undefined();

/// A direct branch.
pub(crate) const fn direct(target: Target) -> Effect {
    Effect { target: Some(target), ..effect(Class::DirectBranch) }
}

impl Effect {
    pub(crate) const fn link(mut self) -> Self {
        self.flags.link = true;
        self
    }

    pub(crate) const fn returns(mut self) -> Self {
        self.flags.returns = true;
        self
    }

    pub(crate) const fn exception_return(mut self) -> Self {
        self.flags.exception_return = true;
        self
    }

    pub(crate) const fn conditional(mut self) -> Self {
        self.flags.conditional = true;
        self
    }

    pub(crate) const fn compares(mut self) -> Self {
        self.flags.unmarked = true;
        self.conditional()
    }

    pub(crate) const fn load(mut self) -> Self {
        self.flags.load = true;
        self
    }

    pub(crate) const fn store(mut self) -> Self {
        self.flags.store = true;
        self
    }

    pub(crate) const fn undefined(mut self) -> Self {
        self.flags.undefined = true;
        self
    }

    pub(crate) const fn to(mut self, isa: Isa) -> Self {
        self.target_isa = Some(isa);
        self
    }

    fn instruction(&self, opcode: u32, address: Address, isa: Isa, size: u8) -> Instruction {
        Instruction {
            target: self.target.map_or(Address(0), |target| target(opcode, address)),
            target_isa: self.target_isa.unwrap_or(isa),
            class: self.class,
            flags: self.flags,
            size,
            it_count: 0,
        }
    }
}

/// A table with an index over the highest byte of the opcode, made by the compiler from the rows: a set of the
/// rows that can match, so that most opcodes are decided by a look at a handful of rows or none.
#[derive(Debug)]
pub struct Table {
    rows: &'static [Row],
    index: [u128; 256],
}

impl Table {
    pub(crate) const fn new(rows: &'static [Row]) -> Self {
        assert!(rows.len() <= 128, "the index holds a set of at most 128 rows");
        let mut index = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut row = 0;
            while row < rows.len() {
                if (((byte as u32) << 24) ^ rows[row].value) & rows[row].mask & 0xFF00_0000 == 0 {
                    index[byte] |= 1 << row;
                }
                row += 1;
            }
            byte += 1;
        }
        Self { rows, index }
    }

    /// The rows, in order.
    pub fn rows(&self) -> &'static [Row] {
        self.rows
    }

    /// The row that decides, found by trying them all: the definition of what [`Table::find`] gives.
    pub fn scan(&self, opcode: u32) -> Option<&'static Row> {
        self.rows.iter().find(|row| opcode & row.mask == row.value)
    }

    /// The row that decides.
    #[inline]
    pub fn find(&self, opcode: u32) -> Option<&'static Row> {
        let mut candidates = self.index[(opcode >> 24) as usize];
        while candidates != 0 {
            let row = &self.rows[candidates.trailing_zeros() as usize];
            if opcode & row.mask == row.value {
                return Some(row);
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// What the instruction does.
    #[inline]
    pub(crate) fn classify(&self, opcode: u32, address: Address, isa: Isa, size: u8) -> Instruction {
        match self.find(opcode) {
            Some(row) => row.effect.instruction(opcode, address, isa, size),
            None => Instruction::plain(isa, size),
        }
    }
}

/// Bits `high` to `low` of an opcode.
#[inline]
pub(crate) const fn bits(opcode: u32, high: u32, low: u32) -> u32 {
    (opcode << (31 - high)) >> (31 - high + low)
}

/// A two's complement number in the low `width` bits.
#[inline]
pub(crate) const fn sign_extend(value: u32, width: u32) -> i64 {
    (((value << (32 - width)) as i32) >> (32 - width)) as i64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use backsight_testing::Random;

    /// Every row can be reached, and the index agrees with the plain scan: on random opcodes, and on opcodes that
    /// match each row.
    pub fn index_agrees_with_the_rows(table: &Table) {
        let mut random = Random(1);
        let mut reached = [false; 128];
        for round in 0..400_000 {
            let mut opcode = random.next() as u32;
            if round % 2 == 0 {
                let row = &table.rows[round / 2 % table.rows.len()];
                opcode = opcode & !row.mask | row.value;
            }
            let scanned = table.scan(opcode).map(core::ptr::from_ref);
            assert_eq!(table.find(opcode).map(core::ptr::from_ref), scanned, "{opcode:08x}");
            if let Some(found) = scanned {
                let place = table.rows.iter().position(|row| core::ptr::eq(row, found)).unwrap();
                reached[place] = true;
            }
        }
        for (row, reached) in table.rows.iter().zip(reached) {
            assert!(reached, "{} is hidden by the rows before it", row.name);
        }
    }

    #[test]
    fn bits_and_signs() {
        assert_eq!(bits(0xABCD_1234, 31, 28), 0xA);
        assert_eq!(bits(0xABCD_1234, 7, 0), 0x34);
        assert_eq!(sign_extend(0x3FF_FFFF, 26), -1);
        assert_eq!(sign_extend(0x1FF_FFFF, 26), 0x1FF_FFFF);
    }
}
