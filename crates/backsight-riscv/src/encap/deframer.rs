//! From bytes to messages, in any chunking.

use core::fmt;

use backsight_core::{Accounting, Located};

use super::{Encapsulated, Encapsulation, Frame, Framing, Kind};

/// Bytes of the longest frame: a 40-byte beat, or header, source, time and 31 bytes of payload.
const LONGEST: usize = 48;

/// Bytes that are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FramingFault {
    /// A header that this framing cannot have: a reserved type, a timestamp where none exists, a bad length.
    Header,
    /// Skipped while looking for a synchronisation sequence.
    Unsynchronised,
    /// The stream ends inside a frame.
    CutOff,
}

impl FramingFault {
    /// The reason, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Header => "impossible header",
            Self::Unsynchronised => "skipped while unsynchronised",
            Self::CutOff => "cut off at the end",
        }
    }
}

impl fmt::Display for FramingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Takes frames apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Deframer {
    framing: Framing,
    /// Bytes of a frame that is not complete yet.
    pending: [u8; LONGEST],
    filled: usize,
    offset: u64,
    /// While unsynchronised: null-looking bytes in a row, up to now.
    searching: Option<usize>,
    skipped: u32,
    accounting: Accounting,
}

/// What the first bytes of a frame say.
enum Header {
    /// The frame has this many bytes.
    Length(usize),
    Null,
    Impossible,
}

impl Deframer {
    /// A deframer for a stream that begins with a frame.
    pub const fn new(framing: Framing) -> Self {
        Self {
            framing,
            pending: [0; LONGEST],
            filled: 0,
            offset: 0,
            searching: None,
            skipped: 0,
            accounting: Accounting { decoded: 0, unsynchronised: 0, bad: 0 },
        }
    }

    /// A deframer for a stream that begins anywhere: it waits for a synchronisation sequence where the framing has one.
    pub const fn unsynchronised(framing: Framing) -> Self {
        let mut deframer = Self::new(framing);
        if matches!(framing, Framing::Standard(_)) {
            deframer.searching = Some(0);
        }
        deframer
    }

    /// For a stream that goes on with the byte at this offset, which a frame begins with.
    pub(crate) const fn starting_at(&self, offset: u64) -> Self {
        Self { offset, ..Self::new(self.framing) }
    }

    /// The same, having counted nothing.
    pub(crate) fn state(&self) -> Self {
        let mut state = Self { accounting: Accounting::default(), ..self.clone() };
        state.pending.iter_mut().skip(self.filled).for_each(|byte| *byte = 0);
        state
    }

    /// What became of the bytes so far.
    pub const fn accounting(&self) -> Accounting {
        self.accounting
    }

    /// Back to the start of a stream.
    pub fn reset(&mut self) {
        *self = Self::new(self.framing);
    }

    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(Located<Frame<'_>>)) {
        while !bytes.is_empty() {
            bytes = self.step(bytes, sink);
        }
    }

    /// Takes some of the next bytes, up to the end of a frame at most, and gives the rest back.
    #[inline]
    pub(crate) fn step<'a>(
        &mut self,
        bytes: &'a [u8],
        sink: &mut impl FnMut(Located<Frame<'_>>),
    ) -> &'a [u8] {
        if self.searching.is_some() {
            return self.search(bytes, sink);
        }
        if self.filled == 0
            && let Header::Length(length) = header(self.framing, bytes)
            && let Some((frame, rest)) = bytes.split_at_checked(length)
        {
            self.frame(frame, sink);
            return rest;
        }
        self.collect(bytes, sink)
    }

    /// Does a frame begin with the next byte?
    #[inline]
    pub(crate) const fn is_between_frames(&self) -> bool {
        self.filled == 0 && self.searching.is_none()
    }

    /// The packet that `bytes` begin with between frames, and the bytes after it, if all of it is here and lies in whole
    /// bytes.
    #[inline(always)]
    pub(crate) fn peek<'a>(&self, bytes: &'a [u8]) -> Option<(Encapsulated<'a>, &'a [u8])> {
        let Header::Length(length) = header(self.framing, bytes) else { return None };
        let (frame, rest) = bytes.split_at_checked(length)?;
        let packet = match self.framing {
            Framing::Reference { hart_bits } => reference(frame, hart_bits)?,
            Framing::Standard(e) if e.is_aligned() => aligned(frame, e)?,
            _ => return None,
        };
        Some((packet, rest))
    }

    /// Passes over a frame that was decoded by who looked at it: its offset.
    #[inline(always)]
    pub(crate) const fn pass(&mut self, length: usize) -> u64 {
        let offset = self.offset;
        self.offset += length as u64;
        self.accounting.decoded += length as u64;
        offset
    }

    /// The stream ends.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Frame<'_>>)) {
        if self.searching.is_some() {
            self.end_of_search(sink);
        }
        let left = self.filled;
        self.filled = 0;
        if left > 0 {
            self.accounting.bad += left as u64;
            self.give(left, Frame::Fault(FramingFault::CutOff), sink);
        }
    }

    /// Adds one byte to the frame under construction.
    #[inline(never)]
    fn collect<'a>(&mut self, bytes: &'a [u8], sink: &mut impl FnMut(Located<Frame<'_>>)) -> &'a [u8] {
        let Some((&byte, rest)) = bytes.split_first() else { return bytes };
        if let Some(slot) = self.pending.get_mut(self.filled) {
            *slot = byte;
            self.filled += 1;
        }
        let pending = self.pending;
        let collected = pending.get(..self.filled).unwrap_or(&pending);
        match header(self.framing, collected) {
            Header::Length(length) if length > self.filled => {}
            Header::Length(_) => {
                self.filled = 0;
                self.frame(collected, sink);
            }
            Header::Null => {
                self.filled = 0;
                self.accounting.decoded += 1;
                self.give(1, Frame::Null, sink);
            }
            Header::Impossible => self.impossible(collected.len(), sink),
        }
        rest
    }

    /// A header that cannot be. The standard framing can be found again; the others go on after it.
    fn impossible(&mut self, length: usize, sink: &mut impl FnMut(Located<Frame<'_>>)) {
        self.filled = 0;
        self.accounting.bad += length as u64;
        self.give(length, Frame::Fault(FramingFault::Header), sink);
        if matches!(self.framing, Framing::Standard(_)) {
            self.searching = Some(0);
        }
    }

    #[inline(always)]
    fn give(&mut self, length: usize, value: Frame<'_>, sink: &mut impl FnMut(Located<Frame<'_>>)) {
        let offset = self.offset;
        self.offset += length as u64;
        sink(Located { offset, length: length as u32, value });
    }

    /// Skips until more null-looking bytes came in a row than a packet can hold; the next other byte is a header.
    fn search<'a>(&mut self, bytes: &'a [u8], sink: &mut impl FnMut(Located<Frame<'_>>)) -> &'a [u8] {
        let Framing::Standard(encapsulation) = self.framing else {
            self.searching = None;
            return bytes;
        };
        let mut nulls = self.searching.unwrap_or(0);
        for (position, &byte) in bytes.iter().enumerate() {
            if byte & 0x1F == 0 {
                nulls += 1;
            } else if nulls > encapsulation.longest_null_run() {
                self.skipped += position as u32;
                self.end_of_search(sink);
                return bytes.get(position..).unwrap_or_default();
            } else {
                nulls = 0;
            }
        }
        self.searching = Some(nulls);
        self.skipped = self.skipped.saturating_add(bytes.len() as u32);
        if self.skipped > 1 << 30 {
            self.report_skipped(sink);
        }
        &[]
    }

    fn report_skipped(&mut self, sink: &mut impl FnMut(Located<Frame<'_>>)) {
        let skipped = core::mem::take(&mut self.skipped) as usize;
        if skipped > 0 {
            self.accounting.unsynchronised += skipped as u64;
            self.give(skipped, Frame::Fault(FramingFault::Unsynchronised), sink);
        }
    }

    fn end_of_search(&mut self, sink: &mut impl FnMut(Located<Frame<'_>>)) {
        self.report_skipped(sink);
        self.searching = None;
    }

    #[inline]
    fn frame(&mut self, frame: &[u8], sink: &mut impl FnMut(Located<Frame<'_>>)) {
        // Every framing has a call of its own: to collect messages in one place first costs more than to find them.
        let length = frame.len();
        match self.framing {
            Framing::Reference { hart_bits } => self.message(length, reference(frame, hart_bits), sink),
            Framing::Standard(e) if e.is_aligned() => self.message(length, aligned(frame, e), sink),
            Framing::Standard(e) => {
                let mut scratch = [0; LONGEST];
                self.message(length, shifted(frame, e, &mut scratch), sink);
            }
            Framing::Esp32 => self.message(length, esp32(frame), sink),
            Framing::Pulp => {
                let mut scratch = [0; LONGEST];
                self.message(length, pulp(frame, &mut scratch), sink);
            }
        }
    }

    #[inline(always)]
    fn message(
        &mut self,
        length: usize,
        message: Option<Encapsulated<'_>>,
        sink: &mut impl FnMut(Located<Frame<'_>>),
    ) {
        match message {
            Some(message) => {
                self.accounting.decoded += length as u64;
                self.give(length, Frame::Packet(message), sink);
            }
            None => {
                self.accounting.bad += length as u64;
                self.give(length, Frame::Fault(FramingFault::Header), sink);
            }
        }
    }
}

#[inline]
fn header(framing: Framing, bytes: &[u8]) -> Header {
    let Some(&first) = bytes.first() else { return Header::Null };
    let length = usize::from(first & 0x1F);
    let extended = first & 0x80 != 0;
    match framing {
        Framing::Pulp => Header::Length(40),
        _ if length == 0 => Header::Null,
        Framing::Reference { hart_bits } => {
            let tag = if extended { 2 } else { 0 };
            Header::Length(1 + tag + usize::from(hart_bits.div_ceil(8)) + length)
        }
        Framing::Standard(e) if extended && e.time_bytes == 0 => Header::Impossible,
        Framing::Standard(e) => {
            let time = if extended { usize::from(e.time_bytes.min(8)) } else { 0 };
            Header::Length(1 + usize::from(e.source_bits.min(16) / 8) + time + length)
        }
        Framing::Esp32 if first & 0xE0 != 0 || length <= 3 => Header::Impossible,
        Framing::Esp32 => Header::Length(length),
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

#[inline(always)]
fn reference(frame: &[u8], hart_bits: u8) -> Option<Encapsulated<'_>> {
    let (&first, rest) = frame.split_first()?;
    let kind = match first >> 5 & 3 {
        2 => Kind::Instruction,
        3 => Kind::Data,
        _ => return None,
    };
    let (time, rest) = match first & 0x80 != 0 {
        true => rest.split_at_checked(2).map(|(tag, rest)| (Some(little_endian(tag)), rest))?,
        false => (None, rest),
    };
    let (hart, payload) = rest.split_at_checked(usize::from(hart_bits.div_ceil(8)))?;
    Some(Encapsulated { source: little_endian(hart) as u16, kind, flow: 0, time, payload })
}

/// What stands before source and type where those are read bit by bit: whole bytes of the source, and the time.
struct Head<'a> {
    flow: u8,
    source: u16,
    time: Option<u64>,
    rest: &'a [u8],
}

#[inline(always)]
fn head(frame: &[u8], e: Encapsulation) -> Option<Head<'_>> {
    let (&first, rest) = frame.split_first()?;
    let (source, rest) = rest.split_at_checked(usize::from(e.source_bits / 8))?;
    let time_bytes = if first & 0x80 != 0 { usize::from(e.time_bytes) } else { 0 };
    let (time, rest) = rest.split_at_checked(time_bytes)?;
    let time = (time_bytes > 0).then(|| little_endian(time));
    Some(Head { flow: first >> 5 & 3, source: little_endian(source) as u16, time, rest })
}

/// Source and type fill whole bytes.
#[inline(always)]
fn aligned(frame: &[u8], e: Encapsulation) -> Option<Encapsulated<'_>> {
    let Head { flow, mut source, time, rest } = head(frame, e)?;
    let source_rest = e.source_bits % 8;
    if source_rest + e.type_bits == 0 {
        return Some(Encapsulated { source, kind: e.kind(0), flow, time, payload: rest });
    }
    let (&both, payload) = rest.split_first()?;
    source |= u16::from(both & ((1 << source_rest) - 1)) << (e.source_bits - source_rest).min(15);
    Some(Encapsulated { source, kind: e.kind(both >> source_rest), flow, time, payload })
}

/// The payload begins inside a byte, and is shifted into `scratch`.
fn shifted<'a>(
    frame: &'a [u8],
    e: Encapsulation,
    scratch: &'a mut [u8; LONGEST],
) -> Option<Encapsulated<'a>> {
    let Head { flow, mut source, time, rest } = head(frame, e)?;
    let source_rest = e.source_bits % 8;
    // Padding at the top is "don't care", but an encoder pads with the sign: extend what is there.
    let mut bits = crate::etrace::BitReader::new(rest);
    source |= (bits.take(source_rest) as u16) << (e.source_bits - source_rest).min(15);
    let kind = e.kind(bits.take(e.type_bits) as u8);
    let length = (rest.len() * 8).checked_sub(bits.position())?.div_ceil(8);
    for slot in scratch.iter_mut().take(length) {
        *slot = bits.take(8) as u8;
    }
    let payload = scratch.get(..length)?;
    // Where the shift added a byte, all of it repeats the sign.
    let payload = match payload {
        [rest @ .., below, top] if *top == if below & 0x80 == 0 { 0 } else { 0xFF } => {
            payload.get(..rest.len() + 1)?
        }
        _ => payload,
    };
    Some(Encapsulated { source, kind, flow, time, payload })
}

/// The two bytes after the header number the packets; they are no time.
fn esp32(frame: &[u8]) -> Option<Encapsulated<'_>> {
    let payload = frame.get(3..)?;
    Some(Encapsulated { source: 0, kind: Kind::Instruction, flow: 0, time: None, payload })
}

/// Reversed, a beat is header, eight bytes of time, payload; bytes beyond the length are zero.
fn pulp<'a>(frame: &'a [u8], scratch: &'a mut [u8; LONGEST]) -> Option<Encapsulated<'a>> {
    for (slot, &byte) in scratch.iter_mut().zip(frame.iter().rev()) {
        *slot = byte;
    }
    let [header, rest @ ..] = scratch;
    let (time, payload) = rest.split_at_checked(8)?;
    let length = usize::from(*header & 0x1F);
    let beyond = payload.get(length..31)?;
    if length == 0 || beyond.iter().any(|&byte| byte != 0) {
        return None;
    }
    let message_time = Some(little_endian(time));
    let payload = payload.get(..length)?;
    Some(Encapsulated {
        source: 0,
        kind: Kind::Instruction,
        flow: *header >> 5 & 3,
        time: message_time,
        payload,
    })
}
