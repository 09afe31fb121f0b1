//! Conditional instructions and their results.
//!
//! ```text
//! Instruction format 1   KEY, continued
//! Instruction format 2   header: CI               0 next key, one element; 1 same key; 2 next key, two elements
//! Instruction format 3   0, NUM[5:0], Z           NUM elements, each with the next key; Z: one more with the last
//! Result format 1        one set or two; header: CI1 (of two), CI0: elements up to the key are implied
//!                        each: C, KEY[2:0], RESULT; if C, the rest of KEY, continued
//! Result format 2        header: K, TT            the key advances by K + 1; token T
//! Result format 3        header: TOKENS[11:8]     TOKENS[7:0]
//! Result format 4        header: TT               token T for the key before
//! ```

use backsight_core::{Field, Text, Value};

use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::encode::within;
use crate::etm4::{EncodeError, Encoder, Kind, Packet};

/// One result set of a conditional result packet, format 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionalResult {
    /// The key.
    pub key: u32,
    /// Pass/fail in bit 0, or the flags V, C, Z, N in bits 0 to 3.
    pub result: u8,
    /// Conditional instructions up to the key are implied.
    pub implied: bool,
}

/// In the field of a Result format 1 header: there is one set only. The headers between are those of instructions.
const ONE_SET: u8 = 0b110;

/// Reads any of them.
pub(super) fn read(kind: Kind, field: u8, payload: &mut PayloadReader<'_>) -> Result<Packet, Stop> {
    Ok(match kind {
        Kind::ConditionalInstructionF1 => Packet::ConditionalInstructionF1 { key: payload.number()? },
        Kind::ConditionalInstructionF2 => Packet::ConditionalInstructionF2(field),
        Kind::ConditionalInstructionF3 => {
            let byte = payload.byte()?;
            Packet::ConditionalInstructionF3 { count: byte >> 1 & 0x3F, repeat: byte & 1 == 1 }
        }
        Kind::ConditionalResultF1 => {
            let first = ConditionalResult::read(field & 1 != 0, payload)?;
            let second = match field & ONE_SET {
                ONE_SET => None,
                _ => Some(ConditionalResult::read(field & 2 != 0, payload)?),
            };
            Packet::ConditionalResultF1 { first, second }
        }
        Kind::ConditionalResultF2 => Packet::ConditionalResultF2 { skip: field & 4 != 0, token: field & 3 },
        Kind::ConditionalResultF3 => {
            Packet::ConditionalResultF3(u16::from(field) << 8 | u16::from(payload.byte()?))
        }
        Kind::ConditionalResultF4 => Packet::ConditionalResultF4(field),
        _ => Packet::ConditionalFlush,
    })
}

/// Writes any of them.
pub(super) fn write(packet: &Packet, encoder: &mut Encoder) -> Result<(), EncodeError> {
    let kind = packet.kind();
    match *packet {
        Packet::ConditionalInstructionF1 { key } => {
            encoder.begin(kind, 0)?;
            encoder.out.continued(key);
        }
        Packet::ConditionalInstructionF3 { count, repeat } => {
            encoder.begin(kind, 0)?;
            encoder.out.byte(within(count, 0x3F)? << 1 | u8::from(repeat));
        }
        Packet::ConditionalFlush => encoder.begin(kind, 0)?,
        Packet::ConditionalResultF1 { first, second } => {
            let sets = second.map_or(ONE_SET, |second| u8::from(second.implied) << 1);
            encoder.begin(kind, sets | u8::from(first.implied))?;
            first.write(encoder)?;
            if let Some(second) = second {
                second.write(encoder)?;
            }
        }
        Packet::ConditionalResultF2 { skip, token } => {
            encoder.begin(kind, u8::from(skip) << 2 | within(token, 3)?)?;
        }
        Packet::ConditionalResultF3(tokens) => {
            encoder.begin(kind, (tokens >> 8) as u8)?;
            encoder.out.byte(tokens as u8);
        }
        Packet::ConditionalInstructionF2(field) | Packet::ConditionalResultF4(field) => {
            encoder.begin(kind, field)?;
        }
        _ => return Err(EncodeError::NotAPacket),
    }
    Ok(())
}

/// The fields of any of them.
pub(super) fn fields(packet: &Packet, each: &mut dyn FnMut(Field)) {
    let decimal =
        |name, label, value: u8| Field::new(name, Value::Decimal(value.into())).text(Text::Labelled(label));
    match *packet {
        Packet::ConditionalInstructionF1 { key } => each(Field::new("key", Value::Hexadecimal(key.into()))),
        Packet::ConditionalInstructionF2(kind) => each(decimal("kind", "CI", kind)),
        Packet::ConditionalInstructionF3 { count, repeat } => {
            each(decimal("count", "count", count));
            each(Field::new("repeat", Value::Flag(repeat)).text(Text::Words("and one more")));
        }
        Packet::ConditionalResultF1 { first, second } => {
            first.fields(["first.key", "first.result", "first.implied"], false, each);
            if let Some(second) = second {
                second.fields(["second.key", "second.result", "second.implied"], true, each);
            }
        }
        Packet::ConditionalResultF2 { skip, token } => {
            each(decimal("skip", "K", skip.into()));
            each(decimal("token", "T", token));
        }
        Packet::ConditionalResultF3(tokens) => each(Field::new("tokens", Value::Padded(tokens.into(), 3))),
        Packet::ConditionalResultF4(token) => each(decimal("token", "T", token)),
        _ => {}
    }
}

impl ConditionalResult {
    fn read(implied: bool, payload: &mut PayloadReader<'_>) -> Result<Self, Stop> {
        let first = payload.byte()?;
        let low = u32::from(first >> 4 & 7);
        let high = if first & 0x80 != 0 { payload.number()? } else { 0 };
        Ok(Self { key: high << 3 | low, result: first & 0xF, implied })
    }

    fn write(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        let continues = self.key > 7;
        let low = (self.key as u8 & 7) << 4;
        encoder.out.byte(within(self.result, 15)? | low | u8::from(continues) << 7);
        if continues {
            encoder.out.continued(self.key >> 3);
        }
        Ok(())
    }

    fn fields(
        &self,
        [key, result, implied]: [&'static str; 3],
        is_second: bool,
        each: &mut dyn FnMut(Field),
    ) {
        let key = Field::new(key, Value::Hexadecimal(self.key.into())).text(Text::Labelled("key"));
        each(if is_second { key.comma() } else { key });
        each(Field::new(result, Value::Hexadecimal(self.result.into())).text(Text::Labelled("result")));
        each(Field::new(implied, Value::Flag(self.implied)).text(Text::Words("implied")));
    }
}
