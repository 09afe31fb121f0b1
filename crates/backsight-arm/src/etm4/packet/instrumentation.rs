//! Instrumentation: a value that software wrote.
//!
//! ```text
//! byte 0: EL of the writer in bits 1:0;  bytes 1 to 8: the value, lowest byte first
//! ```

use backsight_core::{Field, Value};

use super::context::level;
use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::encode::within;
use crate::etm4::{EncodeError, Encoder, Kind, Packet};

pub(super) fn read(payload: &mut PayloadReader<'_>) -> Result<Packet, Stop> {
    let level = payload.byte()? & 3;
    Ok(Packet::Instrumentation { level, value: u64::from_le_bytes(payload.array()?) })
}

pub(super) fn write(level: u8, value: u64, encoder: &mut Encoder) -> Result<(), EncodeError> {
    encoder.begin(Kind::Instrumentation, 0)?;
    encoder.out.byte(within(level, 3)?);
    encoder.out.bytes(&value.to_le_bytes());
    Ok(())
}

pub(super) fn fields(by: u8, value: u64, each: &mut dyn FnMut(Field)) {
    each(level("level", by));
    each(Field::new("value", Value::Padded(value, 16)));
}
