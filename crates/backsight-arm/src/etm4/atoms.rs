//! Atoms in a header byte.
//!
//! An atom says of one P0 instruction whether it was taken (`E`) or not (`N`). Six formats pack 1 to 24 of them
//! into the header: 1 to 3 in any mixture, 4 and 5 in the commonest patterns, and long runs of `E`.

use core::fmt;

use super::{Atoms, Kind};

/// The 4-atom patterns by header from 0xDC, the 5-atom ones from 0xD4 (0xD4 itself stands for 0xF5). Oldest in
/// bit 0.
const F4: [u32; 4] = [0b1110, 0b0000, 0b1010, 0b0101];
const F5: [u32; 4] = [0b11110, 0b00000, 0b01010, 0b10101];

/// Most atoms that one packet holds.
pub const MAX_ATOMS: u8 = 24;

impl Atoms {
    /// One atom.
    #[inline]
    pub const fn one(taken: bool) -> Self {
        Self { bits: taken as u32, count: 1 }
    }

    /// The atoms of a header from 0xC0 to 0xFF.
    pub(super) const fn from_header(header: u8) -> Self {
        let low = header as u32;
        match header {
            0xC0..=0xD4 => Self::run((header - 0xC0) + 4, true),
            0xE0..=0xF4 => Self::run((header - 0xE0) + 4, false),
            0xF5 => Self { bits: F5[0], count: 5 },
            0xD5..=0xD7 => Self { bits: F5[low as usize & 3], count: 5 },
            0xD8..=0xDB => Self { bits: low & 3, count: 2 },
            0xDC..=0xDF => Self { bits: F4[low as usize & 3], count: 4 },
            0xF6..=0xF7 => Self { bits: low & 1, count: 1 },
            0xF8..=0xFF => Self { bits: low & 7, count: 3 },
            0x00..=0xBF => Self::NONE,
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
        Some(match count {
            1 => 0xF6 | bits as u8,
            2 => 0xD8 | bits as u8,
            3 => 0xF8 | bits as u8,
            _ if bits == Self::run(count, true).bits => 0xC0 + (count - 4),
            _ if bits == Self::run(count, false).bits => 0xE0 + (count - 4),
            4 => match bits {
                0b1110 => 0xDC,
                0b0000 => 0xDD,
                0b1010 => 0xDE,
                0b0101 => 0xDF,
                _ => return None,
            },
            5 => match bits {
                0b11110 => 0xF5,
                0b00000 => 0xD5,
                0b01010 => 0xD6,
                0b10101 => 0xD7,
                _ => return None,
            },
            _ => return None,
        })
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
        if count >= 5 && matches!(low & 0x1F, 0b11110 | 0b00000 | 0b01010 | 0b10101) {
            return Self { bits: low & 0x1F, count: 5 };
        }
        if count >= 4 && matches!(low & 0xF, 0b1110 | 0b0000 | 0b1010 | 0b0101) {
            return Self { bits: low & 0xF, count: 4 };
        }
        let count = if count < 3 { count } else { 3 };
        Self { bits: low & ((1 << count) - 1), count: count as u8 }
    }

    /// The atoms of a Mispredict or Cancel format 2 header: none, `E`, `EE` or `N`.
    pub(super) const fn of_cancel(field: u8) -> Self {
        match field & 3 {
            0 => Self::NONE,
            1 => Self { bits: 0b1, count: 1 },
            2 => Self { bits: 0b11, count: 2 },
            _ => Self { bits: 0b0, count: 1 },
        }
    }

    /// The field of a Mispredict or Cancel format 2 header that says these atoms, if there is one.
    pub(super) const fn cancel_field(self) -> Option<u8> {
        match (self.count, self.bits) {
            (0, 0) => Some(0),
            (1, 0b1) => Some(1),
            (2, 0b11) => Some(2),
            (1, 0b0) => Some(3),
            _ => None,
        }
    }

    /// Which of the six formats says these atoms.
    pub(super) const fn kind(self) -> Kind {
        match (self.count, self.header()) {
            (0 | 1, _) => Kind::AtomF1,
            (2, _) => Kind::AtomF2,
            (3, _) => Kind::AtomF3,
            (_, Some(0xDC..=0xDF)) => Kind::AtomF4,
            (_, Some(0xD5..=0xD7 | 0xF5)) => Kind::AtomF5,
            _ => Kind::AtomF6,
        }
    }
}

/// Writes the letters, oldest first: `EEN`.
impl fmt::Display for Atoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|taken| f.write_str(if taken { "E" } else { "N" }))
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
            assert_eq!(atoms.kind(), super::super::lookup(header).kind);
        }
        for field in 0..4 {
            assert_eq!(Atoms::of_cancel(field).cancel_field(), Some(field));
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
