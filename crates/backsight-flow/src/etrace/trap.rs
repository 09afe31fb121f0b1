//! Exceptions and interrupts: where they happened.

use backsight_core::Address;
use backsight_image::Code;
use backsight_riscv::etrace::TrapPacket;

use super::blocks::End;
use super::{Follower, Sink};
use crate::Event;

/// A trap whose position only the next packet settles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deferred {
    trap: TrapPacket,
    predicted: Option<u64>,
}

impl<C: Code> Follower<'_, C> {
    /// Tells about a trap, before its handler is entered.
    pub(super) fn trap(&mut self, trap: &TrapPacket, sink: &mut impl Sink) {
        self.flush(sink);
        let handler = self.settings.handlers.of(trap.ecause, trap.interrupt);
        let named = trap.address.filter(|_| !trap.thaddr).map(|field| self.absolute(field));
        if let Some(first_handler) = self.unentered {
            // A trap at the very first instruction of a handler: execution is there, not at `pc`.
            self.tell(trap, first_handler, sink);
        } else if let Some(position) = self.position {
            let block = *self.blocks.get(position.block);
            let at_end = position.pc == block.last;
            let next = self.next_address(position);
            let predicted_return = at_end && block.kind == End::Return && next.is_some();
            if predicted_return && !trap.thaddr && !trap.interrupt {
                self.deferred = Some(Deferred { trap: *trap, predicted: next });
            } else {
                self.tell(trap, next.or(named), sink);
            }
        } else {
            self.tell(trap, named, sink);
        }
        if !trap.thaddr {
            // The packet names the handler's first instruction if it was sent because of a second trap there.
            let second =
                self.position.is_some_and(|position| trap.interrupt || self.next_address(position).is_some());
            self.unentered = Some(handler.or(named.filter(|_| second)));
        }
    }

    /// The packet behind a deferred trap is here: a start packet means that the return before was mispredicted.
    pub(super) fn settle_trap(&mut self, start_follows: bool, sink: &mut impl Sink) {
        if let Some(Deferred { trap, predicted }) = self.deferred.take() {
            let named = trap.address.map(|field| self.absolute(field));
            self.tell(&trap, if start_follows { named } else { predicted }, sink);
        }
    }

    fn tell(&mut self, trap: &TrapPacket, position: Option<u64>, sink: &mut impl Sink) {
        let event = Event::Exception {
            number: trap.ecause as u32,
            interrupt: trap.interrupt,
            return_address: position.map(Address),
            is_branch_target: false,
            fault_pending: false,
            value: trap.tval,
        };
        self.emit(event, sink);
    }
}
