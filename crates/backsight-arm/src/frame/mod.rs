//! CoreSight formatter frames: many trace sources in one byte stream.
//!
//! A trace sink packs the bytes of all its sources into frames of 16 bytes. Seven bytes of a frame are data
//! only; the eight at even positions are either data or a new source ID, as their lowest bit says; the last
//! byte holds the lowest data bits that this took away. A trace port adds synchronisation packets between
//! frames and, in continuous mode, inside them.
//!
//! ```text
//! byte   0    1    2    3    4    5    6    7    8    9   10   11   12   13   14   15
//!      mix  data mix  data mix  data mix  data mix  data mix  data mix  data mix  aux
//!       aux0      aux1      aux2      aux3      aux4      aux5      aux6      aux7
//!
//! mix:  bit 0 = 0   data, whose own bit 0 is the aux bit
//!       bit 0 = 1   new source ID in bits 7:1; aux 1 = it takes effect one data byte later
//! ```
//!
//! Multiplexing is per byte: a frame boundary or a change of source may fall anywhere inside a packet.
//! [`Deframer`] takes frames apart run by run, [`Demultiplexer`] does the same in large batches, and
//! [`Formatter`] makes frames.

mod align;
mod batch;
mod counts;
mod decode;
mod encode;
mod ids;
mod layout;

pub use align::{Alignment, BitAligner, PortAlignment, find_alignment, find_port_alignment};
pub use batch::{Batch, Demultiplexer, Run};
pub use counts::Counts;
pub use decode::{Deframer, FrameStart};
pub use encode::{Formatter, FormatterConfig, NotASource};
pub use ids::NamedIds;

use backsight_core::TraceId;
use core::fmt;

/// What carries the trace: whether there are frames, and how to find them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Framing {
    /// No frames: the bytes of one source (the formatter was bypassed).
    Raw,
    /// Frames at offsets that are multiples of 16, as in the memory of an ETB, ETF or ETR. A frame of four
    /// full syncs is a barrier that a driver put between two sessions.
    #[default]
    Coresight,
    /// A trace port capture with full syncs between frames.
    Tpiu,
    /// A trace port capture with full syncs between frames and half syncs anywhere between byte pairs.
    TpiuHsync,
    /// A DSTREAM dump: blocks of 504 bytes of [`Framing::Tpiu`] data, each with a footer of 8 bytes.
    Dstream,
}

impl Framing {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Raw, Self::Coresight, Self::Tpiu, Self::TpiuHsync, Self::Dstream];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Coresight => "coresight",
            Self::Tpiu => "tpiu",
            Self::TpiuHsync => "tpiu-hsync",
            Self::Dstream => "dstream",
        }
    }

    /// The framing of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|framing| framing.name() == name)
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What comes out of a [`Deframer`], in the order of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Bytes of one source. In listings, byte `j` has the index `index + j`.
    Data {
        /// The source; [`TraceId::NULL`] if the capture has no frames.
        id: TraceId,
        /// Index of the first byte.
        index: u64,
        /// The bytes; never empty.
        bytes: &'a [u8],
    },
    /// The sink saw its trigger here.
    Trigger {
        /// Index of the marker.
        index: u64,
    },
    /// The sink finished a flush here.
    Flush {
        /// Index of the marker.
        index: u64,
    },
    /// Bytes are missing here, of every source: each stream decoder must start again.
    Discontinuity {
        /// Where it was noticed.
        index: u64,
        /// How.
        why: Loss,
    },
}

/// Why streams do not continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// A barrier frame of four full syncs: what follows was captured at another time.
    Barrier,
    /// Source ID 0x7F, which no formatter sends.
    IllegalId,
    /// A full sync inside a frame: the rest of the frame is missing.
    PartialFrame,
    /// A byte pair that no frame and no sync packet can have: alignment is lost until the next full sync.
    SyncLost,
}

impl Loss {
    /// The reason in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier frame",
            Self::IllegalId => "source ID 0x7f in a frame",
            Self::PartialFrame => "full sync inside a frame",
            Self::SyncLost => "frame synchronisation lost",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod round_trips;
#[cfg(test)]
mod tests;
