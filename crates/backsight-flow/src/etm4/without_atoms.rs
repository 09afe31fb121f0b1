//! Execution that no atom stands for: up to an exception, up to a source address, Q elements.

use backsight_arm::etm4::Context;
use backsight_arm::etm4::{AddressPacket, Exception, Is};
use backsight_core::{Address, Isa};
use backsight_image::Code;
use backsight_isa::Class;

use super::flow::{At, Flow};
use super::position::State;
use crate::sink::Sink;
use crate::walk::{Start, Stop, Until, Walk, within};
use crate::{Event, Range, Symptom};

/// M profile: the return address of an exception that follows another one directly (EXC_RETURN without bit 0).
const TAIL_CHAINED: Address = Address(0xFFFF_FFFE);

impl<C: Code> Flow<C> {
    pub(super) fn exception(
        &mut self,
        exception: Exception,
        packet: AddressPacket,
        context: Option<(Context, Is)>,
        at: At,
        sink: &mut impl Sink,
    ) {
        if let Some((context, is)) = context {
            self.context(context, is, at, sink);
        }
        let return_address = within(self.position.isa_of(packet.is), packet.address);
        let none = self.m_profile && return_address == TAIL_CHAINED;
        if exception.address_is_branch_target() {
            self.address(packet, at, sink);
        } else if !none {
            self.walk_to_exception(return_address, at, sink);
        }
        let event = Event::Exception {
            cause: self.cause(exception.number),
            return_address: (!none).then_some(return_address),
            is_branch_target: exception.address_is_branch_target(),
            fault_pending: exception.fault_pending,
            value: 0,
        };
        self.emit(at, event, sink);
        self.position.state = State::Unknown;
        self.position.it = 0;
    }

    /// Everything up to the preferred return address was executed, and there is no P0 instruction in it.
    fn walk_to_exception(&mut self, to: Address, at: At, sink: &mut impl Sink) {
        let was_unreadable = self.position.state == State::Unreadable;
        if was_unreadable {
            self.position.state = State::Known;
        }
        if !self.settle(at, sink) || self.position.address == to {
            return;
        }
        if self.position.address > to {
            return self.mismatch(Symptom::ExceptionBehind, self.position.address, at, sink);
        }
        let walk = self.policy.walk(&self.code, self.position.start(), Until::Address(to));
        if was_unreadable && walk.instructions > 0 {
            // The code is there again, but where execution went while it was not, nobody saw.
            return;
        }
        let branch = walk.passed.or(walk.waypoint.then(|| walk.last_address()));
        let symptom = match (walk.undefined, branch) {
            _ if walk.stop == Stop::Limit => Some((Symptom::EndlessRange, walk.start.address)),
            (Some(address), _) => Some((Symptom::UndefinedInstruction, address)),
            (None, Some(address)) => Some((Symptom::BranchBeforeException, address)),
            (None, None) => None,
        };
        if let Some((symptom, address)) = symptom
            && self.strict
        {
            self.mismatch(symptom, address, at, sink);
            return self.give_up(at, sink);
        }
        if walk.instructions > 0 {
            self.emit(at, Event::Range(walk.range(true)), sink);
        }
        if let Some((symptom, address)) = symptom {
            self.mismatch(symptom, address, at, sink);
        }
        if walk.stop == Stop::NoMemory {
            self.unreadable(walk.end, at, sink);
        }
    }

    /// The instruction at the source address was executed as if by an `E` atom; all P0 instructions before it
    /// were not taken.
    pub(super) fn source(&mut self, packet: AddressPacket, at: At, sink: &mut impl Sink) {
        let known = self.settle(at, sink);
        if self.position.context.is_none() {
            self.statistics.skipped += 1;
            return;
        }
        let isa = self.position.isa;
        let address = within(isa, packet.address);
        let source = Start { address, it: 0, ..self.position.start() };
        let branch = self.policy.walk(&self.code, source, Until::Count(1));
        if branch.instructions == 0 {
            let space = self.position.space();
            return self.emit(at, Event::NoMemory { address, space }, sink);
        }
        let mut range = branch.range(true);
        if known && self.position.address < address {
            self.widen(&mut range, address, at, sink);
        }
        self.emit(at, Event::Range(range), sink);
        self.call(branch.last.flags.link, branch.end, isa);
        match branch.last.class {
            Class::DirectBranch => self.position.go(branch.last.target, branch.last.target_isa),
            Class::IndirectBranch => {
                self.position.state = State::AfterBranch;
                self.leave_indirectly((address, isa), branch.last.flags.exception_return, at, sink);
            }
            _ => self.position.go(branch.end, isa),
        }
    }

    /// Extends the range of a source instruction back to the current position.
    fn widen(&mut self, range: &mut Range, source: Address, at: At, sink: &mut impl Sink) {
        let start = self.position.start();
        if start.isa != Isa::T32 {
            // Every instruction has 4 bytes: they can be counted without reading them.
            let before = (source.0 - start.address.0) / 4;
            range.start = start.address;
            range.instructions = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
            return;
        }
        let before = self.policy.walk(&self.code, start, Until::Address(source));
        match before.stop {
            Stop::NoMemory => {
                let space = self.position.space();
                self.emit(at, Event::NoMemory { address: source, space }, sink);
            }
            Stop::Limit => self.mismatch(Symptom::EndlessRange, start.address, at, sink),
            _ if before.end != source => self.mismatch(Symptom::BadAddress, source, at, sink),
            Stop::Reached | Stop::Branch => {
                range.start = start.address;
                range.instructions += before.instructions;
                range.flags.conditional |= before.it > 0;
            }
        }
    }

    pub(super) fn q(
        &mut self,
        count: Option<u32>,
        address: AddressPacket,
        context: Option<(Context, Is)>,
        at: At,
        sink: &mut impl Sink,
    ) {
        let next = within(self.position.isa_of(address.is), address.address);
        let known = self.settle(at, sink);
        match count.filter(|_| known).and_then(|count| self.exact(count, next)) {
            Some(walk) => {
                if walk.last.flags.link {
                    self.stack.clear();
                }
                self.emit(at, Event::Range(walk.range(true)), sink);
            }
            None => {
                // Calls on the way were not seen.
                self.stack.clear();
                let start = known.then_some(self.position.address);
                self.emit(at, Event::PathUnknown { start, next, instructions: count.unwrap_or(0) }, sink);
            }
        }
        self.position.state = State::Unknown;
        if let Some((context, is)) = context {
            self.context(context, is, at, sink);
        }
        self.address(address, at, sink);
    }

    /// The way to `next` is known if nothing but the last of `count` instructions can branch.
    fn exact(&self, count: u32, next: Address) -> Option<Walk> {
        let walk = self.policy.walk(&self.code, self.position.start(), Until::Count(count));
        let whole = walk.instructions == count && count > 0;
        let exact = match walk.stop {
            Stop::Reached => whole && walk.end == next,
            Stop::Branch => whole,
            Stop::NoMemory | Stop::Limit => false,
        };
        exact.then_some(walk)
    }
}
