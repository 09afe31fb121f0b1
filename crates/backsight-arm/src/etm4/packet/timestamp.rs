//! Global timestamps.
//!
//! ```text
//! Timestamp                    TS, 1 to 9 bytes
//! Timestamp with cycle count   TS, 1 to 9 bytes;  COUNT, continued: cycles since the last cycle count
//!
//! TS: bytes 0 to 7 have seven bits each, and bit 7 says that another follows; byte 8 has eight
//! ```
//!
//! The upper bits that a timestamp leaves out are those of the one before; after a Trace Info they are 0. The
//! threshold is not part of the count.

use backsight_core::{Field, Text, Value};

use super::cycle_count::COUNT_BITS;
use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::history::merge;
use crate::etm4::state::StreamState;
use crate::etm4::{Config, EncodeError, Encoder, Kind};

/// A global timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// The timestamp, all of its bits.
    pub value: u64,
    /// How many bytes it was written in, 1 to 9.
    pub bytes: u8,
    /// Cycles from the most recent cycle count to here, if the packet has them.
    pub cycles: Option<u32>,
}

/// Bits of a timestamp of so many bytes.
#[inline]
const fn bits(bytes: u8) -> u32 {
    if bytes >= 9 { 64 } else { bytes as u32 * 7 }
}

impl Timestamp {
    pub(super) const fn kind(&self) -> Kind {
        if self.cycles.is_some() { Kind::TimestampCycles } else { Kind::Timestamp }
    }

    #[inline]
    pub(super) fn read(
        kind: Kind,
        payload: &mut PayloadReader<'_>,
        config: &Config,
        state: &mut StreamState,
    ) -> Result<Self, Stop> {
        let (low, bytes) = read_bits(payload)?;
        let cycles = match kind {
            Kind::TimestampCycles => Some(payload.count()? & config.cycle_counter_mask()),
            _ => None,
        };
        state.timestamp = merge(state.timestamp, low, bits(bytes));
        Ok(Self { value: state.timestamp, bytes, cycles })
    }

    pub(super) fn write(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        let &Self { value, bytes, cycles } = self;
        let bits = bits(bytes);
        let low = if bits >= 64 { value } else { value & ((1 << bits) - 1) };
        let cycle_bits = u32::from(encoder.config.cycle_counter_bits()).min(COUNT_BITS);
        if !(1..=9).contains(&bytes)
            || merge(encoder.state.timestamp, low, bits) != value
            || cycles.is_some_and(|cycles| cycles >> cycle_bits != 0)
        {
            return Err(EncodeError::OutOfRange);
        }
        encoder.begin(self.kind(), 0)?;
        for index in 0..bytes {
            encoder.out.byte(match index {
                8 => (value >> 56) as u8,
                _ => (value >> (7 * index)) as u8 & 0x7F | if index + 1 < bytes { 0x80 } else { 0 },
            });
        }
        if let Some(cycles) = cycles {
            encoder.out.continued(cycles);
        }
        encoder.state.timestamp = value;
        Ok(())
    }

    pub(super) fn fields(&self, each: &mut dyn FnMut(Field)) {
        each(Field::new("timestamp", Value::Hexadecimal(self.value)).text(Text::Labelled("TS")));
        if let Some(cycles) = self.cycles {
            each(Field::new("cycles", Value::Decimal(cycles.into())).text(Text::Labelled("CC")));
        }
    }
}

/// The bits of a timestamp, and how many bytes it has.
#[inline]
fn read_bits(payload: &mut PayloadReader<'_>) -> Result<(u64, u8), Stop> {
    let mut value = 0;
    for index in 0..8 {
        let byte = payload.byte()?;
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, index + 1));
        }
    }
    Ok((value | u64::from(payload.byte()?) << 56, 9))
}

impl Encoder {
    /// The shortest timestamp that keeps what the one before has in common with it.
    #[inline]
    pub const fn timestamp(&self, value: u64, cycles: Option<u32>) -> Timestamp {
        let differs = u64::BITS - (value ^ self.state.timestamp).leading_zeros();
        let bytes = match differs {
            0 => 1,
            57.. => 9,
            bits => bits.div_ceil(7) as u8,
        };
        Timestamp { value, bytes, cycles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ninth_timestamp_byte_has_eight_bits() {
        let read = |bytes: &[u8]| read_bits(&mut PayloadReader::new(bytes));
        assert_eq!(read(&[2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]), Ok((u64::MAX, 9)));
        assert_eq!(read(&[2, 0xD7, 0xDF, 0x01]), Ok((0x6FD7, 3)));
    }
}
