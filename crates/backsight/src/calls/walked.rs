//! What paths of execution do to the stack of calls, remembered.
//!
//! Followers name paths that they walk again and again. The ranges of a path that stay in one function, one after the other,
//! do nothing to the stack but cost: they are one segment. Whether the stack is in that function when a path comes again, it
//! says itself, and where it is not, the path is taken range by range.

use backsight_core::AddressSpace;
use backsight_flow::PathId;

use super::functions::Function;
use super::stack::Departure;

/// Most paths and most segments that are remembered.
const MOST_PATHS: usize = 1 << 15;
const MOST_SEGMENTS: usize = 1 << 17;

/// Paths of one follower.
#[derive(Clone, Debug, Default)]
pub(super) struct WalkedPaths {
    generation: u64,
    /// By their numbers.
    records: Vec<Option<PathRecord>>,
    pub segments: Vec<Segment>,
}

/// A path.
#[derive(Clone, Copy, Debug)]
struct PathRecord {
    space: AddressSpace,
    first: u32,
    end: u32,
}

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
    /// The segments of a path.
    #[inline]
    pub fn get(&self, path: PathId, space: AddressSpace) -> Option<&[Segment]> {
        let record = self.records.get(path.number as usize)?.as_ref();
        let record = record.filter(|record| self.generation == path.generation && record.space == space)?;
        self.segments.get(record.first as usize..record.end as usize)
    }

    /// Is there room to remember a path? Those that its follower has forgotten are forgotten here.
    pub fn has_room(&mut self, path: PathId) -> bool {
        if self.generation != path.generation {
            *self = Self { generation: path.generation, ..Self::default() };
        }
        (path.number as usize) < MOST_PATHS && self.segments.len() < MOST_SEGMENTS
    }

    /// Remembers a path: its segments are those from this one on.
    pub fn insert(&mut self, path: PathId, space: AddressSpace, first: usize) {
        let index = path.number as usize;
        if self.records.len() <= index {
            self.records.resize(index + 1, None);
        }
        self.records[index] =
            Some(PathRecord { space, first: first as u32, end: self.segments.len() as u32 });
    }
}
