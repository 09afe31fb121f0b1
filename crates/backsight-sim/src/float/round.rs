//! Rounding of every result, and the flags that it raises.

use super::{Format, NX, Number, OF, Rounding, UF};

/// Does a number between two neighbours go to the one of larger magnitude? `odd`: the smaller is odd.
/// `half` and `rest`: the first bit that was cut off, and whether any other was set.
pub(super) fn goes_up(rounding: Rounding, negative: bool, odd: bool, half: bool, rest: bool) -> bool {
    match rounding {
        Rounding::NearestEven => half && (rest || odd),
        Rounding::NearestAway => half,
        Rounding::Zero => false,
        Rounding::Down => negative && (half || rest),
        Rounding::Up => !negative && (half || rest),
    }
}

/// `value >> shift`, rounded, and whether it is inexact. `sticky`: the value is a little larger than it says.
pub(super) fn shift_round(
    value: u128,
    shift: u32,
    sticky: bool,
    rounding: Rounding,
    negative: bool,
) -> (u128, bool) {
    let (kept, half, rest) = match shift {
        0 => (value, false, sticky),
        1..=127 => {
            let lost = value & ((1 << shift) - 1);
            let half = 1 << (shift - 1);
            (value >> shift, lost & half != 0, lost & (half - 1) != 0 || sticky)
        }
        128 => (0, value >> 127 != 0, value << 1 != 0 || sticky),
        _ => (0, false, value != 0 || sticky),
    };
    let up = goes_up(rounding, negative, kept & 1 != 0, half, rest);
    (kept + u128::from(up), half || rest)
}

/// The bits of `number` in `format`. `sticky`: its magnitude is larger than it says, by less than one unit of
/// its significand; the significand then has more bits than the format. It is never 0.
pub(super) fn round(format: Format, number: Number, sticky: bool, rounding: Rounding, flags: &mut u8) -> u64 {
    let Number { negative, exponent, significand } = number;
    let leading = exponent + 127 - significand.leading_zeros() as i32;
    let fraction = format.fraction as i32;
    let unit = leading.max(format.smallest()) - fraction;
    let cut = |unit: i32| {
        if unit <= exponent {
            (significand << (exponent - unit), sticky)
        } else {
            shift_round(significand, (unit - exponent) as u32, sticky, rounding, negative)
        }
    };
    let (rounded, inexact) = cut(unit);
    if inexact {
        *flags |= NX;
        // Tiny means: below the smallest normal number even when rounded as if the exponent had no limit.
        let tiny = leading < format.smallest()
            && !(leading == format.smallest() - 1 && cut(leading - fraction).0 == 1 << (format.fraction + 1));
        if tiny {
            *flags |= UF;
        }
    }
    // A carry out of the fraction moves into the exponent field by itself; so does the step from the largest
    // subnormal number to the smallest normal one.
    let biased = (unit + fraction + format.bias()) as u64;
    let magnitude = (rounded as u64).wrapping_add((biased - 1) << format.fraction);
    if biased > format.exponent_mask() || magnitude >= format.infinity() {
        return overflow(format, negative, rounding, flags);
    }
    format.signed(negative, magnitude)
}

fn overflow(format: Format, negative: bool, rounding: Rounding, flags: &mut u8) -> u64 {
    *flags |= OF | NX;
    let to_infinity = match rounding {
        Rounding::NearestEven | Rounding::NearestAway => true,
        Rounding::Zero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    };
    format.signed(negative, format.infinity() - u64::from(!to_infinity))
}
