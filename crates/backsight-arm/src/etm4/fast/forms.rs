//! Values of all forms by the same arithmetic.
//!
//! The forms of addresses, cycle counts and timestamps follow one another at random: a branch for each would be
//! mispredicted all the time. So each form is a row of masks, and all are read by the same operations on the eight bytes
//! that follow the header. A form is a number of seven bits:
//!
//! ```text
//! 000HHHHH   address:         the low four bits of its header; 10000 more for a short address of two bytes
//! 001HHHHH   source address:  likewise
//! 01CC0NNN   timestamp of N + 1 bytes, with a count of C bytes beside it
//! 01001NNN   cycle count of format 1, of N bytes
//! 01011HHH   cycle count of format 2: the low three bits of its header
//! ```

use backsight_simd::Instructions;

use super::sevens::{compact, compact_count};
use crate::etm4::{AddressForm, Kind, lookup};

/// How many forms there may be: a row for every byte needs no test.
pub(super) const FORMS: usize = 256;
/// Added for the second byte of a short address.
pub(super) const SECOND_BYTE: u8 = 0x10;
/// Added for a source address.
pub(super) const SOURCE: u8 = 0x20;
/// Added to the bytes of a timestamp less one.
pub(super) const TIMESTAMP: u8 = 0x40;
/// Added to it for each byte of the count beside it.
pub(super) const BESIDE: u8 = 0x10;
/// Added to the bytes of a cycle count of format 1.
pub(super) const COUNT_F1: u8 = 0x48;
/// Added to the low bits of the header of a cycle count of format 2, one of which is 8.
pub(super) const COUNT_F2: u8 = 0x50;
/// The bits of a header that are in a form.
pub(super) const HEADER_BITS: u8 = 0x0F;

/// Bytes of the longest timestamp and of the longest count that are read here.
pub(super) const TIMESTAMP_BYTES: u8 = 8;
pub(super) const COUNT_BYTES: u8 = 3;

/// How to make a value out of payload bytes and what was there before.
///
/// ```text
///              byte 0        byte 1        bytes 2 …
/// short IS0    C, A[8:2]     A[16:9]
/// short IS1    C, A[7:1]     A[15:8]
/// long  IS0    0, A[8:2]     0, A[15:9]    A[23:16] …
/// long  IS1    0, A[7:1]     A[15:8]       A[23:16] …
/// time, count  C, V[6:0]     C, V[13:7]    C, V[20:14] …
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct FormBits {
    /// The payload bits that are sent, next to each other in the value.
    sent: u64,
    /// What is kept of the value before.
    keep: u64,
    /// What is added: the instruction set flag of an address, in bit 0 (an exact match keeps that of its entry); the threshold.
    add: u64,
    /// Where the bits that are sent begin.
    shift: u8,
    /// Which value before: of addresses, the newest is 1.
    pub entry: u8,
    /// Which of them it is among, and is put to.
    pub slots: Slots,
    /// Payload bytes, without a count beside the value.
    pub bytes: u8,
}

/// Where the values of a kind are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    mask: u8,
    base: u8,
}

/// How many slots there are.
pub(super) const SLOTS: usize = 16;

impl Slots {
    /// Of addresses, the last eight.
    pub const ADDRESSES: Self = Self { mask: 7, base: 0 };
    /// Of timestamps, the last.
    pub const TIMESTAMP: Self = Self { mask: 0, base: 8 };
    /// Nobody asks for counts.
    pub const COUNT: Self = Self { mask: 0, base: 9 };

    /// The slot of that one.
    #[inline(always)]
    pub const fn slot(self, number: usize) -> usize {
        ((number & self.mask as usize) + self.base as usize) % SLOTS
    }
}

impl FormBits {
    const NONE: Self = Self { sent: 0, keep: 0, add: 0, shift: 0, entry: 1, slots: Slots::COUNT, bytes: 0 };

    const fn address(is1: bool, form: AddressForm) -> Self {
        // Bit 7 of the second byte is no address bit in a long address of IS0.
        let low = if is1 { 0xFF7F } else { 0x7F7F };
        let shift = if is1 { 1 } else { 2 };
        let (sent, keep, entry) = match form {
            AddressForm::Exact(index) => (0, !0, 1 + index),
            AddressForm::Short1 => (0x7F, !0 << (7 + shift), 1),
            AddressForm::Short2 => (0xFF7F, !0 << (15 + shift), 1),
            AddressForm::Long32 => (0xFFFF_0000 | low, !0 << 32, 1),
            AddressForm::Long64 => (!0xFFFF | low, 0, 1),
        };
        Self { sent, keep, add: is1 as u64, shift, entry, slots: Slots::ADDRESSES, ..Self::NONE }
    }

    /// How many addresses a value of it is: one, or none.
    #[inline(always)]
    pub const fn addresses(&self) -> usize {
        (self.slots.mask & 1) as usize
    }
}

/// The payload bits that are sent, by where they belong: for processors that do not put them together by themselves.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Parts {
    /// Those that belong two bits higher, one bit higher, and where they are.
    bits: [u64; 3],
    /// Those of bytes with seven each.
    sevens: u64,
}

impl Parts {
    const fn new(form: &FormBits) -> Self {
        let sent = form.sent;
        match form.shift {
            0 => Self { bits: [0; 3], sevens: sent },
            1 => Self { bits: [0, sent & 0xFF, sent & !0xFF], sevens: 0 },
            _ => Self { bits: [sent & 0xFF, sent & 0xFF00, sent & !0xFFFF], sevens: 0 },
        }
    }

    #[inline(always)]
    fn put_together<const TIMED: bool>(&self, payload: u64) -> u64 {
        let [two, one, none] = self.bits;
        let address = (payload & two) * 4 + (payload & one) * 2 + (payload & none);
        if TIMED { address | compact(payload & self.sevens) } else { address }
    }
}

/// All forms in AArch64 state, with a threshold of 0.
static FORM_BITS: [FormBits; FORMS] = {
    let mut forms = [FormBits::NONE; FORMS];
    let mut header = 0;
    while header < 256 {
        let mut second = false;
        loop {
            if let Some((form, address, is1)) = address_form(header as u8, second) {
                forms[form as usize] = FormBits::address(is1, address);
            }
            if second {
                break;
            }
            second = true;
        }
        header += 1;
    }
    let mut bytes = 1;
    while bytes <= TIMESTAMP_BYTES {
        let (sent, keep) = (sevens(bytes), !0 << (7 * bytes));
        let form = FormBits { sent, keep, slots: Slots::TIMESTAMP, bytes, ..FormBits::NONE };
        let mut beside = 0;
        while beside <= COUNT_BYTES {
            forms[timestamp(bytes, beside) as usize] = form;
            beside += 1;
        }
        bytes += 1;
    }
    let mut bytes = 1;
    while bytes <= COUNT_BYTES {
        forms[(COUNT_F1 + bytes) as usize].sent = sevens(bytes);
        bytes += 1;
    }
    let mut field = 0;
    while let Some(header) = Kind::CycleCountF2.with(field) {
        forms[(COUNT_F2 | header & HEADER_BITS) as usize].sent = 0xF;
        field += 1;
    }
    forms
};

/// The parts of all forms.
static PARTS: [Parts; FORMS] = {
    let mut parts = [Parts::new(&FormBits::NONE); FORMS];
    let mut form = 0;
    while form < FORMS {
        parts[form] = Parts::new(&FORM_BITS[form]);
        form += 1;
    }
    parts
};

/// The low seven bits of so many bytes.
const fn sevens(bytes: u8) -> u64 {
    SEVENS >> (64 - 8 * bytes)
}

/// The forms of a configuration.
#[derive(Clone, Debug)]
pub(super) struct Forms {
    forms: [FormBits; FORMS],
    /// The bits of the count beside a timestamp.
    counts: [u32; FORMS],
    wide: bool,
    threshold: u32,
}

impl Forms {
    /// Those of a stream at its beginning: in AArch32 state, with a threshold of 0.
    pub fn new(cycle_mask: u32) -> Self {
        let mut counts = [0; FORMS];
        for (bytes, beside) in
            (1..=TIMESTAMP_BYTES).flat_map(|bytes| (0..=COUNT_BYTES).map(move |beside| (bytes, beside)))
        {
            // A counter may have fewer bits.
            for bit in (0..7 * u32::from(beside)).filter(|bit| cycle_mask >> bit & 1 == 1) {
                counts[usize::from(timestamp(bytes, beside))] |= 1 << (bit / 7 * 8 + bit % 7);
            }
        }
        let mut forms = Self { forms: FORM_BITS, counts, wide: true, threshold: 0 };
        forms.renew(false, 0);
        forms
    }

    /// How values of a form are made.
    #[inline(always)]
    pub fn bits(&self, form: u8) -> &FormBits {
        &self.forms[usize::from(form) % FORMS]
    }

    /// The value of a form that the payload gives; one of an address, unless it may be `TIMED`. The value before, on which
    /// everything waits, comes in last.
    #[inline(always)]
    pub fn value<I: Instructions, const TIMED: bool>(&self, form: u8, payload: u64, before: u64) -> u64 {
        let FormBits { sent, shift, add, keep, .. } = *self.bits(form);
        let sent = if I::ARE_THERE {
            I::extract(payload, sent) << shift
        } else {
            PARTS[usize::from(form) % FORMS].put_together::<TIMED>(payload)
        };
        before & keep | (sent + add)
    }

    /// The count beside a timestamp, of the bytes after it.
    #[inline(always)]
    pub fn count<I: Instructions>(&self, form: u8, bytes: u64) -> u32 {
        let bits = self.counts[usize::from(form) % FORMS];
        if I::ARE_THERE { I::extract(bytes, bits.into()) as u32 } else { compact_count(bytes as u32 & bits) }
    }

    /// Adapts them to the state of the processor and to the threshold.
    #[inline]
    pub fn renew(&mut self, wide: bool, threshold: u32) {
        if self.wide != wide {
            self.wide = wide;
            for kind in [Kind::Address32Is0, Kind::Address32Is1, Kind::Source32Is0, Kind::Source32Is1] {
                if let Some((form, ..)) = address_form(kind.header(), false) {
                    // In AArch32 state addresses have no upper half.
                    self.forms[usize::from(form)].keep = if wide { !0 << 32 } else { 0 };
                }
            }
        }
        if self.threshold != threshold {
            self.threshold = threshold;
            for form in self.forms.iter_mut().filter(|form| form.slots == Slots::COUNT) {
                form.add = threshold.into();
            }
        }
    }
}

/// The low seven bits of every byte.
const SEVENS: u64 = 0x7F7F_7F7F_7F7F_7F7F;

/// The form of an address with this header, short ones with their second byte or without it; how it was compressed, and
/// whether its instruction set flag is IS1. `None`: the header introduces no such address.
pub(super) const fn address_form(header: u8, second_byte: bool) -> Option<(u8, AddressForm, bool)> {
    let kind = lookup(header).kind;
    let (form, is1) = match kind {
        Kind::AddressExact | Kind::SourceExact => (AddressForm::Exact(kind.field(header)), false),
        Kind::AddressShortIs0 | Kind::SourceShortIs0 => (AddressForm::Short1, false),
        Kind::AddressShortIs1 | Kind::SourceShortIs1 => (AddressForm::Short1, true),
        Kind::Address32Is0 | Kind::Source32Is0 => (AddressForm::Long32, false),
        Kind::Address32Is1 | Kind::Source32Is1 => (AddressForm::Long32, true),
        Kind::Address64Is0 | Kind::Source64Is0 => (AddressForm::Long64, false),
        Kind::Address64Is1 | Kind::Source64Is1 => (AddressForm::Long64, true),
        _ => return None,
    };
    let (form, second) = match (form, second_byte) {
        (AddressForm::Short1, true) => (AddressForm::Short2, SECOND_BYTE),
        (_, true) => return None,
        _ => (form, 0),
    };
    let source = if header < Kind::SourceExact.header() { 0 } else { SOURCE };
    Some((header & HEADER_BITS | second | source, form, is1))
}

/// How addresses of each form were compressed.
pub(super) const COMPRESSED: [AddressForm; FORMS] = {
    let mut forms = [AddressForm::Long64; FORMS];
    let mut header = 0;
    while header < 256 {
        if let Some((form, address, _)) = address_form(header as u8, false) {
            forms[form as usize] = address;
        }
        if let Some((form, address, _)) = address_form(header as u8, true) {
            forms[form as usize] = address;
        }
        header += 1;
    }
    forms
};

/// The form of a timestamp of so many bytes, with a count of so many beside it.
pub(super) const fn timestamp(bytes: u8, beside: u8) -> u8 {
    TIMESTAMP + bytes - 1 + BESIDE * beside
}

/// What is known of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormKind {
    /// An address or a source address, compressed like this.
    Address(AddressForm),
    /// A timestamp of so many bytes, with a count of so many beside it.
    Timestamp {
        bytes: u8,
        beside: u8,
    },
    CycleCountF1 {
        bytes: u8,
    },
    CycleCountF2,
}

impl FormKind {
    pub const fn new(form: u8) -> Self {
        // Rows beyond the forms, which nobody asks for, are like those of the lower seven bits.
        let form = form % 128;
        match form {
            ..TIMESTAMP => Self::Address(COMPRESSED[form as usize]),
            _ if form & 0x08 == 0 => {
                Self::Timestamp { bytes: 1 + form % 8, beside: (form - TIMESTAMP) / BESIDE }
            }
            COUNT_F2.. => Self::CycleCountF2,
            _ => Self::CycleCountF1 { bytes: form - COUNT_F1 },
        }
    }
}

/// The length of the packets of each form.
pub(super) const LENGTHS: [u8; FORMS] = {
    let mut lengths = [1; FORMS];
    let mut form = 0;
    while form < FORMS {
        lengths[form] += match FormKind::new(form as u8) {
            FormKind::Address(AddressForm::Exact(_)) => 0,
            FormKind::Address(AddressForm::Short1) | FormKind::CycleCountF2 => 1,
            FormKind::Address(AddressForm::Short2) => 2,
            FormKind::Address(AddressForm::Long32) => 4,
            FormKind::Address(AddressForm::Long64) => 8,
            FormKind::Timestamp { bytes, beside } => bytes + beside,
            FormKind::CycleCountF1 { bytes } => bytes,
        };
        form += 1;
    }
    lengths
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_kinds_of_address_have_the_same_form() {
        let mut names = [""; FORMS];
        for header in 0..=255u8 {
            for second in [false, true] {
                if let Some((form, ..)) = address_form(header, second) {
                    assert!(form < TIMESTAMP);
                    assert_eq!(core::mem::replace(&mut names[usize::from(form)], lookup(header).name), "");
                }
            }
        }
        assert_eq!(names.iter().filter(|name| !name.is_empty()).count(), 22);
    }
}
