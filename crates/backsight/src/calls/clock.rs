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
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    pub instructions: u64,
    pub cycles: Option<u64>,
    /// The latest timestamp.
    pub time: Option<u64>,
}

impl Clock {
    /// What was spent since then. In line: what it gives would be read back from memory before it is there.
    #[inline(always)]
    pub fn since(&self, then: &Self) -> Cost {
        Cost {
            instructions: self.instructions - then.instructions,
            cycles: self.cycles.map(|cycles| cycles - then.cycles.unwrap_or(0)),
            time: self.time.zip(then.time).and_then(|(now, then)| now.checked_sub(then)),
        }
    }
}
