//! Numbers of processes and threads.
//!
//! An operating system counts on and takes a number again when its owner is gone. With few numbers that happens soon.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

/// Numbers that are given and given back.
#[derive(Debug)]
pub struct Numbers {
    most: Option<NonZeroU32>,
    last: u32,
    used: BTreeSet<u32>,
}

impl Numbers {
    /// Numbers from 1 to `most`; without a limit, those that are wished for.
    pub fn new(most: Option<NonZeroU32>) -> Self {
        Self { most, last: 0, used: BTreeSet::new() }
    }

    /// A number that nobody has: the next free one, or above the limit if all are in use.
    pub fn take(&mut self, wish: u32) -> u32 {
        let number = match self.most {
            None => wish,
            Some(most) => {
                let most = most.get();
                let free = |number: &u32| !self.used.contains(number);
                let next = (self.last + 1..=most).chain(1..=self.last.min(most)).find(free);
                next.unwrap_or_else(|| self.used.last().map_or(1, |last| last + 1))
            }
        };
        self.last = number;
        self.used.insert(number);
        number
    }

    /// A number that was given back is in use again.
    pub fn keep(&mut self, number: u32) {
        self.used.insert(number);
    }

    /// Its owner is gone.
    pub fn give_back(&mut self, number: u32) {
        self.used.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_again_only_after_all_others() {
        let mut numbers = Numbers::new(NonZeroU32::new(3));
        assert_eq!([numbers.take(90), numbers.take(91)], [1, 2]);
        numbers.give_back(1);
        assert_eq!([numbers.take(92), numbers.take(93)], [3, 1]);
        assert_eq!(numbers.take(94), 4, "all are in use");
    }
}
