//! Tables of captures, as streams of Arrow.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use backsight::Capture;
use backsight_table::arrow::Reader;
use backsight_table::{Error, Guard, Piece, Query, Table};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::background::{Produced, StopFlag};
use crate::error;
use crate::rows::RowIterator;

/// Batches that may wait until they are taken.
const AHEAD: usize = 2;

/// A table of a capture, or of a piece of one: what to read, not the rows. Each time that it is read, the query runs again.
#[pyclass(frozen, module = "backsight", name = "Table")]
pub struct TableObject {
    query: Query,
    capture: Capture,
    piece: Option<Arc<Piece>>,
}

/// The query for some columns and rows of a table.
pub fn query(
    name: &str,
    columns: Option<Vec<String>>,
    filter: Option<&str>,
    limit: Option<u64>,
    until: Option<u64>,
) -> PyResult<Query> {
    let make = || {
        let mut query = Query::new(name.parse::<Table>()?);
        if let Some(columns) = &columns {
            query = query.columns(columns)?;
        }
        if let Some(filter) = filter {
            query = query.filter(filter)?;
        }
        if let Some(time) = until {
            query = query.until(time)?;
        }
        Ok(match limit {
            Some(limit) => query.limit(limit),
            None => query,
        })
    };
    make().map_err(|error: Error| error::of_table(&error))
}

/// The columns of every table: their names, types and meanings.
#[pyfunction]
pub fn tables(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let tables = PyDict::new(py);
    for table in Table::ALL {
        let columns: Vec<_> =
            table.columns().iter().map(|column| (column.name, column.kind.name(), column.meaning)).collect();
        tables.set_item(table.name(), columns)?;
    }
    Ok(tables)
}

/// The schema of some columns of a table, without a capture: whatever takes Arrow schemas takes it.
#[pyfunction]
#[pyo3(signature = (name, columns=None, r#where=None))]
pub fn schema(name: &str, columns: Option<Vec<String>>, r#where: Option<&str>) -> PyResult<SchemaObject> {
    Ok(SchemaObject(query(name, columns, r#where, None, None)?.schema()))
}

/// The names and types of columns.
#[pyclass(frozen, module = "backsight", name = "Schema")]
pub struct SchemaObject(SchemaRef);

#[pymethods]
impl SchemaObject {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0)
    }
}

impl TableObject {
    /// A query of all of a capture, which is to stay as it was.
    pub fn new(query: Query, capture: Capture, guard: Option<Guard>) -> Self {
        Self { query: guard.into_iter().fold(query, Query::guard), capture, piece: None }
    }

    /// The same of one piece.
    pub fn of_piece(self, piece: Arc<Piece>) -> Self {
        Self { piece: Some(piece), ..self }
    }

    /// Runs the query, until it is told to stop.
    fn read(&self, py: Python<'_>, stop: &StopFlag) -> PyResult<Reader> {
        let Self { query, capture, piece } = self;
        let query = query.clone().stop_on(stop.shared());
        let reader = py.detach(|| match piece {
            Some(piece) => query.read_piece_arrow(capture, piece),
            None => query.read_arrow(capture),
        });
        reader.map_err(|error| error::of_table(&error))
    }
}

#[pymethods]
impl TableObject {
    /// Its name.
    #[getter]
    fn name(&self) -> &'static str {
        self.query.table().name()
    }

    /// The names of its columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.query.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The names and types of its columns, for whatever takes Arrow schemas.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.query.schema())
    }

    /// Its rows, for whatever takes Arrow streams. A schema that is requested is not looked at: the consumer converts.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let stop = StopFlag::default();
        let reader = InterruptibleReader::new(self.read(py, &stop)?, stop);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Its first rows, as a table.
    #[pyo3(signature = (rows=10))]
    fn head(&self, rows: u64) -> Self {
        let (query, capture, piece) =
            (self.query.clone().limit(rows), self.capture.clone(), self.piece.clone());
        Self { query, capture, piece }
    }

    /// Its rows one by one, each a `dict` of Python objects: for a few, and for whatever knows no Arrow. Everything else is
    /// many times faster.
    fn __iter__(&self, py: Python<'_>) -> PyResult<RowIterator> {
        let stop = StopFlag::default();
        Ok(RowIterator::new(self.read(py, &stop)?, stop))
    }

    fn __repr__(&self) -> String {
        format!("<Table {} of {}: {}>", self.name(), self.capture.name(), self.columns().join(", "))
    }
}

fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(error::failure)?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// Batches that are made on a thread of their own, so that a caller that waits for one can be interrupted.
struct InterruptibleReader {
    schema: SchemaRef,
    batches: Produced<Result<RecordBatch, ArrowError>>,
}

impl InterruptibleReader {
    fn new(reader: Reader, stop: StopFlag) -> Self {
        let schema = reader.schema();
        let batches = Produced::new(AHEAD, stop, move |give| {
            for batch in reader {
                let is_last = batch.is_err();
                if !give(batch) || is_last {
                    break;
                }
            }
        });
        Self { schema, batches }
    }
}

impl Iterator for InterruptibleReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = &self.batches;
        Python::attach(|py| match batches.next(py) {
            Ok(batch) => batch,
            Err(_) => {
                // An Arrow stream has no word for this. It ends here, and Python gets the interrupt as soon as its code runs
                // again, before anybody can look at what was read: an error would meet it on its way.
                let again = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
                again.err().map(|_| Err(ArrowError::ExternalError("interrupted".into())))
            }
        })
    }
}

impl RecordBatchReader for InterruptibleReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
