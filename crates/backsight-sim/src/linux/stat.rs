//! What is known about files: `stat`, `statx`, `statfs`.

use super::Kernel;
use super::errno::Errno;
use super::files::Resource;
use super::paths::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use super::system::{USER, words};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// As much about a file as is passed on. The owner is always the program's user.
struct Stat {
    mode: u32,
    size: u64,
    inode: u64,
    links: u32,
    blocks: u64,
    device: u64,
    /// Of the device that it is.
    special: u64,
    /// Access, modification, change: seconds and nanoseconds.
    times: [(i64, i64); 3],
}

impl Stat {
    fn of(metadata: &Metadata) -> Self {
        Self {
            mode: metadata.mode(),
            size: metadata.len(),
            inode: metadata.ino(),
            links: metadata.nlink() as u32,
            blocks: metadata.blocks(),
            device: metadata.dev(),
            special: metadata.rdev(),
            times: [
                (metadata.atime(), metadata.atime_nsec()),
                (metadata.mtime(), metadata.mtime_nsec()),
                (metadata.ctime(), metadata.ctime_nsec()),
            ],
        }
    }

    /// Always a pipe, whatever the host has there: a program must not behave differently.
    fn of_stream() -> Self {
        const PIPE: u32 = 0o010_600;
        Self { mode: PIPE, size: 0, inode: 1, links: 1, blocks: 0, device: 1, special: 0, times: [(0, 0); 3] }
    }

    fn of_text() -> Self {
        const READ_ONLY_FILE: u32 = 0o100_444;
        Self { mode: READ_ONLY_FILE, ..Self::of_stream() }
    }

    /// `struct stat` of 64-bit RISC-V.
    fn bytes(&self) -> [u8; 128] {
        let mut bytes = [0; 128];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.device.to_le_bytes());
        put(8, &self.inode.to_le_bytes());
        put(16, &self.mode.to_le_bytes());
        put(20, &self.links.to_le_bytes());
        put(24, &(USER as u32).to_le_bytes());
        put(28, &(USER as u32).to_le_bytes());
        put(32, &self.special.to_le_bytes());
        put(48, &self.size.to_le_bytes());
        put(56, &4096u32.to_le_bytes());
        put(64, &self.blocks.to_le_bytes());
        for (at, (seconds, nanoseconds)) in (72..).step_by(16).zip(self.times) {
            put(at, &seconds.to_le_bytes());
            put(at + 8, &nanoseconds.to_le_bytes());
        }
        bytes
    }

    /// `struct statx`, with the basic fields.
    fn extended_bytes(&self) -> [u8; 256] {
        const BASIC: u32 = 0x7FF;
        let mut bytes = [0; 256];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &BASIC.to_le_bytes());
        put(4, &4096u32.to_le_bytes());
        put(16, &self.links.to_le_bytes());
        put(20, &(USER as u32).to_le_bytes());
        put(24, &(USER as u32).to_le_bytes());
        put(28, &(self.mode as u16).to_le_bytes());
        put(32, &self.inode.to_le_bytes());
        put(40, &self.size.to_le_bytes());
        put(48, &self.blocks.to_le_bytes());
        // Access, birth (not known), change, modification.
        for (at, (seconds, nanoseconds)) in
            [64, 96, 112].into_iter().zip([self.times[0], self.times[2], self.times[1]])
        {
            put(at, &seconds.to_le_bytes());
            put(at + 8, &(nanoseconds as u32).to_le_bytes());
        }
        for (at, device) in [(128, self.special), (136, self.device)] {
            put(at, &major(device).to_le_bytes());
            put(at + 4, &minor(device).to_le_bytes());
        }
        bytes
    }
}

fn major(device: u64) -> u32 {
    (device >> 8 & 0xFFF | device >> 32 & 0xFFFF_F000) as u32
}

fn minor(device: u64) -> u32 {
    (device & 0xFF | device >> 12 & 0xFFFF_FF00) as u32
}

impl Kernel {
    fn stat_path(&mut self, directory: u64, path: u64, flags: u64) -> Result<Stat, Errno> {
        if flags & AT_EMPTY_PATH != 0 && (path == 0 || self.memory.text(path)?.is_empty()) {
            return self.stat_descriptor(directory);
        }
        let path = self.path(directory, path)?;
        Ok(Stat::of(&self.paths.host.metadata(&path, flags & AT_SYMLINK_NOFOLLOW == 0)?))
    }

    fn stat_descriptor(&mut self, fd: u64) -> Result<Stat, Errno> {
        if fd as i32 == super::paths::AT_FDCWD {
            return Ok(Stat::of(&self.paths.host.metadata(&self.paths.current, true)?));
        }
        let open = self.files.get(fd)?;
        Ok(match (&open.resource, &open.path) {
            (Resource::File(file) | Resource::Device(file), _) => Stat::of(&file.metadata()?),
            (Resource::Directory(_), Some(path)) => Stat::of(&self.paths.host.metadata(path, true)?),
            (Resource::Text(..), _) => Stat::of_text(),
            _ => Stat::of_stream(),
        })
    }

    /// `newfstatat`.
    pub(super) fn stat(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let stat = self.stat_path(a[0], a[1], a[3])?;
        self.memory.write(a[2], &stat.bytes())?;
        Ok(0)
    }

    /// `fstat`.
    pub(super) fn stat_open(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let stat = self.stat_descriptor(a[0])?;
        self.memory.write(a[1], &stat.bytes())?;
        Ok(0)
    }

    /// `statx`.
    pub(super) fn stat_extended(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let stat = self.stat_path(a[0], a[1], a[2])?;
        self.memory.write(a[4], &stat.extended_bytes())?;
        Ok(0)
    }

    /// `statfs`, `fstatfs`: one file system like another.
    pub(super) fn stat_file_system(&mut self, address: u64) -> Result<u64, Errno> {
        const EXT4: u64 = 0xEF53;
        let (blocks, free, files) = (1 << 20, 1 << 19, 1 << 16);
        // Type, block size, blocks, free, available, files, free files, ID, longest name, fragment size, flags.
        let fields = [EXT4, 4096, blocks, free, free, files, files, 0, 255, 4096, 0, 0, 0, 0, 0];
        self.memory.write(address, &words(&fields))?;
        Ok(0)
    }
}
