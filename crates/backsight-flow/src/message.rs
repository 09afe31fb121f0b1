//! What software and hardware report besides flow: messages, events of debug units, and their time.

use backsight_core::Address;
use backsight_riscv::ntrace::in_circuit;

/// A message that the program wrote into a register or a port of the trace hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SoftwareMessage {
    /// Where it was written to.
    pub channel: Channel,
    /// The value, zero-extended.
    pub value: u64,
    /// Number of bytes, 1 to 8; 0 if there is a mark only.
    pub size: u8,
    flags: u8,
    time: u64,
}

const MARKED: u8 = 1;
const AFTER_LOSS: u8 = 2;
const NIBBLE: u8 = 4;
const TIMED: u8 = 8;

impl SoftwareMessage {
    /// A message of some bytes.
    pub const fn new(channel: Channel, value: u64, size: u8) -> Self {
        Self { channel, value, size, flags: 0, time: 0 }
    }

    /// The same with a mark, which most often begins or ends a message of several writes.
    #[must_use]
    pub const fn marked(self) -> Self {
        Self { flags: self.flags | MARKED, ..self }
    }

    /// The same, of four bits only.
    #[must_use]
    pub const fn nibble(self) -> Self {
        Self { flags: self.flags | NIBBLE, ..self }
    }

    /// The same at a time that came with it.
    #[must_use]
    pub const fn at(self, time: u64) -> Self {
        Self { time, flags: self.flags | TIMED, ..self }
    }

    /// The same after others were lost, or not.
    #[must_use]
    pub const fn after_loss(self, lost: bool) -> Self {
        Self { flags: self.flags | if lost { AFTER_LOSS } else { 0 }, ..self }
    }

    /// Does it have a mark?
    pub const fn is_marked(&self) -> bool {
        self.flags & MARKED != 0
    }

    /// Were others lost before it?
    pub const fn is_after_loss(&self) -> bool {
        self.flags & AFTER_LOSS != 0
    }

    /// Hexadecimal digits of the value: two for a byte.
    pub const fn digits(&self) -> u8 {
        if self.flags & NIBBLE != 0 { 1 } else { 2 * self.size }
    }

    /// The time that came with it.
    pub fn time(&self) -> Option<u64> {
        (self.flags & TIMED != 0).then_some(self.time)
    }

    /// Its bytes, in the order of memory: the lowest first.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        self.value.to_le_bytes().into_iter().take(self.size.into())
    }
}

/// Where a software message was written to, in the terms of the trace source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// ETE: the instrumentation register, at this exception level.
    ExceptionLevel(u8),
    /// A stimulus port (ITM, SiFive's ITC).
    Port(u16),
    /// A channel of a bus master (STM).
    Master {
        /// Whose it is.
        master: u16,
        /// The stimulus port.
        channel: u16,
    },
    /// The trace did not yet say (STM).
    Unknown,
}

/// Something that hardware noticed and that is no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardwareEvent {
    /// The watchpoint unit of a Cortex-M.
    Dwt(DwtEvent),
    /// In-circuit trace of SiFive's encoders.
    InCircuit(InCircuitEvent),
    /// What a system trace reports besides messages.
    System(SystemEvent),
}

/// A packet of the DWT: events of counters, exceptions, samples and accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DwtEvent {
    /// Its discriminator.
    pub id: u8,
    /// Bytes of the value: 1, 2 or 4.
    pub size: u8,
    /// Packets were lost before it.
    pub after_loss: bool,
    /// The value as sent.
    pub value: u32,
}

/// What a packet of the DWT says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DwtMeaning {
    /// These counters wrapped: CPI, EXC, SLEEP, LSU, FOLD, CYC in bits 0 to 5.
    CounterWrap(u8),
    /// A handler starts, by the number of its exception.
    ExceptionEntered(u16),
    /// A handler ends.
    ExceptionExited(u16),
    /// This handler, or the thread (0), runs again.
    ExceptionReturned(u16),
    /// The program counter.
    PcSample(u32),
    /// The processor slept.
    Sleeping,
    /// Sampling is prohibited here.
    Prohibited,
    /// These counters of the performance monitor overflowed.
    PmuOverflow(u8),
    /// A comparator matched, at this instruction.
    AccessPc(u8, u32),
    /// A comparator matched.
    Match(u8),
    /// A comparator matched, at this address; 16 or 32 bits of it.
    AccessAddress(u8, u32),
    /// This value was read or written.
    AccessValue {
        /// Which comparator matched.
        comparator: u8,
        /// It was written.
        write: bool,
        /// The value.
        value: u32,
    },
    /// Nothing that is documented.
    Reserved,
}

impl DwtEvent {
    /// What it says.
    pub const fn meaning(&self) -> DwtMeaning {
        let comparator = self.id >> 1 & 3;
        let exception = self.value as u16 & 0x1FF;
        match (self.id, self.size) {
            (0, 1) => DwtMeaning::CounterWrap(self.value as u8 & 0x3F),
            (1, 2) => match self.value >> 12 & 3 {
                1 => DwtMeaning::ExceptionEntered(exception),
                2 => DwtMeaning::ExceptionExited(exception),
                3 => DwtMeaning::ExceptionReturned(exception),
                _ => DwtMeaning::Reserved,
            },
            (2, 4) => DwtMeaning::PcSample(self.value),
            (2, 1) if self.value == 0 => DwtMeaning::Sleeping,
            (2, 1) if self.value == 0xFF => DwtMeaning::Prohibited,
            (3, 1) => DwtMeaning::PmuOverflow(self.value as u8),
            (8 | 10 | 12 | 14, 4) => DwtMeaning::AccessPc(comparator, self.value),
            (8 | 10 | 12 | 14, 1) => DwtMeaning::Match(comparator),
            (9 | 11 | 13 | 15, 2 | 4) => DwtMeaning::AccessAddress(comparator, self.value),
            (16..=23, _) => {
                DwtMeaning::AccessValue { comparator, write: self.id & 1 == 1, value: self.value }
            }
            _ => DwtMeaning::Reserved,
        }
    }
}

/// An event that SiFive's encoders report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InCircuitEvent {
    /// CKSRC: see [`in_circuit`].
    pub event: u8,
    has_address: bool,
    has_second: bool,
    /// The address, or CKDATA0.
    first: u64,
    second: u64,
}

impl InCircuitEvent {
    /// An event: CKSRC, its address where it has one and that is known, CKDATA0 and CKDATA1.
    pub fn new(event: u8, address: Option<Address>, first: u64, second: Option<u64>) -> Self {
        Self {
            event,
            has_address: address.is_some(),
            has_second: second.is_some(),
            first: address.map_or(first, |address| address.0),
            second: second.unwrap_or(0),
        }
    }

    /// The instruction that it is about.
    pub fn address(&self) -> Option<Address> {
        self.has_address.then_some(Address(self.first))
    }

    /// A number that comes with it: of a trigger, a watchpoint, an exception, a context, or a code.
    pub fn number(&self) -> Option<u64> {
        match (self.event, self.has_second) {
            (in_circuit::COUNTERS | in_circuit::CALL, _) => None,
            (in_circuit::CONTROL, false) => Some(self.first),
            (_, has_second) => has_second.then_some(self.second),
        }
    }

    /// Where a call or return went to, if that is not in its opcode.
    pub fn target(&self) -> Option<Address> {
        let is_known = self.event == in_circuit::CALL && self.has_second && self.has_address;
        is_known.then_some(Address(self.first ^ self.second << 1))
    }

    /// Counters 0 to 3 and 4 to 7, of 16 bits each, the lowest first.
    pub fn counters(&self) -> Option<[u64; 2]> {
        (self.event == in_circuit::COUNTERS).then_some([self.first, self.second])
    }
}

/// What a system trace reports besides messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SystemEvent {
    /// What it is.
    pub kind: SystemEventKind,
    /// Whose channel it came with.
    pub channel: Channel,
    /// The value as sent.
    pub value: u64,
    has_time: bool,
    time: u64,
}

impl SystemEvent {
    /// An event, at a time that came with it.
    pub fn new(kind: SystemEventKind, channel: Channel, value: u64, time: Option<u64>) -> Self {
        Self { kind, channel, value, has_time: time.is_some(), time: time.unwrap_or(0) }
    }

    /// The time that came with it.
    pub fn time(&self) -> Option<u64> {
        self.has_time.then_some(self.time)
    }
}

/// What a system trace reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SystemEventKind {
    /// A trigger.
    Trigger,
    /// Messages of the current master were lost.
    MasterError,
    /// Messages of several masters, or of nobody knows which, were lost.
    GlobalError,
    /// A common point with another system trace.
    CrossSync,
    /// The frequency of timestamps, in Hz; 0 if it is not known.
    Frequency,
    /// Nothing but the time.
    Time,
}

impl SystemEventKind {
    /// What it is, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::MasterError => "messages of a master lost",
            Self::GlobalError => "messages lost",
            Self::CrossSync => "cross-synchronisation",
            Self::Frequency => "frequency of timestamps",
            Self::Time => "time",
        }
    }
}

/// The time that a source of messages reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceTime {
    /// Ticks of the source's own counter.
    Local {
        /// Since the last one.
        delta: u32,
        /// Since the first one, or since some were lost.
        total: u64,
        /// How the ticks relate to the messages before them.
        relation: TimeRelation,
        /// Packets were lost before it.
        after_loss: bool,
    },
    /// Time that several sources share.
    Global {
        /// The time.
        value: u64,
        /// Packets were lost before it.
        after_loss: bool,
    },
}

/// How a local timestamp relates to the messages that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeRelation {
    /// It is their time.
    Exact,
    /// It came late: they lie between the timestamp before and this one.
    TimestampDelayed,
    /// They came late: it is the time of their packets.
    PacketDelayed,
    /// Both.
    BothDelayed,
}

impl TimeRelation {
    /// From the two bits of a packet.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Exact,
            1 => Self::TimestampDelayed,
            2 => Self::PacketDelayed,
            _ => Self::BothDelayed,
        }
    }

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::TimestampDelayed => "timestamp delayed",
            Self::PacketDelayed => "packet delayed",
            Self::BothDelayed => "timestamp and packet delayed",
        }
    }
}
