//! The moments of a capture, and the way to them.

use std::sync::{Arc, OnceLock};

use backsight_core::Accounting;
use backsight_flow::Event;

use super::index::{Index, Indexer, Point, SourceIndex};
use super::moment::{Moment, Window};
use super::place::Place;
use super::windowed::{Edge, InWindow, Windowed};
use crate::decode::{Decode, Execution, Item, Span};
use crate::{Buffer, Capture, Error, Result, Source};

/// Bytes of the stream of a source between points.
const DISTANCE: usize = 1 << 14;

/// Bytes at the end of a buffer that are looked at first where something is counted from the end, and bytes between points there.
const TAIL: u64 = 1 << 16;
const TAIL_DISTANCE: usize = 1 << 12;

/// The moments of a capture. Without an [`Index`], each is looked for in the trace.
///
/// ```
/// use backsight::moments::Window;
/// let capture = backsight::Capture::open("captures/first")?;
/// let index = capture.moments().index(1)?;
/// let moments = capture.moments().with_index(index.into());
/// let mut last = Vec::new();
/// for source in capture.execution().sources()? {
///     moments.run(capture.execution(), &source, Window::last(10), |item| last.push(item.value))?;
/// }
/// # assert!(last.iter().any(|event| matches!(event, backsight::Event::Range(range) if range.instructions <= 10)));
/// # Ok::<(), backsight::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Moments<'c> {
    capture: &'c Capture,
    index: Option<Arc<Index>>,
    distance: usize,
    /// The sources that buffers hold trace of, where their frames were read to find out.
    present: Arc<OnceLock<Vec<Source>>>,
}

/// What became of a window of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Where it began and where it ended; `None` if nothing of the source is in it.
    pub places: Option<(Place, Place)>,
    /// Instructions are counted from somewhere near the end, and not from the beginning of the source.
    pub is_counted_from_end: bool,
    /// Instructions at the end of the source, where they are known, counted in the same way; else 0.
    pub end: u64,
    /// What became of the bytes that were decoded for it.
    pub decoded: Accounting,
}

impl Capture {
    /// Its moments.
    pub fn moments(&self) -> Moments<'_> {
        Moments { capture: self, index: None, distance: DISTANCE, present: Arc::default() }
    }
}

impl<'c> Moments<'c> {
    /// The capture.
    pub const fn capture(&self) -> &'c Capture {
        self.capture
    }

    /// The same by an index of this capture.
    #[must_use]
    pub fn with_index(self, index: Arc<Index>) -> Self {
        Self { index: Some(index), ..self }
    }

    /// Bytes of the stream of a source between points of an index that is made, about.
    #[must_use]
    pub fn distance(self, bytes: usize) -> Self {
        Self { distance: bytes, ..self }
    }

    /// The index, if there is one.
    pub fn known_index(&self) -> Option<&Index> {
        self.index.as_deref()
    }

    /// Makes an index of all sources, on up to so many threads.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn index(&self, threads: usize) -> Result<Index> {
        self.index_of(&self.capture.execution(), threads)
    }

    /// The same of the sources that a decode is for, with its progress.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn index_of(&self, decode: &Decode<'c, Execution>, threads: usize) -> Result<Index> {
        let of_source = |source: Source, _| self.index_source(decode, &source);
        let sources = crate::decode::map(decode.sources()?, threads, of_source);
        Ok(Index { sources: sources.into_iter().collect::<Result<_>>()? })
    }

    /// Is there trace of a source? A capture may describe many, and hold one: to look for the others in all of a buffer takes long.
    fn is_present(&self, source: &Source) -> bool {
        if let Some(known) = self.index.as_ref().and_then(|index| index.source(source)) {
            return !known.is_absent;
        }
        let is_shared = |buffer: &&Buffer| !buffer.is_raw() && buffer.sources().nth(1).is_some();
        let Some(_) = self.capture.buffer(source.buffer()).filter(|buffer| is_shared(buffer)) else {
            return true;
        };
        let look = || {
            let shared = self.capture.buffers().iter().filter(is_shared);
            // What cannot be read now says so when it is decoded.
            let contents = shared.map(|buffer| match buffer.contents() {
                Ok(contents) => contents.sources.into_iter().map(|(source, _)| source).collect::<Vec<_>>(),
                Err(_) => buffer.sources().cloned().collect(),
            });
            contents.flatten().collect()
        };
        let is_it = |one: &Source| one.buffer() == source.buffer() && one.id() == source.id();
        self.present.get_or_init(look).iter().any(is_it)
    }

    pub(super) fn index_source(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
    ) -> Result<SourceIndex> {
        if !self.is_present(source) {
            return Ok(SourceIndex { is_absent: true, ..SourceIndex::of(source) });
        }
        let mut indexer = Indexer::new(source, self.capture.code()?.seen_by(source));
        let decode = decode.clone().positions(false);
        if decode.can_be_cut(source)? {
            decode.find_cuts_after(None, (source.buffer(), source.id()), self.distance, &mut indexer)?;
            return Ok(indexer.finish());
        }
        let found = self.capture.moments().take(decode, source, Window::default(), &mut ())?;
        let end = found.places.map_or_else(Place::default, |(_, end)| end);
        // Nothing was counted.
        Ok(SourceIndex { end, sums: Arc::default(), ..indexer.finish() })
    }

    /// Gives what is in a window of a source to a closure. What comes before the window is not given.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn run(
        &self,
        decode: Decode<'c, Execution>,
        source: &Source,
        window: Window,
        each: impl FnMut(Item<'_, Event>),
    ) -> Result<Found> {
        self.take(decode, source, window, &mut Each(each))
    }

    /// Gives what is in a window of a source to a state, until that has enough. Buffers and sources that were chosen before do not
    /// matter.
    ///
    /// # Errors
    /// If the moments of the window are not known in this capture, or bytes or code cannot be read.
    pub fn take(
        &self,
        decode: Decode<'c, Execution>,
        source: &Source,
        window: Window,
        state: &mut dyn InWindow,
    ) -> Result<Found> {
        if !self.is_present(source) {
            return Ok(Found::default());
        }
        let known = self.index.as_ref().and_then(|index| index.source(source));
        let mut made = None;
        let (from, to) = match self.edges(window, source, known) {
            Some(edges) => edges?,
            None => {
                let index = made.insert(self.index_near_end(&decode, source, window)?);
                self.edges(window, source, Some(index))
                    .unwrap_or_else(|| Err(Error::misuse("the end of the source is not known")))?
            }
        };
        let known = made.as_ref().or(known);
        let is_counted_from_end = known.is_some_and(|index| index.is_tail);
        let point = known.and_then(|index| match index.point_before(from)? {
            nearest if state.needs_calls() && !is_counted_from_end => index.point_with_calls(nearest),
            nearest => Some(nearest),
        });
        let end = known.map_or(0, |index| index.end.instructions);
        let decode = match from.needs_positions() || to.needs_positions() {
            true => decode.positions(true),
            false => decode,
        };
        let code = self.capture.code()?.seen_by(source);
        if let Some(point) = point {
            give_contexts(point, source, state);
            if state.needs_calls() {
                known.and_then(|index| index.calls_at(point)).iter().for_each(|calls| state.resume(calls));
            }
        }
        let place = point.map_or_else(Place::default, |point| point.place);
        let mut windowed = Windowed::new(state, code, (from, to), place);
        if let Some(point) = point {
            windowed.enter_contexts(&point.contexts);
        }
        let start = point.map(|point| point.cut);
        let span = Span { start, ..Span::all(source.buffer(), source.id()) };
        let decoded = decode.span(&span).run_to(&mut windowed)?.accounting();
        let places = windowed.given();
        Ok(Found { places, is_counted_from_end, end, decoded })
    }

    /// What is known of a moment; `None` if a source does not come to it.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn place_of(
        &self,
        decode: Decode<'c, Execution>,
        source: &Source,
        moment: Moment,
    ) -> Result<Option<Place>> {
        let window = Window { from: Some(moment), to: None };
        let found = self.take(decode, source, window, &mut First(false))?;
        Ok(found.places.map(|(place, _)| place))
    }

    /// The edges of a window; `None` if they are counted from the end, and that is not known.
    fn edges(
        &self,
        window: Window,
        source: &Source,
        index: Option<&SourceIndex>,
    ) -> Option<Result<(Edge, Edge)>> {
        let edge = |moment: Option<Moment>, otherwise: Edge| {
            Some(match moment {
                None => Ok(otherwise),
                Some(Moment::Instruction(number)) => Ok(Edge::Instruction(number)),
                Some(Moment::BeforeEnd(0)) if otherwise == Edge::End => Ok(Edge::End),
                Some(Moment::BeforeEnd(number)) => {
                    Ok(Edge::Instruction(index?.end.instructions.saturating_sub(number)))
                }
                Some(Moment::Time(time)) => Ok(Edge::Time(time)),
                Some(Moment::Nanoseconds(time)) => self.ticks(time, source).map(Edge::Ticks),
                Some(Moment::Position(position)) => Ok(Edge::Position(position)),
            })
        };
        let (from, to) = (edge(window.from, Edge::Instruction(0))?, edge(window.to, Edge::End)?);
        Some(from.and_then(|from| Ok((from, to?))))
    }

    fn ticks(&self, nanoseconds: u64, source: &Source) -> Result<u64> {
        let frequency = self.capture.description().timestamp_frequency.ok_or_else(|| {
            let why = "the capture does not say how fast its timestamps count: name a timestamp, as in t5000";
            Error::misuse(format!("source {}: {why}", source.name()))
        })?;
        Ok((u128::from(nanoseconds) * u128::from(frequency) / 1_000_000_000).min(u64::MAX.into()) as u64)
    }

    /// An index of the end of a source that reaches back far enough for a window; if there is none, of all of it.
    fn index_near_end(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
        window: Window,
    ) -> Result<SourceIndex> {
        let size = self.capture.buffer(source.buffer()).and_then(|buffer| buffer.size());
        let from_end = |moment: Option<Moment>, otherwise| match moment {
            Some(Moment::BeforeEnd(number)) => Some(number),
            Some(_) => None,
            None => otherwise,
        };
        let needed = from_end(window.from, None).zip(from_end(window.to, Some(0)));
        let Some(size) = size else {
            let why = "it can be read once only: nothing can be counted from its end";
            return Err(Error::misuse(format!("buffer {}: {why}", source.buffer())));
        };
        let mut bytes = TAIL;
        while let Some((from, to)) = needed
            && bytes < size
        {
            let mut indexer = Indexer::of_tail(source);
            let tail = (source.buffer(), source.id());
            let decode = decode.clone().positions(false);
            decode.find_cuts_after(Some(size - bytes), tail, TAIL_DISTANCE, &mut indexer)?;
            let index = indexer.finish();
            if !index.points.is_empty() && index.end.instructions >= from.max(to) {
                return Ok(index);
            }
            bytes *= 8;
        }
        self.index_source(decode, source)
    }
}

/// What a point knows of contexts, as if it was said there.
fn give_contexts(point: &Point, source: &Source, state: &mut dyn InWindow) {
    for &(hart, context, isa) in point.contexts.iter() {
        state.before(Item::made_up(source, hart, point.cut.offset, Event::Context(context, isa)));
    }
}

/// A closure that takes what is in a window.
struct Each<F>(F);

impl<F: FnMut(Item<'_, Event>)> InWindow for Each<F> {
    fn item(&mut self, item: Item<'_, Event>) {
        (self.0)(item);
    }
}

/// Wants one thing, and nothing after it.
struct First(bool);

impl InWindow for First {
    fn has_enough(&self) -> bool {
        self.0
    }

    fn item(&mut self, _item: Item<'_, Event>) {
        self.0 = true;
    }
}
