//! Who watches a run, and what there is to see besides the instructions.

use crate::hart::Hart;
use backsight_core::{Address, Execution, RetiredBlocks};

/// Receives what a program does.
///
/// Between them, the functions receive everything in order: an event about code comes before the first instruction
/// of that code, an event about memory after the instruction that called the kernel.
pub trait Observer {
    /// Instructions are reported as blocks where that is possible: it costs less. Without, [`blocks`](Self::blocks) is
    /// never called.
    const BLOCKS: bool = false;

    /// One step of execution.
    fn execution(&mut self, item: Execution);

    /// Blocks of straight-line code retired. Their numbers stand for the same instructions as long as the program runs.
    fn blocks(&mut self, blocks: &RetiredBlocks<'_>) {
        let instructions = blocks.iter().flat_map(|block| block.instructions());
        instructions.for_each(|retired| self.execution(Execution::Instruction(retired)));
    }

    /// Something that is not execution. Nothing has to be done about it.
    fn event(&mut self, event: Event<'_>) {
        let _ = event;
    }
}

/// What happens beside execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A thread starts. The first one does so before the first instruction.
    ThreadStarts {
        /// Its number in [`Execution::Thread`]: threads are numbered from 0 in the order in which they start.
        thread: u32,
        /// The number that the program knows it by.
        tid: u32,
    },
    /// A thread has ended.
    ThreadEnds {
        /// Its number in [`Execution::Thread`].
        thread: u32,
    },
    /// Code that is about to be executed, and that is not what the program's file, or the last such event, has at this
    /// address: made at run time, mapped from another file, changed, or the kernel's own (return from signals).
    Code {
        /// The first instruction.
        address: Address,
        /// Instructions in memory order.
        bytes: &'a [u8],
    },
    /// The program wrote to its standard output or error.
    Output {
        /// 1 output, 2 error.
        stream: u8,
        /// What it wrote.
        bytes: &'a [u8],
    },
    /// The kernel wrote to the program's memory. Only where [`Watch::external`] asks for it.
    Written {
        /// The first byte.
        address: Address,
        /// What is there now.
        bytes: &'a [u8],
    },
    /// Memory became zero, or is gone. Only where [`Watch::external`] asks for it.
    Cleared {
        /// The first byte.
        address: Address,
        /// Number of bytes.
        length: u64,
    },
    /// The registers with which the current thread continues, after the kernel changed them: a system call returned,
    /// a signal handler starts or has returned, a thread starts. Only where [`Watch::external`] asks for it.
    Registers(&'a Hart),
    /// The value of the `time` register that the last instruction read. Only where [`Watch::external`] asks for it.
    Time(u64),
}

/// What is reported besides instructions, traps, threads and code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Loads and stores, each after its instruction.
    pub accesses: bool,
    /// Everything that enters the program from outside: what the kernel writes to memory and to registers. With the
    /// program's file and the registers it starts with, a run can be repeated from that without a kernel.
    pub external: bool,
}

/// An observer of execution alone.
pub(crate) struct Items<'a, F>(pub &'a mut F);

impl<F: FnMut(Execution)> Observer for Items<'_, F> {
    #[inline(always)]
    fn execution(&mut self, item: Execution) {
        (self.0)(item);
    }
}
