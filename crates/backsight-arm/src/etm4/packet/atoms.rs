//! Atoms in a header byte.
//!
//! An atom says of one P0 instruction whether it was taken (`E`) or not (`N`). Six formats pack 1 to 24 of them
//! into the header: 1 to 3 in any mixture, 4 and 5 in the commonest patterns, and long runs of `E`.
//!
//! ```text
//! formats 1, 2, 3   header: A, AA, AAA         the oldest in bit 0
//! format 4          header: 0 to 3             NEEE, NNNN, NENE, ENEN
//! format 5          header: 0 to 2, 0x20       NNNNN, NENEN, ENENE, NEEEE
//! format 6          header: N, COUNT[4:0]      COUNT + 3 times E, then N or E
//! ```

use core::fmt;

use backsight_core::{Field, Text, Value};

use crate::etm4::{EncodeError, Encoder, Kind, lookup};

/// Up to 24 atoms, oldest in bit 0, 1 = `E`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Atoms {
    /// The atoms. Bits from `count` on are 0.
    pub bits: u32,
    /// How many.
    pub count: u8,
}

/// Most atoms that one packet holds.
pub const MAX_ATOMS: u8 = 24;

/// A pattern of atoms and the field of the header that says it.
type Pattern = (u32, u8);

/// The patterns of formats 4 and 5, oldest in bit 0.
const F4: [Pattern; 4] = [(0b1110, 0), (0b0000, 1), (0b1010, 2), (0b0101, 3)];
const F5: [Pattern; 4] = [(0b00000, 0), (0b01010, 1), (0b10101, 2), (0b11110, 0x20)];

/// Fewest atoms of format 6, and in its field: the last of them is `N`.
const LEAST_RUN: u8 = 4;
const LAST_IS_N: u8 = 0x20;

/// The headers of up to five atoms, by how many and which; 0, which is no atoms, where there is none.
const HEADERS: [[u8; 32]; 6] = {
    let mut headers = [[0; 32]; 6];
    let mut header = 0;
    while header <= 0xFF {
        let Atoms { bits, count } = Atoms::from_header(header as u8);
        if count > 0 && (count as usize) < headers.len() {
            headers[count as usize][bits as usize] = header as u8;
        }
        header += 1;
    }
    headers
};

/// The pattern that a field says.
const fn pattern(patterns: &[Pattern; 4], field: u8) -> u32 {
    let mut index = 0;
    while index < patterns.len() - 1 && patterns[index].1 != field {
        index += 1;
    }
    patterns[index].0
}

impl Atoms {
    /// No atom.
    pub const NONE: Self = Self { bits: 0, count: 0 };

    /// One atom.
    #[inline]
    pub const fn one(taken: bool) -> Self {
        Self { bits: taken as u32, count: 1 }
    }

    /// The atoms, oldest first: `true` is `E`.
    pub fn iter(self) -> impl Iterator<Item = bool> {
        (0..self.count).map(move |i| self.bits >> i & 1 != 0)
    }

    /// The atoms that a header says; none if it is of another kind.
    pub(in crate::etm4) const fn from_header(header: u8) -> Self {
        let kind = lookup(header).kind;
        let field = kind.field(header);
        match kind {
            Kind::AtomF1 => Self { bits: field as u32, count: 1 },
            Kind::AtomF2 => Self { bits: field as u32, count: 2 },
            Kind::AtomF3 => Self { bits: field as u32, count: 3 },
            Kind::AtomF4 => Self { bits: pattern(&F4, field), count: 4 },
            Kind::AtomF5 => Self { bits: pattern(&F5, field), count: 5 },
            Kind::AtomF6 => Self::run((field & !LAST_IS_N) + LEAST_RUN, field & LAST_IS_N == 0),
            _ => Self::NONE,
        }
    }

    /// `count` atoms, all `E` but for the last.
    const fn run(count: u8, last: bool) -> Self {
        let all = (1 << count) - 1;
        Self { bits: if last { all } else { all >> 1 }, count }
    }

    /// The header that says these atoms, if there is one. There is never more than one.
    #[inline]
    pub const fn header(self) -> Option<u8> {
        let Self { bits, count } = self;
        if count == 0 || count > MAX_ATOMS || bits >> count != 0 {
            return None;
        }
        if (count as usize) < HEADERS.len() {
            return match HEADERS[count as usize][(bits & 0x1F) as usize] {
                0 => None,
                header => Some(header),
            };
        }
        if bits == Self::run(count, true).bits {
            Some(Kind::AtomF6.header() + (count - LEAST_RUN))
        } else if bits == Self::run(count, false).bits {
            Some(Kind::AtomF6.header() + LAST_IS_N + (count - LEAST_RUN))
        } else {
            None
        }
    }

    /// The longest run of atoms from the oldest on that one packet can say. Takes the atoms still to send, oldest in
    /// bit 0; gives [`Atoms::NONE`] only for none.
    #[inline]
    pub const fn longest_packet(bits: u64, count: u32) -> Self {
        let run = (!bits).trailing_zeros();
        let run = if run < count { run } else { count };
        if run >= MAX_ATOMS as u32 {
            return Self::run(MAX_ATOMS, true);
        }
        if run >= 3 && run < count {
            return Self::run(run as u8 + 1, false);
        }
        if run == count && count > 3 {
            return Self::run(count as u8, true);
        }
        let low = bits as u32;
        if count >= 5 && HEADERS[5][(low & 0x1F) as usize] != 0 {
            return Self { bits: low & 0x1F, count: 5 };
        }
        if count >= 4 && HEADERS[4][(low & 0xF) as usize] != 0 {
            return Self { bits: low & 0xF, count: 4 };
        }
        let count = if count < 3 { count } else { 3 };
        Self { bits: low & ((1 << count) - 1), count: count as u8 }
    }

    /// Which of the six formats says these atoms.
    pub(super) const fn kind(self) -> Kind {
        match self.header() {
            Some(header) => lookup(header).kind,
            None => Kind::AtomF6,
        }
    }

    #[inline]
    pub(super) fn write(self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.out.header(self.header().ok_or(EncodeError::OutOfRange)?);
        Ok(())
    }

    pub(super) fn value(self) -> Value {
        Value::Outcomes(self.bits.into(), self.count, ['E', 'N'])
    }

    pub(super) fn fields(self, each: &mut dyn FnMut(Field)) {
        each(Field::new("atoms", self.value()).text(Text::Plain));
    }
}

/// Writes the letters, oldest first: `EEN`.
impl fmt::Display for Atoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn headers_say_the_atoms_of_the_manual() {
        for (header, atoms) in [
            (0xF6, "N"),
            (0xF7, "E"),
            (0xD9, "EN"),
            (0xDA, "NE"),
            (0xFB, "EEN"),
            (0xFC, "NNE"),
            (0xDC, "NEEE"),
            (0xDD, "NNNN"),
            (0xDE, "NENE"),
            (0xDF, "ENEN"),
            (0xF5, "NEEEE"),
            (0xD5, "NNNNN"),
            (0xD6, "NENEN"),
            (0xD7, "ENENE"),
            (0xC0, "EEEE"),
            (0xE0, "EEEN"),
            (0xD4, "EEEEEEEEEEEEEEEEEEEEEEEE"),
            (0xF4, "EEEEEEEEEEEEEEEEEEEEEEEN"),
        ] {
            assert_eq!(Atoms::from_header(header).to_string(), atoms, "{header:#04x}");
        }
    }

    #[test]
    fn each_atom_header_says_different_atoms_and_is_found_again_from_them() {
        for header in 0xC0..=0xFF {
            let atoms = Atoms::from_header(header);
            assert_eq!(atoms.header(), Some(header));
            assert_eq!(atoms.kind(), lookup(header).kind);
        }
    }

    #[test]
    fn no_header_says_a_longer_prefix_than_the_longest_packet() {
        for bits in 0..1 << 12u64 {
            for count in 1..=12 {
                let bits = bits & ((1 << count) - 1);
                let chosen = Atoms::longest_packet(bits, count);
                assert!(chosen.header().is_some(), "{bits:#b} {count}");
                let longest = (0xC0..=0xFF)
                    .map(Atoms::from_header)
                    .filter(|a| {
                        u32::from(a.count) <= count && bits & ((1 << a.count) - 1) == u64::from(a.bits)
                    })
                    .map(|a| a.count)
                    .max();
                assert_eq!(Some(chosen.count), longest, "{bits:#b} {count}");
            }
        }
        assert_eq!(Atoms::longest_packet(u64::MAX, 64).count, 24);
        assert_eq!(Atoms::longest_packet(0xFF_FFFF, 25).count, 24);
        assert_eq!(Atoms::longest_packet(0x7F_FFFF, 24).header(), Some(0xF4));
        assert_eq!(Atoms::longest_packet(0, 0), Atoms::NONE);
    }
}
