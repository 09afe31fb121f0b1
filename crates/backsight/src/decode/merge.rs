//! Items of several sources in the order of the capture.
//!
//! Sources are decoded one after the other, each with all its bytes of a block. What they give is put back into the
//! order in which it became known: that of last bytes. Whatever way a buffer is cut into blocks, the order is the same.

use std::ops::ControlFlow;

use backsight_image::Window;

use super::item::{Item, Origin};
use super::source_decoder::Known;
use crate::Source;

/// Items that wait for those of other sources.
pub(crate) struct Waiting<T> {
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

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { items: Vec::new(), bytes: Vec::new(), sources: Vec::new(), order: Vec::new() }
    }
}

impl<T: Copy> Waiting<T> {
    /// The items that follow are of this source.
    pub fn begin(&mut self, source: &Source) {
        self.sources.push(source.clone());
    }

    /// Takes an item, with when it became known. `late`: that was with the next one.
    pub fn push(&mut self, item: &Item<'_, T>, known: Known, late: bool) {
        let source = self.sources.len().saturating_sub(1) as u32;
        let number = self.items.len() as u32;
        let (known_at, late) = match known {
            Known::WithByte(arrival) => (arrival, late),
            Known::Later(arrival) => (arrival, false),
            Known::Unasked => (0, false),
        };
        // Those that waited for this one became known with it.
        for (key, other, _) in self.order.iter_mut().rev() {
            if *key != LATE || *other != source {
                break;
            }
            *key = known_at;
        }
        self.order.push((if late { LATE } else { known_at }, source, number));
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

    /// Gives everything in order.
    pub fn give<F: FnMut(Item<'_, T>) -> ControlFlow<()>>(&mut self, sink: &mut F) -> ControlFlow<()> {
        let Self { items, bytes, sources, order } = self;
        order.sort_unstable();
        let mut outcome = ControlFlow::Continue(());
        for &(_, _, number) in order.iter() {
            let Some(stored) = items.get(number as usize) else { continue };
            let Some(source) = sources.get(stored.source as usize) else { continue };
            let bytes = bytes.get(stored.bytes.start as usize..stored.bytes.end as usize);
            let &Stored { sub_source, offset, length, position, window, value, .. } = stored;
            let origin = Origin::Known(position, bytes.unwrap_or_default());
            outcome = sink(Item { source, sub_source, offset, length, window, value, origin });
            if outcome.is_break() {
                break;
            }
        }
        items.clear();
        bytes.clear();
        sources.clear();
        order.clear();
        outcome
    }
}

/// Becomes known with the next item of the source, or with what else there is of the block.
const LATE: u64 = u64::MAX - 1;
