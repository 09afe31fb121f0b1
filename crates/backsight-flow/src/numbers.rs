//! What is kept of ranges and of paths, by number.
//!
//! A trace of millions of ranges has a few thousand different ones, and followers name the paths that come again. Who takes
//! execution gives each different range a number, keeps what is known of it under that, and finds the number here; what is known
//! of a path is kept under the number that the follower has given it.

use backsight_core::AddressSpace;

use crate::{PathId, Range};

/// Finds the numbers that ranges of address spaces have been given. The ranges are with those who give the numbers; they also
/// say which ranges are the same: they ask with `is_it`.
#[derive(Clone, Debug, Default)]
pub struct RangeNumbers {
    /// Open addressing: a power of two of them, at most half of them used.
    slots: Vec<Slot>,
    used: usize,
}

/// Where a number is found.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    number: u32,
}

/// No range has this number.
const FREE: u32 = u32::MAX;

/// Slots at first.
const FEWEST_SLOTS: usize = 1 << 6;

/// Ranges that differ in nothing but how they ended are next to each other.
#[inline]
fn hash(range: &Range, space: AddressSpace) -> u32 {
    /// The golden ratio in 64 bits, odd: its multiples spread well.
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let space = space.process() << 8 | u32::from(space.view());
    let one = (range.start.0 ^ u64::from(space) << 32).wrapping_mul(SPREAD);
    ((one ^ range.end.0).wrapping_mul(SPREAD) >> 32) as u32
}

impl RangeNumbers {
    /// The number of a range, if it has one.
    #[inline]
    pub fn find(&self, range: &Range, space: AddressSpace, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.slot_of(range, space, is_it).map(|slot| self.slots[slot].number)
    }

    #[inline]
    fn slot_of(&self, range: &Range, space: AddressSpace, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        let (hash, mask) = (hash(range, space), self.slots.len().wrapping_sub(1));
        let mut next = hash as usize & mask;
        loop {
            match *self.slots.get(next)? {
                Slot { number: FREE, .. } => return None,
                slot if slot.hash == hash && is_it(slot.number) => return Some(next),
                _ => next = (next + 1) & mask,
            }
        }
    }

    /// Gives a range a number in place of the one that it may have.
    pub fn set(&mut self, range: &Range, space: AddressSpace, is_it: impl Fn(u32) -> bool, number: u32) {
        match self.slot_of(range, space, is_it) {
            Some(slot) => self.slots[slot].number = number,
            None => self.insert(range, space, number),
        }
    }

    /// Gives a number to a range that has none.
    pub fn insert(&mut self, range: &Range, space: AddressSpace, number: u32) {
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            let free = Slot { hash: 0, number: FREE };
            let more = vec![free; (self.slots.len() * 4).max(FEWEST_SLOTS)];
            let slots = std::mem::replace(&mut self.slots, more);
            slots.into_iter().filter(|slot| slot.number != FREE).for_each(|slot| self.put(slot));
        }
        self.put(Slot { hash: hash(range, space), number });
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut free = slot.hash as usize & mask;
        while self.slots[free].number != FREE {
            free = (free + 1) & mask;
        }
        self.slots[free] = slot;
    }

    /// No range has a number any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What is known of the paths of a follower, until it forgets them.
#[derive(Clone, Debug)]
pub struct ByPath<T> {
    generation: u64,
    /// By the numbers of the paths.
    known: Vec<Option<T>>,
}

impl<T> Default for ByPath<T> {
    fn default() -> Self {
        Self { generation: 0, known: Vec::new() }
    }
}

impl<T> ByPath<T> {
    /// What is known of a path.
    #[inline(always)]
    pub fn get(&self, path: PathId) -> Option<&T> {
        self.known.get(path.number as usize)?.as_ref().filter(|_| self.is_current(path))
    }

    /// The same, to change it.
    #[inline(always)]
    pub fn get_mut(&mut self, path: PathId) -> Option<&mut T> {
        let is_current = self.is_current(path);
        self.known.get_mut(path.number as usize)?.as_mut().filter(|_| is_current)
    }

    /// Is this a path of the same generation as those that something is known of?
    pub fn is_current(&self, path: PathId) -> bool {
        self.generation == path.generation
    }

    /// Keeps what is known of a path. Of paths with numbers that no follower gives, nothing is kept.
    pub fn insert(&mut self, path: PathId, what: T) {
        if path.number >= PathId::MOST {
            return;
        }
        self.begin(path);
        let index = path.number as usize;
        if self.known.len() <= index {
            self.known.resize_with(index + 1, || None);
        }
        self.known[index] = Some(what);
    }

    /// Forgets all where this is not a path of the same generation: then its follower has forgotten the others. Says whether it is.
    pub fn begin(&mut self, path: PathId) -> bool {
        let goes_on = self.is_current(path);
        if !goes_on {
            self.clear();
            self.generation = path.generation;
        }
        goes_on
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use backsight_core::{Address, Isa};

    use super::*;

    fn range(start: u64, executed: bool) -> Range {
        let (start, end) = (Address(start), Address(start + 4));
        let (class, flags) = Default::default();
        Range { start, end, instructions: 1, isa: Isa::A64, class, flags, last_size: 4, executed }
    }

    #[test]
    fn ranges_are_found_by_the_numbers_that_they_were_given_last() {
        let mut random = backsight_testing::Random(8);
        let (mut numbers, mut given) = (RangeNumbers::default(), Vec::<(Range, AddressSpace)>::new());
        for _ in 0..5000 {
            let space = AddressSpace::ANY.in_process(random.below(3) as u32);
            let range = range(random.below(500) * 4, random.below(2) == 0);
            let is_it = |number: u32| given[number as usize] == (range, space);
            let newest = given.iter().rposition(|&one| one == (range, space)).map(|number| number as u32);
            assert_eq!(numbers.find(&range, space, is_it), newest);
            if newest.is_none() || random.below(50) == 0 {
                numbers.set(&range, space, is_it, given.len() as u32);
                given.push((range, space));
            }
        }
        assert!(given.len() > 2200 && numbers.slots.len() == 1 << 14);
        numbers.clear();
        assert_eq!(numbers.find(&given[0].0, given[0].1, |_| true), None);
    }

    #[test]
    fn paths_are_known_until_their_follower_forgets_them() {
        let path = |generation, number| PathId { generation, number };
        let mut known = ByPath::default();
        known.insert(path(1, 7), "seven");
        assert_eq!(known.get(path(1, 7)), Some(&"seven"));
        assert_eq!((known.get(path(1, 6)), known.get(path(0, 7)), known.get(path(2, 7))), (None, None, None));
        assert!(known.begin(path(1, 3)) && known.get(path(1, 7)).is_some());
        assert!(!known.begin(path(2, 3)));
        assert_eq!((known.get(path(1, 7)), known.get(path(2, 7))), (None, None));
        known.insert(path(2, PathId::MOST), "too many");
        assert_eq!(known.get(path(2, PathId::MOST)), None);
    }
}
