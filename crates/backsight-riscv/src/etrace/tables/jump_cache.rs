//! Jump target cache.

use alloc::vec;
use alloc::vec::Vec;

use super::super::Params;

/// 2^n targets of uninferable jumps, direct mapped.
#[derive(Clone, Debug)]
pub struct JumpCache {
    /// Target and the epoch it was entered in; entries of other epochs are invalid.
    entries: Vec<(u64, u64)>,
    epoch: u64,
    lsb: u8,
}

impl JumpCache {
    /// A cache of 2^cache_size entries.
    pub fn new(params: &Params) -> Self {
        Self { entries: vec![(0, 0); 1 << params.cache_size.min(16)], epoch: 1, lsb: params.iaddress_lsb }
    }

    /// Forgets everything.
    #[inline]
    pub fn reset(&mut self) {
        self.epoch += 1;
    }

    /// The only entry that can hold `target`.
    #[inline]
    pub fn index(&self, target: u64) -> u32 {
        ((target >> self.lsb) as usize & (self.entries.len() - 1)) as u32
    }

    /// The target in an entry.
    #[inline]
    pub fn get(&self, index: u32) -> Option<u64> {
        match self.entries.get(index as usize) {
            Some(&(target, epoch)) if epoch == self.epoch => Some(target),
            _ => None,
        }
    }

    /// Enters a target.
    #[inline]
    pub fn insert(&mut self, target: u64) {
        let index = self.index(target) as usize;
        self.entries[index] = (target, self.epoch);
    }
}

/// Equal if they hold the same targets.
impl PartialEq for JumpCache {
    fn eq(&self, other: &Self) -> bool {
        let same = |index| self.get(index) == other.get(index);
        (self.entries.len(), self.lsb) == (other.entries.len(), other.lsb)
            && (0..self.entries.len() as u32).all(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_direct_mapped_and_forgotten_at_a_reset() {
        let mut cache = JumpCache::new(&Params { cache_size: 3, ..Params::default() });
        assert_eq!(cache.get(0), None);
        cache.insert(0x8000_0002);
        assert_eq!((cache.index(0x8000_0002), cache.get(1)), (1, Some(0x8000_0002)));
        cache.insert(0x8000_0012);
        assert_eq!(cache.get(1), Some(0x8000_0012));
        cache.reset();
        assert_eq!((cache.get(1), cache.get(99)), (None, None));
    }
}
