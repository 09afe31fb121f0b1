//! What an N-Trace encoder can say.
//!
//! Each family of messages is a file: its reader, its writer, and how it is listed. [`ROWS`](super::ROWS) is the table of all.

mod branch;
mod control;
mod resource;
mod vendor;

pub use branch::{BranchKind, History};
pub use resource::Resource;

use backsight_core::{Address, Describe, Field, Text, Value};

use super::fields::{FieldReader, FieldValue, FieldWriter};
use super::table::Kind;

type Each<'e> = &'e mut dyn FnMut(Field);

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

/// Reads the message with that TCODE.
#[inline]
pub(super) fn read<V: FieldValue>(code: u8, fields: &mut FieldReader<'_, V>) -> Result<Message, Bad> {
    let Some(kind) = Kind::of(code) else { return Ok(Message::Other(code)) };
    match kind {
        Kind::DirectBranch
        | Kind::IndirectBranch
        | Kind::ProgramTraceSync
        | Kind::DirectBranchSync
        | Kind::IndirectBranchSync
        | Kind::IndirectBranchHistory
        | Kind::IndirectBranchHistorySync => branch::read(kind, fields),
        Kind::RepeatBranch => Ok(Message::RepeatBranch { count: fields.repetitions()? }),
        Kind::ResourceFull => Resource::read(fields).map(Message::ResourceFull),
        Kind::Ownership | Kind::Error | Kind::ProgramTraceCorrelation => control::read(kind, fields),
        Kind::DataAcquisition | Kind::AuxAccessWrite | Kind::InCircuitTrace | Kind::InCircuitTraceSync => {
            vendor::read(kind, fields)
        }
    }
}

/// Writes a message of that source; false if it has no bytes of its own.
pub(super) fn write(message: &Message, (source, source_bits): (u16, u32), to: &mut FieldWriter<'_>) -> bool {
    let Some(kind) = message.kind() else { return false };
    to.fixed(kind as u64, 6);
    to.fixed(source.into(), source_bits);
    match *message {
        Message::RepeatBranch { count } => to.variable(count.into()),
        Message::ResourceFull(resource) => return resource.write(to),
        Message::Ownership { .. } | Message::Error { .. } | Message::ProgramTraceCorrelation { .. } => {
            control::write(message, to);
        }
        Message::DataAcquisition { .. } | Message::InCircuitTrace { .. } => vendor::write(message, to),
        _ => branch::Fields::of(message).write(to),
    }
    true
}

impl Message {
    /// The row of the table that it is of. Messages of other kinds and bad ones have none.
    #[inline]
    pub const fn kind(&self) -> Option<Kind> {
        Some(match self {
            Self::Ownership { .. } => Kind::Ownership,
            Self::DirectBranch { .. } => Kind::DirectBranch,
            Self::IndirectBranch { .. } => Kind::IndirectBranch,
            Self::Error { .. } => Kind::Error,
            Self::ProgramTraceSync { .. } => Kind::ProgramTraceSync,
            Self::DirectBranchSync { .. } => Kind::DirectBranchSync,
            Self::IndirectBranchSync { .. } => Kind::IndirectBranchSync,
            Self::ResourceFull(_) => Kind::ResourceFull,
            Self::IndirectBranchHistory { .. } => Kind::IndirectBranchHistory,
            Self::IndirectBranchHistorySync { .. } => Kind::IndirectBranchHistorySync,
            Self::RepeatBranch { .. } => Kind::RepeatBranch,
            Self::ProgramTraceCorrelation { .. } => Kind::ProgramTraceCorrelation,
            Self::DataAcquisition { old: false, .. } => Kind::DataAcquisition,
            Self::DataAcquisition { old: true, .. } => Kind::AuxAccessWrite,
            Self::InCircuitTrace { is_sync: false, .. } => Kind::InCircuitTrace,
            Self::InCircuitTrace { is_sync: true, .. } => Kind::InCircuitTraceSync,
            Self::Other(_) | Self::Bad(_) => return None,
        })
    }

    /// Can decoding begin with it, and is its time absolute?
    pub const fn is_sync(&self) -> bool {
        match self.kind() {
            Some(kind) => kind.is_sync() || matches!(kind, Kind::InCircuitTraceSync),
            None => false,
        }
    }

    /// The name of the message in the specification's words.
    pub const fn name(&self) -> &'static str {
        match (self, self.kind()) {
            (_, Some(kind)) => kind.row().name,
            (Self::Bad(_), None) => "Bad",
            (_, None) => "Other",
        }
    }

    fn fields(&self, each: Each<'_>) {
        match *self {
            Self::RepeatBranch { count } => each(Field::new("BCNT", Value::Decimal(count.into()))),
            Self::ResourceFull(resource) => resource.fields(each),
            Self::Ownership { .. } | Self::Error { .. } | Self::ProgramTraceCorrelation { .. } => {
                control::fields(self, each);
            }
            Self::DataAcquisition { .. } | Self::InCircuitTrace { .. } => vendor::fields(self, each),
            Self::Other(code) => each(Field::new("TCODE", Value::Decimal(code.into()))),
            Self::Bad(why) => each(Field::new("why", Value::Word(why.name()))),
            _ => branch::Fields::of(self).list(each),
        }
    }
}

impl Describe for Packet {
    fn name(&self) -> &'static str {
        self.message.name()
    }

    /// The fields by the names of the specification, as they are sent; `address` is the whole address.
    fn fields(&self, each: Each<'_>) {
        let text = if self.source == 0 { Text::Hidden } else { Text::Labelled("SRC") };
        each(Field::new("SRC", Value::Decimal(self.source.into())).text(text));
        self.message.fields(each);
        if let Some(address) = self.address {
            each(Field::new("address", Value::Address(address)));
        }
        if let Some(timestamp) = self.timestamp {
            each(Field::new("TSTAMP", Value::Decimal(timestamp)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, encode, messages};
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;
    use alloc::{format, vec};

    fn listed(packets: &[Packet]) -> Vec<String> {
        let (config, mut bytes) = (Config::with_source_bits(2), vec![]);
        packets.iter().for_each(|packet| assert!(encode(&config, packet, &mut bytes)));
        let line = |packet: &Packet| {
            let mut line = String::from(Describe::name(packet));
            Describe::fields(packet, &mut |field| {
                let value = match field.value {
                    Value::Decimal(value) => format!("{value}"),
                    Value::Hexadecimal(value) => format!("{value:#x}"),
                    Value::Address(address) => format!("@{:x}", address.0),
                    Value::Word(word) => format!("`{word}`"),
                    other => panic!("{other:?}"),
                };
                if field.text != Text::Hidden {
                    line += &format!(" {}={value}", field.name);
                }
            });
            line
        };
        messages(&config, &bytes).iter().map(|packet| line(&packet.value)).collect()
    }

    #[test]
    fn addresses_are_whole_for_each_source() {
        let kind = BranchKind::Indirect;
        let sync = |source, address| {
            Packet::new(source, Some(5), Message::ProgramTraceSync { reason: 5, count: 0, address })
        };
        let jump =
            |source, address| Packet::new(source, None, Message::IndirectBranch { kind, count: 3, address });
        let repeat = |count| Packet::new(1, None, Message::RepeatBranch { count });
        let expected = [
            "IndirectBranch SRC=1 BTYPE=`indirect` ICNT=3 UADDR=0x1",
            "ProgTraceSync SRC=1 SYNC=5 reason=`trace enabled` ICNT=0 FADDR=0x800 address=@1000 TSTAMP=5",
            "ProgTraceSync SYNC=5 reason=`trace enabled` ICNT=0 FADDR=0x10 address=@20 TSTAMP=5",
            "IndirectBranch SRC=1 BTYPE=`indirect` ICNT=3 UADDR=0x8 address=@1010",
            "RepeatBranch SRC=1 BCNT=3",
            "IndirectBranch SRC=1 BTYPE=`indirect` ICNT=3 UADDR=0x1 address=@1012",
            "IndirectBranch BTYPE=`indirect` ICNT=3 UADDR=0x1 address=@22",
            "Error SRC=1 ETYPE=0 ECODE=0x4",
            "IndirectBranch SRC=1 BTYPE=`indirect` ICNT=3 UADDR=0x1",
        ];
        let packets = [
            jump(1, 1),
            sync(1, 0x800),
            sync(0, 0x10),
            jump(1, 8),
            repeat(3),
            jump(1, 1),
            jump(0, 1),
            Packet::new(1, None, Message::Error { kind: 0, code: 4 }),
            jump(1, 1),
        ];
        assert_eq!(listed(&packets), expected);
    }

    #[test]
    fn every_message_lists_what_it_says() {
        let history = History(0b110);
        let kind = BranchKind::Exception;
        let messages = [
            Message::Ownership { process: 0x3B2 },
            Message::DirectBranch { count: 7 },
            Message::ResourceFull(Resource::HistoryRepeat { history, times: 9 }),
            Message::ProgramTraceCorrelation { reason: 4, count: 1, history: Some(history) },
            Message::IndirectBranchHistorySync { reason: 2, kind, count: 4, address: 8, history },
        ];
        let expected = [
            "Ownership PROCESS=0x3b2 privilege=5 scontext=0x1d",
            "DirectBranch ICNT=7",
            "ResourceFull HIST=0x6 HREPEAT=9",
            "ProgTraceCorrelation EVCODE=4 reason=`trace disabled` ICNT=1 HIST=0x6",
            "IndirectBranchHistSync SYNC=2 reason=`periodic` BTYPE=`exception` ICNT=4 FADDR=0x8 HIST=0x6 address=@10",
        ];
        assert_eq!(listed(&messages.map(|message| Packet::new(0, None, message))), expected);
    }
}
