//! A filter over ranges that were gathered: asked once for each block, where nothing else decides.

use crate::data::{ColumnData, Layout};
use crate::filter::{Cell, Cells, Filter};
use crate::gather::{Gathered, number_of_run, place_of_state};
use crate::rows::{Block, Ranges};
use crate::texts::Texts;

/// A filter over rows that were gathered.
pub(crate) struct BlockFilter {
    filter: Filter,
    /// The columns that it looks at, with what decides their values: those of blocks by number.
    columns: Vec<(Layout, ColumnData)>,
    /// Nothing but its block decides about a row.
    is_by_block: bool,
    /// Of blocks, by number, if nothing else decides: are their rows wanted?
    wanted: Vec<bool>,
    /// Blocks whose columns are filled.
    known: usize,
}

/// A row, as a filter sees it.
struct RowCells<'a> {
    columns: &'a [(Layout, ColumnData)],
    block: usize,
    row: usize,
    state: usize,
    texts: &'a Texts,
}

impl Cells for RowCells<'_> {
    fn cell(&self, column: usize) -> Cell<'_> {
        let Some((layout, data)) = self.columns.get(column) else { return Cell::Null };
        let index = match layout {
            Layout::Blocks => self.block,
            Layout::Rows => self.row,
            Layout::States => self.state,
            Layout::Once => 0,
        };
        data.cell(index, self.texts)
    }
}

impl BlockFilter {
    pub fn new(filter: Filter) -> Self {
        let column =
            |column: &&'static crate::Column| (Ranges::layout(column.field), ColumnData::new(column.kind));
        let columns: Vec<_> = filter.columns.iter().map(column).collect();
        let is_by_block = columns.iter().all(|(layout, _)| !matches!(layout, Layout::Rows | Layout::States));
        Self { filter, columns, is_by_block, wanted: Vec::new(), known: 0 }
    }

    /// Numbers of blocks begin again.
    pub fn forget(&mut self) {
        self.columns.iter_mut().for_each(|(_, data)| data.clear());
        self.wanted.clear();
        self.known = 0;
    }

    /// Looks at blocks that are new.
    pub fn learn(&mut self, table: &mut Ranges<'_>, blocks: &[Block], texts: &mut Texts) {
        let Self { filter, columns, is_by_block, wanted, known } = self;
        let new = blocks.get(*known..).unwrap_or_default();
        for (column, (layout, data)) in filter.columns.iter().zip(columns.iter_mut()) {
            match layout {
                Layout::Once if data.len() == 0 => table.fill_once(column.field, 1, data),
                Layout::Blocks => table.fill_blocks(column.field, new.iter(), data, texts),
                _ => {}
            }
        }
        if *is_by_block {
            let holds = |block| {
                let cells = RowCells { columns: columns.as_slice(), block, row: 0, state: 0, texts: &*texts };
                filter.holds(&cells) == Some(true)
            };
            wanted.extend((*known..blocks.len()).map(holds));
        }
        *known = blocks.len();
    }

    /// Keeps those rows from this one on that are wanted.
    pub fn sift(&mut self, table: &Ranges<'_>, rows: &mut Gathered, from: usize, texts: &mut Texts) {
        let Self { filter, columns, is_by_block, wanted, .. } = self;
        let blocks = rows.blocks.get(from..).unwrap_or_default();
        if *is_by_block {
            let keep: Vec<_> =
                blocks.iter().map(|&block| wanted.get(block as usize) == Some(&true)).collect();
            return rows.retain(from, &keep);
        }
        let first_state = number_of_run(&rows.states, from);
        let (places, states) = (rows.places_from(from), rows.states.get(first_state..).unwrap_or_default());
        for (column, (layout, data)) in filter.columns.iter().zip(columns.iter_mut()) {
            match layout {
                Layout::Rows => {
                    data.clear();
                    table.fill_places(column.field, places.iter().copied(), data, texts);
                }
                Layout::States => {
                    data.clear();
                    table.fill_places(column.field, states.iter().map(place_of_state), data, texts);
                }
                Layout::Once | Layout::Blocks => {}
            }
        }
        let mut state = 0;
        let mut holds = |(row, &block): (usize, &u32)| {
            while states.get(state + 1).is_some_and(|(first, _)| *first as usize <= row) {
                state += 1;
            }
            let (block, row) = (block as usize, row - from);
            let cells = RowCells { columns: columns.as_slice(), block, row, state, texts: &*texts };
            filter.holds(&cells) == Some(true)
        };
        let keep: Vec<_> = (from..).zip(blocks).map(&mut holds).collect();
        rows.retain(from, &keep);
    }
}
