//! Programs recorded under QEMU.
//!
//! A plugin inside user-mode QEMU writes which blocks of code a program executes, thread by thread
//! (`docs/qemu-stream.md` describes the bytes). [`StreamReader`] turns that into
//! [`Observation`](crate::Observation)s: what was executed, which files were mapped where, what code was in memory. [`run`] starts QEMU and reads
//! while it runs.
//!
//! The view is that of the program, not of the processor: the kernel is not there. What the kernel does in between
//! shows as a [`Trap`](backsight_core::Trap), whose `handler` is the address where the program goes on:
//!
//! - A system call is a retired instruction (SVC, ECALL), and on Arm a trap of type Call after it. The program goes
//!   on after the instruction.
//! - A signal is a trap to its handler: an exception with the faulting instruction as return address, which did
//!   not retire; or an interrupt between two instructions.
//! - Return from a signal handler is a system call whose trap leads to wherever the program was.
//!
//! Each item follows from the one before: a trap's `handler` is the address of the next instruction or the
//! `return_address` of the next trap.

mod block;
mod driver;
mod emulated;
mod follow;
mod reader;
mod rendezvous;
mod streams;
#[cfg(test)]
mod tests;
mod tools;

use std::fmt;

pub use driver::{EmulationOptions, Outcome, run};
pub use emulated::EmulatedProgram;
pub use reader::{StreamReader, Summary};
pub use tools::{QemuError, Tools};

/// The stream is not what the plugin writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// Offset of the chunk in the stream.
    pub offset: u64,
    /// What is wrong.
    pub what: Damage,
}

/// What can be wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It does not begin with the header that the plugin writes.
    Header,
    /// A target that is not known.
    Target(u8),
    /// A chunk longer than chunks can be.
    ChunkLength(u32),
    /// A chunk does not continue its source: bytes are missing or repeated.
    Position,
    /// More threads than the reader keeps apart.
    Threads,
    /// More processes at a time than this.
    Processes(u32),
    /// A definition is malformed or out of order.
    Definition,
    /// More code than the reader keeps.
    CodeSize,
    /// A block that was not defined.
    Block(u32),
    /// An event of an unknown kind.
    Event(u32),
    /// An event is cut off, or makes no sense where it is.
    EventContents(u32),
    /// A tail file that is not one.
    Tail,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Damage::Processes(most) = self.what {
            return write!(f, "more than {most} processes at a time");
        }
        write!(f, "chunk at offset {:#x}: ", self.offset)?;
        match self.what {
            Damage::Processes(_) => Ok(()),
            Damage::Header => f.write_str("not a stream of the QEMU plugin (expected BSQEMU, version 1)"),
            Damage::Target(target) => write!(f, "unknown target {target} (expected 1, 2 or 3)"),
            Damage::ChunkLength(length) => write!(f, "{length} bytes (expected at most 65536)"),
            Damage::Position => f.write_str("does not continue the chunk before of the same source"),
            Damage::Threads => f.write_str("too many threads"),
            Damage::Definition => f.write_str("malformed definition of a block"),
            Damage::CodeSize => f.write_str("too much code"),
            Damage::Block(number) => write!(f, "block {number} was not defined"),
            Damage::Event(kind) => write!(f, "unknown event {kind}"),
            Damage::EventContents(kind) => write!(f, "malformed event {kind}"),
            Damage::Tail => f.write_str("not a tail file of the QEMU plugin"),
        }
    }
}

impl std::error::Error for StreamError {}
