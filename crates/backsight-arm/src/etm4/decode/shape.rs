//! The shapes of addresses in packets, as masks.
//!
//! Addresses are the commonest packets after atoms, and their forms follow one another at random: a branch for
//! each form would be mispredicted all the time. So each form is a row of numbers, and all are read by the same
//! arithmetic on the eight bytes that follow the header.
//!
//! ```text
//!              byte 0        byte 1        bytes 2 …
//! short IS0    C, A[8:2]     A[16:9]
//! short IS1    C, A[7:1]     A[15:8]
//! long  IS0    0, A[8:2]     0, A[15:9]    A[23:16] …
//! long  IS1    0, A[7:1]     A[15:8]       A[23:16] …
//! ```

use super::super::{AddressForm, Is};

/// How to make an address out of payload bytes and an entry of the history. The payload is read as a little-endian
/// number and moved to where it would be for IS0 and for IS1; masks say what of it is meant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Address bits from the first two bytes, if this is IS0 or IS1.
    is0: u64,
    is1: u64,
    /// Address bits from the bytes after them.
    rest: u64,
    /// Address bits from the history entry, and which entry.
    keep: u64,
    pub entry: u8,
    /// Instruction set flag; an exact match has that of its entry, and `keep_is`.
    pub is: Is,
    pub keep_is: bool,
    pub form: AddressForm,
}

impl Shape {
    /// The address that the payload says.
    #[inline(always)]
    pub const fn address(&self, payload: u64, entry: u64) -> u64 {
        let first = payload & 0x7F;
        let second = payload & 0xFF00;
        (first << 2 | second << 1) & self.is0
            | (first << 1 | second) & self.is1
            | payload & self.rest
            | entry & self.keep
    }

    const fn exact(index: u8) -> Self {
        let form = AddressForm::Exact(index);
        Self { is0: 0, is1: 0, rest: 0, keep: !0, entry: index, is: Is::Is0, keep_is: true, form }
    }

    const fn short(is: Is, form: AddressForm) -> Self {
        let two = matches!(form, AddressForm::Short2);
        let bits = match is {
            Is::Is0 if two => 17,
            Is::Is0 => 9,
            Is::Is1 if two => 16,
            Is::Is1 => 8,
        };
        Self::new(is, form, (1 << bits) - 1, 0, !0 << bits)
    }

    const fn long(is: Is, form: AddressForm, wide: bool) -> Self {
        let all = matches!(form, AddressForm::Long64);
        // In AArch32 state addresses have no upper half.
        let keep = if all || !wide { 0 } else { !0 << 32 };
        Self::new(is, form, 0xFFFF, if all { !0xFFFF } else { 0xFFFF_0000 }, keep)
    }

    const fn new(is: Is, form: AddressForm, low: u64, rest: u64, keep: u64) -> Self {
        let (is0, is1) = match is {
            Is::Is0 => (low, 0),
            Is::Is1 => (0, low),
        };
        Self { is0, is1, rest, keep, entry: 0, is, keep_is: false, form }
    }
}

/// The shapes of one processor state. A short address of two bytes comes behind the one of one byte; the rest of
/// the array only makes its length a power of two.
pub(super) type Shapes = [Shape; 16];

const fn shapes(wide: bool) -> Shapes {
    let mut shapes = [Shape::exact(0); 16];
    shapes[1] = Shape::exact(1);
    shapes[2] = Shape::exact(2);
    shapes[3] = Shape::short(Is::Is0, AddressForm::Short1);
    shapes[4] = Shape::short(Is::Is0, AddressForm::Short2);
    shapes[5] = Shape::short(Is::Is1, AddressForm::Short1);
    shapes[6] = Shape::short(Is::Is1, AddressForm::Short2);
    shapes[7] = Shape::long(Is::Is0, AddressForm::Long32, wide);
    shapes[8] = Shape::long(Is::Is1, AddressForm::Long32, wide);
    shapes[9] = Shape::long(Is::Is0, AddressForm::Long64, wide);
    shapes[10] = Shape::long(Is::Is1, AddressForm::Long64, wide);
    shapes
}

/// In AArch32 and in AArch64 state.
pub(super) static SHAPES: [Shapes; 2] = [shapes(false), shapes(true)];

/// The shape of an Address packet by its header.
pub(super) const fn of_header(header: u8) -> u8 {
    match header {
        0x90..=0x92 => header - 0x90,
        0x95 => 3,
        0x96 => 5,
        0x9A => 7,
        0x9B => 8,
        0x9D => 9,
        _ => 10,
    }
}
