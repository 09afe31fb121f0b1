//! Straight-line code that retired in one go.
//!
//! Sources that execute code block by block know most of it in advance: only where the last instruction leads is new
//! each time. A consumer of blocks looks at their instructions once, and remembers by number what came of it.

use crate::{Address, Execution, Retired};

/// Straight-line code that retired: each instruction is followed by the one after it in memory, and the last one by
/// whatever it led to. No trap, access or change of context lies between them, and their cycles are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetiredBlock<'a> {
    /// Number of the code: blocks of the same number from the same source have the same code.
    pub number: u64,
    /// The instructions, at least one: taken, in cycle 0, each with the one after it as `next`. Where the last one led is
    /// not said here.
    pub code: &'a [Retired],
    /// Where the last instruction led.
    pub next: Address,
    /// Was the last instruction taken?
    pub taken: bool,
}

impl<'a> RetiredBlock<'a> {
    /// The instructions before the last, and the last one; `None` if there is none at all.
    #[inline]
    pub fn split_last(&self) -> Option<(&'a [Retired], Retired)> {
        let (last, before) = self.code.split_last()?;
        Some((before, Retired { next: self.next, taken: self.taken, ..*last }))
    }

    /// All instructions as they retired.
    pub fn instructions(&self) -> impl Iterator<Item = Retired> + use<'a> {
        let (before, last) = self.split_last().map_or((&[][..], None), |(before, last)| (before, Some(last)));
        before.iter().copied().chain(last)
    }
}

/// The code of a block, for every time that it retires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCode {
    /// The first of its instructions: an index into [`RetiredBlocks::instructions`].
    pub first: u32,
    /// How many there are: at least one.
    pub count: u32,
}

/// One of several blocks that retired one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockStep {
    /// Where the last instruction led.
    pub next: Address,
    /// Its code: an index into [`RetiredBlocks::codes`].
    pub code: u32,
    /// Was the last instruction taken?
    pub taken: bool,
}

/// Blocks that retired one after the other, with nothing between them. Those who take many at once lose no time with the
/// way from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetiredBlocks<'a> {
    /// The blocks.
    pub steps: &'a [BlockStep],
    /// The code that the source knows, some of which the steps name.
    pub codes: &'a [BlockCode],
    /// The number of the first code; those of the others follow.
    pub first_number: u64,
    /// The instructions of all code, as in [`RetiredBlock::code`].
    pub instructions: &'a [Retired],
}

impl<'a> RetiredBlocks<'a> {
    /// The number of the code of one of the steps.
    #[inline(always)]
    pub fn number(&self, step: &BlockStep) -> u64 {
        self.first_number.wrapping_add(step.code.into())
    }

    /// Each block.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = RetiredBlock<'a>> + use<'a> {
        let blocks = *self;
        self.steps.iter().map(move |step| {
            let BlockCode { first, count } = blocks.codes[step.code as usize];
            let code = &blocks.instructions[first as usize..][..count as usize];
            RetiredBlock { number: blocks.number(step), code, next: step.next, taken: step.taken }
        })
    }

    /// Gives a single block to `act`.
    #[inline]
    pub fn of_one<R>(block: &RetiredBlock<'_>, act: impl FnOnce(&RetiredBlocks<'_>) -> R) -> R {
        let codes = [BlockCode { first: 0, count: block.code.len() as u32 }];
        let steps = [BlockStep { next: block.next, code: 0, taken: block.taken }];
        act(&RetiredBlocks {
            steps: &steps,
            codes: &codes,
            first_number: block.number,
            instructions: block.code,
        })
    }

    /// Instructions of all of them.
    pub fn count(&self) -> u64 {
        self.steps.iter().map(|step| u64::from(self.codes[step.code as usize].count)).sum()
    }

    /// The first block, and the others; `None` if there is none.
    #[inline(always)]
    pub fn split_first(&self) -> Option<(RetiredBlock<'a>, Self)> {
        let (_, others) = self.steps.split_first()?;
        self.iter().next().map(|block| (block, Self { steps: others, ..*self }))
    }

    /// The first so many blocks, and the others.
    pub fn split_at(&self, count: usize) -> (Self, Self) {
        let (first, rest) = self.steps.split_at(count.min(self.steps.len()));
        (Self { steps: first, ..*self }, Self { steps: rest, ..*self })
    }
}

/// Takes what a processor did, in order.
pub trait ExecutionSink {
    /// One item.
    fn item(&mut self, item: Execution);

    /// Straight-line code: the same as its instructions one by one.
    #[inline(always)]
    fn block(&mut self, block: &RetiredBlock<'_>) {
        let Some((before, last)) = block.split_last() else { return };
        for retired in before {
            self.item(Execution::Instruction(*retired));
        }
        self.item(Execution::Instruction(last));
    }
}

/// Items one by one, for a closure.
#[derive(Debug)]
pub struct EachItem<'a, F: ?Sized>(pub &'a mut F);

impl<F: FnMut(Execution) + ?Sized> ExecutionSink for EachItem<'_, F> {
    #[inline(always)]
    fn item(&mut self, item: Execution) {
        (self.0)(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    fn retired(address: u64) -> Retired {
        Retired {
            address: Address(address),
            next: Address(address + 4),
            cycle: 0,
            opcode: 0,
            size: 4,
            isa: Isa::A64,
            taken: true,
        }
    }

    #[test]
    fn only_the_last_instruction_of_a_block_leads_elsewhere() {
        let code = [0x1000, 0x1004].map(retired);
        let block = RetiredBlock { number: 0, code: &code, next: Address(0x2000), taken: false };
        let led = block.instructions().map(|retired| (retired.next.0, retired.taken));
        assert!(led.eq([(0x1004, true), (0x2000, false)]));
        assert_eq!(RetiredBlock { code: &[], ..block }.instructions().count(), 0);
    }

    #[test]
    fn many_blocks_are_the_same_as_each_of_them() {
        let instructions = [0x1000, 0x1004, 0x2000].map(retired);
        let codes = [BlockCode { first: 0, count: 2 }, BlockCode { first: 2, count: 1 }];
        let step = |code, next, taken| BlockStep { next: Address(next), code, taken };
        let steps = [step(0, 0x2000, true), step(1, 0x1000, true), step(0, 0x1008, false)];
        let blocks =
            RetiredBlocks { steps: &steps, codes: &codes, first_number: 7, instructions: &instructions };
        assert_eq!(blocks.count(), 5);
        assert!(blocks.iter().map(|block| block.number).eq([7, 8, 7]));
        let led = blocks.iter().flat_map(|block| block.instructions()).map(|retired| retired.next.0);
        assert!(led.eq([0x1004, 0x2000, 0x1000, 0x1004, 0x1008]));
        let (first, rest) = blocks.split_at(1);
        assert!(first.iter().chain(rest.iter()).eq(blocks.iter()));
        assert_eq!(blocks.split_at(9).1.steps, []);
        assert_eq!(blocks.split_first(), blocks.iter().next().map(|first| (first, rest)));
        assert_eq!(blocks.split_at(3).1.split_first(), None);
        for block in blocks.iter() {
            assert!(RetiredBlocks::of_one(&block, |one| one.iter().eq([block])));
        }
    }
}
