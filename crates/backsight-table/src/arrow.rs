//! Batches as record batches of Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{Int32Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, DictionaryArray, Int32Array, PrimitiveArray,
    RecordBatch, RecordBatchOptions, RecordBatchReader, StringArray,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use backsight::Capture;

use crate::data::{FinishedColumn, FinishedValues, Layout, Values};
use crate::shape::Shape;
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
        let mut says = HashMap::from([("comment".to_owned(), column.meaning.to_owned())]);
        if column.is_count {
            says.insert("count".to_owned(), "true".to_owned());
        }
        Field::new(column.name, data_type(column.kind), column.nullable).with_metadata(says)
    };
    Arc::new(Schema::new(columns.map(field).collect::<Vec<_>>()))
}

impl Table {
    /// Its columns as a schema. The meaning of each stands in its metadata, as `comment`; those that count something also have
    /// `count`.
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

/// What is kept of a column from batch to batch.
#[derive(Debug, Default)]
struct ColumnMemory {
    /// Texts, and the same as an array of Arrow.
    dictionary: Option<(Arc<[Arc<str>]>, ArrayRef)>,
    /// The values of the last batch. Once nobody else has them, their memory is used again: to ask the system for it costs as
    /// much as to fill it.
    last: Option<Buffer>,
}

impl ColumnMemory {
    /// Memory for the values of a column.
    fn room<T: ArrowNativeType>(&mut self) -> Vec<T> {
        self.last.take().and_then(|last| last.into_vec().ok()).unwrap_or_default()
    }

    /// Texts as an array.
    fn texts(&mut self, values: Arc<[Arc<str>]>) -> ArrayRef {
        match &self.dictionary {
            Some((known, texts)) if Arc::ptr_eq(known, &values) => texts.clone(),
            _ => {
                let texts: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter()));
                self.dictionary = Some((values, texts.clone()));
                texts
            }
        }
    }

    /// Values of a column.
    fn buffer<T: ArrowNativeType>(&mut self, values: Vec<T>) -> ScalarBuffer<T> {
        let values = ScalarBuffer::from(values);
        self.last = Some(values.inner().clone());
        values
    }
}

/// The record batches of a query. An error is the last item. If it is dropped before the end, the decoder stops.
#[derive(Debug)]
pub struct Reader {
    batches: Batches,
    schema: SchemaRef,
    /// Of each column.
    kept: Vec<ColumnMemory>,
}

impl Reader {
    /// Reads batches.
    pub fn new(batches: Batches) -> Self {
        let schema = schema_of(batches.columns().iter().copied());
        let kept = batches.columns().iter().map(|_| ColumnMemory::default()).collect();
        Self { batches, schema, kept }
    }

    /// The next record batch, with an error of this crate.
    pub fn try_next(&mut self) -> Option<Result<RecordBatch>> {
        Some(self.batches.next()?.map(|batch| self.record_batch(batch)))
    }

    /// The next batch as it comes from the decoder.
    #[cfg(feature = "export")]
    pub(crate) fn next_batch(&mut self) -> Option<Result<Batch>> {
        self.batches.next()
    }

    /// A batch that nobody needs any more.
    #[cfg(feature = "export")]
    pub(crate) fn give_back(&self, batch: Batch) {
        self.batches.spare.give(batch.shape.blocks);
    }

    pub(crate) fn record_batch(&mut self, batch: Batch) -> RecordBatch {
        let (batch, shape) = record_batch_of(batch, &self.schema, &mut self.kept);
        self.batches.spare.give(shape.blocks);
        batch
    }
}

/// A batch with a value for each row, and what decided which.
fn record_batch_of(batch: Batch, schema: &SchemaRef, kept: &mut [ColumnMemory]) -> (RecordBatch, Shape) {
    let Batch { columns, rows, shape } = batch;
    let arrays = columns.into_iter().zip(kept).map(|(column, kept)| match Arc::try_unwrap(column) {
        Ok(column) if column.layout == Layout::Rows => array(own(column, kept), kept),
        Ok(column) => array(expanded(&column, &shape, rows, kept), kept),
        Err(column) => array(expanded(&column, &shape, rows, kept), kept),
    });
    let arrays: Vec<ArrayRef> = arrays.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let made = RecordBatch::try_new_with_options(schema.clone(), arrays, &options);
    // The schema is that of the same columns.
    (made.unwrap_or_else(|_| RecordBatch::new_empty(schema.clone())), shape)
}

/// The same for tests that have made one.
#[cfg(all(test, feature = "export"))]
pub(crate) fn expand(batch: Batch, schema: &SchemaRef) -> RecordBatch {
    let mut kept: Vec<_> = batch.columns.iter().map(|_| ColumnMemory::default()).collect();
    record_batch_of(batch, schema, &mut kept).0
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

/// Which values of a column there are.
type Nulls = Option<NullBuffer>;

/// A column of Arrow before it is one.
enum Expanded {
    Values(Values, Nulls),
    Words { keys: Vec<i32>, values: Arc<[Arc<str>]>, nulls: Nulls },
}

/// A column with a value for each row.
fn expanded(column: &FinishedColumn, shape: &Shape, rows: usize, kept: &mut ColumnMemory) -> Expanded {
    let FinishedColumn { values, valid, layout } = column;
    let all = || 0..rows;
    let nulls = valid.as_ref().map(|valid| {
        if !valid.contains(&true) {
            return NullBuffer::new_null(rows);
        }
        match layout {
            Layout::Blocks => {
                let blocks = shape.blocks_of(all());
                BooleanBuffer::collect_bool(blocks.len(), |row| valid[blocks[row] as usize]).into()
            }
            _ => NullBuffer::from(shape.spread(valid, *layout, all())),
        }
    });
    let values = match values {
        FinishedValues::Words { keys, values } => {
            let keys = shape.spread_into(keys, *layout, all(), kept.room());
            return Expanded::Words { keys, values: values.clone(), nulls };
        }
        FinishedValues::Steps(steps) => Values::U64(steps.numbers(kept.room())),
        FinishedValues::Plain(values) => match values {
            Values::U8(values) => Values::U8(shape.spread_into(values, *layout, all(), kept.room())),
            Values::U16(values) => Values::U16(shape.spread_into(values, *layout, all(), kept.room())),
            Values::U32(values) => Values::U32(shape.spread_into(values, *layout, all(), kept.room())),
            Values::U64(values) => Values::U64(shape.spread_into(values, *layout, all(), kept.room())),
            Values::Bool(values) => Values::Bool(shape.spread(values, *layout, all())),
            // Nothing that blocks or states say is long.
            Values::Word(_) | Values::Long { .. } => values.clone(),
        },
    };
    Expanded::Values(values, nulls)
}

/// A column that has a value for each row.
fn own(column: FinishedColumn, kept: &mut ColumnMemory) -> Expanded {
    let nulls = column.valid.map(NullBuffer::from);
    match column.values {
        FinishedValues::Plain(values) => Expanded::Values(values, nulls),
        FinishedValues::Steps(steps) => Expanded::Values(Values::U64(steps.numbers(kept.room())), nulls),
        FinishedValues::Words { keys, values } => Expanded::Words { keys, values, nulls },
    }
}

fn numbers<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Nulls, kept: &mut ColumnMemory) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(kept.buffer(values), nulls))
}

fn array(column: Expanded, kept: &mut ColumnMemory) -> ArrayRef {
    let (values, nulls) = match column {
        Expanded::Values(values, nulls) => (values, nulls),
        Expanded::Words { keys, values, nulls } => {
            let keys = Int32Array::new(kept.buffer(keys), nulls);
            return Arc::new(DictionaryArray::<Int32Type>::new(keys, kept.texts(values)));
        }
    };
    match values {
        Values::U8(values) => numbers::<UInt8Type>(values, nulls, kept),
        Values::U16(values) => numbers::<UInt16Type>(values, nulls, kept),
        Values::U32(values) => numbers::<UInt32Type>(values, nulls, kept),
        Values::U64(values) => numbers::<UInt64Type>(values, nulls, kept),
        Values::Bool(values) => Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)),
        Values::Long { bytes, ends, is_text } => {
            let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
            let (offsets, bytes) = (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(bytes));
            match is_text {
                true => Arc::new(StringArray::new(offsets, bytes, nulls)),
                false => Arc::new(BinaryArray::new(offsets, bytes, nulls)),
            }
        }
        // Words come with their dictionary.
        Values::Word(ids) => Arc::new(arrow_array::NullArray::new(ids.len())),
    }
}
