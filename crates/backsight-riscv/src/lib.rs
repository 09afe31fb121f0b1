//! RISC-V E-Trace and N-Trace, decoded and encoded.
//!
//! A hart reports to its trace encoder what it retires; the encoder sends only what a reader of the program could not
//! know: outcomes of branches, targets of uninferable jumps, traps. [`etrace`] holds the packets of Efficient Trace
//! both ways, [`cva6`] a dialect of them, [`encap`] the framings that carry them, [`ntrace`] Nexus messages both ways, [`ingress`] the interface
//! between hart and encoder and the ways to it from commit logs. What decides which packets to send is in
//! `backsight-unit`, what follows them through code in `backsight-flow`.
//!
//! # What is where
//!
//! `etrace/` E-Trace and `ntrace/` Nexus messages: parameters, packets, decoder (bytes → packets) and encoder (packets →
//! bytes), and what packets say with what came before (`resolve`); `cva6/` what is different in the packets of the encoder
//! for CVA6; `encap/` framings of E-Trace; `ingress/` the interface between hart and trace unit, its connector and commit
//! logs. `no_std`.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod by_number;
pub mod cva6;
pub mod encap;
pub mod etrace;
pub mod ingress;
pub mod ntrace;
mod per_source;

pub use by_number::ByNumber;
pub use per_source::PerSource;
