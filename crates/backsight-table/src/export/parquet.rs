//! Parts: files of Parquet.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchReader as _, StringArray, UInt16Array,
    new_null_array,
};
use arrow_schema::{DataType, Field, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::arrow::Reader;
use crate::{Error, Result, Table};

/// Rows of a row group: engines read groups side by side, and pass over those that a filter leaves nothing of.
const ROW_GROUP: usize = 1 << 20;

/// Columns that folders stand for.
const IN_FOLDERS: [&str; 2] = ["capture", "source"];

fn properties(schema: &SchemaRef) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(format!("backsight {}", env!("CARGO_PKG_VERSION")));
    // What grows from row to row is small as differences.
    for name in ["position", "offset", "time", "cycles"] {
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
pub(super) fn write_part(file: &Path, mut reader: Reader) -> Result<(u64, u64)> {
    let (kept, schema) = kept(file, &reader.schema())?;
    let mut rows = 0;
    let mut failure = None;
    replace_file(file, |temporary| {
        let output = File::create(temporary)?;
        let mut writer = ArrowWriter::try_new(output, schema.clone(), Some(properties(&schema)))?;
        while let Some(batch) = reader.try_next() {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    failure = Some(error);
                    return Err(io::ErrorKind::InvalidData.into());
                }
            };
            rows += batch.num_rows() as u64;
            let batch = batch.project(&kept).map_err(io::Error::other)?;
            writer.write(&batch)?;
        }
        writer.close()?;
        Ok(())
    })
    .map_err(|error| failure.take().unwrap_or(error))?;
    let bytes = fs::metadata(file).map_err(|error| Error::file(file, error))?.len();
    Ok((rows, bytes))
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
    replace_file(file, |temporary| {
        let columns = schema.fields().iter().map(|field| column(field)).collect();
        let batch = RecordBatch::try_new(schema.clone(), columns).map_err(io::Error::other)?;
        let mut writer =
            ArrowWriter::try_new(File::create(temporary)?, schema.clone(), Some(properties(&schema)))?;
        writer.write(&batch)?;
        writer.close()?;
        Ok(())
    })
}

/// Writes a file under another name, and gives it its own when it is finished.
pub(super) fn replace_file(file: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> Result {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let temporary = file.with_file_name(format!(".{name}.tmp"));
    let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
    folder.and_then(|()| write(&temporary)).and_then(|()| fs::rename(&temporary, file)).map_err(|error| {
        // What is left of it is of no use; if it cannot be removed, the next run writes over it.
        let _ = fs::remove_file(&temporary);
        Error::file(file, error)
    })
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
