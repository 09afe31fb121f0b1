//! What is known of straight-line code, by the number that it goes by.

use alloc::vec;
use alloc::vec::Vec;

/// Things by number. Memory is bounded: a new one takes the slot of an older one.
#[derive(Clone, Debug)]
pub struct ByNumber<T, const SLOTS: usize = 4096>(Vec<(u64, T)>);

impl<T, const SLOTS: usize> Default for ByNumber<T, SLOTS> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy, const SLOTS: usize> ByNumber<T, SLOTS> {
    /// What is known by this number.
    #[inline(always)]
    pub fn get(&self, number: u64) -> Option<&T> {
        let (known, thing) = self.0.get(number as usize % SLOTS)?;
        (*known == number).then_some(thing)
    }

    /// The same; what is not known is what `find` finds.
    #[inline]
    pub fn get_or_find(&mut self, number: u64, find: impl FnOnce() -> Option<T>) -> Option<&T> {
        if self.get(number).is_none() {
            self.put(number, find()?);
        }
        self.get(number)
    }

    /// Remembers what goes by this number.
    #[cold]
    #[inline(never)]
    pub fn put(&mut self, number: u64, thing: T) {
        if self.0.is_empty() {
            // In every slot there is what is right for its number.
            self.0 = vec![(number, thing); SLOTS];
        }
        self.0[number as usize % SLOTS] = (number, thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_kept_until_another_number_takes_its_slot() {
        const SLOTS: usize = 64;
        let mut known = ByNumber::<u64, SLOTS>::default();
        for number in 0..2 * SLOTS as u64 {
            assert_eq!(known.get_or_find(number, || Some(number)), Some(&number));
        }
        assert_eq!(known.get(3), None);
        assert_eq!(known.get_or_find(SLOTS as u64 + 3, || None), Some(&(SLOTS as u64 + 3)));
        assert_eq!(known.get_or_find(3, || None), None);
    }
}
