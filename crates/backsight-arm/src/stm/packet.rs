//! What a system trace can say.

use backsight_core::{Describe, Field, Text, Value};

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// What it says.
    pub content: Content,
    /// The timestamp that follows it.
    pub time: Option<SentTime>,
    /// It begins in the high nibble of its first byte. A packet that is to be sent begins where the one before ends.
    pub begins_in_high_nibble: bool,
}

impl Packet {
    /// A packet that is to be sent, without a timestamp.
    pub const fn new(content: Content) -> Self {
        Self { content, time: None, begins_in_high_nibble: false }
    }

    /// The same with a timestamp.
    #[must_use]
    pub const fn at(self, nibbles: u8, value: u64) -> Self {
        Self { time: Some(SentTime { nibbles, value }), ..self }
    }
}

/// A timestamp as it is sent: its low nibbles, the others are as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SentTime {
    /// How many: 0 to 12, 14 or 16.
    pub nibbles: u8,
    /// Their value.
    pub value: u64,
}

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// From here on the nibbles can be read.
    Async {
        /// It was found by a search.
        found: bool,
    },
    /// How timestamps are coded, and that master and channel begin at 0.
    Version {
        /// The nibble: bits 2:0 are a [`TimeCoding`], bit 3 says that a byte follows.
        value: u8,
        /// That byte: bit 7 for fields with their lowest nibble first, below it the version.
        more: Option<u8>,
    },
    /// Nothing, or the time only.
    Null,
    /// The low byte of the master; the channel is 0.
    Master8(u8),
    /// The master; the channel is 0.
    Master16(u16),
    /// The low byte of the channel.
    Channel8(u8),
    /// The channel.
    Channel16(u16),
    /// Data of the current master was lost.
    MasterError(u8),
    /// Data of several masters was lost.
    GlobalError(u8),
    /// Data on the current channel.
    Data {
        /// The value.
        value: u64,
        /// Its nibbles: 1, 2, 4, 8 or 16.
        nibbles: u8,
        /// With a mark.
        marked: bool,
    },
    /// A mark without data.
    Flag,
    /// A trigger.
    Trigger(u8),
    /// The frequency of timestamps in Hz.
    Frequency(u32),
    /// The same in 40 bits.
    Frequency40(u64),
    /// A common point with another system trace.
    CrossSync(u8),
    /// Nibbles that are no packet.
    Bad(Bad),
    /// Nibbles that were passed over in search of synchronisation.
    Unsynchronised,
}

const _: () = assert!(size_of::<Packet>() <= 48);

/// How timestamps are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeCoding {
    /// Two nibbles without a length, as in the version before.
    Legacy,
    /// What passed since the last one.
    BinaryDelta,
    /// The time in binary.
    Binary,
    /// The time in Gray code.
    Gray,
}

impl TimeCoding {
    /// From the value of VERSION.
    pub const fn from_version(value: u8) -> Option<Self> {
        match value & 7 {
            0 | 1 => Some(Self::Legacy),
            2 => Some(Self::BinaryDelta),
            3 => Some(Self::Binary),
            4 => Some(Self::Gray),
            _ => None,
        }
    }

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::BinaryDelta => "binary differences",
            Self::Binary => "binary",
            Self::Gray => "Gray",
        }
    }
}

/// Why nibbles are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bad {
    /// An opcode that means nothing, or whose length nobody knows.
    Reserved,
    /// A timestamp of a reserved length.
    TimeLength,
    /// A version that codes timestamps in an unknown way.
    Version,
    /// Too few ones for synchronisation.
    Sync,
    /// Synchronisation cut it off.
    Interrupted,
    /// The end of the data cut it off.
    Incomplete,
}

impl Bad {
    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Reserved => "reserved opcode",
            Self::TimeLength => "reserved length of a timestamp",
            Self::Version => "unknown version",
            Self::Sync => "too short for synchronisation",
            Self::Interrupted => "cut off by synchronisation",
            Self::Incomplete => "cut off by the end of the data",
        }
    }
}

impl Describe for Packet {
    /// The names of the specification.
    fn name(&self) -> &'static str {
        let timed = self.time.is_some();
        let either = |plain, with_time| if timed { with_time } else { plain };
        match self.content {
            Content::Async { .. } => "ASYNC",
            Content::Version { .. } => "VERSION",
            Content::Null => either("NULL", "NULL_TS"),
            Content::Master8(_) => "M8",
            Content::Master16(_) => "M16",
            Content::Channel8(_) => "C8",
            Content::Channel16(_) => "C16",
            Content::MasterError(_) => "MERR",
            Content::GlobalError(_) => "GERR",
            Content::Data { nibbles, marked, .. } => data_name(nibbles, marked, timed),
            Content::Flag => either("FLAG", "FLAG_TS"),
            Content::Trigger(_) => either("TRIG", "TRIG_TS"),
            Content::Frequency(_) => either("FREQ", "FREQ_TS"),
            Content::Frequency40(_) => either("FREQ_40", "FREQ_40_TS"),
            Content::CrossSync(_) => either("XSYNC", "XSYNC_TS"),
            Content::Bad(_) => "STP_BAD_SEQUENCE",
            Content::Unsynchronised => "STP_NOTSYNC",
        }
    }

    fn fields(&self, each: &mut dyn FnMut(Field)) {
        let padded = |name, value: u64, nibbles| Field::new(name, Value::Padded(value, nibbles));
        match self.content {
            Content::Async { .. } | Content::Null | Content::Flag | Content::Unsynchronised => {}
            Content::Version { value, more } => {
                each(Field::new("version", Value::Decimal(value.into())));
                let coding = TimeCoding::from_version(value).map_or("unknown", TimeCoding::text);
                each(Field::new("timestamps", Value::Word(coding)));
                if let Some(more) = more {
                    each(padded("more", more.into(), 2));
                }
            }
            Content::Master8(master) => each(padded("master", master.into(), 2)),
            Content::Master16(master) => each(padded("master", master.into(), 4)),
            Content::Channel8(channel) => each(padded("channel", channel.into(), 2)),
            Content::Channel16(channel) => each(padded("channel", channel.into(), 4)),
            Content::MasterError(value) | Content::GlobalError(value) => {
                each(padded("value", value.into(), 2))
            }
            Content::Trigger(value) | Content::CrossSync(value) => each(padded("value", value.into(), 2)),
            Content::Data { value, nibbles, .. } => each(padded("value", value, nibbles)),
            Content::Frequency(frequency) => each(Field::new("frequency", Value::Decimal(frequency.into()))),
            Content::Frequency40(frequency) => each(Field::new("frequency", Value::Decimal(frequency))),
            Content::Bad(why) => each(Field::new("why", Value::Word(why.text())).text(Text::Plain)),
        }
        if let Some(SentTime { nibbles, value }) = self.time {
            each(padded("TS", value, nibbles));
            each(Field::new("TS_nibbles", Value::Decimal(nibbles.into())).text(Text::Hidden));
        }
    }
}

/// The name of a data packet.
const fn data_name(nibbles: u8, marked: bool, timed: bool) -> &'static str {
    match (nibbles, marked, timed) {
        (1, false, false) => "D4",
        (1, false, true) => "D4TS",
        (1, true, false) => "D4M",
        (1, true, true) => "D4MTS",
        (2, false, false) => "D8",
        (2, false, true) => "D8TS",
        (2, true, false) => "D8M",
        (2, true, true) => "D8MTS",
        (4, false, false) => "D16",
        (4, false, true) => "D16TS",
        (4, true, false) => "D16M",
        (4, true, true) => "D16MTS",
        (8, false, false) => "D32",
        (8, false, true) => "D32TS",
        (8, true, false) => "D32M",
        (8, true, true) => "D32MTS",
        (_, false, false) => "D64",
        (_, false, true) => "D64TS",
        (_, true, false) => "D64M",
        (_, true, true) => "D64MTS",
    }
}
