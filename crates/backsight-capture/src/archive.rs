//! A ZIP archive as a folder.
//!
//! The directory of the archive is read once; files are decompressed while they are read. Nothing in an archive is
//! trusted: paths must stay inside, a file may not yield more than its directory entry says, and its checksum is
//! verified at the end. All reading together has one budget: a small archive cannot fill memory or time, whatever its
//! entries say of themselves and however often they are named.

use crate::folder::{Folder, safe_path};
use crate::{Error, ini::short};
use backsight_core::{Budget, Door};
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use zip::{CompressionMethod, ZipArchive};

/// What other systems put beside the files and nobody asked for.
const RESOURCE_FORKS: &str = "__MACOSX/";

/// A ZIP archive whose files are read where they lie.
pub struct Archive {
    store: Store,
    name: String,
    files: BTreeMap<String, Member>,
    budget: Arc<Budget>,
}

/// What holds the archive.
enum Store {
    File(PathBuf),
    Memory(Arc<[u8]>),
}

#[derive(Clone, Copy, Debug)]
struct Member {
    start: u64,
    compressed: u64,
    length: u64,
    crc: u32,
    stored: bool,
}

trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

impl Store {
    fn length(&self) -> io::Result<u64> {
        Ok(match self {
            Self::File(path) => std::fs::metadata(path)?.len(),
            Self::Memory(bytes) => bytes.len() as u64,
        })
    }

    fn open(&self) -> io::Result<Box<dyn ReadSeek>> {
        Ok(match self {
            Self::File(path) => Box::new(File::open(path)?),
            Self::Memory(bytes) => Box::new(Cursor::new(bytes.clone())),
        })
    }
}

impl Archive {
    /// Reads the directory of an archive on disk. All reading out of it together may give `budget` bytes; without one,
    /// what the size of the archive allows for.
    ///
    /// # Errors
    /// If it is no ZIP archive, or one with encryption, unknown compression or paths that leave it.
    pub fn open(path: PathBuf, budget: Option<u64>) -> Result<Self, Error> {
        let name = path.display().to_string();
        Self::read(Store::File(path), name, budget)
    }

    /// Reads the directory of an archive in memory, with the usual budget.
    ///
    /// # Errors
    /// If it is no ZIP archive, or one with encryption, unknown compression or paths that leave it.
    pub fn in_memory(bytes: Arc<[u8]>, name: &str) -> Result<Self, Error> {
        Self::read(Store::Memory(bytes), name.to_owned(), None)
    }

    fn read(store: Store, name: String, budget: Option<u64>) -> Result<Self, Error> {
        let trouble = |error: io::Error| Error::io(&name, &error);
        let length = store.length().map_err(trouble)?;
        let budget = Arc::new(Budget::of(Door::Archive, budget, length));
        let reader = store.open().map_err(trouble)?;
        let refuse =
            |error: zip::result::ZipError| Error::file(&name, format!("not a readable ZIP archive: {error}"));
        let mut archive = ZipArchive::new(reader).map_err(refuse)?;
        if archive.has_duplicate_names() {
            return Err(Error::file(&name, "two files of the archive have the same name"));
        }
        let mut files = BTreeMap::new();
        for index in 0..archive.len() {
            let entry = archive.by_index_raw(index).map_err(refuse)?;
            let path = entry.name().map_err(refuse)?.into_owned();
            if entry.is_dir() || path.starts_with(RESOURCE_FORKS) {
                continue;
            }
            let bad = |what: String| Error::file(format!("{name}/{}", short(&path)), what);
            let safe = safe_path(&path).map_err(|why| bad(why.to_string()))?;
            if entry.encrypted() {
                return Err(bad("is encrypted".to_owned()).advise("make the archive without a password"));
            }
            let stored = match entry.compression() {
                CompressionMethod::Stored => true,
                CompressionMethod::Deflated => false,
                other => return Err(bad(format!("is compressed by {other}, expected stored or deflate"))),
            };
            let start = entry.data_start().ok_or_else(|| bad("has no data in the archive".to_owned()))?;
            let member = Member {
                start,
                compressed: entry.compressed_size(),
                length: entry.size(),
                crc: entry.crc32(),
                stored,
            };
            files.insert(safe, member);
        }
        Ok(Self { store, name, files: without_top(files), budget })
    }

    fn member(&self, path: &str) -> io::Result<&Member> {
        self.files.get(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Takes away the one directory that everything is in, if there is one.
fn without_top(files: BTreeMap<String, Member>) -> BTreeMap<String, Member> {
    let top = files.keys().next().and_then(|path| path.split_once('/')).map(|(top, _)| format!("{top}/"));
    match top {
        Some(top) if files.keys().all(|path| path.starts_with(&top)) => {
            files.into_iter().map(|(path, member)| (path[top.len()..].to_owned(), member)).collect()
        }
        _ => files,
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Archive({}, {} files)", self.name, self.files.len())
    }
}

impl Folder for Archive {
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>> {
        let member = *self.member(path)?;
        let mut store = self.store.open()?;
        store.seek(SeekFrom::Start(member.start))?;
        let raw = store.take(member.compressed);
        let budget = Arc::clone(&self.budget);
        Ok(if member.stored {
            Box::new(Checked::new(raw, member, budget))
        } else {
            Box::new(Checked::new(DeflateDecoder::new(raw), member, budget))
        })
    }

    fn length(&self, path: &str) -> io::Result<Option<u64>> {
        Ok(Some(self.member(path)?.length))
    }

    fn files(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    fn describe(&self, path: &str) -> String {
        format!("{}/{path}", self.name)
    }
}

/// Holds a file of an archive to what its directory entry says of it.
struct Checked<R> {
    inner: R,
    left: u64,
    expected: u32,
    crc: Crc,
    budget: Arc<Budget>,
}

impl<R> Checked<R> {
    fn new(inner: R, member: Member, budget: Arc<Budget>) -> Self {
        Self { inner, left: member.length, expected: member.crc, crc: Crc::new(), budget }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let damaged = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let count = self.inner.read(buffer)?;
        if count as u64 > self.left {
            return damaged("it expands to more than the archive says");
        }
        let quota = |why| io::Error::new(io::ErrorKind::QuotaExceeded, why);
        self.budget.take(count as u64).map_err(quota)?;
        self.crc.update(&buffer[..count]);
        self.left -= count as u64;
        if count == 0 && !buffer.is_empty() {
            if self.left > 0 {
                return damaged("it is shorter than the archive says");
            }
            if self.crc.sum() != self.expected {
                return damaged("its checksum is wrong");
            }
        }
        Ok(count)
    }
}
