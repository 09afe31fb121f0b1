//! P0 elements and what has to be said around them.
//!
//! A decoder that knows the code needs an atom per P0 instruction and the target of each indirect branch. Where a P0
//! element went is not written at once but before the next one ([`Unit::settle`]): only then it is known whether the
//! return stack knew it, whether an exception came in between, and what the context there is.

use super::packer::Location;
use super::port::Output;
use super::position::{Absorbed, Target};
use super::unit::{Mode, Unit};
use backsight_arm::etm4::{Context as ContextPacket, Packet, Profile};
use backsight_core::{Isa, Retired};
use backsight_isa::{Class, Instruction};

impl Unit {
    /// A P0 instruction ends the block.
    pub(super) fn p0(&mut self, retired: &Retired, instruction: &Instruction, out: &mut impl Output) {
        if self.absorb(retired, instruction, out) {
            return;
        }
        self.settle(out);
        self.element(retired, out);
        self.statistics.traced += self.position.block;
        self.position.block = 0;
        self.go_on(retired, instruction);
        if instruction.class == Class::TransactionStart && retired.taken && !self.context.in_transaction {
            self.context.in_transaction = true;
            self.transaction_start(out);
        }
        if self.clock.is_busy {
            self.boundary(out);
        }
        if self.filter.mode == Mode::Trailing {
            self.leave(out);
        }
    }

    /// The element itself: an atom, or the address of the instruction.
    #[inline]
    fn element(&mut self, retired: &Retired, out: &mut impl Output) {
        let here = Location { address: retired.address, isa: retired.isa };
        if let Some(fewest) = self.options.source_addresses
            && retired.taken
            && self.output.packer.source_address(here, fewest, out)
        {
            return;
        }
        match &mut self.output.speculation {
            Some(speculation) => speculation.atom(retired.taken, here, &mut self.output.packer, out),
            None => self.output.packer.atom(retired.taken, out),
        }
    }

    /// Follows the instruction to where it goes, and notes what a decoder cannot see.
    #[inline(always)]
    pub(super) fn go_on(&mut self, retired: &Retired, instruction: &Instruction) {
        let flags = instruction.flags;
        let branch = matches!(instruction.class, Class::DirectBranch | Class::IndirectBranch);
        if !branch || !retired.taken {
            return self.position.reach(retired.end());
        }
        let mut place = Location { address: retired.next, isa: instruction.target_isa };
        self.position.reach(retired.next);
        if instruction.class == Class::IndirectBranch {
            place.isa = likely_isa(retired);
            self.position.isa_open = true;
            // A call pushes its own return address, which a decoder would take for the target.
            let stack = !flags.link && !flags.exception_return && !self.is_broadcast(retired);
            self.position.target =
                Target::Indirect { place, stack, exception_return: flags.exception_return };
        } else if instruction.target != retired.next || self.is_broadcast(retired) {
            self.position.target = Target::Broadcast(place);
        }
        self.position.isa = place.isa;
        if flags.link {
            self.stack.push(retired.end(), retired.isa);
        }
    }

    #[inline]
    fn is_broadcast(&self, retired: &Retired) -> bool {
        self.filter.broadcast.as_ref().is_some_and(|region| region.contains(retired.address.0))
    }

    /// Says what a decoder needs before the next element: where the last one went, in which context, and from time to
    /// time everything.
    #[inline]
    pub(super) fn settle(&mut self, out: &mut impl Output) {
        let synchronise = self.output.needs_sync() || self.context.sent.is_none();
        if self.position.target == Target::Known
            && !self.context.changed
            && !synchronise
            && self.position.absorbed.is_none()
        {
            return;
        }
        self.settle_all(synchronise, out);
    }

    fn settle_all(&mut self, synchronise: bool, out: &mut impl Output) {
        self.release_q(out);
        let target = self.position.take_target();
        let place = match target {
            Target::Known => Location { address: self.position.origin, isa: self.position.isa },
            Target::Restart(place) | Target::Broadcast(place) | Target::Handler(place) => place,
            Target::Indirect { place, .. } => place,
        };
        self.position.origin = place.address;
        if synchronise {
            self.synchronise(out);
        }
        if matches!(target, Target::Restart(_)) {
            self.trace_on(out);
        }
        let context = if self.context.changed || synchronise {
            self.context.take_unsent(&self.options.config)
        } else {
            None
        };
        let alone = context.is_none() || self.output.packer.reads_as(place);
        match target {
            _ if synchronise || !alone => self.output.packer.address(place, context, out),
            Target::Known => self.tell_context(context, out),
            Target::Indirect { stack: true, .. } if self.stack.pop_if(place.address, place.isa) => {
                self.tell_context(context, out);
            }
            Target::Restart(place) if context.is_none() => {
                self.output.put(Packet::Context(None), out);
                self.output.packer.address(place, None, out);
            }
            _ => self.output.packer.address(place, context, out),
        }
        if matches!(target, Target::Indirect { exception_return: true, .. }) {
            self.exception_return(out);
        }
    }

    fn synchronise(&mut self, out: &mut impl Output) {
        let config = &self.options.config;
        let transaction = u32::from(self.context.in_transaction && config.is_ete());
        let info = u32::from(config.cycle_counting())
            | u32::from(config.loads_p0()) << 4
            | u32::from(config.stores_p0()) << 5
            | transaction << 6;
        self.output.packer.synchronise(info, config.cycle_counting(), out);
        // Who begins here knows no calls.
        self.stack.clear();
        self.context.sent = None;
        self.clock.timestamp_due = self.clock.now;
        self.statistics.synchronisations += 1;
    }

    fn trace_on(&mut self, out: &mut impl Output) {
        self.output.put(Packet::TraceOn, out);
        self.stack.clear();
        self.clock.counted = None;
        if self.context.in_transaction {
            self.transaction_start(out);
        }
    }

    fn transaction_start(&mut self, out: &mut impl Output) {
        if self.options.config.transaction_start_p0() {
            self.output.packer.put_p0(Packet::TransactionStart, out);
        } else {
            self.output.put(Packet::TransactionStart, out);
        }
    }

    /// An instruction that ends a transaction: no P0 element, but reported at its place.
    pub(super) fn transaction_commit(&mut self, retired: &Retired, out: &mut impl Output) {
        self.position.address = Some(retired.end());
        if core::mem::replace(&mut self.context.in_transaction, false) {
            self.settle(out);
            self.output.put(Packet::TransactionCommit, out);
        }
    }

    /// ETE decoders see exception returns in the code.
    pub(super) fn exception_return(&mut self, out: &mut impl Output) {
        match self.options.config.profile {
            _ if self.options.config.is_ete() => {}
            Profile::M => self.output.packer.put_p0(Packet::ExceptionReturn, out),
            Profile::A | Profile::R => self.output.put(Packet::ExceptionReturn, out),
        }
    }

    fn tell_context(&mut self, context: Option<ContextPacket>, out: &mut impl Output) {
        if context.is_some() {
            self.output.put(Packet::Context(context), out);
        }
    }

    /// Takes a block into a Q element, where they are switched on: only its length and its end will be reported.
    fn absorb(&mut self, retired: &Retired, instruction: &Instruction, out: &mut impl Output) -> bool {
        let Some(region) = &self.filter.q_region else { return false };
        let special = instruction.flags.exception_return || instruction.class == Class::TransactionStart;
        if special || !region.contains(retired.address.0) {
            return false;
        }
        let longest = u64::from(self.options.longest_q);
        let full = self.position.absorbed.is_some_and(|q| q.count + self.position.block > longest);
        if self.position.absorbed.is_none() || full || self.context.changed {
            self.settle(out);
        }
        let count = self.position.absorbed.map_or(0, |q| q.count) + self.position.block;
        self.position.block = 0;
        self.go_on(retired, instruction);
        self.position.target = Target::Known;
        self.position.absorbed = Some(Absorbed {
            count,
            next: Location { address: self.position.origin, isa: self.position.isa },
        });
        if self.filter.mode == Mode::Trailing {
            self.leave(out);
        }
        true
    }

    /// Writes the Q element that was collected. Calls in it are unseen: the return stack is worth nothing behind it.
    pub(super) fn release_q(&mut self, out: &mut impl Output) {
        let Some(Absorbed { count, next }) = self.position.absorbed.take() else { return };
        self.statistics.traced += count;
        self.statistics.counted += count;
        self.stack.clear();
        let known = match self.options.config.registers.configr >> 13 & 3 {
            0b01 => true,
            0b10 => false,
            _ => count * 2 <= u64::from(self.options.longest_q),
        };
        let count = u32::try_from(count).ok().filter(|_| known);
        self.output.packer.q(count, next, None, out);
        self.position.origin = next.address;
    }
}

/// The instruction set at the target of an indirect branch, for the case that nothing is executed there.
fn likely_isa(retired: &Retired) -> Isa {
    match retired.isa {
        Isa::A32 if retired.next.0 & 2 != 0 => Isa::T32,
        isa => isa,
    }
}
