//! Calls over windows that are too long to be decoded for a picture.
//!
//! At points of the index, the calls under way are known, and what follows is decoded at once: a window is looked at in many short places.
//! A call that is under way in two of them, and began at one instruction, is one call. What is too short for that is known as far as
//! the places go: for each, which function has the largest part in each row. It is said that it is so.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backsight::decode::{Decode, Execution};
use backsight::moments::{Moment, Moments, Window};
use backsight::{Result, Source, SourceCode};

use crate::chart::{ABOUT, AFTER, Call, Chart, Charter, Grid, Lane, Sum};
use crate::names::Names;

/// Instructions of each place.
pub(crate) const LENGTH: u64 = 4_096;

/// Places that are remembered.
const MOST_KEPT: usize = 1 << 12;

/// A place that was looked at: the source, the instruction, and the rows that were wanted.
type Key = (usize, usize, Grid);

/// Places that were looked at.
#[derive(Default)]
pub(crate) struct Kept(Mutex<HashMap<Key, Arc<Chart>>>);

impl Kept {
    fn get(&self, key: &Key) -> Option<Arc<Chart>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn insert(&self, key: Key, chart: Arc<Chart>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(key, chart);
    }
}

/// What places are looked at with.
pub(crate) struct Sampler<'a, 'c> {
    pub moments: &'a Moments<'c>,
    pub decode: &'a Decode<'c, Execution>,
    pub code: SourceCode<'c>,
    pub source: &'a Source,
    /// Which recording and source that is.
    pub number: (usize, usize),
    pub names: &'a Names,
    pub kept: &'a Kept,
    pub threads: usize,
    /// Set once nobody waits any more.
    pub stop: &'a AtomicBool,
}

/// Where a window is looked at: at points where calls are known, and at its beginning. None, if there are no points in it.
pub(crate) fn places(points: &[(u64, bool)], grid: &Grid, most: usize) -> Vec<u64> {
    let inside = |point: &&(u64, bool)| point.1 && point.0 >= grid.from && point.0 < grid.to;
    let first = points.partition_point(|point| point.0 < grid.from);
    let known: Vec<u64> = points[first..]
        .iter()
        .take_while(|point| point.0 < grid.to)
        .filter(inside)
        .map(|point| point.0)
        .collect();
    if known.is_empty() {
        return Vec::new();
    }
    let most = most.max(2);
    let mut chosen: Vec<u64> = match known.len() <= most {
        true => known,
        false => (0..most).map(|number| known[number * known.len() / most]).collect(),
    };
    chosen.insert(0, grid.from);
    chosen.dedup();
    chosen
}

impl Sampler<'_, '_> {
    fn look(&self, grid: Grid) -> Result<Arc<Chart>> {
        let key = (self.number.0, self.number.1, grid);
        if let Some(known) = self.kept.get(&key) {
            return Ok(known);
        }
        let mut charter = Charter::new(self.code, grid, self.names);
        let window =
            Window { from: Some(Moment::Instruction(grid.from)), to: Some(Moment::Instruction(grid.to)) };
        self.moments.take(self.decode.clone(), self.source, window, &mut charter)?;
        let chart = Arc::new(charter.finish());
        // What was given up is not what is there.
        if self.stop.load(Ordering::Relaxed) {
            return Ok(chart);
        }
        self.kept.insert(key, Arc::clone(&chart));
        Ok(chart)
    }

    /// The calls of a window, as far as some places of it say. The number of instructions that were looked at is given, too.
    pub fn chart(&self, grid: &Grid, places: &[u64]) -> Result<(Chart, u64)> {
        let length = |number: usize| {
            let next = places.get(number + 1).copied().unwrap_or(grid.to);
            LENGTH.min(next.saturating_sub(places[number])).max(1)
        };
        let next = AtomicUsize::new(0);
        let seen: Mutex<Vec<Option<Result<Arc<Chart>>>>> =
            Mutex::new((0..places.len()).map(|_| None).collect());
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(&from) = places.get(number).filter(|_| !self.stop.load(Ordering::Relaxed)) else {
                    return;
                };
                let outcome = self.look(Grid { from, to: from + length(number), columns: 1, ..*grid });
                seen.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(outcome);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(places.len()) {
                scope.spawn(work);
            }
            work();
        });
        let mut merge = Merge::new(*grid);
        let mut looked_at = 0;
        let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (number, chart) in seen.into_iter().enumerate() {
            let Some(chart) = chart else { continue };
            let end = places.get(number + 1).copied().unwrap_or(grid.to);
            merge.add(&*chart?, places[number], length(number), end);
            looked_at += length(number);
        }
        Ok((merge.finish(), looked_at))
    }
}

/// A call that was under way in one place or more.
#[derive(Clone, Copy)]
struct Run {
    name: u32,
    begin: u64,
    /// The end of the last place that it was seen in.
    end: u64,
    flags: u8,
}

struct Merge {
    grid: Grid,
    chart: Chart,
    lanes: HashMap<Lane, u32>,
    runs: BTreeMap<(u32, u32), Run>,
    sums: Vec<Sum>,
}

impl Merge {
    fn new(grid: Grid) -> Self {
        let (chart, lanes, runs, sums) = Default::default();
        Self { grid, chart, lanes, runs, sums }
    }

    fn lane(&mut self, lane: Lane) -> u32 {
        let chart = &mut self.chart;
        *self.lanes.entry(lane).or_insert_with(|| {
            chart.lanes.push(lane);
            chart.depths.push(0);
            chart.instructions.push(0);
            chart.lanes.len() as u32 - 1
        })
    }

    /// Adds a place: what it stands for ends where the next one begins.
    fn add(&mut self, seen: &Chart, place: u64, length: u64, end: u64) {
        let numbers: Vec<u32> = seen.lanes.iter().map(|lane| self.lane(*lane)).collect();
        for (number, lane) in numbers.iter().enumerate() {
            let depth = &mut self.chart.depths[*lane as usize];
            *depth = (*depth).max(seen.depths[number]);
            self.chart.instructions[*lane as usize] += seen.instructions[number];
        }
        let mut go_on = Vec::new();
        let mut rows: BTreeMap<(u32, u32), (u32, u64, u64)> = BTreeMap::new();
        for call in &seen.calls {
            let key = (numbers[call.lane as usize], call.row);
            rows.insert(key, (call.name, length, 1));
            let is_same = |run: &Run| run.name == call.name && run.begin == call.begin;
            match self.runs.get_mut(&key).filter(|run| is_same(run)) {
                Some(run) => (run.end, run.flags) = (call.end, call.flags),
                None => {
                    let run = Run { name: call.name, begin: call.begin, end: call.end, flags: call.flags };
                    let before = self.runs.insert(key, run);
                    self.end(key, before);
                }
            }
            go_on.push(key);
        }
        for sum in &seen.sums {
            let key = (numbers[sum.lane as usize], sum.row);
            rows.entry(key).or_insert((sum.name, sum.instructions, sum.calls));
        }
        let ended: Vec<_> = self.runs.keys().filter(|key| !go_on.contains(key)).copied().collect();
        for key in ended {
            let run = self.runs.remove(&key);
            self.end(key, run);
        }
        for ((lane, row), (name, instructions, calls)) in rows {
            // The same share of all that the place stands for.
            let instructions =
                u128::from(instructions.min(length)) * u128::from(end - place) / u128::from(length.max(1));
            let sum = Sum { lane, row, begin: place, end, name, instructions: instructions as u64, calls };
            self.sums.push(sum);
        }
        self.chart.times.extend(seen.times.first());
        self.chart.marks.extend(seen.marks.iter().map(|mark| {
            let lane = numbers.get(mark.lane as usize).copied().unwrap_or(0);
            crate::chart::Mark { lane, ..mark.clone() }
        }));
    }

    /// A call is not under way any more.
    fn end(&mut self, (lane, row): (u32, u32), run: Option<Run>) {
        let Some(Run { name, begin, end, mut flags }) = run else { return };
        if flags & AFTER != 0 && end < self.grid.to {
            flags = flags & !AFTER | ABOUT;
        }
        if self.grid.shows(begin, end) {
            self.chart.calls.push(Call { lane, row, begin, end, name, flags });
        }
    }

    fn finish(mut self) -> Chart {
        for (key, run) in std::mem::take(&mut self.runs) {
            self.end(key, Some(run));
        }
        // What a call covers needs no sum.
        let mut covered: HashMap<(u32, u32), Vec<(u64, u64)>> = HashMap::new();
        for call in &self.chart.calls {
            covered.entry((call.lane, call.row)).or_default().push((call.begin, call.end));
        }
        let is_covered = |sum: &Sum| {
            let calls = covered.get(&(sum.lane, sum.row)).map_or(&[][..], Vec::as_slice);
            calls.iter().any(|(begin, end)| *begin <= sum.begin && *end >= sum.end)
        };
        self.sums.retain(|sum| !is_covered(sum));
        self.chart.sums = self.sums;
        self.chart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { from: 100, to: 1_000, columns: 10, first_row: 0, rows: 8 };

    #[test]
    fn places_are_points_where_calls_are_known() {
        let points: Vec<_> = (0..100).map(|number| (number * 20, number % 2 == 0)).collect();
        let all = places(&points, &GRID, 1_000);
        assert_eq!(all.first(), Some(&100));
        assert!(all.iter().skip(1).all(|place| place % 40 == 0), "{all:?}");
        assert_eq!(places(&points, &GRID, 4).len(), 5);
        assert!(places(&[(0, true), (5_000, true)], &GRID, 4).is_empty());
    }

    #[test]
    fn a_call_that_is_seen_twice_is_one_and_another_of_the_same_name_is_not() {
        let lane = Lane { hart: 0, thread: None };
        let seen = |begin: u64, end: u64| Chart {
            lanes: vec![lane],
            depths: vec![1],
            instructions: vec![10],
            calls: vec![Call { lane: 0, row: 0, begin, end, name: 7, flags: AFTER }],
            ..Chart::default()
        };
        let mut merge = Merge::new(GRID);
        merge.add(&seen(50, 110), 100, 10, 300);
        merge.add(&seen(50, 310), 300, 10, 600);
        merge.add(&seen(450, 610), 600, 10, 1_000);
        let chart = merge.finish();
        let calls: Vec<_> = chart.calls.iter().map(|call| (call.begin, call.end, call.flags)).collect();
        assert_eq!(calls, [(50, 310, ABOUT), (450, 610, ABOUT)]);
        // What lies between two places is not known: the sums say what was seen in each.
        let sums: Vec<_> = chart.sums.iter().map(|sum| (sum.begin, sum.end)).collect();
        assert_eq!(sums, [(300, 600), (600, 1_000)]);
    }
}
