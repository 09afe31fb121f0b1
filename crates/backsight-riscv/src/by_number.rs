//! What is known of straight-line code, by the number that it goes by.

use alloc::vec;
use alloc::vec::Vec;

/// Pieces of code that are remembered at a time.
const REMEMBERED: usize = 1 << 12;

/// Things by number. Memory is bounded: a new one takes the slot of an older one.
#[derive(Clone, Debug)]
pub struct ByNumber<T>(Vec<(u64, T)>);

impl<T> Default for ByNumber<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> ByNumber<T> {
    /// What is known by this number.
    #[inline(always)]
    pub fn get(&self, number: u64) -> Option<&T> {
        let (known, thing) = self.0.get(number as usize % REMEMBERED)?;
        (*known == number).then_some(thing)
    }

    /// The same; what is not known is what `find` finds.
    #[inline]
    pub fn get_or_find(&mut self, number: u64, find: impl FnOnce() -> Option<T>) -> Option<&T> {
        if self.get(number).is_none() {
            self.remember(number, find()?);
        }
        self.get(number)
    }

    #[cold]
    #[inline(never)]
    fn remember(&mut self, number: u64, thing: T) {
        if self.0.is_empty() {
            // In every slot there is what is right for its number.
            self.0 = vec![(number, thing); REMEMBERED];
        }
        self.0[number as usize % REMEMBERED] = (number, thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_kept_until_another_number_takes_its_slot() {
        let mut known = ByNumber::default();
        for number in 0..2 * REMEMBERED as u64 {
            assert_eq!(known.get_or_find(number, || Some(number)), Some(&number));
        }
        assert_eq!(known.get(3), None);
        assert_eq!(known.get_or_find(REMEMBERED as u64 + 3, || None), Some(&(REMEMBERED as u64 + 3)));
        assert_eq!(known.get_or_find(3, || None), None);
    }
}
