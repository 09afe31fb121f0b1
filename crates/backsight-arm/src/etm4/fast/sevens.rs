//! Fields of seven bits a byte, put together without a loop.

/// Puts the low seven bits of each of three bytes together.
#[inline(always)]
pub(super) const fn compact_count(bytes: u32) -> u32 {
    bytes & 0x7F | bytes >> 1 & 0x7F << 7 | bytes >> 2 & 0x7F << 14
}

/// Puts the low seven bits of each of eight bytes together.
#[inline(always)]
pub(super) const fn compact(bytes: u64) -> u64 {
    let bits = bytes & 0x7F7F_7F7F_7F7F_7F7F;
    let pairs = bits & 0x007F_007F_007F_007F | bits >> 1 & 0x3F80_3F80_3F80_3F80;
    let fours = pairs & 0x0000_3FFF_0000_3FFF | pairs >> 2 & 0x0FFF_C000_0FFF_C000;
    fours & 0x0FFF_FFFF | fours >> 4 & 0x00FF_FFFF_F000_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_puts_seven_bits_of_each_byte_together() {
        for index in 0..8 {
            for bit in 0..7 {
                assert_eq!(compact(1 << (8 * index + bit)), 1 << (7 * index + bit));
            }
        }
        assert_eq!(compact(u64::MAX), (1 << 56) - 1);
        assert_eq!(compact_count(0xFF_FFFF), (1 << 21) - 1);
        assert_eq!(compact_count(0x01_0102), 1 << 14 | 1 << 7 | 2);
    }
}
