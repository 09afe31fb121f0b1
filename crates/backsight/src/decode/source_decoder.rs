//! One source while it is decoded.

use std::ops::ControlFlow;

use backsight_arm::frame::Run;
use backsight_core::{Located, TraceId};
use backsight_flow::PathId;
use backsight_image::Window;

use super::caches::SharedCode;
use super::item::{Executor, Item, Origin, Outcome};
use super::positions::Positions;
use crate::Source;
use crate::protocol::{Resumable, SavedState, Stream, StreamSink};

/// Bytes that are kept for a packet that has not ended. More are passed over only while a decoder searches for
/// synchronisation; of those, nobody is shown the bytes.
pub(super) const MOST_KEPT: usize = 1 << 16;

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
    kept: Kept,
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
struct Kept {
    bytes: Vec<u8>,
    /// Offset of the first.
    base: u64,
    /// Offset after the last item: bytes before it have been shown.
    shown: u64,
}

impl Kept {
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
enum Step {
    /// It does not continue, by what arrived then.
    Reset(u64),
    /// It ends, and another one begins with what arrived then.
    End(u64),
    Finish,
}

/// When an item became known, as a number of bytes of any source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// Nobody asks.
    Unasked,
    /// With this byte, its last.
    WithByte(u64),
    /// By something that came later.
    Later(u64),
}

/// When the items of a step become known.
enum Arrival<'a> {
    /// Nobody asks.
    Unasked,
    /// With their last bytes, which arrived then.
    WithLastByte(&'a Positions),
    /// By something that came later.
    Later(u64),
}

/// Takes the items of a source. Every closure in [`EachItem`] is one that takes them one by one.
pub(crate) trait ItemSink<V> {
    type Says: Outcome;

    /// Does it take whole paths? Decoders are compiled for each type of sink that does, and once for all others, whose items
    /// are a call each.
    const TAKES_PATHS: bool;

    /// Takes an item, with when it became known.
    fn take(&mut self, item: Item<'_, V>, known: Known) -> Self::Says;

    /// What follows happened in this span of time, which decides what code there was.
    fn enter(&mut self, _window: Window) {}

    /// Takes the items of a path that was walked before. Nobody asks when they became known.
    #[inline(always)]
    fn take_path<'a>(
        &mut self,
        _path: PathId,
        _executor: Executor<'a>,
        items: impl Iterator<Item = Item<'a, V>>,
    ) -> ControlFlow<()>
    where
        V: 'a,
    {
        if !Self::Says::CAN_END {
            // Nobody need ask after each whether there are more.
            items.for_each(|item| drop(self.take(item, Known::Unasked)));
            return ControlFlow::Continue(());
        }
        for item in items {
            self.take(item, Known::Unasked).control()?;
        }
        ControlFlow::Continue(())
    }
}

/// A closure that takes items.
pub(crate) struct EachItem<'f, F: ?Sized>(pub &'f mut F);

impl<V, R: Outcome, F: FnMut(Item<'_, V>, Known) -> R + ?Sized> ItemSink<V> for EachItem<'_, F> {
    type Says = R;

    const TAKES_PATHS: bool = false;

    #[inline(always)]
    fn take(&mut self, item: Item<'_, V>, known: Known) -> R {
        (self.0)(item, known)
    }
}

/// A sink of any type that does not take whole paths.
trait AnySink<V> {
    fn take(&mut self, item: Item<'_, V>, known: Known) -> ControlFlow<()>;
    fn enter(&mut self, window: Window);
}

impl<V, F: ItemSink<V>> AnySink<V> for F {
    fn take(&mut self, item: Item<'_, V>, known: Known) -> ControlFlow<()> {
        ItemSink::take(self, item, known).control()
    }

    fn enter(&mut self, window: Window) {
        ItemSink::enter(self, window);
    }
}

/// The one sink that decoders are compiled for where no whole paths are taken.
struct OneByOne<'s, V>(&'s mut dyn AnySink<V>);

impl<V> ItemSink<V> for OneByOne<'_, V> {
    type Says = ControlFlow<()>;

    const TAKES_PATHS: bool = false;

    fn take(&mut self, item: Item<'_, V>, known: Known) -> ControlFlow<()> {
        self.0.take(item, known)
    }

    fn enter(&mut self, window: Window) {
        self.0.enter(window);
    }
}

/// Makes items of what a stream gives, and hands them on until nobody wants more.
struct Items<'a, F> {
    source: &'a Source,
    origin: Origin<'a>,
    arrival: Arrival<'a>,
    shown: &'a mut u64,
    base: u64,
    window: &'a mut Option<Window>,
    sink: &'a mut F,
    outcome: ControlFlow<()>,
    /// Somebody asks for bytes or arrivals.
    is_tracked: bool,
}

impl<F> Items<'_, F> {
    /// An item ends here in the stream. When did it become known?
    fn track(&mut self, end: u64) -> Known {
        *self.shown = end;
        match self.arrival {
            Arrival::Unasked => Known::Unasked,
            Arrival::WithLastByte(arrivals) => Known::WithByte(arrivals.of(end.saturating_sub(1))),
            Arrival::Later(arrival) => Known::Later(arrival),
        }
    }
}

impl<V, F: ItemSink<V>> StreamSink<V> for Items<'_, F> {
    #[inline(always)]
    fn take(&mut self, sub_source: u16, located: Located<V>) {
        if self.is_done() {
            return;
        }
        let located = Located { offset: located.offset + self.base, ..located };
        let known = if self.is_tracked { self.track(located.end()) } else { Known::Unasked };
        let Located { offset, length, value } = located;
        let (source, origin, window) = (self.source, self.origin, *self.window);
        let said = self.sink.take(Item { source, sub_source, offset, length, window, value, origin }, known);
        if F::Says::CAN_END {
            self.outcome = said.control();
        }
    }

    fn enter(&mut self, window: Window) {
        *self.window = Some(window);
        self.sink.enter(window);
    }

    #[inline(always)]
    fn take_path(&mut self, sub_source: u16, path: PathId, items: impl Iterator<Item = Located<V>>) {
        if self.is_tracked {
            for item in items {
                self.take(sub_source, item);
            }
            return;
        }
        if self.is_done() {
            return;
        }
        // Most never look at an item: what is in all of them is copied for those who do.
        let Self { source, ref origin, ref window, base, ref mut sink, .. } = *self;
        let items = items.map(|Located { offset, length, value }| Item {
            source,
            sub_source,
            offset: offset + base,
            length,
            window: **window,
            value,
            origin: *origin,
        });
        let outcome = sink.take_path(path, Executor { source, sub_source, window: **window }, items);
        if F::Says::CAN_END {
            self.outcome = outcome;
        }
    }

    #[inline(always)]
    fn is_done(&self) -> bool {
        F::Says::CAN_END && self.outcome.is_break()
    }
}

impl<S: Stream> SourceDecoder<S> {
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
        self.kept = Kept { bytes: Vec::new(), base: offset, shown: offset };
        self.has_begun |= offset > 0;
    }

    /// Takes more of the stream. Each item comes with when it became known, if that is wanted: with its last byte, or
    /// with what came after it.
    pub fn take<R, F>(&mut self, part: Part<'_>, sink: &mut F) -> ControlFlow<()>
    where
        R: Outcome,
        F: FnMut(Item<'_, S::Value>, Known) -> R,
    {
        self.take_to(part, &mut EachItem(sink))
    }

    /// The same for whoever takes whole paths.
    pub fn take_to<F: ItemSink<S::Value>>(&mut self, part: Part<'_>, sink: &mut F) -> ControlFlow<()> {
        if let Some(shared) = &mut self.shared {
            shared.lend(&mut self.stream);
        }
        let outcome = self.take_part(part, sink);
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

    fn take_part<F: ItemSink<S::Value>>(&mut self, part: Part<'_>, sink: &mut F) -> ControlFlow<()> {
        self.keep(&part);
        let mut from = 0;
        for &Break { at, arrival, start, goes_on_as } in part.breaks {
            self.feed(part.bytes.get(from..at).unwrap_or_default(), sink)?;
            self.has_begun |= at > 0;
            let in_good_order = start.is_some() || goes_on_as.is_some();
            match in_good_order {
                true if self.has_begun => self.step(Step::End(arrival), sink)?,
                true => {}
                false => self.step(Step::Reset(arrival), sink)?,
            }
            goes_on_as.into_iter().for_each(|id| self.go_on_as(id));
            if let Some(window) = start.and_then(|start| self.stream.begin(start)) {
                self.window = Some(window);
                sink.enter(window);
            }
            from = at;
        }
        self.has_begun |= !part.bytes.is_empty();
        self.feed(part.bytes.get(from..).unwrap_or_default(), sink)
    }

    /// The stream ends.
    pub fn finish<R, F>(&mut self, sink: &mut F) -> ControlFlow<()>
    where
        R: Outcome,
        F: FnMut(Item<'_, S::Value>, Known) -> R,
    {
        self.finish_to(&mut EachItem(sink))
    }

    /// The same for whoever has to know the time.
    pub fn finish_to<F: ItemSink<S::Value>>(&mut self, sink: &mut F) -> ControlFlow<()> {
        self.step(Step::Finish, sink)
    }

    /// The stream does not continue.
    pub fn reset<R, F>(&mut self, sink: &mut F) -> ControlFlow<()>
    where
        R: Outcome,
        F: FnMut(Item<'_, S::Value>, Known) -> R,
    {
        self.step(Step::Reset(u64::MAX), &mut EachItem(sink))
    }

    fn feed<F: ItemSink<S::Value>>(&mut self, bytes: &[u8], sink: &mut F) -> ControlFlow<()> {
        self.taken += bytes.len() as u64;
        match F::TAKES_PATHS {
            true => self.with_sink(None, sink, |stream, each| stream.feed(bytes, each)),
            false => self.feed_any(bytes, sink),
        }
    }

    #[inline(never)]
    fn feed_any(&mut self, bytes: &[u8], sink: &mut dyn AnySink<S::Value>) -> ControlFlow<()> {
        self.with_sink(None, &mut OneByOne(sink), |stream, each| stream.feed(bytes, each))
    }

    /// What comes at a break is little: it is compiled once, and not for each sink.
    #[inline(never)]
    fn step(&mut self, step: Step, sink: &mut dyn AnySink<S::Value>) -> ControlFlow<()> {
        self.with_sink(Some(step), &mut OneByOne(sink), |stream, each| match step {
            Step::Reset(_) => stream.reset(each),
            Step::End(_) | Step::Finish => stream.finish(each),
        })
    }

    #[inline(always)]
    fn with_sink<F>(
        &mut self,
        step: Option<Step>,
        sink: &mut F,
        act: impl FnOnce(&mut S, &mut Items<'_, F>),
    ) -> ControlFlow<()> {
        let Self { source, stream, wanted, positions, arrivals, kept, window, base, .. } = self;
        let base = *base;
        let origin = match wanted.positions {
            true => Origin::Stream { positions, bytes: (&kept.bytes, kept.base) },
            false => Origin::Unknown,
        };
        let arrival = match step {
            _ if !wanted.arrivals => Arrival::Unasked,
            None => Arrival::WithLastByte(arrivals),
            Some(Step::Reset(arrival) | Step::End(arrival)) => Arrival::Later(arrival),
            Some(Step::Finish) => Arrival::Later(u64::MAX),
        };
        let outcome = ControlFlow::Continue(());
        let (shown, is_tracked) = (&mut kept.shown, wanted.bytes || wanted.arrivals);
        let mut each = Items { source, origin, arrival, shown, window, base, sink, outcome, is_tracked };
        act(stream, &mut each);
        each.outcome
    }
}
