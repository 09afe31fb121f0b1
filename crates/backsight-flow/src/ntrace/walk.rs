//! The way through the code that half-words and outcomes describe.

use backsight_core::Address;
use backsight_image::Code;
use backsight_isa::{Class, Flags};
use backsight_riscv::ntrace::{History, Mode};

use super::Follower;
use crate::blocks::{Block, Ending, Origin, Way};
use crate::sink::Sink;
use crate::{Event, NoSync, Range, Symptom};

/// Instructions without a branch that are believed.
const MOST_STRAIGHT: u32 = 1 << 20;

/// Where execution is, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Nowhere: a synchronisation is needed.
    Unknown,
    /// At this address.
    At(Address),
    /// After a jump whose target is not in its opcode.
    AfterJump {
        /// The jump.
        jump: Address,
        /// Where it went to if the trace says nothing: for a return, where its call came from.
        target: Option<Address>,
        /// It is a return.
        is_return: bool,
    },
}

impl Position {
    /// The next instruction.
    pub const fn address(self) -> Option<Address> {
        match self {
            Self::Unknown => None,
            Self::At(address) => Some(address),
            Self::AfterJump { target, .. } => target,
        }
    }
}

/// What a message says about a branch without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undecided {
    /// The outcome may come with a later message.
    Waits,
    /// It was not taken.
    NotTaken,
    /// It was taken if it is the last instruction.
    TakenAtEnd,
    /// If it is the last instruction, it led to this address.
    Named(Address),
}

/// Outcomes of branches, oldest first: a history, so many times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcomes {
    history: History,
    /// Outcomes that are left of the current occurrence.
    left: u32,
    /// Occurrences after it.
    repeats: u32,
}

/// Equal if the same are left.
impl PartialEq for Outcomes {
    fn eq(&self, other: &Self) -> bool {
        let what = |outcomes: &Self| (outcomes.history, outcomes.left, outcomes.repeats);
        self.is_empty() && other.is_empty() || what(self) == what(other)
    }
}

impl Default for Outcomes {
    fn default() -> Self {
        Self { history: History::EMPTY, left: 0, repeats: 0 }
    }
}

impl Outcomes {
    /// The outcomes of a history that occurred so many times in a row.
    pub const fn new(history: History, times: u32) -> Self {
        if history.is_empty() || times == 0 {
            return Self { history: History::EMPTY, left: 0, repeats: 0 };
        }
        Self { history, left: history.len(), repeats: times - 1 }
    }

    /// Are all used?
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The bits of the history, if it occurs once and nothing of it is used.
    #[inline]
    pub fn all(&self) -> Option<u64> {
        (self.repeats == 0 && self.left == self.history.len()).then_some(self.history.0)
    }

    /// The next one.
    #[inline]
    pub fn take(&mut self) -> Option<bool> {
        self.left = self.left.checked_sub(1)?;
        let taken = self.history.0 >> self.left & 1 == 1;
        if self.left == 0 && self.repeats > 0 {
            self.left = self.history.len();
            self.repeats -= 1;
        }
        Some(taken)
    }
}

/// The half-words of a block.
#[inline]
pub(super) fn half_words(block: &Block) -> i64 {
    let Range { start, end, .. } = block.range;
    // No block is so long that addresses of 32 bits would matter.
    i64::from(end.0.wrapping_sub(start.0) as u8 / 2)
}

/// Instructions that were executed one after the other and not yet reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Unreported {
    start: Address,
    instructions: u32,
    last_size: u8,
}

impl Unreported {
    /// Is there nothing?
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.instructions == 0
    }

    /// Adds a whole block.
    #[inline]
    pub fn add_block(&mut self, block: &Block) {
        self.add(block.range.start, block.range.instructions, block.range.last_size);
    }

    /// All of it as a range that ends with a block.
    #[inline]
    pub fn report(&mut self, block: &Block, executed: bool) -> Range {
        let Self { start, instructions, .. } = std::mem::take(self);
        Range { start, instructions, executed, ..block.range }
    }

    #[inline]
    fn add(&mut self, start: Address, instructions: u32, last_size: u8) {
        if self.instructions == 0 {
            self.start = start;
        }
        self.instructions = self.instructions.saturating_add(instructions);
        self.last_size = last_size;
    }
}

impl<C: Code> Follower<C> {
    /// Walks until half-words and outcomes are used up, or to a branch that has to wait for its outcome. False: the sink
    /// has enough.
    #[inline(always)]
    pub(super) fn walk(&mut self, undecided: Undecided, sink: &mut impl Sink) -> bool {
        self.recall(undecided, sink) || self.walk_blocks(undecided, sink)
    }

    /// The same, block by block.
    fn walk_blocks(&mut self, undecided: Undecided, sink: &mut impl Sink) -> bool {
        let mut straight = std::mem::take(&mut self.straight);
        while self.to_go > 0 || !self.outcomes.is_empty() {
            let moved = self.run(undecided, &mut straight, sink);
            if !moved && !self.step(undecided, &mut straight, sink) {
                break;
            }
            if sink.is_full() && (self.to_go > 0 || !self.outcomes.is_empty()) {
                self.straight = straight;
                return false;
            }
        }
        true
    }

    /// Goes from block to block as long as it is plain where execution goes. `straight` counts instructions since the last
    /// branch. False: it went nowhere.
    #[inline]
    fn run(&mut self, undecided: Undecided, straight: &mut u32, sink: &mut impl Sink) -> bool {
        let Some(pc) = self.position.address() else { return false };
        let mut number = self.blocks.enter(self.origin, pc, self.code_mode, &self.reader, &self.code);
        let (mut to_go, mut outcomes, mut unreported) = (self.to_go, self.outcomes, self.unreported);
        let by_branches = self.trace_mode == Some(Mode::Branch);
        let (mut origin, mut moved, at) = (self.origin, false, self.at);
        let (mut instructions, mut ranges, mut taken_branches) = (0, 0, 0);
        let ends_in_jump = loop {
            let block = self.blocks.get(number);
            let half_words = half_words(block);
            let mut elsewhere = None;
            let taken = if block.range.flags.conditional {
                *straight = 0;
                match outcomes.take() {
                    Some(taken) => taken,
                    None if by_branches && to_go >= half_words => {
                        undecided == Undecided::TakenAtEnd && to_go == half_words
                    }
                    None => break false,
                }
            } else {
                *straight += block.range.instructions;
                if *straight > MOST_STRAIGHT || outcomes.is_empty() && to_go < half_words {
                    break false;
                }
                if block.ending == Ending::Call {
                    self.stack.push(block.range.end, block.range.isa);
                } else if !block.way(true).is_known() {
                    let goes_on = to_go > half_words || !outcomes.is_empty();
                    if block.ending != Ending::Return || !goes_on || self.stack.depth() == 0 {
                        break block.way(true) == Way::Indirect;
                    }
                    elsewhere = self.stack.pop().map(|(target, _)| target);
                }
                block.is_branch()
            };
            moved = true;
            to_go -= half_words;
            unreported.add_block(block);
            if block.is_branch() {
                let range = unreported.report(block, taken);
                instructions += u64::from(range.instructions);
                ranges += 1;
                taken_branches += u64::from(taken);
                sink.take(at.map(|()| Event::Range(range)));
            }
            origin = Origin::new(number, taken);
            number = match block.next(taken) {
                Some(next) if elsewhere.is_none() => next,
                _ => {
                    let next = if taken { block.target } else { block.range.end };
                    let next = elsewhere.unwrap_or(next);
                    self.blocks.enter(origin, next, self.code_mode, &self.reader, &self.code)
                }
            };
            if to_go <= 0 && outcomes.is_empty() || sink.is_full() {
                break false;
            }
        };
        self.statistics.instructions += instructions;
        self.statistics.ranges += ranges;
        self.statistics.branches += ranges;
        self.statistics.taken += taken_branches;
        (self.to_go, self.outcomes, self.unreported) = (to_go, outcomes, unreported);
        if ends_in_jump {
            let block = *self.blocks.get(number);
            self.to_go -= half_words(&block);
            self.leave(number, &block, true, sink);
        } else if moved {
            self.origin = origin;
            self.position = Position::At(self.blocks.get(number).range.start);
        }
        moved || ends_in_jump
    }

    /// Executes one block, or as much of it as there are half-words. False: the walk ends here.
    fn step(&mut self, undecided: Undecided, straight: &mut u32, sink: &mut impl Sink) -> bool {
        let Some(pc) = self.next_instruction(sink) else { return false };
        let number = self.blocks.enter(self.origin, pc, self.code_mode, &self.reader, &self.code);
        let block = *self.blocks.get(number);
        let half_words = half_words(&block);
        if block.ending == Ending::NoCode {
            self.no_memory(pc, sink);
            return false;
        }
        if self.outcomes.is_empty() && self.to_go < half_words {
            self.walk_part(number, self.to_go, sink);
            return false;
        }
        let mut taken = true;
        if block.ending == Ending::Branch {
            let outcome = self.outcomes.take().or_else(|| self.decide(&block, half_words, undecided));
            let Some(outcome) = outcome else {
                self.wait_before_branch(number, half_words, undecided, sink);
                return false;
            };
            taken = outcome;
        } else if *straight > MOST_STRAIGHT {
            self.mismatch(Symptom::EndlessRange, sink);
            return false;
        }
        self.to_go -= half_words;
        self.leave(number, &block, taken, sink);
        true
    }

    /// The instruction where the walk goes on; `None` if that is not known.
    #[inline]
    fn next_instruction(&mut self, sink: &mut impl Sink) -> Option<Address> {
        match self.position {
            Position::At(pc) => return Some(pc),
            Position::AfterJump { target: Some(target), .. } => return Some(target),
            Position::AfterJump { is_return, .. } => {
                let symptom = if is_return { Symptom::ReturnStackEmpty } else { Symptom::TargetMissing };
                self.mismatch(symptom, sink);
            }
            Position::Unknown => {
                self.statistics.skipped += 1;
                self.beginning.skip(self.at);
                self.forget_walk();
            }
        }
        None
    }

    /// The last instruction of a block was executed.
    #[inline]
    fn leave(&mut self, number: u32, block: &Block, taken: bool, sink: &mut impl Sink) {
        self.origin = Origin::new(number, taken);
        if block.ending == Ending::Undefined && !self.accept(block, sink) {
            return;
        }
        self.unreported.add_block(block);
        if !matches!(block.ending, Ending::Plain | Ending::Environment) {
            let range = self.unreported.report(block, taken);
            self.emit(Event::Range(range), sink);
        }
        self.position = match block.ending {
            Ending::Branch if taken => Position::At(block.target),
            Ending::Jump => Position::At(block.target),
            Ending::Call => {
                self.stack.push(block.range.end, block.range.isa);
                Position::At(block.target)
            }
            _ if block.range.class == Class::IndirectBranch => self.leave_by_jump(block),
            _ => Position::At(block.range.end),
        };
    }

    /// A block was left by a jump whose target is not in its opcode.
    #[inline]
    pub(super) fn leave_by_jump(&mut self, block: &Block) -> Position {
        let pops = matches!(block.ending, Ending::Return | Ending::Swap);
        let position = self.after_jump(block, pops, block.ending == Ending::Return);
        if matches!(block.ending, Ending::Swap | Ending::IndirectCall) {
            self.stack.push(block.range.end, block.range.isa);
        }
        position
    }

    fn after_jump(&mut self, block: &Block, pops: bool, is_return: bool) -> Position {
        let target = if pops { self.stack.pop().map(|(target, _)| target) } else { None };
        Position::AfterJump { jump: block.last(), target, is_return }
    }

    /// The outcome of a branch that no history has; `None` if it is not known.
    fn decide(&self, block: &Block, half_words: i64, undecided: Undecided) -> Option<bool> {
        let at_end = self.to_go == half_words;
        match (undecided, self.trace_mode) {
            (Undecided::Named(address), mode) if at_end && mode != Some(Mode::Branch) => {
                Some(address == block.target)
            }
            (Undecided::Waits, Some(Mode::History) | None) | (_, Some(Mode::History)) => None,
            (Undecided::TakenAtEnd, _) => Some(at_end),
            _ => Some(false),
        }
    }

    /// Walks up to the branch at the end of a block. Where no later message can have its outcome, code and trace do not
    /// fit.
    fn wait_before_branch(
        &mut self,
        number: u32,
        half_words: i64,
        undecided: Undecided,
        sink: &mut impl Sink,
    ) {
        let size = i64::from(self.blocks.get(number).range.last_size / 2);
        if half_words > size {
            let to_go = self.to_go;
            self.walk_part(number, half_words - size, sink);
            self.to_go = to_go - (half_words - size);
        }
        if undecided != Undecided::Waits {
            self.mismatch(Symptom::CountDiffers, sink);
        }
    }

    /// Walks through the first half-words of a block.
    fn walk_part(&mut self, number: u32, half_words: i64, sink: &mut impl Sink) {
        let (start, map) = (self.blocks.get(number).range.start, self.blocks.map(number));
        let Some((instructions, last_size)) = map.first(half_words as u64) else {
            return self.mismatch(Symptom::CountDiffers, sink);
        };
        self.unreported.add(start, instructions, last_size);
        self.to_go = 0;
        self.origin = Origin::UNKNOWN;
        self.position = Position::At(Address(start.plus(2 * half_words as u64).0 & self.reader.mask));
    }

    /// An instruction was executed that no program means to execute. False: so it is not followed.
    #[cold]
    fn accept(&mut self, block: &Block, sink: &mut impl Sink) -> bool {
        self.report(sink);
        let (symptom, address) = (Symptom::UndefinedInstruction, block.range.start);
        self.emit(Event::Mismatch { symptom, address }, sink);
        if self.options.strict_image {
            self.emit(Event::NoSync(NoSync::WrongImage), sink);
            self.forget();
        }
        !self.options.strict_image
    }

    #[cold]
    fn no_memory(&mut self, address: Address, sink: &mut impl Sink) {
        self.report(sink);
        let space = self.code.space_of(&self.context);
        self.emit(Event::NoMemory { address, space }, sink);
        self.forget_walk();
    }

    /// Code and trace do not fit where the walk is. Nothing is known until the next synchronisation.
    #[cold]
    pub(super) fn mismatch(&mut self, symptom: Symptom, sink: &mut impl Sink) {
        let address = match self.position {
            Position::AfterJump { jump, .. } => jump,
            position => position.address().unwrap_or_default(),
        };
        self.report(sink);
        self.emit(Event::Mismatch { symptom, address }, sink);
        self.forget_walk();
    }

    /// The walk cannot go on; addresses that the trace sends are still understood.
    fn forget_walk(&mut self) {
        self.position = Position::Unknown;
        self.to_go = 0;
        self.outcomes = Outcomes::default();
    }

    /// Reports what was executed since the last report; there is no branch at its end.
    pub(super) fn report(&mut self, sink: &mut impl Sink) {
        let Unreported { start, instructions, last_size } = std::mem::take(&mut self.unreported);
        let Position::At(end) = self.position else { return };
        if instructions == 0 {
            return;
        }
        let isa = self.reader.set.isa();
        let (class, flags) = (Class::default(), Flags::default());
        let range = Range { start, end, instructions, isa, class, flags, last_size, executed: true };
        self.emit(Event::Range(range), sink);
    }
}
