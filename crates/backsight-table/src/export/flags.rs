//! What is one bit of each row: which rows have a value of a column, and columns of true and false.
//!
//! Eight such columns are looked up at once: a block has a byte with a bit for each of them, and the bytes of eight rows,
//! turned around, are a byte of each column.

/// Columns that are looked up at once.
pub(super) const TOGETHER: usize = 8;

/// By block: a byte with a bit for each of these columns, of which there are at most [`TOGETHER`].
pub(super) fn table(columns: &[&[bool]]) -> Vec<u8> {
    let mut table = vec![0; columns.iter().map(|column| column.len()).max().unwrap_or(0)];
    for (bit, column) in columns.iter().take(TOGETHER).enumerate() {
        table.iter_mut().zip(*column).for_each(|(byte, &flag)| *byte |= u8::from(flag) << bit);
    }
    table
}

/// Of each of the first columns of a table: its bits for rows with these blocks, the first one lowest. Zeros fill up the last byte.
pub(super) fn spread(blocks: &[u32], table: &[u8], columns: usize) -> Vec<Vec<u8>> {
    let mut bits = vec![Vec::with_capacity(blocks.len().div_ceil(8)); columns.min(TOGETHER)];
    let mut put = |rows: [u8; 8]| {
        let turned = transposed(u64::from_le_bytes(rows)).to_le_bytes();
        bits.iter_mut().zip(turned).for_each(|(bits, byte)| bits.push(byte));
    };
    let (eights, rest) = blocks.as_chunks::<8>();
    eights.iter().for_each(|rows| put(rows.map(|block| table[block as usize])));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(byte, &block)| *byte = table[block as usize]);
        put(last);
    }
    bits
}

/// Eight bytes of eight bits, turned around: bit `a` of byte `b` becomes bit `b` of byte `a`. Bits are exchanged with those beside
/// them, then pairs, then fours.
#[inline]
const fn transposed(bytes: u64) -> u64 {
    const fn exchanged(bytes: u64, by: u32, which: u64) -> u64 {
        let differing = (bytes ^ bytes >> by) & which;
        bytes ^ differing ^ differing << by
    }
    let bytes = exchanged(bytes, 7, 0x00AA_00AA_00AA_00AA);
    let bytes = exchanged(bytes, 14, 0x0000_CCCC_0000_CCCC);
    exchanged(bytes, 28, 0x0000_0000_F0F0_F0F0)
}

/// Bits, and how many are set before any of them.
pub(super) struct Ranks {
    words: Vec<u64>,
    /// Bits that are set before each word.
    before: Vec<u32>,
}

impl Ranks {
    pub fn new(bits: &[u8]) -> Self {
        let words = words(bits).collect::<Vec<_>>();
        let mut sum = 0;
        let before = words.iter().map(|word| {
            sum += word.count_ones();
            sum - word.count_ones()
        });
        let before = before.collect();
        Self { words, before }
    }

    /// How many of the first bits are set.
    #[inline]
    pub fn of(&self, count: usize) -> usize {
        match (self.words.get(count / 64), self.before.get(count / 64)) {
            (Some(word), Some(before)) => {
                *before as usize + (word & ((1 << (count % 64)) - 1)).count_ones() as usize
            }
            // All of them.
            _ => self
                .words
                .last()
                .zip(self.before.last())
                .map_or(0, |(word, before)| (before + word.count_ones()) as usize),
        }
    }
}

fn words(bits: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = bits.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(byte, &of_rest)| *byte = of_rest);
    words
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .chain((!rest.is_empty()).then_some(u64::from_le_bytes(last)))
}

/// How many bits are set.
pub(super) fn count(bits: &[u8]) -> usize {
    words(bits).map(|word| word.count_ones() as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_blocks() {
        let mut random = backsight_testing::Random(3);
        for columns in 1..=TOGETHER {
            for rows in [0, 1, 7, 8, 9, 63, 64, 65, 200] {
                let of_blocks: Vec<Vec<bool>> =
                    (0..columns).map(|_| (0..50).map(|_| random.below(3) == 0).collect()).collect();
                let of_blocks: Vec<_> = of_blocks.iter().map(Vec::as_slice).collect();
                let blocks: Vec<u32> = (0..rows).map(|_| random.below(50) as u32).collect();
                let bits = spread(&blocks, &table(&of_blocks), columns);
                assert_eq!(bits.len(), columns);
                for (bits, flags) in bits.iter().zip(&of_blocks) {
                    assert_eq!(bits.len(), blocks.len().div_ceil(8));
                    let ranks = Ranks::new(bits);
                    let mut sum = 0;
                    for (row, &block) in blocks.iter().enumerate() {
                        let flag = flags[block as usize];
                        assert_eq!(bits[row / 8] >> (row % 8) & 1 == 1, flag);
                        assert_eq!(ranks.of(row), sum);
                        sum += usize::from(flag);
                    }
                    assert_eq!(ranks.of(blocks.len()), sum);
                }
            }
        }
    }
}
