//! Common packets, each read at once from a word that holds all of it.
//!
//! Nibble by nibble, a packet of ten nibbles is ten steps of a state machine. Here its first nibbles are one word, the first
//! of them lowest. The opcode says how long the packet is, so that the next one can be begun with before the fields of this
//! one are looked at. The first nibble of a field is its highest: of the word turned around, each field is two shifts.

use backsight_core::Located;

use super::packet::{Content, Packet, SentTime};
use super::table::{Kind, Row, long_opcode, short_opcode};

/// An opcode of one or two nibbles.
#[derive(Clone, Copy)]
pub(super) struct Opcode {
    row: Row,
    /// Bits before the data.
    before: u8,
    /// Bits of the data.
    bits: u8,
    /// Nibbles of opcode and data; 0 where there is no such opcode.
    end: u8,
}

/// The opcode that two nibbles begin with, the first of them lowest, if so many nibbles hold it, its data, a nibble before
/// and two after.
const fn opcodes(room: u8) -> [Opcode; 256] {
    let none = Opcode { row: Row { kind: Kind::Null, nibbles: 0, timed: false }, before: 0, bits: 0, end: 0 };
    let mut opcodes = [none; 256];
    let mut two = 0;
    while two < opcodes.len() {
        let (first, second) = (two as u8 & 0xF, two as u8 >> 4);
        let (row, nibbles) = if first == 0xF { (long_opcode(second), 2) } else { (short_opcode(first), 1) };
        if let Some(row) = row
            && nibbles + row.nibbles + 3 <= room
        {
            opcodes[two] =
                Opcode { row, before: 4 * nibbles, bits: 4 * row.nibbles, end: nibbles + row.nibbles };
        }
        two += 1;
    }
    opcodes
}

/// A common packet.
pub(super) struct Common {
    opcode: &'static Opcode,
    /// Its data.
    value: u64,
    time: Option<SentTime>,
    /// How many nibbles it has.
    pub nibbles: u8,
}

impl Common {
    /// What it says.
    #[inline]
    pub const fn content(&self) -> Content {
        self.opcode.row.content(self.value)
    }

    /// What it says, if it is data.
    #[inline(always)]
    pub const fn data(&self) -> Option<Content> {
        match self.opcode.row.kind {
            Kind::Data { marked } => {
                Some(Content::Data { value: self.value, nibbles: self.opcode.row.nibbles, marked })
            }
            _ => None,
        }
    }

    /// As it is given: it begins in the byte at this offset.
    #[inline(always)]
    pub fn located(&self, content: Content, offset: u64, begins_in_high_nibble: bool) -> Located<Packet> {
        let length = (u32::from(self.nibbles) + u32::from(begins_in_high_nibble)).div_ceil(2);
        Located { offset, length, value: Packet { content, time: self.time, begins_in_high_nibble } }
    }
}

/// Defines the reader of packets that fit into a word.
macro_rules! reader {
    ($(#[$about:meta])* $name:ident, $word:ty, $inline:meta) => {
        $(#[$about])*
        ///
        /// Begins at the low nibble of the first byte, or at the high one. `None` if it is no common packet, if the word
        /// does not hold it and two nibbles more, or if it ends in ones and two nibbles of ones follow: those may be of
        /// an ASYNC that cuts it off.
        #[$inline]
        pub(super) fn $name(bytes: &[u8; size_of::<$word>()], at_high_nibble: bool) -> Option<Common> {
            const LOW: $word = <$word>::MAX / 0xFF * 0xF;
            const NIBBLES: u32 = <$word>::BITS / 4;
            static OPCODES: [Opcode; 256] = opcodes(NIBBLES as u8);
            let word = <$word>::from_le_bytes(*bytes) >> (4 * u32::from(at_high_nibble));
            let opcode = &OPCODES[usize::from(word as u8)];
            let mut end = u32::from(opcode.end);
            if end == 0 {
                return None;
            }
            let pairs = word.swap_bytes();
            let around = (pairs & LOW) << 4 | pairs >> 4 & LOW;
            // A field may have no bits: one place of its shift is made before.
            let field = |before: u32, bits: u32| {
                ((around << before) >> 1 >> (<$word>::BITS - 1 - bits)) as u64
            };
            let value = field(opcode.before.into(), opcode.bits.into());
            let mut time = None;
            if opcode.row.timed {
                let nibbles = (word >> (4 * end)) as u32 & 0xF;
                // Longer ones are rare, and their lengths are coded in another way.
                if nibbles > 12 || end + nibbles + 4 > NIBBLES {
                    return None;
                }
                time = Some(SentTime { nibbles: nibbles as u8, value: field(4 * end + 4, 4 * nibbles) });
                end += 1 + nibbles;
            }
            // The last nibble and the two after it.
            let last = word >> (4 * (end - 1)) & 0xFFF;
            (last != 0xFFF).then_some(Common { opcode, value, time, nibbles: end as u8 })
        }
    };
}

reader!(
    /// The packet at the start of eight bytes: most are as short.
    short_packet,
    u64,
    inline(always)
);
reader!(
    /// The packet at the start of sixteen bytes.
    long_packet,
    u128,
    inline(never)
);
