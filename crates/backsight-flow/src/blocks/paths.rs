//! Paths through the code that were walked before.
//!
//! From the same block the same outcomes lead the same way, as long as the code stays as it is. A path
//! is remembered as its steps and the block where it ends; the next time it is looked up. A long trace consists of few paths
//! that occur again and again. A step is the range that it reports, or the block that has it.
//!
//! Memory is bounded: a path takes the slot of another one that falls on it, and when the store of steps is full, all
//! paths are forgotten. A program that takes other paths all the time gains nothing, and would pay for what it
//! remembers: where too few are found again, nothing is looked up for a while.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Origin;
use crate::Range;

/// The name of a path that was walked before. It stands for the same ranges as long as the program runs: a path that is
/// forgotten takes its name with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathId {
    /// All paths of a generation were remembered by one follower. When it forgets its paths, another one begins.
    pub generation: u64,
    /// Paths of a generation are numbered as they are remembered, from 0 on.
    pub number: u32,
}

impl PathId {
    /// More paths than any generation has: each has a step at least.
    pub const MOST: u32 = 1 << 18;
}

/// What decides a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathKey {
    /// Where it begins, in the follower's terms.
    pub from: u64,
    /// What else the follower distinguishes.
    pub kind: u32,
    /// The outcomes that it may use, in the follower's terms, with their number.
    pub outcomes: u64,
    /// Where it is to end, in the follower's terms.
    pub end: u64,
}

impl PathKey {
    /// The block where it begins, if that is what `from` says.
    #[inline]
    pub const fn block(&self) -> u32 {
        self.from as u32
    }

    #[inline]
    fn hash(&self) -> usize {
        let from = self.from ^ u64::from(self.kind).rotate_right(24);
        let mixed = (from.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.outcomes)
            .wrapping_mul(0xD6E8_FEB8_6659_FD93)
            ^ self.end.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
        (mixed >> 32) as usize ^ mixed as usize
    }
}

/// A path that was walked before. One is one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Path {
    key: PathKey,
    /// Paths that were remembered before it in its generation.
    number: u32,
    /// The first of its steps in the store.
    first: u32,
    /// The block where it ends.
    pub block: u32,
    /// The way that led there.
    pub origin: Origin,
    /// Instructions in all its ranges.
    pub instructions: u32,
    /// How many ranges it has, one for each step.
    pub ranges: u16,
    /// Ranges that end in a branch.
    pub branches: u16,
    /// Those whose branch was taken.
    pub taken: u16,
    /// Outcomes that it uses.
    pub outcomes: u8,
    /// What the follower wants to know about its end.
    pub note: u8,
    /// It can be walked by looking it up. Else only the follower's clear way decides.
    pub is_plain: bool,
    /// The slot of the path that was found after this one last time.
    next: u16,
}

const _: () = assert!(size_of::<Option<Path>>() == 64);

/// Paths by what decides them, with steps of some kind.
#[derive(Clone, Debug)]
pub(crate) struct Paths<S = Range> {
    /// A power of two of slots, or none.
    slots: Vec<Option<Path>>,
    /// The one whose path was found last.
    last: usize,
    /// How many were filled since all was forgotten.
    filled: usize,
    generation: Generation,
    /// Paths with steps that were remembered in this generation.
    remembered: u32,
    steps: Vec<S>,
    /// Room for the next path that is walked for the first time.
    walked: WalkedPath<S>,
    /// Are paths looked up for now?
    is_used: bool,
    /// Packets until that is decided again.
    until_review: u32,
    /// Paths that were gone along since it was decided.
    used: u32,
    /// Keys that came once, by parts of their hashes. Many never come again, and are not worth remembering.
    met: Vec<[u32; WAYS]>,
}

/// The number of a generation of paths: no two have the same, in no follower.
#[derive(Debug)]
struct Generation(u64);

impl Default for Generation {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A follower that is a copy of another one remembers other paths from then on.
impl Clone for Generation {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Slots at first, and at most: a path names the slot of another one.
const SLOTS: (usize, usize) = (1 << 8, 1 << 15);
const _: () = assert!(SLOTS.1 <= 1 << u16::BITS);
/// A path is looked for in so many slots, one after the other.
const NEIGHBOURS: usize = 4;
/// Bytes of steps that are stored at most: they stay in the processor's second cache.
const MOST_BYTES: usize = 1 << 20;
/// After so many packets it is decided whether paths are looked up.
const REVIEW: u32 = 1 << 13;
/// At least so many paths must have been gone along.
const FEWEST_USED: u32 = REVIEW / 2;
/// So long nothing is looked up if there were fewer.
const REST: u32 = 4 * REVIEW;
/// Sets of marks for keys that came once, of which the last are known.
const MET: usize = 1 << 13;
/// Marks in a set.
const WAYS: usize = 4;
/// Ranges of one path: a sink that has enough gets no more than these.
pub(crate) const LONGEST_PATH: usize = 64;

impl<S> Default for Paths<S> {
    fn default() -> Self {
        let (slots, steps, walked, generation, met) = Default::default();
        let (filled, remembered, used) = (0, 0, 0);
        Self {
            slots,
            last: 0,
            filled,
            generation,
            remembered,
            steps,
            walked,
            is_used: true,
            until_review: REVIEW,
            used,
            met,
        }
    }
}

impl<S: Copy> Paths<S> {
    /// Another packet: are paths looked up for it?
    #[inline]
    pub fn are_used(&mut self) -> bool {
        self.until_review -= 1;
        if self.until_review == 0 {
            self.review();
        }
        self.is_used
    }

    #[cold]
    fn review(&mut self) {
        self.is_used = !self.is_used || self.used >= FEWEST_USED;
        self.until_review = if self.is_used { REVIEW } else { REST };
        self.used = 0;
    }

    /// A path was gone along: between two reviews that is not often enough to overflow.
    #[inline]
    pub const fn count_use(&mut self) {
        self.used = self.used.wrapping_add(1);
    }

    /// The path of a key, if it was walked before.
    #[inline(always)]
    pub fn get(&self, key: PathKey) -> Option<&Path> {
        self.slots.get(self.slot_of(key)?)?.as_ref()
    }

    /// The same for a path that is gone along now. The one after it will mostly be the one that came after it last time: its
    /// slot is fetched meanwhile.
    #[inline(always)]
    pub fn follow(&mut self, key: PathKey) -> Option<&Path> {
        let slot = self.slot_of(key)?;
        if let Some(Some(last)) = self.slots.get_mut(self.last) {
            last.next = slot as u16;
        }
        self.last = slot;
        let path = self.slots.get(slot)?.as_ref()?;
        if let Some(next) = self.slots.get(usize::from(path.next)) {
            backsight_simd::prefetch(next);
        }
        Some(path)
    }

    #[inline(always)]
    fn slot_of(&self, key: PathKey) -> Option<usize> {
        let mask = self.slots.len().wrapping_sub(1);
        for next in 0..NEIGHBOURS {
            let slot = key.hash().wrapping_add(next) & mask;
            if self.slots.get(slot)?.as_ref()?.key == key {
                return Some(slot);
            }
        }
        None
    }

    /// The name of a path that has steps; others have none.
    #[inline]
    pub fn id(&self, path: &Path) -> PathId {
        PathId { generation: self.generation.0, number: path.number }
    }

    /// The steps of a path.
    #[inline]
    pub fn steps(&self, path: &Path) -> &[S] {
        let first = path.first as usize;
        self.steps.get(first..first + usize::from(path.ranges)).unwrap_or_default()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        if self.filled > 0 {
            self.slots.fill(None);
            self.steps.clear();
            self.filled = 0;
            self.generation = Generation::default();
            self.remembered = 0;
        }
    }

    /// Did this key come before? What comes once may never come again. Keys of one set of marks do not keep each other out as long
    /// as there are few of them.
    pub fn was_met(&mut self, key: PathKey) -> bool {
        self.met.resize(MET, [0; WAYS]);
        let hash = key.hash();
        // The set and the mark are of different bits.
        let mark = (hash >> 14) as u32 | 1;
        let marks = &mut self.met[hash % MET];
        let known = marks.iter().position(|&met| met == mark);
        // The latest comes first.
        marks[..=known.unwrap_or(WAYS - 1)].rotate_right(1);
        marks[0] = mark;
        known.is_some()
    }

    /// An empty path to walk; it comes back with [`Paths::remember`].
    pub fn begin(&mut self) -> WalkedPath<S> {
        let mut walked = std::mem::take(&mut self.walked);
        walked.clear();
        walked
    }

    /// Remembers what came of a first walk, if all of it was known.
    pub fn remember(&mut self, key: PathKey, mut walked: WalkedPath<S>, walk: FirstWalk) {
        match walk {
            FirstWalk::Path(end) => self.insert(key, &walked, end, true),
            FirstWalk::Unclear => {
                walked.clear();
                self.insert(key, &walked, PathEnd::in_block(0, 0), false);
            }
            FirstWalk::NotYet => {}
        }
        self.walked = walked;
    }

    /// Makes room for four times as many.
    fn grow(&mut self) {
        let size = (self.slots.len() * 4).clamp(SLOTS.0, SLOTS.1);
        for path in std::mem::replace(&mut self.slots, vec![None; size]).into_iter().flatten() {
            self.put(path);
        }
    }

    /// Puts a path into the first free slot of those where it is looked for, or takes that of another one.
    fn put(&mut self, path: Path) {
        let mask = self.slots.len() - 1;
        let slots = (0..NEIGHBOURS).map(|next| path.key.hash().wrapping_add(next) & mask);
        let free = slots.clone().find(|&slot| self.slots[slot].is_none());
        let taken = slots.clone().nth(self.steps.len() % NEIGHBOURS);
        if let Some(slot) = free.or(taken) {
            self.slots[slot] = Some(path);
        }
    }

    fn insert(&mut self, key: PathKey, walked: &WalkedPath<S>, end: PathEnd, is_plain: bool) {
        if self.steps.len() + walked.steps.len() > MOST_BYTES / size_of::<S>() {
            self.clear();
        }
        if self.filled * 2 >= self.slots.len() && self.slots.len() < SLOTS.1 {
            self.grow();
        }
        let path = Path {
            key,
            number: self.remembered,
            first: self.steps.len() as u32,
            block: end.block,
            origin: end.origin,
            instructions: walked.instructions,
            ranges: walked.steps.len() as u16,
            branches: walked.branches,
            taken: walked.taken,
            outcomes: walked.outcomes,
            note: end.note,
            is_plain,
            next: 0,
        };
        self.steps.extend_from_slice(&walked.steps);
        self.remembered += u32::from(!walked.steps.is_empty());
        self.filled += 1;
        self.put(path);
    }
}

/// A path while it is walked for the first time.
#[derive(Clone, Debug)]
pub(crate) struct WalkedPath<S = Range> {
    steps: Vec<S>,
    instructions: u32,
    branches: u16,
    taken: u16,
    /// Outcomes that it uses.
    pub outcomes: u8,
}

impl<S> Default for WalkedPath<S> {
    fn default() -> Self {
        Self { steps: Vec::new(), instructions: 0, branches: 0, taken: 0, outcomes: 0 }
    }
}

impl<S> WalkedPath<S> {
    /// How many steps it has by now.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// The steps.
    pub fn steps(&self) -> &[S] {
        &self.steps
    }

    /// Adds a step, and what it reports.
    pub fn push_step(&mut self, step: S, range: &Range) {
        let is_branch = range.ends_in_branch();
        self.steps.push(step);
        self.instructions += range.instructions;
        self.branches += u16::from(is_branch);
        self.taken += u16::from(is_branch && range.executed);
    }

    fn clear(&mut self) {
        *self = Self { steps: std::mem::take(&mut self.steps), ..Self::default() };
        self.steps.clear();
    }
}

impl WalkedPath {
    /// Adds a range. False: the path gets too long to be remembered.
    pub fn push(&mut self, range: Range, uses_outcome: bool) -> bool {
        self.push_step(range, &range);
        self.outcomes += u8::from(uses_outcome);
        self.steps.len() <= LONGEST_PATH
    }
}

/// What came of a first walk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FirstWalk {
    /// It can be looked up from now on.
    Path(PathEnd),
    /// Only the follower's clear way decides where it leads.
    Unclear,
    /// It leads to blocks that were not walked yet.
    NotYet,
}

/// Where a path ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathEnd {
    /// In this block.
    pub block: u32,
    /// The way that led there, where the follower asks for it.
    pub origin: Origin,
    /// What the follower wants to know.
    pub note: u8,
}

impl PathEnd {
    /// In a block; nobody asks how it was reached.
    pub const fn in_block(block: u32, note: u8) -> Self {
        Self { block, origin: Origin::UNKNOWN, note }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::{Address, Isa};

    fn key(from: u32, outcomes: u64) -> PathKey {
        PathKey { from: from.into(), kind: 0, outcomes, end: 0 }
    }

    fn walk(walked: &mut WalkedPath, start: u64, ranges: u32) {
        for n in 0..ranges {
            let range = Range {
                start: Address(start),
                end: Address(start + 4),
                instructions: 1 + n,
                isa: Isa::Rv64,
                class: Default::default(),
                flags: Default::default(),
                last_size: 4,
                executed: true,
            };
            walked.push(range, true);
        }
    }

    fn remember(paths: &mut Paths, key: PathKey, start: u64, ranges: u32) {
        let (mut path, end) = (paths.begin(), FirstWalk::Path(PathEnd::in_block(9, 1)));
        walk(&mut path, start, ranges);
        paths.remember(key, path, end);
    }

    #[test]
    fn a_path_is_found_by_all_that_decides_it() {
        let mut paths = Paths::<Range>::default();
        remember(&mut paths, key(1, 5), 0x100, 3);
        let path = *paths.get(key(1, 5)).unwrap();
        assert_eq!((path.block, path.note, path.outcomes, path.ranges, path.instructions), (9, 1, 3, 3, 6));
        assert_eq!(paths.steps(&path).iter().map(|range| range.instructions).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(paths.get(key(2, 5)).is_none() && paths.get(key(1, 4)).is_none());
        assert!(paths.get(PathKey { end: 1, ..key(1, 5) }).is_none());
        assert!(paths.get(PathKey { kind: 1, ..key(1, 5) }).is_none());
        paths.clear();
        assert!(paths.get(key(1, 5)).is_none());
    }

    #[test]
    fn a_name_stands_for_the_same_ranges_ever_after() {
        let (mut paths, mut known) = (Paths::<Range>::default(), std::collections::HashMap::new());
        for n in 0..200_000 {
            remember(&mut paths, key(n % 50_000, 1), n.into(), 1 + n % 7);
            let path = *paths.get(key(n % 50_000, 1)).unwrap();
            let id = paths.id(&path);
            assert!(id.number < 1 << 18);
            let ranges = (paths.steps(&path)[0].start, path.ranges);
            assert_eq!(*known.entry(id).or_insert(ranges), ranges);
            if n == 100_000 {
                // The copy remembers paths of its own under names of its own.
                let mut copy = paths.clone();
                let before = copy.id(&path);
                remember(&mut copy, key(7, 7), 0xF00, 1);
                let added = copy.id(copy.get(key(7, 7)).unwrap());
                assert!(!known.contains_key(&before) && !known.contains_key(&added) && before != added);
            }
        }
        let generations = known.keys().map(|id| id.generation).collect::<std::collections::HashSet<_>>();
        assert!(generations.len() > 10, "{}", generations.len());
    }

    #[test]
    fn memory_is_bounded_and_what_is_found_is_what_was_stored() {
        let mut paths = Paths::<Range>::default();
        for n in 0..100_000 {
            remember(&mut paths, key(n, 1), n.into(), 1 + n % LONGEST_PATH as u32);
            let path = *paths.get(key(n, 1)).unwrap();
            assert!(paths.steps(&path).iter().all(|range| range.start == Address(n.into())));
            assert_eq!(u32::from(path.ranges), 1 + n % LONGEST_PATH as u32);
        }
        assert!(paths.slots.len() <= SLOTS.1 && paths.steps.len() * size_of::<Range>() <= MOST_BYTES);
    }

    #[test]
    fn where_all_paths_are_new_nothing_is_looked_up_for_a_while() {
        let mut paths = Paths::<Range>::default();
        let mut used = 0;
        for n in 0..REVIEW + REST {
            if paths.are_used() {
                used += 1;
                remember(&mut paths, key(n, 1), 0, 1);
            }
        }
        assert!(used < REVIEW + 2, "{used}");
        let mut again = 0;
        for _ in 0..100 * REVIEW {
            if paths.are_used() {
                paths.count_use();
                again += 1;
            }
        }
        assert!(again > 98 * REVIEW, "{again}");
    }
}
