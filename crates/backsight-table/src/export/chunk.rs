//! Column chunks of columns whose values come again and again.
//!
//! The values of such a column are known once for each block or place of a batch ([`Layout`]): the dictionary is made of
//! those few, and a row is a lookup and a few bits. Writers that are given the values row by row have to look up each value
//! to find out that it has come before, which takes many times as long.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::bits::{pack, put_differences, put_packed, put_run, width_of};
use crate::data::{FinishedColumn, FinishedValues, Layout, Values};
use crate::reader::Shape;

/// Rows of a page.
const PAGE: usize = 1 << 16;

/// Texts that are longer are not written as the lowest or highest of a chunk.
const LONGEST_BOUND: usize = 64;

/// Compression has to save a tenth, or the chunk is not compressed.
const WORTH: f64 = 0.9;

/// A chunk, and what the file says about it.
pub(super) type Chunk = (Bytes, ColumnCloseResult);

/// How the values of a chunk are written.
enum Coding {
    /// As keys of a dictionary, by number of the value; [`NULL`]: there is none.
    Dictionary { keys: Vec<u32>, width: u32, page: Vec<u8>, size: u32 },
    /// As differences.
    Differences(Vec<u64>),
    /// As bits.
    Bits(Vec<bool>),
}

const NULL: u32 = u32::MAX;

/// Writes a column as a chunk.
pub(super) fn write(
    description: &ColumnDescPtr,
    column: &FinishedColumn,
    (shape, all_rows): (&Shape, usize),
    is_growing: bool,
) -> Result<Chunk> {
    let valid = |number: usize| column.valid.as_ref().is_none_or(|valid| valid.get(number) == Some(&true));
    let is_optional = description.max_def_level() > 0;
    let coding = Coding::of(column, is_growing, &valid);
    let mut pages = Pages::new();
    if let Coding::Dictionary { page, size, .. } = &coding {
        pages.dictionary = Some((page.clone(), *size));
    }
    let (mut body, mut nulls) = (Vec::new(), 0);
    for first in (0..all_rows).step_by(PAGE) {
        let rows = first..(first + PAGE).min(all_rows);
        body.clear();
        let mut valid = None;
        if is_optional {
            valid = column.valid.as_ref().map(|valid| shape.spread(valid, column.layout, rows.clone()));
            nulls += put_levels(valid.as_deref(), rows.len(), &mut body);
        }
        coding.put(shape, column.layout, rows.clone(), valid.as_deref(), &mut body);
        pages.put(&body, rows.len() as u32, coding.encoding())?;
    }
    pages.finish(description, coding.encoding(), statistics(column, nulls), all_rows)
}

/// Writes which rows have a value. Gives how many have none.
fn put_levels(valid: Option<&[bool]>, rows: usize, out: &mut Vec<u8>) -> u64 {
    let mut levels = Vec::new();
    let known = valid.map_or(rows, |valid| valid.iter().filter(|valid| **valid).count());
    match valid {
        Some(valid) if known > 0 && known < rows => {
            let bits: Vec<u8> = valid.iter().map(|&valid| valid.into()).collect();
            put_packed(&bits, 1, &mut levels);
        }
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

impl Coding {
    fn of(column: &FinishedColumn, is_growing: bool, valid: &dyn Fn(usize) -> bool) -> Self {
        match &column.values {
            FinishedValues::Plain(Values::Bool(values)) => Self::Bits(values.clone()),
            FinishedValues::Plain(Values::U64(values)) if is_growing => Self::Differences(values.clone()),
            FinishedValues::Plain(values) => {
                let is_wide = matches!(values, Values::U64(_));
                let numbers = numbers_of(values);
                let put = |number: usize, page: &mut Vec<u8>| {
                    let bytes = numbers[number].to_le_bytes();
                    page.extend_from_slice(&bytes[..if is_wide { 8 } else { 4 }]);
                };
                Self::dictionary(numbers.len(), valid, &|number| numbers[number], &put)
            }
            FinishedValues::Words { keys, values } => {
                let put = |number: usize, page: &mut Vec<u8>| {
                    let text = values.get(keys[number] as usize).map_or("", |text| text);
                    page.extend_from_slice(&(text.len() as u32).to_le_bytes());
                    page.extend_from_slice(text.as_bytes());
                };
                Self::dictionary(keys.len(), valid, &|number| keys[number] as u64, &put)
            }
        }
    }

    /// Gives each value that differs a key.
    fn dictionary(
        count: usize,
        valid: &dyn Fn(usize) -> bool,
        value: &dyn Fn(usize) -> u64,
        put: &dyn Fn(usize, &mut Vec<u8>),
    ) -> Self {
        let (mut known, mut page) = (HashMap::new(), Vec::new());
        let mut key = |number: usize| {
            if !valid(number) {
                return NULL;
            }
            let next = known.len() as u32;
            *known.entry(value(number)).or_insert_with(|| {
                put(number, &mut page);
                next
            })
        };
        let keys = (0..count).map(&mut key).collect();
        let size = known.len() as u32;
        Self::Dictionary { keys, width: width_of(u64::from(size.saturating_sub(1))), page, size }
    }

    const fn encoding(&self) -> Encoding {
        match self {
            Self::Dictionary { .. } => Encoding::RLE_DICTIONARY,
            Self::Differences(_) => Encoding::DELTA_BINARY_PACKED,
            Self::Bits(_) => Encoding::PLAIN,
        }
    }

    /// Writes the values of some rows.
    fn put(
        &self,
        shape: &Shape,
        layout: Layout,
        rows: Range<usize>,
        valid: Option<&[bool]>,
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Dictionary { keys, width, .. } => {
                out.push(*width as u8);
                let keys = known(keys, (shape, layout), rows, valid);
                if matches!(layout, Layout::Blocks | Layout::Rows) {
                    return put_packed(&keys, *width, out);
                }
                // The same value comes many times in a row.
                for run in keys.chunk_by(|one, next| one == next) {
                    put_run(run[0].into(), run.len(), *width, out);
                }
            }
            Self::Differences(values) => put_differences(&known(values, (shape, layout), rows, valid), out),
            Self::Bits(values) => {
                let bits: Vec<u8> =
                    known(values, (shape, layout), rows, valid).iter().map(|&bit| bit.into()).collect();
                let before = out.len();
                pack(&bits, 1, out);
                out.truncate(before + bits.len().div_ceil(8));
            }
        }
    }
}

fn numbers_of(values: &Values) -> Vec<u64> {
    match values {
        Values::U8(values) => values.iter().map(|&value| value.into()).collect(),
        Values::U16(values) => values.iter().map(|&value| value.into()).collect(),
        Values::U32(values) => values.iter().map(|&value| value.into()).collect(),
        Values::U64(values) => values.clone(),
        // These are not numbers.
        Values::Bool(_) | Values::Word(_) | Values::Long { .. } => Vec::new(),
    }
}

/// The lowest and the highest value. Every value of a block or a place belongs to some row.
fn statistics(column: &FinishedColumn, nulls: u64) -> Statistics {
    let valid = |number: &usize| column.valid.as_ref().is_none_or(|valid| valid.get(*number) == Some(&true));
    let nulls = Some(nulls);
    let bounds = |numbers: &[u64]| {
        let known = || (0..numbers.len()).filter(valid).map(|number| numbers[number]);
        (known().min(), known().max())
    };
    match &column.values {
        FinishedValues::Plain(Values::Bool(values)) => {
            let known = || (0..values.len()).filter(valid).map(|number| values[number]);
            Statistics::boolean(known().min(), known().max(), None, nulls, false)
        }
        FinishedValues::Plain(values @ Values::U64(_)) => {
            let (least, most) = bounds(&numbers_of(values));
            Statistics::int64(least.map(|n| n as i64), most.map(|n| n as i64), None, nulls, false)
        }
        FinishedValues::Plain(values) => {
            let (least, most) = bounds(&numbers_of(values));
            Statistics::int32(least.map(|n| n as i32), most.map(|n| n as i32), None, nulls, false)
        }
        FinishedValues::Words { keys, values } => {
            let known =
                || (0..keys.len()).filter(valid).filter_map(|number| values.get(keys[number] as usize));
            let bound = |text: Option<&std::sync::Arc<str>>| {
                text.filter(|text| text.len() <= LONGEST_BOUND)
                    .map(|text| ByteArray::from(text.as_bytes().to_vec()))
            };
            Statistics::byte_array(bound(known().min()), bound(known().max()), None, nulls, false)
        }
    }
}

/// The pages of a chunk.
struct Pages {
    written: TrackedWrite<Vec<u8>>,
    /// `None` until the first page was tried.
    is_compressed: Option<bool>,
    encoder: snap::raw::Encoder,
    /// The dictionary waits for the first page: both are compressed, or none.
    dictionary: Option<(Vec<u8>, u32)>,
    uncompressed: usize,
    /// Where the first page of values is.
    values_at: Option<usize>,
}

impl Pages {
    fn new() -> Self {
        Self {
            written: TrackedWrite::new(Vec::new()),
            is_compressed: None,
            encoder: snap::raw::Encoder::new(),
            dictionary: None,
            uncompressed: 0,
            values_at: None,
        }
    }

    fn compressed(&mut self, body: &[u8]) -> Result<Vec<u8>> {
        self.encoder
            .compress_vec(body)
            .map_err(|error| parquet::errors::ParquetError::External(Box::new(error)))
    }

    /// Writes a page of values.
    fn put(&mut self, body: &[u8], rows: u32, encoding: Encoding) -> Result<()> {
        let mut compressed = None;
        if self.is_compressed.is_none() {
            let tried = self.compressed(body)?;
            self.is_compressed = Some((tried.len() as f64) < WORTH * body.len() as f64);
            compressed = Some(tried);
        }
        if let Some((page, size)) = self.dictionary.take() {
            let buf = self.packed(&page, None)?.into();
            let page_of =
                Page::DictionaryPage { buf, num_values: size, encoding: Encoding::PLAIN, is_sorted: false };
            self.write(page_of, page.len())?;
        }
        self.values_at.get_or_insert(self.written.bytes_written());
        let page = Page::DataPage {
            buf: self.packed(body, compressed)?.into(),
            num_values: rows,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        self.write(page, body.len())
    }

    /// What stands for some bytes in the file; they may have been compressed before.
    fn packed(&mut self, body: &[u8], compressed: Option<Vec<u8>>) -> Result<Vec<u8>> {
        match (self.is_compressed, compressed) {
            (Some(true), Some(compressed)) => Ok(compressed),
            (Some(true), None) => self.compressed(body),
            _ => Ok(body.to_vec()),
        }
    }

    fn write(&mut self, page: Page, uncompressed: usize) -> Result<()> {
        let page = CompressedPage::new(page, uncompressed);
        let written = SerializedPageWriter::new(&mut self.written).write_page(page)?;
        self.uncompressed += written.uncompressed_size;
        Ok(())
    }

    fn finish(
        self,
        description: &ColumnDescPtr,
        encoding: Encoding,
        statistics: Statistics,
        rows: usize,
    ) -> Result<Chunk> {
        let bytes = self.written.into_inner()?;
        let has_dictionary = encoding == Encoding::RLE_DICTIONARY;
        let mut encodings = vec![Encoding::RLE, encoding];
        encodings.extend(has_dictionary.then_some(Encoding::PLAIN));
        let compression = match self.is_compressed {
            Some(true) => Compression::SNAPPY,
            _ => Compression::UNCOMPRESSED,
        };
        let metadata = ColumnChunkMetaData::builder(description.clone())
            .set_encodings(encodings)
            .set_compression(compression)
            .set_num_values(rows as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_data_page_offset(self.values_at.unwrap_or(0) as i64)
            .set_dictionary_page_offset(has_dictionary.then_some(0))
            .set_statistics(statistics)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes.into(), close))
    }
}
