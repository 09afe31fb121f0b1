//! Trace hardware in SystemVerilog.
//!
//! The decoders of this project go by tables: which header introduces which packet, what a payload is made of. The
//! hardware here is written from the same tables, so that both say the same, and is simulated beside the software to
//! show that they do. Modules are templates in plain SystemVerilog (the subset that Verilator, Icarus Verilog and
//! Yosys all take); what depends on a table or on a configuration is written by [`etm4`] and [`etrace`];
//! [`lab`] measures what it costs.

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
