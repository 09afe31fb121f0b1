//! Rows of tables as Python objects: for a look at a few, and for whatever knows no Arrow.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use backsight_table::Result;
use backsight_table::arrow::Reader;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::background::{Produced, StopFlag};
use crate::error;

/// Batches that may wait until the rows are taken.
const AHEAD: usize = 1;

/// The rows of a table, each a `dict`.
#[pyclass(module = "backsight", name = "RowIterator")]
pub struct RowIterator {
    batches: Produced<Result<RecordBatch>>,
    /// What the rows come from at the moment, and how many of it are gone.
    batch: Option<(RecordBatch, usize)>,
}

impl RowIterator {
    pub fn new(mut reader: Reader, stop: StopFlag) -> Self {
        let batches = Produced::new(AHEAD, stop, move |give| {
            while let Some(batch) = reader.try_next() {
                let is_last = batch.is_err();
                if !give(batch) || is_last {
                    break;
                }
            }
        });
        Self { batches, batch: None }
    }
}

#[pymethods]
impl RowIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        loop {
            if let Some((batch, row)) = &mut self.batch
                && *row < batch.num_rows()
            {
                let object = row_object(py, batch, *row)?;
                *row += 1;
                return Ok(Some(object));
            }
            match self.batches.next(py)? {
                Some(batch) => self.batch = Some((batch.map_err(|error| error::of_table(&error))?, 0)),
                None => return Ok(None),
            }
        }
    }
}

fn row_object<'py>(py: Python<'py>, batch: &RecordBatch, row: usize) -> PyResult<Bound<'py, PyDict>> {
    let object = PyDict::new(py);
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        object.set_item(field.name(), cell(py, column, row)?)?;
    }
    Ok(object)
}

/// A value of a column, of one of the types that columns of tables have.
fn cell<'py>(py: Python<'py>, column: &dyn Array, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if column.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    match column.data_type() {
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into_bound_py_any(py),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).into_bound_py_any(py),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into_bound_py_any(py),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into_bound_py_any(py),
        DataType::Boolean => column.as_boolean().value(row).into_bound_py_any(py),
        DataType::Utf8 => column.as_string::<i32>().value(row).into_bound_py_any(py),
        DataType::Binary => Ok(PyBytes::new(py, column.as_binary::<i32>().value(row)).into_any()),
        DataType::Dictionary(..) => {
            let column = column.as_dictionary::<Int32Type>();
            cell(py, column.values(), column.key(row).unwrap_or_default())
        }
        other => Err(error::failure(format!("internal error: a column of type {other}"))),
    }
}
