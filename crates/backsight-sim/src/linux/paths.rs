//! System calls that name a file.

use super::Kernel;
use super::directory::Directory;
use super::errno::Errno;
use super::files::{O_ACCMODE, O_APPEND, O_CLOEXEC, O_NONBLOCK, O_WRONLY, Resource};
use super::host::Host;
use super::threads::PROCESS;
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs::{self, FileType};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
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
    /// The host's files.
    pub host: Host,
    /// The name that the program was started by.
    pub program: String,
    /// The current directory of the program, which this process does not follow.
    pub current: PathBuf,
}

impl Paths {
    /// Begins where this process is.
    pub fn new(host: Host, program: String) -> Self {
        let current = if host.is_there() { std::env::current_dir().ok() } else { None };
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
        if !self.paths.host.is_there() {
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
                b"exe" if flags & O_ACCMODE != 0 => Err(Errno::ACCES),
                b"exe" => {
                    let path = PathBuf::from(&self.paths.program);
                    let file = self.paths.host.open_program(&path)?;
                    self.files.insert(Resource::File(file), kept, Some(path))
                }
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
        let kind = match self.paths.host.kind(&path, flags & (O_ACCMODE | O_CREAT) != 0) {
            Err(Errno::ACCES) => return Err(Errno::ACCES),
            kind => kind,
        };
        if kind.is_ok_and(|kind| kind.is_dir()) {
            if flags & O_ACCMODE != 0 || flags & O_CREAT != 0 {
                return Err(Errno::ISDIR);
            }
            let directory = self.paths.host.open(&path, OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
            let directory = Directory::read(directory)?;
            return self.files.insert(Resource::Directory(directory), kept, Some(path));
        }
        if flags & O_DIRECTORY != 0 {
            return Err(kind.err().unwrap_or(Errno::NOTDIR));
        }
        self.open_file(path, kind.ok(), flags, a[3] as u32, kept)
    }

    fn open_file(
        &mut self,
        path: PathBuf,
        kind: Option<FileType>,
        flags: u64,
        mode: u32,
        kept: u64,
    ) -> Result<u64, Errno> {
        let writes = flags & O_ACCMODE != 0;
        // A FIFO or a terminal would make this process wait for the process at the other end.
        let device = kind.is_some_and(|kind| kind.is_fifo() || kind.is_char_device());
        let mut how = match flags & O_ACCMODE {
            0 => OFlags::RDONLY,
            O_WRONLY => OFlags::WRONLY,
            _ => OFlags::RDWR,
        };
        for (is_set, flag) in [
            (writes && flags & O_APPEND != 0, OFlags::APPEND),
            (writes && flags & O_TRUNC != 0, OFlags::TRUNC),
            (flags & O_CREAT != 0, OFlags::CREATE),
            (flags & O_EXCL != 0 && flags & O_CREAT != 0, OFlags::EXCL),
            (device, OFlags::NONBLOCK),
        ] {
            how.set(flag, is_set);
        }
        let file = self.paths.host.open(&path, how, mode & 0o777 & !self.umask)?;
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
        self.paths.current = self.paths.host.real_directory(path)?;
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
        self.paths.host.remove(&path, a[2] & AT_REMOVEDIR != 0)?;
        Ok(0)
    }

    /// `mkdirat`.
    pub(super) fn make_directory(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let path = self.path(a[0], a[1])?;
        self.paths.host.make_directory(&path)?;
        Ok(0)
    }

    /// `renameat2`.
    pub(super) fn rename(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        const NOREPLACE: u64 = 1;
        let (from, to) = (self.path(a[0], a[1])?, self.path(a[2], a[3])?);
        match a[4] {
            0 => {}
            NOREPLACE if self.paths.host.metadata(&to, false).is_ok() => return Err(Errno::EXIST),
            NOREPLACE => {}
            _ => return Err(Errno::INVAL),
        }
        self.paths.host.rename(&from, &to)?;
        Ok(0)
    }

    /// `symlinkat`: the first path is only a text.
    pub(super) fn make_symbolic_link(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let target = self.memory.text(a[0])?;
        let path = self.path(a[1], a[2])?;
        self.paths.host.symlink(OsStr::from_bytes(&target), &path)?;
        Ok(0)
    }

    /// `linkat`.
    pub(super) fn make_link(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let (from, to) = (self.path(a[0], a[1])?, self.path(a[2], a[3])?);
        self.paths.host.hard_link(&from, &to)?;
        Ok(0)
    }

    /// `faccessat`.
    pub(super) fn access(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let path = self.path(a[0], a[1])?;
        let metadata = self.paths.host.metadata(&path, true)?;
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
            Some(name) if name == "exe" => fs::canonicalize(&self.paths.program)?.into_os_string().into_vec(),
            Some(_) => return Err(Errno::NOENT),
            None => self.paths.host.read_link(&path)?,
        };
        let bytes = &target[..];
        let count = bytes.len().min(usize::try_from(a[3]).unwrap_or(usize::MAX));
        self.memory.write(a[2], &bytes[..count])?;
        Ok(count as u64)
    }

    /// `truncate`.
    pub(super) fn truncate(&mut self, address: u64, length: u64) -> Result<u64, Errno> {
        let path = self.path(AT_FDCWD as u64, address)?;
        self.paths.host.open(&path, OFlags::WRONLY, 0)?.set_len(length)?;
        Ok(0)
    }
}
