//! The outline of streams: how much there is, and from when to when.

use super::{Decode, Item, Packets, Summary};
use crate::protocol::{Landmark, Packet};
use crate::{Result, Source};

/// What the packets of a source say about it as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outline {
    /// The first timestamp.
    pub first_time: Option<u64>,
    /// The last timestamp.
    pub last_time: Option<u64>,
    /// Times that the trace unit lost data.
    pub overflows: u64,
    /// Bytes of a packet that the end of the stream cut off.
    pub cut_off: u64,
    before: Option<Packet>,
}

impl Outline {
    fn take(&mut self, item: &Item<'_, Packet>) {
        let landmark = item.value.landmark(self.before.as_ref());
        self.cut_off = if landmark == Landmark::Bad { item.length.into() } else { 0 };
        match landmark {
            Landmark::Time(time) => {
                self.first_time.get_or_insert(time);
                self.last_time = Some(time);
            }
            Landmark::Overflow => self.overflows += 1,
            Landmark::None | Landmark::Sync | Landmark::Bad | Landmark::Unsynchronised => {}
        }
        self.before = Some(item.value);
    }
}

impl Decode<'_, Packets> {
    /// Reads the packets for what they say about each source as a whole.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn outline(self) -> Result<(Summary, Vec<(Source, Outline)>)> {
        self.any_order().positions(false).fold(|_| Outline::default(), |outline, item| outline.take(&item))
    }
}
