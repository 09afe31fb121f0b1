//! What can be wrong with a file of code.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::elf_headers::ElfHeaderError;

/// A file that cannot be used, and why.
#[derive(Debug)]
pub struct ImageError {
    file: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Io(io::Error),
    Elf(ElfHeaderError),
    Other(String),
}

impl ImageError {
    pub(crate) fn io(file: &Path, error: io::Error) -> Self {
        Self { file: file.to_owned(), why: Why::Io(error) }
    }

    pub(crate) fn elf(file: &Path, error: ElfHeaderError) -> Self {
        Self { file: file.to_owned(), why: Why::Elf(error) }
    }

    pub(crate) fn other(file: &Path, why: impl Into<String>) -> Self {
        Self { file: file.to_owned(), why: Why::Other(why.into()) }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Is the file not there at all?
    pub fn is_missing_file(&self) -> bool {
        matches!(&self.why, Why::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.why {
            Why::Io(error) => write!(f, "{file}: {error}"),
            Why::Elf(error) => write!(f, "{file}: not a usable ELF file: {error}"),
            Why::Other(why) => write!(f, "{file}: {why}"),
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            Why::Io(error) => Some(error),
            Why::Elf(error) => Some(error),
            Why::Other(_) => None,
        }
    }
}
