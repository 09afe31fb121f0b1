//! What became of speculation: Commit, Cancel, Mispredict.
//!
//! ```text
//! Commit            COUNT, continued
//! Cancel format 1   COUNT, continued; one header without and one with a mispredict after it
//! Mispredict        header: AA             AA: 0 no atom, 1 E, 2 EE, 3 N
//! Cancel format 2   header: AA
//! Cancel format 3   header: CC, A          CC + 2 elements are cancelled; A: an E atom comes first
//! ```

use backsight_core::{Field, Text, Value};

use super::atoms::Atoms;
use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::encode::within;
use crate::etm4::{EncodeError, Encoder, Kind, Packet};

/// Fewest elements that format 3 cancels.
const LEAST: u8 = 2;

/// Reads any of them.
pub(super) fn read(kind: Kind, field: u8, payload: &mut PayloadReader<'_>) -> Result<Packet, Stop> {
    Ok(match kind {
        Kind::Commit => Packet::Commit { count: payload.number()? },
        Kind::CancelF1 => Packet::CancelF1 { count: payload.number()?, mispredict: false },
        Kind::CancelF1Mispredict => Packet::CancelF1 { count: payload.number()?, mispredict: true },
        Kind::Mispredict => Packet::Mispredict(Atoms::of_cancel(field)),
        Kind::CancelF2 => Packet::CancelF2(Atoms::of_cancel(field)),
        _ => Packet::CancelF3 { atom: field & 1 == 1, count: (field >> 1) + LEAST },
    })
}

/// Writes a Commit or a Cancel of format 1.
pub(super) fn write_count(kind: Kind, count: u32, encoder: &mut Encoder) -> Result<(), EncodeError> {
    encoder.begin(kind, 0)?;
    encoder.out.continued(count);
    Ok(())
}

/// Writes a Mispredict or a Cancel of format 2.
pub(super) fn write_atoms(kind: Kind, atoms: Atoms, encoder: &mut Encoder) -> Result<(), EncodeError> {
    encoder.begin(kind, atoms.cancel_field().ok_or(EncodeError::OutOfRange)?)
}

/// Writes a Cancel of format 3.
pub(super) fn write_cancel_f3(atom: bool, count: u8, encoder: &mut Encoder) -> Result<(), EncodeError> {
    encoder.begin(Kind::CancelF3, within(count.wrapping_sub(LEAST), 3)? << 1 | u8::from(atom))
}

impl Atoms {
    /// The atoms of a Mispredict or Cancel format 2 header: none, `E`, `EE` or `N`.
    pub(in crate::etm4) const fn of_cancel(field: u8) -> Self {
        match field & 3 {
            0 => Self::NONE,
            1 => Self { bits: 0b1, count: 1 },
            2 => Self { bits: 0b11, count: 2 },
            _ => Self { bits: 0b0, count: 1 },
        }
    }

    /// The field of a Mispredict or Cancel format 2 header that says these atoms, if there is one.
    const fn cancel_field(self) -> Option<u8> {
        match (self.count, self.bits) {
            (0, 0) => Some(0),
            (1, 0b1) => Some(1),
            (2, 0b11) => Some(2),
            (1, 0b0) => Some(3),
            _ => None,
        }
    }
}

/// The fields of a Commit or a Cancel of format 1.
pub(super) fn count_fields(count: u32, mispredict: Option<bool>, each: &mut dyn FnMut(Field)) {
    each(Field::new("count", Value::Decimal(count.into())));
    if let Some(mispredict) = mispredict {
        each(Field::new("mispredict", Value::Flag(mispredict)).text(Text::Hidden));
    }
}

/// The field of the atoms that come first. Text has none where there are none.
pub(super) fn atoms_field(atoms: Atoms) -> Field {
    let text = if atoms.count > 0 { Text::Labelled("atoms") } else { Text::Hidden };
    Field::new("atoms", atoms.value()).text(text)
}

/// The fields of a Cancel of format 3.
pub(super) fn cancel_f3_fields(atom: bool, count: u8, each: &mut dyn FnMut(Field)) {
    each(atoms_field(if atom { Atoms::one(true) } else { Atoms::NONE }));
    each(Field::new("count", Value::Decimal(count.into())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_says_different_atoms_and_is_found_again_from_them() {
        for field in 0..4 {
            assert_eq!(Atoms::of_cancel(field).cancel_field(), Some(field));
        }
    }
}
