//! RISC-V E-Trace and N-Trace, decoded and encoded.
//!
//! A hart tells a trace encoder what it retires; the encoder sends only what a reader of the program could not
//! know: outcomes of branches, targets of uninferable jumps, traps. [`etrace`] holds the packets of Efficient
//! Trace both ways and the encoder itself, [`encap`] the framings that carry packets, [`ingress`] the interface
//! between hart and encoder and the ways to it from commit logs, [`retire`] the cycles of harts that retire several
//! instructions in one.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod encap;
mod encoding;
pub mod etrace;
pub mod filter;
pub mod ingress;
pub mod ntrace;
mod per_source;
pub mod retire;

pub use encoding::BlockEncoder;
pub use per_source::PerSource;
