//! IEEE 754 arithmetic as RISC-V defines it: exact results, flags and rounding for every operand.
//!
//! Values travel as bits. A number is taken apart into `significand × 2^exponent`, the operation is done exactly
//! in 128-bit integers (what falls off the low end is remembered as "sticky"), and [`round`](round::round) puts
//! the result together, raising the flags. The host's floating point is used only where it cannot differ:
//! see [`fast`].

pub mod arithmetic;
pub mod compare;
pub mod convert;
pub mod fast;
mod round;

/// Invalid operation.
pub const NV: u8 = 16;
/// Division by zero.
pub const DZ: u8 = 8;
/// Overflow.
pub const OF: u8 = 4;
/// Underflow: tiny after rounding, and inexact.
pub const UF: u8 = 2;
/// Inexact.
pub const NX: u8 = 1;

/// A rounding mode, numbered as in `frm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To nearest, ties to even.
    NearestEven,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
    /// To nearest, ties away from zero.
    NearestAway,
}

impl Rounding {
    /// The mode of a 3-bit field, `None` for the reserved values and "dynamic".
    pub fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            0 => Self::NearestEven,
            1 => Self::Zero,
            2 => Self::Down,
            3 => Self::Up,
            4 => Self::NearestAway,
            _ => return None,
        })
    }
}

/// A binary interchange format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the fraction field.
    pub fraction: u32,
    /// Bits of the exponent field.
    pub exponent: u32,
}

/// binary32.
pub const SINGLE: Format = Format { fraction: 23, exponent: 8 };
/// binary64.
pub const DOUBLE: Format = Format { fraction: 52, exponent: 11 };

impl Format {
    const fn exponent_mask(self) -> u64 {
        (1 << self.exponent) - 1
    }

    const fn fraction_mask(self) -> u64 {
        (1 << self.fraction) - 1
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// Exponent of the smallest normal number.
    const fn smallest(self) -> i32 {
        1 - self.bias()
    }

    /// The sign bit, alone.
    pub const fn sign_bit(self) -> u64 {
        1 << (self.fraction + self.exponent)
    }

    /// Plus infinity; the sign bit makes it minus infinity.
    pub const fn infinity(self) -> u64 {
        self.exponent_mask() << self.fraction
    }

    /// The canonical NaN: the only one an operation produces.
    pub const fn nan(self) -> u64 {
        self.infinity() | 1 << (self.fraction - 1)
    }

    /// Is it a NaN?
    pub const fn is_nan(self, bits: u64) -> bool {
        bits & !self.sign_bit() > self.infinity()
    }

    /// Is it a NaN that raises the invalid flag?
    pub const fn is_signaling(self, bits: u64) -> bool {
        self.is_nan(bits) && bits & 1 << (self.fraction - 1) == 0
    }

    const fn signed(self, negative: bool, bits: u64) -> u64 {
        if negative { self.sign_bit() | bits } else { bits }
    }
}

/// `significand × 2^exponent`.
#[derive(Clone, Copy, Debug)]
struct Number {
    negative: bool,
    exponent: i32,
    significand: u128,
}

/// What bits stand for.
#[derive(Clone, Copy, Debug)]
enum Value {
    Nan,
    Infinity(bool),
    Zero(bool),
    /// Not zero; the significand may have leading zeros (subnormal numbers).
    Finite(Number),
}

fn unpack(format: Format, bits: u64) -> Value {
    let negative = bits & format.sign_bit() != 0;
    let fraction = bits & format.fraction_mask();
    let exponent = bits >> format.fraction & format.exponent_mask();
    if exponent == format.exponent_mask() {
        return if fraction == 0 { Value::Infinity(negative) } else { Value::Nan };
    }
    if exponent == 0 && fraction == 0 {
        return Value::Zero(negative);
    }
    let hidden = if exponent == 0 { 0 } else { 1 << format.fraction };
    Value::Finite(Number {
        negative,
        exponent: (exponent.max(1) as i32) - format.bias() - format.fraction as i32,
        significand: u128::from(fraction | hidden),
    })
}

/// The canonical NaN, and the invalid flag if one of the operands is a signalling NaN.
fn propagate(format: Format, operands: &[u64], flags: &mut u8) -> u64 {
    if operands.iter().any(|&bits| format.is_signaling(bits)) {
        *flags |= NV;
    }
    format.nan()
}

fn invalid(format: Format, flags: &mut u8) -> u64 {
    *flags |= NV;
    format.nan()
}
