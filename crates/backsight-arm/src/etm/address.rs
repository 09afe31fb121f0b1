//! Instruction addresses, compressed against the one before.
//!
//! ```text
//! byte            ARM        Thumb, ThumbEE   Jazelle
//! 1  C aaaaaa 1   A[7:2]     A[6:1]           A[5:0]
//! 2  C aaaaaaa    A[14:8]    A[13:7]          A[12:6]
//! 3  C aaaaaaa    A[21:15]   A[20:14]         A[19:13]
//! 4  C aaaaaaa    A[28:22]   A[27:21]         A[26:20]
//! 5  0 E 001aaa   A[31:29]
//!    0 E 01aaaa              A[31:28]
//!    0 E 1aaaaa                               A[31:27]
//!    1 K xxxaaa   A[31:29]; the exception form of the first ETMv3: code xxx, K cancels
//! ```
//!
//! C: another byte follows. E: exception information follows. In the alternative encoding (all of PTM, later ETMv3), the
//! last byte of two, three or four has bit 6 as E, and one address bit less. Bits that are not sent are those of the last
//! address, and the instruction set of fewer than five bytes is that of the last address too.

use backsight_core::{Address, Isa};

use super::{Bad, EncodeError, PacketWriter, PayloadReader, Stop};

/// How the last of two to four bytes is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressEncoding {
    /// Seven address bits.
    Original,
    /// A flag and six address bits.
    Alternative,
}

/// Zero bits at the bottom of an address.
pub(crate) const fn shift(isa: Isa) -> u32 {
    match isa {
        Isa::T32 | Isa::ThumbEe => 1,
        Isa::Jazelle => 0,
        _ => 2,
    }
}

/// Address bits as a packet has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressField {
    /// The bits that were sent, without the zeros at the bottom.
    sent: u32,
    /// How many.
    bits: u32,
    /// Bytes, 1 to 5.
    pub bytes: u8,
    /// The instruction set that a fifth byte names; Thumb stands for ThumbEE too.
    pub isa: Option<Isa>,
    /// Exception information follows.
    pub has_information: bool,
    /// The code and the cancel flag of the exception form of the first ETMv3.
    pub exception: Option<(u8, bool)>,
}

impl AddressField {
    /// Reads the address bytes.
    #[inline]
    pub fn read(payload: &mut PayloadReader<'_>, encoding: AddressEncoding) -> Result<Self, Stop> {
        let first = payload.byte()?;
        let mut field = Self {
            sent: u32::from(first >> 1 & 0x3F),
            bits: 6,
            bytes: 1,
            isa: None,
            has_information: false,
            exception: None,
        };
        if first & 0x80 == 0 {
            return Ok(field);
        }
        for bytes in 2..=4 {
            let byte = payload.byte()?;
            field.bytes = bytes;
            let is_last = byte & 0x80 == 0;
            if is_last && encoding == AddressEncoding::Alternative {
                field.has_information = byte & 0x40 != 0;
                field.add(byte & 0x3F, 6);
            } else {
                field.add(byte & 0x7F, 7);
            }
            if is_last {
                return Ok(field);
            }
        }
        field.bytes = 5;
        field.fifth(payload, encoding)?;
        Ok(field)
    }

    /// The address of one to four bytes that a word begins with, if no information follows: what `read` gives.
    #[inline]
    pub const fn short(word: u64, encoding: AddressEncoding) -> Option<Self> {
        let ends = !word & 0x8080_8080;
        if ends == 0 {
            return None;
        }
        let bytes = ends.trailing_zeros() / 8 + 1;
        let own = word as u32 & u32::MAX >> (32 - 8 * bytes);
        let (is_alternative, is_one) = (matches!(encoding, AddressEncoding::Alternative), bytes == 1);
        if is_alternative && !is_one && own >> (8 * bytes - 2) & 1 == 1 {
            return None;
        }
        let sent = own >> 1 & 0x3F | (own >> 8 & 0x7F) << 6 | (own >> 16 & 0x7F) << 13 | (own >> 24) << 20;
        let bits = 7 * bytes - if is_alternative && !is_one { 2 } else { 1 };
        Some(Self { sent, bits, bytes: bytes as u8, isa: None, has_information: false, exception: None })
    }

    fn fifth(&mut self, payload: &mut PayloadReader<'_>, encoding: AddressEncoding) -> Result<(), Stop> {
        let byte = payload.byte()?;
        if byte & 0x80 != 0 {
            if encoding == AddressEncoding::Alternative {
                return Err(payload.bad(Bad::Malformed));
            }
            self.exception = Some((byte >> 3 & 7, byte & 0x40 != 0));
            self.isa = Some(Isa::A32);
            self.add(byte & 7, 3);
            return Ok(());
        }
        self.has_information = byte & 0x40 != 0;
        let (isa, bits) = match byte & 0x3F {
            0x20..=0x3F => (Isa::Jazelle, 5),
            0x10..=0x1F => (Isa::T32, 4),
            0x08..=0x0F => (Isa::A32, 3),
            _ => return Err(payload.bad(Bad::Malformed)),
        };
        self.isa = Some(isa);
        self.add(byte & ((1 << bits) - 1), bits);
        Ok(())
    }

    fn add(&mut self, sent: u8, bits: u32) {
        self.sent |= u32::from(sent) << self.bits;
        self.bits += bits;
    }
}

/// An instruction address as a packet gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InstructionAddress {
    pub address: u32,
    /// All bits are known.
    pub is_complete: bool,
    pub isa: Isa,
}

impl InstructionAddress {
    /// An address that is to be written.
    pub fn new(address: Address, is_complete: bool, isa: Isa) -> Result<Self, EncodeError> {
        let address = u32::try_from(address.0).map_err(|_| EncodeError::OutOfRange)?;
        Ok(Self { address, is_complete, isa })
    }
}

/// The last address that a packet gave: what the next is compressed against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressBase {
    pub address: u32,
    pub is_complete: bool,
    pub isa: Isa,
    /// Thumb is ThumbEE.
    pub alt_isa: bool,
}

impl AddressBase {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { address: 0, is_complete: false, isa: Isa::A32, alt_isa: false };

    /// The instruction set after an address packet: its fifth byte and its AltISA bit decide where they are there.
    pub const fn isa_after(&self, named: Option<Isa>, alt_isa: Option<bool>) -> Isa {
        let alt_isa = match alt_isa {
            Some(alt_isa) => alt_isa,
            None => self.alt_isa,
        };
        let isa = match named {
            Some(isa) => isa,
            None => self.isa,
        };
        match (isa, alt_isa) {
            (Isa::T32 | Isa::ThumbEe, false) => Isa::T32,
            (Isa::T32 | Isa::ThumbEe, true) => Isa::ThumbEe,
            (other, _) => other,
        }
    }

    /// The whole address of a field.
    #[inline]
    pub const fn complete(&self, field: &AddressField, alt_isa: Option<bool>) -> InstructionAddress {
        let isa = self.isa_after(field.isa, alt_isa);
        // Five bytes send every bit of the instruction set that they name.
        let (bits, shift) = (field.bits, shift(isa));
        let sent = (field.sent as u64) << shift;
        let mask = (1_u64 << (bits + shift)) - 1;
        let address = (self.address as u64 & !mask | sent) as u32;
        InstructionAddress { address, is_complete: self.is_complete || field.bytes == 5, isa }
    }

    /// A packet gave this address.
    pub const fn set(&mut self, address: &InstructionAddress, alt_isa: Option<bool>) {
        self.address = address.address;
        self.is_complete = address.is_complete;
        self.isa = address.isa;
        if let Some(alt_isa) = alt_isa {
            self.alt_isa = alt_isa;
        }
    }

    /// Fewest bytes that an address can be sent in. With exception information it takes two at least, or all five in the
    /// original encoding.
    pub fn fewest(&self, address: u32, isa: Isa, has_information: bool, encoding: AddressEncoding) -> u8 {
        let same_set = shift(isa) == shift(self.isa);
        if !self.is_complete || !same_set || has_information && encoding == AddressEncoding::Original {
            return 5;
        }
        let differs = (address ^ self.address) >> shift(isa);
        let least = if has_information { 2 } else { 1 };
        (least..5).find(|&bytes| differs >> bits_of(bytes, encoding) == 0).unwrap_or(5)
    }

    /// Writes an address in so many bytes.
    pub fn write(
        &self,
        address: &InstructionAddress,
        bytes: u8,
        alt_isa: Option<bool>,
        encoding: AddressEncoding,
        out: &mut PacketWriter,
    ) -> Result<(), EncodeError> {
        let has_information = alt_isa.is_some();
        let shift = shift(address.isa);
        let sent = address.address >> shift;
        let allows_information = match encoding {
            AddressEncoding::Original => bytes == 5,
            AddressEncoding::Alternative => bytes > 1,
        };
        let field = AddressField {
            sent: if bytes == 5 { sent } else { sent & ((1 << bits_of(bytes.min(4), encoding)) - 1) },
            bits: if bytes == 5 { 32 - shift } else { bits_of(bytes.min(4), encoding) },
            bytes,
            isa: (bytes == 5).then_some(match address.isa {
                Isa::ThumbEe => Isa::T32,
                isa => isa,
            }),
            has_information,
            exception: None,
        };
        if !(1..=5).contains(&bytes)
            || has_information && !allows_information
            || self.complete(&field, alt_isa) != *address
        {
            return Err(EncodeError::OutOfRange);
        }
        let flag = if has_information { 0x40 } else { 0 };
        let more = |index: u8| if index < bytes { 0x80 } else { 0 };
        out.byte((field.sent as u8) << 1 & 0x7E | 1 | more(1));
        for index in 2..=bytes.min(4) {
            let part = (field.sent >> (7 * (index - 1) - 1)) as u8 & 0x7F;
            out.byte(match encoding {
                AddressEncoding::Alternative if index == bytes => part & 0x3F | flag,
                _ => part | more(index),
            });
        }
        if bytes == 5 {
            let part = (field.sent >> 27) as u8;
            out.byte(flag | 8 << (2 - shift) | part);
        }
        Ok(())
    }
}

/// Address bits in so many bytes, up to four.
const fn bits_of(bytes: u8, encoding: AddressEncoding) -> u32 {
    match (bytes, encoding) {
        (1, _) => 6,
        (_, AddressEncoding::Original) => 7 * bytes as u32 - 1,
        (_, AddressEncoding::Alternative) => 7 * bytes as u32 - 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(base: &AddressBase, bytes: &[u8], encoding: AddressEncoding) -> InstructionAddress {
        let field = AddressField::read(&mut PayloadReader::new(bytes, 0), encoding).unwrap();
        base.complete(&field, None)
    }

    #[test]
    fn real_addresses_are_read() {
        let thumb = |address| AddressBase { address, is_complete: true, isa: Isa::T32, alt_isa: false };
        let ptm = AddressEncoding::Alternative;
        assert_eq!(read(&thumb(0xC001_8D82), &[0xA3, 0x0B], ptm).address, 0xC001_85A2);
        let far = read(&thumb(0), &[0x8F, 0xEA, 0xDE, 0xDB, 0x0D], ptm);
        assert_eq!((far.address, far.isa), (0xB6EF_6A1C, Isa::A32));
        let etm = AddressEncoding::Original;
        assert_eq!(read(&thumb(0xC000_0000), &[0xB7, 0xFD, 0xD6, 0x01], etm).address, 0xC035_BEB6);
        assert_eq!(read(&thumb(0xC004_F600), &[0x2B], etm).address, 0xC004_F62A);
        assert!(!read(&AddressBase::UNKNOWN, &[0x2B], etm).is_complete);
    }

    #[test]
    fn the_fifth_byte_names_the_instruction_set_or_is_malformed() {
        let field = |byte, encoding| {
            AddressField::read(&mut PayloadReader::new(&[0x81, 0x80, 0x80, 0x80, byte], 0), encoding)
        };
        for encoding in [AddressEncoding::Original, AddressEncoding::Alternative] {
            for (byte, isa) in [(0x08, Isa::A32), (0x1F, Isa::T32), (0x7F, Isa::Jazelle)] {
                assert_eq!(field(byte, encoding).unwrap().isa, Some(isa));
            }
            for byte in [0x00, 0x07, 0x40, 0x47] {
                assert_eq!(field(byte, encoding), Err(Stop::Bad(Bad::Malformed, 5)));
            }
        }
        assert_eq!(field(0x88 | 5 << 3, AddressEncoding::Original).unwrap().exception, Some((5, false)));
        assert!(field(0x88, AddressEncoding::Alternative).is_err());
    }
}
