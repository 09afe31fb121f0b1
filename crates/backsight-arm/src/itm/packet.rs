//! What an ITM can say.

use backsight_core::{Describe, Field, Text, Value};

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packet {
    /// From here on the bytes can be read.
    Sync,
    /// Packets were lost.
    Overflow,
    /// Ticks since the last local timestamp.
    LocalTimestamp {
        /// How many, up to 28 bits.
        ticks: u32,
        /// TC: 0 in step with the packets before, 1 this came late, 2 they did, 3 both.
        relation: u8,
    },
    /// The low bits of the global timestamp.
    GlobalTimestamp1 {
        /// Up to 26 bits; those that were not sent are 0.
        low: u32,
        /// Bytes that were sent, 1 to 4: seven bits each.
        length: u8,
        /// The high bits changed too: they follow.
        wrapped: bool,
        /// The clock of timestamps changed.
        clock_changed: bool,
    },
    /// The high bits of the global timestamp, from bit 26 up.
    GlobalTimestamp2 {
        /// 22 bits of a timestamp of 48, 38 of one of 64.
        high: u64,
        /// The timestamp has 64 bits.
        wide: bool,
    },
    /// More about the packets that follow.
    Extension {
        /// Its source is hardware.
        hardware: bool,
        /// Three bits, and seven more for each byte; the fourth has eight.
        value: u32,
        /// Bytes that were sent, 0 to 4.
        length: u8,
    },
    /// Software wrote to a stimulus port.
    Instrumentation {
        /// The port in its page.
        port: u8,
        /// The value.
        value: u32,
        /// Its bytes: 1, 2 or 4.
        size: u8,
    },
    /// The DWT noticed something.
    Hardware {
        /// What.
        id: u8,
        /// The value.
        value: u32,
        /// Its bytes: 1, 2 or 4.
        size: u8,
    },
    /// Bytes that are no packet.
    Bad(Bad),
    /// Bytes that were passed over in search of synchronisation.
    Unsynchronised,
}

const _: () = assert!(size_of::<Packet>() <= 16);

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bad {
    /// A header that means nothing.
    Reserved,
    /// A timestamp or extension of more bytes than it can have.
    Length,
    /// Zeros that are no synchronisation.
    Zeros,
    /// The end of the data cut it off.
    Incomplete,
}

impl Bad {
    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Reserved => "reserved header",
            Self::Length => "wrong number of bytes",
            Self::Zeros => "too few zeros for synchronisation",
            Self::Incomplete => "cut off by the end of the data",
        }
    }
}

impl Packet {
    /// The page of stimulus ports that it selects.
    pub const fn page(&self) -> Option<u8> {
        match *self {
            Self::Extension { hardware: false, value, length: 0 } => Some(value as u8),
            _ => None,
        }
    }
}

impl Describe for Packet {
    /// The names that users of OpenCSD know.
    fn name(&self) -> &'static str {
        match self {
            Self::Sync => "ITM_ASYNC",
            Self::Overflow => "ITM_OVERFLOW",
            Self::LocalTimestamp { .. } => "ITM_TS_LOCAL",
            Self::GlobalTimestamp1 { .. } => "ITM_GTS_1",
            Self::GlobalTimestamp2 { .. } => "ITM_GTS_2",
            Self::Extension { .. } => "ITM_EXTENSION",
            Self::Instrumentation { .. } => "ITM_SWIT",
            Self::Hardware { .. } => "ITM_DWT",
            Self::Bad(_) => "ITM_BAD_SEQUENCE",
            Self::Unsynchronised => "ITM_NOTSYNC",
        }
    }

    fn fields(&self, each: &mut dyn FnMut(Field)) {
        let decimal = |name, value: u8| Field::new(name, Value::Decimal(value.into()));
        match *self {
            Self::Sync | Self::Overflow | Self::Unsynchronised => {}
            Self::LocalTimestamp { ticks, relation } => {
                each(Field::new("ticks", Value::Decimal(ticks.into())));
                each(decimal("relation", relation));
            }
            Self::GlobalTimestamp1 { low, length, wrapped, clock_changed } => {
                each(Field::new("low", Value::Hexadecimal(low.into())));
                each(Field::new("bits", Value::Decimal((7 * u64::from(length)).min(26))));
                each(Field::new("wrapped", Value::Flag(wrapped)).text(Text::Words("wrapped")));
                each(
                    Field::new("clock_changed", Value::Flag(clock_changed))
                        .text(Text::Words("clock changed")),
                );
            }
            Self::GlobalTimestamp2 { high, wide } => {
                each(Field::new("high", Value::Hexadecimal(high)));
                each(decimal("timestamp_bits", if wide { 64 } else { 48 }));
            }
            Self::Extension { hardware, value, .. } => {
                each(
                    Field::new("hardware", Value::Flag(hardware)).text(Text::Either("hardware", "software")),
                );
                each(Field::new("value", Value::Hexadecimal(value.into())));
            }
            Self::Instrumentation { port, value, size } => {
                each(decimal("port", port));
                each(Field::new("value", Value::Padded(value.into(), 2 * size)));
            }
            Self::Hardware { id, value, size } => {
                each(decimal("source", id));
                each(Field::new("value", Value::Padded(value.into(), 2 * size)));
            }
            Self::Bad(why) => each(Field::new("why", Value::Word(why.text())).text(Text::Plain)),
        }
    }
}
