//! Bytes to messages.

use alloc::vec::Vec;

use backsight_core::{Accounting, Address, Located, Resume};

use super::config::{Config, MOST_SOURCE_BITS};
use super::fields::{END_OF_FIELD, END_OF_MESSAGE, FieldReader, FieldValue, MOST_FIELDS, RESERVED_MARKER};
use super::packet::{self, Bad, Message, Packet, Resource};
use super::resolve::SentAddress;
use super::table::Kind;
use super::window::Window;
use crate::per_source::PerSource;

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
        let mut reader = FieldReader::new(fields);
        let code = reader.fixed(6) as u8;
        let source = reader.fixed(self.config.source_width()) as u16;
        match packet::read(code, &mut reader) {
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
            [before, first] => {
                before & 3 == END_OF_MESSAGE
                    && first & 3 == 0
                    && Kind::of(first >> 2).is_some_and(Kind::is_sync)
            }
            _ => false,
        };
        bytes.get(from..)?.windows(2).rposition(is_sync).map(|before| from + before + 1)
    }
}

/// Between messages: nothing.
const IDLE: u8 = 0xFF;
/// Likewise: memory that was never written to.
const PADDING: u8 = 0;

/// All messages of `bytes`, in order.
pub fn messages(config: &Config, bytes: &[u8]) -> Vec<Located<Packet>> {
    let mut all = Vec::new();
    let mut decoder = Decoder::new(config);
    decoder.feed(bytes, &mut |packet| all.push(packet));
    decoder.finish(&mut |packet| all.push(packet));
    all
}
