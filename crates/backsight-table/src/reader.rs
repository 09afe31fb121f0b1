//! Batches, read by a decoder that runs ahead.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use backsight::Capture;

use crate::data::FinishedColumn;
use crate::decode::decode;
use crate::identity::Guard;
use crate::output::Output;
use crate::piece::Piece;
use crate::query::Query;
use crate::shape::{Shape, Spare};
use crate::table::Column;
use crate::{Error, Result};

/// Batches that may wait to be taken.
const WAITING: usize = 2;

/// Some rows of a table.
#[derive(Debug)]
pub struct Batch {
    /// Those of blocks are shared from batch to batch.
    #[cfg_attr(not(feature = "arrow"), allow(dead_code, reason = "only builds with Arrow look into them"))]
    pub(crate) columns: Vec<Arc<FinishedColumn>>,
    pub(crate) rows: usize,
    #[cfg_attr(not(feature = "arrow"), allow(dead_code, reason = "likewise"))]
    pub(crate) shape: Shape,
}

impl Batch {
    /// Are columns laid out by blocks and states?
    #[cfg(feature = "export")]
    pub(crate) fn is_gathered(&self) -> bool {
        !self.shape.blocks.is_empty()
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

/// The batches of a query. An error is the last item. If it is dropped before the end, the decoder stops.
pub struct Batches {
    columns: Vec<&'static Column>,
    batches: Option<Receiver<Result<Batch>>>,
    #[cfg_attr(not(feature = "arrow"), allow(dead_code, reason = "likewise"))]
    pub(crate) spare: Spare,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.columns.iter().map(|column| column.name).collect();
        f.debug_struct("Batches").field("columns", &names).finish_non_exhaustive()
    }
}

impl Batches {
    pub(crate) fn new(
        query: Query,
        capture: Capture,
        piece: Option<Piece>,
        guard: Option<Guard>,
    ) -> Result<Self> {
        let columns = query.columns.clone();
        let (sender, batches) = sync_channel(WAITING);
        let spare = Spare::default();
        let of_decoder = spare.clone();
        let run = move || {
            let mut output = Output::new(&query, sender, of_decoder);
            let outcome = decode(&query, &capture, piece.as_ref(), &mut output);
            let _ = output.send();
            match outcome.and_then(|()| guard.map_or(Ok(()), |guard| guard.check())) {
                Ok(()) => {}
                Err(error) => output.fail(error),
            }
        };
        let builder = std::thread::Builder::new().name("backsight-table".to_owned());
        let thread =
            builder.spawn(run).map_err(|error| Error::File(format!("a thread for decoding: {error}")))?;
        Ok(Self { columns, batches: Some(batches), spare, thread: Some(thread) })
    }

    /// The columns of the batches.
    pub fn columns(&self) -> &[&'static Column] {
        &self.columns
    }

    fn join(&mut self) {
        self.batches = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Iterator for Batches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.batches.as_ref()?.recv().ok();
        if next.is_none() {
            self.join();
        }
        next
    }
}

impl FusedIterator for Batches {}

impl Drop for Batches {
    fn drop(&mut self) {
        self.join();
    }
}
