//! What the shells of ETMv3 and PTM ask of each. A configuration says which of the two is meant: it has packets, a reader for
//! the decoder, and a writer for the encoder.

use core::fmt::Debug;

use backsight_core::{Describe, Isa};

use super::{AddressBase, Bad, EncodeError, OptionError, PacketWriter, Registers, Stop, TimestampState};

/// Bytes of a word, which most packets fit into.
pub const SHORT: usize = 8;

/// How a trace unit of one of the two protocols was built and programmed.
pub trait Configuration: Copy + Debug + Default + PartialEq + Send + Sync + 'static {
    /// What it can say.
    type Packet: Copy + Debug + Describe + PartialEq + Send + Sync;
    /// What a decoder knows between two packets.
    type Reader: PacketReader<Config = Self, Packet = Self::Packet>;
    /// What an encoder knows of the packets before, beside the address and the timestamp.
    type Written: Clone + Debug + Default + Send;

    /// The packet that aligns decoders.
    const ASYNC: Self::Packet;
    /// Bytes that were passed over.
    const UNSYNCHRONISED: Self::Packet;
    /// The options, each with what it takes.
    const OPTIONS: &[(&str, &str)];

    /// Sets a register or an option from text.
    ///
    /// # Errors
    /// If there is no such register or option, or the value does not fit it.
    fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError>;

    /// The registers.
    fn registers(&self) -> &Registers;

    /// The registers, to change them.
    fn registers_mut(&mut self) -> &mut Registers;

    /// Timestamps are switched on.
    fn timestamps(&self) -> bool;

    /// VMID packets are switched on.
    fn vmid(&self) -> bool;

    /// Bytes that are no packet.
    fn bad_packet(why: Bad) -> Self::Packet;

    /// A packet with a context ID.
    fn context_id_packet(id: u32) -> Self::Packet;

    /// A packet with a VMID.
    fn vmid_packet(id: u8) -> Self::Packet;

    /// Is it one, and not bytes that are none?
    fn is_packet(packet: &Self::Packet) -> bool;

    /// Appends the bytes of a packet to what the encoder writes.
    ///
    /// # Errors
    /// If the configuration has no such packet, or a value does not fit.
    fn write(encoder: &mut Encoder<Self>, packet: &Self::Packet) -> Result<(), EncodeError>;
}

/// Reads the packets of a protocol.
pub trait PacketReader: Clone + PartialEq + Debug + Send + Sync + 'static {
    /// How the trace unit was built and programmed.
    type Config;
    /// A packet.
    type Packet: Copy;

    /// One that no packet has told anything.
    fn new(config: &Self::Config) -> Self;

    /// The packet at the start of `bytes`, which are not empty, and its length.
    fn read(&mut self, bytes: &[u8]) -> Result<(Self::Packet, usize), Stop>;

    /// The packet that a header is alone, where most headers of a stream are such: what `read` gives for it.
    fn one_byte(&self, header: u8) -> Option<Self::Packet>;

    /// A common packet of several bytes at the start of these: what `read` gives. `None` if it is another one, or longer.
    fn short_packet(&mut self, bytes: &[u8; SHORT]) -> Option<(Self::Packet, usize)>;

    /// Forgets what packets have said.
    fn forget(&mut self);
}

/// Writes the stream of one trace unit.
#[derive(Clone, Debug)]
pub struct Encoder<C: Configuration> {
    pub(crate) config: C,
    pub(crate) base: AddressBase,
    pub(crate) timestamp: TimestampState,
    pub(crate) written: C::Written,
    pub(crate) out: PacketWriter,
}

impl<C: Configuration> Encoder<C> {
    /// An encoder at the beginning of a stream. A stream that can be decoded begins with an A-sync.
    pub fn new(config: &C) -> Self {
        Self {
            config: *config,
            base: AddressBase::UNKNOWN,
            timestamp: TimestampState::default(),
            written: C::Written::default(),
            out: PacketWriter::new(),
        }
    }

    /// The configuration.
    pub const fn config(&self) -> &C {
        &self.config
    }

    /// The bytes of a packet.
    ///
    /// # Errors
    /// If the configuration has no such packet, or a value does not fit. Nothing is written then.
    pub fn encode(&mut self, packet: &C::Packet) -> Result<&[u8], EncodeError> {
        self.out.clear();
        C::write(self, packet)?;
        Ok(self.out.bytes())
    }

    /// Must AltISA be said, so that a decoder takes an address for one of this instruction set?
    pub fn must_say_alt_isa(&self, isa: Isa) -> bool {
        self.base.isa_after(Some(isa), None) != isa
    }
}

/// The same for both: their configurations have these by name.
macro_rules! configuration {
    ($config:ident, $packet:ident, $reader:ty, $written:ty) => {
        impl crate::etm::Configuration for $config {
            type Packet = $packet;
            type Reader = $reader;
            type Written = $written;

            const ASYNC: $packet = $packet::Async;
            const UNSYNCHRONISED: $packet = $packet::Unsynchronised;
            const OPTIONS: &[(&str, &str)] = $config::OPTIONS;

            fn set(&mut self, name: &str, value: &str) -> Result<(), crate::etm::OptionError> {
                self.set(name, value)
            }

            fn registers(&self) -> &crate::etm::Registers {
                &self.registers
            }

            fn registers_mut(&mut self) -> &mut crate::etm::Registers {
                &mut self.registers
            }

            fn timestamps(&self) -> bool {
                self.timestamps()
            }

            fn vmid(&self) -> bool {
                self.vmid()
            }

            fn bad_packet(why: crate::etm::Bad) -> $packet {
                $packet::Bad(why)
            }

            fn context_id_packet(id: u32) -> $packet {
                $packet::ContextId(id)
            }

            fn vmid_packet(id: u8) -> $packet {
                $packet::Vmid(id)
            }

            fn is_packet(packet: &$packet) -> bool {
                !matches!(packet, $packet::Bad(_) | $packet::Unsynchronised)
            }

            fn write(
                encoder: &mut crate::etm::Encoder<Self>,
                packet: &$packet,
            ) -> Result<(), crate::etm::EncodeError> {
                encoder.write(packet)
            }
        }
    };
}
pub(crate) use configuration;
