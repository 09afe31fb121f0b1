//! Where the host's floating point may stand in for ours.
//!
//! The result to nearest even is the host's. The flags are the difficulty; but once a program has raised
//! "inexact", which nearly every one does at once and never clears, an operation whose result is an ordinary
//! number can raise nothing new: it is not invalid, nothing overflowed, and above the smallest normal number
//! nothing underflowed.

use super::{NX, Rounding};

/// The host's `f64`, if it must equal ours, flags included.
#[inline]
pub fn double(result: f64, rounding: Rounding, flags: u8) -> Option<u64> {
    let ordinary = result.abs() > f64::MIN_POSITIVE && result.abs() < f64::INFINITY;
    (rounding == Rounding::NearestEven && flags & NX != 0 && ordinary).then_some(result.to_bits())
}

/// The host's `f32`, if it must equal ours, flags included.
#[inline]
pub fn single(result: f32, rounding: Rounding, flags: u8) -> Option<u64> {
    let ordinary = result.abs() > f32::MIN_POSITIVE && result.abs() < f32::INFINITY;
    (rounding == Rounding::NearestEven && flags & NX != 0 && ordinary).then_some(u64::from(result.to_bits()))
}
