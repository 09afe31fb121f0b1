//! Which way branches went, by the path that led to them.
//!
//! The path before a branch is what the last w branches did: conditional ones were taken or not, indirect ones went to
//! some block. For each branch and each path that led to it, outcomes are counted.

use backsight::flow::Range;
use backsight::isa::Class;

use super::blocks::NONE;
use super::hash::{NumberMap, mixed};

/// Longest path.
pub(crate) const LONGEST_PATH: usize = 16;

/// Most pairs of a branch and a path.
const MOST: usize = 1 << 20;

/// An element of a path is the block that branched and whether it was taken, or this and the block that an indirect
/// branch went to.
pub(crate) const INDIRECT: u32 = 1 << 31;

/// Outcomes of a branch after a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathRecord {
    /// The newest element first.
    pub path: [u32; LONGEST_PATH],
    pub taken: u64,
    pub not_taken: u64,
}

/// Counts outcomes by path.
#[derive(Clone, Debug)]
pub(crate) struct PathCounter {
    pub window: usize,
    history: [u32; LONGEST_PATH],
    /// The last branch was indirect.
    is_indirect: bool,
    pub records: NumberMap<(u32, u64), PathRecord>,
    /// Outcomes that there was no room for.
    pub left_out: u64,
}

impl PathCounter {
    pub fn new(window: usize) -> Self {
        Self {
            window: window.clamp(1, LONGEST_PATH),
            history: [NONE; LONGEST_PATH],
            is_indirect: false,
            records: NumberMap::default(),
            left_out: 0,
        }
    }

    /// Something is missing: the path is not known.
    pub fn forget(&mut self) {
        self.history = [NONE; LONGEST_PATH];
        self.is_indirect = false;
    }

    /// A block was executed.
    pub fn step(&mut self, block: u32, range: &Range) {
        if std::mem::take(&mut self.is_indirect) {
            self.push(INDIRECT | block);
        }
        match range.class {
            Class::DirectBranch if range.flags.conditional => {
                self.count(block, range.executed);
                self.push(block << 1 | u32::from(range.executed));
            }
            Class::IndirectBranch => self.is_indirect = range.executed,
            _ => {}
        }
    }

    fn push(&mut self, element: u32) {
        self.history.rotate_right(1);
        self.history[0] = element;
    }

    fn count(&mut self, block: u32, taken: bool) {
        let path = &self.history[..self.window];
        if path.last() == Some(&NONE) {
            return;
        }
        let hash = path.iter().fold(0, |hash, &element| mixed(hash, element.into()));
        let is_full = self.records.len() >= MOST;
        let record = match self.records.entry((block, hash)) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(_) if is_full => {
                self.left_out += 1;
                return;
            }
            std::collections::hash_map::Entry::Vacant(new) => {
                let mut kept = [NONE; LONGEST_PATH];
                kept[..path.len()].copy_from_slice(path);
                new.insert(PathRecord { path: kept, taken: 0, not_taken: 0 })
            }
        };
        match taken {
            true => record.taken += 1,
            false => record.not_taken += 1,
        }
    }
}
