//! Where the decoding of a source has come to.

use backsight_core::Context;
use backsight_core::Isa;
use backsight_flow::{Event, SourceTime};
use std::sync::Arc;

/// What is known of a place in a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Instructions before it.
    pub instructions: u64,
    /// The latest timestamp before it.
    pub time: Option<u64>,
    /// The first timestamp of the source, if that is before it.
    pub first_time: Option<u64>,
    /// Where in the buffer the last thing before it was reported, where somebody asks.
    pub position: Option<u64>,
}

impl Place {
    /// Takes note of an event that is no range.
    pub(super) fn pass(&mut self, event: &Event) {
        let time = match event {
            Event::Timestamp { value, .. } if *value != 0 => Some(*value),
            Event::SourceTime(SourceTime::Global { value, .. }) => Some(*value),
            Event::Software(message) => message.time(),
            _ => None,
        };
        if let Some(time) = time {
            // A clock that went back is no way to go back.
            self.time = self.time.max(Some(time));
            self.first_time.get_or_insert(time);
        }
    }
}

/// The contexts of the harts of a source: seldom another than before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts(pub(super) Arc<Vec<(u16, Context, Isa)>>);

impl Contexts {
    /// A hart is in this context from now on.
    pub(super) fn set(&mut self, hart: u16, context: Context, isa: Isa) {
        let place = self.0.binary_search_by_key(&hart, |known| known.0);
        match place {
            Ok(place) if self.0.get(place) == Some(&(hart, context, isa)) => {}
            Ok(place) => Arc::make_mut(&mut self.0)[place] = (hart, context, isa),
            Err(place) => Arc::make_mut(&mut self.0).insert(place, (hart, context, isa)),
        }
    }

    /// All of them, by hart.
    pub fn iter(&self) -> impl Iterator<Item = &(u16, Context, Isa)> {
        self.0.iter()
    }
}
