//! The bytes of a file, mapped where it is large.

use std::fs::{File, Metadata};
use std::io::Read;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use memmap2::Mmap;

use crate::ImageError;

/// Bytes that several pieces of memory and symbol tables share.
#[derive(Clone, Debug)]
pub struct Contents {
    storage: Storage,
    file: Option<Arc<Path>>,
}

#[derive(Clone, Debug)]
enum Storage {
    Mapped(Arc<Mapped>),
    Copied(Arc<Copied>),
    Given(Arc<[u8]>),
}

/// Files up to this size are read. A mapped file that somebody shortens is a bus error at the next access; a copy stays
/// what it is.
const LONGEST_COPY: u64 = 64 << 20;

/// Bytes of copies at once: further files are mapped, unless they are so small that a map costs more than their bytes.
const MOST_COPIED: u64 = 1 << 30;
const SMALLEST_MAPPED: u64 = 64 << 10;

/// How many files are mapped at once. Systems allow a process some 65,000 maps, and its threads and its heap need
/// maps too.
const MOST_MAPS: usize = 32_000;

/// Longest file that is read because it cannot be mapped: a pipe has no end that is known before.
const LONGEST_READ: u64 = 1 << 30;

static MAPS: AtomicUsize = AtomicUsize::new(0);
static COPIED: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct Mapped(Mmap);

impl Drop for Mapped {
    fn drop(&mut self) {
        MAPS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes of a file that was read, as long as they are counted.
#[derive(Debug)]
struct Copied(Box<[u8]>);

impl Copied {
    fn new(bytes: Vec<u8>) -> Self {
        COPIED.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Self(bytes.into())
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        COPIED.fetch_sub(self.0.len() as u64, Ordering::Relaxed);
    }
}

impl Contents {
    /// Reads the file at `path`, or maps it where it is large.
    ///
    /// # Errors
    /// If it cannot be opened or read, is a folder or a device, or there are too many large files.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        Self::of_file(path, File::open(path).map_err(|error| ImageError::io(path, error))?)
    }

    /// The same with a file that was opened; `path` is where it is.
    ///
    /// # Errors
    /// As [`Contents::open`].
    pub fn of_file(path: &Path, file: File) -> Result<Self, ImageError> {
        let io = |error| ImageError::io(path, error);
        let metadata = file.metadata().map_err(io)?;
        if metadata.is_dir() {
            return Err(ImageError::other(path, "is a folder; expected a file"));
        }
        if is_device(&metadata) {
            return Err(ImageError::other(path, "is a device; expected a file"));
        }
        let named = |storage| Self { storage, file: Some(path.into()) };
        if metadata.is_file() && is_mapped(metadata.len()) {
            if MAPS.fetch_add(1, Ordering::Relaxed) >= MOST_MAPS {
                MAPS.fetch_sub(1, Ordering::Relaxed);
                let why = format!(
                    "is one file too many: {MOST_MAPS} files of {SMALLEST_MAPPED} bytes and more are open"
                );
                return Err(ImageError::other(path, why));
            }
            match map(&file) {
                Some(mapped) => return Ok(named(Storage::Mapped(Arc::new(Mapped(mapped))))),
                None => MAPS.fetch_sub(1, Ordering::Relaxed),
            };
        }
        let mut bytes = Vec::with_capacity(metadata.len().min(LONGEST_COPY) as usize);
        file.take(LONGEST_READ + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > LONGEST_READ {
            return Err(ImageError::other(
                path,
                format!("goes on after {LONGEST_READ} bytes and cannot be mapped"),
            ));
        }
        Ok(named(Storage::Copied(Arc::new(Copied::new(bytes)))))
    }

    /// Bytes that were made of a file, and count as such; `None` if there are too many already.
    pub(crate) fn made(bytes: Vec<u8>) -> Option<Self> {
        let all = COPIED.load(Ordering::Relaxed).saturating_add(bytes.len() as u64);
        (all <= MOST_COPIED)
            .then(|| Self { storage: Storage::Copied(Arc::new(Copied::new(bytes))), file: None })
    }

    /// The file that the bytes were read from, if they were read from one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The same bytes, without the file that they were read from.
    pub(crate) fn without_file(self) -> Self {
        Self { file: None, ..self }
    }

    /// The same for all clones, and for nothing else as long as one of them is kept.
    pub(crate) fn identity(&self) -> (usize, usize) {
        (self.as_ptr() as usize, self.len())
    }
}

#[cfg(unix)]
fn is_device(metadata: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_char_device() || metadata.file_type().is_block_device()
}

#[cfg(not(unix))]
fn is_device(_: &Metadata) -> bool {
    false
}

/// Is a file of this size mapped?
fn is_mapped(size: u64) -> bool {
    let has_room = COPIED.load(Ordering::Relaxed).saturating_add(size) <= MOST_COPIED;
    size >= SMALLEST_MAPPED && (size > LONGEST_COPY || !has_room)
}

/// Mapping saves reading large programs of which a trace touches a few pages, and copying them.
#[expect(unsafe_code)]
fn map(file: &File) -> Option<Mmap> {
    // SAFETY: the mapping is private and read-only, and nothing here relies on the bytes staying the same: code is
    // classified and ELF structures are checked at each access. A file that somebody shortens while it is in use
    // is a bus error, as it is in any program that maps files; the program says so in a message.
    unsafe { Mmap::map(file) }.ok()
}

impl Deref for Contents {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.storage {
            Storage::Mapped(mapped) => &mapped.0,
            Storage::Copied(copied) => &copied.0,
            Storage::Given(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Contents {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Arc<[u8]>> for Contents {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self { storage: Storage::Given(bytes), file: None }
    }
}

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Self {
        Arc::<[u8]>::from(bytes).into()
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
    fn a_file_that_the_system_makes_up_is_read_and_a_device_is_not() {
        assert!(!Contents::open(Path::new("/proc/self/cmdline")).unwrap().is_empty());
        let error = Contents::open(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("is a device"), "{error}");
    }

    #[test]
    fn small_files_are_read_and_large_ones_mapped() {
        let path = std::env::temp_dir().join(format!("backsight-contents-{}", std::process::id()));
        for (size, mapped) in [(100, false), (100_000, false), (LONGEST_COPY + 1, true)] {
            File::create(&path).and_then(|file| file.set_len(size)).unwrap();
            let contents = Contents::open(&path).unwrap();
            assert_eq!((contents.len() as u64, contents.file()), (size, Some(&*path)));
            assert_eq!(matches!(contents.storage, Storage::Mapped(_)), mapped);
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_shrinks_is_what_it_was_when_it_was_opened() {
        let path = std::env::temp_dir().join(format!("backsight-shrinks-{}", std::process::id()));
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let contents = Contents::open(&path).unwrap();
        File::create(&path).unwrap();
        assert!(contents.iter().all(|&byte| byte == 7) && contents.len() == 1 << 20);
        std::fs::remove_file(&path).unwrap();
    }
}
