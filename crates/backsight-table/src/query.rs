//! What is asked for.

#[cfg(feature = "export")]
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use backsight::Capture;
use backsight::moments::Index;

use crate::filter::Filter;
use crate::identity::Guard;
use crate::piece::Piece;
use crate::reader::Batches;
use crate::rows::MOST_BLOCKS;
use crate::table::{Column, Field, Table};
use crate::window::Part;
use crate::{Error, Result};

/// Rows of a batch, if nothing else is said.
const BATCH_ROWS: usize = 1 << 16;

type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// Columns and rows of a table. Nothing is read until [`Query::read`].
#[derive(Clone)]
#[must_use]
pub struct Query {
    pub(crate) table: Table,
    pub(crate) columns: Vec<&'static Column>,
    pub(crate) filter: Option<Filter>,
    pub(crate) limit: Option<u64>,
    pub(crate) until: Option<u64>,
    /// Which part of each source, and the index of the capture that is read.
    pub(crate) part: Option<(Part, Option<Arc<Index>>)>,
    pub(crate) batch_rows: usize,
    pub(crate) buffers: Vec<String>,
    pub(crate) sources: Vec<u8>,
    pub(crate) name: Option<String>,
    pub(crate) progress: Option<Progress>,
    pub(crate) stop: Option<Arc<AtomicBool>>,
    /// Different ranges that are remembered while the table is read.
    pub(crate) most_blocks: usize,
    guard: Option<Guard>,
}

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            table,
            columns,
            filter,
            limit,
            until,
            part,
            batch_rows,
            buffers,
            sources,
            name,
            guard,
            stop,
            progress: _,
            most_blocks: _,
        } = self;
        let columns: Vec<_> = columns.iter().map(|column| column.name).collect();
        f.debug_struct("Query")
            .field("table", table)
            .field("columns", &columns)
            .field("filter", &filter.as_ref().map(Filter::text))
            .field("limit", limit)
            .field("until", until)
            .field("part", part)
            .field("batch_rows", batch_rows)
            .field("buffers", buffers)
            .field("sources", sources)
            .field("name", name)
            .field("guard", guard)
            .field("stop", stop)
            .finish_non_exhaustive()
    }
}

impl Query {
    /// All of a table.
    pub fn new(table: Table) -> Self {
        Self {
            table,
            columns: table.columns().iter().collect(),
            filter: None,
            limit: None,
            until: None,
            part: None,
            batch_rows: BATCH_ROWS,
            buffers: Vec::new(),
            sources: Vec::new(),
            name: None,
            progress: None,
            stop: None,
            most_blocks: MOST_BLOCKS,
            guard: None,
        }
    }

    /// Only these columns, in this order.
    ///
    /// # Errors
    /// If the table has no such column, or one is named twice.
    pub fn columns(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        self.columns.clear();
        for name in names {
            let column = self.table.column(name.as_ref())?;
            if self.columns.contains(&column) {
                return Err(Error::misuse(format!("column `{}` is named twice", column.name)));
            }
            self.columns.push(column);
        }
        Ok(self)
    }

    /// Only rows of which this is true: see [`filter`](crate::filter). A second one replaces the first.
    ///
    /// # Errors
    /// If it cannot be understood.
    pub fn filter(mut self, text: &str) -> Result<Self> {
        self.filter = Some(Filter::parse(self.table, text)?);
        Ok(self)
    }

    /// At most so many rows: the first ones. Of two limits, the lower one holds.
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(self.limit.map_or(rows, |limit| limit.min(rows)));
        self
    }

    /// Reads each source until its first timestamp after this one: what comes later is not decoded. A filter on `time` keeps
    /// the same rows where time never falls, but cannot know that, and reads to the end.
    ///
    /// # Errors
    /// If the table has no times.
    pub fn until(mut self, time: u64) -> Result<Self> {
        if self.table.column("time").is_err() {
            return Err(Error::misuse(format!(
                "table {} has no times: it cannot be read until one",
                self.table
            )));
        }
        self.until = Some(time);
        Ok(self)
    }

    /// Only a part of each source. There is one of every table but `sources`, which is about all of a source. Cycles are counted from its
    /// beginning, calls are those that are seen in it, and damage is that of execution.
    ///
    /// # Errors
    /// If the table has no parts.
    pub fn part(mut self, part: Part) -> Result<Self> {
        if self.table == Table::Sources {
            return Err(Error::misuse(
                "table sources is about whole sources: leave out windows and filters of what was executed",
            ));
        }
        self.part = Some((part, None));
        Ok(self)
    }

    /// The same of a capture that was opened from a place: its index is looked for.
    #[cfg(feature = "export")]
    pub(crate) fn of_capture(mut self, path: &Path, capture: &Capture) -> Self {
        if let Some((part, index)) = &mut self.part {
            *index = (part.index_of)(path, capture);
        }
        self
    }

    /// About so many rows in a batch.
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// Only this buffer. May be said again and again; if it is never said, all are read.
    pub fn buffer(mut self, name: &str) -> Self {
        self.buffers.push(name.to_owned());
        self
    }

    /// Only the source with this trace ID. May be said again and again; if it is never said, all are read.
    pub fn source(mut self, id: u8) -> Self {
        self.sources.push(id);
        self
    }

    /// What stands in the column `capture`; without it, the name of the capture.
    pub fn capture_name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Calls `progress` with the number of bytes of the buffer that were read, again and again.
    pub fn progress(mut self, progress: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Reads no more once this flag is set: by another thread, or by a signal.
    pub fn stop_on(mut self, flag: Arc<AtomicBool>) -> Self {
        self.stop = Some(flag);
        self
    }

    /// Watches over the capture: if it has changed since the guard was made, or changes while it is read, that is an error.
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guard = Some(guard);
        self
    }

    /// The table.
    pub fn table(&self) -> Table {
        self.table
    }

    /// The columns that come out, in their order.
    pub fn chosen(&self) -> &[&'static Column] {
        &self.columns
    }

    /// Reads it from a capture: decoding begins, on a thread of its own.
    ///
    /// # Errors
    /// If the capture has no such buffer or source, its code cannot be read, or it has changed.
    pub fn read(&self, capture: &Capture) -> Result<Batches> {
        self.check(capture)?;
        self.guard.iter().try_for_each(Guard::check)?;
        Batches::new(self.clone(), capture.clone(), None, self.guard.clone())
    }

    /// Reads it from a piece of a capture, which was opened from [`Piece::capture`].
    ///
    /// # Errors
    /// If the capture is not what it was when the piece was planned, or the table cannot be read from the piece.
    pub fn read_piece(&self, capture: &Capture, piece: &Piece) -> Result<Batches> {
        if piece.is_cut() && !self.table.is_cut() {
            let table = self.table;
            return Err(Error::misuse(format!(
                "table {table} cannot be read from a piece of a source: plan pieces for that table"
            )));
        }
        let guard = piece.guard()?;
        self.check(capture)?;
        Batches::new(self.clone(), capture.clone(), Some(piece.clone()), Some(guard))
    }

    /// Fields of the columns that are looked at, chosen or filtered by.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let filtered = self.filter.iter().flat_map(|filter| &filter.columns);
        self.columns.iter().chain(filtered).map(|column| column.field).collect()
    }

    pub(crate) fn wants_buffer(&self, name: &str) -> bool {
        self.buffers.is_empty() || self.buffers.iter().any(|buffer| buffer == name)
    }

    pub(crate) fn wants_source(&self, id: u8) -> bool {
        self.sources.is_empty() || self.sources.contains(&id)
    }

    /// May a piece have rows? Those about a buffer as a whole are about none of its sources.
    #[cfg(feature = "export")]
    pub(crate) fn wants(&self, piece: &Piece) -> bool {
        let wants_source = piece.source.map_or(self.sources.is_empty(), |id| self.wants_source(id));
        wants_source && self.wants_buffer(&piece.buffer)
    }

    fn check(&self, capture: &Capture) -> Result {
        if let Some(name) = self.buffers.iter().find(|name| capture.buffer(name).is_none()) {
            let known: Vec<_> = capture.buffers().iter().map(|buffer| buffer.name()).collect();
            return Err(Error::misuse(format!("buffer {name}: the capture has {}", known.join(", "))));
        }
        Ok(())
    }
}
