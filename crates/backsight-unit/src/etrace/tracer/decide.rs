//! Which packet an item needs: the specification's flow, step by step.

use backsight_riscv::etrace::{ContextPacket, Packet, QualStatus};
use backsight_riscv::ingress::{Ctype, Itype};

use super::item::Item;
use super::report::Reason;
use super::{Algorithm, Jump, Previous, ResyncMode, ResyncState, Sink, Tracer, UnreportedTrap};

/// Implicit returns that irets can count.
const MOST_IRETS: u32 = 255;

/// What decides how execution leaves an instruction.
pub(super) struct Departure {
    pub itype: Itype,
    /// Where a call returns to.
    pub end: u64,
    /// The instruction before, on the decoder's path too, says where this jump goes.
    pub sijump: bool,
}

impl Departure {
    fn of(item: &Item, previous: Option<&Previous>) -> Self {
        let traced = previous.is_some_and(|it| item.inner || it.retired && it.trap.is_none());
        Self { itype: item.itype, end: item.end, sijump: item.sijump && traced }
    }
}

impl Tracer {
    /// Decides about `current`; without `next`, tracing ends after it.
    pub(super) fn process(&mut self, current: &Item, next: Option<&Item>, sink: &mut impl Sink) {
        self.recover(sink);
        self.sent_anyway = false;
        self.count_resync(current);
        if self.previous.is_some_and(|previous| previous.jump == Jump::ImplicitReturn) {
            self.irets += 1;
        }
        let context_changed = current.ctype != Ctype::Unreported && current.context != self.context;
        self.context_pending |= context_changed && current.ctype == Ctype::Imprecise;
        let mut reported = false;
        let synchronised = self.synchronise(current, &mut reported, sink);
        if !synchronised && current.itype.is_branch() {
            self.branches.push(current.address, current.itype == Itype::Taken);
        }
        let jump =
            self.follow(&Departure::of(current, self.previous.as_ref()), next.map(|next| next.address));
        let restart = self.restarts(current, jump, next);
        if !synchronised {
            let next = if restart { None } else { next };
            self.report_current(current, jump, next, &mut reported, sink);
        }
        if next.is_none() && current.trap && !reported {
            // The chart would lose a trap that nothing follows.
            self.send_trap(current, &trap_of(current, false), false, sink);
        }
        if current.itype.is_branch() {
            self.irets = 0;
        }
        self.returned |= current.itype == Itype::Return;
        self.context = current.context;
        self.previous = Some(Previous {
            privilege: current.privilege,
            retired: current.retired,
            jump,
            trap: current.trap.then(|| trap_of(current, reported)),
        });
        if restart {
            self.close(true, sink);
        }
    }

    /// Packets were lost and there is room again: says so and begins again.
    pub(super) fn recover(&mut self, sink: &mut impl Sink) {
        if self.lost && sink.has_room() {
            self.lost = false;
            self.forget_previous();
            self.support(true, QualStatus::TraceLost, sink);
        }
    }

    fn count_resync(&mut self, current: &Item) {
        let resync = self.resync_settings();
        if resync.mode == ResyncMode::Off {
            return;
        }
        self.count += u64::from(current.weight);
        if self.settings.algorithm == Algorithm::Current {
            if self.resync == ResyncState::Counting && self.count >= resync.limit {
                self.resync = ResyncState::Flush;
            }
        } else {
            self.resync = if self.count > resync.limit { ResyncState::Send } else { ResyncState::Counting };
        }
    }

    /// Privilege or context changes at `item`, so that it must be named by a sync packet.
    #[inline]
    fn is_precise_change(&self, item: &Item, privilege: u8, context: u64) -> bool {
        !item.is_trap_only()
            && (item.privilege != privilege
                || item.context != context
                    && matches!(item.ctype, Ctype::Precise | Ctype::AsynchronousDiscontinuity))
    }

    /// Steps 3 to 5: packets that synchronise.
    fn synchronise(&mut self, current: &Item, reported: &mut bool, sink: &mut impl Sink) -> bool {
        let Some(previous) = self.previous else {
            if self.settings.algorithm == Algorithm::Current && current.is_trap_only() {
                if !current.interrupt {
                    self.send_trap(current, &trap_of(current, false), false, sink);
                    *reported = true;
                }
                return !current.interrupt;
            }
            self.send_start(current, sink);
            return true;
        };
        if let Some(trap) = previous.trap {
            match (current.is_trap_only(), trap.reported) {
                (true, true) => return false,
                (thaddr_unknown, false) => self.send_trap(current, &trap, !thaddr_unknown, sink),
                (false, true) => self.send_start(current, sink),
            }
            return true;
        }
        let due = self.is_precise_change(current, previous.privilege, self.context)
            || self.resync == ResyncState::Send;
        if due && current.retired {
            self.send_start(current, sink);
            if !self.is_fresh() && self.is_cached(previous.jump) {
                // A decoder walks to the start like to any other target.
                self.cache.insert(self.params.wrap(current.address));
            }
        }
        due && current.retired
    }

    /// How execution leaves an instruction. Calls and returns move the return stack.
    #[inline]
    pub(super) fn follow(&mut self, from: &Departure, next: Option<u64>) -> Jump {
        let implicit = self.options.implicit_return;
        if implicit && from.itype.is_call() {
            self.stack.push(self.params.wrap(from.end));
        }
        if !from.itype.is_uninferable() {
            return Jump::Inferable;
        }
        if implicit && from.itype == Itype::Return {
            let checked = self.stack.is_checked();
            return match (self.stack.pop(), next) {
                (None, _) => Jump::UnpredictedReturn,
                (Some(predicted), Some(next)) if !checked || predicted == self.params.wrap(next) => {
                    if self.irets == MOST_IRETS { Jump::CountedOutReturn } else { Jump::ImplicitReturn }
                }
                _ => Jump::MispredictedReturn,
            };
        }
        let sequential =
            self.options.sijump && from.sijump && !matches!(from.itype, Itype::TrapReturn | Itype::Return);
        if sequential { Jump::Inferable } else { Jump::Uninferable }
    }

    /// A mispredicted return to a place where the context changes has no encoding: end and begin again.
    fn restarts(&self, current: &Item, jump: Jump, next: Option<&Item>) -> bool {
        jump == Jump::MispredictedReturn
            && self.settings.algorithm == Algorithm::Current
            && next.is_some_and(|next| {
                next.privilege == current.privilege
                    && self.is_precise_change(next, current.privilege, current.context)
            })
    }

    /// Steps 6 to 10.
    fn report_current(
        &mut self,
        current: &Item,
        jump: Jump,
        next: Option<&Item>,
        reported: &mut bool,
        sink: &mut impl Sink,
    ) {
        let after = self.previous.map_or(Jump::Inferable, |previous| previous.jump);
        if !current.retired {
            let reference = self.settings.algorithm != Algorithm::Current;
            if after.is_updiscon() && (!current.interrupt || reference) {
                self.send_trap(current, &trap_of(current, false), false, sink);
                *reported = true;
            }
            return;
        }
        let sync_next = next.is_some_and(|next| {
            next.is_trap_only() || self.is_precise_change(next, current.privilege, current.context)
        });
        let flush = self.flushes(current, jump);
        // The end of trace is known in time to say that nothing leads back here.
        let ends = next.is_none() && self.settings.algorithm == Algorithm::Current;
        let before_sync = sync_next || current.trap || flush || ends || self.resync_follows();
        let another =
            flush || current.trap || next.is_none() || self.must_name(current, jump, next, sync_next);
        if after.is_updiscon() || another || current.notify || self.branches.is_count_full() {
            let reason = Reason { after, another, before_sync };
            self.send_address(current.address, current.notify, reason, sink);
            if flush && self.settings.algorithm == Algorithm::Current {
                self.resync = ResyncState::Send;
            }
        } else if self.branches.is_full() {
            self.send_branches(sink);
        } else if self.context_pending {
            self.context_pending = false;
            let context =
                ContextPacket { privilege: current.privilege, time: current.time, context: current.context };
            self.emit(&Packet::Context(context), sink);
        }
    }

    /// Step 7: does resynchronisation want `current` named?
    fn flushes(&self, current: &Item, jump: Jump) -> bool {
        match self.settings.algorithm {
            // An uninferable jump cannot be the last instruction before a sync packet: its target is named instead.
            Algorithm::Current => self.resync == ResyncState::Flush && !jump.is_updiscon(),
            _ => {
                let resync = self.resync_settings();
                resync.mode != ResyncMode::Off
                    && self.count == resync.limit
                    && self.branches.is_pending()
                    && current.retired
            }
        }
    }

    /// The older chart: the packet about to be sent is the one that makes the count exceed its limit.
    fn resync_follows(&self) -> bool {
        let resync = self.resync_settings();
        self.settings.algorithm != Algorithm::Current
            && resync.mode == ResyncMode::Packets
            && self.count >= resync.limit
    }

    /// Step 8: what comes next needs `current` named.
    fn must_name(&self, current: &Item, jump: Jump, next: Option<&Item>, sync_next: bool) -> bool {
        let Some(next) = next else { return true };
        if !sync_next {
            return false;
        }
        if next.is_trap_only() || self.branches.is_pending() {
            return true;
        }
        // A start packet reports neither branches nor returns: a decoder would stop at the first visit of its address.
        self.settings.algorithm == Algorithm::Current
            && (self.waiting
                || next.privilege == current.privilege
                    && (jump.is_updiscon() || self.returned || current.itype == Itype::Return))
    }
}

fn trap_of(item: &Item, reported: bool) -> UnreportedTrap {
    UnreportedTrap { cause: item.cause, tval: item.tval, interrupt: item.interrupt, reported }
}
