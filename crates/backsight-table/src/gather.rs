//! Ranges on their way into batches: as numbers of blocks, and as runs of rows that were reported in one place.
//!
//! There are many ranges, and few different ones. A row is the number of its block; columns are computed once for each block,
//! and once for each place that rows were reported in. Whoever takes the batch expands them, or writes them as they are.

use std::ops::ControlFlow;

use backsight::decode::Accumulate;
use backsight::flow::PathId;
use backsight::image::Window;
use backsight::{Event, Item};

use crate::block_filter::BlockFilter;
use crate::data::Layout;
use crate::output::Output;
use crate::query::Query;
use crate::rows::{Block, Blocks, Place, RangeRow, Ranges};
use crate::table::Field;
use crate::tracker::{Tracker, Until};

/// Rows after which a filter is asked.
const CHUNK: usize = 4096;

/// Rows that were gathered.
#[derive(Default)]
pub(crate) struct Gathered {
    /// The number of the block of each row.
    pub blocks: Vec<u32>,
    /// Where rows were reported, with the first row of each place; none if nobody asks.
    pub places: Vec<(u32, Place)>,
    /// The same by what held there.
    pub states: Vec<(u32, Place)>,
}

impl Gathered {
    fn truncate(&mut self, rows: usize) {
        self.blocks.truncate(rows);
        for runs in [&mut self.places, &mut self.states] {
            let kept = runs.partition_point(|(first, _)| (*first as usize) < rows);
            runs.truncate(kept);
        }
    }

    fn clear(&mut self) {
        self.blocks.clear();
        self.places.clear();
        self.states.clear();
    }

    /// From the next row on, what holds now may be something else than before.
    #[inline(always)]
    fn state(&mut self, tracker: &mut Tracker) {
        let state = tracker.index();
        if self.states.last().is_none_or(|(_, last)| last.state != state) {
            self.states.push((self.blocks.len() as u32, Place { offset: 0, position: 0, state }));
        }
    }

    /// A row is reported here.
    fn place(&mut self, row: usize, place: Place) {
        if self.places.last().is_none_or(|(_, last)| last.offset != place.offset) {
            self.places.push((row as u32, place));
        }
    }

    /// Keeps some of the rows from this one on.
    pub fn retain(&mut self, from: usize, keep: &[bool]) {
        for runs in [&mut self.places, &mut self.states] {
            retain_runs(runs, from, keep);
        }
        let mut row = 0;
        self.blocks.retain(|_| {
            row += 1;
            row <= from || keep.get(row - 1 - from) == Some(&true)
        });
    }
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
        output.forget_blocks();
        let (rows, seen) = Default::default();
        let blocks = Blocks::new(query.most_blocks);
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

    /// What holds now holds for the next row.
    #[inline(always)]
    fn state(&mut self) {
        if self.wants.states {
            self.rows.state(&mut self.table.tracker);
        }
    }

    /// Where a row is reported.
    #[inline(always)]
    fn place_of(&self, item: &Item<'_, Event>) -> Place {
        let offset = item.offset;
        let position = if self.wants.positions { item.position().unwrap_or(offset) } else { 0 };
        Place { offset, position, state: 0 }
    }

    /// A row is reported here.
    #[inline(always)]
    fn place(&mut self, row: usize, item: &Item<'_, Event>) {
        if self.rows.places.last().is_none_or(|(_, last)| last.offset != item.offset) {
            let place = self.place_of(item);
            self.rows.places.push((row as u32, place));
        }
    }

    /// A path comes for the first time.
    #[inline(never)]
    fn learn(&mut self, path: PathId, items: &mut dyn Iterator<Item = Item<'_, Event>>) {
        let (mut ranges, mut places) = (Vec::new(), Vec::new());
        for item in items {
            if let Event::Range(range) = item.value {
                ranges.push(range);
                places.extend(self.wants.places.then(|| self.place_of(&item)));
            }
        }
        self.make_room_for(ranges.len());
        let first = self.rows.blocks.len();
        self.state();
        let space = self.table.tracker.now().space;
        self.rows.blocks.extend_from_slice(self.blocks.learn(path, space, &ranges));
        for (row, place) in (first..).zip(places) {
            self.rows.place(row, place);
        }
        self.look();
    }

    /// Numbers of blocks begin anew where there are too many: after what has been gathered with them.
    #[inline]
    fn make_room_for(&mut self, blocks: usize) {
        if !self.blocks.has_room_for(blocks) {
            self.begin_anew();
        }
    }

    #[cold]
    fn begin_anew(&mut self) {
        self.flush();
        self.blocks.forget();
        self.filter.iter_mut().for_each(BlockFilter::forget);
        self.output.forget_blocks();
    }

    #[inline(always)]
    fn look(&mut self) {
        if self.rows.blocks.len() >= self.enough {
            self.hand_on();
        }
    }

    /// There are enough rows for something.
    #[inline(never)]
    fn hand_on(&mut self) {
        self.sift();
        let rows = self.rows.blocks.len();
        if rows >= self.output.batch_rows() || rows as u64 >= self.output.remaining() {
            self.send();
        }
        self.set_enough();
    }

    /// Drops rows that are not wanted.
    fn sift(&mut self) {
        let Self { table, output, blocks, rows, seen, filter, .. } = self;
        if let Some(filter) = filter {
            filter.learn(table, blocks.known(), &mut output.texts);
            filter.sift(table, rows, *seen, &mut output.texts);
        }
        rows.truncate(usize::try_from(output.remaining()).unwrap_or(usize::MAX));
        *seen = rows.blocks.len();
    }

    /// Gives the rows as a batch.
    fn send(&mut self) {
        let Self { table, output, blocks, rows, .. } = self;
        self.outcome = output.send_gathered(table, blocks.known(), rows);
        self.begin_batch();
    }

    fn begin_batch(&mut self) {
        self.rows.clear();
        self.seen = 0;
        crate::rows::Rows::clear(&mut self.table);
    }

    /// Gives what there is: a few rows among those of other sources.
    fn flush(&mut self) {
        if self.outcome.is_break() {
            return;
        }
        self.sift();
        if self.rows.blocks.len() >= self.output.batch_rows() / 4 {
            self.send();
        } else {
            let Self { blocks, rows, .. } = self;
            let (mut places, mut states) = (rows.places.iter().peekable(), rows.states.iter().peekable());
            let mut place = Place { offset: 0, position: 0, state: 0 };
            let mut plain = Vec::with_capacity(rows.blocks.len());
            for (row, &number) in rows.blocks.iter().enumerate() {
                if let Some((_, next)) = places.next_if(|(first, _)| *first as usize == row) {
                    place = Place { state: place.state, ..*next };
                }
                if let Some((_, next)) = states.next_if(|(first, _)| *first as usize == row) {
                    place.state = next.state;
                }
                plain.extend(blocks.known().get(number as usize).map(|&block| RangeRow { block, place }));
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
        self.make_room_for(1);
        let row = self.rows.blocks.len();
        self.state();
        if self.wants.places {
            self.place(row, &item);
        }
        let space = self.table.tracker.now().space;
        let number = self.blocks.number(Block { space, range });
        self.rows.blocks.push(number);
        self.look();
    }

    /// Rows that were gathered are named by the code of their time.
    fn enter(&mut self, window: Window) {
        let mut code = self.table.names.code;
        if !code.enter(window).is_empty() {
            self.begin_anew();
            self.table.names.forget();
        }
        self.table.names.code = code;
        self.table.tracker.renew_spaces(&code);
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, sub_source: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        self.table.tracker.turn_to(sub_source);
        let space = self.table.tracker.now().space;
        let Some(numbers) = self.blocks.path(path, space) else {
            let mut items = items;
            return self.learn(path, &mut items);
        };
        let first = self.rows.blocks.len();
        if self.wants.states {
            self.rows.state(&mut self.table.tracker);
        }
        self.rows.blocks.extend_from_slice(numbers);
        if self.wants.places {
            for (row, item) in (first..).zip(items) {
                self.place(row, &item);
            }
        }
        self.look();
    }
}

#[cfg(test)]
mod tests {
    use backsight::Capture;

    use crate::data::{FinishedValues, Layout, Values};
    use crate::{Batch, Query, Table};

    /// The addresses of the rows of a batch.
    fn starts(batch: &Batch) -> Vec<u64> {
        let FinishedValues::Plain(Values::U64(values)) = &batch.columns[0].values else { panic!("numbers") };
        match batch.columns[0].layout {
            Layout::Rows => values.clone(),
            _ => batch.shape.blocks.iter().map(|&block| values[block as usize]).collect(),
        }
    }

    fn read(query: &Query, capture: &Capture) -> Vec<u64> {
        query.read(capture).unwrap().flat_map(|batch| starts(&batch.unwrap())).collect()
    }

    /// However few blocks are remembered, and however often their numbers begin anew, with a filter and without.
    #[test]
    fn numbers_that_begin_anew_change_nothing() {
        let capture = Capture::open("../../testdata/captures/calls-aarch64").unwrap();
        for filter in ["instructions > 0", "instructions > 2", "offset > 50 and instructions < 9"] {
            let mut query = Query::new(Table::Ranges).columns(["start"]).unwrap().filter(filter).unwrap();
            let whole = read(&query, &capture);
            assert!(whole.len() > 100, "{filter}");
            for (most_blocks, batch_rows) in [(1, 1000), (7, 16), (50, 1000), (50, 16)] {
                query = query.batch_rows(batch_rows);
                query.most_blocks = most_blocks;
                assert_eq!(read(&query, &capture), whole, "{filter} {most_blocks} {batch_rows}");
            }
        }
    }
}
