//! Dictionaries: the different values of a column, and the keys that stand for them.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use parquet::data_type::ByteArray;
use parquet::file::statistics::Statistics;

use super::bits::width_of;
use crate::data::{FinishedColumn, FinishedValues, Values};

/// Texts that are longer are not written as the lowest or highest of a chunk.
const LONGEST_BOUND: usize = 64;

/// A value that has no key.
pub(super) const NONE: u32 = u32::MAX;

/// The dictionary of a column.
pub(super) struct Dictionary {
    /// By number of the value; [`NONE`] of those that no row has.
    pub keys: Vec<u32>,
    /// Bits of a key.
    pub width: u32,
    /// Its page: each value once, in the order of keys.
    pub page: Vec<u8>,
    /// The number of a value for each key.
    pub distinct: Vec<u32>,
}

impl Dictionary {
    /// Of the values with these numbers.
    pub fn new(column: &FinishedColumn, used: &[u32]) -> Self {
        let (mut page, mut distinct) = (Vec::new(), Vec::new());
        let mut keys = vec![NONE; column.len()];
        match &column.values {
            FinishedValues::Plain(values) => {
                let width = if matches!(values, Values::U64(_)) { 8 } else { 4 };
                let mut known = HashMap::with_capacity_and_hasher(used.len(), NumberHash::default());
                // Many states in turn have the same context, privilege and so on.
                let mut last = None;
                for &number in used {
                    let value = values.number(number as usize);
                    let (_, key) = last.filter(|(last, _)| *last == value).unwrap_or_else(|| {
                        let key = *known.entry(value).or_insert_with(|| {
                            page.extend_from_slice(&value.to_le_bytes()[..width]);
                            distinct.push(number);
                            distinct.len() as u32 - 1
                        });
                        (value, key)
                    });
                    keys[number as usize] = key;
                    last = Some((value, key));
                }
            }
            // They are differences, and need no dictionary.
            FinishedValues::Steps(_) => {}
            FinishedValues::Words { keys: texts_of, values: texts } => {
                let mut known = vec![NONE; texts.len()];
                for &number in used {
                    let text = texts_of[number as usize] as usize;
                    if known[text] == NONE {
                        page.extend_from_slice(&(texts[text].len() as u32).to_le_bytes());
                        page.extend_from_slice(texts[text].as_bytes());
                        known[text] = distinct.len() as u32;
                        distinct.push(number);
                    }
                    keys[number as usize] = known[text];
                }
            }
        }
        Self { keys, width: width_of((distinct.len() as u64).saturating_sub(1)), page, distinct }
    }

    /// Of the values with these numbers, which have their own keys in this order, the same as others or not.
    pub fn of_blocks(column: &FinishedColumn, used: &[u32]) -> Self {
        let page = match &column.values {
            FinishedValues::Plain(Values::U64(values)) => {
                used.iter().flat_map(|&number| values[number as usize].to_le_bytes()).collect()
            }
            _ => Vec::new(),
        };
        let width = width_of((used.len() as u64).saturating_sub(1));
        Self { keys: Vec::new(), width, page, distinct: used.to_vec() }
    }

    /// How many values it has.
    pub fn size(&self) -> u32 {
        self.distinct.len() as u32
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

/// The lowest and the highest of numbers, which may have more than 32 bits.
fn number_statistics(bounds: Option<(u64, u64)>, is_long: bool, nulls: u64) -> Statistics {
    let (least, most) = bounds.unzip();
    if is_long {
        Statistics::int64(least.map(|n| n as i64), most.map(|n| n as i64), None, Some(nulls), false)
    } else {
        Statistics::int32(least.map(|n| n as i32), most.map(|n| n as i32), None, Some(nulls), false)
    }
}

/// The lowest and the highest of the values with these numbers.
pub(super) fn statistics(column: &FinishedColumn, used: &[u32], nulls: u64) -> Statistics {
    let used = || used.iter().map(|&number| number as usize);
    match &column.values {
        FinishedValues::Plain(Values::Bool(values)) => {
            let known = || used().map(|number| values[number]);
            Statistics::boolean(known().min(), known().max(), None, Some(nulls), false)
        }
        FinishedValues::Plain(values) => {
            let mut bounds = None;
            for value in used().map(|number| values.number(number)) {
                let (least, most) = bounds.unwrap_or((value, value));
                bounds = Some((value.min(least), value.max(most)));
            }
            number_statistics(bounds, matches!(values, Values::U64(_)), nulls)
        }
        FinishedValues::Steps(steps) => number_statistics(steps.bounds(), true, nulls),
        FinishedValues::Words { keys, values } => {
            let known = || used().filter_map(|number| values.get(keys[number] as usize));
            let bound = |text: Option<&Arc<str>>| {
                text.filter(|text| text.len() <= LONGEST_BOUND)
                    .map(|text| ByteArray::from(text.as_bytes().to_vec()))
            };
            Statistics::byte_array(bound(known().min()), bound(known().max()), None, Some(nulls), false)
        }
    }
}
