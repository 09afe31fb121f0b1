//! Common packets, each read at once from the bytes that hold all of it.
//!
//! Nibble by nibble, a packet of ten nibbles is ten steps of a state machine. Here its opcode is looked up by its first
//! two nibbles, and each of its fields is one load: the lowest nibble of a byte comes first, and the first nibble of a
//! field is its highest, so that a field is a number with its nibbles turned around.

use super::packet::{Packet, SentTime};
use super::table::{Row, long_opcode, short_opcode, time_nibbles};

/// Bytes that the fields of any common packet are loaded from: a time may begin after one nibble of another packet, two of
/// the opcode, 16 of data and one of its own length, and each field is a load of 16 bytes.
pub(super) const WINDOW: usize = 10 + 16;

/// The opcode that two nibbles begin with, and its nibbles.
const OPCODES: [Option<(Row, u8)>; 256] = {
    let mut opcodes = [None; 256];
    let mut two = 0;
    while two < opcodes.len() {
        let (first, second) = (two as u8 & 0xF, two as u8 >> 4);
        let (row, nibbles) = if first == 0xF { (long_opcode(second), 2) } else { (short_opcode(first), 1) };
        if let Some(row) = row {
            opcodes[two] = Some((row, nibbles));
        }
        two += 1;
    }
    opcodes
};

/// The 16 nibbles from a nibble on, the first lowest.
#[inline]
fn nibbles_at(window: &[u8; WINDOW], at: usize) -> u64 {
    let bytes = window.get(at / 2..).and_then(|bytes| bytes.first_chunk::<16>());
    let pair = bytes.map_or(0, |bytes| u128::from_le_bytes(*bytes));
    (pair >> (4 * (at % 2))) as u64
}

#[inline]
fn nibble_at(window: &[u8; WINDOW], at: usize) -> u8 {
    window.get(at / 2).map_or(0, |byte| byte >> (4 * (at % 2)) & 0xF)
}

/// The value of so many nibbles, of which the first is the highest.
#[inline]
const fn highest_first(nibbles: u64, count: u8) -> u64 {
    const LOW: u64 = 0x0F0F_0F0F_0F0F_0F0F;
    if count == 0 {
        return 0;
    }
    let bytes = nibbles.swap_bytes();
    let reversed = (bytes & LOW) << 4 | bytes >> 4 & LOW;
    reversed >> (64 - 4 * count as u32)
}

/// The packet at a nibble of the first byte, and the nibble after it. `None` if it is no common one, or ends in a nibble
/// of ones, which may be the first of an ASYNC that cuts it off.
#[inline]
pub(super) fn common_packet(window: &[u8; WINDOW], begin: usize) -> Option<(Packet, usize)> {
    let (row, opcode) = OPCODES[nibbles_at(window, begin) as usize & 0xFF]?;
    let data = begin + usize::from(opcode);
    let value = highest_first(nibbles_at(window, data), row.nibbles);
    let mut end = data + usize::from(row.nibbles);
    let mut time = None;
    if row.timed {
        let nibbles = time_nibbles(nibble_at(window, end))?;
        let value = highest_first(nibbles_at(window, end + 1), nibbles);
        time = Some(SentTime { nibbles, value });
        end += 1 + usize::from(nibbles);
    }
    if nibble_at(window, end - 1) == 0xF {
        return None;
    }
    Some((Packet { content: row.content(value), time, begins_in_high_nibble: begin % 2 == 1 }, end))
}
