//! System calls that change what memory there is.

use super::Kernel;
use super::errno::Errno;
use super::files::Descriptor;
use super::image::{MAPPINGS_TOP, page_end};
use crate::memory::{END, Memory, PAGE, Protection};
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
    Protection { read: bits & 7 != 0, write: bits & 2 != 0, execute: bits & 4 != 0 }
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
    pub(super) fn set_break(&mut self, memory: &mut Memory, wanted: u64) -> Result<u64, Errno> {
        let (old, new) = (page_end(self.heap_end), page_end(wanted));
        let possible = wanted >= self.heap_start
            && new <= MAPPINGS_TOP
            && (new <= old || memory.mappings().is_free(old, new));
        if !possible {
            return Ok(self.heap_end);
        }
        let fits = if new > old { memory.map(old, new, Protection::DATA) } else { memory.unmap(new, old) };
        if fits {
            self.heap_end = wanted;
        }
        Ok(self.heap_end)
    }

    pub(super) fn map(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let [address, length, bits, flags, fd, offset] = a;
        if length == 0 || offset % PAGE != 0 {
            return Err(Errno::INVAL);
        }
        let length = page_end(length);
        let start = if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
            let (start, end) = range(address, length)?;
            if flags & MAP_FIXED_NOREPLACE != 0 && !memory.mappings().is_free(start, end) {
                return Err(Errno::EXIST);
            }
            start
        } else {
            memory.mappings().find_free(length, LOWEST, MAPPINGS_TOP).ok_or(Errno::NOMEM)?
        };
        let (start, end) = range(start, length)?;
        let protection = protection(bits);
        if flags & MAP_ANONYMOUS != 0 {
            self.code_changed |= protection.execute || memory.mappings().has_code(start, end);
            done(memory.map(start, end, protection))?;
            return Ok(start);
        }
        if flags & MAP_SHARED != 0 && protection.write {
            // What is written would have to reach the file.
            return Err(Errno::NODEV);
        }
        self.code_changed |= protection.execute || memory.mappings().has_code(start, end);
        let Descriptor::File(file) = self.files.get(fd)? else {
            return Err(Errno::ACCES);
        };
        done(memory.map(start, end, protection))?;
        let mut page = [0; PAGE as usize];
        for at in (start..end).step_by(PAGE as usize) {
            let count = file.read_at(&mut page, offset.wrapping_add(at - start))?;
            memory.place(at, &page[..count]).map_err(|_| Errno::NOMEM)?;
            if count < page.len() {
                break;
            }
        }
        Ok(start)
    }

    pub(super) fn unmap(&mut self, memory: &mut Memory, address: u64, length: u64) -> Result<u64, Errno> {
        if length == 0 {
            return Err(Errno::INVAL);
        }
        let (start, end) = range(address, length).map_err(|_| Errno::INVAL)?;
        self.code_changed |= memory.mappings().has_code(start, end);
        done(memory.unmap(start, end))
    }

    pub(super) fn protect(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let (start, end) = range(a[0], a[1])?;
        if !memory.mappings().covers(start, end) {
            return Err(Errno::NOMEM);
        }
        let protection = protection(a[2]);
        self.code_changed |= protection.execute || memory.mappings().has_code(start, end);
        done(memory.protect(start, end, protection))
    }

    pub(super) fn remap(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let [address, old, new, flags, ..] = a;
        if new == 0 || flags & !MREMAP_MAYMOVE != 0 {
            return Err(Errno::INVAL);
        }
        let (start, old_end) = range(address, old)?;
        let (_, new_end) = range(address, new)?;
        if !memory.mappings().covers(start, old_end) || old_end == start {
            return Err(Errno::FAULT);
        }
        if new_end <= old_end {
            done(memory.unmap(new_end, old_end))?;
            return Ok(start);
        }
        let protection = memory.mappings().at(start).unwrap_or_default();
        if memory.mappings().is_free(old_end, new_end) && new_end <= MAPPINGS_TOP {
            done(memory.map(old_end, new_end, protection))?;
            return Ok(start);
        }
        if flags & MREMAP_MAYMOVE == 0 {
            return Err(Errno::NOMEM);
        }
        let length = new_end - start;
        let to = memory.mappings().find_free(length, LOWEST, MAPPINGS_TOP).ok_or(Errno::NOMEM)?;
        done(memory.map(to, to + length, protection))?;
        let mut page = [0; PAGE as usize];
        for at in (0..old_end - start).step_by(PAGE as usize) {
            if memory.is_touched(start + at) {
                memory.read(start + at, &mut page)?;
                memory.place(to + at, &page).map_err(|_| Errno::NOMEM)?;
            }
        }
        self.code_changed |= memory.mappings().has_code(start, old_end);
        done(memory.unmap(start, old_end))?;
        Ok(to)
    }
}
