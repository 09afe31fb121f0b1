//! Bytes to packets.

use backsight_core::{Accounting, Located, Resume};

use super::{Bad, Config, Packet};
use crate::sync;

/// Most bytes of a packet, synchronisation aside.
const MOST_BYTES: usize = 7;
/// Zero bytes of a synchronisation packet, at least.
const ZEROS: u32 = 5;
const END_OF_SYNC: u8 = 0x80;

/// Turns the bytes of one stream into packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    config: Config,
    state: State,
    /// Offset of the first byte of what the state holds.
    start: u64,
    /// Zero bytes at the end of the last packet. No sound stream has five in a row that are not of a synchronisation: a
    /// packet that damage made up may have taken some of them.
    ended_in_zeros: u32,
    accounting: Accounting,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Searching: bytes passed over, and the zeros among them that were the last.
    Search { passed: u64, zeros: u32 },
    /// Zeros that may become synchronisation; none: between packets.
    Zeros(u32),
    /// A packet that has not ended.
    Held { bytes: [u8; MOST_BYTES], count: u8 },
}

/// What the first bytes of a packet say.
enum Parsed {
    Packet(Packet, usize),
    Bad(Bad, usize),
    More,
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub const fn new(config: &Config) -> Self {
        Self {
            config: *config,
            state: Self::lost(config),
            start: 0,
            ended_in_zeros: 0,
            accounting: Accounting { decoded: 0, unsynchronised: 0, bad: 0 },
        }
    }

    /// How it begins, and begins again after damage.
    const fn lost(config: &Config) -> State {
        if config.synchronises { State::Search { passed: 0, zeros: 0 } } else { State::Zeros(0) }
    }

    /// Damage: what follows is searched, after so many zeros.
    fn lose(&mut self, zeros: u32) {
        self.state = match Self::lost(&self.config) {
            State::Search { passed, .. } => State::Search { passed, zeros },
            state => state,
        };
        self.ended_in_zeros = zeros;
    }

    /// Takes more bytes. Any split of a stream gives the same packets.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            let used = match self.state {
                State::Search { passed, zeros } => self.search(passed, zeros, rest, sink),
                State::Zeros(0) if first != 0 => self.packet(rest, sink),
                State::Zeros(zeros) => self.zeros(zeros, first, sink),
                State::Held { bytes, count } => self.held(bytes, count, first, sink),
            };
            rest = rest.get(used..).unwrap_or_default();
        }
    }

    /// Takes the end of the stream.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        match self.state {
            State::Search { passed: 0, .. } | State::Zeros(0) => {}
            State::Search { passed, .. } => self.pass(passed, sink),
            State::Zeros(zeros) => self.emit(Packet::Bad(Bad::Incomplete), u64::from(zeros), sink),
            State::Held { count, .. } => self.emit(Packet::Bad(Bad::Incomplete), count.into(), sink),
        }
        (self.state, self.ended_in_zeros) = (Self::lost(&self.config), 0);
    }

    /// Bytes of the stream are missing here: reports what they cut off.
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        self.finish(sink);
    }

    /// What became of the bytes.
    pub const fn accounting(&self) -> Accounting {
        self.accounting
    }

    fn emit(&mut self, value: Packet, length: u64, sink: &mut impl FnMut(Located<Packet>)) {
        match value {
            Packet::Bad(_) => self.accounting.bad += length,
            Packet::Unsynchronised => self.accounting.unsynchronised += length,
            _ => self.accounting.decoded += length,
        }
        sink(Located { offset: self.start, length: length as u32, value });
        self.start += length;
    }

    /// Reports bytes that were passed over, in pieces that a length has room for.
    fn pass(&mut self, mut passed: u64, sink: &mut impl FnMut(Located<Packet>)) {
        while passed > 0 {
            let piece = passed.min(u32::MAX.into());
            self.emit(Packet::Unsynchronised, piece, sink);
            passed -= piece;
        }
    }

    /// Passes over bytes up to the end of a synchronisation packet.
    fn search(
        &mut self,
        mut passed: u64,
        mut zeros: u32,
        bytes: &[u8],
        sink: &mut impl FnMut(Located<Packet>),
    ) -> usize {
        for (index, &byte) in bytes.iter().enumerate() {
            if byte == END_OF_SYNC && zeros >= ZEROS {
                let own = passed.min(zeros.into());
                self.pass(passed - own, sink);
                (self.state, self.ended_in_zeros) = (State::Zeros(0), 0);
                self.emit(Packet::Sync, own + 1, sink);
                return index + 1;
            }
            passed += 1;
            zeros = if byte == 0 { (zeros + 1).min(u32::MAX - 1) } else { 0 };
        }
        self.state = State::Search { passed, zeros };
        bytes.len()
    }

    /// A byte after zeros.
    fn zeros(&mut self, zeros: u32, byte: u8, sink: &mut impl FnMut(Located<Packet>)) -> usize {
        match byte {
            0 if zeros < u32::MAX - 1 => {
                self.state = State::Zeros(zeros + 1);
                return 1;
            }
            END_OF_SYNC if zeros > 0 && zeros + self.ended_in_zeros >= ZEROS => {
                (self.state, self.ended_in_zeros) = (State::Zeros(0), 0);
                self.emit(Packet::Sync, u64::from(zeros) + 1, sink);
                return 1;
            }
            _ => {}
        }
        self.lose(zeros);
        self.emit(Packet::Bad(Bad::Zeros), zeros.into(), sink);
        0
    }

    /// A packet begins with these bytes.
    #[inline]
    fn packet(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) -> usize {
        let zeros_at_end = |used: usize| {
            let all = bytes.get(..used).unwrap_or_default();
            all.iter().rev().take_while(|byte| **byte == 0).count() as u32
        };
        match parse(bytes) {
            Parsed::Packet(packet, used) => {
                self.ended_in_zeros = zeros_at_end(used);
                self.emit(packet, used as u64, sink);
                used
            }
            Parsed::Bad(why, used) => {
                self.lose(zeros_at_end(used));
                self.emit(Packet::Bad(why), used as u64, sink);
                used
            }
            Parsed::More => {
                let mut held = [0; MOST_BYTES];
                let count = bytes.len().min(MOST_BYTES);
                held.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                self.state = State::Held { bytes: held, count: count as u8 };
                count
            }
        }
    }

    /// One more byte of a packet.
    fn held(
        &mut self,
        mut bytes: [u8; MOST_BYTES],
        count: u8,
        byte: u8,
        sink: &mut impl FnMut(Located<Packet>),
    ) -> usize {
        if let Some(next) = bytes.get_mut(usize::from(count)) {
            *next = byte;
        }
        let all = bytes.get(..usize::from(count) + 1).unwrap_or_default();
        self.state = State::Zeros(0);
        self.packet(all, sink);
        1
    }
}

impl Resume for Decoder {
    fn state(&self) -> Self {
        Self { accounting: Accounting::default(), ..self.clone() }
    }

    fn starting_at(&self, offset: u64) -> Self {
        Self { start: offset, ..Self::new(&self.config) }
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        sync::find_last(bytes, from, ZEROS as usize)
    }

    fn synchronises(&self) -> bool {
        self.config.synchronises
    }
}

/// Reads the packet that begins with these bytes; the first is not 0.
#[inline]
fn parse(bytes: &[u8]) -> Parsed {
    let Some((&header, payload)) = bytes.split_first() else { return Parsed::More };
    if header & 3 != 0 {
        return source(header, payload);
    }
    match header {
        0x70 => Parsed::Packet(Packet::Overflow, 1),
        0xC0 | 0xD0 | 0xE0 | 0xF0 => continued(payload, 4, |value, _| {
            Some(Packet::LocalTimestamp { ticks: value as u32, relation: header >> 4 & 3 })
        }),
        0x10 | 0x20 | 0x30 | 0x40 | 0x50 | 0x60 => {
            Parsed::Packet(Packet::LocalTimestamp { ticks: (header >> 4).into(), relation: 0 }, 1)
        }
        0x94 => continued(payload, 4, |value, length| {
            // Only the fourth byte has flags.
            let flags = if length == 4 { (value >> 26) as u8 } else { 0 };
            Some(Packet::GlobalTimestamp1 {
                low: value as u32 & 0x03FF_FFFF,
                length,
                clock_changed: flags & 1 != 0,
                wrapped: flags & 2 != 0,
            })
        }),
        0xB4 => continued(payload, 6, |value, length| match length {
            4 => Some(Packet::GlobalTimestamp2 { high: value & 0x3F_FFFF, wide: false }),
            6 => Some(Packet::GlobalTimestamp2 { high: value & 0x3F_FFFF_FFFF, wide: true }),
            _ => None,
        }),
        _ if header & 0x0B == 8 => extension(header, payload),
        _ => Parsed::Bad(Bad::Reserved, 1),
    }
}

/// A value of 1, 2 or 4 bytes, of software or of hardware.
#[inline]
fn source(header: u8, payload: &[u8]) -> Parsed {
    let (value, size) = match (header & 3, payload) {
        (1, [a, ..]) => ((*a).into(), 1),
        (2, [a, b, ..]) => (u16::from_le_bytes([*a, *b]).into(), 2),
        (3, [a, b, c, d, ..]) => (u32::from_le_bytes([*a, *b, *c, *d]), 4),
        _ => return Parsed::More,
    };
    let number = header >> 3;
    let packet = match header & 4 {
        0 => Packet::Instrumentation { port: number, value, size },
        _ => Packet::Hardware { id: number, value, size },
    };
    Parsed::Packet(packet, 1 + usize::from(size))
}

/// Bytes of seven bits, the lowest first, up to one without bit 7.
fn continued(payload: &[u8], most: u8, packet: impl FnOnce(u64, u8) -> Option<Packet>) -> Parsed {
    let mut value = 0;
    for (index, &byte) in (0..most).zip(payload) {
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            let length = index + 1;
            let used = usize::from(length) + 1;
            return packet(value, length)
                .map_or(Parsed::Bad(Bad::Length, used), |packet| Parsed::Packet(packet, used));
        }
    }
    if payload.len() < usize::from(most) {
        Parsed::More
    } else {
        Parsed::Bad(Bad::Length, usize::from(most) + 1)
    }
}

fn extension(header: u8, payload: &[u8]) -> Parsed {
    let (low, hardware) = (u32::from(header >> 4 & 7), header & 4 != 0);
    if header & 0x80 == 0 {
        return Parsed::Packet(Packet::Extension { hardware, value: low, length: 0 }, 1);
    }
    // The fourth byte has eight bits of value.
    if let [a, b, c, d, ..] = *payload
        && a & b & c & 0x80 != 0
    {
        let sevens = [a, b, c].iter().rev().fold(0, |value, byte| value << 7 | u32::from(byte & 0x7F));
        let value = low | sevens << 3 | u32::from(d) << 24;
        return Parsed::Packet(Packet::Extension { hardware, value, length: 4 }, 5);
    }
    match payload.len() {
        0..=3 if payload.iter().all(|byte| byte & 0x80 != 0) => Parsed::More,
        _ => continued(payload, 3, |value, length| {
            Some(Packet::Extension { hardware, value: low | (value as u32) << 3, length })
        }),
    }
}
