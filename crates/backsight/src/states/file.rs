//! An index of the states of a log in a file.
//!
//! ```text
//! 8 bytes   "bsstate" and the version of the format
//! 16 bytes  the identity of the log
//! …         for each part of the log: the blocks of its layer, and all registers after it; then the opcodes of the log
//! …         the directory: where these are, each with a CRC-32
//! 24 bytes  the position of the directory, its length, its CRC-32, 4 bytes of zero
//! ```
//!
//! A directory is read whole, the rest as it is needed. The file is an input like any other: what is not as it was written says nothing.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Mutex;

use backsight_core::leb128;

use super::index::{Block, MOST_STORED, Part, StateIndex, Store, Stored, checksum};
use super::make::put_number;
use crate::moments::{Identity, IndexProblem};

pub(super) const MAGIC: [u8; 8] = *b"bsstate\x01";
const HEAD: usize = 24;
const END: usize = 24;

impl StateIndex {
    /// Opens a file.
    ///
    /// # Errors
    /// If it is no index of this log, or cannot be read.
    pub fn open(mut file: File, identity: Identity) -> Result<Self, IndexProblem> {
        let damaged = |_| IndexProblem::Damaged;
        let mut head = [0; HEAD];
        file.read_exact(&mut head).map_err(|_| IndexProblem::Foreign)?;
        let (magic, of) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(IndexProblem::Foreign);
        }
        if of != identity.0 {
            return Err(IndexProblem::Stale);
        }
        let length = file.seek(SeekFrom::End(0)).map_err(damaged)?;
        let start = length.checked_sub(END as u64).ok_or(IndexProblem::Damaged)?;
        let mut end = [0; END];
        file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut end)).map_err(damaged)?;
        let stored = directory_of(&end, start).ok_or(IndexProblem::Damaged)?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(stored.position)).map_err(damaged)?;
        (&mut file).take(stored.length.into()).read_to_end(&mut bytes).map_err(damaged)?;
        if bytes.len() as u64 != u64::from(stored.length) || checksum(&bytes) != stored.checksum {
            return Err(IndexProblem::Damaged);
        }
        let (parts, code) = take_directory(&bytes, stored.position).ok_or(IndexProblem::Damaged)?;
        Ok(Self::new(Store::File(Mutex::new(file)), parts, code))
    }
}

/// Parts, and addresses of code with where it is.
type Directory = (Vec<Part>, Vec<(u64, Stored)>);

/// The directory of the bytes of an index.
pub(super) fn directory(bytes: &[u8]) -> Option<Directory> {
    let (before, end) = bytes.split_last_chunk::<END>()?;
    let stored = directory_of(end, before.len() as u64)?;
    let directory = before.get(usize::try_from(stored.position).ok()?..)?;
    if checksum(directory) != stored.checksum {
        return None;
    }
    take_directory(directory, stored.position)
}

/// Where the directory is, that ends at `end`.
fn directory_of(bytes: &[u8; END], end: u64) -> Option<Stored> {
    let (position, rest) = bytes.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let (position, length) = (u64::from_le_bytes(*position), u64::from_le_bytes(*length));
    let checksum = u32::from_le_bytes(*sum);
    let length = u32::try_from(length).ok().filter(|&length| length <= MOST_STORED)?;
    let is_right = rest == [0; 4] && position.checked_add(length.into()) == Some(end);
    is_right.then_some(Stored { position, length, checksum })
}

/// The directory, which begins at `position`, and what comes after it.
pub(super) fn put_end(parts: &[Part], code: &[(u64, Stored)], position: u64, out: &mut Vec<u8>) {
    let put_stored = |stored: &Stored, out: &mut Vec<u8>| {
        put_number(stored.length.into(), out);
        out.extend(stored.checksum.to_le_bytes());
    };
    put_number(parts.len() as u64, out);
    for part in parts {
        put_number(part.end - part.start, out);
        out.push(u8::from(part.is_cleared));
        put_number(part.contradictions, out);
        put_stored(&part.registers, out);
        put_number(part.blocks.len() as u64, out);
        let mut last = 0;
        for block in &part.blocks {
            put_number(block.lines.0 - last, out);
            put_number(block.lines.1 - block.lines.0, out);
            last = block.lines.1;
            put_stored(&block.stored, out);
        }
    }
    put_number(code.len() as u64, out);
    for (address, stored) in code {
        put_number(*address, out);
        put_stored(stored, out);
    }
    let sum = checksum(out);
    let length = out.len() as u64;
    out.extend(position.to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend(sum.to_le_bytes());
    out.extend([0; 4]);
}

struct Taken<'b> {
    rest: &'b [u8],
    /// Where what is stored next begins.
    position: u64,
}

impl Taken<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        leb128::read(|| self.byte().ok_or(())).ok().flatten()
    }

    /// A number of things, each of which has at least one byte.
    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|&count| count <= self.rest.len())
    }

    fn stored(&mut self) -> Option<Stored> {
        let length = u32::try_from(self.number()?).ok().filter(|&length| length <= MOST_STORED)?;
        let (sum, rest) = self.rest.split_first_chunk::<4>()?;
        self.rest = rest;
        let position = self.position;
        self.position = position.checked_add(length.into())?;
        Some(Stored { position, length, checksum: u32::from_le_bytes(*sum) })
    }
}

fn take_directory(bytes: &[u8], end: u64) -> Option<Directory> {
    let mut taken = Taken { rest: bytes, position: HEAD as u64 };
    let (mut parts, mut start) = (Vec::new(), 0_u64);
    for _ in 0..taken.count()? {
        let part_end = start.checked_add(taken.number()?)?;
        let is_cleared = taken.byte()? == 1;
        let contradictions = taken.number()?;
        let (length, rest) = (taken.number()?, taken.rest.split_first_chunk::<4>()?);
        let length = u32::try_from(length).ok().filter(|&length| length <= MOST_STORED)?;
        let registers_sum = u32::from_le_bytes(*rest.0);
        taken.rest = rest.1;
        let (mut blocks, mut last) = (Vec::new(), 0_u64);
        for _ in 0..taken.count()? {
            let first = last.checked_add(taken.number()?)?;
            last = first.checked_add(taken.number()?)?;
            blocks.push(Block { lines: (first, last), stored: taken.stored()? });
        }
        // Registers come after the blocks.
        let registers = Stored { position: taken.position, length, checksum: registers_sum };
        taken.position = taken.position.checked_add(length.into())?;
        parts.push(Part { start, end: part_end, blocks, is_cleared, registers, contradictions });
        start = part_end;
    }
    let mut code = Vec::new();
    for _ in 0..taken.count()? {
        code.push((taken.number()?, taken.stored()?));
    }
    (taken.rest.is_empty() && taken.position == end).then_some((parts, code))
}
