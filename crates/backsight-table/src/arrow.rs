//! Batches as record batches of Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{Int32Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, DictionaryArray, Int32Array, PrimitiveArray,
    RecordBatch, RecordBatchOptions, RecordBatchReader, StringArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use backsight::Capture;

use crate::data::{FinishedColumn, FinishedValues, Layout, Values};
use crate::reader::Shape;
use crate::{Batch, Batches, Column, Kind, Piece, Query, Result, Table};

pub use {arrow_array, arrow_schema};

/// The Arrow type of a column.
pub fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::U8 => DataType::UInt8,
        Kind::U16 => DataType::UInt16,
        Kind::U32 => DataType::UInt32,
        Kind::U64 => DataType::UInt64,
        Kind::Bool => DataType::Boolean,
        Kind::Word => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        Kind::Text => DataType::Utf8,
        Kind::Bytes => DataType::Binary,
    }
}

fn schema_of<'c>(columns: impl Iterator<Item = &'c Column>) -> SchemaRef {
    let field = |column: &Column| {
        let comment = HashMap::from([("comment".to_owned(), column.meaning.to_owned())]);
        Field::new(column.name, data_type(column.kind), column.nullable).with_metadata(comment)
    };
    Arc::new(Schema::new(columns.map(field).collect::<Vec<_>>()))
}

impl Table {
    /// Its columns as a schema. The meaning of each stands in its metadata, as `comment`.
    pub fn schema(self) -> SchemaRef {
        schema_of(self.columns().iter())
    }
}

impl Query {
    /// The schema of what comes out.
    pub fn schema(&self) -> SchemaRef {
        schema_of(self.chosen().iter().copied())
    }

    /// As [`Query::read`], in record batches.
    ///
    /// # Errors
    /// As [`Query::read`].
    pub fn read_arrow(&self, capture: &Capture) -> Result<Reader> {
        Ok(Reader::new(self.read(capture)?))
    }

    /// As [`Query::read_piece`], in record batches.
    ///
    /// # Errors
    /// As [`Query::read_piece`].
    pub fn read_piece_arrow(&self, capture: &Capture, piece: &Piece) -> Result<Reader> {
        Ok(Reader::new(self.read_piece(capture, piece)?))
    }
}

/// Texts, and the same as an array of Arrow.
type Dictionary = (Arc<[Arc<str>]>, ArrayRef);

/// The record batches of a query. An error is the last item. If it is dropped before the end, the decoder stops.
#[derive(Debug)]
pub struct Reader {
    batches: Batches,
    schema: SchemaRef,
    /// The values of the dictionary of each column, as they were in the last batch.
    dictionaries: Vec<Option<Dictionary>>,
}

impl Reader {
    /// Reads batches.
    pub fn new(batches: Batches) -> Self {
        let schema = schema_of(batches.columns().iter().copied());
        let dictionaries = vec![None; batches.columns().len()];
        Self { batches, schema, dictionaries }
    }

    /// The next record batch, with an error of this crate.
    pub fn try_next(&mut self) -> Option<Result<RecordBatch>> {
        Some(self.batches.next()?.map(|batch| self.record_batch(batch)))
    }

    /// The next batch as it comes from the decoder.
    pub(crate) fn next_batch(&mut self) -> Option<Result<Batch>> {
        self.batches.next()
    }

    pub(crate) fn record_batch(&mut self, batch: Batch) -> RecordBatch {
        let Batch { columns, rows, shape } = batch;
        let columns = columns.into_iter().zip(&mut self.dictionaries);
        let arrays: Vec<ArrayRef> =
            columns.map(|(column, dictionary)| array(expanded(column, &shape, rows), dictionary)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let made = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options);
        // The schema is that of the same columns.
        made.unwrap_or_else(|_| RecordBatch::new_empty(self.schema.clone()))
    }
}

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.try_next()?.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A column with a value for each row.
fn expanded(column: FinishedColumn, shape: &Shape, rows: usize) -> FinishedColumn {
    let FinishedColumn { values, valid, layout } = column;
    if layout == Layout::Rows {
        return FinishedColumn { values, valid, layout };
    }
    let rows = 0..rows;
    let values = match values {
        FinishedValues::Words { keys, values } => {
            FinishedValues::Words { keys: shape.spread(&keys, layout, rows.clone()), values }
        }
        FinishedValues::Plain(values) => FinishedValues::Plain(match values {
            Values::U8(values) => Values::U8(shape.spread(&values, layout, rows.clone())),
            Values::U16(values) => Values::U16(shape.spread(&values, layout, rows.clone())),
            Values::U32(values) => Values::U32(shape.spread(&values, layout, rows.clone())),
            Values::U64(values) => Values::U64(shape.spread(&values, layout, rows.clone())),
            Values::Bool(values) => Values::Bool(shape.spread(&values, layout, rows.clone())),
            // Nothing that blocks, places or states say is long.
            other @ (Values::Word(_) | Values::Long { .. }) => other,
        }),
    };
    let valid = valid.map(|valid| shape.spread(&valid, layout, rows));
    FinishedColumn { values, valid, layout: Layout::Rows }
}

fn nulls(valid: Option<Vec<bool>>) -> Option<NullBuffer> {
    valid.map(NullBuffer::from)
}

fn numbers<T: ArrowPrimitiveType>(values: Vec<T::Native>, valid: Option<Vec<bool>>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls(valid)))
}

fn array(column: FinishedColumn, dictionary: &mut Option<(Arc<[Arc<str>]>, ArrayRef)>) -> ArrayRef {
    let FinishedColumn { values, valid, layout: _ } = column;
    let values = match values {
        FinishedValues::Plain(values) => values,
        FinishedValues::Words { keys, values } => return words(keys, values, valid, dictionary),
    };
    match values {
        Values::U8(values) => numbers::<UInt8Type>(values, valid),
        Values::U16(values) => numbers::<UInt16Type>(values, valid),
        Values::U32(values) => numbers::<UInt32Type>(values, valid),
        Values::U64(values) => numbers::<UInt64Type>(values, valid),
        Values::Bool(values) => {
            let mut bits = BooleanBufferBuilder::new(values.len());
            bits.append_slice(&values);
            Arc::new(BooleanArray::new(bits.finish(), nulls(valid)))
        }
        Values::Long { bytes, ends, is_text } => {
            let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
            let (offsets, bytes) = (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(bytes));
            match is_text {
                true => Arc::new(StringArray::new(offsets, bytes, nulls(valid))),
                false => Arc::new(BinaryArray::new(offsets, bytes, nulls(valid))),
            }
        }
        // Words come with their dictionary.
        Values::Word(ids) => Arc::new(arrow_array::NullArray::new(ids.len())),
    }
}

fn words(
    keys: Vec<i32>,
    values: Arc<[Arc<str>]>,
    valid: Option<Vec<bool>>,
    dictionary: &mut Option<(Arc<[Arc<str>]>, ArrayRef)>,
) -> ArrayRef {
    let known = dictionary.as_ref().filter(|(known, _)| Arc::ptr_eq(known, &values));
    let texts = match known {
        Some((_, texts)) => texts.clone(),
        None => {
            let texts: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter()));
            *dictionary = Some((values, texts.clone()));
            texts
        }
    };
    let keys = Int32Array::new(ScalarBuffer::from(keys), nulls(valid));
    Arc::new(DictionaryArray::<Int32Type>::new(keys, texts))
}
