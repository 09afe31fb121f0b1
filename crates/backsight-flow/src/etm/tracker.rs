//! Where execution is, and in which state.

use backsight_arm::ptm::State;
use backsight_core::{Address, AddressSpace, Context, Isa, Located, Security};
use backsight_image::Code;

use super::Options;
use crate::beginning::Beginning;
use crate::blocks::{Block, BlockReader, Blocks, CodeCache, CodeMode, Ending, InstructionMap, Origin};
use crate::sink::Sink;
use crate::walk::{Policy, Start, Stop, Until, Waypoints};
use crate::{Event, NoSync, Statistics, Symptom};

/// Where something is in the trace.
pub type At = Located<()>;

/// A place in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub address: Address,
    pub isa: Isa,
    /// T32: how many instructions from here on are still inside an IT block.
    pub it: u8,
}

impl Position {
    pub const fn new(address: Address, isa: Isa) -> Self {
        Self { address, isa, it: 0 }
    }
}

/// Cuts code into single instructions.
struct EachInstruction(Policy);

impl BlockReader for EachInstruction {
    fn read(&self, code: &impl Code, start: Start) -> (Block, InstructionMap) {
        let walk = self.0.walk(code, start, Until::Count(1));
        let ending = if walk.instructions == 0 { Ending::NoCode } else { Ending::of(&walk.last) };
        // A branch is one instruction like any other.
        let stop = if walk.stop == Stop::Branch { Stop::Reached } else { walk.stop };
        let mut block = Block::new(walk.range(true), &walk.last, ending, stop, walk.undefined);
        block.it = walk.it;
        (block, InstructionMap::default())
    }
}

/// How code is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub waypoints: Waypoints,
    /// All code is T32.
    pub t32_only: bool,
    /// Every instruction is a block of its own.
    pub each_instruction: bool,
}

/// Follows position and state, and reads the code there.
#[derive(Clone, Debug)]
pub(crate) struct Tracker<C> {
    pub code: C,
    pub policy: Policy,
    /// Every instruction is a block of its own.
    each_instruction: bool,
    pub blocks: Blocks,
    /// How code is read in the current state, but for instruction set and IT state.
    code_mode: CodeMode,
    /// The way that led to the current position.
    pub origin: Origin,
    /// Where execution is, if that is known.
    pub position: Option<Position>,
    /// The state, once an I-sync gave it.
    state: Option<State>,
    context_id: Option<u32>,
    vmid: Option<u8>,
    /// The instruction set that the last context event named.
    named_isa: Isa,
    space: AddressSpace,
    beginning: Beginning,
    pub strict: bool,
    pub statistics: Statistics,
}

/// What changes as it follows, but for what it has read of the code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrackerState {
    position: Option<Position>,
    state: Option<State>,
    context_id: Option<u32>,
    vmid: Option<u8>,
    named_isa: Isa,
    beginning: Beginning,
}

impl<C: Code> Tracker<C> {
    pub fn known(&self) -> TrackerState {
        let &Self { position, state, context_id, vmid, named_isa, beginning, .. } = self;
        TrackerState { position, state, context_id, vmid, named_isa, beginning }
    }

    pub fn go_on_with(&mut self, known: TrackerState) {
        let TrackerState { position, state, context_id, vmid, named_isa, beginning } = known;
        (self.position, self.state, self.named_isa) = (position, state, named_isa);
        (self.context_id, self.vmid, self.beginning) = (context_id, vmid, beginning);
        self.look_elsewhere();
    }

    pub fn new(code: C, reading: Reading, options: Options) -> Self {
        let Reading { waypoints, t32_only, each_instruction } = reading;
        let mut blocks = Blocks::new(options.cached_blocks);
        Self {
            code,
            each_instruction,
            policy: Policy { waypoints, t32_only, marks_it: false, limit: options.walk_limit.max(1) },
            code_mode: blocks.mode(AddressSpace::ANY_S, Isa::A32),
            blocks,
            origin: Origin::UNKNOWN,
            position: None,
            state: None,
            context_id: None,
            vmid: None,
            named_isa: Isa::A32,
            space: AddressSpace::ANY_S,
            beginning: Beginning::default(),
            strict: options.strict_image,
            statistics: Statistics::default(),
        }
    }

    pub fn emit(&mut self, at: At, event: Event, sink: &mut impl Sink) {
        self.statistics.count(&event);
        sink.take(at.map(|()| event));
    }

    pub fn mismatch(&mut self, symptom: Symptom, address: Address, at: At, sink: &mut impl Sink) {
        self.emit(at, Event::Mismatch { symptom, address }, sink);
    }

    /// Strict: the code here cannot be what was executed. Nothing is certain until the next address.
    pub fn give_up(&mut self, at: At, sink: &mut impl Sink) {
        self.position = None;
        self.emit(at, Event::NoSync(NoSync::WrongImage), sink);
    }

    /// Something of the trace is here.
    #[inline]
    pub fn begin(&mut self, at: At, sink: &mut impl Sink) {
        if self.beginning.begin() {
            self.emit(Located { length: 0, ..at }, Event::StartOfTrace, sink);
        }
    }

    /// Is the state known, so that execution can be followed?
    #[inline]
    pub fn is_synchronised(&self) -> bool {
        self.state.is_some()
    }

    /// Something came before the first I-sync, or between a bad packet and the next one.
    pub fn skip(&mut self, at: At, elements: u8) {
        self.statistics.skipped += u64::from(elements);
        self.beginning.skip(at);
    }

    /// Bytes that are no packet: nothing is known any more, and identifiers may have been among them.
    pub fn bad(&mut self, at: At, sink: &mut impl Sink) {
        self.lose();
        (self.context_id, self.vmid) = (None, None);
        self.emit(at, Event::NoSync(NoSync::BadPacket), sink);
    }

    pub fn lose(&mut self) {
        self.position = None;
        self.origin = Origin::UNKNOWN;
        self.state = None;
    }

    /// The trace ends.
    pub fn end(&mut self, offset: u64, sink: &mut impl Sink) {
        let at = Located { offset, length: 0, value: () };
        self.begin(at, sink);
        if let Some(skipped) = self.beginning.synchronise() {
            self.emit(skipped, Event::NoSync(NoSync::Initial), sink);
        }
        self.emit(at, Event::EndOfTrace { after_overflow: false }, sink);
        self.reset();
    }

    /// Begins again. Counts, and what is known of the code, stay.
    pub fn reset(&mut self) {
        self.lose();
        (self.context_id, self.vmid) = (None, None);
        self.beginning = Beginning::default();
    }

    /// An I-sync says where execution is. True if that is the first that is known of it; the caller then says that
    /// tracing begins.
    pub fn synchronise(&mut self, sink: &mut impl Sink) -> bool {
        if let Some(skipped) = self.beginning.synchronise() {
            self.emit(skipped, Event::NoSync(NoSync::Initial), sink);
        }
        self.state.is_none()
    }

    pub fn state(&self) -> State {
        self.state.unwrap_or_default()
    }

    pub fn context(&self) -> Context {
        let state = self.state();
        let security = if state.non_secure { Security::NonSecure } else { Security::Secure };
        Context {
            vmid: self.vmid.map(u32::from),
            context_id: self.context_id.map(u64::from),
            ..Context::armv7(security, state.hyp)
        }
    }

    /// The identifiers of what follows. True if they change.
    pub fn identify(&mut self, context_id: Option<u32>, vmid: Option<u8>) -> bool {
        let before = (self.context_id, self.vmid);
        self.context_id = context_id.or(self.context_id);
        self.vmid = vmid.or(self.vmid);
        let changes = (self.context_id, self.vmid) != before;
        if changes {
            self.look_elsewhere();
        }
        changes
    }

    /// The state of what follows. True if it changes.
    pub fn enter(&mut self, state: State) -> bool {
        let visible = |state: State| (state.non_secure, state.hyp);
        let changes = self.state.is_none_or(|before| visible(before) != visible(state));
        self.state = Some(state);
        if changes {
            self.look_elsewhere();
        }
        changes
    }

    /// State and identifiers, with the instruction set of what follows.
    pub fn context_event(&mut self, isa: Isa) -> Event {
        self.named_isa = isa;
        Event::Context(self.context(), isa)
    }

    /// Reports state and identifiers.
    pub fn report_context(&mut self, isa: Isa, at: At, sink: &mut impl Sink) {
        let event = self.context_event(isa);
        self.emit(at, event, sink);
    }

    /// The instruction set of the position, or the last that was named.
    pub fn isa(&self) -> Isa {
        self.position.map_or(self.named_isa, |position| position.isa)
    }

    /// The context may belong to another process now.
    pub fn renew_space(&mut self) {
        if self.code.space_of(&self.context()) != self.space {
            self.look_elsewhere();
        }
    }

    /// What was read of the code.
    pub fn take_cache(&mut self) -> CodeCache {
        let cache = CodeCache::new((self.policy, self.each_instruction), self.blocks.take());
        self.forget_place();
        cache
    }

    /// Goes on with what another follower has read of the code; gives it back if that reads code in another way.
    pub fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.blocks = cache.open(&(self.policy, self.each_instruction))?;
        self.forget_place();
        Ok(())
    }

    /// The space that code is fetched from may have changed.
    fn look_elsewhere(&mut self) {
        self.space = self.code.space_of(&self.context());
        self.forget_place();
    }

    /// Nothing is known any more of where in the blocks execution is.
    fn forget_place(&mut self) {
        self.code_mode = self.blocks.mode(self.space, Isa::A32);
        self.origin = Origin::UNKNOWN;
    }

    pub fn start(&self, position: Position) -> Start {
        let Position { address, isa, it } = position;
        Start { address, space: self.space, isa, it }
    }

    /// The number of the block at a position.
    #[inline]
    pub fn enter_block(&mut self, position: Position) -> u32 {
        let mode = self.code_mode.with(position.isa, position.it);
        let (origin, address) = (self.origin, position.address);
        if self.each_instruction {
            self.blocks.enter(origin, address, mode, &EachInstruction(self.policy), &self.code)
        } else {
            self.blocks.enter(origin, address, mode, &self.policy, &self.code)
        }
    }

    /// Up to four bytes at an address, and how many there are.
    pub fn opcode_at(&self, address: Address) -> ([u8; 4], usize) {
        self.code.opcode_at(self.space, address)
    }

    /// A block by its number.
    #[inline]
    pub fn block(&self, number: u32) -> &Block {
        self.blocks.get(number)
    }

    /// Where a block begins.
    pub fn position_of(&self, number: u32) -> Position {
        let block = self.block(number);
        Position { address: block.range.start, isa: block.range.isa, it: block.it_before() }
    }

    /// Execution went on at an address that cannot be read.
    pub fn unreadable(&mut self, address: Address, at: At, sink: &mut impl Sink) {
        self.position = None;
        let space = self.space;
        self.emit(at, Event::NoMemory { address, space }, sink);
    }

    /// The trace names the position. One that only restates it leaves the IT state alone.
    pub fn go(&mut self, address: Address, isa: Isa) {
        let it = match self.position {
            Some(before) if before.address == address && before.isa == isa => before.it,
            _ => 0,
        };
        self.position = Some(Position { address, isa, it });
    }
}
