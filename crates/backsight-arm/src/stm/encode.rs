//! Packets to nibbles.

use super::packet::{Content, Packet, SentTime, TimeCoding};

/// Turns packets into bytes. A byte is given as soon as both its nibbles are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Encoder {
    /// The low nibble of the next byte.
    pending: Option<u8>,
    legacy_time: bool,
    lowest_first: bool,
}

/// Most nibbles of a packet: an opcode, data, and a timestamp with its length.
const MOST_NIBBLES: usize = 4 + 16 + 17;

/// The nibbles of one packet.
struct Nibbles {
    all: [u8; MOST_NIBBLES],
    count: usize,
}

impl Nibbles {
    fn put(&mut self, nibbles: &[u8]) {
        for &nibble in nibbles {
            if let Some(next) = self.all.get_mut(self.count) {
                *next = nibble;
                self.count += 1;
            }
        }
    }

    /// A field of so many nibbles. False: it has no room for the value.
    fn field(&mut self, value: u64, count: u8, lowest_first: bool) -> bool {
        for index in 0..count {
            let index = if lowest_first { index } else { count - 1 - index };
            self.put(&[(value >> (4 * index)) as u8 & 0xF]);
        }
        count >= 16 || value >> (4 * count) == 0
    }
}

impl Encoder {
    /// An encoder at the beginning of a stream.
    pub const fn new() -> Self {
        Self { pending: None, legacy_time: false, lowest_first: false }
    }

    /// Gives the bytes that the packet completes. Bad packets, nibbles passed over and packets with a field that has no
    /// room for its value have none: the result is `false`.
    pub fn put(&mut self, packet: &Packet, out: &mut impl Extend<u8>) -> bool {
        let mut nibbles = Nibbles { all: [0; MOST_NIBBLES], count: 0 };
        if !self.write(packet, &mut nibbles) {
            return false;
        }
        nibbles.all.iter().take(nibbles.count).for_each(|&nibble| self.nibble(nibble, out));
        match packet.content {
            Content::Version { value, more } => {
                self.legacy_time = TimeCoding::from_version(value) == Some(TimeCoding::Legacy);
                self.lowest_first = more.is_some_and(|more| more & 0x80 != 0);
            }
            Content::Async { .. } => (self.legacy_time, self.lowest_first) = (false, false),
            _ => {}
        }
        true
    }

    /// The stream ends: it is filled up to a byte.
    pub fn finish(&mut self, out: &mut impl Extend<u8>) {
        if self.pending.is_some() {
            self.nibble(0, out);
        }
    }

    fn nibble(&mut self, nibble: u8, out: &mut impl Extend<u8>) {
        match self.pending.take() {
            None => self.pending = Some(nibble),
            Some(low) => out.extend([low | nibble << 4]),
        }
    }

    fn write(&self, packet: &Packet, to: &mut Nibbles) -> bool {
        let timed = packet.time.is_some();
        let mut field = |opcode: &[u8], value: u64, nibbles: u8| {
            to.put(opcode);
            to.field(value, nibbles, self.lowest_first)
        };
        let fits = match packet.content {
            Content::Async { .. } if !timed => {
                to.put(&[0xF; 21]);
                to.put(&[0]);
                true
            }
            Content::Version { value: value @ 0..=0xF, more } if !timed => {
                to.put(&[0xF, 0, 0, value]);
                more.is_none_or(|more| to.field(more.into(), 2, false))
                    && (value & 8 != 0) == more.is_some()
                    && TimeCoding::from_version(value).is_some()
            }
            Content::Null => field(if timed { &[0xF, 0, 1] } else { &[0] }, 0, 0),
            Content::Flag => field(if timed { &[0xE] } else { &[0xF, 0xE] }, 0, 0),
            Content::Trigger(value) => field(&[0xF, 0, 6 + u8::from(timed)], value.into(), 2),
            Content::Frequency(value) => field(&[0xF, 0, 8 + u8::from(timed)], value.into(), 8),
            Content::Frequency40(value) => field(&[0xF, 0, 0xF, u8::from(timed)], value, 10),
            Content::CrossSync(value) => field(&[0xF, 0, 0xA + u8::from(timed)], value.into(), 2),
            Content::Data { value, nibbles, marked } => match data_opcode(nibbles, marked, timed) {
                Some((escape, opcode)) => {
                    let opcodes = [0xF, opcode];
                    field(opcodes.get(usize::from(!escape)..).unwrap_or_default(), value, nibbles)
                }
                None => false,
            },
            Content::Master8(master) if !timed => field(&[1], master.into(), 2),
            Content::Master16(master) if !timed => field(&[0xF, 1], master.into(), 4),
            Content::Channel8(channel) if !timed => field(&[3], channel.into(), 2),
            Content::Channel16(channel) if !timed => field(&[0xF, 3], channel.into(), 4),
            Content::MasterError(value) if !timed => field(&[2], value.into(), 2),
            Content::GlobalError(value) if !timed => field(&[0xF, 2], value.into(), 2),
            _ => false,
        };
        fits && packet.time.is_none_or(|time| self.time(time, to))
    }

    fn time(&self, SentTime { nibbles, value }: SentTime, to: &mut Nibbles) -> bool {
        if self.legacy_time {
            return nibbles == 2 && to.field(value, 2, self.lowest_first);
        }
        let code = match nibbles {
            0..=12 => nibbles,
            14 => 0xD,
            16 => 0xE,
            _ => return false,
        };
        to.put(&[code]);
        to.field(value, nibbles, self.lowest_first)
    }
}

/// Does an F come first, and the opcode of data.
const fn data_opcode(nibbles: u8, marked: bool, timed: bool) -> Option<(bool, u8)> {
    let escape = marked != timed;
    match nibbles {
        1 => Some((escape, if marked { 0xD } else { 0xC })),
        2 | 4 | 8 | 16 => {
            let size = nibbles.trailing_zeros() as u8 - 1;
            Some((escape, size + if marked { 8 } else { 4 }))
        }
        _ => None,
    }
}
