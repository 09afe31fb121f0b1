//! A buffer, taken apart into the bytes of its sources.
//!
//! Sources take turns in frames, and each turn is a few bytes. What belongs to one source is gathered before it is
//! decoded: decoders are at their best with long pieces.

use backsight_arm::frame::{Batch, Counts, Demultiplexer, FrameStart, Run};
use backsight_capture::Start;
use backsight_core::TraceId;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::source_decoder::{Break, Part, Wanted};
use super::summary::frame_damage;
use crate::capture::{Buffer, Contents};
use crate::{Error, Result};

/// Sources of a formatter at most.
const IDS: usize = 128;

/// Some consecutive bytes of one source.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub bytes: Vec<u8>,
    /// Where they are.
    pub runs: Vec<Run>,
    /// When they arrived: how many bytes of any source came before.
    pub arrivals: Vec<Run>,
    /// Where the stream does not continue.
    pub breaks: Vec<Break>,
}

impl Piece {
    /// What was gathered.
    pub fn part(&self) -> Part<'_> {
        let Self { bytes, runs, arrivals, breaks } = self;
        Part { bytes, runs, arrivals, breaks }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
        self.arrivals.clear();
        self.breaks.clear();
    }

    /// Appends what comes after it in the stream.
    pub fn append(&mut self, other: &Self) {
        let before = self.bytes.len();
        let moved = |run: &Run| Run { at: before as u32 + run.at, index: run.index };
        self.bytes.extend_from_slice(&other.bytes);
        self.runs.extend(other.runs.iter().map(moved));
        self.arrivals.extend(other.arrivals.iter().map(moved));
        self.breaks.extend(other.breaks.iter().map(|one| Break { at: before + one.at, ..*one }));
    }

    /// Some of its bytes. A break belongs to the byte after it; one at the very end to the last ones.
    pub fn slice(&self, range: Range<usize>) -> PieceSlice<'_> {
        let is_end = range.end == self.bytes.len();
        let has = |at: usize| range.contains(&at) || is_end && at == range.end;
        let breaks = self.breaks.iter().filter(|one| has(one.at));
        PieceSlice {
            bytes: self.bytes.get(range.clone()).unwrap_or_default(),
            runs: slice_runs(&self.runs, &range),
            arrivals: slice_runs(&self.arrivals, &range),
            breaks: breaks.map(|one| Break { at: one.at - range.start, ..*one }).collect(),
        }
    }

    /// Keeps the first so many bytes, of more. A break after them is not theirs.
    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
        let before = |run: &Run| (run.at as usize) < length;
        self.runs.truncate(self.runs.partition_point(before));
        self.arrivals.truncate(self.arrivals.partition_point(before));
        self.breaks.retain(|one| one.at < length);
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.breaks.is_empty()
    }
}

/// Some bytes of a piece, where they are.
#[derive(Debug)]
pub(crate) struct PieceSlice<'a> {
    pub bytes: &'a [u8],
    runs: Vec<Run>,
    arrivals: Vec<Run>,
    breaks: Vec<Break>,
}

impl PieceSlice<'_> {
    /// The same, to be decoded.
    pub fn part(&self) -> Part<'_> {
        let Self { bytes, runs, arrivals, breaks } = self;
        Part { bytes, runs, arrivals, breaks }
    }

    /// A piece of its own.
    pub fn into_piece(self) -> Piece {
        let Self { bytes, runs, arrivals, breaks } = self;
        Piece { bytes: bytes.to_vec(), runs, arrivals, breaks }
    }
}

/// The runs of some of the bytes, the first of which may begin in the middle of one.
fn slice_runs(runs: &[Run], range: &Range<usize>) -> Vec<Run> {
    let (start, end) = (range.start as u32, range.end as u32);
    let first = runs.partition_point(|run| run.at <= start).saturating_sub(1);
    let within = runs.get(first..).unwrap_or_default().iter().take_while(|run| run.at < end);
    let moved = |run: &Run| match run.at.checked_sub(start) {
        Some(at) => Run { at, index: run.index },
        None => Run { at: 0, index: run.index + u64::from(start - run.at) },
    };
    within.map(moved).collect()
}

/// What is known of an ID.
enum Slot {
    /// It was not met yet.
    Unmet,
    /// Nobody wants its bytes.
    Ignored,
    /// They are gathered.
    Gathered(Box<Piece>),
}

/// Takes a buffer apart.
pub(crate) struct Splitter {
    demultiplexer: Demultiplexer,
    slots: Vec<Slot>,
    /// Sources that go on under other IDs.
    continued: BTreeMap<TraceId, TraceId>,
    /// The ID that each of those, by its first one, has at the moment.
    current: BTreeMap<TraceId, TraceId>,
    wanted: Wanted,
    /// Bytes of sources that came out so far.
    arrived: u64,
    /// Bytes that were taken, and how many of them before the demultiplexer began again.
    taken: u64,
    base: u64,
    /// What became of the bytes before that.
    past: Counts,
    /// Where the data begins again.
    starts: Arc<[Start]>,
    /// How many of the starts have been passed.
    passed: usize,
    /// What the sink saw.
    pub triggers: u64,
    pub flushes: u64,
}

impl Splitter {
    /// At the beginning of a buffer.
    pub fn new(buffer: &Buffer, wanted: Wanted) -> Self {
        let slots = std::iter::repeat_with(|| Slot::Unmet).take(IDS).collect();
        let demultiplexer = Demultiplexer::new(buffer.framing());
        let past = demultiplexer.counts().clone();
        let starts = buffer.starts.clone();
        let continued = buffer.continued.clone();
        let current = continued.values().map(|&first| (first, first)).collect();
        let (arrived, taken, base, passed, triggers, flushes) = Default::default();
        Self {
            demultiplexer,
            slots,
            continued,
            current,
            wanted,
            arrived,
            taken,
            base,
            past,
            starts,
            passed,
            triggers,
            flushes,
        }
    }

    /// Where in a buffer whose data begins only once a splitter can go on, and for whom the next byte is there.
    pub fn frame_start(&self, buffer: &Buffer) -> Option<FrameStart> {
        if !self.starts.is_empty() {
            return None;
        }
        if buffer.is_raw() {
            return Some(FrameStart { index: self.taken, id: None });
        }
        self.demultiplexer.frame_start()
    }

    /// In the middle of a buffer. Arrivals and counts are of what comes from there on.
    pub fn starting_at(buffer: &Buffer, wanted: Wanted, start: FrameStart) -> Self {
        let demultiplexer = Demultiplexer::starting_at(buffer.framing(), start);
        Self { demultiplexer, taken: start.index, ..Self::new(buffer, wanted) }
    }

    /// The next place where the data begins again, if it is within so many bytes: how many come before it.
    fn next_start(&mut self, within: usize) -> Option<usize> {
        let next = self.starts.get(self.passed)?.offset.saturating_sub(self.taken);
        let next = usize::try_from(next).ok().filter(|&next| next < within)?;
        self.passed += 1;
        Some(next)
    }

    /// Takes more of the buffer, and gathers what each source has in it. `is_wanted` is asked for each ID that is met
    /// first.
    pub fn feed(&mut self, mut block: &[u8], is_wanted: &mut dyn FnMut(TraceId) -> bool) {
        while let Some(next) = self.next_start(block.len()) {
            let (before, after) = block.split_at(next);
            self.feed_piece(before, is_wanted);
            self.restart();
            self.break_all();
            block = after;
        }
        self.feed_piece(block, is_wanted);
    }

    /// Nothing continues from here on, in any source.
    fn break_all(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Gathered(piece) = slot {
                let start = self.passed.checked_sub(1);
                let (at, arrival) = (piece.bytes.len(), self.arrived);
                piece.breaks.push(Break { at, arrival, start, goes_on_as: None });
            }
        }
    }

    fn feed_piece(&mut self, block: &[u8], is_wanted: &mut dyn FnMut(TraceId) -> bool) {
        self.taken += block.len() as u64;
        let Self { demultiplexer, slots, continued, current, wanted, arrived, base, passed, .. } = self;
        let (triggers, flushes) = (&mut self.triggers, &mut self.flushes);
        demultiplexer.feed(block, &mut |batch| match batch {
            Batch::Data { id, bytes, runs } => {
                let arrival = *arrived;
                *arrived += bytes.len() as u64;
                let first = continued.get(&id).copied().unwrap_or(id);
                let Some(slot) = slots.get_mut(usize::from(first.get())) else { return };
                if let Slot::Unmet = slot {
                    let mut piece = Box::<Piece>::default();
                    // It learns where it comes in.
                    let start = passed.checked_sub(1);
                    let goes_on_as = None;
                    piece.breaks.extend(start.map(|_| Break { at: 0, arrival, start, goes_on_as }));
                    *slot = if is_wanted(first) { Slot::Gathered(piece) } else { Slot::Ignored };
                }
                let Slot::Gathered(piece) = slot else { return };
                if let Some(current) = current.get_mut(&first).filter(|current| **current != id) {
                    *current = id;
                    let (at, start) = (piece.bytes.len(), None);
                    piece.breaks.push(Break { at, arrival, start, goes_on_as: Some(id) });
                }
                let before = piece.bytes.len() as u32;
                if wanted.arrivals {
                    piece.arrivals.push(Run { at: before, index: arrival });
                }
                if wanted.positions {
                    let moved = |run: &Run| Run { at: before + run.at, index: *base + run.index };
                    piece.runs.extend(runs.iter().map(moved));
                }
                piece.bytes.extend_from_slice(bytes);
            }
            Batch::Discontinuity { .. } => {
                for slot in slots.iter_mut() {
                    if let Slot::Gathered(piece) = slot {
                        let (at, arrival) = (piece.bytes.len(), *arrived);
                        piece.breaks.push(Break { at, arrival, start: None, goes_on_as: None });
                    }
                }
            }
            Batch::Trigger { .. } => *triggers += 1,
            Batch::Flush { .. } => *flushes += 1,
        });
    }

    /// Takes more of a buffer without frames, all of which belongs to one source. Gives its position, and where in it the
    /// data begins again.
    pub fn feed_raw(&mut self, block: &[u8]) -> (u64, Vec<Break>) {
        let mut breaks = Vec::new();
        while let Some(next) = self.next_start(block.len()) {
            let start = self.passed.checked_sub(1);
            breaks.push(Break { at: next, arrival: u64::MAX, start, goes_on_as: None });
        }
        let position = self.taken;
        self.taken += block.len() as u64;
        self.demultiplexer.feed(block, &mut |_| {});
        (position, breaks)
    }

    /// Gives what was gathered, by ID.
    pub fn pieces(&mut self, mut each: impl FnMut(TraceId, &mut Piece)) {
        for (id, piece) in self.gathered() {
            each(id, piece);
            piece.clear();
        }
    }

    /// What was gathered, by ID. Who takes it clears it.
    pub fn gathered(&mut self) -> impl Iterator<Item = (TraceId, &mut Piece)> {
        (0_u8..).zip(&mut self.slots).filter_map(|(id, slot)| match slot {
            Slot::Gathered(piece) if !piece.is_empty() => Some((TraceId::new(id), piece.as_mut())),
            _ => None,
        })
    }

    /// What follows does not continue what came before: a frame that is not complete is dropped and counted.
    pub fn restart(&mut self) {
        self.demultiplexer.finish(&mut |_| {});
        self.past = self.counts();
        self.demultiplexer.reset();
        self.base = self.taken;
    }

    /// What became of the bytes.
    pub fn counts(&self) -> Counts {
        sum(&self.past, self.demultiplexer.counts())
    }
}

fn sum(one: &Counts, other: &Counts) -> Counts {
    let mut sum = one.clone();
    sum.data.iter_mut().zip(other.data).for_each(|(sum, other)| *sum += other);
    sum.raw += other.raw;
    sum.unknown += other.unknown;
    sum.ids += other.ids;
    sum.sync += other.sync;
    sum.footers += other.footers;
    sum.unsynchronised += other.unsynchronised;
    sum.partial += other.partial;
    sum.frames += other.frames;
    sum.discontinuities += other.discontinuities;
    sum.illegal_ids += other.illegal_ids;
    sum.nonzero_padding += other.nonzero_padding;
    sum.stray_aux += other.stray_aux;
    sum
}

impl Buffer {
    /// What its frames hold.
    pub(crate) fn count_frames(&self) -> Result<Counts> {
        let wanted = Wanted { positions: false, bytes: false, arrivals: false };
        let mut splitter = Splitter::new(self, wanted);
        self.read_blocks(0, false, &mut |block| {
            splitter.feed(block, &mut |_| false);
            ControlFlow::Continue(())
        })?;
        splitter.restart();
        Ok(splitter.counts())
    }

    /// Which sources it holds trace of, and how many bytes of each. Where several can be there, its frames are read to find
    /// out.
    ///
    /// # Errors
    /// If it cannot be read, or can be read once only.
    pub fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::default();
        let size = self.size.ok_or_else(|| {
            let what = "its size is not known: what is in it can be read once only";
            Error::misuse(format!("buffer {}: {what}", self.name))
        })?;
        if self.is_raw() {
            contents.sources.extend(self.sources().map(|source| (source.clone(), size)));
            return Ok(contents);
        }
        let counts = self.count_frames()?;
        contents.frame_damage = frame_damage(&counts);
        let mut bytes: BTreeMap<TraceId, u64> = BTreeMap::new();
        for (id, &count) in (0_u8..).zip(&counts.data).filter(|(_, count)| **count > 0) {
            *bytes.entry(self.first_id(TraceId::new(id))).or_default() += count;
        }
        for (id, count) in bytes {
            match self.source(id) {
                Some(source) => contents.sources.push((source, count)),
                None => contents.unknown.push((id, count)),
            }
        }
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_a_piece_put_together_are_the_piece() {
        let mut piece = Piece { bytes: (0..100).collect(), ..Piece::default() };
        piece.runs = [0, 15, 30, 77].map(|at| Run { at, index: 1000 + u64::from(at) * 2 }).to_vec();
        piece.breaks = [0, 30, 30, 100]
            .map(|at| Break { at, arrival: at as u64, start: Some(at), goes_on_as: None })
            .to_vec();
        for (one, other) in [(0, 0), (0, 30), (14, 16), (30, 30), (50, 99), (100, 100)] {
            let mut whole = piece.slice(0..one).into_piece();
            let before_last = whole.breaks.len();
            whole.append(&piece.slice(one..other).into_piece());
            whole.append(&piece.slice(other..100).into_piece());
            assert_eq!(whole.bytes, piece.bytes);
            let position = |piece: &Piece, byte: u32| {
                let run = piece.runs.iter().rev().find(|run| run.at <= byte).expect("there is a run");
                run.index + u64::from(byte - run.at)
            };
            (0..100).for_each(|byte| assert_eq!(position(&whole, byte), position(&piece, byte)));
            if one < 100 && other < 100 {
                assert_eq!(whole.breaks, piece.breaks, "{before_last}");
            }
        }
    }
}
