//! What can be wrong with a file.

use super::VERSION;
use std::fmt;
use std::io;

/// Why a file cannot be read on. What came before is right, as far as can be told.
#[derive(Debug)]
pub enum RetiredError {
    /// The system says so.
    Io(io::Error),
    /// It does not begin as such a file does.
    NotAStream,
    /// A version of the format that is not known.
    Version(u16),
    /// What is there makes no sense.
    Corrupt {
        /// Where in the file.
        offset: u64,
        /// Why not.
        why: &'static str,
    },
    /// It ends before its end: writing it was cut off.
    Truncated {
        /// Where the file ends.
        offset: u64,
    },
}

impl fmt::Display for RetiredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::NotAStream => {
                f.write_str("not a file of retired instructions: expected it to begin with BSRETIRE")
            }
            Self::Version(version) => write!(f, "version {version} of the format; expected {VERSION}"),
            Self::Corrupt { offset, why } => write!(f, "corrupt at offset {offset:#x}: {why}"),
            Self::Truncated { offset } => {
                write!(f, "truncated: ends at offset {offset:#x} without its end mark")
            }
        }
    }
}

impl std::error::Error for RetiredError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}
