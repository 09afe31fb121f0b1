//! What paths of execution do to the stack of calls, remembered.
//!
//! Followers name paths that they walk again and again. The ranges of a path that stay in one function, one after the other,
//! do nothing to the stack but cost: they are one segment. Whether the stack is in that function when a path comes again, it
//! says itself, and where it is not, the path is taken range by range.

use backsight_core::AddressSpace;
use backsight_flow::{PathId, Range};

use super::{Departure, ShadowStack, Stays};
use crate::calls::functions::Function;

/// Most paths and most segments that are remembered.
const MOST_PATHS: usize = 1 << 15;
const MOST_SEGMENTS: usize = 1 << 17;

/// Paths of one follower.
#[derive(Clone, Debug, Default)]
pub(super) struct WalkedPaths {
    generation: u64,
    /// By their numbers.
    records: Vec<Option<PathRecord>>,
    /// Segments of all paths but the first of each.
    segments: Vec<Segment>,
}

/// A path. Most have one segment or two: the first is in the same line of the cache as the path.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct PathRecord {
    head: Segment,
    space: AddressSpace,
    /// Where its other segments are.
    first: u32,
    end: u32,
}

const _: () = assert!(size_of::<Option<PathRecord>>() == 64);

/// Ranges in one function, each of which goes on in the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The function, by where execution comes to it.
    pub function: Function,
    pub ranges: u32,
    pub instructions: u32,
    /// How the last range ends.
    pub departure: Departure,
}

const _: () = assert!(size_of::<Segment>() <= 48);

impl WalkedPaths {
    /// The segments of a path: the first, and where the others are.
    #[inline(always)]
    fn get(&self, path: PathId, space: AddressSpace) -> Option<(Segment, std::ops::Range<usize>)> {
        let record = self.records.get(path.number as usize)?.as_ref();
        let record = record.filter(|record| self.generation == path.generation && record.space == space)?;
        Some((record.head, record.first as usize..record.end as usize))
    }

    /// Is there room to remember a path? Those that its follower has forgotten are forgotten here.
    pub fn has_room(&mut self, path: PathId) -> bool {
        if self.generation != path.generation {
            *self = Self { generation: path.generation, ..Self::default() };
        }
        (path.number as usize) < MOST_PATHS && self.segments.len() < MOST_SEGMENTS
    }

    /// Remembers a path, unless it has no segments.
    pub fn insert(&mut self, path: PathId, space: AddressSpace, segments: &[Segment]) {
        let Some((&head, rest)) = segments.split_first() else { return };
        let index = path.number as usize;
        if self.records.len() <= index {
            self.records.resize(index + 1, None);
        }
        let first = self.segments.len();
        self.segments.extend_from_slice(rest);
        self.records[index] =
            Some(PathRecord { head, space, first: first as u32, end: self.segments.len() as u32 });
    }
}

/// How far a path was walked by what is remembered of it.
enum Walk {
    Whole,
    /// Execution has arrived at the range after so many, which is in another call than it was before.
    Before(usize),
    /// Nothing is remembered of it.
    Unknown,
}

impl<'i> ShadowStack<'i> {
    /// Takes the ranges of a path that was walked before: `path` always stands for the same ones. It comes to what
    /// [`ShadowStack::push`] comes to range by range, and is faster. It seldom looks at the ranges: they stay where they are.
    #[inline(always)]
    pub(crate) fn walk(
        &mut self,
        path: PathId,
        ranges: impl Iterator<Item = Range>,
        sink: &mut impl Stays<'i>,
    ) {
        match self.walk_again(path, sink) {
            Walk::Whole => {}
            walk => self.walk_ranges(path, walk, &mut { ranges }, sink),
        }
    }

    #[inline(always)]
    fn walk_again(&mut self, path: PathId, sink: &mut impl Stays<'i>) -> Walk {
        let Some((first, others)) = self.walked.get(path, self.space) else { return Walk::Unknown };
        if !self.walk_segment(&first, sink) {
            return Walk::Before(0);
        }
        let mut ranges = first.ranges as usize;
        for index in others {
            // It is there: nothing is forgotten on the way.
            let Some(&segment) = self.walked.segments.get(index) else { break };
            if !self.walk_segment(&segment, sink) {
                return Walk::Before(ranges);
            }
            ranges += segment.ranges as usize;
        }
        Walk::Whole
    }

    /// Takes the ranges of a path of which not enough is remembered.
    #[cold]
    #[inline(never)]
    fn walk_ranges(
        &mut self,
        path: PathId,
        walk: Walk,
        ranges: &mut dyn Iterator<Item = Range>,
        sink: &mut impl Stays<'i>,
    ) {
        if self.functions.is_full() {
            self.renumber();
        }
        match walk {
            Walk::Whole => {}
            Walk::Before(count) => {
                let mut rest = ranges.skip(count);
                if let Some(range) = rest.next() {
                    self.run(range.instructions.into(), self.departure_of(&range));
                }
                rest.for_each(|range| self.range(&range, sink));
            }
            Walk::Unknown if self.walked.has_room(path) => self.learn(path, ranges, sink),
            Walk::Unknown => ranges.for_each(|range| self.range(&range, sink)),
        }
    }

    /// Execution comes to a segment. Was that all in one call?
    #[inline(always)]
    fn walk_segment(&mut self, segment: &Segment, sink: &mut impl Stays<'i>) -> bool {
        self.arrive_in(segment.function, sink);
        let is_there = self.frames.last().is_some_and(|top| top.function.is(segment.function));
        if is_there {
            self.run(segment.instructions.into(), segment.departure);
        }
        is_there
    }

    /// Takes a path range by range, and remembers what it does.
    fn learn(&mut self, path: PathId, ranges: &mut dyn Iterator<Item = Range>, sink: &mut impl Stays<'i>) {
        let mut segments: Vec<Segment> = Vec::new();
        let mut last: Option<Function> = None;
        for range in ranges {
            let function = self.function_at(range.start);
            let goes_on = last.is_some_and(|last| last.is(function))
                && matches!(self.departure, Departure::Sequence | Departure::Jump { .. });
            self.range(&range, sink);
            let (instructions, departure) = (range.instructions, self.departure);
            match segments.last_mut() {
                Some(segment) if goes_on => {
                    segment.ranges += 1;
                    segment.instructions += instructions;
                    segment.departure = departure;
                }
                _ => {
                    // With its number, if it was called.
                    let function = self.function_at(range.start);
                    segments.push(Segment { function, ranges: 1, instructions, departure });
                }
            }
            last = Some(function);
        }
        self.walked.insert(path, self.space, &segments);
    }
}

#[cfg(test)]
mod tests {
    use backsight_core::Address;

    use super::*;
    use crate::calls::Functions;

    #[test]
    fn a_path_is_found_in_its_space_until_its_follower_forgets_it() {
        let spaces = [1, 2].map(|process| AddressSpace::ANY.in_process(process));
        let function = Functions::default().at(spaces[0], Address(0x1000), || None);
        let segment = Segment { function, ranges: 1, instructions: 2, departure: Departure::Return };
        let mut walked = WalkedPaths::default();
        let path = PathId { generation: 1, number: 3 };
        assert!(walked.has_room(path));
        walked.insert(path, spaces[0], &[segment; 3]);
        let others = |path, space| walked.get(path, space).map(|(_, others)| others.len());
        assert_eq!(others(path, spaces[0]), Some(2));
        assert_eq!(others(path, spaces[1]), None);
        assert_eq!(others(PathId { number: 2, ..path }, spaces[0]), None);
        assert_eq!(others(PathId { generation: 2, ..path }, spaces[0]), None);
        // A path of no segments is not worth remembering.
        walked.insert(PathId { number: 4, ..path }, spaces[0], &[]);
        assert!(walked.get(PathId { number: 4, ..path }, spaces[0]).is_none());
        assert!(walked.has_room(PathId { generation: 2, number: 0 }));
        assert!(walked.get(path, spaces[0]).is_none());
    }
}
