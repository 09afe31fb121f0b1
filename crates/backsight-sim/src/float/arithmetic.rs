//! Addition, multiplication, fused multiply-add, division, square root.

use super::round::round;
use super::{DZ, Format, NV, Number, Rounding, Value, invalid, propagate, unpack};

/// Where the leading bit of operands is put before they are added: room for a carry above, for guard bits below.
const TOP: u32 = 125;

impl Number {
    /// The same value with its leading bit at [`TOP`].
    fn raised(self) -> Self {
        let shift = self.significand.leading_zeros() as i32 - (127 - TOP as i32);
        Self { significand: self.significand << shift, exponent: self.exponent - shift, ..self }
    }
}

fn zero(format: Format, negative: bool) -> u64 {
    format.signed(negative, 0)
}

/// The sign of an exact zero sum of two numbers of different sign.
fn zero_sum(format: Format, rounding: Rounding) -> u64 {
    zero(format, rounding == Rounding::Down)
}

fn add_numbers(format: Format, a: Number, b: Number, rounding: Rounding, flags: &mut u8) -> u64 {
    let (a, b) = (a.raised(), b.raised());
    let (big, small) =
        if (a.exponent, a.significand) >= (b.exponent, b.significand) { (a, b) } else { (b, a) };
    let distance = (big.exponent - small.exponent) as u32;
    // At most 106 of the 126 bits are in use, so that nothing is cut off where leading bits could cancel.
    let (aligned, sticky) = match distance {
        0 => (small.significand, false),
        1..=127 => (small.significand >> distance, small.significand << (128 - distance) != 0),
        _ => (0, true),
    };
    let significand = if big.negative == small.negative {
        big.significand + aligned
    } else {
        big.significand - aligned - u128::from(sticky)
    };
    if significand == 0 {
        return zero_sum(format, rounding);
    }
    round(format, Number { significand, ..big }, sticky, rounding, flags)
}

/// `a + b`.
pub fn add(format: Format, a: u64, b: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    match (unpack(format, a), unpack(format, b)) {
        (Value::Nan, _) | (_, Value::Nan) => propagate(format, &[a, b], flags),
        (Value::Infinity(s), Value::Infinity(t)) if s != t => invalid(format, flags),
        (Value::Infinity(_), _) => a,
        (_, Value::Infinity(_)) => b,
        (Value::Zero(s), Value::Zero(t)) if s != t => zero_sum(format, rounding),
        (Value::Zero(_), _) => b,
        (_, Value::Zero(_)) => a,
        (Value::Finite(x), Value::Finite(y)) => add_numbers(format, x, y, rounding, flags),
    }
}

/// `a - b`.
pub fn subtract(format: Format, a: u64, b: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    // A NaN keeps its kind when its sign changes.
    add(format, a, b ^ format.sign_bit(), rounding, flags)
}

fn product(x: Number, y: Number) -> Number {
    Number {
        negative: x.negative != y.negative,
        exponent: x.exponent + y.exponent,
        significand: x.significand * y.significand,
    }
}

/// `a × b`.
pub fn multiply(format: Format, a: u64, b: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    let negative = (a ^ b) & format.sign_bit() != 0;
    match (unpack(format, a), unpack(format, b)) {
        (Value::Nan, _) | (_, Value::Nan) => propagate(format, &[a, b], flags),
        (Value::Infinity(_), Value::Zero(_)) | (Value::Zero(_), Value::Infinity(_)) => invalid(format, flags),
        (Value::Infinity(_), _) | (_, Value::Infinity(_)) => format.signed(negative, format.infinity()),
        (Value::Zero(_), _) | (_, Value::Zero(_)) => zero(format, negative),
        (Value::Finite(x), Value::Finite(y)) => round(format, product(x, y), false, rounding, flags),
    }
}

/// `a × b + c`, rounded once.
pub fn multiply_add(format: Format, a: u64, b: u64, c: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    let negative = (a ^ b) & format.sign_bit() != 0;
    let (x, y, z) = (unpack(format, a), unpack(format, b), unpack(format, c));
    match (x, y, z) {
        // Infinity times zero is invalid even when a quiet NaN is added.
        (Value::Infinity(_), Value::Zero(_), _) | (Value::Zero(_), Value::Infinity(_), _) => {
            invalid(format, flags)
        }
        (Value::Nan, ..) | (_, Value::Nan, _) | (.., Value::Nan) => propagate(format, &[a, b, c], flags),
        (Value::Infinity(_), ..) | (_, Value::Infinity(_), _) => match z {
            Value::Infinity(sign) if sign != negative => invalid(format, flags),
            _ => format.signed(negative, format.infinity()),
        },
        (.., Value::Infinity(_)) => c,
        (Value::Zero(_), ..) | (_, Value::Zero(_), _) => match z {
            Value::Zero(sign) if sign != negative => zero_sum(format, rounding),
            _ => c,
        },
        (Value::Finite(x), Value::Finite(y), Value::Zero(_)) => {
            round(format, product(x, y), false, rounding, flags)
        }
        (Value::Finite(x), Value::Finite(y), Value::Finite(z)) => {
            add_numbers(format, product(x, y), z, rounding, flags)
        }
    }
}

/// `a ÷ b`.
pub fn divide(format: Format, a: u64, b: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    let negative = (a ^ b) & format.sign_bit() != 0;
    match (unpack(format, a), unpack(format, b)) {
        (Value::Nan, _) | (_, Value::Nan) => propagate(format, &[a, b], flags),
        (Value::Infinity(_), Value::Infinity(_)) | (Value::Zero(_), Value::Zero(_)) => invalid(format, flags),
        (Value::Infinity(_), _) => format.signed(negative, format.infinity()),
        (Value::Finite(_), Value::Zero(_)) => {
            *flags |= DZ;
            format.signed(negative, format.infinity())
        }
        (Value::Zero(_), _) | (_, Value::Infinity(_)) => zero(format, negative),
        (Value::Finite(x), Value::Finite(y)) => {
            // The dividend has 126 bits, the divisor at most 53: at least 73 bits of quotient.
            let x = x.raised();
            let number = Number {
                negative,
                exponent: x.exponent - y.exponent,
                significand: x.significand / y.significand,
            };
            round(format, number, x.significand % y.significand != 0, rounding, flags)
        }
    }
}

/// `√a`.
pub fn square_root(format: Format, a: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    match unpack(format, a) {
        Value::Nan => propagate(format, &[a], flags),
        Value::Zero(_) | Value::Infinity(false) => a,
        Value::Infinity(true) => invalid(format, flags),
        Value::Finite(x) if x.negative => {
            *flags |= NV;
            format.nan()
        }
        Value::Finite(x) => {
            let mut x = x.raised();
            if x.exponent % 2 != 0 {
                x.significand <<= 1;
                x.exponent -= 1;
            }
            let root = x.significand.isqrt();
            let number = Number { negative: false, exponent: x.exponent / 2, significand: root };
            round(format, number, root * root != x.significand, rounding, flags)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DOUBLE, NX, SINGLE};
    use super::*;
    use proptest::prelude::*;

    const RNE: Rounding = Rounding::NearestEven;

    fn double() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            // Close exponents, so that bits cancel.
            (any::<bool>(), 1020u64..1028, any::<u64>())
                .prop_map(|(s, e, f)| u64::from(s) << 63 | e << 52 | f >> 12),
            (0u64..0x20_0000_0000_0000).prop_map(|f| f >> (f % 52)),
        ]
    }

    fn same(ours: u64, host: f64) -> bool {
        ours == host.to_bits() || (DOUBLE.is_nan(ours) && host.is_nan())
    }

    fn same_single(ours: u64, host: f32) -> bool {
        ours == u64::from(host.to_bits()) || (SINGLE.is_nan(ours) && host.is_nan())
    }

    proptest! {
        #[test]
        fn results_to_nearest_even_are_the_hosts(a in double(), b in double(), c in double()) {
            let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
            let f = &mut 0;
            prop_assert!(same(add(DOUBLE, a, b, RNE, f), x + y));
            prop_assert!(same(subtract(DOUBLE, a, b, RNE, f), x - y));
            prop_assert!(same(multiply(DOUBLE, a, b, RNE, f), x * y));
            prop_assert!(same(divide(DOUBLE, a, b, RNE, f), x / y));
            prop_assert!(same(square_root(DOUBLE, a, RNE, f), x.sqrt()));
            prop_assert!(same(multiply_add(DOUBLE, a, b, c, RNE, f), x.mul_add(y, z)));
        }

        #[test]
        fn single_results_to_nearest_even_are_the_hosts(a: u32, b: u32, c: u32) {
            let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            let (a, b, c) = (a.into(), b.into(), c.into());
            let f = &mut 0;
            prop_assert!(same_single(add(SINGLE, a, b, RNE, f), x + y));
            prop_assert!(same_single(multiply(SINGLE, a, b, RNE, f), x * y));
            prop_assert!(same_single(divide(SINGLE, a, b, RNE, f), x / y));
            prop_assert!(same_single(square_root(SINGLE, a, RNE, f), x.sqrt()));
            prop_assert!(same_single(multiply_add(SINGLE, a, b, c, RNE, f), x.mul_add(y, z)));
        }

        #[test]
        fn directed_roundings_enclose_the_result(a in double(), b in double()) {
            let mut down_flags = 0;
            let down = multiply(DOUBLE, a, b, Rounding::Down, &mut down_flags);
            let up = multiply(DOUBLE, a, b, Rounding::Up, &mut 0);
            let (low, high) = (f64::from_bits(down), f64::from_bits(up));
            if !low.is_nan() {
                prop_assert!(low <= high);
                prop_assert_eq!(low != high, down_flags & NX != 0);
            }
        }
    }
}
