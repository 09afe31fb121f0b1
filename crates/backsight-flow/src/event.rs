//! What a follower says: the execution, in the order in which it happened.
//!
//! Events, packets and causes are not `#[non_exhaustive]`: one that a consumer leaves out without a word makes its result wrong,
//! so a new one is a new version, and the compiler shows every place that has to know of it.

use backsight_core::{Address, AddressSpace, Cause, Context, Isa};
use backsight_isa::{Class, Flags};

use crate::message::{HardwareEvent, SoftwareMessage, SourceTime};

/// One fact about the execution. The same vocabulary serves every protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Decoding begins.
    StartOfTrace,
    /// Something is missing: nothing is known until the trace says where execution is.
    NoSync(NoSync),
    /// Tracing begins, or begins again after a break.
    TraceOn(TraceOn),
    /// The context of what follows.
    Context(Context, Isa),
    /// Instructions were executed one after the other.
    Range(Range),
    /// Instructions were executed, and nothing says where.
    AddressUnknown,
    /// Some instructions were executed, on a path that is not known.
    PathUnknown {
        /// The first of them; `None` where the path before was not known either.
        start: Option<Address>,
        /// Where execution continues.
        next: Address,
        /// How many; 0 if unknown.
        instructions: u32,
    },
    /// Execution is in a loop without branches, and how often it went around is not in the trace: it is reported as if
    /// that was once.
    UncountedLoop {
        /// Where the loop begins.
        address: Address,
    },
    /// The code at this address is not in the image; the flow resumes at the next address in the trace.
    NoMemory {
        /// The first address that could not be read.
        address: Address,
        /// The memory space it was looked for in.
        space: AddressSpace,
    },
    /// An exception or interrupt was taken.
    Exception {
        /// Which one.
        cause: Cause,
        /// Where the handler would return to, where the trace tells.
        return_address: Option<Address>,
        /// The return address is also where the branch before went.
        is_branch_target: bool,
        /// A fault was pending as well (Arm M profile).
        fault_pending: bool,
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
    /// The trigger of the trace unit.
    Trigger,
    /// Events of the trace unit: bit i for event i.
    UnitEvents(u8),
    /// The next timestamp belongs to this place.
    TimestampMarker,
    /// A memory transaction.
    Transaction(Transaction),
    /// The program wrote a message for the reader of the trace.
    Software(SoftwareMessage),
    /// Hardware noticed something that is no flow.
    Hardware(HardwareEvent),
    /// The time of a source of messages.
    SourceTime(SourceTime),
    /// Whether a conditional instruction that is no branch was executed.
    Condition {
        /// The key that pairs results with instructions, in the order of instructions.
        key: u32,
        /// What is known about its condition.
        outcome: Outcome,
    },
    /// Memory or a register was read or written.
    Access(TracedAccess),
    /// Accesses are missing in the trace from here to the next one.
    AccessesLost,
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

impl Event {
    /// A gap: instructions were executed that are not reported.
    #[inline]
    pub const fn is_gap(&self) -> bool {
        matches!(
            self,
            Self::NoSync(_) | Self::AddressUnknown | Self::PathUnknown { .. } | Self::NoMemory { .. }
        )
    }

    /// A loss: a gap, or accesses to data that were to be reported and are not.
    #[inline]
    pub const fn is_loss(&self) -> bool {
        self.is_gap() || matches!(self, Self::AccessesLost)
    }

    /// A break: what is reported next need not follow what was reported last. That is a gap, or tracing begins again.
    #[inline]
    pub const fn is_break(&self) -> bool {
        self.is_gap() || matches!(self, Self::TraceOn(_))
    }

    /// An edge of a piece of execution: a break, or the beginning or the end of the trace.
    #[inline]
    pub const fn is_edge(&self) -> bool {
        self.is_break() || matches!(self, Self::StartOfTrace | Self::EndOfTrace { .. })
    }
}

/// Instructions executed one after the other. Only the last may be a branch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Address of the first instruction.
    pub start: Address,
    /// Address after the last instruction.
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

impl Range {
    /// Is the last instruction a branch?
    #[inline]
    pub const fn ends_in_branch(&self) -> bool {
        matches!(self.class, Class::DirectBranch | Class::IndirectBranch)
    }

    /// Did it end in a call whose target is in its opcode?
    #[inline]
    pub(crate) fn is_direct_call(&self) -> bool {
        self.executed && self.flags.link && self.class == Class::DirectBranch
    }

    /// How it ended, in a word or two; empty where the last instruction is nothing special.
    pub const fn ending(&self) -> &'static str {
        let flags = self.flags;
        match self.class {
            Class::Other => "",
            _ if !self.executed => "not taken",
            Class::DirectBranch if flags.link => "call",
            Class::DirectBranch => "branch",
            Class::IndirectBranch if flags.exception_return => "exception return",
            Class::IndirectBranch if flags.returns => "return",
            Class::IndirectBranch if flags.link => "indirect call",
            Class::IndirectBranch => "indirect branch",
            Class::Isb => "isb",
            Class::DataBarrier => "barrier",
            Class::Wait => "wait",
            Class::TransactionStart => "tstart",
        }
    }
}

/// Why there is no synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoSync {
    /// Packets came before the first synchronisation.
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

impl NoSync {
    /// The reason, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Initial => "not synchronised yet",
            Self::BadPacket => "bad packet",
            Self::Discard => "speculation discarded",
            Self::Overflow => "overflow",
            Self::WrongImage => "wrong image",
        }
    }
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

impl TraceOn {
    /// The reason, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Begin => "begin or filter",
            Self::Overflow => "after an overflow",
            Self::DebugRestart => "after debug state",
        }
    }
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

impl Transaction {
    /// What happened, in a word or two.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Initial => "under way",
            Self::Start => "start",
            Self::Commit => "commit",
            Self::Failure => "failure",
        }
    }
}

/// What the trace says about a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It failed.
    Failed,
    /// It passed.
    Passed,
    /// The flags it looked at: V, C, Z, N in bits 0 to 3.
    Flags(u8),
    /// Nothing.
    Unknown,
}

impl Outcome {
    /// What is known, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Passed => "passed",
            Self::Flags(_) => "by the flags",
            Self::Unknown => "unknown",
        }
    }
}

/// An access that data trace reports. What trace leaves out is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedAccess {
    address: u64,
    value: u64,
    /// The operand, or the address of the instruction.
    beside: u64,
    kind: AccessKind,
    size: u8,
    has_address: bool,
    has_value: bool,
    beside_is: Beside,
    failed: bool,
}

/// What a traced access has beside address and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Operand,
    Instruction,
}

impl TracedAccess {
    /// An access of 1 to 8 bytes of which nothing else is known. Wider ones are several; 0 if the size is not known.
    pub const fn new(kind: AccessKind, size: u8) -> Self {
        Self {
            address: 0,
            value: 0,
            beside: 0,
            kind,
            size,
            has_address: false,
            has_value: false,
            beside_is: Beside::Nothing,
            failed: false,
        }
    }

    /// The same at an address.
    pub fn at(self, address: Option<u64>) -> Self {
        Self { address: address.unwrap_or(0), has_address: address.is_some(), ..self }
    }

    /// The same with a value.
    pub fn with_value(self, value: Option<u64>) -> Self {
        Self { value: value.unwrap_or(0), has_value: value.is_some(), ..self }
    }

    /// The same with an operand.
    pub fn with_operand(self, operand: Option<u64>) -> Self {
        let beside_is = if operand.is_some() { Beside::Operand } else { Beside::Nothing };
        Self { beside: operand.unwrap_or(0), beside_is, ..self }
    }

    /// The same by the instruction at an address. An access has an operand or an instruction, not both.
    pub fn by(self, instruction: Option<Address>) -> Self {
        let beside_is = if instruction.is_some() { Beside::Instruction } else { Beside::Nothing };
        Self { beside: instruction.map_or(0, |address| address.0), beside_is, ..self }
    }

    /// The same as another kind of access.
    pub const fn as_kind(self, kind: AccessKind) -> Self {
        Self { kind, ..self }
    }

    /// The same, but nothing was read.
    pub const fn failed(self) -> Self {
        Self { failed: true, ..self }
    }

    /// What it does.
    pub const fn kind(&self) -> AccessKind {
        self.kind
    }

    /// Number of bytes, 1 to 8; 0 if it is not known.
    pub const fn size(&self) -> u8 {
        self.size
    }

    /// Where; of a control and status register (CSR) its number.
    pub fn address(&self) -> Option<Address> {
        self.has_address.then_some(Address(self.address))
    }

    /// What was read or written; of operations that do both, what was read.
    pub fn value(&self) -> Option<u64> {
        self.has_value.then_some(self.value)
    }

    /// What an atomic or CSR operation combines with what it read.
    pub fn operand(&self) -> Option<u64> {
        (self.beside_is == Beside::Operand).then_some(self.beside)
    }

    /// The instruction that did it, where the trace ties the two together.
    pub fn instruction(&self) -> Option<Address> {
        (self.beside_is == Beside::Instruction).then_some(Address(self.beside))
    }

    /// The access failed: nothing was read.
    pub const fn has_failed(&self) -> bool {
        self.failed
    }
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reads or writes: the trace does not say which.
    Unknown,
    /// Reads memory.
    Load,
    /// Writes memory.
    Store,
    /// Reads memory and writes the operand.
    AtomicSwap,
    /// Reads memory and writes the sum.
    AtomicAdd,
    /// Reads memory and writes the bitwise and.
    AtomicAnd,
    /// Reads memory and writes the bitwise or.
    AtomicOr,
    /// Reads memory and writes the bitwise exclusive or.
    AtomicXor,
    /// Reads memory and writes the greater value.
    AtomicMaximum,
    /// Reads memory and writes the lesser value.
    AtomicMinimum,
    /// A compare-and-swap that stored nothing.
    CompareAndSwapFailure,
    /// A conditional store that stored nothing.
    ConditionalStoreFailure,
    /// Reads a CSR and writes it.
    CsrReadWrite,
    /// Reads a CSR and sets bits of it.
    CsrReadSet,
    /// Reads a CSR and clears bits of it.
    CsrReadClear,
    /// Reads a register of an Arm coprocessor.
    CoprocessorRead,
    /// Writes a register of an Arm coprocessor.
    CoprocessorWrite,
}

impl AccessKind {
    /// What it does, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unknown => "load or store",
            Self::Load => "load",
            Self::Store => "store",
            Self::AtomicSwap => "atomic swap",
            Self::AtomicAdd => "atomic add",
            Self::AtomicAnd => "atomic and",
            Self::AtomicOr => "atomic or",
            Self::AtomicXor => "atomic xor",
            Self::AtomicMaximum => "atomic maximum",
            Self::AtomicMinimum => "atomic minimum",
            Self::CompareAndSwapFailure => "failed compare-and-swap",
            Self::ConditionalStoreFailure => "failed conditional store",
            Self::CsrReadWrite => "CSR read and write",
            Self::CsrReadSet => "CSR read and set",
            Self::CsrReadClear => "CSR read and clear",
            Self::CoprocessorRead => "coprocessor read",
            Self::CoprocessorWrite => "coprocessor write",
        }
    }
}

/// A sign that the image is not the code that ran, or that the trace is not what the unit wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
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
    /// An exception was taken before the address that execution had reached.
    ExceptionBehind,
    /// A return found the return stack empty.
    ReturnStackEmpty,
    /// An indirect branch was taken, and the trace never says where to.
    TargetMissing,
    /// An address is not aligned for its instruction set, or has the wrong one.
    BadAddress,
    /// More elements were committed or cancelled than there are.
    SpeculationOverrun,
    /// The trace counts other instructions than the code has.
    CountDiffers,
}

impl Symptom {
    /// Every symptom.
    pub const ALL: [Self; 12] = [
        Self::UnconditionalNotTaken,
        Self::IndirectNotTaken,
        Self::AddressDiffers,
        Self::EndlessRange,
        Self::UndefinedInstruction,
        Self::BranchBeforeException,
        Self::ExceptionBehind,
        Self::ReturnStackEmpty,
        Self::TargetMissing,
        Self::BadAddress,
        Self::SpeculationOverrun,
        Self::CountDiffers,
    ];

    /// Cannot happen with the code that ran, whatever else is true.
    pub const fn is_strong(self) -> bool {
        matches!(
            self,
            Self::UnconditionalNotTaken
                | Self::AddressDiffers
                | Self::EndlessRange
                | Self::UndefinedInstruction
                | Self::BranchBeforeException
                | Self::CountDiffers
        )
    }

    /// What was noticed, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::UnconditionalNotTaken => "an unconditional branch was not taken",
            Self::IndirectNotTaken => "an unconditional indirect branch was not taken",
            Self::AddressDiffers => "the trace names another address than the code leads to",
            Self::EndlessRange => "no branch in thousands of instructions",
            Self::UndefinedInstruction => "an undefined instruction was executed",
            Self::BranchBeforeException => {
                "a branch lies before the instruction where the exception was taken"
            }
            Self::ExceptionBehind => "an exception was taken before the address that was reached",
            Self::ReturnStackEmpty => "a return found the return stack empty",
            Self::TargetMissing => "the target of an indirect branch is missing",
            Self::BadAddress => "an address does not fit its instruction set",
            Self::SpeculationOverrun => "more elements are resolved than there are",
            Self::CountDiffers => "the trace counts other instructions than the code has",
        }
    }
}
