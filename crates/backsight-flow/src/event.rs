//! What a follower says: the execution, in the order in which it happened.

use backsight_core::{Address, Context, Isa, MemorySpace};
use backsight_isa::{Class, Flags};

/// One fact about the execution. The same vocabulary serves every protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The follower lost its place, or has none yet; nothing is known until trace says where execution is.
    NoSync(NoSync),
    /// Tracing begins, or begins again after a break.
    TraceOn(TraceOn),
    /// The context of what follows.
    Context(Context, Isa),
    /// Instructions were executed one after the other.
    Range(Range),
    /// Some instructions were executed, on a path that is not known.
    PathUnknown {
        /// The first of them.
        start: Address,
        /// Where execution continues.
        next: Address,
        /// How many; 0 if unknown.
        instructions: u32,
    },
    /// The code at this address is not in the image; the flow resumes at the next address in the trace.
    NoMemory {
        /// The first address that could not be read.
        address: Address,
        /// The memory space it was looked for in.
        space: MemorySpace,
    },
    /// An exception or interrupt was taken.
    Exception {
        /// The architecture's number for it.
        number: u32,
        /// Interrupt, where the protocol tells (RISC-V).
        interrupt: bool,
        /// Where the handler would return to, where the trace tells.
        return_address: Option<Address>,
        /// The return address is also where the branch before went.
        is_branch_target: bool,
        /// Value of the trap register, where the protocol tells (RISC-V).
        value: u64,
    },
    /// The range before ended in an exception return.
    ExceptionReturn,
    /// Global time, and the cycles since the last count where they come with it.
    Timestamp {
        /// The time.
        value: u64,
        /// Cycles since the last cycle count, if the packet had them.
        cycles: Option<u32>,
    },
    /// Cycles since the last count; `None` if unknown.
    CycleCount(Option<u32>),
    /// Events of the trace unit: bit i for event i.
    UnitEvents(u8),
    /// The next timestamp belongs to this place.
    TimestampMarker,
    /// A memory transaction.
    Transaction(Transaction),
    /// A value written by the program.
    Instrumentation {
        /// Exception level of the writer.
        level: u8,
        /// The value.
        value: u64,
    },
    /// Code and trace do not fit together here.
    Mismatch {
        /// What was noticed.
        symptom: Symptom,
        /// At which instruction.
        address: Address,
    },
    /// The trace ends.
    EndOfTrace {
        /// The last thing before it was an overflow.
        after_overflow: bool,
    },
}

const _: () = assert!(size_of::<Event>() <= 40);

/// Instructions executed one after the other. Only the last may be a branch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Address of the first instruction.
    pub start: Address,
    /// Address behind the last instruction.
    pub end: Address,
    /// Number of instructions.
    pub instructions: u32,
    /// Instruction set.
    pub isa: Isa,
    /// What the last instruction is.
    pub class: Class,
    /// More about the last instruction. `conditional` is set inside IT blocks too.
    pub flags: Flags,
    /// Size of the last instruction in bytes.
    pub last_size: u8,
    /// The last instruction was executed (a branch: taken). False: its condition failed.
    pub executed: bool,
}

/// Why there is no synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoSync {
    /// Decoding begins.
    Initial,
    /// A packet that makes no sense.
    BadPacket,
    /// The trace unit gave up unresolved speculation.
    Discard,
    /// The trace unit lost data.
    Overflow,
    /// Strict mode: the code cannot be what was executed.
    WrongImage,
}

/// Why tracing began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceOn {
    /// Normally, or by a filter.
    Begin,
    /// After data was lost.
    Overflow,
    /// After debug state.
    DebugRestart,
}

/// What happened to a memory transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// It was under way when tracing began.
    Initial,
    /// It began.
    Start,
    /// It took effect.
    Commit,
    /// It was undone.
    Failure,
}

/// A sign that the image is not the code that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symptom {
    /// An unconditional direct branch was not taken.
    UnconditionalNotTaken,
    /// An unconditional indirect branch was not taken.
    IndirectNotTaken,
    /// The trace names another address than the one that execution had reached.
    AddressDiffers,
    /// Thousands of instructions without one that the trace would speak about.
    EndlessRange,
    /// A permanently undefined instruction was executed.
    UndefinedInstruction,
    /// A branch lies on the way to the instruction where an exception was taken.
    BranchBeforeException,
    /// A return found the return stack empty.
    ReturnStackEmpty,
    /// An address is not aligned for its instruction set, or has the wrong one.
    BadAddress,
}
