//! Ranges on their way into batches: as numbers of blocks, as steps in the trace, and as runs of rows that were executed in one state.
//!
//! There are many ranges, and few different ones. A row is the number of its block; columns are computed once for each block,
//! and once for each state. The taker of the batch expands them, or writes them as they are.

use std::ops::ControlFlow;

use backsight::decode::{Consumer, Stretch};
use backsight::flow::PathId;
use backsight::image::Window;
use backsight::{Event, Item};

use crate::block_filter::BlockFilter;
use crate::data::Layout;
use crate::output::Output;
use crate::query::Query;
use crate::rows::{Block, Blocks, Distances, Place, RangeRow, Ranges};
use crate::steps::Steps;
use crate::table::Field;
use crate::tracker::{Tracker, Until};

/// Rows after which a filter is asked.
const CHUNK: usize = 4096;

/// Rows that were gathered.
#[derive(Default)]
pub(crate) struct Gathered {
    /// The number of the block of each row.
    pub blocks: Vec<u32>,
    /// Where each row was reported, as an offset in the stream of the source; empty if nobody asks.
    pub offsets: Steps,
    /// How much larger positions in the buffer are than these offsets, from some rows on; empty if nobody asks.
    pub displacements: Vec<(u32, u64)>,
    /// What the last of them holds for.
    stretch: Stretch,
    /// The number of what held, from some rows on; empty if nobody asks.
    pub states: Vec<(u32, u32)>,
}

impl Gathered {
    fn truncate(&mut self, rows: usize) {
        if rows >= self.blocks.len() {
            return;
        }
        self.blocks.truncate(rows);
        self.offsets.truncate(rows);
        truncate_runs(&mut self.displacements, rows);
        truncate_runs(&mut self.states, rows);
        self.stretch = Stretch::default();
    }

    fn clear(&mut self) {
        self.blocks.clear();
        self.offsets.clear();
        self.displacements.clear();
        self.states.clear();
        self.stretch = Stretch::default();
    }

    /// From the next row on, what holds now may be something else than before.
    #[inline(always)]
    fn state(&mut self, tracker: &mut Tracker) {
        let state = tracker.index();
        if self.states.last().is_none_or(|(_, last)| *last != state) {
            self.states.push((self.blocks.len() as u32, state));
        }
    }

    /// The next rows are reported here: the first, and the others by how much their offset is larger than the one before.
    #[inline(always)]
    fn place(&mut self, first: &Item<'_, Event>, distances: Distances<'_>, wants: Wants) {
        let last = first.offset + distances.together;
        if wants.positions && !(self.stretch.contains(first.offset) && self.stretch.contains(last)) {
            self.displace(first, distances.steps);
        }
        self.offsets.extend(first.offset, distances.steps, distances.together);
    }

    /// The trace goes on elsewhere in the buffer.
    #[inline(never)]
    fn displace(&mut self, first: &Item<'_, Event>, steps: &[u8]) {
        let (row, mut offset) = (self.offsets.len() as u32, first.offset);
        for (row, &step) in (row..).zip(steps) {
            offset += u64::from(step);
            if !self.stretch.contains(offset) {
                self.stretch = first.stretch_at(offset).unwrap_or_default();
                self.displacements.push((row, self.stretch.displacement));
            }
        }
    }

    /// Where each row was reported, as a position in the buffer.
    pub fn positions(&self) -> Steps {
        self.offsets.displaced(&self.displacements)
    }

    /// Where the rows from this one on were reported, in the stream of the source and in the buffer; nothing where nobody asks.
    pub fn places_from(&self, from: usize) -> Vec<Place> {
        let place = |(row, offset): (usize, u64)| {
            let displacement = run_of(&self.displacements, row).map_or(0, |(_, displacement)| *displacement);
            Place { offset, position: offset.wrapping_add(displacement), state: 0 }
        };
        let rows = from..self.offsets.len();
        rows.zip(self.offsets.numbers_from(from)).map(place).collect()
    }

    /// Keeps some of the rows from this one on.
    pub fn retain(&mut self, from: usize, keep: &[bool]) {
        if self.offsets.len() > from {
            let kept = self.offsets.numbers_from(from);
            self.offsets.truncate(from);
            kept.iter()
                .zip(keep)
                .filter(|(_, keep)| **keep)
                .for_each(|(&offset, _)| self.offsets.push(offset));
        }
        retain_runs(&mut self.displacements, from, keep);
        retain_runs(&mut self.states, from, keep);
        self.stretch = Stretch::default();
        let mut row = 0;
        self.blocks.retain(|_| {
            row += 1;
            row <= from || keep.get(row - 1 - from) == Some(&true)
        });
    }
}

/// What a run of states says to columns that depend on nothing else.
pub(crate) fn place_of_state(&(_, state): &(u32, u32)) -> Place {
    Place { offset: 0, position: 0, state }
}

/// The run that a row is in.
pub(crate) fn run_of<T>(runs: &[(u32, T)], row: usize) -> Option<&(u32, T)> {
    runs.get(number_of_run(runs, row))
}

/// The number of the run that a row is in.
pub(crate) fn number_of_run<T>(runs: &[(u32, T)], row: usize) -> usize {
    runs.partition_point(|(first, _)| *first as usize <= row).saturating_sub(1)
}

fn truncate_runs<T>(runs: &mut Vec<(u32, T)>, rows: usize) {
    runs.truncate(runs.partition_point(|(first, _)| (*first as usize) < rows));
}

/// Keeps the runs of some of the rows from this one on.
fn retain_runs<T: Copy>(runs: &mut Vec<(u32, T)>, from: usize, keep: &[bool]) {
    let before = runs.partition_point(|(first, _)| (*first as usize) < from);
    let mut kept = Vec::new();
    let (mut row, mut next) = (from, from as u32);
    for (number, &(first, what)) in runs.iter().enumerate().skip(before) {
        // Rows before this one go on with a run that has begun before.
        next += keep[row - from..first as usize - from].iter().filter(|keep| **keep).count() as u32;
        row = first as usize;
        let end = runs.get(number + 1).map_or(from + keep.len(), |(end, _)| *end as usize);
        if keep[row - from..end - from].contains(&true) {
            kept.push((next, what));
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
            places: fields.iter().any(|&field| Ranges::layout(field) == Layout::Rows),
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
    pub fn end(mut self) -> ControlFlow<()> {
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

    /// A path comes for the first time.
    #[inline(never)]
    fn learn(&mut self, path: PathId, items: &mut dyn Iterator<Item = Item<'_, Event>>) {
        let items: Vec<_> = items.collect();
        let mut ranges = Vec::with_capacity(items.len());
        for item in &items {
            if let Event::Range(range) = item.value {
                ranges.push(range);
            }
        }
        self.make_room_for(ranges.len());
        let space = self.table.tracker.now().space;
        match steps_between(&items) {
            Some(steps) if steps.len() == ranges.len() => {
                self.blocks.learn(path, space, &ranges, &steps);
                self.walk(path, &mut items.into_iter());
            }
            _ => items.into_iter().for_each(|item| self.item(item)),
        }
    }

    /// Appends the rows of a path; false if it is not known.
    #[inline(always)]
    fn walk<'a>(&mut self, path: PathId, items: &mut impl Iterator<Item = Item<'a, Event>>) -> bool {
        let space = self.table.tracker.now().space;
        let Some((numbers, distances)) = self.blocks.path(path, space) else { return false };
        if self.wants.states {
            self.rows.state(&mut self.table.tracker);
        }
        self.rows.blocks.extend_from_slice(numbers);
        if self.wants.places
            && let Some(first) = items.next()
        {
            self.rows.place(&first, distances, self.wants);
        }
        self.look();
        true
    }

    /// Numbers of blocks begin again where there are too many: after what has been gathered with them.
    #[inline]
    fn make_room_for(&mut self, blocks: usize) {
        if !self.blocks.has_room_for(blocks) {
            self.renumber_blocks();
        }
    }

    #[cold]
    fn renumber_blocks(&mut self) {
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
            let mut places = rows.places_from(0).into_iter();
            let mut plain = Vec::with_capacity(rows.blocks.len());
            for (row, &number) in rows.blocks.iter().enumerate() {
                let state = run_of(&rows.states, row).map_or(0, |(_, state)| *state);
                let place = places.next().unwrap_or(Place { offset: 0, position: 0, state });
                let place = Place { state, ..place };
                plain.extend(blocks.known().get(number as usize).map(|&block| RangeRow { block, place }));
            }
            self.outcome = self.output.take(&mut self.table, &mut plain);
            self.begin_batch();
        }
        self.set_enough();
    }
}

impl Consumer<Event> for Gathering<'_, '_> {
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
        self.state();
        if self.wants.places {
            self.rows.place(&item, Distances::NONE, self.wants);
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
            self.renumber_blocks();
            self.table.names.forget();
        }
        self.table.names.code = code;
        self.table.tracker.renew_spaces(&code);
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, sub_source: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        self.table.tracker.turn_to(sub_source);
        let mut items = items;
        if !self.walk(path, &mut items) {
            self.learn(path, &mut items);
        }
    }
}

/// By how much the offset of each item is larger than that of the one before it, if that is a small number.
fn steps_between(items: &[Item<'_, Event>]) -> Option<Vec<u8>> {
    let mut before = items.first()?.offset;
    let step = |item: &Item<'_, Event>| {
        let step = item.offset.checked_sub(before)?;
        before = item.offset;
        u8::try_from(step).ok()
    };
    items.iter().map(step).collect()
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

    /// However few blocks are remembered, and however often their numbers begin again, with a filter and without.
    #[test]
    fn numbers_that_begin_again_change_nothing() {
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
