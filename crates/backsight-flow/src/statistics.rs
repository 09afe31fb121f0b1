//! What a follower counts.

use crate::blocks::Path;
use crate::{Event, NoSync, Symptom};

/// Counts over all that was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Instructions executed, those of unknown path included where their number is known.
    pub instructions: u64,
    /// Ranges.
    pub ranges: u64,
    /// Ranges that ended in a branch.
    pub branches: u64,
    /// Those whose branch was taken.
    pub taken: u64,
    /// Exceptions and interrupts.
    pub exceptions: u64,
    /// Times that tracing began.
    pub trace_on: u64,
    /// P0 elements that could not be followed because the position or the context was not known.
    pub skipped: u64,
    /// Gaps, by reason.
    pub gaps: Gaps,
    /// Signs that code and trace do not fit, in the order of [`Symptom::ALL`].
    pub symptoms: [u64; Symptom::ALL.len()],
}

/// How often something is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Bad packets and broken speculation.
    pub bad_packet: u64,
    /// The trace unit gave up unresolved speculation.
    pub discard: u64,
    /// The trace unit lost data.
    pub overflow: u64,
    /// Strict mode: the code cannot be what was executed.
    pub wrong_image: u64,
    /// Code that is not in the image.
    pub no_memory: u64,
    /// Unknown paths.
    pub path_unknown: u64,
}

impl Gaps {
    /// All gaps.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }

    /// The counts with their reasons in words.
    pub fn by_reason(&self) -> [(&'static str, u64); 6] {
        [
            ("bad packet", self.bad_packet),
            ("discard", self.discard),
            ("overflow", self.overflow),
            ("wrong image", self.wrong_image),
            ("no memory", self.no_memory),
            ("path unknown", self.path_unknown),
        ]
    }
}

impl Statistics {
    /// Counts an event.
    #[inline]
    pub fn count(&mut self, event: &Event) {
        match event {
            Event::Range(range) => {
                let branch = range.ends_in_branch();
                self.instructions += u64::from(range.instructions);
                self.ranges += 1;
                self.branches += u64::from(branch);
                self.taken += u64::from(branch && range.executed);
            }
            Event::PathUnknown { instructions, .. } => {
                self.instructions += u64::from(*instructions);
                self.gaps.path_unknown += 1;
            }
            Event::AddressUnknown => self.gaps.path_unknown += 1,
            Event::NoMemory { .. } => self.gaps.no_memory += 1,
            Event::Exception { .. } => self.exceptions += 1,
            Event::TraceOn(_) => self.trace_on += 1,
            Event::Mismatch { symptom, .. } => self.symptoms[*symptom as usize] += 1,
            Event::NoSync(NoSync::BadPacket) => self.gaps.bad_packet += 1,
            Event::NoSync(NoSync::Discard) => self.gaps.discard += 1,
            Event::NoSync(NoSync::Overflow) => self.gaps.overflow += 1,
            Event::NoSync(NoSync::WrongImage) => self.gaps.wrong_image += 1,
            _ => {}
        }
    }

    /// Counts the ranges of a path.
    #[inline]
    pub(crate) fn count_path(&mut self, path: &Path) {
        self.instructions += u64::from(path.instructions);
        self.ranges += u64::from(path.ranges);
        self.branches += u64::from(path.branches);
        self.taken += u64::from(path.taken);
    }

    /// How often a symptom was noticed.
    pub fn symptom(&self, symptom: Symptom) -> u64 {
        self.symptoms[symptom as usize]
    }
}

impl Statistics {
    fn combine(&mut self, other: Self, with: impl Fn(&mut u64, u64)) {
        let Gaps { bad_packet, discard, overflow, wrong_image, no_memory, path_unknown } = &mut self.gaps;
        let counts = [
            (&mut self.instructions, other.instructions),
            (&mut self.ranges, other.ranges),
            (&mut self.branches, other.branches),
            (&mut self.taken, other.taken),
            (&mut self.exceptions, other.exceptions),
            (&mut self.trace_on, other.trace_on),
            (&mut self.skipped, other.skipped),
            (bad_packet, other.gaps.bad_packet),
            (discard, other.gaps.discard),
            (overflow, other.gaps.overflow),
            (wrong_image, other.gaps.wrong_image),
            (no_memory, other.gaps.no_memory),
            (path_unknown, other.gaps.path_unknown),
        ];
        counts.into_iter().chain(self.symptoms.iter_mut().zip(other.symptoms)).for_each(|(a, b)| with(a, b));
    }
}

impl std::ops::AddAssign for Statistics {
    fn add_assign(&mut self, other: Self) {
        self.combine(other, |mine, others| *mine += others);
    }
}

/// What was counted since an earlier moment.
impl std::ops::Sub for Statistics {
    type Output = Self;

    fn sub(mut self, earlier: Self) -> Self {
        self.combine(earlier, |now, before| *now = now.saturating_sub(before));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::Address;

    #[test]
    fn every_symptom_has_a_count_of_its_own() {
        let mut statistics = Statistics::default();
        for symptom in Symptom::ALL {
            statistics.count(&Event::Mismatch { symptom, address: Address(0) });
        }
        assert_eq!(statistics.symptoms, [1; Symptom::ALL.len()]);
        let mut twice = statistics;
        twice += statistics;
        assert!(Symptom::ALL.iter().all(|&symptom| twice.symptom(symptom) == 2));
        assert_eq!(twice - statistics, statistics);
    }
}
