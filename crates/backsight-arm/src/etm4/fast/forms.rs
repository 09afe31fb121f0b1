//! Values of all forms by the same arithmetic.
//!
//! The forms of addresses, cycle counts and timestamps follow one another at random: a branch for each would be
//! mispredicted all the time. So each form is a row of masks, and all are read by the same operations on the eight bytes
//! that follow the header. A form is a number of seven bits:
//!
//! ```text
//! 000HHHHH   address:         the low four bits of its header; 10000 more for a short address of two bytes
//! 001HHHHH   source address:  likewise
//! 0100NNNN   timestamp of N bytes
//! 0101HHHH   cycle count of format 2: the low four bits of its header
//! 0110NNNN   cycle count of format 1, of N bytes
//! ```

use crate::etm4::{AddressForm, Kind, lookup};

/// How many forms there may be.
pub(super) const FORMS: usize = 128;
/// Added for the second byte of a short address.
pub(super) const SECOND_BYTE: u8 = 0x10;
/// Added for a source address.
pub(super) const SOURCE: u8 = 0x20;
/// Added to the bytes of a timestamp.
pub(super) const TIMESTAMP: u8 = 0x40;
/// Added to the low bits of the header of a cycle count of format 2.
pub(super) const COUNT_F2: u8 = 0x50;
/// Added to the bytes of a cycle count of format 1.
pub(super) const COUNT_F1: u8 = 0x60;
/// The bits of a header that are in a form.
pub(super) const HEADER_BITS: u8 = 0x0F;

/// Bytes of the longest timestamp and of the longest count that are read here.
pub(super) const TIMESTAMP_BYTES: u8 = 8;
pub(super) const COUNT_BYTES: u8 = 3;

/// How to make an address out of payload bytes and the history.
///
/// ```text
///              byte 0        byte 1        bytes 2 …
/// short IS0    C, A[8:2]     A[16:9]
/// short IS1    C, A[7:1]     A[15:8]
/// long  IS0    0, A[8:2]     0, A[15:9]    A[23:16] …
/// long  IS1    0, A[7:1]     A[15:8]       A[23:16] …
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct AddressBits {
    /// The payload bits that belong two bits higher, one bit higher, and where they are.
    bits: [u64; 3],
    /// Address bits from an entry of the history.
    keep: u64,
    /// The instruction set flag, in bit 0; an exact match keeps that of its entry.
    flag: u64,
    /// Which entry of the history: the newest is 1.
    pub entry: u8,
}

impl AddressBits {
    const NONE: Self = Self { bits: [0; 3], keep: 0, flag: 0, entry: 1 };

    const fn new(is1: bool, form: AddressForm) -> Self {
        let (low, rest, keep) = match form {
            AddressForm::Exact(index) => return Self { keep: !0, entry: 1 + index, ..Self::NONE },
            AddressForm::Short1 => (0x7F, 0, !0x1FF),
            AddressForm::Short2 => (0xFF7F, 0, !0x1_FFFF),
            // Bit 7 of the second byte is no address bit in a long address of IS0.
            AddressForm::Long32 => (if is1 { 0xFF7F } else { 0x7F7F }, 0xFFFF_0000, !0 << 32),
            AddressForm::Long64 => (if is1 { 0xFF7F } else { 0x7F7F }, !0xFFFF, 0),
        };
        let is_long = rest != 0;
        let (first, second) = (low & 0x7F, low & 0xFF00);
        let bits = if is1 { [0, first, second | rest] } else { [first, second, rest] };
        let keep = if is1 && !is_long { keep >> 1 | 1 << 63 } else { keep };
        Self { bits, keep, flag: is1 as u64, entry: 1 }
    }

    /// The address that the payload gives, with the flag in bit 0. The entry of the history, on which everything waits,
    /// comes in last.
    #[inline(always)]
    pub const fn address(&self, payload: u64, entry: u64) -> u64 {
        let [two, one, none] = self.bits;
        let sent = (payload & two) * 4 + (payload & one) * 2 + (payload & none);
        (sent | self.flag) | entry & self.keep
    }
}

/// How to make a timestamp or a cycle count out of payload bytes.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct TimeBits {
    /// The bits that count, of bytes with seven each.
    pub bits: u64,
    /// What is kept of the last timestamp.
    pub keep: u64,
    /// What is added: the threshold.
    pub add: u32,
    /// Bytes of the timestamp, after which a count may come.
    pub bytes: u8,
    pub is_timestamp: bool,
}

impl TimeBits {
    const NONE: Self = Self { bits: 0, keep: 0, add: 0, bytes: 0, is_timestamp: false };
}

/// The forms of a configuration.
#[derive(Clone, Debug)]
pub(super) struct Forms {
    pub addresses: [AddressBits; FORMS],
    pub times: [TimeBits; FORMS],
    wide: bool,
    threshold: u32,
}

impl Forms {
    /// Those of a stream at its beginning: in AArch32 state, with a threshold of 0.
    pub fn new() -> Self {
        let mut addresses = [AddressBits::NONE; FORMS];
        let mut times = [TimeBits::NONE; FORMS];
        for header in 0..=255 {
            for second in [false, true] {
                if let Some((form, address, is1)) = address_form(header, second) {
                    addresses[usize::from(form)] = AddressBits::new(is1, address);
                }
            }
        }
        let sevens = |bytes: u8| SEVENS >> (64 - 8 * bytes);
        for bytes in 1..=TIMESTAMP_BYTES {
            let time = &mut times[usize::from(TIMESTAMP + bytes)];
            let (bits, keep) = (sevens(bytes), !0 << (7 * bytes));
            *time = TimeBits { bits, keep, add: 0, bytes, is_timestamp: true };
        }
        let count = |bits| TimeBits { bits, ..TimeBits::NONE };
        for bytes in 1..=COUNT_BYTES {
            times[usize::from(COUNT_F1 + bytes)] = count(sevens(bytes));
        }
        for field in 0..=1 {
            let header = Kind::CycleCountF2.with(field).unwrap_or_default();
            times[usize::from(COUNT_F2 | header & HEADER_BITS)] = count(0xF);
        }
        let mut forms = Self { addresses, times, wide: true, threshold: 0 };
        forms.renew(false, 0);
        forms
    }

    /// Adapts them to the state of the processor and to the threshold.
    #[inline]
    pub fn renew(&mut self, wide: bool, threshold: u32) {
        if self.wide != wide {
            self.wide = wide;
            for kind in [Kind::Address32Is0, Kind::Address32Is1, Kind::Source32Is0, Kind::Source32Is1] {
                if let Some((form, ..)) = address_form(kind.header(), false) {
                    // In AArch32 state addresses have no upper half.
                    self.addresses[usize::from(form)].keep = if wide { !0 << 32 } else { 0 };
                }
            }
        }
        if self.threshold != threshold {
            self.threshold = threshold;
            for form in usize::from(COUNT_F2)..FORMS {
                self.times[form].add = threshold;
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

/// The length of the packets of each form; of timestamps, without the count after them.
pub(super) const LENGTHS: [u8; FORMS] = {
    let mut lengths = [1; FORMS];
    let mut form = 0;
    while form < FORMS {
        lengths[form] += match form as u8 {
            form @ COUNT_F1.. => form - COUNT_F1,
            COUNT_F2.. => 1,
            form @ TIMESTAMP.. => form - TIMESTAMP,
            _ => match COMPRESSED[form] {
                AddressForm::Exact(_) => 0,
                AddressForm::Short1 => 1,
                AddressForm::Short2 => 2,
                AddressForm::Long32 => 4,
                AddressForm::Long64 => 8,
            },
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
