//! Packets to bytes.
//!
//! The encoder has the state that the decoder at the other end will have, so that it knows whether a packet means
//! there what it holds. A packet that the configuration or the state cannot express is an error and changes nothing.
//! How each packet is written is beside how it is read: in [`super::packet`].

mod writer;

use core::fmt;

use super::packet::write;
use super::state::StreamState;
use super::{AddressHistory, Config, Kind, Packet, lookup};
pub(super) use writer::PacketWriter;

/// Encodes the instruction trace stream of one trace unit.
#[derive(Clone, Debug)]
pub struct Encoder {
    pub(super) config: Config,
    /// Is this header valid in this configuration?
    valid: [bool; 256],
    pub(super) state: StreamState,
    pub(super) out: PacketWriter,
}

/// Why a packet cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// Bad and unsynchronised bytes are no packets.
    NotAPacket,
    /// The configuration has no such packet.
    NotConfigured,
    /// The form of the address cannot say it after the addresses before, or does not exist in this packet.
    Address,
    /// A value does not fit its field.
    OutOfRange,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAPacket => "bad and unsynchronised bytes are no packets",
            Self::NotConfigured => "the trace unit has no such packet in this configuration",
            Self::Address => "the address cannot be written in this form here",
            Self::OutOfRange => "a value does not fit its field",
        })
    }
}

impl core::error::Error for EncodeError {}

impl Encoder {
    /// An encoder at the beginning of a stream.
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            valid: core::array::from_fn(|header| lookup(header as u8).when.check(config).is_ok()),
            state: StreamState::START,
            out: PacketWriter::EMPTY,
        }
    }

    /// The configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The addresses that the next ones are compressed against.
    pub const fn history(&self) -> &AddressHistory {
        &self.state.history
    }

    /// The cycle count threshold of the last Trace Info.
    pub const fn threshold(&self) -> u32 {
        self.state.threshold
    }

    /// The last timestamp since the last Trace Info, else 0.
    pub const fn last_timestamp(&self) -> u64 {
        self.state.timestamp
    }

    /// The bytes of a packet that comes next in the stream.
    ///
    /// # Errors
    /// If the configuration has no such packet, or the packet cannot say here what it holds. The state is then as
    /// before.
    #[inline]
    pub fn encode(&mut self, packet: &Packet) -> Result<&[u8], EncodeError> {
        write(packet, self)?;
        Ok(self.out.written())
    }

    /// Begins a packet of this kind with that value in the field of its header.
    #[inline]
    pub(super) fn begin(&mut self, kind: Kind, field: u8) -> Result<(), EncodeError> {
        self.begin_header(kind.with(field).ok_or(EncodeError::OutOfRange)?)
    }

    /// Begins a packet, if the configuration has it.
    #[inline]
    pub(super) fn begin_header(&mut self, header: u8) -> Result<(), EncodeError> {
        self.out.header(header);
        if self.valid[usize::from(header)] { Ok(()) } else { Err(EncodeError::NotConfigured) }
    }
}

/// A value that may be at most `maximum`.
#[inline]
pub(super) const fn within(value: u8, maximum: u8) -> Result<u8, EncodeError> {
    if value <= maximum { Ok(value) } else { Err(EncodeError::OutOfRange) }
}
