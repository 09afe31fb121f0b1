//! Blocks and the edges between them, by dense numbers.
//!
//! A block is a range of instructions as a follower gives it. After a block, the same block as last time is likely: each
//! remembers the edge that was taken last in either way. Where several follow (an interpreter's dispatch), a small
//! table that is indexed by a hash finds the edge. Only what was never seen before is looked up in maps.

use backsight::calls::{Departure, Place};
use backsight::core::AddressSpace;
use backsight::flow::{Range, RangeNumbers};
use backsight::image::Window;
use backsight::isa::Class;

use super::hash::{NumberMap, mixed};

/// No block, no edge, no function.
pub(crate) const NONE: u32 = u32::MAX;

/// Most blocks, and most edges. Programs have far fewer; wrong code may seem to have more.
const MOST: usize = 1 << 24;

/// Edges of indirect branches that are found without a map.
const RECENT: usize = 1 << 13;

/// How execution left a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Way {
    /// To the instruction after it.
    Onwards,
    /// By its branch.
    Taken,
    /// An exception was taken.
    Exception,
    /// By its last instruction, which returned from an exception.
    ExceptionReturn,
}

/// What a block's last instruction does to the calls under way, where it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing.
    Jump,
    /// Calls.
    Call,
    /// Returns.
    Return,
    /// Returns from an exception.
    ExceptionReturn,
}

impl Ending {
    pub fn of(departure: Departure) -> Self {
        match departure {
            Departure::Call { .. } => Self::Call,
            Departure::Return => Self::Return,
            Departure::ExceptionReturn => Self::ExceptionReturn,
            _ => Self::Jump,
        }
    }
}

/// A block, in one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct BlockRecord {
    pub range: Range,
    /// Arrivals that no edge led to: where the trace begins, and after gaps.
    pub entries: u64,
    /// The edges that were last: onwards, taken.
    last: [u32; 2],
    pub function: u32,
    pub space: AddressSpace,
    pub ending: Ending,
    /// It is not the beginning of its function.
    is_inside: bool,
}

const _: () = assert!(size_of::<BlockRecord>() == 64);

impl BlockRecord {
    /// Where execution comes to it.
    #[inline]
    pub fn place(&self) -> Place {
        let &Self { range: Range { start: address, .. }, function, is_inside, .. } = self;
        Place { function, name: None, is_inside, address }
    }

    /// How execution leaves it, if its last instruction is `executed`.
    #[inline]
    pub fn departure(&self, executed: bool) -> Departure {
        match self.ending {
            _ if !executed || !self.range.ends_in_branch() => Departure::Sequence,
            Ending::Jump => Departure::Jump { is_indirect: self.range.class == Class::IndirectBranch },
            Ending::Call => Departure::Call { return_address: self.range.end },
            Ending::Return => Departure::Return,
            Ending::ExceptionReturn => Departure::ExceptionReturn,
        }
    }

    #[inline]
    fn is(&self, range: &Range, space: AddressSpace) -> bool {
        self.range.start == range.start
            && self.range.end == range.end
            && self.space == space
            && self.range.isa == range.isa
    }
}

/// An edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeRecord {
    pub from: u32,
    pub to: u32,
    pub count: u64,
    pub way: Way,
}

/// A step to a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    pub block: u32,
    /// The edge that was counted; [`NONE`] if none leads there.
    pub edge: u32,
}

type BlockKey = (u64, u64, u32, u8);

/// Blocks of code that changes: what is in a range may be another block than before.
#[derive(Debug, Default)]
struct Changes {
    /// How often the code has changed.
    epoch: u32,
    /// The epoch in which each block was last known to be what is in its range.
    known: Vec<u32>,
    /// When each block was met first.
    met: Vec<Option<Window>>,
    by_function: NumberMap<(BlockKey, u32), u32>,
}

/// All blocks and edges of a source.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub blocks: Vec<BlockRecord>,
    pub edges: Vec<EdgeRecord>,
    by_range: RangeNumbers,
    by_ends: NumberMap<u64, u32>,
    recent: Box<[u32]>,
    /// Where the code changes.
    changes: Option<Box<Changes>>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            edges: Vec::new(),
            by_range: RangeNumbers::default(),
            by_ends: NumberMap::default(),
            recent: vec![NONE; RECENT].into(),
            changes: None,
        }
    }
}

fn key(range: &Range, space: AddressSpace) -> BlockKey {
    (range.start.0, range.end.0, u32::from(space.view()) | space.process() << 8, range.isa as u8)
}

/// What tells edges apart. No block has a number of more than 24 bits.
fn ends(from: u32, to: u32, way: Way) -> u64 {
    u64::from(from) << 34 | u64::from(to) << 2 | way as u64
}

impl Blocks {
    /// Counts the edge that execution took last time in this way, if it took it again.
    #[inline]
    pub fn follow(&mut self, from: u32, way: Way, range: &Range, space: AddressSpace) -> Option<Followed> {
        let block = self.blocks.get(from as usize)?;
        let last = *block.last.get(way as usize)?;
        let edge = self.edges.get_mut(last as usize)?;
        let next = self.blocks.get(edge.to as usize)?;
        if next.is(range, space) {
            if let Some(changes) = &self.changes
                && !changes.is_known(edge.to)
            {
                return None;
            }
            edge.count += 1;
            return Some(Followed { block: edge.to, edge: last });
        }
        self.follow_recent(from, way, range, space)
    }

    /// The same for one of several edges that were taken before.
    #[inline(never)]
    fn follow_recent(&mut self, from: u32, way: Way, range: &Range, space: AddressSpace) -> Option<Followed> {
        let number = *self.recent.get(slot(from, range))?;
        let edge = self.edges.get_mut(number as usize)?;
        let next = self.blocks.get(edge.to as usize)?;
        if edge.from != from || edge.way != way || !next.is(range, space) {
            return None;
        }
        if self.changes.as_ref().is_some_and(|changes| !changes.is_known(edge.to)) {
            return None;
        }
        edge.count += 1;
        let followed = Followed { block: edge.to, edge: number };
        self.remember(from, way, number);
        Some(followed)
    }

    fn remember(&mut self, from: u32, way: Way, edge: u32) {
        if let Some(block) = self.blocks.get_mut(from as usize)
            && let Some(last) = block.last.get_mut(way as usize)
        {
            *last = edge;
        }
    }

    /// The block of a range, if it was met before.
    pub fn find(&self, range: &Range, space: AddressSpace) -> Option<u32> {
        self.by_range.find(range, space, |block| self.blocks[block as usize].is(range, space))
    }

    /// From now on this is the block of a range, which may have had another one.
    fn name(&mut self, range: &Range, space: AddressSpace, block: u32) {
        let Self { by_range, blocks, .. } = self;
        by_range.set(range, space, |known| blocks[known as usize].is(range, space), block);
    }

    /// The code changes, or has changed again: what is in a range has to be looked up again.
    pub fn code_changed(&mut self) {
        self.changes.get_or_insert_default().epoch += 1;
    }

    /// Is it known what is in the range of this block?
    pub fn is_known(&self, block: u32) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.is_known(block))
    }

    /// The block of a range that is of this function, if it was met before: it is what is there now.
    pub fn find_of(&mut self, range: &Range, space: AddressSpace, function: u32) -> Option<u32> {
        let first = self.find(range, space);
        let first = first.filter(|&block| self.blocks[block as usize].function == function);
        let changes = self.changes.as_mut()?;
        let block = first.or_else(|| changes.by_function.get(&(key(range, space), function)).copied())?;
        changes.set_known(block);
        self.name(range, space, block);
        Some(block)
    }

    /// A block was met at this time.
    pub fn set_time(&mut self, block: u32, function: u32, window: Option<Window>) {
        let (Some(changes), Some(record)) = (&mut self.changes, self.blocks.get(block as usize)) else {
            return;
        };
        changes.set_known(block);
        changes.met.resize(changes.met.len().max(block as usize + 1), None);
        changes.met[block as usize] = window;
        changes.by_function.insert((key(&record.range, record.space), function), block);
    }

    /// When a block was met first, where the code changes.
    pub fn time_of(&self, block: usize) -> Option<Window> {
        self.changes.as_ref()?.met.get(block).copied().flatten()
    }

    /// A new block; `None` if there are too many.
    pub fn add(
        &mut self,
        range: &Range,
        space: AddressSpace,
        Place { function, is_inside, .. }: Place,
        ending: Ending,
    ) -> Option<u32> {
        if self.blocks.len() >= MOST {
            return None;
        }
        let number = self.blocks.len() as u32;
        self.blocks.push(BlockRecord {
            range: *range,
            entries: 0,
            last: [NONE; 2],
            function,
            space,
            ending,
            is_inside,
        });
        self.name(range, space, number);
        Some(number)
    }

    /// Counts an edge that may be new; `None` if there are too many edges.
    pub fn count_edge(&mut self, from: u32, way: Way, to: u32) -> Option<Followed> {
        let known = self.edge(from, to, way);
        let number = match known {
            Some(number) => number,
            None => self.add_edge(from, way, to)?,
        };
        let edge = self.edges.get_mut(number as usize)?;
        edge.count += 1;
        let followed = Followed { block: to, edge: number };
        self.remember(from, way, number);
        if let Some(next) = self.blocks.get(to as usize) {
            self.recent[slot(from, &next.range)] = number;
        }
        Some(followed)
    }

    /// An edge was taken so many times more.
    pub fn add_to_edge(&mut self, edge: u32, times: u64) {
        if let Some(edge) = self.edges.get_mut(edge as usize) {
            edge.count += times;
        }
    }

    fn add_edge(&mut self, from: u32, way: Way, to: u32) -> Option<u32> {
        if self.edges.len() >= MOST {
            return None;
        }
        let number = self.edges.len() as u32;
        self.edges.push(EdgeRecord { from, to, count: 0, way });
        self.by_ends.insert(ends(from, to, way), number);
        Some(number)
    }

    /// Was this edge counted?
    pub fn has_edge(&self, from: u32, to: u32, way: Way) -> bool {
        self.edge(from, to, way).is_some()
    }

    /// The number of an edge that was counted.
    pub fn edge(&self, from: u32, to: u32, way: Way) -> Option<u32> {
        let last = self.blocks.get(from as usize).and_then(|block| block.last.get(way as usize));
        match last.and_then(|&last| self.edges.get(last as usize)) {
            Some(edge) if edge.to == to => last.copied(),
            _ => self.by_ends.get(&ends(from, to, way)).copied(),
        }
    }

    /// How often each block was executed: arrivals over edges, and others.
    pub fn counts(&self) -> Vec<u64> {
        let mut counts: Vec<u64> = self.blocks.iter().map(|block| block.entries).collect();
        for edge in &self.edges {
            if let Some(count) = counts.get_mut(edge.to as usize) {
                *count += edge.count;
            }
        }
        counts
    }
}

impl Changes {
    fn is_known(&self, block: u32) -> bool {
        self.known.get(block as usize) == Some(&self.epoch)
    }

    fn set_known(&mut self, block: u32) {
        let index = block as usize;
        self.known.resize(self.known.len().max(index + 1), 0);
        self.known[index] = self.epoch;
    }
}

#[inline]
fn slot(from: u32, range: &Range) -> usize {
    mixed(u64::from(from), range.start.0) as usize % RECENT
}

/// How a range was left, if nothing else happened.
#[inline]
pub(crate) fn way_of(range: &Range) -> Way {
    let is_branch = matches!(range.class, Class::DirectBranch | Class::IndirectBranch);
    if is_branch && range.executed { Way::Taken } else { Way::Onwards }
}
