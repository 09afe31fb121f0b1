//! The packets of an ETMv4 or ETE instruction trace stream.
//!
//! A packet holds what the trace unit meant, not only what it wrote: addresses are whole, timestamps have
//! their upper bits, cycle counts include the threshold. What is needed to write the same bytes again is kept
//! beside that (how an address was compressed, how many timestamp bytes there were).

use backsight_core::{Address, Privilege, Security};

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
    /// The next timestamp belongs to this place.
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

/// Instruction set flag of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Is {
    /// 4-byte aligned: A64 or A32.
    #[default]
    Is0,
    /// 2-byte aligned: T32.
    Is1,
}

/// How an address was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressForm {
    /// The same as entry 0, 1 or 2 of the address history.
    Exact(u8),
    /// Low 9 (IS0) or 8 (IS1) bits, one byte.
    Short1,
    /// Low 17 (IS0) or 16 (IS1) bits, two bytes.
    Short2,
    /// Low 32 bits.
    Long32,
    /// All bits.
    Long64,
}

/// An address as a packet gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressPacket {
    /// The whole address.
    pub address: Address,
    /// Its instruction set flag.
    pub is: Is,
    /// How it was written.
    pub form: AddressForm,
}

/// What a decoder needs to begin. A section that is absent has the value 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceInfo {
    /// Which sections are present: bit 0 INFO, 1 KEY, 2 SPEC, 3 CYCT, 4 WNDW.
    pub sections: u8,
    /// INFO: bit 0 cycle counting, bits 3:1 conditional tracing, 4 loads are P0, 5 stores are P0, 6 inside a transaction.
    pub info: u32,
    /// KEY: P0 key of the next P0 element.
    pub key: u32,
    /// SPEC: speculation depth.
    pub speculation: u32,
    /// CYCT: cycle count threshold.
    pub threshold: u32,
    /// WNDW: commit window.
    pub window: u32,
}

/// A global timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// The whole value.
    pub value: u64,
    /// How many bytes it was written in, 1 to 9.
    pub bytes: u8,
    /// Cycles from the most recent cycle count to here (header 0x03).
    pub cycles: Option<u32>,
}

/// A cycle count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleCount {
    /// How it was written.
    pub format: CycleCountFormat,
    /// P0 elements to commit first; 0 in commit mode 1.
    pub commit: u32,
    /// Cycles, threshold included; `None` if unknown.
    pub cycles: Option<u32>,
}

/// The three cycle count formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleCountFormat {
    /// Fields of any length.
    F1,
    /// One byte; the commit count is counted from 1.
    F2,
    /// One byte; the commit count is counted back from the maximum speculation depth.
    F2FromMaximum,
    /// In the header.
    F3,
}

/// An exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// TYPE, 10 bits.
    pub number: u16,
    /// E1:E0 as written: 0b01 the return address follows, 0b10 it is also the target of the element before; others are reserved.
    pub address: u8,
    /// M profile: a fault is pending.
    pub fault_pending: bool,
}

impl Exception {
    /// The address that follows is also where the last branch went.
    pub const fn address_is_branch_target(&self) -> bool {
        self.address == 0b10
    }
}

/// What a Context packet, or the context part of an Address with Context packet, says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Context {
    /// Exception level, 0 to 3.
    pub level: u8,
    /// Security state.
    pub security: Security,
    /// AArch64 state.
    pub wide: bool,
    /// VMID, if the packet has one.
    pub vmid: Option<u32>,
    /// Context ID, if the packet has one.
    pub context_id: Option<u32>,
}

impl From<Context> for backsight_core::Context {
    fn from(context: Context) -> Self {
        Self {
            privilege: Privilege::Arm { level: context.level, security: context.security },
            wide: context.wide,
            vmid: context.vmid,
            context_id: context.context_id.map(u64::from),
        }
    }
}

/// A Q element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q {
    /// How many instructions; `None` if unknown.
    pub count: Option<u32>,
    /// Where execution continues; `None` if an address packet follows with it.
    pub address: Option<AddressPacket>,
}

/// One result set of a conditional result packet, format 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionalResult {
    /// The key.
    pub key: u32,
    /// Pass/fail in bit 0, or the flags V, C, Z, N in bits 0 to 3.
    pub result: u8,
    /// Conditional instructions up to the key are implied.
    pub implied: bool,
}

/// Up to 24 atoms, oldest in bit 0, 1 = `E`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Atoms {
    /// The atoms. Bits from `count` on are 0.
    pub bits: u32,
    /// How many.
    pub count: u8,
}

impl Atoms {
    /// No atom.
    pub const NONE: Self = Self { bits: 0, count: 0 };

    /// The atoms, oldest first: `true` is `E`.
    pub fn iter(self) -> impl Iterator<Item = bool> {
        (0..self.count).map(move |i| self.bits >> i & 1 != 0)
    }
}

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
