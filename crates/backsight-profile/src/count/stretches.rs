//! Threads that go from hart to hart.
//!
//! Each source is counted by itself, and a thread may go on elsewhere whenever something is missing: its calls are known
//! only when all sources were counted. Until then it is counted in stretches. A stretch begins where execution comes back
//! to the thread, or to a call that began before the stretch; below its first call is a node that stands for whatever
//! called it. [`super::join`] puts the stretches of a thread together, in the order of time.

use backsight::core::Address;

use super::calls::{Arrival, CallStack, Frame, Ledger, Moving};
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
    pub how: Arrival,
    pub is_lost: bool,
    pub address: Address,
    pub function: u32,
    /// The calls under way at its end; the first of them is the one that it began with, unless that has returned.
    pub frames: Vec<Frame>,
    /// Instructions that its hart had executed at its beginning and at its end.
    pub clock: (u64, u64),
    /// How execution left it: that is how it comes to the next stretch of the thread, if something is missing between.
    pub left: Arrival,
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

impl CallStack {
    /// The calls of a thread that may go on elsewhere.
    pub fn of_moving(hart: u16, thread: u64, time: Option<TimePoint>, clock: u64) -> Self {
        let moving = Moving { hart, thread, stretch: None, time };
        Self { moving: Some(Box::new(moving)), ..Self::below(super::NONE, clock) }
    }

    /// Begins a stretch, if what happens depends on calls that are not known here.
    #[inline(never)]
    pub fn depends_on_callers(
        &mut self,
        how: Arrival,
        address: Address,
        function: u32,
        ledger: &mut Ledger<'_>,
    ) -> bool {
        if self.moving.is_none() {
            return false;
        }
        if !ledger.tree.has_room() {
            ledger.tree.unjoined += 1;
            return false;
        }
        self.end_stretch(Arrival::Sequence, ledger);
        self.begin_stretch(how, false, address, function, ledger);
        true
    }

    /// Execution comes to a thread whose calls are not known here.
    pub fn begin_stretch(
        &mut self,
        how: Arrival,
        is_lost: bool,
        address: Address,
        function: u32,
        ledger: &mut Ledger<'_>,
    ) {
        let Some(moving) = &mut self.moving else { return };
        let root = ledger.tree.thread();
        let node = ledger.tree.callee(root, function);
        let began = ledger.clock;
        (self.root, self.began) = (root, began);
        self.frames.push(Frame { node, function, return_address: None, is_handler: false, began });
        moving.stretch = Some(ledger.tree.stretches.len());
        ledger.tree.stretches.push(Stretch {
            source: 0,
            hart: moving.hart,
            thread: moving.thread,
            root,
            how,
            is_lost,
            address,
            function,
            frames: Vec::new(),
            clock: (began, began),
            left: Arrival::Sequence,
            time: StretchTime { before: moving.time, ..StretchTime::default() },
            slices: Vec::new(),
            timestamps: Vec::new(),
        });
    }

    /// Something is missing, or another thread has its turn: the thread may go on elsewhere.
    pub fn end_turn(&mut self, after: Option<Arrival>, ledger: &mut Ledger<'_>) {
        if self.moving.is_none() {
            return;
        }
        if !ledger.tree.has_room() {
            ledger.tree.unjoined += 1;
            return;
        }
        let left = after.filter(|&after| after != Arrival::Return).unwrap_or(Arrival::Sequence);
        self.end_stretch(left, ledger);
    }

    /// The stretch that goes on has ended.
    pub fn end_stretch(&mut self, left: Arrival, ledger: &mut Ledger<'_>) {
        self.end_stay(ledger);
        let frames = std::mem::take(&mut self.frames);
        let stretch = self.moving.as_mut().and_then(|moving| moving.stretch.take());
        if let Some(stretch) = stretch.and_then(|number| ledger.tree.stretches.get_mut(number)) {
            (stretch.frames, stretch.clock.1, stretch.left) = (frames, ledger.clock, left);
        }
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
