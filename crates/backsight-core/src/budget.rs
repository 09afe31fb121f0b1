//! How much memory and work an input may ask for: one table for every door that bytes come in by.
//!
//! A small file can ask for any amount: compressed sections say themselves how large they will be, two lists may be
//! multiplied with each other, a pipe has no end. So what is unpacked and kept is bounded by a small multiple of the bytes that
//! were given, or by what the user allows.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// The option that allows more, as users know it.
const OPTION: &str = "--budget BYTES";

/// A door that input comes in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Bytes that are read out of an archive, all reading together. Trace and code become about four times smaller, and are
    /// read a few times.
    Archive,
    /// Bytes that compressed records expand to.
    CompressedRecords,
    /// Memory for the records of perf.data and for what follows from them.
    Records,
    /// Memory for names, lines and functions of programs, all of them together.
    Names,
    /// Memory for a buffer whose start has to be searched for. The size of a pipe is not known before.
    Wrapped,
    /// Memory for a recording with data that is executed again, and for its states.
    History,
}

impl Door {
    /// Bytes that are allowed for any input, and for each byte of it.
    const fn allowed(self) -> (u64, u64) {
        match self {
            Self::Archive => (64 << 20, 100),
            Self::CompressedRecords => (64 << 20, 100),
            Self::Records => (128 << 20, 32),
            Self::Names => (256 << 20, 8),
            Self::Wrapped => (256 << 20, 1),
            Self::History => (256 << 20, 4),
        }
    }
}

/// A bound on bytes that are unpacked or kept, for all that share it.
#[derive(Debug)]
pub struct Budget {
    /// What is allowed, the input counted in.
    limit: AtomicU64,
    used: AtomicU64,
    /// How much each byte of the input adds to what is allowed.
    growth: u64,
}

/// A budget does not allow what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// How many bytes were asked for.
    pub asked: u64,
    /// How many are allowed in all.
    pub limit: u64,
    /// How many of them are used.
    pub used: u64,
}

impl Budget {
    /// Exactly this many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self::with_growth(bytes, 0)
    }

    /// What a user allows, or else what a door allows for an input of this size.
    pub const fn of(door: Door, given: Option<u64>, input: u64) -> Self {
        match given {
            Some(bytes) => Self::new(bytes),
            None => {
                let (least, growth) = door.allowed();
                Self::with_growth(least.saturating_add(input.saturating_mul(growth)), growth)
            }
        }
    }

    const fn with_growth(limit: u64, growth: u64) -> Self {
        Self { limit: AtomicU64::new(limit), used: AtomicU64::new(0), growth }
    }

    /// How many bytes are allowed in all.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// How many bytes were used so far.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// More input came: it may use more, unless the user said how much.
    pub fn count_input(&self, bytes: u64) {
        self.limit.fetch_add(bytes.saturating_mul(self.growth).min(1 << 50), Ordering::Relaxed);
    }

    /// Uses `bytes`.
    ///
    /// # Errors
    /// If they are not left: nothing is used then.
    pub fn take(&self, bytes: u64) -> Result<(), Exceeded> {
        let limit = self.limit();
        let add = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(()),
            Err(used) => Err(Exceeded { asked: bytes, limit, used }),
        }
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, limit, used } = self;
        write!(
            f,
            "{asked} more bytes are needed; {limit} are allowed, of which {used} are used ({OPTION} allows others)"
        )
    }
}

impl core::error::Error for Exceeded {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn what_is_refused_is_not_used_and_the_option_is_named() {
        let budget = Budget::new(100);
        assert!(budget.take(60).is_ok());
        let why = budget.take(41).unwrap_err();
        assert_eq!(why, Exceeded { asked: 41, limit: 100, used: 60 });
        assert!(why.to_string().contains("--budget BYTES"), "{why}");
        assert!(budget.take(40).is_ok() && budget.take(u64::MAX).is_err());
        assert_eq!(budget.used(), 100);
    }

    #[test]
    fn what_the_user_allows_does_not_grow_with_the_input() {
        let given = Budget::of(Door::Names, Some(5), 1 << 30);
        let usual = Budget::of(Door::Names, None, 1000);
        given.count_input(1000);
        usual.count_input(1000);
        assert_eq!((given.limit(), usual.limit()), (5, (256 << 20) + 2 * 8000));
    }
}
