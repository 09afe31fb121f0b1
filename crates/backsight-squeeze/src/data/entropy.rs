//! How much there is in load values: their entropy block by block, and how many are small.

use std::collections::HashMap;

/// The entropy of values in blocks of a fixed number of them.
#[derive(Clone, Debug)]
pub struct Entropy {
    block: usize,
    /// Low bits that are sent as they are, and do not count.
    mask: u32,
    counts: HashMap<u32, u32>,
    filled: usize,
    blocks: u64,
    entropies: f64,
    smallest: f64,
    largest: f64,
    unique: f64,
    /// Bits that the compressed blocks would have.
    bits: f64,
    values: u64,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EntropyFigures {
    /// Bits of entropy of a value: smallest, average and largest over blocks.
    pub entropy: [f64; 3],
    /// Unique values of a block.
    pub unique: f64,
    /// Compression ratio: unique values as they are, the others at their entropy and their masked bits.
    pub ratio: f64,
}

impl Entropy {
    /// In blocks of so many values, without so many low bits.
    pub fn new(block: usize, mask: u32) -> Self {
        Self {
            block,
            mask,
            counts: HashMap::new(),
            filled: 0,
            blocks: 0,
            entropies: 0.0,
            smallest: f64::INFINITY,
            largest: 0.0,
            unique: 0.0,
            bits: 0.0,
            values: 0,
        }
    }

    /// A loaded value.
    pub fn push(&mut self, value: u32) {
        *self.counts.entry(value >> self.mask).or_default() += 1;
        self.filled += 1;
        if self.filled == self.block {
            self.end();
        }
    }

    fn end(&mut self) {
        let n = self.filled as f64;
        let part = |&count: &u32| {
            let p = f64::from(count) / n;
            -p * p.log2()
        };
        let entropy: f64 = self.counts.values().map(part).sum();
        let unique = self.counts.len() as f64;
        self.blocks += 1;
        self.entropies += entropy;
        self.smallest = self.smallest.min(entropy);
        self.largest = self.largest.max(entropy);
        self.unique += unique;
        self.bits += 32.0 * unique + (entropy + f64::from(self.mask)) * (n - unique);
        self.values += self.filled as u64;
        self.counts.clear();
        self.filled = 0;
    }

    /// What was found; a block that is not full counts only if there is no other.
    pub fn finish(mut self) -> Option<EntropyFigures> {
        if self.blocks == 0 {
            if self.filled == 0 {
                return None;
            }
            self.end();
        }
        let blocks = self.blocks as f64;
        Some(EntropyFigures {
            entropy: [self.smallest, self.entropies / blocks, self.largest],
            unique: self.unique / blocks,
            ratio: 32.0 * self.values as f64 / self.bits,
        })
    }
}

/// The least number of bits, sign included, that a value fits in.
pub fn signed_bits(value: i32) -> u32 {
    33 - (value ^ value >> 31).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_two_values_has_one_bit() {
        let mut entropy = Entropy::new(8, 0);
        (0..16).for_each(|n| entropy.push(n % 2));
        let found = entropy.finish().unwrap();
        assert_eq!((found.entropy, found.unique), ([1.0; 3], 2.0));
        assert_eq!(found.ratio, 32.0 * 8.0 / (32.0 * 2.0 + 6.0));
        assert_eq!(Entropy::new(8, 0).finish(), None);
    }

    #[test]
    fn small_values_are_signed() {
        assert_eq!([0, -1, 1, 127, -128, 128, i32::MIN].map(signed_bits), [1, 1, 2, 8, 8, 9, 32]);
    }
}
