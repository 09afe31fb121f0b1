//! What takes the items of a source on the thread where it is decoded, and makes portions of something of them.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backsight_flow::PathId;
use backsight_image::Window;

use super::item::{Accumulate, Executor, Item, Origin};
use super::source_decoder::{ItemSink, Known};
use crate::Source;
use crate::protocol::SavedState;

/// Takes the items of one source on the thread of the source, and makes portions of something of them.
pub(super) trait Consumer<T>: Send {
    /// A portion.
    type Portion: Send;

    /// Does it take whole paths?
    const TAKES_PATHS: bool;

    /// Takes an item.
    fn item(&mut self, item: Item<'_, T>);

    /// What follows happened in this span of time.
    fn enter(&mut self, _window: Window) {}

    /// Takes the items of a path of execution that was walked before.
    #[inline(always)]
    fn path<'a>(&mut self, _path: PathId, _executor: Executor<'a>, items: impl Iterator<Item = Item<'a, T>>)
    where
        T: 'a,
    {
        items.for_each(|item| self.item(item));
    }

    /// The source ends.
    fn finish(&mut self) {}

    /// There is enough for a portion.
    fn is_full(&self) -> bool;

    /// What there is.
    fn take(&mut self) -> Option<Self::Portion>;

    /// What decides what it makes of what follows, where that is more than the items, after a portion.
    fn boundary(&self) -> Option<SavedState> {
        None
    }

    /// Goes on where a consumer of the same source has come to this boundary; without one it begins anywhere.
    fn go_on_at(&mut self, _boundary: Option<SavedState>) {}
}

/// A consumer as what takes the items of its source; each portion is handed on when there is enough for it.
pub(super) struct Portions<'a, C, O: ?Sized> {
    pub consumer: &'a mut C,
    pub output: &'a mut O,
}

impl<C, O: ?Sized> Portions<'_, C, O> {
    /// Hands on what there is.
    pub fn flush<T>(&mut self) -> ControlFlow<()>
    where
        C: Consumer<T>,
        O: FnMut(C::Portion) -> ControlFlow<()>,
    {
        self.consumer.take().map_or(ControlFlow::Continue(()), &mut self.output)
    }
}

impl<T, C, O> ItemSink<T> for Portions<'_, C, O>
where
    C: Consumer<T>,
    O: FnMut(C::Portion) -> ControlFlow<()> + ?Sized,
{
    type Says = ControlFlow<()>;

    const TAKES_PATHS: bool = C::TAKES_PATHS;

    #[inline(always)]
    fn take(&mut self, item: Item<'_, T>, _known: Known) -> ControlFlow<()> {
        self.consumer.item(item);
        if self.consumer.is_full() { self.flush() } else { ControlFlow::Continue(()) }
    }

    fn enter(&mut self, window: Window) {
        self.consumer.enter(window);
    }

    #[inline(always)]
    fn take_path<'a>(
        &mut self,
        path: PathId,
        executor: Executor<'a>,
        items: impl Iterator<Item = Item<'a, T>>,
    ) -> ControlFlow<()>
    where
        T: 'a,
    {
        self.consumer.path(path, executor, items);
        if self.consumer.is_full() { self.flush() } else { ControlFlow::Continue(()) }
    }
}

/// Puts what a source gives into text, or other bytes, on the thread of that source.
pub trait Writer<T>: Send {
    /// Does it write whole paths by [`Writer::path`]? Decoders are compiled for each type of writer that does, which is faster
    /// and takes longer to build.
    const TAKES_PATHS: bool = false;

    /// Writes an item.
    fn item(&mut self, item: &Item<'_, T>, text: &mut Vec<u8>);

    /// Writes the items of a path of execution that was walked before: `path` always stands for the same values.
    fn path<'a>(
        &mut self,
        _path: PathId,
        _executor: Executor<'a>,
        items: impl Iterator<Item = Item<'a, T>>,
        text: &mut Vec<u8>,
    ) where
        T: 'a,
    {
        items.for_each(|item| self.item(&item, text));
    }

    /// The source ends: writes what is left.
    fn finish(&mut self, _text: &mut Vec<u8>) {}

    /// Does what it writes of an item depend on nothing but the item and the last context? Then several writers may share
    /// a source, each of which writes pieces of it, and what one has written may be dropped.
    fn is_local(&self) -> bool {
        false
    }

    /// What was counted of the text since the last call, where the writer counts.
    fn take_count(&mut self) -> u64 {
        0
    }

    /// So much was counted in text of another writer that was used.
    fn add_count(&mut self, _count: u64) {}
}

/// Text that is enough to be handed on.
pub(super) const ENOUGH_TEXT: usize = 1 << 16;

/// Text of one source, or of pieces of it.
pub(super) struct Text<'p, W> {
    pub writer: W,
    pub text: Vec<u8>,
    pub pool: &'p Pool,
    /// Each portion has what was counted in it; else the writer keeps its count.
    pub with_counts: bool,
}

impl<T, W: Writer<T>> Consumer<T> for Text<'_, W> {
    /// The text, and what was counted in it.
    type Portion = (Vec<u8>, u64);

    const TAKES_PATHS: bool = W::TAKES_PATHS;

    #[inline]
    fn item(&mut self, item: Item<'_, T>) {
        self.writer.item(&item, &mut self.text);
    }

    #[inline]
    fn path<'a>(&mut self, path: PathId, executor: Executor<'a>, items: impl Iterator<Item = Item<'a, T>>)
    where
        T: 'a,
    {
        self.writer.path(path, executor, items, &mut self.text);
    }

    fn finish(&mut self) {
        self.writer.finish(&mut self.text);
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.text.len() >= ENOUGH_TEXT
    }

    fn take(&mut self) -> Option<Self::Portion> {
        let count = if self.with_counts { self.writer.take_count() } else { 0 };
        (count > 0 || !self.text.is_empty())
            .then(|| (std::mem::replace(&mut self.text, self.pool.take()), count))
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

    /// Room for a portion.
    fn take(&self) -> Vec<u8> {
        self.all().pop().unwrap_or_else(|| Vec::with_capacity(ENOUGH_TEXT + ENOUGH_TEXT / 4))
    }

    /// What was in it is not needed any more.
    pub fn give_back(&self, mut text: Vec<u8>) {
        text.clear();
        self.all().push(text);
    }
}

/// The state of pieces of a source.
pub(super) struct PieceState<'f, T, M> {
    pub source: Source,
    pub make: &'f M,
    /// What was made of the piece so far, and the span of time that items are of now.
    pub state: Option<T>,
    pub window: Option<Window>,
    /// Where the last portion has ended.
    pub boundary: Option<SavedState>,
}

impl<T, M: Fn(&Source) -> T> PieceState<'_, T, M> {
    #[inline(always)]
    fn state<V>(&mut self) -> &mut T
    where
        T: Accumulate<V>,
    {
        self.state.get_or_insert_with(|| {
            let mut state = (self.make)(&self.source);
            self.window.into_iter().for_each(|window| state.enter(window));
            self.boundary.iter().for_each(|boundary| state.begin_at(boundary));
            state
        })
    }
}

impl<V, T, M> Consumer<V> for PieceState<'_, T, M>
where
    T: Accumulate<V> + Send,
    M: Fn(&Source) -> T + Sync,
{
    type Portion = T;

    const TAKES_PATHS: bool = T::TAKES_PATHS;

    #[inline(always)]
    fn item(&mut self, item: Item<'_, V>) {
        self.state().item(item);
    }

    fn enter(&mut self, window: Window) {
        self.window = Some(window);
        if let Some(state) = &mut self.state {
            state.enter(window);
        }
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, executor: Executor<'a>, items: impl Iterator<Item = Item<'a, V>>)
    where
        V: 'a,
    {
        self.state().path(path, executor.sub_source, items);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        false
    }

    fn take(&mut self) -> Option<T> {
        let mut state = self.state.take()?;
        self.boundary = state.boundary();
        Some(state)
    }

    fn boundary(&self) -> Option<SavedState> {
        self.boundary.clone()
    }

    fn go_on_at(&mut self, boundary: Option<SavedState>) {
        self.boundary = boundary;
    }
}

/// Items of one source, kept until the calling thread takes them.
pub(super) struct Collected<T> {
    pub source: Source,
    pub items: Vec<Kept<T>>,
}

/// One of them.
pub(crate) struct Kept<T> {
    sub_source: u16,
    length: u32,
    offset: u64,
    position: Option<u64>,
    window: Option<Window>,
    value: T,
}

impl<T: Copy> Kept<T> {
    /// Keeps an item.
    pub fn of(item: &Item<'_, T>) -> Self {
        let &Item { sub_source, length, offset, window, value, .. } = item;
        Self { sub_source, length, offset, position: item.position(), window, value }
    }

    /// The item that was kept.
    pub fn item<'a>(&self, source: &'a Source) -> Item<'a, T> {
        let &Self { sub_source, length, offset, position, window, value } = self;
        let origin = position.map_or(Origin::Unknown, |position| Origin::Known(position, &[]));
        Item { source, sub_source, offset, length, window, value, origin }
    }
}

/// Items that are enough to be handed on.
const ENOUGH_ITEMS: usize = 1024;

impl<T: Copy + Send> Consumer<T> for Collected<T> {
    type Portion = (Source, Vec<Kept<T>>);

    const TAKES_PATHS: bool = false;

    fn item(&mut self, item: Item<'_, T>) {
        self.items.push(Kept::of(&item));
    }

    fn is_full(&self) -> bool {
        self.items.len() >= ENOUGH_ITEMS
    }

    fn take(&mut self) -> Option<Self::Portion> {
        let items = std::mem::replace(&mut self.items, Vec::with_capacity(ENOUGH_ITEMS));
        (!items.is_empty()).then(|| (self.source.clone(), items))
    }
}
