//! Retired instructions in a file: the truth beside a trace.
//!
//! Writer and reader keep the same table of instructions seen so far, each with where it went the last time.
//! An instruction that does again what it did the last time costs nothing but its share of a run length; a branch
//! that goes the other way costs a byte; an opcode is written when its instruction is first seen. The table
//! has a fixed size, so that neither side needs more memory for a longer run. The format is described in
//! `docs/retired-stream.md`.
//!
//! Straight-line code that the table knows always costs the same. Both sides remember such code, so that they need not
//! look at the table for each of its instructions, but only for where a block leads: the writer where it is given
//! [blocks](RetiredWriter::push_block), the reader wherever code comes again.
//!
//! ```
//! use backsight_run::retired::{RetiredReader, RetiredWriter};
//! use backsight_core::{Execution, Isa};
//!
//! let mut writer = RetiredWriter::new(Vec::new(), Isa::Rv64)?;
//! writer.push(&Execution::Gap)?;
//! let file = writer.finish()?;
//! let mut items = Vec::new();
//! RetiredReader::new(&file[..])?.read(&mut |item| items.push(item))?;
//! assert_eq!(items, [Execution::Gap]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
mod error;
mod item;
mod read;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod write;

pub use error::RetiredError;
pub use read::RetiredReader;
pub use write::RetiredWriter;

use backsight_core::Isa;

/// Does a file that begins so hold retired instructions?
pub fn is_retired(begin: &[u8]) -> bool {
    begin.starts_with(&MAGIC)
}

const MAGIC: [u8; 8] = *b"BSRETIRE";
const VERSION: u16 = 1;
/// log2 of the number of instructions in the table that a writer uses.
const TABLE_BITS: u8 = 16;
/// The largest table that a reader makes.
const MOST_TABLE_BITS: u8 = 20;
/// The longest run of one token: what a short file can make of itself has a limit.
const LONGEST_RUN: u32 = 4096;

/// What comes after a run: the low three bits of a token.
mod kind {
    pub const RUN: u8 = 0;
    pub const FLIP: u8 = 1;
    pub const ELSEWHERE: u8 = 2;
    pub const FULL: u8 = 3;
    pub const AT: u8 = 4;
    pub const ACCESS: u8 = 5;
    pub const CYCLE: u8 = 6;
    pub const OTHER: u8 = 7;
}

/// What follows a token of kind OTHER.
mod other {
    pub const END: u8 = 0;
    pub const THREAD: u8 = 1;
    pub const CONTEXT: u8 = 2;
    pub const TRAP: u8 = 3;
    pub const GAP: u8 = 4;
    pub const INPUT: u8 = 5;
}

/// Puts small numbers of either sign first: 0, -1, 1, -2, …
fn zigzag(value: u64) -> u64 {
    value << 1 ^ (value as i64 >> 63) as u64
}

fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

fn isa_number(isa: Isa) -> u8 {
    isa as u8
}

fn isa_from_number(number: u8) -> Option<Isa> {
    [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64].into_iter().find(|&isa| isa_number(isa) == number)
}

/// A checksum of all bytes before the end (FNV-1a, 64 bits).
#[derive(Clone, Copy)]
struct Checksum(u64);

impl Checksum {
    const NEW: Self = Self(0xCBF2_9CE4_8422_2325);

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}
