//! Compressors for program traces, exactly reversible, and what they are compared with.
//!
//! A trace module that sends every executed instruction through a pin or two must leave out nearly all of it. The
//! schemes here do so with tables of a few thousand gates: the debugger at the other end has the program's code and
//! keeps the same tables, so that most events cost a bit or nothing. Each scheme is a file with its compressor and
//! its decompressor side by side; what they share (a table that moves to the front, a counter of runs, a branch
//! predictor) is a small object of its own.
//!
//! ```text
//!  Execution ──► Splitter ──► blocks ──► Compressor ──► records ──► Decompressor ──► paths ──► Expander ──► Execution
//!                        └──► notes (all that does not follow from code and records) ────────────────┘
//! ```
//!
//! Everything is integer arithmetic, and every structure has a fixed size: memory does not grow with the trace.
//!
//! # What is where
//!
//! Research compressors over executed instructions, each with its decompressor: `dmtf`, `sdc`, `tmbp`, `mix` and what they
//! are measured against; `container` their file; `data/` data addresses, load values, replay, and `unified`: parts that are
//! executed again from their load values; `lab/` many schemes over many programs.

#![forbid(unsafe_code)]

pub mod base;
pub mod bits;
pub mod block;
pub mod code;
pub mod container;
pub mod cycles;
mod damage;
pub mod data;
pub mod descriptor;
pub mod dmtf;
pub mod expand;
pub mod general;
pub mod lab;
pub mod lz;
pub mod mix;
pub mod mtf;
pub mod notes;
pub mod pack;
pub mod parameters;
pub mod predictors;
pub mod program;
pub mod runs;
pub mod scheme;
pub mod sdc;
pub mod split;
pub mod stream;
pub mod tmbp;

pub use block::{Block, Compressor, Decompressor, Path, Records, Share};
pub use code::{Code, Kind, Section};
pub use damage::Damage;
pub use data::accesses::DataScheme;
pub use pack::{Chunk, Packer, Unpacker};
pub use program::Program;
pub use scheme::{AnyCompressor, AnyDecompressor, PRESETS, Scheme};
pub use split::Unfit;

/// Bits that can count to `entries`.
pub(crate) const fn log2_up(entries: u32) -> u32 {
    entries.next_power_of_two().trailing_zeros()
}

/// Can streams of this length and addresses of this size be described?
pub(crate) fn check_streams(longest: u8, address_bits: u32) -> Result<(), &'static str> {
    if longest == 0 {
        return Err("streams have at least one instruction");
    }
    check_address_bits(address_bits)
}

/// Is this a size of addresses?
pub(crate) fn check_address_bits(address_bits: u32) -> Result<(), &'static str> {
    if (24..=64).contains(&address_bits) { Ok(()) } else { Err("addresses have 24 to 64 bits") }
}

/// The instructions left after those of a stream.
pub(crate) fn count_down(left: u64, length: u8) -> Result<u64, Damage> {
    left.checked_sub(u64::from(length)).ok_or(Damage::Record("more instructions than there should be"))
}
