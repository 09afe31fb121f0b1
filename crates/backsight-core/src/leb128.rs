//! Numbers in groups of seven bits, the lowest first; the high bit of a byte says that more follow (LEB128 without a sign,
//! which is also the varint of protocol buffers).

/// Writes a number, byte by byte.
#[inline]
pub fn write(mut number: u64, mut put: impl FnMut(u8)) {
    while number >= 0x80 {
        put(number as u8 | 0x80);
        number >>= 7;
    }
    put(number as u8);
}

/// Reads a number out of the bytes that `next` gives; `None` if it has more than 64 bits.
///
/// # Errors
/// Those of `next`.
#[inline]
pub fn read<E>(mut next: impl FnMut() -> Result<u8, E>) -> Result<Option<u64>, E> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = next()?;
        if shift == 63 && byte > 1 {
            break;
        }
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> Result<Option<u64>, &'static str> {
        let mut bytes = bytes.iter();
        read(|| bytes.next().copied().ok_or("the end"))
    }

    #[test]
    fn what_is_written_is_read() {
        for bits in 0..64 {
            for number in [1 << bits, (1_u64 << bits) - 1, u64::MAX >> bits] {
                let (mut bytes, mut length) = ([0; 10], 0);
                write(number, |byte| {
                    bytes[length] = byte;
                    length += 1;
                });
                assert_eq!(length, (64 - number.leading_zeros()).div_ceil(7).max(1) as usize, "{number:#x}");
                assert_eq!(read_all(&bytes[..length]), Ok(Some(number)));
                assert_eq!(read_all(&bytes[..length - 1]), Err("the end"));
            }
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        let mut bytes = [0xFF; 11];
        assert_eq!(read_all(&bytes), Ok(None));
        bytes[9] = 2;
        assert_eq!(read_all(&bytes), Ok(None));
        bytes[9] = 1;
        assert_eq!(read_all(&bytes), Ok(Some(u64::MAX)));
    }
}
