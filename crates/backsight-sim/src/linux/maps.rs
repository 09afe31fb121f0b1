//! System calls that change what memory there is.

use super::Kernel;
use super::errno::Errno;
use super::files::Resource;
use super::image::{MAPPINGS_TOP, STACK_TOP, page_end};
use crate::memory::{END, PAGE, Protection};
use std::fmt::Write;
use std::os::unix::fs::FileExt;

const MAP_SHARED: u64 = 1;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const MREMAP_MAYMOVE: u64 = 1;
/// Nothing is mapped below by itself.
const LOWEST: u64 = 0x1_0000;

fn protection(bits: u64) -> Protection {
    // A page that may be written or executed may be read, as on most RISC-V systems.
    Protection { read: bits & 7 != 0, write: bits & 2 != 0, execute: bits & 4 != 0, backed: false }
}

/// A range of whole pages that a process can address.
fn range(address: u64, length: u64) -> Result<(u64, u64), Errno> {
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::INVAL);
    }
    let end = page_end(address.checked_add(length).ok_or(Errno::NOMEM)?);
    if end > END || end < address {
        return Err(Errno::NOMEM);
    }
    Ok((address, end))
}

fn done(fits: bool) -> Result<u64, Errno> {
    if fits { Ok(0) } else { Err(Errno::NOMEM) }
}

impl Kernel {
    /// `brk`.
    pub(super) fn set_break(&mut self, wanted: u64) -> Result<u64, Errno> {
        let (old, new) = (page_end(self.heap_end), page_end(wanted));
        let possible = wanted >= self.heap_start
            && new <= MAPPINGS_TOP
            && (new <= old || self.memory.mappings().is_free(old, new));
        if !possible {
            return Ok(self.heap_end);
        }
        let fits =
            if new > old { self.memory.map(old, new, Protection::DATA) } else { self.memory.unmap(new, old) };
        if fits {
            self.heap_end = wanted;
        }
        Ok(self.heap_end)
    }

    /// `mmap`.
    pub(super) fn map(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let [address, length, bits, flags, fd, offset] = a;
        if length == 0 || offset % PAGE != 0 {
            return Err(Errno::INVAL);
        }
        let length = page_end(length);
        let start = if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
            let (start, end) = range(address, length)?;
            if flags & MAP_FIXED_NOREPLACE != 0 && !self.memory.mappings().is_free(start, end) {
                return Err(Errno::EXIST);
            }
            start
        } else if let Some(start) = self.hinted(address, length) {
            start
        } else {
            self.memory.mappings().find_free(length, LOWEST, MAPPINGS_TOP).ok_or(Errno::NOMEM)?
        };
        let (start, end) = range(start, length)?;
        let protection = protection(bits);
        if flags & MAP_ANONYMOUS != 0 {
            done(self.memory.map(start, end, protection))?;
            return Ok(start);
        }
        if flags & MAP_SHARED != 0 && protection.write {
            // What is written would have to reach the file.
            self.missing.feature("writing to a file through mmap (MAP_SHARED)");
            return Err(Errno::NODEV);
        }
        let Resource::File(file) = &self.files.get(fd)?.resource else {
            return Err(Errno::ACCES);
        };
        done(self.memory.map(start, end, Protection { backed: true, ..protection }))?;
        let mut page = [0; PAGE as usize];
        for at in (start..end).step_by(PAGE as usize) {
            let count = file.read_at(&mut page, offset.wrapping_add(at - start))?;
            self.memory.initialize(at, &page[..count]).map_err(|_| Errno::NOMEM)?;
            if count < page.len() {
                break;
            }
        }
        Ok(start)
    }

    /// The address that the program would like, if it is free.
    fn hinted(&self, address: u64, length: u64) -> Option<u64> {
        let (start, end) = range(address & !(PAGE - 1), length).ok()?;
        (start >= LOWEST && end <= MAPPINGS_TOP && self.memory.mappings().is_free(start, end))
            .then_some(start)
    }

    /// `munmap`.
    pub(super) fn unmap(&mut self, address: u64, length: u64) -> Result<u64, Errno> {
        if length == 0 {
            return Err(Errno::INVAL);
        }
        let (start, end) = range(address, length).map_err(|_| Errno::INVAL)?;
        done(self.memory.unmap(start, end))
    }

    /// `mprotect`.
    pub(super) fn protect(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let (start, end) = range(a[0], a[1])?;
        if !self.memory.mappings().covers(start, end) {
            return Err(Errno::NOMEM);
        }
        let protection = protection(a[2]);
        done(self.memory.protect(start, end, protection))
    }

    /// `mremap`.
    pub(super) fn remap(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let [address, old, new, flags, ..] = a;
        if new == 0 || flags & !MREMAP_MAYMOVE != 0 {
            return Err(Errno::INVAL);
        }
        let (start, old_end) = range(address, old)?;
        let (_, new_end) = range(address, new)?;
        if !self.memory.mappings().covers(start, old_end) || old_end == start {
            return Err(Errno::FAULT);
        }
        if new_end <= old_end {
            done(self.memory.unmap(new_end, old_end))?;
            return Ok(start);
        }
        let protection = self.memory.mappings().at(start).unwrap_or_default();
        if self.memory.mappings().is_free(old_end, new_end) && new_end <= MAPPINGS_TOP {
            done(self.memory.map(old_end, new_end, protection))?;
            return Ok(start);
        }
        if flags & MREMAP_MAYMOVE == 0 {
            return Err(Errno::NOMEM);
        }
        let length = new_end - start;
        let to = self.memory.mappings().find_free(length, LOWEST, MAPPINGS_TOP).ok_or(Errno::NOMEM)?;
        done(self.memory.map(to, to + length, protection))?;
        let mut page = [0; PAGE as usize];
        for at in (0..old_end - start).step_by(PAGE as usize) {
            if self.memory.is_touched(start + at) {
                self.memory.read(start + at, &mut page)?;
                self.memory.initialize(to + at, &page).map_err(|_| Errno::NOMEM)?;
            }
        }
        done(self.memory.unmap(start, old_end))?;
        Ok(to)
    }

    /// `madvise`: memory that is not needed is zero when it is needed again; other advice changes nothing.
    pub(super) fn advise(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        const DONTNEED: u64 = 4;
        let (start, end) = range(a[0], a[1]).map_err(|_| Errno::INVAL)?;
        if a[2] == DONTNEED {
            for (start, end, protection) in self.memory.mappings().parts(start, end) {
                if !protection.backed {
                    self.memory.release(start, end);
                }
            }
        }
        if self.memory.mappings().covers(start, end) { Ok(0) } else { Err(Errno::NOMEM) }
    }

    /// `mincore`: all that is mapped is there.
    pub(super) fn residency(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let (start, end) = range(a[0], a[1])?;
        if !self.memory.mappings().covers(start, end) {
            return Err(Errno::NOMEM);
        }
        for page in 0..(end - start) / PAGE {
            self.memory.write(a[2].wrapping_add(page), &[1])?;
        }
        Ok(0)
    }

    /// `/proc/self/maps`.
    pub(super) fn describe_mappings(&self) -> Vec<u8> {
        let mut text = String::new();
        for (start, end, protection) in self.memory.mappings().parts(0, END) {
            let letter = |is: bool, letter: char| if is { letter } else { '-' };
            let (r, w, x) = (
                letter(protection.read, 'r'),
                letter(protection.write, 'w'),
                letter(protection.execute, 'x'),
            );
            let name = match () {
                () if end == STACK_TOP => "[stack]",
                () if start == page_end(self.heap_start) && end == page_end(self.heap_end) => "[heap]",
                () => "",
            };
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{start:08x}-{end:08x} {r}{w}{x}p 00000000 00:00 0 {name}");
        }
        text.into_bytes()
    }
}
