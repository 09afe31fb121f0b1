//! The bytes of a payload, from a slice that may end in the middle of it.

use crate::etm4::table::{COUNT_BYTES, NUMBER_BYTES};

/// Why a packet could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::etm4) enum Stop {
    /// The bytes end before the packet does.
    Incomplete,
    /// A field goes on beyond its greatest length; the packet ends with the byte at this length.
    TooLong(usize),
}

/// Reads the payload of one packet.
pub(in crate::etm4) struct PayloadReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> PayloadReader<'a> {
    /// Begins after the header.
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

    /// A number of up to 32 bits.
    #[inline]
    pub fn number(&mut self) -> Result<u32, Stop> {
        self.continued(NUMBER_BYTES)
    }

    /// A number of cycles.
    #[inline]
    pub fn count(&mut self) -> Result<u32, Stop> {
        self.continued(COUNT_BYTES)
    }

    /// A field of at most `limit` bytes: seven bits in each, lowest first; bit 7 says that it goes on. Bits beyond
    /// the 32nd are lost.
    #[inline]
    fn continued(&mut self, limit: u8) -> Result<u32, Stop> {
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

    /// The number in the next 0 to 4 bytes, lowest first.
    pub fn little_endian(&mut self, bytes: u8) -> Result<u32, Stop> {
        let mut value = 0;
        for index in 0..u32::from(bytes) {
            value |= u32::from(self.byte()?) << (8 * index);
        }
        Ok(value)
    }

    /// The error of a field that went on for too long.
    pub const fn too_long(&self) -> Stop {
        Stop::TooLong(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_stops_at_its_limit() {
        let bytes = [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
        assert_eq!(PayloadReader::new(&bytes).number(), Ok(u32::MAX));
        assert_eq!(PayloadReader::new(&bytes).count(), Err(Stop::TooLong(4)));
        assert_eq!(PayloadReader::new(&bytes[..3]).number(), Err(Stop::Incomplete));
    }
}
