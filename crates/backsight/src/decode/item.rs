//! What comes out of a decode.

use std::ops::{ControlFlow, Range};

use backsight_core::TraceId;
use backsight_image::Window;

use super::positions::{Positions, Stretch};
use crate::Source;

/// Bytes that are kept for a packet that has not ended. More are passed over only while a decoder searches for
/// synchronisation; of those, nobody is shown the bytes.
pub(super) const MOST_KEPT: usize = 1 << 16;

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

/// Where a source can be cut in two. Offsets count the bytes of the stream of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Decoding begins here: this is a synchronisation.
    pub sync: u64,
    /// From here on, what comes out is what a decode of the whole source gives.
    pub offset: u64,
    /// Where reading of the buffer may begin; `None`: at its beginning.
    pub seek: Option<Seek>,
}

/// Where in a buffer reading may begin: between two frames, before the first byte of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    /// Bytes of the buffer that come before.
    pub position: u64,
    /// The trace ID that the next bytes belong to, where frames have said so before.
    pub id: Option<TraceId>,
    /// Bytes of the stream of the source that come before.
    pub offset: u64,
}

/// What is known of the bytes of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    /// Nobody asked.
    Unknown,
    /// The recent stream of the source.
    Stream(&'a Recent<'a>),
    /// Looked up before the stream went on.
    Known(u64, &'a [u8]),
}

/// The recent stream of a source.
#[derive(Debug)]
pub(crate) struct Recent<'a> {
    /// Where its bytes are, if somebody asks.
    pub positions: Option<&'a Positions>,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The offset of the first.
    pub base: u64,
    pub arrival: Arrival<'a>,
}

/// When items become known, as a number of bytes of any source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival<'a> {
    /// Nobody asks.
    Unasked,
    /// With their last bytes, which arrived then.
    WithLastByte(&'a Positions),
    /// By something that came later.
    Later(u64),
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
            Origin::Stream(recent) => Some(recent.positions?.of(self.offset)),
            Origin::Known(position, _) => Some(position),
        }
    }

    /// Bytes of its source around one that the source sent at about the same time: a caller that asks for the positions of many
    /// items need ask only once for a stretch. `None` if the decode was told that nobody would.
    pub fn stretch_at(&self, offset: u64) -> Option<Stretch> {
        match self.origin {
            Origin::Unknown => None,
            Origin::Stream(recent) => Some(recent.positions?.stretch_of(offset)),
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
            Origin::Stream(recent) => {
                let range = range(self.offset, self.length, recent.base);
                range.and_then(|range| recent.bytes.get(range)).unwrap_or_default()
            }
            Origin::Known(_, bytes) => bytes,
        }
    }

    /// When it became known, as a number of bytes of any source, and whether that was by something that came later than its last
    /// byte.
    pub(crate) fn arrival(&self) -> (u64, bool) {
        match self.origin {
            Origin::Stream(&Recent { arrival: Arrival::WithLastByte(arrivals), .. }) => {
                (arrivals.of((self.offset + u64::from(self.length)).saturating_sub(1)), false)
            }
            Origin::Stream(&Recent { arrival: Arrival::Later(arrival), .. }) => (arrival, true),
            _ => (0, true),
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

/// What a closure says: whether it wants more.
pub trait Outcome {
    /// In the terms of the standard library.
    fn control(self) -> ControlFlow<()>;
}

impl Outcome for () {
    #[inline]
    fn control(self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl Outcome for ControlFlow<()> {
    #[inline]
    fn control(self) -> ControlFlow<()> {
        self
    }
}
