//! The consumers of one thread.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backsight_core::TraceId;
use backsight_flow::PathId;
use backsight_image::Window;

use super::consumer::{AnyConsumer, Consumer};
use super::item::Item;
use super::pieces::Portion;
use crate::protocol::SavedState;
use crate::{Buffer, Source};

/// Makes the consumer of a source, or of a part of one; `None` after a failure.
pub(super) type Make<'m, C> = &'m (dyn Fn(&Source) -> Option<C> + Sync + 'm);

/// Takes text.
pub(super) type TextSink<'o> = &'o mut (dyn FnMut(Vec<u8>) -> ControlFlow<()> + 'o);

/// Text that is enough to be handed on.
const ENOUGH_TEXT: usize = 1 << 16;

/// What came of lanes.
pub(super) struct Outcomes<C> {
    /// Of whole sources.
    sources: Mutex<Vec<OfSource<C>>>,
    /// What the parts of the only source come to.
    sum: Mutex<Option<C>>,
}

impl<C> Default for Outcomes<C> {
    fn default() -> Self {
        Self { sources: Mutex::default(), sum: Mutex::default() }
    }
}

impl<C> Outcomes<C> {
    /// All consumers, in the order of the IDs of their sources. `only` is the source whose parts were put together, if one was.
    pub fn into_consumers(self, only: Option<&Source>) -> Vec<OfSource<C>> {
        let mut all = self.sources.into_inner().unwrap_or_else(PoisonError::into_inner);
        let sum = self.sum.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.extend(sum.zip(only).map(|(consumer, source)| OfSource::new(source.clone(), consumer)));
        all.sort_unstable_by_key(|one| one.id);
        all
    }
}

/// The consumer of a part of a source.
struct Part<'m, C> {
    consumer: C,
    outcomes: &'m Outcomes<C>,
}

/// What was made of a part of a source.
pub(super) trait AnyPart<V> {
    /// Puts it to what the parts before it come to. A break means that this has enough.
    fn join(self: Box<Self>) -> ControlFlow<()>;
}

impl<V, C: Consumer<V>> AnyPart<V> for Part<'_, C> {
    fn join(self: Box<Self>) -> ControlFlow<()> {
        let Self { consumer, outcomes } = *self;
        let mut sum = outcomes.sum.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = &mut *sum else {
            *sum = Some(consumer);
            return ControlFlow::Continue(());
        };
        before.join(consumer);
        if before.has_enough() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The consumers of one thread, of whatever type: what spreads work over threads is compiled once for all of them.
pub(super) trait AnyLane<'m, V> {
    /// Can parts of a source have a consumer each?
    fn can_join(&self, source: &Source) -> bool;

    /// Makes the consumer of the first source; false after a failure.
    fn begin(&mut self, source: &Source) -> bool;

    /// Lets `work` have the consumer of whatever it is about, and hands on all text after that. A break means that nobody wants more.
    fn deliver(&mut self, output: TextSink<'_>, work: Work<'_, V>) -> ControlFlow<()>;

    /// What was made of a part of the only source, but for text that was handed on. The next part begins where this one has
    /// ended, with another consumer unless it writes.
    fn take_part(&mut self) -> Option<Portion<'m, V>>;

    /// Where the last part has ended, where that is more than the decoder knows.
    fn boundary(&self) -> Option<&SavedState>;

    /// Goes on where a consumer of the same source has come to this boundary; without one it begins anywhere.
    fn go_on_at(&mut self, boundary: Option<SavedState>);

    /// Makes a consumer of all the parts of a source, if it makes text of what those have written.
    fn begin_joining(&mut self, source: &Source) -> bool;

    /// Takes what was written of the next part. Gives the text that it has made of that.
    fn join_text(&mut self, written: &[u8]) -> Option<&mut Vec<u8>>;

    /// No more comes.
    fn end(self: Box<Self>);
}

/// Something that decodes, for a consumer.
pub(super) type Work<'w, V> = &'w mut (dyn FnMut(&mut dyn AnyConsumer<V>) -> ControlFlow<()> + 'w);

/// A lane of whatever type.
pub(super) type BoxedLane<'m, V> = Box<dyn AnyLane<'m, V> + Send + 'm>;

/// Makes a lane for a thread.
pub(super) type MakeLane<'l, 'm, V> = &'l (dyn Fn() -> BoxedLane<'m, V> + Sync + 'l);

/// The consumers of the sources that one thread decodes: each gets what is of its source.
pub(super) struct Lane<'m, C> {
    make: Make<'m, C>,
    pool: &'m Pool,
    outcomes: &'m Outcomes<C>,
    /// A source that goes on under another ID keeps its consumer: its buffer says which ones do.
    buffer: Option<&'m Buffer>,
    /// The one that items are of now; there are few others, and they seldom take turns.
    current: Option<OfSource<C>>,
    others: Vec<OfSource<C>>,
    /// Where the last part has ended.
    boundary: Option<SavedState>,
    /// Consumers are of parts of a source.
    is_of_parts: bool,
}

/// The consumer of a source.
pub(super) struct OfSource<C> {
    id: TraceId,
    pub source: Source,
    pub consumer: C,
}

impl<C> OfSource<C> {
    pub fn new(source: Source, consumer: C) -> Self {
        Self { id: source.frame_id(), source, consumer }
    }
}

impl<'m, C> Lane<'m, C> {
    /// No consumer yet: `make` makes one for each source that has bytes, and, without the buffer, for each ID that it has.
    pub fn new(
        make: Make<'m, C>,
        pool: &'m Pool,
        outcomes: &'m Outcomes<C>,
        buffer: Option<&'m Buffer>,
    ) -> Self {
        let (others, boundary) = Default::default();
        Self { make, pool, outcomes, buffer, current: None, others, boundary, is_of_parts: false }
    }

    #[inline(always)]
    fn consumer(&mut self) -> Option<&mut C> {
        self.current.as_mut().map(|current| &mut current.consumer)
    }

    fn id_of(&self, source: &Source) -> TraceId {
        let id = source.frame_id();
        self.buffer.map_or(id, |buffer| buffer.first_id(id))
    }

    /// What follows is of this source. Text goes on in the order in which it is written.
    fn turn_to<T>(&mut self, id: TraceId, source: &Source, window: Option<Window>)
    where
        C: Consumer<T>,
    {
        let text = self.consumer().and_then(Consumer::text).map(std::mem::take);
        let known = self.others.iter().position(|one| one.id == id);
        self.others.extend(self.current.take());
        self.current = match known {
            Some(known) => Some(self.others.swap_remove(known)),
            None => (self.make)(source).map(|mut consumer| {
                window.into_iter().for_each(|window| consumer.enter(window));
                if self.is_of_parts {
                    consumer.begin_at(self.boundary.as_ref());
                }
                OfSource { id, source: source.clone(), consumer }
            }),
        };
        if let (Some(before), Some(text)) = (text, self.consumer().and_then(Consumer::text)) {
            *text = before;
        }
    }
}

impl<'m, V, C: Consumer<V> + Send + 'm> AnyLane<'m, V> for Lane<'m, C> {
    fn can_join(&self, source: &Source) -> bool {
        (self.make)(source).is_some_and(|consumer| consumer.can_join())
    }

    fn begin(&mut self, source: &Source) -> bool {
        self.turn_to(self.id_of(source), source, None);
        self.current.is_some()
    }

    fn deliver(&mut self, output: TextSink<'_>, work: Work<'_, V>) -> ControlFlow<()> {
        let mut delivering = Delivering { lane: self, output, has_enough: false };
        work(&mut delivering)?;
        delivering.flush()
    }

    fn take_part(&mut self) -> Option<Portion<'m, V>> {
        let (pool, outcomes) = (self.pool, self.outcomes);
        let consumer = self.consumer()?;
        let boundary = consumer.boundary();
        let text = consumer.text().map(|text| match text.is_empty() {
            true => Vec::new(),
            false => std::mem::replace(text, pool.take()),
        });
        self.boundary = boundary;
        match text {
            Some(text) if text.is_empty() => None,
            Some(text) => Some(Portion::Text(text)),
            None => {
                let consumer = self.current.take()?.consumer;
                Some(Portion::Part(Box::new(Part { consumer, outcomes })))
            }
        }
    }

    fn boundary(&self) -> Option<&SavedState> {
        self.boundary.as_ref()
    }

    fn go_on_at(&mut self, boundary: Option<SavedState>) {
        self.is_of_parts = true;
        let consumer = self.consumer();
        // Text that was not taken is not wanted. A consumer that writes goes on: it has learnt texts.
        match consumer.map(|consumer| (consumer.text().map(Vec::clear), consumer)) {
            Some((Some(()), consumer)) => consumer.begin_at(boundary.as_ref()),
            _ => self.current = None,
        }
        self.boundary = boundary;
    }

    fn begin_joining(&mut self, source: &Source) -> bool {
        let joiner = (self.make)(source).filter(C::joins_text);
        self.current = joiner.map(|consumer| OfSource::new(source.clone(), consumer));
        self.current.is_some()
    }

    fn join_text(&mut self, written: &[u8]) -> Option<&mut Vec<u8>> {
        let joiner = self.consumer()?;
        joiner.join_text(written);
        joiner.text()
    }

    fn end(self: Box<Self>) {
        let Self { current, others, outcomes, .. } = *self;
        let mut all = outcomes.sources.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(others.into_iter().chain(current));
    }
}

/// Consumers whose text is handed on when there is enough of it.
pub(super) struct Delivering<'l, 'm, C> {
    lane: &'l mut Lane<'m, C>,
    output: TextSink<'l>,
    has_enough: bool,
}

impl<C> Delivering<'_, '_, C> {
    /// Something was taken.
    #[inline(always)]
    fn go_on<T>(&mut self)
    where
        C: Consumer<T>,
    {
        let Some(consumer) = self.lane.consumer() else { return };
        if consumer.has_enough() || consumer.text().is_some_and(|text| text.len() >= ENOUGH_TEXT) {
            self.hand_on::<T>();
        }
    }

    /// Hands on the text that there is.
    #[inline(never)]
    fn hand_on<T>(&mut self)
    where
        C: Consumer<T>,
    {
        let Self { lane, output, has_enough } = self;
        let pool = lane.pool;
        let Some(consumer) = lane.consumer() else { return };
        *has_enough |= consumer.has_enough();
        if let Some(text) = consumer.text()
            && !text.is_empty()
        {
            *has_enough |= output(std::mem::replace(text, pool.take())).is_break();
        }
    }

    /// Hands on the text that there is. A break means that nobody wants more.
    pub fn flush<T>(&mut self) -> ControlFlow<()>
    where
        C: Consumer<T>,
    {
        self.hand_on::<T>();
        if self.has_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl<T, C: Consumer<T>> Consumer<T> for Delivering<'_, '_, C> {
    #[inline(always)]
    fn item(&mut self, item: Item<'_, T>) {
        if let Some(consumer) = self.lane.consumer() {
            consumer.item(item);
            self.go_on::<T>();
        }
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, sub_source: u16, items: impl Iterator<Item = Item<'a, T>>)
    where
        T: 'a,
    {
        if let Some(consumer) = self.lane.consumer() {
            consumer.path(path, sub_source, items);
            self.go_on::<T>();
        }
    }

    #[inline(always)]
    fn counted_path<'a>(
        &mut self,
        path: PathId,
        sub_source: u16,
        items: impl Iterator<Item = (Option<Item<'a, T>>, Item<'a, T>)> + Clone,
    ) where
        T: 'a,
    {
        if let Some(consumer) = self.lane.consumer() {
            consumer.counted_path(path, sub_source, items);
            self.go_on::<T>();
        }
    }

    fn source(&mut self, source: &Source, window: Option<Window>) {
        let id = self.lane.id_of(source);
        if self.lane.current.as_ref().is_none_or(|current| current.id != id) {
            self.lane.turn_to(id, source, window);
            self.has_enough |= self.lane.current.is_none();
        }
    }

    fn enter(&mut self, window: Window) {
        if let Some(consumer) = self.lane.consumer() {
            consumer.enter(window);
        }
    }

    #[inline(always)]
    fn has_enough(&self) -> bool {
        self.has_enough
    }

    fn ignores_items(&self) -> bool {
        self.lane.current.as_ref().is_some_and(|current| current.consumer.ignores_items())
    }

    fn finish(&mut self) {
        if let Some(consumer) = self.lane.consumer() {
            consumer.finish();
            self.go_on::<T>();
        }
    }

    fn pause(&mut self) {
        self.hand_on::<T>();
    }
}

/// Memory for text that goes from thread to thread and back: to ask the system for it again and again takes longer than to
/// write the text.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<Vec<u8>>>);

impl Pool {
    fn all(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for text.
    fn take(&self) -> Vec<u8> {
        self.all().pop().unwrap_or_else(|| Vec::with_capacity(ENOUGH_TEXT + ENOUGH_TEXT / 4))
    }

    /// What was in it is not needed any more.
    pub fn give_back(&self, mut text: Vec<u8>) {
        text.clear();
        self.all().push(text);
    }
}
