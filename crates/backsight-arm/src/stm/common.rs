//! Common packets, each read at once from a word that holds all of it.
//!
//! Nibble by nibble, a packet of ten nibbles is ten steps of a state machine. Here its first nibbles are one word, the first
//! of them lowest. The opcode says how long the packet is, so that the next one can be begun with before the fields of this
//! one are looked at. The first nibble of a field is its highest: of the word turned around, each field is two shifts.

use backsight_core::Located;

use super::packet::{Content, Packet, SentTime};
use super::table::{Row, long_opcode, short_opcode};

/// An opcode of one or two nibbles.
#[derive(Clone, Copy)]
struct Opcode {
    row: Row,
    nibbles: u8,
    /// Nibbles of opcode and data.
    end: u8,
}

/// The opcode that two nibbles begin with, the first of them lowest.
const OPCODES: [Option<Opcode>; 256] = {
    let mut opcodes = [None; 256];
    let mut two = 0;
    while two < opcodes.len() {
        let (first, second) = (two as u8 & 0xF, two as u8 >> 4);
        let (row, nibbles) = if first == 0xF { (long_opcode(second), 2) } else { (short_opcode(first), 1) };
        if let Some(row) = row {
            opcodes[two] = Some(Opcode { row, nibbles, end: nibbles + row.nibbles });
        }
        two += 1;
    }
    opcodes
};

/// A common packet.
pub(super) struct Common {
    pub row: Row,
    /// Its data.
    pub value: u64,
    time: Option<SentTime>,
    /// How many nibbles it has.
    pub nibbles: u8,
}

impl Common {
    /// What it says.
    #[inline]
    pub const fn content(&self) -> Content {
        self.row.content(self.value)
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
            let word = <$word>::from_le_bytes(*bytes) >> (4 * u32::from(at_high_nibble));
            let Opcode { row, nibbles, end } = OPCODES[usize::from(word as u8)]?;
            let mut end = u32::from(end);
            if end + 3 > NIBBLES {
                return None;
            }
            let pairs = word.swap_bytes();
            let around = (pairs & LOW) << 4 | pairs >> 4 & LOW;
            // A field may have no nibbles: one place of its shift is made before.
            let field = |begin: u32, nibbles: u32| {
                ((around << (4 * begin)) >> 1 >> (<$word>::BITS - 1 - 4 * nibbles)) as u64
            };
            let value = field(nibbles.into(), row.nibbles.into());
            let mut time = None;
            if row.timed {
                let nibbles = (word >> (4 * end)) as u8 & 0xF;
                // Longer ones are rare, and their lengths are coded in another way.
                if nibbles > 12 || end + u32::from(nibbles) + 4 > NIBBLES {
                    return None;
                }
                time = Some(SentTime { nibbles, value: field(end + 1, nibbles.into()) });
                end += 1 + u32::from(nibbles);
            }
            // The last nibble and the two after it.
            let last = word >> (4 * (end - 1)) & 0xFFF;
            (last != 0xFFF).then_some(Common { row, value, time, nibbles: end as u8 })
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
