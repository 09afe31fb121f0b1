//! Sampling: of all that was executed, only windows count that end in a sample.
//!
//! Processors with a record of last branches (LBR) are sampled: every so many instructions, the last branches that were
//! taken are written down. A trace that is counted so looks like such a profile, for comparison and to be mixed with
//! one. A window begins at the target of its oldest branch, or after the sample before: windows do not overlap.

use std::collections::VecDeque;

use super::blocks::Way;
use super::selection::{Selection, Step};

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchWindows {
    /// Instructions from sample to sample; not 0.
    pub period: u64,
    /// Most branches that were taken in a window; not 0.
    pub branches: u32,
}

/// Most blocks in a window: some code takes no branches for long.
const MOST_STEPS: usize = 1 << 12;

/// Takes samples.
#[derive(Debug)]
pub(crate) struct WindowSampler {
    windows: BranchWindows,
    steps: VecDeque<Step>,
    taken: u32,
    /// Instructions since the last sample.
    since: u64,
    pub selection: Selection,
    pub samples: u64,
}

impl WindowSampler {
    pub fn new(windows: BranchWindows) -> Self {
        Self {
            windows,
            steps: VecDeque::new(),
            taken: 0,
            since: 0,
            selection: Selection::default(),
            samples: 0,
        }
    }

    /// Execution comes to a block.
    pub fn step(&mut self, step: Step) {
        self.taken += u32::from(step.way != Way::Onwards);
        self.steps.push_back(step);
        while self.taken > self.windows.branches || self.steps.len() > MOST_STEPS {
            let Some(oldest) = self.steps.pop_front() else { break };
            self.taken -= u32::from(oldest.way != Way::Onwards);
        }
        self.since += u64::from(step.instructions);
        if self.since >= self.windows.period.max(1) {
            self.since %= self.windows.period.max(1);
            self.sample();
        }
    }

    /// Something is missing: what is on either side of it is not in one window.
    pub fn lose(&mut self) {
        self.steps.clear();
        self.taken = 0;
    }

    fn sample(&mut self) {
        self.samples += 1;
        self.taken = 0;
        self.steps.drain(..).for_each(|step| self.selection.add(step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::NONE;

    fn step(from: u32, block: u32, taken: bool) -> Step {
        let way = if taken { Way::Taken } else { Way::Onwards };
        Step { from, way, block, node: 0, instructions: 10, is_call: false }
    }

    #[test]
    fn a_window_has_the_last_branches_that_were_taken_and_what_is_between_them() {
        let mut sampler = WindowSampler::new(BranchWindows { period: 50, branches: 2 });
        sampler.step(step(NONE, 0, false));
        for block in 0..4 {
            sampler.step(step(block, block + 1, block != 2));
        }
        assert_eq!(sampler.samples, 1);
        let mut counted: Vec<_> = sampler.selection.edges.keys().map(|&(from, to, _)| (from, to)).collect();
        counted.sort_unstable();
        assert_eq!(counted, [(1, 2), (2, 3), (3, 4)]);
        assert!(sampler.selection.entries.is_empty());
    }

    #[test]
    fn windows_do_not_overlap_and_none_goes_across_a_gap() {
        let mut sampler = WindowSampler::new(BranchWindows { period: 20, branches: 32 });
        (0..8).for_each(|_| sampler.step(step(1, 1, true)));
        assert_eq!((sampler.samples, sampler.selection.edges[&(1, 1, Way::Taken as u8)]), (4, 8));
        sampler.step(step(1, 2, true));
        sampler.lose();
        sampler.step(step(NONE, 3, false));
        assert_eq!((sampler.selection.edges.len(), sampler.selection.entries[&3]), (1, 1));
    }
}
