//! What execution cost so far.

/// What something cost, as far as the trace tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions.
    pub instructions: u64,
    /// Cycles, where the trace counts them.
    pub cycles: Option<u64>,
    /// Time between the timestamps before its beginning and before its end, in their unit.
    pub time: Option<u64>,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.instructions += other.instructions;
        self.cycles = sum(self.cycles, other.cycles);
        self.time = sum(self.time, other.time);
    }
}

/// Instructions, cycles and time since the trace began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    pub instructions: u64,
    pub cycles: Option<u64>,
    /// The latest timestamp.
    pub time: Option<u64>,
}

impl Clock {
    /// This, unless that would be after another one: what is read from a file may say anything.
    pub fn not_after(&self, now: &Self) -> Self {
        let cycles = self.cycles.map(|cycles| cycles.min(now.cycles.unwrap_or(0)));
        Self { instructions: self.instructions.min(now.instructions), cycles, time: self.time }
    }

    /// So many more cycles.
    #[inline(always)]
    pub fn count_cycles(&mut self, cycles: u32) {
        self.cycles = Some(self.cycles.unwrap_or(0) + u64::from(cycles));
    }

    /// Has the trace told nothing else so far?
    #[inline(always)]
    pub const fn counts_instructions_only(&self) -> bool {
        self.cycles.is_none() && self.time.is_none()
    }

    /// What it comes to where another one had come to this before it began.
    pub fn after(&self, before: &Self) -> Self {
        let cycles = match (before.cycles, self.cycles) {
            (None, None) => None,
            (before, cycles) => Some(before.unwrap_or(0).saturating_add(cycles.unwrap_or(0))),
        };
        let instructions = before.instructions.saturating_add(self.instructions);
        Self { instructions, cycles, time: self.time.or(before.time) }
    }

    /// What was spent since then, and the latest timestamp then.
    #[inline(always)]
    pub fn since(&self, then: &Self) -> (Cost, Option<u64>) {
        let cost = Cost {
            instructions: self.instructions - then.instructions,
            cycles: self.cycles.map(|cycles| cycles - then.cycles.unwrap_or(0)),
            time: self.time.zip(then.time).and_then(|(now, then)| now.checked_sub(then)),
        };
        (cost, then.time)
    }

    /// The same where it [counts instructions only](Self::counts_instructions_only).
    #[inline(always)]
    pub const fn instructions_since(&self, then: &Self) -> (Cost, Option<u64>) {
        let instructions = self.instructions - then.instructions;
        (Cost { instructions, cycles: None, time: None }, None)
    }
}
