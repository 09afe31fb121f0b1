//! Words that every part of Backsight shares.
//!
//! Data flows one way: bytes of a capture become packets, packets become execution; and back: executed
//! instructions become packets, packets become bytes. The types here are what crosses those borders.
//! They are plain values, `Copy` and small, so that they can be stored, compared, generated and sent
//! between threads. The crate has no dependencies and needs no allocator.
//!
//! # What is where
//!
//! The words that everyone shares: `Address`, `TraceId`, `Isa`, `Context` and `Cause` in the terms of each architecture,
//! `AddressSpace`, `Located<T>`, `Accounting`; `Resume`: decoders that are left and taken up again; `Describe`: a packet or an
//! event gives its fields once, for text, JSON and tables; `Execution` and `Retired`, what a processor did; `Printable`: names
//! with what is harmful made visible; `leb128`: numbers in few bytes; `Budget` and `Door`: how much memory and work an input may
//! ask for, one table for all. No dependencies, `no_std`.

#![no_std]
#![forbid(unsafe_code)]

mod address;
mod block;
// Processors without atomic words of this size open no files.
#[cfg(target_has_atomic = "64")]
mod budget;
mod context;
pub mod describe;
mod exception;
pub mod leb128;
mod located;
mod printable;
mod resume;
mod retired;

pub use address::{Address, Isa, TraceId};
pub use block::{BlockCode, BlockStep, EachItem, ExecutionSink, RetiredBlock, RetiredBlocks};
#[cfg(target_has_atomic = "64")]
pub use budget::{Budget, Door, Exceeded};
pub use context::{AddressSpace, Context, Mode, Privilege, Security};
pub use describe::{Describe, Field, Text, Value};
pub use exception::Cause;
pub use located::{Accounting, Located};
pub use printable::{Printable, is_harmful};
pub use resume::Resume;
pub use retired::{Access, Execution, Input, Retired, Trap, TrapKind};
