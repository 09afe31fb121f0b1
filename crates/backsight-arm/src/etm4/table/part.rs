//! What payloads are made of.

use crate::etm4::Config;

/// One part of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// So many bytes.
    Bytes(u8),
    /// A field of at most so many bytes: seven bits in each, lowest first; bit 7 says that it goes on.
    Continued(u8),
    /// In commit mode 0 the number of elements to commit, as [`Part::NUMBER`]; absent in commit mode 1.
    Commit,
    /// A timestamp: eight bytes as in a continued field at most, then perhaps a ninth of eight bits.
    Timestamp,
    /// The low bits of an address: one byte, or two if bit 7 of the first is set.
    ShortAddress,
    /// The information byte of a context, then the VMID and the context ID that it announces; how long those are is in
    /// the configuration.
    Context,
    /// PLCTL, continued, then a number for each section that it announces.
    TraceInfo,
    /// One byte, or two if bit 7 of the first is set; those that have no address of their own always have two.
    Exception,
    /// A result and three bits of its key, then the rest of the key, as [`Part::NUMBER`], if bit 7 is set.
    Result,
    /// After a zero byte: 0x03, 0x05, or ten more zeros and 0x80.
    Extension,
}

/// Greatest number of bytes of a field with a 32-bit value.
pub(in crate::etm4) const NUMBER_BYTES: u8 = 5;
/// Greatest number of bytes of a number of cycles.
pub(in crate::etm4) const COUNT_BYTES: u8 = 3;
/// Sections of a Trace Info.
pub(in crate::etm4) const SECTIONS: u8 = 5;
/// Bytes of an Async.
pub(in crate::etm4) const ASYNC_BYTES: usize = 12;

impl Part {
    /// A number of up to 32 bits.
    pub const NUMBER: Self = Self::Continued(NUMBER_BYTES);
    /// A number of cycles.
    pub const COUNT: Self = Self::Continued(COUNT_BYTES);

    /// Is there nothing of it in that configuration?
    pub const fn is_absent(self, config: &Config) -> bool {
        matches!(self, Self::Commit) && config.commit_mode1()
    }

    /// Bytes of it, at most.
    pub const fn longest(self) -> usize {
        match self {
            Self::Bytes(count) | Self::Continued(count) => count as usize,
            Self::Commit => NUMBER_BYTES as usize,
            Self::Timestamp => 9,
            Self::ShortAddress | Self::Exception => 2,
            // The information byte, and four bytes for each identifier.
            Self::Context => 9,
            Self::TraceInfo => (NUMBER_BYTES * (1 + SECTIONS)) as usize,
            Self::Result => 1 + NUMBER_BYTES as usize,
            Self::Extension => ASYNC_BYTES - 1,
        }
    }
}
