//! Segments of the paths of a follower, by the numbers of the paths.

use backsight_core::AddressSpace;
use backsight_flow::PathId;

use super::segments::Segment;

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

impl WalkedPaths {
    /// The segments of a path: the first, and where the others are.
    #[inline(always)]
    pub fn get(&self, path: PathId, space: AddressSpace) -> Option<(Segment, std::ops::Range<usize>)> {
        let record = self.records.get(path.number as usize)?.as_ref();
        let record = record.filter(|record| self.generation == path.generation && record.space == space)?;
        Some((record.head, record.first as usize..record.end as usize))
    }

    /// These of its segments.
    #[inline(always)]
    pub fn others(&self, others: std::ops::Range<usize>) -> &[Segment] {
        self.segments.get(others).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use backsight_core::Address;

    use super::*;
    use crate::calls::stack::{Departure, Place};

    #[test]
    fn a_path_is_found_in_its_space_until_its_follower_forgets_it() {
        let spaces = [1, 2].map(|process| AddressSpace::ANY.in_process(process));
        let place = Place { function: 0, name: None, is_inside: false, address: Address(0x1000) };
        let segment = Segment { place, ranges: 1, instructions: 2, departure: Departure::Return };
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
