//! Comparison, minimum, maximum, classification: nothing is rounded.

use super::{Format, NV};

/// Bits as a number that orders like the value they stand for; both zeros are 0. Not for NaN.
fn ordered(format: Format, bits: u64) -> i64 {
    let magnitude = (bits & (format.sign_bit() - 1)) as i64;
    if bits & format.sign_bit() != 0 { -magnitude } else { magnitude }
}

/// FEQ: quiet, invalid only for signalling NaN.
pub fn equal(format: Format, a: u64, b: u64, flags: &mut u8) -> bool {
    if format.is_nan(a) || format.is_nan(b) {
        if format.is_signaling(a) || format.is_signaling(b) {
            *flags |= NV;
        }
        return false;
    }
    ordered(format, a) == ordered(format, b)
}

/// FLT: invalid for every NaN.
pub fn less(format: Format, a: u64, b: u64, flags: &mut u8) -> bool {
    if format.is_nan(a) || format.is_nan(b) {
        *flags |= NV;
        return false;
    }
    ordered(format, a) < ordered(format, b)
}

/// FLE: invalid for every NaN.
pub fn less_or_equal(format: Format, a: u64, b: u64, flags: &mut u8) -> bool {
    if format.is_nan(a) || format.is_nan(b) {
        *flags |= NV;
        return false;
    }
    ordered(format, a) <= ordered(format, b)
}

/// FMIN (or FMAX): the number if the other is a NaN; −0 is less than +0.
pub fn minimum(format: Format, a: u64, b: u64, maximum: bool, flags: &mut u8) -> u64 {
    if format.is_signaling(a) || format.is_signaling(b) {
        *flags |= NV;
    }
    match (format.is_nan(a), format.is_nan(b)) {
        (true, true) => format.nan(),
        (true, false) => b,
        (false, true) => a,
        (false, false) => {
            let key = |bits| (ordered(format, bits), bits & format.sign_bit() == 0);
            if (key(a) < key(b)) != maximum { a } else { b }
        }
    }
}

/// FCLASS: one bit of ten.
pub fn classify(format: Format, bits: u64) -> u64 {
    let negative = bits & format.sign_bit() != 0;
    let magnitude = bits & (format.sign_bit() - 1);
    let class = if format.is_signaling(bits) {
        8
    } else if format.is_nan(bits) {
        9
    } else {
        // From zero outwards.
        let distance = match magnitude {
            0 => 0,
            m if m == format.infinity() => 3,
            m if m >> format.fraction == 0 => 1,
            _ => 2,
        };
        if negative { 3 - distance } else { 4 + distance }
    };
    1 << class
}
