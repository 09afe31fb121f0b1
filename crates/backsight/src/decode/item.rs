//! What comes out of a decode.

use std::ops::{ControlFlow, Range};

use backsight_flow::PathId;
use backsight_image::Window;

use super::positions::{Positions, Stretch};
use super::source_decoder::MOST_KEPT;
use super::span::Cut;
use crate::protocol::SavedState;
use crate::{Buffer, Source};

/// Something that was decoded, with where it came from.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a, T> {
    /// The source.
    pub source: &'a Source,
    /// The sub-source: the number of the hart, where several share the stream of a source; else 0.
    pub sub_source: u16,
    /// Offset of the first byte in the stream of the source.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// The span of time in which it happened, where that decides which code there was.
    pub window: Option<Window>,
    /// What it is.
    pub value: T,
    pub(crate) origin: Origin<'a>,
}

/// Who executed a path, and when.
#[derive(Clone, Copy, Debug)]
pub struct Executor<'a> {
    /// The source: [`Item::source`].
    pub source: &'a Source,
    /// The sub-source: [`Item::sub_source`].
    pub sub_source: u16,
    /// The span of time: [`Item::window`].
    pub window: Option<Window>,
}

/// What is known of the bytes of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    /// Nobody asked.
    Unknown,
    /// The recent stream of the source.
    Stream {
        /// Where its bytes are.
        positions: &'a Positions,
        /// Its recent bytes, and the offset of the first.
        bytes: (&'a [u8], u64),
    },
    /// Looked up before the stream went on.
    Known(u64, &'a [u8]),
}

impl<'a, T> Item<'a, T> {
    /// What is known at an offset of the stream and is not said there.
    pub(crate) fn made_up(source: &'a Source, sub_source: u16, offset: u64, value: T) -> Self {
        Self { source, sub_source, offset, length: 0, window: None, value, origin: Origin::Unknown }
    }

    /// The position of its first byte in the buffer; `None` if the decode was told that nobody would ask.
    pub fn position(&self) -> Option<u64> {
        match self.origin {
            Origin::Unknown => None,
            Origin::Stream { positions, .. } => Some(positions.of(self.offset)),
            Origin::Known(position, _) => Some(position),
        }
    }

    /// Bytes of its source around one that the source sent at about the same time: whoever asks for the positions of many
    /// items need ask only once for a stretch. `None` if the decode was told that nobody would.
    pub fn stretch_at(&self, offset: u64) -> Option<Stretch> {
        match self.origin {
            Origin::Unknown => None,
            Origin::Stream { positions, .. } => Some(positions.stretch_of(offset)),
            Origin::Known(position, _) => {
                Some(Stretch::of_one(offset, position.wrapping_add(offset.wrapping_sub(self.offset))))
            }
        }
    }

    /// Its bytes: those of a packet, as its source sent them. Empty where they are not kept: bytes without
    /// synchronisation, if there are very many, and whatever is no packet.
    pub fn bytes(&self) -> &'a [u8] {
        match self.origin {
            Origin::Unknown => &[],
            Origin::Stream { bytes: (bytes, base), .. } => {
                let range = range(self.offset, self.length, base);
                range.and_then(|range| bytes.get(range)).unwrap_or_default()
            }
            Origin::Known(_, bytes) => bytes,
        }
    }

    /// The same item with another value.
    pub fn with<U>(self, value: U) -> Item<'a, U> {
        let Self { source, sub_source, offset, length, window, origin, .. } = self;
        Item { source, sub_source, offset, length, window, value, origin }
    }
}

fn range(offset: u64, length: u32, base: u64) -> Option<Range<usize>> {
    let (first, length) = (usize::try_from(offset.checked_sub(base)?).ok()?, length as usize);
    (length <= MOST_KEPT).then_some(first..first.checked_add(length)?)
}

/// What a sink says: whether it wants more.
pub trait Outcome {
    /// Can it ever say that it does not? If not, nobody need ask.
    const CAN_END: bool;

    /// In the terms of the standard library.
    fn control(self) -> ControlFlow<()>;
}

impl Outcome for () {
    const CAN_END: bool = false;

    #[inline]
    fn control(self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl Outcome for ControlFlow<()> {
    const CAN_END: bool = true;

    #[inline]
    fn control(self) -> ControlFlow<()> {
        self
    }
}

/// Takes what a decode gives.
pub trait Sink<T> {
    /// A buffer begins.
    fn buffer(&mut self, _buffer: &Buffer) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Takes an item, and says whether it wants more.
    fn item(&mut self, item: Item<'_, T>) -> ControlFlow<()>;
}

/// Takes what one source gives, on the thread of that source; see [`Decode::accumulate`](super::Decode::accumulate) and
/// [`Decode::accumulate_span`](super::Decode::accumulate_span).
pub trait Accumulate<T> {
    /// Does it take whole paths by [`Accumulate::path`]? Decoders are compiled for each type that does, which is the fastest way
    /// to count, and takes longer to build; for all others each item is a call.
    const TAKES_PATHS: bool = false;

    /// Has it enough? Whoever decodes a span asks after each item and each path, and then stops. A decode of whole sources
    /// goes on to their end.
    #[inline(always)]
    fn has_enough(&self) -> bool {
        false
    }

    /// Takes an item.
    fn item(&mut self, item: Item<'_, T>);

    /// What follows happened in this span of time, which decides what code there was: [`Item::window`].
    fn enter(&mut self, _window: Window) {}

    /// Takes the items of a path of execution that was walked before. `path` always stands for the same values, and for the
    /// same distances between their offsets: a state that counts need look at them only when it comes for the first time.
    #[inline(always)]
    fn path<'a>(&mut self, _path: PathId, _sub_source: u16, items: impl Iterator<Item = Item<'a, T>>)
    where
        T: 'a,
    {
        items.for_each(|item| self.item(item));
    }

    /// What decides what it makes of the items that follow, where parts of a source are put together and that is more than the
    /// items: two states that know the same make the same of them. Each part ends with one.
    fn boundary(&mut self) -> Option<SavedState> {
        None
    }

    /// Begins where another state has come to a boundary. Without that, it begins anywhere.
    fn begin_at(&mut self, _boundary: &SavedState) {}

    /// The source can be cut here: the next item belongs to the next span. See
    /// [`Decode::find_cuts`](super::Decode::find_cuts).
    fn cut(&mut self, _cut: Cut) {}
}

/// Takes no notice of anything: for a decode of which only the summary is wanted.
impl<T> Accumulate<T> for () {
    fn item(&mut self, _item: Item<'_, T>) {}
}

/// A state that a closure gives items to.
pub(super) struct Folded<'e, S, E> {
    pub state: S,
    pub each: &'e E,
}

impl<T, S, E: Fn(&mut S, Item<'_, T>)> Accumulate<T> for Folded<'_, S, E> {
    fn item(&mut self, item: Item<'_, T>) {
        (self.each)(&mut self.state, item);
    }
}

/// A closure as a sink.
pub(super) struct Closure<F>(pub F);

impl<T, R: Outcome, F: FnMut(Item<'_, T>) -> R> Sink<T> for Closure<F> {
    #[inline]
    fn item(&mut self, item: Item<'_, T>) -> ControlFlow<()> {
        (self.0)(item).control()
    }
}
