//! Straight-line code that a reader has seen, ready to be handed out again.
//!
//! In the table each instruction says where the next one is: a reader that follows it waits for memory at every step.
//! Here the instructions lie side by side.

use backsight_core::Retired;
use backsight_isa::{Class, classify_retired};

use super::table::{Mark, Table};

/// Pieces that are remembered at a time.
const PIECES: usize = 1 << 13;
/// Instructions of all pieces together; beyond, all are forgotten.
const MOST_INSTRUCTIONS: usize = 1 << 16;
/// A longer piece is cut.
const LONGEST: usize = 64;

/// Instructions that follow each other in memory, and always did so when they were executed.
#[derive(Clone, Copy)]
struct Piece {
    start: u64,
    /// It holds while the table has this mark for it; `None`: it is no piece.
    mark: Option<Mark>,
    /// The address of its last instruction.
    last: u64,
    first: u32,
    count: u32,
}

const NONE: Piece = Piece { start: 0, mark: None, last: 0, first: 0, count: 0 };

/// Pieces of straight-line code, by their first address.
pub(super) struct StraightCode {
    pieces: Box<[Piece]>,
    instructions: Vec<Retired>,
    /// For each instruction: does a block end with it? So it does at branches, whether or not they were ever taken.
    ends: Vec<bool>,
    /// How often all were forgotten.
    forgotten: u64,
}

/// Instructions that were handed out.
#[derive(Clone, Copy)]
pub(super) struct Straight<'a> {
    pub code: &'a [Retired],
    ends: &'a [bool],
    number: u64,
}

impl<'a> Straight<'a> {
    const NONE: Self = Self { code: &[], ends: &[], number: 0 };

    /// The first `count` instructions, cut into blocks, each with a number that stands for the same code ever after; `None`
    /// for a block that is not whole.
    #[inline]
    pub fn blocks(self, count: usize) -> impl Iterator<Item = (Option<u64>, &'a [Retired])> {
        let mut first = 0;
        std::iter::from_fn(move || {
            if first >= count {
                return None;
            }
            let rest = &self.ends[first..];
            let length = rest.iter().position(|&ends| ends).map_or(rest.len(), |last| last + 1);
            let number = (first + length <= count).then_some(self.number + first as u64);
            let code = &self.code[first..(first + length).min(count)];
            first += length;
            Some((number, code))
        })
    }
}

impl StraightCode {
    pub fn new() -> Self {
        Self { pieces: vec![NONE; PIECES].into(), instructions: Vec::new(), ends: Vec::new(), forgotten: 0 }
    }

    #[inline(always)]
    fn slot(start: u64) -> usize {
        (start >> 1 ^ start >> 14) as usize % PIECES
    }

    /// The instructions from an address on that did what they do now every time, in cycle 0: none if the one there is not
    /// known, or has led elsewhere.
    #[inline(always)]
    pub fn at(&mut self, start: u64, table: &Table) -> Straight<'_> {
        let mut piece = self.pieces[Self::slot(start)];
        let holds = piece.start == start && piece.mark == Some(table.mark(start, piece.last));
        if !holds {
            if table.steady(start).is_none() {
                return Straight::NONE;
            }
            piece = self.collect(start, table);
        }
        let (first, count) = (piece.first as usize, piece.count as usize);
        Straight {
            code: &self.instructions[first..][..count],
            ends: &self.ends[first..][..count],
            number: self.forgotten * MOST_INSTRUCTIONS as u64 + first as u64,
        }
    }

    #[cold]
    #[inline(never)]
    fn collect(&mut self, start: u64, table: &Table) -> Piece {
        if self.instructions.len() + LONGEST > MOST_INSTRUCTIONS {
            self.instructions.clear();
            self.ends.clear();
            self.forgotten += 1;
            self.pieces.fill(NONE);
        }
        let first = self.instructions.len();
        let (mut address, mut last) = (start, start);
        while let Some(entry) = table.steady(address)
            && self.instructions.len() - first < LONGEST
            && Table::is_short(start, address)
        {
            let retired = entry.retired(0);
            self.instructions.push(retired);
            self.ends.push(!retired.taken || classify_retired(&retired).class != Class::Other);
            (last, address) = (address, entry.next);
        }
        let (first, count) = (first as u32, (self.instructions.len() - first) as u32);
        let piece = Piece { start, mark: Some(table.mark(start, last)), last, first, count };
        self.pieces[Self::slot(start)] = piece;
        piece
    }
}
