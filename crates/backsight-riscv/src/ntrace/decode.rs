//! Bytes to messages.

use alloc::vec::Vec;

use backsight_core::{Accounting, Address, Located, Resume};

use super::resolve::SentAddress;
use super::window::Window;
use crate::per_source::PerSource;

use super::message::{
    Bad, BranchKind, Config, History, INSTRUCTION_COUNT_BITS, MOST_SOURCE_BITS, Message, Packet,
    REPETITION_BITS, Resource, tcode,
};

/// Most fields of variable size in a message, the timestamp included.
const MOST_FIELDS: usize = 6;
/// Most bytes of a field: what follows is no message.
const MOST_FIELD_BYTES: u32 = 20;

/// Turns the bytes of one stream into messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    config: Config,
    /// Data of the fields read so far, each up to its end marker: value and number of bits.
    fields: [(u128, u32); MOST_FIELDS],
    /// The field being read.
    field: usize,
    /// Bytes of the message so far, and the offset of the first.
    length: u32,
    start: u64,
    /// Passing over the rest of a message that is no good.
    skipping: Option<Bad>,
    /// What each source sent last.
    addresses: PerSource<SentAddress>,
    accounting: Accounting,
}

impl Decoder {
    /// A decoder at the beginning of a stream. In mid-message it finds its footing at the next end of a message.
    pub const fn new(config: &Config) -> Self {
        Self {
            config: *config,
            fields: [(0, 0); MOST_FIELDS],
            field: 0,
            length: 0,
            start: 0,
            skipping: None,
            addresses: PerSource::new(1 << MOST_SOURCE_BITS),
            accounting: Accounting { decoded: 0, unsynchronised: 0, bad: 0 },
        }
    }

    /// Takes more bytes. Idle bytes between messages say nothing and are counted as decoded.
    pub fn feed(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.length == 0 && matches!(byte, IDLE | PADDING) {
                self.accounting.decoded += 1;
                self.start += 1;
                bytes = rest;
                continue;
            }
            if self.length == 0
                && let Some((packet, length)) = self.usual_packet(bytes)
            {
                self.length = length as u32;
                bytes = bytes.get(length..).unwrap_or_default();
                self.emit(packet, sink);
                continue;
            }
            self.length += 1;
            bytes = rest;
            self.take(byte);
            if byte & 3 == END_OF_MESSAGE {
                let packet = self.skipping.map_or_else(|| self.packet(&self.fields), |bad| self.bad(bad));
                self.emit(packet, sink);
                self.fields = [(0, 0); MOST_FIELDS];
            } else if self.length == u32::MAX {
                let bad = self.bad(Bad::TooLong);
                self.emit(bad, sink);
                self.fields = [(0, 0); MOST_FIELDS];
                self.skipping = Some(Bad::TooLong);
            }
        }
    }

    /// The packet at the beginning of `bytes`, and its length. `None`: it does not end within sixteen bytes or is unusual, and
    /// has to be taken byte by byte.
    #[inline(always)]
    fn usual_packet(&self, bytes: &[u8]) -> Option<(Packet, usize)> {
        let narrow = Window::narrow(*bytes.first_chunk()?);
        match narrow.message_length() {
            Some(length) => Some((self.packet(&narrow.fields(length)?), length)),
            None => self.long_packet(bytes),
        }
    }

    /// The same, if it has more than eight bytes.
    #[inline(never)]
    fn long_packet(&self, bytes: &[u8]) -> Option<(Packet, usize)> {
        let wide = Window::wide(*bytes.first_chunk()?);
        let length = wide.message_length()?;
        Some((self.packet(&wide.fields(length)?), length))
    }

    /// Takes the end of the stream: a message without an end is bad.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        if self.length > 0 {
            let bad = self.bad(Bad::Incomplete);
            self.emit(bad, sink);
            self.fields = [(0, 0); MOST_FIELDS];
        }
    }

    /// Bytes of the stream are missing here: reports the message that they cut off.
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        self.finish(sink);
        self.forget();
    }

    /// Messages may be missing: what addresses differ from is not known.
    fn forget(&mut self) {
        self.addresses.iter_mut().for_each(|sent| *sent = SentAddress::default());
    }

    /// What became of the bytes.
    pub const fn accounting(&self) -> Accounting {
        self.accounting
    }

    fn take(&mut self, byte: u8) {
        if self.skipping.is_some() {
            return;
        }
        let Some((value, bits)) = self.fields.get_mut(self.field) else {
            self.skipping = Some(Bad::TooLong);
            return;
        };
        if *bits >= 6 * MOST_FIELD_BYTES {
            self.skipping = Some(Bad::TooLong);
            return;
        }
        *value |= u128::from(byte >> 2) << *bits;
        *bits += 6;
        match byte & 3 {
            END_OF_FIELD => self.field += 1,
            RESERVED_MARKER => self.skipping = Some(Bad::Marker),
            _ => {}
        }
    }

    fn emit(&mut self, mut value: Packet, sink: &mut impl FnMut(Located<Packet>)) {
        let length = self.length;
        if let Message::Bad(_) = value.message {
            self.accounting.bad += u64::from(length);
            // Nobody knows whose the bytes were.
            self.forget();
        } else {
            self.accounting.decoded += u64::from(length);
            let config = self.config;
            let sent = self.addresses.of(value.source, SentAddress::default);
            value.address = sent.and_then(|sent| sent.of(&config, &value.message)).map(Address);
        }
        sink(Located { offset: self.start, length, value });
        self.start += u64::from(length);
        (self.length, self.field, self.skipping) = (0, 0, None);
    }

    const fn bad(&self, why: Bad) -> Packet {
        Packet::new(0, None, Message::Bad(why))
    }

    #[inline]
    fn packet<V: FieldValue>(&self, fields: &[(V, u32); MOST_FIELDS]) -> Packet {
        let mut reader = MessageFields { fields, field: 0, used: 0 };
        let code = reader.fixed(6) as u8;
        let source = reader.fixed(u32::from(self.config.source_bits.min(MOST_SOURCE_BITS))) as u16;
        match message(code, &mut reader) {
            Ok(message) => {
                let timestamp = match message {
                    Message::Other(_) | Message::ResourceFull(Resource::Other(_)) => None,
                    _ => reader.optional(),
                };
                Packet::new(source, timestamp, message)
            }
            Err(why) => self.bad(why),
        }
    }
}

impl Resume for Decoder {
    fn state(&self) -> Self {
        Self { accounting: Accounting::default(), ..self.clone() }
    }

    fn starting_at(&self, offset: u64) -> Self {
        Self { start: offset, ..Self::new(&self.config) }
    }

    /// Sources may have sent nothing in between.
    fn starting_later(&self, offset: u64) -> Self {
        Self { addresses: self.addresses.clone(), ..self.starting_at(offset) }
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let is_sync = |pair: &[u8]| match *pair {
            [before, first] => before & 3 == END_OF_MESSAGE && first & 3 == 0 && tcode::is_sync(first >> 2),
            _ => false,
        };
        bytes.get(from..)?.windows(2).rposition(is_sync).map(|before| from + before + 1)
    }
}

/// Between messages: nothing.
const IDLE: u8 = 0xFF;
/// Likewise: memory that was never written to.
const PADDING: u8 = 0;
const END_OF_FIELD: u8 = 0b01;
const RESERVED_MARKER: u8 = 0b10;
const END_OF_MESSAGE: u8 = 0b11;

/// The bits of a field up to its end marker. Nearly all fit a machine word.
trait FieldValue: Copy + Default {
    /// `width` bits from bit `from` on, at most 12 of them.
    fn part(self, from: u32, width: u32) -> u64;

    /// All bits from `from` on; `None` if they are too many.
    fn rest(self, from: u32) -> Option<u64>;
}

impl FieldValue for u64 {
    #[inline]
    fn part(self, from: u32, width: u32) -> u64 {
        self >> from.min(63) & ((1 << width) - 1)
    }

    #[inline]
    fn rest(self, from: u32) -> Option<u64> {
        Some(self >> from.min(63))
    }
}

impl FieldValue for u128 {
    #[inline]
    fn part(self, from: u32, width: u32) -> u64 {
        (self >> from & ((1 << width) - 1)) as u64
    }

    #[inline]
    fn rest(self, from: u32) -> Option<u64> {
        u64::try_from(self >> from).ok()
    }
}

/// Reads the fields of one message.
struct MessageFields<'a, V> {
    fields: &'a [(V, u32); MOST_FIELDS],
    field: usize,
    /// Bits of the field that were read as fields of fixed size.
    used: u32,
}

impl<V: FieldValue> MessageFields<'_, V> {
    /// A field of fixed size. What was not sent is zero.
    #[inline]
    fn fixed(&mut self, width: u32) -> u64 {
        let (value, _) = self.fields.get(self.field).copied().unwrap_or_default();
        let bits = value.part(self.used, width);
        self.used += width;
        bits
    }

    /// The rest of the current field, or the whole of the next.
    #[inline]
    fn variable(&mut self) -> Result<u64, Bad> {
        let (value, bits) = self.fields.get(self.field).copied().unwrap_or_default();
        if bits == 0 {
            return Err(Bad::FieldMissing);
        }
        let value = value.rest(self.used);
        self.field += 1;
        self.used = 0;
        value.ok_or(Bad::TooLong)
    }

    /// A field of variable size that the specification gives no more than so many bits. What claims more is damaged: one
    /// wrong bit would else make millions of instructions.
    fn bounded(&mut self, bits: u32) -> Result<u32, Bad> {
        let value = self.variable()?;
        if value >> bits == 0 { Ok(value as u32) } else { Err(Bad::TooLong) }
    }

    /// I-CNT.
    fn instruction_count(&mut self) -> Result<u32, Bad> {
        self.bounded(INSTRUCTION_COUNT_BITS)
    }

    /// B-CNT or HREPEAT.
    fn repetitions(&mut self) -> Result<u32, Bad> {
        self.bounded(REPETITION_BITS)
    }

    fn optional(&mut self) -> Option<u64> {
        self.variable().ok()
    }

    fn history(&mut self) -> Result<History, Bad> {
        self.variable().map(History)
    }
}

#[inline]
fn message<V: FieldValue>(code: u8, fields: &mut MessageFields<'_, V>) -> Result<Message, Bad> {
    let kind = |fields: &mut MessageFields<'_, V>| BranchKind::from_bits(fields.fixed(2) as u8);
    Ok(match code {
        tcode::OWNERSHIP => Message::Ownership { process: fields.variable()? },
        tcode::DIRECT_BRANCH => Message::DirectBranch { count: fields.instruction_count()? },
        tcode::INDIRECT_BRANCH => Message::IndirectBranch {
            kind: kind(fields),
            count: fields.instruction_count()?,
            address: fields.variable()?,
        },
        tcode::ERROR => Message::Error { kind: fields.fixed(4) as u8, code: fields.variable()? },
        tcode::PROGRAM_TRACE_SYNC => Message::ProgramTraceSync {
            reason: fields.fixed(4) as u8,
            count: fields.instruction_count()?,
            address: fields.variable()?,
        },
        tcode::DIRECT_BRANCH_SYNC => Message::DirectBranchSync {
            reason: fields.fixed(4) as u8,
            count: fields.instruction_count()?,
            address: fields.variable()?,
        },
        tcode::INDIRECT_BRANCH_SYNC => Message::IndirectBranchSync {
            reason: fields.fixed(4) as u8,
            kind: kind(fields),
            count: fields.instruction_count()?,
            address: fields.variable()?,
        },
        tcode::RESOURCE_FULL => Message::ResourceFull(match fields.fixed(4) as u8 {
            0 => Resource::Count(fields.instruction_count()?),
            1 => Resource::History(fields.history()?),
            2 => Resource::HistoryRepeat { history: fields.history()?, times: fields.repetitions()? },
            code @ (8 | 9) => {
                Resource::Run { taken: code == 9, branches: fields.bounded(INSTRUCTION_COUNT_BITS)? }
            }
            other => Resource::Other(other),
        }),
        tcode::INDIRECT_BRANCH_HISTORY => Message::IndirectBranchHistory {
            kind: kind(fields),
            count: fields.instruction_count()?,
            address: fields.variable()?,
            history: fields.history()?,
        },
        tcode::INDIRECT_BRANCH_HISTORY_SYNC => Message::IndirectBranchHistorySync {
            reason: fields.fixed(4) as u8,
            kind: kind(fields),
            count: fields.instruction_count()?,
            address: fields.variable()?,
            history: fields.history()?,
        },
        tcode::REPEAT_BRANCH => Message::RepeatBranch { count: fields.repetitions()? },
        tcode::PROGRAM_TRACE_CORRELATION => {
            let reason = fields.fixed(4) as u8;
            let has_history = fields.fixed(2) == 1;
            let count = fields.instruction_count()?;
            let history = if has_history { Some(fields.history()?) } else { None };
            Message::ProgramTraceCorrelation { reason, count, history }
        }
        tcode::DATA_ACQUISITION | tcode::AUX_ACCESS_WRITE => Message::DataAcquisition {
            tag: fields.bounded(32)?,
            data: fields.variable()?,
            old: code == tcode::AUX_ACCESS_WRITE,
        },
        tcode::IN_CIRCUIT_TRACE | tcode::IN_CIRCUIT_TRACE_SYNC => {
            let (event, more) = (fields.fixed(4) as u8, fields.fixed(2));
            if more > 1 {
                return Ok(Message::Other(code));
            }
            let first = fields.variable()?;
            let second = if more == 1 { Some(fields.variable()?) } else { None };
            Message::InCircuitTrace { event, is_sync: code == tcode::IN_CIRCUIT_TRACE_SYNC, first, second }
        }
        other => Message::Other(other),
    })
}

/// All messages of `bytes`, in order.
pub fn messages(config: &Config, bytes: &[u8]) -> Vec<Located<Packet>> {
    let mut all = Vec::new();
    let mut decoder = Decoder::new(config);
    decoder.feed(bytes, &mut |packet| all.push(packet));
    decoder.finish(&mut |packet| all.push(packet));
    all
}
