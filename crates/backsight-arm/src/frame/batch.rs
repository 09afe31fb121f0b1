//! The same streams in large pieces, for consumers that want speed.

use super::layout::{FRAME, FrameOutput, data_of, join};
use super::{Chunk, Counts, Deframer, FrameStart, Framing, Loss};
use backsight_core::TraceId;

/// Bytes of one batch at most.
const CAPACITY: usize = 4096;
/// Runs of one batch at most.
const RUNS: usize = 512;

/// Part of a batch, whose bytes have consecutive indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Index of its first byte in listings.
    pub index: u64,
    /// Where it begins in the batch.
    pub at: u32,
}

/// What comes out of a [`Demultiplexer`], in the order of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch<'a> {
    /// Consecutive bytes of one source, of as many frames as follow each other without another source.
    Data {
        /// The source; [`TraceId::NULL`] if the capture has no frames.
        id: TraceId,
        /// The bytes; never empty.
        bytes: &'a [u8],
        /// The indices of the bytes: the first run begins at 0, each lasts until the next.
        runs: &'a [Run],
    },
    /// The sink saw its trigger here.
    Trigger {
        /// Index of the marker.
        index: u64,
    },
    /// The sink finished a flush here.
    Flush {
        /// Index of the marker.
        index: u64,
    },
    /// Bytes are missing here, of every source: each stream decoder must start again.
    Discontinuity {
        /// Where it was noticed.
        index: u64,
        /// How.
        why: Loss,
    },
}

/// A [`Deframer`] that collects what it delivers: fewer and longer pieces, with the index of every byte.
///
/// Everything fed is delivered before `feed` returns, except a frame that is not complete.
#[derive(Clone, Debug)]
pub struct Demultiplexer {
    deframer: Deframer,
    buffer: Buffer,
}

#[derive(Clone, Debug)]
struct Buffer {
    id: TraceId,
    length: usize,
    run_count: usize,
    /// The index that would continue the last run. Nothing continues a whole frame: the next one has another index.
    next: u64,
    bytes: [u8; CAPACITY],
    runs: [Run; RUNS],
}

impl Demultiplexer {
    /// A demultiplexer at the beginning of a capture.
    pub const fn new(framing: Framing) -> Self {
        let buffer = Buffer {
            id: TraceId::NULL,
            length: 0,
            run_count: 0,
            next: 0,
            bytes: [0; CAPACITY],
            runs: [Run { index: 0, at: 0 }; RUNS],
        };
        Self { deframer: Deframer::new(framing), buffer }
    }

    /// As [`Deframer::frame_start`].
    pub fn frame_start(&self) -> Option<FrameStart> {
        self.deframer.frame_start()
    }

    /// As [`Deframer::starting_at`].
    pub fn starting_at(framing: Framing, start: FrameStart) -> Self {
        Self { deframer: Deframer::starting_at(framing, start), ..Self::new(framing) }
    }

    /// What carries the trace.
    pub const fn framing(&self) -> Framing {
        self.deframer.framing()
    }

    /// What became of the bytes so far.
    pub const fn counts(&self) -> &Counts {
        self.deframer.counts()
    }

    /// Begins another capture.
    pub fn reset(&mut self) {
        self.deframer.reset();
    }

    /// Takes more of the capture.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Batch<'_>)) {
        if self.framing() == Framing::Raw {
            return self.deframer.feed(bytes, &mut |chunk| {
                if let Chunk::Data { id, index, bytes } = chunk {
                    sink(Batch::Data { id, bytes, runs: &[Run { index, at: 0 }] });
                }
            });
        }
        let mut batches = Batches { buffer: &mut self.buffer, sink };
        self.deframer.feed_frames(bytes, &mut batches);
        batches.deliver();
    }

    /// Takes the end of the capture: a frame that is not complete is dropped and counted.
    pub fn finish(&mut self, _sink: &mut impl FnMut(Batch<'_>)) {
        self.deframer.drop_rest();
    }
}

impl Buffer {
    /// How many frames there is room for.
    fn room(&self) -> usize {
        ((CAPACITY - self.length) / FRAME).min(RUNS - self.run_count)
    }

    /// Puts frames in, for which there is room, as long as they hold nothing but bytes of the source; gives how many, and how
    /// many of them repeat its ID.
    fn put_frames(&mut self, index: u64, frames: &[[u8; FRAME]]) -> (usize, usize) {
        let (mut length, mut count) = (self.length, 0);
        let runs = self.runs.get_mut(self.run_count..).unwrap_or_default();
        for (frame, run) in frames.iter().zip(runs) {
            let Some((data, bytes)) = data_of(self.id, frame) else { break };
            let Some(out) = self.bytes.get_mut(length..).and_then(<[u8]>::first_chunk_mut::<FRAME>) else {
                break;
            };
            *out = join(data);
            *run = Run { index: index + (FRAME * count) as u64, at: length as u32 };
            length += bytes;
            count += 1;
        }
        let bytes = length - self.length;
        (self.run_count, self.length) = (self.run_count + count, length);
        (count, count * (FRAME - 1) - bytes)
    }
}

struct Batches<'a, F> {
    buffer: &'a mut Buffer,
    sink: &'a mut F,
}

impl<F: FnMut(Batch<'_>)> Batches<'_, F> {
    /// Makes room for `count` bytes. The room is always of a frame's size, so that copies have a fixed size;
    /// what is after `count` is written over later.
    #[inline(always)]
    fn room(&mut self, id: TraceId, index: u64, count: usize) -> Option<&mut [u8; FRAME]> {
        if id != self.buffer.id || self.buffer.length > CAPACITY - FRAME || self.buffer.run_count == RUNS {
            self.deliver();
            self.buffer.id = id;
        }
        let buffer = &mut *self.buffer;
        let length = buffer.length;
        if (index != buffer.next || length == 0)
            && let Some(run) = buffer.runs.get_mut(buffer.run_count)
        {
            *run = Run { index, at: length as u32 };
            buffer.run_count += 1;
        }
        buffer.length = length + count;
        buffer.next = index + count as u64;
        buffer.bytes.get_mut(length..)?.first_chunk_mut()
    }

    fn deliver(&mut self) {
        let Buffer { id, length, run_count, bytes, runs, .. } = self.buffer;
        if let (Some(bytes @ [_, ..]), Some(runs)) = (bytes.get(..*length), runs.get(..*run_count)) {
            (self.sink)(Batch::Data { id: *id, bytes, runs });
        }
        (*length, *run_count) = (0, 0);
    }
}

impl<F: FnMut(Batch<'_>)> FrameOutput for Batches<'_, F> {
    #[inline(always)]
    fn frame(&mut self, id: TraceId, index: u64, halves: [u64; 2]) {
        if let Some(room) = self.room(id, index, 15) {
            let (low, high) = room.split_at_mut(8);
            low.copy_from_slice(&halves[0].to_le_bytes());
            high.copy_from_slice(&halves[1].to_le_bytes());
        }
    }

    fn frames(&mut self, id: TraceId, index: u64, frames: &[[u8; FRAME]]) -> (usize, usize) {
        if id != self.buffer.id {
            self.deliver();
            self.buffer.id = id;
        }
        let (mut taken, mut ids) = (0, 0);
        while let Some(rest) = frames.get(taken..).filter(|rest| !rest.is_empty()) {
            let room = self.buffer.room();
            if room == 0 {
                self.deliver();
                continue;
            }
            let group = rest.get(..room).unwrap_or(rest);
            let (count, repeated) = self.buffer.put_frames(index + (taken * FRAME) as u64, group);
            (taken, ids) = (taken + count, ids + repeated);
            if count < group.len() {
                break;
            }
        }
        (taken, ids)
    }

    #[inline]
    fn data(&mut self, id: TraceId, index: u64, data: &[u8; 2 * FRAME], from: usize, to: usize) {
        if let (Some(room), Some(source)) = (self.room(id, index, to - from), data.get(from..from + FRAME)) {
            room.copy_from_slice(source);
        }
    }

    fn mark(&mut self, mark: Chunk<'static>) {
        self.deliver();
        (self.sink)(match mark {
            Chunk::Trigger { index } => Batch::Trigger { index },
            Chunk::Flush { index } => Batch::Flush { index },
            Chunk::Discontinuity { index, why } => Batch::Discontinuity { index, why },
            Chunk::Data { .. } => return,
        });
    }
}
