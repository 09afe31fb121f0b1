//! The files of a capture, wherever they are: a directory, a ZIP archive, memory, standard input.

use crate::Error;
use backsight_image::GivenFolder;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Metadata files are not longer than this; a longer one is not what it claims to be.
pub(crate) const LONGEST_METADATA: u64 = 4 << 20;
/// Event logs are not longer than this: some millions of events.
pub const LONGEST_LOG: u64 = 256 << 20;
/// Files listed from a directory at most.
const MOST_FILES: usize = 100_000;

/// Somewhere with files under relative, `/`-separated paths.
pub trait Folder: Send + Sync + fmt::Debug {
    /// Opens a file. The path has been through [`safe_path`].
    ///
    /// # Errors
    /// If there is no such file, or it cannot be read.
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>>;

    /// Opens a file and passes over its first bytes, without reading them where that is possible.
    ///
    /// # Errors
    /// As [`Folder::open`].
    fn open_at(&self, path: &str, position: u64) -> io::Result<Box<dyn Read + Send>> {
        passed_over(self.open(path)?, position)
    }

    /// The length of a file in bytes; `None` where only reading it says.
    ///
    /// # Errors
    /// If there is no such file.
    fn length(&self, path: &str) -> io::Result<Option<u64>>;

    /// Can files be opened more than once?
    fn can_reopen(&self) -> bool {
        true
    }

    /// Where the file is on disk, if it is a file of its own there.
    fn location(&self, _path: &str) -> Option<PathBuf> {
        None
    }

    /// The paths of all files.
    fn files(&self) -> Vec<String>;

    /// The name of a file in messages.
    fn describe(&self, path: &str) -> String;
}

/// One file of a folder. Opened when needed, never loaded whole.
#[derive(Clone, Debug)]
pub struct FileRef {
    folder: Arc<dyn Folder>,
    path: String,
}

impl FileRef {
    /// A file by its path, which must stay inside the folder. The file need not exist.
    ///
    /// # Errors
    /// If the path is absolute, or leaves the folder.
    pub fn new(folder: &Arc<dyn Folder>, path: &str) -> Result<Self, Error> {
        let path = safe_path(path).map_err(|why| Error::file(folder.describe(path), why.to_string()))?;
        Ok(Self { folder: folder.clone(), path })
    }

    /// A file whose path is only a name for it.
    pub(crate) fn of(folder: Arc<dyn Folder>, path: String) -> Self {
        Self { folder, path }
    }

    /// Can it be opened more than once? Standard input and other streams cannot.
    pub fn can_reopen(&self) -> bool {
        self.folder.can_reopen()
    }

    /// The path inside the folder.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The folder.
    pub fn folder(&self) -> &Arc<dyn Folder> {
        &self.folder
    }

    /// Is it there?
    pub fn exists(&self) -> bool {
        self.folder.length(&self.path).is_ok()
    }

    /// The length in bytes; `None` where only reading it says, or it is not there.
    pub fn length(&self) -> Option<u64> {
        self.folder.length(&self.path).ok().flatten()
    }

    /// Where the file is on disk, if it is a file of its own there (and not, say, part of an archive).
    pub fn location(&self) -> Option<PathBuf> {
        self.folder.location(&self.path)
    }

    /// Opens it.
    ///
    /// # Errors
    /// If it is not there, or cannot be read.
    pub fn open(&self) -> Result<Box<dyn Read + Send>, Error> {
        self.folder.open(&self.path).map_err(|error| Error::io(self.to_string(), &error))
    }

    /// Opens it, and passes over its first bytes.
    ///
    /// # Errors
    /// If it is not there, or cannot be read.
    pub fn open_at(&self, position: u64) -> Result<Box<dyn Read + Send>, Error> {
        self.folder.open_at(&self.path, position).map_err(|error| Error::io(self.to_string(), &error))
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// If it cannot be read, or is longer than `longest`.
    pub fn read(&self, longest: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = self.open()?.take(longest.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| Error::io(self.to_string(), &error))?;
        if bytes.len() as u64 > longest {
            return Err(Error::file(
                self.to_string(),
                format!("is longer than the {longest} bytes expected"),
            ));
        }
        Ok(bytes)
    }

    /// Reads a text file. What is not UTF-8 is replaced: names and numbers are not affected.
    pub(crate) fn text(&self, longest: u64) -> Result<String, Error> {
        let bytes = self.read(longest)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}

impl fmt::Display for FileRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.folder.describe(&self.path))
    }
}

/// Why a path is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It begins at a root.
    Absolute(String),
    /// It leads out of the capture.
    Outside(String),
    /// It holds a zero byte.
    ZeroByte,
    /// It names nothing.
    Empty,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::ini::short;
        match self {
            Self::Absolute(path) => {
                write!(f, "`{}` is an absolute path, expected one inside the capture", short(path))
            }
            Self::Outside(path) => write!(f, "`{}` leaves the capture: `..` is refused", short(path)),
            Self::ZeroByte => f.write_str("the path holds a zero byte"),
            Self::Empty => f.write_str("expected the path of a file, found nothing"),
        }
    }
}

impl std::error::Error for PathError {}

/// The path without `.` and doubled `/`, if it stays inside its folder.
///
/// # Errors
/// If it does not.
pub fn safe_path(path: &str) -> Result<String, PathError> {
    let bytes = path.as_bytes();
    let drive = bytes.get(1) == Some(&b':') && bytes[0].is_ascii_alphabetic();
    if path.starts_with(['/', '\\']) || drive {
        return Err(PathError::Absolute(path.to_owned()));
    }
    if path.contains('\0') {
        return Err(PathError::ZeroByte);
    }
    if path.split(['/', '\\']).any(|part| part == "..") {
        return Err(PathError::Outside(path.to_owned()));
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() { Err(PathError::Empty) } else { Ok(parts.join("/")) }
}

/// A directory on disk. A capture may come from anyone: only regular files that are really inside the directory are
/// opened, whatever the links in it say. Others could block for ever, have no end, or belong to somebody else.
#[derive(Debug)]
pub struct Directory(GivenFolder);

impl Directory {
    /// The directory of this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(GivenFolder::new(path))
    }
}

impl Folder for Directory {
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.0.open(path)?.0))
    }

    fn open_at(&self, path: &str, position: u64) -> io::Result<Box<dyn Read + Send>> {
        file_at(self.0.open(path)?.0, position)
    }

    fn length(&self, path: &str) -> io::Result<Option<u64>> {
        Ok(Some(self.0.find(path)?.1.len()))
    }

    fn location(&self, path: &str) -> Option<PathBuf> {
        Some(self.0.find(path).ok()?.0)
    }

    fn files(&self) -> Vec<String> {
        let mut files = files_below(self.0.path());
        files.retain(|path| self.0.find(path).is_ok());
        files
    }

    fn describe(&self, path: &str) -> String {
        self.0.path().join(path).display().to_string()
    }
}

/// A directory on disk that is trusted: links in it may lead anywhere, and its files may be of any kind.
#[derive(Clone, Debug)]
pub struct LinkedDirectory(pub PathBuf);

impl Folder for LinkedDirectory {
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(open_file(&self.0.join(path))?))
    }

    fn open_at(&self, path: &str, position: u64) -> io::Result<Box<dyn Read + Send>> {
        file_at(open_file(&self.0.join(path))?, position)
    }

    fn length(&self, path: &str) -> io::Result<Option<u64>> {
        length_of_file(&self.0.join(path))
    }

    fn location(&self, path: &str) -> Option<PathBuf> {
        Some(self.0.join(path))
    }

    fn files(&self) -> Vec<String> {
        files_below(&self.0)
    }

    fn describe(&self, path: &str) -> String {
        self.0.join(path).display().to_string()
    }
}

fn open_file(path: &Path) -> io::Result<fs::File> {
    let file = fs::File::open(path)?;
    match file.metadata()?.is_dir() {
        true => Err(io::Error::other("it is a directory")),
        false => Ok(file),
    }
}

/// A file from this position on. Pipes and the like have to be read up to there.
fn file_at(mut file: fs::File, position: u64) -> io::Result<Box<dyn Read + Send>> {
    match file.seek(SeekFrom::Start(position)) {
        Ok(_) => Ok(Box::new(file)),
        Err(_) => passed_over(Box::new(file), position),
    }
}

/// What comes after so many bytes.
pub(crate) fn passed_over(mut reader: Box<dyn Read + Send>, bytes: u64) -> io::Result<Box<dyn Read + Send>> {
    io::copy(&mut reader.by_ref().take(bytes), &mut io::sink())?;
    Ok(reader)
}

/// The length of a regular file; that of others shows only when they are read.
fn length_of_file(path: &Path) -> io::Result<Option<u64>> {
    let metadata = fs::metadata(path)?;
    match metadata.is_dir() {
        true => Err(io::Error::other("it is a directory")),
        false => Ok(metadata.is_file().then_some(metadata.len())),
    }
}

fn files_below(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![(directory.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else {
                continue;
            };
            let path = format!("{prefix}{name}");
            if kind.is_dir() {
                folders.push((entry.path(), format!("{path}/")));
            } else if files.len() < MOST_FILES {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Files in memory.
#[derive(Clone, Default)]
pub struct Memory(pub BTreeMap<String, Arc<[u8]>>);

impl Memory {
    /// A file with these bytes; `name` is for messages.
    pub fn file(name: &str, bytes: impl Into<Arc<[u8]>>) -> FileRef {
        let memory = Self(BTreeMap::from([(name.to_owned(), bytes.into())]));
        FileRef { folder: Arc::new(memory), path: name.to_owned() }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Folder for Memory {
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>> {
        let bytes = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(io::Cursor::new(bytes.clone())))
    }

    fn length(&self, path: &str) -> io::Result<Option<u64>> {
        let bytes = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Some(bytes.len() as u64))
    }

    fn files(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn describe(&self, path: &str) -> String {
        path.to_owned()
    }
}

/// A file by itself, or standard input if the path is `-`.
#[derive(Clone, Debug)]
pub struct Lone(pub PathBuf);

impl Lone {
    /// A reference to the file.
    pub fn file(self) -> FileRef {
        let path = self.0.display().to_string();
        FileRef { folder: Arc::new(self), path }
    }

    fn is_input(&self) -> bool {
        self.0 == Path::new("-")
    }
}

impl Folder for Lone {
    fn open(&self, _path: &str) -> io::Result<Box<dyn Read + Send>> {
        if self.is_input() {
            return Ok(Box::new(io::stdin()));
        }
        Ok(Box::new(open_file(&self.0)?))
    }

    fn open_at(&self, path: &str, position: u64) -> io::Result<Box<dyn Read + Send>> {
        if self.is_input() {
            return passed_over(self.open(path)?, position);
        }
        file_at(open_file(&self.0)?, position)
    }

    fn length(&self, _path: &str) -> io::Result<Option<u64>> {
        if self.is_input() { Ok(None) } else { length_of_file(&self.0) }
    }

    fn can_reopen(&self) -> bool {
        !self.is_input() && self.0.is_file()
    }

    fn location(&self, _path: &str) -> Option<PathBuf> {
        (!self.is_input()).then(|| self.0.clone())
    }

    fn files(&self) -> Vec<String> {
        vec![self.0.display().to_string()]
    }

    fn describe(&self, _path: &str) -> String {
        if self.is_input() { "standard input".to_owned() } else { self.0.display().to_string() }
    }
}

/// Bytes that come from elsewhere and can be read once: a socket, a pipe, a program's own source.
pub struct Incoming {
    name: String,
    reader: Mutex<Option<Box<dyn Read + Send>>>,
}

impl Incoming {
    /// A file with the bytes of `reader`; `name` is for messages.
    pub fn file(name: &str, reader: impl Read + Send + 'static) -> FileRef {
        let incoming = Self { name: name.to_owned(), reader: Mutex::new(Some(Box::new(reader))) };
        FileRef { folder: Arc::new(incoming), path: name.to_owned() }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incoming({})", self.name)
    }
}

impl Folder for Incoming {
    fn open(&self, _path: &str) -> io::Result<Box<dyn Read + Send>> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        reader.ok_or_else(|| io::Error::other("it was read before, and can be read once only"))
    }

    fn can_reopen(&self) -> bool {
        false
    }

    fn length(&self, _path: &str) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn files(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn describe(&self, _path: &str) -> String {
        self.name.clone()
    }
}
