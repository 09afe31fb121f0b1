//! What ETMv3 and PTM have in common.
//!
//! Both grew from one trace unit: the same four registers describe them, an A-sync of zeros aligns a decoder, branch
//! addresses are compressed against the address before by the same bytes, and timestamps are 7-bit groups in binary or
//! Gray code. What the packets say differs, and is in [`crate::etm3`] and [`crate::ptm`].

mod address;
mod bad;
mod configuration;
mod options;
mod payload;
mod registers;
mod search;
mod stream;
#[cfg(test)]
pub(crate) mod testing;
mod timestamp;
mod writer;

pub use bad::Bad;
pub use configuration::{Configuration, Encoder};
pub use options::OptionError;
pub use registers::{Profile, Registers};
pub use stream::{Decoder, packets};
pub use writer::EncodeError;

pub(crate) use address::{AddressBase, AddressEncoding, AddressField, InstructionAddress};
pub(crate) use configuration::{PacketReader, SHORT, configuration};
pub(crate) use options::{boolean, context_id_words, write_switched_on};
pub(crate) use payload::{PayloadReader, Stop};
pub(crate) use stream::PacketSink;
pub(crate) use timestamp::{TimestampCode, TimestampState};
pub(crate) use writer::{PacketWriter, context_id_fits};

use backsight_core::{Address, Field, Isa, Text, Value};

/// Why the trace unit sent an I-sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// So that decoders can begin here; nothing is missing before it.
    #[default]
    Periodic,
    /// Tracing began.
    TraceEnabled,
    /// Tracing begins again after an overflow of the trace unit's buffer.
    AfterOverflow,
    /// The processor left debug state.
    LeftDebugState,
}

impl Reason {
    pub(crate) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Periodic,
            1 => Self::TraceEnabled,
            2 => Self::AfterOverflow,
            _ => Self::LeftDebugState,
        }
    }

    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Periodic => "periodic",
            Self::TraceEnabled => "trace enabled",
            Self::AfterOverflow => "after overflow",
            Self::LeftDebugState => "left debug state",
        }
    }
}

/// The state bits of an I-sync, and of exception information: which instruction set, which world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// AltISA: Thumb is ThumbEE.
    pub alt_isa: bool,
    /// Non-secure state.
    pub non_secure: bool,
    /// Hyp mode.
    pub hyp: bool,
}

impl State {
    pub(crate) fn fields(self, each: &mut dyn FnMut(Field)) {
        each(Field::new("ns", Value::Flag(self.non_secure)).text(Text::Either("NS", "S")));
        each(Field::new("hyp", Value::Flag(self.hyp)).text(Text::Words("Hyp")));
        each(Field::new("alt_isa", Value::Flag(self.alt_isa)).text(Text::Words("AltISA")));
    }
}

/// The fields of an address: as it is, or without its upper bits where those are not known.
pub(crate) fn address_fields(address: Option<Address>, isa: Isa, each: &mut dyn FnMut(Field)) {
    let value = address.map_or(Value::Absent, Value::Address);
    each(Field::new("address", value).text(match address {
        Some(_) => Text::Labelled("Addr"),
        None => Text::Words("address incomplete"),
    }));
    each(Field::new("isa", Value::Word(isa.name())).text(Text::Plain));
}

/// The instruction set of an address.
pub(crate) const fn isa_of(jazelle: bool, thumb: bool, alt_isa: bool) -> Isa {
    match (jazelle, thumb, alt_isa) {
        (true, ..) => Isa::Jazelle,
        (false, false, _) => Isa::A32,
        (false, true, false) => Isa::T32,
        (false, true, true) => Isa::ThumbEe,
    }
}
