//! What an instruction does to control flow: A64, A32, T32, RISC-V.
//!
//! A decoder follows a program by reading its code: it needs to know where the next instruction that the trace
//! speaks about is, and what it does. Nothing here disassembles; the tables hold only what changes the flow.
//!
//! # What is where
//!
//! `a64`, `a32`, `t32`, `rv`: what an opcode does to control flow. `no_std`.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod a32;
pub mod a64;
mod classify;
mod instruction;
pub mod rv;
pub mod t32;
pub mod table;
mod transfers;

pub use classify::{classify, classify_retired};
pub use instruction::*;
pub use transfers::{TransferKind, Transfers, transfers};
