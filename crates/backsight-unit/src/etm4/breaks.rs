//! Where execution does not simply go on: exceptions, filters, losses, the end; and what is written between elements.

use super::packer::{Location, Taken};
use super::port::Output;
use super::unit::{Mode, Target, Unit};
use backsight_arm::etm4::{Packet, Profile};
use backsight_core::{Address, Isa, Trap};

/// Exception numbers that this unit has to know.
mod number {
    pub const PE_RESET: u32 = 0x00;
    pub const DEBUG_HALT: u32 = 0x01;
    pub const DEBUG_HALT_M: u32 = 0x18;
    pub const TRANSACTION_FAILURE: u32 = 0x18;
}

impl Unit {
    /// An exception: how far execution came, and where it goes.
    pub(super) fn trap(&mut self, trap: &Trap, out: &mut impl Output) {
        self.clock.now = if trap.cycle != 0 { trap.cycle } else { self.counted_time() };
        let traced = matches!(self.mode, Mode::On | Mode::Trailing);
        if traced {
            if self.position != Some(trap.return_address) || self.handler_was_not_seen() {
                self.lose_sight(out);
                self.mode = Mode::On;
                self.target = Target::Restart(self.place_of(trap.return_address));
            }
            self.exception(trap, out);
            self.mode = Mode::On;
            self.target = Target::Handler(self.place_of(trap.handler));
            if self.busy {
                self.boundary(out);
            }
        }
        self.block = 0;
        self.position = Some(trap.handler);
        self.origin = trap.handler;
        self.isa_open = true;
        self.steady = false;
    }

    fn exception(&mut self, trap: &Trap, out: &mut impl Output) {
        if self.options.config.is_ete() && trap.cause == number::TRANSACTION_FAILURE {
            self.settle(out);
            self.in_transaction = false;
            self.statistics.untold += self.block;
            return self.packer.put(Packet::TransactionFailure, out);
        }
        if self.options.config.is_ete() && trap.cause == number::PE_RESET {
            self.settle(out);
            self.in_transaction = false;
            self.statistics.untold += self.block;
            self.packer.put_p0(Packet::PeReset, out);
            self.sent_context = None;
            return;
        }
        let back_to = self.place_of(trap.return_address);
        let moved =
            matches!(self.target, Target::Indirect { .. } | Target::Broadcast(_) | Target::Handler(_));
        let taken = Taken { number: trap.cause, back_to, at_target: moved && self.block == 0 };
        if taken.at_target {
            if matches!(self.target, Target::Indirect { exception_return: true, .. }) {
                self.exception_return(out);
            }
            let context = self.context_to_tell();
            self.packer.exception(taken, context, out);
        } else {
            self.settle(out);
            self.packer.exception(taken, None, out);
        }
        self.statistics.traced += self.block;
    }

    /// The place where execution is, or would be.
    fn place_of(&self, address: Address) -> Location {
        let isa = if self.isa == Isa::A32 && address.0 & 2 != 0 { Isa::T32 } else { self.isa };
        Location { address, isa }
    }

    /// No exception is taken to EL0: if that is where execution goes on, what handled it was not seen.
    pub(super) fn handler_was_not_seen(&self) -> bool {
        matches!(self.target, Target::Handler(_))
            && self.context.level() == 0
            && self.options.config.profile != Profile::M
    }

    /// Execution was not seen for a while: tells how far it came, and begins again with the next instruction.
    pub(super) fn lose_sight(&mut self, out: &mut impl Output) {
        if matches!(self.mode, Mode::On | Mode::Trailing) {
            self.halt(out);
            self.leave(out);
        }
        self.block = 0;
        self.position = None;
        self.isa_open = true;
        self.steady = false;
    }

    /// Instructions after the last P0 element are reported by an exception that follows them.
    fn halt(&mut self, out: &mut impl Output) {
        if self.block == 0 {
            return;
        }
        let Some(position) = self.position.filter(|_| self.options.halt_at_end) else {
            self.statistics.untold += self.block;
            return;
        };
        self.settle(out);
        let m_profile = self.options.config.profile == Profile::M;
        let number = if m_profile { number::DEBUG_HALT_M } else { number::DEBUG_HALT };
        self.packer.exception(
            Taken { number, back_to: self.place_of(position), at_target: false },
            None,
            out,
        );
        self.statistics.traced += self.block;
        self.block = 0;
    }

    /// Tracing stops at the end of a block. Where it went is still reported, if that was a branch.
    pub(super) fn leave(&mut self, out: &mut impl Output) {
        self.release_q(out);
        match core::mem::replace(&mut self.target, Target::Known) {
            Target::Broadcast(place) => self.packer.address(place, None, out),
            Target::Indirect { place, exception_return, .. } => {
                self.packer.address(place, None, out);
                if exception_return {
                    self.exception_return(out);
                }
            }
            Target::Known | Target::Restart(_) | Target::Handler(_) => {}
        }
        self.packer.flush(out);
        self.packer.commit(self.packer.depth(), out);
        self.mode = Mode::Off;
        self.block = 0;
    }

    /// What is written between elements: cycle counts, timestamps, events. And the buffer may be full.
    pub(super) fn boundary(&mut self, out: &mut impl Output) {
        let now = self.clock.now;
        if self.options.config.cycle_counting() {
            self.count_cycles(now, out);
        }
        if self.options.config.timestamps() && now >= self.clock.timestamp_due {
            self.timestamp(now, out);
        }
        if let Some((period, events)) = self.options.events
            && now >= self.clock.event_due
        {
            self.clock.event_due = now.saturating_add(period);
            self.packer.put(Packet::Event(events & 0xF), out);
        }
        if self.packer.port.overflows(now) {
            self.packer.flush(out);
            self.packer.commit(self.packer.depth(), out);
            self.mode = Mode::Lost;
            self.target = Target::Known;
            self.statistics.overflows += 1;
        }
    }

    fn count_cycles(&mut self, now: u64, out: &mut impl Output) {
        let cycles = self.clock.counted.map(|then| now.saturating_sub(then));
        if cycles.is_none_or(|cycles| self.packer.counts(cycles)) {
            self.packer.cycle_count(cycles, out);
            self.clock.counted = Some(now);
        }
    }

    pub(super) fn timestamp(&mut self, now: u64, out: &mut impl Output) {
        let options = self.options.timestamps;
        self.clock.timestamp_due = now.saturating_add(options.period);
        let bits = self.options.config.timestamp_bits();
        let value = options.first.wrapping_add(now / u64::from(options.divider.max(1)));
        let value = if bits < 64 { value & ((1 << bits) - 1) } else { value };
        if self.options.config.timestamp_markers() {
            self.packer.put(Packet::TimestampMarker, out);
        }
        let counting = self.options.config.cycle_counting();
        let cycles = self.clock.counted.filter(|_| counting).map(|then| now.saturating_sub(then));
        self.packer.timestamp(value, cycles, out);
    }

    /// There is room in the buffer again: says that something is missing. The decoder begins anew.
    pub(super) fn recover(&mut self, out: &mut impl Output) {
        self.packer.overflow(out);
        self.sent_context = None;
        self.mode = Mode::Off;
    }

    /// The end of the trace.
    pub(super) fn end(&mut self, out: &mut impl Output) {
        self.lose_sight(out);
        if self.mode == Mode::Lost {
            self.recover(out);
        }
        self.sent_context = None;
    }
}
