//! Nibbles to packets.

use backsight_core::{Accounting, Located, Resume};

use super::common::{long_packet, short_packet};
use super::packet::{Bad, Content, Packet, SentTime, TimeCoding};
use super::table::{Kind, Row, long_opcode, longest_opcode, row, short_opcode, time_nibbles};

/// Ones in nibbles of an ASYNC, before its zero.
const SYNC_NIBBLES: u64 = 21;

/// Bytes of ones in an ASYNC, wherever it begins.
const SYNC_BYTES: usize = 10;

/// Turns the bytes of one stream into packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    state: State,
    /// The next nibble, counted from the beginning of the stream.
    at: u64,
    /// The first nibble of what the state holds.
    start: u64,
    /// Nibbles of ones up to here.
    ones: u64,
    /// A packet that ended in ones, and where: if more follow, they may be those of an ASYNC that cut it off.
    held: Option<(Content, Option<SentTime>, u64)>,
    /// Timestamps have two nibbles and no length.
    legacy_time: bool,
    /// Fields have their lowest nibble first.
    lowest_first: bool,
    accounting: Accounting,
}

/// What the next nibble is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Anything: synchronisation is searched for.
    Search,
    /// An opcode, or its second, third or fourth nibble.
    Opcode(Escape),
    /// Ones that become an ASYNC.
    Sync,
    /// Data of an opcode.
    Data { row: Row, left: u8, value: u64 },
    /// How long a timestamp is.
    TimeLength(Content),
    /// A nibble of a timestamp.
    Time { content: Content, nibbles: u8, left: u8, value: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    F,
    F0,
    F0F,
}

/// Takes the packets of a stream. Every closure is one.
pub trait PacketSink {
    /// Takes the next packet. Where it is to be fast, it is `inline(always)`: it is compiled into the loop over packets of
    /// data, which are most.
    fn take(&mut self, packet: Located<Packet>);
}

impl<F: FnMut(Located<Packet>)> PacketSink for F {
    #[inline(always)]
    fn take(&mut self, packet: Located<Packet>) {
        self(packet);
    }
}

/// Gives a packet from where it does not matter how long that takes: what is done with it is compiled once more only.
#[inline(never)]
fn give(packet: Located<Packet>, sink: &mut impl PacketSink) {
    sink.take(packet);
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the beginning of a stream: it searches for synchronisation.
    pub const fn new() -> Self {
        Self {
            state: State::Search,
            at: 0,
            start: 0,
            ones: 0,
            held: None,
            legacy_time: false,
            lowest_first: false,
            accounting: Accounting { decoded: 0, unsynchronised: 0, bad: 0 },
        }
    }

    /// Takes more bytes. Any split of a stream gives the same packets.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl PacketSink) {
        let (mut at, end) = (0, 2 * bytes.len());
        while at < end {
            if self.is_at_a_plain_packet() {
                at = self.common_packets(bytes, at, sink);
            } else if self.ones == 0 && matches!(self.state, State::Search) {
                at = self.pass_over(bytes, at);
            }
            if let Some(byte) = bytes.get(at / 2) {
                self.nibble(byte >> (4 * (at % 2)) & 0xF, sink);
                at += 1;
            }
        }
    }

    /// While synchronisation is searched for, and the nibble before is not of ones: passes over nibbles that no ASYNC is
    /// among. Gives the nibble after them, before which there are no ones either.
    fn pass_over(&mut self, bytes: &[u8], begin: usize) -> usize {
        // An ASYNC, wherever it begins, has ten bytes of ones: one of any ten bytes in a row that it lies over is its last.
        let mut first = begin.div_ceil(2);
        while let Some(ten) = bytes.get(first..).and_then(|rest| rest.first_chunk::<SYNC_BYTES>()) {
            let others = ten.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
            first += others;
            if others < SYNC_BYTES {
                break;
            }
        }
        // The byte before may end in ones.
        let end = begin.max((2 * first).saturating_sub(1));
        self.at += (end - begin) as u64;
        end
    }

    /// Does a packet begin here whose fields are sent in the usual way, and no nibble of ones come before it?
    #[inline]
    fn is_at_a_plain_packet(&self) -> bool {
        let is_plain = self.ones == 0 && !self.legacy_time && !self.lowest_first;
        is_plain && matches!(self.state, State::Opcode(Escape::None))
    }

    /// Gives the common packets from a nibble on, one after the other; the nibble after them. What it gives is what the
    /// nibbles give one by one: of the nibbles of ones that a common packet ends in, one more at most is followed by
    /// others, so that they are too few for an ASYNC.
    #[inline]
    fn common_packets(&mut self, bytes: &[u8], begin: usize, sink: &mut impl PacketSink) -> usize {
        // Bytes are fed as a whole, so that the first nibble of a slice is the low one of a byte.
        let first_byte = (self.at - begin as u64) / 2;
        let mut at = begin;
        while let Some(rest) = bytes.get(at / 2..)
            && let Some(word) = rest.first_chunk()
        {
            let (offset, is_high) = (first_byte + (at / 2) as u64, at % 2 == 1);
            let long = || rest.first_chunk().and_then(|bytes| long_packet(bytes, is_high));
            let Some(common) = short_packet(word, is_high).or_else(long) else { break };
            match common.data() {
                Some(data) => sink.take(common.located(data, offset, is_high)),
                None => give(common.located(common.content(), offset, is_high), sink),
            }
            at += usize::from(common.nibbles);
        }
        self.at += (at - begin) as u64;
        // The first of these packets may share its byte with the one before.
        self.accounting.decoded += self.at / 2 - self.start / 2;
        self.start = self.at;
        at
    }

    /// Takes the end of the stream.
    pub fn finish(&mut self, sink: &mut impl PacketSink) {
        if let Some((content, time, end)) = self.held.take() {
            self.emit(content, time, end, sink);
        }
        match self.state {
            _ if self.start == self.at => {}
            State::Search => self.pass(self.at, sink),
            _ => self.emit(Content::Bad(Bad::Incomplete), None, self.at, sink),
        }
        self.lose();
    }

    /// Bytes of the stream are missing here: reports the packet that they cut off.
    pub fn reset(&mut self, sink: &mut impl PacketSink) {
        self.finish(sink);
    }

    /// What became of the bytes. One that two packets share is counted with the second.
    pub const fn accounting(&self) -> Accounting {
        self.accounting
    }

    fn lose(&mut self) {
        self.state = State::Search;
        self.ones = 0;
        (self.legacy_time, self.lowest_first) = (false, false);
    }

    #[inline]
    fn nibble(&mut self, nibble: u8, sink: &mut impl PacketSink) {
        self.at += 1;
        if nibble == 0xF {
            self.ones += 1;
        } else {
            let ones = core::mem::take(&mut self.ones);
            let is_async = ones >= SYNC_NIBBLES && nibble == 0;
            if let Some((content, time, end)) = self.held.take() {
                match self.at - SYNC_NIBBLES.min(self.at - 1) - 1 {
                    begins if is_async && begins < end => {
                        self.emit(Content::Bad(Bad::Interrupted), None, begins.max(self.start), sink);
                    }
                    _ => self.emit(content, time, end, sink),
                }
            }
            if is_async {
                return self.synchronise(sink);
            }
        }
        match self.state {
            State::Search => {}
            State::Opcode(escape) => self.opcode(escape, nibble, sink),
            State::Sync if nibble == 0xF => {}
            State::Sync => self.bad(Bad::Sync, sink),
            State::Data { row, left, value } => {
                let value = self.with_nibble(value, row.nibbles, left, nibble);
                match left {
                    1 => self.data(row, value, sink),
                    _ => self.state = State::Data { row, left: left - 1, value },
                }
            }
            State::TimeLength(content) => match time_nibbles(nibble) {
                Some(0) => self.complete(content, Some(SentTime { nibbles: 0, value: 0 }), sink),
                Some(nibbles) => self.state = State::Time { content, nibbles, left: nibbles, value: 0 },
                None => self.bad(Bad::TimeLength, sink),
            },
            State::Time { content, nibbles, left, value } => {
                let value = self.with_nibble(value, nibbles, left, nibble);
                match left {
                    1 => self.complete(content, Some(SentTime { nibbles, value }), sink),
                    _ => self.state = State::Time { content, nibbles, left: left - 1, value },
                }
            }
        }
    }

    /// A value with one more nibble.
    #[inline]
    fn with_nibble(&self, value: u64, nibbles: u8, left: u8, nibble: u8) -> u64 {
        match self.lowest_first {
            false => value << 4 | u64::from(nibble),
            true => value | u64::from(nibble) << (4 * (nibbles - left)),
        }
    }

    #[inline]
    fn opcode(&mut self, escape: Escape, nibble: u8, sink: &mut impl PacketSink) {
        let row = match (escape, nibble) {
            (Escape::None, 0xF) => return self.state = State::Opcode(Escape::F),
            (Escape::F, 0) => return self.state = State::Opcode(Escape::F0),
            (Escape::F, 0xF) => return self.state = State::Sync,
            (Escape::F0, 0xF) => return self.state = State::Opcode(Escape::F0F),
            (Escape::None, nibble) => short_opcode(nibble),
            (Escape::F, nibble) => long_opcode(nibble),
            (Escape::F0, nibble) => longest_opcode(nibble),
            (Escape::F0F, 0 | 1) => row(Kind::Frequency, 10, nibble == 1),
            (Escape::F0F, 3) => row(Kind::MasterError, 2, false),
            (Escape::F0F, _) => None,
        };
        match row {
            None => self.bad(Bad::Reserved, sink),
            Some(row) if row.nibbles == 0 => self.data(row, 0, sink),
            Some(row) => self.state = State::Data { row, left: row.nibbles, value: 0 },
        }
    }

    /// The data of an opcode are here.
    #[inline]
    fn data(&mut self, row: Row, value: u64, sink: &mut impl PacketSink) {
        match row.kind {
            Kind::Version => return self.version(value as u8, sink),
            Kind::VersionMore(_) => self.lowest_first = value & 0x80 != 0,
            _ => {}
        }
        let content = row.content(value);
        match row.timed {
            false => self.complete(content, None, sink),
            true if self.legacy_time => {
                self.state = State::Time { content, nibbles: 2, left: 2, value: 0 };
            }
            true => self.state = State::TimeLength(content),
        }
    }

    fn version(&mut self, value: u8, sink: &mut impl PacketSink) {
        let Some(coding) = TimeCoding::from_version(value) else { return self.bad(Bad::Version, sink) };
        self.legacy_time = coding == TimeCoding::Legacy;
        self.lowest_first = false;
        if value & 8 != 0 {
            let row = Row { kind: Kind::VersionMore(value), nibbles: 2, timed: false };
            self.state = State::Data { row, left: 2, value: 0 };
        } else {
            self.complete(Content::Version { value, more: None }, None, sink);
        }
    }

    #[inline]
    fn complete(&mut self, content: Content, time: Option<SentTime>, sink: &mut impl PacketSink) {
        self.state = State::Opcode(Escape::None);
        match self.ones {
            0 => self.emit(content, time, self.at, sink),
            _ => self.held = Some((content, time, self.at)),
        }
    }

    fn bad(&mut self, why: Bad, sink: &mut impl PacketSink) {
        let ones = self.ones;
        match ones {
            0 => self.emit(Content::Bad(why), None, self.at, sink),
            _ => self.held = Some((Content::Bad(why), None, self.at)),
        }
        self.lose();
        self.ones = ones;
    }

    /// An ASYNC ends here, whatever the nibbles were taken for.
    fn synchronise(&mut self, sink: &mut impl PacketSink) {
        let begins = (self.at - SYNC_NIBBLES - 1).max(self.start);
        let found = matches!(self.state, State::Search);
        if begins > self.start {
            match found {
                true => self.pass(begins, sink),
                false => self.emit(Content::Bad(Bad::Interrupted), None, begins, sink),
            }
        }
        (self.legacy_time, self.lowest_first) = (false, false);
        self.complete(Content::Async { found }, None, sink);
    }

    /// Reports nibbles that were passed over, in pieces that a length has room for.
    fn pass(&mut self, end: u64, sink: &mut impl PacketSink) {
        while self.start < end {
            let piece = end.min(self.start + u64::from(u32::MAX));
            self.emit(Content::Unsynchronised, None, piece, sink);
        }
    }

    #[inline]
    fn emit(&mut self, content: Content, time: Option<SentTime>, end: u64, sink: &mut impl PacketSink) {
        if end == self.start {
            return;
        }
        let bytes = end / 2 - self.start / 2;
        match content {
            Content::Bad(_) => self.accounting.bad += bytes,
            Content::Unsynchronised => self.accounting.unsynchronised += bytes,
            _ => self.accounting.decoded += bytes,
        }
        let (offset, begins_in_high_nibble) = (self.start / 2, self.start % 2 == 1);
        let length = (end.div_ceil(2) - offset) as u32;
        self.start = end;
        give(Located { offset, length, value: Packet { content, time, begins_in_high_nibble } }, sink);
    }
}

impl Resume for Decoder {
    fn state(&self) -> Self {
        Self { accounting: Accounting::default(), ..self.clone() }
    }

    fn starting_at(&self, offset: u64) -> Self {
        Self { at: 2 * offset, start: 2 * offset, ..Self::new() }
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let bytes = bytes.get(from..)?;
        let mut end = bytes.len();
        loop {
            // The byte that the zero after the ones is in.
            let after = bytes.get(..end)?.iter().rposition(|&byte| byte & 0xF == 0 || byte == 0x0F)?;
            let begin = after.checked_sub(SYNC_BYTES)?;
            let before = begin.checked_sub(1).and_then(|before| bytes.get(before));
            let is_high = bytes.get(after) != Some(&0x0F);
            if bytes.get(begin..after)?.iter().all(|&byte| byte == 0xFF)
                && (!is_high || before.is_some_and(|&before| before >= 0xF0))
            {
                return Some(from + begin - usize::from(is_high));
            }
            end = after;
        }
    }
}
