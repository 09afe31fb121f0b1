//! A buffer, taken apart into the bytes of its sources.
//!
//! Sources take turns in frames, and each turn is a few bytes. What belongs to one source is gathered before it is
//! decoded: decoders are at their best with long pieces.

use backsight_arm::frame::{Batch, Counts, Demultiplexer, Run};
use backsight_core::TraceId;

use super::source_decoder::{Part, Wanted};
use crate::capture::Buffer;

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
    /// Where the stream does not continue: how many of the bytes come before, and when that was.
    pub breaks: Vec<(usize, u64)>,
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

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.breaks.is_empty()
    }
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
    wanted: Wanted,
    /// Bytes of sources that came out so far.
    arrived: u64,
    /// Bytes that were taken, and how many of them before the demultiplexer began anew.
    taken: u64,
    base: u64,
    /// What became of the bytes before that.
    past: Counts,
    /// Where the data begins anew, what is next last.
    starts: Vec<u64>,
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
        // Before the first byte there is nothing to be continued.
        let starts =
            buffer.starts.iter().rev().map(|start| start.offset).filter(|&offset| offset > 0).collect();
        Self {
            demultiplexer,
            slots,
            wanted,
            arrived: 0,
            taken: 0,
            base: 0,
            past,
            starts,
            triggers: 0,
            flushes: 0,
        }
    }

    /// The next place where the data begins anew, if it is within so many bytes: how many come before it.
    fn next_start(&mut self, within: usize) -> Option<usize> {
        let next = self.starts.last()?.saturating_sub(self.taken);
        let next = usize::try_from(next).ok().filter(|&next| next < within)?;
        self.starts.pop();
        Some(next)
    }

    /// Takes more of the buffer, and gathers what each source has in it. `is_wanted` is asked for each ID that is met
    /// first.
    pub fn feed(&mut self, mut block: &[u8], is_wanted: &mut impl FnMut(TraceId) -> bool) {
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
                piece.breaks.push((piece.bytes.len(), self.arrived));
            }
        }
    }

    fn feed_piece(&mut self, block: &[u8], is_wanted: &mut impl FnMut(TraceId) -> bool) {
        self.taken += block.len() as u64;
        let Self { demultiplexer, slots, wanted, arrived, base, triggers, flushes, .. } = self;
        demultiplexer.feed(block, &mut |batch| match batch {
            Batch::Data { id, bytes, runs } => {
                let arrival = *arrived;
                *arrived += bytes.len() as u64;
                let Some(slot) = slots.get_mut(usize::from(id.get())) else { return };
                if let Slot::Unmet = slot {
                    *slot = if is_wanted(id) { Slot::Gathered(Box::default()) } else { Slot::Ignored };
                }
                let Slot::Gathered(piece) = slot else { return };
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
                        piece.breaks.push((piece.bytes.len(), *arrived));
                    }
                }
            }
            Batch::Trigger { .. } => *triggers += 1,
            Batch::Flush { .. } => *flushes += 1,
        });
    }

    /// Takes more of a buffer without frames, all of which belongs to one source. Gives its position, and where in it the
    /// data begins anew.
    pub fn feed_raw(&mut self, block: &[u8]) -> (u64, Vec<(usize, u64)>) {
        let mut breaks = Vec::new();
        while let Some(next) = self.next_start(block.len()) {
            breaks.push((next, u64::MAX));
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
