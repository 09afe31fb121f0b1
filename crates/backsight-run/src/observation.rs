//! What is seen of a program that runs.

use std::path::Path;

use backsight_core::{Address, Execution, RetiredBlocks};

/// What is seen of a program, in the order in which it happens: what it executes, and what happens to the code that
/// it executes and to its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation<'a> {
    /// What the program did. [`Execution::Thread`] says which thread does what follows; threads are numbered from 0
    /// in the order in which they started.
    Execution(Execution),
    /// Blocks of straight-line code that the program executed. Only who asks for
    /// [them](crate::ExecutionSource::run_blocks) gets them; all others get the instructions, one by one.
    Blocks(&'a RetiredBlocks<'a>),
    /// A process begins, and what follows is of it.
    ProcessStarts {
        /// Its number in the operating system.
        pid: u32,
    },
    /// What follows is of this process, which began before.
    Process {
        /// Its number in the operating system.
        pid: u32,
    },
    /// A process is gone, with all that it had.
    ProcessEnds {
        /// Its number in the operating system.
        pid: u32,
    },
    /// A program is gone, with all that it had; another one takes its place, with the number of its process.
    ProcessReplaced {
        /// That number, in the operating system.
        pid: u32,
    },
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
    Map(CodeMap<'a>),
    /// Code is no longer there.
    Unmap {
        /// The first address.
        address: Address,
        /// Number of bytes.
        length: u64,
    },
    /// The program wrote to its standard output or error.
    Output {
        /// 1 output, 2 error.
        stream: u8,
        /// What it wrote.
        bytes: &'a [u8],
    },
    /// Code that may be executed from now on: instructions in memory order.
    Code {
        /// The first address.
        address: Address,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// Memory that was mapped and may hold code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeMap<'a> {
    /// The first address.
    pub address: Address,
    /// Number of bytes.
    pub length: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// The file as the operating system that runs the program knows it; empty for memory of no file.
    pub path: &'a Path,
    /// The program itself, rather than a library.
    pub program: bool,
    /// Mapped writable: data, unless the program changes its own code.
    pub writable: bool,
}
