//! What a decode has to say at the end.

use std::fmt;

use backsight_arm::frame::Counts;
use backsight_core::{Accounting, TraceId};
use backsight_flow::{Statistics, Symptom};

use crate::Source;
use crate::listing::counted;
use crate::protocol::Kinds;

/// More IDs without metadata than this are not listed one by one.
const MOST_UNKNOWN_IDS: usize = 4;
/// IDs that are listed.
const MOST_LISTED_IDS: usize = 8;

/// What was decoded, what was not, and why.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// What came of each buffer that was read.
    pub buffers: Vec<BufferSummary>,
    /// The decode was stopped before its end.
    pub stopped: bool,
    pub(crate) about: About,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum About {
    /// Packets.
    #[default]
    Packets,
    /// Execution.
    Execution,
}

/// What came of a buffer.
#[derive(Clone, Debug)]
pub struct BufferSummary {
    /// Its name.
    pub name: String,
    /// What came of each of its sources that was decoded, by ID.
    pub sources: Vec<SourceSummary>,
    /// Trace IDs whose bytes were not decoded.
    pub undecoded: Vec<Undecoded>,
    /// Trace IDs that were asked for, and that the buffer does not hold.
    pub absent: Vec<TraceId>,
    /// What became of its bytes on the level of frames.
    pub frames: Counts,
    /// Triggers of the sink.
    pub triggers: u64,
    /// Flushes of the sink.
    pub flushes: u64,
}

/// What came of a source.
#[derive(Clone, Debug)]
pub struct SourceSummary {
    /// The source.
    pub source: Source,
    /// Its packets, bad ones included.
    pub packets: u64,
    /// What became of its bytes.
    pub accounting: Accounting,
    /// What was counted while its execution was followed.
    pub statistics: Statistics,
    /// Its packets by kind, where they were counted so.
    pub kinds: Kinds,
    /// What one should know about the result, in words.
    pub notes: Vec<String>,
}

/// Bytes of a trace ID that were not decoded.
#[derive(Clone, Debug)]
pub struct Undecoded {
    /// The ID.
    pub id: TraceId,
    /// How many bytes.
    pub bytes: u64,
    /// The source, if the capture describes one: its protocol is not decoded.
    pub source: Option<Source>,
}

impl Summary {
    /// All sources of all buffers.
    pub fn sources(&self) -> impl Iterator<Item = &SourceSummary> {
        self.buffers.iter().flat_map(|buffer| &buffer.sources)
    }

    /// What became of all bytes of sources.
    pub fn accounting(&self) -> Accounting {
        let mut sum = Accounting::default();
        self.sources().for_each(|source| sum += source.accounting);
        sum
    }

    /// What was counted altogether.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.sources().for_each(|source| sum += source.statistics);
        sum
    }

    /// All packets, bad ones included.
    pub fn packets(&self) -> u64 {
        self.sources().map(|source| source.packets).sum()
    }

    /// All packets by kind, where they were counted so.
    pub fn kinds(&self) -> Kinds {
        let mut sum = Kinds::default();
        self.sources().for_each(|source| sum += &source.kinds);
        sum
    }

    /// Is something wrong with the trace: with frames, packets, or execution?
    pub fn is_damaged(&self) -> bool {
        let frames = self.buffers.iter().any(|buffer| !frame_damage(&buffer.frames).is_empty());
        frames || self.accounting().bad > 0 || self.statistics().gaps.total() > 0
    }

    /// What one should know about the result, in words, a line each.
    pub fn notes(&self) -> Vec<String> {
        self.buffers.iter().flat_map(BufferSummary::notes).collect()
    }
}

impl BufferSummary {
    /// What one should know about the result, in words, a line each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.sources.iter().flat_map(|source| source.notes.clone()).collect();
        notes.extend(self.why_undecoded());
        notes.extend(self.why_absent());
        notes.extend(
            frame_damage(&self.frames).into_iter().map(|what| format!("buffer {}: {what}", self.name)),
        );
        notes
    }

    /// What is wrong with the frames, in words.
    pub fn frame_damage(&self) -> Vec<String> {
        frame_damage(&self.frames)
    }

    /// Why bytes were not decoded, in words. Many IDs without metadata are a sign that this is no trace (the unused part
    /// of a buffer, or a wrong framing), and get one line.
    pub fn why_undecoded(&self) -> Vec<String> {
        let (known, unknown): (Vec<_>, Vec<_>) = self.undecoded.iter().partition(|one| one.source.is_some());
        let mut lines: Vec<String> = known.iter().map(ToString::to_string).collect();
        if unknown.len() > MOST_UNKNOWN_IDS {
            let bytes: u64 = unknown.iter().map(|one| one.bytes).sum();
            lines.push(format!(
                "{} IDs without metadata: {bytes} bytes not decoded: an unused part of the buffer, or a wrong framing?",
                unknown.len()
            ));
        } else {
            lines.extend(unknown.iter().map(ToString::to_string));
        }
        lines
    }

    fn why_absent(&self) -> Option<String> {
        if self.absent.is_empty() {
            return None;
        }
        let held: Vec<_> =
            (1..0x70).filter(|&id| self.frames.data[usize::from(id)] > 0).map(TraceId::new).collect();
        let held = if held.is_empty() { "none".to_owned() } else { listed(&held) };
        Some(format!("ID {}: no data; IDs in this file: {held}", listed(&self.absent)))
    }
}

/// The first of some IDs, and how many more there are.
fn listed(ids: &[TraceId]) -> String {
    let first: Vec<String> = ids.iter().take(MOST_LISTED_IDS).map(ToString::to_string).collect();
    match ids.len().saturating_sub(MOST_LISTED_IDS) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

impl fmt::Display for Undecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ID {}: {} bytes not decoded: ", self.id, self.bytes)?;
        match &self.source {
            Some(source) => write!(f, "{} is {}", source.name(), source.what()),
            None => f.write_str("no metadata names this source"),
        }
    }
}

/// What was decoded and what was not, a line each, without a line end after the last.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Accounting { decoded, unsynchronised, bad } = self.accounting();
        match self.about {
            About::Packets => write!(f, "{}; ", counted(self.packets(), "packet"))?,
            About::Execution => execution(&self.statistics(), f)?,
        }
        write!(
            f,
            "{} decoded, {unsynchronised} skipped before synchronisation, {bad} bad",
            counted(decoded, "byte")
        )?;
        self.notes().iter().try_for_each(|note| write!(f, "\n{note}"))
    }
}

fn execution(statistics: &Statistics, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Statistics { instructions, branches, taken, exceptions, skipped, gaps, .. } = statistics;
    let (instructions, exceptions) =
        (counted(*instructions, "instruction"), counted(*exceptions, "exception"));
    writeln!(f, "{instructions}, {} ({taken} taken), {exceptions}", counted(*branches, "branch"))?;
    if gaps.total() > 0 {
        let reasons = gaps.by_reason().into_iter().filter(|(_, count)| *count > 0);
        let reasons: Vec<_> = reasons.map(|(reason, count)| format!("{count} {reason}")).collect();
        writeln!(f, "{}: {}", counted(gaps.total(), "gap"), reasons.join(", "))?;
    }
    if *skipped > 0 {
        let elements = counted(*skipped, "element");
        writeln!(f, "{elements} could not be followed: no address or no context was known")?;
    }
    for symptom in Symptom::ALL {
        let count = statistics.symptom(symptom);
        if count > 0 {
            writeln!(f, "image may not fit: {} ({})", symptom.text(), counted(count, "time"))?;
        }
    }
    Ok(())
}

/// What is wrong with frames, in words: nothing if all is well.
pub(super) fn frame_damage(counts: &Counts) -> Vec<String> {
    let mut damage = Vec::new();
    let mut note = |count: u64, what: &str| {
        if count > 0 {
            damage.push(format!("{count} {what}"));
        }
    };
    note(counts.unsynchronised, "bytes skipped while searching for frame synchronisation");
    note(counts.partial, "bytes of frames that were cut off");
    note(counts.illegal_ids, "ID bytes with the illegal ID 0x7f");
    note(counts.reserved(), "bytes of reserved IDs");
    note(counts.nonzero_padding, "padding bytes that are not zero");
    damage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_ids_the_first_are_listed() {
        let ids: Vec<TraceId> = (1..=108).map(TraceId::new).collect();
        assert_eq!(listed(&ids[..2]), "0x01, 0x02");
        assert_eq!(listed(&ids), "0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08 and 100 more");
    }
}
