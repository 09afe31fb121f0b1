//! The items of a recording, in parts that can be read one by one.

use crate::retired::{RetiredReader, RetiredWriter};
use backsight_core::{Address, Execution, Input, Isa};
use std::collections::BTreeMap;
use std::io;

/// Items of a chunk. It ends with the next one that does not belong to an instruction, or at twice as many.
const ITEMS: usize = 1 << 16;
/// Bytes of a line, the unit of what a filter knows.
const LINE: u64 = 64;
const FILTER: usize = 512;
/// Lines of one item that a filter takes one by one.
const MOST_LINES: u64 = 1024;

/// Which lines of memory were touched: some that were not, may seem to be.
#[derive(Clone)]
pub(super) struct Filter(Box<[u64; FILTER]>);

impl Default for Filter {
    fn default() -> Self {
        Self(Box::new([0; FILTER]))
    }
}

impl Filter {
    fn bits(line: u64) -> [usize; 2] {
        let hash = line.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        [hash >> 49, hash >> 34 & 0x7FFF].map(|bit| bit as usize)
    }

    fn lines(address: u64, length: u64) -> Option<std::ops::RangeInclusive<u64>> {
        let last = address.checked_add(length.max(1) - 1)?;
        let lines = address / LINE..=last / LINE;
        (lines.end() - lines.start() < MOST_LINES).then_some(lines)
    }

    fn add(&mut self, address: u64, length: u64) {
        let Some(lines) = Self::lines(address, length) else { return self.0.fill(u64::MAX) };
        for bit in lines.flat_map(Self::bits) {
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// False: surely not.
    pub fn may_have(&self, address: u64, length: u64) -> bool {
        let has = |bit: usize| self.0[bit / 64] >> (bit % 64) & 1 != 0;
        Self::lines(address, length)
            .is_none_or(|mut lines| lines.any(|line| Self::bits(line).into_iter().all(has)))
    }
}

/// A part of a recording.
pub(super) struct Chunk {
    bytes: Vec<u8>,
    /// Instructions before.
    pub first: u64,
    /// The thread that it begins in.
    pub thread: u32,
    /// What was written in it, the system's writes counted, and what was read.
    pub writes: Filter,
    pub reads: Filter,
}

impl Chunk {
    /// Bytes that it takes.
    pub fn size(&self) -> u64 {
        (self.bytes.len() + 2 * FILTER * 8 + size_of::<Self>()) as u64
    }

    pub fn items(&self) -> Vec<Execution> {
        let mut items = Vec::with_capacity(ITEMS);
        // It was written by us.
        let read = RetiredReader::new(&self.bytes[..])
            .and_then(|mut reader| reader.read(&mut |item| items.push(item)));
        debug_assert!(read.is_ok());
        items
    }
}

/// Makes chunks.
pub(super) struct ChunkWriter {
    isa: Isa,
    items: Vec<Execution>,
    writes: Filter,
    reads: Filter,
    /// Instructions before this chunk, and the thread that it begins in.
    begin: (u64, u32),
    instructions: u64,
    thread: u32,
    chunks: usize,
    /// Of each thread: instructions of it before a chunk, and which chunk. Chunks without any are left out.
    pub threads: BTreeMap<u32, Vec<(u64, usize)>>,
    counts: BTreeMap<u32, u64>,
}

impl ChunkWriter {
    pub fn new(isa: Isa) -> Self {
        Self {
            isa,
            items: Vec::with_capacity(ITEMS),
            writes: Filter::default(),
            reads: Filter::default(),
            begin: (0, 0),
            instructions: 0,
            thread: 0,
            chunks: 0,
            threads: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Should a chunk end before this item?
    pub fn ends_before(&self, item: &Execution) -> bool {
        let belongs = matches!(item, Execution::Access(_) | Execution::Input(Input::Counter(_)));
        self.items.len() >= if belongs { 2 * ITEMS } else { ITEMS }
    }

    pub fn push(&mut self, item: &Execution) {
        match *item {
            Execution::Thread(thread) => self.thread = thread,
            Execution::Instruction(_) => {
                self.instructions += 1;
                let count = self.counts.entry(self.thread).or_default();
                let parts = self.threads.entry(self.thread).or_default();
                if parts.last().is_none_or(|&(_, chunk)| chunk != self.chunks) {
                    parts.push((*count, self.chunks));
                }
                *count += 1;
            }
            Execution::Access(access) if access.store => {
                self.writes.add(access.address.0, access.size.into())
            }
            Execution::Access(access) => self.reads.add(access.address.0, access.size.into()),
            Execution::Input(Input::Memory { address, size, .. }) => self.writes.add(address.0, size.into()),
            Execution::Input(Input::Cleared { address, length }) => self.writes.add(address.0, length),
            _ => {}
        }
        self.items.push(*item);
    }

    /// Ends the chunk. `None` if there is nothing in it.
    pub fn take(&mut self) -> io::Result<Option<Chunk>> {
        if self.items.is_empty() {
            return Ok(None);
        }
        let mut writer = RetiredWriter::new(Vec::new(), self.isa)?;
        self.items.drain(..).try_for_each(|item| writer.push(&item))?;
        let mut bytes = writer.finish()?;
        bytes.shrink_to_fit();
        let (first, thread) = std::mem::replace(&mut self.begin, (self.instructions, self.thread));
        self.chunks += 1;
        let (writes, reads) = (std::mem::take(&mut self.writes), std::mem::take(&mut self.reads));
        Ok(Some(Chunk { bytes, first, thread, writes, reads }))
    }

    /// Instructions so far, and of each thread.
    pub fn counts(&self) -> (u64, &BTreeMap<u32, u64>) {
        (self.instructions, &self.counts)
    }
}

/// An access to memory that somebody looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The instruction that did it: so many came before it. It is done at the next moment.
    pub instruction: u64,
    /// The thread that did it.
    pub thread: u32,
    /// Where.
    pub address: Address,
    /// How many bytes.
    pub length: u64,
    /// It wrote.
    pub store: bool,
    /// The system did it for the program, or beside it.
    pub system: bool,
}

/// What an item does to memory: address, length, whether it writes, whether the system does.
pub(super) fn effect(item: &Execution) -> Option<(Address, u64, bool, bool)> {
    match *item {
        Execution::Access(access) => Some((access.address, access.size.into(), access.store, false)),
        Execution::Input(Input::Memory { address, size, .. }) => Some((address, size.into(), true, true)),
        Execution::Input(Input::Cleared { address, length }) => Some((address, length, true, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_never_says_no_to_what_was_added() {
        let mut filter = Filter::default();
        filter.add(0x103C, 8);
        filter.add(u64::MAX - 3, 4);
        for (address, length) in [(0x1000, 0x80), (0x1043, 1), (0x1000, 0x3D), (u64::MAX, 1), (0, u64::MAX)] {
            assert!(filter.may_have(address, length), "{address:#x} {length}");
        }
        let others = (0..1000).filter(|n| filter.may_have(0x10_0000 + 64 * n, 1)).count();
        assert!(others < 10, "{others}");
        filter.add(0, u64::MAX);
        assert!(filter.may_have(0x7777_7777, 1), "a range that is too long to note is everywhere");
    }
}
