//! Framings: how packets of several sources share one byte stream.
//!
//! The standard encapsulation puts a header byte before each packet:
//!
//! ```text
//!   7        6    5 4       0
//! +--------+--------+--------+-----------------------------------------------------------------+
//! | extend |  flow  | length | source (0 to 16 bits) | timestamp (if extend) | type | payload ... |
//! +--------+--------+--------+-----------------------------------------------------------------+
//! ```
//!
//! Length 0 is a null packet of one byte. A long enough run of null bytes lets a receiver find the next header.
//! The reference flow's files use a header of their own (length, type, time-tag flag); the thesis's RTL encoder
//! writes beats of 40 bytes.

mod atb;
mod deframer;
mod framer;
#[cfg(test)]
mod tests;

pub use atb::{AtbBeat, atb_beats, atb_bytes};
pub use deframer::{Deframer, FramingFault};
pub use framer::{FrameError, Framer};

/// What a packet is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A te_inst packet.
    #[default]
    Instruction,
    /// A te_data packet.
    Data,
    /// A type that belongs to a vendor.
    Vendor(u8),
}

/// One packet taken out of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encapsulated<'a> {
    /// Which hart or other source sent it; 0 where the framing does not say.
    pub source: u16,
    /// What it is about.
    pub kind: Kind,
    /// The two bits `flow` of the standard header, which route packets.
    pub flow: u8,
    /// Timestamp, where there is one.
    pub time: Option<u64>,
    /// The packet.
    pub payload: &'a [u8],
}

/// What comes out of a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A packet.
    Packet(Encapsulated<'a>),
    /// Null packets: idle or alignment.
    Null,
    /// Bytes that are no packet.
    Fault(FramingFault),
}

/// Widths of the standard encapsulation, fixed in each system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// Bits of the source, 0 to 16.
    pub source_bits: u8,
    /// Bytes of a timestamp, 0 to 8.
    pub time_bytes: u8,
    /// Bits of the type, 0 to 8.
    pub type_bits: u8,
}

/// How packets are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// The reference flow's files: a header byte of length, type and time-tag flag; an optional 16-bit time tag; the
    /// hart's number in whole bytes.
    Reference {
        /// Bits of the hart's number; 0: there is none.
        hart_bits: u8,
    },
    /// The standard encapsulation.
    Standard(Encapsulation),
    /// ESP32-C6 and H2: length including three header bytes, a 16-bit packet index.
    Esp32,
    /// The thesis's RTL encoder: beats of 40 bytes, the most significant byte first.
    Pulp,
}

impl Framing {
    /// The reference flow's files as they are: no hart number.
    pub const REFERENCE: Self = Self::Reference { hart_bits: 0 };
    /// Standard encapsulation of one source, as it travels over ATB, where ATID names the source.
    pub const ATB: Self = Self::Standard(Encapsulation { source_bits: 0, time_bytes: 0, type_bits: 0 });
    /// Standard encapsulation as Siemens has it: six bits of source, two of type.
    pub const SIEMENS: Self = Self::Standard(Encapsulation { source_bits: 6, time_bytes: 0, type_bits: 2 });
    /// The standard re-framing of the thesis's captures: eight bytes of time.
    pub const PULP_ENCAP: Self =
        Self::Standard(Encapsulation { source_bits: 0, time_bytes: 8, type_bits: 0 });
}

impl Encapsulation {
    /// Do source and type fill whole bytes, so that the payload begins with one?
    pub(crate) const fn is_aligned(self) -> bool {
        matches!(self.source_bits % 8 + self.type_bits, 0 | 8)
    }

    /// What a type means. Without a type everything is instruction trace.
    pub(crate) const fn kind(self, value: u8) -> Kind {
        match (self.type_bits, value) {
            (0, _) | (1, 0) | (2, 2) => Kind::Instruction,
            (1, _) | (2, 3) => Kind::Data,
            (_, value) => Kind::Vendor(value),
        }
    }

    /// The type that means this, if one does.
    pub(crate) const fn type_of(self, kind: Kind) -> Option<u8> {
        match (self.type_bits, kind) {
            (0, Kind::Instruction) | (1, Kind::Instruction) => Some(0),
            (1, Kind::Data) => Some(1),
            (2, Kind::Instruction) => Some(2),
            (2, Kind::Data) => Some(3),
            (_, Kind::Vendor(value)) if self.type_bits > 1 => Some(value),
            _ => None,
        }
    }

    /// The longest run of null-looking bytes inside a packet.
    pub(crate) const fn longest_null_run(self) -> usize {
        31 + self.time_bytes as usize + self.source_bits as usize / 8
    }
}
