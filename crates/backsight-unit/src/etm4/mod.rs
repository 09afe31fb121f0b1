//! The ETMv4/ETE trace unit.
//!
//! The unit watches one thread (or core) and writes what a decoder that has the code needs to follow it: an atom for
//! every branch, the targets of indirect branches, exceptions with the address they return to, the context, time and
//! cycles. It is built and programmed by the registers of the hardware ([`Config`](backsight_arm::etm4::Config) for
//! what decoders must know, [`Controls`] for the rest) and a few models of its surroundings: a buffer that can be too
//! small ([`Fifo`]), a front end that guesses ([`FrontEnd`]).
//!
//! ```
//! use backsight_core::{Address, Execution, Isa, Retired};
//! use backsight_unit::etm4::{Unit, UnitConfig};
//!
//! let mut unit = Unit::new(UnitConfig::default())?;
//! let mut bytes = Vec::new();
//! let branch = Retired {
//!     address: Address(0x1000),
//!     next: Address(0x2000),
//!     cycle: 0,
//!     opcode: 0xD61F_0000, // br x0
//!     size: 4,
//!     isa: Isa::A64,
//!     taken: true,
//! };
//! unit.push(Execution::Instruction(branch), &mut bytes);
//! unit.finish(&mut bytes);
//! # assert!(!bytes.is_empty());
//! # Ok::<(), backsight_unit::etm4::UnitError>(())
//! ```
//!
//! # What becomes of a stream of execution
//!
//! | in the stream | in the trace |
//! |---|---|
//! | first instruction, or first after a break | Async and Trace Info where a decoder must begin, Trace On, Address with Context |
//! | P0 instruction | an atom (`E` where `taken`), or a Source Address |
//! | taken indirect branch | its target as an Address before the next element, unless the return stack has it |
//! | `Trap` | Exception with the return address; the form "also the target of the branch before" where no instruction was executed since a branch |
//! | instructions after a `Trap`, above EL0 | Address (with Context where it changed), then atoms |
//! | instructions after a `Trap`, at EL0 | Trace On, Address: exceptions are never taken to EL0, so the handler was not seen |
//! | exception return | `E`, Address (with Context where it changed), and on ETMv4 Exception Return |
//! | `Gap`, or an instruction that does not follow from the one before | Exception "Debug halt" at the place that was reached, Trace On, Address |
//! | filtered out by address, level, start and stop | nothing; the block that began inside is traced to its next P0 instruction |
//! | the buffer is full | nothing; then Overflow, Async, Trace Info, Trace On, Address with Context |
//! | TCOMMIT, `Trap` 0x18 on ETE | Transaction Commit, Transaction Failure |
//!
//! So a user-mode recording, in which a system call is `svc`, a `Trap` with cause 2 whose return address is behind the
//! `svc`, and then whatever the thread executes next, becomes: Exception Call with that return address, Trace On,
//! Address. A decoder gives exactly the instructions of the recording; the kernel is a break in it. A signal is the
//! same with the signal handler as what comes next.
//!
//! A decoder learns nothing of instructions after the last P0 element. Where execution breaks off or ends, a Debug
//! halt, as when a debugger stops the processor, tells how far it went ([`UnitConfig::halt_at_end`]).

mod atoms;
mod block;
mod breaks;
mod classify;
mod clock;
mod context;
mod controls;
mod elements;
mod options;
mod packer;
mod port;
mod position;
mod speculation;
mod stack;
mod unit;
mod view;

pub use controls::Controls;
pub use options::{Timestamps, UnitConfig, UnitError};
pub use port::Fifo;
pub use speculation::FrontEnd;
pub use unit::{Statistics, Unit};
