//! Opcodes: what their data are, and whether a timestamp follows.

use super::packet::Content;

/// An opcode: what its data are, and whether a timestamp follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub kind: Kind,
    /// Nibbles of the data.
    pub nibbles: u8,
    pub timed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Null,
    Master,
    Channel,
    MasterError,
    GlobalError,
    Data {
        marked: bool,
    },
    Flag,
    Version,
    /// The byte after a version with bit 3.
    VersionMore(u8),
    Trigger,
    Frequency,
    CrossSync,
}

pub(super) const fn row(kind: Kind, nibbles: u8, timed: bool) -> Option<Row> {
    Some(Row { kind, nibbles, timed })
}

const PLAIN: Kind = Kind::Data { marked: false };
const MARKED: Kind = Kind::Data { marked: true };

/// Opcodes of one nibble.
pub(super) const fn short_opcode(nibble: u8) -> Option<Row> {
    match nibble {
        0 => row(Kind::Null, 0, false),
        1 => row(Kind::Master, 2, false),
        2 => row(Kind::MasterError, 2, false),
        3 => row(Kind::Channel, 2, false),
        4..=7 => row(PLAIN, 2 << (nibble - 4), false),
        8..=0xB => row(MARKED, 2 << (nibble - 8), true),
        0xC => row(PLAIN, 1, false),
        0xD => row(MARKED, 1, true),
        0xE => row(Kind::Flag, 0, true),
        _ => None,
    }
}

/// Opcodes that begin with F.
pub(super) const fn long_opcode(nibble: u8) -> Option<Row> {
    match nibble {
        1 => row(Kind::Master, 4, false),
        2 => row(Kind::GlobalError, 2, false),
        3 => row(Kind::Channel, 4, false),
        4..=7 => row(PLAIN, 2 << (nibble - 4), true),
        8..=0xB => row(MARKED, 2 << (nibble - 8), false),
        0xC => row(PLAIN, 1, true),
        0xD => row(MARKED, 1, false),
        0xE => row(Kind::Flag, 0, false),
        _ => None,
    }
}

/// Opcodes that begin with F0. Those whose length nobody documents are not among them.
pub(super) const fn longest_opcode(nibble: u8) -> Option<Row> {
    match nibble {
        0 => row(Kind::Version, 1, false),
        1 => row(Kind::Null, 0, true),
        6 | 7 => row(Kind::Trigger, 2, nibble == 7),
        8 | 9 => row(Kind::Frequency, 8, nibble == 9),
        0xA | 0xB => row(Kind::CrossSync, 2, nibble == 0xB),
        _ => None,
    }
}

/// Nibbles of a timestamp, by its length code.
pub(super) const fn time_nibbles(code: u8) -> Option<u8> {
    match code {
        0..=0xC => Some(code),
        0xD => Some(14),
        0xE => Some(16),
        _ => None,
    }
}

impl Row {
    /// What a packet with these data says.
    #[inline]
    pub const fn content(self, value: u64) -> Content {
        match (self.kind, self.nibbles) {
            (Kind::Data { marked }, nibbles) => Content::Data { value, nibbles, marked },
            (Kind::Flag, _) => Content::Flag,
            (Kind::Null, _) => Content::Null,
            (Kind::Master, 2) => Content::Master8(value as u8),
            (Kind::Master, _) => Content::Master16(value as u16),
            (Kind::Channel, 2) => Content::Channel8(value as u8),
            (Kind::Channel, _) => Content::Channel16(value as u16),
            (Kind::MasterError, _) => Content::MasterError(value as u8),
            (Kind::GlobalError, _) => Content::GlobalError(value as u8),
            (Kind::Trigger, _) => Content::Trigger(value as u8),
            (Kind::CrossSync, _) => Content::CrossSync(value as u8),
            (Kind::Frequency, 8) => Content::Frequency(value as u32),
            (Kind::Frequency, _) => Content::Frequency40(value),
            (Kind::Version, _) => Content::Version { value: value as u8, more: None },
            (Kind::VersionMore(version), _) => Content::Version { value: version, more: Some(value as u8) },
        }
    }
}
