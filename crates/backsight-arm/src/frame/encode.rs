//! Making frames: the formatter of a trace sink.
//!
//! An ID byte may only stand at an even position. Where the source changes at an odd one, the formatter goes back
//! one byte: the ID byte takes the even position, the old source's byte moves after it, and the auxiliary bit says
//! that the new ID counts one byte later. So no data byte is ever lost or added by a change of source.

use super::Framing;
use super::layout::{FRAME, FULL_SYNC, SYNC_BYTE, SYNC_END};
use backsight_core::TraceId;
use core::fmt;

/// Data bytes between the footers of a DSTREAM dump.
const BLOCK_DATA: usize = 504;
/// What a capture unit writes after each block.
const FOOTER: [u8; 8] = [0, 0, 0, 0, 0x7E, 0, 0xFE, 0x0F];
/// Position of the last mixed byte.
const LAST: usize = 14;

/// How a [`Formatter`] packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatterConfig {
    /// What carries the frames.
    pub framing: Framing,
    /// Repeat an unchanged ID after so many frames; 0: never. Lets a decoder start in mid-stream.
    pub repeat_id: u32,
    /// Frames from one full sync to the next, where the framing has full syncs; 0: only before the first frame.
    pub full_sync: u32,
    /// Byte pairs from one half sync to the next, where the framing has half syncs; 0: none.
    pub half_sync: u32,
}

impl FormatterConfig {
    /// What hardware does: IDs repeated every 8 frames, syncs now and then.
    pub const fn new(framing: Framing) -> Self {
        let full_sync = match framing {
            Framing::Dstream => 1,
            _ => 64,
        };
        Self { framing, repeat_id: 8, full_sync, half_sync: 37 }
    }
}

/// The ID given names no trace source: only 0x01 to 0x6F do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotASource(pub TraceId);

impl fmt::Display for NotASource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trace ID {} names no source: use 0x01 to 0x6f", self.0)
    }
}

impl core::error::Error for NotASource {}

/// Packs the bytes of any number of sources into frames.
///
/// ```
/// use backsight_arm::frame::{Formatter, FormatterConfig, Framing};
/// use backsight_core::TraceId;
/// let mut formatter = Formatter::new(FormatterConfig::new(Framing::Coresight));
/// let mut buffer = Vec::new();
/// let mut sink = |bytes: &[u8]| buffer.extend_from_slice(bytes);
/// formatter.push(TraceId::new(0x10), b"one", &mut sink).unwrap();
/// formatter.push(TraceId::new(0x11), b"two", &mut sink).unwrap();
/// formatter.finish(&mut sink);
/// assert_eq!(buffer.len(), 16);
/// ```
#[derive(Clone, Debug)]
pub struct Formatter {
    config: FormatterConfig,
    frame: [u8; FRAME],
    /// Where the next byte goes.
    position: usize,
    current: Option<TraceId>,
    /// Frames since the last ID byte.
    since_id: u32,
    /// Frames until the next full sync.
    until_full: u32,
    /// Pairs since the last half sync.
    since_half: u32,
    /// Bytes in the DSTREAM block.
    block: usize,
}

impl Formatter {
    /// A formatter with nothing in it.
    pub const fn new(config: FormatterConfig) -> Self {
        Self {
            config,
            frame: [0; FRAME],
            position: 0,
            current: None,
            since_id: 0,
            until_full: 0,
            since_half: 0,
            block: 0,
        }
    }

    /// Forgets what was pushed and not yet written.
    pub fn reset(&mut self) {
        *self = Self::new(self.config);
    }

    /// Packs bytes of the source `id`. Without frames the bytes go through as they are.
    ///
    /// # Errors
    /// If `id` is not the number of a trace source.
    pub fn push(
        &mut self,
        id: TraceId,
        bytes: &[u8],
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<(), NotASource> {
        if self.config.framing == Framing::Raw {
            sink(bytes);
            return Ok(());
        }
        if !id.is_source() {
            return Err(NotASource(id));
        }
        let mut rest = bytes;
        loop {
            while self.goes_on(id)
                && self.position == 0
                && let Some((whole, later)) = rest.split_first_chunk()
            {
                self.put_frame(whole, sink);
                rest = later;
            }
            let Some((&byte, later)) = rest.split_first() else { return Ok(()) };
            self.select(id, sink);
            self.put(byte, sink);
            rest = later;
        }
    }

    /// Marks a trigger.
    pub fn trigger(&mut self, sink: &mut impl FnMut(&[u8])) {
        self.mark(TraceId::TRIGGER, sink);
    }

    /// Marks the end of a flush, as a sink with that option does.
    pub fn flush_done(&mut self, sink: &mut impl FnMut(&[u8])) {
        self.mark(TraceId::FLUSH, sink);
    }

    /// Fills the frame with padding, so that everything pushed is written.
    pub fn flush(&mut self, sink: &mut impl FnMut(&[u8])) {
        if self.position == 0 {
            return;
        }
        self.select(TraceId::NULL, sink);
        while self.position != 0 {
            self.put(0, sink);
        }
    }

    /// Ends a session in a memory buffer: what follows is not a continuation.
    pub fn barrier(&mut self, sink: &mut impl FnMut(&[u8])) {
        self.flush(sink);
        if self.config.framing == Framing::Coresight {
            (0..4).for_each(|_| self.write(&FULL_SYNC, sink));
            self.current = None;
        }
    }

    /// Writes what is left.
    pub fn finish(&mut self, sink: &mut impl FnMut(&[u8])) {
        self.flush(sink);
    }

    fn mark(&mut self, id: TraceId, sink: &mut impl FnMut(&[u8])) {
        if self.config.framing != Framing::Raw {
            self.select(id, sink);
            self.put(0, sink);
        }
    }

    /// Is `id` the source of the next byte already, and need not be repeated?
    #[inline]
    fn goes_on(&self, id: TraceId) -> bool {
        let repeat =
            self.position == 0 && self.config.repeat_id != 0 && self.since_id >= self.config.repeat_id;
        self.current == Some(id) && !repeat
    }

    /// Makes `id` the source of the next byte.
    #[inline]
    fn select(&mut self, id: TraceId, sink: &mut impl FnMut(&[u8])) {
        if !self.goes_on(id) {
            self.put_id(id, sink);
        }
    }

    /// Puts the byte that makes `id` the source.
    fn put_id(&mut self, id: TraceId, sink: &mut impl FnMut(&[u8])) {
        let id_byte = id.get() << 1 | 1;
        let pair = self.position / 2;
        if self.position.is_multiple_of(2) {
            self.frame[self.position] = id_byte;
        } else {
            // The old source's byte moves to the odd position, with all its bits.
            self.frame[self.position] = self.frame[self.position - 1] | self.frame[15] >> pair & 1;
            self.frame[self.position - 1] = id_byte;
            self.frame[15] |= 1 << pair;
        }
        self.current = Some(id);
        self.since_id = 0;
        self.advance(sink);
    }

    /// Puts as many data bytes of the current source as make a frame.
    #[inline]
    fn put_frame(&mut self, bytes: &[u8; LAST + 1], sink: &mut impl FnMut(&[u8])) {
        self.frame[..=LAST].copy_from_slice(bytes);
        for pair in 0..FRAME / 2 {
            self.frame[LAST + 1] |= (bytes[2 * pair] & 1) << pair;
            self.frame[2 * pair] &= 0xFE;
        }
        self.position = LAST;
        self.advance(sink);
    }

    /// Puts a data byte of the current source.
    #[inline]
    fn put(&mut self, byte: u8, sink: &mut impl FnMut(&[u8])) {
        if self.position.is_multiple_of(2) {
            self.frame[self.position] = byte & 0xFE;
            self.frame[15] |= (byte & 1) << (self.position / 2);
        } else {
            self.frame[self.position] = byte;
        }
        self.advance(sink);
    }

    /// Goes to the next position; writes the frame once it is full.
    fn advance(&mut self, sink: &mut impl FnMut(&[u8])) {
        if self.position < LAST {
            self.position += 1;
            return;
        }
        let frame = core::mem::take(&mut self.frame);
        self.position = 0;
        self.since_id = self.since_id.saturating_add(1);
        match self.config.framing {
            Framing::Raw | Framing::Coresight => self.write(&frame, sink),
            Framing::Tpiu | Framing::TpiuHsync | Framing::Dstream => self.write_port(&frame, sink),
        }
    }

    fn write_port(&mut self, frame: &[u8; FRAME], sink: &mut impl FnMut(&[u8])) {
        if self.until_full == 0 {
            self.write(&FULL_SYNC, sink);
            self.until_full = if self.config.full_sync == 0 { u32::MAX } else { self.config.full_sync };
        }
        if self.config.full_sync != 0 {
            self.until_full -= 1;
        }
        if self.config.framing != Framing::TpiuHsync || self.config.half_sync == 0 {
            return self.write(frame, sink);
        }
        for pair in frame.as_chunks::<2>().0 {
            self.write(pair, sink);
            self.since_half += 1;
            if self.since_half >= self.config.half_sync {
                self.since_half = 0;
                self.write(&[SYNC_BYTE, SYNC_END], sink);
            }
        }
    }

    /// Writes bytes, with a footer after every block of a DSTREAM dump.
    fn write(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        if self.config.framing != Framing::Dstream {
            return sink(bytes);
        }
        let (head, tail) = bytes.split_at(bytes.len().min(BLOCK_DATA - self.block));
        sink(head);
        self.block += head.len();
        if self.block == BLOCK_DATA {
            sink(&FOOTER);
            sink(tail);
            self.block = tail.len();
        }
    }
}
