//! Numbers in few bits, as Parquet has them: packed, and in runs.

/// Bits that numbers up to this one need.
pub(super) fn width_of(most: u64) -> u32 {
    u64::BITS - most.leading_zeros()
}

pub(super) fn put_varint(number: u64, out: &mut Vec<u8>) {
    backsight::core::leb128::write(number, |byte| out.push(byte));
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
    fn numbers_need_as_many_bits_as_the_highest_one() {
        assert_eq!([0, 1, 2, 3, 255, 256, u64::MAX].map(width_of), [0, 1, 2, 2, 8, 9, 64]);
    }
}
