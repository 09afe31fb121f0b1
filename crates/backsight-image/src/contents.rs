//! The bytes of a file, mapped where possible.

use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::ImageError;

/// Bytes that several regions and symbol tables share.
#[derive(Clone, Debug)]
pub struct Contents(Storage);

#[derive(Clone, Debug)]
enum Storage {
    Mapped(Arc<Mmap>),
    Read(Arc<[u8]>),
}

impl Contents {
    /// Maps the file at `path`; reads it where it cannot be mapped (pipes, files that the system makes up).
    ///
    /// # Errors
    /// If it cannot be opened or read, or is a folder.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let mut file = File::open(path).map_err(|error| ImageError::io(path, error))?;
        let metadata = file.metadata().map_err(|error| ImageError::io(path, error))?;
        if metadata.is_dir() {
            return Err(ImageError::other(path, "is a folder; expected a file"));
        }
        // Files that the system makes up say that they are empty.
        let mapped = if metadata.is_file() && metadata.len() > 0 { map(&file) } else { None };
        if let Some(mapped) = mapped {
            return Ok(Self(Storage::Mapped(Arc::new(mapped))));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| ImageError::io(path, error))?;
        Ok(Self::from(bytes))
    }
}

/// Mapping saves reading whole programs of which a trace touches a few pages, and copying them.
#[expect(unsafe_code)]
fn map(file: &File) -> Option<Mmap> {
    // SAFETY: the mapping is private and read-only, and nothing here relies on the bytes staying the same: code is
    // classified and ELF structures are checked at each access. A file that somebody shortens while it is in use
    // ends the process, as it does in any program that maps files.
    unsafe { Mmap::map(file) }.ok()
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Storage::Mapped(bytes) => bytes,
            Storage::Read(bytes) => bytes,
        }
    }
}

impl From<Arc<[u8]>> for Contents {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(Storage::Read(bytes))
    }
}

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Storage::Read(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_refused() {
        let error = Contents::open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err();
        assert!(error.to_string().contains("is a folder"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Contents::open(Path::new("/nowhere/vmlinux")).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/vmlinux: ") && error.is_missing_file(), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_the_system_makes_up_is_read() {
        assert!(!Contents::open(Path::new("/proc/self/cmdline")).unwrap().is_empty());
    }
}
