//! The packets of an ETMv4 or ETE instruction trace stream.
//!
//! A packet holds what the trace unit meant, not only what it wrote: addresses are complete, timestamps have
//! their upper bits, cycle counts include the threshold. What is needed to write the same bytes again is kept
//! beside that (how an address was compressed, how many timestamp bytes there were).
//!
//! Each family of packets is a file: what it holds, how its bytes are laid out, its reader, its writer, and how it is
//! described. A packet is read to its end before it changes any state, so that one whose end has not been fed can be
//! read again from its beginning.

mod address;
mod atoms;
mod conditional;
mod context;
mod cycle_count;
mod dispatch;
mod exception;
mod instrumentation;
mod q;
mod speculation;
mod synchronisation;
mod timestamp;
mod trace_info;

pub use address::{AddressForm, AddressPacket, Is};
pub use atoms::{Atoms, MAX_ATOMS};
pub use conditional::ConditionalResult;
pub use context::Context;
pub use cycle_count::{CycleCount, CycleCountFormat};
pub(super) use dispatch::{read, write};
pub use exception::Exception;
pub use q::Q;
pub(super) use synchronisation::{ASYNC_END, ASYNC_ZEROS};
pub use timestamp::Timestamp;
pub use trace_info::TraceInfo;

use super::Kind;

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Eleven zero bytes and 0x80: the next byte is a header.
    Async,
    /// Tracing stopped with speculation unresolved.
    Discard,
    /// The trace unit lost data.
    Overflow,
    /// The state a decoder needs to begin.
    TraceInfo(TraceInfo),
    /// Global timestamp.
    Timestamp(Timestamp),
    /// The next timestamp belongs to this position.
    TimestampMarker,
    /// Tracing begins here, or begins again after a break.
    TraceOn,
    /// v8-M: the branch before was a Secure function return.
    FunctionReturn,
    /// An exception; its preferred return address follows in an address packet.
    Exception(Exception),
    /// ETE: the processor was reset. No address belongs to it.
    PeReset,
    /// ETE: everything since the transaction started was undone.
    TransactionFailure,
    /// The branch before was an exception return.
    ExceptionReturn,
    /// ETE 1.3: a value written by software.
    Instrumentation {
        /// Exception level of the writer.
        level: u8,
        /// The value.
        value: u64,
    },
    /// ETE: a transaction began.
    TransactionStart,
    /// ETE: the outermost transaction committed.
    TransactionCommit,
    /// Cycles since the last count, and in commit mode 0 a number of P0 elements to commit.
    CycleCount(CycleCount),
    /// Correlates with the data trace stream; 0 to 7.
    NumberedDataSync(u8),
    /// Correlates with the data trace stream; 0 to 4.
    UnnumberedDataSync(u8),
    /// The oldest elements were executed.
    Commit {
        /// How many.
        count: u32,
    },
    /// The newest elements never happened.
    CancelF1 {
        /// How many.
        count: u32,
        /// The element before them went the other way.
        mispredict: bool,
    },
    /// Atoms (none, `E`, `EE` or `N`), then the newest one goes the other way.
    Mispredict(Atoms),
    /// Atoms (none, `E`, `EE` or `N`), then one element is cancelled, then the newest one goes the other way.
    CancelF2(Atoms),
    /// Possibly an `E` atom, then 2 to 5 elements are cancelled, then the newest one goes the other way.
    CancelF3 {
        /// An `E` atom comes first.
        atom: bool,
        /// How many elements are cancelled, 2 to 5.
        count: u8,
    },
    /// Conditional instruction with its key.
    ConditionalInstructionF1 {
        /// The key.
        key: u32,
    },
    /// Conditional instruction, 0: next key, one element; 1: same key; 2: next key, two elements.
    ConditionalInstructionF2(u8),
    /// Several conditional instructions.
    ConditionalInstructionF3 {
        /// Elements with a key of their own each, 0 to 63.
        count: u8,
        /// One more with the last key.
        repeat: bool,
    },
    /// Outstanding conditional instructions get no result.
    ConditionalFlush,
    /// One or two results with keys.
    ConditionalResultF1 {
        /// The first set.
        first: ConditionalResult,
        /// The second set.
        second: Option<ConditionalResult>,
    },
    /// A result for the key one or two further on.
    ConditionalResultF2 {
        /// The key advances by two, not one.
        skip: bool,
        /// 2-bit token, 0 to 2.
        token: u8,
    },
    /// A string of tokens, 12 bits, consumed from bit 0.
    ConditionalResultF3(u16),
    /// A result for the key before. 2-bit token, 0 to 2.
    ConditionalResultF4(u8),
    /// Nothing.
    Ignore,
    /// Events occurred: bit i for event i, never 0.
    Event(u8),
    /// The context, or `None` where the packet says that it has not changed. A `vmid` or `context_id` of `None`
    /// means that the packet has none and the last one holds.
    Context(Option<Context>),
    /// Where execution continues.
    Address(AddressPacket),
    /// Where execution continues, and in which context.
    AddressContext(AddressPacket, Context),
    /// A number of instructions, path unknown.
    Q(Q),
    /// ETE: the address of a P0 instruction that was taken.
    SourceAddress(AddressPacket),
    /// Up to 24 atoms.
    Atoms(Atoms),
    /// Bytes that are no valid packet.
    Bad(Bad),
    /// Bytes passed over while looking for the first [`Packet::Async`].
    Unsynchronised,
}

const _: () = assert!(size_of::<Packet>() <= 40);

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bad {
    /// The header is reserved.
    Reserved,
    /// The packet exists but is not switched on: Exception Return on ETE, data synchronisation markers,
    /// conditional instructions. Often a sign of wrong registers.
    ReservedByConfiguration,
    /// The packet exists, but not in a trace unit of this version and these features. Often a sign of wrong ID
    /// registers.
    NotImplemented,
    /// A zero byte that neither Async nor Discard nor Overflow follows.
    Extension,
    /// An Async with too few or too many zeros.
    AsyncLength,
    /// A field that is longer than its value can be.
    FieldTooLong,
    /// The end of the data cut the packet off.
    Incomplete,
}

impl Bad {
    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Reserved => "reserved header",
            Self::ReservedByConfiguration => "header does not exist in this configuration",
            Self::NotImplemented => "packet that this trace unit cannot send",
            Self::Extension => "neither Async, Discard nor Overflow",
            Self::AsyncLength => "Async of a wrong length",
            Self::FieldTooLong => "field too long",
            Self::Incomplete => "cut off by the end of the data",
        }
    }

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
