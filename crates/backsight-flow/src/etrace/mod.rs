//! E-Trace packets and code to execution.
//!
//! A packet tells what the program does not: outcomes of branches, and the address of an instruction that execution
//! came to. The follower walks through the code from where it stands to that instruction. An address that is
//! reached by plain flow may yet mean a later visit, behind an uninferable jump back to it; which one was meant, the
//! next packet tells. Return stack, predictor and jump target cache are kept in step with the encoder.
//!
//! There are two ways to walk. The careful one looks at every block: may the walk end here, how is the block left? The
//! quick one goes from block to block while the answers are plain, which is nearly always, and leaves the rest to the
//! careful one. [`Settings::careful`] turns it off; both tell the same.

mod blocks;
mod goal;
mod outcomes;
mod rush;
mod seed;
mod settings;
mod sync;
mod tell;
mod trap;
mod walk;

use backsight_core::{Context, Isa, Located};
use backsight_image::Code;
use backsight_riscv::etrace::tables::{JumpCache, ReturnStack};
use backsight_riscv::etrace::{
    BadPacket, BranchMap, Dialect, Hop, HopReader, ImplicitReturn, Options, Packet, Params, decode,
};

use self::blocks::Blocks;
use self::goal::{Goal, Position};
use self::outcomes::Outcomes;
pub use self::settings::{Fault, Faults, Handlers, Settings};
use self::trap::Deferred;
use crate::{Event, Statistics};

/// Takes events.
trait Sink: FnMut(Located<Event>) {}
impl<T: FnMut(Located<Event>)> Sink for T {}

/// Follows the execution of one hart.
pub struct Follower<'c, C> {
    settings: Settings,
    isa: Isa,
    blocks: Blocks<'c, C>,
    position: Option<Position>,
    /// The first instruction of the current block that was not told yet.
    run: Option<u64>,
    hops: HopReader,
    /// The address that was reported last.
    address: u64,
    /// The bits that an address has.
    mask: u64,
    outcomes: Outcomes,
    stack: ReturnStack,
    cache: JumpCache,
    /// Implicit returns since the last branch or packet.
    irets: u32,
    /// The packet whose address was reached by plain flow, while it may mean a later visit.
    inferred: Option<Goal>,
    /// The packet before was a trap whose handler was not entered: the first instruction of it, if known.
    unentered: Option<Option<u64>>,
    deferred: Option<Deferred>,
    context: Context,
    context_known: bool,
    started: bool,
    /// Where the walk was when it failed.
    lost_at: u64,
    lost_trace: bool,
    faults: Faults,
    statistics: Statistics,
    place: (u64, u32),
    /// There are no implicit returns, no jump target cache, and no branch prediction.
    plain: bool,
    /// Packets of formats 1 and 2 may be followed at once: nothing is open that they would settle.
    calm: bool,
}

impl<'c, C: Code> Follower<'c, C> {
    /// A follower without a position.
    pub fn new(settings: Settings, code: &'c C) -> Self {
        let (params, options) = (settings.params, settings.options);
        let isa = settings.set.isa();
        let blocks = Blocks::new(code, settings.set, params.wrap(u64::MAX), params.itype_width == 3);
        Self {
            isa,
            blocks,
            position: None,
            run: None,
            hops: HopReader::new(&params),
            address: 0,
            mask: params.wrap(u64::MAX),
            outcomes: Outcomes::new(&params, &options),
            stack: match params.dialect {
                Dialect::Standard => ReturnStack::new(&params),
                Dialect::Seed => seed::return_stack(&params),
            },
            cache: JumpCache::new(&params),
            irets: 0,
            inferred: None,
            unentered: None,
            deferred: None,
            context: Context::riscv(0, settings.set.wide),
            context_known: false,
            started: false,
            lost_at: 0,
            lost_trace: false,
            faults: Faults::default(),
            statistics: Statistics::default(),
            place: (0, 0),
            plain: settings::is_plain(&options),
            calm: false,
            settings,
        }
    }

    /// What was lost, and why.
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What was found.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Is the trace one whose implicit returns may be followed wrongly without notice? The ratified irdepth does not
    /// tell enough.
    pub fn is_unreliable(&self) -> bool {
        self.options().implicit_return && self.params().implicit_return == ImplicitReturn::Depth
    }

    /// Takes the payload of a packet. Options that support packets announce are kept. One that is no packet counts
    /// like [`Self::push_bad`].
    #[inline]
    pub fn feed(
        &mut self,
        payload: Located<&[u8]>,
        sink: &mut impl FnMut(Located<Event>),
    ) -> Result<(), BadPacket> {
        self.place = (payload.offset, payload.length);
        if self.calm
            && let Some(hop) = self.hops.read(payload.value)
        {
            self.stride(&hop, sink);
            return Ok(());
        }
        self.feed_any(payload.value, sink)
    }

    /// Takes payloads one after the other, and reads each before the one ahead of it is followed: a processor that has
    /// to guess where a path goes has then something to do that its guesses do not undo. How many are no packets?
    pub fn feed_all<'p>(
        &mut self,
        payloads: impl IntoIterator<Item = Located<&'p [u8]>>,
        sink: &mut impl FnMut(Located<Event>),
    ) -> u64 {
        let mut payloads = payloads.into_iter();
        let mut read = |hops: &HopReader| payloads.next().map(|payload| (payload, hops.read(payload.value)));
        let (mut bad, mut next) = (0, read(&self.hops));
        while let Some((payload, hop)) = next {
            next = read(&self.hops);
            self.place = (payload.offset, payload.length);
            match hop {
                Some(hop) if self.calm => self.stride(&hop, sink),
                _ => {
                    bad += u64::from(self.feed_any(payload.value, sink).is_err());
                    // It may have changed how packets are read.
                    next = next.map(|(payload, _)| (payload, self.hops.read(payload.value)));
                }
            }
        }
        bad
    }

    fn feed_any(&mut self, payload: &[u8], sink: &mut impl Sink) -> Result<(), BadPacket> {
        match decode(payload, self.params(), self.options()) {
            Ok(packet) => self.take(&packet, sink),
            Err(bad) => {
                self.lose_place(Fault::BadPacket, sink);
                return Err(bad);
            }
        }
        Ok(())
    }

    /// Takes a packet.
    #[inline]
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl FnMut(Located<Event>)) {
        self.place = (packet.offset, packet.length);
        match Hop::of(&packet.value) {
            Some(hop) if self.calm => self.stride(&hop, sink),
            _ => self.take(&packet.value, sink),
        }
    }

    /// Takes a payload that is no packet.
    pub fn push_bad(&mut self, place: Located<()>, sink: &mut impl FnMut(Located<Event>)) {
        self.place = (place.offset, place.length);
        self.lose_place(Fault::BadPacket, sink);
    }

    /// Formats 1 and 2 where nothing is open.
    #[inline]
    fn stride(&mut self, hop: &Hop, sink: &mut impl Sink) {
        self.blocks.make_room(&mut self.position);
        if let Err(fault) = self.hop(hop, sink) {
            self.lose(fault, sink);
        }
        self.calm = self.inferred.is_none() && self.position.is_some();
    }

    fn take(&mut self, packet: &Packet, sink: &mut impl Sink) {
        self.begin(sink);
        self.blocks.make_room(&mut self.position);
        if self.deferred.is_some() && !matches!(packet, Packet::Context(_)) {
            self.settle_trap(matches!(packet, Packet::Trap(_)), sink);
        }
        let result = match self.params().dialect {
            Dialect::Standard => self.take_standard(packet, sink),
            Dialect::Seed => self.push_seed(*packet, sink),
        };
        if let Err(fault) = result {
            self.lose(fault, sink);
        }
        self.calm = self.is_calm();
    }

    fn take_standard(&mut self, packet: &Packet, sink: &mut impl Sink) -> Result<(), Fault> {
        match *packet {
            Packet::Support(ref support) => self.support(support, sink),
            Packet::Context(ref context) => {
                self.flush(sink);
                self.take_context(context, sink);
                Ok(())
            }
            Packet::Start(ref start) => {
                self.trace_on(sink);
                self.synchronise(start, false, sink)
            }
            Packet::Trap(ref trap) => {
                self.trace_on(sink);
                self.trap(trap, sink);
                if trap.thaddr {
                    return self.enter_handler(trap, sink);
                }
                self.inferred = None;
                Ok(())
            }
            _ if self.position.is_none() || self.unentered.is_some() => Err(Fault::Unsynchronised),
            Packet::BranchCount { count, end } => self.branch_count(count, end, sink),
            Packet::JumpTarget { index, map, irreport } => self.jump_target(index, map, irreport, sink),
            Packet::Branches { map, address } => self.hop(&Hop { map, address }, sink),
            Packet::Address(reported) => {
                self.hop(&Hop { map: BranchMap::EMPTY, address: Some(reported) }, sink)
            }
        }
    }

    /// Takes the end of the trace.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Event>)) {
        self.begin(sink);
        self.settle_trap(false, sink);
        self.flush(sink);
        self.forget();
        self.calm = false;
        self.emit(Event::EndOfTrace { after_overflow: self.lost_trace }, sink);
    }

    /// Back to the beginning of a trace; counts and code stay.
    pub fn reset(&mut self) {
        self.forget();
        self.calm = false;
        self.deferred = None;
        self.context_known = false;
        self.started = false;
        self.lost_trace = false;
    }

    fn is_calm(&self) -> bool {
        self.started
            && self.position.is_some()
            && self.unentered.is_none()
            && self.deferred.is_none()
            && self.inferred.is_none()
            && self.params().dialect == Dialect::Standard
            && !self.settings.careful
    }

    const fn params(&self) -> &Params {
        &self.settings.params
    }

    const fn options(&self) -> &Options {
        &self.settings.options
    }

    /// The address in an address field.
    #[inline]
    const fn absolute(&self, field: u64) -> u64 {
        field << self.params().iaddress_lsb & self.mask
    }
}
