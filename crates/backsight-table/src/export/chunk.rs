//! Column chunks of columns whose values come again and again.
//!
//! The values of such a column are known once for each block, place or state of a batch ([`Layout`]): the dictionary is made of
//! those few, and rows that repeat others are copied ([`super::repeats`]). Writers that are given the values row by row have to
//! look up each value to find out that it has come before, which takes many times as long.

use parquet::basic::Encoding;
use parquet::errors::{ParquetError, Result};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::bits::{put_run, put_varint};
use super::dictionary::{Dictionary, statistics};
use super::differences::{put_differences, put_steps};
use super::flags;
use super::keys::{self, Present, put_runs};
use super::pages::{Body, Chunk, Pages};
use super::rows::{Page, Rows};
use super::snappy::Block;
use crate::data::{FinishedColumn, FinishedValues, Layout, Values};
use crate::shape::Shape;
use crate::steps::Steps;

/// How the values of a chunk are written.
enum Coding<'c> {
    /// As keys of a dictionary.
    Dictionary(Dictionary, Keys),
    /// As differences.
    Differences(&'c [u64]),
    /// As bits.
    Bits(&'c [bool]),
}

/// How keys are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// As runs of the same.
    Runs,
    /// In as few bits as they need.
    Packed,
    /// In whole bytes, of which those of rows that repeat others are copied.
    Repeated,
    /// Likewise, and blocks have their own: they are made once for all such columns.
    OfBlocks,
}

/// A column while it is written.
struct Writing<'w> {
    column: &'w FinishedColumn,
    rows: &'w Rows<'w>,
    coding: Coding<'w>,
}

/// Writes the column with this number as a chunk.
pub(super) fn write(
    description: &ColumnDescPtr,
    rows: &Rows<'_>,
    number: usize,
    is_growing: bool,
) -> Result<Chunk> {
    let column = rows.column(number);
    let column = column.ok_or_else(|| ParquetError::General("there is no such column".to_owned()))?;
    if let FinishedValues::Steps(steps) = &column.values {
        let statistics = statistics(column, &[], 0);
        return write_steps(description, rows, steps, statistics);
    }
    let (values, is_missing) = rows.values_of(column);
    let writing = Writing { column, rows, coding: Coding::of(column, &values, rows, is_growing) };
    let encoding = writing.coding.encoding();
    let mut pages = Pages::new(if rows.compress { writing.coding.is_compressed() } else { Some(false) });
    let mut distinct = values.as_slice();
    if let Coding::Dictionary(dictionary, _) = &writing.coding {
        pages.set_dictionary(dictionary.page.clone(), dictionary.size());
        distinct = &dictionary.distinct;
    }
    let mut nulls = 0;
    for page in &rows.pages {
        let flags = rows.flags(page, number);
        let present = match flags {
            _ if values.is_empty() => Present::None,
            _ if !is_missing => Present::All,
            Some(flags) => Present::Bits(&flags.bits),
            None => Present::Runs,
        };
        let levels = if description.max_def_level() > 0 { writing.levels(page, present) } else { Vec::new() };
        let known = writing.count(page, present);
        nulls += (page.rows.len() - known) as u64;
        let body = match &writing.coding {
            _ if known == 0 => Body::Plain(writing.put_nothing(levels)),
            Coding::Dictionary(dictionary, keys @ (Keys::Repeated | Keys::OfBlocks)) => {
                let searched = |pages: &mut Pages| {
                    let mut block = Block::default();
                    pages.search(&levels, &mut block);
                    block
                };
                let mut block = match (present, flags) {
                    (Present::Bits(_), Some(flags)) => {
                        flags.levels.get_or_init(|| searched(&mut pages)).clone()
                    }
                    _ => searched(&mut pages),
                };
                match keys {
                    Keys::OfBlocks => block.append(&page.keys),
                    _ => {
                        let blocks = rows.shape().blocks_of(page.rows.clone());
                        let Dictionary { keys, width, .. } = dictionary;
                        keys::put_repeated(
                            (keys, *width),
                            blocks,
                            &page.repeats,
                            (present, known),
                            &mut block,
                        );
                    }
                }
                let (bytes, length) = block.finish();
                Body::Compressed { bytes, length }
            }
            _ => {
                let mut body = levels;
                writing.put(page, present, flags.map(|flags| flags.bits.as_slice()), known, &mut body);
                Body::Plain(body)
            }
        };
        pages.put(body, page.rows.len() as u32, encoding)?;
    }
    pages.finish(description, encoding, statistics(column, distinct, nulls), rows.count())
}

/// Writes numbers that grow by little from row to row as a chunk.
fn write_steps(
    description: &ColumnDescPtr,
    rows: &Rows<'_>,
    steps: &Steps,
    statistics: Statistics,
) -> Result<Chunk> {
    let mut pages = Pages::new(if rows.compress { None } else { Some(false) });
    let mut last = 0;
    for page in &rows.pages {
        let mut body = Vec::new();
        if description.max_def_level() > 0 {
            put_levels(|levels| put_run(1, page.rows.len(), 1, levels), &mut body);
        }
        last = put_steps(last, steps, page.rows.clone(), &mut body);
        pages.put(Body::Plain(body), page.rows.len() as u32, Encoding::DELTA_BINARY_PACKED)?;
    }
    pages.finish(description, Encoding::DELTA_BINARY_PACKED, statistics, rows.count())
}

/// Writes which rows of a page have a value.
fn put_levels(put: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    let length = (out.len() - start) as u32 - 4;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

impl<'c> Coding<'c> {
    /// For a column of which rows have these values.
    fn of(column: &'c FinishedColumn, used: &[u32], rows: &Rows<'_>, is_growing: bool) -> Self {
        match &column.values {
            FinishedValues::Plain(Values::Bool(values)) => return Self::Bits(values),
            FinishedValues::Plain(Values::U64(values)) if is_growing && column.layout != Layout::Blocks => {
                return Self::Differences(values);
            }
            _ => {}
        }
        if rows.shares_keys(column) {
            return Self::Dictionary(Dictionary::of_blocks(column, used), Keys::OfBlocks);
        }
        let dictionary = Dictionary::new(column, used);
        let width = dictionary.width;
        let keys = if column.layout != Layout::Blocks || width == 0 {
            Keys::Runs
        } else if rows.is_repetitive(width) {
            Keys::Repeated
        } else {
            Keys::Packed
        };
        Self::Dictionary(dictionary, keys)
    }

    /// Is it clear from the beginning that pages are compressed?
    fn is_compressed(&self) -> Option<bool> {
        matches!(self, Self::Dictionary(_, Keys::Repeated | Keys::OfBlocks)).then_some(true)
    }

    const fn encoding(&self) -> Encoding {
        match self {
            Self::Dictionary(..) => Encoding::RLE_DICTIONARY,
            Self::Differences(_) => Encoding::DELTA_BINARY_PACKED,
            Self::Bits(_) => Encoding::PLAIN,
        }
    }
}

impl Writing<'_> {
    fn shape(&self) -> &Shape {
        self.rows.shape()
    }

    /// Of a column that does not depend on blocks: the numbers of the values of the rows of a page, each with how many rows in
    /// turn have it.
    fn runs(&self, page: &Page) -> impl Iterator<Item = (usize, usize)> {
        self.shape().runs_of(self.column.layout, page.rows.clone())
    }

    /// The same without values that are missing.
    fn known_runs(&self, page: &Page) -> impl Iterator<Item = (usize, usize)> {
        self.runs(page).filter(|(number, _)| self.column.has(*number))
    }

    /// How many rows of a page have a value.
    fn count(&self, page: &Page, present: Present<'_>) -> usize {
        match present {
            Present::All => page.rows.len(),
            Present::None => 0,
            Present::Runs => self.known_runs(page).map(|(_, length)| length).sum(),
            Present::Bits(bits) => flags::count(bits),
        }
    }

    /// Which rows of a page have a value.
    fn levels(&self, page: &Page, present: Present<'_>) -> Vec<u8> {
        let mut levels = Vec::new();
        let put = |levels: &mut Vec<u8>| match present {
            Present::All => put_run(1, page.rows.len(), 1, levels),
            Present::None => put_run(0, page.rows.len(), 1, levels),
            Present::Runs => {
                let runs = self.runs(page).map(|(number, length)| (self.column.has(number).into(), length));
                put_runs(runs, 1, levels);
            }
            Present::Bits(bits) => {
                put_varint((bits.len() as u64) << 1 | 1, levels);
                levels.extend_from_slice(bits);
            }
        };
        put_levels(put, &mut levels);
        levels
    }

    /// What a page holds of which no row has a value.
    fn put_nothing(&self, levels: Vec<u8>) -> Vec<u8> {
        let mut body = levels;
        match &self.coding {
            Coding::Dictionary(..) => body.push(0),
            Coding::Differences(_) => put_differences(std::iter::empty(), 0, &mut body),
            Coding::Bits(_) => {}
        }
        body
    }

    /// Writes the values of the rows of a page, of which so many have one.
    fn put(&self, page: &Page, present: Present<'_>, flags: Option<&[u8]>, known: usize, out: &mut Vec<u8>) {
        let blocks = self.shape().blocks_of(page.rows.clone());
        match &self.coding {
            Coding::Dictionary(dictionary, keys) => {
                out.push(dictionary.width as u8);
                if dictionary.width == 0 {
                    put_run(0, known, 0, out);
                } else if *keys == Keys::Runs {
                    let runs =
                        self.known_runs(page).map(|(number, length)| (dictionary.keys[number], length));
                    put_runs(runs, dictionary.width, out);
                } else {
                    keys::put_packed((&dictionary.keys, dictionary.width), blocks, present, out);
                }
            }
            Coding::Differences(values) => {
                let runs = self.known_runs(page).map(|(number, length)| (values[number], length));
                put_differences(runs, known, out);
            }
            Coding::Bits(values) => match (present, flags) {
                (Present::All, Some(flags)) => out.extend_from_slice(flags),
                (_, Some(_)) => {
                    let known = blocks.iter().filter(|&&block| self.column.has(block as usize));
                    put_bits(known.map(|&block| values[block as usize]), out);
                }
                (_, None) => {
                    let runs = self.known_runs(page);
                    let bits = runs.flat_map(|(number, length)| std::iter::repeat_n(values[number], length));
                    put_bits(bits, out);
                }
            },
        }
    }
}

/// Writes true and false, the first one lowest.
fn put_bits(mut bits: impl Iterator<Item = bool>, out: &mut Vec<u8>) {
    while let Some(first) = bits.next() {
        let rest = (1..8).zip(bits.by_ref());
        out.push(rest.fold(first.into(), |byte, (at, bit)| byte | u8::from(bit) << at));
    }
}
