//! Items of a decode as an iterator: the decode runs on a thread of its own, and waits where it is too far ahead.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::vec;

use backsight_image::Window;

use super::item::{Item, Origin};
use super::summary::Summary;
use crate::{Error, Result, Source};

/// Most items that are handed over together.
const BATCH: usize = 1024;
/// Batches that may wait.
const MOST_BATCHES: usize = 4;

/// Something that was decoded, with where it came from, for keeps: what an [`Item`] says while it is given to a sink.
#[derive(Clone, Debug)]
pub struct OwnedItem<T> {
    /// The source.
    pub source: Source,
    /// The sub-source: the number of the hart, where several share the stream of a source; else 0.
    pub sub_source: u16,
    /// Offset of the first byte in the stream of the source.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// The position of the first byte in the buffer, unless the decode was told that nobody would ask.
    pub position: Option<u64>,
    /// The bytes, where [`Item::bytes`] has them.
    pub bytes: Box<[u8]>,
    /// The span of time in which it happened, where that decides which code there was.
    pub window: Option<Window>,
    /// What it is.
    pub value: T,
}

impl<T: Copy> From<&Item<'_, T>> for OwnedItem<T> {
    fn from(item: &Item<'_, T>) -> Self {
        let &Item { source, sub_source, offset, length, window, value, .. } = item;
        let (source, position, bytes) = (source.clone(), item.position(), item.bytes().into());
        Self { source, sub_source, offset, length, position, bytes, window, value }
    }
}

impl<T: Copy> OwnedItem<T> {
    /// The item that was kept.
    pub(crate) fn item(&self) -> Item<'_, T> {
        let &Self { ref source, sub_source, offset, length, position, ref bytes, window, value } = self;
        let origin = position.map_or(Origin::Unknown, |position| Origin::Known(position, bytes));
        Item { source, sub_source, offset, length, window, value, origin }
    }
}

/// Items that are handed over together.
type Batch<T> = Vec<OwnedItem<T>>;

/// A decode that has not come to its end.
struct Running<T> {
    batches: Receiver<Batch<T>>,
    thread: JoinHandle<Result<Summary>>,
}

/// What a decode gives, one item after the other: [`Decode::iter`](super::Decode::iter). An error is the last item. If it
/// is dropped before the end, the decode stops.
pub struct Items<T> {
    batch: vec::IntoIter<OwnedItem<T>>,
    /// `None` after the end.
    decode: Option<Running<T>>,
    summary: Option<Summary>,
}

impl<T: Copy + Send + 'static> Items<T> {
    /// Lets `decode` run.
    pub(super) fn new(decode: impl FnOnce(&mut BatchSender<T>) -> Result<Summary> + Send + 'static) -> Self {
        let (sender, batches) = sync_channel(MOST_BATCHES);
        let run = move || {
            let mut handed = BatchSender { items: Vec::new(), sender };
            let summary = decode(&mut handed)?;
            // A receiver that does not take them has gone.
            let _ = handed.send();
            Ok(summary)
        };
        let thread = std::thread::spawn(run);
        Self { batch: Vec::new().into_iter(), decode: Some(Running { batches, thread }), summary: None }
    }
}

impl<T> Items<T> {
    /// What was decoded, what was not, and why: known after the last item was taken.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }
}

impl<T> Iterator for Items<T> {
    type Item = Result<OwnedItem<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.batch.next() {
                return Some(Ok(item));
            }
            if let Ok(batch) = self.decode.as_ref()?.batches.recv() {
                self.batch = batch.into_iter();
                continue;
            }
            match self.decode.take()?.thread.join() {
                Ok(Ok(summary)) => self.summary = Some(summary),
                Ok(Err(error)) => return Some(Err::<_, Error>(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    }
}

impl<T> FusedIterator for Items<T> {}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("summary", &self.summary).finish_non_exhaustive()
    }
}

/// The side of the thread that decodes.
pub(super) struct BatchSender<T> {
    items: Vec<OwnedItem<T>>,
    sender: SyncSender<Batch<T>>,
}

impl<T: Copy> BatchSender<T> {
    /// Hands an item over; a break means that nobody takes any more.
    pub fn push(&mut self, item: &Item<'_, T>) -> ControlFlow<()> {
        self.items.push(item.into());
        if self.items.len() < BATCH { ControlFlow::Continue(()) } else { self.send() }
    }

    fn send(&mut self) -> ControlFlow<()> {
        let batch = std::mem::replace(&mut self.items, Vec::with_capacity(BATCH));
        if self.sender.send(batch).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
