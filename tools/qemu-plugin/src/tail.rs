//! The newest bytes of a stream, kept where they survive the process.
//!
//! A program that dies of a signal takes QEMU with it, and no callback tells the plugin. So whatever has not
//! yet been written stands in a file mapped into memory, in a slot for each source: the kernel keeps it, and the
//! reader takes the rest of the stream from there.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::system;

/// Bytes that one tail can hold.
pub const CAPACITY: u32 = 1 << 16;
const HEADER: usize = 64;
const LENGTH: usize = HEADER + CAPACITY as usize;
/// Distance of two slots in the file: a multiple of every page size.
const STRIDE: u64 = 1 << 17;
const MAGIC: [u8; 8] = *b"BSQTAIL1";

/// The file, if there is one, and which of its slots are in use.
pub struct Tails {
    file: Option<File>,
    /// Device and number of the file: the program may close all descriptors, and open another file under this one.
    identity: (u64, u64),
    slots: Mutex<Vec<bool>>,
}

impl Tails {
    /// Opens `DIR/tails`, or makes it.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let path = directory.join("tails");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let file = File::from(system::out_of_the_way(file.into()));
        let metadata = file.metadata()?;
        Ok(Self {
            file: Some(file),
            identity: (metadata.dev(), metadata.ino()),
            slots: Mutex::new(Vec::new()),
        })
    }

    /// Tails in plain memory: nobody reads them.
    pub fn private() -> Self {
        Self { file: None, identity: (0, 0), slots: Mutex::new(Vec::new()) }
    }

    /// A tail for a source. Where there is no room in the file, the bytes stand in plain memory.
    pub fn tail(&'static self, source: u32) -> io::Result<Tail> {
        const { assert!(size_of::<Header>() == HEADER) };
        let slot = self.take_slot();
        let place = slot.zip(self.file.as_ref());
        let mapped = place.map(|(slot, file)| system::map_file(file, slot as u64 * STRIDE, LENGTH));
        let (memory, slot) = match (mapped, slot) {
            (Some(Ok(memory)), slot) => (memory, slot),
            (_, slot) => {
                self.free_slot(slot);
                (system::map_memory(LENGTH)?, None)
            }
        };
        let header = memory.cast::<Header>();
        let fields = Header {
            magic: MAGIC,
            source,
            fill: 0,
            position: 0,
            begun: 0,
            expected: 0,
            block: 0,
            reserved: [0; 2],
        };
        // SAFETY: the mapping is new, writable, page-aligned and large enough.
        unsafe { header.write(fields) };
        Ok(Tail { header, slot, tails: self })
    }

    fn take_slot(&self) -> Option<usize> {
        let metadata = self.file.as_ref()?.metadata().ok()?;
        let mut slots =
            self.slots.lock().ok().filter(|_| (metadata.dev(), metadata.ino()) == self.identity)?;
        let free = slots.iter().position(|used| !used).unwrap_or(slots.len());
        if free == slots.len() {
            slots.push(true);
        }
        slots[free] = true;
        Some(free)
    }

    fn free_slot(&self, slot: Option<usize>) {
        if let (Some(slot), Ok(mut slots)) = (slot, self.slots.lock()) {
            slots[slot] = false;
        }
    }
}

/// The beginning of a slot.
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
    /// Where the number of the newest block stands in the stream of the source, or is about to stand.
    pub block: u64,
    reserved: [u64; 2],
}

/// A buffer in a slot of the file.
pub struct Tail {
    header: *mut Header,
    slot: Option<usize>,
    tails: &'static Tails,
}

// SAFETY: a tail is used by one thread at a time; its memory belongs to it alone.
unsafe impl Send for Tail {}

impl Tail {
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
            // After the process died, a reader of the file must find the bytes that `fill` counts.
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

    /// Nothing is to be read here any more; the memory stays.
    pub fn retire(&self) {
        // SAFETY: the mapping lives as long as `self`.
        unsafe { (*self.header).magic = [0; 8] };
    }

    /// Gives the slot back.
    pub fn remove(self) {
        self.retire();
        // SAFETY: the whole mapping, and `self` ends here.
        unsafe { system::unmap(self.header.cast(), LENGTH) };
        self.tails.free_slot(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_in_the_file_at_once() {
        let directory = std::env::temp_dir().join(format!("backsight-tails-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let tails: &'static Tails = Box::leak(Box::new(Tails::new(&directory).unwrap()));
        let first = tails.tail(7).unwrap();
        let mut second = tails.tail(8).unwrap();
        second.append(&[1, 2, 3, 4]);
        second.clear();
        second.append(&[5, 6, 7, 8]);
        let file = std::fs::read(directory.join("tails")).unwrap();
        let slot = &file[STRIDE as usize..];
        assert_eq!(&slot[..8], b"BSQTAIL1");
        assert_eq!(slot[8..12], 8u32.to_le_bytes());
        assert_eq!(slot[12..16], 4u32.to_le_bytes());
        assert_eq!(slot[16..24], 4u64.to_le_bytes());
        assert_eq!(slot[64..68], [5, 6, 7, 8]);
        first.remove();
        let file = std::fs::read(directory.join("tails")).unwrap();
        assert_eq!(file[..8], [0; 8], "nothing to be read there");
        assert_eq!(tails.tail(9).unwrap().slot, Some(0), "a slot is used again");
        std::fs::remove_dir_all(directory).unwrap();
    }
}
