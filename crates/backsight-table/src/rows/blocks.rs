//! Ranges that come again and again, by number.
//!
//! A trace of millions of ranges has a few thousand different ones. Each is looked at once and keeps its number: a row is a
//! number, and the paths that a follower remembers are rows of numbers, which are appended as they are.

use backsight::core::AddressSpace;
use backsight::flow::{ByPath, PathId, Range, RangeNumbers};

/// Ranges that are remembered, if nothing else is said, and ranges of all paths: with more, all is forgotten.
pub(crate) const MOST_BLOCKS: usize = 1 << 18;
const MOST_STEPS: usize = 1 << 21;

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
    /// By how much the offset of its last step is larger than that of its first.
    together: u32,
}

/// How far the rows of a path are from one another in the trace, which is always the same.
#[derive(Clone, Copy)]
pub(crate) struct Distances<'b> {
    /// By how much the offset of each is larger than that of the one before it; 0 of the first.
    pub steps: &'b [u8],
    /// All of that.
    pub together: u64,
}

impl Distances<'_> {
    /// Of one row.
    pub const NONE: Self = Self { steps: &[0], together: 0 };
}

/// Blocks by number.
pub(crate) struct Blocks {
    /// How many are remembered.
    most: usize,
    numbers: RangeNumbers,
    known: Vec<Block>,
    paths: ByPath<KnownPath>,
    /// The numbers of the blocks of all paths.
    steps: Vec<u32>,
    /// How far each of these is after the one before it.
    distances: Vec<u8>,
}

impl Blocks {
    /// Remembers at most so many.
    pub fn new(most: usize) -> Self {
        let (numbers, known, paths, steps, distances) = Default::default();
        Self { most, numbers, known, paths, steps, distances }
    }

    /// The blocks, by number.
    pub fn known(&self) -> &[Block] {
        &self.known
    }

    /// Can so many more be remembered? If not, [`Blocks::forget`], once nobody needs the numbers.
    #[inline]
    pub fn has_room_for(&self, more: usize) -> bool {
        self.known.len() + more <= self.most
    }

    /// Numbers begin again.
    pub fn forget(&mut self) {
        self.numbers.clear();
        self.known.clear();
        self.forget_paths();
    }

    fn forget_paths(&mut self) {
        self.paths.clear();
        self.steps.clear();
        self.distances.clear();
    }

    /// The number of a block, for which there has to be room.
    pub fn number(&mut self, block: Block) -> u32 {
        let Self { numbers, known, .. } = self;
        let Block { range, space } = &block;
        let is_it = |number: u32| known[number as usize] == block;
        if let Some(number) = numbers.find(range, *space, is_it) {
            return number;
        }
        let number = known.len() as u32;
        numbers.insert(range, *space, number);
        known.push(block);
        number
    }

    /// The numbers of the blocks of a path in a space, if they are known, and how far they are from one another.
    #[inline(always)]
    pub fn path(&self, path: PathId, space: AddressSpace) -> Option<(&[u32], Distances<'_>)> {
        let known = self.paths.get(path).filter(|known| known.space == space)?;
        let steps = known.first as usize..known.end as usize;
        let distances =
            Distances { steps: self.distances.get(steps.clone())?, together: known.together.into() };
        Some((self.steps.get(steps)?, distances))
    }

    /// Takes note of the blocks of a path, for which there has to be room, and of how far each is after the one before it.
    pub fn learn(&mut self, path: PathId, space: AddressSpace, ranges: &[Range], distances: &[u8]) {
        debug_assert_eq!(ranges.len(), distances.len());
        if !self.paths.begin(path) || self.steps.len() + ranges.len() > MOST_STEPS {
            self.forget_paths();
        }
        let first = self.steps.len() as u32;
        for &range in ranges {
            let number = self.number(Block { space, range });
            self.steps.push(number);
        }
        self.distances.extend_from_slice(distances);
        let end = self.steps.len() as u32;
        let together = distances.iter().map(|&step| u32::from(step)).sum();
        self.paths.insert(path, KnownPath { space, first, end, together });
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

    /// Whatever was forgotten before, numbers say which blocks they are.
    #[test]
    fn numbers_stand_for_what_was_put_in() {
        let mut random = backsight_testing::Random(4);
        let mut blocks = Blocks::new(MOST_BLOCKS);
        for _ in 0..20 {
            let (mut numbers, mut truth) = (Vec::new(), Vec::new());
            let mut generation = 0;
            for _ in 0..2000 {
                generation += u64::from(random.below(500) == 0);
                let space = AddressSpace::ANY.in_process(random.below(2) as u32);
                let number = random.below(300) as u32;
                if number.is_multiple_of(3) {
                    let block = Block { space, range: range(u64::from(number), random.below(2) == 0) };
                    numbers.push(blocks.number(block));
                    truth.push(block);
                    continue;
                }
                let ranges: Vec<_> = (0..1 + u64::from(number % 7))
                    .map(|n| range(u64::from(number) * 5 + n + generation, true))
                    .collect();
                let path = PathId { generation, number };
                let distances: Vec<u8> = (0..ranges.len()).map(|step| step as u8 * 3).collect();
                if blocks.path(path, space).is_none() {
                    blocks.learn(path, space, &ranges, &distances);
                }
                let (steps, found) = blocks.path(path, space).unwrap();
                numbers.extend_from_slice(steps);
                assert_eq!(found.steps, distances);
                assert_eq!(found.together, distances.iter().map(|&step| u64::from(step)).sum::<u64>());
                truth.extend(ranges.iter().map(|&range| Block { space, range }));
            }
            let found: Vec<_> = numbers.iter().map(|&number| blocks.known()[number as usize]).collect();
            assert_eq!(found, truth);
            assert!(blocks.known().len() < truth.len());
            blocks.forget();
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut blocks = Blocks::new(MOST_BLOCKS);
        let mut most = 0;
        for path in 0..MOST_BLOCKS as u64 {
            let ranges: Vec<_> = (0..16).map(|n| range((path * 16 + n) * 4, true)).collect();
            if !blocks.has_room_for(ranges.len()) {
                blocks.forget();
            }
            let id = PathId { generation: 0, number: path as u32 };
            blocks.learn(id, AddressSpace::ANY, &ranges, &[1; 16]);
            let (numbers, _) = blocks.path(id, AddressSpace::ANY).unwrap();
            assert_eq!(numbers.len(), ranges.len());
            most = most.max(blocks.known.len());
        }
        assert_eq!(most, MOST_BLOCKS);
        assert!(blocks.steps.len() <= MOST_STEPS);
    }
}
