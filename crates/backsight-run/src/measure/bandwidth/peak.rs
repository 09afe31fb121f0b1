//! Most bytes in a window of time.

use std::collections::VecDeque;

/// The most bytes in any window of so many cycles, wherever it begins.
#[derive(Clone, Debug)]
pub struct Peak {
    window: u64,
    /// What arrived in the window that ends now, by cycle: at most one entry for each.
    recent: VecDeque<(u64, u64)>,
    sum: u64,
    most: u64,
}

impl Peak {
    /// Nothing yet; `window` is in cycles.
    pub fn new(window: u64) -> Self {
        Self { window: window.max(1), recent: VecDeque::new(), sum: 0, most: 0 }
    }

    /// Bytes arrive in a cycle, which is not before that of the last ones.
    pub fn add(&mut self, cycle: u64, bytes: u64) {
        match self.recent.back_mut() {
            Some((last, sum)) if *last == cycle => *sum += bytes,
            _ => self.recent.push_back((cycle, bytes)),
        }
        self.sum += bytes;
        while let Some(&(first, gone)) = self.recent.front() {
            if cycle.saturating_sub(first) < self.window {
                break;
            }
            self.sum -= gone;
            self.recent.pop_front();
        }
        self.most = self.most.max(self.sum);
    }

    /// The most bytes.
    pub fn bytes(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_window_has_more_and_one_has_as_many(
            steps in prop::collection::vec((0u64..9, 1u64..30), 1..100),
            window in 1u64..50,
        ) {
            let mut now = 0;
            let arrivals: Vec<_> = steps.iter().map(|&(wait, bytes)| { now += wait; (now, bytes) }).collect();
            let mut peak = Peak::new(window);
            arrivals.iter().for_each(|&(cycle, bytes)| peak.add(cycle, bytes));
            let in_window = |from: u64| -> u64 {
                arrivals.iter().filter(|(at, _)| (from..from + window).contains(at)).map(|(_, bytes)| bytes).sum()
            };
            prop_assert_eq!((0..=now).map(in_window).max(), Some(peak.bytes()));
        }
    }
}
