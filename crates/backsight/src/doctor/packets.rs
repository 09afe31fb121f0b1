//! What the packets show: IDs that nobody describes, damage, overflows.

use std::collections::BTreeSet;

use super::{Cause, Finding, Severity, listed};
use crate::Source;
use crate::decode::{BufferSummary, Outline, Summary};
use crate::listing::counted;

/// More unknown IDs than this are no sources that somebody forgot.
const MANY_IDS: usize = 8;

pub(super) fn examine(
    summary: &Summary,
    outlines: &[(Source, Outline)],
    explained: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) {
    for buffer in summary.buffers.iter().filter(|buffer| !explained.contains(&buffer.name)) {
        frames(buffer, findings);
    }
    let is_open = |source: &Source| !explained.contains(source.buffer());
    for source in summary.sources().filter(|source| is_open(&source.source)) {
        let outline = outlines.iter().find(|(other, _)| {
            (other.buffer(), other.frame_id()) == (source.source.buffer(), source.source.frame_id())
        });
        let cut_off = outline.map_or(0, |(_, outline)| outline.cut_off);
        let (bad, all) = (source.accounting.bad.saturating_sub(cut_off), source.accounting.total());
        if bad > 0 {
            findings.push(Finding::new(
                if bad * 10 > all { Severity::Fatal } else { Severity::Warning },
                Cause::Damage,
                format!("source {}: {bad} of {all} bytes are no packets", source.source.name()),
                "the trace is damaged, or the registers in the metadata are not those that were programmed",
            ));
        }
    }
    for (source, outline) in outlines.iter().filter(|(source, _)| is_open(source)) {
        if outline.overflows > 0 {
            let (name, times) = (source.name(), counted(outline.overflows, "time"));
            findings.push(Finding::new(
                Severity::Warning,
                Cause::Overflow,
                format!(
                    "source {name}: the trace unit lost data, {times}: it was not taken away fast enough"
                ),
                "trace less (filter addresses, no cycle counts, no data), or use a faster sink",
            ));
        }
    }
}

/// What is wrong with the frames of a buffer. Many IDs and damage together have one cause.
fn frames(buffer: &BufferSummary, findings: &mut Vec<Finding>) {
    let unknown: Vec<_> = buffer.undecoded.iter().filter(|one| one.source.is_none()).collect();
    let bytes = counted(unknown.iter().map(|one| one.bytes).sum(), "byte");
    let damage = buffer.frame_damage();
    let name = &buffer.name;
    let severity = if buffer.sources.is_empty() { Severity::Fatal } else { Severity::Warning };
    if unknown.len() > MANY_IDS {
        findings.push(Finding::new(
            severity,
            Cause::Damage,
            format!(
                "buffer {name}: a part of it is no trace: {bytes} have {} trace IDs that no metadata names",
                unknown.len()
            ),
            "nothing, if the rest of the memory was never written; else see that the file begins at a frame and was not changed on the way",
        ));
        return;
    }
    if !unknown.is_empty() {
        let ids: Vec<String> = unknown.iter().map(|one| one.id.to_string()).collect();
        findings.push(Finding::new(
            severity,
            Cause::UnknownIds,
            format!("buffer {name}: {bytes} have trace IDs that no metadata names: {}", listed(&ids)),
            "add their sources to the metadata, with the trace IDs that were programmed",
        ));
    }
    if !damage.is_empty() {
        findings.push(Finding::new(
            Severity::Warning,
            Cause::Damage,
            format!("buffer {name}: {}", damage.join(", ")),
            "see that the file was copied in full, begins at a frame, and was not changed on the way",
        ));
    }
}
