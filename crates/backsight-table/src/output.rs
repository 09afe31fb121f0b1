//! Rows on their way into batches: filtered, cut to the columns that were asked for, and handed over.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use crate::Result;
use crate::data::{ColumnData, FinishedColumn, Layout};
use crate::filter::{Cell, Cells, Filter};
use crate::gather::{Gathered, place_of_state};
use crate::query::Query;
use crate::reader::Batch;
use crate::rows::{Block, OfSource, Ranges, Rows};
use crate::shape::{Shape, Spare};
use crate::table::{Column, Field};
use crate::texts::{Dictionary, Texts};

/// Bytes of texts in a column after which a batch is handed over, however few rows it has.
const MOST_LONG_BYTES: usize = 1 << 25;

/// A column that was asked for.
struct Chosen {
    column: &'static Column,
    data: ColumnData,
    dictionary: Dictionary,
    /// What it says of blocks, by number, as far as they have been looked at.
    of_blocks: Option<Arc<FinishedColumn>>,
}

impl Chosen {
    /// What it says of blocks, some of which may be new.
    fn of_blocks(
        &mut self,
        table: &mut Ranges<'_>,
        blocks: &[Block],
        texts: &mut Texts,
    ) -> Arc<FinishedColumn> {
        let Self { column, data, dictionary, of_blocks } = self;
        let known = of_blocks.as_ref().map_or(0, |known| known.len());
        if let Some(new) = blocks.get(known..).filter(|new| !new.is_empty()) {
            table.fill_blocks(column.field, new.iter(), data, texts);
            let new = data.finish(Layout::Blocks, dictionary, texts);
            match of_blocks {
                Some(known) => Arc::make_mut(known).append(new),
                None => *of_blocks = Some(Arc::new(new)),
            }
        }
        let finished =
            of_blocks.get_or_insert_with(|| Arc::new(data.finish(Layout::Blocks, dictionary, texts)));
        if !finished.has_texts(&dictionary.values()) {
            // A dictionary never gets shorter again, wherever its last texts came from.
            Arc::make_mut(finished).set_texts(dictionary.values());
        }
        finished.clone()
    }
}

/// Puts batches together.
pub(crate) struct Output {
    chosen: Vec<Chosen>,
    filter: Option<(Filter, Vec<ColumnData>)>,
    remaining: u64,
    batch_rows: usize,
    /// Rows of the batch.
    rows: usize,
    pub texts: Texts,
    sender: SyncSender<Result<Batch>>,
    spare: Spare,
}

/// A row, as a filter sees it.
struct Row<'a> {
    columns: &'a [ColumnData],
    row: usize,
    texts: &'a Texts,
}

impl Cells for Row<'_> {
    fn cell(&self, column: usize) -> Cell<'_> {
        self.columns.get(column).map_or(Cell::Null, |data| data.cell(self.row, self.texts))
    }
}

/// What is known of all rows of a source, as a filter sees it.
struct KnownOfSource<'a> {
    columns: &'a [Option<ColumnData>],
    texts: &'a Texts,
}

impl Cells for KnownOfSource<'_> {
    fn cell(&self, column: usize) -> Cell<'_> {
        match self.columns.get(column) {
            Some(Some(data)) => data.cell(0, self.texts),
            _ => Cell::Unknown,
        }
    }
}

impl Output {
    pub fn new(query: &Query, sender: SyncSender<Result<Batch>>, spare: Spare) -> Self {
        let chosen = |column: &&'static Column| Chosen {
            column,
            data: ColumnData::new(column.kind),
            dictionary: Dictionary::default(),
            of_blocks: None,
        };
        let scratch =
            |filter: &Filter| filter.columns.iter().map(|column| ColumnData::new(column.kind)).collect();
        Self {
            chosen: query.columns.iter().map(chosen).collect(),
            filter: query.filter.clone().map(|filter| (filter.clone(), scratch(&filter))),
            remaining: query.limit.unwrap_or(u64::MAX),
            batch_rows: query.batch_rows,
            rows: 0,
            texts: Texts::default(),
            sender,
            spare,
        }
    }

    /// How many rows a batch has, about.
    pub fn batch_rows(&self) -> usize {
        self.batch_rows
    }

    /// How many rows are wanted, at most.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Are no more rows wanted?
    pub fn is_full(&self) -> bool {
        self.remaining == 0
    }

    /// May rows of a source be wanted?
    pub fn may_want(&self, source: &OfSource) -> bool {
        let Some((filter, _)) = &self.filter else { return true };
        let known = |column: &&'static Column| {
            let mut data = ColumnData::new(column.kind);
            source.fill(column.field, 1, &mut data).then_some(data)
        };
        let columns: Vec<_> = filter.columns.iter().map(known).collect();
        filter.holds(&KnownOfSource { columns: &columns, texts: &self.texts }) != Some(false)
    }

    /// Takes the rows that were gathered. A break means that no more are wanted.
    pub fn take<T: Rows>(&mut self, table: &mut T, rows: &mut Vec<T::Row>) -> ControlFlow<()> {
        let Self { chosen, filter, remaining, texts, .. } = self;
        if let Some((filter, columns)) = filter {
            for (column, data) in filter.columns.iter().zip(columns.iter_mut()) {
                data.clear();
                table.fill(column.field, rows, data, texts);
            }
            let mut row = 0;
            rows.retain(|_| {
                let holds = filter.holds(&Row { columns: columns.as_slice(), row, texts: &*texts });
                row += 1;
                holds == Some(true)
            });
        }
        rows.truncate(usize::try_from(*remaining).unwrap_or(usize::MAX));
        *remaining -= rows.len() as u64;
        self.rows += rows.len();
        if !rows.is_empty() {
            for Chosen { column, data, .. } in chosen.iter_mut() {
                table.fill(column.field, rows, data, texts);
                debug_assert_eq!(data.len(), self.rows, "{}", column.name);
            }
        }
        rows.clear();
        table.clear();
        let is_long = self.chosen.iter().any(|chosen| chosen.data.long_bytes() >= MOST_LONG_BYTES);
        if self.rows >= self.batch_rows || is_long {
            self.send()?;
        }
        if self.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Hands over what there is.
    pub fn send(&mut self) -> ControlFlow<()> {
        if self.rows == 0 {
            return ControlFlow::Continue(());
        }
        let Self { chosen, texts, rows, sender, .. } = self;
        let finish = |Chosen { data, dictionary, .. }: &mut Chosen| {
            Arc::new(data.finish(Layout::Rows, dictionary, texts))
        };
        let (columns, rows) = (chosen.iter_mut().map(finish).collect(), std::mem::take(rows));
        let batch = Batch { columns, rows, shape: Shape::default() };
        if sender.send(Ok(batch)).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Numbers of blocks begin again.
    pub fn forget_blocks(&mut self) {
        self.chosen.iter_mut().for_each(|chosen| chosen.of_blocks = None);
    }

    /// Hands over rows that were gathered, after what there is. A break means that no more are wanted.
    pub fn send_gathered(
        &mut self,
        table: &mut Ranges<'_>,
        blocks: &[Block],
        gathered: &mut Gathered,
    ) -> ControlFlow<()> {
        self.send()?;
        let Self { chosen, texts, sender, spare, .. } = self;
        let rows = gathered.blocks.len();
        if rows == 0 {
            return ControlFlow::Continue(());
        }
        let mut finish = |chosen: &mut Chosen| {
            let layout = Ranges::layout(chosen.column.field);
            if layout == Layout::Blocks {
                return chosen.of_blocks(table, blocks, texts);
            }
            let Chosen { column, data, dictionary, .. } = chosen;
            match layout {
                Layout::Rows => {
                    let offsets = || gathered.offsets.clone();
                    let steps =
                        if column.field == Field::Position { gathered.positions() } else { offsets() };
                    return Arc::new(FinishedColumn::of_steps(steps));
                }
                Layout::States => {
                    let states = gathered.states.iter().map(place_of_state);
                    table.fill_places(column.field, states, data, texts);
                }
                _ => table.fill_once(column.field, 1, data),
            }
            Arc::new(data.finish(layout, dictionary, texts))
        };
        let columns = chosen.iter_mut().map(&mut finish).collect();
        let room = spare.take(gathered.blocks.capacity());
        let blocks = std::mem::replace(&mut gathered.blocks, room);
        let states = gathered.states.iter().map(|(first, _)| *first).collect();
        let shape = Shape { blocks, states };
        self.remaining = self.remaining.saturating_sub(rows as u64);
        match sender.send(Ok(Batch { columns, rows, shape })) {
            Ok(()) if !self.is_full() => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    /// Hands over what went wrong.
    pub fn fail(self, error: crate::Error) {
        // A receiver that does not take it has gone.
        let _ = self.sender.send(Err(error));
    }
}
