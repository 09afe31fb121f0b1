//! The smallest buffer that never overflows.

/// A rate at which a buffer is emptied: so many bytes in so many cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Bytes.
    pub bytes: u64,
    /// Cycles; not 0.
    pub cycles: u64,
}

/// How full a buffer of any size gets, that is emptied at a steady rate.
///
/// What arrives in a cycle is in the buffer at once, and leaves it from the next cycle on. A byte keeps its place until
/// all of it has left.
#[derive(Clone, Debug)]
pub struct Buffer {
    drain: Drain,
    /// In bytes divided by the cycles of the drain, so that rates that are no whole number of bytes a cycle are exact.
    level: u128,
    highest: u128,
    then: u64,
}

impl Buffer {
    /// An empty one.
    pub fn new(drain: Drain) -> Self {
        Self { drain, level: 0, highest: 0, then: 0 }
    }

    /// Bytes arrive in a cycle, which is not before that of the last ones.
    pub fn add(&mut self, cycle: u64, bytes: u64) {
        let elapsed = cycle.saturating_sub(self.then);
        self.then = self.then.max(cycle);
        self.level = self.level.saturating_sub(u128::from(elapsed) * u128::from(self.drain.bytes));
        self.level += u128::from(bytes) * u128::from(self.drain.cycles);
        self.highest = self.highest.max(self.level);
    }

    /// The most bytes that were in it: a buffer that holds as many never overflows, one that holds fewer does.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.highest.div_ceil(u128::from(self.drain.cycles.max(1)))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A buffer of so many bytes, cycle by cycle and byte by byte. Does it overflow?
    fn overflows(capacity: u64, drain: Drain, arrivals: &[(u64, u64)]) -> bool {
        let (mut held, mut credit) = (0, 0);
        let mut arrivals = arrivals.iter().peekable();
        let mut cycle = 0;
        while let Some((next, _)) = arrivals.peek() {
            while cycle < *next {
                cycle += 1;
                credit = if held > 0 { credit + drain.bytes } else { 0 };
                while credit >= drain.cycles && held > 0 {
                    held -= 1;
                    credit -= drain.cycles;
                }
                if held == 0 {
                    credit = 0;
                }
            }
            while let Some((_, bytes)) = arrivals.next_if(|(at, _)| *at == cycle) {
                held += bytes;
                if held > capacity {
                    return true;
                }
            }
        }
        false
    }

    proptest! {
        #[test]
        fn a_buffer_of_that_size_does_not_overflow_and_one_of_a_byte_less_does(
            steps in prop::collection::vec((0u64..40, 1u64..30), 1..200),
            bytes in 1u64..2000,
            cycles in 1u64..2000,
        ) {
            let drain = Drain { bytes, cycles };
            let mut now = 1;
            let arrivals: Vec<_> = steps.iter().map(|&(wait, bytes)| { now += wait; (now, bytes) }).collect();
            let mut buffer = Buffer::new(drain);
            arrivals.iter().for_each(|&(cycle, bytes)| buffer.add(cycle, bytes));
            prop_assert!(!overflows(buffer.bytes(), drain, &arrivals));
            prop_assert!(overflows(buffer.bytes() - 1, drain, &arrivals));
        }
    }

    #[test]
    fn a_fast_drain_needs_room_for_what_arrives_at_once() {
        let mut buffer = Buffer::new(Drain { bytes: 4, cycles: 1 });
        for (cycle, bytes) in [(1, 3), (2, 7), (3, 1), (10, 5)] {
            buffer.add(cycle, bytes);
        }
        assert_eq!(buffer.bytes(), 7);
    }
}
