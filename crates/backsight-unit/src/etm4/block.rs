//! Straight-line code in one go.
//!
//! Hardware looks at every instruction; in most code only the last one of a block matters to the trace. What the
//! instructions are is found out once and remembered by the number of the block. Everything that may happen between two
//! of them (filters, events, an instruction set that is not known yet) takes the way of single instructions.

use super::classify::{Classifier, Kind};
use super::port::Output;
use super::position::Target;
use super::unit::{Code, Mode, Unit};
use backsight_core::{Address, Isa, Retired, RetiredBlock, RetiredBlocks};
use backsight_isa::{Class, Instruction, classify_retired};

/// What is known of a block.
#[derive(Clone, Copy)]
pub(super) struct KnownBlock {
    start: Address,
    /// Instructions.
    count: u32,
    /// All instructions before the last are plain, and follow each other.
    is_straight: bool,
    /// How many of these there are up to the last one that is not plain at a quick look.
    looked_at: u32,
    /// What the last instruction is, and whether that shows at a quick look.
    kind: Kind,
    is_quick: bool,
    /// It is straight, and its last instruction a branch that returns from no exception: all that a decoder need learn
    /// is an atom, and where an indirect one went.
    ends_in_branch: bool,
    /// The same, and that branch has one target, in the same instruction set.
    ends_in_direct_branch: bool,
    last: Instruction,
    /// The address after the last instruction, and its instruction set.
    end: Address,
    isa: Isa,
}

impl KnownBlock {
    /// `None`: there is no instruction in it.
    #[cold]
    #[inline(never)]
    fn new(block: &RetiredBlock<'_>, classifier: &mut Classifier) -> Option<Self> {
        let (last, before) = block.code.split_last()?;
        let mut looked_at = 0;
        let mut is_straight = block.code.windows(2).all(|pair| pair[0].end() == pair[1].address);
        for (count, retired) in (1..).zip(before) {
            is_straight &= retired.isa == last.isa;
            if !classifier.is_plain(retired) {
                looked_at = count;
                is_straight &= classifier.kind(retired, &classify_retired(retired)) == Kind::Plain;
            }
        }
        let instruction = classify_retired(last);
        let kind = classifier.kind(last, &instruction);
        let ends_in_branch = is_straight
            && kind == Kind::P0
            && matches!(instruction.class, Class::DirectBranch | Class::IndirectBranch)
            && !instruction.flags.exception_return;
        Some(Self {
            start: block.code[0].address,
            count: block.code.len() as u32,
            is_straight,
            looked_at,
            kind,
            is_quick: classifier.is_plain(last),
            ends_in_branch,
            ends_in_direct_branch: ends_in_branch
                && instruction.class == Class::DirectBranch
                && instruction.target_isa == last.isa,
            last: instruction,
            end: last.end(),
            isa: last.isa,
        })
    }
}

impl Unit {
    /// Execution goes on with this instruction, and nothing is to be said of a block of this length from there but where it
    /// begins and which way it ends: no filter, no event, no count, no timestamp, no new context, no synchronisation.
    #[inline]
    fn writes_only_branches(&self, first: &Retired, length: u64) -> bool {
        self.is_basic
            && self.counted_time() + length < self.clock.due()
            && (self.filter.steady
                || self.position.isa_open && self.filter.mode == Mode::On && self.filter.view.everything())
            && self.output.signals.is_empty()
            && self.position.may_go_on_at(first)
            && matches!(
                self.position.target,
                Target::Known | Target::Indirect { exception_return: false, .. }
            )
            && self.context.is_settled(first.isa)
            && !self.output.needs_sync()
    }

    /// Blocks that retired one after the other.
    pub(super) fn blocks_of_instructions(&mut self, blocks: &RetiredBlocks<'_>, out: &mut impl Output) {
        let mut rest = *blocks;
        loop {
            let taken = self.direct_branches(&rest, out);
            let Some((block, others)) = rest.split_at(taken).1.split_first() else { return };
            self.block_of_instructions(&block, out);
            rest = others;
        }
    }

    /// Takes blocks as long as nothing but an atom has to be written of each: they are known, each begins where the one
    /// before it led, and ends in a direct branch. Gives how many it took.
    #[inline(always)]
    fn direct_branches(&mut self, blocks: &RetiredBlocks<'_>, out: &mut impl Output) -> usize {
        let Some(mut position) = self.position.address else { return 0 };
        let is_plain = self.is_basic
            && self.filter.steady
            && self.output.signals.is_empty()
            && self.position.target == Target::Known
            && self.context.is_settled(self.position.isa);
        if !is_plain {
            return 0;
        }
        let (mut taken, mut instructions) = (0, 0);
        let room = self.clock.due().saturating_sub(self.counted_time());
        for step in blocks.steps {
            let Some(known) = self.code.known.get(blocks.number(step)) else { break };
            let next = if step.taken { known.last.target } else { known.end };
            let follows = known.start == position && known.isa == self.position.isa && next == step.next;
            let is_due = instructions + u64::from(known.count) >= room;
            if !follows || !known.ends_in_direct_branch || is_due || self.output.needs_sync() {
                break;
            }
            if known.last.flags.link && step.taken {
                self.stack.push(known.end, known.isa);
            }
            position = next;
            instructions += u64::from(known.count);
            taken += 1;
            self.output.packer.atom(step.taken, out);
        }
        if taken > 0 {
            self.position.reach(position);
            self.statistics.instructions += instructions;
            self.statistics.traced += self.position.block + instructions;
            self.position.block = 0;
            self.clock.now = self.counted_time();
        }
        taken
    }

    #[inline]
    pub(super) fn block_of_instructions(&mut self, block: &RetiredBlock<'_>, out: &mut impl Output) {
        let Some((mut before, last)) = block.split_last() else { return };
        let Code { known, classifier } = &mut self.code;
        let found = known.get_or_find(block.number, || KnownBlock::new(block, classifier));
        let Some(&known) = found else { return };
        if known.ends_in_branch && self.writes_only_branches(&block.code[0], block.code.len() as u64) {
            let goes_where_it_says =
                known.last.class == Class::IndirectBranch || known.last.target == block.next;
            if !block.taken || goes_where_it_says {
                return self.branch(block, &last, &known.last, out);
            }
        }
        // Where execution arrives, the first instruction may matter by being there.
        if let Some((first, rest)) = before.split_first()
            && !self.goes_on_at(first)
        {
            self.instruction(first, out);
            before = rest;
        }
        let begun = block.code.len() - 1 - before.len();
        if let Some(first) = before.first() {
            if known.is_straight && self.goes_on_at(first) && !self.handler_was_not_seen() {
                if known.looked_at as usize > begun {
                    self.clock.now = self.counted_time() + u64::from(known.looked_at) - begun as u64;
                }
                self.statistics.instructions += before.len() as u64;
                self.position.block += before.len() as u64;
                self.position.address = Some(last.address);
            } else {
                before.iter().for_each(|retired| self.instruction(retired, out));
            }
        }
        self.statistics.instructions += 1;
        if known.is_quick && self.goes_on_at(&last) {
            self.position.block += 1;
            self.position.address = Some(last.end());
        } else {
            self.step(&last, |_, _| (known.kind, known.last), out);
        }
    }

    /// A block that ends in a branch, where nothing but branches is written.
    #[inline]
    fn branch(
        &mut self,
        block: &RetiredBlock<'_>,
        last: &Retired,
        instruction: &Instruction,
        out: &mut impl Output,
    ) {
        self.arrive(last);
        self.settle(out);
        let length = block.code.len() as u64;
        self.statistics.instructions += length;
        self.statistics.traced += self.position.block + length;
        self.position.block = 0;
        self.clock.now = self.counted_time();
        self.output.packer.atom(block.taken, out);
        self.go_on(last, instruction);
        self.look_ahead();
    }
}
