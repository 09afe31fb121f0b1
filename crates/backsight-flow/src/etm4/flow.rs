//! From elements to execution.
//!
//! Each atom stands for one P0 instruction, and says whether it was executed; all instructions before it were.
//! Direct branches lead on by themselves; indirect ones need an address from the trace or the return stack.
//! Code that does not fit the trace is reported where it shows, and the flow goes on as the trace says; a
//! strict follower stops there until the trace names an address again.

use backsight_arm::etm4::{AddressPacket, Atoms, Config, Is, Profile};
use backsight_core::{Address, AddressSpace, Cause, Context, Isa, Located};
use backsight_image::Code;
use backsight_isa::Class;

use super::position::{Position, State};
use super::{Element, Options};
use crate::blocks::{Block, Blocks, CodeCache, CodeMode, Origin, Way};
use crate::path_ranges::Step;
use crate::return_stack::{Entry, ReturnStack};
use crate::sink::Sink;
use crate::walk::{Policy, Stop, Waypoints};
use crate::{Channel, Event, NoSync, Range, SoftwareMessage, Statistics, Symptom, TraceOn, Transaction};

/// No trace unit remembers more calls than this.
const STACK_DEPTH: usize = 16;

/// Where an element is in the trace.
pub(super) type At = Located<()>;

/// Walks elements through the code.
#[derive(Clone, Debug)]
pub(super) struct Flow<C> {
    pub(super) code: C,
    pub(super) policy: Policy,
    pub(super) blocks: Blocks<Step>,
    /// How code is read in the current context, but for instruction set and IT state.
    code_mode: CodeMode,
    /// The block at the current position, once it was looked for.
    pub(super) here: Option<u32>,
    /// The way that led to the current position.
    pub(super) origin: Origin,
    pub(super) position: Position,
    pub(super) stack: ReturnStack<[Entry; STACK_DEPTH]>,
    return_stack: bool,
    /// A periodic Trace Info holds calls back from the return stack until the next address.
    hold_calls: bool,
    ete: bool,
    loads: bool,
    stores: bool,
    pub(super) m_profile: bool,
    pub(super) strict: bool,
    pub(super) overflow: bool,
    /// Does the trace unit write VMIDs and context IDs? A flag for one of no bytes means nothing.
    identifiers: (bool, bool),
    pub(super) statistics: Statistics,
}

/// What changes as it walks, but for what it has read of the code.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FlowState {
    policy: Policy,
    position: Position,
    stack: ReturnStack<[Entry; STACK_DEPTH]>,
    hold_calls: bool,
    overflow: bool,
}

impl<C: Code> Flow<C> {
    pub(super) fn new(config: &Config, code: C, options: Options) -> Self {
        let m_profile = config.profile == Profile::M;
        let waypoints = Waypoints {
            isb: true,
            data_barrier: false,
            wait: config.wfx_p0(),
            transaction_start: config.is_ete(),
            load: config.loads_p0() && !config.is_ete(),
            store: config.stores_p0() && !config.is_ete(),
        };
        let mut blocks = Blocks::new(options.cached_blocks);
        Self {
            code,
            code_mode: blocks.mode(AddressSpace::ANY, Isa::A64),
            policy: Policy {
                waypoints,
                t32_only: m_profile,
                marks_it: true,
                limit: options.walk_limit.max(1),
            },
            blocks,
            here: None,
            origin: Origin::UNKNOWN,
            position: Position::new(m_profile),
            stack: ReturnStack::fixed(),
            return_stack: config.return_stack(),
            hold_calls: false,
            ete: config.is_ete(),
            loads: waypoints.load,
            stores: waypoints.store,
            m_profile,
            strict: options.strict_image,
            overflow: false,
            identifiers: (config.vmid_bytes() > 0, config.context_id_bytes() > 0),
            statistics: Statistics::default(),
        }
    }

    pub(super) fn state(&self) -> FlowState {
        let &Self { policy, position, hold_calls, overflow, .. } = self;
        FlowState { policy, position, stack: self.stack.clone(), hold_calls, overflow }
    }

    pub(super) fn restore(&mut self, saved: &FlowState) {
        let FlowState { policy, position, stack, hold_calls, overflow } = saved;
        if self.policy != *policy {
            self.policy = *policy;
            self.blocks.all_code_changed();
        }
        (self.position, self.hold_calls, self.overflow) = (*position, *hold_calls, *overflow);
        self.stack = stack.clone();
        self.forget_place();
    }

    /// What was read of the code.
    pub(super) fn take_cache(&mut self) -> CodeCache {
        let cache = CodeCache::new(self.policy, self.blocks.take());
        self.forget_place();
        cache
    }

    /// Goes on with what another follower has read of the code; gives it back if that reads code in another way.
    pub(super) fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.blocks = cache.open(&self.policy)?;
        self.forget_place();
        Ok(())
    }

    /// Nothing is known any more of where in the blocks execution is.
    fn forget_place(&mut self) {
        (self.here, self.origin) = (None, Origin::UNKNOWN);
        self.code_mode = self.blocks.mode(self.position.space(), self.position.isa);
    }

    fn lose(&mut self) {
        self.here = None;
        self.position.forget();
        self.stack.clear();
        self.hold_calls = false;
    }

    /// Another trace: identifiers of before mean nothing in it.
    pub(super) fn restart(&mut self) {
        self.lose();
        self.position = Position::new(self.m_profile);
    }

    pub(super) fn emit(&mut self, at: At, event: Event, sink: &mut impl Sink) {
        self.statistics.count(&event);
        sink.take(at.map(|()| event));
    }

    #[inline]
    pub(super) fn element(&mut self, element: Located<Element>, sink: &mut impl Sink) {
        let at = element.map(|_| ());
        match element.value {
            Element::Atoms(atoms) => self.atoms(atoms, at, sink),
            Element::Address(address) => self.address(address, at, sink),
            _ => {
                self.here = None;
                self.other(element, at, sink);
            }
        }
    }

    fn other(&mut self, element: Located<Element>, at: At, sink: &mut impl Sink) {
        let event = match element.value {
            Element::Atoms(_) | Element::Address(_) | Element::FunctionReturn => return,
            Element::SourceAddress(source) => return self.source(source, at, sink),
            Element::Exception { exception, address, context } => {
                return self.exception(exception, address, context, at, sink);
            }
            Element::Q { count, address, context } => return self.q(count, address, context, at, sink),
            Element::Context(None, _) => return,
            Element::Context(Some(context), is) => return self.context(context, is, at, sink),
            Element::TraceInfo { first, info } => return self.trace_info(first, info),
            Element::TraceOn => self.trace_on(),
            Element::StartOfTrace => Event::StartOfTrace,
            Element::NoSync(why) => {
                self.lose();
                self.overflow = why == NoSync::Overflow || self.overflow && why != NoSync::BadPacket;
                Event::NoSync(why)
            }
            Element::Overrun => {
                Event::Mismatch { symptom: Symptom::SpeculationOverrun, address: self.position.address }
            }
            Element::PeReset => {
                self.position.forget();
                Event::Exception {
                    cause: self.cause(0),
                    return_address: None,
                    is_branch_target: false,
                    fault_pending: false,
                    value: 0,
                }
            }
            Element::ExceptionReturn { .. } => {
                // An exception return never takes its target from the return stack.
                if self.position.state == State::AfterBranch {
                    self.position.state = State::Unknown;
                }
                Event::ExceptionReturn
            }
            Element::TransactionInitial => Event::Transaction(Transaction::Initial),
            Element::TransactionStart { .. } => Event::Transaction(Transaction::Start),
            Element::TransactionCommit => Event::Transaction(Transaction::Commit),
            Element::TransactionFailure => {
                self.position.state = State::Unknown;
                Event::Transaction(Transaction::Failure)
            }
            Element::Event(events) => Event::UnitEvents(events),
            Element::Timestamp { value, cycles } => Event::Timestamp { value, cycles },
            Element::TimestampMarker => Event::TimestampMarker,
            Element::CycleCount(cycles) => Event::CycleCount(cycles),
            Element::Instrumentation { level, value } => {
                Event::Software(SoftwareMessage::new(Channel::ExceptionLevel(level), value, 8))
            }
            Element::Condition { key, outcome } => Event::Condition { key, outcome },
            Element::EndOfTrace => Event::EndOfTrace { after_overflow: std::mem::take(&mut self.overflow) },
        };
        self.emit(at, event, sink);
    }

    pub(super) const fn cause(&self, number: u16) -> Cause {
        if self.m_profile { Cause::ArmM(number) } else { Cause::Arm(number) }
    }

    fn trace_on(&mut self) -> Event {
        self.position.state = State::Unknown;
        self.stack.clear();
        let overflow = std::mem::take(&mut self.overflow);
        Event::TraceOn(if overflow { TraceOn::Overflow } else { TraceOn::Begin })
    }

    fn trace_info(&mut self, first: bool, info: u32) {
        if first {
            self.lose();
        }
        self.position.restate();
        self.hold_calls = true;
        if !self.ete {
            let before = self.policy;
            self.policy.waypoints.load = self.loads || info >> 4 & 1 == 1;
            self.policy.waypoints.store = self.stores || info >> 5 & 1 == 1;
            if self.policy != before {
                self.blocks.all_code_changed();
            }
        }
    }

    pub(super) fn context(
        &mut self,
        context: backsight_arm::etm4::Context,
        is: Is,
        at: At,
        sink: &mut impl Sink,
    ) {
        let mut context = Context::from(context);
        context.vmid = context.vmid.filter(|_| self.identifiers.0);
        context.context_id = context.context_id.filter(|_| self.identifiers.1);
        let context = self.position.enter(context, &self.code);
        self.code_mode = self.blocks.mode(self.position.space(), self.position.isa);
        self.emit(at, Event::Context(context, self.position.isa_of(is)), sink);
    }

    /// The context may belong to another process now.
    pub(super) fn renew_space(&mut self) {
        if self.position.renew_space(&self.code) {
            (self.here, self.origin) = (None, Origin::UNKNOWN);
            self.code_mode = self.blocks.mode(self.position.space(), self.position.isa);
        }
    }

    #[inline(always)]
    pub(super) fn address(&mut self, packet: AddressPacket, at: At, sink: &mut impl Sink) {
        let expected = self.position.is_known().then_some(self.position.address);
        self.here = None;
        self.hold_calls = false;
        self.position.name(packet.address, packet.is);
        if let Some(expected) = expected.filter(|&expected| expected != self.position.address) {
            self.address_differs(expected, at, sink);
        }
        let wide = self.position.isa == Isa::A64 && self.position.context.is_some();
        if packet.is == Is::Is1 && wide || packet.address.0 & 1 != 0 {
            self.mismatch(Symptom::BadAddress, packet.address, at, sink);
        }
    }

    /// The trace names another address than the code leads to.
    #[cold]
    #[inline(never)]
    fn address_differs(&mut self, expected: Address, at: At, sink: &mut impl Sink) {
        self.mismatch(Symptom::AddressDiffers, expected, at, sink);
        if self.strict {
            self.stack.clear();
            self.emit(at, Event::NoSync(NoSync::WrongImage), sink);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn mismatch(&mut self, symptom: Symptom, address: Address, at: At, sink: &mut impl Sink) {
        self.emit(at, Event::Mismatch { symptom, address }, sink);
    }

    /// Strict: the code here cannot be what was executed. Nothing is certain until the next address.
    pub(super) fn give_up(&mut self, at: At, sink: &mut impl Sink) {
        self.position.state = State::Unknown;
        self.stack.clear();
        self.emit(at, Event::NoSync(NoSync::WrongImage), sink);
    }

    /// A P0 element is to be followed. Finds the target of an indirect branch before it on the return stack.
    /// False: the position or the context is not known.
    #[inline]
    pub(super) fn settle(&mut self, at: At, sink: &mut impl Sink) -> bool {
        self.position.is_known() || self.settle_slowly(at, sink)
    }

    fn settle_slowly(&mut self, at: At, sink: &mut impl Sink) -> bool {
        if self.position.state == State::AfterBranch {
            match self.stack.pop() {
                Some((address, isa)) => self.position.go(address, isa),
                None => {
                    let on = self.return_stack;
                    let symptom = if on { Symptom::ReturnStackEmpty } else { Symptom::TargetMissing };
                    self.position.state = State::Unknown;
                    self.mismatch(symptom, self.position.address, at, sink);
                }
            }
        }
        self.position.is_known()
    }

    /// Each atom stands for one block.
    #[inline]
    pub(super) fn atoms(&mut self, mut atoms: Atoms, at: At, sink: &mut impl Sink) {
        while atoms.count > 0 {
            let Some(here) = self.block_here(at, sink) else {
                self.statistics.skipped += u64::from(atoms.count);
                return;
            };
            atoms = self.run(here, atoms, at, sink);
        }
    }

    /// The block where execution is; `None` if that is not known.
    #[inline(always)]
    pub(super) fn block_here(&mut self, at: At, sink: &mut impl Sink) -> Option<u32> {
        if self.here.is_some() {
            return self.here;
        }
        self.settle(at, sink).then(|| {
            let mode = self.mode_here();
            self.blocks.enter(self.origin, self.position.address, mode, &self.policy, &self.code)
        })
    }

    /// How the code is read where execution is.
    #[inline(always)]
    pub(super) fn mode_here(&self) -> CodeMode {
        self.code_mode.with(self.position.isa, self.position.it)
    }

    /// Are calls put on the return stack?
    #[inline(always)]
    pub(super) fn remembers_calls(&self) -> bool {
        self.return_stack && !self.hold_calls
    }

    /// Goes from block to block as long as it is known where execution goes; gives the atoms that are left.
    #[inline]
    fn run(&mut self, mut here: u32, mut atoms: Atoms, at: At, sink: &mut impl Sink) -> Atoms {
        let (mut instructions, mut ranges, mut branches, mut taken_branches) = (0, 0, 0, 0);
        let remembers_calls = self.remembers_calls();
        let mut origin = self.origin;
        let stopped = loop {
            if atoms.count == 0 {
                break None;
            }
            let block = self.blocks.get(here);
            let taken = atoms.bits & 1 == 1;
            let way = block.way(taken);
            if !way.is_known() {
                break Some((block, None));
            }
            atoms = Atoms { bits: atoms.bits >> 1, count: atoms.count - 1 };
            origin = Origin::new(here, taken);
            instructions += u64::from(block.range.instructions);
            ranges += 1;
            branches += u64::from(block.is_branch());
            taken_branches += u64::from(block.is_branch() & taken);
            sink.take(at.map(|()| Event::Range(Range { executed: taken, ..block.range })));
            if way == Way::Call && remembers_calls {
                self.stack.push(block.range.end, block.range.isa);
            }
            let Some(next) = block.next(taken) else { break Some((block, Some(taken))) };
            here = next;
        };
        self.statistics.instructions += instructions;
        self.statistics.ranges += ranges;
        self.statistics.branches += branches;
        self.statistics.taken += taken_branches;
        self.origin = origin;
        match stopped {
            None => {
                self.stand_at(here);
                atoms
            }
            Some((block, Some(taken))) => {
                let block = *block;
                self.here = None;
                self.leave(&block, taken, at, sink);
                atoms
            }
            Some((block, None)) => {
                let block = *block;
                self.here = None;
                self.leave_somewhere(here, &block, atoms, at, sink)
            }
        }
    }

    /// Execution is at the beginning of a block.
    #[inline]
    pub(super) fn stand_at(&mut self, here: u32) {
        let block = self.blocks.get(here);
        self.here = Some(here);
        self.position.go(block.range.start, block.range.isa);
        self.position.it = block.it_before();
    }

    /// Goes on after a block that leads to no address that is known for good.
    #[inline]
    fn leave_somewhere(
        &mut self,
        here: u32,
        block: &Block,
        atoms: Atoms,
        at: At,
        sink: &mut impl Sink,
    ) -> Atoms {
        let taken = atoms.bits & 1 == 1;
        let left = Atoms { bits: atoms.bits >> 1, count: atoms.count - 1 };
        if block.is_stale() {
            // It is read again when it is looked for.
            self.position.go(block.range.start, block.range.isa);
            self.position.it = block.it_before();
            return atoms;
        }
        self.origin = Origin::new(here, taken);
        if block.way(taken) == Way::Indirect {
            self.emit(at, Event::Range(Range { executed: taken, ..block.range }), sink);
            self.leave(block, taken, at, sink);
        } else {
            self.odd(block, taken, at, sink);
        }
        left
    }

    /// Goes on after a block.
    #[inline]
    pub(super) fn leave(&mut self, block: &Block, taken: bool, at: At, sink: &mut impl Sink) {
        let Range { end, isa, class, flags, .. } = block.range;
        match class {
            Class::DirectBranch if taken => self.position.go(block.target, block.target_isa),
            Class::IndirectBranch if taken => {
                self.call(flags.link, end, isa);
                self.leave_indirectly((block.last(), isa), flags.exception_return, at, sink);
            }
            _ => {
                self.position.go(end, isa);
                self.position.it = block.it;
            }
        }
    }

    #[inline]
    pub(super) fn call(&mut self, link: bool, address: Address, isa: Isa) {
        if self.remembers_calls() && link {
            self.stack.push(address, isa);
        }
    }

    pub(super) fn leave_indirectly(
        &mut self,
        (branch, isa): (Address, Isa),
        exception_return: bool,
        at: At,
        sink: &mut impl Sink,
    ) {
        self.position.it = 0;
        self.position.address = branch;
        self.position.isa = isa;
        self.position.state = if exception_return { State::Unknown } else { State::AfterBranch };
        // A processor with ETE has AArch32 at EL0 only: no exception returns from there.
        if exception_return && self.ete && isa == Isa::A64 {
            self.emit(at, Event::ExceptionReturn, sink);
        }
    }

    /// A block that something is wrong with.
    #[cold]
    fn odd(&mut self, block: &Block, taken: bool, at: At, sink: &mut impl Sink) {
        // Blocks that were run through before it left the position behind.
        (self.position.address, self.position.isa) = (block.range.start, block.range.isa);
        let symptom = block.symptom(taken);
        if let Some((symptom, address)) = symptom
            && self.strict
            && symptom.is_strong()
        {
            self.mismatch(symptom, address, at, sink);
            return self.give_up(at, sink);
        }
        let Range { end, isa, .. } = block.range;
        let executed = taken || block.stop != Stop::Reached;
        if block.range.instructions > 0 {
            self.emit(at, Event::Range(Range { executed, ..block.range }), sink);
        }
        if let Some((symptom, address)) = symptom {
            self.mismatch(symptom, address, at, sink);
        }
        match block.stop {
            Stop::NoMemory => self.unreadable(end, at, sink),
            Stop::Limit => self.position.state = State::Unknown,
            Stop::Reached | Stop::Branch => {
                let direct = block.range.class == Class::DirectBranch;
                self.call(direct && taken && block.range.flags.link, end, isa);
                self.leave(block, taken, at, sink);
            }
        }
    }

    /// Execution went on at an address that cannot be read. Calls may be missed from here on.
    pub(super) fn unreadable(&mut self, address: Address, at: At, sink: &mut impl Sink) {
        self.position.state = State::Unreadable;
        self.position.address = address;
        self.stack.clear();
        let space = self.position.space();
        self.emit(at, Event::NoMemory { address, space }, sink);
    }
}
