//! What paths of execution do to the stack of calls, remembered.
//!
//! Followers name paths that they walk again and again. The ranges of a path that stay in one function, one after the other,
//! do nothing to the stack but cost: they are one segment. Whether the stack is in that function when a path comes again, it
//! says itself, and where it is not, the path is taken range by range.

use super::stack::{Departure, Ledger, Place, Stack};

/// Ranges in one function, each of which goes on in the next.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Where execution comes to it.
    pub place: Place,
    /// Ranges.
    pub ranges: u32,
    /// Instructions of all of them.
    pub instructions: u32,
    /// How execution leaves the last one.
    pub departure: Departure,
}

const _: () = assert!(size_of::<Segment>() <= 48);

impl Segment {
    /// Adds a range to the segments of a path, of which those from `first` on are. `before` is how execution left the range
    /// before it.
    #[inline]
    pub fn add(
        segments: &mut Vec<Self>,
        first: usize,
        before: Departure,
        place: Place,
        instructions: u32,
        departure: Departure,
    ) {
        let goes_on = matches!(before, Departure::Sequence | Departure::Jump { .. });
        match segments.get_mut(first..).and_then(<[Self]>::last_mut) {
            Some(last) if goes_on && last.place.function == place.function => {
                last.ranges += 1;
                last.instructions += instructions;
                last.departure = departure;
            }
            _ => segments.push(Self { place, ranges: 1, instructions, departure }),
        }
    }
}

/// How far a path was walked by what is remembered of it.
#[derive(Clone, Copy, Debug)]
pub enum Walk {
    /// To its end.
    Whole,
    /// Execution has arrived at the range after so many, which is in another call than it was before.
    Before(usize),
    /// Nothing is remembered of it.
    Unknown,
}

impl<K: Copy> Stack<K> {
    /// Takes the segments of a path. `before` is called before each range: something may have to be counted there.
    #[inline(always)]
    pub fn walk<L: Ledger<K>>(
        &mut self,
        first: &Segment,
        others: &[Segment],
        ledger: &mut L,
        mut before: impl FnMut(&mut L),
    ) -> Walk {
        if !self.take(first, ledger, &mut before) {
            return Walk::Before(0);
        }
        let mut ranges = first.ranges as usize;
        for segment in others {
            if !self.take(segment, ledger, &mut before) {
                return Walk::Before(ranges);
            }
            ranges += segment.ranges as usize;
        }
        Walk::Whole
    }

    /// Takes a segment. Was that all in one call? If not, execution has arrived at its first range, and nothing was run.
    #[inline(always)]
    fn take<L: Ledger<K>>(
        &mut self,
        segment: &Segment,
        ledger: &mut L,
        before: &mut impl FnMut(&mut L),
    ) -> bool {
        before(ledger);
        if !self.goes_on_in(&segment.place) {
            self.arrive(&segment.place, ledger);
            if self.frames.last().is_none_or(|top| top.function != segment.place.function) {
                return false;
            }
        }
        self.run(segment.instructions.into(), segment.departure, ledger);
        (1..segment.ranges).for_each(|_| before(ledger));
        true
    }
}
