//! The unit itself: follows execution, and decides what a decoder has to be sent.

use super::block::KnownBlocks;
use super::classify::{Classifier, Kind};
use super::controls::Region;
use super::options::{UnitConfig, UnitError};
use super::packer::{Location, Packer};
use super::port::{Output, Packets};
use super::speculation::Speculation;
use super::stack::ReturnStack;
use super::view::View;
use backsight_arm::etm4::Packet;
use backsight_core::{Address, Context, Execution, Isa, Retired, RetiredBlock, RetiredBlocks};
use backsight_isa::{Instruction, classify_retired};

/// A trace unit.
pub struct Unit {
    pub(super) options: UnitConfig,
    pub(super) view: View,
    pub(super) broadcast: Option<Region>,
    pub(super) q_region: Option<Region>,
    pub(super) classifier: Classifier,
    pub(super) known: KnownBlocks,
    pub(super) stack: ReturnStack,
    pub(super) packer: Packer,
    pub(super) speculation: Option<Speculation>,
    pub(super) statistics: Statistics,

    pub(super) mode: Mode,
    /// Nothing but the opcode of an instruction decides whether it matters.
    pub(super) steady: bool,
    /// Where execution is, if it is known.
    pub(super) position: Option<Address>,
    /// The instruction set there; after an indirect branch the next instruction tells.
    pub(super) isa: Isa,
    pub(super) isa_open: bool,
    /// Instructions since the last P0 element, and where it went.
    pub(super) block: u64,
    pub(super) origin: Address,
    /// What has to be said before the next P0 element.
    pub(super) target: Target,
    pub(super) q: Option<Absorbed>,

    pub(super) context: Context,
    /// What a decoder knows of the context; `None`: nothing.
    pub(super) sent_context: Option<backsight_arm::etm4::Context>,
    /// It may know less than there is.
    pub(super) context_changed: bool,
    pub(super) in_transaction: bool,

    pub(super) clock: Clock,
    pub(super) sync_period: u64,
    /// There is more to do after a P0 element than to look whether to synchronise.
    pub(super) busy: bool,
    /// Nothing but timestamps makes it so, and P0 elements are atoms that are written as they come.
    pub(super) is_basic: bool,
    /// Events that are to be written with the next instruction.
    pub(super) signals: Vec<u8>,
}

/// Whether instructions are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// No: filtered out, or nothing happened yet.
    Off,
    /// Yes.
    On,
    /// Filtered out, but the block that began while tracing was on is traced to its end.
    Trailing,
    /// No: the buffer is full.
    Lost,
}

/// Where the last P0 element went, as far as a decoder cannot know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A decoder knows.
    Known,
    /// Tracing begins here.
    Restart(Location),
    /// An indirect branch; `stack`: the return stack may know.
    Indirect { place: Location, stack: bool, exception_return: bool },
    /// A direct branch that is broadcast.
    Broadcast(Location),
    /// The handler of an exception.
    Handler(Location),
}

/// Instructions that a Q element will stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absorbed {
    pub count: u64,
    pub next: Location,
}

/// Time, and what was last said about it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// Cycle of the last P0 instruction; instructions where no cycles are known.
    pub now: u64,
    /// What is added to the number of instructions where no cycles are known, see [`Unit::set_time`].
    pub offset: u64,
    /// Cycle of the last count; `None`: not since a discontinuity.
    pub counted: Option<u64>,
    pub timestamp_due: u64,
    pub event_due: u64,
}

/// What became of the instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// All that retired.
    pub instructions: u64,
    /// Those that a decoder learns of.
    pub traced: u64,
    /// Those of them that it learns the number of only (Q elements).
    pub counted: u64,
    /// Those that filters left out.
    pub filtered: u64,
    /// Those lost to a full buffer.
    pub lost: u64,
    /// Those that no packet can tell: after the last P0 element, where execution broke off.
    pub untold: u64,
    /// How often the buffer was full.
    pub overflows: u64,
    /// How often decoders can begin.
    pub synchronisations: u64,
}

impl Unit {
    /// A unit that is switched on and has seen nothing yet.
    ///
    /// # Errors
    /// If something is switched on that the unit does not have.
    pub fn new(options: UnitConfig) -> Result<Self, UnitError> {
        options.check()?;
        let config = &options.config;
        let controls = &options.controls;
        let mut packer = Packer::new(config);
        if let Some(fifo) = options.fifo {
            packer.port.limit(fifo);
        }
        let q = config.registers.configr >> 13 & 3 != 0;
        let counts = config.cycle_counting() || options.events.is_some() || options.fifo.is_some();
        let busy = counts || config.timestamps();
        let is_special = config.branch_broadcast()
            || q
            || options.front_end.is_some()
            || options.source_addresses.is_some();
        let mut unit = Self {
            view: View::new(controls),
            broadcast: config.branch_broadcast().then(|| Region::new(controls, controls.bbctlr)),
            q_region: q.then(|| Region::new(controls, controls.qctlr)),
            classifier: Classifier::new(config),
            known: KnownBlocks::default(),
            stack: ReturnStack::new(if config.return_stack() { options.return_stack_depth } else { 0 }),
            packer,
            speculation: options.front_end.map(Speculation::new),
            statistics: Statistics::default(),
            mode: Mode::Off,
            steady: false,
            position: None,
            isa: Isa::A64,
            isa_open: true,
            block: 0,
            origin: Address(0),
            target: Target::Known,
            q: None,
            context: options.context,
            sent_context: None,
            context_changed: true,
            in_transaction: false,
            clock: Clock::default(),
            sync_period: controls.sync_period(),
            busy,
            is_basic: !counts && !is_special,
            signals: Vec::new(),
            options,
        };
        unit.view.context(&unit.context);
        Ok(unit)
    }

    /// What became of the instructions so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// One step of execution; bytes of trace go to the end of `out`.
    #[inline]
    pub fn push(&mut self, item: Execution, out: &mut Vec<u8>) {
        self.item(&item, out);
    }

    /// Many steps of execution.
    pub fn push_all(&mut self, items: &[Execution], out: &mut Vec<u8>) {
        for item in items {
            self.item(item, out);
        }
    }

    /// Straight-line code that retired: the same as its instructions one by one, at less cost.
    #[inline]
    pub fn push_block(&mut self, block: &RetiredBlock<'_>, out: &mut Vec<u8>) {
        self.block_of_instructions(block, out);
    }

    /// Blocks that retired one after the other.
    pub fn push_blocks(&mut self, blocks: &RetiredBlocks<'_>, out: &mut Vec<u8>) {
        self.blocks_of_instructions(blocks, out);
    }

    /// One step of execution, with packets instead of bytes.
    pub fn push_packets(&mut self, item: Execution, sink: &mut impl FnMut(Packet)) {
        self.item(&item, &mut Packets(sink));
    }

    /// Execution ends here: writes what is still to say.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.end(out);
    }

    /// Execution ends here, with packets instead of bytes.
    pub fn finish_packets(&mut self, sink: &mut impl FnMut(Packet)) {
        self.end(&mut Packets(sink));
    }

    /// Events of the unit's resources happened: bit i for event i, bits 3:0.
    pub fn event(&mut self, events: u8, out: &mut Vec<u8>) {
        if self.tracing() && events & 0xF != 0 {
            self.packer.put(Packet::Event(events & 0xF), out);
        }
    }

    /// Events reach the unit while the next instruction executes: bit i for event i, bits 3:0. They are written before
    /// the element that ends its block. What is not traced has none.
    pub fn signal(&mut self, events: u8) {
        if events & 0xF != 0 {
            self.signals.push(events & 0xF);
            self.steady = false;
        }
    }

    /// A timestamp is wanted here and now, as an event of the unit's resources asks for one (TRCTSCTLR). Before the first
    /// synchronisation there is none.
    pub fn request_timestamp(&mut self, time: u64, out: &mut Vec<u8>) {
        if self.options.config.timestamps() && self.sent_context.is_some() && self.mode != Mode::Lost {
            self.clock.now = self.clock.now.max(time);
            self.release_q(out);
            self.timestamp(time, out);
        }
    }

    /// Instructions without a cycle take one each from now on, the next one this cycle. Without it, their number counts.
    pub fn set_time(&mut self, time: u64) {
        self.clock.offset = time.wrapping_sub(self.statistics.instructions + 1);
    }

    /// The time where no cycles are known.
    #[inline(always)]
    pub(super) fn counted_time(&self) -> u64 {
        self.clock.offset.wrapping_add(self.statistics.instructions)
    }

    /// ETE 1.3: the program wrote a value for the trace. Other units have no packet for it.
    pub fn instrumentation(&mut self, value: u64, out: &mut Vec<u8>) {
        let level = self.context.level() & 3;
        if self.tracing() && self.options.config.version().0 >= 0x53 {
            self.packer.put(Packet::Instrumentation { level, value }, out);
        }
    }

    /// Has tracing begun, and is nothing keeping it off? Packets between elements are only written then.
    fn tracing(&self) -> bool {
        matches!(self.mode, Mode::On | Mode::Trailing) && self.sent_context.is_some()
    }

    #[inline]
    fn item(&mut self, item: &Execution, out: &mut impl Output) {
        match item {
            Execution::Instruction(retired) => self.instruction(retired, out),
            Execution::Trap(trap) => self.trap(trap, out),
            Execution::Context(context) => {
                self.context = Context { wide: self.context.wide, ..*context };
                self.context_changed = true;
                self.view.context(context);
            }
            Execution::Gap => self.lose_sight(out),
            // Data is not traced; one unit watches one thread.
            Execution::Access(_) | Execution::Input(_) | Execution::Thread(_) => {}
        }
    }

    #[inline]
    pub(super) fn instruction(&mut self, retired: &Retired, out: &mut impl Output) {
        self.statistics.instructions += 1;
        if self.goes_on_at(retired) && self.classifier.is_plain(retired) {
            self.block += 1;
            self.position = Some(retired.end());
            return;
        }
        self.step(retired, Self::classify, out);
    }

    /// Does nothing but the opcode of this instruction decide whether it matters?
    #[inline]
    pub(super) fn goes_on_at(&self, retired: &Retired) -> bool {
        self.steady && self.position == Some(retired.address) && self.isa == retired.isa
    }

    fn classify(&mut self, retired: &Retired) -> (Kind, Instruction) {
        let instruction = classify_retired(retired);
        (self.classifier.kind(retired, &instruction), instruction)
    }

    /// An instruction that may matter. If it is traced, `classify` is asked what it is.
    #[inline]
    pub(super) fn step(
        &mut self,
        retired: &Retired,
        classify: impl FnOnce(&mut Self, &Retired) -> (Kind, Instruction),
        out: &mut impl Output,
    ) {
        self.clock.now = if retired.cycle != 0 { retired.cycle } else { self.counted_time() };
        let follows = self.position == Some(retired.address) && (self.isa_open || self.isa == retired.isa);
        if !follows || self.handler_was_not_seen() {
            self.lose_sight(out);
        }
        self.arrive(retired);
        self.filter(retired, out);
        if self.untraced(retired) {
            return;
        }
        self.block += 1;
        if !self.signals.is_empty() {
            self.write_signals(out);
        }
        let (kind, instruction) = classify(self, retired);
        match kind {
            Kind::Plain => self.position = Some(retired.end()),
            Kind::P0 => self.p0(retired, &instruction, out),
            Kind::TransactionCommit => self.transaction_commit(retired, out),
        }
        self.look_ahead();
    }

    /// A decoder needs to know where execution is to say what the events belong to.
    #[cold]
    fn write_signals(&mut self, out: &mut impl Output) {
        self.settle(out);
        for events in std::mem::take(&mut self.signals) {
            self.packer.put(Packet::Event(events), out);
        }
    }

    /// Only now the instruction set at the target of an indirect branch is known.
    pub(super) fn arrive(&mut self, retired: &Retired) {
        if self.isa_open {
            if let Target::Indirect { place, .. } | Target::Handler(place) = &mut self.target {
                place.isa = retired.isa;
            }
            if let Some(q) = &mut self.q {
                q.next.isa = retired.isa;
            }
        }
        self.position = Some(retired.address);
        self.isa = retired.isa;
        self.isa_open = false;
        let wide = retired.isa == Isa::A64;
        self.context_changed |= self.context.wide != wide;
        self.context.wide = wide;
    }

    /// While nothing is traced, only the place is followed.
    fn untraced(&mut self, retired: &Retired) -> bool {
        let count = match self.mode {
            Mode::Off => &mut self.statistics.filtered,
            Mode::Lost => &mut self.statistics.lost,
            Mode::On | Mode::Trailing => return false,
        };
        *count += 1;
        self.signals.clear();
        self.position = Some(retired.next);
        self.isa_open = true;
        self.steady = false;
        true
    }

    #[inline]
    pub(super) fn look_ahead(&mut self) {
        self.steady = self.mode == Mode::On && self.view.everything() && !self.isa_open;
    }

    /// Turns tracing on and off as the filters say.
    fn filter(&mut self, retired: &Retired, out: &mut impl Output) {
        let visible = self.view.sees(retired.address.0);
        let here = Location { address: retired.address, isa: retired.isa };
        match (self.mode, visible) {
            (Mode::On, false) if self.block == 0 => self.leave(out),
            (Mode::On, false) => self.mode = Mode::Trailing,
            (Mode::Trailing, true) => self.mode = Mode::On,
            (Mode::Off, true) => self.restart(here),
            (Mode::Lost, _) if self.packer.port.recovered(self.clock.now) => {
                self.recover(out);
                if visible {
                    self.restart(here);
                }
            }
            _ => {}
        }
    }

    fn restart(&mut self, here: Location) {
        self.mode = Mode::On;
        self.target = Target::Restart(here);
        self.block = 0;
    }
}
