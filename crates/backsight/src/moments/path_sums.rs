//! How many instructions paths have that came before.

use backsight_flow::PathId;

/// Instructions by path. Memory is bounded by the number of paths that a follower names.
#[derive(Clone, Debug, Default)]
pub(super) struct PathSums {
    generation: u64,
    /// By the numbers of paths; [`UNKNOWN`] where a path did not come yet.
    sums: Vec<u64>,
}

const UNKNOWN: u64 = u64::MAX;

impl PathSums {
    /// Paths with higher numbers are looked at each time.
    const MOST: u32 = 1 << 18;

    #[inline(always)]
    pub fn get(&self, path: PathId) -> Option<u64> {
        let sum = *self.sums.get(path.number as usize)?;
        (sum != UNKNOWN && self.generation == path.generation).then_some(sum)
    }

    #[cold]
    pub fn insert(&mut self, path: PathId, sum: u64) {
        if path.number >= Self::MOST {
            return;
        }
        if self.generation != path.generation {
            self.generation = path.generation;
            self.sums.clear();
        }
        let index = path.number as usize;
        if self.sums.len() <= index {
            self.sums.resize(index + 1, UNKNOWN);
        }
        self.sums[index] = sum;
    }
}
