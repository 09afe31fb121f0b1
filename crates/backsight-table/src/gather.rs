//! Ranges on their way into batches: as numbers of blocks, and as runs of rows that were reported in one place.
//!
//! There are many ranges, and few different ones. A row is the code of its block; columns are computed once for each block of
//! a batch, and once for each place that rows were reported in. Whoever takes the batch expands them, or writes them as they
//! are.

use std::ops::ControlFlow;

use backsight::decode::Accumulate;
use backsight::flow::{PathId, Range};
use backsight::image::Window;
use backsight::{Event, Item};

use crate::data::{ColumnData, Layout};
use crate::filter::{Cell, Cells, Filter};
use crate::output::Output;
use crate::query::Query;
use crate::rows::{Block, Blocks, Place, RangeRow, Ranges};
use crate::table::Field;
use crate::texts::Texts;
use crate::tracker::Until;

/// Rows after which a filter is asked.
const CHUNK: usize = 4096;

/// Rows that were gathered.
#[derive(Default)]
pub(crate) struct Gathered {
    /// The code of the block of each row.
    pub codes: Vec<u32>,
    /// Where rows were reported, with the first row of each place; none if nobody asks.
    pub places: Vec<(u32, Place)>,
    /// The same by what held there.
    pub states: Vec<(u32, Place)>,
}

impl Gathered {
    fn truncate(&mut self, rows: usize) {
        self.codes.truncate(rows);
        for runs in [&mut self.places, &mut self.states] {
            let kept = runs.partition_point(|(first, _)| (*first as usize) < rows);
            runs.truncate(kept);
        }
    }

    fn clear(&mut self) {
        self.codes.clear();
        self.places.clear();
        self.states.clear();
    }

    /// Keeps some of the rows from this one on.
    fn retain(&mut self, from: usize, keep: &[bool]) {
        for runs in [&mut self.places, &mut self.states] {
            retain_runs(runs, from, keep);
        }
        let mut row = 0;
        self.codes.retain(|_| {
            row += 1;
            row <= from || keep.get(row - 1 - from) == Some(&true)
        });
    }
}

/// The number of the run that a row is in.
fn run_of(runs: &[(u32, Place)], row: usize) -> usize {
    runs.partition_point(|(first, _)| *first as usize <= row).saturating_sub(1)
}

/// Keeps the runs of some of the rows from this one on.
fn retain_runs(runs: &mut Vec<(u32, Place)>, from: usize, keep: &[bool]) {
    let before = runs.partition_point(|(first, _)| (*first as usize) < from);
    let mut kept: Vec<(u32, Place)> = Vec::new();
    let (mut row, mut next) = (from, from as u32);
    for (number, &(first, place)) in runs.iter().enumerate().skip(before) {
        // Rows before this one go on with a run that has begun before.
        next += keep[row - from..first as usize - from].iter().filter(|keep| **keep).count() as u32;
        row = first as usize;
        let end = runs.get(number + 1).map_or(from + keep.len(), |(end, _)| *end as usize);
        if keep[row - from..end - from].contains(&true) {
            kept.push((next, place));
        }
    }
    runs.truncate(before);
    runs.append(&mut kept);
}

/// Gathers the ranges of a source.
pub(crate) struct Gathering<'q, 'c> {
    table: Ranges<'c>,
    output: &'q mut Output,
    until: Until,
    blocks: Blocks,
    rows: Gathered,
    /// How many of the rows the filter has seen.
    seen: usize,
    /// Rows with which something has to be done.
    enough: usize,
    filter: Option<BlockFilter>,
    /// Which places are told apart.
    wants: Wants,
    outcome: ControlFlow<()>,
}

/// What somebody asks for.
#[derive(Clone, Copy)]
struct Wants {
    places: bool,
    positions: bool,
    states: bool,
}

impl<'q, 'c> Gathering<'q, 'c> {
    pub fn new(table: Ranges<'c>, query: &Query, output: &'q mut Output) -> Self {
        let fields = query.fields();
        let wants = Wants {
            places: fields.iter().any(|&field| Ranges::layout(field) == Layout::Places),
            positions: fields.contains(&Field::Position),
            states: fields.iter().any(|&field| Ranges::layout(field) == Layout::States),
        };
        let filter = query.filter.clone().map(BlockFilter::new);
        let (blocks, rows, seen) = Default::default();
        let (until, outcome) = (Until::new(query.until), ControlFlow::Continue(()));
        let mut gathering =
            Self { table, output, until, blocks, rows, seen, enough: 0, filter, wants, outcome };
        gathering.set_enough();
        gathering
    }

    /// The source ends: gives what is left. A break means that no more rows are wanted of any source.
    pub fn finish(mut self) -> ControlFlow<()> {
        self.flush();
        self.outcome
    }

    fn set_enough(&mut self) {
        self.enough = self.output.batch_rows();
        match self.filter {
            Some(_) => self.enough = self.enough.min(self.seen + CHUNK),
            None => {
                self.enough = self.enough.min(usize::try_from(self.output.remaining()).unwrap_or(usize::MAX))
            }
        }
    }

    /// From this row on, what holds now may be something else than before.
    #[inline(always)]
    fn state(&mut self, row: usize) {
        if self.wants.states {
            let state = self.table.tracker.index();
            if self.rows.states.last().is_none_or(|(_, last)| last.state != state) {
                self.rows.states.push((row as u32, Place { offset: 0, position: 0, state }));
            }
        }
    }

    /// A row is reported here.
    #[inline(always)]
    fn place(&mut self, row: usize, item: &Item<'_, Event>) {
        let offset = item.offset;
        if self.rows.places.last().is_none_or(|(_, last)| last.offset != offset) {
            let position = if self.wants.positions { item.position().unwrap_or(offset) } else { 0 };
            self.rows.places.push((row as u32, Place { offset, position, state: 0 }));
        }
    }

    /// A path comes for the first time.
    #[inline(never)]
    fn learn(&mut self, path: PathId, items: &mut dyn Iterator<Item = Item<'_, Event>>) {
        let mut ranges: Vec<Range> = Vec::new();
        for item in items {
            if let Event::Range(range) = item.value {
                if self.wants.places {
                    self.place(self.rows.codes.len() + ranges.len(), &item);
                }
                ranges.push(range);
            }
        }
        let space = self.table.tracker.now().space;
        match self.blocks.learn(path, space, &ranges) {
            Some(steps) => self.blocks.append(steps, &mut self.rows.codes),
            None => {
                let code = |range| self.blocks.code(Block { space, range });
                self.rows.codes.extend(ranges.into_iter().map(code));
            }
        }
        self.look();
    }

    #[inline(always)]
    fn look(&mut self) {
        if self.rows.codes.len() >= self.enough {
            self.hand_on();
        }
    }

    /// There are enough rows for something.
    #[inline(never)]
    fn hand_on(&mut self) {
        self.sift();
        let rows = self.rows.codes.len();
        if rows >= self.output.batch_rows() || rows as u64 >= self.output.remaining() {
            self.send();
        }
        self.set_enough();
    }

    /// Drops rows that are not wanted.
    fn sift(&mut self) {
        let Self { table, output, blocks, rows, seen, filter, .. } = self;
        if let Some(filter) = filter {
            filter.learn(table, blocks.of_batch(), &mut output.texts);
            filter.sift(table, rows, *seen, &mut output.texts);
        }
        rows.truncate(usize::try_from(output.remaining()).unwrap_or(usize::MAX));
        *seen = rows.codes.len();
    }

    /// Gives the rows as a batch.
    fn send(&mut self) {
        let Self { table, output, blocks, rows, .. } = self;
        self.outcome = output.send_gathered(table, blocks.of_batch(), rows);
        self.begin_batch();
    }

    fn begin_batch(&mut self) {
        self.rows.clear();
        self.seen = 0;
        self.blocks.begin_batch();
        self.filter.iter_mut().for_each(BlockFilter::forget);
        crate::rows::Rows::clear(&mut self.table);
    }

    /// Gives what there is: a few rows among those of other sources.
    fn flush(&mut self) {
        if self.outcome.is_break() {
            return;
        }
        self.sift();
        if self.rows.codes.len() >= self.output.batch_rows() / 4 {
            self.send();
        } else {
            let Self { blocks, rows, .. } = self;
            let (mut places, mut states) = (rows.places.iter().peekable(), rows.states.iter().peekable());
            let mut place = Place { offset: 0, position: 0, state: 0 };
            let mut plain = Vec::with_capacity(rows.codes.len());
            for (row, &code) in rows.codes.iter().enumerate() {
                if let Some((_, next)) = places.next_if(|(first, _)| *first as usize == row) {
                    place = Place { state: place.state, ..*next };
                }
                if let Some((_, next)) = states.next_if(|(first, _)| *first as usize == row) {
                    place.state = next.state;
                }
                plain.extend(blocks.of_batch().get(code as usize).map(|&block| RangeRow { block, place }));
            }
            self.outcome = self.output.take(&mut self.table, &mut plain);
            self.begin_batch();
        }
        self.set_enough();
    }
}

impl Accumulate<Event> for Gathering<'_, '_> {
    #[inline(always)]
    fn has_enough(&self) -> bool {
        self.until.is_passed || self.outcome.is_break()
    }

    #[inline(always)]
    fn item(&mut self, item: Item<'_, Event>) {
        self.table.tracker.turn_to(item.sub_source);
        let Event::Range(range) = item.value else {
            if !self.until.passes(&item.value) {
                self.table.tracker.event(&item.value, &self.table.names.code);
            }
            return;
        };
        let row = self.rows.codes.len();
        self.state(row);
        if self.wants.places {
            self.place(row, &item);
        }
        let space = self.table.tracker.now().space;
        let code = self.blocks.code(Block { space, range });
        self.rows.codes.push(code);
        self.look();
    }

    /// Rows that were gathered are named by the code of their time.
    fn enter(&mut self, window: Window) {
        let mut code = self.table.names.code;
        if !code.enter(window).is_empty() {
            self.flush();
            self.table.names.forget();
            self.blocks.forget();
        }
        self.table.names.code = code;
        self.table.tracker.renew_spaces(&code);
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, sub_source: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        self.table.tracker.turn_to(sub_source);
        self.state(self.rows.codes.len());
        let space = self.table.tracker.now().space;
        let Some(steps) = self.blocks.path(path, space) else {
            let mut items = items;
            return self.learn(path, &mut items);
        };
        let first = self.rows.codes.len();
        self.blocks.append(steps, &mut self.rows.codes);
        if self.wants.places {
            for (row, item) in (first..).zip(items) {
                self.place(row, &item);
            }
        }
        self.look();
    }
}

/// A filter over rows that were gathered.
struct BlockFilter {
    filter: Filter,
    /// The columns that it looks at, with what decides their values: those of blocks by code.
    columns: Vec<(Layout, ColumnData)>,
    /// Nothing but its block decides about a row.
    is_by_block: bool,
    /// Of blocks, by code, if nothing else decides: are their rows wanted?
    wanted: Vec<bool>,
    /// Blocks whose columns are filled.
    known: usize,
}

/// A row, as a filter sees it.
struct RowCells<'a> {
    columns: &'a [(Layout, ColumnData)],
    code: usize,
    place: usize,
    state: usize,
    texts: &'a Texts,
}

impl Cells for RowCells<'_> {
    fn cell(&self, column: usize) -> Cell<'_> {
        let Some((layout, data)) = self.columns.get(column) else { return Cell::Null };
        let index = match layout {
            Layout::Blocks => self.code,
            Layout::Places => self.place,
            Layout::States => self.state,
            Layout::Once | Layout::Rows => 0,
        };
        data.cell(index, self.texts)
    }
}

impl BlockFilter {
    fn new(filter: Filter) -> Self {
        let column =
            |column: &&'static crate::Column| (Ranges::layout(column.field), ColumnData::new(column.kind));
        let columns: Vec<_> = filter.columns.iter().map(column).collect();
        let is_by_block =
            columns.iter().all(|(layout, _)| !matches!(layout, Layout::Places | Layout::States));
        Self { filter, columns, is_by_block, wanted: Vec::new(), known: 0 }
    }

    /// Another batch begins.
    fn forget(&mut self) {
        self.columns.iter_mut().for_each(|(_, data)| data.clear());
        self.wanted.clear();
        self.known = 0;
    }

    /// Looks at blocks that are new to the batch.
    fn learn(&mut self, table: &mut Ranges<'_>, blocks: &[Block], texts: &mut Texts) {
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
            let holds = |code| {
                let cells =
                    RowCells { columns: columns.as_slice(), code, place: 0, state: 0, texts: &*texts };
                filter.holds(&cells) == Some(true)
            };
            wanted.extend((*known..blocks.len()).map(holds));
        }
        *known = blocks.len();
    }

    /// Keeps those rows from this one on that are wanted.
    fn sift(&mut self, table: &Ranges<'_>, rows: &mut Gathered, from: usize, texts: &mut Texts) {
        let Self { filter, columns, is_by_block, wanted, .. } = self;
        let codes = rows.codes.get(from..).unwrap_or_default();
        if *is_by_block {
            let keep: Vec<_> = codes.iter().map(|&code| wanted.get(code as usize) == Some(&true)).collect();
            return rows.retain(from, &keep);
        }
        let (first_place, first_state) = (run_of(&rows.places, from), run_of(&rows.states, from));
        for (column, (layout, data)) in filter.columns.iter().zip(columns.iter_mut()) {
            let runs = match layout {
                Layout::Places => rows.places.get(first_place..),
                Layout::States => rows.states.get(first_state..),
                Layout::Once | Layout::Blocks | Layout::Rows => continue,
            };
            data.clear();
            let runs = runs.unwrap_or_default().iter().map(|(_, place)| place);
            table.fill_places(column.field, runs, data, texts);
        }
        let next = |runs: &[(u32, Place)], run: &mut usize, row: usize| {
            while runs.get(*run + 1).is_some_and(|(first, _)| *first as usize <= row) {
                *run += 1;
            }
        };
        let (mut place, mut state) = (first_place, first_state);
        let mut holds = |(row, &code): (usize, &u32)| {
            next(&rows.places, &mut place, row);
            next(&rows.states, &mut state, row);
            let (place, state) = (place - first_place, state - first_state);
            let cells =
                RowCells { columns: columns.as_slice(), code: code as usize, place, state, texts: &*texts };
            filter.holds(&cells) == Some(true)
        };
        let keep: Vec<_> = (from..).zip(codes).map(&mut holds).collect();
        rows.retain(from, &keep);
    }
}
