//! Long repeats: what came after the same events before.
//!
//! The last events are kept as symbols: an outcome, or the number of a target. A table says where the same few came last;
//! from there on, each symbol is what is expected next, until one is not.

use super::history::{History, Length};

/// What a match says of the next bit, and how long the match is: 0 to 31 for outcomes, from 32 on for targets.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    pub bit: bool,
    pub level: usize,
}

/// Events that have to be the same before a match begins.
pub const SHORTEST: u16 = 24;
/// The symbol of a target that has no number.
const UNKNOWN: u16 = 1;
/// Numbers of targets begin here, after the two outcomes and what has none.
const NUMBERS: u16 = 4;

/// Finds repeats.
#[derive(Clone, Debug)]
pub struct Matches {
    symbols: Box<[u16]>,
    /// Positions by the hash of the events before them.
    table: Box<[u32]>,
    shortest: Length,
    position: u32,
    /// Where the same came before, and for how many events it was the same; 0: nowhere.
    from: u32,
    length: u32,
    slot: usize,
}

impl Matches {
    /// Over `1 << buffer_bits` events, with `1 << table_bits` places where a repeat may begin.
    pub fn new(buffer_bits: u8, table_bits: u8) -> Self {
        Self {
            symbols: vec![0; 1 << buffer_bits].into(),
            table: vec![0; 1 << table_bits].into(),
            shortest: Length::of(SHORTEST),
            position: 1,
            from: 0,
            length: 0,
            slot: 0,
        }
    }

    /// A branch is to be coded.
    #[inline(always)]
    pub fn begin(&mut self, history: &History, key: u32) {
        let events = history.events(self.shortest);
        let hashed = (key ^ events.wrapping_mul(0x9E37_79B1)).wrapping_mul(0x85EB_CA6B);
        self.slot = ((u64::from(hashed) * self.table.len() as u64) >> 32) as usize;
        if self.length == 0 {
            let from = self.table[self.slot];
            if from > 0 && self.position.wrapping_sub(from) < self.symbols.len() as u32 {
                self.from = from;
                self.length = 1;
            }
        }
    }

    #[inline(always)]
    fn expected(&self) -> Option<u16> {
        (self.length > 0).then(|| self.symbols[self.from as usize & (self.symbols.len() - 1)])
    }

    /// The number of the target that is expected, and how long it was the same.
    #[inline(always)]
    pub fn target(&self) -> Option<(u32, usize)> {
        let symbol = self.expected().filter(|&symbol| symbol >= NUMBERS)?;
        Some((u32::from(symbol - NUMBERS), self.level()))
    }

    /// What is expected of an outcome.
    #[inline(always)]
    pub fn outcome(&self) -> Option<Hint> {
        let symbol = self.expected().filter(|&symbol| symbol & !2 == 0)?;
        Some(Hint { bit: symbol == 2, level: self.level() })
    }

    /// What is expected of the next bit of a number, of which there are `left` more after it; those before are in `node`.
    #[inline(always)]
    pub fn number(&self, node: u32, left: u32, bits: u32) -> Option<Hint> {
        let number = self.expected().filter(|&symbol| symbol >= NUMBERS)? - NUMBERS;
        let number = u32::from(number) | 1 << bits;
        (number >> (left + 1) == node)
            .then(|| Hint { bit: number >> left & 1 == 1, level: 32 + self.level() })
    }

    #[inline(always)]
    fn level(&self) -> usize {
        match self.length {
            length @ 0..8 => length as usize,
            length => (8 + (length / 8).ilog2() as usize * 2).min(31),
        }
    }

    /// An outcome was coded.
    #[inline(always)]
    pub fn end_outcome(&mut self, taken: bool) {
        self.end(2 * u16::from(taken));
    }

    /// A target was coded: its number.
    #[inline(always)]
    pub fn end_target(&mut self, number: Option<u32>) {
        self.end(number.map_or(UNKNOWN, |number| number as u16 + NUMBERS));
    }

    #[inline(always)]
    fn end(&mut self, symbol: u16) {
        let same = self.expected() == Some(symbol);
        (self.from, self.length) =
            if same { (self.from.wrapping_add(1), self.length.saturating_add(1)) } else { (0, 0) };
        self.table[self.slot] = self.position;
        self.symbols[self.position as usize & (self.symbols.len() - 1)] = symbol;
        // Never 0, which stands for no place.
        self.position = self.position.wrapping_add(1).max(1);
    }
}
