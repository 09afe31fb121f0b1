//! Why a capture cannot be read, and where.

use backsight_core::Printable;
use std::fmt;

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
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
    pub position: Position,
    /// What is wrong, and what was expected.
    pub what: String,
    /// What to do about it; may be empty.
    pub advice: String,
}

impl Error {
    pub(crate) fn file(file: impl Into<String>, what: impl Into<String>) -> Self {
        Self { file: file.into(), position: Position::File, what: what.into(), advice: String::new() }
    }

    pub(crate) fn line(file: impl Into<String>, line: u32, what: impl Into<String>) -> Self {
        Self { position: Position::Line(line), ..Self::file(file, what) }
    }

    pub(crate) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// A file that could not be read.
    pub fn io(file: impl Into<String>, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::file(file, "there is no such file"),
            _ => Self::file(file, format!("cannot be read: {error}")),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names of a capture are in all of them.
        write!(f, "{}", Printable(&self.file))?;
        match self.position {
            Position::File => {}
            Position::Line(line) => write!(f, ":{line}")?,
            Position::Offset(offset) => write!(f, " at offset {offset:#x}")?,
        }
        write!(f, ": {}", Printable(&self.what))?;
        if !self.advice.is_empty() {
            write!(f, " ({})", Printable(&self.advice))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
