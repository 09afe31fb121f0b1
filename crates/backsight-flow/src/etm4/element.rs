//! The elements of an ETMv4 or ETE stream: what the packets say, one thing at a time.

use backsight_arm::etm4::Context;
use backsight_arm::etm4::{AddressPacket, Atoms, Exception, Is};

use crate::speculation::{Role, Speculative};
use crate::{NoSync, Outcome};

/// One element. Those that come out of a [`super::Resolver`] happened: speculation has been resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Decoding begins.
    StartOfTrace,
    /// Nothing is known any more.
    NoSync(NoSync),
    /// More elements were committed or cancelled than there are; [`Element::NoSync`] follows.
    Overrun,
    /// State restated. The return stack takes no calls until the next address.
    TraceInfo {
        /// The first one after synchronisation.
        first: bool,
        /// INFO field.
        info: u32,
    },
    /// Tracing begins.
    TraceOn,
    /// Atoms; one at a time where speculation is possible.
    Atoms(Atoms),
    /// A branch at this address was taken, all before it were not.
    SourceAddress(AddressPacket),
    /// An exception was taken.
    Exception {
        /// The exception.
        exception: Exception,
        /// Preferred return address.
        address: AddressPacket,
        /// Context at that address, and the instruction set flag it came with.
        context: Option<(Context, Is)>,
    },
    /// The processor was reset.
    PeReset,
    /// The branch before was an exception return.
    ExceptionReturn {
        /// It is counted (M profile).
        p0: bool,
    },
    /// The branch before was a Secure function return.
    FunctionReturn,
    /// Some instructions, path unknown.
    Q {
        /// How many.
        count: Option<u32>,
        /// Where execution continues.
        address: AddressPacket,
        /// Context there, and the instruction set flag it came with.
        context: Option<(Context, Is)>,
    },
    /// A transaction was under way at the first Trace Info.
    TransactionInitial,
    /// A transaction began.
    TransactionStart {
        /// It is counted.
        p0: bool,
    },
    /// A transaction took effect.
    TransactionCommit,
    /// A transaction was undone.
    TransactionFailure,
    /// Where execution continues.
    Address(AddressPacket),
    /// The context (`None`: unchanged), and the flag of the last address packet up to here.
    Context(Option<Context>, Is),
    /// Events of the trace unit.
    Event(u8),
    /// Global time.
    Timestamp {
        /// The time.
        value: u64,
        /// Cycles since the last count.
        cycles: Option<u32>,
    },
    /// The next timestamp belongs here.
    TimestampMarker,
    /// Cycles since the last count.
    CycleCount(Option<u32>),
    /// A value written by software.
    Instrumentation {
        /// Exception level of the writer.
        level: u8,
        /// The value.
        value: u64,
    },
    /// A result of a conditional instruction.
    Condition {
        /// Its key.
        key: u32,
        /// The result.
        outcome: Outcome,
    },
    /// The trace ends.
    EndOfTrace,
}

const _: () = assert!(size_of::<Element>() <= 56);

impl Speculative for Element {
    #[inline]
    fn role(&self) -> Role {
        match self {
            Self::Atoms(_)
            | Self::SourceAddress(_)
            | Self::Exception { .. }
            | Self::PeReset
            | Self::ExceptionReturn { p0: true }
            | Self::FunctionReturn
            | Self::Q { .. }
            | Self::TransactionStart { p0: true } => Role::P0,
            Self::Address(_) => Role::Address,
            Self::Event(_)
            | Self::Timestamp { .. }
            | Self::TimestampMarker
            | Self::CycleCount(_)
            | Self::Instrumentation { .. } => Role::Record,
            Self::StartOfTrace
            | Self::NoSync(_)
            | Self::Overrun
            | Self::TraceInfo { .. }
            | Self::TraceOn
            | Self::ExceptionReturn { p0: false }
            | Self::TransactionInitial
            | Self::TransactionStart { p0: false }
            | Self::TransactionCommit
            | Self::TransactionFailure
            | Self::Context(..)
            | Self::Condition { .. }
            | Self::EndOfTrace => Role::Path,
        }
    }

    fn mispredict(&mut self) -> bool {
        let Self::Atoms(atoms) = self else { return false };
        atoms.bits ^= 1;
        true
    }
}
