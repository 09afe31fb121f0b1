//! Which ranges of addresses are mapped, and what may be done there.

use std::collections::BTreeMap;

/// What may be done with a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Fetches.
    pub execute: bool,
    /// What is there came from a file: it cannot be made zero again.
    pub backed: bool,
}

impl Protection {
    /// Read only.
    #[cfg(test)]
    pub const READ: Self = Self { read: true, write: false, execute: false, backed: false };
    /// Read and write.
    pub const DATA: Self = Self { read: true, write: true, execute: false, backed: false };
}

/// As many as Linux allows by default.
const MOST: usize = 65_530;

/// Ranges that do not overlap, by their first address.
#[derive(Default)]
pub struct Mappings {
    ranges: BTreeMap<u64, (u64, Protection)>,
}

impl Mappings {
    /// What may be done at an address, if it is mapped.
    pub fn at(&self, address: u64) -> Option<Protection> {
        let (_, &(end, protection)) = self.ranges.range(..=address).next_back()?;
        (address < end).then_some(protection)
    }

    /// Is all of it mapped?
    pub fn covers(&self, start: u64, end: u64) -> bool {
        let mut reached = start;
        for (&first, &(last, _)) in self.overlapping(start, end) {
            if first > reached {
                return false;
            }
            reached = last;
        }
        reached >= end
    }

    /// Is none of it mapped?
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).next().is_none()
    }

    /// The parts of a range that are mapped: from, to, and what may be done there.
    pub fn parts(&self, start: u64, end: u64) -> Vec<(u64, u64, Protection)> {
        self.overlapping(start, end)
            .map(|(&first, &(last, protection))| (first.max(start), last.min(end), protection))
            .collect()
    }

    /// The highest free range of `length` bytes that lies in `low..high`.
    pub fn find_free(&self, length: u64, low: u64, high: u64) -> Option<u64> {
        let mut top = high;
        for (&first, &(last, _)) in self.ranges.range(..high).rev() {
            if last < top && top - last >= length {
                break;
            }
            top = top.min(first);
        }
        top.checked_sub(length).filter(|&start| start >= low)
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (&u64, &(u64, Protection))> {
        let first = match self.ranges.range(..=start).next_back() {
            Some((&first, &(last, _))) if last > start => first,
            _ => start,
        };
        self.ranges.range(first..end.max(first))
    }

    /// Maps `start..end`, or unmaps it. Changes nothing and says false if there would be too many mappings.
    pub fn set(&mut self, start: u64, end: u64, protection: Option<Protection>) -> bool {
        if start >= end {
            return true;
        }
        if self.ranges.len() + 2 > MOST {
            return false;
        }
        let cut: Vec<_> = self.overlapping(start, end).map(|(&first, &range)| (first, range)).collect();
        for (first, (last, old)) in cut {
            self.ranges.remove(&first);
            if first < start {
                self.ranges.insert(first, (start, old));
            }
            if last > end {
                self.ranges.insert(end, (last, old));
            }
        }
        if let Some(protection) = protection {
            self.insert(start, end, protection);
        }
        true
    }

    /// Joins neighbours of the same protection, so that a heap that grows stays one range.
    fn insert(&mut self, start: u64, end: u64, protection: Protection) {
        let before = self.ranges.range(..start).next_back().map(|(&first, &range)| (first, range));
        let start = match before {
            Some((first, (last, same))) if last == start && same == protection => first,
            _ => start,
        };
        let end = match self.ranges.get(&end) {
            Some(&(last, same)) if same == protection => {
                self.ranges.remove(&end);
                last
            }
            _ => end,
        };
        self.ranges.insert(start, (end, protection));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_splits_a_mapping() {
        let mut mappings = Mappings::default();
        assert!(mappings.set(0x1000, 0x9000, Some(Protection::DATA)));
        assert!(mappings.set(0x3000, 0x4000, None));
        assert!(mappings.covers(0x1000, 0x3000) && mappings.covers(0x4000, 0x9000));
        assert!(!mappings.covers(0x1000, 0x9000));
        assert_eq!(mappings.at(0x3FFF), None);
        assert!(mappings.is_free(0x3000, 0x4000) && !mappings.is_free(0x3000, 0x4001));
    }

    #[test]
    fn the_highest_hole_that_fits_is_found() {
        let mut mappings = Mappings::default();
        assert!(mappings.set(0x8000, 0x9000, Some(Protection::READ)));
        assert_eq!(mappings.find_free(0x1000, 0x1000, 0xA000), Some(0x9000));
        assert_eq!(mappings.find_free(0x2000, 0x1000, 0xA000), Some(0x6000));
        assert_eq!(mappings.find_free(0x8000, 0x1000, 0xA000), None);
        assert_eq!(mappings.find_free(0x1000, 0x1000, 0x8800), Some(0x7000));
    }

    #[test]
    fn neighbours_of_one_protection_are_joined() {
        let mut mappings = Mappings::default();
        for start in [0x1000, 0x3000, 0x2000] {
            assert!(mappings.set(start, start + 0x1000, Some(Protection::DATA)));
        }
        assert_eq!(mappings.ranges.len(), 1);
    }
}
