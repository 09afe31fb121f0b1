//! Why the program could not do what it was asked.

use std::fmt;
use std::path::Path;

/// The result of a command.
pub type Result<T = ()> = std::result::Result<T, Failure>;

/// A reason to stop. The exit status follows from it.
#[derive(Debug)]
pub enum Failure {
    /// Could not be done: exit status 1.
    Failed(String),
    /// Wrong use of the program: exit status 2.
    Usage(String),
    /// It was done, and something is wrong with the capture, or two captures differ, as was said: exit status 3.
    Found,
    /// The reader of our output went away. Nobody is left to be informed: exit status 0.
    PipeClosed,
    /// The program that was run ended with this status, which becomes ours: there is nothing to say.
    Status(u8),
    /// As much was done as was asked for: no failure, only a way out of the middle of things.
    Enough,
}

impl Failure {
    /// A failure with its reason.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string())
    }

    /// Wrong use of the program.
    pub fn usage(reason: impl fmt::Display) -> Self {
        Self::Usage(reason.to_string())
    }

    /// A file that could not be read or written.
    pub fn file(path: &Path, error: &std::io::Error) -> Self {
        Self::Failed(format!("{}: {error}", path.display()))
    }

    /// The exit status that says this.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Found => 3,
            Self::Status(status) => *status,
            Self::PipeClosed | Self::Enough => 0,
        }
    }
}

impl From<backsight::Error> for Failure {
    fn from(error: backsight::Error) -> Self {
        match error {
            backsight::Error::Misuse(reason) => Self::Usage(reason),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<backsight_run::Error> for Failure {
    fn from(error: backsight_run::Error) -> Self {
        match error {
            backsight_run::Error::Setting(error) => Self::usage(format!("--config {error}")),
            error => Self::new(error),
        }
    }
}

impl From<backsight_run::qemu::QemuError> for Failure {
    fn from(error: backsight_run::qemu::QemuError) -> Self {
        Self::new(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(reason) | Self::Usage(reason) => f.write_str(reason),
            Self::Found => f.write_str("something is wrong with the capture"),
            Self::PipeClosed => f.write_str("the reader of the output has gone"),
            Self::Status(status) => write!(f, "the program ended with status {status}"),
            Self::Enough => f.write_str("enough was done"),
        }
    }
}
