//! From a packet, or from the kind of its header, to the family that knows it.

use backsight_core::{Describe, Field, Text, Value};

use super::address::{self, ADDRESS, AddressPacket, SOURCE};
use super::atoms::Atoms;
use super::cycle_count::CycleCount;
use super::q::Q;
use super::timestamp::Timestamp;
use super::trace_info::TraceInfo;
use super::{conditional, context, exception, instrumentation, speculation, synchronisation};
use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::state::StreamState;
use crate::etm4::{Bad, Config, EncodeError, Encoder, Kind, Packet};

/// Reads the packet at the start of `bytes`, whose header is of this kind; gives its length too.
#[inline]
pub(in crate::etm4) fn read(
    kind: Kind,
    bytes: &[u8],
    config: &Config,
    state: &mut StreamState,
) -> Result<(Packet, usize), Stop> {
    let payload = &mut PayloadReader::new(bytes);
    let header = bytes.first().copied().unwrap_or_default();
    let field = kind.field(header);
    let packet = match kind {
        Kind::Extension => synchronisation::read(payload)?,
        Kind::TraceInfo => Packet::TraceInfo(TraceInfo::read(payload, state)?),
        Kind::Timestamp | Kind::TimestampCycles => {
            Packet::Timestamp(Timestamp::read(kind, payload, config, state)?)
        }
        Kind::TraceOn => Packet::TraceOn,
        Kind::FunctionReturn => Packet::FunctionReturn,
        Kind::Exception => exception::read(payload, config, state)?,
        Kind::ExceptionReturn => Packet::ExceptionReturn,
        Kind::Instrumentation => instrumentation::read(payload)?,
        Kind::TransactionStart => Packet::TransactionStart,
        Kind::TransactionCommit => Packet::TransactionCommit,
        Kind::CycleCountF1 | Kind::CycleCountF2 | Kind::CycleCountF3 => {
            Packet::CycleCount(CycleCount::read(kind, field, payload, config, state)?)
        }
        Kind::NumberedDataSync => Packet::NumberedDataSync(field),
        Kind::UnnumberedDataSync => Packet::UnnumberedDataSync(field),
        Kind::Commit
        | Kind::CancelF1
        | Kind::CancelF1Mispredict
        | Kind::Mispredict
        | Kind::CancelF2
        | Kind::CancelF3 => speculation::read(kind, field, payload)?,
        Kind::ConditionalInstructionF1
        | Kind::ConditionalInstructionF2
        | Kind::ConditionalInstructionF3
        | Kind::ConditionalFlush
        | Kind::ConditionalResultF1
        | Kind::ConditionalResultF2
        | Kind::ConditionalResultF3
        | Kind::ConditionalResultF4 => conditional::read(kind, field, payload)?,
        Kind::Ignore => Packet::Ignore,
        // No event at all has no packet: the lowest header says event 0.
        Kind::Event => Packet::Event(field + 1),
        Kind::Context => context::read(field, payload, config, state)?,
        Kind::AddressContext32Is0
        | Kind::AddressContext32Is1
        | Kind::AddressContext64Is0
        | Kind::AddressContext64Is1 => context::read_with_address(kind, payload, config, state)?,
        Kind::TimestampMarker => Packet::TimestampMarker,
        Kind::AddressExact
        | Kind::AddressShortIs0
        | Kind::AddressShortIs1
        | Kind::Address32Is0
        | Kind::Address32Is1
        | Kind::Address64Is0
        | Kind::Address64Is1 => Packet::Address(address::read(kind, field, payload, state)?),
        Kind::Q => Packet::Q(Q::read(field, payload, state)?),
        Kind::SourceExact
        | Kind::SourceShortIs0
        | Kind::SourceShortIs1
        | Kind::Source32Is0
        | Kind::Source32Is1
        | Kind::Source64Is0
        | Kind::Source64Is1 => Packet::SourceAddress(address::read(kind, field, payload, state)?),
        Kind::AtomF1 | Kind::AtomF2 | Kind::AtomF3 | Kind::AtomF4 | Kind::AtomF5 | Kind::AtomF6 => {
            Packet::Atoms(Atoms::from_header(header))
        }
        Kind::Reserved => Packet::Bad(Bad::Reserved),
    };
    Ok((packet, payload.length()))
}

/// Writes a packet. The commonest two come first.
#[inline]
pub(in crate::etm4) fn write(packet: &Packet, encoder: &mut Encoder) -> Result<(), EncodeError> {
    match packet {
        Packet::Atoms(atoms) => atoms.write(encoder),
        Packet::Address(address) => address.write(&ADDRESS, encoder),
        _ => write_other(packet, encoder),
    }
}

fn write_other(packet: &Packet, encoder: &mut Encoder) -> Result<(), EncodeError> {
    match packet {
        Packet::Async => synchronisation::write_async(encoder),
        Packet::Discard => synchronisation::write_discard(encoder),
        Packet::Overflow => synchronisation::write_overflow(encoder),
        Packet::TraceInfo(info) => info.write(encoder),
        Packet::Timestamp(timestamp) => timestamp.write(encoder),
        Packet::Exception(exception) => exception.write(encoder),
        Packet::PeReset => exception::write_reset(encoder),
        Packet::TransactionFailure => exception::write_transaction_failure(encoder),
        Packet::Instrumentation { level, value } => instrumentation::write(*level, *value, encoder),
        Packet::CycleCount(count) => count.write(encoder),
        Packet::NumberedDataSync(number) => encoder.begin(Kind::NumberedDataSync, *number),
        Packet::UnnumberedDataSync(number) => encoder.begin(Kind::UnnumberedDataSync, *number),
        Packet::Commit { count } | Packet::CancelF1 { count, .. } => {
            speculation::write_count(packet.kind(), *count, encoder)
        }
        Packet::Mispredict(atoms) => speculation::write_atoms(Kind::Mispredict, *atoms, encoder),
        Packet::CancelF2(atoms) => speculation::write_atoms(Kind::CancelF2, *atoms, encoder),
        Packet::CancelF3 { atom, count } => speculation::write_cancel_f3(*atom, *count, encoder),
        Packet::Event(events) => encoder.begin(Kind::Event, events.wrapping_sub(1)),
        Packet::Context(context) => context::write(context.as_ref(), encoder),
        Packet::AddressContext(address, context) => context::write_with_address(address, context, encoder),
        Packet::Q(q) => q.write(encoder),
        Packet::SourceAddress(address) => address.write(&SOURCE, encoder),
        Packet::TraceOn
        | Packet::FunctionReturn
        | Packet::ExceptionReturn
        | Packet::TransactionStart
        | Packet::TransactionCommit
        | Packet::Ignore
        | Packet::TimestampMarker => encoder.begin(packet.kind(), 0),
        Packet::Bad(_) | Packet::Unsynchronised => Err(EncodeError::NotAPacket),
        _ => conditional::write(packet, encoder),
    }
}

impl Packet {
    /// The name in listings, the one that users of other decoders know: `I_ATOM_F1`, `I_ADDR_S_IS0` …
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Async => "I_ASYNC",
            Self::Discard => "I_DISCARD",
            Self::Overflow => "I_OVERFLOW",
            Self::PeReset => "I_PE_RESET",
            Self::TransactionFailure => "I_TRANS_FAIL",
            Self::Unsynchronised => "I_NOT_SYNC",
            Self::Bad(why) => why.name(),
            _ => self.kind().name(),
        }
    }

    /// The row of the header map that this packet is of. Those that have none of their own, being one of
    /// several packets of a header, give that header's.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Async | Self::Discard | Self::Overflow => Kind::Extension,
            Self::TraceInfo(_) => Kind::TraceInfo,
            Self::Timestamp(timestamp) => timestamp.kind(),
            Self::TimestampMarker => Kind::TimestampMarker,
            Self::TraceOn => Kind::TraceOn,
            Self::FunctionReturn => Kind::FunctionReturn,
            Self::Exception(_) | Self::PeReset | Self::TransactionFailure => Kind::Exception,
            Self::ExceptionReturn => Kind::ExceptionReturn,
            Self::Instrumentation { .. } => Kind::Instrumentation,
            Self::TransactionStart => Kind::TransactionStart,
            Self::TransactionCommit => Kind::TransactionCommit,
            Self::CycleCount(count) => count.kind(),
            Self::NumberedDataSync(_) => Kind::NumberedDataSync,
            Self::UnnumberedDataSync(_) => Kind::UnnumberedDataSync,
            Self::Commit { .. } => Kind::Commit,
            Self::CancelF1 { mispredict: false, .. } => Kind::CancelF1,
            Self::CancelF1 { mispredict: true, .. } => Kind::CancelF1Mispredict,
            Self::Mispredict(_) => Kind::Mispredict,
            Self::CancelF2(_) => Kind::CancelF2,
            Self::CancelF3 { .. } => Kind::CancelF3,
            Self::ConditionalInstructionF1 { .. } => Kind::ConditionalInstructionF1,
            Self::ConditionalInstructionF2(_) => Kind::ConditionalInstructionF2,
            Self::ConditionalInstructionF3 { .. } => Kind::ConditionalInstructionF3,
            Self::ConditionalFlush => Kind::ConditionalFlush,
            Self::ConditionalResultF1 { .. } => Kind::ConditionalResultF1,
            Self::ConditionalResultF2 { .. } => Kind::ConditionalResultF2,
            Self::ConditionalResultF3(_) => Kind::ConditionalResultF3,
            Self::ConditionalResultF4(_) => Kind::ConditionalResultF4,
            Self::Ignore => Kind::Ignore,
            Self::Event(_) => Kind::Event,
            Self::Context(_) => Kind::Context,
            Self::Address(address) => ADDRESS.of(address),
            Self::AddressContext(address, _) => context::kind_with_address(address),
            Self::Q(_) => Kind::Q,
            Self::SourceAddress(address) => SOURCE.of(address),
            Self::Atoms(atoms) => atoms.kind(),
            Self::Bad(_) | Self::Unsynchronised => Kind::Reserved,
        }
    }

    /// The address that a listing shows beside the packet: that of an address packet, or of a Q with one.
    pub const fn address(&self) -> Option<&AddressPacket> {
        match self {
            Self::Address(address) | Self::AddressContext(address, _) | Self::SourceAddress(address) => {
                Some(address)
            }
            Self::Q(q) => q.address.as_ref(),
            _ => None,
        }
    }
}

impl Describe for Packet {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn fields(&self, each: &mut dyn FnMut(Field)) {
        match self {
            Self::TraceInfo(info) => info.fields(each),
            Self::Timestamp(timestamp) => timestamp.fields(each),
            Self::Exception(exception) => exception.fields(each),
            Self::Instrumentation { level, value } => instrumentation::fields(*level, *value, each),
            Self::CycleCount(count) => count.fields(each),
            Self::NumberedDataSync(number) | Self::UnnumberedDataSync(number) => {
                each(Field::new("number", Value::Decimal((*number).into())));
            }
            Self::Commit { count } => speculation::count_fields(*count, None, each),
            Self::CancelF1 { count, mispredict } => {
                speculation::count_fields(*count, Some(*mispredict), each);
            }
            Self::Mispredict(atoms) | Self::CancelF2(atoms) => each(speculation::atoms_field(*atoms)),
            Self::CancelF3 { atom, count } => speculation::cancel_f3_fields(*atom, *count, each),
            Self::Event(events) => each(Field::new("events", Value::Bits((*events).into(), 4))),
            Self::Context(context) => context::fields(context.as_ref(), each),
            Self::Address(address) | Self::SourceAddress(address) => address.fields(each),
            Self::AddressContext(address, context) => {
                address.fields(each);
                context.fields(each);
            }
            Self::Q(q) => q.fields(each),
            Self::Atoms(atoms) => atoms.fields(each),
            Self::Bad(why) => each(Field::new("why", Value::Word(why.words())).text(Text::Plain)),
            Self::Async
            | Self::Discard
            | Self::Overflow
            | Self::TimestampMarker
            | Self::TraceOn
            | Self::FunctionReturn
            | Self::PeReset
            | Self::TransactionFailure
            | Self::ExceptionReturn
            | Self::TransactionStart
            | Self::TransactionCommit
            | Self::Ignore
            | Self::Unsynchronised => {}
            _ => conditional::fields(self, each),
        }
    }
}
