//! Where the bytes of one source are in the capture.
//!
//! A decoder counts the bytes of its own stream; frames have scattered them over the capture. What is known of them is
//! kept run by run, and looked up when somebody asks.

use std::cell::Cell;

use backsight_arm::frame::Run;

/// Bytes of a stream, before the newest ones, whose positions are kept: what was decoded may yet be spoken of.
const KEPT: u64 = 1 << 18;

/// Where the recent bytes of a stream are.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// (offset in the stream, position in the capture) of the first byte of each run.
    runs: Vec<(u64, u64)>,
    /// Offset after the last byte.
    end: u64,
    /// The run that was asked for last: the next question is most often about it or the one after it.
    latest: Cell<usize>,
}

impl Positions {
    /// Of a stream whose first bytes, so many, are of no interest.
    pub fn starting_at(offset: u64) -> Self {
        Self { end: offset, ..Self::default() }
    }

    /// The stream goes on with so many bytes, the first at `position`.
    pub fn push(&mut self, position: u64, length: usize) {
        let continues =
            self.runs.last().is_some_and(|&(offset, first)| first + (self.end - offset) == position);
        if !continues {
            self.runs.push((self.end, position));
        }
        self.end += length as u64;
    }

    /// The stream goes on with `length` bytes, whose runs these are.
    pub fn push_runs(&mut self, runs: &[Run], length: usize) {
        let ends = runs.iter().skip(1).map(|run| run.at as usize).chain([length]);
        for (run, end) in runs.iter().zip(ends) {
            self.push(run.index, end.saturating_sub(run.at as usize));
        }
    }

    /// Forgets what is long past, but for the byte at `needed` and the one before it.
    pub fn forget(&mut self, needed: u64) {
        let run_of = |offset| self.runs.partition_point(|&(begin, _)| begin <= offset).saturating_sub(1);
        let gone = run_of(self.end.saturating_sub(KEPT));
        let (from, to) = (run_of(needed.saturating_sub(1)).min(gone), (run_of(needed) + 1).min(gone));
        // Now and then is enough: the rest has to be moved.
        if gone - (to - from) > self.runs.len() / 2 {
            self.runs.drain(to..gone);
            self.runs.drain(..from);
            self.latest.set(0);
        }
    }

    /// The position of the byte at `offset`; of bytes that are forgotten, that of the oldest which is not.
    pub fn of(&self, offset: u64) -> u64 {
        let run = self.runs.get(self.run_of(offset));
        run.map_or(offset, |&(begin, position)| position + offset.saturating_sub(begin))
    }

    /// The bytes around the one at `offset` that follow one another in the capture, too, as far as they are known.
    pub fn stretch_of(&self, offset: u64) -> Stretch {
        let run = self.run_of(offset);
        let position = self.of(offset);
        match self.runs.get(run) {
            Some(&(begin, _)) if begin <= offset && offset < self.end => {
                let end = self.runs.get(run + 1).map_or(self.end, |&(next, _)| next);
                Stretch { begin, end, displacement: position.wrapping_sub(offset) }
            }
            _ => Stretch::of_one(offset, position),
        }
    }

    /// The run of the byte at `offset`.
    fn run_of(&self, offset: u64) -> usize {
        let latest = self.latest.get();
        let begins = |index: usize| self.runs.get(index).map(|&(offset, _)| offset);
        let within = |index| {
            begins(index).is_some_and(|begin| begin <= offset)
                && begins(index + 1).is_none_or(|next| offset < next)
        };
        if within(latest) {
            return latest;
        }
        let run = match within(latest + 1) {
            true => latest + 1,
            false => self.runs.partition_point(|&(begin, _)| begin <= offset).saturating_sub(1),
        };
        self.latest.set(run);
        run
    }
}

/// Bytes of a source that follow one another in the buffer, as they do in the stream of the source. None, by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    begin: u64,
    end: u64,
    /// How much larger the position of a byte is than its offset; it wraps around where it is smaller.
    pub displacement: u64,
}

impl Stretch {
    /// One byte of which no more is known than its position.
    pub(crate) const fn of_one(offset: u64, position: u64) -> Self {
        Self { begin: offset, end: offset.saturating_add(1), displacement: position.wrapping_sub(offset) }
    }

    /// Is the byte with this offset one of them?
    #[inline]
    pub const fn contains(&self, offset: u64) -> bool {
        self.begin <= offset && offset < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_position_in_whatever_order_one_asks() {
        let mut positions = Positions::default();
        let mut expected = Vec::new();
        for run in 0..1000_u64 {
            let length = 1 + run * 7 % 15;
            positions.push(run * 16, length as usize);
            expected.extend((0..length).map(|byte| run * 16 + byte));
        }
        for stride in [1, 2, 17, 4001] {
            for question in 0..expected.len() {
                let offset = question * stride % expected.len();
                assert_eq!(positions.of(offset as u64), expected[offset]);
                let stretch = positions.stretch_of(offset as u64);
                assert!(stretch.contains(offset as u64));
                let known = expected.iter().zip(0..).filter(|(_, other)| stretch.contains(*other));
                let known: Vec<_> = known.collect();
                assert!(known.len() <= 15);
                for (&position, other) in known {
                    assert_eq!(position, other + stretch.displacement);
                }
            }
        }
    }

    #[test]
    fn a_stretch_ends_where_the_capture_goes_on_elsewhere() {
        let mut positions = Positions::starting_at(7);
        assert_eq!(positions.stretch_of(9), Stretch { begin: 9, end: 10, displacement: 0 });
        positions.push(100, 10);
        positions.push(5, 3);
        let below = 5_u64.wrapping_sub(17);
        assert_eq!(positions.stretch_of(16), Stretch { begin: 7, end: 17, displacement: 93 });
        assert_eq!(positions.stretch_of(17), Stretch { begin: 17, end: 20, displacement: below });
        // Not there yet, and forgotten: what is said of one byte need not hold for the next.
        assert_eq!(positions.stretch_of(20), Stretch { begin: 20, end: 21, displacement: below });
        assert_eq!(positions.stretch_of(3), Stretch { begin: 3, end: 4, displacement: 97 });
    }

    #[test]
    fn runs_that_continue_each_other_are_one() {
        let mut positions = Positions::default();
        positions.push(100, 10);
        positions.push(110, 10);
        assert_eq!((positions.runs.len(), positions.of(15)), (1, 115));
    }

    #[test]
    fn memory_stays_bounded_and_recent_bytes_keep_their_positions() {
        let mut positions = Positions::default();
        for frame in 0..1_000_000_u64 {
            positions.push(frame * 16, 15);
            positions.forget(positions.end);
        }
        assert!(positions.runs.len() < 50_000, "{}", positions.runs.len());
        let recent = 999_000 * 15 + 3;
        assert_eq!(positions.of(recent), 999_000 * 16 + 3);
    }
}
