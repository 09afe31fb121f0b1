//! What a bare file holds, of which nobody says anything.
//!
//! A file of trace has no header. What speaks for a protocol are its synchronisation packets, and that nearly all bytes
//! between them are packets; what speaks for frames are few trace IDs. So a part of the file is read in the ways that people
//! meet: every protocol and framing, frames that begin at another byte, words that are turned round, text and compression
//! around it. The work is bounded: a few samples of a file, and a fixed number of trials for each.

mod evidence;
mod frames;
mod kind;
mod words;
mod wrapping;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use backsight_arm::frame::Framing;
use backsight_core::TraceId;

use crate::{Error, Result};
use evidence::{Budget, Fit};
use frames::Taken;
pub use kind::Kind;
pub(crate) use kind::is_text;
pub use wrapping::Wrapping;

/// Bytes of a sample.
const SAMPLE: usize = 1 << 17;
/// Bytes that are decoded in all trials together.
const WORK: u64 = 48 << 20;
/// Things around other things that are unpacked.
const DEPTH: usize = 3;
/// Sizes of words that may be turned round, the usual one first.
const WORDS: [usize; 3] = [4, 2, 8];

/// How sure an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Something else may be true.
    Possible,
    /// Much speaks for it.
    Likely,
    /// Nothing else would look like this.
    Certain,
}

/// Trace, and how it can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What has to be undone first, in this order.
    pub steps: Vec<Wrapping>,
    /// The protocol: a name of [`crate::protocol::decoded`].
    pub protocol: &'static str,
    /// Another protocol that fits as well.
    pub also: Option<&'static str>,
    /// The framing: a name of [`crate::framings`].
    pub framing: &'static str,
    /// Settings without which it does not fit.
    pub config: Vec<&'static str>,
    /// The trace IDs in its frames, with the protocol of each where it is known.
    pub ids: Vec<(TraceId, Option<&'static str>)>,
    /// How sure that is.
    pub confidence: Confidence,
    /// Places in the sample where a stream begins.
    pub syncs: u64,
    /// The share of the sample that is understood, from 0 to 1.
    pub share: f64,
    /// Bytes of the sample.
    pub sample: u64,
    /// A later part of the file has its frames at another offset: bytes were lost between.
    pub shifted: Option<u64>,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Found {
    /// No byte.
    Empty,
    /// Nothing but this byte, in all samples.
    Constant(u8),
    /// No trace, but this.
    Other(Kind),
    /// Trace.
    Trace(Box<Reading>),
    /// Nothing that is known.
    Unknown,
}

/// What a file was found to hold, and how long it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// What it holds.
    pub found: Found,
}

impl Detection {
    /// Looks at a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_file(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |error| Error::Capture(backsight_capture::Error::io(&name, &error));
        let mut file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut samples = Samples { start: part(&mut file, 0).map_err(failed)?, later: Vec::new() };
        for at in [size / 2, size.saturating_sub(SAMPLE as u64)] {
            // Frames of the whole file begin at the same offset of each sample.
            let at = at & !15;
            if at >= SAMPLE as u64 && samples.later.iter().all(|(other, _)| *other != at) {
                samples.later.push((at, part(&mut file, at).map_err(failed)?));
            }
        }
        Ok(Self { name, size, found: samples.found() })
    }

    /// Looks at bytes.
    pub fn of_bytes(name: &str, bytes: &[u8]) -> Self {
        let start = bytes[..bytes.len().min(SAMPLE)].to_vec();
        let found = Samples { start, later: Vec::new() }.found();
        Self { name: name.to_owned(), size: bytes.len() as u64, found }
    }

    /// The trace that was found.
    pub fn reading(&self) -> Option<&Reading> {
        match &self.found {
            Found::Trace(reading) => Some(reading),
            _ => None,
        }
    }
}

fn part(file: &mut File, at: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(SAMPLE as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Parts of a file: its beginning, and some with their offsets.
struct Samples {
    start: Vec<u8>,
    later: Vec<(u64, Vec<u8>)>,
}

impl Samples {
    fn found(&self) -> Found {
        let Some(&first) = self.start.first() else { return Found::Empty };
        let all = || std::iter::once(&self.start).chain(self.later.iter().map(|(_, bytes)| bytes));
        if all().all(|bytes| bytes.iter().all(|&byte| byte == first)) {
            return Found::Constant(first);
        }
        let (mut steps, mut bytes) = (Vec::new(), self.start.clone());
        while let Some((step, inner)) = wrapping::unpacked(&bytes).filter(|_| steps.len() < DEPTH) {
            steps.push(step);
            bytes = inner;
        }
        let kind = kind::of(&bytes);
        if let Some(kind) = kind {
            return Found::Other(kind);
        }
        let budget = Budget::new(WORK);
        let mut best = best(&bytes, &budget);
        let is_plain = steps.is_empty();
        // Where the beginning says nothing, a later part may.
        if best.is_none() && is_plain {
            best = self.later.iter().find_map(|(_, bytes)| self::best(bytes, &budget));
        }
        let Some(mut reading) = best else { return Found::Unknown };
        if is_plain {
            reading.shifted = self.shifted(&reading, &budget);
        }
        steps.append(&mut reading.steps);
        Found::Trace(Box::new(Reading { steps, ..reading }))
    }

    /// The offset in the file from which on frames begin at another byte.
    fn shifted(&self, reading: &Reading, budget: &Budget) -> Option<u64> {
        let offset = |reading: &Reading| match reading.steps[..] {
            [] => Some(0),
            [Wrapping::Skip(bytes)] => Some(bytes % 16),
            _ => None,
        };
        let own = offset(reading).filter(|_| reading.framing == Framing::Coresight.name())?;
        let differs = |other: &Reading| {
            let is_same = other.protocol == reading.protocol && other.framing == reading.framing;
            is_same && other.confidence >= Confidence::Likely && offset(other) != Some(own)
        };
        let later =
            self.later.iter().find(|(_, bytes)| best(bytes, budget).is_some_and(|other| differs(&other)));
        later.map(|(at, _)| *at)
    }
}

/// The best way to read some bytes.
fn best(bytes: &[u8], budget: &Budget) -> Option<Reading> {
    let plain = as_stored(bytes, budget);
    if plain.as_ref().is_some_and(|reading| reading.confidence == Confidence::Certain) {
        return plain;
    }
    let turned = WORDS.into_iter().filter_map(|size| {
        let reading =
            as_stored(&wrapping::swapped(bytes, size), budget).filter(|reading| reading.syncs > 0)?;
        let steps = [Wrapping::Swapped(size)].into_iter().chain(reading.steps).collect();
        Some(Reading { steps, ..reading })
    });
    // Trace that is turned round has to fit clearly better than trace as it is.
    let better = |one: Reading, other: Reading| {
        let (new, old) = ((other.confidence, other.share), (one.confidence, one.share));
        if new.0 > old.0 || new.0 == old.0 && new.1 > old.1 + 0.05 { other } else { one }
    };
    plain.into_iter().chain(turned).reduce(better)
}

/// The best way to read bytes in the order in which they are stored.
fn as_stored(bytes: &[u8], budget: &Budget) -> Option<Reading> {
    let raw = evidence::fits(bytes, false, budget);
    let raw = raw.first().map(|fit| Reading { also: also(&raw), ..reading(fit, bytes.len()) });
    if raw.as_ref().is_some_and(|reading| reading.confidence == Confidence::Certain) {
        return raw;
    }
    let framed = frames::ways(bytes).into_iter().filter_map(|taken| framed(&taken, bytes.len(), budget));
    let value = |reading: &Reading| (reading.confidence, reading.share);
    raw.into_iter().chain(framed).reduce(|one, other| {
        if value(&other).partial_cmp(&value(&one)) == Some(std::cmp::Ordering::Greater) { other } else { one }
    })
}

/// Another protocol that fits as well as the first.
fn also(fits: &[Fit]) -> Option<&'static str> {
    let first = fits.first()?;
    let mut others = fits.iter().filter(|other| other.protocol != first.protocol);
    others.find(|other| other.score() >= first.score()).map(|other| other.protocol)
}

fn reading(fit: &Fit, sample: usize) -> Reading {
    let share = fit.share();
    let covered = fit.before * 2 <= fit.total;
    let confidence = match () {
        () if fit.is_guess && share >= 0.98 && fit.packets >= 64 => Confidence::Likely,
        () if fit.is_guess => Confidence::Possible,
        () if share >= 0.97 && covered && fit.decoded >= 64 => Confidence::Certain,
        () if share >= 0.9 && fit.decoded >= 24 => Confidence::Likely,
        () => Confidence::Possible,
    };
    Reading {
        steps: Vec::new(),
        protocol: fit.protocol,
        also: None,
        framing: fit.framing.unwrap_or(Framing::Raw.name()),
        config: fit.config.clone(),
        ids: Vec::new(),
        confidence,
        syncs: fit.syncs,
        share: fit.score(),
        sample: sample as u64,
        shifted: None,
    }
}

/// What the sources of frames say, all together: the one with the most bytes names the protocol.
fn framed(taken: &Taken, sample: usize, budget: &Budget) -> Option<Reading> {
    let mut sources: Vec<(TraceId, u64, Vec<Fit>)> = Vec::new();
    for (&id, bytes) in &taken.sources {
        sources.push((id, bytes.len() as u64, evidence::fits(bytes, true, budget)));
    }
    let known: Vec<_> = sources.iter().filter_map(|(_, bytes, fits)| Some((*bytes, fits.first()?))).collect();
    let (_, main) = known.iter().max_by_key(|(bytes, _)| *bytes)?;
    let is_main = |fits: &[Fit]| fits.first().is_some_and(|first| first.protocol == main.protocol);
    let mut sum = Fit { before: 0, total: 0, decoded: 0, bad: 0, syncs: 0, packets: 0, ..(*main).clone() };
    for (_, fit) in &known {
        sum.total += fit.total;
        sum.before += fit.before;
        sum.decoded += fit.decoded;
        sum.bad += fit.bad;
        sum.syncs += fit.syncs;
    }
    let explained: u64 = known.iter().map(|(bytes, _)| bytes).sum();
    let all = (sample - taken.skip.min(sample)) as f64;
    // The share of the file that frames, their padding and known sources explain.
    let frames = ((explained + taken.own) as f64 - 4.0 * taken.foreign as f64).max(0.0) / all.max(1.0);
    let of_sources = reading(&sum, sample);
    let confidence = match () {
        () if frames >= 0.95 => of_sources.confidence,
        () if frames >= 0.8 => of_sources.confidence.min(Confidence::Likely),
        () if frames >= 0.5 => Confidence::Possible,
        () => return None,
    };
    let steps = if taken.skip > 0 { vec![Wrapping::Skip(taken.skip as u64)] } else { Vec::new() };
    Some(Reading {
        steps,
        framing: taken.framing.name(),
        also: sources.iter().filter(|(_, _, fits)| is_main(fits)).find_map(|(_, _, fits)| also(fits)),
        ids: sources.iter().map(|(id, _, fits)| (*id, fits.first().map(|fit| fit.protocol))).collect(),
        confidence,
        share: of_sources.share * frames,
        ..of_sources
    })
}

#[cfg(test)]
mod tests;
