//! Common packets, each read at once from a word that holds all of it.
//!
//! Nibble by nibble, a packet of ten nibbles is ten steps of a state machine. Here its first nibbles are turned around into
//! a word, the first nibble highest: the lowest nibble of a byte comes first in the stream, and the first nibble of a field
//! is its highest. Each field is then two shifts.

use super::packet::SentTime;
use super::table::{Row, long_opcode, short_opcode};

/// An opcode of one or two nibbles.
#[derive(Clone, Copy)]
struct Opcode {
    row: Row,
    nibbles: u8,
}

/// The opcode that two nibbles begin with, the first of them highest.
const OPCODES: [Option<Opcode>; 256] = {
    let mut opcodes = [None; 256];
    let mut two = 0;
    while two < opcodes.len() {
        let (first, second) = (two as u8 >> 4, two as u8 & 0xF);
        let (row, nibbles) = if first == 0xF { (long_opcode(second), 2) } else { (short_opcode(first), 1) };
        if let Some(row) = row {
            opcodes[two] = Some(Opcode { row, nibbles });
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
    pub time: Option<SentTime>,
    /// How many nibbles it has.
    pub nibbles: u8,
}

/// Defines the reader of packets that fit into a word.
macro_rules! reader {
    ($(#[$about:meta])* $name:ident, $word:ty) => {
        $(#[$about])*
        ///
        /// Begins at the low nibble of the first byte, or at the high one. `None` if it is no common packet, if the word
        /// does not hold it and two nibbles more, or if it ends in ones and two nibbles of ones follow: those may be of
        /// an ASYNC that cuts it off.
        #[inline(always)]
        pub(super) fn $name(bytes: &[u8; size_of::<$word>()], at_high_nibble: bool) -> Option<Common> {
            const LOW: $word = <$word>::MAX / 0xFF * 0xF;
            const NIBBLES: u32 = <$word>::BITS / 4;
            let pairs = <$word>::from_be_bytes(*bytes);
            let word = ((pairs & LOW) << 4 | pairs >> 4 & LOW) << (4 * u32::from(at_high_nibble));
            let Opcode { row, nibbles } = OPCODES[usize::from((word >> (4 * (NIBBLES - 2))) as u8)]?;
            let mut end = u32::from(nibbles + row.nibbles);
            if end + 3 > NIBBLES {
                return None;
            }
            // A field may have no nibbles: one place of its shift is made before.
            let field = |begin: u32, nibbles: u32| {
                ((word << (4 * begin)) >> 1 >> (<$word>::BITS - 1 - 4 * nibbles)) as u64
            };
            let value = field(nibbles.into(), row.nibbles.into());
            let mut time = None;
            if row.timed {
                let nibbles = field(end, 1) as u8;
                // Longer ones are rare, and their lengths are coded in another way.
                if nibbles > 12 || end + u32::from(nibbles) + 4 > NIBBLES {
                    return None;
                }
                time = Some(SentTime { nibbles, value: field(end + 1, nibbles.into()) });
                end += 1 + u32::from(nibbles);
            }
            // The last nibble and the two after it.
            let around_the_end = word >> (4 * (NIBBLES - 2 - end)) & 0xFFF;
            (around_the_end != 0xFFF).then_some(Common { row, value, time, nibbles: end as u8 })
        }
    };
}

reader!(
    /// The packet at the start of eight bytes: most are as short.
    short_packet,
    u64
);
reader!(
    /// The packet at the start of sixteen bytes.
    long_packet,
    u128
);
