//! Execution through code that changes.
//!
//! A stream of trace says what time it is only now and then. What lies between two timestamps happened between those
//! times, so it is held back until the second one is known, and then followed through the code of that span of time.
//! Where code does not change nothing is held back.

use backsight_capture::{EventClock, Start};
use backsight_core::{Accounting, Located};
use backsight_flow::{CodeCache, Event, Statistics};
use backsight_image::Window;
use std::sync::Arc;

use crate::Source;
use crate::code::Code;
use crate::protocol::{
    self, Act, AnySink, AnyStream, Landmark, Notes, Packet, Resumable, Stream, StreamSink,
};

/// Bytes that are held back at most: then the time of what follows is not known.
const MOST_HELD: usize = 1 << 20;

/// The execution of a source, at the time at which it was.
#[doc(hidden)]
pub struct TimedStream<'c> {
    execution: protocol::Execution<'c>,
    clock: Clock,
}

/// What says which time it is.
enum Clock {
    /// Nothing: the code does not change, or nobody can say when.
    None,
    /// Timestamps in the trace.
    Timestamps(Box<Scan>),
    /// The times of pieces of the buffer.
    Starts(Arc<[Start]>),
}

/// Looks for timestamps ahead of the execution.
struct Scan {
    packets: protocol::Packets,
    /// The packet before.
    before: Option<Packet>,
    /// Bytes that wait for a time.
    held: Vec<u8>,
    /// Offset of the first of them in the stream.
    base: u64,
    /// The last time, if any.
    time: Option<u64>,
}

impl<'c> TimedStream<'c> {
    pub(super) fn new(execution: protocol::Execution<'c>, source: &Source, code: &Code) -> Self {
        let clock = match code.event_clock() {
            None => Clock::None,
            Some(EventClock::Slices) => Clock::Starts(source.starts().clone()),
            Some(EventClock::Timestamps) => source.decoding().packets().map_or(Clock::None, |packets| {
                let (before, held, base, time) = Default::default();
                Clock::Timestamps(Box::new(Scan { packets, before, held, base, time }))
            }),
        };
        Self { execution, clock }
    }
}

impl Scan {
    /// Takes bytes; gives where timestamps end in what is held back, and what they say.
    fn feed(&mut self, bytes: &[u8]) -> Vec<(usize, u64)> {
        self.held.extend_from_slice(bytes);
        let Self { packets, before, base, .. } = self;
        let mut times = Vec::new();
        packets.feed(bytes, &mut |_, packet: Located<Packet>| {
            if let Landmark::Time(time) = packet.value.landmark(before.as_ref()) {
                times.push((packet.end().saturating_sub(*base) as usize, time));
            }
            *before = Some(packet.value);
        });
        times
    }

    /// Gives all that is held back to the execution, which was between the last time and this one.
    fn release<S: StreamSink<Event>>(
        &mut self,
        execution: &mut protocol::Execution<'_>,
        (length, time): (usize, Option<u64>),
        sink: &mut S,
    ) {
        let length = length.min(self.held.len());
        if let Some(to) = time.or(self.time) {
            let from = self.time.unwrap_or(to).min(to);
            execution.enter(Window { from, to });
            sink.enter(Window { from, to });
        }
        execution.feed(&self.held[..length], sink);
        self.held.drain(..length);
        self.base += length as u64;
        self.time = time.or(self.time);
    }
}

impl AnyStream for TimedStream<'_> {
    #[inline(never)]
    fn act(&mut self, act: Act<'_>, sink: &mut dyn AnySink<Event>) {
        act.on(self, sink);
    }
}

impl Stream for TimedStream<'_> {
    type Value = Event;

    fn feed<S: StreamSink<Event>>(&mut self, bytes: &[u8], sink: &mut S) {
        let Clock::Timestamps(scan) = &mut self.clock else { return self.execution.feed(bytes, sink) };
        // Small pieces: what a few bytes say may be long.
        for bytes in bytes.chunks(MOST_HELD / 4) {
            let mut released = 0;
            for (end, time) in scan.feed(bytes) {
                scan.release(&mut self.execution, (end.saturating_sub(released), Some(time)), sink);
                released = end;
            }
            if scan.held.len() > MOST_HELD {
                scan.release(&mut self.execution, (usize::MAX, None), sink);
            }
        }
    }

    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        if let Clock::Timestamps(scan) = &mut self.clock {
            scan.release(&mut self.execution, (usize::MAX, None), sink);
            scan.packets.finish(&mut |_, _: Located<Packet>| {});
        }
        self.execution.finish(sink);
    }

    fn reset<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        if let Clock::Timestamps(scan) = &mut self.clock {
            scan.release(&mut self.execution, (usize::MAX, None), sink);
            scan.packets.reset(&mut |_, _: Located<Packet>| {});
        }
        self.execution.reset(sink);
    }

    /// Its time is that of the other one, until it gives another.
    fn continue_after(&mut self, before: &Self) {
        if let (Clock::Timestamps(scan), Clock::Timestamps(other)) = (&mut self.clock, &before.clock) {
            scan.time = other.time;
        }
    }

    fn begin(&mut self, start: usize) -> Option<Window> {
        let Clock::Starts(starts) = &self.clock else { return None };
        let to = starts.get(start)?.time?;
        // A piece cannot have begun before the one before it had ended; the first may be of any time.
        let before = starts[..start].iter().rev().find_map(|start| start.time).unwrap_or(0);
        let window = Window { from: before.min(to), to };
        self.execution.enter(window);
        Some(window)
    }

    /// What is held back for a time to come cannot be left.
    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        match self.clock {
            Clock::None => self.execution.resumable(),
            Clock::Timestamps(_) | Clock::Starts(_) => None,
        }
    }

    fn take_cache(&mut self) -> Option<CodeCache> {
        self.execution.take_cache()
    }

    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.execution.give_cache(cache)
    }

    fn accounting(&self) -> Accounting {
        self.execution.accounting()
    }

    fn packets(&self) -> u64 {
        self.execution.packets()
    }

    fn statistics(&self) -> Statistics {
        self.execution.statistics()
    }

    fn notes(&self) -> Notes {
        self.execution.notes()
    }
}
