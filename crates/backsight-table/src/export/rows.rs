//! The rows of a row group, and what all columns need to know of them.

use std::ops::Range;
use std::sync::OnceLock;

use super::bits::width_of;
use super::dictionary::NONE;
use super::flags::{self, TOGETHER};
use super::keys::{self, Present, bytes_of};
use super::parallel::in_parallel;
use super::repeats::{self, Repeat};
use super::snappy::{Block, LONGEST_COPY, MOST_OFFSET};
use crate::Batch;
use crate::data::{FinishedColumn, FinishedValues, Layout, Values};
use crate::shape::Shape;

/// Rows of a page.
const PAGE: usize = 1 << 17;

/// The rows of a row group.
pub(super) struct Rows<'b> {
    batch: &'b Batch,
    /// May pages be compressed?
    pub compress: bool,
    pub pages: Vec<Page>,
    /// The numbers of the blocks that they have.
    blocks: Vec<u32>,
    /// By column: which of the bits of a page are its own.
    flags_of: Vec<Option<usize>>,
}

/// The rows of a page.
#[derive(Default)]
pub(super) struct Page {
    pub rows: Range<usize>,
    /// Which of them repeat others before them, in columns that depend on blocks.
    pub repeats: Vec<Repeat>,
    /// Bits of the rows, of columns that have any.
    flags: Vec<Flags>,
    /// The keys of the rows, of columns of which each block has its own.
    pub keys: Block,
}

/// Bits of the rows of a page.
pub(super) struct Flags {
    pub bits: Vec<u8>,
    /// The same as levels that say which rows have a value, compressed once for all columns that share them.
    pub levels: OnceLock<Block>,
}

impl<'b> Rows<'b> {
    /// For some of the columns of a batch.
    pub fn new(batch: &'b Batch, kept: &[usize], compress: bool) -> Self {
        let firsts = (0..batch.rows).step_by(PAGE);
        let pages =
            firsts.map(|first| Page { rows: first..(first + PAGE).min(batch.rows), ..Page::default() });
        let (pages, flags_of) = (pages.collect(), vec![None; batch.columns.len()]);
        let mut rows = Self { batch, compress, pages, blocks: Vec::new(), flags_of };
        let columns = || kept.iter().filter_map(|&number| Some((number, batch.columns.get(number)?)));
        let of_blocks = || columns().filter(|(_, column)| column.layout == Layout::Blocks);
        if let Some((_, any)) = of_blocks().next() {
            rows.find_repeats(any.len());
            let bits: Vec<_> =
                of_blocks().filter_map(|(number, column)| Some((number, rows.bits_of(column)?))).collect();
            rows.set_flags(&bits);
            if of_blocks().any(|(_, column)| rows.shares_keys(column)) {
                rows.set_keys(any.len());
            }
        }
        rows
    }

    pub fn count(&self) -> usize {
        self.batch.rows
    }

    pub fn shape(&self) -> &Shape {
        &self.batch.shape
    }

    pub fn column(&self, number: usize) -> Option<&FinishedColumn> {
        self.batch.columns.get(number).map(AsRef::as_ref)
    }

    /// Looks for rows that repeat others, and which of so many blocks there are.
    fn find_repeats(&mut self, known: usize) {
        let blocks = &self.batch.shape.blocks;
        let most_distance = MOST_OFFSET / bytes_of(width_of(known as u64)).max(1);
        let ranges: Vec<_> = self.pages.iter().map(|page| &page.rows).collect();
        let found = in_parallel(&ranges, |rows| {
            repeats::find(blocks.get(rows.clone()).unwrap_or_default(), most_distance)
        });
        let mut is_used = vec![false; known];
        for (page, repeats) in self.pages.iter_mut().zip(found) {
            let mut at = page.rows.start;
            for repeat in &repeats {
                let new = &blocks[at..at + repeat.new as usize];
                new.iter().for_each(|&block| is_used[block as usize] = true);
                at += (repeat.new + repeat.length) as usize;
            }
            page.repeats = repeats;
        }
        self.blocks =
            (0_u32..).zip(is_used).filter_map(|(block, is_used)| is_used.then_some(block)).collect();
    }

    /// What is a bit of each row, of a column that depends on blocks: itself, or which rows have a value of it.
    fn bits_of<'c>(&self, column: &'c FinishedColumn) -> Option<&'c [bool]> {
        let missing = self.blocks.iter().filter(|&&block| !column.has(block as usize)).count();
        match &column.values {
            FinishedValues::Plain(Values::Bool(flags)) if missing == 0 => Some(flags),
            _ if missing > 0 && missing < self.blocks.len() => column.valid.as_deref(),
            _ => None,
        }
    }

    /// Where functions have no names, they have no offsets either: columns with the same bits share them.
    fn set_flags(&mut self, columns: &[(usize, &[bool])]) {
        let mut different: Vec<&[bool]> = Vec::new();
        for (number, flags) in columns {
            let slot = different.iter().position(|other| other == flags).unwrap_or(different.len());
            if slot == different.len() {
                different.push(flags);
            }
            self.flags_of[*number] = Some(slot);
        }
        for some in different.chunks(TOGETHER) {
            let table = flags::table(some);
            let ranges: Vec<_> = self.pages.iter().map(|page| &page.rows).collect();
            let bits = in_parallel(&ranges, |rows| {
                flags::spread(self.batch.shape.blocks_of(rows.clone()), &table, some.len())
            });
            for (page, bits) in self.pages.iter_mut().zip(bits) {
                page.flags.extend(bits.into_iter().map(|bits| Flags { bits, levels: OnceLock::new() }));
            }
        }
    }

    /// The bits of the rows of a page that belong to a column, if there are any.
    pub fn flags<'p>(&self, page: &'p Page, number: usize) -> Option<&'p Flags> {
        let slot = self.flags_of.get(number).copied().flatten()?;
        page.flags.get(slot)
    }

    /// The numbers of the values that rows have of a column, without those that are missing, and whether some are.
    pub fn values_of(&self, column: &FinishedColumn) -> (Vec<u32>, bool) {
        let mut numbers = match column.layout {
            Layout::Blocks => self.blocks.clone(),
            _ => (0..column.len() as u32).collect(),
        };
        let all = numbers.len();
        numbers.retain(|&number| column.has(number as usize));
        let is_missing = numbers.len() < all;
        (numbers, is_missing)
    }

    /// Bits of a key if each block has its own.
    fn key_width(&self) -> u32 {
        width_of((self.blocks.len() as u64).saturating_sub(1))
    }

    /// Are the keys of a column those of blocks? So they are where nearly each block has its own value, as of addresses.
    pub fn shares_keys(&self, column: &FinishedColumn) -> bool {
        column.layout == Layout::Blocks
            && matches!(column.values, FinishedValues::Plain(Values::U64(_)))
            && self.blocks.len() > 1
            && self.is_repetitive(self.key_width())
            && self.blocks.iter().all(|&block| column.has(block as usize))
    }

    /// Writes the keys of blocks, of which so many are known.
    fn set_keys(&mut self, known: usize) {
        let mut keys_of = vec![NONE; known];
        (0..).zip(&self.blocks).for_each(|(key, &block)| keys_of[block as usize] = key);
        let pages: Vec<_> = self.pages.iter().collect();
        let keys = in_parallel(&pages, |page| {
            let blocks = self.batch.shape.blocks_of(page.rows.clone());
            let (all, mut block) = ((Present::All, blocks.len()), Block::default());
            keys::put_repeated((&keys_of, self.key_width()), blocks, &page.repeats, all, &mut block);
            block
        });
        self.pages.iter_mut().zip(keys).for_each(|(page, keys)| page.keys = keys);
    }

    /// May keys of rows that repeat others be copied, and do they need less room so, in whole bytes, than in so many bits?
    pub fn is_repetitive(&self, width: u32) -> bool {
        if !self.compress {
            return false;
        }
        let key = bytes_of(width);
        let repeats = self.pages.iter().flat_map(|page| &page.repeats);
        let size = |repeat: &Repeat| {
            1 + repeat.new as usize * key + 3 * (repeat.length as usize * key).div_ceil(LONGEST_COPY)
        };
        repeats.map(size).sum::<usize>() < self.batch.rows * width as usize / 8
    }
}
