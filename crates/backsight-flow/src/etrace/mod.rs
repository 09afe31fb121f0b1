//! E-Trace packets and code to execution.
//!
//! A packet tells what the program does not: outcomes of branches, and the address of an instruction that execution
//! came to. The follower walks through the code from where it stands to that instruction. An address that is
//! reached by plain flow may yet mean a later visit, behind an uninferable jump back to it; which one was meant, the
//! next packet tells. Return stack, predictor and jump target cache are kept in step with the encoder.

mod blocks;
mod outcomes;
mod seed;
mod settings;
mod trap;
mod walk;

use backsight_core::{Address, Context, Isa, Located, MemorySpace};
use backsight_image::Code;
use backsight_riscv::etrace::tables::{JumpCache, ReturnStack};
use backsight_riscv::etrace::{
    BranchMap, ContextPacket, CountEnd, Dialect, ImplicitReturn, Options, Packet, Params, QualStatus,
    Reported, Start, Support, SupportLayout, TrapPacket,
};

use self::blocks::{Blocks, End};
use self::outcomes::Outcomes;
pub use self::settings::{Fault, Faults, Handlers, Settings};
use self::trap::Deferred;
use self::walk::{Goal, GoalKind, Position};
use crate::{Event, NoSync, Statistics, Symptom, TraceOn};

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
            context: Context { wide: settings.set.wide, ..Context::default() },
            context_known: false,
            started: false,
            lost_at: 0,
            lost_trace: false,
            faults: Faults::default(),
            statistics: Statistics::default(),
            place: (0, 0),
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

    /// Takes a packet.
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl FnMut(Located<Event>)) {
        self.place = (packet.offset, packet.length);
        self.begin(sink);
        self.blocks.make_room(&mut self.position);
        if self.deferred.is_some() && !matches!(packet.value, Packet::Context(_)) {
            self.settle_trap(matches!(packet.value, Packet::Trap(_)), sink);
        }
        let result = match packet.value {
            packet if self.params().dialect == Dialect::Seed => self.push_seed(packet, sink),
            Packet::Support(support) => self.support(&support, sink),
            Packet::Context(context) => {
                self.flush(sink);
                self.take_context(&context, sink);
                Ok(())
            }
            Packet::Start(start) => {
                self.trace_on(sink);
                self.synchronise(&start, false, sink)
            }
            Packet::Trap(trap) => {
                self.trace_on(sink);
                self.trap(&trap, sink);
                match (trap.thaddr, trap.address) {
                    (false, _) => {
                        self.inferred = None;
                        Ok(())
                    }
                    (true, field) => self.enter_handler(&trap, field, sink),
                }
            }
            Packet::Branches { .. }
            | Packet::Address(_)
            | Packet::BranchCount { .. }
            | Packet::JumpTarget { .. }
                if self.position.is_none() || self.unentered.is_some() =>
            {
                Err(Fault::Unsynchronised)
            }
            Packet::Branches { map, address } => {
                self.outcomes.append(map);
                self.walk(address, GoalKind::LastBranch, sink)
            }
            Packet::Address(reported) => self.walk(Some(reported), GoalKind::Address, sink),
            Packet::BranchCount { count, end } => self.branch_count(count, end, sink),
            Packet::JumpTarget { index, map, irreport } => self.jump_target(index, map, irreport, sink),
        };
        if let Err(fault) = result {
            self.lose(fault, sink);
        }
    }

    /// Takes a payload that is no packet.
    pub fn push_bad(&mut self, place: Located<()>, sink: &mut impl FnMut(Located<Event>)) {
        self.place = (place.offset, place.length);
        self.begin(sink);
        self.lose(Fault::BadPacket, sink);
    }

    /// Takes the end of the trace.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Event>)) {
        self.begin(sink);
        self.settle_trap(false, sink);
        self.flush(sink);
        self.forget();
        self.emit(Event::EndOfTrace { after_overflow: self.lost_trace }, sink);
    }

    /// Back to the beginning of a trace; counts and code stay.
    pub fn reset(&mut self) {
        self.forget();
        self.deferred = None;
        self.context_known = false;
        self.started = false;
        self.lost_trace = false;
    }

    const fn params(&self) -> &Params {
        &self.settings.params
    }

    const fn options(&self) -> &Options {
        &self.settings.options
    }

    fn absolute(&self, field: u64) -> u64 {
        self.params().wrap(field << self.params().iaddress_lsb)
    }

    #[inline]
    fn emit(&mut self, value: Event, sink: &mut impl Sink) {
        self.statistics.count(&value);
        let (offset, length) = self.place;
        sink(Located { offset, length, value });
    }

    fn begin(&mut self, sink: &mut impl Sink) {
        if !self.started {
            self.started = true;
            self.emit(Event::NoSync(NoSync::Initial), sink);
        }
    }

    fn trace_on(&mut self, sink: &mut impl Sink) {
        if self.position.is_none() && self.unentered.is_none() {
            let why = if self.lost_trace { TraceOn::Overflow } else { TraceOn::Begin };
            self.emit(Event::TraceOn(why), sink);
        }
    }

    /// Tells everything up to where the walk stands.
    fn flush(&mut self, sink: &mut impl Sink) {
        if let Some(position) = self.position {
            self.emit_part(position, position.pc, sink);
        }
    }

    fn forget(&mut self) {
        self.position = None;
        self.run = None;
        self.inferred = None;
        self.unentered = None;
        self.outcomes.clear();
    }

    fn lose(&mut self, fault: Fault, sink: &mut impl Sink) {
        self.faults.count(fault);
        if fault == Fault::Unsynchronised {
            self.statistics.skipped += 1;
            return;
        }
        let address = Address(self.lost_at);
        self.flush(sink);
        let symptom = match fault {
            Fault::NoCode => {
                self.emit(Event::NoMemory { address, space: MemorySpace::ANY }, sink);
                None
            }
            Fault::UnexpectedDiscontinuity | Fault::CacheEntryInvalid | Fault::HandlerUnknown => {
                Some(Symptom::TargetMissing)
            }
            Fault::OutcomeMissing | Fault::OutcomesLeftOver => Some(Symptom::AddressDiffers),
            Fault::PathTooLong => Some(Symptom::EndlessRange),
            Fault::BadPacket | Fault::TraceLost | Fault::Unsynchronised => None,
        };
        let reason = match (fault, symptom) {
            (Fault::TraceLost, _) => NoSync::Overflow,
            (Fault::NoCode, _) | (_, Some(_)) => NoSync::WrongImage,
            _ => NoSync::BadPacket,
        };
        if let Some(symptom) = symptom {
            self.emit(Event::Mismatch { symptom, address }, sink);
        }
        self.emit(Event::NoSync(reason), sink);
        self.forget();
    }

    fn support(&mut self, support: &Support, sink: &mut impl Sink) -> Result<(), Fault> {
        // What it says about a handler is out of date; that it was not entered stays true.
        self.unentered = self.unentered.map(|_| None);
        if support.qual_status == QualStatus::EndedNtr
            && let (Some(earlier), Some(position)) = (self.inferred, self.position)
        {
            // The last packet named the target of a jump: walk on to it.
            self.inferred = None;
            let goal = Goal {
                address: position.pc,
                updiscon: true,
                notify: false,
                kind: GoalKind::Cached,
                ..earlier
            };
            self.follow(&goal, sink)?;
        }
        self.learn(support);
        match support.qual_status {
            QualStatus::NoChange => Ok(()),
            QualStatus::TraceLost => {
                self.lost_trace = true;
                Err(Fault::TraceLost)
            }
            QualStatus::EndedRep | QualStatus::EndedNtr => {
                self.flush(sink);
                self.forget();
                Ok(())
            }
        }
    }

    /// Takes over options, and parameters where the layout has them.
    fn learn(&mut self, support: &Support) {
        let mut options = support.options;
        if self.params().layout == SupportLayout::Reference {
            // This layout has no bit for it: what was configured stays.
            options.sijump = self.options().sijump;
        }
        let changed = options != self.settings.options;
        self.settings.options = options;
        let mut resized = false;
        if let Some(d) = &support.disclosed {
            let p = &mut self.settings.params;
            let before = *p;
            p.implicit_return = if d.iret_ext { ImplicitReturn::Returns } else { ImplicitReturn::Depth };
            (p.return_stack_size, p.call_counter_size) = (d.return_stack_size, d.call_counter_size);
            (p.bpred_size, p.cache_size) = (d.bpred_size, d.cache_size);
            resized = *p != before;
        }
        if changed || resized {
            let (params, options) = (self.settings.params, self.settings.options);
            self.outcomes = Outcomes::new(&params, &options);
        }
        if resized {
            self.stack = ReturnStack::new(&self.settings.params);
            self.cache = JumpCache::new(&self.settings.params);
        }
    }

    fn take_context(&mut self, packet: &ContextPacket, sink: &mut impl Sink) {
        let mut context = self.context;
        context.level = packet.privilege;
        if self.params().context_bits() > 0 {
            context.context_id = Some(packet.context as u32);
        }
        if context != self.context || !self.context_known {
            self.context = context;
            self.context_known = true;
            self.emit(Event::Context(context, self.isa), sink);
        }
        if self.params().time_bits() > 0 {
            self.emit(Event::Timestamp { value: packet.time, cycles: None }, sink);
        }
    }

    fn enter_handler(
        &mut self,
        trap: &TrapPacket,
        field: Option<u64>,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let lsb = self.params().iaddress_lsb;
        let implied = || self.settings.handlers.of(trap.ecause, trap.interrupt).map(|handler| handler >> lsb);
        let address = field.or_else(implied).ok_or(Fault::HandlerUnknown)?;
        let start = Start {
            branch: trap.branch,
            privilege: trap.privilege,
            time: trap.time,
            context: trap.context,
            address,
        };
        self.synchronise(&start, true, sink)
    }

    /// Format 3 subformat 0, and subformat 1 with the handler's address.
    fn synchronise(&mut self, start: &Start, trap: bool, sink: &mut impl Sink) -> Result<(), Fault> {
        self.inferred = None;
        self.address = self.absolute(start.address);
        let anchor = trap || self.position.is_none() || self.unentered.is_some();
        self.unentered = None;
        self.lost_at = self.address;
        let block = self.blocks.at(self.address)?;
        let at_branch = self.is_branch(block);
        if anchor {
            self.flush(sink);
            self.outcomes.clear();
        }
        if at_branch {
            self.outcomes.push(!start.branch);
        }
        if anchor {
            self.position = Some(Position { block, pc: self.address });
            self.run = Some(self.address);
        } else {
            let goal = Goal {
                address: self.address,
                kind: GoalKind::Sync { privilege: start.privilege },
                at_branch,
                notify: false,
                updiscon: false,
                irreport: None,
            };
            self.follow(&goal, sink)?;
        }
        self.lost_trace = false;
        self.synchronised(start, sink);
        Ok(())
    }

    fn synchronised(&mut self, start: &Start, sink: &mut impl Sink) {
        if !self.options().resync_disabled {
            self.stack.reset();
            self.cache.reset();
            self.outcomes.reset_predictor();
        }
        self.irets = 0;
        let context = ContextPacket { privilege: start.privilege, time: start.time, context: start.context };
        self.enter_context(&context, sink);
    }

    /// The named instruction is the first one in a context, which may be new.
    fn enter_context(&mut self, context: &ContextPacket, sink: &mut impl Sink) {
        let differs = context.privilege != self.context.level
            || self.params().context_bits() > 0 && self.context.context_id != Some(context.context as u32)
            || self.params().time_bits() > 0
            || !self.context_known;
        if !differs {
            return;
        }
        if let Some(position) = self.position
            && self.run != Some(position.pc)
        {
            if let Some(before) = self.blocks.get(position.block).before(position.pc) {
                self.emit_part(position, before, sink);
            }
            self.run = Some(position.pc);
        }
        self.take_context(context, sink);
    }

    fn is_branch(&self, block: u32) -> bool {
        let block = self.blocks.get(block);
        block.kind == End::Branch && block.last == block.start
    }

    fn branch_count(&mut self, count: u32, end: CountEnd, sink: &mut impl Sink) -> Result<(), Fault> {
        let counted = u64::from(count) + u64::from(BranchMap::FULL);
        let (reported, failed) = match end {
            CountEnd::Mispredicted => (None, true),
            CountEnd::Address(reported) => (Some(reported), false),
            CountEnd::MispredictedAt(reported) => (Some(reported), true),
        };
        self.outcomes.count(counted + u64::from(failed), failed);
        self.walk(reported, GoalKind::LastBranch, sink)
    }

    fn jump_target(
        &mut self,
        index: u32,
        map: BranchMap,
        irreport: Option<u32>,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        if self.inferred.is_some()
            && let Some(position) = self.position
        {
            // That crossing is still to be walked, but the encoder has entered its target already.
            self.cache.insert(position.pc);
        }
        let target = self.cache.get(index).ok_or(Fault::CacheEntryInvalid)?;
        self.outcomes.append(map);
        self.address = target;
        self.walk_to(target, GoalKind::Cached, Reported { irreport, ..Reported::default() }, sink)
    }

    /// Formats 0 and 1 with or without an address, and format 2.
    fn walk(
        &mut self,
        reported: Option<Reported>,
        otherwise: GoalKind,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let Some(reported) = reported else {
            return self.walk_to(u64::MAX, otherwise, Reported::default(), sink);
        };
        let distance = self.absolute(reported.address);
        self.address = if self.options().full_address {
            distance
        } else {
            self.params().wrap(self.address.wrapping_add(distance))
        };
        self.walk_to(self.address, GoalKind::Address, reported, sink)
    }

    fn walk_to(
        &mut self,
        address: u64,
        kind: GoalKind,
        reported: Reported,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let at_branch = match kind {
            GoalKind::LastBranch => false,
            _ => {
                self.lost_at = address;
                let block = self.blocks.at(address)?;
                self.is_branch(block)
            }
        };
        if self.inferred.is_none() {
            self.irets = 0;
        }
        let Reported { notify, updiscon, irreport, .. } = reported;
        self.follow(&Goal { address, kind, at_branch, notify, updiscon, irreport }, sink)
    }
}
