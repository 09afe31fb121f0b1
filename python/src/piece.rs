//! Pieces of captures, which can be read anywhere.

use std::path::PathBuf;
use std::sync::Arc;

use backsight::OpenOptions;
use backsight_table::{Piece, PlanOptions, Wanted, plan};
use pyo3::prelude::*;

use crate::background::{self, StopFlag};
use crate::capture::CaptureObject;
use crate::error;
use crate::profile::ProfileObject;
use crate::table::{TableObject, query};

/// Plans the pieces of a capture for a table, or for "profile": a list of `Piece`. Rows of the pieces, one after the other, are
/// the rows of the capture; profiles of the pieces, merged, are its profile. Long sources are cut into pieces of about `size`
/// bytes where that is possible; to find out where, they are decoded once.
#[pyfunction]
#[pyo3(signature = (capture, table="ranges", *, size=None))]
pub fn pieces(
    py: Python<'_>,
    capture: &CaptureObject,
    table: &str,
    size: Option<usize>,
) -> PyResult<Vec<PieceObject>> {
    let wanted = table.parse::<Wanted>().map_err(|error| error::of_table(&error))?;
    let mut options = PlanOptions::default();
    if let Some(size) = size {
        if size == 0 {
            return Err(error::usage("size: a piece has at least one byte"));
        }
        options.bytes = size;
    }
    let (opened, path) = (capture.capture.clone(), capture.path());
    let planned = background::run(py, &StopFlag::default(), move || plan(wanted, &opened, &path, options))?;
    let planned = planned.map_err(|error| error::of_table(&error))?;
    Ok(planned.into_iter().map(|piece| PieceObject(Arc::new(piece))).collect())
}

/// A piece of a capture: a source, or the span of it between two cuts, or what there is to say of a buffer as a whole. It can
/// be read anywhere, and carried there as JSON.
#[pyclass(frozen, module = "backsight", name = "Piece")]
pub struct PieceObject(Arc<Piece>);

#[pymethods]
impl PieceObject {
    /// The piece that `to_json` wrote.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let piece = Piece::from_json(text).map_err(|error| error::of_table(&error))?;
        Ok(Self(Arc::new(piece)))
    }

    /// All of it, as a JSON object.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// Where the capture is.
    #[getter]
    fn capture(&self) -> PathBuf {
        self.0.capture.clone()
    }

    /// What the capture is called: the column `capture`, wherever the capture lies.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The same piece of a capture that is called something else.
    fn named(&self, name: &str) -> Self {
        Self(Arc::new(Piece::clone(&self.0).named(name)))
    }

    /// The name of the buffer.
    #[getter]
    fn buffer(&self) -> &str {
        &self.0.buffer
    }

    /// The trace ID of the source; `None`: the buffer as a whole.
    #[getter]
    fn source(&self) -> Option<u8> {
        self.0.source
    }

    /// The rows of a table in this piece; arguments as in `Capture.table`. `capture` is the capture, where it was opened
    /// already, with images, or lies elsewhere on this machine.
    #[pyo3(signature = (name, columns=None, r#where=None, limit=None, *, until=None, capture=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        columns: Option<Vec<String>>,
        r#where: Option<&str>,
        limit: Option<u64>,
        until: Option<u64>,
        capture: Option<&CaptureObject>,
    ) -> PyResult<TableObject> {
        let query = query(name, columns, r#where, limit, until)?;
        let (capture, piece) = self.opened(py, capture)?;
        Ok(TableObject::new(query, capture, None).of_piece(piece))
    }

    /// Counts what was executed in this piece, which was planned for "profile" unless it is all of a source: calls and edges
    /// lead from one piece of a source to the next. Profiles of all pieces, merged in whatever order, are that of the capture.
    #[pyo3(signature = (*, capture=None))]
    fn profile(&self, py: Python<'_>, capture: Option<&CaptureObject>) -> PyResult<ProfileObject> {
        let (capture, piece) = self.opened(py, capture)?;
        let (title, stop) = (piece.name.clone(), StopFlag::default());
        let flag = stop.shared();
        let counted = background::run(py, &stop, move || piece.profile(&capture, Some(flag)))?;
        Ok(ProfileObject::new(counted.map_err(|error| error::of_table(&error))?, title))
    }

    fn __repr__(&self) -> String {
        let Piece { capture, buffer, source, start, end, .. } = self.0.as_ref();
        let start = start.map_or(0, |cut| cut.offset);
        let end = end.map_or_else(String::new, |end| end.to_string());
        let source =
            source.map_or_else(String::new, |source| format!(", source {source:#04x}, {start}..{end}"));
        format!("<Piece of {capture:?}: buffer {buffer}{source}>")
    }
}

impl PieceObject {
    /// The capture, and the piece as it lies there.
    fn opened(
        &self,
        py: Python<'_>,
        capture: Option<&CaptureObject>,
    ) -> PyResult<(backsight::Capture, Arc<Piece>)> {
        let piece = Arc::clone(&self.0);
        let Some(given) = capture else {
            let own = Arc::clone(&piece);
            let opened = background::run(py, &StopFlag::default(), move || own.open(OpenOptions::new()))?;
            return Ok((opened.map_err(|error| error::of_table(&error))?, piece));
        };
        let piece = if piece.capture == given.path() {
            piece
        } else {
            Arc::new(Piece::clone(&piece).at(given.path()))
        };
        Ok((given.capture.clone(), piece))
    }
}
