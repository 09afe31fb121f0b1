//! Ranges that come again and again, by number.
//!
//! A trace of millions of ranges has a few thousand different ones. Each is looked at once: rows of a batch are numbers of
//! those that occur in it. Paths that a follower remembers are rows of such numbers, which are appended as they are.

use backsight::core::AddressSpace;
use backsight::flow::{PathId, Range};

/// Ranges that are remembered, and ranges of all paths: with more, all is forgotten.
const MOST_BLOCKS: usize = 1 << 18;
const MOST_STEPS: usize = 1 << 21;

/// No batch has this number.
const NEVER: u32 = 0;

/// A range in an address space: what the columns that do not depend on time and place are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub space: AddressSpace,
    pub range: Range,
}

/// A path of which the blocks are known.
#[derive(Clone, Copy)]
struct KnownPath {
    space: AddressSpace,
    /// Its steps: the first, and the one after the last.
    first: u32,
    end: u32,
}

/// Blocks by number, and their numbers in the batch that is put together.
pub(crate) struct Blocks {
    /// By hash: the number of a block and one; 0 where there is none. A power of two.
    slots: Vec<u32>,
    known: Vec<Block>,
    /// The batch that each was last used in, and its code there.
    codes: Vec<(u32, u32)>,
    batch: u32,
    /// The blocks of the batch, by code.
    of_batch: Vec<Block>,
    generation: Option<u64>,
    paths: Vec<Option<KnownPath>>,
    steps: Vec<u32>,
}

impl Default for Blocks {
    fn default() -> Self {
        let (known, codes, of_batch, paths, steps) = Default::default();
        Self { slots: vec![0; 1 << 12], known, codes, batch: 1, of_batch, generation: None, paths, steps }
    }
}

impl Blocks {
    /// The blocks of the batch, by code.
    pub fn of_batch(&self) -> &[Block] {
        &self.of_batch
    }

    /// Another batch begins.
    pub fn begin_batch(&mut self) {
        self.of_batch.clear();
        self.batch = self.batch.wrapping_add(1);
        if self.batch == NEVER {
            self.forget();
            self.batch = 1;
        }
    }

    /// What was named so far may have other names from now on. Codes of the batch stay what they are.
    pub fn forget(&mut self) {
        self.slots.fill(0);
        self.known.clear();
        self.codes.clear();
        self.forget_paths(None);
    }

    fn forget_paths(&mut self, generation: Option<u64>) {
        self.generation = generation;
        self.paths.clear();
        self.steps.clear();
    }

    fn first_slot(&self, block: &Block) -> usize {
        let Range { start, end, .. } = block.range;
        let hash = (start.0 ^ end.0.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 40) as usize & (self.slots.len() - 1)
    }

    /// The number of a block.
    fn number(&mut self, block: Block) -> u32 {
        let mask = self.slots.len() - 1;
        let mut slot = self.first_slot(&block);
        loop {
            match self.slots[slot].checked_sub(1) {
                Some(number) if self.known[number as usize] == block => return number,
                Some(_) => slot = (slot + 1) & mask,
                None => return self.add(block),
            }
        }
    }

    #[cold]
    fn add(&mut self, block: Block) -> u32 {
        if self.known.len() >= MOST_BLOCKS {
            self.forget();
        }
        let number = self.known.len() as u32;
        self.known.push(block);
        self.codes.push((NEVER, 0));
        if self.known.len() * 2 > self.slots.len() {
            self.slots = vec![0; self.slots.len() * 4];
            (0..=number).for_each(|number| self.put(number));
        } else {
            self.put(number);
        }
        number
    }

    fn put(&mut self, number: u32) {
        let mut slot = self.first_slot(&self.known[number as usize]);
        while self.slots[slot] != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = number + 1;
    }

    /// The code of a block in the batch.
    #[inline(always)]
    fn code_of(&mut self, number: u32) -> u32 {
        let (batch, code) = self.codes[number as usize];
        if batch == self.batch { code } else { self.add_to_batch(number) }
    }

    #[inline(never)]
    fn add_to_batch(&mut self, number: u32) -> u32 {
        let code = self.of_batch.len() as u32;
        self.of_batch.push(self.known[number as usize]);
        self.codes[number as usize] = (self.batch, code);
        code
    }

    /// The code of a block that is looked at by itself.
    pub fn code(&mut self, block: Block) -> u32 {
        let number = self.number(block);
        self.code_of(number)
    }

    /// The steps of a path in a space, if they are known.
    #[inline]
    pub fn path(&self, path: PathId, space: AddressSpace) -> Option<(u32, u32)> {
        let known = self.paths.get(path.number as usize)?.as_ref();
        let known = known.filter(|known| self.generation == Some(path.generation) && known.space == space)?;
        Some((known.first, known.end))
    }

    /// Takes note of the steps of a path. Gives them, or nothing if the path cannot be remembered.
    pub fn learn(&mut self, path: PathId, space: AddressSpace, ranges: &[Range]) -> Option<(u32, u32)> {
        let index = path.number as usize;
        if index >= MOST_BLOCKS || ranges.len() > MOST_STEPS {
            return None;
        }
        if self.generation != Some(path.generation) || self.steps.len() + ranges.len() > MOST_STEPS {
            self.forget_paths(Some(path.generation));
        }
        if self.known.len() + ranges.len() > MOST_BLOCKS {
            // Else they could be forgotten one by one, in the middle of the path.
            self.forget();
            self.generation = Some(path.generation);
        }
        let first = self.steps.len() as u32;
        for &range in ranges {
            let number = self.number(Block { space, range });
            self.steps.push(number);
        }
        let known = KnownPath { space, first, end: self.steps.len() as u32 };
        if self.paths.len() <= index {
            self.paths.resize(index + 1, None);
        }
        self.paths[index] = Some(known);
        Some((known.first, known.end))
    }

    /// Appends the codes of the steps of a path.
    #[inline]
    pub fn append(&mut self, (first, end): (u32, u32), out: &mut Vec<u32>) {
        let steps = self.steps.get(first as usize..end as usize).unwrap_or_default();
        let (codes, batch) = (&self.codes, self.batch);
        let before = out.len();
        let mut is_new = false;
        out.extend(steps.iter().map(|&number| {
            let (last, code) = codes[number as usize];
            is_new |= last != batch;
            code
        }));
        if is_new {
            out.truncate(before);
            self.append_new((first, end), out);
        }
    }

    /// The same where some are new to the batch.
    #[inline(never)]
    fn append_new(&mut self, (first, end): (u32, u32), out: &mut Vec<u32>) {
        for step in first..end {
            let number = self.steps[step as usize];
            out.push(self.code_of(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight::core::{Address, Isa};

    fn range(start: u64, executed: bool) -> Range {
        let (start, end) = (Address(start), Address(start + 4));
        let (class, flags) = Default::default();
        Range { start, end, instructions: 1, isa: Isa::A64, class, flags, last_size: 4, executed }
    }

    fn block(start: u64) -> Block {
        Block { space: AddressSpace::ANY, range: range(start, true) }
    }

    /// Whatever is forgotten in between, the codes of a batch say which blocks they are.
    #[test]
    fn codes_of_a_batch_stand_for_what_was_put_in() {
        let mut random = backsight_testing::Random(4);
        let mut blocks = Blocks::default();
        for _ in 0..20 {
            let (mut codes, mut truth) = (Vec::new(), Vec::new());
            let mut generation = 0;
            for _ in 0..2000 {
                match random.below(500) {
                    0 => blocks.forget(),
                    1 => generation += 1,
                    _ => {}
                }
                let space = AddressSpace::ANY.in_process(random.below(2) as u32);
                let number = random.below(300) as u32;
                if number.is_multiple_of(3) {
                    let block = Block { space, range: range(u64::from(number), random.below(2) == 0) };
                    codes.push(blocks.code(block));
                    truth.push(block);
                    continue;
                }
                let ranges: Vec<_> = (0..1 + u64::from(number % 7))
                    .map(|n| range(u64::from(number) * 5 + n + generation, true))
                    .collect();
                let path = PathId { generation, number };
                let steps = blocks.path(path, space).or_else(|| blocks.learn(path, space, &ranges));
                blocks.append(steps.unwrap(), &mut codes);
                truth.extend(ranges.iter().map(|&range| Block { space, range }));
            }
            let found: Vec<_> = codes.iter().map(|&code| blocks.of_batch()[code as usize]).collect();
            assert_eq!(found, truth);
            assert!(blocks.of_batch().len() < truth.len());
            blocks.begin_batch();
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut blocks = Blocks::default();
        for start in 0..2 * MOST_BLOCKS as u64 {
            let code = blocks.code(block(start * 4));
            assert_eq!(blocks.of_batch()[code as usize], block(start * 4));
            if start % 5000 == 0 {
                blocks.begin_batch();
            }
        }
        assert!(blocks.known.len() <= MOST_BLOCKS && blocks.slots.len() <= 8 * MOST_BLOCKS);
    }
}
