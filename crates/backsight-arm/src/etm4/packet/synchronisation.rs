//! What begins with a zero byte: Async, Discard, Overflow.
//!
//! ```text
//! Async      ten more zeros, 0x80: the next byte is a header
//! Discard    0x03
//! Overflow   0x05
//! ```
//!
//! A decoder that does not know where packets begin looks for an Async ([`crate::etm4::decode`]).

use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::table::ASYNC_BYTES;
use crate::etm4::{Bad, EncodeError, Encoder, Kind, Packet};

/// Zeros of an Async, the header among them.
pub(in crate::etm4) const ASYNC_ZEROS: usize = ASYNC_BYTES - 1;
/// The last byte of an Async.
pub(in crate::etm4) const ASYNC_END: u8 = 0x80;
const DISCARD: u8 = 0x03;
const OVERFLOW: u8 = 0x05;

/// Reads any of them. A bad one ends with the first byte that does not fit.
pub(super) fn read(payload: &mut PayloadReader<'_>) -> Result<Packet, Stop> {
    match payload.byte()? {
        DISCARD => return Ok(Packet::Discard),
        OVERFLOW => return Ok(Packet::Overflow),
        0 => {}
        _ => return Ok(Packet::Bad(Bad::Extension)),
    }
    while payload.length() < ASYNC_ZEROS {
        if payload.byte()? != 0 {
            return Ok(Packet::Bad(Bad::AsyncLength));
        }
    }
    Ok(if payload.byte()? == ASYNC_END { Packet::Async } else { Packet::Bad(Bad::AsyncLength) })
}

/// Writes an Async.
pub(super) fn write_async(encoder: &mut Encoder) -> Result<(), EncodeError> {
    encoder.begin(Kind::Extension, 0)?;
    encoder.out.bytes(&[0; ASYNC_ZEROS - 1]);
    encoder.out.byte(ASYNC_END);
    Ok(())
}

/// Writes a Discard.
pub(super) fn write_discard(encoder: &mut Encoder) -> Result<(), EncodeError> {
    encoder.begin(Kind::Extension, 0)?;
    encoder.out.byte(DISCARD);
    Ok(())
}

/// Writes an Overflow.
pub(super) fn write_overflow(encoder: &mut Encoder) -> Result<(), EncodeError> {
    encoder.begin(Kind::Extension, 0)?;
    encoder.out.byte(OVERFLOW);
    Ok(())
}
