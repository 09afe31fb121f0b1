//! Blocks: straight code with one branch at its end, as compressors take them; paths, as decompressors give them.

use crate::Damage;
use crate::code::{Code, Kind};

/// Instructions at consecutive addresses that were executed. Only the last one may be a branch. Longer straight pieces
/// may come as several blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address of the first instruction.
    pub start: u64,
    /// Address of the last instruction.
    pub last: u64,
    /// The address after the last instruction.
    pub end: u64,
    /// Where the program goes on by what the last instruction does. A conditional branch to the following instruction
    /// counts as not taken.
    pub next: u64,
    /// Number of instructions, at least 1.
    pub count: u32,
    /// What the last instruction does to control flow.
    pub kind: Kind,
    /// It is a conditional branch that was taken.
    pub taken: bool,
    /// It does not begin where the block before went: it is the first, an exception was taken, or execution was not
    /// observed for a while.
    pub fresh: bool,
}

/// Instructions at consecutive addresses, as a decompressor gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Address of the first one.
    pub start: u64,
    /// How many.
    pub count: u32,
}

/// What a compressor wrote since it was asked last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The bytes; the last one is filled up with zeros.
    pub bytes: Vec<u8>,
    /// Bits that mean something.
    pub bits: u64,
    /// Instructions that they stand for.
    pub instructions: u64,
}

/// Bits of one kind of record, and how many of those there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// What the records stand for.
    pub name: &'static str,
    /// Number of events.
    pub events: u64,
    /// Their bits.
    pub bits: u64,
}

impl Share {
    /// Nothing of that name yet.
    pub const fn new(name: &'static str) -> Self {
        Self { name, events: 0, bits: 0 }
    }

    /// One more event of this many bits.
    #[inline]
    pub fn add(&mut self, bits: u64) {
        self.events += 1;
        self.bits += bits;
    }
}

/// From blocks to records.
pub trait Compressor {
    /// Takes the next block.
    fn push(&mut self, block: &Block, code: &mut Code);

    /// Gives the records of all blocks so far that were not given yet. Tables stay as they are.
    fn flush(&mut self, code: &mut Code) -> Records;

    /// Bits that wait for [`flush`](Self::flush), roughly.
    fn waiting(&self) -> u64;

    /// What the bits written so far are for.
    fn shares(&self) -> Vec<Share>;
}

/// From records to paths.
pub trait Decompressor {
    /// Takes the records of one flush, and gives what was executed in paths (and lends the code). What comes before damage is right, as far
    /// as can be told.
    fn unpack(
        &mut self,
        records: &Records,
        code: &mut Code,
        sink: &mut impl FnMut(Path, &mut Code),
    ) -> Result<(), Damage>;
}
