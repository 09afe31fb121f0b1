//! Code that a reader has seen, block by block, ready to be handed out again.
//!
//! In the table each instruction says where the next one is: a reader that follows it waits for memory at every step.
//! Here the instructions of a block lie side by side, and only where its last one leads is looked up.

use backsight_core::Retired;
use backsight_isa::{Class, classify_retired};

use super::table::{Entry, FoundCode, Slot, Table};

/// Blocks that are remembered at a time.
const BLOCKS: usize = 1 << 13;
/// Instructions of all blocks together; beyond, all are forgotten.
const MOST_INSTRUCTIONS: usize = 1 << 16;
/// A longer block is cut.
const LONGEST: usize = 64;

/// Instructions that follow each other in memory. Those before the last always did so when they were executed.
#[derive(Clone, Copy)]
struct StraightCode {
    code: FoundCode,
    /// Where the instructions are.
    first: u32,
    /// 0: it is no block.
    count: u16,
    /// Places of the blocks that came after it: the last time, and before its last instruction went the other way. Only
    /// guesses, so that nobody waits for the table to say where to look.
    after: [Place; 2],
}

/// Where a block is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u16);

impl Place {
    #[inline(always)]
    fn index(self) -> usize {
        usize::from(self.0) % BLOCKS
    }

    /// Where the block that begins at an address would be.
    #[inline(always)]
    pub fn of(start: u64) -> Self {
        Self((start >> 1 ^ start >> 14) as u16 % BLOCKS as u16)
    }
}

/// Blocks of code, by their first address.
pub(super) struct Blocks {
    known: Box<[StraightCode; BLOCKS]>,
    /// As [`backsight_core::RetiredBlock`] has them.
    instructions: Vec<Retired>,
    /// How often all were forgotten.
    forgotten: u64,
}

/// A block that holds now.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    /// Stands for the same code ever after.
    pub number: u64,
    /// At least one instruction.
    pub code: &'a [Retired],
    /// Where the table has the last of them, which may lead anywhere.
    pub last: Slot,
}

impl Blocks {
    pub fn new(table: &Table) -> Self {
        let none =
            StraightCode { code: FoundCode::new(table, 0, 0), first: 0, count: 0, after: [Place(0); 2] };
        Self { known: Box::new([none; BLOCKS]), instructions: Vec::new(), forgotten: 0 }
    }

    /// A guess where the block is that comes after the one at `place`, whose last instruction goes the other way or not.
    #[inline(always)]
    pub fn after(&mut self, place: Place, flips: bool) -> Place {
        let known = &mut self.known[place.index()];
        if flips {
            known.after.swap(0, 1);
        }
        known.after[0]
    }

    /// Where the block is that begins at an address and comes after the one at `before`, with a guess that may be right.
    #[inline(always)]
    pub fn place(&mut self, start: u64, guess: Place, before: Place) -> Place {
        if self.known[guess.index()].code.start == start {
            return guess;
        }
        let place = Place::of(start);
        self.known[before.index()].after[0] = place;
        place
    }

    /// The block that begins at an address, in cycle 0; `None` if the instruction there is not known or has other cycles.
    /// `place`: where it is kept, if it is known.
    #[inline(always)]
    pub fn at(&mut self, start: u64, place: Place, table: &Table) -> Option<Block<'_>> {
        let mut known = &self.known[place.index()];
        if known.code.start != start || !known.code.is_certain(table) || known.count == 0 {
            self.look_again(start, place, table)?;
            known = &self.known[place.index()];
        }
        let (first, count) = (known.first as usize, usize::from(known.count));
        let number = self.forgotten * MOST_INSTRUCTIONS as u64 + first as u64;
        Some(Block { number, code: self.instructions.get(first..first + count)?, last: known.code.last })
    }

    /// Makes sure that a block is known, if there is one.
    #[inline(never)]
    fn look_again(&mut self, start: u64, place: Place, table: &Table) -> Option<()> {
        let known = &mut self.known[place.index()];
        if known.code.start == start && known.count != 0 && known.code.is_there(table) {
            return Some(());
        }
        self.collect(start, place, table)
    }

    #[cold]
    #[inline(never)]
    fn collect(&mut self, start: u64, place: Place, table: &Table) -> Option<()> {
        table.find(start).filter(|entry| entry.cycles == 0)?;
        if self.instructions.len() + LONGEST > MOST_INSTRUCTIONS {
            self.instructions.clear();
            self.forgotten += 1;
            self.known.iter_mut().for_each(|known| known.count = 0);
        }
        let first = self.instructions.len();
        let (mut address, mut last) = (start, start);
        while let Some(entry) = table.find(address).filter(|entry| entry.cycles == 0)
            && self.instructions.len() - first < LONGEST
            && Table::is_short(start, address)
        {
            let retired = entry.straight();
            self.instructions.push(retired);
            last = address;
            if !is_inside(entry, &retired) {
                break;
            }
            address = entry.next;
        }
        let known = &mut self.known[place.index()];
        let code = FoundCode::new(table, start, last);
        // Something changed near it, but not the block: its number goes on to stand for it.
        let (before, now) = self.instructions.split_at(first);
        let old = known.first as usize..known.first as usize + usize::from(known.count);
        if known.code.start == start && known.count != 0 && before.get(old) == Some(now) {
            self.instructions.truncate(first);
            known.code = code;
        } else {
            *known = StraightCode { code, first: first as u32, count: now.len() as u16, ..*known };
        }
        Some(())
    }
}

/// Can a block go on after this instruction? It cannot after branches, whether or not they were ever taken.
fn is_inside(entry: &Entry, retired: &Retired) -> bool {
    entry.is_steady() && entry.taken && classify_retired(retired).class == Class::Other
}
