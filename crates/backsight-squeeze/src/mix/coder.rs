//! A binary range coder: a bit of probability p costs -log2 p bits.
//!
//! The interval that the bits so far have in common is cut in two in proportion to the probabilities; leading bytes that
//! its ends share are written. Encoder and decoder are the same to a model: it gives the probability and, in the
//! encoder, the bit.

use crate::Damage;

/// Bits of a probability: what is nearly certain must cost nearly nothing.
pub const P_BITS: u32 = 22;

/// Codes bits one way or the other.
pub trait Coder {
    /// It reads: what it is given means nothing.
    const READS: bool;

    /// Codes a bit that is 1 with probability `p / 2^`[`P_BITS`], neither 0 nor 1. An encoder writes `bit` and gives it back; a
    /// decoder gives what it reads.
    fn code(&mut self, bit: bool, p: u32) -> Result<bool, Damage>;
}

fn middle(low: u64, high: u64, p: u32) -> u64 {
    low + ((high - low) >> P_BITS) * u64::from(p)
}

/// Writes.
#[derive(Clone, Debug)]
pub struct Encoder {
    low: u64,
    high: u64,
    bytes: Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { low: 0, high: u64::MAX, bytes: Vec::new() }
    }
}

impl Encoder {
    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Was nothing written yet?
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Ends the code with as few bytes as are needed; the reader sees zeros after them. Begins a new one.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        if self.low > 0 || self.high < u64::MAX {
            for count in 1..=8 {
                let unused = 64 - 8 * count;
                let value = self.high >> unused << unused;
                if value >= self.low {
                    bytes.extend(&value.to_be_bytes()[..count as usize]);
                    break;
                }
            }
        }
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        *self = Self::default();
        bytes
    }
}

impl Coder for Encoder {
    const READS: bool = false;

    #[inline(always)]
    fn code(&mut self, bit: bool, p: u32) -> Result<bool, Damage> {
        let middle = middle(self.low, self.high, p);
        // No branch: what the program does next is as hard to predict here as there.
        let mask = u64::from(bit).wrapping_neg();
        self.high = (middle & mask) | (self.high & !mask);
        self.low = (self.low & mask) | ((middle + 1) & !mask);
        while (self.low ^ self.high) >> 56 == 0 {
            self.bytes.push((self.high >> 56) as u8);
            self.low <<= 8;
            self.high = self.high << 8 | 0xFF;
        }
        Ok(bit)
    }
}

/// Reads.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    low: u64,
    high: u64,
    value: u64,
    bytes: &'a [u8],
    /// Bytes asked for that are not there.
    missing: u32,
}

impl<'a> Decoder<'a> {
    /// Reads the bytes of an encoder.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut decoder = Self { low: 0, high: u64::MAX, value: 0, bytes, missing: 0 };
        for _ in 0..8 {
            decoder.value = decoder.value << 8 | u64::from(decoder.byte());
        }
        decoder.missing = 0;
        decoder
    }

    fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((&first, rest)) => {
                self.bytes = rest;
                first
            }
            None => {
                self.missing += 1;
                0
            }
        }
    }
}

impl Coder for Decoder<'_> {
    const READS: bool = true;

    #[inline(always)]
    fn code(&mut self, _bit: bool, p: u32) -> Result<bool, Damage> {
        let middle = middle(self.low, self.high, p);
        let bit = self.value <= middle;
        if bit {
            self.high = middle;
        } else {
            self.low = middle + 1;
        }
        while (self.low ^ self.high) >> 56 == 0 {
            self.low <<= 8;
            self.high = self.high << 8 | 0xFF;
            self.value = self.value << 8 | u64::from(self.byte());
        }
        Ok(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_and_cost_what_they_should() {
        let mut state = 12345u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let bits: Vec<_> = (0..50_000)
            .map(|_| {
                let p = [1, 19_200, 1 << 21, 4_160_000, (1 << P_BITS) - 1][next() as usize % 5];
                (next() % (1 << P_BITS) < p, p as u32)
            })
            .collect();
        let mut encoder = Encoder::default();
        assert!(bits.iter().all(|&(bit, p)| encoder.code(bit, p) == Ok(bit)));
        let bytes = encoder.finish();
        let cost = |&(bit, p): &(bool, u32)| {
            let all = 1 << P_BITS;
            -(f64::from(if bit { p } else { all - p }) / f64::from(all)).log2()
        };
        let expected: f64 = bits.iter().map(cost).sum();
        assert!((bytes.len() as f64 * 8.0) < expected + 64.0, "{} bits for {expected}", bytes.len() * 8);
        let mut decoder = Decoder::new(&bytes);
        assert!(bits.iter().all(|&(bit, p)| decoder.code(false, p) == Ok(bit)));
        assert!(Encoder::default().finish().is_empty());
    }
}
