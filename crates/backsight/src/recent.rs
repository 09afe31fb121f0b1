//! What was found for an address the last time: execution comes to the same addresses again and again.

use backsight_core::Address;

/// Things by address. Memory is bounded: one takes the slot of another that falls on it. What a slot holds says itself
/// whether it is what is asked for.
#[derive(Clone, Debug)]
pub struct Recent<T, const SLOTS: usize = 4096> {
    /// None at first, then a power of two.
    slots: Vec<Option<T>>,
}

impl<T, const SLOTS: usize> Default for Recent<T, SLOTS> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

impl<T, const SLOTS: usize> Recent<T, SLOTS> {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// What is known for an address, if `is_it`; else what `find` finds.
    #[inline]
    pub fn get(
        &mut self,
        address: Address,
        is_it: impl FnOnce(&T) -> bool,
        find: impl FnOnce() -> T,
    ) -> &mut T {
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        let slot = (address.0 >> 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let slot = &mut self.slots[slot as usize % SLOTS];
        if !slot.as_ref().is_some_and(is_it) {
            *slot = None;
        }
        slot.get_or_insert_with(find)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 64;

    #[test]
    fn what_was_found_is_kept_until_another_address_takes_its_slot() {
        let mut recent = Recent::<u64, SLOTS>::default();
        for round in 0..2 {
            for address in 0..4 * SLOTS as u64 {
                let found = *recent.get(Address(address), |&known| known == address, || address);
                assert_eq!(found, address, "round {round}");
            }
        }
        assert_eq!(recent.slots.len(), SLOTS);
        let kept = *recent.get(Address(7), |&known| known == 7, || 7);
        let again = *recent.get(Address(7), |&known| known == 7, || panic!("it is known"));
        assert_eq!((kept, again), (7, 7));
    }
}
