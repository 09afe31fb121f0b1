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
mod data;
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
    BranchMap, Content, Dialect, ImplicitReturn, Message, Options, Packet, Params, Reported,
};

use self::blocks::Blocks;
use self::data::Requests;
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
    /// The time in the frame before.
    time: Option<u64>,
    /// Accesses whose data has not come yet.
    requests: Requests,
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
            time: None,
            requests: Requests::default(),
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

    /// Takes a packet of the hart, or what stands where one was expected. Where it came from does not matter here.
    #[inline(always)]
    pub fn push(&mut self, message: Located<impl Into<Message>>, sink: &mut impl FnMut(Located<Event>)) {
        self.place = (message.offset, message.length);
        let Message { time, ref content, .. } = message.value.into();
        match content {
            Content::Instruction(packet) if self.calm => match packet.branches_and_address() {
                Some((map, address)) => self.stride(map, address, sink),
                None => self.take(packet, sink),
            },
            Content::Instruction(packet) => self.take(packet, sink),
            content => self.take_other(content, sink),
        }
        if time.is_some() {
            self.take_time(time, sink);
        }
    }

    /// Takes messages one after the other, and asks for each before the one ahead of it is followed: a processor that
    /// has to guess where a path goes has then something to do that its guesses do not undo.
    pub fn push_all<M: Into<Message>>(
        &mut self,
        messages: impl IntoIterator<Item = Located<M>>,
        sink: &mut impl FnMut(Located<Event>),
    ) {
        let mut messages = messages.into_iter();
        let mut next = messages.next();
        while let Some(message) = next {
            next = messages.next();
            self.push(message, sink);
        }
    }

    /// Takes what is no packet of instruction trace.
    #[cold]
    fn take_other(&mut self, content: &Content, sink: &mut impl Sink) {
        match content {
            Content::Data { record: Ok(record), .. } => self.take_data(record, sink),
            Content::Data { record: Err(_), .. } | Content::BadData(_) => self.faults.count(Fault::BadData),
            Content::BadPacket(_) | Content::BadFrame(_) => self.lose_place(Fault::BadPacket, sink),
            Content::Instruction(_) | Content::Other(..) | Content::Null => {}
        }
    }

    /// Formats 1 and 2 where nothing is open.
    #[inline(always)]
    fn stride(&mut self, map: BranchMap, address: Option<Reported>, sink: &mut impl Sink) {
        self.blocks.make_room(&mut self.position);
        if let Err(fault) = self.branches(map, address, sink) {
            self.lose(fault, sink);
        }
        self.calm = self.inferred.is_none() && self.position.is_some();
    }

    #[inline(never)]
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
            Packet::Branches { map, address } => self.branches(map, address, sink),
            Packet::Address(reported) => self.branches(BranchMap::EMPTY, Some(reported), sink),
        }
    }

    /// Takes the end of the trace.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Event>)) {
        self.begin(sink);
        self.settle_trap(false, sink);
        self.flush(sink);
        self.finish_data(sink);
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
        self.time = None;
        self.requests.clear();
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
