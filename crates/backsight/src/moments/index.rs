//! Points from which decoding can begin, with what is known there.

use backsight_core::TraceId;
use backsight_flow::{ByPath, Event, PathId};

use super::place::{Contexts, Place};
use super::windowed::Edge;
use crate::decode::{Consumer, Cut};
use crate::{Item, Source};

/// Points of a source that are kept: where there are more, every second one is dropped.
const MOST_POINTS: usize = 1 << 18;

/// A point from which decoding can begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// How to get there.
    pub cut: Cut,
    /// What came before.
    pub place: Place,
    /// The contexts of the harts there.
    pub contexts: Contexts,
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
}

/// Finds out what is known at points, while a source is decoded.
#[derive(Debug)]
pub(super) struct Indexer {
    pub index: SourceIndex,
    place: Place,
    contexts: Contexts,
    /// How many instructions paths have that came before.
    sums: ByPath<u64>,
    /// Points come one after so many bytes of the stream, at least.
    distance: u64,
}

impl Indexer {
    pub fn new(source: &Source, is_tail: bool) -> Self {
        let index = SourceIndex { is_tail, ..SourceIndex::of(source) };
        let (place, contexts, sums) = Default::default();
        Self { index, place, contexts, sums, distance: 0 }
    }

    /// The source ends.
    pub fn finish(mut self) -> SourceIndex {
        self.index.end = self.place;
        self.index
    }
}

impl Consumer<Event> for Indexer {
    const TAKES_PATHS: bool = true;

    fn item(&mut self, item: Item<'_, Event>) {
        match &item.value {
            Event::Range(range) => self.place.instructions += u64::from(range.instructions),
            Event::Context(context, isa) => self.contexts.set(item.sub_source, *context, *isa),
            event => self.place.pass(event),
        }
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, _hart: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        if let Some(&sum) = self.sums.get(path) {
            self.place.instructions += sum;
            return;
        }
        let instructions = |item: Item<'_, Event>| match item.value {
            Event::Range(range) => u64::from(range.instructions),
            _ => 0,
        };
        let sum = items.map(instructions).sum();
        self.place.instructions += sum;
        self.sums.insert(path, sum);
    }

    fn cut(&mut self, cut: Cut) {
        let last = self.index.points.last().map_or(0, |point| point.cut.offset);
        if self.index.points.is_empty() && self.index.is_tail {
            // What came before is not known for certain.
            self.place.instructions = 0;
        } else if cut.offset.saturating_sub(last) < self.distance {
            return;
        }
        let (place, contexts) = (self.place, self.contexts.clone());
        self.index.points.push(Point { cut, place, contexts });
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
