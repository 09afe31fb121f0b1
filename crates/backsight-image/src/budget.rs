//! How much memory the names and lines of images may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bound on the bytes that are decompressed, copied and kept to give names and source lines, for all images that
/// share it. A small file can ask for any amount: compressed sections say themselves how large they will be.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// What is allowed, files counted in.
    limit: AtomicU64,
    used: AtomicU64,
    /// How much each byte of a file adds to what is allowed.
    growth: u64,
}

impl Budget {
    /// What is allowed without any file.
    pub const DEFAULT: u64 = 256 << 20;

    /// How much each byte of a file adds to the default budget: more than honest debug information is compressed.
    const GROWTH: u64 = 8;

    /// Exactly this many bytes.
    pub fn new(bytes: u64) -> Self {
        Self::with_growth(bytes, 0)
    }

    fn with_growth(limit: u64, growth: u64) -> Self {
        Self(Arc::new(Shared { limit: AtomicU64::new(limit), used: AtomicU64::new(0), growth }))
    }

    /// How many bytes are allowed in all.
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// How many bytes were used so far.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// A file of this size is among the images.
    pub(crate) fn count_file(&self, size: u64) {
        self.0.limit.fetch_add(size.saturating_mul(self.0.growth).min(1 << 50), Ordering::Relaxed);
    }

    /// Uses `bytes`; refuses with the reason if they are not left. `what` needs them.
    pub(crate) fn take(&self, what: &str, bytes: u64) -> Result<(), String> {
        let limit = self.limit();
        let add = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        match self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(()),
            Err(used) => Err(format!(
                "{what} would take {bytes} bytes of memory: the budget for names and lines of all images is {limit} \
                 bytes, of which {used} are used"
            )),
        }
    }
}

impl Default for Budget {
    /// [`Budget::DEFAULT`], and more for each file: eight times its size.
    fn default() -> Self {
        Self::with_growth(Self::DEFAULT, Self::GROWTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_not_used() {
        let budget = Budget::new(100);
        let shared = budget.clone();
        assert!(budget.take("one", 60).is_ok());
        let why = shared.take(".debug_info", 41).unwrap_err();
        assert!(
            why.contains(".debug_info would take 41 bytes")
                && why.contains("is 100 bytes, of which 60 are used")
        );
        assert!(shared.take("two", 40).is_ok() && budget.take("three", u64::MAX).is_err());
        assert_eq!(budget.used(), 100);
    }

    #[test]
    fn only_the_default_grows_with_the_files() {
        let (exact, default) = (Budget::new(5), Budget::default());
        exact.count_file(1000);
        default.count_file(1000);
        assert_eq!((exact.limit(), default.limit()), (5, Budget::DEFAULT + 8000));
    }
}
