//! Some bytes of a stream, taken apart at once.
//!
//! A byte has six bits of data above two bits that say what ends with it: nothing, a field, or the message. All data together
//! are one number, and a field is a part of it.

use super::fields::DATA_BITS;

/// One bit for each byte.
type ByteMask = u32;

/// Some bytes from the beginning of a message on: eight, as most messages fit in, or sixteen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<D> {
    /// All their data, those of the first byte lowest.
    data: D,
    /// Bytes whose lower marker bit is set: a field or the message ends.
    ends: ByteMask,
    /// Bytes whose upper marker bit is set.
    upper: ByteMask,
}

/// The lowest bit of each byte.
const LOWEST: u64 = 0x0101_0101_0101_0101;

impl Window<u64> {
    /// Takes eight bytes apart.
    #[inline(always)]
    pub fn narrow(bytes: [u8; 8]) -> Self {
        let word = u64::from_le_bytes(bytes);
        Self { data: data(word), ends: lowest_bits(word), upper: lowest_bits(word >> 1) }
    }
}

impl Window<u128> {
    /// Takes sixteen bytes apart.
    #[inline(always)]
    pub fn wide(bytes: [u8; 16]) -> Self {
        let word = u128::from_le_bytes(bytes);
        let (low, high) = (word as u64, (word >> 64) as u64);
        Self {
            data: u128::from(data(low)) | u128::from(data(high)) << 48,
            ends: lowest_bits(low) | lowest_bits(high) << 8,
            upper: lowest_bits(low >> 1) | lowest_bits(high >> 1) << 8,
        }
    }
}

impl<D: WindowData> Window<D> {
    /// How many bytes the message has. `None`: it does not end here, or has a marker that is reserved.
    #[inline(always)]
    pub fn message_length(&self) -> Option<usize> {
        let last = (self.ends & self.upper).trailing_zeros();
        let reserved = (self.upper & !self.ends).trailing_zeros();
        (last < reserved).then_some(last as usize + 1)
    }

    /// The data of each field of a message of so many bytes, and its number of bits. `None`: there are too many, or one is too
    /// long for a machine word.
    #[inline(always)]
    pub fn fields<const N: usize>(&self, length: usize) -> Option<[(u64, u32); N]> {
        let mut fields = [(0, 0); N];
        let (mut ends, mut data, mut begin) = (self.ends, self.data, 0);
        for field in &mut fields {
            let end = ends.trailing_zeros() + 1;
            ends &= ends.wrapping_sub(1);
            let bits = (end - begin) * DATA_BITS;
            if bits > 60 {
                return None;
            }
            *field = (data.low() & ((1 << bits) - 1), bits);
            if end == length as u32 {
                return Some(fields);
            }
            data = data.after(bits);
            begin = end;
        }
        None
    }
}

/// Where the data of a window are kept.
pub(super) trait WindowData: Copy {
    /// The lowest bits.
    fn low(self) -> u64;

    /// Without the lowest bits.
    fn after(self, bits: u32) -> Self;
}

impl WindowData for u64 {
    #[inline(always)]
    fn low(self) -> u64 {
        self
    }

    #[inline(always)]
    fn after(self, bits: u32) -> Self {
        self >> bits
    }
}

impl WindowData for u128 {
    #[inline(always)]
    fn low(self) -> u64 {
        self as u64
    }

    #[inline(always)]
    fn after(self, bits: u32) -> Self {
        self >> bits
    }
}

/// The data of eight bytes.
#[inline]
const fn data(bytes: u64) -> u64 {
    let six = bytes >> 2 & 0x3F3F_3F3F_3F3F_3F3F;
    let twelve = six & 0x003F_003F_003F_003F | six >> 2 & 0x0FC0_0FC0_0FC0_0FC0;
    let two_dozen = twelve & 0x0000_0FFF_0000_0FFF | twelve >> 4 & 0x00FF_F000_00FF_F000;
    two_dozen & 0x00FF_FFFF | two_dozen >> 8 & 0xFFFF_FF00_0000
}

/// The lowest bits of eight bytes, that of the first byte lowest.
#[inline]
const fn lowest_bits(bytes: u64) -> ByteMask {
    ((bytes & LOWEST).wrapping_mul(0x0102_0408_1020_4080) >> 56) as ByteMask
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Fields one byte after the other, and the length of the message.
    fn by_bytes(bytes: &[u8; 16]) -> Option<(Vec<(u64, u32)>, usize)> {
        let mut fields = Vec::from([(0_u128, 0)]);
        for (at, byte) in bytes.iter().enumerate() {
            let (value, bits) = fields.last_mut()?;
            *value |= u128::from(byte >> 2) << *bits;
            *bits += 6;
            match byte & 3 {
                0 => {}
                1 => fields.push((0, 0)),
                2 => return None,
                _ => {
                    let fits = fields.len() <= 6 && fields.iter().all(|&(_, bits)| bits <= 60);
                    let fields = fields.iter().map(|&(value, bits)| (value as u64, bits)).collect();
                    return fits.then_some((fields, at + 1));
                }
            }
        }
        None
    }

    fn used(fields: [(u64, u32); 6]) -> Vec<(u64, u32)> {
        fields.into_iter().filter(|&(_, bits)| bits > 0).collect()
    }

    proptest! {
        #[test]
        fn fields_are_those_found_byte_by_byte(
            data in prop::collection::vec(0u8..64, 16),
            markers in prop::collection::vec(prop::sample::select(&[0u8, 0, 0, 0, 0, 1, 1, 2, 3][..]), 16),
        ) {
            let mut bytes = [0; 16];
            for (byte, (data, marker)) in bytes.iter_mut().zip(data.iter().zip(&markers)) {
                *byte = data << 2 | marker;
            }
            let wide = Window::wide(bytes);
            let length = wide.message_length();
            let found = length.and_then(|length| Some((used(wide.fields(length)?), length)));
            prop_assert_eq!(&found, &by_bytes(&bytes));
            let narrow = Window::narrow(*bytes.first_chunk().unwrap());
            let length = narrow.message_length();
            prop_assert_eq!(length, wide.message_length().filter(|&length| length <= 8));
            if let Some(length) = length {
                prop_assert_eq!(narrow.fields::<6>(length), wide.fields::<6>(length));
            }
        }
    }
}
