//! Where execution does not simply go on: exceptions, filters, losses, the end; and what is written between elements.

use super::packer::Taken;
use super::port::Output;
use super::position::Target;
use super::unit::{Mode, Unit};
use backsight_arm::etm4::{Packet, Profile};
use backsight_core::Trap;

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
        self.clock.advance(trap.cycle, self.statistics.instructions);
        let traced = matches!(self.filter.mode, Mode::On | Mode::Trailing);
        if traced {
            if self.position.address != Some(trap.return_address) || self.handler_was_not_seen() {
                self.lose_sight(out);
                self.filter.mode = Mode::On;
                self.position.target = Target::Restart(self.position.place_of(trap.return_address));
            }
            self.exception(trap, out);
            self.filter.mode = Mode::On;
            self.position.target = Target::Handler(self.position.place_of(trap.handler));
            if self.clock.is_busy {
                self.boundary(out);
            }
        }
        self.position.jump(Some(trap.handler));
        self.position.origin = trap.handler;
        self.filter.steady = false;
    }

    fn exception(&mut self, trap: &Trap, out: &mut impl Output) {
        if self.options.config.is_ete() && trap.cause == number::TRANSACTION_FAILURE {
            self.settle(out);
            self.context.in_transaction = false;
            self.statistics.untold += self.position.block;
            return self.output.put(Packet::TransactionFailure, out);
        }
        if self.options.config.is_ete() && trap.cause == number::PE_RESET {
            self.settle(out);
            self.context.in_transaction = false;
            self.statistics.untold += self.position.block;
            self.output.packer.put_p0(Packet::PeReset, out);
            self.context.sent = None;
            return;
        }
        let back_to = self.position.place_of(trap.return_address);
        let taken = Taken { number: trap.cause, back_to, at_target: self.position.is_at_new_target() };
        if taken.at_target {
            if self.position.follows_exception_return() {
                self.exception_return(out);
            }
            let context = self.context.take_unsent(&self.options.config);
            self.output.packer.exception(taken, context, out);
        } else {
            self.settle(out);
            self.output.packer.exception(taken, None, out);
        }
        self.statistics.traced += self.position.block;
    }

    /// No exception is taken to EL0: if that is where execution goes on, what handled it was not seen.
    pub(super) fn handler_was_not_seen(&self) -> bool {
        matches!(self.position.target, Target::Handler(_))
            && self.context.now.level() == 0
            && self.options.config.profile != Profile::M
    }

    /// Execution was not seen for a while: tells how far it came, and begins again with the next instruction.
    pub(super) fn lose_sight(&mut self, out: &mut impl Output) {
        if matches!(self.filter.mode, Mode::On | Mode::Trailing) {
            self.halt(out);
            self.leave(out);
        }
        self.position.jump(None);
        self.filter.steady = false;
    }

    /// Instructions after the last P0 element are reported by an exception that follows them.
    fn halt(&mut self, out: &mut impl Output) {
        if self.position.block == 0 {
            return;
        }
        let Some(position) = self.position.address.filter(|_| self.options.halt_at_end) else {
            self.statistics.untold += self.position.block;
            return;
        };
        self.settle(out);
        let m_profile = self.options.config.profile == Profile::M;
        let number = if m_profile { number::DEBUG_HALT_M } else { number::DEBUG_HALT };
        self.output.packer.exception(
            Taken { number, back_to: self.position.place_of(position), at_target: false },
            None,
            out,
        );
        self.statistics.traced += self.position.block;
        self.position.block = 0;
    }

    /// Tracing stops at the end of a block. Where it went is still reported, if that was a branch.
    pub(super) fn leave(&mut self, out: &mut impl Output) {
        self.release_q(out);
        match self.position.take_target() {
            Target::Broadcast(place) => self.output.packer.address(place, None, out),
            Target::Indirect { place, exception_return, .. } => {
                self.output.packer.address(place, None, out);
                if exception_return {
                    self.exception_return(out);
                }
            }
            Target::Known | Target::Restart(_) | Target::Handler(_) => {}
        }
        self.output.commit_all(out);
        self.filter.mode = Mode::Off;
        self.position.block = 0;
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
            self.output.put(Packet::Event(events & 0xF), out);
        }
        if self.output.packer.port.overflows(now) {
            self.output.commit_all(out);
            self.filter.mode = Mode::Lost;
            self.position.target = Target::Known;
            self.statistics.overflows += 1;
        }
    }

    fn count_cycles(&mut self, now: u64, out: &mut impl Output) {
        let cycles = self.clock.since_count();
        if cycles.is_none_or(|cycles| self.output.packer.counts(cycles)) {
            self.output.packer.cycle_count(cycles, out);
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
            self.output.put(Packet::TimestampMarker, out);
        }
        let counting = self.options.config.cycle_counting();
        let cycles = self.clock.counted.filter(|_| counting).map(|then| now.saturating_sub(then));
        self.output.packer.timestamp(value, cycles, out);
    }

    /// There is room in the buffer again: says that something is missing. A decoder begins again.
    pub(super) fn recover(&mut self, out: &mut impl Output) {
        self.output.packer.overflow(out);
        self.context.sent = None;
        self.filter.mode = Mode::Off;
    }

    /// The end of the trace.
    pub(super) fn end(&mut self, out: &mut impl Output) {
        self.lose_sight(out);
        if self.filter.mode == Mode::Lost {
            self.recover(out);
        }
        self.context.sent = None;
    }
}
