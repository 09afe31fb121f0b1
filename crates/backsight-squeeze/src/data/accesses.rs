//! Loads and stores in a container: what the debugger cannot work out itself.
//!
//! Values of loads are sent, so that registers they are loaded to are known: most addresses and most stored values follow,
//! as far as integer registers go. What is left of the addresses goes through a cache ([`super::adac`]), what is left of
//! the values is compared with a dedicated cache ([`super::values`]).
//!
//! This is for accesses as RV64 instructions make them: the opcode says how many there are, and their sizes. Any others
//! stay [notes](crate::notes). Nothing is written, and no instruction is looked at, before the first access of a trace.
//!
//! ```text
//! part       instructions before the first that counts, length and bytes of runs, length and bytes of resets,
//!            bits and bytes of addresses, bits and bytes of values
//! runs       instructions that refer to memory: how many have the accesses that they should, how many others, again
//! resets     instructions from one to the next at which no register is known
//! store      1 the value is that of the register; 0 value. Of a register that is not known, only the value
//! ```

use super::adac::Adac;
use super::addresses::{AddressCompressor, AddressDecompressor, Addresses, Packing, op_of};
use super::values::{ValueCache, ValueCompressor, ValueDecompressor};
use crate::Damage;
use crate::notes::{Cursor, put_number};
use backsight_core::{Access, Execution, Isa, Retired};
use backsight_sim::decode::{Kind, Op};
use std::fmt;

/// How accesses are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataScheme {
    /// Sets of the cache of addresses, four entries each.
    pub sets: u32,
    /// Bytes of the cache of values, four lines a set.
    pub cache: u32,
    /// What can be executed again from its load values is: nothing else of it is written. See [`super::unified`].
    pub replay: bool,
}

impl Default for DataScheme {
    fn default() -> Self {
        Self { sets: 128, cache: 64 << 10, replay: false }
    }
}

impl DataScheme {
    /// Reads `sets=128,cache=65536,replay=1`; what is not named is as by default.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut scheme = Self::default();
        for change in text.split(',').filter(|change| !change.is_empty()) {
            let (name, value) = change.split_once('=').ok_or("expected NAME=VALUE")?;
            let value = value.parse().map_err(|_| "expected a number")?;
            match name {
                "sets" => scheme.sets = value,
                "cache" => scheme.cache = value,
                "replay" if value <= 1 => scheme.replay = value == 1,
                "replay" => return Err("`replay` is 0 or 1"),
                _ => return Err("there are `sets`, `cache` and `replay`"),
            }
        }
        scheme.check()?;
        Ok(scheme)
    }

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        self.addresses().check()?;
        self.values().check()
    }

    fn addresses(&self) -> Addresses {
        Addresses { filtered: true, packing: Packing::Adac(Adac::adaptive(self.sets)), address_bits: 64 }
    }

    /// The cache of values.
    pub fn values(&self) -> ValueCache {
        ValueCache::dedicated(self.cache)
    }
}

impl fmt::Display for DataScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sets={},cache={}", self.sets, self.cache)?;
        if self.replay { f.write_str(",replay=1") } else { Ok(()) }
    }
}

/// The accesses that an instruction should have.
#[derive(Clone, Copy, Debug)]
struct Expected {
    size: u8,
    load: bool,
    store: bool,
}

impl Expected {
    fn of(op: &Op) -> Option<Self> {
        use Kind::*;
        let load = |size| Some(Self { size, load: true, store: false });
        let store = |size| Some(Self { size, load: false, store: true });
        match op.kind {
            Lb | Lbu => load(1),
            Lh | Lhu => load(2),
            Lw | Lwu | Flw => load(4),
            Ld | Fld => load(8),
            Sb => store(1),
            Sh => store(2),
            Sw | Fsw => store(4),
            Sd | Fsd => store(8),
            Atomic => {
                let size = if op.opcode >> 12 & 7 == 2 { 4 } else { 8 };
                match op.opcode >> 27 {
                    LOAD_RESERVED => load(size),
                    STORE_CONDITIONAL => store(size),
                    _ => Some(Self { size, load: true, store: true }),
                }
            }
            _ => None,
        }
    }

    fn fits(self, accesses: &[Access]) -> bool {
        let fits = |access: &Access, store| {
            let bits = 8 * u32::from(self.size);
            access.store == store
                && access.known
                && access.size == self.size
                && (bits == 64 || access.value >> bits == 0)
        };
        match accesses {
            [only] => self.load != self.store && fits(only, self.store),
            [first, second] => {
                self.load
                    && self.store
                    && fits(first, false)
                    && fits(second, true)
                    && first.address == second.address
            }
            _ => false,
        }
    }
}

/// Upper bits of the opcodes of LR and SC.
const LOAD_RESERVED: u32 = 2;
const STORE_CONDITIONAL: u32 = 3;

/// What a load leaves in its integer register.
fn loaded(op: &Op, value: u64) -> Option<u64> {
    match op.kind {
        Kind::Lb => Some(value as i8 as u64),
        Kind::Lh => Some(value as i16 as u64),
        Kind::Lw => Some(value as i32 as u64),
        Kind::Atomic if op.opcode >> 12 & 7 == 2 => Some(value as i32 as u64),
        Kind::Lbu | Kind::Lhu | Kind::Lwu | Kind::Ld | Kind::Atomic => Some(value),
        _ => None,
    }
}

/// The register that a plain store stores.
fn stored(op: &Op) -> Option<u8> {
    matches!(op.kind, Kind::Sb | Kind::Sh | Kind::Sw | Kind::Sd).then_some(op.rs2)
}

/// Most accesses of an instruction.
const MOST: usize = 2;

/// Packs accesses.
#[derive(Clone, Debug)]
pub struct AccessWriter {
    addresses: AddressCompressor,
    values: ValueCompressor,
    /// Instructions of this part before the first that counts, if one did.
    from: Option<u64>,
    /// Accesses were seen.
    active: bool,
    current: Option<Retired>,
    held: Vec<Access>,
    runs: Vec<u8>,
    run: u64,
    /// The run is of instructions that have the accesses that they should.
    regular: bool,
}

impl AccessWriter {
    /// Nothing seen; the scheme must pass its check.
    pub fn new(scheme: DataScheme) -> Self {
        Self {
            addresses: AddressCompressor::new(scheme.addresses()),
            values: ValueCompressor::new(scheme.values()),
            from: None,
            active: false,
            current: None,
            held: Vec::new(),
            runs: Vec::new(),
            run: 0,
            regular: true,
        }
    }

    /// Is there anything to do?
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// The first access was seen after this many instructions: the next instruction counts.
    pub fn activate(&mut self, instructions: u64) {
        self.active = true;
        self.from = Some(instructions);
    }

    /// An instruction retired; the one before has [ended](Self::end).
    pub fn begin(&mut self, retired: &Retired) {
        self.current = Some(*retired);
    }

    /// Keeps an access of the instruction at hand; `false` if it has none, or too many.
    pub fn hold(&mut self, access: &Access) -> bool {
        let room = self.current.is_some() && self.held.len() < MOST;
        if room {
            self.held.push(*access);
        }
        room
    }

    /// The instruction at hand has no more accesses. Gives those that are to be noted.
    pub fn end(&mut self) -> Vec<Access> {
        let Some(retired) = self.current.take() else { return Vec::new() };
        let accesses = std::mem::take(&mut self.held);
        let op = op_of(&retired);
        let expected = if retired.isa == Isa::Rv64 { Expected::of(&op) } else { None };
        let Some(expected) = expected else {
            self.addresses.push_op(&op, &retired, None);
            return accesses;
        };
        let regular = expected.fits(&accesses);
        if regular != self.regular {
            put_number(&mut self.runs, self.run);
            self.run = 0;
            self.regular = regular;
        }
        self.run += 1;
        if !regular {
            self.addresses.push_op(&op, &retired, None);
            return accesses;
        }
        let address = accesses[0].address.0;
        self.addresses.push_op(&op, &retired, Some(address));
        if expected.load {
            let value = accesses[0].value;
            self.values.load(address, expected.size, value);
            self.addresses.know(op.rd, loaded(&op, value));
        }
        if expected.store {
            let known = stored(&op).and_then(|register| self.addresses.register(register));
            self.values.store_sent(address, expected.size, accesses[accesses.len() - 1].value, known);
        }
        Vec::new()
    }

    /// Bytes that wait, roughly.
    pub fn len(&self) -> usize {
        self.runs.len() + ((self.addresses.bits() + self.values.bits()) / 8) as usize
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part so far. The instruction at hand has ended.
    pub fn take(&mut self) -> Vec<u8> {
        let mut part = Vec::new();
        let Some(from) = self.from else { return part };
        put_number(&mut part, from);
        let runs = std::mem::take(&mut self.runs);
        let (resets, addresses, address_bits) = self.addresses.take();
        let (values, value_bits) = self.values.take();
        for (number, bytes) in [
            (runs.len() as u64, runs),
            (resets.len() as u64, resets),
            (address_bits, addresses),
            (value_bits, values),
        ] {
            put_number(&mut part, number);
            part.extend(bytes);
        }
        self.run = 0;
        self.regular = true;
        self.from = Some(0);
        part
    }
}

/// Unpacks accesses.
#[derive(Clone, Debug)]
pub struct AccessReader {
    addresses: AddressDecompressor<'static>,
    values: ValueDecompressor<'static>,
}

impl AccessReader {
    /// Nothing seen; the scheme must pass its check.
    pub fn new(scheme: DataScheme) -> Self {
        Self {
            addresses: AddressDecompressor::new(scheme.addresses()),
            values: ValueDecompressor::new(scheme.values(), &[], 0),
        }
    }

    /// Begins with what [`AccessWriter::take`] gave; `None` if that has no accesses.
    pub fn begin<'a>(&self, part: &'a [u8]) -> Result<Option<AccessesOfChunk<'a>>, Damage> {
        if part.is_empty() {
            return Ok(None);
        }
        let mut part = Cursor::new(part);
        let from = part.number()?;
        let length = part.number()?;
        let runs = Cursor::new(part.slice(length)?);
        let length = part.number()?;
        let resets = part.slice(length)?;
        let address_bits = part.number()?;
        let addresses = part.slice(address_bits.div_ceil(8))?;
        let value_bits = part.number()?;
        let values = part.slice(value_bits.div_ceil(8))?;
        if !part.is_empty() {
            return Err(Damage::Record("more data than there should be"));
        }
        let mut accesses = AccessesOfChunk {
            addresses: self.addresses.clone().next_part(resets, addresses, address_bits)?,
            values: self.values.clone().next_part(values, value_bits),
            until: from,
            runs,
            run: None,
            regular: true,
        };
        accesses.run = accesses.next_run()?;
        Ok(Some(accesses))
    }

    /// Ends a part: all of it must have been used.
    pub fn end(&mut self, accesses: AccessesOfChunk<'_>) -> Result<(), Damage> {
        if !accesses.addresses.is_empty() || !accesses.values.is_empty() || accesses.run.is_some() {
            return Err(Damage::Record("accesses of instructions that are not there"));
        }
        self.addresses = accesses.addresses.next_part(&[], &[], 0)?;
        self.values = accesses.values.next_part(&[], 0);
        Ok(())
    }
}

/// The accesses of one chunk.
pub struct AccessesOfChunk<'a> {
    addresses: AddressDecompressor<'a>,
    values: ValueDecompressor<'a>,
    /// Instructions before the first that counts.
    until: u64,
    runs: Cursor<'a>,
    /// What is left of this run; `None` if it is the last one.
    run: Option<u64>,
    regular: bool,
}

impl AccessesOfChunk<'_> {
    fn next_run(&mut self) -> Result<Option<u64>, Damage> {
        if self.runs.is_empty() { Ok(None) } else { self.runs.number().map(Some) }
    }

    /// Gives the accesses of the instruction that retired.
    pub fn after(&mut self, retired: &Retired, sink: &mut impl FnMut(Execution)) -> Result<(), Damage> {
        if self.until > 0 {
            self.until -= 1;
            return Ok(());
        }
        let op = op_of(retired);
        let expected = if retired.isa == Isa::Rv64 { Expected::of(&op) } else { None };
        let Some(expected) = expected else {
            return self.addresses.next_op(&op, retired, false).map(drop);
        };
        while self.run == Some(0) {
            self.run = self.next_run()?;
            self.regular = !self.regular;
        }
        self.run = self.run.map(|run| run - 1);
        let Some(address) = self.addresses.next_op(&op, retired, self.regular)? else { return Ok(()) };
        let mut give = |value, store| {
            let access = Access {
                address: backsight_core::Address(address),
                value,
                size: expected.size,
                store,
                known: true,
            };
            sink(Execution::Access(access));
        };
        if expected.load {
            let value = self.values.load(address, expected.size)?;
            self.addresses.know(op.rd, loaded(&op, value));
            give(value, false);
        }
        if expected.store {
            let known = stored(&op).and_then(|register| self.addresses.register(register));
            give(self.values.store_sent(address, expected.size, known)?, true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_as_it_is_written() {
        let small = DataScheme { sets: 16, cache: 8192, replay: false };
        assert_eq!(DataScheme::parse(&small.to_string()), Ok(small));
        assert_eq!(DataScheme::parse(""), Ok(DataScheme::default()));
        assert!(DataScheme::parse("sets=3").is_err() && DataScheme::parse("size=3").is_err());
    }
}
