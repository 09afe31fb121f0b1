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

/// The path to a place in a source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathBoundary<B> {
    path: Vec<Option<(B, u32)>>,
    is_indirect: bool,
}

/// The block of an element, and what it did.
fn parts(element: u32) -> Option<(u32, u32)> {
    match element {
        NONE => None,
        _ if element & INDIRECT != 0 => Some((element & !INDIRECT, INDIRECT)),
        _ => Some((element >> 1, element & 1)),
    }
}

fn element_of(block: u32, kind: u32) -> u32 {
    match kind {
        _ if block == NONE => NONE,
        INDIRECT => INDIRECT | block,
        _ => block << 1 | kind,
    }
}

fn hash_of(path: &[u32]) -> u64 {
    path.iter().fold(0, |hash, &element| mixed(hash, element.into()))
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

    /// The path to what follows, with blocks as `block` says them.
    pub fn boundary<B>(&self, block: impl Fn(u32) -> Option<B>) -> PathBoundary<B> {
        let element = |&element: &u32| {
            let (number, kind) = parts(element)?;
            Some((block(number)?, kind))
        };
        let path = self.history.iter().take(self.window).map(element).collect();
        PathBoundary { path, is_indirect: self.is_indirect }
    }

    /// Goes on after a path. `number` numbers its blocks.
    pub fn begin_at<B>(&mut self, boundary: &PathBoundary<B>, mut number: impl FnMut(&B) -> u32) {
        self.forget();
        for (slot, element) in self.history.iter_mut().zip(&boundary.path) {
            *slot = element.as_ref().map_or(NONE, |(block, kind)| element_of(number(block), *kind));
        }
        self.is_indirect = boundary.is_indirect;
    }

    /// Adds what was counted in the next part of the source. False if there is no room for all of it.
    pub fn join(&mut self, later: Self, blocks: &[u32]) -> bool {
        let here = |element: u32| {
            let number = |(block, kind)| Some(element_of(*blocks.get(block as usize)?, kind));
            parts(element).and_then(number).unwrap_or(NONE)
        };
        for (&(block, _), record) in &later.records {
            let path = record.path.map(here);
            let block = blocks.get(block as usize).copied().unwrap_or(NONE);
            let key = (block, hash_of(path.get(..self.window).unwrap_or(&path)));
            let known = self.records.entry(key).or_insert(PathRecord { path, taken: 0, not_taken: 0 });
            known.taken += record.taken;
            known.not_taken += record.not_taken;
        }
        self.history = later.history.map(here);
        self.is_indirect = later.is_indirect;
        later.left_out == 0 && self.records.len() < MOST
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
        let hash = hash_of(path);
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
