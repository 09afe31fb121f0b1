//! Reading directories.

use super::Kernel;
use super::errno::Errno;
use super::files::Resource;
use rustix::fs::{Dir, DirEntry, FileType};
use std::fs::File;

const DT_UNKNOWN: u8 = 0;
const DT_FIFO: u8 = 1;
const DT_CHR: u8 = 2;
const DT_DIR: u8 = 4;
const DT_BLK: u8 = 6;
const DT_REG: u8 = 8;
const DT_LNK: u8 = 10;
const DT_SOCK: u8 = 12;

struct DirectoryEntry {
    name: Vec<u8>,
    inode: u64,
    kind: u8,
}

/// An open directory: its entries in order of their names, and how many were read.
pub struct Directory {
    entries: Vec<DirectoryEntry>,
    read: usize,
}

fn kind(entry: &DirEntry) -> u8 {
    match entry.file_type() {
        FileType::RegularFile => DT_REG,
        FileType::Directory => DT_DIR,
        FileType::Symlink => DT_LNK,
        FileType::Fifo => DT_FIFO,
        FileType::Socket => DT_SOCK,
        FileType::CharacterDevice => DT_CHR,
        FileType::BlockDevice => DT_BLK,
        FileType::Unknown => DT_UNKNOWN,
    }
}

impl Directory {
    /// Reads an open directory of the host.
    pub fn read(directory: File) -> Result<Self, Errno> {
        let mut entries: Vec<DirectoryEntry> = Dir::new(directory)?
            .flatten()
            .map(|entry| DirectoryEntry {
                kind: kind(&entry),
                inode: entry.ino(),
                name: entry.file_name().to_bytes().to_vec(),
            })
            .filter(|entry| ![&b"."[..], b".."].contains(&&entry.name[..]))
            .collect();
        entries.extend([&b"."[..], b".."].map(|name| DirectoryEntry {
            name: name.to_vec(),
            inode: 1,
            kind: DT_DIR,
        }));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { entries, read: 0 })
    }

    /// `lseek`: to the start, or to what an entry gave as its offset.
    pub fn seek(&mut self, offset: i64, whence: u64) -> Result<u64, Errno> {
        let to = match whence {
            0 => offset,
            1 => self.read as i64 + offset,
            _ => return Err(Errno::INVAL),
        };
        self.read = usize::try_from(to).map_err(|_| Errno::INVAL)?;
        Ok(self.read as u64)
    }

    /// The next entries as `struct linux_dirent64`, as many as fit into `most` bytes.
    fn next(&mut self, most: u64) -> Result<Vec<u8>, Errno> {
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(entry) = self.entries.get(self.read) {
            let length = (19 + entry.name.len() + 1).next_multiple_of(8);
            let end = bytes.len() + length;
            if end as u64 > most {
                if bytes.is_empty() {
                    return Err(Errno::INVAL);
                }
                break;
            }
            self.read += 1;
            bytes.extend(entry.inode.to_le_bytes());
            bytes.extend((self.read as u64).to_le_bytes());
            bytes.extend((length as u16).to_le_bytes());
            bytes.push(entry.kind);
            bytes.extend(&entry.name);
            bytes.resize(end, 0);
        }
        Ok(bytes)
    }
}

impl Kernel {
    /// `getdents64`.
    pub(super) fn directory_entries(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let Resource::Directory(directory) = &mut self.files.get(a[0])?.resource else {
            return Err(Errno::NOTDIR);
        };
        let bytes = directory.next(a[2])?;
        self.memory.write(a[1], &bytes)?;
        Ok(bytes.len() as u64)
    }
}
