//! The bytes of one packet.

use crate::etm4::{EncodeError, MAX_PACKET};
use backsight_core::leb128;

/// Holds the packet that is being written.
#[derive(Clone, Debug)]
pub(in crate::etm4) struct PacketWriter {
    bytes: [u8; MAX_PACKET],
    length: usize,
}

impl PacketWriter {
    pub const EMPTY: Self = Self { bytes: [0; MAX_PACKET], length: 0 };

    #[inline]
    pub fn written(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Begins a packet.
    #[inline]
    pub const fn header(&mut self, header: u8) {
        self.bytes[0] = header;
        self.length = 1;
    }

    #[inline]
    pub fn byte(&mut self, byte: u8) {
        if let Some(free) = self.bytes.get_mut(self.length) {
            *free = byte;
            self.length += 1;
        }
    }

    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(free) = self.bytes.get_mut(self.length..self.length + bytes.len()) {
            free.copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }

    /// Seven bits in each byte, lowest first; bit 7 says that the field goes on.
    #[inline]
    pub fn continued(&mut self, value: u32) {
        leb128::write(value.into(), |byte| self.byte(byte));
    }

    /// A number in 0 to 4 bytes, lowest first.
    pub fn little_endian(&mut self, value: u32, bytes: u8) -> Result<(), EncodeError> {
        if bytes < 4 && value >> (8 * bytes) != 0 {
            return Err(EncodeError::OutOfRange);
        }
        self.bytes(value.to_le_bytes().get(..usize::from(bytes)).unwrap_or_default());
        Ok(())
    }
}
