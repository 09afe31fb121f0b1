//! What can be wrong with compressed data.

use std::fmt;

/// Why records cannot be decoded on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The records end before the instructions that they should give.
    RecordsEnd,
    /// A record makes no sense.
    Record(&'static str),
    /// The path leads to an address where no code is known.
    NoCode(u64),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecordsEnd => f.write_str("the records end too early"),
            Self::Record(why) => f.write_str(why),
            Self::NoCode(address) => write!(f, "the path leads to {address:#x}, where no code is known"),
        }
    }
}

impl std::error::Error for Damage {}
