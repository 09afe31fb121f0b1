//! Walking through code: from an address to the next instruction that the trace speaks about.
//!
//! Trace says only what code cannot: which way branches went. Between two such instructions, the *waypoints*,
//! execution runs straight on, and walking through the code tells what was executed.

use backsight_core::{Address, AddressSpace, Isa};
use backsight_image::Code;
use backsight_isa::{Class, Instruction};

use crate::Range;
use crate::blocks::{Block, BlockReader, Ending, InstructionMap};

/// Which instructions besides branches the trace speaks about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waypoints {
    /// Instruction barriers.
    pub isb: bool,
    /// Data barriers (PTM).
    pub data_barrier: bool,
    /// Instructions that wait.
    pub wait: bool,
    /// Instructions that start a transaction.
    pub transaction_start: bool,
    /// Loads.
    pub load: bool,
    /// Stores.
    pub store: bool,
}

impl Waypoints {
    fn class(&self, class: Class) -> bool {
        match class {
            Class::Other => false,
            Class::DirectBranch | Class::IndirectBranch => true,
            Class::Isb => self.isb,
            Class::DataBarrier => self.data_barrier,
            Class::Wait => self.wait,
            Class::TransactionStart => self.transaction_start,
        }
    }

    fn include(&self, instruction: &Instruction) -> bool {
        self.class(instruction.class)
            || (self.load && instruction.flags.load)
            || (self.store && instruction.flags.store)
    }
}

/// How code is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Where a walk from waypoint to waypoint ends.
    pub waypoints: Waypoints,
    /// The processor has no other instruction set than T32 (M profile).
    pub t32_only: bool,
    /// What an IT instruction makes conditional is marked so in the listing that users of OpenCSD know.
    pub marks_it: bool,
    /// A walk ends after this many instructions.
    pub limit: u32,
}

/// A place to begin a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The first instruction.
    pub address: Address,
    /// The memory to read it from.
    pub space: AddressSpace,
    /// Its instruction set.
    pub isa: Isa,
    /// T32: how many instructions from here on are still inside an IT block.
    pub it: u8,
}

/// How far to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// To the first waypoint, inclusive.
    Waypoint,
    /// To this address, exclusive.
    Address(Address),
    /// So many instructions, but not beyond a branch.
    Count(u32),
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It came where it should.
    Reached,
    /// A branch was in the way ([`Until::Count`]).
    Branch,
    /// The code at its end cannot be read.
    NoMemory,
    /// It became too long.
    Limit,
}

/// The instructions of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// Where it began.
    pub start: Start,
    /// The address after its last instruction.
    pub end: Address,
    /// How many instructions.
    pub instructions: u32,
    /// T32: how many instructions after it are still inside an IT block.
    pub it: u8,
    /// The last instruction. Its class is `Other` unless it is a waypoint.
    pub last: Instruction,
    /// The last instruction is a waypoint.
    pub waypoint: bool,
    /// The first waypoint before the last instruction.
    pub passed: Option<Address>,
    /// The first permanently undefined instruction.
    pub undefined: Option<Address>,
    /// Why it ended.
    pub stop: Stop,
}

impl Walk {
    /// Address of the last instruction.
    pub fn last_address(&self) -> Address {
        within(self.start.isa, Address(self.end.0.wrapping_sub(u64::from(self.last.size))))
    }

    /// As it is reported; `executed` says what the last instruction did.
    pub fn range(&self, executed: bool) -> Range {
        Range {
            start: self.start.address,
            end: self.end,
            instructions: self.instructions,
            isa: self.start.isa,
            class: self.last.class,
            flags: self.last.flags,
            last_size: self.last.size,
            executed,
        }
    }
}

impl BlockReader for Policy {
    fn read(&self, code: &impl Code, start: Start) -> (Block, InstructionMap) {
        let walk = self.walk(code, start, Until::Waypoint);
        let ending = if walk.instructions == 0 { Ending::NoCode } else { Ending::of(&walk.last) };
        let mut block = Block::new(walk.range(true), &walk.last, ending, walk.stop, walk.undefined);
        block.it = walk.it;
        (block, InstructionMap::default())
    }
}

impl Policy {
    /// Walks from `start`.
    pub fn walk(&self, code: &impl Code, start: Start, until: Until) -> Walk {
        let mut reader = CodeReader::new(code, start);
        let mut walk = Walk {
            start,
            end: start.address,
            instructions: 0,
            it: start.it,
            last: Instruction::plain(start.isa, 0),
            waypoint: false,
            passed: None,
            undefined: None,
            stop: Stop::Reached,
        };
        while !walk.there(until) {
            let address = walk.end;
            let classify = |bytes: &[u8]| backsight_isa::classify(start.isa, bytes, address);
            let Some(mut instruction) = reader.read(start.isa, address, classify) else {
                walk.stop = Stop::NoMemory;
                break;
            };
            if walk.instructions == self.limit {
                walk.stop = Stop::Limit;
                break;
            }
            self.adapt(&mut instruction);
            if walk.waypoint {
                walk.passed = walk.passed.or(Some(walk.last_address()));
            }
            walk.waypoint = self.waypoints.include(&instruction);
            instruction.flags.unmarked |= !self.marks_it && walk.it > 0 && !instruction.flags.conditional;
            walk.add(instruction);
            match until {
                Until::Waypoint if walk.waypoint => break,
                Until::Count(_) if instruction.is_branch() => {
                    walk.stop = Stop::Branch;
                    break;
                }
                _ => {}
            }
        }
        walk
    }

    /// What this processor and this trace unit make of an instruction.
    fn adapt(&self, instruction: &mut Instruction) {
        let leaves = instruction.class == Class::DirectBranch && instruction.target_isa != Isa::T32;
        if (self.t32_only && leaves) || !self.waypoints.class(instruction.class) {
            instruction.class = Class::Other;
            instruction.flags.link = false;
        }
    }
}

impl Walk {
    fn there(&self, until: Until) -> bool {
        match until {
            Until::Waypoint => false,
            // Where the address is inside an instruction, that one was interrupted half way: T32 has some.
            Until::Address(address) => {
                address == self.end
                    || (self.instructions > 0
                        && self.end.0.wrapping_sub(address.0) < u64::from(self.last.size))
            }
            Until::Count(count) => self.instructions == count,
        }
    }

    fn add(&mut self, instruction: Instruction) {
        let address = self.end;
        let isa = self.start.isa;
        self.last = instruction;
        self.last.flags.conditional |= self.it > 0;
        self.last.target = within(instruction.target_isa, instruction.target);
        self.it = if instruction.it_count > 0 { instruction.it_count } else { self.it.saturating_sub(1) };
        self.end = within(isa, address.plus(u64::from(instruction.size)));
        self.instructions += 1;
        if instruction.flags.undefined {
            self.undefined = self.undefined.or(Some(address));
        }
    }
}

/// Addresses of 32-bit code wrap at 32 bits.
pub(crate) fn within(isa: Isa, address: Address) -> Address {
    match isa {
        Isa::A64 | Isa::Rv64 => address,
        Isa::A32 | Isa::T32 | Isa::ThumbEe | Isa::Jazelle | Isa::Rv32 => Address(address.0 & 0xFFFF_FFFF),
    }
}

/// Reads code piece by piece; asks for each piece once.
pub(crate) struct CodeReader<'c, C> {
    code: &'c C,
    space: AddressSpace,
    base: Address,
    window: &'c [u8],
}

impl<'c, C: Code> CodeReader<'c, C> {
    /// Reads in the address space of `start`.
    pub fn new(code: &'c C, start: Start) -> Self {
        Self { code, space: start.space, base: Address(0), window: &[] }
    }

    /// What `parse` makes of the bytes at `address`. It is given fewer than there are only where they lie in several
    /// pieces of memory, and then four at most; it says `None` if they are too few.
    pub fn read<T>(&mut self, isa: Isa, address: Address, parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let offset = address.0.wrapping_sub(self.base.0);
        if let Some(bytes) = usize::try_from(offset).ok().and_then(|offset| self.window.get(offset..))
            && let Some(parsed) = parse(bytes)
        {
            return Some(parsed);
        }
        self.window = self.code.bytes_at(self.space, address)?;
        self.base = address;
        parse(self.window).or_else(|| self.read_across(isa, address, parse))
    }

    /// An instruction that begins in one piece of memory and ends in another.
    fn read_across<T>(&self, isa: Isa, address: Address, parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let mut bytes = [0; 4];
        for (count, byte) in bytes.iter_mut().enumerate() {
            let at = within(isa, address.plus(count as u64));
            let Some(piece) = self.code.bytes_at(self.space, at).and_then(|piece| piece.first()) else {
                return parse(&bytes[..count]);
            };
            *byte = *piece;
        }
        parse(&bytes)
    }
}
