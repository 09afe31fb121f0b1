//! Digits of numbers. A listing writes several in each of millions of lines: the general way to format is too slow for that.

/// The digits of a decimal number.
#[derive(Default)]
pub(super) struct Decimal([u8; 20]);

/// The digits of all numbers below a hundred.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

impl Decimal {
    /// Those of `number`.
    pub fn of(&mut self, number: u64) -> &str {
        std::str::from_utf8(self.bytes_of(number)).unwrap_or_default()
    }

    /// The same as bytes.
    #[inline]
    pub fn bytes_of(&mut self, mut number: u64) -> &[u8] {
        let mut first = self.0.len();
        while number >= 10 {
            first -= 2;
            self.0[first..first + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
            number /= 100;
        }
        if number > 0 || first == self.0.len() {
            first -= 1;
            self.0[first] = b'0' + number as u8;
        }
        &self.0[first..]
    }
}

/// The digits of a number below ten thousand, and how many there are: the first bytes of the array.
#[inline(always)]
pub(super) fn short_decimal(number: u64) -> Option<([u8; 4], usize)> {
    let ([first, second], [third, fourth]) =
        (*PAIRS.get((number / 100) as usize)?, *PAIRS.get((number % 100) as usize)?);
    let zeros = usize::from(number < 10) + usize::from(number < 100) + usize::from(number < 1000);
    let digits = u32::from_le_bytes([first, second, third, fourth]) >> (8 * zeros);
    Some((digits.to_le_bytes(), 4 - zeros))
}

/// Writes a decimal number. Most numbers of a listing are short: those need no loop.
#[inline]
pub(super) fn write_decimal(out: &mut Vec<u8>, number: u64) {
    let (hundreds, rest) = ((number / 100) as usize, (number % 100) as usize);
    match number {
        0..10 => out.push(b'0' + number as u8),
        10..100 => out.extend_from_slice(&PAIRS[rest]),
        100..1000 => out.extend_from_slice(&[b'0' + hundreds as u8, PAIRS[rest][0], PAIRS[rest][1]]),
        1000..10_000 => {
            let ([first, second], [third, fourth]) = (PAIRS[hundreds], PAIRS[rest]);
            out.extend_from_slice(&[first, second, third, fourth]);
        }
        _ => out.extend_from_slice(Decimal::default().bytes_of(number)),
    }
}

/// The two digits of a byte.
pub(super) fn hexadecimal(byte: u8) -> [u8; 2] {
    let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
    [digit(byte >> 4), digit(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_have_the_digits_that_formatting_gives() {
        let mut digits = Decimal::default();
        for number in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([
            9,
            10,
            99,
            100,
            101,
            999,
            1000,
            u64::MAX,
        ]) {
            assert_eq!(digits.of(number), number.to_string());
            assert_eq!(digits.bytes_of(number), number.to_string().as_bytes());
            let mut written = Vec::new();
            write_decimal(&mut written, number);
            assert_eq!(written, number.to_string().as_bytes());
            let short = short_decimal(number).map(|(digits, length)| digits[..length].to_vec());
            assert_eq!(short, (number < 10_000).then_some(written));
        }
        assert_eq!(hexadecimal(0x0F), *b"0f");
    }
}
