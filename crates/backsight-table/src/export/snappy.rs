//! Blocks of Snappy, put together by somebody who knows what they repeat.
//!
//! ```text
//! block   = length of what comes out (varint) { element }
//! element = literal: (n - 1) << 2, or 60..63 << 2 and n - 1 in one to four bytes; then n bytes
//!         | short copy: offset >> 8 << 5 | (n - 4) << 2 | 1, and the low byte of the offset; 4 to 11 bytes from less than 2048 before
//!         | copy: (n - 1) << 2 | 2, and the offset in two bytes; 1 to 64 bytes
//! ```

use snap::raw::{Encoder, max_compress_len};

use super::bits::put_varint;

/// The farthest that a copy reaches back, in bytes.
pub(super) const MOST_OFFSET: usize = u16::MAX as usize;

/// Bytes of the longest copy.
pub(super) const LONGEST_COPY: usize = 64;

/// A block while it is put together.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    elements: Vec<u8>,
    /// Bytes that it stands for.
    length: usize,
}

impl Block {
    /// So many bytes come next: appends them to what is given.
    #[inline]
    pub fn literal(&mut self, length: usize) -> &mut Vec<u8> {
        if let Some(last) = length.checked_sub(1) {
            match last {
                0..60 => self.elements.push((last as u8) << 2),
                60..0x100 => self.elements.extend_from_slice(&[60 << 2, last as u8]),
                0x100..0x1_0000 => self.elements.extend_from_slice(&[61 << 2, last as u8, (last >> 8) as u8]),
                _ => {
                    self.elements.push(63 << 2);
                    self.elements.extend_from_slice(&(last as u32).to_le_bytes());
                }
            }
        }
        self.length += length;
        &mut self.elements
    }

    /// These bytes come next.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.literal(bytes.len()).extend_from_slice(bytes);
    }

    /// These bytes come next, of which some may be copies: they are searched for.
    pub fn search(&mut self, bytes: &[u8], encoder: &mut Encoder) {
        let mut found = vec![0; max_compress_len(bytes.len())];
        match encoder.compress(bytes, &mut found) {
            Ok(length) => {
                // Elements after a length of its own.
                let begin = found.iter().take_while(|byte| **byte >= 0x80).count() + 1;
                self.elements.extend_from_slice(found.get(begin..length).unwrap_or_default());
                self.length += bytes.len();
            }
            // There are more of them than a block may have.
            Err(_) => self.bytes(bytes),
        }
    }

    /// So many bytes are those that came so many bytes before.
    #[inline]
    pub fn copy(&mut self, offset: usize, length: usize) {
        debug_assert!((1..=MOST_OFFSET.min(self.length)).contains(&offset) || length == 0);
        self.length += length;
        let (low, high) = (offset as u8, (offset >> 8) as u8);
        let mut rest = length;
        while rest > 0 {
            let some = rest.min(LONGEST_COPY);
            if (4..12).contains(&some) && offset < 1 << 11 {
                self.elements.extend_from_slice(&[high << 5 | (some as u8 - 4) << 2 | 1, low]);
            } else {
                self.elements.extend_from_slice(&[(some as u8 - 1) << 2 | 2, low, high]);
            }
            rest -= some;
        }
    }

    /// What another block stands for comes next.
    pub fn append(&mut self, other: &Self) {
        self.elements.extend_from_slice(&other.elements);
        self.length += other.length;
    }

    /// The block, and how many bytes come out of it.
    pub fn finish(self) -> (Vec<u8>, usize) {
        let mut block = Vec::with_capacity(self.elements.len() + 5);
        put_varint(self.length as u64, &mut block);
        block.extend_from_slice(&self.elements);
        (block, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_out_is_what_was_put_in() {
        let mut random = backsight_testing::Random(11);
        let mut searching = Encoder::new();
        for _ in 0..200 {
            let (mut block, mut truth) = (Block::default(), Vec::new());
            for _ in 0..random.below(30) {
                let length =
                    [1, 3, 4, 11, 12, 59, 60, 61, 64, 65, 256, 257, 300, 70_000][random.below(14) as usize];
                let fresh: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                match random.below(4) {
                    0 => block.bytes(&fresh),
                    1 => block.search(&fresh, &mut searching),
                    _ if truth.is_empty() => continue,
                    _ => {
                        let offset = 1 + random.below(truth.len().min(MOST_OFFSET) as u64) as usize;
                        block.copy(offset, length);
                        (0..length).for_each(|_| truth.push(truth[truth.len() - offset]));
                        continue;
                    }
                }
                truth.extend_from_slice(&fresh);
            }
            block.copy(0, 0);
            let (bytes, length) = block.finish();
            assert_eq!(length, truth.len());
            assert_eq!(snap::raw::Decoder::new().decompress_vec(&bytes).unwrap(), truth);
        }
    }
}
