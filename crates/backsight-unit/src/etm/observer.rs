//! Follows execution: where it breaks off, and where indirect branches and exceptions lead.
//!
//! The instruction set at the target of an indirect branch is known only when the next instruction is: the branch waits
//! until then. Exceptions are never taken to EL0: if that is where execution goes on, what handled them was not seen.

use backsight_core::{Access, Address, Context, Execution, Isa, Retired, Trap};
use backsight_isa::{Class, Instruction, classify_retired};

use super::exception_number;

/// A place in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    pub address: Address,
    pub isa: Isa,
}

/// What happened last, and led to a place whose instruction set is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// An indirect branch.
    Branch { exception_return: bool },
    /// An exception, by the number of ETMv3 and PTM.
    Exception { number: u16 },
}

/// What a unit is shown.
pub(crate) enum Observed<'a> {
    /// Execution begins, or begins again after a break.
    Start(Location),
    /// An instruction retired.
    Instruction(&'a Retired, Instruction),
    /// The last instruction, or an exception after it, led here.
    Arrival(Pending, Location),
    /// Memory was accessed by the last instruction.
    Access(&'a Access),
    /// The context is another.
    Context(&'a Context),
    /// Execution breaks off here.
    Stop,
}

/// Follows execution.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    is_on: bool,
    position: Option<Address>,
    isa: Isa,
    pending: Option<Pending>,
    level: u8,
}

impl Observer {
    pub fn new(context: &Context) -> Self {
        Self { is_on: false, position: None, isa: Isa::A32, pending: None, level: context.level() }
    }

    /// One step of execution; shows `each` what it means.
    pub fn push(&mut self, item: &Execution, each: &mut impl FnMut(Observed<'_>)) {
        match item {
            Execution::Instruction(retired) => self.instruction(retired, each),
            Execution::Trap(trap) => self.trap(trap, each),
            Execution::Context(context) => {
                self.level = context.level();
                each(Observed::Context(context));
            }
            Execution::Access(access) => each(Observed::Access(access)),
            Execution::Gap => self.stop(each),
            // One unit watches one thread; what comes from outside is not traced.
            Execution::Input(_) | Execution::Thread(_) => {}
        }
    }

    /// Execution breaks off, or ends.
    pub fn stop(&mut self, each: &mut impl FnMut(Observed<'_>)) {
        self.settle(each);
        if std::mem::take(&mut self.is_on) {
            each(Observed::Stop);
        }
        self.position = None;
    }

    fn instruction(&mut self, retired: &Retired, each: &mut impl FnMut(Observed<'_>)) {
        let here = Location { address: retired.address, isa: retired.isa };
        let is_there = self.position == Some(retired.address);
        match self.pending {
            Some(Pending::Exception { .. }) if self.level == 0 => self.stop(each),
            Some(pending) if is_there => {
                self.pending = None;
                each(Observed::Arrival(pending, here));
            }
            _ if !is_there || self.isa != retired.isa => self.stop(each),
            _ => {}
        }
        if !std::mem::replace(&mut self.is_on, true) {
            each(Observed::Start(here));
        }
        let instruction = classify_retired(retired);
        each(Observed::Instruction(retired, instruction));
        self.position = Some(retired.next);
        self.isa = retired.isa;
        match instruction.class {
            Class::DirectBranch if retired.taken => self.isa = instruction.target_isa,
            Class::IndirectBranch if retired.taken => {
                let exception_return = instruction.flags.exception_return;
                self.pending = Some(Pending::Branch { exception_return });
            }
            _ => {}
        }
    }

    fn trap(&mut self, trap: &Trap, each: &mut impl FnMut(Observed<'_>)) {
        let was_unseen = matches!(self.pending, Some(Pending::Exception { .. })) && self.level == 0;
        if self.position != Some(trap.return_address) || was_unseen {
            self.stop(each);
        }
        self.settle(each);
        self.position = Some(trap.return_address);
        if !std::mem::replace(&mut self.is_on, true) {
            each(Observed::Start(self.place(trap.return_address)));
        }
        self.pending = Some(Pending::Exception { number: exception_number(trap.cause) });
        self.position = Some(trap.handler);
    }

    /// Nobody will know the instruction set of where a branch led: it is guessed.
    fn settle(&mut self, each: &mut impl FnMut(Observed<'_>)) {
        if let (Some(pending), Some(position)) = (self.pending.take(), self.position) {
            let place = self.place(position);
            self.isa = place.isa;
            each(Observed::Arrival(pending, place));
        }
    }

    fn place(&self, address: Address) -> Location {
        let isa = if self.isa == Isa::A32 && address.0 & 2 != 0 { Isa::T32 } else { self.isa };
        Location { address, isa }
    }
}

/// When timestamps are written and what they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// Cycles (or instructions, where no cycles are known) between two.
    pub period: u64,
    /// Value at cycle 0.
    pub first: u64,
}

impl Default for Timestamps {
    fn default() -> Self {
        Self { period: 4096, first: 1 }
    }
}

/// Time, and what was last said about it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// Cycle of the last instruction; instructions where no cycles are known.
    pub now: u64,
    counted: u64,
    timestamp_due: u64,
}

impl Clock {
    /// An instruction retired.
    pub fn tick(&mut self, retired: &Retired, instructions: u64) {
        self.now = if retired.cycle != 0 { retired.cycle } else { instructions };
    }

    /// Cycles since the last count, which is now.
    pub fn count(&mut self) -> u32 {
        let cycles = self.now.saturating_sub(self.counted);
        self.counted = self.now;
        u32::try_from(cycles).unwrap_or(u32::MAX)
    }

    /// Is it time for a timestamp? If so, the next one is due a period later.
    pub fn is_due(&mut self, timestamps: &Timestamps) -> bool {
        let is_due = self.now >= self.timestamp_due;
        if is_due {
            self.timestamp_due = self.now.saturating_add(timestamps.period.max(1));
        }
        is_due
    }
}
