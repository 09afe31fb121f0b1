//! Numbers as differences: `DELTA_BINARY_PACKED`.
//!
//! ```text
//! numbers = 128, 4, how many, the first (zigzag) { block }
//! block   = the lowest of 128 differences (zigzag), the widths of four parts, their 32 differences each, less the lowest
//! ```

use std::ops::Range;

use super::bits::{pack, put_varint, width_of};
use crate::steps::Steps;

/// Values of a block of differences, and of each of its four parts.
const BLOCK: usize = 128;
const PART: usize = 32;

fn put_zigzag(number: i64, out: &mut Vec<u8>) {
    put_varint((number << 1 ^ number >> 63) as u64, out);
}

fn put_header(count: usize, first: u64, out: &mut Vec<u8>) {
    put_varint(BLOCK as u64, out);
    put_varint((BLOCK / PART) as u64, out);
    put_varint(count as u64, out);
    put_zigzag(first as i64, out);
}

/// The numbers of some rows, which grow by little from row to row, after this one; gives the last.
pub(super) fn put_steps(before: u64, steps: &Steps, rows: Range<usize>, out: &mut Vec<u8>) -> u64 {
    let rest = rows.start + 1..rows.end;
    let first = before.wrapping_add(steps.sum_of(rows.start..rest.start));
    put_header(rows.len(), first, out);
    // The most that these can need.
    out.reserve(rest.len() * 2);
    let mut all_far = steps.far_of(rest.clone()).iter().peekable();
    for start in rest.clone().step_by(BLOCK) {
        let end = (start + BLOCK).min(rest.end);
        let of_block = steps.small_of(start..end);
        if all_far.peek().is_some_and(|(row, _)| (*row as usize) < end) {
            let mut numbers = [0; BLOCK];
            numbers.iter_mut().zip(of_block).for_each(|(number, &step)| *number = step.into());
            while let Some((row, step)) = all_far.next_if(|(row, _)| (*row as usize) < end) {
                numbers[*row as usize - start] = *step as i64;
            }
            put_block(&numbers[..of_block.len()], out);
        } else {
            put_small_block(of_block, out);
        }
    }
    first.wrapping_add(steps.sum_of(rest))
}

/// A block of differences.
fn put_block(differences: &[i64], out: &mut Vec<u8>) {
    let least = differences.iter().copied().min().unwrap_or(0);
    put_zigzag(least, out);
    let mut numbers = [0; BLOCK];
    let above = differences.iter().map(|difference| difference.wrapping_sub(least) as u64);
    numbers.iter_mut().zip(above).for_each(|(number, above)| *number = above);
    put_parts(&numbers, out);
}

/// The same with differences of at most eight bits.
#[inline]
fn put_small_block(differences: &[u8], out: &mut Vec<u8>) {
    let least = differences.iter().copied().min().unwrap_or(0);
    put_zigzag(least.into(), out);
    let mut numbers = [0; BLOCK];
    numbers.iter_mut().zip(differences).for_each(|(number, difference)| *number = difference - least);
    put_small_parts(&numbers, out);
}

/// So many numbers as differences. They come as runs of the same number.
///
/// Rows share their state with many others, so that most differences are 0: only the others are computed.
pub(super) fn put_differences(runs: impl Iterator<Item = (u64, usize)>, count: usize, out: &mut Vec<u8>) {
    let mut runs = runs.filter(|(_, length)| *length > 0);
    let (first, mut before) = runs.next().unwrap_or_default();
    put_header(count, first, out);
    let (mut last, mut block) = (first, Block::new(count.saturating_sub(1)));
    for (value, length) in runs {
        // The difference between the numbers before and after this one.
        block.put(before - 1, value.wrapping_sub(last) as i64, out);
        (last, before) = (value, before + length);
    }
    block.finish(out);
}

/// A block of differences while it is put together.
struct Block {
    /// Differences before it, and all of them.
    from: usize,
    count: usize,
    /// Its differences that are not 0, by number, and how many there are.
    differences: [(usize, i64); BLOCK],
    some: usize,
}

impl Block {
    fn new(count: usize) -> Self {
        Self { from: 0, count, differences: [(0, 0); BLOCK], some: 0 }
    }

    /// The difference with this number is this one.
    #[inline]
    fn put(&mut self, number: usize, difference: i64, out: &mut Vec<u8>) {
        if difference == 0 {
            return;
        }
        while number >= self.from + BLOCK {
            self.write(out);
        }
        self.differences[self.some] = (number - self.from, difference);
        self.some += 1;
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        while self.from < self.count {
            self.write(out);
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        let (some, size) = (&self.differences[..self.some], BLOCK.min(self.count - self.from));
        let mut least = if self.some < size { 0 } else { i64::MAX };
        let mut most = if self.some < size { 0 } else { i64::MIN };
        some.iter()
            .for_each(|(_, difference)| (least, most) = (least.min(*difference), most.max(*difference)));
        put_zigzag(least, out);
        let above = |difference: i64| difference.wrapping_sub(least) as u64;
        if above(most) <= u8::MAX.into() {
            let mut numbers = [0; BLOCK];
            numbers[..size].fill(above(0) as u8);
            some.iter().for_each(|&(number, difference)| numbers[number] = above(difference) as u8);
            put_small_parts(&numbers, out);
        } else {
            let mut numbers = [0; BLOCK];
            numbers[..size].fill(above(0));
            some.iter().for_each(|&(number, difference)| numbers[number] = above(difference));
            put_parts(&numbers, out);
        }
        self.from += BLOCK;
        self.some = 0;
    }
}

/// The parts of a block: their widths, and the numbers of each.
fn put_parts(numbers: &[u64; BLOCK], out: &mut Vec<u8>) {
    let parts = numbers.as_chunks::<PART>().0.iter();
    let width = |part: &[u64; PART]| width_of(part.iter().fold(0, |all, one| all | one));
    out.extend(parts.clone().map(|part| width(part) as u8));
    parts.for_each(|part| pack(part, width(part), out));
}

/// The same with numbers of at most eight bits, eight at a time.
fn put_small_parts(numbers: &[u8; BLOCK], out: &mut Vec<u8>) {
    let widths_at = out.len();
    out.resize(widths_at + BLOCK / PART + BLOCK + 8, 0);
    let mut at = widths_at + BLOCK / PART;
    for (number, part) in numbers.as_chunks::<PART>().0.iter().enumerate() {
        let eights = part.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight));
        let all = eights.clone().fold(0, |all, eight| all | eight);
        let width = u64::BITS / 8
            - (all | all >> 32).to_le_bytes()[..4].iter().fold(0, |all, one| all | one).leading_zeros();
        out[widths_at + number] = width as u8;
        for eight in eights {
            if let Some(place) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                *place = packed_eight(eight, width).to_le_bytes();
            }
            at += width as usize;
        }
    }
    out.truncate(at);
}

/// Eight numbers in bytes, packed: neighbours are brought together, then pairs, then fours.
#[inline]
const fn packed_eight(bytes: u64, width: u32) -> u64 {
    let pairs = bytes & 0x00FF_00FF_00FF_00FF | (bytes >> 8 & 0x00FF_00FF_00FF_00FF) << width;
    let fours = pairs & 0x0000_FFFF_0000_FFFF | (pairs >> 16 & 0x0000_FFFF_0000_FFFF) << (2 * width);
    fours & 0xFFFF_FFFF | fours >> 32 << (4 * width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_small_numbers_are_packed_as_others_are() {
        let mut random = backsight_testing::Random(8);
        for width in 0..=8 {
            let eight: [u8; 8] = std::array::from_fn(|_| random.below(1 << width) as u8);
            let mut out = Vec::new();
            pack(&eight, width, &mut out);
            let packed = packed_eight(u64::from_le_bytes(eight), width).to_le_bytes();
            assert_eq!(packed[..width as usize], out, "{width}");
            assert!(packed[width as usize..].iter().all(|byte| *byte == 0), "{width}");
        }
    }
}
