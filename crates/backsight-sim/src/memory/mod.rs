//! The memory of the simulated process.
//!
//! Mappings say what may be touched; a page gets a frame when it is first touched, so that a large mapping
//! costs nothing until it is used. Small direct-mapped tables, as a processor's TLB is, take the common access
//! to its frame with one comparison, which also catches misalignment.

mod code;
mod external;
mod mappings;

pub use external::Change;
pub use mappings::{Mappings, Protection};

use crate::fault::Cause;
use code::CodePages;
use external::External;
use std::collections::HashMap;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// The end of what a process can address (Sv39).
pub const END: u64 = 0x40_0000_0000;

type Frame = [u8; PAGE as usize];

/// Entries of each table.
const ENTRIES: usize = 1024;
/// Not the address of a page.
const NO_PAGE: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Entry {
    page: u64,
    frame: u32,
}

const EMPTY: Entry = Entry { page: NO_PAGE, frame: 0 };

/// Memory of a process.
pub struct Memory {
    mappings: Mappings,
    frames: Vec<Frame>,
    free: Vec<u32>,
    pages: HashMap<u64, u32>,
    reads: Box<[Entry; ENTRIES]>,
    writes: Box<[Entry; ENTRIES]>,
    most_frames: usize,
    code: CodePages,
    external: External,
}

#[inline(always)]
fn slot(address: u64) -> usize {
    (address / PAGE) as usize % ENTRIES
}

/// At most 8 bytes, little-endian.
#[inline(always)]
fn number<const N: usize>(bytes: [u8; N]) -> u64 {
    let mut all = [0; 8];
    all[..N].copy_from_slice(&bytes);
    u64::from_le_bytes(all)
}

impl Memory {
    /// Nothing mapped; at most `limit` bytes will ever be in use.
    pub fn new(limit: u64) -> Self {
        Self {
            mappings: Mappings::default(),
            frames: Vec::new(),
            free: Vec::new(),
            pages: HashMap::new(),
            reads: Box::new([EMPTY; ENTRIES]),
            writes: Box::new([EMPTY; ENTRIES]),
            most_frames: usize::try_from(limit / PAGE).unwrap_or(usize::MAX).min(u32::MAX as usize),
            code: CodePages::default(),
            external: External::default(),
        }
    }

    /// What is mapped.
    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// Maps whole pages, all zero; what was there is gone. False if there are too many mappings.
    pub fn map(&mut self, start: u64, end: u64, protection: Protection) -> bool {
        self.release(start, end);
        self.mappings.set(start, end, Some(protection))
    }

    /// Unmaps whole pages. False if there are too many mappings.
    pub fn unmap(&mut self, start: u64, end: u64) -> bool {
        self.release(start, end);
        self.mappings.set(start, end, None)
    }

    /// Changes the protection of pages that are mapped already. False if there are too many mappings.
    pub fn protect(&mut self, start: u64, end: u64, protection: Protection) -> bool {
        self.forget();
        self.code.forget(start, end);
        self.mappings.parts(start, end).into_iter().all(|(start, end, before)| {
            self.mappings.set(start, end, Some(Protection { backed: before.backed, ..protection }))
        })
    }

    /// Makes pages that are mapped zero again.
    pub fn release(&mut self, start: u64, end: u64) {
        self.forget();
        self.code.forget(start, end);
        self.external.cleared(start, end);
        // Whichever is shorter: the pages of the range, or the pages in use.
        if (end - start) / PAGE < self.pages.len() as u64 {
            for page in (start..end).step_by(PAGE as usize) {
                self.free.extend(self.pages.remove(&page));
            }
        } else {
            let mut freed: Vec<u32> = self
                .pages
                .extract_if(|page, _| (start..end).contains(page))
                .map(|(_, frame)| frame)
                .collect();
            // The order of a hash table must not decide which frame comes next.
            freed.sort_unstable();
            self.free.append(&mut freed);
        }
    }

    /// Has the page of this address a frame? Else it is all zero.
    pub fn is_touched(&self, address: u64) -> bool {
        self.pages.contains_key(&(address & !(PAGE - 1)))
    }

    fn forget(&mut self) {
        self.reads.fill(EMPTY);
        self.writes.fill(EMPTY);
    }

    fn frame(&mut self, page: u64) -> Result<u32, Cause> {
        if let Some(&frame) = self.pages.get(&page) {
            return Ok(frame);
        }
        let frame = match self.free.pop() {
            Some(frame) => {
                self.frames[frame as usize].fill(0);
                frame
            }
            None if self.frames.len() < self.most_frames => {
                self.frames.push([0; PAGE as usize]);
                (self.frames.len() - 1) as u32
            }
            None => return Err(Cause::OutOfMemory),
        };
        self.pages.insert(page, frame);
        Ok(frame)
    }

    #[cold]
    #[inline(never)]
    fn fill_read(&mut self, address: u64) -> Result<u32, Cause> {
        let page = address & !(PAGE - 1);
        if !self.mappings.at(page).is_some_and(|p| p.read) {
            return Err(Cause::LoadPageFault);
        }
        let frame = self.frame(page)?;
        self.reads[slot(page)] = Entry { page, frame };
        Ok(frame)
    }

    /// The frame that `size` bytes at `address`, in one page, may be stored to. Pages that hold decoded code stay out
    /// of the table, so that every store to them comes here.
    #[cold]
    #[inline(never)]
    fn fill_write(&mut self, address: u64, size: u64) -> Result<u32, Cause> {
        let page = address & !(PAGE - 1);
        let frame = self.writable(page)?;
        if !self.code.has_page(page) {
            self.writes[slot(page)] = Entry { page, frame };
        } else if self.code.is_decoded(address, size) {
            return Err(Cause::CodeWritten);
        }
        Ok(frame)
    }

    fn writable(&mut self, page: u64) -> Result<u32, Cause> {
        if !self.mappings.at(page).is_some_and(|p| p.write) {
            return Err(Cause::StorePageFault);
        }
        self.frame(page)
    }

    /// Could a store of this many bytes, in one page, succeed?
    pub fn check_store(&mut self, address: u64, size: u64) -> Result<(), Cause> {
        self.fill_write(address, size).map(|_| ())
    }

    /// Loads `N` bytes, at most 8, as a number: little-endian, zero-extended.
    #[inline(always)]
    pub fn load<const N: usize>(&mut self, address: u64) -> Result<u64, Cause> {
        // For an aligned access this is the address of the page; else it is the address of none.
        let page = address & !(PAGE - N as u64);
        let entry = self.reads[slot(address)];
        let frame = if entry.page == page {
            entry.frame
        } else if page.is_multiple_of(PAGE) {
            self.fill_read(address)?
        } else {
            return self.load_misaligned::<N>(address);
        };
        let at = (address & (PAGE - N as u64)) as usize;
        match self.frames.get(frame as usize).and_then(|frame| frame[at..].first_chunk()) {
            Some(&bytes) => Ok(number::<N>(bytes)),
            None => Err(Cause::LoadPageFault),
        }
    }

    /// Stores the low `N` bytes, at most 8, of a number: little-endian.
    #[inline(always)]
    pub fn store<const N: usize>(&mut self, address: u64, value: u64) -> Result<(), Cause> {
        let page = address & !(PAGE - N as u64);
        let entry = self.writes[slot(address)];
        let frame = if entry.page == page {
            entry.frame
        } else if page.is_multiple_of(PAGE) {
            self.fill_write(address, N as u64)?
        } else {
            return self.store_misaligned::<N>(address, value);
        };
        let at = (address & (PAGE - N as u64)) as usize;
        match self.frames.get_mut(frame as usize).and_then(|frame| frame[at..].first_chunk_mut::<N>()) {
            Some(target) => {
                target.copy_from_slice(&value.to_le_bytes()[..N]);
                Ok(())
            }
            None => Err(Cause::StorePageFault),
        }
    }

    #[cold]
    #[inline(never)]
    fn load_misaligned<const N: usize>(&mut self, address: u64) -> Result<u64, Cause> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes)?;
        Ok(number(bytes))
    }

    #[cold]
    #[inline(never)]
    fn store_misaligned<const N: usize>(&mut self, address: u64, value: u64) -> Result<(), Cause> {
        // All of it must be writable before the first byte is written.
        for number in 0..N as u64 {
            self.fill_write(address.wrapping_add(number), 1)?;
        }
        for (number, byte) in (0..N as u64).zip(value.to_le_bytes()) {
            self.store::<1>(address.wrapping_add(number), byte.into())?;
        }
        Ok(())
    }

    /// Reads any number of bytes.
    pub fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), Cause> {
        let mut address = address;
        let mut rest = buffer;
        while !rest.is_empty() {
            let at = (address % PAGE) as usize;
            let (part, after) = rest.split_at_mut(rest.len().min(PAGE as usize - at));
            let frame = self.fill_read(address)?;
            part.copy_from_slice(&self.frames[frame as usize][at..at + part.len()]);
            address = address.wrapping_add(part.len() as u64);
            rest = after;
        }
        Ok(())
    }

    /// Writes any number of bytes, for the kernel.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Cause> {
        let mut address = address;
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = (address % PAGE) as usize;
            let (part, after) = rest.split_at(rest.len().min(PAGE as usize - at));
            let frame = self.writable(address & !(PAGE - 1))?;
            self.frames[frame as usize][at..at + part.len()].copy_from_slice(part);
            self.code.forget(address, address.saturating_add(part.len() as u64));
            self.external.written(address, part);
            address = address.wrapping_add(part.len() as u64);
            rest = after;
        }
        Ok(())
    }

    /// Fills pages that the process itself may not write: program loading and file mappings. The pages are
    /// mapped.
    pub fn initialize(&mut self, address: u64, bytes: &[u8]) -> Result<(), Cause> {
        let mut address = address;
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = (address % PAGE) as usize;
            let (part, after) = rest.split_at(rest.len().min(PAGE as usize - at));
            let frame = self.frame(address & !(PAGE - 1))?;
            self.frames[frame as usize][at..at + part.len()].copy_from_slice(part);
            self.external.written(address, part);
            address = address.wrapping_add(part.len() as u64);
            rest = after;
        }
        Ok(())
    }

    /// The halfword of code at an address, if it may be executed.
    pub fn fetch(&mut self, address: u64) -> Result<u16, Cause> {
        let page = address & !(PAGE - 1);
        if !self.mappings.at(page).is_some_and(|p| p.execute) {
            return Err(Cause::InstructionPageFault);
        }
        let frame = self.frame(page)?;
        let at = (address % PAGE) as usize & !1;
        let frame = &self.frames[frame as usize];
        Ok(u16::from_le_bytes([frame[at], frame[at + 1]]))
    }

    /// The code at `start..end` was decoded. If those who observe do not know it, it is among the changes.
    pub fn decoded(&mut self, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let page = at & !(PAGE - 1);
            let part_end = end.min(page + PAGE);
            let writes = &mut self.writes[slot(page)];
            if writes.page == page {
                *writes = EMPTY;
            }
            let bytes = self.pages.get(&page).and_then(|&frame| self.frames.get(frame as usize));
            let part = bytes.and_then(|frame| frame.get((at - page) as usize..(part_end - page) as usize));
            self.code.mark(at, part.unwrap_or_default());
            at = part_end;
        }
    }

    /// The observers of the program know that this code is at this address.
    pub fn know_code(&mut self, address: u64, bytes: &[u8]) {
        self.code.know(address, bytes);
    }

    /// Stores to `size` bytes at `address` succeed again: the decoded code of their pages is no longer valid.
    pub fn forget_decoded(&mut self, address: u64, size: u64) {
        self.code.forget(address, address.saturating_add(size));
    }

    /// A page whose decoded code is no longer valid.
    pub fn next_stale_page(&mut self) -> Option<u64> {
        self.code.next_stale()
    }

    /// Keeps what the kernel writes among the changes from now on.
    pub fn watch_external(&mut self) {
        self.external.watch();
    }

    /// What changed since the last call.
    pub fn take_changes(&mut self) -> Option<Vec<Change>> {
        let mut changes = self.external.take();
        changes.extend(self.code.take_new());
        (!changes.is_empty()).then_some(changes)
    }

    /// The text at an address up to its zero byte; at most 4,096 bytes of it, as Linux takes of a path.
    pub fn text(&mut self, address: u64) -> Result<Vec<u8>, Cause> {
        let mut text = Vec::new();
        while text.len() < 4096 {
            let byte = self.load::<1>(address.wrapping_add(text.len() as u64))?;
            if byte == 0 {
                break;
            }
            text.push(byte as u8);
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let mut memory = Memory::new(16 * PAGE);
        assert!(memory.map(PAGE, 3 * PAGE, Protection::DATA));
        memory
    }

    #[test]
    fn misaligned_accesses_cross_pages() {
        let mut memory = memory();
        let at = 2 * PAGE - 3;
        assert_eq!(memory.store::<8>(at, 0x1122_3344_5566_7788), Ok(()));
        assert_eq!(memory.load::<8>(at), Ok(0x1122_3344_5566_7788));
        assert_eq!(memory.load::<1>(2 * PAGE), Ok(0x55));
    }

    #[test]
    fn a_store_that_half_fails_writes_nothing() {
        let mut memory = memory();
        assert_eq!(memory.store::<8>(3 * PAGE - 4, u64::MAX), Err(Cause::StorePageFault));
        assert_eq!(memory.load::<4>(3 * PAGE - 4), Ok(0));
    }

    #[test]
    fn protection_takes_effect_at_once() {
        let mut memory = memory();
        assert_eq!(memory.store::<4>(PAGE, 1), Ok(()));
        assert!(memory.protect(PAGE, 2 * PAGE, Protection::READ));
        assert_eq!(memory.store::<4>(PAGE, 2), Err(Cause::StorePageFault));
        assert_eq!(memory.load::<4>(PAGE), Ok(1));
        assert!(memory.unmap(PAGE, 2 * PAGE));
        assert_eq!(memory.load::<4>(PAGE), Err(Cause::LoadPageFault));
    }

    #[test]
    fn memory_mapped_again_is_zero() {
        let mut memory = memory();
        assert_eq!(memory.store::<8>(PAGE, 7), Ok(()));
        assert!(memory.map(PAGE, 2 * PAGE, Protection::DATA));
        assert_eq!(memory.load::<8>(PAGE), Ok(0));
    }

    #[test]
    fn only_touched_pages_count_against_the_limit() {
        let mut memory = Memory::new(2 * PAGE);
        assert!(memory.map(0, 1 << 30, Protection::DATA));
        assert_eq!(memory.store::<1>(0, 1), Ok(()));
        assert_eq!(memory.store::<1>(1 << 20, 1), Ok(()));
        assert_eq!(memory.store::<1>(1 << 21, 1), Err(Cause::OutOfMemory));
    }
}
