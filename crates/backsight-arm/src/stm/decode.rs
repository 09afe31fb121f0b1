//! Nibbles to packets.

use backsight_core::{Accounting, Located};

use super::packet::{Bad, Content, Packet, SentTime, TimeCoding};

/// Ones in nibbles of an ASYNC, before its zero.
const SYNC_NIBBLES: u64 = 21;

/// Turns the bytes of one stream into packets.
#[derive(Clone, Debug)]
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
    nibbles: Nibbles,
}

/// What became of the nibbles.
#[derive(Clone, Copy, Debug, Default)]
struct Nibbles {
    decoded: u64,
    unsynchronised: u64,
    bad: u64,
}

/// What the next nibble is.
#[derive(Clone, Copy, Debug)]
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

/// An opcode: what its data are, and whether a timestamp follows.
#[derive(Clone, Copy, Debug)]
struct Row {
    kind: Kind,
    nibbles: u8,
    timed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Null,
    Master,
    Channel,
    MasterError,
    GlobalError,
    Data {
        marked: bool,
    },
    Flag,
    Version,
    /// The byte after a version with bit 3.
    VersionMore(u8),
    Trigger,
    Frequency,
    CrossSync,
}

/// Nibbles of a window that are certain to be there.
const WINDOW: u32 = 31;
/// The lowest bit of every nibble.
const LOWEST_BITS: u128 = u128::MAX / 15;

/// The value of so many nibbles, of which the first is the highest.
#[inline]
const fn highest_first(nibbles: u128, count: u8) -> u64 {
    const LOW: u64 = 0x0F0F_0F0F_0F0F_0F0F;
    if count == 0 {
        return 0;
    }
    let bytes = (nibbles as u64).swap_bytes();
    let reversed = (bytes & LOW) << 4 | bytes >> 4 & LOW;
    reversed >> (64 - 4 * count as u32)
}

const fn row(kind: Kind, nibbles: u8, timed: bool) -> Option<Row> {
    Some(Row { kind, nibbles, timed })
}

const PLAIN: Kind = Kind::Data { marked: false };
const MARKED: Kind = Kind::Data { marked: true };

/// Opcodes of one nibble.
const fn short_opcode(nibble: u8) -> Option<Row> {
    match nibble {
        0 => row(Kind::Null, 0, false),
        1 => row(Kind::Master, 2, false),
        2 => row(Kind::MasterError, 2, false),
        3 => row(Kind::Channel, 2, false),
        4..=7 => row(PLAIN, 2 << (nibble - 4), false),
        8..=0xB => row(MARKED, 2 << (nibble - 8), true),
        0xC => row(PLAIN, 1, false),
        0xD => row(MARKED, 1, true),
        0xE => row(Kind::Flag, 0, true),
        _ => None,
    }
}

/// Opcodes that begin with F.
const fn long_opcode(nibble: u8) -> Option<Row> {
    match nibble {
        1 => row(Kind::Master, 4, false),
        2 => row(Kind::GlobalError, 2, false),
        3 => row(Kind::Channel, 4, false),
        4..=7 => row(PLAIN, 2 << (nibble - 4), true),
        8..=0xB => row(MARKED, 2 << (nibble - 8), false),
        0xC => row(PLAIN, 1, true),
        0xD => row(MARKED, 1, false),
        0xE => row(Kind::Flag, 0, false),
        _ => None,
    }
}

/// Opcodes that begin with F0. Those whose length nobody documents are not among them.
const fn longest_opcode(nibble: u8) -> Option<Row> {
    match nibble {
        0 => row(Kind::Version, 1, false),
        1 => row(Kind::Null, 0, true),
        6 | 7 => row(Kind::Trigger, 2, nibble == 7),
        8 | 9 => row(Kind::Frequency, 8, nibble == 9),
        0xA | 0xB => row(Kind::CrossSync, 2, nibble == 0xB),
        _ => None,
    }
}

/// Nibbles of a timestamp, by its length code.
const fn time_nibbles(code: u8) -> Option<u8> {
    match code {
        0..=0xC => Some(code),
        0xD => Some(14),
        0xE => Some(16),
        _ => None,
    }
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
            nibbles: Nibbles { decoded: 0, unsynchronised: 0, bad: 0 },
        }
    }

    /// Takes more bytes. Any split of a stream gives the same packets.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        let (mut at, end) = (0, 2 * bytes.len());
        while at < end {
            at += match self.window(bytes, at).and_then(|window| self.short_packet(window, sink)) {
                Some(nibbles) => nibbles,
                None => {
                    let byte = bytes.get(at / 2).copied().unwrap_or(0);
                    self.nibble(if at % 2 == 0 { byte & 0xF } else { byte >> 4 }, sink);
                    1
                }
            };
        }
    }

    /// The next nibbles, the first lowest, where a packet begins in them and there are enough.
    #[inline]
    fn window(&self, bytes: &[u8], at: usize) -> Option<u128> {
        let is_plain = self.ones == 0 && !self.legacy_time && !self.lowest_first;
        if !is_plain || !matches!(self.state, State::Opcode(Escape::None)) {
            return None;
        }
        let window = u128::from_le_bytes(*bytes.get(at / 2..)?.first_chunk()?);
        Some(window >> (4 * (at % 2)))
    }

    /// Reads a packet at once, if it is a common one that these nibbles hold all of; how many it has. What it gives is
    /// what the nibbles give one by one.
    #[inline]
    fn short_packet(&mut self, window: u128, sink: &mut impl FnMut(Located<Packet>)) -> Option<usize> {
        let (first, second) = (window as u8 & 0xF, (window >> 4) as u8 & 0xF);
        let (row, mut length) = match first {
            0xF => (long_opcode(second)?, 2),
            _ => (short_opcode(first)?, 1),
        };
        let value = highest_first(window >> (4 * length), row.nibbles);
        length += u32::from(row.nibbles);
        let mut time = None;
        if row.timed {
            let nibbles = time_nibbles((window >> (4 * length)) as u8 & 0xF)?;
            if length + 1 + u32::from(nibbles) > WINDOW {
                return None;
            }
            time = Some(SentTime { nibbles, value: highest_first(window >> (4 * (length + 1)), nibbles) });
            length += 1 + u32::from(nibbles);
        }
        // Nibbles of ones, each by its lowest bit. Those that may be of an ASYNC are looked at one by one.
        let pairs = window & window >> 1;
        let ones = pairs & pairs >> 2 & LOWEST_BITS & (u128::MAX >> (128 - 4 * length));
        let ends_in_ones = ones >> (4 * (length - 1)) != 0;
        if ends_in_ones || u64::from(ones.count_ones()) >= SYNC_NIBBLES {
            return None;
        }
        self.at += u64::from(length);
        let content = match (row.kind, row.nibbles) {
            (Kind::Data { marked }, nibbles) => Content::Data { value, nibbles, marked },
            (Kind::Flag, _) => Content::Flag,
            (Kind::Null, _) => Content::Null,
            (Kind::Master, 2) => Content::Master8(value as u8),
            (Kind::Master, _) => Content::Master16(value as u16),
            (Kind::Channel, 2) => Content::Channel8(value as u8),
            (Kind::Channel, _) => Content::Channel16(value as u16),
            (Kind::MasterError, _) => Content::MasterError(value as u8),
            _ => Content::GlobalError(value as u8),
        };
        self.emit(content, time, self.at, sink);
        Some(length as usize)
    }

    /// Takes the end of the stream.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
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
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        self.finish(sink);
    }

    /// What became of the bytes. One that two packets share is counted with the second.
    pub const fn accounting(&self) -> Accounting {
        let Nibbles { decoded, unsynchronised, bad } = self.nibbles;
        let (first, second) = (unsynchronised / 2, (unsynchronised + bad) / 2);
        let all = (unsynchronised + bad + decoded) / 2;
        Accounting { decoded: all - second, unsynchronised: first, bad: second - first }
    }

    fn lose(&mut self) {
        self.state = State::Search;
        self.ones = 0;
        (self.legacy_time, self.lowest_first) = (false, false);
    }

    #[inline]
    fn nibble(&mut self, nibble: u8, sink: &mut impl FnMut(Located<Packet>)) {
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
    fn opcode(&mut self, escape: Escape, nibble: u8, sink: &mut impl FnMut(Located<Packet>)) {
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
    fn data(&mut self, row: Row, value: u64, sink: &mut impl FnMut(Located<Packet>)) {
        let content = match (row.kind, row.nibbles) {
            (Kind::Null, _) => Content::Null,
            (Kind::Flag, _) => Content::Flag,
            (Kind::Data { marked }, nibbles) => Content::Data { value, nibbles, marked },
            (Kind::Master, 2) => Content::Master8(value as u8),
            (Kind::Master, _) => Content::Master16(value as u16),
            (Kind::Channel, 2) => Content::Channel8(value as u8),
            (Kind::Channel, _) => Content::Channel16(value as u16),
            (Kind::MasterError, _) => Content::MasterError(value as u8),
            (Kind::GlobalError, _) => Content::GlobalError(value as u8),
            (Kind::Trigger, _) => Content::Trigger(value as u8),
            (Kind::CrossSync, _) => Content::CrossSync(value as u8),
            (Kind::Frequency, 8) => Content::Frequency(value as u32),
            (Kind::Frequency, _) => Content::Frequency40(value),
            (Kind::Version, _) => return self.version(value as u8, sink),
            (Kind::VersionMore(version), _) => {
                self.lowest_first = value & 0x80 != 0;
                Content::Version { value: version, more: Some(value as u8) }
            }
        };
        match row.timed {
            false => self.complete(content, None, sink),
            true if self.legacy_time => {
                self.state = State::Time { content, nibbles: 2, left: 2, value: 0 };
            }
            true => self.state = State::TimeLength(content),
        }
    }

    fn version(&mut self, value: u8, sink: &mut impl FnMut(Located<Packet>)) {
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
    fn complete(&mut self, content: Content, time: Option<SentTime>, sink: &mut impl FnMut(Located<Packet>)) {
        self.state = State::Opcode(Escape::None);
        match self.ones {
            0 => self.emit(content, time, self.at, sink),
            _ => self.held = Some((content, time, self.at)),
        }
    }

    fn bad(&mut self, why: Bad, sink: &mut impl FnMut(Located<Packet>)) {
        let ones = self.ones;
        match ones {
            0 => self.emit(Content::Bad(why), None, self.at, sink),
            _ => self.held = Some((Content::Bad(why), None, self.at)),
        }
        self.lose();
        self.ones = ones;
    }

    /// An ASYNC ends here, whatever the nibbles were taken for.
    fn synchronise(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
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
    fn pass(&mut self, end: u64, sink: &mut impl FnMut(Located<Packet>)) {
        while self.start < end {
            let piece = end.min(self.start + u64::from(u32::MAX));
            self.emit(Content::Unsynchronised, None, piece, sink);
        }
    }

    #[inline]
    fn emit(
        &mut self,
        content: Content,
        time: Option<SentTime>,
        end: u64,
        sink: &mut impl FnMut(Located<Packet>),
    ) {
        let count = end - self.start;
        if count == 0 {
            return;
        }
        match content {
            Content::Bad(_) => self.nibbles.bad += count,
            Content::Unsynchronised => self.nibbles.unsynchronised += count,
            _ => self.nibbles.decoded += count,
        }
        let (offset, begins_in_high_nibble) = (self.start / 2, self.start % 2 == 1);
        let length = (end.div_ceil(2) - offset) as u32;
        self.start = end;
        sink(Located { offset, length, value: Packet { content, time, begins_in_high_nibble } });
    }
}
