//! The trace of data addresses: filtered or not, and then as it is, packed, or through a cache.
//!
//! There is one address for each instruction that refers to memory. Nothing says which were left out: both sides know.
//! Where a register has changed in a way that the code does not show (a signal handler, say), the compressor notices
//! and notes it; both sides then know nothing.

use super::adac::{Adac, AddressCache};
use super::registers::Registers;
use crate::Damage;
use crate::base::{put_groups, take_groups};
use crate::bits::{BitReader, BitWriter};
use crate::notes::{Cursor, put_number};
use backsight_core::Retired;
use backsight_sim::decode::{Op, decode};

/// How addresses that are sent are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As they are.
    Plain,
    /// The difference from the one before, in groups of six bits.
    Nexus,
    /// Through a cache of recent ones.
    Adac(Adac),
}

/// How the trace is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Addresses that the other side can work out are left out.
    pub filtered: bool,
    /// How the others are written.
    pub packing: Packing,
    /// Bits of an address.
    pub address_bits: u32,
}

impl Addresses {
    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        if let Packing::Adac(build) = self.packing {
            build.check()?;
            if build.address_bits != self.address_bits {
                return Err("cache and trace have addresses of the same size");
            }
        }
        crate::check_address_bits(self.address_bits)
    }
}

/// The instruction, taken apart.
pub(crate) fn op_of(retired: &Retired) -> Op {
    decode(retired.opcode as u16, (retired.opcode >> 16) as u16)
}

/// What both sides keep.
#[derive(Clone, Debug)]
struct State {
    build: Addresses,
    registers: Registers,
    before: u64,
    cache: Option<AddressCache>,
}

impl State {
    fn new(build: Addresses) -> Self {
        let cache = match build.packing {
            Packing::Adac(adac) => Some(AddressCache::new(adac)),
            _ => None,
        };
        Self { build, registers: Registers::default(), before: 0, cache }
    }

    /// The address that the debugger works out itself.
    fn known(&self, base: u8, offset: u64) -> Option<u64> {
        let base = if self.build.filtered { self.registers.get(base) } else { None };
        base.map(|base| base.wrapping_add(offset) & self.mask())
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.build.address_bits)
    }

    /// A register got a value that is sent otherwise.
    fn know(&mut self, register: u8, value: Option<u64>) {
        if value.is_some() {
            self.registers.set(register, value);
        }
    }

    /// The instruction is done; what it refers to was sent or known.
    fn done(&mut self, op: &Op, retired: &Retired, reference: Option<(u8, u64, u64)>) {
        if let Some((base, offset, address)) = reference {
            self.registers.set(base, Some(address.wrapping_sub(offset)));
            self.before = address;
        }
        self.registers.execute(op, retired.address.0);
    }
}

/// Compresses.
#[derive(Clone, Debug)]
pub struct AddressCompressor {
    state: State,
    out: BitWriter,
    /// Instructions since the last time that everything was forgotten.
    since: u64,
    forgotten: Vec<u8>,
    /// Registers may have changed since the last instruction.
    changed: bool,
    /// References to memory.
    pub references: u64,
    /// Those whose address was left out.
    pub filtered: u64,
}

impl AddressCompressor {
    /// Nothing known.
    pub fn new(build: Addresses) -> Self {
        Self {
            state: State::new(build),
            out: BitWriter::default(),
            since: 0,
            forgotten: Vec::new(),
            changed: false,
            references: 0,
            filtered: 0,
        }
    }

    /// An instruction retired; `address` is what it refers to, if it refers to memory.
    pub fn push(&mut self, retired: &Retired, address: Option<u64>) {
        self.push_op(&op_of(retired), retired, address);
    }

    /// [`push`](Self::push) of an instruction that was taken apart already.
    pub(super) fn push_op(&mut self, op: &Op, retired: &Retired, address: Option<u64>) {
        let reference = Registers::reference(op);
        self.since += 1;
        if std::mem::take(&mut self.changed) {
            self.forget_here();
        }
        let Some(((base, offset), address)) = reference.zip(address) else {
            // An SC that failed refers to memory but does not access it.
            self.state.done(op, retired, None);
            return;
        };
        self.references += 1;
        let address = address & self.state.mask();
        if self.state.known(base, offset).is_some_and(|known| known != address) {
            self.forget_here();
        }
        if self.state.known(base, offset).is_some() {
            self.filtered += 1;
        } else {
            match &mut self.state.cache {
                Some(cache) => cache.put(&mut self.out, retired.address.0, address),
                None if self.state.build.packing == Packing::Nexus => {
                    put_groups(&mut self.out, address ^ self.state.before);
                }
                None => self.out.put(address, self.state.build.address_bits),
            }
        }
        self.state.done(op, retired, Some((base, offset, address)));
    }

    /// A register got this value by what is sent otherwise: the other side knows it too.
    pub(super) fn know(&mut self, register: u8, value: Option<u64>) {
        self.state.know(register, value);
    }

    /// What is in a register, if the other side knows it.
    pub(super) fn register(&self, register: u8) -> Option<u64> {
        self.state.registers.get(register)
    }

    /// Registers may have changed: a trap, a gap, another thread.
    pub fn forget(&mut self) {
        self.changed = true;
    }

    /// Before the instruction at hand nothing is known.
    fn forget_here(&mut self) {
        put_number(&mut self.forgotten, self.since);
        self.since = 0;
        self.state.registers.forget();
    }

    /// Bits written so far.
    pub fn bits(&self) -> u64 {
        self.out.len() + self.forgotten.len() as u64 * 8
    }

    /// The cache, where there is one.
    pub fn cache(&self) -> Option<&AddressCache> {
        self.state.cache.as_ref()
    }

    /// What was written since the last time: when everything was forgotten, and the addresses with their number of bits.
    /// What is known stays known.
    pub fn take(&mut self) -> (Vec<u8>, Vec<u8>, u64) {
        let (bytes, bits) = self.out.take();
        self.since = 0;
        (std::mem::take(&mut self.forgotten), bytes, bits)
    }
}

/// Decompresses, given the instructions.
#[derive(Clone, Debug)]
pub struct AddressDecompressor<'a> {
    state: State,
    bits: BitReader<'a>,
    forgotten: Cursor<'a>,
    until: Option<u64>,
}

impl<'a> AddressDecompressor<'a> {
    /// Nothing known, and nothing to read yet.
    pub fn new(build: Addresses) -> Self {
        Self {
            state: State::new(build),
            bits: BitReader::new(&[], 0),
            forgotten: Cursor::new(&[]),
            until: None,
        }
    }

    /// Goes on with what an [`AddressCompressor`] of the same build gave next.
    pub fn next_part<'b>(
        self,
        forgotten: &'b [u8],
        bytes: &'b [u8],
        bits: u64,
    ) -> Result<AddressDecompressor<'b>, Damage> {
        let bits = BitReader::new(bytes, bits);
        let forgotten = Cursor::new(forgotten);
        let mut new = AddressDecompressor { state: self.state, bits, forgotten, until: None };
        new.step()?;
        Ok(new)
    }

    /// Everything was read.
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty() && self.until.is_none()
    }

    /// A register got this value by what is sent otherwise.
    pub(super) fn know(&mut self, register: u8, value: Option<u64>) {
        self.state.know(register, value);
    }

    /// What is in a register, if it is known.
    pub(super) fn register(&self, register: u8) -> Option<u64> {
        self.state.registers.get(register)
    }

    fn step(&mut self) -> Result<(), Damage> {
        self.until = if self.forgotten.is_empty() { None } else { Some(self.forgotten.number()?) };
        Ok(())
    }

    /// What the next instruction refers to; `accesses` says whether it accessed memory (an SC may not).
    pub fn next(&mut self, retired: &Retired, accesses: bool) -> Result<Option<u64>, Damage> {
        self.next_op(&op_of(retired), retired, accesses)
    }

    /// [`next`](Self::next) of an instruction that was taken apart already.
    pub(super) fn next_op(
        &mut self,
        op: &Op,
        retired: &Retired,
        accesses: bool,
    ) -> Result<Option<u64>, Damage> {
        if let Some(until) = &mut self.until {
            *until = until.wrapping_sub(1);
        }
        while self.until == Some(0) {
            self.state.registers.forget();
            self.step()?;
        }
        let Some((base, offset)) = Registers::reference(op).filter(|_| accesses) else {
            self.state.done(op, retired, None);
            return Ok(None);
        };
        let address = match self.state.known(base, offset) {
            Some(address) => address,
            None => match &mut self.state.cache {
                Some(cache) => cache.take(&mut self.bits, retired.address.0)?,
                None if self.state.build.packing == Packing::Nexus => {
                    take_groups(&mut self.bits)? ^ self.state.before
                }
                None => self.bits.take(self.state.build.address_bits)?,
            },
        };
        self.state.done(op, retired, Some((base, offset, address)));
        Ok(Some(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::{Address, Isa};

    /// Table 5.1, in RV64 instructions: a constant, a load that makes its base known, a sum, a load whose address is
    /// known, a copy of what is not known.
    #[test]
    fn the_worked_example_of_register_validation() {
        let program = [
            (0x0000_0093u32, None),      // li x1, 0
            (0x0051_3283, Some(0x1005)), // ld x5, 5(x2)
            (0x0011_0233, None),         // add x4, x2, x1
            (0x0001_3403, Some(0x1000)), // ld x8, 0(x2)
            (0x0003_8113, None),         // mv x2, x7
        ];
        let build = Addresses { filtered: true, packing: Packing::Plain, address_bits: 32 };
        let mut compressor = AddressCompressor::new(build);
        let mut sent = Vec::new();
        let mut valid = Vec::new();
        for (n, &(opcode, address)) in program.iter().enumerate() {
            let at = Address(0x100 + 4 * n as u64);
            let retired = Retired {
                address: at,
                next: at.plus(4),
                cycle: 0,
                opcode,
                size: 4,
                isa: Isa::Rv64,
                taken: true,
            };
            let before = compressor.bits();
            compressor.push(&retired, address);
            sent.push(compressor.bits() - before);
            valid.push((1..32).filter(|&n| compressor.state.registers.get(n).is_some()).collect::<Vec<_>>());
        }
        assert_eq!(sent, [0, 32, 0, 0, 0]);
        assert_eq!(valid, [vec![1], vec![1, 2], vec![1, 2, 4], vec![1, 2, 4], vec![1, 4]]);
        assert_eq!(compressor.state.registers.get(4), Some(0x1000), "what the debugger works out");
    }
}
