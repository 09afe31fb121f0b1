//! What following the execution shows: code that is missing or wrong, contexts that nobody knows, clocks that do not meet.

use std::collections::{BTreeMap, BTreeSet};

use backsight_flow::Symptom;

use super::{Cause, Finding, Severity, contexts, programs};
use crate::decode::{Outline, Summary};
use crate::listing::counted;
use crate::{Capture, Event, Result, Source};

/// Different addresses and contexts that are counted at most.
const MOST: usize = 4096;
/// Contradictions in a thousand ranges that are no accident: damage and the end of a trace make a few.
const PER_MILLE: u64 = 1;

/// What is gathered of one source.
#[derive(Default)]
pub(super) struct Seen {
    /// Pages without code, and how often execution went there.
    pub missing: BTreeMap<u64, u64>,
    /// How often that was in each context; `None` where none was named.
    pub missing_in: BTreeMap<Option<u64>, u64>,
    contexts: BTreeSet<u64>,
    context: Option<u64>,
    /// A place in each page that was executed.
    pub executed: BTreeMap<u64, u64>,
    pub ranges: u64,
}

impl Seen {
    fn take(&mut self, event: &Event) {
        match event {
            Event::NoMemory { address, .. } if self.missing.len() < MOST => {
                *self.missing.entry(address.0 >> 12).or_default() += 1;
                *self.missing_in.entry(self.context).or_default() += 1;
            }
            Event::Context(context, _) if self.contexts.len() < MOST => {
                self.context = context.context_id;
                self.contexts.extend(context.context_id);
            }
            Event::Range(range) => {
                self.ranges += 1;
                if self.executed.len() < MOST {
                    self.executed.insert(range.start.0 >> 12, range.start.0);
                }
            }
            _ => {}
        }
    }
}

pub(super) fn examine(
    capture: &Capture,
    outlines: &[(Source, Outline)],
    explained: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let open = capture.buffers().iter().filter(|buffer| !explained.contains(buffer.name()));
    let decode = open.fold(capture.execution(), |decode, buffer| decode.buffer(buffer.name()));
    let decode = decode.threads(0).positions(false);
    let (summary, all) = decode.fold(|_| Seen::default(), |seen, item| seen.take(&item.value))?;
    let mut seen = Seen::default();
    for (_, one) in all {
        one.missing.into_iter().for_each(|(page, count)| *seen.missing.entry(page).or_default() += count);
        one.missing_in.into_iter().for_each(|(id, count)| *seen.missing_in.entry(id).or_default() += count);
        seen.contexts.extend(one.contexts);
        seen.executed.extend(one.executed);
        seen.ranges += one.ranges;
    }
    // Where nobody knows whose context it is, nobody knows its code.
    let unknown = contexts::examine(capture, &seen.contexts, findings);
    seen.missing_in.retain(|context, _| context.is_none_or(|id| !unknown.contains(&id)));
    contexts::clocks(capture, outlines, findings);
    programs::examine(capture, &seen, findings)?;
    contradictions(&summary, &seen, findings);
    notes(&summary, findings);
    consequences(&summary, &seen, findings);
    Ok(())
}

/// What is wrong with the log, or with the code that is there, explains why code is missing: it is the worse of the two.
fn consequences(summary: &Summary, seen: &Seen, findings: &mut [Finding]) {
    let Some(missing) = findings.iter().position(|finding| finding.cause == Cause::MissingCode) else {
        return;
    };
    let severity = findings[missing].severity;
    let is_of_log = |finding: &Finding| {
        let is_log = finding.cause == Cause::Losses && finding.what.contains("event log");
        is_log || (Cause::BadLog..=Cause::NoCommonTime).contains(&finding.cause)
    };
    let mut is_explained = false;
    for finding in findings.iter_mut().filter(|finding| is_of_log(finding)) {
        finding.severity = finding.severity.min(severity);
        is_explained = true;
    }
    let is_nonsense = findings.iter().any(|finding| {
        let times: u64 = seen.missing_in.values().sum();
        finding.cause == Cause::WrongCode && finding.severity < Severity::Note && strong(summary) >= times
    });
    if is_explained {
        findings[missing].severity = severity.max(Severity::Warning);
    }
    if is_nonsense {
        findings[missing].severity = Severity::Note;
    }
}

/// Contradictions that cannot be with the code that ran.
fn strong(summary: &Summary) -> u64 {
    let statistics = summary.statistics();
    let strong = Symptom::ALL.into_iter().filter(|symptom| symptom.is_strong());
    strong.map(|symptom| statistics.symptom(symptom)).sum()
}

/// Do code and trace contradict each other? Where there is no code, nothing can.
fn contradictions(summary: &Summary, seen: &Seen, findings: &mut Vec<Finding>) {
    let count = strong(summary);
    if count == 0 || seen.ranges == 0 {
        return;
    }
    let severity = match () {
        () if count > 2 && count * 20 > seen.ranges => Severity::Fatal,
        () if count > 2 && count * 1000 > seen.ranges * PER_MILLE => Severity::Warning,
        () => Severity::Note,
    };
    let advice = match severity {
        Severity::Note => "nothing: where trace was stopped or damaged, a few are usual",
        _ => "use the very files that ran: a program that was built again, or moved, decodes to nonsense",
    };
    let (times, ranges) = (counted(count, "time"), counted(seen.ranges, "range"));
    let what = format!("code and trace contradict each other {times} in {ranges}");
    findings.push(Finding::new(severity, Cause::WrongCode, what, advice));
}

/// What followers have to say, which names the option that helps.
fn notes(summary: &Summary, findings: &mut Vec<Finding>) {
    let notes: BTreeSet<&String> = summary.sources().flat_map(|source| &source.notes).collect();
    for note in notes {
        findings.push(Finding::new(Severity::Note, Cause::Doubt, note.clone(), ""));
    }
}
