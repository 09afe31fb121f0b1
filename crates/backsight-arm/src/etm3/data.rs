//! Data addresses and values.
//!
//! ```text
//! address byte 1 to 4   C aaaaaaa   A[6:0], A[13:7], A[20:14], A[27:21]; C: another byte follows
//! address byte 5        0 00Baaaa   A[31:28]; B: transfers are big-endian from here on
//! value                 0, 1, 2 or 4 bytes, lowest first; zeros at its top are left out
//! ```
//!
//! Address bits that are not sent are those of the last data address, which has nothing to do with that of branches.

use crate::etm::{Bad, EncodeError, PacketWriter, PayloadReader, Stop};

/// A data address as a packet gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataAddress {
    /// The address.
    pub address: u32,
    /// All bits are known: there was an address of five bytes.
    pub is_complete: bool,
    /// Bytes, 1 to 5.
    pub bytes: u8,
    /// Transfers are big-endian.
    pub is_big_endian: bool,
}

impl DataAddress {
    /// An address in five bytes, so that decoders can begin with it.
    pub const fn full(address: u32, is_big_endian: bool) -> Self {
        Self { address, is_complete: true, bytes: 5, is_big_endian }
    }
}

/// A data value as a packet gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataValue {
    /// The value, zero-extended.
    pub value: u32,
    /// Bytes that were sent, 0, 1, 2 or 4. That says nothing of how wide the transfer was.
    pub bytes: u8,
}

impl DataValue {
    /// A value in as few bytes as it takes.
    pub const fn new(value: u32) -> Self {
        let bytes = match value {
            0 => 0,
            1..=0xFF => 1,
            0x100..=0xFFFF => 2,
            _ => 4,
        };
        Self { value, bytes }
    }

    /// SS of the header.
    pub(super) fn size(self) -> Result<u8, EncodeError> {
        let (size, fits) = match self.bytes {
            0 => (0, self.value == 0),
            1 => (1, self.value <= 0xFF),
            2 => (2, self.value <= 0xFFFF),
            4 => (3, true),
            _ => (0, false),
        };
        if fits { Ok(size) } else { Err(EncodeError::OutOfRange) }
    }

    pub(super) fn read(size: u8, payload: &mut PayloadReader<'_>) -> Result<Self, Stop> {
        let bytes = [0, 1, 2, 4][usize::from(size & 3)];
        Ok(Self { value: payload.little_endian(bytes)?, bytes })
    }

    pub(super) fn write(self, out: &mut PacketWriter) {
        out.little_endian(self.value, self.bytes);
    }
}

/// The last data address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataBase {
    address: u32,
    is_complete: bool,
    is_big_endian: bool,
}

impl DataBase {
    pub(in crate::etm3) fn read(self, payload: &mut PayloadReader<'_>) -> Result<DataAddress, Stop> {
        let (mut sent, mut bytes) = (0, 0);
        let mut is_big_endian = self.is_big_endian;
        loop {
            let byte = payload.byte()?;
            bytes += 1;
            if bytes == 5 {
                if byte & 0xE0 != 0 {
                    return Err(payload.bad(Bad::Malformed));
                }
                sent |= u32::from(byte & 0xF) << 28;
                is_big_endian = byte & 0x10 != 0;
                break;
            }
            sent |= u32::from(byte & 0x7F) << (7 * (bytes - 1));
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(self.complete(sent, bytes, is_big_endian))
    }

    fn complete(self, sent: u32, bytes: u8, is_big_endian: bool) -> DataAddress {
        let kept = if bytes >= 5 { 0 } else { u32::MAX << (7 * bytes) };
        DataAddress {
            address: self.address & kept | sent & !kept,
            is_complete: self.is_complete || bytes >= 5,
            bytes,
            is_big_endian,
        }
    }

    pub fn set(&mut self, address: &DataAddress) {
        *self = Self {
            address: address.address,
            is_complete: address.is_complete,
            is_big_endian: address.is_big_endian,
        };
    }

    /// An address in as few bytes as it takes.
    pub fn shortest(self, address: u32, is_big_endian: bool) -> DataAddress {
        let differs = address ^ self.address;
        let bytes = match (1..5).find(|&bytes| differs >> (7 * bytes) == 0) {
            Some(bytes) if self.is_complete && is_big_endian == self.is_big_endian => bytes as u8,
            _ => 5,
        };
        DataAddress { address, is_complete: true, bytes, is_big_endian }
    }

    pub(in crate::etm3) fn write(
        self,
        address: &DataAddress,
        out: &mut PacketWriter,
    ) -> Result<(), EncodeError> {
        let DataAddress { address: value, bytes, is_big_endian, .. } = *address;
        if !(1..=5).contains(&bytes) || self.complete(value, bytes, is_big_endian) != *address {
            return Err(EncodeError::OutOfRange);
        }
        if bytes < 5 && is_big_endian != self.is_big_endian {
            return Err(EncodeError::OutOfRange);
        }
        for index in 0..bytes.min(4) {
            let more = if index + 1 < bytes { 0x80 } else { 0 };
            out.byte((value >> (7 * index)) as u8 & 0x7F | more);
        }
        if bytes == 5 {
            out.byte((value >> 28) as u8 | u8::from(is_big_endian) << 4);
        }
        Ok(())
    }
}
