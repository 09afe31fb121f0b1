//! Digits of numbers. A listing writes several in each of millions of lines: the general way to format is too slow for that.

/// The digits of a decimal number.
#[derive(Default)]
pub(super) struct Decimal([u8; 20]);

impl Decimal {
    /// Those of `number`.
    pub fn of(&mut self, mut number: u64) -> &str {
        let mut first = self.0.len();
        for (at, digit) in self.0.iter_mut().enumerate().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            first = at;
            if number == 0 {
                break;
            }
        }
        self.0.get(first..).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default()
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
        for number in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([9, 10, 99, 100, u64::MAX])
        {
            assert_eq!(digits.of(number), number.to_string());
        }
        assert_eq!(hexadecimal(0x0F), *b"0f");
    }
}
