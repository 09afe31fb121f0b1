//! The bytes of a packet, from a slice that may end in the middle of it.

use super::Bad;

/// Why a packet could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The bytes end before the packet does.
    Incomplete,
    /// The bytes up to this length are no packet.
    Bad(Bad, usize),
    /// The header is zero: an A-sync, as long as it may be.
    Zeros,
}

/// Reads the bytes of one packet.
pub(crate) struct PayloadReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> PayloadReader<'a> {
    /// Begins at `at`: 1 is after the header.
    #[inline]
    pub const fn new(packet: &'a [u8], at: usize) -> Self {
        Self { bytes: packet, at }
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

    /// The number in the next 0 to 4 bytes, lowest first.
    #[inline]
    pub fn little_endian(&mut self, bytes: u8) -> Result<u32, Stop> {
        let mut value = 0;
        for index in 0..u32::from(bytes) {
            value |= u32::from(self.byte()?) << (8 * index);
        }
        Ok(value)
    }

    /// Up to five bytes of seven bits, lowest first; bit 7 says that another follows. The fifth has four bits.
    pub fn number(&mut self) -> Result<u32, Stop> {
        let mut value = 0;
        for index in 0..5 {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7F) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.bad(Bad::FieldTooLong))
    }

    /// A byte that was read before; 0 if there is none.
    pub fn at(&self, index: usize) -> u8 {
        self.bytes.get(index).copied().unwrap_or(0)
    }

    /// The bytes so far are no packet.
    pub const fn bad(&self, why: Bad) -> Stop {
        Stop::Bad(why, self.at)
    }
}
