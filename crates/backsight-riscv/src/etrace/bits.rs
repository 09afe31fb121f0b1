//! Strings of bits, least significant first, with sign-based compression.
//!
//! While the two topmost bits are equal the top one is dropped; what remains is sign-extended to whole bytes. A
//! receiver takes every bit beyond the end to equal the last one received.

/// Most bytes that any packet needs before compression.
const CAPACITY: usize = 80;

/// The bytes of one packet. At most 31 fit the usual encapsulation.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    bytes: [u8; CAPACITY],
    length: u8,
}

impl Payload {
    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&self.bytes)
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
    position: usize,
    fill: u8,
}

impl<'a> BitReader<'a> {
    /// Reads a payload whose top bit is its sign.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        let fill = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xFF } else { 0 };
        Self { bytes, position: 0, fill }
    }

    /// Reads a payload that is padded with zeros.
    #[inline]
    pub fn zero_padded(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0, fill: 0 }
    }

    #[inline]
    fn byte(&self, index: usize) -> u8 {
        self.bytes.get(index).copied().unwrap_or(self.fill)
    }

    /// The next `width` bits (at most 64).
    #[inline]
    pub fn take(&mut self, width: u8) -> u64 {
        let width = u32::from(width.min(64));
        let (index, shift) = (self.position / 8, (self.position % 8) as u32);
        self.position += width as usize;
        let window = match self.bytes.get(index..index + 8) {
            Some(whole) => whole.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
            None => (index..index + 8).rev().fold(0, |word, i| word << 8 | u64::from(self.byte(i))),
        };
        let mut value = window >> shift;
        if width + shift > 64 {
            value |= u64::from(self.byte(index + 8)) << (64 - shift);
        }
        if width == 64 { value } else { value & ((1 << width) - 1) }
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
    words: [u64; CAPACITY / 8],
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
        Self { words: [0; CAPACITY / 8], position: 0 }
    }

    /// Appends the low `width` bits (at most 64) of `value`. Bits beyond the capacity are lost; no packet has so many.
    #[inline]
    pub fn put(&mut self, value: u64, width: u8) {
        let width = u32::from(width.min(64));
        if width == 0 {
            return;
        }
        let value = if width == 64 { value } else { value & ((1 << width) - 1) };
        let (index, shift) = (self.position / 64, (self.position % 64) as u32);
        if let Some(word) = self.words.get_mut(index) {
            *word |= value << shift;
        }
        if width + shift > 64
            && let Some(word) = self.words.get_mut(index + 1)
        {
            *word |= value >> (64 - shift);
        }
        self.position = (self.position + width as usize).min(CAPACITY * 8);
    }

    /// The bit written last.
    #[inline]
    pub fn top(&self) -> bool {
        let last = self.position.saturating_sub(1);
        self.words.get(last / 64).is_some_and(|word| word >> (last % 64) & 1 != 0)
    }

    /// Number of bits written.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The compressed payload.
    pub fn finish(mut self) -> Payload {
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
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Payload { bytes, length: self.position.div_ceil(8).max(1) as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_come_back_through_compression(fields in prop::collection::vec((any::<u64>(), 1u8..=64), 1..9)) {
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
