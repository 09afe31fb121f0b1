//! Reading payloads that fit a machine word, as almost all do.

use super::FieldReader;

/// Reads fields of a payload of one to eight bytes whose top bit is its sign.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordReader {
    word: i64,
    position: u32,
    received: u32,
}

/// The bits of a payload of one to eight bytes whose top bit is its sign; `None` if it is empty or longer.
#[inline]
pub(super) fn word(bytes: &[u8]) -> Option<i64> {
    let length = bytes.len();
    let word = match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // The two overlap where there are fewer than eight.
        (Some(first), Some(last)) if length <= 8 => {
            let top = u64::from(u32::from_le_bytes(*last)) << ((length - 4) * 8);
            u64::from(u32::from_le_bytes(*first)) | top
        }
        (Some(_), _) => return None,
        // One, two or three: first, middle and last are all of them.
        _ => {
            let (&first, &middle, &last) = (bytes.first()?, bytes.get(length / 2)?, bytes.last()?);
            u64::from(first)
                | u64::from(middle) << (length / 2 * 8)
                | u64::from(last) << (length.wrapping_sub(1) * 8)
        }
    };
    let unused = 64 - length as u32 * 8;
    Some((word << unused) as i64 >> unused)
}

impl WordReader {
    /// `None` if the payload is empty or too long.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        Some(Self { word: word(bytes)?, position: 0, received: bytes.len() as u32 * 8 })
    }
}

impl FieldReader for WordReader {
    #[inline]
    fn take(&mut self, width: u8) -> u64 {
        let width = u32::from(width.min(64));
        let value = (self.word >> self.position.min(63)) as u64;
        self.position += width;
        if width == 64 { value } else { value & ((1 << width) - 1) }
    }

    #[inline]
    fn unused(&self) -> usize {
        self.received.saturating_sub(self.position) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::BitReader;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_payload_in_one_word_reads_like_any_other(
            bytes in prop::collection::vec(any::<u8>(), 0..12),
            widths in prop::collection::vec(0u8..=64, 0..8),
        ) {
            let short = WordReader::new(&bytes);
            prop_assert_eq!(short.is_some(), (1..=8).contains(&bytes.len()));
            let Some(mut short) = short else { return Ok(()) };
            let mut long = BitReader::new(&bytes);
            for width in widths {
                prop_assert_eq!(short.take(width), long.take(width));
                prop_assert_eq!(short.unused(), long.unused());
            }
        }
    }
}
