//! Lanes by plain arithmetic on arrays, which the compiler does for as many bytes at once as it has vectors for.

use super::{ALONE, BYTE, LANES, Lanes, NO_TIMES, READ, TIMESTAMPS, VECTOR};
use crate::etm4::fast::forms::{
    BESIDE, COUNT_BYTES, COUNT_F1, COUNT_F2, HEADER_BITS, TIMESTAMP, TIMESTAMP_BYTES,
};
use crate::etm4::fast::headers::{self, address, is_alone, one_of};

/// What is worked out in passes.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Passes {
    steps: Steps,
    /// How long is a count field that begins here, up to one byte more than is allowed?
    fields: Steps,
    /// How many bytes of a timestamp that go on begin here, and how long is the field after the last byte? Bytes that go on
    /// are passed over as packets are that are a header alone.
    stamps: Steps,
}

/// A step, or something like it, for each byte.
type Steps = [u8; LANES + VECTOR];

impl Passes {
    pub const EMPTY: Self =
        Self { steps: [0; LANES + VECTOR], fields: [0; LANES + VECTOR], stamps: [0; LANES + VECTOR] };
}

impl Lanes {
    /// Works them out in passes.
    #[inline(always)]
    pub(super) fn by_passes<const HAS_SOURCES: bool, const TIMES: u8>(
        &mut self,
        bytes: &[u8; READ],
        counts: bool,
    ) {
        let Passes { steps, fields, stamps } = &mut self.passes;
        if TIMES != NO_TIMES {
            put_fields(bytes, fields);
        }
        if TIMES == TIMESTAMPS {
            put_stamps(bytes, fields, stamps);
        }
        let counts = if counts { 0xFF } else { 0 };
        let (headers, next) = (from::<LANES>(bytes, 0), from::<LANES>(bytes, 1));
        for at in 0..LANES {
            let header = headers[at];
            let (mut length, mut form) = address::<HAS_SOURCES>(header, next[at]);
            if TIMES != NO_TIMES {
                let field = fields[at + 1];
                let is_allowed = if field <= COUNT_BYTES { 0xFF } else { 0 };
                let is_count = one_of(header, headers::KNOWN_COUNT) & counts & is_allowed;
                let is_short = one_of(header, headers::SHORT_COUNT.0) & counts;
                length |= is_count & (1 + field) | is_short & (1 + headers::SHORT_COUNT.1);
                // Headers that introduce counts introduce no addresses.
                form = form & !(is_count | is_short)
                    | is_count & (COUNT_F1 + field)
                    | is_short & (COUNT_F2 | header & HEADER_BITS);
            }
            if TIMES == TIMESTAMPS {
                let (goes_on, after) = (stamps[at + 1] & ALONE, stamps[at + 1] / BYTE);
                let beside = after & one_of(header, headers::WITH_CYCLES);
                let is_too_long = goes_on >= TIMESTAMP_BYTES || beside > COUNT_BYTES;
                let is_stamp = one_of(header, headers::TIMESTAMPS) & if is_too_long { 0 } else { 0xFF };
                length |= is_stamp & (2 + goes_on + beside);
                form = form & !is_stamp | is_stamp & (TIMESTAMP + goes_on + beside * BESIDE);
            }
            steps[at] = length * BYTE + u8::from(is_alone(header));
            self.form[at] = form;
        }
        further::<1, 1>(steps);
        further::<2, 2>(steps);
        further::<4, 4>(steps);
        further::<8, 7>(steps);
        for ((step, to), over) in steps.iter().zip(&mut self.to).zip(&mut self.over) {
            *to = step & ALONE;
            *over = *to + step / BYTE;
        }
    }
}

#[inline(always)]
fn put_fields(bytes: &[u8; READ], fields: &mut Steps) {
    const AHEAD: usize = LANES + VECTOR;
    let (first, second, third) = (from::<AHEAD>(bytes, 0), from::<AHEAD>(bytes, 1), from::<AHEAD>(bytes, 2));
    for at in 0..AHEAD {
        let has_second = first[at] >> 7;
        let has_third = second[at] >> 7 & has_second;
        let has_fourth = third[at] >> 7 & has_third;
        fields[at] = 1 + has_second + has_third + has_fourth;
    }
}

#[inline(always)]
fn put_stamps(bytes: &[u8; READ], fields: &Steps, stamps: &mut Steps) {
    for at in 0..LANES {
        let goes_on = if bytes[at] >= 0x80 { 0xFF } else { 0 };
        stamps[at] = goes_on & 1 | !goes_on & (fields[at + 1] * BYTE);
    }
    further::<1, 1>(stamps);
    further::<2, 2>(stamps);
    further::<4, 4>(stamps);
}

/// A caller that passes over `ALL` goes on with the step that begins `BY` later. The last few are not right: nobody asks for them.
#[inline(always)]
fn further<const ALL: u8, const BY: usize>(steps: &mut Steps) {
    for at in 0..LANES {
        let later = steps[at + BY] + BY as u8;
        let all = if steps[at] == ALL { 0xFF } else { 0 };
        steps[at] = later & all | steps[at] & !all;
    }
}

/// The bytes from a position on. There are enough of them.
#[inline(always)]
fn from<const N: usize>(bytes: &[u8; READ], at: usize) -> &[u8; N] {
    const { assert!(N + 16 <= READ) };
    bytes.get(at..).and_then(<[u8]>::first_chunk).unwrap_or(&[0; N])
}
