//! Conversions between formats and integers.

use super::round::{round, shift_round};
use super::{Format, NV, NX, Number, Rounding, Value, propagate, unpack};

/// An integer type of FCVT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// 32 or 64.
    pub bits: u32,
    /// Two's complement.
    pub signed: bool,
}

impl Integer {
    /// The integer type of the rs2 field of FCVT: W, WU, L, LU.
    pub fn from_field(field: u32) -> Self {
        Self { bits: if field & 2 == 0 { 32 } else { 64 }, signed: field & 1 == 0 }
    }

    fn limits(self) -> (i128, i128) {
        if self.signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }

    /// The register contents: 32-bit results are sign-extended, the unsigned ones too.
    fn in_register(self, value: i128) -> u64 {
        if self.bits == 32 { value as i32 as u64 } else { value as u64 }
    }
}

/// Rounds to an integer. Out of range: the nearest limit and the invalid flag; a NaN counts as plus infinity.
pub fn to_integer(format: Format, a: u64, kind: Integer, rounding: Rounding, flags: &mut u8) -> u64 {
    let (low, high) = kind.limits();
    let number = match unpack(format, a) {
        Value::Zero(_) => return 0,
        Value::Finite(number) => number,
        Value::Infinity(true) => {
            *flags |= NV;
            return kind.in_register(low);
        }
        Value::Infinity(false) | Value::Nan => {
            *flags |= NV;
            return kind.in_register(high);
        }
    };
    let (magnitude, inexact) = if number.exponent >= 0 {
        // 53 bits shifted by 70 are out of every range.
        (number.significand << number.exponent.min(70), false)
    } else {
        let shift = number.exponent.unsigned_abs();
        shift_round(number.significand, shift, false, rounding, number.negative)
    };
    let value = if number.negative { -(magnitude as i128) } else { magnitude as i128 };
    if value < low || value > high {
        *flags |= NV;
        return kind.in_register(value.clamp(low, high));
    }
    if inexact {
        *flags |= NX;
    }
    kind.in_register(value)
}

/// The number nearest to an integer in a register.
pub fn from_integer(format: Format, register: u64, kind: Integer, rounding: Rounding, flags: &mut u8) -> u64 {
    let value = match (kind.bits, kind.signed) {
        (32, true) => i128::from(register as i32),
        (32, false) => i128::from(register as u32),
        (_, true) => i128::from(register as i64),
        (_, false) => i128::from(register),
    };
    if value == 0 {
        return 0;
    }
    let number = Number { negative: value < 0, exponent: 0, significand: value.unsigned_abs() };
    round(format, number, false, rounding, flags)
}

/// From one format to another.
pub fn between(from: Format, to: Format, a: u64, rounding: Rounding, flags: &mut u8) -> u64 {
    match unpack(from, a) {
        Value::Nan => {
            propagate(from, &[a], flags);
            to.nan()
        }
        Value::Infinity(negative) => to.signed(negative, to.infinity()),
        Value::Zero(negative) => to.signed(negative, 0),
        Value::Finite(number) => round(to, number, false, rounding, flags),
    }
}
