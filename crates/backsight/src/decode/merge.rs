//! Items of several sources in the order of the capture.
//!
//! Sources are decoded one after the other, each with all its bytes of a block. What they give is put back into the
//! order in which it became known: that of last bytes. Whatever way a buffer is cut into blocks, the order is the same.

use backsight_image::Window;

use super::consumer::{AnyConsumer, Consumer};
use super::item::{Item, Origin};
use crate::Source;

/// Items that wait for those of other sources.
pub(crate) struct Waiting<T> {
    /// Does an item become known only with the one after it?
    is_late: fn(&T) -> bool,
    items: Vec<Stored<T>>,
    bytes: Vec<u8>,
    sources: Vec<Source>,
    /// (when it became known, number of the source, number of the item).
    order: Vec<(u64, u32, u32)>,
}

struct Stored<T> {
    source: u32,
    sub_source: u16,
    length: u32,
    offset: u64,
    position: u64,
    bytes: std::ops::Range<u32>,
    window: Option<Window>,
    value: T,
}

impl<T> Waiting<T> {
    /// None yet.
    pub fn new(is_late: fn(&T) -> bool) -> Self {
        let (items, bytes, sources, order) = Default::default();
        Self { is_late, items, bytes, sources, order }
    }
}

impl<T: Copy> Consumer<T> for Waiting<T> {
    fn source(&mut self, source: &Source, _window: Option<Window>) {
        self.sources.push(source.clone());
    }

    fn item(&mut self, item: Item<'_, T>) {
        let source = self.sources.len().saturating_sub(1) as u32;
        let number = self.items.len() as u32;
        let (known_at, is_settled) = item.arrival();
        // Those that waited for this one became known with it.
        for (key, other, _) in self.order.iter_mut().rev() {
            if *key != LATE || *other != source {
                break;
            }
            *key = known_at;
        }
        let is_late = !is_settled && (self.is_late)(&item.value);
        self.order.push((if is_late { LATE } else { known_at }, source, number));
        let from = self.bytes.len() as u32;
        self.bytes.extend_from_slice(item.bytes());
        self.items.push(Stored {
            source,
            sub_source: item.sub_source,
            length: item.length,
            offset: item.offset,
            position: item.position().unwrap_or_default(),
            bytes: from..self.bytes.len() as u32,
            window: item.window,
            value: item.value,
        });
    }
}

impl<T: Copy> Waiting<T> {
    /// Gives everything in order.
    pub fn give(&mut self, consumer: &mut dyn AnyConsumer<T>) {
        let Self { items, bytes, sources, order, .. } = self;
        order.sort_unstable();
        let mut current = u32::MAX;
        for &(_, _, number) in order.iter() {
            let Some(stored) = items.get(number as usize) else { continue };
            let Some(source) = sources.get(stored.source as usize) else { continue };
            if std::mem::replace(&mut current, stored.source) != stored.source {
                consumer.source(source, None);
            }
            let bytes = bytes.get(stored.bytes.start as usize..stored.bytes.end as usize);
            let &Stored { sub_source, offset, length, position, window, value, .. } = stored;
            let origin = Origin::Known(position, bytes.unwrap_or_default());
            consumer.item(Item { source, sub_source, offset, length, window, value, origin });
            if consumer.has_enough() {
                break;
            }
        }
        items.clear();
        bytes.clear();
        sources.clear();
        order.clear();
    }
}

/// Becomes known with the next item of the source, or with what else there is of the block.
const LATE: u64 = u64::MAX - 1;
