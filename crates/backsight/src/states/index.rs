//! What an index of a log says of memory and registers between its parts.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backsight_tarmac::{Earlier, LINE, LayerLine, Machine, MemoryLine, lines_of_block};

/// A part of the bytes of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    pub position: u64,
    pub length: u32,
    pub checksum: u32,
}

/// Lines of memory that are stored together: the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub lines: (u64, u64),
    pub stored: Stored,
}

/// A part of a log, of some megabytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Offset of its first line, and that after the last.
    pub start: u64,
    pub end: u64,
    /// What it says of memory.
    pub blocks: Vec<Block>,
    /// Somewhere in it, all that was known of memory before it was lost.
    pub is_cleared: bool,
    /// All registers after its last line.
    pub registers: Stored,
    /// Reads in it and before it that found other bytes than those that were there.
    pub contradictions: u64,
}

/// Where the bytes of an index are.
#[derive(Debug)]
pub(super) enum Store {
    Bytes(Vec<u8>),
    File(Mutex<File>),
}

/// Registers and memory of a log at moments some megabytes apart.
///
/// Between two of them, the lines of the log say what happens: any moment is reached by reading one part of it.
#[derive(Debug)]
pub struct StateIndex {
    pub(super) store: Store,
    pub(super) parts: Vec<Part>,
    /// The opcodes of the log: addresses, and where they are.
    pub(super) code: Vec<(u64, Stored)>,
    /// Bytes of it that are not what was written were found.
    pub(super) is_damaged: AtomicBool,
    /// The block of each part that was read last.
    pub(super) recent: Mutex<Vec<Option<Recent>>>,
}

/// A block, and its lines.
type Recent = (usize, Arc<Vec<LayerLine>>);

/// More bytes are never stored together.
pub(super) const MOST_STORED: u32 = 1 << 26;

impl StateIndex {
    /// One that says nothing: all is found by reading the log from its beginning.
    pub fn nothing() -> Self {
        Self::new(Store::Bytes(Vec::new()), Vec::new(), Vec::new())
    }

    pub(super) fn new(store: Store, parts: Vec<Part>, code: Vec<(u64, Stored)>) -> Self {
        let recent = Mutex::new(vec![None; parts.len()]);
        Self { store, parts, code, is_damaged: AtomicBool::new(false), recent }
    }

    /// Was something found in it that is not what was written? What it would have said is not known then.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// The bytes of a log that it tells of.
    pub fn covered(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// In how many parts it has cut the log.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The opcodes of the instructions of the log, where they were executed: addresses and bytes. `None` if they cannot be read.
    pub fn code(&self) -> Option<Vec<(u64, Vec<u8>)>> {
        self.code.iter().map(|(address, stored)| Some((*address, self.read(*stored)?))).collect()
    }

    /// The part that has an offset, and which bytes of the log those are. What comes after the last part is one more.
    pub(super) fn part_at(&self, offset: u64) -> (usize, Range<u64>) {
        let number = self.parts.partition_point(|part| part.end <= offset);
        (number, self.range(number))
    }

    /// The bytes of a part.
    pub(super) fn range(&self, number: usize) -> Range<u64> {
        match self.parts.get(number) {
            Some(part) => part.start..part.end,
            None => self.covered()..u64::MAX,
        }
    }

    /// Registers and memory where a part begins. `None` if they are not known.
    pub(super) fn machine_at(this: &Arc<Self>, number: usize, most_memory: u64) -> Option<Machine> {
        let machine = Machine::new(most_memory);
        let Some(before) = number.checked_sub(1) else { return Some(machine) };
        let part = this.parts.get(before)?;
        let machine = machine.with_registers(&this.read(part.registers)?)?;
        Some(machine.after(Arc::new(Before { index: Arc::clone(this), parts: number })))
    }

    /// Where a register was written last before a part, as [`Machine::register`] says it.
    pub(super) fn registers_after(&self, number: usize) -> Option<Machine> {
        Machine::new(0).with_registers(&self.read(self.parts.get(number)?.registers)?)
    }

    pub(super) fn contradictions_before(&self, number: usize) -> u64 {
        number.checked_sub(1).and_then(|before| self.parts.get(before)).map_or(0, |part| part.contradictions)
    }

    pub(super) fn read(&self, stored: Stored) -> Option<Vec<u8>> {
        let read = self.stored(stored).filter(|bytes| checksum(bytes) == stored.checksum);
        if read.is_none() {
            self.is_damaged.store(true, Ordering::Relaxed);
        }
        read
    }

    fn stored(&self, Stored { position, length, .. }: Stored) -> Option<Vec<u8>> {
        if length > MOST_STORED {
            return None;
        }
        match &self.store {
            Store::Bytes(bytes) => {
                let rest = bytes.get(usize::try_from(position).ok()?..)?;
                rest.get(..length as usize).map(<[u8]>::to_vec)
            }
            Store::File(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(position)).ok()?;
                let mut bytes = Vec::new();
                (&mut *file).take(length.into()).read_to_end(&mut bytes).ok()?;
                (bytes.len() == length as usize).then_some(bytes)
            }
        }
    }

    /// The lines of a block; `None` where they cannot be read.
    fn lines(&self, part: usize, block: usize) -> Option<Arc<Vec<LayerLine>>> {
        let recent = |known: &Vec<Option<Recent>>| match known.get(part) {
            Some(Some((number, lines))) if *number == block => Some(Arc::clone(lines)),
            _ => None,
        };
        if let Some(lines) = recent(&self.recent.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Some(lines);
        }
        let Part { start, blocks, .. } = self.parts.get(part)?;
        let found = blocks.get(block)?;
        let bytes = self.read(found.stored)?;
        let lines: Option<Vec<_>> = lines_of_block(&bytes, found.lines.0, *start).collect();
        let lines = Arc::new(lines?);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = recent.get_mut(part) {
            *slot = Some((block, Arc::clone(&lines)));
        }
        Some(lines)
    }

    /// What a part says of the lines of memory in a range, in their order: until somebody has enough. `Err` where it cannot be read.
    pub(super) fn each_line(
        &self,
        part: usize,
        range: Range<u64>,
        each: &mut dyn FnMut(&LayerLine) -> bool,
    ) -> Result<(), Unreadable> {
        let blocks = self.parts.get(part).map_or(&[][..], |part| &part.blocks);
        let first = blocks.partition_point(|block| block.lines.1 < range.start);
        for number in (first..blocks.len()).take_while(|&number| blocks[number].lines.0 < range.end) {
            let lines = self.lines(part, number).ok_or(Unreadable)?;
            let from = lines.partition_point(|line| line.number < range.start);
            let wanted = lines.iter().skip(from).take_while(|line| line.number < range.end);
            for line in wanted {
                if !each(line) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// May a part have touched some of these bytes, or written to them if only that is asked for?
    pub(super) fn may_touch(&self, part: usize, addresses: &Range<u64>, writes_only: bool) -> bool {
        let Some(last) = addresses.end.checked_sub(1).filter(|last| *last >= addresses.start) else {
            return false;
        };
        let mut is_touched = false;
        let looked = self.each_line(part, addresses.start / LINE..last / LINE + 1, &mut |line| {
            let from = addresses.start.max(line.number * LINE) % LINE;
            let to = last.min(line.number * LINE + (LINE - 1)) % LINE;
            let mask = u64::MAX >> (63 - (to - from)) << from;
            is_touched |= if writes_only { line.has_changed(mask) } else { line.is_touched(mask) };
            !is_touched
        });
        // What cannot be read may be anything.
        is_touched || looked.is_err()
    }
}

/// Bytes of an index are not what was written.
#[derive(Debug)]
pub(super) struct Unreadable;

pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// Memory before a part, in the layers of the parts before it.
#[derive(Debug)]
struct Before {
    index: Arc<StateIndex>,
    parts: usize,
}

impl Earlier for Before {
    fn line(&self, number: u64) -> MemoryLine {
        let mut known = MemoryLine::default();
        for part in (0..self.parts.min(self.index.parts.len())).rev() {
            let next = number.saturating_add(1);
            let found = self.index.each_line(part, number..next, &mut |line| {
                known.add_older(&line.line);
                false
            });
            // What comes before what cannot be read may have been changed there.
            let is_end = found.is_err() || self.index.parts[part].is_cleared;
            if is_end || known.is_whole() {
                break;
            }
        }
        known
    }
}
