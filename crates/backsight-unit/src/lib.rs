//! Trace units in software: executed instructions in, trace bytes out.
//!
//! A hardware trace unit watches a processor and writes as little as a decoder with the program at hand can do
//! with. The units here do the same from a stream of [`Execution`](backsight_core::Execution) items, whatever
//! made it: a simulator, QEMU, a log. They serve to try the toolkit without hardware, and to check every decoder
//! against the truth.
//!
//! # What is where
//!
//! Trace units in software, executed instructions → packets → bytes: `etm4/` ETMv4 and ETE, `ptm/` and `etm3/` with data
//! trace on `etm/`, `etrace/`, `ntrace/`, `cva6/` (the encoder of a thesis, with its citation); `riscv/` what those for RISC-V share:
//! filters, harts that retire several instructions in a cycle, resynchronisation; `funnel` several units into one stream.

#![forbid(unsafe_code)]

pub mod cva6;
pub mod etm;
pub mod etm3;
pub mod etm4;
pub mod etrace;
mod funnel;
pub mod model;
pub mod ntrace;
pub mod ptm;
pub mod riscv;
mod system;

pub use funnel::Funnel;
pub use system::{System, SystemError};
