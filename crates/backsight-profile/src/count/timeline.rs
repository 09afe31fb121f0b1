//! Calls over time, as many as there is room for: the longest are kept.

/// A call from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The node of its thread in the tree of calls.
    pub root: u32,
    pub function: u32,
    /// Calls around it.
    pub depth: u32,
    /// Instructions that its core had executed when it began; [`UNKNOWN`] if it is the one that a stretch began with.
    pub begin: u64,
    /// And when it ended.
    pub end: u64,
}

/// The beginning of a call that is not known here.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// Calls over time. When there are too many, the shortest are left out, and from then on all that are as short.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    most: usize,
    pub slices: Vec<Slice>,
    /// Calls of fewer instructions are left out.
    pub shortest: u64,
    pub left_out: u64,
    /// It is that of a part of a source.
    pub is_of_part: bool,
}

impl Timeline {
    /// With room for so many; 0: nobody asks for them.
    pub fn new(most: usize) -> Self {
        Self { most, shortest: 1, ..Self::default() }
    }

    /// With room for all of a part of a source: the whole leaves out what is too short for it. `most` is its room.
    pub fn of_part(most: usize) -> Self {
        Self { most: if most > 0 { usize::MAX } else { 0 }, is_of_part: true, ..Self::default() }
    }

    /// Does anybody ask for calls over time?
    #[inline(always)]
    pub fn is_wanted(&self) -> bool {
        self.most > 0
    }

    #[inline]
    pub fn add(&mut self, slice: Slice) {
        if self.most == 0 {
            return;
        }
        if slice.end.wrapping_sub(slice.begin) < self.shortest {
            self.left_out += 1;
            return;
        }
        if self.slices.len() >= self.most {
            self.make_room();
        }
        self.slices.push(slice);
    }

    #[cold]
    fn make_room(&mut self) {
        let before = self.slices.len();
        let mut lengths: Vec<u64> = self.slices.iter().map(|slice| slice.end - slice.begin).collect();
        let (_, median, _) = lengths.select_nth_unstable(before / 2);
        self.shortest = *median + 1;
        self.slices.retain(|slice| slice.end - slice.begin >= self.shortest);
        self.left_out += (before - self.slices.len()) as u64;
    }
}

/// Which time it was after how many instructions, by the timestamps of the trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeAxis {
    /// Instructions and time, in order.
    pub points: Vec<(u64, u64)>,
    /// Of so many timestamps one is kept.
    every: u64,
    skipped: u64,
    /// All are kept: those of a part of a source.
    pub is_of_part: bool,
}

/// Points of the axis that are kept.
const MOST_POINTS: usize = 1 << 14;

impl TimeAxis {
    pub fn add(&mut self, clock: u64, time: u64) {
        if self.is_of_part {
            return self.points.push((clock, time));
        }
        self.skipped += 1;
        if self.skipped < self.every || self.points.last().is_some_and(|&(_, before)| time < before) {
            return;
        }
        self.skipped = 0;
        if self.points.len() >= MOST_POINTS {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every = (self.every * 2).max(2);
        }
        self.points.push((clock, time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_calls_are_kept_where_there_is_no_room_for_all() {
        let mut timeline = Timeline::new(100);
        for length in 1..=1000 {
            timeline.add(Slice { root: 0, function: 0, depth: 0, begin: 0, end: length });
        }
        assert!(timeline.slices.len() <= 100);
        assert_eq!(timeline.slices.len() as u64 + timeline.left_out, 1000);
        assert_eq!(timeline.slices.iter().map(|slice| slice.end).max(), Some(1000));
        assert!(timeline.slices.iter().all(|slice| slice.end >= timeline.shortest));
    }

    #[test]
    fn an_axis_of_many_timestamps_stays_small_and_in_order() {
        let mut axis = TimeAxis::default();
        (0..1_000_000).for_each(|number| axis.add(number, number * 3));
        assert!(axis.points.len() <= MOST_POINTS);
        assert!(axis.points.is_sorted());
    }
}
