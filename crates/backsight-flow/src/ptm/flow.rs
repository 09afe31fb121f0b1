//! From atoms and branches to the code that was executed.

use backsight_arm::ptm::{Atoms, Branch, WaypointUpdate};
use backsight_core::{Address, Isa};
use backsight_image::Code;
use backsight_isa::Class;

use super::Follower;
use crate::blocks::{Block, Origin, Way};
use crate::etm::{At, Position};
use crate::sink::Sink;
use crate::walk::{Stop, Until};
use crate::{Event, Range, Symptom};

impl<C: Code> Follower<C> {
    /// Each atom stands for one block.
    #[inline]
    pub(super) fn atoms(&mut self, atoms: &Atoms, at: At, sink: &mut impl Sink) {
        let mut bits = atoms.bits;
        for left in (0..atoms.count).rev() {
            let taken = bits & 1 == 1;
            bits >>= 1;
            let Some(position) = self.tracker.position.filter(|position| position.isa != Isa::Jazelle) else {
                self.tracker.position = None;
                self.tracker.statistics.skipped += u64::from(left) + 1;
                return;
            };
            let number = self.tracker.enter_block(position);
            let block = *self.tracker.block(number);
            match block.way(taken) {
                Way::Known | Way::Call | Way::Indirect => {
                    self.cycles(atoms.cycles, at, sink);
                    self.tracker.emit(at, Event::Range(Range { executed: taken, ..block.range }), sink);
                    self.tracker.origin = Origin::new(number, taken);
                    self.leave(&block, taken, at, sink);
                }
                Way::Odd => self.odd(&block, taken, None, atoms.cycles, at, sink),
            }
        }
    }

    /// A branch packet: the next waypoint was taken, and led to its address.
    pub(super) fn branch_to(&mut self, branch: &Branch, at: At, sink: &mut impl Sink) {
        let Some(position) = self.tracker.position.filter(|position| position.isa != Isa::Jazelle) else {
            self.tracker.statistics.skipped += 1;
            return;
        };
        let number = self.tracker.enter_block(position);
        let block = *self.tracker.block(number);
        let target = Some((branch.address, branch.isa));
        if block.way(true) == Way::Odd {
            return self.odd(&block, true, target, branch.cycles, at, sink);
        }
        self.cycles(branch.cycles, at, sink);
        self.tracker.emit(at, Event::Range(block.range), sink);
        self.tracker.origin = Origin::new(number, true);
        self.call(&block);
        self.check_target(&block, target, at, sink);
    }

    /// A direct branch leads where the code says, and nothing else leads anywhere.
    fn check_target(&mut self, block: &Block, target: Option<(Address, Isa)>, at: At, sink: &mut impl Sink) {
        let expected = match block.range.class {
            Class::IndirectBranch => return,
            Class::DirectBranch => (block.target, block.target_isa),
            _ => (block.range.end, block.range.isa),
        };
        if target.is_some_and(|target| target != expected) {
            self.tracker.mismatch(Symptom::AddressDiffers, expected.0, at, sink);
        }
    }

    /// Goes on after a block that an atom stands for.
    #[inline]
    fn leave(&mut self, block: &Block, taken: bool, at: At, sink: &mut impl Sink) {
        let Range { end, isa, class, .. } = block.range;
        let next = match class {
            Class::DirectBranch if taken => {
                self.call(block);
                Position::new(block.target, block.target_isa)
            }
            Class::IndirectBranch if taken => return self.leave_by_stack(block, at, sink),
            _ => Position { address: end, isa, it: block.it },
        };
        self.tracker.position = Some(next);
    }

    /// An indirect branch without an address went where the newest call came from.
    fn leave_by_stack(&mut self, block: &Block, at: At, sink: &mut impl Sink) {
        let found = if self.rules.return_stack { self.known.stack.pop() } else { None };
        self.call(block);
        self.tracker.position = found.map(|(address, isa)| Position::new(address, isa));
        if found.is_none() {
            let symptom =
                if self.rules.return_stack { Symptom::ReturnStackEmpty } else { Symptom::TargetMissing };
            self.tracker.mismatch(symptom, block.last(), at, sink);
        }
    }

    /// A call leaves its return address.
    #[inline]
    fn call(&mut self, block: &Block) {
        if block.range.flags.link && self.rules.return_stack {
            self.known.stack.push(block.range.end, block.range.isa);
        }
    }

    /// A block that something is wrong with.
    #[cold]
    fn odd(
        &mut self,
        block: &Block,
        taken: bool,
        target: Option<(Address, Isa)>,
        cycles: Option<u32>,
        at: At,
        sink: &mut impl Sink,
    ) {
        let symptom = block.symptom(taken);
        if let Some((symptom, address)) = symptom
            && self.tracker.strict
            && symptom.is_strong()
        {
            self.tracker.mismatch(symptom, address, at, sink);
            self.known.stack.clear();
            return self.tracker.give_up(at, sink);
        }
        if block.range.instructions > 0 {
            self.cycles(cycles, at, sink);
            let executed = taken || block.stop != Stop::Reached;
            self.tracker.emit(at, Event::Range(Range { executed, ..block.range }), sink);
        }
        if let Some((symptom, address)) = symptom {
            self.tracker.mismatch(symptom, address, at, sink);
        }
        match block.stop {
            Stop::NoMemory => {
                self.known.stack.clear();
                self.tracker.unreadable(block.range.end, at, sink);
            }
            Stop::Limit => self.tracker.position = None,
            Stop::Reached | Stop::Branch if target.is_some() => {
                self.call(block);
                self.check_target(block, target, at, sink);
            }
            Stop::Reached | Stop::Branch => self.leave(block, taken, at, sink),
        }
    }

    /// Everything up to and including the instruction at an address was executed, and no waypoint is in it.
    pub(super) fn waypoint_update(&mut self, update: &WaypointUpdate, at: At, sink: &mut impl Sink) {
        let WaypointUpdate { address: last, isa, .. } = *update;
        let only = self.tracker.start(Position::new(last, isa));
        let walk = self.tracker.policy.walk(&self.tracker.code, only, Until::Count(1));
        if walk.instructions == 0 {
            self.known.stack.clear();
            return self.tracker.unreadable(last, at, sink);
        }
        let (end, it) = match self.tracker.position {
            Some(position) if position.address <= last && position.isa == isa => {
                match self.walk_to(position, walk.end, at, sink) {
                    Some(end) => end,
                    None => return,
                }
            }
            Some(position) => {
                self.tracker.mismatch(Symptom::ExceptionBehind, position.address, at, sink);
                (walk.end, 0)
            }
            None => {
                self.tracker.statistics.skipped += 1;
                (walk.end, 0)
            }
        };
        self.tracker.position = Some(Position { address: end, isa, it });
    }

    /// Reports everything from a position to an address; gives that address and the IT state there, unless the way to it
    /// cannot be read.
    fn walk_to(
        &mut self,
        from: Position,
        end: Address,
        at: At,
        sink: &mut impl Sink,
    ) -> Option<(Address, u8)> {
        let walk =
            self.tracker.policy.walk(&self.tracker.code, self.tracker.start(from), Until::Address(end));
        let symptom = match (walk.undefined, walk.passed) {
            _ if walk.stop == Stop::Limit => Some((Symptom::EndlessRange, walk.start.address)),
            (Some(address), _) => Some((Symptom::UndefinedInstruction, address)),
            (None, Some(address)) => Some((Symptom::BranchBeforeException, address)),
            (None, None) => None,
        };
        if let Some((symptom, address)) = symptom {
            self.tracker.mismatch(symptom, address, at, sink);
            if self.tracker.strict {
                self.known.stack.clear();
                self.tracker.give_up(at, sink);
                return None;
            }
        }
        if walk.instructions > 0 {
            self.tracker.emit(at, Event::Range(walk.range(true)), sink);
        }
        match walk.stop {
            Stop::NoMemory => {
                self.known.stack.clear();
                self.tracker.unreadable(walk.end, at, sink);
                None
            }
            Stop::Limit => {
                self.tracker.position = None;
                None
            }
            Stop::Reached | Stop::Branch => Some((walk.end, walk.it)),
        }
    }
}
