//! Finding frames in what carries them.

use super::layout::{FRAME, FULL_SYNC, FrameOutput, Runs, SYNC_BYTE, SYNC_END, Unpacker};
use super::{Chunk, Counts, Framing, Loss};
use backsight_core::TraceId;

/// Data bytes of a DSTREAM block.
const BLOCK_DATA: u16 = 504;
/// Bytes of a DSTREAM block with its footer.
const BLOCK: u16 = 512;

/// Between two frames of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameStart {
    /// Bytes of the capture that come before.
    pub index: u64,
    /// The source that the next bytes belong to, if it is known.
    pub id: Option<TraceId>,
}

/// Takes a capture apart into the byte streams of its sources.
///
/// Any way of cutting the input gives the same output (a raw stream has no runs: there it gives the same bytes
/// at the same indices).
///
/// ```
/// use backsight_arm::frame::{Chunk, Deframer, Framing};
/// let mut deframer = Deframer::new(Framing::Coresight);
/// let frame = [0x21, 0x11, 0x22, 0x33, 0x44, 0x56, 0x41, 0x67, 0xA0, 0xB2, 0xC2, 0xD4, 0xFB, 0, 0x41, 0x3C];
/// let mut stream = Vec::new();
/// deframer.feed(&frame, &mut |chunk| match chunk {
///     Chunk::Data { id, bytes, .. } if id.get() == 0x10 => stream.extend_from_slice(bytes),
///     _ => {}
/// });
/// assert_eq!(stream, [0x11, 0x22, 0x33, 0x45, 0x56, 0x67]);
/// ```
#[derive(Clone, Debug)]
pub struct Deframer {
    framing: Framing,
    unpacker: Unpacker,
    /// Bytes taken, without DSTREAM footers.
    offset: u64,
    /// A frame that is not complete: its first `filled` bytes, and the offset that counts as its own. In a port
    /// capture that is the one after the last frame or full sync: half syncs before a frame count as part of it.
    frame: [u8; FRAME],
    filled: usize,
    start: u64,
    port: Port,
    /// The byte before the pair in hand.
    last: u8,
    /// Position in the DSTREAM block.
    position: u16,
}

/// Where the search for frames in a trace port capture stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// Searching for a full sync; so many of its FF bytes were just seen.
    Searching(u8),
    /// At a frame or inside one, with the first bytes of a pair or of a sync packet in hand.
    Aligned { held: u8, first: u8, second: u8 },
}

/// Aligned, with nothing in hand.
const ALIGNED: Port = Port::Aligned { held: 0, first: 0, second: 0 };

impl Deframer {
    /// A deframer at the beginning of a capture.
    pub const fn new(framing: Framing) -> Self {
        Self {
            framing,
            unpacker: Unpacker::new(),
            offset: 0,
            frame: [0; FRAME],
            filled: 0,
            start: 0,
            port: Port::Searching(0),
            last: 0,
            position: 0,
        }
    }

    /// What a deframer has to know to go on from here. `None` where that is not between two frames, and in captures of trace
    /// ports, whose frames may begin anywhere.
    pub fn frame_start(&self) -> Option<FrameStart> {
        let is_between = self.framing == Framing::Coresight && self.filled == 0;
        is_between.then(|| FrameStart { index: self.offset, id: self.unpacker.source() })
    }

    /// A deframer that goes on between two frames of a capture. What came before is not counted.
    pub fn starting_at(framing: Framing, start: FrameStart) -> Self {
        let mut deframer = Self::new(framing);
        deframer.offset = start.index;
        deframer.unpacker.set_source(start.id);
        deframer
    }

    /// What carries the trace.
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// What became of the bytes so far.
    pub const fn counts(&self) -> &Counts {
        &self.unpacker.counts
    }

    /// Begins another capture.
    pub fn reset(&mut self) {
        *self = Self::new(self.framing);
    }

    /// Takes more of the capture.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Chunk<'_>)) {
        if self.framing == Framing::Raw {
            return self.feed_raw(bytes, sink);
        }
        self.feed_frames(bytes, &mut Runs(sink));
    }

    /// Takes the end of the capture: a frame that is not complete is dropped and counted.
    pub fn finish(&mut self, _sink: &mut impl FnMut(Chunk<'_>)) {
        self.drop_rest();
    }

    pub(super) fn drop_rest(&mut self) {
        let held = match self.port {
            Port::Aligned { held, .. } => u64::from(held),
            Port::Searching(_) => 0,
        };
        self.unpacker.counts.partial += self.filled as u64 + held;
        self.filled = 0;
        self.port = Port::Searching(0);
    }

    fn feed_raw(&mut self, bytes: &[u8], sink: &mut impl FnMut(Chunk<'_>)) {
        if bytes.is_empty() {
            return;
        }
        sink(Chunk::Data { id: TraceId::NULL, index: self.offset, bytes });
        self.offset += bytes.len() as u64;
        self.unpacker.counts.raw += bytes.len() as u64;
    }

    #[inline]
    pub(super) fn feed_frames(&mut self, bytes: &[u8], out: &mut impl FrameOutput) {
        match self.framing {
            Framing::Raw | Framing::Coresight => self.feed_memory(bytes, out),
            Framing::Tpiu | Framing::TpiuHsync => self.feed_port(bytes, out),
            Framing::Dstream => self.feed_blocks(bytes, out),
        }
    }

    /// Frames at multiples of 16.
    #[inline]
    fn feed_memory(&mut self, mut bytes: &[u8], out: &mut impl FrameOutput) {
        if self.filled > 0 {
            let (head, rest) = bytes.split_at(bytes.len().min(FRAME - self.filled));
            self.frame[self.filled..self.filled + head.len()].copy_from_slice(head);
            self.filled += head.len();
            bytes = rest;
            if self.filled < FRAME {
                return;
            }
            self.filled = 0;
            let frame = self.frame;
            self.memory_frame(&frame, out);
        }
        let (mut frames, rest) = bytes.as_chunks::<FRAME>();
        loop {
            // Most frames belong to the source of the one before.
            let taken = self.unpacker.frames_of_source(frames, self.offset, out);
            self.offset += (taken * FRAME) as u64;
            let Some((frame, after)) = frames.get(taken..).and_then(<[_]>::split_first) else { break };
            self.memory_frame(frame, out);
            frames = after;
        }
        self.frame[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    #[inline(always)]
    fn memory_frame(&mut self, frame: &[u8; FRAME], out: &mut impl FrameOutput) {
        // Only a frame that begins with FF can be a barrier.
        if frame[0] == SYNC_BYTE && frame.as_chunks::<4>().0.iter().all(|word| *word == FULL_SYNC) {
            self.unpacker.counts.sync += FRAME as u64;
            self.unpacker.lose(self.offset, Loss::Barrier, out);
        } else {
            self.unpacker.frame(frame, self.offset, out);
        }
        self.offset += FRAME as u64;
    }

    /// Cuts the footers off and passes on what is between them.
    fn feed_blocks(&mut self, mut bytes: &[u8], out: &mut impl FrameOutput) {
        while !bytes.is_empty() {
            let end = if self.position < BLOCK_DATA { BLOCK_DATA } else { BLOCK };
            let (part, rest) = bytes.split_at(bytes.len().min(usize::from(end - self.position)));
            bytes = rest;
            if self.position < BLOCK_DATA {
                self.feed_port(part, out);
            } else {
                self.unpacker.counts.footers += part.len() as u64;
            }
            // At most 512: both parts of a block are shorter.
            self.position = (self.position + part.len() as u16) % BLOCK;
        }
    }

    /// Frames with sync packets, in byte pairs.
    fn feed_port(&mut self, mut bytes: &[u8], out: &mut impl FrameOutput) {
        loop {
            if self.port == ALIGNED {
                bytes = self.feed_aligned(bytes, out);
            }
            let Some((&byte, rest)) = bytes.split_first() else { return };
            bytes = rest;
            self.port_byte(byte, out);
        }
    }

    /// Takes complete frames and pairs as long as no sync packet is in the way; gives back what it left.
    fn feed_aligned<'a>(&mut self, mut bytes: &'a [u8], out: &mut impl FrameOutput) -> &'a [u8] {
        loop {
            while self.filled == 0
                && let Some((frame, rest)) = bytes.split_first_chunk::<FRAME>()
                && !has_sync_byte(frame)
            {
                self.unpacker.frame(frame, self.start, out);
                self.offset += FRAME as u64;
                (self.start, self.last) = (self.offset, frame[15]);
                bytes = rest;
            }
            match bytes {
                [first, second, rest @ ..] if *first != SYNC_BYTE => {
                    bytes = rest;
                    self.offset += 2;
                    self.pair([*first, *second], out);
                }
                _ => return bytes,
            }
        }
    }

    fn port_byte(&mut self, byte: u8, out: &mut impl FrameOutput) {
        self.offset += 1;
        match self.port {
            Port::Searching(seen) => self.search(seen, byte),
            Port::Aligned { held: 0, .. } => self.port = Port::Aligned { held: 1, first: byte, second: 0 },
            Port::Aligned { held: 1, first: SYNC_BYTE, .. } => match byte {
                SYNC_BYTE => self.port = Port::Aligned { held: 2, first: SYNC_BYTE, second: SYNC_BYTE },
                SYNC_END if self.framing == Framing::TpiuHsync => {
                    self.unpacker.counts.sync += 2;
                    (self.port, self.last) = (ALIGNED, SYNC_END);
                }
                _ => self.lose_sync(&[SYNC_BYTE, byte], out),
            },
            Port::Aligned { held: 1, first, .. } => {
                self.port = ALIGNED;
                self.pair([first, byte], out);
            }
            Port::Aligned { held: 2, .. } if byte == SYNC_BYTE => {
                self.port = Port::Aligned { held: 3, first: SYNC_BYTE, second: SYNC_BYTE };
            }
            Port::Aligned { held: 2, .. } if byte == SYNC_END && self.last == SYNC_BYTE => self.odd_sync(out),
            Port::Aligned { held: 3, .. } if byte == SYNC_END => self.full_sync(out),
            Port::Aligned { held, .. } => {
                let seen = [SYNC_BYTE, SYNC_BYTE, SYNC_BYTE, byte];
                // `held` bytes FF and this one.
                self.lose_sync(&seen[3 - usize::from(held).min(3)..], out);
            }
        }
    }

    /// A full sync where one may be, or inside a frame.
    fn full_sync(&mut self, out: &mut impl FrameOutput) {
        self.unpacker.counts.sync += FULL_SYNC.len() as u64;
        self.align();
        if self.filled > 0 {
            self.unpacker.counts.partial += self.filled as u64;
            self.filled = 0;
            self.unpacker.lose(self.offset - FULL_SYNC.len() as u64, Loss::PartialFrame, out);
        }
    }

    /// A full sync that began one byte before the pairs in hand: an odd number of bytes is missing or too many.
    fn odd_sync(&mut self, out: &mut impl FrameOutput) {
        // Its first byte was taken for the last of a partial frame, or for the auxiliary byte of a complete one, and
        // is counted there.
        self.unpacker.counts.partial += self.filled as u64;
        self.unpacker.counts.sync += FULL_SYNC.len() as u64 - 1;
        self.filled = 0;
        self.align();
        self.unpacker.lose(self.offset - FULL_SYNC.len() as u64, Loss::SyncLost, out);
    }

    /// Two bytes of a frame.
    #[inline]
    fn pair(&mut self, pair: [u8; 2], out: &mut impl FrameOutput) {
        if let Some(free) = self.frame.get_mut(self.filled..self.filled + 2) {
            free.copy_from_slice(&pair);
        }
        self.last = pair[1];
        self.filled += 2;
        if self.filled == FRAME {
            self.filled = 0;
            let frame = self.frame;
            self.unpacker.frame(&frame, self.start, out);
            self.start = self.offset;
        }
    }

    /// The bytes just seen are neither data nor a sync packet: searches for a full sync from them on.
    fn lose_sync(&mut self, seen: &[u8], out: &mut impl FrameOutput) {
        self.unpacker.counts.partial += self.filled as u64;
        self.filled = 0;
        self.unpacker.lose(self.offset - seen.len() as u64, Loss::SyncLost, out);
        self.port = Port::Searching(0);
        for &byte in seen {
            if let Port::Searching(count) = self.port {
                self.search(count, byte);
            }
        }
    }

    /// One byte of the search for a full sync, which may begin at any byte: no frame can hold its four bytes.
    fn search(&mut self, seen: u8, byte: u8) {
        self.unpacker.counts.unsynchronised += 1;
        match (seen, byte) {
            (3, SYNC_END) => {
                self.unpacker.counts.unsynchronised -= FULL_SYNC.len() as u64;
                self.unpacker.counts.sync += FULL_SYNC.len() as u64;
                self.align();
            }
            (_, SYNC_BYTE) => self.port = Port::Searching(3.min(seen + 1)),
            _ => self.port = Port::Searching(0),
        }
    }

    /// A full sync ends here: a frame begins.
    fn align(&mut self) {
        (self.port, self.last, self.start) = (ALIGNED, SYNC_END, self.offset);
    }
}

/// Is there an FF at an even position?
#[inline(always)]
fn has_sync_byte(frame: &[u8; FRAME]) -> bool {
    const EVEN: u64 = 0x00FF_00FF_00FF_00FF;
    const CARRY: u64 = 0x0100_0100_0100_0100;
    let bits = u128::from_le_bytes(*frame);
    // Adding 1 carries out of a byte exactly if it is FF.
    [bits as u64, (bits >> 64) as u64].iter().any(|half| ((half & EVEN) + (CARRY >> 8)) & CARRY != 0)
}
