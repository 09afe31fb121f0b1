//! Common packets, each read at once from the bytes that hold all of it.
//!
//! Nibble by nibble, a packet of ten nibbles is ten steps of a state machine. Here its opcode is looked up by its first
//! two nibbles, and each of its fields is one load: the lowest nibble of a byte comes first, and the first nibble of a
//! field is its highest, so that a field is a number with its nibbles turned around.

use super::packet::SentTime;
use super::table::{Row, long_opcode, short_opcode, time_nibbles};

/// Bytes that the fields of any common packet are loaded from: a time may begin after one nibble of another packet, two of
/// the opcode, 16 of data and one of its own length, and each field is a load of 16 bytes. A power of two, so that no
/// load has to be checked.
pub(super) const WINDOW: usize = 32;

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
#[inline(always)]
fn nibbles_at(window: &[u8; WINDOW], at: usize) -> u64 {
    let first = at / 2 & (WINDOW / 2 - 1);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&window[first..first + 16]);
    (u128::from_le_bytes(bytes) >> (4 * (at % 2))) as u64
}

#[inline(always)]
fn two_nibbles_at(window: &[u8; WINDOW], at: usize) -> u8 {
    (u16::from_le_bytes([window[at / 2 & 1], window[(at / 2 & 1) + 1]]) >> (4 * (at % 2))) as u8
}

#[inline(always)]
fn nibble_at(window: &[u8; WINDOW], at: usize) -> u8 {
    window[at / 2 & (WINDOW - 1)] >> (4 * (at % 2)) & 0xF
}

/// The value of so many nibbles, of which the first is the highest. There is at least one.
#[inline(always)]
const fn highest_first(nibbles: u64, count: u8) -> u64 {
    const LOW: u64 = 0x0F0F_0F0F_0F0F_0F0F;
    let bytes = nibbles.swap_bytes();
    let reversed = (bytes & LOW) << 4 | bytes >> 4 & LOW;
    reversed.wrapping_shr(64 - 4 * count as u32)
}

/// A common packet.
pub(super) struct Common {
    pub row: Row,
    /// Its data.
    pub value: u64,
    pub time: Option<SentTime>,
    /// The nibble after it.
    pub end: usize,
}

/// The packet at a nibble of the first byte. `None` if it is no common one, or ends in a nibble of ones, which may be the
/// first of an ASYNC that cuts it off.
#[inline(always)]
pub(super) fn common_packet(window: &[u8; WINDOW], begin: usize) -> Option<Common> {
    let (row, opcode) = OPCODES[usize::from(two_nibbles_at(window, begin))]?;
    let data = begin + usize::from(opcode);
    // What has no data says nothing of its value.
    let value = highest_first(nibbles_at(window, data), row.nibbles);
    let mut end = data + usize::from(row.nibbles);
    let mut time = None;
    if row.timed {
        let nibbles = time_nibbles(nibble_at(window, end))?;
        let value = if nibbles == 0 { 0 } else { highest_first(nibbles_at(window, end + 1), nibbles) };
        time = Some(SentTime { nibbles, value });
        end += 1 + usize::from(nibbles);
    }
    (nibble_at(window, end - 1) != 0xF).then_some(Common { row, value, time, end })
}
