//! What an N-Trace encoder can say.

use backsight_core::Address;

/// How messages of a stream are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Bits of the SRC field; 0 if there is only one source.
    pub source_bits: u8,
    /// Bits of an address field of which the highest is copied upward; 0 if addresses are not extended.
    pub address_bits: u8,
    /// Whose messages they are; `None` if that has to show in the messages.
    pub dialect: Option<Dialect>,
}

/// Whose messages they are. All messages of one can stand beside those of the other; times differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// N-Trace 1.0: a TSTAMP is added to the time.
    Ratified,
    /// SiFive's trace encoders: a TSTAMP is what changed in the time, bit by bit.
    Sifive,
}

impl Config {
    /// A stream with so many bits of SRC.
    pub const fn with_source_bits(source_bits: u8) -> Self {
        Self { source_bits, address_bits: 0, dialect: None }
    }

    /// Whose messages they are, as far as the layout says: only SiFive's addresses are extended from a fixed bit.
    pub const fn known_dialect(&self) -> Option<Dialect> {
        match (self.dialect, self.address_bits) {
            (None, 1..) => Some(Dialect::Sifive),
            (dialect, _) => dialect,
        }
    }

    /// An address field, with its highest bit copied upward.
    pub const fn extend(&self, field: u64) -> u64 {
        match self.address_bits {
            bits @ 1..=63 => (((field << (64 - bits)) as i64) >> (64 - bits)) as u64,
            _ => field,
        }
    }
}

/// Most bits of I-CNT.
pub const INSTRUCTION_COUNT_BITS: u32 = 22;

/// Most bits of B-CNT and HREPEAT.
pub const REPETITION_BITS: u32 = 18;

/// Most bits of the SRC field.
pub const MOST_SOURCE_BITS: u8 = 12;

/// A message with what any message can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// SRC: which encoder sent it; 0 where the field is not sent.
    pub source: u16,
    /// TSTAMP, where one was sent: the time if the message synchronises, else what passed since the last one sent.
    pub timestamp: Option<u64>,
    /// The whole address that the message reports. `None` where it reports none, or only how it differs from one that is
    /// not known, and in a message that is to be sent: its bytes do not say it.
    pub address: Option<Address>,
    /// What it says.
    pub message: Message,
}

const _: () = assert!(size_of::<Packet>() <= 72);

impl Packet {
    /// A message that is to be sent.
    pub const fn new(source: u16, timestamp: Option<u64>, message: Message) -> Self {
        Self { source, timestamp, address: None, message }
    }
}

/// A message. I-CNT counts half-words retired since a message last carried it; addresses are halved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The software context changed.
    Ownership {
        /// PROCESS: see [`Process`](super::Process).
        process: u64,
    },
    /// A direct branch was taken; conditional ones before it were not.
    DirectBranch {
        /// I-CNT.
        count: u32,
    },
    /// An indirect branch or a trap; conditional branches before it were not taken.
    IndirectBranch {
        /// Branch or trap.
        kind: BranchKind,
        /// I-CNT.
        count: u32,
        /// U-ADDR: exclusive or of the target and the last address sent.
        address: u64,
    },
    /// Messages were lost.
    Error {
        /// ETYPE.
        kind: u8,
        /// ECODE.
        code: u64,
    },
    /// Synchronisation: the whole address.
    ProgramTraceSync {
        /// SYNC: why.
        reason: u8,
        /// I-CNT.
        count: u32,
        /// F-ADDR.
        address: u64,
    },
    /// As [`Message::DirectBranch`], with synchronisation.
    DirectBranchSync {
        /// SYNC: why.
        reason: u8,
        /// I-CNT.
        count: u32,
        /// F-ADDR.
        address: u64,
    },
    /// As [`Message::IndirectBranch`], with synchronisation.
    IndirectBranchSync {
        /// SYNC: why.
        reason: u8,
        /// Branch or trap.
        kind: BranchKind,
        /// I-CNT.
        count: u32,
        /// F-ADDR.
        address: u64,
    },
    /// A counter or the branch history was full.
    ResourceFull(Resource),
    /// An indirect branch or a trap, with the outcomes of the branches before it.
    IndirectBranchHistory {
        /// Branch or trap.
        kind: BranchKind,
        /// I-CNT.
        count: u32,
        /// U-ADDR: exclusive or of the target and the last address sent.
        address: u64,
        /// HIST.
        history: History,
    },
    /// As [`Message::IndirectBranchHistory`], with synchronisation.
    IndirectBranchHistorySync {
        /// SYNC: why.
        reason: u8,
        /// Branch or trap.
        kind: BranchKind,
        /// I-CNT.
        count: u32,
        /// F-ADDR.
        address: u64,
        /// HIST.
        history: History,
    },
    /// The branch message before happened so many times more.
    RepeatBranch {
        /// B-CNT.
        count: u32,
    },
    /// Tracing ends here.
    ProgramTraceCorrelation {
        /// EVCODE: why.
        reason: u8,
        /// I-CNT.
        count: u32,
        /// HIST, where one was sent (CDF 1).
        history: Option<History>,
    },
    /// Software wrote to a stimulus register (SiFive).
    DataAcquisition {
        /// IDTAG: four times the number of the stimulus, and where in its word was written to.
        tag: u32,
        /// DATA.
        data: u64,
        /// It was sent by an older core, under another code (AuxAccessWrite).
        old: bool,
    },
    /// Something happened that is no flow (SiFive).
    InCircuitTrace {
        /// CKSRC: what.
        event: u8,
        /// Its address is whole, and so is its time.
        is_sync: bool,
        /// CKDATA0: most often an address.
        first: u64,
        /// CKDATA1, where one was sent (CKDF 1).
        second: Option<u64>,
    },
    /// A message of another kind (vendors have their own): its TCODE.
    Other(u8),
    /// Bytes that are no message.
    Bad(Bad),
}

/// B-TYPE: what an indirect branch message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BranchKind {
    /// An indirect branch.
    Indirect,
    /// An exception or interrupt, which is not said.
    Trap,
    /// An exception.
    Exception,
    /// An interrupt.
    Interrupt,
}

impl BranchKind {
    /// From the two bits of B-TYPE.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Indirect,
            1 => Self::Trap,
            2 => Self::Exception,
            _ => Self::Interrupt,
        }
    }

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Indirect => "indirect",
            Self::Trap => "trap",
            Self::Exception => "exception",
            Self::Interrupt => "interrupt",
        }
    }

    /// The two bits of B-TYPE.
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

/// RCODE: what was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// I-CNT: so many half-words retired, and it begins again at 0.
    Count(u32),
    /// HIST.
    History(History),
    /// HIST, the same several times in a row.
    HistoryRepeat {
        /// HIST.
        history: History,
        /// HREPEAT: how many times it occurred.
        times: u32,
    },
    /// So many branches in a row, all taken or none of them (SiFive).
    Run {
        /// Were they taken?
        taken: bool,
        /// How many.
        branches: u32,
    },
    /// Something else: its RCODE.
    Other(u8),
}

/// Outcomes of branches: the top bit that is set is a stop bit, below it 1 = taken, the newest in bit 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct History(pub u64);

impl History {
    /// No outcome.
    pub const EMPTY: Self = Self(1);

    /// How many outcomes there are.
    pub const fn len(self) -> u32 {
        63 - (self.0 | 1).leading_zeros()
    }

    /// Is there none?
    pub const fn is_empty(self) -> bool {
        self.0 <= 1
    }

    /// The outcomes, oldest first: `true` is taken.
    pub fn outcomes(self) -> impl Iterator<Item = bool> {
        (0..self.len()).rev().map(move |bit| self.0 >> bit & 1 == 1)
    }

    /// Appends an outcome.
    #[must_use]
    pub const fn with(self, taken: bool) -> Self {
        Self(self.0 << 1 | taken as u64)
    }
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bad {
    /// A reserved marker.
    Marker,
    /// A field that is longer than its value can be, or a message without an end.
    TooLong,
    /// A field is missing.
    FieldMissing,
    /// The end of the data cut the message off.
    Incomplete,
}

impl Bad {
    /// The reason in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Marker => "reserved marker",
            Self::TooLong => "field too long",
            Self::FieldMissing => "field missing",
            Self::Incomplete => "cut off by the end of the data",
        }
    }
}

impl Message {
    /// Can decoding begin with it, and is its time absolute?
    pub const fn is_sync(&self) -> bool {
        matches!(
            self,
            Self::ProgramTraceSync { .. }
                | Self::DirectBranchSync { .. }
                | Self::IndirectBranchSync { .. }
                | Self::IndirectBranchHistorySync { .. }
                | Self::InCircuitTrace { is_sync: true, .. }
        )
    }

    /// The name of the message in the specification's words.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ownership { .. } => "Ownership",
            Self::DirectBranch { .. } => "DirectBranch",
            Self::IndirectBranch { .. } => "IndirectBranch",
            Self::Error { .. } => "Error",
            Self::ProgramTraceSync { .. } => "ProgTraceSync",
            Self::DirectBranchSync { .. } => "DirectBranchSync",
            Self::IndirectBranchSync { .. } => "IndirectBranchSync",
            Self::ResourceFull(_) => "ResourceFull",
            Self::IndirectBranchHistory { .. } => "IndirectBranchHist",
            Self::IndirectBranchHistorySync { .. } => "IndirectBranchHistSync",
            Self::RepeatBranch { .. } => "RepeatBranch",
            Self::ProgramTraceCorrelation { .. } => "ProgTraceCorrelation",
            Self::DataAcquisition { old: false, .. } => "DataAcquisition",
            Self::DataAcquisition { old: true, .. } => "AuxAccessWrite",
            Self::InCircuitTrace { is_sync: false, .. } => "InCircuitTrace",
            Self::InCircuitTrace { is_sync: true, .. } => "InCircuitTraceSync",
            Self::Other(_) => "Other",
            Self::Bad(_) => "Bad",
        }
    }
}

/// Codes of the messages.
pub(super) mod tcode {
    pub const OWNERSHIP: u8 = 2;
    pub const DIRECT_BRANCH: u8 = 3;
    pub const INDIRECT_BRANCH: u8 = 4;
    pub const DATA_ACQUISITION: u8 = 7;
    pub const ERROR: u8 = 8;
    pub const PROGRAM_TRACE_SYNC: u8 = 9;
    pub const DIRECT_BRANCH_SYNC: u8 = 11;
    pub const INDIRECT_BRANCH_SYNC: u8 = 12;
    pub const AUX_ACCESS_WRITE: u8 = 23;
    pub const RESOURCE_FULL: u8 = 27;
    pub const INDIRECT_BRANCH_HISTORY: u8 = 28;
    pub const INDIRECT_BRANCH_HISTORY_SYNC: u8 = 29;
    pub const REPEAT_BRANCH: u8 = 30;
    pub const PROGRAM_TRACE_CORRELATION: u8 = 33;
    pub const IN_CIRCUIT_TRACE: u8 = 34;
    pub const IN_CIRCUIT_TRACE_SYNC: u8 = 35;

    /// Does a message of this code have a whole address?
    pub const fn is_sync(code: u8) -> bool {
        matches!(
            code,
            PROGRAM_TRACE_SYNC | DIRECT_BRANCH_SYNC | INDIRECT_BRANCH_SYNC | INDIRECT_BRANCH_HISTORY_SYNC
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_newest_outcome_of_a_history_is_its_lowest_bit() {
        let history = History::EMPTY.with(true).with(false).with(false);
        assert_eq!(history, History(0b1100));
        assert_eq!(history.outcomes().collect::<Vec<_>>(), [true, false, false]);
        assert!(History::EMPTY.is_empty() && History(0).is_empty());
    }
}
