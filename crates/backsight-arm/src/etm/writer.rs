//! The bytes of one packet on their way out.

use core::fmt;

use backsight_core::leb128;

/// No packet of either protocol has more bytes than this.
const MOST: usize = 32;

/// Why a packet cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The trace unit is not configured for this packet.
    Configuration,
    /// A value does not fit its field, or does not follow from what was written before.
    OutOfRange,
    /// It is no packet: bytes that were bad or skipped.
    NotAPacket,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configuration => "the trace unit is not configured for this packet",
            Self::OutOfRange => "a value does not fit its field, or does not follow from the packets before",
            Self::NotAPacket => "bytes that are no packet cannot be written",
        })
    }
}

impl core::error::Error for EncodeError {}

/// Context IDs are sent where they have bytes, and only there.
pub(crate) const fn context_id_fits(id: Option<u32>, bytes: u8) -> Result<(), EncodeError> {
    match id {
        _ if id.is_some() != (bytes > 0) => Err(EncodeError::Configuration),
        Some(id) if bytes < 4 && id >> (8 * bytes) != 0 => Err(EncodeError::OutOfRange),
        _ => Ok(()),
    }
}

/// Collects the bytes of one packet.
#[derive(Clone, Debug)]
pub(crate) struct PacketWriter {
    bytes: [u8; MOST],
    length: usize,
}

impl PacketWriter {
    pub const fn new() -> Self {
        Self { bytes: [0; MOST], length: 0 }
    }

    pub fn clear(&mut self) {
        self.length = 0;
    }

    pub fn byte(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
            self.length += 1;
        }
    }

    /// Writes an A-sync.
    pub fn a_sync(&mut self) {
        (0..5).for_each(|_| self.byte(0));
        self.byte(0x80);
    }

    /// Writes another byte in the place of the last.
    pub fn replace_last(&mut self, byte: u8) {
        self.length = self.length.saturating_sub(1);
        self.byte(byte);
    }

    pub fn little_endian(&mut self, value: u32, bytes: u8) {
        (0..u32::from(bytes)).for_each(|index| self.byte((value >> (8 * index)) as u8));
    }

    /// Seven bits in each byte, lowest first, as few as it takes.
    pub fn number(&mut self, value: u32) {
        leb128::write(value.into(), |byte| self.byte(byte));
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
