//! A file that is read here and there: perf.data, a core file; and the files that are cut out of it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use crate::folder::Folder;

/// Something to read from and to move about in.
pub(crate) trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// Where the file is.
#[derive(Clone)]
pub(crate) enum Store {
    /// On disk.
    File(PathBuf),
    /// In memory.
    Memory(Arc<[u8]>),
}

impl Store {
    pub(crate) fn open(&self) -> io::Result<Box<dyn ReadSeek>> {
        Ok(match self {
            Self::File(path) => Box::new(File::open(path)?),
            Self::Memory(bytes) => Box::new(Cursor::new(bytes.clone())),
        })
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Memory(bytes) => write!(f, "{} bytes", bytes.len()),
        }
    }
}

/// Consecutive bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub position: u64,
    pub length: u64,
}

/// Files of bytes that lie here and there in another one.
#[derive(Debug)]
pub(crate) struct ExtentFolder {
    pub store: Store,
    /// The name of that file.
    pub name: String,
    pub buffers: BTreeMap<String, Vec<Extent>>,
}

impl ExtentFolder {
    fn extents(&self, path: &str) -> io::Result<&Vec<Extent>> {
        self.buffers.get(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Folder for ExtentFolder {
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>> {
        let mut extents = self.extents(path)?.clone();
        extents.reverse();
        Ok(Box::new(Extents { source: self.store.open()?, left: 0, extents }))
    }

    fn length(&self, path: &str) -> io::Result<Option<u64>> {
        Ok(Some(self.extents(path)?.iter().map(|extent| extent.length).sum()))
    }

    fn files(&self) -> Vec<String> {
        self.buffers.keys().cloned().collect()
    }

    fn describe(&self, path: &str) -> String {
        format!("{}: {path}", self.name)
    }
}

/// Reads extents one after the other.
struct Extents {
    source: Box<dyn ReadSeek>,
    /// Bytes of the current one that are left.
    left: u64,
    /// The others, the next one last.
    extents: Vec<Extent>,
}

impl Read for Extents {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            let Some(next) = self.extents.pop() else { return Ok(0) };
            self.source.seek(SeekFrom::Start(next.position))?;
            self.left = next.length;
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.source.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends within its trace"));
        }
        self.left -= count as u64;
        Ok(count)
    }
}
