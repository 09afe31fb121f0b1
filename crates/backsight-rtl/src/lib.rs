//! Trace hardware in SystemVerilog.
//!
//! The decoders of this project go by tables: which header introduces which packet, what a payload is made of. The
//! hardware here is written from the same tables, so that both say the same, and is simulated beside the software to
//! show that they do. Modules are templates in plain SystemVerilog (the subset that Verilator, Icarus Verilog and
//! Yosys all take); what depends on a table or on a configuration is written by [`etm4`] and [`etrace`];
//! [`lab`] measures what it costs.
//!
//! # What is where
//!
//! Hardware in SystemVerilog: `etm4/` a decoder of 1 to 16 bytes a cycle, as a chain or by parallel prefixes, its header
//! map written from that of `backsight-arm`; `etrace/` an encoder with its CPU connector, from the configuration of the
//! software's unit; `ecp5` how designs come to an open device, for their Makefiles and for `lab/`: synthesis, place and
//! route of the variants; tests simulate both beside the software. After `backsight-unit`.

#![forbid(unsafe_code)]

mod ecp5;
pub mod etm4;
pub mod etrace;
pub mod lab;

/// One file of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name, without a folder.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}
