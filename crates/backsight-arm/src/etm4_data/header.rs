//! What the first bytes of packets mean.

/// The kind of a packet, by its first byte, and by the second of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// A common point with the instruction stream, without a number.
    SyncMarker,
    /// The same, numbered 0 to 7.
    NumberedSyncMarker(u8),
    /// The time.
    Timestamp,
    /// Elements were left out.
    Suppression,
    /// An event of the trace unit.
    Event,
    /// The address of a transfer (P1), format 1 to 7.
    Address(u8),
    /// The value of a transfer (P2), format 1 to 6.
    Value(u8),
    /// How the unit was programmed.
    TraceInfo,
    /// Speculation was given up.
    Discard,
    /// The trace unit lost data.
    Overflow,
}

impl Header {
    /// From the first byte of a packet that is no extension; `None` if no packet has it.
    pub const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            0x01 => Self::SyncMarker,
            0x02 => Self::Timestamp,
            0x03 => Self::Suppression,
            0x04 => Self::Event,
            0x10..=0x13 => Self::Value(4),
            0x14..=0x17 => Self::Address(3),
            0x18..=0x1F => Self::Value(5),
            0x20..=0x2F => Self::Value(1),
            0x30..=0x37 => Self::Value(2),
            0x38..=0x3F => Self::Value(6),
            0x40..=0x5F => Self::Value(3),
            0x60..=0x6F => Self::Address(4),
            0x70..=0x7F => Self::Address(1),
            0x80..=0xBF => Self::Address(2),
            0xF5 => Self::Address(7),
            0xF6 | 0xF7 => Self::Address(6),
            0xF8..=0xFF => Self::Address(5),
            _ => return None,
        })
    }

    /// From the byte after a zero; `None` for A-sync, and if no packet has it.
    pub const fn of_extension(byte: u8) -> Option<Self> {
        Some(match byte {
            0x01 => Self::TraceInfo,
            0x03 => Self::Discard,
            0x05 => Self::Overflow,
            _ if byte & 0xF1 == 0x11 => Self::NumberedSyncMarker(byte >> 1 & 7),
            _ => return None,
        })
    }

    /// Is the packet known to be no more than its header?
    pub const fn is_all(self) -> bool {
        matches!(self, Self::SyncMarker | Self::NumberedSyncMarker(_) | Self::Discard | Self::Overflow)
    }

    /// The name that listings use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SyncMarker => "D_DATA_SYNC_MARKER",
            Self::NumberedSyncMarker(_) => "D_NUMBERED_DATA_SYNC_MARKER",
            Self::Timestamp => "D_TIMESTAMP",
            Self::Suppression => "D_SUPPRESSION",
            Self::Event => "D_EVENT",
            Self::TraceInfo => "D_TRACE_INFO",
            Self::Discard => "D_DISCARD",
            Self::Overflow => "D_OVERFLOW",
            Self::Address(1) => "D_P1_ADDRESS_F1",
            Self::Address(2) => "D_P1_ADDRESS_F2",
            Self::Address(3) => "D_P1_ADDRESS_F3",
            Self::Address(4) => "D_P1_ADDRESS_F4",
            Self::Address(5) => "D_P1_ADDRESS_F5",
            Self::Address(6) => "D_P1_ADDRESS_F6",
            Self::Address(_) => "D_P1_ADDRESS_F7",
            Self::Value(1) => "D_P2_VALUE_F1",
            Self::Value(2) => "D_P2_VALUE_F2",
            Self::Value(3) => "D_P2_VALUE_F3",
            Self::Value(4) => "D_P2_VALUE_F4",
            Self::Value(5) => "D_P2_VALUE_F5",
            Self::Value(_) => "D_P2_VALUE_F6",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_first_byte_has_one_meaning_or_none() {
        let count =
            |wanted: fn(Header) -> bool| (0..=255).filter_map(Header::of).filter(|&h| wanted(h)).count();
        assert_eq!(count(|header| matches!(header, Header::Address(_))), 4 + 16 + 16 + 64 + 1 + 2 + 8);
        assert_eq!(count(|header| matches!(header, Header::Value(_))), 4 + 8 + 16 + 8 + 8 + 32);
        let reserved: usize = (0..=255u8).filter(|&byte| Header::of(byte).is_none()).count();
        // An extension, 0x05 to 0x0F, and 0xC0 to 0xF4.
        assert_eq!(reserved, 1 + 11 + 53);
        let numbers: [Option<Header>; 8] =
            [0x11, 0x13, 0x15, 0x17, 0x19, 0x1B, 0x1D, 0x1F].map(Header::of_extension);
        for (number, header) in (0..).zip(numbers) {
            assert_eq!(header, Some(Header::NumberedSyncMarker(number)));
        }
    }
}
