//! Why a capture cannot be read, and where.

use std::fmt;

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line, from 1.
    Line(u32),
    /// A byte offset.
    Offset(u64),
}

/// A capture that cannot be read or written: which file, where in it, what was expected, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, as the user would name it.
    pub file: String,
    /// Where in the file.
    pub place: Place,
    /// What is wrong, and what was expected.
    pub what: String,
    /// What to do about it; may be empty.
    pub advice: String,
}

impl Error {
    pub(crate) fn file(file: impl Into<String>, what: impl Into<String>) -> Self {
        Self { file: file.into(), place: Place::File, what: what.into(), advice: String::new() }
    }

    pub(crate) fn line(file: impl Into<String>, line: u32, what: impl Into<String>) -> Self {
        Self { place: Place::Line(line), ..Self::file(file, what) }
    }

    pub(crate) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    pub(crate) fn io(file: impl Into<String>, error: &std::io::Error) -> Self {
        let what = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
            _ => format!("cannot be read: {error}"),
        };
        Self::file(file, what)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.place {
            Place::File => {}
            Place::Line(line) => write!(f, ":{line}")?,
            Place::Offset(offset) => write!(f, " at offset {offset:#x}")?,
        }
        write!(f, ": {}", self.what)?;
        if !self.advice.is_empty() {
            write!(f, " ({})", self.advice)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
