//! Descriptors of streams that a table does not know: `[start] length`.
//!
//! The start is left out if the other side can infer it. Where an exception follows a branch, it would infer the wrong
//! one: a length of 0, which no stream has, then announces the true start and length.

use crate::Damage;
use crate::bits::{BitReader, BitWriter};
use crate::stream::Stream;

/// Bits of a stream's length.
pub const LENGTH_BITS: u32 = 8;

/// Writes a descriptor; `put_start` writes a start address.
pub fn put(
    out: &mut BitWriter,
    stream: &Stream,
    address_bits: u32,
    put_start: impl FnOnce(&mut BitWriter, u64),
) {
    match stream.inferred {
        None => put_start(out, stream.start),
        Some(inferred) if inferred == stream.start => {}
        Some(_) => {
            out.put(0, LENGTH_BITS);
            out.put(stream.start, address_bits);
        }
    }
    out.put(u64::from(stream.length), LENGTH_BITS);
}

/// Reads a descriptor; `take_start` reads a start address.
pub fn take(
    bits: &mut BitReader<'_>,
    inferred: Option<u64>,
    address_bits: u32,
    take_start: impl FnOnce(&mut BitReader<'_>) -> Result<u64, Damage>,
) -> Result<Stream, Damage> {
    let mut start = match inferred {
        None => take_start(bits)?,
        Some(inferred) => inferred,
    };
    let mut length = bits.take(LENGTH_BITS)?;
    if length == 0 && inferred.is_some() {
        start = bits.take(address_bits)?;
        length = bits.take(LENGTH_BITS)?;
    }
    if length == 0 {
        return Err(Damage::Record("a stream of no instructions"));
    }
    Ok(Stream { start, length: length as u8, inferred })
}
