//! Time, and what was last said about it.

/// Time, and what was last said about it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// Cycle of the last P0 instruction; instructions where no cycles are known.
    pub now: u64,
    /// What is added to the number of instructions where no cycles are known.
    offset: u64,
    /// Cycle of the last count; `None`: not since a discontinuity.
    pub counted: Option<u64>,
    pub timestamp_due: u64,
    pub event_due: u64,
    /// There is more to do after a P0 element than to look whether to synchronise.
    pub is_busy: bool,
}

impl Clock {
    pub fn new(is_busy: bool) -> Self {
        Self { is_busy, ..Self::default() }
    }

    /// Instructions without a cycle take one each from now on, the next one this cycle.
    pub fn set(&mut self, time: u64, instructions: u64) {
        self.offset = time.wrapping_sub(instructions + 1);
    }

    /// The time after so many instructions where no cycles are known.
    #[inline(always)]
    pub fn after(&self, instructions: u64) -> u64 {
        self.offset.wrapping_add(instructions)
    }

    /// Something happens in this cycle; 0: cycles are not known.
    #[inline(always)]
    pub fn advance(&mut self, cycle: u64, instructions: u64) {
        self.now = if cycle != 0 { cycle } else { self.after(instructions) };
    }

    /// The time at which something is to be written whatever is executed: the next timestamp.
    #[inline]
    pub fn due(&self) -> u64 {
        if self.is_busy { self.timestamp_due } else { u64::MAX }
    }

    /// Cycles since the last count, as of now.
    pub fn since_count(&self) -> Option<u64> {
        self.counted.map(|then| self.now.saturating_sub(then))
    }
}
