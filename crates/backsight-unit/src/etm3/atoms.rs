//! Atoms on their way into P-headers.

use backsight_arm::etm3::{CycleMarks, PHeader};

/// More cycles than this before an atom are not written one by one: a core that waits so long has stopped.
const MOST_CYCLES: u64 = 4096;

/// Executed instructions that wait for more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    executed: u8,
}

impl Run {
    /// The header of what waits, if anything does.
    pub fn take(&mut self, cycle_accurate: bool) -> Option<PHeader> {
        let executed = std::mem::take(&mut self.executed);
        (executed > 0).then(|| header(executed, 0, cycle_accurate))
    }

    /// Another atom, without cycles; gives a header that is full.
    pub fn push(&mut self, executed: bool) -> Option<PHeader> {
        self.add(executed, 15, false)
    }

    /// Another atom, so many cycles after the one before; gives headers as they are full.
    pub fn push_timed(
        &mut self,
        executed: bool,
        cycles: u64,
        has_format_4: bool,
        each: &mut impl FnMut(PHeader),
    ) {
        if cycles == 1 {
            if let Some(header) = self.add(executed, 7, true) {
                each(header);
            }
            return;
        }
        if let Some(header) = self.take(true) {
            each(header);
        }
        let atom = PHeader { atoms: executed.into(), count: 1, cycles: CycleMarks::Before(0) };
        let mut left = cycles.min(MOST_CYCLES);
        if left == 0 && has_format_4 {
            return each(atom);
        }
        // Without a header for an atom in the same cycle, it is in the next.
        left = left.max(1);
        while left > 1 {
            let part = (left - 1).min(8);
            each(PHeader { atoms: 0, count: 0, cycles: CycleMarks::Before(part as u8) });
            left -= part;
        }
        if let Some(header) = self.add(executed, 7, true).or_else(|| self.take(true)) {
            each(header);
        }
    }

    fn add(&mut self, executed: bool, most: u8, cycle_accurate: bool) -> Option<PHeader> {
        if !executed {
            let before = std::mem::take(&mut self.executed);
            return Some(header(before, 1, cycle_accurate));
        }
        self.executed += 1;
        if self.executed == most { self.take(cycle_accurate) } else { None }
    }
}

/// E's, then an N if there is one.
fn header(executed: u8, failed: u8, cycle_accurate: bool) -> PHeader {
    PHeader {
        atoms: (1 << executed) - 1,
        count: executed + failed,
        cycles: if cycle_accurate { CycleMarks::BeforeEach } else { CycleMarks::NotTraced },
    }
}
