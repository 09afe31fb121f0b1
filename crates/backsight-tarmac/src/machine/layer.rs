//! What a part of a log says of memory, as bytes.
//!
//! ```text
//! line      distance to the number of the line before, granules that changed, granules that were only read (a byte each);
//!           then for each granule that changed:
//! granule   a byte of flags; bytes that are touched, if not all; bytes of these that are known, if not all; the writer, as the
//!           distance of its line from the beginning of the part; the bytes that are known
//! ```
//!
//! Lines are in the order of their numbers, in blocks, each of which can be read alone.

use backsight_core::leb128;

use super::memory::{GRANULE, GRANULES, MemoryLine, Wrote, granule_mask, ones};
use super::{Machine, Writer};

/// Lines of a block.
const BLOCK: usize = 64;

const ALL_TOUCHED: u8 = 1;
const ALL_KNOWN: u8 = 2;
/// Two bits that say who wrote it.
const WRITER: u8 = 12;
const AS_BEFORE: u8 = 0;
const NOBODY: u8 = 4;
const AFTER: u8 = 8;
const BEFORE: u8 = 12;

/// A block of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerBlock {
    /// The numbers of its first and its last line.
    pub lines: (u64, u64),
    /// Its bytes: how many come before them, and how many they are.
    pub start: u64,
    /// How many they are.
    pub length: u32,
}

impl Machine {
    /// What the lines since the last layer, or since the beginning, have changed in memory. The part of the log begins at `start`. Gives
    /// the blocks of its bytes, and whether nothing is known of what was there before it.
    pub fn take_layer(&mut self, start: u64, out: &mut Vec<u8>) -> (Vec<LayerBlock>, bool) {
        let (mut blocks, mut count, mut last) = (Vec::<LayerBlock>::new(), 0, 0);
        let is_cleared = self.memory.is_cleared;
        self.memory.take_changes(|number, line| {
            if count % BLOCK == 0 {
                let begin = out.len() as u64;
                blocks.push(LayerBlock { lines: (number, number), start: begin, length: 0 });
                last = number;
            }
            count += 1;
            put_line(number - last, line, start, out);
            last = number;
            if let Some(block) = blocks.last_mut() {
                block.lines.1 = number;
                block.length = (out.len() as u64 - block.start) as u32;
            }
        });
        (blocks, is_cleared)
    }

    /// Leaves memory to whoever keeps the layers, if it takes more than so many lines.
    pub fn leave_memory(&mut self, most_lines: usize) {
        if self.memory.lines() > most_lines {
            self.memory.leave();
        }
    }
}

fn put_line(distance: u64, line: &MemoryLine, start: u64, out: &mut Vec<u8>) {
    leb128::write(distance, |byte| out.push(byte));
    out.extend([line.changed, line.read & !line.changed]);
    for granule in ones(line.changed.into()) {
        let part = |mask: u64| (mask >> (GRANULE * granule)) as u8;
        let (touched, known) = (part(line.touched), part(line.known));
        let writer = match line.writers[granule] {
            Wrote::AsBefore => AS_BEFORE,
            Wrote::Nobody => NOBODY,
            Wrote::By(writer) if writer.offset >= start => AFTER,
            Wrote::By(_) => BEFORE,
        };
        let all_touched = if touched == u8::MAX { ALL_TOUCHED } else { 0 };
        let all_known = if touched == known { ALL_KNOWN } else { 0 };
        out.push(writer | all_touched | all_known);
        out.extend((all_touched == 0).then_some(touched));
        out.extend((all_known == 0).then_some(known));
        if let Wrote::By(writer) = line.writers[granule] {
            leb128::write(writer.offset.abs_diff(start), |byte| out.push(byte));
        }
        out.extend(ones(known.into()).map(|at| line.bytes.0[GRANULE * granule + at]));
    }
}

/// What a layer says of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerLine {
    /// Its number.
    pub number: u64,
    /// What is known of it. Who wrote is known by the offset of the line of the log alone.
    pub line: MemoryLine,
}

impl LayerLine {
    /// Were any of these bytes written, or changed in another way, in this part of the log? Bit i is for byte i of the line.
    pub fn has_changed(&self, bytes: u64) -> bool {
        ones(self.line.changed.into()).any(|granule| bytes & granule_mask(granule) != 0)
    }

    /// Were any of these bytes touched?
    pub fn is_touched(&self, bytes: u64) -> bool {
        ones((self.line.changed | self.line.read).into()).any(|granule| bytes & granule_mask(granule) != 0)
    }
}

/// The lines of a block of a layer, whose part of the log begins at `start`. `None` where its bytes are not what was written.
pub fn lines_of_block(bytes: &[u8], first: u64, start: u64) -> impl Iterator<Item = Option<LayerLine>> + '_ {
    let (mut rest, mut number) = (bytes, first);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let read = take_line(&mut rest, number, start);
        match &read {
            Some(line) => number = line.number,
            None => rest = &[],
        }
        Some(read)
    })
}

fn take_line(rest: &mut &[u8], before: u64, start: u64) -> Option<LayerLine> {
    let number = before.checked_add(number(rest)?)?;
    let (changed, read) = (byte(rest)?, byte(rest)?);
    let mut line = MemoryLine { changed, read, ..MemoryLine::default() };
    for granule in (0..GRANULES).filter(|granule| changed >> granule & 1 == 1) {
        let flags = byte(rest)?;
        let touched = if flags & ALL_TOUCHED != 0 { u8::MAX } else { byte(rest)? };
        let known = if flags & ALL_KNOWN != 0 { touched } else { byte(rest)? };
        let by = |offset: Option<u64>| Some(Wrote::By(Writer { offset: offset?, instruction: None }));
        line.writers[granule] = match flags & WRITER {
            AS_BEFORE => Wrote::AsBefore,
            NOBODY => Wrote::Nobody,
            AFTER => by(start.checked_add(self::number(rest)?))?,
            _ => by(start.checked_sub(self::number(rest)?))?,
        };
        for at in ones(known.into()) {
            line.bytes.0[GRANULE * granule + at] = byte(rest)?;
        }
        line.touched |= u64::from(touched) << (GRANULE * granule);
        line.known |= u64::from(known & touched) << (GRANULE * granule);
    }
    Some(LayerLine { number, line })
}

pub(super) fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(*first)
}

pub(super) fn number(rest: &mut &[u8]) -> Option<u64> {
    leb128::read(|| byte(rest).ok_or(())).ok().flatten()
}
