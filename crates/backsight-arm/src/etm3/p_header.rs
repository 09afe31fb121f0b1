//! P-headers: atoms and cycles.
//!
//! An atom is one instruction: E passed its condition and was executed, N failed it. W is a cycle.
//!
//! ```text
//!               without cycles        cycle-accurate
//! 1NEEEE00      EEEE × E, N × N
//! 1N0EEE00                            EEE × (W E), N × (W N)
//! 1E1WWW00                            (WWW + 1) × W, E × E
//! 1000FF10      two atoms             W and two atoms; the oldest in bit 3, 1 is N
//! 10010F10                            one atom without a cycle, from ETMv3.3 on
//! ```

use core::fmt;

use super::{Config, Kind, Row, lookup};
use crate::etm::{EncodeError, PacketWriter};

/// Atoms, and the cycles between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PHeader {
    /// The atoms, the oldest in bit 0; 1 is E, 0 is N.
    pub atoms: u16,
    /// How many, 0 to 16.
    pub count: u8,
    /// Where the cycles are.
    pub cycles: CycleMarks,
}

/// Where the cycles of a P-header are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CycleMarks {
    /// Cycles are not traced.
    NotTraced,
    /// One before each atom.
    BeforeEach,
    /// So many, 0 to 8, before the first atom.
    Before(u8),
}

/// Bits of so many E, then N if there is one.
const fn run(executed: u8) -> u16 {
    (1 << executed) - 1
}

impl PHeader {
    /// Reads a header; `None` if it is reserved.
    #[inline]
    pub(super) const fn read(header: u8, config: &Config) -> Option<Self> {
        let two = !(header >> 3 & 1) as u16 & 1 | ((!(header >> 2 & 1) as u16) & 1) << 1;
        Some(match (header & 3, config.cycle_accurate()) {
            (0, false) => {
                let executed = header >> 2 & 0xF;
                let count = executed + (header >> 6 & 1);
                Self { atoms: run(executed), count, cycles: CycleMarks::NotTraced }
            }
            (0, true) if header & 0x20 == 0 => {
                let executed = header >> 2 & 7;
                let count = executed + (header >> 6 & 1);
                Self { atoms: run(executed), count, cycles: CycleMarks::BeforeEach }
            }
            (0, true) => {
                let executed = header >> 6 & 1;
                Self {
                    atoms: run(executed),
                    count: executed,
                    cycles: CycleMarks::Before((header >> 2 & 7) + 1),
                }
            }
            (2, false) if header & 0x70 == 0 => Self { atoms: two, count: 2, cycles: CycleMarks::NotTraced },
            (2, true) if header & 0x70 == 0 => Self { atoms: two, count: 2, cycles: CycleMarks::Before(1) },
            (2, true) if header & 0x78 == 0x10 && config.minor() >= 3 => {
                Self { atoms: (!(header >> 2) & 1) as u16, count: 1, cycles: CycleMarks::Before(0) }
            }
            _ => return None,
        })
    }

    /// All cycles; `None` if they are not traced.
    pub const fn total_cycles(&self) -> Option<u8> {
        match self.cycles {
            CycleMarks::NotTraced => None,
            CycleMarks::BeforeEach => Some(self.count),
            CycleMarks::Before(cycles) => Some(cycles),
        }
    }

    /// E's before one N at most, if that is what it is.
    fn as_run(&self) -> Option<(u8, u8)> {
        let executed = self.atoms.trailing_ones() as u8;
        (self.atoms == run(executed.min(15)) && self.count <= executed + 1)
            .then(|| (executed, self.count - executed))
    }

    pub(super) fn write(&self, config: &Config, out: &mut PacketWriter) -> Result<(), EncodeError> {
        let is_traced = self.cycles != CycleMarks::NotTraced;
        if is_traced != config.cycle_accurate() {
            return Err(EncodeError::Configuration);
        }
        if self.count > 16 || u32::from(self.atoms) >> self.count != 0 {
            return Err(EncodeError::OutOfRange);
        }
        let failed = |index: u8| ((!self.atoms >> index) & 1) as u8;
        let two = 0x82 | failed(0) << 3 | failed(1) << 2;
        out.byte(match (self.cycles, self.as_run()) {
            (CycleMarks::NotTraced, Some((executed @ 0..=15, n))) => 0x80 | n << 6 | executed << 2,
            (CycleMarks::NotTraced | CycleMarks::Before(1), _) if self.count == 2 => two,
            (CycleMarks::BeforeEach, Some((executed @ 0..=7, n))) => 0x80 | n << 6 | executed << 2,
            (CycleMarks::Before(cycles @ 1..=8), Some((executed @ 0..=1, 0))) => {
                0xA0 | executed << 6 | (cycles - 1) << 2
            }
            (CycleMarks::Before(0), _) if self.count == 1 && config.minor() >= 3 => 0x92 | failed(0) << 2,
            _ => return Err(EncodeError::OutOfRange),
        });
        Ok(())
    }
}

/// The P-headers of a version and mode, by their byte.
#[derive(Clone, Debug, PartialEq)]
pub struct PHeaders([Option<PHeader>; 256]);

impl PHeaders {
    /// Those of a trace unit that is built and programmed like this.
    pub fn new(config: &Config) -> Self {
        let is_p_header = |header: u8| matches!(lookup(header), Some(Row { kind: Kind::PHeader, .. }));
        Self(core::array::from_fn(|header| {
            PHeader::read(header as u8, config).filter(|_| is_p_header(header as u8))
        }))
    }

    /// The P-header that a byte is, if it is one.
    #[inline]
    pub const fn get(&self, header: u8) -> Option<PHeader> {
        self.0[header as usize]
    }
}

/// The sequence of letters: `WEWE`, `EEN`.
impl fmt::Display for PHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        if let CycleMarks::Before(cycles) = self.cycles {
            (0..cycles).try_for_each(|_| f.write_char('W'))?;
        }
        (0..self.count.min(16)).try_for_each(|index| {
            if self.cycles == CycleMarks::BeforeEach {
                f.write_char('W')?;
            }
            f.write_char(if self.atoms >> index & 1 == 1 { 'E' } else { 'N' })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn config(cycle_accurate: bool, minor: u8) -> Config {
        let mut config = Config::default();
        config.registers.cr = u32::from(cycle_accurate) << 12;
        config.registers.set_minor(minor);
        config
    }

    #[test]
    fn headers_read_as_the_manual_says() {
        for (header, cycle_accurate, letters) in [
            (0x88, false, "EE"),
            (0xDC, false, "EEEEEEEN"),
            (0xBC, false, "EEEEEEEEEEEEEEE"),
            (0x8A, false, "NE"),
            (0x80, false, ""),
            (0xBC, true, "WWWWWWWW"),
            (0x84, true, "WE"),
            (0x82, true, "WEE"),
            (0xC4, true, "WEWN"),
            (0xA0, true, "W"),
            (0xE0, true, "WE"),
            (0x96, true, "N"),
            (0x92, true, "E"),
        ] {
            let read = PHeader::read(header, &config(cycle_accurate, 5)).unwrap();
            assert_eq!(read.to_string(), letters, "{header:#04x}");
        }
    }

    #[test]
    fn every_header_is_reserved_or_written_again_as_the_same_atoms() {
        for cycle_accurate in [false, true] {
            for minor in [2, 3] {
                let config = config(cycle_accurate, minor);
                let mut reserved = 0;
                for header in (0x80..=0xFF).step_by(2) {
                    let Some(read) = PHeader::read(header, &config) else {
                        reserved += 1;
                        continue;
                    };
                    let mut out = PacketWriter::new();
                    read.write(&config, &mut out).unwrap();
                    assert_eq!(PHeader::read(out.bytes()[0], &config), Some(read), "{header:#04x}");
                }
                // Of 32 headers that end in 10, four are of format 2 and two of format 4.
                assert_eq!(reserved, if cycle_accurate && minor == 3 { 26 } else { 28 });
            }
        }
    }
}
