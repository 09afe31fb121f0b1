//! Why something could not be run or recorded.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use backsight_image::ImageError;
use backsight_riscv::ingress::LogError;
use backsight_sim::ElfError;

use crate::Ended;
use crate::qemu::QemuError;
use crate::retired::RetiredError;
use crate::settings::SettingError;
use crate::units::UnitError;

/// Why something could not be run or recorded.
#[derive(Debug)]
pub enum Error {
    /// A file or folder cannot be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// There is something at the place for a capture already.
    Exists(PathBuf),
    /// What is to be replaced is no capture.
    NoCapture(PathBuf),
    /// Another recording is being written there.
    Busy(PathBuf),
    /// A recording that was interrupted is there.
    Interrupted {
        /// Its folder.
        part: PathBuf,
        /// Bytes of trace that it has.
        bytes: u64,
    },
    /// More happens to the memory and the processes of a program than a log may say.
    LongLog {
        /// Events that are logged.
        events: u64,
        /// The longest log, in bytes.
        longest: u64,
    },
    /// A capture needs a name.
    NoName(PathBuf),
    /// An archive was wanted under a name that is not one's.
    NoArchive(PathBuf),
    /// A setting of a trace unit.
    Setting(SettingError),
    /// A trace unit or the funnel cannot go on.
    Unit(UnitError),
    /// The simulator cannot run the program.
    Simulator {
        /// The program.
        program: PathBuf,
        /// Why not.
        error: ElfError,
    },
    /// QEMU cannot run the program.
    Qemu(QemuError),
    /// A file of retired instructions.
    Retired {
        /// Its name.
        name: String,
        /// What is wrong with it.
        error: RetiredError,
    },
    /// A commit log.
    Log {
        /// Its name.
        name: String,
        /// What is wrong with it.
        error: LogError,
    },
    /// A line of a commit log that does not end.
    LongLine {
        /// The name of the log.
        name: String,
        /// The longest that is taken.
        longest: u64,
    },
    /// Not a single instruction was executed.
    NothingExecuted {
        /// What was to be executed.
        name: String,
        /// What happened instead.
        ended: Ended,
    },
    /// A file of code.
    Image(ImageError),
    /// The description of a capture.
    Capture(backsight_capture::Error),
}

impl Error {
    /// A file or folder that cannot be read or written.
    pub fn file(path: impl AsRef<Path>, error: io::Error) -> Self {
        Self::File { path: path.as_ref().to_owned(), error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Exists(path) => {
                write!(f, "{}: exists; choose another name, or replace it with --force", path.display())
            }
            Self::NoCapture(path) => {
                write!(
                    f,
                    "{}: exists, and is no capture that could be replaced; choose another name",
                    path.display()
                )
            }
            Self::Busy(path) => write!(f, "{}: another recording is being written here", path.display()),
            Self::Interrupted { part, bytes } => {
                let part = part.display();
                write!(
                    f,
                    "{part}: a recording that was interrupted is here, with {bytes} bytes of trace (see `backsight info \
                     {part}`); rename it to keep it, or discard it with --force"
                )
            }
            Self::LongLog { events, longest } => write!(
                f,
                "the program changes its code, mappings or processes too often: the log is full with {events} events \
                 ({longest} bytes)"
            ),
            Self::NoName(path) => {
                write!(
                    f,
                    "{}: a capture needs a folder of its own; name one that does not exist yet",
                    path.display()
                )
            }
            Self::NoArchive(path) => write!(f, "{}: an archive ends in .zip", path.display()),
            Self::Setting(error) => error.fmt(f),
            Self::Unit(error) => error.fmt(f),
            Self::Simulator { program, error: error @ ElfError::Dynamic } => {
                write!(f, "{}: {error}, or run it under QEMU: --qemu --sysroot DIR", program.display())
            }
            Self::Simulator { program, error } => write!(f, "{}: {error}", program.display()),
            Self::Qemu(error) => error.fmt(f),
            Self::Retired { name, error } => write!(f, "{name}: {error}"),
            Self::Log { name, error } => write!(f, "{name}: {error}"),
            Self::LongLine { name, longest } => {
                write!(
                    f,
                    "{name}: a line of more than {longest} bytes; expected a commit log, one commit a line"
                )
            }
            Self::NothingExecuted { name, ended } => write!(f, "{name}: no instruction retired: {ended}"),
            Self::Image(error) => error.fmt(f),
            Self::Capture(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { error, .. } => Some(error),
            Self::Simulator { error, .. } => Some(error),
            Self::Qemu(error) => Some(error),
            Self::Retired { error, .. } => Some(error),
            Self::Log { error, .. } => Some(error),
            Self::Image(error) => Some(error),
            Self::Capture(error) => Some(error),
            Self::Setting(error) => Some(error),
            Self::Unit(error) => Some(error),
            _ => None,
        }
    }
}

impl From<QemuError> for Error {
    fn from(error: QemuError) -> Self {
        Self::Qemu(error)
    }
}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Self {
        Self::Setting(error)
    }
}

impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

impl From<backsight_capture::Error> for Error {
    fn from(error: backsight_capture::Error) -> Self {
        Self::Capture(error)
    }
}
