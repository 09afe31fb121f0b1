//! A wrapped buffer whose write pointer was lost: where does the trace begin?
//!
//! A sink that writes round and round leaves a ring of frames in which the oldest frame follows the newest. Frames
//! are still where they belong, at multiples of 16; only the start is unknown. Nothing in the hardware marks it, so
//! it is found by what does not fit there: timestamps that step back, packets that break off, memory that was never
//! written.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use backsight_arm::frame::{Chunk, Deframer, Framing};
use backsight_core::{Located, TraceId};

use crate::protocol::{Landmark, Packet, Packets, Stream};

const FRAME: usize = 16;
/// Equal frames at the end of the buffer that count as memory never written.
const UNUSED: usize = 4;
/// Frames at the end that must look like random memory to be taken for it.
const RANDOM: usize = 16;
/// Frames between two timestamps that are dense.
const DENSE: usize = 8;
/// Landmarks that are kept, of all streams together: enough for buffers of hundreds of megabytes.
const MOST_FINDINGS: usize = 4 << 20;

/// Reads the stream of one source as far as the search needs it.
pub(super) struct Prober {
    stream: Packets,
    before: Option<Packet>,
}

impl Prober {
    /// A prober for the packets of a source.
    pub fn new(stream: Packets) -> Self {
        Self { stream, before: None }
    }

    /// Takes more of the stream, and gives what it finds in it.
    fn feed(&mut self, bytes: &[u8], found: &mut impl FnMut(Landmark)) {
        let before = &mut self.before;
        self.stream.feed(bytes, &mut |_, packet: Located<Packet>| {
            let landmark = packet.value.landmark(before.as_ref());
            if matches!(landmark, Landmark::Sync | Landmark::Time(_) | Landmark::Bad) {
                found(landmark);
            }
            *before = Some(packet.value);
        });
    }

    /// Forgets the stream: what follows is not its continuation.
    fn reset(&mut self) {
        self.stream.reset(&mut |_, _| {});
        self.before = None;
    }
}

/// How sure a [`Start`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Confidence {
    /// Nothing points anywhere.
    None,
    /// Broken packets only, which can be chance.
    Guess,
    /// Timestamps say so.
    Likely,
    /// Several kinds of evidence agree, or the evidence leaves no choice.
    High,
}

/// Where the trace in a wrapped buffer begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// The frame that holds the oldest trace. The trace is the frames from here to the last one, then those from
    /// the first one on.
    pub frame: usize,
    /// Frames that hold trace; fewer than the buffer has if the rest was never written.
    pub frames: usize,
    /// How sure that is.
    pub confidence: Confidence,
    /// The frames that it could be, in the order of the ring: the last may be less than the first.
    pub between: (usize, usize),
    /// The evidence, in words.
    pub reasons: Vec<String>,
}

/// Searches a buffer of whole frames for its start. `prober` makes a prober for a source; for trace IDs without one
/// the bytes are passed over.
pub(super) fn find_start(buffer: &[u8], prober: impl FnMut(TraceId) -> Option<Prober>) -> Start {
    let (frames, _) = buffer.as_chunks::<FRAME>();
    let ring = Ring::read(frames, prober);
    if let Some(start) = ring.unwritten(frames) {
        return start;
    }
    if frames.is_empty() {
        return Start {
            frame: 0,
            frames: 0,
            confidence: Confidence::None,
            between: (0, 0),
            reasons: Vec::new(),
        };
    }
    let mut reasons = Vec::new();
    let ranges = ring.timestamp_ranges(&mut reasons);
    let Some(TimeDrop { mut from, mut to, mut last_good, .. }) = ranges.first().copied() else {
        return ring.by_breaks(reasons);
    };
    let mut agreed = 1;
    for other in &ranges[1..] {
        // The same place may have been met in either round.
        let rounds = [other.moved(0, 0), other.moved(ring.length, 0), other.moved(0, ring.length)];
        match rounds.into_iter().flatten().find(|other| other.from <= to && other.to >= from) {
            Some(other) => {
                if other.to < to {
                    (to, last_good) = (other.to, other.last_good);
                }
                from = from.max(other.from);
                agreed += 1;
            }
            None => reasons.push("the timestamps of another source point elsewhere".to_owned()),
        }
    }
    let broken = ring.first_break(from..=to);
    let (place, confidence) = match broken {
        Some(place) => {
            reasons.push(format!("packets break off in frame {}", place % ring.length));
            to = to.min(place);
            (place, Confidence::High)
        }
        None => {
            // Where timestamps are dense the first wrong one is in the first frame after the start. Else the early
            // end is the safe one: what is newest then comes first, and decoders pass it over as they synchronise.
            let place =
                if to - last_good.clamp(from, to) <= DENSE { to } else { last_good.clamp(from, to) + 1 };
            (place, if agreed > 1 { Confidence::High } else { Confidence::Likely })
        }
    };
    if ring.barriers.iter().any(|barrier| (from..=to).contains(&(barrier + ring.length))) {
        reasons.push("a barrier frame lies there".to_owned());
    }
    ring.start(place, (from, to), confidence, reasons)
}

/// The buffer as a ring, read round twice: in the second round every stream is synchronised everywhere but after
/// the start. Places are frame numbers from the beginning of the first round on.
struct Ring {
    length: usize,
    streams: BTreeMap<TraceId, Vec<(usize, Landmark)>>,
    barriers: Vec<usize>,
    /// Frames of the first round with IDs that no source has.
    odd: Vec<bool>,
}

impl Ring {
    fn read(frames: &[[u8; FRAME]], mut prober: impl FnMut(TraceId) -> Option<Prober>) -> Self {
        let mut probers: BTreeMap<TraceId, Option<Prober>> = BTreeMap::new();
        let length = frames.len();
        let mut ring =
            Self { length, streams: BTreeMap::new(), barriers: Vec::new(), odd: vec![false; length] };
        let mut deframer = Deframer::new(Framing::Coresight);
        let mut found = 0;
        for place in 0..2 * length {
            let before = (deframer.counts().illegal_ids, deframer.counts().reserved());
            let mut odd = false;
            deframer.feed(&frames[place % length], &mut |chunk| match chunk {
                Chunk::Data { id, bytes, .. } => {
                    let Some(prober) = probers.entry(id).or_insert_with(|| prober(id)) else {
                        odd = true;
                        return;
                    };
                    let findings = ring.streams.entry(id).or_default();
                    prober.feed(bytes, &mut |finding| {
                        if found < MOST_FINDINGS {
                            findings.push((place, finding));
                            found += 1;
                        }
                    });
                }
                Chunk::Discontinuity { .. } => {
                    ring.barriers.push(place);
                    probers.values_mut().flatten().for_each(|prober| prober.reset());
                }
                Chunk::Trigger { .. } | Chunk::Flush { .. } => {}
            });
            if let Some(flag) = ring.odd.get_mut(place) {
                *flag = odd || before != (deframer.counts().illegal_ids, deframer.counts().reserved());
            }
        }
        ring
    }

    /// Memory at the end of the buffer that was never written: the buffer did not wrap.
    fn unwritten(&self, frames: &[[u8; FRAME]]) -> Option<Start> {
        let last = frames.last()?;
        let equal = frames.iter().rev().take_while(|frame| *frame == last).count();
        let (used, reason) = if equal >= UNUSED && equal < self.length {
            (
                self.length - equal,
                format!("the last {equal} frames are all the same: they were never written"),
            )
        } else {
            // Contents of memory after power-up: almost every frame has IDs that no source has.
            let known = self.odd.iter().rposition(|odd| !odd).map_or(0, |place| place + 1);
            let mut from = self.length;
            while from > 0
                && self.odd[from.saturating_sub(RANDOM)..from].iter().filter(|odd| **odd).count() > RANDOM / 2
            {
                from -= 1;
            }
            let from = (from..self.length).find(|&place| self.odd[place]).unwrap_or(self.length).min(known);
            let from = if from < self.length { from } else { return None };
            if self.length - from < RANDOM || self.streams.is_empty() || from == 0 {
                return None;
            }
            let count = self.length - from;
            (from, format!("the last {count} frames hold trace IDs of no source: they were never written"))
        };
        Some(Start {
            frame: 0,
            frames: used,
            confidence: Confidence::High,
            between: (0, 0),
            reasons: vec![reason],
        })
    }

    /// For each stream, the places that the start can have by its timestamps; the largest step first.
    fn timestamp_ranges(&self, reasons: &mut Vec<String>) -> Vec<TimeDrop> {
        let mut ranges = Vec::new();
        for (id, findings) in &self.streams {
            let Some(step) = timestamp_step(findings, self.length) else { continue };
            reasons.push(format!(
                "timestamps of source {id} step back by {} between frames {} and {}",
                step.ticks,
                step.last_good % self.length,
                step.to % self.length
            ));
            ranges.push(step);
        }
        ranges.sort_by_key(|step| std::cmp::Reverse(step.ticks));
        ranges
    }

    /// The first place in a range where a packet breaks.
    fn first_break(&self, range: RangeInclusive<usize>) -> Option<usize> {
        let errors = self.streams.values().flatten().filter(|(_, finding)| *finding == Landmark::Bad);
        errors.map(|(place, _)| *place).filter(|place| range.contains(place)).min()
    }

    /// Without timestamps: where the most streams break.
    fn by_breaks(&self, mut reasons: Vec<String>) -> Start {
        let mut breaks: BTreeMap<usize, usize> = BTreeMap::new();
        for findings in self.streams.values() {
            let errors = findings.iter().filter(|(_, finding)| *finding == Landmark::Bad);
            // The first error after a stretch without any: those that follow it are its consequences.
            let mut clean_from = 0;
            for &(place, _) in errors.filter(|(place, _)| *place >= self.length) {
                if place > clean_from + RANDOM {
                    *breaks.entry(place).or_default() += 1;
                }
                clean_from = place;
            }
        }
        let near = |place: usize| {
            breaks.range(place.saturating_sub(2)..=place + 2).map(|(_, count)| count).sum::<usize>()
        };
        let best = breaks.keys().copied().max_by_key(|&place| (near(place), std::cmp::Reverse(place)));
        match best {
            Some(place) => {
                reasons.push(format!(
                    "packets of {} sources break off near frame {}",
                    near(place),
                    place % self.length
                ));
                if breaks.len() > 1 {
                    reasons.push(format!("{} other places have broken packets too", breaks.len() - 1));
                }
                self.start(place, (place, place), Confidence::Guess, reasons)
            }
            None => {
                reasons.push("no timestamp and no broken packet tells where the trace begins".to_owned());
                self.start(0, (0, self.length.saturating_sub(1)), Confidence::None, reasons)
            }
        }
    }

    fn start(
        &self,
        place: usize,
        between: (usize, usize),
        confidence: Confidence,
        reasons: Vec<String>,
    ) -> Start {
        let frame = |place: usize| place % self.length.max(1);
        Start {
            frame: frame(place),
            frames: self.length,
            confidence,
            between: (frame(between.0), frame(between.1)),
            reasons,
        }
    }
}

/// A step back of the timestamps of one stream.
#[derive(Clone, Copy)]
struct TimeDrop {
    ticks: u64,
    /// The synchronisation point before the start.
    from: usize,
    /// The first thing after it that is wrong.
    to: usize,
    /// The last timestamp between them that rose. Mostly the start lies after it, but upper bits of a timestamp that
    /// are not sent may come from the wrong side of the start.
    last_good: usize,
}

impl TimeDrop {
    fn moved(&self, add: usize, subtract: usize) -> Option<Self> {
        let moved = |place: usize| (place + add).checked_sub(subtract);
        let (from, to, last_good) = (moved(self.from)?, moved(self.to)?, moved(self.last_good)?);
        Some(Self { from, to, last_good, ..*self })
    }
}

/// Where the timestamps of one stream step back the most.
///
/// Behind the start a decoder reads nonsense until the next synchronisation point. So only the first timestamps
/// after synchronisation points are compared, which are whole: the start lies between the two with the largest step
/// back, and not after the first thing that is wrong there.
fn timestamp_step(findings: &[(usize, Landmark)], length: usize) -> Option<TimeDrop> {
    // Number of the finding, and the first timestamp after it.
    let mut points: Vec<(usize, u64)> = Vec::new();
    let mut waiting = None;
    for (number, &(_, finding)) in findings.iter().enumerate() {
        match finding {
            Landmark::Sync => waiting = Some(number),
            Landmark::None | Landmark::Overflow | Landmark::Unsynchronised => {}
            Landmark::Time(time) => points.extend(waiting.take().map(|number| (number, time))),
            Landmark::Bad => {}
        }
    }
    let steps = points.windows(2).filter(|pair| findings[pair[1].0].0 >= length);
    let largest = steps.max_by_key(|pair| pair[0].1.saturating_sub(pair[1].1))?;
    let ((before, newest), (after, oldest)) = (largest[0], largest[1]);
    let ticks = newest.checked_sub(oldest).filter(|ticks| *ticks > 0)?;
    let times = || points.iter().map(|(_, time)| *time);
    let span = times().max()? - times().min()?;

    let from = findings[before].0;
    let (mut last_good, mut to) = (from, findings[after].0);
    let mut last = newest;
    for &(place, finding) in &findings[before..after] {
        match finding {
            Landmark::Time(time) if time < last || time - last > span => {
                to = place;
                break;
            }
            Landmark::Time(time) => (last, last_good) = (time, place),
            Landmark::Bad => {
                to = place;
                break;
            }
            _ => {}
        }
    }
    Some(TimeDrop { ticks, from, to, last_good })
}
