//! Column chunks of columns whose values come again and again.
//!
//! The values of such a column are known once for each block or place of a batch ([`Layout`]): the dictionary is made of
//! those few, and a row is a lookup and a few bits. Writers that are given the values row by row have to look up each value
//! to find out that it has come before, which takes many times as long.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;

use parquet::basic::Encoding;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::bits::{pack_by, put_differences, put_packed, put_packed_by, put_run, width_of};
use super::pages::{Chunk, Pages};
use crate::Batch;
use crate::data::{FinishedColumn, FinishedValues, Layout, Values};
use crate::shape::Shape;

/// Rows of a page.
const PAGE: usize = 1 << 16;

/// Texts that are longer are not written as the lowest or highest of a chunk.
const LONGEST_BOUND: usize = 64;

/// The rows of a row group.
pub(super) struct Rows<'b> {
    shape: &'b Shape,
    count: usize,
    /// The numbers of the blocks that they have.
    blocks: Vec<u32>,
}

impl<'b> Rows<'b> {
    pub fn new(batch: &'b Batch) -> Self {
        let of_blocks = batch.columns.iter().find(|column| column.layout == Layout::Blocks);
        let mut is_used = vec![false; of_blocks.map_or(0, |column| column.len())];
        if !is_used.is_empty() {
            batch.shape.blocks.iter().for_each(|&block| is_used[block as usize] = true);
        }
        let blocks = (0_u32..).zip(is_used).filter_map(|(block, is_used)| is_used.then_some(block)).collect();
        Self { shape: &batch.shape, count: batch.rows, blocks }
    }

    /// The numbers of the values that rows have of a column, without those that are missing, and whether some are.
    fn values_of(&self, column: &FinishedColumn) -> (Vec<u32>, bool) {
        let mut numbers = match column.layout {
            Layout::Blocks => self.blocks.clone(),
            _ => (0..column.len() as u32).collect(),
        };
        let all = numbers.len();
        numbers.retain(|&number| column.has(number as usize));
        let is_missing = numbers.len() < all;
        (numbers, is_missing)
    }
}

/// How the values of a chunk are written.
enum Coding<'c> {
    /// As keys of a dictionary, by number of the value.
    Dictionary { keys: Vec<u32>, width: u32, page: Vec<u8>, size: u32 },
    /// As differences.
    Differences(&'c [u64]),
    /// As bits.
    Bits(&'c [bool]),
}

/// A value that has no key.
const NONE: u32 = u32::MAX;

/// Writes a column as a chunk.
pub(super) fn write(
    description: &ColumnDescPtr,
    column: &FinishedColumn,
    rows: &Rows<'_>,
    is_growing: bool,
) -> Result<Chunk> {
    let (values, is_missing) = rows.values_of(column);
    let coding = Coding::of(column, &values, is_growing);
    let mut pages = Pages::new();
    if let Coding::Dictionary { page, size, .. } = &coding {
        pages.set_dictionary(page.clone(), *size);
    }
    let mut nulls = 0;
    for first in (0..rows.count).step_by(PAGE) {
        let page = first..(first + PAGE).min(rows.count);
        let mut body = Vec::new();
        // Which of the rows have a value, where some do and some do not.
        let mut valid = None;
        if description.max_def_level() > 0 {
            if is_missing && !values.is_empty() {
                valid = column.valid.as_ref().map(|all| rows.shape.spread(all, column.layout, page.clone()));
            }
            nulls += put_levels(valid.as_deref(), !values.is_empty(), page.len(), &mut body);
        }
        let count = page.len() as u32;
        if values.is_empty() {
            coding.put_nothing(&mut body);
        } else {
            coding.put(column, rows.shape, page, valid.as_deref(), &mut body);
        }
        pages.put(body, count, coding.encoding())?;
    }
    pages.finish(description, coding.encoding(), statistics(column, &values, nulls), rows.count)
}

/// Writes which rows have a value: these, or all or none of them. Gives how many have none.
fn put_levels(valid: Option<&[bool]>, has_values: bool, rows: usize, out: &mut Vec<u8>) -> u64 {
    let mut levels = Vec::new();
    let known = match valid {
        Some(valid) => valid.iter().filter(|valid| **valid).count(),
        None => rows * usize::from(has_values),
    };
    match valid {
        Some(valid) if known > 0 && known < rows => put_packed_by(valid, 1, u64::from, &mut levels),
        _ => put_run((known > 0).into(), rows, 1, &mut levels),
    }
    out.extend_from_slice(&(levels.len() as u32).to_le_bytes());
    out.extend_from_slice(&levels);
    (rows - known) as u64
}

/// The values of some rows, but of those that have none.
fn known<T: Copy + Default>(
    values: &[T],
    (shape, layout): (&Shape, Layout),
    rows: Range<usize>,
    valid: Option<&[bool]>,
) -> Vec<T> {
    let mut values = shape.spread(values, layout, rows);
    if let Some(valid) = valid {
        let mut valid = valid.iter();
        values.retain(|_| valid.next() == Some(&true));
    }
    values
}

impl<'c> Coding<'c> {
    /// For a column of which rows have these values.
    fn of(column: &'c FinishedColumn, used: &[u32], is_growing: bool) -> Self {
        let mut page = Vec::new();
        let mut keys = vec![NONE; column.len()];
        let mut size = 0;
        match &column.values {
            FinishedValues::Plain(Values::Bool(values)) => return Self::Bits(values),
            FinishedValues::Plain(Values::U64(values)) if is_growing => return Self::Differences(values),
            FinishedValues::Plain(values) => {
                let width = if matches!(values, Values::U64(_)) { 8 } else { 4 };
                let mut known = HashMap::with_capacity_and_hasher(used.len(), NumberHash::default());
                for &number in used {
                    let value = values.number(number as usize);
                    keys[number as usize] = *known.entry(value).or_insert_with(|| {
                        page.extend_from_slice(&value.to_le_bytes()[..width]);
                        size += 1;
                        size - 1
                    });
                }
            }
            FinishedValues::Words { keys: texts_of, values: texts } => {
                let mut known = vec![NONE; texts.len()];
                for &number in used {
                    let text = texts_of[number as usize] as usize;
                    if known[text] == NONE {
                        page.extend_from_slice(&(texts[text].len() as u32).to_le_bytes());
                        page.extend_from_slice(texts[text].as_bytes());
                        known[text] = size;
                        size += 1;
                    }
                    keys[number as usize] = known[text];
                }
            }
        }
        Self::Dictionary { keys, width: width_of(u64::from(size.saturating_sub(1))), page, size }
    }

    const fn encoding(&self) -> Encoding {
        match self {
            Self::Dictionary { .. } => Encoding::RLE_DICTIONARY,
            Self::Differences(_) => Encoding::DELTA_BINARY_PACKED,
            Self::Bits(_) => Encoding::PLAIN,
        }
    }

    /// Writes the values of rows that have none.
    fn put_nothing(&self, out: &mut Vec<u8>) {
        match self {
            Self::Dictionary { width, .. } => out.push(*width as u8),
            Self::Differences(_) => put_differences(&[], out),
            Self::Bits(_) => {}
        }
    }

    /// Writes the values of some rows.
    fn put(
        &self,
        column: &FinishedColumn,
        shape: &Shape,
        rows: Range<usize>,
        valid: Option<&[bool]>,
        out: &mut Vec<u8>,
    ) {
        let layout = column.layout;
        match self {
            Self::Dictionary { keys, width, .. } => {
                out.push(*width as u8);
                match shape.runs_of(layout, rows.clone()) {
                    Some(runs) => put_runs(runs.map(|(number, length)| (keys[number], length)), *width, out),
                    None if valid.is_none() && layout == Layout::Blocks => {
                        let key = |block: u32| u64::from(keys[block as usize]);
                        put_packed_by(shape.blocks_of(rows), *width, key, out);
                    }
                    None => put_packed(&known(keys, (shape, layout), rows, valid), *width, out),
                }
            }
            Self::Differences(values) => put_differences(&known(values, (shape, layout), rows, valid), out),
            Self::Bits(values) => {
                let before = out.len();
                if valid.is_none() && layout == Layout::Blocks {
                    let count = rows.len();
                    pack_by(shape.blocks_of(rows), 1, |block| values[block as usize].into(), out);
                    out.truncate(before + count.div_ceil(8));
                } else {
                    let bits = known(values, (shape, layout), rows, valid);
                    pack_by(&bits, 1, u64::from, out);
                    out.truncate(before + bits.len().div_ceil(8));
                }
            }
        }
    }
}

/// Writes keys that come many times in a row. Runs that have none are left out.
fn put_runs(runs: impl Iterator<Item = (u32, usize)>, width: u32, out: &mut Vec<u8>) {
    let mut last = (NONE, 0);
    for (key, length) in runs.filter(|(key, length)| *key != NONE && *length > 0) {
        if key != last.0 {
            put_known_run(last, width, out);
            last = (key, 0);
        }
        last.1 += length;
    }
    put_known_run(last, width, out);
}

fn put_known_run((key, length): (u32, usize), width: u32, out: &mut Vec<u8>) {
    if length > 0 {
        put_run(key.into(), length, width, out);
    }
}

/// Hashes single numbers by a multiplication with what nobody can guess.
#[derive(Clone)]
struct NumberHash {
    secrets: [u64; 2],
    hash: u64,
}

impl Default for NumberHash {
    fn default() -> Self {
        let random = RandomState::new();
        Self { secrets: [random.hash_one(0), random.hash_one(1) | 1], hash: 0 }
    }
}

impl BuildHasher for NumberHash {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

impl Hasher for NumberHash {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(number ^ self.hash ^ self.secrets[0]) * u128::from(self.secrets[1]);
        self.hash = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

/// The lowest and the highest of the values that rows have.
fn statistics(column: &FinishedColumn, used: &[u32], nulls: u64) -> Statistics {
    let nulls = Some(nulls);
    let used = || used.iter().map(|&number| number as usize);
    match &column.values {
        FinishedValues::Plain(Values::Bool(values)) => {
            let known = || used().map(|number| values[number]);
            Statistics::boolean(known().min(), known().max(), None, nulls, false)
        }
        FinishedValues::Plain(values) => {
            let known = || used().map(|number| values.number(number));
            let (least, most) = (known().min(), known().max());
            if matches!(values, Values::U64(_)) {
                Statistics::int64(least.map(|n| n as i64), most.map(|n| n as i64), None, nulls, false)
            } else {
                Statistics::int32(least.map(|n| n as i32), most.map(|n| n as i32), None, nulls, false)
            }
        }
        FinishedValues::Words { keys, values } => {
            let known = || used().filter_map(|number| values.get(keys[number] as usize));
            let bound = |text: Option<&std::sync::Arc<str>>| {
                text.filter(|text| text.len() <= LONGEST_BOUND)
                    .map(|text| ByteArray::from(text.as_bytes().to_vec()))
            };
            Statistics::byte_array(bound(known().min()), bound(known().max()), None, nulls, false)
        }
    }
}
