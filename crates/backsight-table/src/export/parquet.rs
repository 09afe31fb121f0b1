//! Parts: files of Parquet.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchReader as _, StringArray, UInt16Array,
    new_null_array,
};
use arrow_schema::{DataType, Field, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use backsight::description::whole::WholeFile;

use super::FileLayout;
use super::chunk;
use super::parallel::in_parallel;
use super::rows::Rows;
use crate::arrow::Reader;
use crate::{Batch, Error, Result, Table};

/// Columns that grow from row to row: they are small as differences.
const GROWING: [&str; 4] = ["position", "offset", "time", "cycles"];

/// Columns that folders stand for.
const IN_FOLDERS: [&str; 2] = ["capture", "source"];

fn properties(schema: &SchemaRef, compress: bool) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(if compress { Compression::SNAPPY } else { Compression::UNCOMPRESSED })
        // A row group ends where its writer says so.
        .set_max_row_group_row_count(None)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(format!("backsight {}", env!("CARGO_PKG_VERSION")));
    for name in GROWING {
        if schema.column_with_name(name).is_some_and(|(_, field)| *field.data_type() == DataType::UInt64) {
            let column = ColumnPath::from(name);
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}

/// Writes a part. Gives its rows and bytes.
pub(super) fn write_part(file: &Path, mut reader: Reader, layout: FileLayout) -> Result<(u64, u64)> {
    let (kept, schema) = kept(file, &reader.schema())?;
    let mut rows = 0;
    let mut failure = None;
    replace_file(file, |output| {
        let mut writer = PartWriter::new(output, schema.clone(), layout)?;
        while let Some(batch) = reader.next_batch() {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    failure = Some(error);
                    return Err(io::ErrorKind::InvalidData.into());
                }
            };
            rows += batch.rows() as u64;
            if batch.is_gathered() && !kept.is_empty() {
                writer.write_gathered(&batch, &kept)?;
                reader.give_back(batch);
            } else {
                let batch = reader.record_batch(batch).project(&kept).map_err(io::Error::other)?;
                writer.write(&batch)?;
            }
        }
        writer.close()
    })
    .map_err(|error| failure.take().unwrap_or(error))?;
    let bytes = fs::metadata(file).map_err(|error| Error::file(file, error))?.len();
    Ok((rows, bytes))
}

/// A part while it is written.
struct PartWriter<W: Write + Send> {
    schema: SchemaRef,
    file: SerializedFileWriter<W>,
    factory: ArrowRowGroupWriterFactory,
    groups: usize,
    layout: FileLayout,
    /// The row group that rows are put into one by one, and how many it has.
    open: Option<(Vec<ArrowColumnWriter>, usize)>,
}

impl<W: Write + Send> PartWriter<W> {
    fn new(output: W, schema: SchemaRef, layout: FileLayout) -> io::Result<Self> {
        let writer =
            ArrowWriter::try_new(output, schema.clone(), Some(properties(&schema, layout.compress)))?;
        let (file, factory) = writer.into_serialized_writer()?;
        Ok(Self { schema, file, factory, groups: 0, layout, open: None })
    }

    /// Writes rows as they are.
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let (writers, rows) = match &mut self.open {
            Some(open) => open,
            None => self.open.insert((self.factory.create_column_writers(self.groups)?, 0)),
        };
        let leaves = self.schema.fields().iter().zip(batch.columns());
        for ((field, column), writer) in leaves.zip(writers) {
            for leaf in compute_leaves(field, column)? {
                writer.write(&leaf)?;
            }
        }
        *rows += batch.num_rows();
        if *rows >= self.layout.row_group { self.close_group() } else { Ok(()) }
    }

    /// Writes a batch whose columns are laid out by blocks and places as a row group.
    fn write_gathered(&mut self, batch: &Batch, kept: &[usize]) -> io::Result<()> {
        self.close_group()?;
        let columns: Vec<_> = self.file.schema_descr().columns().iter().zip(kept).collect();
        let rows = Rows::new(batch, kept, self.layout.compress);
        let chunks = in_parallel(&columns, |(description, &number)| {
            let is_growing = GROWING.contains(&description.name());
            Ok::<_, io::Error>(chunk::write(description, &rows, number, is_growing)?)
        });
        let mut group = self.file.next_row_group()?;
        for chunk in chunks {
            let (bytes, close) = chunk?;
            group.append_column(&bytes, close)?;
        }
        group.close()?;
        self.groups += 1;
        Ok(())
    }

    /// Ends the row group that rows are put into.
    fn close_group(&mut self) -> io::Result<()> {
        let Some((writers, _)) = self.open.take() else { return Ok(()) };
        let mut group = self.file.next_row_group()?;
        for writer in writers {
            writer.close()?.append_to_row_group(&mut group)?;
        }
        group.close()?;
        self.groups += 1;
        Ok(())
    }

    fn close(mut self) -> io::Result<()> {
        self.close_group()?;
        self.file.close()?;
        Ok(())
    }
}

/// The columns that a file holds, by number, and their schema.
fn kept(file: &Path, schema: &SchemaRef) -> Result<(Vec<usize>, SchemaRef)> {
    let kept: Vec<usize> = (0..schema.fields().len())
        .filter(|&number| !IN_FOLDERS.contains(&schema.field(number).name().as_str()))
        .collect();
    let schema = schema.project(&kept).map_err(|error| Error::file(file, error))?;
    Ok((kept, Arc::new(schema)))
}

/// Writes that a capture could not be read: one row of the table `damage`.
pub(super) fn write_unreadable(file: &Path, why: &str) -> Result {
    let (_, schema) = kept(file, &Table::Damage.schema())?;
    let column = |field: &Field| -> ArrayRef {
        match field.name().as_str() {
            "event" => {
                let words: ArrayRef = Arc::new(StringArray::from(vec!["unreadable"]));
                Arc::new(DictionaryArray::new(Int32Array::from(vec![0]), words))
            }
            "reason" => Arc::new(StringArray::from(vec![why])),
            "hart" => Arc::new(UInt16Array::from(vec![0])),
            _ => new_null_array(field.data_type(), 1),
        }
    };
    replace_file(file, |output| {
        let columns = schema.fields().iter().map(|field| column(field)).collect();
        let batch = RecordBatch::try_new(schema.clone(), columns).map_err(io::Error::other)?;
        let mut writer = ArrowWriter::try_new(output, schema.clone(), Some(properties(&schema, true)))?;
        writer.write(&batch)?;
        writer.close()?;
        Ok(())
    })
}

/// Writes a file that is whole or absent.
pub(super) fn replace_file(file: &Path, write: impl FnOnce(&mut WholeFile) -> io::Result<()>) -> Result {
    let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| WholeFile::create(file)).and_then(|mut output| {
        write(&mut output)?;
        output.finish()
    });
    written.map_err(|error| Error::file(file, error))
}

pub(super) fn remove_file(file: &Path) -> Result {
    ignore_absence(fs::remove_file(file)).map_err(|error| Error::file(file, error))
}

pub(super) fn remove_folder(folder: &Path) -> Result {
    ignore_absence(fs::remove_dir_all(folder)).map_err(|error| Error::file(folder, error))
}

fn ignore_absence(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
