//! Numbers in few bits, as Parquet has them: packed, in runs, and as differences.

/// Values of a block of differences, and of each of its four parts.
const BLOCK: usize = 128;
const PART: usize = 32;

/// Bits that numbers up to this one need.
pub(super) fn width_of(most: u64) -> u32 {
    u64::BITS - most.leading_zeros()
}

/// A number in groups of seven bits, the lowest first.
pub(super) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7F {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_zigzag(number: i64, out: &mut Vec<u8>) {
    put_varint((number << 1 ^ number >> 63) as u64, out);
}

/// Packs numbers of at most so many bits, the lowest bits first. Zeros fill up the last eight.
pub(super) fn pack<T: Copy + Into<u64>>(values: &[T], width: u32, out: &mut Vec<u8>) {
    pack_by(values, width, Into::into, out);
}

/// The same with numbers that have to be looked up first.
pub(super) fn pack_by<T: Copy>(values: &[T], width: u32, number: impl Fn(T) -> u64, out: &mut Vec<u8>) {
    if width > 16 {
        return pack_wide(values, width, number, out);
    }
    let (start, bytes) = (out.len(), width as usize);
    // Eight numbers are `width` bytes; each time sixteen are written, and the next ones write over what is too much.
    out.resize(start + values.len().div_ceil(8) * bytes + 16, 0);
    let mut at = start;
    let mut put = |packed: u128| {
        // An array: to copy a slice would be a call.
        if let Some(sixteen) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *sixteen = packed.to_le_bytes();
        }
        at += bytes;
    };
    let (eights, rest) = values.as_chunks::<8>();
    for &[a, b, c, d, e, f, g, h] in eights {
        let four = |[a, b, c, d]: [T; 4]| {
            number(a) | number(b) << width | number(c) << (2 * width) | number(d) << (3 * width)
        };
        put(u128::from(four([a, b, c, d])) | u128::from(four([e, f, g, h])) << (4 * width));
    }
    if !rest.is_empty() {
        put(rest.iter().rev().fold(0, |packed, &value| packed << width | u128::from(number(value))));
    }
    out.truncate(at);
}

fn pack_wide<T: Copy>(values: &[T], width: u32, number: impl Fn(T) -> u64, out: &mut Vec<u8>) {
    let end = out.len() + values.len().div_ceil(8) * width as usize;
    let (mut waiting, mut bits) = (0_u128, 0);
    for &value in values {
        waiting |= u128::from(number(value)) << bits;
        bits += width;
        while bits >= 8 {
            out.push(waiting as u8);
            waiting >>= 8;
            bits -= 8;
        }
    }
    out.push(waiting as u8);
    out.resize(end, 0);
}

/// Numbers that have to be looked up first, one by one, for a reader that expects runs and packed numbers.
pub(super) fn put_packed_by<T: Copy>(values: &[T], width: u32, number: impl Fn(T) -> u64, out: &mut Vec<u8>) {
    if !values.is_empty() {
        put_varint((values.len().div_ceil(8) as u64) << 1 | 1, out);
        pack_by(values, width, number, out);
    }
}

/// The same number again and again.
pub(super) fn put_run(value: u64, length: usize, width: u32, out: &mut Vec<u8>) {
    put_varint((length as u64) << 1, out);
    out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// So many numbers as differences: `DELTA_BINARY_PACKED`. They come as runs of the same number.
///
/// Rows of one packet share their place and time, so that most differences are 0: only the others are computed.
pub(super) fn put_differences(runs: impl Iterator<Item = (u64, usize)>, count: usize, out: &mut Vec<u8>) {
    let mut runs = runs.filter(|(_, length)| *length > 0);
    let (first, mut before) = runs.next().unwrap_or_default();
    put_varint(BLOCK as u64, out);
    put_varint((BLOCK / PART) as u64, out);
    put_varint(count as u64, out);
    put_zigzag(first as i64, out);
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

    fn unpack(bytes: &[u8], width: u32, count: usize) -> Vec<u64> {
        let bit = |at: usize| u64::from(bytes[at / 8] >> (at % 8) & 1);
        let number = |n: usize| (0..width as usize).map(|b| bit(n * width as usize + b) << b).sum();
        (0..count).map(number).collect()
    }

    #[test]
    fn packed_numbers_are_the_numbers_in_every_width() {
        let mut random = backsight_testing::Random(7);
        for width in 0..=64 {
            for count in [0_usize, 1, 7, 8, 9, 100] {
                let mask = 1_u64.checked_shl(width).map_or(u64::MAX, |bit| bit - 1);
                let values: Vec<u64> = (0..count).map(|_| random.next() & mask).collect();
                let mut out = vec![0xEE];
                pack(&values, width, &mut out);
                assert_eq!(out.len(), 1 + count.div_ceil(8) * width as usize, "{width} {count}");
                assert_eq!(unpack(&out[1..], width, count), values, "{width}");
            }
        }
    }

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

    #[test]
    fn numbers_need_as_many_bits_as_the_highest_one() {
        assert_eq!([0, 1, 2, 3, 255, 256, u64::MAX].map(width_of), [0, 1, 2, 2, 8, 9, 64]);
    }
}
