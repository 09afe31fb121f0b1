//! The follower of a PTM stream: packets in, events out.

use std::ops;

use backsight_arm::ptm::{Branch, Config, ISync, Packet, Reason, State, Timestamp};
use backsight_core::{AddressSpace, Cause, Located};
use backsight_image::Code;

use super::Options;
use crate::etm::{At, Position, Tracker, TrackerState, trace_on};
use crate::return_stack::{Entry, ReturnStack};
use crate::sink::Sink;
use crate::walk::Waypoints;
use crate::{CodeCache, Event, Statistics, Symptom};

/// No PTM remembers more calls than this.
const STACK_DEPTH: usize = 16;

/// Follows the execution that a PTM stream reports.
#[derive(Clone, Debug)]
pub struct Follower<C> {
    pub(super) tracker: Tracker<C>,
    pub(super) stack: ReturnStack<[Entry; STACK_DEPTH]>,
    pub(super) return_stack: bool,
    /// The counts of an I-sync after an overflow or debug state mean nothing.
    counts_are_lost: bool,
    traces_vmid: bool,
    end: u64,
}

/// All that decides what a [`Follower`] says of the packets that follow, but for what it has read of the code.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowerState {
    tracker: TrackerState,
    stack: ReturnStack<[Entry; STACK_DEPTH]>,
    end: u64,
}

impl<C: Code> Follower<C> {
    /// A follower for the stream of one PTM, through `code`.
    pub fn new(config: &Config, code: C) -> Self {
        Self::with_options(config, code, Options::default())
    }

    /// The same, with options.
    pub fn with_options(config: &Config, code: C, options: Options) -> Self {
        let waypoints =
            Waypoints { isb: true, data_barrier: config.barriers_are_waypoints(), ..Waypoints::default() };
        Self {
            tracker: Tracker::new(code, waypoints, false, options),
            stack: ReturnStack::fixed(),
            return_stack: config.return_stack(),
            counts_are_lost: config.minor() >= 1,
            traces_vmid: config.vmid(),
            end: 0,
        }
    }

    /// Takes the next packet; gives what it says.
    #[inline]
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        let at = packet.map(|_| ());
        self.end = packet.end();
        match packet.value {
            Packet::Atoms(atoms) if self.tracker.is_synchronised() => self.atoms(&atoms, at, sink),
            _ => self.push_any(&packet.value, at, sink),
        }
    }

    #[inline(never)]
    fn push_any(&mut self, packet: &Packet, at: At, sink: &mut impl Sink) {
        self.tracker.begin(at, sink);
        let is_synchronised = self.tracker.is_synchronised();
        match packet {
            Packet::Async | Packet::Ignore => {}
            Packet::ISync(sync) => self.i_sync(sync, at, sink),
            Packet::Branch(branch) if is_synchronised => self.branch(branch, at, sink),
            Packet::WaypointUpdate(update) if is_synchronised => self.waypoint_update(update, at, sink),
            Packet::ContextId(id) => self.identify(Some(*id), None, at, sink),
            Packet::Vmid(id) if self.traces_vmid => self.identify(None, Some(*id), at, sink),
            // A unit that sends none has not sent this one: it comes of damage.
            Packet::Vmid(_) => self.tracker.skip(at, 1),
            Packet::Timestamp(timestamp) => self.timestamp(timestamp, at, sink),
            Packet::Trigger => self.tracker.emit(at, Event::Trigger, sink),
            Packet::ExceptionReturn if is_synchronised => {
                self.tracker.emit(at, Event::ExceptionReturn, sink);
            }
            Packet::Bad(_) => {
                self.stack.clear();
                self.tracker.bad(at, sink);
            }
            Packet::Atoms(atoms) => self.tracker.skip(at, atoms.count),
            Packet::Branch(_)
            | Packet::WaypointUpdate(_)
            | Packet::ExceptionReturn
            | Packet::Unsynchronised => {
                self.tracker.skip(at, 0);
            }
        }
    }

    /// What it knows now.
    pub fn state(&self) -> FollowerState {
        let &Self { ref tracker, ref stack, end, .. } = self;
        FollowerState { tracker: tracker.known(), stack: stack.clone(), end }
    }

    /// Goes on as a follower of the same configuration and code that knows this. Counts go on.
    pub fn restore(&mut self, known: &FollowerState) {
        self.tracker.go_on_with(known.tracker);
        self.stack.clone_from(&known.stack);
        self.end = known.end;
    }

    /// The trace ends. The follower is as new afterwards, but for what it counted and what it knows of the code.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.stack.clear();
        self.tracker.end(self.end, sink);
    }

    /// Begins again, as after a gap in the data. Counts go on.
    pub fn reset(&mut self) {
        self.stack.clear();
        self.tracker.reset();
    }

    /// What was counted.
    pub fn statistics(&self) -> &Statistics {
        &self.tracker.statistics
    }

    /// The code it walks through.
    pub fn code(&self) -> &C {
        &self.tracker.code
    }

    /// The code, to change it in a range of addresses, as seen from an address space: only what lies there is read again.
    pub fn change_code(&mut self, space: AddressSpace, addresses: ops::Range<u64>) -> &mut C {
        self.tracker.blocks.code_changed(space, addresses);
        &mut self.tracker.code
    }

    /// The code has gone to another time: the context that execution is in may belong to another process now.
    pub fn renew_space(&mut self) {
        self.tracker.renew_space();
    }

    /// What it has read of the code, for another follower of the same code. It reads again what it needs afterwards.
    pub fn take_cache(&mut self) -> CodeCache {
        self.tracker.take_cache()
    }

    /// Goes on with what another follower of the same code has read. What follows is the same.
    ///
    /// # Errors
    /// Gives it back if it is of no use here: code was read in another way.
    pub fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.tracker.give_cache(cache)
    }

    pub(super) fn cycles(&mut self, cycles: Option<u32>, at: At, sink: &mut impl Sink) {
        if cycles.is_some() {
            self.tracker.emit(at, Event::CycleCount(cycles), sink);
        }
    }

    fn i_sync(&mut self, sync: &ISync, at: At, sink: &mut impl Sink) {
        let is_first = self.tracker.synchronise(sink);
        self.stack.clear();
        let before = self.tracker.position;
        if is_first || sync.reason != Reason::Periodic {
            let is_lost = matches!(sync.reason, Reason::AfterOverflow | Reason::LeftDebugState);
            self.cycles(sync.cycles.filter(|_| !(is_lost && self.counts_are_lost)), at, sink);
            self.tracker.emit(at, Event::TraceOn(trace_on(sync.reason)), sink);
            self.tracker.position = None;
        } else if let Some(before) = before
            && (before.address, before.isa) != (sync.address, sync.isa)
        {
            self.tracker.mismatch(Symptom::AddressDiffers, before.address, at, sink);
        }
        let isa_before = before.map_or(self.tracker.isa(), |before| before.isa);
        let mut changes = is_first || isa_before != sync.isa;
        changes |= self.tracker.enter(sync.state);
        changes |= self.tracker.identify(sync.context_id, None);
        if changes {
            self.tracker.report_context(sync.isa, at, sink);
        }
        self.tracker.go(sync.address, sync.isa);
    }

    fn identify(&mut self, context_id: Option<u32>, vmid: Option<u8>, at: At, sink: &mut impl Sink) {
        let changes = self.tracker.identify(context_id, vmid);
        if changes && self.tracker.is_synchronised() {
            let isa = self.tracker.isa();
            self.tracker.report_context(isa, at, sink);
        }
    }

    fn timestamp(&mut self, timestamp: &Timestamp, at: At, sink: &mut impl Sink) {
        let Timestamp { value, cycles, .. } = *timestamp;
        self.tracker.emit(at, Event::Timestamp { value, cycles }, sink);
    }

    fn branch(&mut self, branch: &Branch, at: At, sink: &mut impl Sink) {
        match branch.exception() {
            Some(number) => {
                self.cycles(branch.cycles, at, sink);
                let event = Event::Exception {
                    cause: Cause::Armv7(number),
                    return_address: self.tracker.position.map(|position| position.address),
                    is_branch_target: false,
                    fault_pending: false,
                    value: 0,
                };
                self.tracker.emit(at, event, sink);
            }
            None => self.branch_to(branch, at, sink),
        }
        if let Some(information) = branch.information {
            // Hyp mode is in the second byte: without it, it stays.
            let hyp = if information.is_long { information.state.hyp } else { self.tracker.state().hyp };
            if self.tracker.enter(State { hyp, ..information.state }) {
                self.tracker.report_context(branch.isa, at, sink);
            }
        }
        self.tracker.position = Some(Position::new(branch.address, branch.isa));
    }
}
