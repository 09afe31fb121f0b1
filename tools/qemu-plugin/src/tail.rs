//! The newest bytes of a stream, kept where they survive the process.
//!
//! A program that dies of a signal takes QEMU with it, and no callback tells the plugin. So whatever has not
//! yet been written stands in a small file mapped into memory: the kernel keeps it, and the reader takes the
//! rest of the stream from there.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, compiler_fence};

use crate::system;

/// Bytes that one tail can hold.
pub const CAPACITY: u32 = 1 << 16;
const HEADER: usize = 64;
const LENGTH: usize = HEADER + CAPACITY as usize;
const MAGIC: [u8; 8] = *b"BSQTAIL1";

/// The beginning of a tail file.
#[repr(C)]
pub struct Header {
    magic: [u8; 8],
    /// Whose bytes they are: the number of a thread, or [`crate::output::DEFINITIONS`].
    source: u32,
    /// Number of bytes behind the header.
    fill: u32,
    /// Offset of the first of them in the stream of the source.
    position: u64,
    /// How many watched instructions of the newest block have begun.
    pub begun: u64,
    /// How many watched instructions the newest block has.
    pub expected: u64,
    reserved: [u64; 3],
}

/// A buffer in a file of its own.
pub struct Tail {
    header: *mut Header,
    path: PathBuf,
}

// SAFETY: a tail is used by one thread at a time; its memory belongs to it alone.
unsafe impl Send for Tail {}

impl Tail {
    /// Makes `DIR/tail.NAME`. Without it (no room, no permission) the bytes stand in plain memory.
    pub fn new(directory: &Path, name: &str, source: u32) -> io::Result<Self> {
        const { assert!(size_of::<Header>() == HEADER) };
        let path = directory.join(format!("tail.{name}"));
        let memory = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .and_then(|file| system::map_file(&file, LENGTH))
            .or_else(|_| system::map_memory(LENGTH))?;
        let header = memory.cast::<Header>();
        // SAFETY: the mapping is new, writable, page-aligned and large enough.
        unsafe {
            header.write(Header {
                magic: MAGIC,
                source,
                fill: 0,
                position: 0,
                begun: 0,
                expected: 0,
                reserved: [0; 3],
            });
        }
        Ok(Self { header, path })
    }

    /// The header, which others may change between two looks at it.
    #[inline]
    pub fn header(&self) -> *mut Header {
        self.header
    }

    /// Number of bytes.
    #[inline]
    pub fn fill(&self) -> u32 {
        // SAFETY: the mapping lives as long as `self`.
        unsafe { (*self.header).fill }
    }

    /// Offset of the first byte in the stream of the source.
    pub fn position(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (*self.header).position }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `fill` never exceeds the capacity.
        unsafe { std::slice::from_raw_parts(self.header.cast::<u8>().add(HEADER), self.fill() as usize) }
    }

    /// Appends. The caller has made sure of the room.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        let fill = self.fill();
        debug_assert!(fill as usize + bytes.len() <= CAPACITY as usize);
        // SAFETY: there is room; source and mapping do not overlap.
        unsafe {
            let end = self.header.cast::<u8>().add(HEADER + fill as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len());
            // Whoever looks at the file after the process died must find the bytes that `fill` counts.
            compiler_fence(Ordering::Release);
            (*self.header).fill = fill + bytes.len() as u32;
        }
    }

    /// The bytes were written elsewhere.
    pub fn clear(&mut self) {
        let fill = self.fill();
        // SAFETY: as above.
        unsafe {
            (*self.header).fill = 0;
            compiler_fence(Ordering::Release);
            (*self.header).position += u64::from(fill);
        }
    }

    /// Cuts the memory off from the file: in a forked child, where the file is the parent's.
    pub fn make_private(&mut self) {
        // SAFETY: the whole mapping; readers of the header find zeros, which is an empty tail.
        unsafe { system::make_private(self.header.cast(), LENGTH) };
    }

    /// Removes the file; the memory stays.
    pub fn remove_file(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Removes file and memory.
    pub fn remove(self) {
        self.remove_file();
        // SAFETY: the whole mapping, and `self` ends here.
        unsafe { system::unmap(self.header.cast(), LENGTH) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_in_the_file() {
        let directory = std::env::temp_dir();
        let name = format!("test.{}", std::process::id());
        let mut tail = Tail::new(&directory, &name, 7).unwrap();
        tail.append(&[1, 2, 3, 4]);
        tail.clear();
        tail.append(&[5, 6, 7, 8]);
        let file = fs::read(directory.join(format!("tail.{name}"))).unwrap();
        assert_eq!(&file[..8], b"BSQTAIL1");
        assert_eq!(file[8..12], 7u32.to_le_bytes());
        assert_eq!(file[12..16], 4u32.to_le_bytes());
        assert_eq!(file[16..24], 4u64.to_le_bytes());
        assert_eq!(file[64..68], [5, 6, 7, 8]);
        tail.remove();
        assert!(!directory.join(format!("tail.{name}")).exists());
    }
}
