//! From packets to elements that happened: synchronisation and speculation.
//!
//! Decoding can begin at an Async packet that a Trace Info follows, and must begin again there after a bad
//! packet, a Discard or an Overflow. In between, elements wait in a queue until they are committed. With a
//! speculation depth of 0, as nearly all processors have, each P0 element is committed at once and pushes
//! everything before it out.

use backsight_arm::etm4::Context;
use backsight_arm::etm4::{
    AddressPacket, Atoms, Bad, Config, CycleCount, Exception, Is, Packet, Profile, TraceInfo,
};
use backsight_core::Located;

use super::{Conditional, Element};
use crate::NoSync;
use crate::beginning::Beginning;
use crate::speculation::{Overrun, Queue, Role, Speculative};

/// Where synchronisation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for an Async.
    Unsynchronised,
    /// Waits for a Trace Info.
    WaitInfo,
    /// Elements count.
    Run,
}

/// A P0 element whose address comes in another packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Exception(Exception),
    Q(Option<u32>),
}

/// A context with the instruction set flag it came with.
type OwnContext = Option<(Context, Is)>;

/// Turns packets into elements that happened, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    ete: bool,
    max_speculation: u32,
    exception_return_p0: bool,
    transaction_start_p0: bool,
    timestamp_markers: bool,
    state: State,
    beginning: Beginning,
    marker_seen: bool,
    last_is: Is,
    open: Option<(Located<Open>, OwnContext)>,
    queue: Queue<Element>,
    conditional: Conditional,
}

impl Resolver {
    /// A resolver for the stream of one trace unit.
    pub fn new(config: &Config) -> Self {
        Self {
            ete: config.is_ete(),
            max_speculation: config.max_speculation(),
            exception_return_p0: config.profile == Profile::M,
            transaction_start_p0: config.transaction_start_p0(),
            timestamp_markers: config.timestamp_markers(),
            state: State::Unsynchronised,
            beginning: Beginning::default(),
            marker_seen: false,
            last_is: Is::Is0,
            open: None,
            queue: Queue::default(),
            conditional: Conditional::new(config),
        }
    }

    /// Begins again, as after a gap in the data.
    pub fn reset(&mut self) {
        self.state = State::Unsynchronised;
        self.beginning = Beginning::default();
        self.forget();
    }

    fn forget(&mut self) {
        self.queue.clear();
        self.open = None;
        self.marker_seen = false;
        self.conditional.reset();
    }

    /// Takes the next packet.
    #[inline]
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl FnMut(Located<Element>)) {
        if self.state == State::Run {
            if let Err(Overrun) = self.run(packet, sink) {
                // What came before all that is not resolved happened.
                self.queue.release(sink);
                self.lose(packet.map(|_| NoSync::BadPacket), true, sink);
            }
        } else {
            self.wait(packet, sink);
        }
    }

    /// Do atoms happen at once? Then they may go past the resolver, after what waits for them.
    #[inline]
    pub(super) fn is_certain(&self) -> bool {
        self.state == State::Run
            && self.max_speculation == 0
            && self.queue.depth() == 0
            && self.open.is_none()
    }

    /// An address goes past the resolver, with atoms that do.
    #[inline]
    pub(super) const fn pass_address(&mut self, address: AddressPacket) {
        self.last_is = address.is;
    }

    /// Does something wait for a P0 element?
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.queue.has_entries()
    }

    /// Gives what waits for a P0 element.
    #[inline]
    pub(super) fn release(&mut self, sink: &mut impl FnMut(Located<Element>)) {
        self.queue.release(sink);
    }

    /// The trace ends: gives what is certain by now.
    pub fn finish(&mut self, end: u64, sink: &mut impl FnMut(Located<Element>)) {
        self.begin(end, sink);
        self.end_of_beginning(sink);
        let certain = self.queue.depth() == 0 || self.max_speculation == 0;
        let unseen = self.queue.unseen() > 0;
        for element in self.queue.drain() {
            match element.value {
                _ if unseen || element.value.role() == Role::P0 => break,
                Element::TraceOn | Element::ExceptionReturn { .. } => break,
                Element::TransactionCommit | Element::TransactionFailure if certain => sink(element),
                value if value.role() == Role::Record => sink(element),
                _ => {}
            }
        }
        sink(Located { offset: end, length: 0, value: Element::EndOfTrace });
        self.reset();
    }

    fn begin(&mut self, offset: u64, sink: &mut impl FnMut(Located<Element>)) {
        if self.beginning.begin() {
            sink(Located { offset, length: 0, value: Element::StartOfTrace });
        }
    }

    /// Decoding can begin here, or the trace ends.
    fn end_of_beginning(&mut self, sink: &mut impl FnMut(Located<Element>)) {
        if let Some(skipped) = self.beginning.synchronise() {
            sink(skipped.map(|()| Element::NoSync(NoSync::Initial)));
        }
    }

    #[cold]
    fn wait(&mut self, packet: Located<Packet>, sink: &mut impl FnMut(Located<Element>)) {
        self.begin(packet.offset, sink);
        match (self.state, packet.value) {
            (State::Unsynchronised, Packet::Async) => self.state = State::WaitInfo,
            (State::WaitInfo, Packet::TraceInfo(info)) => {
                self.end_of_beginning(sink);
                self.synchronise(packet.map(|_| info));
            }
            // ETE may tell of events before the first Trace Info.
            (State::WaitInfo, Packet::Event(events)) if self.ete => {
                // A full queue cannot take it, and nothing else depends on it.
                let _ = self.queue.push(packet.map(|_| Element::Event(events)));
            }
            (_, Packet::Async | Packet::Ignore) => {}
            _ => self.beginning.skip(packet.map(|_| ())),
        }
    }

    fn synchronise(&mut self, info: Located<TraceInfo>) {
        self.state = State::Run;
        self.last_is = Is::Is0;
        self.conditional.reset();
        self.queue.expect_unseen(info.value.speculation);
        let first = info.map(|info| Element::TraceInfo { first: true, info: info.info });
        let _ = self.queue.push(first);
        if self.ete && info.value.info >> 6 & 1 == 1 {
            let _ = self.queue.push(info.map(|_| Element::TransactionInitial));
        }
    }

    #[inline]
    fn run(
        &mut self,
        packet: Located<Packet>,
        sink: &mut impl FnMut(Located<Element>),
    ) -> Result<(), Overrun> {
        match packet.value {
            Packet::Atoms(atoms) => self.atoms(packet.map(|_| atoms), sink),
            Packet::Address(address) => self.address(packet.map(|_| address), sink),
            _ => self.other(packet, sink),
        }
    }

    #[inline]
    fn atoms(
        &mut self,
        atoms: Located<Atoms>,
        sink: &mut impl FnMut(Located<Element>),
    ) -> Result<(), Overrun> {
        if self.is_certain() {
            self.release(sink);
            sink(atoms.map(Element::Atoms));
            return Ok(());
        }
        for taken in atoms.value.iter() {
            let atom = Atoms { bits: u32::from(taken), count: 1 };
            self.p0(atoms.map(|_| Element::Atoms(atom)), sink)?;
        }
        Ok(())
    }

    /// Appends a P0 element. What lies deeper than the unit can speculate is committed.
    fn p0(
        &mut self,
        element: Located<Element>,
        sink: &mut impl FnMut(Located<Element>),
    ) -> Result<(), Overrun> {
        if self.open.is_some() {
            return Err(Overrun);
        }
        self.queue.push(element)?;
        let excess = self.queue.depth().saturating_sub(self.max_speculation);
        self.queue.commit(excess, sink)
    }

    fn other(
        &mut self,
        packet: Located<Packet>,
        sink: &mut impl FnMut(Located<Element>),
    ) -> Result<(), Overrun> {
        let element = |value| packet.map(|_| value);
        match packet.value {
            Packet::Atoms(_) | Packet::Address(_) => Ok(()),
            Packet::AddressContext(address, context) => {
                self.context(packet.map(|_| (Some(context), address.is)))?;
                self.address(packet.map(|_| address), sink)
            }
            Packet::Context(context) => self.context(packet.map(|_| (context, self.last_is))),
            Packet::SourceAddress(address) => self.p0(element(Element::SourceAddress(address)), sink),
            Packet::Exception(exception) => self.open(packet.map(|_| Open::Exception(exception))),
            Packet::Q(q) => match q.address {
                Some(address) => {
                    self.last_is = address.is;
                    self.p0(element(Element::Q { count: q.count, address, context: None }), sink)
                }
                None => self.open(packet.map(|_| Open::Q(q.count))),
            },
            Packet::PeReset => self.p0(element(Element::PeReset), sink),
            Packet::FunctionReturn => self.p0(element(Element::FunctionReturn), sink),
            Packet::ExceptionReturn => {
                let p0 = self.exception_return_p0;
                self.either(element(Element::ExceptionReturn { p0 }), sink)
            }
            Packet::TransactionStart => {
                let p0 = self.transaction_start_p0;
                self.either(element(Element::TransactionStart { p0 }), sink)
            }
            Packet::Commit { .. }
            | Packet::CycleCount(_)
            | Packet::CancelF1 { .. }
            | Packet::Mispredict(_)
            | Packet::CancelF2(_)
            | Packet::CancelF3 { .. } => self.resolution(packet, sink),
            Packet::Discard => {
                self.lose(packet.map(|_| NoSync::Discard), false, sink);
                Ok(())
            }
            Packet::Overflow => {
                self.lose(packet.map(|_| NoSync::Overflow), false, sink);
                Ok(())
            }
            Packet::Bad(Bad::Incomplete) => Ok(()),
            Packet::Bad(_) => {
                // What came before it happened, unless it waits for a commit.
                self.queue.release(sink);
                self.lose(packet.map(|_| NoSync::BadPacket), false, sink);
                Ok(())
            }
            _ => self.remark(packet, sink),
        }
    }

    /// Packets that are not counted and resolve nothing.
    fn remark(
        &mut self,
        packet: Located<Packet>,
        sink: &mut impl FnMut(Located<Element>),
    ) -> Result<(), Overrun> {
        let value = match packet.value {
            Packet::TraceInfo(info) if self.has_lost_count(info) => {
                self.queue.release(sink);
                self.lose(packet.map(|_| NoSync::BadPacket), false, sink);
                self.synchronise(packet.map(|_| info));
                return Ok(());
            }
            Packet::TraceInfo(info) => {
                self.last_is = Is::Is0;
                Element::TraceInfo { first: false, info: info.info }
            }
            Packet::TraceOn if self.open.is_some() => return Err(Overrun),
            Packet::TraceOn => Element::TraceOn,
            // A timestamp belongs to the marker before it.
            Packet::Timestamp(_) if self.timestamp_markers && !self.marker_seen => return Ok(()),
            Packet::Timestamp(time) => Element::Timestamp { value: time.value, cycles: time.cycles },
            Packet::TimestampMarker => {
                self.marker_seen = true;
                Element::TimestampMarker
            }
            Packet::Event(events) => Element::Event(events),
            Packet::Instrumentation { level, value } => Element::Instrumentation { level, value },
            Packet::TransactionCommit => Element::TransactionCommit,
            Packet::TransactionFailure => Element::TransactionFailure,
            packet_value => {
                let queue = &mut self.queue;
                return self.conditional.packet(packet_value, &mut |key, outcome| {
                    queue.push(packet.map(|_| Element::Condition { key, outcome }))
                });
            }
        };
        self.append(packet.map(|_| value), sink)
    }

    /// A periodic Trace Info says how many P0 elements are not resolved. If it is another number than are here, packets
    /// were lost or damaged, and whatever is committed from here on would be too much or too little.
    fn has_lost_count(&self, info: TraceInfo) -> bool {
        self.max_speculation > 0 && self.open.is_none() && info.speculation != self.queue.depth()
    }

    /// Appends an element that is not counted. It waits for the next commit.
    fn append(
        &mut self,
        element: Located<Element>,
        sink: &mut impl FnMut(Located<Element>),
    ) -> Result<(), Overrun> {
        if self.queue.is_full() {
            // A long time without a P0 element: what certainly happened need not wait.
            self.queue.release(sink);
        }
        self.queue.push(element)
    }

    fn either(
        &mut self,
        element: Located<Element>,
        sink: &mut impl FnMut(Located<Element>),
    ) -> Result<(), Overrun> {
        if element.value.role() == Role::P0 { self.p0(element, sink) } else { self.append(element, sink) }
    }

    fn open(&mut self, open: Located<Open>) -> Result<(), Overrun> {
        if self.open.is_some() {
            return Err(Overrun);
        }
        if matches!(open.value, Open::Exception(_)) {
            self.conditional.flush();
        }
        self.open = Some((open, None));
        Ok(())
    }

    fn context(&mut self, context: Located<(Option<Context>, Is)>) -> Result<(), Overrun> {
        if let Some((_, own)) = &mut self.open {
            if let (Some(context), is) = context.value {
                *own = Some((context, is));
            }
            return Ok(());
        }
        self.queue.push(context.map(|(context, is)| Element::Context(context, is)))
    }

    #[inline]
    fn address(
        &mut self,
        address: Located<AddressPacket>,
        sink: &mut impl FnMut(Located<Element>),
    ) -> Result<(), Overrun> {
        self.last_is = address.value.is;
        match self.open.take() {
            None => self.append(address.map(Element::Address), sink),
            Some((open, context)) => {
                let end = address.end();
                let address = address.value;
                let value = match open.value {
                    Open::Exception(exception) => Element::Exception { exception, address, context },
                    Open::Q(count) => Element::Q { count, address, context },
                };
                let length = u32::try_from(end.saturating_sub(open.offset)).unwrap_or(open.length);
                self.p0(Located { offset: open.offset, length, value }, sink)
            }
        }
    }

    /// Packets that resolve speculation. The order within one packet: its atoms, commit, cancel, mispredict.
    fn resolution(
        &mut self,
        packet: Located<Packet>,
        sink: &mut impl FnMut(Located<Element>),
    ) -> Result<(), Overrun> {
        let (atoms, cancel, mispredict) = match packet.value {
            Packet::Commit { count } => return self.commit(count, sink),
            Packet::CycleCount(CycleCount { commit, cycles, .. }) => {
                self.commit(commit, sink)?;
                return self.append(packet.map(|_| Element::CycleCount(cycles)), sink);
            }
            Packet::CancelF1 { count, mispredict } => (Atoms::NONE, count, mispredict),
            Packet::Mispredict(atoms) => (atoms, 0, true),
            Packet::CancelF2(atoms) => (atoms, 1, true),
            Packet::CancelF3 { atom, count } => {
                (Atoms { bits: u32::from(atom), count: u8::from(atom) }, u32::from(count), true)
            }
            _ => return Ok(()),
        };
        for taken in atoms.iter() {
            let atom = Atoms { bits: u32::from(taken), count: 1 };
            self.p0(packet.map(|_| Element::Atoms(atom)), sink)?;
        }
        self.queue.cancel(cancel)?;
        if mispredict {
            self.queue.mispredict()?;
            self.conditional.flush();
        }
        Ok(())
    }

    fn commit(&mut self, count: u32, sink: &mut impl FnMut(Located<Element>)) -> Result<(), Overrun> {
        // With a depth of 0 all is committed already; packets may name a count nevertheless.
        let count = if self.max_speculation == 0 { count.min(self.queue.depth()) } else { count };
        if count > self.queue.depth() {
            // Bytes were lost, or the depth is wrong: nothing since the last context is believed.
            self.queue.release_through(|element| matches!(element, Element::Context(Some(_), _)), sink);
            return Err(Overrun);
        }
        self.queue.commit(count, sink)
    }

    #[cold]
    fn lose(&mut self, why: Located<NoSync>, overrun: bool, sink: &mut impl FnMut(Located<Element>)) {
        if overrun {
            sink(why.map(|_| Element::Overrun));
        } else {
            self.queue.discard(sink);
        }
        self.forget();
        self.state = State::Unsynchronised;
        sink(why.map(Element::NoSync));
    }
}
