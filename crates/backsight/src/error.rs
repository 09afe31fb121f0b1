//! Why a capture cannot be opened or decoded.

use std::fmt;

use backsight_image::ImageError;

use crate::detect::Detection;

/// Why something could not be done. Damage in the trace is never a reason: it is data, and counted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for does not fit the capture, or makes no sense.
    Misuse(String),
    /// Something that was named is not there.
    Absent(String),
    /// A bare file, of which nobody says what it holds: what it seems to be.
    Undescribed(Box<Detection>),
    /// A capture that cannot be read or written.
    Capture(backsight_capture::Error),
    /// Code that cannot be read.
    Image(ImageError),
}

/// The result of what the library does.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn misuse(what: impl Into<String>) -> Self {
        Self::Misuse(what.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misuse(what) | Self::Absent(what) => f.write_str(what),
            Self::Undescribed(detection) => detection.fmt(f),
            Self::Capture(error) => error.fmt(f),
            Self::Image(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Misuse(_) | Self::Absent(_) | Self::Undescribed(_) => None,
            Self::Capture(error) => Some(error),
            Self::Image(error) => Some(error),
        }
    }
}

impl From<backsight_capture::Error> for Error {
    fn from(error: backsight_capture::Error) -> Self {
        Self::Capture(error)
    }
}

impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}
