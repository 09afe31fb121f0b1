//! Why a table cannot be read.

use std::fmt;

/// Why a table cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for makes no sense: a column that is not there, a piece of another capture.
    Misuse(String),
    /// A filter that cannot be understood.
    Filter {
        /// What is wrong.
        what: String,
        /// Where in its text, in bytes.
        at: usize,
    },
    /// The capture is not what it was when its pieces were planned, or when reading began.
    Changed(String),
    /// A capture that cannot be opened or decoded.
    Capture(backsight::Error),
    /// A file that cannot be read or written.
    File(String),
}

/// The result of what this crate does.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn misuse(what: impl Into<String>) -> Self {
        Self::Misuse(what.into())
    }

    pub(crate) fn filter(what: impl Into<String>, at: usize) -> Self {
        Self::Filter { what: what.into(), at }
    }

    pub(crate) fn file(file: &std::path::Path, error: impl fmt::Display) -> Self {
        Self::File(format!("{}: {error}", file.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misuse(what) | Self::Changed(what) | Self::File(what) => f.write_str(what),
            Self::Filter { what, at } => write!(f, "filter, at character {}: {what}", at + 1),
            Self::Capture(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Capture(error) => Some(error),
            _ => None,
        }
    }
}

impl From<backsight::Error> for Error {
    fn from(error: backsight::Error) -> Self {
        Self::Capture(error)
    }
}
