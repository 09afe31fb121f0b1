//! P0 elements and what has to be said around them.
//!
//! A decoder that knows the code needs an atom per P0 instruction and the target of each indirect branch. Where a P0
//! element went is not written at once but before the next one ([`Unit::settle`]): only then it is known whether the
//! return stack knew it, whether an exception came in between, and what the context there is.

use super::packer::Location;
use super::port::Output;
use super::unit::{Absorbed, Mode, Target, Unit};
use backsight_arm::etm4::{Context as ContextPacket, Packet, Profile};
use backsight_core::{Address, Context, Isa, Retired};
use backsight_isa::{Class, Instruction};

impl Unit {
    /// A P0 instruction ends the block.
    pub(super) fn p0(&mut self, retired: &Retired, instruction: &Instruction, out: &mut impl Output) {
        if self.absorb(retired, instruction, out) {
            return;
        }
        self.settle(out);
        self.element(retired, out);
        self.statistics.traced += self.block;
        self.block = 0;
        self.go_on(retired, instruction);
        if instruction.class == Class::TransactionStart && retired.taken && !self.in_transaction {
            self.in_transaction = true;
            self.transaction_start(out);
        }
        if self.busy {
            self.boundary(out);
        }
        if self.mode == Mode::Trailing {
            self.leave(out);
        }
    }

    /// The element itself: an atom, or the address of the instruction.
    #[inline]
    fn element(&mut self, retired: &Retired, out: &mut impl Output) {
        let here = Location { address: retired.address, isa: retired.isa };
        if let Some(fewest) = self.options.source_addresses
            && retired.taken
            && self.packer.source_address(here, fewest, out)
        {
            return;
        }
        match &mut self.speculation {
            Some(speculation) => speculation.atom(retired.taken, here, &mut self.packer, out),
            None => self.packer.atom(retired.taken, out),
        }
    }

    /// Follows the instruction to where it goes, and notes what a decoder cannot see.
    #[inline(always)]
    pub(super) fn go_on(&mut self, retired: &Retired, instruction: &Instruction) {
        let flags = instruction.flags;
        let branch = matches!(instruction.class, Class::DirectBranch | Class::IndirectBranch);
        if !branch || !retired.taken {
            return self.reach(retired.end());
        }
        let mut place = Location { address: retired.next, isa: instruction.target_isa };
        self.reach(retired.next);
        if instruction.class == Class::IndirectBranch {
            place.isa = likely_isa(retired);
            self.isa_open = true;
            // A call pushes its own return address, which a decoder would take for the target.
            let stack = !flags.link && !flags.exception_return && !self.is_broadcast(retired);
            self.target = Target::Indirect { place, stack, exception_return: flags.exception_return };
        } else if instruction.target != retired.next || self.is_broadcast(retired) {
            self.target = Target::Broadcast(place);
        }
        self.isa = place.isa;
        if flags.link {
            self.stack.push(retired.end(), retired.isa);
        }
    }

    #[inline]
    pub(super) fn reach(&mut self, address: Address) {
        self.position = Some(address);
        self.origin = address;
    }

    #[inline]
    fn is_broadcast(&self, retired: &Retired) -> bool {
        self.broadcast.as_ref().is_some_and(|region| region.contains(retired.address.0))
    }

    /// Says what a decoder needs before the next element: where the last one went, in which context, and from time to
    /// time everything.
    #[inline]
    pub(super) fn settle(&mut self, out: &mut impl Output) {
        let synchronise = self.packer.port.since_sync() >= self.sync_period || self.sent_context.is_none();
        if self.target == Target::Known && !self.context_changed && !synchronise && self.q.is_none() {
            return;
        }
        self.settle_all(synchronise, out);
    }

    fn settle_all(&mut self, synchronise: bool, out: &mut impl Output) {
        self.release_q(out);
        let target = core::mem::replace(&mut self.target, Target::Known);
        let place = match target {
            Target::Known => Location { address: self.origin, isa: self.isa },
            Target::Restart(place) | Target::Broadcast(place) | Target::Handler(place) => place,
            Target::Indirect { place, .. } => place,
        };
        self.origin = place.address;
        if synchronise {
            self.synchronise(out);
        }
        if matches!(target, Target::Restart(_)) {
            self.trace_on(out);
        }
        let context = if self.context_changed || synchronise { self.context_to_tell() } else { None };
        let alone = context.is_none() || self.packer.reads_as(place);
        match target {
            _ if synchronise || !alone => self.packer.address(place, context, out),
            Target::Known => self.tell_context(context, out),
            Target::Indirect { stack: true, .. } if self.stack.pop_if(place.address, place.isa) => {
                self.tell_context(context, out);
            }
            Target::Restart(place) if context.is_none() => {
                self.packer.put(Packet::Context(None), out);
                self.packer.address(place, None, out);
            }
            _ => self.packer.address(place, context, out),
        }
        if matches!(target, Target::Indirect { exception_return: true, .. }) {
            self.exception_return(out);
        }
    }

    fn synchronise(&mut self, out: &mut impl Output) {
        let config = &self.options.config;
        let transaction = u32::from(self.in_transaction && config.is_ete());
        let info = u32::from(config.cycle_counting())
            | u32::from(config.loads_p0()) << 4
            | u32::from(config.stores_p0()) << 5
            | transaction << 6;
        self.packer.synchronise(info, config.cycle_counting(), out);
        // Who begins here knows no calls.
        self.stack.clear();
        self.sent_context = None;
        self.clock.timestamp_due = self.clock.now;
        self.statistics.synchronisations += 1;
    }

    fn trace_on(&mut self, out: &mut impl Output) {
        self.packer.put(Packet::TraceOn, out);
        self.stack.clear();
        self.clock.counted = None;
        if self.in_transaction {
            self.transaction_start(out);
        }
    }

    fn transaction_start(&mut self, out: &mut impl Output) {
        if self.options.config.transaction_start_p0() {
            self.packer.put_p0(Packet::TransactionStart, out);
        } else {
            self.packer.put(Packet::TransactionStart, out);
        }
    }

    /// An instruction that ends a transaction: no P0 element, but reported at its place.
    pub(super) fn transaction_commit(&mut self, retired: &Retired, out: &mut impl Output) {
        self.position = Some(retired.end());
        if core::mem::replace(&mut self.in_transaction, false) {
            self.settle(out);
            self.packer.put(Packet::TransactionCommit, out);
        }
    }

    /// ETE decoders see exception returns in the code.
    pub(super) fn exception_return(&mut self, out: &mut impl Output) {
        match self.options.config.profile {
            _ if self.options.config.is_ete() => {}
            Profile::M => self.packer.put_p0(Packet::ExceptionReturn, out),
            Profile::A | Profile::R => self.packer.put(Packet::ExceptionReturn, out),
        }
    }

    fn tell_context(&mut self, context: Option<ContextPacket>, out: &mut impl Output) {
        if context.is_some() {
            self.packer.put(Packet::Context(context), out);
        }
    }

    /// The context as far as a decoder does not know it; it will be reported. Identifiers only where they are traced and
    /// have changed.
    pub(super) fn context_to_tell(&mut self) -> Option<ContextPacket> {
        let config = &self.options.config;
        let vmid_mask = u32::MAX >> (32 - 8 * u32::from(config.vmid_bytes()).clamp(1, 4));
        let vmid = config.vmid().then(|| self.context.vmid.unwrap_or(0) & vmid_mask);
        let context_id = config.context_id().then(|| self.context.context_id.unwrap_or(0) as u32);
        let Context { privilege, wide, .. } = self.context;
        let (level, security) = (privilege.level() & 3, privilege.security());
        let whole = ContextPacket { level, security, wide, vmid, context_id };
        self.context_changed = false;
        match self.sent_context.replace(whole) {
            Some(sent) if sent == whole => None,
            Some(sent) => Some(ContextPacket {
                vmid: vmid.filter(|_| sent.vmid != vmid),
                context_id: context_id.filter(|_| sent.context_id != context_id),
                ..whole
            }),
            None => Some(whole),
        }
    }

    /// Takes a block into a Q element, where they are switched on: only its length and its end will be reported.
    fn absorb(&mut self, retired: &Retired, instruction: &Instruction, out: &mut impl Output) -> bool {
        let Some(region) = &self.q_region else { return false };
        let special = instruction.flags.exception_return || instruction.class == Class::TransactionStart;
        if special || !region.contains(retired.address.0) {
            return false;
        }
        let longest = u64::from(self.options.longest_q);
        let full = self.q.is_some_and(|q| q.count + self.block > longest);
        if self.q.is_none() || full || self.context_changed {
            self.settle(out);
        }
        let count = self.q.map_or(0, |q| q.count) + self.block;
        self.block = 0;
        self.go_on(retired, instruction);
        self.target = Target::Known;
        self.q = Some(Absorbed { count, next: Location { address: self.origin, isa: self.isa } });
        if self.mode == Mode::Trailing {
            self.leave(out);
        }
        true
    }

    /// Writes the Q element that was collected. Calls in it are unseen: the return stack is worth nothing behind it.
    pub(super) fn release_q(&mut self, out: &mut impl Output) {
        let Some(Absorbed { count, next }) = self.q.take() else { return };
        self.statistics.traced += count;
        self.statistics.counted += count;
        self.stack.clear();
        let known = match self.options.config.registers.configr >> 13 & 3 {
            0b01 => true,
            0b10 => false,
            _ => count * 2 <= u64::from(self.options.longest_q),
        };
        let count = u32::try_from(count).ok().filter(|_| known);
        self.packer.q(count, next, None, out);
        self.origin = next.address;
    }
}

/// The instruction set at the target of an indirect branch, for the case that nothing is executed there.
fn likely_isa(retired: &Retired) -> Isa {
    match retired.isa {
        Isa::A32 if retired.next.0 & 2 != 0 => Isa::T32,
        isa => isa,
    }
}
