//! Lanes by tables of bytes and vectors that see their neighbours.

use backsight_simd::Bytes;

use super::{ALONE, BYTE, LANES, Lanes, NO_TIMES, READ, TIMESTAMPS, VECTOR};
use crate::etm4::Kind;
use crate::etm4::fast::forms::{COUNT_BYTES, COUNT_F1, SECOND_BYTE, TIMESTAMP, TIMESTAMP_BYTES};
use crate::etm4::fast::headers::{Headers, MAY_GO_ON};

/// A count field of more bytes than are read here.
const TOO_LONG: u8 = (COUNT_BYTES + 1) * BYTE;

impl Lanes {
    /// Works them out in registers, from the end of the region on: how far it is over packets that are a header alone depends
    /// on what follows.
    #[inline(always)]
    pub(super) fn by_registers<B: Bytes, const TIMES: u8>(&mut self, bytes: &[u8; READ], headers: &Headers) {
        let (step_table, form_table) = (B::table(&headers.steps), B::table(&headers.forms));
        let zero = B::splat(0);
        let mut next = Next { steps: [zero; 4], stamps: [zero; 4] };
        let mut at = LANES;
        while at > 0 {
            at -= VECTOR;
            let (header, second) = (from::<B>(bytes, at), from::<B>(bytes, at + 1));
            let mut step = header.look_up(&step_table);
            let mut form = header.look_up(&form_table);
            let goes_on = form.and(second);
            step = goes_on.where_high(step.plus(B::splat(BYTE)), step);
            form = goes_on.where_high(form.plus(B::splat(SECOND_BYTE)), form).and(B::splat(!MAY_GO_ON));
            if TIMES != NO_TIMES {
                let field = field_after(bytes, at, second);
                let length = field.where_equal(B::splat(TOO_LONG), zero, field.plus(B::splat(BYTE)));
                // Only the form says whether it is one.
                let so_far = form;
                step = so_far.where_equal(B::splat(COUNT_F1), length, step);
                form = so_far.where_equal(B::splat(COUNT_F1), form.plus(field.shifted_down()), form);
                if TIMES == TIMESTAMPS {
                    let stamp = next.stamp_after(header.where_high(B::splat(1), field));
                    let bytes = stamp.and(B::splat(ALONE));
                    let field = header.where_equal(
                        B::splat(Kind::TimestampCycles.header()),
                        stamp.and(B::splat(!ALONE)),
                        zero,
                    );
                    let length = bytes.shifted_up().plus(field).plus(B::splat(2 * BYTE));
                    let length = field.where_equal(B::splat(TOO_LONG), zero, length);
                    let length = bytes.where_equal(B::splat(TIMESTAMP_BYTES), zero, length);
                    let so_far = form;
                    step = so_far.where_equal(B::splat(TIMESTAMP), length, step);
                    form = so_far.where_equal(B::splat(TIMESTAMP), form.plus(bytes).plus(field), form);
                }
            }
            let step = next.step(step);
            let to = step.and(B::splat(ALONE));
            put(&mut self.to, at, to);
            put(&mut self.over, at, to.plus(step.shifted_down()));
            put(&mut self.form, at, form);
        }
    }
}

/// How long is the count field after each byte, up to one byte more than is allowed? In units of [`BYTE`].
#[inline(always)]
fn field_after<B: Bytes>(bytes: &[u8; READ], at: usize, first: B) -> B {
    let second = first.and(from::<B>(bytes, at + 2));
    let third = second.and(from::<B>(bytes, at + 3));
    let one = B::splat(BYTE);
    let two = first.where_high(B::splat(2 * BYTE), one);
    let three = second.where_high(B::splat(3 * BYTE), two);
    third.where_high(B::splat(4 * BYTE), three)
}

/// What the vector before needs of one.
struct Next<B> {
    /// Its steps over up to one, two, four and eight packets that are a header alone.
    steps: [B; 4],
    /// Its steps over up to one, two, four and eight bytes of a timestamp that go on, with the field after the last byte.
    stamps: [B; 4],
}

impl<B: Bytes> Next<B> {
    /// Steps over up to [`super::RUN`] packets that are a header alone, out of steps over up to one.
    #[inline(always)]
    fn step(&mut self, one: B) -> B {
        let two = further::<B, 1, 1>(one, self.steps[0]);
        let four = further::<B, 2, 2>(two, self.steps[1]);
        let eight = further::<B, 4, 4>(four, self.steps[2]);
        let all = further::<B, 8, 7>(eight, self.steps[3]);
        self.steps = [one, two, four, eight];
        all
    }

    /// The same for bytes that go on, up to eight, from the byte after each.
    #[inline(always)]
    fn stamp_after(&mut self, one: B) -> B {
        let two = further::<B, 1, 1>(one, self.stamps[0]);
        let four = further::<B, 2, 2>(two, self.stamps[1]);
        let eight = further::<B, 4, 4>(four, self.stamps[2]);
        let after = eight.following::<1>(self.stamps[3]);
        self.stamps = [one, two, four, eight];
        after
    }
}

/// A caller that passes over `ALL` goes on with the step that begins `BY` later.
#[inline(always)]
fn further<B: Bytes, const ALL: u8, const BY: i32>(steps: B, next: B) -> B {
    let later = steps.following::<BY>(next).plus(B::splat(BY as u8));
    steps.where_equal(B::splat(ALL), later, steps)
}

/// The bytes from a position on. There are enough of them.
#[inline(always)]
fn from<B: Bytes>(bytes: &[u8; READ], at: usize) -> B {
    B::load(bytes.get(at..).and_then(<[u8]>::first_chunk).unwrap_or(&[0; VECTOR]))
}

/// Puts bytes where there is room for them.
#[inline(always)]
fn put<B: Bytes>(lanes: &mut [u8], at: usize, bytes: B) {
    if let Some(to) = lanes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        bytes.store(to);
    }
}
