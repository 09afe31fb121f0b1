//! Payload fields, read from a slice that may end in the middle of one.

use backsight_core::Security;

use crate::etm4::Context;

use super::super::{AddressForm, Is};

/// Why a packet could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bytes end before the packet does.
    Incomplete,
    /// A field goes on beyond its greatest length; the packet ends with the byte at this length.
    TooLong(usize),
}

/// A reader over the bytes of a packet.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Address bits as a packet gives them.
pub(super) struct Low {
    pub value: u64,
    pub bits: u32,
    pub form: AddressForm,
}

impl<'a> Fields<'a> {
    /// Begins behind the header.
    #[inline]
    pub const fn new(packet: &'a [u8]) -> Self {
        Self { bytes: packet, at: 1 }
    }

    /// How many bytes were read, header included.
    #[inline]
    pub const fn length(&self) -> usize {
        self.at
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, Stop> {
        let byte = *self.bytes.get(self.at).ok_or(Stop::Incomplete)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let array = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk).ok_or(Stop::Incomplete)?;
        self.at += N;
        Ok(*array)
    }

    /// A field of at most `limit` bytes: seven bits in each, lowest first; bit 7 says that it goes on. Bits beyond
    /// the 32nd are lost.
    #[inline]
    pub fn continued(&mut self, limit: usize) -> Result<u32, Stop> {
        let mut value = 0;
        for index in 0..limit {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7F) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Stop::TooLong(self.at))
    }

    /// The sections of a Trace Info: the first byte, and all bytes up to one without bit 7.
    pub fn control(&mut self, limit: usize) -> Result<u8, Stop> {
        let first = self.byte()?;
        let mut last = first;
        for _ in 1..limit {
            if last & 0x80 == 0 {
                break;
            }
            last = self.byte()?;
        }
        if last & 0x80 == 0 { Ok(first) } else { Err(Stop::TooLong(self.at)) }
    }

    /// A timestamp: its bits, and how many bytes. Eight bytes of seven bits, a ninth of eight.
    #[inline]
    pub fn timestamp(&mut self) -> Result<(u64, u8), Stop> {
        let mut value = 0;
        for index in 0..8 {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok((value, index + 1));
            }
        }
        Ok((value | u64::from(self.byte()?) << 56, 9))
    }

    #[inline]
    pub fn short(&mut self, is: Is) -> Result<Low, Stop> {
        let shift = alignment(is);
        let first = self.byte()?;
        let value = u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Ok(Low { value, bits: 7 + shift, form: AddressForm::Short1 });
        }
        let value = value | u64::from(self.byte()?) << (7 + shift);
        Ok(Low { value, bits: 15 + shift, form: AddressForm::Short2 })
    }

    #[inline]
    pub fn long32(&mut self, is: Is) -> Result<Low, Stop> {
        let low = u32::from_le_bytes(self.array()?);
        Ok(Low { value: long(low.into(), is), bits: 32, form: AddressForm::Long32 })
    }

    #[inline]
    pub fn long64(&mut self, is: Is) -> Result<Low, Stop> {
        let all = u64::from_le_bytes(self.array()?);
        Ok(Low { value: long(all, is), bits: 64, form: AddressForm::Long64 })
    }

    /// The information byte, then VMID and context ID where it says that they are there.
    pub fn context(&mut self, vmid_bytes: u8, context_id_bytes: u8) -> Result<Context, Stop> {
        let info = self.byte()?;
        let security = match (info >> 3 & 1, info >> 5 & 1) {
            (0, 0) => Security::Secure,
            (0, _) => Security::NonSecure,
            (_, 0) => Security::Root,
            (_, _) => Security::Realm,
        };
        let vmid = if info & 0x40 != 0 { Some(self.number(vmid_bytes)?) } else { None };
        let context_id = if info & 0x80 != 0 { Some(self.number(context_id_bytes)?) } else { None };
        Ok(Context { level: info & 3, security, wide: info & 0x10 != 0, vmid, context_id })
    }

    /// A number of 0 to 4 bytes.
    fn number(&mut self, bytes: u8) -> Result<u32, Stop> {
        let mut value = 0;
        for index in 0..u32::from(bytes) {
            value |= u32::from(self.byte()?) << (8 * index);
        }
        Ok(value)
    }
}

/// Zero bits at the bottom of an address.
const fn alignment(is: Is) -> u32 {
    match is {
        Is::Is0 => 2,
        Is::Is1 => 1,
    }
}

/// Long addresses have bit 7 of their first byte (IS0: of the first two) unused: closes the gaps.
#[inline]
const fn long(raw: u64, is: Is) -> u64 {
    match is {
        Is::Is0 => (raw & 0x7F) << 2 | (raw & 0x7F00) << 1 | raw & !0xFFFF,
        Is::Is1 => (raw & 0x7F) << 1 | raw & !0xFF,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_stops_at_its_limit() {
        let bytes = [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
        assert_eq!(Fields::new(&bytes).continued(5), Ok(u32::MAX));
        assert_eq!(Fields::new(&bytes).continued(3), Err(Stop::TooLong(4)));
        assert_eq!(Fields::new(&bytes[..3]).continued(5), Err(Stop::Incomplete));
        assert_eq!(Fields::new(&[0, 0x80, 0x01]).control(2), Ok(0x80));
        assert_eq!(Fields::new(&[0, 0x80, 0x81]).control(2), Err(Stop::TooLong(3)));
    }

    #[test]
    fn the_ninth_timestamp_byte_has_eight_bits() {
        assert_eq!(
            Fields::new(&[2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]).timestamp(),
            Ok((u64::MAX, 9))
        );
        assert_eq!(Fields::new(&[2, 0xD7, 0xDF, 0x01]).timestamp(), Ok((0x6FD7, 3)));
    }
}
