//! Cycle counts within packets.
//!
//! ```text
//! first byte  x C c c c c F 0   C: more bytes; count[3:0]; F: the atom, in an atom packet
//! the rest    C c c c c c c c   count[10:4], [17:11], [24:18], [31:25]
//! ```

use crate::etm::{Bad, PacketWriter, PayloadReader, Stop};

/// The count that begins in this byte.
#[inline]
pub(super) fn read_after(first: u8, payload: &mut PayloadReader<'_>) -> Result<u32, Stop> {
    let mut count = u32::from(first >> 2 & 0xF);
    let mut more = first & 0x40 != 0;
    let mut low = 4;
    while more {
        if low > 25 {
            return Err(payload.bad(Bad::FieldTooLong));
        }
        let byte = payload.byte()?;
        count |= u32::from(byte & 0x7F) << low;
        low += 7;
        more = byte & 0x80 != 0;
    }
    Ok(count)
}

/// The count of one or two bytes that a word begins with, and how many: what reading it gives. Longer ones are rare.
#[inline]
pub(super) const fn short(word: u64) -> Option<(u32, usize)> {
    let low = word as u32 >> 2 & 0xF;
    match (word & 0x40 != 0, word & 0x8000 != 0) {
        (false, _) => Some((low, 1)),
        (true, false) => Some((low | (word as u32 >> 8 & 0x7F) << 4, 2)),
        (true, true) => None,
    }
}

/// A count in a field of its own.
#[inline]
pub(super) fn read(payload: &mut PayloadReader<'_>) -> Result<u32, Stop> {
    let first = payload.byte()?;
    read_after(first, payload)
}

/// Writes a count; `beside` are the other bits of its first byte.
pub(super) fn write(count: u32, beside: u8, out: &mut PacketWriter) {
    let mut rest = count >> 4;
    let more = if rest > 0 { 0x40 } else { 0 };
    out.byte(beside | more | (count as u8 & 0xF) << 2);
    while rest > 0 {
        let more = if rest > 0x7F { 0x80 } else { 0 };
        out.byte(rest as u8 & 0x7F | more);
        rest >>= 7;
    }
}
