//! How much memory the names and lines of images may take.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use backsight_core::{self as core, Door, Exceeded};

use crate::Contents;

/// A bound on the bytes that are decompressed, copied and kept to give names and source lines, for all images that
/// share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    budget: core::Budget,
    /// Files that were counted, by where they are in memory: they are kept, so that nothing else is there.
    counted: Mutex<HashMap<(usize, usize), Contents>>,
}

impl Budget {
    /// Exactly this many bytes.
    pub fn new(bytes: u64) -> Self {
        Self::given(Some(bytes))
    }

    /// What the user allows, or else what programs usually need.
    pub fn given(bytes: Option<u64>) -> Self {
        let budget = core::Budget::of(Door::Names, bytes, 0);
        Self(Arc::new(Shared { budget, counted: Mutex::default() }))
    }

    /// How many bytes are allowed in all.
    pub fn limit(&self) -> u64 {
        self.0.budget.limit()
    }

    /// How many bytes were used so far.
    pub fn used(&self) -> u64 {
        self.0.budget.used()
    }

    /// A file is among the images. However often it is, it counts once.
    pub(crate) fn count_file(&self, contents: &Contents) {
        let mut counted = self.0.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.insert(contents.identity(), contents.clone()).is_none() {
            self.0.budget.count_input(contents.len() as u64);
        }
    }

    /// Uses `bytes`; refuses with the reason if they are not left. `what` needs them.
    pub(crate) fn take(&self, what: &'static str, bytes: u64) -> Result<(), OverBudget> {
        self.0.budget.take(bytes).map_err(|why| OverBudget { what, why })
    }
}

/// Something that the budget leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget {
    /// What it is.
    pub what: &'static str,
    /// How much it would have needed.
    pub why: Exceeded,
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: left out, since {}", self.what, self.why)
    }
}

impl std::error::Error for OverBudget {}

impl Default for Budget {
    /// What programs usually need, and more for each file.
    fn default() -> Self {
        Self::given(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_named() {
        let budget = Budget::new(100);
        let shared = budget.clone();
        assert!(budget.take("one", 60).is_ok());
        let why = shared.take(".debug_info", 41).unwrap_err().to_string();
        assert!(
            why.contains(".debug_info: left out") && why.contains("100 are allowed, of which 60 are used")
        );
    }

    #[test]
    fn a_file_that_is_mapped_again_and_again_counts_once() {
        let (budget, file) = (Budget::default(), Contents::from(vec![0; 1000]));
        let before = budget.limit();
        (0..3).for_each(|_| budget.count_file(&file));
        assert_eq!(budget.limit(), before + 8000);
    }
}
