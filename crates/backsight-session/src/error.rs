//! Why there is no such session.

use std::fmt;

/// What is wrong with a system or a request, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }

    /// Something about one component.
    pub(crate) fn of(component: &str, what: impl fmt::Display) -> Self {
        Self(format!("{component}: {what}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<backsight_capture::Error> for Error {
    fn from(error: backsight_capture::Error) -> Self {
        Self::new(error)
    }
}
