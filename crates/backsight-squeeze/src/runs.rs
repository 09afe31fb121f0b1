//! Counters of runs: many events in a row that went as predicted become one count.
//!
//! The width of the count adapts to the runs. A monitor of four bits goes up by three when a run fills the counter and
//! down by one when a run is short; at 15 the counter gains a bit, at 0 it loses one. The reader sees the same
//! counts, and adapts alike.

/// When a run is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// When it does not fill the counter (adaptive zero-length counter).
    NotFull,
    /// When it fills less than half of the counter (adaptive one-length counter).
    BelowHalf,
}

const WIDEST: u32 = 16;
const FIRST_WIDTH: u32 = 4;
const MIDDLE: u8 = 8;

/// Counts runs.
#[derive(Clone, Debug)]
pub struct RunCounter {
    short: Short,
    width: u32,
    monitor: u8,
    run: u64,
}

/// A count to write: one less than the length of the run, and its width in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The run's length, less one.
    pub value: u64,
    /// Bits.
    pub width: u32,
}

impl RunCounter {
    /// Nothing counted.
    pub fn new(short: Short) -> Self {
        Self { short, width: FIRST_WIDTH, monitor: MIDDLE, run: 0 }
    }

    /// Bits of the next count.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// One more event of the run. Gives a count when the counter is full.
    #[inline]
    pub fn hit(&mut self) -> Option<Count> {
        self.run += 1;
        if self.run == 1 << self.width { self.end() } else { None }
    }

    /// The run is over. Gives its count if it is not empty.
    #[inline]
    pub fn end(&mut self) -> Option<Count> {
        if self.run == 0 {
            return None;
        }
        let count = Count { value: self.run - 1, width: self.width };
        self.run = 0;
        self.adapt(count.value);
        Some(count)
    }

    /// Adapts to a count that was written or read.
    pub fn adapt(&mut self, value: u64) {
        let full = 1u64 << self.width;
        if value + 1 == full {
            self.monitor = (self.monitor + 3).min(15);
        } else if self.short == Short::NotFull || value + 1 < full / 2 {
            self.monitor -= 1;
        }
        match self.monitor {
            15 => self.width = (self.width + 1).min(WIDEST),
            0 => self.width = self.width.saturating_sub(1),
            _ => return,
        }
        self.monitor = MIDDLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_widen_the_counter_and_short_ones_narrow_it() {
        let mut counter = RunCounter::new(Short::NotFull);
        let counts: Vec<_> = (0..48).filter_map(|_| counter.hit()).collect();
        assert_eq!(counts, vec![Count { value: 15, width: 4 }; 3]);
        assert_eq!(counter.width(), 5, "8 + 3 + 3 + 3 reaches 15");
        for _ in 0..8 {
            counter.hit();
            assert!(counter.end().is_some());
        }
        assert_eq!(counter.width(), 4);
        assert_eq!(counter.end(), None);
    }

    #[test]
    fn runs_of_half_the_counter_leave_a_one_length_counter_alone() {
        let mut counter = RunCounter::new(Short::BelowHalf);
        for _ in 0..100 {
            (0..8).for_each(|_| assert_eq!(counter.hit(), None));
            counter.end();
        }
        assert_eq!(counter.width(), 4);
        (0..8).for_each(|_| {
            counter.hit();
            counter.end();
        });
        assert_eq!(counter.width(), 3);
    }

    #[test]
    fn a_counter_without_bits_is_always_full() {
        let mut counter = RunCounter::new(Short::NotFull);
        while counter.width() > 0 {
            counter.hit();
            counter.end();
        }
        assert_eq!(counter.hit(), Some(Count { value: 0, width: 0 }));
    }
}
