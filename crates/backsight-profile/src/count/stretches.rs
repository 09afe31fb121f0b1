//! Threads that go from hart to hart.
//!
//! Each source is counted by itself, and a thread may go on elsewhere whenever something is missing: its calls are known
//! only when all sources were counted. Until then it is counted in stretches. A stretch begins where execution comes back
//! to the thread, or to a call that began before the stretch; below its first call is a node that stands for whatever
//! called it. [`super::join`] puts the stretches of a thread together, in the order of time.

use backsight::calls::{Arrival, Departure, Stack};

use super::calls::{CallStack, Frame};
use crate::profile::Slice;

/// A stretch of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    /// The source that it is of, by its number in the capture.
    pub source: usize,
    pub hart: u16,
    /// The number of the thread in the trace.
    pub thread: u64,
    /// The node of whatever called its first function.
    pub root: u32,
    /// How execution came to it.
    pub arrival: Arrival,
    /// Its first block counts, where not everything does.
    pub is_selected: bool,
    /// The calls under way at its end; the first of them is the one that it began with, unless that has returned.
    pub frames: Vec<Frame>,
    /// The one that it began with, as it was when it returned, where calls over time are kept.
    pub returned: Option<Frame>,
    /// Most calls in it that were under way when another one began.
    pub peak: usize,
    /// Instructions that its hart had executed at its beginning and at its end.
    pub clock: (u64, u64),
    /// How execution left it: that is how it comes to the next stretch of the thread, if something is missing between.
    pub left: Departure,
    pub time: StretchTime,
    /// Calls over time, where they were asked for, with clocks of the hart.
    pub slices: Vec<Slice>,
    /// Instructions that its hart had executed, and the time then.
    pub timestamps: Vec<(u64, u64)>,
}

/// A timestamp, and the instructions that the hart had executed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimePoint {
    pub time: u64,
    pub clock: u64,
}

/// When a stretch was, by the timestamps of its hart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StretchTime {
    /// The last timestamp before it.
    pub before: Option<TimePoint>,
    /// The first and the last in it.
    pub inside: Option<(u64, u64)>,
    /// The first after it began, in it or not.
    pub after: Option<TimePoint>,
}

/// A thread that may go on elsewhere: what was called before a stretch began is not known here.
#[derive(Debug)]
pub(crate) struct Moving {
    pub hart: u16,
    /// The number of the thread in the trace.
    pub thread: u64,
    /// The stretch that goes on, and its [`Stretch::peak`] so far.
    pub stretch: Option<usize>,
    pub peak: usize,
    /// The last time that the trace gave.
    pub time: Option<TimePoint>,
}

impl CallStack {
    /// The calls of a thread that may go on elsewhere.
    pub fn of_moving(hart: u16, thread: u64, time: Option<TimePoint>) -> Self {
        let moving = Some(Box::new(Moving { hart, thread, stretch: None, peak: 0, time }));
        Self { calls: Stack::open(), root: super::NONE, moving }
    }

    /// The trace gives the time. `is_running`: it is that of an instruction of the stretch.
    pub fn set_time(&mut self, point: TimePoint, is_running: bool, stretches: &mut [Stretch]) {
        let Some(moving) = &mut self.moving else { return };
        moving.time = Some(point);
        let current = moving.stretch.filter(|_| is_running);
        if let Some(stretch) = current.and_then(|number| stretches.get_mut(number)) {
            stretch.time.inside.get_or_insert((point.time, point.time)).1 = point.time;
        }
    }
}
