//! A wrapped buffer whose write pointer was lost: where does the trace begin?
//!
//! A sink that writes round and round leaves a ring of frames in which the oldest frame follows the newest. Frames
//! are still where they belong, at multiples of 16; only the seam is unknown. Nothing in the hardware marks it, so
//! it is found by what does not fit there: timestamps that step back, packets that break off, memory that was never
//! written.

use backsight_arm::etm4;
use backsight_arm::frame::{Chunk, Deframer, Framing};
use backsight_core::TraceId;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const FRAME: usize = 16;
/// Equal frames at the end of the buffer that count as memory never written.
const UNUSED: usize = 4;
/// Frames at the end that must look like random memory to be taken for it.
const RANDOM: usize = 16;
/// Findings kept of one stream: enough for buffers of hundreds of megabytes.
const MOST_FINDINGS: usize = 4 << 20;

/// What a stream decoder sees that helps to find the seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A point from which on the stream can be read without what came before.
    Sync,
    /// The global timestamp.
    Timestamp(u64),
    /// A packet that cannot be.
    Error,
}

/// Reads the stream of one source as far as the search for the seam needs it.
pub trait Prober {
    /// Takes more of the stream, and gives what it finds in it.
    fn feed(&mut self, bytes: &[u8], found: &mut dyn FnMut(Finding));
    /// Forgets the stream: what follows is not its continuation.
    fn reset(&mut self);
}

/// Probes ETMv4 and ETE instruction trace.
#[derive(Debug)]
pub struct Etm4Prober {
    config: etm4::Config,
    decoder: Box<etm4::Decoder>,
}

impl Etm4Prober {
    /// A prober for a source of that configuration.
    pub fn new(config: &etm4::Config) -> Self {
        Self { config: *config, decoder: Box::new(etm4::Decoder::new(config)) }
    }
}

impl Prober for Etm4Prober {
    fn feed(&mut self, bytes: &[u8], found: &mut dyn FnMut(Finding)) {
        self.decoder.feed(bytes, &mut |packet| match packet.value {
            etm4::Packet::TraceInfo(_) => found(Finding::Sync),
            etm4::Packet::Timestamp(timestamp) => found(Finding::Timestamp(timestamp.value)),
            etm4::Packet::Bad(_) => found(Finding::Error),
            _ => {}
        });
    }

    fn reset(&mut self) {
        *self.decoder = etm4::Decoder::new(&self.config);
    }
}

/// How sure a [`Seam`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
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
pub struct Seam {
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

/// Searches a buffer of whole frames for its seam. `prober` makes a prober for a source; for trace IDs without one
/// the bytes are passed over.
pub fn find_seam(buffer: &[u8], prober: impl FnMut(TraceId) -> Option<Box<dyn Prober>>) -> Seam {
    let (frames, _) = buffer.as_chunks::<FRAME>();
    let mut ring = Ring::read(frames, prober);
    if let Some(seam) = ring.unwritten(frames) {
        return seam;
    }
    if frames.is_empty() {
        return Seam {
            frame: 0,
            frames: 0,
            confidence: Confidence::None,
            between: (0, 0),
            reasons: Vec::new(),
        };
    }
    let mut reasons = Vec::new();
    let ranges = ring.timestamp_ranges(&mut reasons);
    let Some((mut from, mut to)) = ranges.first().copied() else {
        return ring.by_breaks(reasons);
    };
    let mut agreed = 1;
    for &(other_from, other_to) in &ranges[1..] {
        if other_from <= to && other_to >= from {
            (from, to) = (from.max(other_from), to.min(other_to));
            agreed += 1;
        } else {
            reasons.push("the timestamps of another source point elsewhere".to_owned());
        }
    }
    let broken = ring.first_break(from..=to);
    let (place, confidence) = match broken {
        Some(place) => {
            reasons.push(format!("packets break off in frame {}", place % ring.length));
            to = to.min(place);
            (place, Confidence::High)
        }
        None if agreed > 1 || from == to => (from, Confidence::High),
        None => (from, Confidence::Likely),
    };
    if ring.barriers.iter().any(|barrier| (from..=to).contains(&(barrier + ring.length))) {
        reasons.push("a barrier frame lies there".to_owned());
    }
    ring.seam(place, (from, to), confidence, reasons)
}

/// The buffer as a ring, read round twice: in the second round every stream is synchronised everywhere but behind
/// the seam. Places are frame numbers from the beginning of the first round on.
struct Ring {
    length: usize,
    streams: BTreeMap<TraceId, Vec<(usize, Finding)>>,
    barriers: Vec<usize>,
    /// Frames of the first round with IDs that no source has.
    odd: Vec<bool>,
}

impl Ring {
    fn read(frames: &[[u8; FRAME]], mut prober: impl FnMut(TraceId) -> Option<Box<dyn Prober>>) -> Self {
        let mut probers: BTreeMap<TraceId, Option<Box<dyn Prober>>> = BTreeMap::new();
        let length = frames.len();
        let mut ring =
            Self { length, streams: BTreeMap::new(), barriers: Vec::new(), odd: vec![false; length] };
        let mut deframer = Deframer::new(Framing::Coresight);
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
                        if findings.len() < MOST_FINDINGS {
                            findings.push((place, finding));
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
    fn unwritten(&mut self, frames: &[[u8; FRAME]]) -> Option<Seam> {
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
        Some(Seam {
            frame: 0,
            frames: used,
            confidence: Confidence::High,
            between: (0, 0),
            reasons: vec![reason],
        })
    }

    /// For each stream, the places that the seam can have by its timestamps, in the second round.
    fn timestamp_ranges(&self, reasons: &mut Vec<String>) -> Vec<(usize, usize)> {
        let mut ranges = Vec::new();
        for (id, findings) in &self.streams {
            let Some((range, step)) = timestamp_range(findings, self.length) else { continue };
            reasons.push(format!(
                "timestamps of source {id} step back by {step} between frames {} and {}",
                range.0 % self.length,
                range.1 % self.length
            ));
            ranges.push((step, range));
        }
        ranges.sort_by_key(|(step, _)| std::cmp::Reverse(*step));
        ranges.into_iter().map(|(_, range)| range).collect()
    }

    /// The first place in a range where a packet breaks.
    fn first_break(&self, range: RangeInclusive<usize>) -> Option<usize> {
        let errors = self.streams.values().flatten().filter(|(_, finding)| *finding == Finding::Error);
        errors.map(|(place, _)| *place).filter(|place| range.contains(place)).min()
    }

    /// Without timestamps: where the most streams break.
    fn by_breaks(&self, mut reasons: Vec<String>) -> Seam {
        let mut breaks: BTreeMap<usize, usize> = BTreeMap::new();
        for findings in self.streams.values() {
            let errors = findings.iter().filter(|(_, finding)| *finding == Finding::Error);
            // The first error behind a stretch without any: those that follow it are its consequences.
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
                self.seam(place, (place, place), Confidence::Guess, reasons)
            }
            None => {
                reasons.push("no timestamp and no broken packet tells where the trace begins".to_owned());
                self.seam(0, (0, self.length.saturating_sub(1)), Confidence::None, reasons)
            }
        }
    }

    fn seam(
        &self,
        place: usize,
        between: (usize, usize),
        confidence: Confidence,
        reasons: Vec<String>,
    ) -> Seam {
        let frame = |place: usize| place % self.length.max(1);
        Seam {
            frame: frame(place),
            frames: self.length,
            confidence,
            between: (frame(between.0), frame(between.1)),
            reasons,
        }
    }
}

/// Where in the second round the timestamps of one stream step back the most, and by how much. Behind the seam a
/// decoder mixes old and new bits of a timestamp until the next synchronisation point; so the seam lies between the
/// last timestamp that rose and the first thing that went wrong before that point.
fn timestamp_range(findings: &[(usize, Finding)], length: usize) -> Option<((usize, usize), u64)> {
    let mut largest: Option<(u64, usize)> = None;
    let mut last: Option<u64> = None;
    for (number, &(place, finding)) in findings.iter().enumerate() {
        if let Finding::Timestamp(time) = finding {
            let step = last.map_or(0, |last| last.saturating_sub(time));
            if step > largest.map_or(0, |(largest, _)| largest) && place >= length {
                largest = Some((step, number));
            }
            last = Some(time);
        }
    }
    let (step, behind) = largest?;
    let sync_before =
        |number: usize| findings[..number].iter().rposition(|(_, finding)| *finding == Finding::Sync);
    let sync = sync_before(behind).unwrap_or(0);
    let previous = sync_before(sync).unwrap_or(0);
    let mut from = findings[previous].0;
    let mut to = if sync > 0 { findings[sync].0 } else { findings[behind].0 };
    let mut last = None;
    for &(place, finding) in &findings[previous..=sync.max(behind)] {
        match finding {
            Finding::Timestamp(time) if last.is_some_and(|last| time < last) => {
                to = to.min(place);
                break;
            }
            Finding::Timestamp(time) => (last, from) = (Some(time), place),
            Finding::Error => {
                to = to.min(place);
                break;
            }
            Finding::Sync => {}
        }
    }
    Some(((from.min(to), to), step))
}
