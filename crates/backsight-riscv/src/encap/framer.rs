//! From messages to bytes: the way back.

use alloc::vec::Vec;
use core::fmt;

use super::{Encapsulated, Encapsulation, Framing, Kind};
use crate::etrace::BitWriter;

/// Why a message cannot be framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameError {
    /// The payload is empty or longer than the length field can say.
    Length(usize),
    /// The framing has no type for this kind of packet.
    Kind(Kind),
    /// The source does not fit its field.
    Source(u16),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(f, "a payload of {length} bytes does not fit the framing"),
            Self::Kind(kind) => write!(f, "the framing has no type for {kind:?} packets"),
            Self::Source(source) => write!(f, "source {source} does not fit the framing"),
        }
    }
}

impl core::error::Error for FrameError {}

/// Puts messages into frames.
#[derive(Clone, Copy, Debug)]
pub struct Framer {
    framing: Framing,
    index: u16,
}

impl Framer {
    /// A framer.
    pub const fn new(framing: Framing) -> Self {
        Self { framing, index: 0 }
    }

    /// Appends the frame of one message. The payload's own bytes are kept as they are.
    pub fn frame(&mut self, message: &Encapsulated<'_>, out: &mut Vec<u8>) -> Result<(), FrameError> {
        match self.framing {
            Framing::Reference { hart_bits } => reference(message, hart_bits, out),
            Framing::Standard(encapsulation) => standard(message, encapsulation, out),
            Framing::Esp32 => {
                let length = checked_length(message.payload.len(), 28)?;
                out.push(length + 3);
                out.extend(self.index.to_le_bytes());
                out.extend(message.payload);
                self.index = self.index.wrapping_add(1);
                Ok(())
            }
            Framing::Pulp => pulp(message, out),
        }
    }

    /// Appends a synchronisation sequence, ended by an alignment null. Only the standard encapsulation has one.
    pub fn synchronise(&self, out: &mut Vec<u8>) {
        if let Framing::Standard(encapsulation) = self.framing {
            out.resize(out.len() + encapsulation.longest_null_run() + 1, 0);
            out.push(0x80);
        }
    }
}

fn checked_length(length: usize, most: usize) -> Result<u8, FrameError> {
    if (1..=most).contains(&length) { Ok(length as u8) } else { Err(FrameError::Length(length)) }
}

fn reference(message: &Encapsulated<'_>, hart_bits: u8, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let length = checked_length(message.payload.len(), 31)?;
    let kind = match message.kind {
        Kind::Instruction => 2,
        Kind::Data => 3,
        other => return Err(FrameError::Kind(other)),
    };
    if u32::from(message.source) >> hart_bits.min(16) != 0 {
        return Err(FrameError::Source(message.source));
    }
    out.push(length | kind << 5 | u8::from(message.time.is_some()) << 7);
    if let Some(time) = message.time {
        out.extend((time as u16).to_le_bytes());
    }
    out.extend(message.source.to_le_bytes().iter().take(usize::from(hart_bits.div_ceil(8))));
    out.extend(message.payload);
    Ok(())
}

fn standard(message: &Encapsulated<'_>, e: Encapsulation, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let kind = e.type_of(message.kind).ok_or(FrameError::Kind(message.kind))?;
    if u32::from(message.source) >> e.source_bits.min(16) != 0 {
        return Err(FrameError::Source(message.source));
    }
    let whole = e.source_bits / 8;
    if whole == 0 && message.time.is_none() && (1..=SHORT).contains(&message.payload.len()) {
        let head = u64::from(message.source) | u64::from(kind) << e.source_bits;
        short(message, head, e.source_bits + e.type_bits, out);
        return Ok(());
    }
    let mut bits = BitWriter::new();
    bits.put(u64::from(message.source) >> (whole * 8).min(15), e.source_bits % 8);
    bits.put(kind.into(), e.type_bits);
    for &byte in message.payload {
        bits.put(byte.into(), 8);
    }
    // Pad with the sign, so that a receiver that extends the last byte is right.
    if bits.top() {
        bits.put(0xFF, ((8 - bits.position() % 8) % 8) as u8);
    }
    let body = bits.padded();
    let length = if message.payload.is_empty() { 0 } else { body.len() };
    let length = checked_length(length, 31)?;
    let time = message.time.filter(|_| e.time_bytes > 0);
    out.push(length | (message.flow & 3) << 5 | u8::from(time.is_some()) << 7);
    out.extend(message.source.to_le_bytes().iter().take(usize::from(whole)));
    if let Some(time) = time {
        out.extend(time.to_le_bytes().iter().take(usize::from(e.time_bytes)));
    }
    out.extend(body.as_slice());
    Ok(())
}

/// Bytes of a payload that, with what stands before them, are a word.
const SHORT: usize = 6;

/// The standard encapsulation of a short payload, as nearly all are, after `head` of `width` (at most 15) bits.
#[inline]
fn short(message: &Encapsulated<'_>, head: u64, width: u8, out: &mut Vec<u8>) {
    let payload = message.payload.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
    let bits = usize::from(width) + 8 * message.payload.len();
    let unused = 64 - bits as u32;
    // The sign goes on above, so that a receiver that extends the last byte is right.
    let word = ((head | payload << width) << unused) as i64 >> unused;
    let length = bits.div_ceil(8);
    out.push(length as u8 | (message.flow & 3) << 5);
    // A copy of a fixed size is quick; what is too much is cut off again.
    let end = out.len() + length;
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

fn pulp(message: &Encapsulated<'_>, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let length = checked_length(message.payload.len(), 31)?;
    out.resize(out.len() + 31 - message.payload.len(), 0);
    out.extend(message.payload.iter().rev());
    out.extend(message.time.unwrap_or(0).to_be_bytes());
    out.push(length | (message.flow & 3) << 5 | 0x80);
    Ok(())
}
