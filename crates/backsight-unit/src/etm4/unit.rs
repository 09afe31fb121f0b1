//! The unit itself: follows execution, and decides what a decoder has to be sent.

use super::block::KnownBlock;
use super::classify::{Classifier, Kind};
use super::clock::Clock;
use super::context::KnownContext;
use super::controls::Region;
use super::options::{UnitConfig, UnitError};
use super::packer::{Location, Packer};
use super::port::{Output, Packets};
use super::position::{Position, Target};
use super::speculation::Speculation;
use super::stack::ReturnStack;
use super::view::View;
use backsight_arm::etm4::Packet;
use backsight_core::{Execution, Retired, RetiredBlock, RetiredBlocks};
use backsight_isa::{Instruction, classify_retired};
use backsight_riscv::ByNumber;

/// A trace unit.
pub struct Unit {
    pub(super) options: UnitConfig,
    pub(super) filter: Filter,
    pub(super) code: Code,
    pub(super) stack: ReturnStack,
    pub(super) position: Position,
    pub(super) context: KnownContext,
    pub(super) clock: Clock,
    pub(super) output: Elements,
    pub(super) statistics: Statistics,
    /// Nothing but timestamps is written between P0 elements, and those are atoms that are written as they come.
    pub(super) is_basic: bool,
}

/// Which instructions are traced.
pub(super) struct Filter {
    pub view: View,
    pub broadcast: Option<Region>,
    pub q_region: Option<Region>,
    pub mode: Mode,
    /// Nothing but the opcode of an instruction decides whether it matters.
    pub steady: bool,
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

/// What the instructions are.
pub(super) struct Code {
    pub classifier: Classifier,
    /// Blocks by number.
    pub known: ByNumber<KnownBlock>,
}

/// What is written, and how often a decoder can begin.
pub(super) struct Elements {
    pub packer: Packer,
    pub speculation: Option<Speculation>,
    pub sync_period: u64,
    /// Events that are to be written with the next instruction.
    pub signals: Vec<u8>,
}

impl Elements {
    /// Has so much been written since the last synchronisation that it is time for the next?
    #[inline(always)]
    pub fn needs_sync(&self) -> bool {
        self.packer.port.since_sync() >= self.sync_period
    }

    /// A packet that is no P0 element.
    pub fn put(&mut self, packet: Packet, out: &mut impl Output) {
        self.packer.put(packet, out);
    }

    /// All elements are written, and final.
    pub fn commit_all(&mut self, out: &mut impl Output) {
        self.packer.flush(out);
        self.packer.commit(self.packer.depth(), out);
    }
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
        let is_special = config.branch_broadcast()
            || q
            || options.front_end.is_some()
            || options.source_addresses.is_some();
        let mut unit = Self {
            filter: Filter {
                view: View::new(controls),
                broadcast: config.branch_broadcast().then(|| Region::new(controls, controls.bbctlr)),
                q_region: q.then(|| Region::new(controls, controls.qctlr)),
                mode: Mode::Off,
                steady: false,
            },
            code: Code { classifier: Classifier::new(config), known: ByNumber::default() },
            stack: ReturnStack::new(if config.return_stack() { options.return_stack_depth } else { 0 }),
            position: Position::default(),
            context: KnownContext::new(options.context),
            clock: Clock::new(counts || config.timestamps()),
            output: Elements {
                packer,
                speculation: options.front_end.map(Speculation::new),
                sync_period: controls.sync_period(),
                signals: Vec::new(),
            },
            statistics: Statistics::default(),
            is_basic: !counts && !is_special,
            options,
        };
        unit.filter.view.context(&unit.context.now);
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
            self.output.put(Packet::Event(events & 0xF), out);
        }
    }

    /// Events reach the unit while the next instruction executes: bit i for event i, bits 3:0. They are written before
    /// the element that ends its block. What is not traced has none.
    pub fn signal(&mut self, events: u8) {
        if events & 0xF != 0 {
            self.output.signals.push(events & 0xF);
            self.filter.steady = false;
        }
    }

    /// A timestamp is wanted here and now, as an event of the unit's resources asks for one (TRCTSCTLR). Before the first
    /// synchronisation there is none.
    pub fn request_timestamp(&mut self, time: u64, out: &mut Vec<u8>) {
        if self.options.config.timestamps() && self.context.sent.is_some() && self.filter.mode != Mode::Lost {
            self.clock.now = self.clock.now.max(time);
            self.release_q(out);
            self.timestamp(time, out);
        }
    }

    /// Instructions without a cycle take one each from now on, the next one this cycle. Without it, their number counts.
    pub fn set_time(&mut self, time: u64) {
        self.clock.set(time, self.statistics.instructions);
    }

    /// The time where no cycles are known.
    #[inline(always)]
    pub(super) fn counted_time(&self) -> u64 {
        self.clock.after(self.statistics.instructions)
    }

    /// ETE 1.3: the program wrote a value for the trace. Other units have no packet for it.
    pub fn instrumentation(&mut self, value: u64, out: &mut Vec<u8>) {
        let level = self.context.now.level() & 3;
        if self.tracing() && self.options.config.version().0 >= 0x53 {
            self.output.put(Packet::Instrumentation { level, value }, out);
        }
    }

    /// Has tracing begun, and is nothing keeping it off? Packets between elements are only written then.
    fn tracing(&self) -> bool {
        matches!(self.filter.mode, Mode::On | Mode::Trailing) && self.context.sent.is_some()
    }

    #[inline]
    fn item(&mut self, item: &Execution, out: &mut impl Output) {
        match item {
            Execution::Instruction(retired) => self.instruction(retired, out),
            Execution::Trap(trap) => self.trap(trap, out),
            Execution::Context(context) => {
                self.context.change(context);
                self.filter.view.context(context);
            }
            Execution::Gap => self.lose_sight(out),
            // Data is not traced; one unit watches one thread.
            Execution::Access(_) | Execution::Input(_) | Execution::Thread(_) => {}
        }
    }

    #[inline]
    pub(super) fn instruction(&mut self, retired: &Retired, out: &mut impl Output) {
        self.statistics.instructions += 1;
        if self.goes_on_at(retired) && self.code.classifier.is_plain(retired) {
            self.position.block += 1;
            self.position.address = Some(retired.end());
            return;
        }
        self.step(retired, Self::classify, out);
    }

    /// Does nothing but the opcode of this instruction decide whether it matters?
    #[inline]
    pub(super) fn goes_on_at(&self, retired: &Retired) -> bool {
        self.filter.steady && self.position.goes_on_at(retired)
    }

    fn classify(&mut self, retired: &Retired) -> (Kind, Instruction) {
        let instruction = classify_retired(retired);
        (self.code.classifier.kind(retired, &instruction), instruction)
    }

    /// An instruction that may matter. If it is traced, `classify` is asked what it is.
    #[inline]
    pub(super) fn step(
        &mut self,
        retired: &Retired,
        classify: impl FnOnce(&mut Self, &Retired) -> (Kind, Instruction),
        out: &mut impl Output,
    ) {
        self.clock.advance(retired.cycle, self.statistics.instructions);
        if !self.position.may_go_on_at(retired) || self.handler_was_not_seen() {
            self.lose_sight(out);
        }
        self.arrive(retired);
        self.filter(retired, out);
        if self.untraced(retired) {
            return;
        }
        self.position.block += 1;
        if !self.output.signals.is_empty() {
            self.write_signals(out);
        }
        let (kind, instruction) = classify(self, retired);
        match kind {
            Kind::Plain => self.position.address = Some(retired.end()),
            Kind::P0 => self.p0(retired, &instruction, out),
            Kind::TransactionCommit => self.transaction_commit(retired, out),
        }
        self.look_ahead();
    }

    /// A decoder needs to know where execution is to say what the events belong to.
    #[cold]
    fn write_signals(&mut self, out: &mut impl Output) {
        self.settle(out);
        for events in std::mem::take(&mut self.output.signals) {
            self.output.put(Packet::Event(events), out);
        }
    }

    /// Execution is at this instruction.
    pub(super) fn arrive(&mut self, retired: &Retired) {
        self.position.arrive(retired);
        self.context.arrive(retired.isa);
    }

    /// While nothing is traced, only the place is followed.
    fn untraced(&mut self, retired: &Retired) -> bool {
        let count = match self.filter.mode {
            Mode::Off => &mut self.statistics.filtered,
            Mode::Lost => &mut self.statistics.lost,
            Mode::On | Mode::Trailing => return false,
        };
        *count += 1;
        self.output.signals.clear();
        self.position.address = Some(retired.next);
        self.position.isa_open = true;
        self.filter.steady = false;
        true
    }

    #[inline]
    pub(super) fn look_ahead(&mut self) {
        self.filter.steady =
            self.filter.mode == Mode::On && self.filter.view.everything() && !self.position.isa_open;
    }

    /// Turns tracing on and off as the filters say.
    fn filter(&mut self, retired: &Retired, out: &mut impl Output) {
        let visible = self.filter.view.sees(retired.address.0);
        let here = Location { address: retired.address, isa: retired.isa };
        match (self.filter.mode, visible) {
            (Mode::On, false) if self.position.block == 0 => self.leave(out),
            (Mode::On, false) => self.filter.mode = Mode::Trailing,
            (Mode::Trailing, true) => self.filter.mode = Mode::On,
            (Mode::Off, true) => self.restart(here),
            (Mode::Lost, _) if self.output.packer.port.recovered(self.clock.now) => {
                self.recover(out);
                if visible {
                    self.restart(here);
                }
            }
            _ => {}
        }
    }

    fn restart(&mut self, here: Location) {
        self.filter.mode = Mode::On;
        self.position.target = Target::Restart(here);
        self.position.block = 0;
    }
}
