//! Strings of bits, least significant first, with sign-based compression.
//!
//! While the two topmost bits are equal the top one is dropped; what remains is sign-extended to whole bytes. A
//! receiver takes every bit beyond the end to equal the last one received.

use alloc::vec::Vec;

/// Most bytes that any packet needs before compression.
const CAPACITY: usize = 48;
/// Bits of the part that almost every packet fits into.
const LOW: usize = 128;

/// The bytes of one packet. At most 31 fit the usual encapsulation.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    bytes: [u8; CAPACITY],
    /// As wide as it is read: a processor waits for a narrower one.
    length: usize,
}

impl Payload {
    /// As few bytes as `bits`, whose sign goes on for ever, can be read back from.
    #[inline]
    pub(super) fn compressed(bits: i128) -> Self {
        // One bit of sign must remain.
        let significant = LOW + 1 - (bits ^ bits >> 127).leading_zeros() as usize;
        Self::beginning(bits.to_le_bytes(), significant)
    }

    /// The same for `head`, of `width` (1 to 63) bits, and the signed number `tail` above it.
    #[inline(always)]
    pub(super) fn compressed_pair(head: u64, width: u8, tail: i64) -> Self {
        let (low, high) = (head | (tail as u64) << width, tail >> (64 - width));
        let sign = (low as i64) >> 63;
        if high != sign {
            return Self::compressed_wide(low, high);
        }
        let significant = 65 - (low as i64 ^ sign).leading_zeros() as usize;
        Self::beginning(low.to_le_bytes(), significant)
    }

    #[cold]
    fn compressed_wide(low: u64, high: i64) -> Self {
        Self::compressed(i128::from(high) << 64 | i128::from(low))
    }

    /// The bytes that hold the first `significant` bits; all of them are in `first`. It is stored as one value, so that
    /// who reads it at once does not wait.
    #[inline(always)]
    fn beginning<const N: usize>(first: [u8; N], significant: usize) -> Self {
        let mut bytes = [0; CAPACITY];
        if let Some(beginning) = bytes.first_chunk_mut() {
            *beginning = first;
        }
        Self { bytes, length: significant.div_ceil(8) }
    }

    /// Puts the bytes at the end of `out`.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.length;
        // Copies of a fixed size, as they were written, are quick; what is too much is cut off again.
        match self.length {
            0..=8 => out.extend_from_slice(&self.bytes[..8]),
            9..=16 => out.extend_from_slice(&self.bytes[..16]),
            _ => out.extend_from_slice(&self.bytes),
        }
        out.truncate(end);
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&self.bytes)
    }
}

impl core::ops::Deref for Payload {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Payload {}

/// Reads fields; beyond the end the last bit repeats.
#[derive(Clone, Copy, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// The first sixteen bytes, filled.
    low: u128,
    position: usize,
    fill: u8,
}

impl<'a> BitReader<'a> {
    /// Reads a payload whose top bit is its sign.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        let fill = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xFF } else { 0 };
        Self::filled(bytes, fill)
    }

    /// Reads a payload that is padded with zeros.
    #[inline]
    pub fn zero_padded(bytes: &'a [u8]) -> Self {
        Self::filled(bytes, 0)
    }

    #[inline]
    fn filled(bytes: &'a [u8], fill: u8) -> Self {
        let low = match (bytes.first_chunk::<16>(), bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            (Some(all), ..) => u128::from_le_bytes(*all),
            (None, Some(first), Some(last)) => {
                // The two overlap where there are fewer than sixteen.
                let shift = (bytes.len() - 8) * 8;
                let top = u128::from(u64::from_le_bytes(*last)) << shift;
                top | u128::from(u64::from_le_bytes(*first)) | Self::beyond(bytes.len(), fill)
            }
            _ => {
                let word = bytes.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
                u128::from(word) | Self::beyond(bytes.len(), fill)
            }
        };
        Self { bytes, low, position: 0, fill }
    }

    /// Repeats `fill` from byte `length`, below sixteen, on.
    #[inline]
    fn beyond(length: usize, fill: u8) -> u128 {
        if fill == 0 { 0 } else { u128::MAX << (length * 8) }
    }

    #[inline]
    fn byte(&self, index: usize) -> u8 {
        self.bytes.get(index).copied().unwrap_or(self.fill)
    }

    /// The next `width` bits (at most 64).
    #[inline]
    pub fn take(&mut self, width: u8) -> u64 {
        let width = u32::from(width.min(64));
        let from = self.position;
        self.position += width as usize;
        let value = if self.position <= LOW && from < LOW {
            (self.low >> from) as u64
        } else {
            self.far(from, width)
        };
        if width == 64 { value } else { value & ((1 << width) - 1) }
    }

    /// The bits from position `from` on, where they lie beyond the first sixteen bytes.
    #[cold]
    fn far(&self, from: usize, width: u32) -> u64 {
        let (index, shift) = (from / 8, (from % 8) as u32);
        let window = (index..index + 8).rev().fold(0, |word, i| word << 8 | u64::from(self.byte(i)));
        let value = window >> shift;
        if width + shift > 64 { value | u64::from(self.byte(index + 8)) << (64 - shift) } else { value }
    }

    /// One bit.
    #[inline]
    pub fn flag(&mut self) -> bool {
        self.take(1) != 0
    }

    /// Number of bits taken so far.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Number of received bits that were not taken.
    #[inline]
    pub fn unused(&self) -> usize {
        (self.bytes.len() * 8).saturating_sub(self.position)
    }
}

/// Writes fields.
#[derive(Clone, Copy, Debug)]
pub struct BitWriter {
    low: u128,
    high: [u128; CAPACITY / 16 - 1],
    position: usize,
}

impl Default for BitWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl BitWriter {
    /// Nothing written.
    #[inline]
    pub const fn new() -> Self {
        Self { low: 0, high: [0; CAPACITY / 16 - 1], position: 0 }
    }

    /// Appends the low `width` bits (at most 64) of `value`. Bits beyond the capacity are lost; no packet has so many.
    #[inline]
    pub fn put(&mut self, value: u64, width: u8) {
        let width = usize::from(width.min(64));
        if width == 0 {
            return;
        }
        let value = u128::from(value & (u64::MAX >> (64 - width)));
        if self.position < LOW {
            self.low |= value << self.position;
        }
        if self.position + width > LOW {
            self.put_high(value, width);
        }
        self.position = (self.position + width).min(CAPACITY * 8);
    }

    #[cold]
    fn put_high(&mut self, mut value: u128, width: usize) {
        let mut position = self.position;
        if position < LOW {
            value >>= LOW - position;
            position = LOW;
        }
        let (index, shift) = (position / LOW - 1, position % LOW);
        if let Some(word) = self.high.get_mut(index) {
            *word |= value << shift;
        }
        if shift + width > LOW
            && let Some(word) = self.high.get_mut(index + 1)
        {
            *word |= value >> (LOW - shift);
        }
    }

    /// The bit written last.
    #[inline]
    pub fn top(&self) -> bool {
        let last = self.position.saturating_sub(1);
        let word = if last < LOW { self.low } else { self.high.get(last / LOW - 1).copied().unwrap_or(0) };
        word >> (last % LOW) & 1 != 0
    }

    /// Number of bits written.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The compressed payload.
    #[inline]
    pub fn finish(self) -> Payload {
        if self.position == 0 || self.position > LOW {
            return self.finish_long();
        }
        let unused = LOW - self.position;
        Payload::compressed((self.low << unused) as i128 >> unused)
    }

    #[cold]
    fn finish_long(mut self) -> Payload {
        let sign = self.top();
        if sign {
            let padding = (8 - self.position % 8) % 8;
            self.put(0xFF, padding as u8);
        }
        let mut payload = self.padded();
        let fill = if sign { 0xFF } else { 0 };
        while payload.length > 1 {
            let [.., below, top] = payload.as_slice() else { break };
            if *top != fill || (below & 0x80 != 0) != sign {
                break;
            }
            payload.length -= 1;
        }
        payload
    }

    /// The payload with zeros up to a whole byte, not compressed.
    pub fn padded(&self) -> Payload {
        let mut bytes = [0; CAPACITY];
        let words = core::iter::once(&self.low).chain(&self.high);
        for (chunk, word) in bytes.chunks_exact_mut(16).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Payload { bytes, length: self.position.div_ceil(8).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_come_back_through_compression(fields in prop::collection::vec((any::<u64>(), 1u8..=64), 1..6)) {
            let mut writer = BitWriter::new();
            for &(value, width) in &fields {
                writer.put(value, width);
            }
            let payload = writer.finish();
            let mut reader = BitReader::new(&payload);
            for &(value, width) in &fields {
                let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
                prop_assert_eq!(reader.take(width), value & mask);
            }
            prop_assert!(reader.unused() < 8);
        }
    }

    #[test]
    fn a_string_of_equal_bits_is_one_byte() {
        for value in [0, u64::MAX] {
            let mut writer = BitWriter::new();
            writer.put(value, 64);
            writer.put(value, 64);
            assert_eq!(writer.finish().as_slice(), &[value as u8]);
        }
    }
}
