//! The follower of an ETMv3 stream: packets in, events out.

use backsight_arm::etm3::{Branch, Config, CycleMarks, ISync, PHeader, PHeaders, Packet, Reason, State};
use backsight_core::{Address, Cause, Located};
use backsight_image::Code;

use super::data::Data;
use super::flow::Atoms;
use super::held::Held;
use super::{Follower, Options};
use crate::etm::{At, Position, Protocol, Reading, trace_on};
use crate::sink::Sink;
use crate::walk::Waypoints;
use crate::{AccessKind, Event, Symptom};

/// Debug halt, A and R profile.
const DEBUG_HALT: u16 = 1;

/// One instruction that was executed.
const EXECUTED: PHeader = PHeader { atoms: 1, count: 1, cycles: CycleMarks::NotTraced };

/// What an ETMv3's configuration says of its packets.
#[derive(Clone, Debug)]
pub struct Rules {
    keeps_cancelled: bool,
    m_profile: bool,
    pub(super) traces_data: bool,
    pub(super) addresses: bool,
    pub(super) coprocessors: bool,
    traces_vmid: bool,
    /// P-headers have cycles.
    pub(super) has_cycles: bool,
    /// The atoms of each P-header.
    pub(super) p_headers: Box<[Atoms; 256]>,
}

/// What is known of the newest instruction and of data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    pub(super) held: Held,
    pub(super) data: Data,
    /// It was reported that nobody knows where execution is.
    pub(super) is_lost: bool,
    /// A packet named the position since the last instruction.
    pub(super) is_named: bool,
    /// The atoms of the last P-header that had any.
    pub(super) atoms_together: u8,
}

impl Protocol for Config {
    type Rules = Rules;
    type Progress = Progress;

    fn rules(&self, options: &Options) -> Rules {
        let p_headers = PHeaders::new(self);
        Rules {
            keeps_cancelled: options.keeps_cancelled,
            m_profile: self.is_m_profile(),
            traces_data: self.data_trace(),
            addresses: self.data_addresses(),
            coprocessors: self.coprocessor_transfers(),
            traces_vmid: self.vmid(),
            has_cycles: self.cycle_accurate(),
            p_headers: Box::new(std::array::from_fn(|header| {
                p_headers.get(header as u8).map_or(Atoms::NONE, |header| Atoms::new(&header))
            })),
        }
    }

    fn reading(&self) -> Reading {
        let waypoints = Waypoints { isb: true, ..Waypoints::default() };
        Reading { waypoints, t32_only: self.is_m_profile(), each_instruction: true }
    }

    #[inline]
    fn push<C: Code>(follower: &mut Follower<C>, packet: Located<Packet>, sink: &mut impl Sink) {
        let at = packet.map(|_| ());
        match packet.value {
            Packet::PHeader(header) => follower.push_atoms(Atoms::new(&header), at, sink),
            _ => follower.push_any(&packet.value, at, sink),
        }
    }

    fn close<C: Code>(follower: &mut Follower<C>, at: At, sink: &mut impl Sink) {
        follower.lose(at, sink);
    }

    fn forget(known: &mut Progress) {
        known.held.clear();
        known.data = Data::default();
        known.is_lost = false;
    }
}

impl<C: Code> Follower<C> {
    #[inline]
    fn push_atoms(&mut self, atoms: Atoms, at: At, sink: &mut impl Sink) {
        self.end = at.end();
        match self.tracker.is_synchronised() {
            true => self.p_header(atoms, None, at, sink),
            false => self.atoms_at_nowhere(atoms, at, sink),
        }
    }

    /// Atoms before the first I-sync: only cycles count.
    #[cold]
    fn atoms_at_nowhere(&mut self, atoms: Atoms, at: At, sink: &mut impl Sink) {
        self.tracker.begin(at, sink);
        match atoms.left() {
            0 => self.p_header(atoms, None, at, sink),
            left => self.tracker.skip(at, left),
        }
    }

    /// Takes P-headers of one byte each, one after the other: gives what they give one by one.
    #[inline]
    pub fn push_p_headers(&mut self, offset: u64, headers: &[u8], sink: &mut impl Sink) {
        let has_atoms = |&header: &u8| !self.rules.p_headers[usize::from(header)].is_empty();
        let last = match self.tracker.is_synchronised() {
            true => headers.iter().rposition(has_atoms),
            false => None,
        };
        // Where data is traced, runs are short.
        let (certain, rest) = headers.split_at(last.filter(|_| !self.rules.traces_data).unwrap_or(0));
        let mut here = None;
        if !certain.is_empty() {
            here = self.certain_p_headers(offset, certain, sink);
        }
        self.end = offset + headers.len() as u64;
        for (offset, &header) in (offset + certain.len() as u64..).zip(rest) {
            let (atoms, at) =
                (self.rules.p_headers[usize::from(header)], Located { offset, length: 1, value: () });
            match last {
                Some(_) => self.p_header(atoms, here.take(), at, sink),
                None => self.push_atoms(atoms, at, sink),
            }
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
            Packet::CycleCount(cycles) => {
                self.put(at, Event::CycleCount(Some(*cycles).filter(|&cycles| cycles > 0)), sink);
            }
            Packet::Timestamp(timestamp) => {
                self.put(at, Event::Timestamp { value: timestamp.value, cycles: None }, sink);
            }
            Packet::Trigger => self.put(at, Event::Trigger, sink),
            Packet::ContextId(id) => self.identify(Some(*id), None, at, sink),
            Packet::Vmid(id) if self.rules.traces_vmid => self.identify(None, Some(*id), at, sink),
            // A unit that sends none has not sent this one: it comes of damage.
            Packet::Vmid(_) => self.tracker.skip(at, 1),
            Packet::ExceptionExit if is_synchronised => {
                if self.rules.m_profile {
                    self.known.data.stack(AccessKind::Load);
                }
                self.put(at, Event::ExceptionReturn, sink);
            }
            Packet::ExceptionEntry if is_synchronised => self.known.data.stack(AccessKind::Store),
            Packet::NormalData { .. }
            | Packet::OutOfOrderPlaceholder { .. }
            | Packet::OutOfOrderData { .. }
            | Packet::ValueNotTraced { .. }
            | Packet::StoreFailed
            | Packet::DataSuppressed
                if is_synchronised =>
            {
                self.data_packet(packet, at, sink);
            }
            Packet::Bad(_) => {
                self.lose(at, sink);
                self.tracker.bad(at, sink);
            }
            _ => self.tracker.skip(at, 0),
        }
    }

    /// Reports an event, after what is held back.
    #[inline]
    pub(super) fn put(&mut self, at: At, event: Event, sink: &mut impl Sink) {
        if self.known.held.is_full() {
            self.release(sink);
        }
        // An access may still turn out to have failed.
        if self.known.held.is_empty() && !matches!(event, Event::Access(_)) {
            self.tracker.emit(at, event, sink);
        } else {
            self.known.held.push(at, event);
        }
    }

    /// What is held back is certain.
    #[inline]
    pub(super) fn release(&mut self, sink: &mut impl Sink) {
        let statistics = &mut self.tracker.statistics;
        self.known.held.drain(|event| {
            statistics.count(&event.value);
            sink.take(event);
        });
    }

    /// Nothing that comes has to do with what came.
    fn lose(&mut self, at: At, sink: &mut impl Sink) {
        self.release(sink);
        self.give_up_values(at, sink);
        self.known.data.forget();
        self.known.is_lost = false;
    }

    fn i_sync(&mut self, sync: &ISync, at: At, sink: &mut impl Sink) {
        let is_first = self.tracker.synchronise(sink);
        self.release(sink);
        if is_first || sync.reason != Reason::Periodic {
            self.lose(at, sink);
            self.tracker.emit(at, Event::TraceOn(trace_on(sync.reason)), sink);
            self.tracker.position = None;
        } else {
            self.give_up_old_values(at, sink);
            if let (Some(before), Some(address)) = (self.tracker.position, sync.address)
                && (before.address, before.isa) != (address, sync.isa)
            {
                self.tracker.mismatch(Symptom::AddressDiffers, before.address, at, sink);
            }
        }
        self.tracker.enter(sync.state);
        self.tracker.identify(sync.context_id, None);
        if let Some(cycles) = sync.cycles {
            self.tracker.emit(at, Event::CycleCount(Some(cycles).filter(|&cycles| cycles > 0)), sink);
        }
        self.tracker.report_context(sync.isa, at, sink);
        self.known.is_lost = false;
        self.known.is_named = true;
        let Some(address) = sync.address else { return };
        self.tracker.go(address, sync.isa);
        if let (Some(next), Some(position)) = (sync.next, self.tracker.position) {
            let number = self.tracker.enter_block(position);
            self.newest_atom(number, &mut Atoms::new(&EXECUTED), at, sink);
            self.tracker.position = Some(Position::new(next.address, next.isa));
        }
    }

    fn identify(&mut self, context_id: Option<u32>, vmid: Option<u8>, at: At, sink: &mut impl Sink) {
        self.tracker.identify(context_id, vmid);
        if self.tracker.is_synchronised() {
            let isa = self.tracker.isa();
            let event = self.tracker.context_event(isa);
            self.put(at, event, sink);
        }
    }

    fn branch(&mut self, branch: &Branch, at: At, sink: &mut impl Sink) {
        let exception = branch.exception();
        let cancelled = if branch.cancels() { self.cancel() } else { None };
        self.release(sink);
        let before = self.tracker.position;
        if let Some(information) = branch.information {
            // Hyp mode is in the second byte: without it, it stays.
            let hyp = if information.is_long { information.state.hyp } else { self.tracker.state().hyp };
            if self.tracker.enter(State { hyp, ..information.state }) {
                self.tracker.report_context(branch.isa, at, sink);
            }
        }
        match exception {
            Some(number) => {
                let event = Event::Exception {
                    cause: self.cause(number),
                    return_address: cancelled.or(before.map(|before| before.address)),
                    is_branch_target: false,
                    fault_pending: false,
                    value: 0,
                };
                self.tracker.emit(at, event, sink);
            }
            None => self.check(branch, before, at, sink),
        }
        self.known.is_lost = false;
        self.known.is_named = true;
        // The address of a debug halt is not one that execution goes on at.
        let is_halt = exception == Some(DEBUG_HALT) && !self.rules.m_profile;
        self.tracker.position = (!is_halt).then_some(Position::new(branch.address, branch.isa));
        if is_halt {
            self.known.is_lost = true;
        }
    }

    /// A branch packet names the position that the code leads to, where that is known.
    fn check(&mut self, branch: &Branch, before: Option<Position>, at: At, sink: &mut impl Sink) {
        if let Some(before) = before
            && !self.known.is_named
            && (before.address, before.isa) != (branch.address, branch.isa)
        {
            self.tracker.mismatch(Symptom::AddressDiffers, before.address, at, sink);
        }
    }

    /// The newest instruction never happened. Its address, if it was held back.
    fn cancel(&mut self) -> Option<Address> {
        if self.rules.keeps_cancelled && self.known.atoms_together > 1
            || self.rules.m_profile && self.known.held.cancel_return()
        {
            return None;
        }
        self.known.held.cancel()
    }

    fn cause(&self, number: u16) -> Cause {
        if !self.rules.m_profile {
            return Cause::Armv7(number & 0xF);
        }
        // What trace units of M profile send, by the numbers of the architecture.
        Cause::ArmM(match number {
            1..=7 => 16 + number,
            8 => 16,
            9 => 6,
            10 => 2,
            11 => 11,
            12 => 12,
            13 => 4,
            14 => 14,
            15 => 15,
            17 => 1,
            19 => 3,
            21 => 5,
            24.. => number,
            _ => 0,
        })
    }
}
