//! Packets to bytes.
//!
//! The encoder mirrors the state that the decoder at the other end will have, so that it can tell whether a
//! packet means there what it holds. A packet that the configuration or the state cannot express is an error
//! and changes nothing.

mod bytes;
mod choose;
mod payload;

use core::fmt;

use super::{AddressHistory, Config, Packet, lookup};
use bytes::Bytes;
use payload::{ADDRESS, SOURCE, within};

/// Encodes the instruction trace stream of one trace unit.
#[derive(Clone, Debug)]
pub struct Encoder {
    config: Config,
    /// Is this header valid in this configuration?
    valid: [bool; 256],
    history: AddressHistory,
    timestamp: u64,
    threshold: u32,
    wide: bool,
    out: Bytes,
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
            history: AddressHistory::EMPTY,
            timestamp: 0,
            threshold: 0,
            wide: false,
            out: Bytes::EMPTY,
        }
    }

    /// The configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The addresses that the next ones are compressed against.
    pub const fn history(&self) -> &AddressHistory {
        &self.history
    }

    /// The cycle count threshold of the last Trace Info.
    pub const fn threshold(&self) -> u32 {
        self.threshold
    }

    /// The last timestamp since the last Trace Info, else 0.
    pub const fn last_timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The bytes of a packet that comes next in the stream.
    ///
    /// # Errors
    /// If the configuration has no such packet, or the packet cannot say here what it holds. The state is then as
    /// before.
    #[inline]
    pub fn encode(&mut self, packet: &Packet) -> Result<&[u8], EncodeError> {
        match packet {
            Packet::Atoms(atoms) => self.out.start(atoms.header().ok_or(EncodeError::OutOfRange)?),
            Packet::Address(address) => self.address(address, ADDRESS)?,
            _ => self.other(packet)?,
        }
        Ok(self.out.get())
    }

    fn other(&mut self, packet: &Packet) -> Result<(), EncodeError> {
        match packet {
            Packet::Async => self.with(0x00, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]),
            Packet::Discard => self.with(0x00, &[0x03]),
            Packet::Overflow => self.with(0x00, &[0x05]),
            Packet::TraceInfo(info) => self.trace_info(info),
            Packet::Timestamp(timestamp) => self.write_timestamp(timestamp),
            Packet::TimestampMarker => self.header(0x88),
            Packet::TraceOn => self.header(0x04),
            Packet::FunctionReturn => self.header(0x05),
            Packet::Exception(exception) => self.exception(exception),
            Packet::PeReset => self.without_address(&[0x01, 0x70]),
            Packet::TransactionFailure => self.without_address(&[0x31, 0x70]),
            Packet::ExceptionReturn => self.header(0x07),
            Packet::Instrumentation { level, value } => self.instrumentation(*level, *value),
            Packet::TransactionStart => self.header(0x0A),
            Packet::TransactionCommit => self.header(0x0B),
            Packet::CycleCount(count) => self.write_cycle_count(count),
            Packet::NumberedDataSync(number) => self.header(0x20 | within(*number, 7)?),
            Packet::UnnumberedDataSync(number) => self.header(0x28 | within(*number, 4)?),
            Packet::Commit { count } => self.continued(0x2D, *count),
            Packet::CancelF1 { count, mispredict } => self.continued(0x2E | u8::from(*mispredict), *count),
            Packet::Mispredict(atoms) => {
                self.header(0x30 | atoms.cancel_field().ok_or(EncodeError::OutOfRange)?)
            }
            Packet::CancelF2(atoms) => {
                self.header(0x34 | atoms.cancel_field().ok_or(EncodeError::OutOfRange)?)
            }
            Packet::CancelF3 { atom, count } => {
                let more = within(count.wrapping_sub(2), 3)?;
                self.header(0x38 | more << 1 | u8::from(*atom))
            }
            Packet::Ignore => self.header(0x70),
            Packet::Event(events @ 1..=15) => self.header(0x70 | events),
            Packet::Event(_) => Err(EncodeError::OutOfRange),
            Packet::Context(None) => self.header(0x80),
            Packet::Context(Some(context)) => self.context(context),
            Packet::Address(address) => self.address(address, ADDRESS),
            Packet::AddressContext(address, context) => self.address_context(address, context),
            Packet::Q(q) => self.q(q),
            Packet::SourceAddress(address) => self.address(address, SOURCE),
            Packet::Atoms(atoms) => self.header(atoms.header().ok_or(EncodeError::OutOfRange)?),
            Packet::Bad(_) | Packet::Unsynchronised => Err(EncodeError::NotAPacket),
            _ => self.conditional(packet),
        }
    }

    /// Begins a packet, if the configuration has it.
    #[inline]
    fn header(&mut self, header: u8) -> Result<(), EncodeError> {
        self.out.start(header);
        if self.valid[usize::from(header)] { Ok(()) } else { Err(EncodeError::NotConfigured) }
    }
}
