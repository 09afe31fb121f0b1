//! E-Trace packets and code to execution.
//!
//! A packet tells what the program does not: outcomes of branches, and the address of an instruction that execution
//! came to. The follower walks through the code from where it stands to that instruction. An address that is
//! reached by plain flow may yet mean a later visit, after an uninferable jump back to it; which one was meant, the
//! next packet tells. Return stack, predictor and jump target cache are kept in step with the encoder.
//!
//! There are three ways to walk. The clear one looks at every block: may the walk end here, how is the block left? The
//! fast one goes from block to block while the answers are plain, which is nearly always, and leaves the rest to the
//! clear one. And a path that was walked before is looked up, where nothing but the packet decides it.
//! [`Settings::fast_walk`] turns off all but the clear one; all report the same.

mod cva6;
mod data;
mod destination;
mod fast;
mod outcomes;
mod remembered;
mod report;
mod saved;
mod settings;
mod shared;
mod sync;
mod trap;
mod walk;

use std::ops;

use backsight_core::{Address, AddressSpace, Context, Located};
use backsight_image::Code;
use backsight_riscv::etrace::tables::JumpCache;
use backsight_riscv::etrace::{
    Announced, BranchMap, BranchPacket, Content, Dialect, ImplicitReturn, Message, Options, Packet, Params,
    Reported,
};

use self::data::Requests;
use self::destination::{Destination, Position};
use self::outcomes::Outcomes;
pub use self::saved::FollowerState;
pub use self::settings::{Fault, Faults, Handlers, Settings};
use self::shared::Away;
use self::trap::Deferred;
use self::walk::{Paused, Walked};
use crate::beginning::Beginning;
use crate::blocks::{Blocks, CodeMode, Ending, Origin, RiscvReader};
use crate::return_stack::ReturnStack;
use crate::sink::Sink;
use crate::{Event, Statistics};

/// Follows the execution of one source: of one hart.
#[derive(Clone, Debug)]
pub struct Follower<C> {
    code: C,
    settings: Settings,
    /// What support packets announced; the settings have the part of it that is in force.
    announced: Announced,
    reader: RiscvReader,
    blocks: Blocks,
    /// How code is read in the current context.
    code_mode: CodeMode,
    position: Option<Position>,
    /// The first instruction of the current block that was not reported yet.
    unreported: Option<u64>,
    /// The address that a packet named last.
    address: u64,
    outcomes: Outcomes,
    stack: ReturnStack,
    cache: JumpCache,
    /// Implicit returns since the last branch or packet.
    irets: u32,
    /// The packet whose address was reached by plain flow, while it may mean a later visit.
    inferred: Option<Destination>,
    /// The packet before was a trap whose handler was not entered: the first instruction of it, if known.
    unentered: Option<Option<u64>>,
    deferred: Option<Deferred>,
    /// A packet that the sink did not want all of.
    paused: Option<Paused>,
    /// The position's block is still to be found in the cache.
    away: Option<Away>,
    context: Context,
    context_known: bool,
    beginning: Beginning,
    /// Where the walk was when it failed.
    lost_at: u64,
    lost_trace: bool,
    faults: Faults,
    statistics: Statistics,
    pub(crate) at: Located<()>,
    /// The time in the frame before.
    time: Option<u64>,
    /// Accesses whose data has not come yet.
    requests: Requests,
    /// There are no implicit returns, no jump target cache, and no branch prediction.
    is_plain: bool,
    /// Packets of formats 1 and 2 may be followed at once: nothing is open that they would settle.
    is_settled: bool,
}

impl<C: Code> Follower<C> {
    /// A follower for the packets of one source, through `code`.
    pub fn new(settings: Settings, code: C) -> Self {
        let (params, options) = (settings.params, settings.options);
        let (set, mask) = (settings.set, params.wrap(u64::MAX));
        let (mut blocks, context) = (Blocks::new(settings.cached_blocks), Context::riscv(0, set.wide));
        Self {
            code_mode: blocks.mode(code.space_of(&context), set.isa()),
            code,
            reader: RiscvReader { set, mask, returns_are_jumps: params.itype_width == 3 },
            blocks,
            position: None,
            unreported: None,
            address: 0,
            outcomes: Outcomes::new(&params, &options),
            stack: match params.dialect {
                Dialect::Standard => settings::return_stack(&params),
                Dialect::Cva6 => cva6::return_stack(),
            },
            cache: JumpCache::new(&params),
            irets: 0,
            inferred: None,
            unentered: None,
            deferred: None,
            paused: None,
            away: None,
            context,
            context_known: false,
            beginning: Beginning::default(),
            lost_at: 0,
            lost_trace: false,
            faults: Faults::default(),
            statistics: Statistics::default(),
            at: Located { offset: 0, length: 0, value: () },
            time: None,
            requests: Requests::default(),
            is_plain: settings::is_plain(&options),
            is_settled: false,
            announced: Announced::new(params, options),
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
    /// say enough.
    pub fn is_unreliable(&self) -> bool {
        self.options().implicit_return && self.params().implicit_return == ImplicitReturn::Depth
    }

    /// Takes a packet of the hart, or what stands where one was expected; gives what is certain by now, or as much of it as
    /// the sink wants. What the packet before still stands for is given first, even if the sink has enough. Where the
    /// packet came from does not matter here.
    pub fn push(&mut self, message: Located<impl Into<Message>>, sink: &mut impl Sink) {
        self.go_to(Located { offset: message.offset, length: message.length, value: () }, sink);
        let Message { time, ref content, .. } = message.value.into();
        match content {
            Content::Instruction(packet) => self.take(packet, sink),
            content => self.take_other(content, sink),
        }
        if time.is_some() {
            self.take_time(time, sink);
        }
    }

    /// Takes a packet of format 1 or 2, in the way that is made for them; else it is the same as [`Follower::push`].
    #[inline(always)]
    pub fn push_branches(&mut self, packet: Located<BranchPacket>, sink: &mut impl Sink) {
        self.go_to(Located { offset: packet.offset, length: packet.length, value: () }, sink);
        let BranchPacket { time, map, reported, .. } = packet.value;
        if self.is_settled {
            self.follow_branches(map, reported, sink);
        } else {
            self.take(&Packet::Branches { map, address: reported }, sink);
        }
        if time.is_some() {
            self.take_time(time, sink);
        }
    }

    /// The next packet is here.
    #[inline(always)]
    fn go_to(&mut self, at: Located<()>, sink: &mut impl Sink) {
        if self.is_paused() || self.away.is_some() {
            self.get_ready(sink);
        }
        self.at = at;
    }

    /// Had the sink enough, so that part of the last packet is still to come?
    #[inline]
    pub const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Goes on where the sink had enough.
    pub fn resume(&mut self, sink: &mut impl Sink) {
        self.come_back();
        let Some(paused) = self.paused.take() else { return };
        let result = self.follow_on(&paused, sink);
        self.finish_packet(result, sink);
        self.take_time(paused.time, sink);
    }

    #[cold]
    fn get_ready(&mut self, sink: &mut impl Sink) {
        self.come_back();
        self.drain(sink);
    }

    fn drain(&mut self, sink: &mut impl Sink) {
        while self.is_paused() {
            self.resume(sink);
        }
    }

    /// Takes messages one after the other, and asks for each before the one ahead of it is followed: a processor that
    /// has to guess where a path goes has then something to do that its guesses do not undo.
    pub fn push_all<M: Into<Message>>(
        &mut self,
        messages: impl IntoIterator<Item = Located<M>>,
        sink: &mut impl Sink,
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
            Content::Data(traced) => self.take_data(&traced.record(), sink),
            Content::BadData(_) => self.faults.count(Fault::BadData),
            Content::BadPacket(_) | Content::BadFrame(_) => self.lose_position(Fault::BadPacket, sink),
            Content::Instruction(_) | Content::Other(..) | Content::Null => {}
        }
    }

    /// Formats 1 and 2 where nothing is open.
    #[inline(always)]
    fn follow_branches(&mut self, map: BranchMap, address: Option<Reported>, sink: &mut impl Sink) {
        if self.blocks.is_nearly_full() {
            self.make_room();
        }
        if let Err(fault) = self.branches(map, address, sink) {
            self.lose(fault, sink);
        }
        self.is_settled = self.inferred.is_none() && self.position.is_some();
    }

    #[inline(never)]
    fn take(&mut self, packet: &Packet, sink: &mut impl Sink) {
        self.begin(sink);
        if self.blocks.is_nearly_full() {
            self.make_room();
        }
        if self.announced.packet(packet) {
            self.disbelieve(sink);
        }
        if self.deferred.is_some() && !matches!(packet, Packet::Context(_)) {
            self.settle_trap(matches!(packet, Packet::Trap(_)), sink);
        }
        let result = match self.params().dialect {
            Dialect::Standard => self.take_standard(packet, sink),
            Dialect::Cva6 => self.push_cva6(*packet, sink).map(|()| Walked::Arrived),
        };
        self.finish_packet(result, sink);
    }

    /// A packet was followed, or as far as the sink wanted.
    fn finish_packet(&mut self, result: Result<Walked, Fault>, sink: &mut impl Sink) {
        if let Err(fault) = result {
            self.lose(fault, sink);
        }
        self.is_settled = self.may_follow_branches();
    }

    fn take_standard(&mut self, packet: &Packet, sink: &mut impl Sink) -> Result<Walked, Fault> {
        match *packet {
            Packet::Support(ref support) => self.support(support, sink),
            Packet::Context(ref context) => {
                self.flush(sink);
                self.take_context(context, sink);
                Ok(Walked::Arrived)
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
                Ok(Walked::Arrived)
            }
            _ if self.position.is_none() || self.unentered.is_some() => Err(Fault::Unsynchronised),
            Packet::BranchCount { count, end } => self.branch_count(count, end, sink),
            Packet::JumpTarget { index, map, irreport } => self.jump_target(index, map, irreport, sink),
            Packet::Branches { map, address } => self.branches(map, address, sink),
        }
    }

    /// The trace ends: gives all that is certain. The follower is as new afterwards, but for what it counted, what it knows
    /// of the code, and the options that support packets announced.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.get_ready(sink);
        self.begin(sink);
        self.settle_trap(false, sink);
        self.flush(sink);
        self.finish_data(sink);
        self.end_of_beginning(sink);
        self.emit(Event::EndOfTrace { after_overflow: self.lost_trace }, sink);
        self.reset();
    }

    /// Begins again, as after a gap in the data. Counts go on, and so do options: no packet need repeat them.
    pub fn reset(&mut self) {
        self.forget();
        self.is_settled = false;
        self.deferred = None;
        self.context_known = false;
        self.beginning = Beginning::default();
        self.lost_trace = false;
        self.time = None;
        self.requests.clear();
    }

    /// The code it walks through.
    pub const fn code(&self) -> &C {
        &self.code
    }

    /// The code, to change it: all that was remembered of it is forgotten.
    pub fn code_mut(&mut self) -> &mut C {
        self.keep_current_block();
        self.blocks.all_code_changed();
        &mut self.code
    }

    /// The code, to change it in a range of addresses, as seen from an address space: only what lies there is read again.
    pub fn change_code(&mut self, space: AddressSpace, addresses: ops::Range<u64>) -> &mut C {
        self.keep_current_block();
        self.blocks.code_changed(space, addresses);
        &mut self.code
    }

    /// The code has gone to another time: the context that execution is in may belong to another process now.
    pub fn renew_space(&mut self) {
        self.code_mode = self.blocks.mode(self.code.space_of(&self.context), self.reader.set.isa());
    }

    /// Execution came into the current block before the code changed.
    fn keep_current_block(&mut self) {
        if self.away.is_some() {
            return;
        }
        if let Some(position) = &mut self.position {
            position.block = self.blocks.keep_as_it_is(position.block);
        }
        if let (Some(position), Some(paused)) = (self.position, &mut self.paused) {
            paused.stand_at(position);
        }
    }

    /// Empties the cache of blocks, but for the current one.
    #[cold]
    fn make_room(&mut self) {
        let start = self.position.map(|position| self.blocks.get(position.block).range.start.0);
        self.blocks.clear();
        if let Some(start) = start {
            let block = self.enter(Origin::UNKNOWN, start);
            self.position = self.position.map(|position| Position { block, ..position });
        }
    }

    /// The block that begins at `address`; it may have no code.
    #[inline]
    fn enter(&mut self, origin: Origin, address: u64) -> u32 {
        self.blocks.enter(origin, Address(address), self.code_mode, &self.reader, &self.code)
    }

    /// The block that begins at `address`.
    #[inline]
    fn block_at(&mut self, origin: Origin, address: u64) -> Result<u32, Fault> {
        let number = self.enter(origin, address);
        if self.blocks.get(number).ending == Ending::NoCode { Err(Fault::NoCode) } else { Ok(number) }
    }

    fn may_follow_branches(&self) -> bool {
        self.position.is_some()
            && self.unentered.is_none()
            && self.deferred.is_none()
            && self.inferred.is_none()
            && !self.announced.waits_for_sync()
            && self.params().dialect == Dialect::Standard
            && self.settings.fast_walk
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
        field << self.params().iaddress_lsb & self.reader.mask
    }
}
