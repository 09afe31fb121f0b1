//! Exceptions and interrupts: where they happened.

use backsight_core::{Address, Cause};
use backsight_image::Code;
use backsight_riscv::etrace::TrapPacket;

use super::Follower;
use crate::Event;
use crate::blocks::Ending;
use crate::sink::Sink;

/// A trap whose position only the next packet settles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Deferred {
    trap: TrapPacket,
    predicted: Option<u64>,
}

impl<C: Code> Follower<C> {
    /// Reports a trap, before its handler is entered.
    pub(super) fn trap(&mut self, trap: &TrapPacket, sink: &mut impl Sink) {
        self.flush(sink);
        let handler = self.settings.handlers.of(trap.ecause, trap.interrupt);
        let named = trap.address.filter(|_| !trap.thaddr).map(|field| self.absolute(field));
        if let Some(first_handler) = self.unentered {
            // A trap at the very first instruction of a handler: execution is there, not at `pc`.
            self.report_trap(trap, first_handler, sink);
        } else if let Some(position) = self.position {
            let block = *self.blocks.get(position.block);
            let at_end = position.pc == block.last().0;
            let next = self.next_address(position);
            let predicted_return = at_end && block.ending == Ending::Return && next.is_some();
            if predicted_return && !trap.thaddr && !trap.interrupt {
                self.deferred = Some(Deferred { trap: *trap, predicted: next });
            } else if trap.interrupt && predicted_return {
                // Nobody says whether the return would have gone where the stack predicts.
                self.report_trap(trap, None, sink);
            } else {
                // Of an interrupt after an uninferable jump nobody says where it would have gone.
                self.report_trap(trap, next.or(named.filter(|_| !trap.interrupt)), sink);
            }
        } else {
            self.report_trap(trap, named.filter(|_| !trap.interrupt), sink);
        }
        if !trap.thaddr {
            // The packet names the handler's first instruction if it was sent because of a second trap there.
            let second = self.deferred.is_none()
                && self
                    .position
                    .is_some_and(|position| trap.interrupt || self.next_address(position).is_some());
            self.unentered = Some(handler.or(named.filter(|_| second)));
        }
    }

    /// The packet after a deferred trap is here. If it is a second trap, the first packet was sent because of that
    /// one and names the handler; or because the return was mispredicted, and names the address of the first trap. Only
    /// who knows the handlers can decide. Without a second trap it names the address of the first.
    pub(super) fn settle_trap(&mut self, trap_follows: bool, sink: &mut impl Sink) {
        if let Some(Deferred { trap, predicted }) = self.deferred.take() {
            let named = trap.address.map(|field| self.absolute(field));
            let handler = self.settings.handlers.of(trap.ecause, trap.interrupt);
            let place = match (trap_follows, handler) {
                (true, None) => None,
                (true, Some(_)) if named == handler => predicted,
                _ => named,
            };
            self.report_trap(&trap, place, sink);
        }
    }

    fn report_trap(&mut self, trap: &TrapPacket, position: Option<u64>, sink: &mut impl Sink) {
        let event = Event::Exception {
            cause: match trap.interrupt {
                true => Cause::RiscvInterrupt(trap.ecause as u32),
                false => Cause::Riscv(trap.ecause as u32),
            },
            return_address: position.map(Address),
            is_branch_target: false,
            fault_pending: false,
            value: trap.tval,
        };
        self.emit(event, sink);
    }
}
