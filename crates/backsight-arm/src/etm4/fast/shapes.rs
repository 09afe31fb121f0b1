//! Addresses of all forms by the same arithmetic.

use super::batch::{ADDRESS, Descriptor, SOURCE_ADDRESS, Tag, form_index};
use crate::etm4::{AddressForm, Is};

/// How to make an address out of payload bytes and the history.
///
/// The forms of addresses follow one another at random: a branch for each would be mispredicted all the time. So each
/// form is a row of masks, and all are read by the same arithmetic on the eight bytes that follow the header.
///
/// ```text
///              byte 0        byte 1        bytes 2 …
/// short IS0    C, A[8:2]     A[16:9]
/// short IS1    C, A[7:1]     A[15:8]
/// long  IS0    0, A[8:2]     0, A[15:9]    A[23:16] …
/// long  IS1    0, A[7:1]     A[15:8]       A[23:16] …
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Address bits from the first two bytes, as they are for IS1, and those of them that IS0 has one bit higher.
    low: u64,
    higher: u64,
    /// Address bits from the bytes after them.
    rest: u64,
    /// Address bits from each entry of the history, the newest first.
    keep: [u64; 3],
    /// The instruction set flag, in bit 0; an exact match keeps that of its entry.
    flag: u64,
    pub descriptor: Descriptor,
}

impl Shape {
    /// The address that the payload gives, with the flag in bit 0. The newest entry, on which everything waits, comes in
    /// last.
    #[inline(always)]
    pub const fn address(&self, payload: u64, [newest, second, third]: [u64; 3]) -> u64 {
        let [keep_newest, keep_second, keep_third] = self.keep;
        let low = ((payload & 0x7F) << 1 | payload & 0xFF00) & self.low;
        let sent = (low + (low & self.higher)) | payload & self.rest;
        let known = sent | self.flag | second & keep_second | third & keep_third;
        known | newest & keep_newest
    }

    const fn new(is: Is, form: AddressForm, wide: bool, tag: Tag) -> Self {
        let is0 = matches!(is, Is::Is0);
        // Bit 7 of the second byte is no address bit in a long address of IS0.
        let long = if is0 { 0x7FFF } else { 0xFFFF };
        let (length, low, rest, keep) = match form {
            AddressForm::Exact(_) => (1, 0, 0, !0),
            AddressForm::Short1 => (2, 0xFF, 0, if is0 { !0x1FF } else { !0xFF }),
            AddressForm::Short2 => (3, 0xFFFF, 0, if is0 { !0x1_FFFF } else { !0xFFFF }),
            // In AArch32 state addresses have no upper half.
            AddressForm::Long32 => (5, long, 0xFFFF_0000, if wide { !0 << 32 } else { 0 }),
            AddressForm::Long64 => (9, long, !0xFFFF, 0),
        };
        let keep = match form {
            AddressForm::Exact(1) => [0, keep, 0],
            AddressForm::Exact(2) => [0, 0, keep],
            _ => [keep, 0, 0],
        };
        Self {
            low,
            higher: if is0 { low } else { 0 },
            rest,
            keep,
            flag: is as u64,
            descriptor: Descriptor::new(tag, length, form_index(form)),
        }
    }
}

/// Shapes in a table: those of addresses, then those of source addresses. There are fewer, but a power of two can be
/// looked up without a check.
pub(super) const SHAPES: u8 = 32;

/// The shapes of one processor state. A short address of two bytes comes after the one of one byte.
const fn shapes(wide: bool) -> [Shape; SHAPES as usize] {
    let mut shapes = [Shape::new(Is::Is0, AddressForm::Exact(0), wide, ADDRESS); SHAPES as usize];
    let mut tag = ADDRESS;
    let mut first = 0;
    while first < shapes.len() {
        shapes[first] = Shape::new(Is::Is0, AddressForm::Exact(0), wide, tag);
        shapes[first + 1] = Shape::new(Is::Is0, AddressForm::Exact(1), wide, tag);
        shapes[first + 2] = Shape::new(Is::Is0, AddressForm::Exact(2), wide, tag);
        shapes[first + 3] = Shape::new(Is::Is0, AddressForm::Short1, wide, tag);
        shapes[first + 4] = Shape::new(Is::Is0, AddressForm::Short2, wide, tag);
        shapes[first + 5] = Shape::new(Is::Is1, AddressForm::Short1, wide, tag);
        shapes[first + 6] = Shape::new(Is::Is1, AddressForm::Short2, wide, tag);
        shapes[first + 7] = Shape::new(Is::Is0, AddressForm::Long32, wide, tag);
        shapes[first + 8] = Shape::new(Is::Is1, AddressForm::Long32, wide, tag);
        shapes[first + 9] = Shape::new(Is::Is0, AddressForm::Long64, wide, tag);
        shapes[first + 10] = Shape::new(Is::Is1, AddressForm::Long64, wide, tag);
        first += shapes.len() / 2;
        tag = SOURCE_ADDRESS;
    }
    shapes
}

/// The shapes in AArch32 and in AArch64 state.
pub(super) static SHAPES_OF: [[Shape; SHAPES as usize]; 2] = [shapes(false), shapes(true)];
