//! Points from which decoding can begin, with what is known there.

use std::sync::Arc;

use backsight_core::TraceId;
use backsight_flow::{ByPath, Event, PathId, Range};

use super::calls::HartStacks;
use super::place::{Contexts, Place};
use super::sums::{Counting, PartEnd, Sums};
use super::windowed::Edge;
use crate::calls::saved::{CallSaver, HartCalls, SavedCalls};
use crate::calls::{Functions, KnownCalls, Stay, Stays};
use crate::decode::{Consumer, Cut};
use crate::{Item, Source, SourceCode};

/// Points of a source that are kept: where there are more, every second one is dropped.
const MOST_POINTS: usize = 1 << 18;

/// Calls that are kept for each point, about: what programs that call more at once do not leave room for, later points have.
const CALLS: usize = 8;

/// A point from which decoding can begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// How to get there.
    pub cut: Cut,
    /// What came before.
    pub place: Place,
    /// The contexts of the harts there.
    pub contexts: Contexts,
    /// The calls under way on each hart, where there was room for them.
    pub(crate) calls: Option<Box<[HartCalls]>>,
}

impl Point {
    /// Are the calls under way known there?
    pub const fn knows_calls(&self) -> bool {
        self.calls.is_some()
    }
}

/// The points of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceIndex {
    /// The name of the buffer.
    pub buffer: String,
    /// The trace ID of the source.
    pub id: TraceId,
    /// By where they are.
    pub points: Vec<Point>,
    /// What is known at the end.
    pub end: Place,
    /// Instructions are counted from the first point, and not from the beginning of the source.
    pub is_tail: bool,
    /// Nothing of the source is in its buffer.
    pub is_absent: bool,
    /// The calls that points name.
    pub(crate) calls: Arc<SavedCalls>,
    /// What happened between points.
    pub(crate) sums: Arc<Sums>,
}

/// The points of the sources of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Of each source.
    pub sources: Vec<SourceIndex>,
}

impl Index {
    /// What is known of a source.
    pub fn source(&self, source: &Source) -> Option<&SourceIndex> {
        self.sources.iter().find(|one| one.buffer == source.buffer() && one.id == source.id())
    }
}

impl SourceIndex {
    /// Of a source of which nothing is known.
    pub(super) fn of(source: &Source) -> Self {
        Self { buffer: source.buffer().to_owned(), id: source.id(), ..Self::default() }
    }

    /// The last point that is before an edge, and not at it: what was reported there may come before the point. `None`: decoding begins
    /// where the source does.
    pub(super) fn point_before(&self, edge: Edge) -> Option<&Point> {
        let is_before = |point: &Point| match edge {
            Edge::Instruction(number) => point.place.instructions < number,
            Edge::Position(position) => point.cut.seek.is_some_and(|seek| seek.position <= position),
            _ => !edge.is_reached(&point.place),
        };
        let mut count = self.points.partition_point(is_before);
        if let Edge::Position(_) = edge {
            // Only what comes before a place where reading may begin is known to be before the position.
            let known = count.checked_sub(1).and_then(|last| self.points.get(last)?.cut.seek);
            let offset = known.map_or(0, |seek| seek.offset);
            count = self.points.partition_point(|point| point.cut.offset <= offset);
        }
        self.points.get(count.checked_sub(1)?)
    }

    /// The last point up to another one that knows the calls under way.
    pub(super) fn point_with_calls(&self, last: &Point) -> Option<&Point> {
        let count = self.points.partition_point(|point| point.cut.offset <= last.cut.offset);
        self.points.get(..count)?.iter().rev().find(|point| point.calls.is_some())
    }

    /// What is known of calls at a point.
    pub(super) fn calls_at<'p>(&'p self, point: &'p Point) -> Option<KnownCalls<'p>> {
        let (harts, instructions) = (point.calls.as_deref()?, point.place.instructions);
        Some(KnownCalls { saved: &self.calls, harts, instructions })
    }
}

/// Finds out what is known at points, while a source is decoded.
#[derive(Debug)]
pub(super) struct Indexer<'c> {
    pub index: SourceIndex,
    place: Place,
    contexts: Contexts,
    /// The calls under way, if decoding began with the source.
    stacks: Option<HartStacks<'c>>,
    saver: CallSaver,
    /// Counts what happens, where decoding began with the source.
    counting: Option<Counting<'c>>,
    /// How deep calls went since the last part.
    depths: Depths,
    /// Ranges of a path that is met for the first time.
    ranges: Vec<Range>,
    /// Instructions of paths, where calls are not known.
    instructions: ByPath<u64>,
    /// Points come one after so many bytes of the stream, at least.
    distance: u64,
}

impl<'c> Indexer<'c> {
    /// Of a source from its beginning.
    pub fn new(source: &Source, code: SourceCode<'c>) -> Self {
        let (stacks, counting) = (Some(HartStacks::new(code)), Some(Counting::new(code)));
        Self { stacks, counting, ..Self::of_tail(source) }
    }

    /// Of a source from somewhere near its end.
    pub fn of_tail(source: &Source) -> Self {
        let index = SourceIndex { is_tail: true, ..SourceIndex::of(source) };
        let (place, contexts, saver, ranges, instructions) = Default::default();
        Self {
            index,
            place,
            contexts,
            stacks: None,
            saver,
            counting: None,
            depths: Depths::default(),
            ranges,
            instructions,
            distance: 0,
        }
    }

    /// The source ends.
    pub fn finish(mut self) -> SourceIndex {
        self.index.is_tail = self.stacks.is_none();
        self.index.end = self.place;
        let end = self.part_end();
        self.index.calls = Arc::new(self.saver.saved);
        let sums = self.counting.map(|counting| counting.finish(end));
        self.index.sums = sums.unwrap_or_default().into();
        self.index
    }
}

impl<'c> Indexer<'c> {
    /// What counts, if the source has one hart.
    #[inline(always)]
    fn counting_of(&mut self, hart: u16) -> Option<&mut Counting<'c>> {
        if self.counting.as_mut().is_some_and(|counting| !counting.is_of(hart)) {
            self.counting = None;
        }
        self.counting.as_mut()
    }

    /// What is known of a part that ends here.
    fn part_end(&mut self) -> PartEnd {
        let Self { place, stacks, depths, .. } = self;
        // The stay that goes on has not been told yet.
        let now = stacks.as_ref().and_then(HartStacks::depth_of_stay);
        now.into_iter().for_each(|depth| depths.add(depth));
        let depths = std::mem::take(depths).0.unwrap_or_default();
        PartEnd { instructions: place.instructions, time: place.time, depths }
    }

    /// Execution takes a path.
    #[inline(always)]
    fn pass(&mut self, path: PathId, hart: u16, ranges: impl Iterator<Item = Range>) {
        if let Some(stacks) = &mut self.stacks
            && let Some(stack) = stacks.of(hart, self.place.instructions)
        {
            let before = stack.instructions();
            stack.walk(path, ranges, &mut self.depths);
            self.place.instructions += stack.instructions() - before;
            return;
        }
        if let Some(&sum) = self.instructions.get(path) {
            self.place.instructions += sum;
            return;
        }
        let sum = ranges.map(|range| u64::from(range.instructions)).sum();
        self.place.instructions += sum;
        self.instructions.insert(path, sum);
    }
}

/// The fewest and the most calls around stays.
#[derive(Debug, Default)]
struct Depths(Option<(u64, u64)>);

impl Depths {
    #[inline(always)]
    fn add(&mut self, depth: usize) {
        let depth = depth as u64;
        let (least, most) = self.0.get_or_insert((depth, depth));
        (*least, *most) = (depth.min(*least), depth.max(*most));
    }
}

impl<'i> Stays<'i> for Depths {
    #[inline(always)]
    fn take(&mut self, _functions: &Functions<'i>, stay: &Stay) {
        if stay.own.instructions > 0 {
            self.add(stay.depth);
        }
    }
}

fn range_of(item: Item<'_, Event>) -> Option<Range> {
    match item.value {
        Event::Range(range) => Some(range),
        _ => None,
    }
}

impl Consumer<Event> for Indexer<'_> {
    fn item(&mut self, item: Item<'_, Event>) {
        if let Some(stacks) = &mut self.stacks
            && let Some(stack) = stacks.of(item.sub_source, self.place.instructions)
        {
            stack.take_numbered(&item.value, false, &mut self.depths);
        }
        if let Some(counting) = self.counting_of(item.sub_source) {
            match &item.value {
                Event::Range(range) => counting.range(range),
                event => counting.event(event),
            }
        }
        match &item.value {
            Event::Range(range) => self.place.instructions += u64::from(range.instructions),
            Event::Context(context, isa) => self.contexts.set(item.sub_source, *context, *isa),
            event => self.place.pass(event),
        }
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, hart: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        if self.counting_of(hart).is_none_or(|counting| counting.path(path)) {
            return self.pass(path, hart, items.filter_map(range_of));
        }
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.extend(items.filter_map(range_of));
        self.counting.iter_mut().for_each(|counting| counting.learn(path, &ranges));
        self.pass(path, hart, ranges.drain(..));
        self.ranges = ranges;
    }

    fn cut(&mut self, cut: Cut) {
        let last = self.index.points.last().map_or(0, |point| point.cut.offset);
        if self.index.points.is_empty() && self.stacks.is_none() {
            // What came before is not known for certain.
            self.place.instructions = 0;
        } else if cut.offset.saturating_sub(last) < self.distance {
            return;
        }
        self.saver.allow(CALLS);
        let calls = self.stacks.as_mut().and_then(|stacks| stacks.save(&mut self.saver));
        let (place, contexts) = (self.place, self.contexts.clone());
        if let Some(mut counting) = self.counting.take() {
            counting.point(cut.offset, || self.part_end());
            self.counting = Some(counting);
        }
        self.index.points.push(Point { cut, place, contexts, calls });
        if self.index.points.len() > MOST_POINTS {
            let mut number = 0;
            self.index.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            let length = self.index.points.len() as u64;
            self.distance = cut.offset / length.max(1);
        }
    }
}
