//! System calls that name a file.

use super::Kernel;
use super::directory::Directory;
use super::errno::Errno;
use super::files::{O_ACCMODE, O_APPEND, O_CLOEXEC, O_NONBLOCK, O_WRONLY, Resource};
use super::threads::PROCESS;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub const AT_FDCWD: i32 = -100;
pub const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
pub const AT_EMPTY_PATH: u64 = 0x1000;
const AT_REMOVEDIR: u64 = 0x200;

const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const O_TRUNC: u64 = 0o1000;
const O_DIRECTORY: u64 = 0o200_000;

/// Where names lead.
pub struct Paths {
    /// The host's files may be used.
    pub host: bool,
    /// The name that the program was started by.
    pub program: String,
    /// The current directory of the program, which this process does not follow.
    pub current: PathBuf,
}

impl Paths {
    /// Begins where this process is.
    pub fn new(host: bool, program: String) -> Self {
        let current = if host { std::env::current_dir().ok() } else { None };
        Self { host, program, current: current.unwrap_or_else(|| PathBuf::from("/")) }
    }

    /// What the kernel itself has at a path: the rest of it under `/proc/self`.
    fn in_own_process<'a>(&self, path: &'a Path) -> Option<&'a OsStr> {
        let rest = path
            .strip_prefix("/proc/self")
            .or_else(|_| path.strip_prefix(format!("/proc/{PROCESS}")))
            .ok()?;
        Some(rest.as_os_str())
    }
}

impl Kernel {
    /// The host's path for what a program names.
    pub(super) fn path(&mut self, directory: u64, address: u64) -> Result<PathBuf, Errno> {
        let text = self.memory.text(address)?;
        if !self.paths.host {
            return Err(Errno::ACCES);
        }
        if text.is_empty() {
            return Err(Errno::NOENT);
        }
        let path = Path::new(OsStr::from_bytes(&text));
        if path.is_absolute() || directory as i32 == AT_FDCWD {
            return Ok(self.paths.current.join(path));
        }
        let open = self.files.get(directory)?;
        match (&open.resource, &open.path) {
            (Resource::Directory(_), Some(base)) => Ok(base.join(path)),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// `openat`.
    pub(super) fn open(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let path = self.path(a[0], a[1])?;
        let flags = a[2];
        let kept = flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_CLOEXEC);
        if let Some(name) = self.paths.in_own_process(&path) {
            return match name.as_bytes() {
                b"maps" => {
                    let text = self.describe_mappings();
                    self.files.insert(Resource::Text(text, 0), kept, Some(path))
                }
                b"exe" => self.open_file(PathBuf::from(&self.paths.program), flags, 0, kept),
                _ => Err(Errno::NOENT),
            };
        }
        let stream = match path.as_os_str().as_bytes() {
            b"/dev/stdin" => Some(0),
            b"/dev/stdout" => Some(1),
            b"/dev/stderr" => Some(2),
            _ => None,
        };
        if let Some(fd) = stream {
            return self.files.duplicate(fd, 0, flags & O_CLOEXEC != 0);
        }
        if path.is_dir() {
            if flags & O_ACCMODE != 0 || flags & O_CREAT != 0 {
                return Err(Errno::ISDIR);
            }
            let directory = Directory::open(&path)?;
            return self.files.insert(Resource::Directory(directory), kept, Some(path));
        }
        if flags & O_DIRECTORY != 0 {
            return Err(if path.exists() { Errno::NOTDIR } else { Errno::NOENT });
        }
        self.open_file(path, flags, a[3] as u32, kept)
    }

    fn open_file(&mut self, path: PathBuf, flags: u64, mode: u32, kept: u64) -> Result<u64, Errno> {
        let writes = flags & O_ACCMODE != 0;
        let append = writes && flags & O_APPEND != 0;
        let create = flags & O_CREAT != 0;
        // To create a file takes the right to write to it, even if the program will only read.
        let opens_writable = writes || create && !path.exists();
        // A FIFO or a terminal would make this process wait for whoever is at the other end.
        let device = fs::metadata(&path).is_ok_and(|metadata| {
            let kind = metadata.file_type();
            kind.is_fifo() || kind.is_char_device()
        });
        let nonblocking = if device { i32::try_from(O_NONBLOCK).unwrap_or(0) } else { 0 };
        let file = OpenOptions::new()
            .read(flags & O_ACCMODE != O_WRONLY)
            .write(opens_writable && !append)
            .append(append)
            .create(create && flags & O_EXCL == 0 && opens_writable)
            .create_new(create && flags & O_EXCL != 0 && opens_writable)
            .truncate(writes && flags & O_TRUNC != 0 && !append)
            .mode(mode & 0o777 & !self.umask)
            .custom_flags(nonblocking)
            .open(&path)?;
        if append && flags & O_TRUNC != 0 {
            file.set_len(0)?;
        }
        if create && flags & O_EXCL != 0 && !opens_writable {
            return Err(Errno::EXIST);
        }
        let resource = if device { Resource::Device(file) } else { Resource::File(file) };
        self.files.insert(resource, kept, Some(path))
    }

    /// `chdir`.
    pub(super) fn change_directory(&mut self, address: u64) -> Result<u64, Errno> {
        let path = self.path(AT_FDCWD as u64, address)?;
        self.set_current(&path)
    }

    /// `fchdir`.
    pub(super) fn change_to_open_directory(&mut self, fd: u64) -> Result<u64, Errno> {
        let open = self.files.get(fd)?;
        match (&open.resource, open.path.clone()) {
            (Resource::Directory(_), Some(path)) => self.set_current(&path),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn set_current(&mut self, path: &Path) -> Result<u64, Errno> {
        let path = fs::canonicalize(path)?;
        if !path.is_dir() {
            return Err(Errno::NOTDIR);
        }
        self.paths.current = path;
        Ok(0)
    }

    /// `getcwd`.
    pub(super) fn current_directory(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let mut bytes = self.paths.current.as_os_str().as_bytes().to_vec();
        bytes.push(0);
        if bytes.len() as u64 > a[1] {
            return Err(Errno::RANGE);
        }
        self.memory.write(a[0], &bytes)?;
        Ok(bytes.len() as u64)
    }

    /// `unlinkat`.
    pub(super) fn unlink(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let path = self.path(a[0], a[1])?;
        if a[2] & AT_REMOVEDIR != 0 {
            fs::remove_dir(path)?
        } else {
            fs::remove_file(path)?
        }
        Ok(0)
    }

    /// `mkdirat`.
    pub(super) fn make_directory(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        fs::create_dir(self.path(a[0], a[1])?)?;
        Ok(0)
    }

    /// `renameat2`.
    pub(super) fn rename(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        const NOREPLACE: u64 = 1;
        let (from, to) = (self.path(a[0], a[1])?, self.path(a[2], a[3])?);
        match a[4] {
            0 => {}
            NOREPLACE if fs::symlink_metadata(&to).is_ok() => return Err(Errno::EXIST),
            NOREPLACE => {}
            _ => return Err(Errno::INVAL),
        }
        fs::rename(from, to)?;
        Ok(0)
    }

    /// `symlinkat`: the first path is only a text.
    pub(super) fn make_symbolic_link(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let target = self.memory.text(a[0])?;
        std::os::unix::fs::symlink(OsStr::from_bytes(&target), self.path(a[1], a[2])?)?;
        Ok(0)
    }

    /// `linkat`.
    pub(super) fn make_link(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let from = self.path(a[0], a[1])?;
        fs::hard_link(from, self.path(a[2], a[3])?)?;
        Ok(0)
    }

    /// `faccessat`.
    pub(super) fn access(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let metadata = fs::metadata(self.path(a[0], a[1])?)?;
        let executable = metadata.mode() & 0o111 != 0;
        if a[2] & 2 != 0 && metadata.permissions().readonly() || a[2] & 1 != 0 && !executable {
            return Err(Errno::ACCES);
        }
        Ok(0)
    }

    /// `readlinkat`.
    pub(super) fn read_link(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let path = self.path(a[0], a[1])?;
        let target = match self.paths.in_own_process(&path) {
            Some(name) if name == "exe" => fs::canonicalize(&self.paths.program)?,
            Some(_) => return Err(Errno::NOENT),
            None => fs::read_link(path)?,
        };
        let bytes = target.as_os_str().as_bytes();
        let count = bytes.len().min(usize::try_from(a[3]).unwrap_or(usize::MAX));
        self.memory.write(a[2], &bytes[..count])?;
        Ok(count as u64)
    }

    /// `truncate`.
    pub(super) fn truncate(&mut self, address: u64, length: u64) -> Result<u64, Errno> {
        let path = self.path(AT_FDCWD as u64, address)?;
        OpenOptions::new().write(true).open(path)?.set_len(length)?;
        Ok(0)
    }
}
