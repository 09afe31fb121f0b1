//! System calls that name a file.

use super::Kernel;
use super::errno::Errno;
use super::files::Descriptor;
use crate::memory::Memory;
use std::ffi::OsStr;
use std::fs::{self, Metadata, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

const AT_FDCWD: i32 = -100;
const AT_REMOVEDIR: u64 = 0x200;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_EMPTY_PATH: u64 = 0x1000;

const O_ACCMODE: u64 = 3;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const O_TRUNC: u64 = 0o1000;
const O_APPEND: u64 = 0o2000;
const O_DIRECTORY: u64 = 0o200_000;

const DT_DIR: u8 = 4;
const DT_REG: u8 = 8;

impl Kernel {
    /// The host's path for what a program names.
    fn path(&mut self, memory: &mut Memory, directory: u64, address: u64) -> Result<PathBuf, Errno> {
        let text = memory.text(address)?;
        if !self.host_files {
            return Err(Errno::ACCES);
        }
        if text.is_empty() {
            return Err(Errno::NOENT);
        }
        let path = PathBuf::from(OsStr::from_bytes(&text));
        if path.is_absolute() || directory as i32 == AT_FDCWD {
            return Ok(path);
        }
        match self.files.get(directory)? {
            Descriptor::Directory(base, ..) => Ok(base.join(path)),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub(super) fn open(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let path = self.path(memory, a[0], a[1])?;
        let flags = a[2];
        let writes = flags & O_ACCMODE != 0;
        if path.is_dir() {
            if writes {
                return Err(Errno(21));
            }
            let mut entries: Vec<(String, u8)> = fs::read_dir(&path)?
                .flatten()
                .map(|entry| {
                    let directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                    (
                        entry.file_name().to_string_lossy().into_owned(),
                        if directory { DT_DIR } else { DT_REG },
                    )
                })
                .collect();
            entries.extend([".", ".."].map(|name| (name.to_owned(), DT_DIR)));
            entries.sort();
            return self.files.insert(Descriptor::Directory(path, entries, 0), 0);
        }
        if flags & O_DIRECTORY != 0 {
            return Err(if path.exists() { Errno::NOTDIR } else { Errno::NOENT });
        }
        let file = OpenOptions::new()
            .read(flags & O_ACCMODE != 1)
            .write(writes && flags & O_APPEND == 0)
            .append(writes && flags & O_APPEND != 0)
            .create(writes && flags & O_CREAT != 0 && flags & O_EXCL == 0)
            .create_new(writes && flags & O_CREAT != 0 && flags & O_EXCL != 0)
            .truncate(writes && flags & O_TRUNC != 0 && flags & O_APPEND == 0)
            .mode(a[3] as u32 & 0o777)
            .open(path)?;
        self.files.insert(Descriptor::File(file), 0)
    }

    pub(super) fn stat(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        if a[3] & AT_EMPTY_PATH != 0 && memory.text(a[1])?.is_empty() {
            return self.stat_descriptor(memory, a[0], a[2]);
        }
        let path = self.path(memory, a[0], a[1])?;
        let metadata =
            if a[3] & AT_SYMLINK_NOFOLLOW != 0 { fs::symlink_metadata(path) } else { fs::metadata(path) };
        memory.write(a[2], &stat_of(&metadata?))?;
        Ok(0)
    }

    pub(super) fn stat_descriptor(&mut self, memory: &mut Memory, fd: u64, to: u64) -> Result<u64, Errno> {
        let stat = match self.files.get(fd)? {
            Descriptor::File(file) => stat_of(&file.metadata()?),
            Descriptor::Directory(path, ..) => stat_of(&fs::metadata(path)?),
            // Always a pipe, whatever the host has there: a program must not behave differently.
            Descriptor::Input | Descriptor::Output | Descriptor::Error => stat_of_stream(),
        };
        memory.write(to, &stat)?;
        Ok(0)
    }

    pub(super) fn unlink(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let path = self.path(memory, a[0], a[1])?;
        if a[2] & AT_REMOVEDIR != 0 {
            fs::remove_dir(path)?
        } else {
            fs::remove_file(path)?
        }
        Ok(0)
    }

    pub(super) fn make_directory(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        fs::create_dir(self.path(memory, a[0], a[1])?)?;
        Ok(0)
    }

    pub(super) fn rename(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let from = self.path(memory, a[0], a[1])?;
        fs::rename(from, self.path(memory, a[2], a[3])?)?;
        Ok(0)
    }

    pub(super) fn access(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let metadata = fs::metadata(self.path(memory, a[0], a[1])?)?;
        let executable = metadata.mode() & 0o111 != 0;
        if a[2] & 2 != 0 && metadata.permissions().readonly() || a[2] & 1 != 0 && !executable {
            return Err(Errno::ACCES);
        }
        Ok(0)
    }

    pub(super) fn read_link(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let path = self.path(memory, a[0], a[1])?;
        let target = if path.as_os_str() == "/proc/self/exe" {
            fs::canonicalize(&self.program)?
        } else {
            fs::read_link(path)?
        };
        let bytes = target.as_os_str().as_bytes();
        let count = bytes.len().min(usize::try_from(a[3]).unwrap_or(usize::MAX));
        memory.write(a[2], &bytes[..count])?;
        Ok(count as u64)
    }

    pub(super) fn current_directory(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let path = if self.host_files { std::env::current_dir()? } else { PathBuf::from("/") };
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        bytes.push(0);
        if bytes.len() as u64 > a[1] {
            return Err(Errno::RANGE);
        }
        memory.write(a[0], &bytes)?;
        Ok(bytes.len() as u64)
    }

    pub(super) fn directory_entries(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let Descriptor::Directory(_, entries, read) = self.files.get(a[0])? else {
            return Err(Errno::NOTDIR);
        };
        let mut bytes: Vec<u8> = Vec::new();
        while let Some((name, kind)) = entries.get(*read) {
            let length = (19 + name.len() + 1).next_multiple_of(8);
            if (bytes.len() + length) as u64 > a[2] {
                if bytes.is_empty() {
                    return Err(Errno::INVAL);
                }
                break;
            }
            let end = bytes.len() + length;
            *read += 1;
            bytes.extend((*read as u64).to_le_bytes());
            bytes.extend((*read as u64).to_le_bytes());
            bytes.extend((length as u16).to_le_bytes());
            bytes.push(*kind);
            bytes.extend(name.as_bytes());
            bytes.resize(end, 0);
        }
        memory.write(a[1], &bytes)?;
        Ok(bytes.len() as u64)
    }
}

/// `struct stat` as 64-bit RISC-V has it.
struct Stat {
    mode: u32,
    size: u64,
    inode: u64,
    links: u32,
    blocks: u64,
    modified: i64,
}

impl Stat {
    fn bytes(&self) -> [u8; 128] {
        let mut bytes = [0; 128];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &1u64.to_le_bytes());
        put(8, &self.inode.to_le_bytes());
        put(16, &self.mode.to_le_bytes());
        put(20, &self.links.to_le_bytes());
        put(24, &1000u32.to_le_bytes());
        put(28, &1000u32.to_le_bytes());
        put(48, &self.size.to_le_bytes());
        put(56, &4096u32.to_le_bytes());
        put(64, &self.blocks.to_le_bytes());
        for at in [72, 88, 104] {
            put(at, &self.modified.to_le_bytes());
        }
        bytes
    }
}

fn stat_of(metadata: &Metadata) -> [u8; 128] {
    Stat {
        mode: metadata.mode(),
        size: metadata.len(),
        inode: metadata.ino(),
        links: metadata.nlink() as u32,
        blocks: metadata.blocks(),
        modified: metadata.mtime(),
    }
    .bytes()
}

fn stat_of_stream() -> [u8; 128] {
    Stat { mode: 0o010_600, size: 0, inode: 1, links: 1, blocks: 0, modified: 0 }.bytes()
}
