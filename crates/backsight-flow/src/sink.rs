//! Where events go, and how much of them at a time.
//!
//! What one packet stands for is not bounded by the packet: a few bytes may say that a loop was run a hundred million
//! times. A sink can say that it has enough for now. The follower then stops in the middle of the packet, says that it
//! `is_paused`, and goes on with `resume`.

use backsight_core::Located;

use crate::{CountedRanges, Event, PathId, PathRanges};

/// Takes the events of a follower. Every closure that takes an event is a sink that never has enough.
pub trait Sink {
    /// Takes an event.
    fn take(&mut self, event: Located<Event>);

    /// Takes the ranges of a path that was walked before. A sink that counts what is executed need look at them only when `path`
    /// comes for the first time: it stands for the same ranges ever after, and for the same distances between their offsets.
    /// A sink that treats them like any other event need not care.
    #[inline(always)]
    fn take_path(&mut self, _path: PathId, ranges: PathRanges<'_>) {
        ranges.for_each(|range| self.take(range.map(Event::Range)));
    }

    /// The same where cycle counts are between the ranges: each with the count right before it, if there is one.
    #[inline(always)]
    fn take_counted_path(&mut self, _path: PathId, ranges: CountedRanges<'_>) {
        ranges.for_each(|(count, range)| {
            count.into_iter().for_each(|count| self.take(count));
            self.take(range.map(Event::Range));
        });
    }

    /// Has it enough for now? A follower asks between events, and stops soon after the answer is yes: a few hundred
    /// events may still come.
    #[inline]
    fn is_full(&self) -> bool {
        false
    }
}

impl<F: FnMut(Located<Event>)> Sink for F {
    #[inline(always)]
    fn take(&mut self, event: Located<Event>) {
        self(event);
    }
}

/// Keeps events until they are taken out, and has enough when there are so many.
#[derive(Clone, Debug)]
pub struct Buffer {
    events: Vec<Located<Event>>,
    limit: usize,
}

impl Buffer {
    /// A buffer that has enough with `limit` events.
    pub fn new(limit: usize) -> Self {
        Self { events: Vec::new(), limit }
    }

    /// The events in it, oldest first.
    pub fn events(&self) -> &[Located<Event>] {
        &self.events
    }

    /// Takes the events out, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Located<Event>> + '_ {
        self.events.drain(..)
    }
}

impl Sink for Buffer {
    #[inline]
    fn take(&mut self, event: Located<Event>) {
        self.events.push(event);
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.events.len() >= self.limit
    }
}
