//! Straight-line code that a reader has seen, ready to be handed out again.
//!
//! In the table each instruction says where the next one is: a reader that follows it waits for memory at every step.
//! Here the instructions lie side by side.

use backsight_core::Retired;

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
}

impl StraightCode {
    pub fn new() -> Self {
        Self { pieces: vec![NONE; PIECES].into(), instructions: Vec::new() }
    }

    #[inline(always)]
    fn slot(start: u64) -> usize {
        (start >> 1 ^ start >> 14) as usize % PIECES
    }

    /// The instructions from an address on that did what they do now every time, in cycle 0: none if the one there is not
    /// known, or has led elsewhere.
    #[inline(always)]
    pub fn at(&mut self, start: u64, table: &Table) -> &[Retired] {
        let mut piece = self.pieces[Self::slot(start)];
        let holds = piece.start == start && piece.mark == Some(table.mark(start, piece.last));
        if !holds {
            if table.steady(start).is_none() {
                return &[];
            }
            piece = self.collect(start, table);
        }
        &self.instructions[piece.first as usize..][..piece.count as usize]
    }

    #[cold]
    #[inline(never)]
    fn collect(&mut self, start: u64, table: &Table) -> Piece {
        if self.instructions.len() + LONGEST > MOST_INSTRUCTIONS {
            self.instructions.clear();
            self.pieces.fill(NONE);
        }
        let first = self.instructions.len();
        let (mut address, mut last) = (start, start);
        while let Some(entry) = table.steady(address)
            && self.instructions.len() - first < LONGEST
            && Table::is_short(start, address)
        {
            self.instructions.push(entry.retired(0));
            (last, address) = (address, entry.next);
        }
        let (first, count) = (first as u32, (self.instructions.len() - first) as u32);
        let piece = Piece { start, mark: Some(table.mark(start, last)), last, first, count };
        self.pieces[Self::slot(start)] = piece;
        piece
    }
}
