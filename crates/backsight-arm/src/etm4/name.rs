//! What packets are called in listings.

use super::{AddressForm, AddressPacket, Bad, CycleCountFormat, Is, Kind, Packet};

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

    /// The row of the header map that this packet is of. Those that have none of their own, being one meaning of a
    /// header of several, give that header's.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Async | Self::Discard | Self::Overflow => Kind::Extension,
            Self::TraceInfo(_) => Kind::TraceInfo,
            Self::Timestamp(timestamp) if timestamp.cycles.is_some() => Kind::TimestampCycles,
            Self::Timestamp(_) => Kind::Timestamp,
            Self::TimestampMarker => Kind::TimestampMarker,
            Self::TraceOn => Kind::TraceOn,
            Self::FunctionReturn => Kind::FunctionReturn,
            Self::Exception(_) | Self::PeReset | Self::TransactionFailure => Kind::Exception,
            Self::ExceptionReturn => Kind::ExceptionReturn,
            Self::Instrumentation { .. } => Kind::Instrumentation,
            Self::TransactionStart => Kind::TransactionStart,
            Self::TransactionCommit => Kind::TransactionCommit,
            Self::CycleCount(count) => match count.format {
                CycleCountFormat::F1 => Kind::CycleCountF1,
                CycleCountFormat::F2 | CycleCountFormat::F2FromMaximum => Kind::CycleCountF2,
                CycleCountFormat::F3 => Kind::CycleCountF3,
            },
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
            Self::Address(address) => address.kind(),
            Self::AddressContext(address, _) => address.context_kind(),
            Self::Q(_) => Kind::Q,
            Self::SourceAddress(address) => address.source_kind(),
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

impl Bad {
    /// The name in listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved | Self::NotImplemented => Kind::Reserved.name(),
            Self::ReservedByConfiguration => "I_RESERVED_CFG",
            Self::Extension | Self::AsyncLength | Self::FieldTooLong => "I_BAD_SEQUENCE",
            Self::Incomplete => "I_INCOMPLETE_EOT",
        }
    }
}

impl AddressPacket {
    const fn kind(&self) -> Kind {
        match (self.form, self.is) {
            (AddressForm::Exact(_), _) => Kind::AddressExact,
            (AddressForm::Short1 | AddressForm::Short2, Is::Is0) => Kind::AddressShortIs0,
            (AddressForm::Short1 | AddressForm::Short2, Is::Is1) => Kind::AddressShortIs1,
            (AddressForm::Long32, Is::Is0) => Kind::Address32Is0,
            (AddressForm::Long32, Is::Is1) => Kind::Address32Is1,
            (AddressForm::Long64, Is::Is0) => Kind::Address64Is0,
            (AddressForm::Long64, Is::Is1) => Kind::Address64Is1,
        }
    }

    const fn context_kind(&self) -> Kind {
        match (self.form, self.is) {
            (AddressForm::Long32, Is::Is0) => Kind::AddressContext32Is0,
            (AddressForm::Long32, Is::Is1) => Kind::AddressContext32Is1,
            (_, Is::Is0) => Kind::AddressContext64Is0,
            (_, Is::Is1) => Kind::AddressContext64Is1,
        }
    }

    const fn source_kind(&self) -> Kind {
        match (self.form, self.is) {
            (AddressForm::Exact(_), _) => Kind::SourceExact,
            (AddressForm::Short1 | AddressForm::Short2, Is::Is0) => Kind::SourceShortIs0,
            (AddressForm::Short1 | AddressForm::Short2, Is::Is1) => Kind::SourceShortIs1,
            (AddressForm::Long32, Is::Is0) => Kind::Source32Is0,
            (AddressForm::Long32, Is::Is1) => Kind::Source32Is1,
            (AddressForm::Long64, Is::Is0) => Kind::Source64Is0,
            (AddressForm::Long64, Is::Is1) => Kind::Source64Is1,
        }
    }
}
