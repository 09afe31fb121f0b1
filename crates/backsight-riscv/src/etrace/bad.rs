//! Why payloads are no packets.

use core::fmt;

/// Why a payload is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadPacket {
    /// There are no bytes.
    Empty,
    /// More bytes than the fields take: parameters are wrong, or bytes were damaged.
    TooLong,
    /// branch_fmt 1.
    ReservedBranchFormat,
    /// A subformat of format 0 that has no meaning.
    ReservedSubformat,
    /// Format 0, and neither branch prediction nor the jump target cache is on.
    OptionOff,
    /// More predicted branches than any encoder lets pass without a packet: see [`MOST_COUNTED`](super::MOST_COUNTED).
    ImpossibleCount,
    /// A support packet of an encoder that does not trace branches.
    ReservedMode,
    /// A support packet that switches on what the parameters have no table for, or has a width that cannot be.
    ImpossibleOption,
}

impl BadPacket {
    /// The reason, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Empty => "empty payload",
            Self::TooLong => "payload longer than its fields",
            Self::ReservedBranchFormat => "reserved branch_fmt 1",
            Self::ReservedSubformat => "reserved subformat of format 0",
            Self::OptionOff => "format 0 while its option is off",
            Self::ImpossibleCount => "an impossible number of branches",
            Self::ReservedMode => "reserved encoder_mode",
            Self::ImpossibleOption => "an option that the parameters have no room for",
        }
    }
}

impl fmt::Display for BadPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for BadPacket {}
