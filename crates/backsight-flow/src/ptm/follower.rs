//! The follower of a PTM stream: packets in, events out.

use backsight_arm::ptm::{Branch, Config, ISync, Packet, Reason, State, Timestamp};
use backsight_core::{Cause, Located};
use backsight_image::Code;

use super::{Follower, Options};
use crate::etm::{At, Position, Protocol, Reading, trace_on};
use crate::return_stack::{Entry, ReturnStack};
use crate::sink::Sink;
use crate::walk::Waypoints;
use crate::{Event, Symptom};

/// No PTM remembers more calls than this.
const STACK_DEPTH: usize = 16;

/// What a PTM's configuration says of its packets.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(super) return_stack: bool,
    /// The counts of an I-sync after an overflow or debug state mean nothing.
    counts_are_lost: bool,
    traces_vmid: bool,
}

/// The calls that a PTM remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub(super) stack: ReturnStack<[Entry; STACK_DEPTH]>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { stack: ReturnStack::fixed() }
    }
}

impl Protocol for Config {
    type Rules = Rules;
    type Progress = Progress;

    fn rules(&self, _options: &Options) -> Rules {
        Rules {
            return_stack: self.return_stack(),
            counts_are_lost: self.minor() >= 1,
            traces_vmid: self.vmid(),
        }
    }

    fn reading(&self) -> Reading {
        let waypoints =
            Waypoints { isb: true, data_barrier: self.barriers_are_waypoints(), ..Waypoints::default() };
        Reading { waypoints, t32_only: false, each_instruction: false }
    }

    #[inline]
    fn push<C: Code>(follower: &mut Follower<C>, packet: Located<Packet>, sink: &mut impl Sink) {
        let at = packet.map(|_| ());
        match packet.value {
            Packet::Atoms(atoms) if follower.tracker.is_synchronised() => follower.atoms(&atoms, at, sink),
            _ => follower.push_any(&packet.value, at, sink),
        }
    }

    fn close<C: Code>(follower: &mut Follower<C>, _at: At, _sink: &mut impl Sink) {
        Self::forget(&mut follower.known);
    }

    fn forget(known: &mut Progress) {
        known.stack.clear();
    }
}

impl<C: Code> Follower<C> {
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
            Packet::Vmid(id) if self.rules.traces_vmid => self.identify(None, Some(*id), at, sink),
            // A unit that sends none has not sent this one: it comes of damage.
            Packet::Vmid(_) => self.tracker.skip(at, 1),
            Packet::Timestamp(timestamp) => self.timestamp(timestamp, at, sink),
            Packet::Trigger => self.tracker.emit(at, Event::Trigger, sink),
            Packet::ExceptionReturn if is_synchronised => {
                self.tracker.emit(at, Event::ExceptionReturn, sink);
            }
            Packet::Bad(_) => {
                self.known.stack.clear();
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

    pub(super) fn cycles(&mut self, cycles: Option<u32>, at: At, sink: &mut impl Sink) {
        if cycles.is_some() {
            self.tracker.emit(at, Event::CycleCount(cycles), sink);
        }
    }

    fn i_sync(&mut self, sync: &ISync, at: At, sink: &mut impl Sink) {
        let is_first = self.tracker.synchronise(sink);
        self.known.stack.clear();
        let before = self.tracker.position;
        if is_first || sync.reason != Reason::Periodic {
            let is_lost = matches!(sync.reason, Reason::AfterOverflow | Reason::LeftDebugState);
            self.cycles(sync.cycles.filter(|_| !(is_lost && self.rules.counts_are_lost)), at, sink);
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
