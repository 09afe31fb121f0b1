//! Why bytes are no packet.

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bad {
    /// No packet has this header.
    Reserved,
    /// A field has a value that it cannot have.
    Malformed,
    /// A field goes on beyond its greatest length.
    FieldTooLong,
    /// The header is one of data trace, which is off.
    WrongMode,
    /// The stream ends in the middle of the packet.
    Incomplete,
}

impl Bad {
    /// The name in listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "RESERVED",
            Self::Malformed | Self::FieldTooLong => "BAD_SEQUENCE",
            Self::WrongMode => "BAD_TRACEMODE",
            Self::Incomplete => "INCOMPLETE_EOT",
        }
    }

    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Reserved => "reserved header",
            Self::Malformed => "a field has a value that it cannot have",
            Self::FieldTooLong => "a field is too long",
            Self::WrongMode => "a header of data trace, which is off",
            Self::Incomplete => "cut off",
        }
    }
}
