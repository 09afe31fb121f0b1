//! Everything that the sources of a capture report, on one time axis.
//!
//! Sources that share a clock put timestamps into their streams, now and then. What a source reports between two of them
//! happened between the two times; cycles say about when, or else instructions. Sources are decoded side by side, a
//! few kilobytes at a time, the one that is behind first, and what they give waits until every other source has come as
//! far. How much may wait is bounded: a source that never says what time it is does not hold up the others.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::ops::ControlFlow;

use backsight_flow::{Event, HardwareEvent, SourceTime};
use backsight_image::Window;

use super::Decode;
use super::consumer::Each;
use super::item::{Item, Origin, Outcome};
use super::kind::Execution;
use super::session::Session;
use super::summary::Summary;
use crate::capture::read_block;
use crate::{Result, Source};

/// Bytes of a buffer that are decoded before another buffer has its turn.
const PIECE: usize = 1 << 12;

/// Items that may wait for those of other sources.
const MOST_WAITING: usize = 1 << 18;

/// When something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBounds {
    /// Not before this; `None` before the first timestamp of its source.
    pub earliest: Option<u64>,
    /// Not after this; `None` after the last timestamp of its source.
    pub latest: Option<u64>,
    /// About then, by the cycles that were counted since the timestamp before; where none were, as if instructions took equally long.
    pub estimate: Option<u64>,
}

impl TimeBounds {
    /// Is it known to the tick?
    pub fn is_exact(&self) -> bool {
        self.earliest.is_some() && self.earliest == self.latest
    }

    const fn exact(time: u64) -> Self {
        Self { earliest: Some(time), latest: Some(time), estimate: Some(time) }
    }
}

/// As listings show it: a time, or two that it lies between.
impl std::fmt::Display for TimeBounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match (self.earliest, self.latest) {
            (Some(time), Some(same)) if time == same => format!("{time:#x}"),
            (Some(earliest), Some(latest)) => format!("{earliest:#x}..{latest:#x}"),
            (Some(earliest), None) => format!("{earliest:#x}.."),
            (None, Some(latest)) => format!("..{latest:#x}"),
            (None, None) => "?".to_owned(),
        };
        f.pad(&text)
    }
}

impl<'c> Decode<'c, Execution> {
    /// Decodes all sources side by side, and gives what they report in the order of time, as far as timestamps say. The
    /// items of one source stay in their order. Memory is bounded, whatever the sources send.
    ///
    /// ```
    /// let capture = backsight::Capture::open("captures/first")?;
    /// let mut times = Vec::new();
    /// capture.execution().run_by_time(|_item, time| times.extend(time.estimate))?;
    /// assert!(times.is_sorted());
    /// # Ok::<(), backsight::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn run_by_time<R: Outcome>(
        self,
        mut sink: impl FnMut(Item<'_, Event>, TimeBounds) -> R,
    ) -> Result<Summary> {
        self.run_merged(&mut |item, time, _| sink(item, time).control())
    }

    /// The same. A flag says which item is known to be the last of its hart.
    pub(super) fn run_merged(self, sink: &mut MergedSink<'_>) -> Result<Summary> {
        let mut summary = self.empty_summary();
        let mut merge = TimeMerge::new(MOST_WAITING);
        let mut open_buffers = Vec::new();
        for (number, setup) in self.setups()?.into_iter().enumerate() {
            let (buffer, reader) = (setup.buffer, setup.buffer.open()?);
            // Harts are met one by one; of every other source something is to be expected.
            let sources = buffer.sources().filter(|source| source.is_decoded() && !source.numbers_harts());
            sources.filter(|source| self.wants(source.id())).for_each(|source| merge.expect(number, source));
            open_buffers.push((buffer, Some(reader), Session::new(setup)));
        }
        let mut block = vec![0; PIECE];
        let mut outcome = ControlFlow::Continue(());
        while outcome.is_continue()
            && let Some(number) = merge.slowest(open_buffers.iter().map(|(_, reader, _)| reader.is_some()))
        {
            let Some((buffer, reader_slot, session)) = open_buffers.get_mut(number) else { break };
            let Some(reader) = reader_slot else { break };
            let count = read_piece(reader, &mut block)
                .map_err(|error| backsight_capture::Error::io(buffer.name(), &error))?;
            let mut each = Each::new(|item: Item<'_, Event>| {
                merge.push(number, &item);
                // A few bytes may stand for millions of items; else all sources of a piece come first.
                if merge.is_full() { merge.give(sink) } else { ControlFlow::Continue(()) }
            });
            outcome = match count {
                0 => session.finish(&mut each),
                count => session.feed(block.get(..count).unwrap_or_default(), &mut each),
            };
            if count == 0 {
                *reader_slot = None;
                merge.end(number);
            }
            if outcome.is_continue() {
                outcome = merge.give(sink);
            }
            if let Some(progress) = &self.progress {
                progress(count as u64);
            }
        }
        if outcome.is_continue() {
            outcome = merge.finish(sink);
        }
        summary.stopped = outcome.is_break();
        summary.buffers.extend(open_buffers.iter_mut().map(|(_, _, session)| session.buffer_summary()));
        Ok(summary)
    }
}

/// Takes items in the order of time.
type MergedSink<'s> = dyn FnMut(Item<'_, Event>, TimeBounds, bool) -> ControlFlow<()> + 's;

fn read_piece(reader: &mut impl Read, block: &mut [u8]) -> std::io::Result<usize> {
    read_block(reader, block, true)
}

/// The time that an event has by itself.
fn time_of(event: &Event) -> Option<u64> {
    match event {
        Event::Timestamp { value, .. } => Some(*value).filter(|&value| value != 0),
        Event::SourceTime(SourceTime::Global { value, .. }) => Some(*value),
        Event::Software(message) => message.time(),
        Event::Hardware(HardwareEvent::System(event)) => event.time(),
        _ => None,
    }
}

fn cycles_of(event: &Event) -> u64 {
    match event {
        Event::CycleCount(Some(cycles)) | Event::Timestamp { cycles: Some(cycles), .. } => (*cycles).into(),
        _ => 0,
    }
}

/// Items of several sources on their way to one order.
struct TimeMerge {
    tracks: Vec<Track>,
    /// By the number of the buffer, the ID in frames and the sub-source.
    numbers: BTreeMap<(usize, u8, u16), usize>,
    waiting: usize,
    most: usize,
}

/// What one source has given.
struct Track {
    buffer: usize,
    source: Source,
    sub_source: u16,
    /// After the last timestamp: how long they took is not known yet.
    open: Vec<Stored>,
    /// Those whose time is known, in their order.
    ready: VecDeque<Stored>,
    /// The last timestamp.
    time: Option<u64>,
    /// What passed since.
    passed: Passed,
    /// The latest estimate: no later one is before it.
    latest: u64,
    is_ended: bool,
    /// It had its chance to say what time it is.
    is_untimed: bool,
}

#[derive(Clone, Copy)]
struct Stored {
    offset: u64,
    length: u32,
    position: Option<u64>,
    /// What passed before it, since the last timestamp.
    passed: Passed,
    time: TimeBounds,
    window: Option<Window>,
    value: Event,
}

/// What passed since a timestamp.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    cycles: u64,
    instructions: u64,
}

impl Passed {
    fn add(&mut self, event: &Event) {
        self.cycles = self.cycles.saturating_add(cycles_of(event));
        if let Event::Range(range) = event {
            self.instructions = self.instructions.saturating_add(range.instructions.into());
        }
    }

    /// Which part of a time had passed, if all of this passed in it.
    fn share(self, time: u64, all: Self) -> u64 {
        let (part, whole) = match all.cycles {
            0 => (self.instructions, all.instructions),
            cycles => (self.cycles, cycles),
        };
        if whole == 0 { 0 } else { (u128::from(time) * u128::from(part) / u128::from(whole)) as u64 }
    }
}

impl Track {
    /// Closes what is open: it happened up to `end`.
    fn close(&mut self, end: Option<u64>) {
        let (earliest, total) = (self.time, std::mem::take(&mut self.passed));
        for mut stored in self.open.drain(..) {
            let begin = earliest.or(end).unwrap_or(self.latest);
            let passed = end.unwrap_or(begin).saturating_sub(begin);
            let share = stored.passed.share(passed, total);
            self.latest = self.latest.max(begin.saturating_add(share));
            let estimate = (earliest.is_some() || end.is_some()).then_some(self.latest);
            stored.time = TimeBounds { earliest, latest: end, estimate };
            self.ready.push_back(stored);
        }
    }

    /// Nothing that is yet to come can be before this; `None` if it cannot come at all, or nobody waits for it.
    fn reached(&self) -> Option<u64> {
        (!self.is_ended && !self.is_untimed).then(|| self.time.map_or(0, |_| self.latest))
    }

    /// The order of the next item. What has no time of its own comes at once.
    fn next(&self) -> Option<u64> {
        self.ready.front().map(|stored| stored.time.estimate.unwrap_or(0))
    }
}

impl TimeMerge {
    fn new(most: usize) -> Self {
        Self { tracks: Vec::new(), numbers: BTreeMap::new(), waiting: 0, most }
    }

    /// The buffer that is furthest behind, of those that are open: one that has not given anything comes first.
    fn slowest(&self, open: impl Iterator<Item = bool>) -> Option<usize> {
        let reached = |buffer: usize| {
            let tracks = self.tracks.iter().filter(|track| track.buffer == buffer);
            tracks.map(|track| track.latest).max()
        };
        open.enumerate()
            .filter(|(_, open)| *open)
            .map(|(buffer, _)| buffer)
            .min_by_key(|&buffer| reached(buffer))
    }

    fn is_full(&self) -> bool {
        self.waiting > self.most
    }

    /// Something of this source may come at any time.
    fn expect(&mut self, buffer: usize, source: &Source) {
        self.track(buffer, source, 0);
    }

    fn track(&mut self, buffer: usize, source: &Source, sub_source: u16) -> Option<&mut Track> {
        let key = (buffer, source.frame_id().get(), sub_source);
        let tracks = &mut self.tracks;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            tracks.push(Track {
                buffer,
                source: source.clone(),
                sub_source,
                open: Vec::new(),
                ready: VecDeque::new(),
                time: None,
                passed: Passed::default(),
                latest: 0,
                is_ended: false,
                is_untimed: false,
            });
            tracks.len() - 1
        });
        self.tracks.get_mut(number)
    }

    fn push(&mut self, buffer: usize, item: &Item<'_, Event>) {
        self.waiting += 1;
        let mut stored = Stored {
            offset: item.offset,
            length: item.length,
            position: item.position(),
            passed: Passed::default(),
            time: TimeBounds::default(),
            window: item.window,
            value: item.value,
        };
        let Some(track) = self.track(buffer, item.source, item.sub_source) else { return };
        // Cycles are counted up to what reports them; an instruction begins when those before it have ended.
        stored.passed.instructions = track.passed.instructions;
        track.passed.add(&item.value);
        stored.passed.cycles = track.passed.cycles;
        match time_of(&item.value) {
            Some(time) => {
                track.close(Some(time));
                track.time = Some(time);
                track.latest = track.latest.max(time);
                track.is_untimed = false;
                stored.time = TimeBounds { estimate: Some(track.latest), ..TimeBounds::exact(time) };
                track.ready.push_back(stored);
            }
            None if track.is_untimed => track.ready.push_back(stored),
            None => track.open.push(stored),
        }
    }

    /// A buffer came to its end.
    fn end(&mut self, buffer: usize) {
        for track in self.tracks.iter_mut().filter(|track| track.buffer == buffer) {
            track.close(None);
            track.is_ended = true;
        }
    }

    /// Gives what no other source can come before; and more, if too much waits.
    fn give(&mut self, sink: &mut MergedSink<'_>) -> ControlFlow<()> {
        loop {
            let next =
                self.tracks.iter().enumerate().filter_map(|(number, track)| Some((track.next()?, number)));
            let next = next.min();
            let is_due = |order: u64| {
                let waits = self.tracks.iter().filter(|track| track.ready.is_empty());
                waits.filter_map(Track::reached).all(|reached| reached >= order)
            };
            match next {
                Some((order, number)) if self.is_full() || is_due(order) => {
                    self.give_one(number, sink)?;
                }
                None if self.is_full() => self.force(),
                _ => return ControlFlow::Continue(()),
            }
        }
    }

    /// Too much waits for a timestamp: the source with the most goes on without.
    fn force(&mut self) {
        if let Some(track) = self.tracks.iter_mut().max_by_key(|track| track.open.len()) {
            track.is_untimed = track.time.is_none();
            track.close(None);
        }
    }

    fn give_one(&mut self, number: usize, sink: &mut MergedSink<'_>) -> ControlFlow<()> {
        let Some(track) = self.tracks.get_mut(number) else { return ControlFlow::Continue(()) };
        let Some(stored) = track.ready.pop_front() else { return ControlFlow::Continue(()) };
        self.waiting -= 1;
        let Stored { offset, length, position, window, value, time, .. } = stored;
        let origin = position.map_or(Origin::Unknown, |position| Origin::Known(position, &[]));
        let (source, sub_source) = (&track.source, track.sub_source);
        let is_last = track.is_ended && track.ready.is_empty();
        sink(Item { source, sub_source, offset, length, window, value, origin }, time, is_last)
    }

    fn finish(&mut self, sink: &mut MergedSink<'_>) -> ControlFlow<()> {
        for track in &mut self.tracks {
            track.close(None);
            track.is_ended = true;
        }
        self.give(sink)
    }
}
