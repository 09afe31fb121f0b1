//! Programs recorded under QEMU.
//!
//! A plugin inside user-mode QEMU writes which blocks of code a program executes, thread by thread
//! (`docs/qemu-stream.md` describes the bytes). [`Reader`] turns that into the items of [`Execution`], and
//! tells on the way which files were mapped where and what code was in memory. [`run`] starts QEMU and reads
//! while it runs.
//!
//! The view is that of the program, not of the processor: the kernel is not there. What the kernel does in between
//! shows as a [`Trap`](backsight_core::Trap), whose `handler` is the address where the program goes on:
//!
//! - A system call is a retired instruction (SVC, ECALL), and on Arm a trap of type Call behind it. The program goes
//!   on behind the instruction.
//! - A signal is a trap to its handler: an exception with the faulting instruction as return address, which did
//!   not retire; or an interrupt between two instructions.
//! - Return from a signal handler is a system call whose trap leads to wherever the program was.
//!
//! Each item follows from the one before: a trap's `handler` is the address of the next instruction or the
//! `return_address` of the next trap.

mod block;
#[cfg(unix)]
mod driver;
mod follow;
mod journal;
mod reader;
#[cfg(test)]
mod tests;
mod tools;

use std::fmt;

use backsight_core::{Address, Execution, Isa};

#[cfg(unix)]
pub use driver::{Outcome, RunOptions, run};
pub use journal::Journal;
pub use reader::{Reader, Summary};
pub use tools::{Failure, Tools};

/// What kind of program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// 64-bit Arm.
    Aarch64,
    /// 32-bit Arm, A32 and T32.
    Arm,
    /// 64-bit RISC-V.
    Riscv64,
}

impl Target {
    /// The name that QEMU has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::Arm => "arm",
            Self::Riscv64 => "riscv64",
        }
    }

    /// The target of an ELF file, from its first bytes; `None` if it is no little-endian ELF file of a known machine.
    pub fn of_elf(header: &[u8]) -> Option<Self> {
        let [low, high] = *header.get(18..20)?.first_chunk()?;
        if !header.starts_with(b"\x7FELF") || *header.get(5)? != 1 {
            return None;
        }
        match (u16::from_le_bytes([low, high]), *header.get(4)?) {
            (183, 2) => Some(Self::Aarch64),
            (40, 1) => Some(Self::Arm),
            (243, 2) => Some(Self::Riscv64),
            _ => None,
        }
    }

    /// The instruction set, if there is only one.
    pub(crate) const fn isa(self) -> Option<Isa> {
        match self {
            Self::Aarch64 => Some(Isa::A64),
            Self::Arm => None,
            Self::Riscv64 => Some(Isa::Rv64),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a recording says, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// What the program did. [`Execution::Thread`] says which thread does what follows; threads are numbered from 0
    /// in the order in which they started.
    Execution(Execution),
    /// The first item of a thread, with its number in the operating system.
    ThreadStarts {
        /// Its number in start order.
        thread: u32,
        /// Its number in the operating system.
        tid: u32,
    },
    /// The thread has ended.
    ThreadEnds {
        /// Its number in start order.
        thread: u32,
    },
    /// A file, or memory of no file, was mapped and may hold code.
    Map(Map<'a>),
    /// Code is no longer there.
    Unmap {
        /// The first address.
        address: Address,
        /// Number of bytes.
        length: u64,
    },
    /// Code that was translated, and so may be executed from now on: instructions in memory order.
    Code {
        /// The first address.
        address: Address,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// A mapping that may hold code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map<'a> {
    /// The first address.
    pub address: Address,
    /// Number of bytes.
    pub length: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// The file as the operating system that runs QEMU knows it; empty for memory of no file.
    pub path: &'a str,
    /// The program itself, rather than a library.
    pub program: bool,
    /// Mapped writable: data, unless the program changes its own code.
    pub writable: bool,
}

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
        write!(f, "chunk at offset {:#x}: ", self.offset)?;
        match self.what {
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
