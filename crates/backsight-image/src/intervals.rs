//! A map from ranges of addresses that do not overlap.

use std::collections::BTreeMap;
use std::ops::Bound;

/// What a range stands for. Ranges are cut when others are laid over them.
pub trait Value: Clone {
    /// What the rest stands for when `distance` addresses are cut off the front.
    fn advance(&mut self, distance: u64);
}

/// Ranges of addresses, each with a value. The last address of a range rather than the one after it is kept, since
/// that does not exist at the top of memory.
#[derive(Clone, Debug)]
pub struct Intervals<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Value> Intervals<T> {
    /// Lays a range over what is there.
    pub fn insert(&mut self, start: u64, last: u64, value: T) {
        self.clear(start, last);
        self.0.insert(start, (last, value));
    }

    /// Takes away what is in `start..=last`; true if there was something.
    pub fn clear(&mut self, start: u64, last: u64) -> bool {
        let mut any = false;
        if let Some((&first, (end, value))) = self.0.range_mut(..start).next_back()
            && *end >= start
        {
            any = true;
            let rest = (*end > last).then(|| (*end, advanced(value, last + 1 - first)));
            *end = start - 1;
            if let Some(rest) = rest {
                self.0.insert(last + 1, rest);
            }
        }
        while let Some((&first, _)) = self.0.range(start..=last).next() {
            any = true;
            let Some((end, value)) = self.0.remove(&first) else { break };
            if end > last {
                self.0.insert(last + 1, (end, advanced(&value, last + 1 - first)));
            }
        }
        any
    }

    /// The range that an address lies in: its first and last address, and its value.
    #[inline]
    pub fn find(&self, address: u64) -> Option<(u64, u64, &T)> {
        let (&start, (last, value)) = self.0.range(..=address).next_back()?;
        (address <= *last).then_some((start, *last, value))
    }

    /// Where the first range after `address` begins.
    pub fn next_start(&self, address: u64) -> Option<u64> {
        self.0.range((Bound::Excluded(address), Bound::Unbounded)).next().map(|(&start, _)| start)
    }

    /// All ranges, by address.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &T)> {
        self.0.iter().map(|(&start, (last, value))| (start, *last, value))
    }
}

fn advanced<T: Value>(value: &T, distance: u64) -> T {
    let mut value = value.clone();
    value.advance(distance);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counts up with the address.
    impl Value for u8 {
        fn advance(&mut self, distance: u64) {
            *self = self.wrapping_add(distance as u8);
        }
    }

    fn at(intervals: &Intervals<u8>, address: u64) -> Option<u8> {
        intervals.find(address).map(|(start, _, value)| value.wrapping_add((address - start) as u8))
    }

    #[test]
    fn ranges_reach_to_the_top_of_memory() {
        let mut intervals = Intervals::default();
        intervals.insert(u64::MAX - 3, u64::MAX, 7u8);
        assert_eq!(at(&intervals, u64::MAX - 1), Some(9));
        assert!(intervals.clear(u64::MAX, u64::MAX));
        assert_eq!((at(&intervals, u64::MAX), at(&intervals, u64::MAX - 1)), (None, Some(9)));
        assert!(!intervals.clear(0, 5));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn ranges_are_what_an_array_would_hold(
            steps in prop::collection::vec((0u64..60, 1u64..30, any::<u8>(), any::<bool>()), 1..20)
        ) {
            let mut intervals = Intervals::default();
            let mut naive = [None; 100];
            for (start, length, byte, insert) in steps {
                let (from, to) = (start as usize, (start + length) as usize);
                if insert {
                    intervals.insert(start, start + length - 1, byte);
                    for (distance, slot) in naive[from..to].iter_mut().enumerate() {
                        *slot = Some(byte.wrapping_add(distance as u8));
                    }
                } else {
                    let any = naive[from..to].iter().any(Option::is_some);
                    prop_assert_eq!(intervals.clear(start, start + length - 1), any);
                    naive[from..to].fill(None);
                }
            }
            for (address, byte) in naive.iter().enumerate() {
                prop_assert_eq!(at(&intervals, address as u64), *byte);
                let next = naive.iter().enumerate().skip(address + 1).find(|(place, _)| {
                    intervals.iter().any(|(start, _, _)| start == *place as u64)
                });
                prop_assert_eq!(intervals.next_start(address as u64), next.map(|(place, _)| place as u64));
            }
            let all: Vec<_> = intervals.iter().collect();
            for pair in all.windows(2) {
                prop_assert!(pair[0].1 < pair[1].0);
            }
        }
    }
}
