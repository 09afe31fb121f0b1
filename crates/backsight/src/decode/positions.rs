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

    /// Forgets what is long past.
    pub fn forget(&mut self) {
        let keep = self.end.saturating_sub(KEPT);
        let gone = self.runs.partition_point(|&(offset, _)| offset <= keep).saturating_sub(1);
        // Now and then is enough: the rest has to be moved.
        if gone > self.runs.len() / 2 {
            self.runs.drain(..gone);
            self.latest.set(0);
        }
    }

    /// The position of the byte at `offset`; of bytes that are forgotten, that of the oldest which is not.
    pub fn of(&self, offset: u64) -> u64 {
        let latest = self.latest.get();
        let mut index = latest;
        let begins = |index: usize| self.runs.get(index).map(|&(offset, _)| offset);
        let within = |index| {
            begins(index).is_some_and(|begin| begin <= offset)
                && begins(index + 1).is_none_or(|next| offset < next)
        };
        if !within(index) {
            index = match within(latest + 1) {
                true => latest + 1,
                false => self.runs.partition_point(|&(begin, _)| begin <= offset).saturating_sub(1),
            };
            self.latest.set(index);
        }
        self.runs.get(index).map_or(offset, |&(begin, position)| position + offset.saturating_sub(begin))
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
            }
        }
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
            positions.forget();
        }
        assert!(positions.runs.len() < 50_000, "{}", positions.runs.len());
        let recent = 999_000 * 15 + 3;
        assert_eq!(positions.of(recent), 999_000 * 16 + 3);
    }
}
