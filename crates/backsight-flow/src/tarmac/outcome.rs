//! What became of an instruction.

use backsight_core::{Address, Cause, Isa, Located, Retired};
use backsight_isa::{Class, Flags, classify_retired};
use backsight_tarmac::{Exception, ExceptionKind, Instruction, ModeKind};

/// An instruction of which only the line itself is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Last {
    pub at: Located<()>,
    pub address: u64,
    pub opcode: u32,
    /// The target, if it is a direct branch.
    target: u64,
    pub isa: Isa,
    pub class: Class,
    pub flags: Flags,
    pub size: u8,
    /// Its condition did not fail, as far as its line says.
    pub executed: bool,
    fetched: bool,
    is_m_profile: bool,
    pub time: u64,
}

/// Was a branch taken?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is none, or was not.
    No,
    Yes,
}

/// What became of an instruction.
pub(super) struct Outcome {
    /// It was executed, or its condition failed: it did not fault.
    pub is_executed: bool,
    pub taken: Taken,
    /// The next instruction is somewhere else, and nothing says why.
    pub leaves: bool,
    /// Where an exception returns to.
    pub returns_to: u64,
}

impl Last {
    #[inline]
    pub fn new(it: &Instruction, isa: Isa, at: Located<()>, time: u64, conditional: &mut u8) -> Self {
        let (address, next) = (Address(it.address), Address(it.address));
        let retired = Retired { address, next, cycle: 0, opcode: it.opcode, size: it.size, isa, taken: true };
        let known = classify_retired(&retired);
        let mut flags = known.flags;
        if isa == Isa::T32 {
            flags.conditional |= *conditional > 0;
            *conditional = if known.it_count > 0 { known.it_count } else { conditional.saturating_sub(1) };
        } else {
            *conditional = 0;
        }
        Self {
            at,
            address: it.address,
            opcode: it.opcode,
            target: known.target.0,
            isa,
            class: if it.fetched { known.class } else { Class::Other },
            flags,
            size: it.size,
            executed: it.executed,
            fetched: it.fetched,
            is_m_profile: matches!(it.mode.kind, ModeKind::Thread | ModeKind::Handler),
            time,
        }
    }

    /// The address after it.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.address.wrapping_add(self.size as u64)
    }

    #[inline]
    pub const fn is_branch(&self) -> bool {
        matches!(self.class, Class::DirectBranch | Class::IndirectBranch)
    }

    /// Does a range end with it, whatever became of it?
    #[inline]
    pub fn ends_range(&self) -> bool {
        self.class != Class::Other && self.class != Class::DataBarrier
    }

    /// What became of it: `exception` is the first after it, `branch` where its log says that it branched to, `next` the
    /// address of the next instruction.
    #[inline]
    pub fn outcome(&self, exception: Option<&Exception>, branch: Option<u64>, next: Option<u64>) -> Outcome {
        let Some(exception) = exception else {
            let is_executed = self.fetched;
            let (taken, leaves) = self.way(branch, next);
            return Outcome { is_executed, taken, leaves: leaves && is_executed, returns_to: self.end() };
        };
        let is_own = exception.address.is_none_or(|address| address & !1 == self.address);
        let faults = match exception.kind {
            ExceptionKind::Call => false,
            ExceptionKind::Undefined | ExceptionKind::DataAbort => is_own,
            ExceptionKind::PrefetchAbort => is_own && (exception.address.is_some() || !self.fetched),
            ExceptionKind::Synchronous => is_own && !self.is_call(),
            _ => !self.fetched,
        };
        if faults {
            return Outcome { is_executed: false, taken: Taken::No, leaves: false, returns_to: self.address };
        }
        let goes_to = exception.address.filter(|_| !is_own).map(|address| address & !1);
        let (taken, leaves) = self.way(branch, goes_to);
        let returns_to = goes_to.or(branch).unwrap_or(self.end());
        Outcome { is_executed: self.fetched, taken, leaves: leaves && goes_to.is_some(), returns_to }
    }

    /// Which way execution went, and whether that is a way that the opcode does not know.
    #[inline]
    fn way(&self, branch: Option<u64>, next: Option<u64>) -> (Taken, bool) {
        let is_sequential = next.is_none_or(|next| next == self.end());
        if !self.is_branch() || !self.executed {
            return (Taken::No, !is_sequential);
        }
        if !self.flags.conditional {
            let leaves =
                self.class == Class::DirectBranch && next.is_some_and(|next| next != self.target & !1);
            return (Taken::Yes, leaves);
        }
        let is_taken = branch.is_some() || !is_sequential;
        let leaves = is_taken
            && self.class == Class::DirectBranch
            && next.or(branch).is_some_and(|next| next & !1 != self.target & !1);
        match is_taken && !(leaves && branch.is_none()) {
            true => (Taken::Yes, leaves),
            false => (Taken::No, leaves),
        }
    }

    /// Is it SVC, HVC or SMC?
    fn is_call(&self) -> bool {
        match self.isa {
            Isa::A64 => self.opcode & 0xFFE0_0000 == 0xD400_0000 && matches!(self.opcode & 0x1F, 1..=3),
            Isa::A32 => self.opcode >> 24 & 0xF == 0xF || self.opcode & 0x0FFF_FFF0 == 0x0160_0070,
            _ => self.opcode & 0xFFFF_FF00 == 0xDF00,
        }
    }
}

/// The cause of an exception, in the terms of the trace packets.
pub(super) fn cause(exception: &Exception, last: Option<&Last>) -> Cause {
    if last.is_some_and(|last| last.is_m_profile)
        && let Some(number) = exception.number.and_then(|number| u16::try_from(number).ok())
    {
        return Cause::ArmM(number);
    }
    Cause::Arm(match exception.kind {
        ExceptionKind::Reset => 0x00,
        ExceptionKind::Call => 0x02,
        ExceptionKind::Undefined => 0x03,
        ExceptionKind::SystemError => 0x04,
        ExceptionKind::PrefetchAbort => 0x0B,
        ExceptionKind::DataAbort => 0x0C,
        ExceptionKind::Irq => 0x0E,
        ExceptionKind::Fiq => 0x0F,
        ExceptionKind::Synchronous if last.is_some_and(Last::is_call) => 0x02,
        ExceptionKind::Synchronous | ExceptionKind::ModeChange | ExceptionKind::Other => {
            return Cause::NotTraced { interrupt: false };
        }
    })
}
