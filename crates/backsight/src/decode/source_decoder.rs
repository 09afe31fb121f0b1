//! One source while it is decoded.

use std::ops::ControlFlow;

use backsight_arm::frame::Run;
use backsight_core::{Located, TraceId};
use backsight_flow::{CountedRanges, Event, PathId, PathRanges, Range};
use backsight_image::Window;

use super::caches::SharedCode;
use super::consumer::{AnyConsumer, Consumer};
use super::item::{Arrival, Item, MOST_KEPT, Origin, Recent};
use super::positions::Positions;
use crate::Source;
use crate::protocol::{Act, AnyStream, Resumable, SavedState, StreamSink};

/// What somebody will ask of the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Where they were.
    pub positions: bool,
    /// Their bytes.
    pub bytes: bool,
    /// When they became known, compared with those of other sources.
    pub arrivals: bool,
}

/// Some bytes of a source, with where they are and where the stream does not continue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub bytes: &'a [u8],
    pub runs: &'a [Run],
    pub arrivals: &'a [Run],
    pub breaks: &'a [Break],
}

/// Where a stream does not continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Break {
    /// How many of the bytes come before.
    pub at: usize,
    /// When that was: how many bytes of any source came before.
    pub arrival: u64,
    /// One of the starts of the buffer: what came before had ended in good order.
    pub start: Option<usize>,
    /// The source goes on under this ID, in another configuration. If it is neither: bytes are missing.
    pub goes_on_as: Option<TraceId>,
}

/// The stream of a source, and what is kept of its bytes.
pub(crate) struct SourceDecoder<S> {
    pub source: Source,
    pub stream: S,
    wanted: Wanted,
    positions: Positions,
    arrivals: Positions,
    kept: RecentBytes,
    /// There were bytes.
    has_begun: bool,
    /// The stream in other configurations.
    others: Vec<Configured<S>>,
    /// What is added to offsets of the stream: bytes that went to others.
    base: u64,
    /// Bytes so far, to whichever stream.
    taken: u64,
    /// When what comes out happened, where the code depends on it.
    window: Option<Window>,
    /// What was read of the code, with others that run it too.
    shared: Option<SharedCode>,
}

/// The stream of a source in a configuration that it does not have at the moment.
struct Configured<S> {
    source: Source,
    stream: S,
    /// Bytes that went to it.
    fed: u64,
}

/// Recent bytes of the stream.
#[derive(Default)]
struct RecentBytes {
    bytes: Vec<u8>,
    /// Offset of the first.
    base: u64,
    /// Offset after the last item: bytes before it have been shown.
    shown: u64,
}

impl RecentBytes {
    /// Forgets what was shown, and what nobody can be shown.
    fn forget(&mut self) {
        // The last byte may be the first of the next item too: packets of nibbles share bytes.
        let shown = self.shown.saturating_sub(self.base).saturating_sub(1);
        let shown = usize::try_from(shown).unwrap_or(usize::MAX);
        let gone = shown.max(self.bytes.len().saturating_sub(MOST_KEPT)).min(self.bytes.len());
        self.bytes.drain(..gone);
        self.base += gone as u64;
    }
}

/// What happens to a stream beside that bytes come.
#[derive(Clone, Copy)]
enum StreamEvent {
    /// It does not continue, by what arrived then.
    Reset(u64),
    /// It ends, and another one begins with what arrived then.
    End(u64),
    Finish,
}

/// Where a stream is: what is in all items that come of some of its bytes.
pub struct Place<'a> {
    source: &'a Source,
    origin: Origin<'a>,
    shown: &'a mut u64,
    base: u64,
    window: &'a mut Option<Window>,
    /// Somebody asks for bytes or arrivals.
    is_tracked: bool,
}

/// Makes items of what a stream gives, and hands them on until nobody wants more.
pub(super) struct Items<'a, C> {
    place: Place<'a>,
    consumer: &'a mut C,
}

impl<'a, C> Items<'a, C> {
    pub fn new(place: Place<'a>, consumer: &'a mut C) -> Self {
        Self { place, consumer }
    }
}

impl<V, C: Consumer<V>> StreamSink<V> for Items<'_, C> {
    #[inline(always)]
    fn take(&mut self, sub_source: u16, located: Located<V>) {
        if self.consumer.has_enough() {
            return;
        }
        let Located { offset, length, value } = located;
        let offset = offset + self.place.base;
        if self.place.is_tracked {
            *self.place.shown = offset + u64::from(length);
        }
        let (source, origin, window) = (self.place.source, self.place.origin, *self.place.window);
        self.consumer.item(Item { source, sub_source, offset, length, window, value, origin });
    }

    fn enter(&mut self, window: Window) {
        *self.place.window = Some(window);
        self.consumer.enter(window);
    }

    #[inline(always)]
    fn take_path(&mut self, sub_source: u16, path: PathId, ranges: PathRanges<'_>)
    where
        V: From<Event>,
    {
        if self.place.is_tracked {
            for range in ranges {
                StreamSink::take(self, sub_source, range.map(|range| Event::Range(range).into()));
            }
            return;
        }
        if self.consumer.has_enough() {
            return;
        }
        // Most never look at an item: what is in all of them is copied for those who do.
        let Self { place: Place { source, ref origin, ref window, base, .. }, ref mut consumer } = *self;
        let items = ranges.map(|Located { offset, length, value }| Item {
            source,
            sub_source,
            offset: offset + base,
            length,
            window: **window,
            value: V::from(Event::Range(value)),
            origin: *origin,
        });
        consumer.path(path, sub_source, items);
    }

    #[inline(always)]
    fn take_counted_path(&mut self, sub_source: u16, path: PathId, ranges: CountedRanges<'_>)
    where
        V: From<Event>,
    {
        if self.place.is_tracked {
            for (count, range) in ranges {
                count.into_iter().for_each(|count| StreamSink::take(self, sub_source, count.map(V::from)));
                StreamSink::take(self, sub_source, range.map(|range| Event::Range(range).into()));
            }
            return;
        }
        if self.consumer.has_enough() {
            return;
        }
        let Place { source, origin, window, base, .. } = &self.place;
        let (source, origin, window, base) = (*source, *origin, **window, *base);
        let item = move |Located { offset, length, value }: Located<Event>| Item {
            source,
            sub_source,
            offset: offset + base,
            length,
            window,
            value: V::from(value),
            origin,
        };
        let both = move |(count, range): (Option<Located<Event>>, Located<Range>)| {
            (count.map(item), item(range.map(Event::Range)))
        };
        self.consumer.counted_path(path, sub_source, ranges.map(both));
    }

    #[inline(always)]
    fn is_done(&self) -> bool {
        self.consumer.has_enough()
    }

    #[inline(always)]
    fn ignores_items(&self) -> bool {
        self.consumer.ignores_items()
    }
}

impl<S: AnyStream> SourceDecoder<S> {
    /// At the beginning of the stream.
    pub fn new(source: Source, stream: S, wanted: Wanted, shared: Option<SharedCode>) -> Self {
        let (positions, arrivals, kept) = Default::default();
        let (has_begun, window, others, base, taken) = (false, None, Vec::new(), 0, 0);
        Self {
            source,
            stream,
            wanted,
            positions,
            arrivals,
            kept,
            has_begun,
            others,
            base,
            taken,
            window,
            shared,
        }
    }

    /// The source may go on in this configuration, under the ID of it.
    pub fn may_go_on_as(&mut self, source: Source, stream: S) {
        self.others.push(Configured { source, stream, fed: 0 });
    }

    /// The source in each of its configurations, with the stream that decodes it and how many bytes it had: the one that
    /// it has now comes last.
    pub fn configurations(&mut self) -> impl Iterator<Item = (&Source, &mut S, u64)> {
        let others = self.others.iter_mut().map(|other| (&other.source, &mut other.stream, other.fed));
        others.chain([(&self.source, &mut self.stream, self.taken - self.base)])
    }

    /// The source goes on under another ID, in the configuration that belongs to it.
    fn go_on_as(&mut self, id: TraceId) {
        if self.source.frame_id() == id {
            return;
        }
        let Some(other) = self.others.iter_mut().find(|other| other.source.frame_id() == id) else { return };
        other.stream.continue_after(&self.stream);
        std::mem::swap(&mut other.source, &mut self.source);
        std::mem::swap(&mut other.stream, &mut self.stream);
        let fed = std::mem::replace(&mut other.fed, self.taken - self.base);
        self.base = self.taken - fed;
    }

    /// What is known of the stream; `None` if it cannot be taken up again.
    pub fn state(&mut self) -> Option<SavedState> {
        self.state_if(|_| true)
    }

    /// The same, if that is wanted.
    pub fn state_if(&mut self, is_wanted: impl FnOnce(&dyn Resumable) -> bool) -> Option<SavedState> {
        let stream = self.stream.resumable()?;
        is_wanted(stream).then(|| stream.state())
    }

    /// Goes on as a decoder that knows this. Of the bytes of the stream, those from this offset on are known: at least where the
    /// next item begins.
    pub fn restore(&mut self, offset: u64, state: &SavedState) {
        let Some(stream) = self.stream.resumable() else { return };
        stream.restore(state);
        self.positions = Positions::starting_at(offset);
        self.kept = RecentBytes { bytes: Vec::new(), base: offset, shown: offset };
        self.has_begun |= offset > 0;
    }

    /// Takes more of the stream. A break means that the consumer wants no more.
    pub fn take(&mut self, part: Part<'_>, consumer: &mut dyn AnyConsumer<S::Value>) -> ControlFlow<()> {
        consumer.source(&self.source, self.window);
        if let Some(shared) = &mut self.shared {
            shared.lend(&mut self.stream);
        }
        let outcome = self.take_part(part, consumer);
        if let Some(shared) = &mut self.shared {
            shared.take_back(&mut self.stream);
        }
        outcome
    }

    /// Takes note of bytes that somebody may ask for, with where they are.
    pub fn keep(&mut self, part: &Part<'_>) {
        if self.wanted.positions {
            // What the next item begins with may be long past where its end is searched for.
            let needed = if self.wanted.bytes { self.kept.shown } else { u64::MAX };
            self.positions.forget(needed);
            self.positions.push_runs(part.runs, part.bytes.len());
        }
        if self.wanted.arrivals {
            self.arrivals.forget(u64::MAX);
            self.arrivals.push_runs(part.arrivals, part.bytes.len());
        }
        if self.wanted.bytes {
            self.kept.forget();
            self.kept.bytes.extend_from_slice(part.bytes);
        }
    }

    fn take_part(&mut self, part: Part<'_>, consumer: &mut dyn AnyConsumer<S::Value>) -> ControlFlow<()> {
        self.keep(&part);
        let mut from = 0;
        for &Break { at, arrival, start, goes_on_as } in part.breaks {
            self.feed(part.bytes.get(from..at).unwrap_or_default(), consumer)?;
            self.has_begun |= at > 0;
            let in_good_order = start.is_some() || goes_on_as.is_some();
            match in_good_order {
                true if self.has_begun => self.step(StreamEvent::End(arrival), consumer)?,
                true => {}
                false => self.step(StreamEvent::Reset(arrival), consumer)?,
            }
            if let Some(id) = goes_on_as {
                self.go_on_as(id);
                consumer.source(&self.source, self.window);
            }
            if let Some(window) = start.and_then(|start| self.stream.begin(start)) {
                self.window = Some(window);
                consumer.enter(window);
            }
            from = at;
        }
        self.has_begun |= !part.bytes.is_empty();
        self.feed(part.bytes.get(from..).unwrap_or_default(), consumer)
    }

    /// The stream ends.
    pub fn finish(&mut self, consumer: &mut dyn AnyConsumer<S::Value>) -> ControlFlow<()> {
        consumer.source(&self.source, self.window);
        self.step(StreamEvent::Finish, consumer)
    }

    /// The stream does not continue.
    pub fn reset(&mut self, consumer: &mut dyn AnyConsumer<S::Value>) -> ControlFlow<()> {
        consumer.source(&self.source, self.window);
        self.step(StreamEvent::Reset(u64::MAX), consumer)
    }

    fn feed(&mut self, bytes: &[u8], consumer: &mut dyn AnyConsumer<S::Value>) -> ControlFlow<()> {
        self.taken += bytes.len() as u64;
        self.with_items(None, Act::Feed(bytes), consumer)
    }

    fn step(&mut self, step: StreamEvent, consumer: &mut dyn AnyConsumer<S::Value>) -> ControlFlow<()> {
        let act = match step {
            StreamEvent::Reset(_) => Act::Reset,
            StreamEvent::End(_) | StreamEvent::Finish => Act::Finish,
        };
        self.with_items(Some(step), act, consumer)
    }

    fn with_items(
        &mut self,
        step: Option<StreamEvent>,
        act: Act<'_>,
        consumer: &mut dyn AnyConsumer<S::Value>,
    ) -> ControlFlow<()> {
        let Self { source, stream, wanted, positions, arrivals, kept, window, base, .. } = self;
        let arrival = match step {
            _ if !wanted.arrivals => Arrival::Unasked,
            None => Arrival::WithLastByte(arrivals),
            Some(StreamEvent::Reset(arrival) | StreamEvent::End(arrival)) => Arrival::Later(arrival),
            Some(StreamEvent::Finish) => Arrival::Later(u64::MAX),
        };
        let positions = wanted.positions.then_some(&*positions);
        let recent = Recent { positions, bytes: &kept.bytes, base: kept.base, arrival };
        let is_tracked = wanted.bytes || wanted.arrivals;
        let origin = if wanted.positions || is_tracked { Origin::Stream(&recent) } else { Origin::Unknown };
        let (shown, base) = (&mut kept.shown, *base);
        let place = Place { source, origin, shown, base, window, is_tracked };
        consumer.take_from(place, &mut |sink| stream.act(act, sink));
        if consumer.has_enough() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
