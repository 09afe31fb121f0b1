//! The classification that all instruction sets share.

use backsight_core::{Address, Isa};

/// What an instruction does to control flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Nothing: execution goes on after it.
    #[default]
    Other,
    /// A branch whose target is in the opcode.
    DirectBranch,
    /// A branch whose target is not in the opcode; returns and exception returns too.
    IndirectBranch,
    /// Instruction synchronisation barrier.
    Isb,
    /// Data synchronisation or memory barrier (a waypoint in PTM only).
    DataBarrier,
    /// Waits for an interrupt or event (WFI, WFE, WFIT, WFET).
    Wait,
    /// Starts a transaction (TSTART).
    TransactionStart,
}

/// More about a branch (or about any instruction, for `conditional`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Leaves a return address: a call.
    pub link: bool,
    /// A function return by convention (RET, BX LR, POP {pc}; RISC-V `ret`).
    pub returns: bool,
    /// An exception return (ERET, RFE, SUBS pc; RISC-V xRET).
    pub exception_return: bool,
    /// May not happen: conditional by its own opcode. IT blocks are the walker's to track.
    pub conditional: bool,
    /// Conditional, but not marked so in the listing that users of OpenCSD know: A64 branches that compare two values by
    /// themselves (`CB<cc>`, `CBB<cc>`, `CBH<cc>`), and in ETMv3 and PTM trace what only an IT instruction makes conditional.
    pub unmarked: bool,
    /// Reads memory.
    pub load: bool,
    /// Writes memory.
    pub store: bool,
    /// Permanently undefined: no program means to run it, so meeting it says that the code is not what ran.
    pub undefined: bool,
}

impl Flags {
    /// None of them.
    pub const NONE: Self = Self {
        link: false,
        returns: false,
        exception_return: false,
        conditional: false,
        unmarked: false,
        load: false,
        store: false,
        undefined: false,
    };
}

/// One instruction, as far as control flow is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Target of a direct branch; meaningless for other classes.
    pub target: Address,
    /// Instruction set at the target of a direct branch.
    pub target_isa: Isa,
    /// What it does.
    pub class: Class,
    /// More about it.
    pub flags: Flags,
    /// Size in bytes: 2 or 4.
    pub size: u8,
    /// T32 IT: how many of the following instructions are conditional (0 for everything else).
    pub it_count: u8,
}

impl Instruction {
    /// An instruction of `size` bytes that does nothing to the flow.
    pub const fn plain(isa: Isa, size: u8) -> Self {
        Self {
            target: Address(0),
            target_isa: isa,
            class: Class::Other,
            flags: Flags::NONE,
            size,
            it_count: 0,
        }
    }

    /// Is it a direct or indirect branch?
    #[inline]
    pub const fn is_branch(&self) -> bool {
        matches!(self.class, Class::DirectBranch | Class::IndirectBranch)
    }
}
