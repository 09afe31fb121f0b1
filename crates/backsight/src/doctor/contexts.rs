//! Contexts that nobody knows, and clocks that do not meet.

use std::collections::BTreeSet;

use backsight_capture::events::{Item, Pid};
use backsight_capture::{ContextIdLayout, EventClock};

use super::{Cause, Finding, Severity, listed};
use crate::decode::Outline;
use crate::listing::counted;
use crate::{Capture, Code, Source};

/// Looks at the contexts that something ran in. Gives those of which nobody says whose they are.
pub(super) fn examine(capture: &Capture, seen: &BTreeSet<u64>, findings: &mut Vec<Finding>) -> BTreeSet<u64> {
    let description = capture.description();
    let Some(events) = &description.events else { return BTreeSet::new() };
    let layout = description.contextidr;
    let used: BTreeSet<u64> = seen.iter().copied().filter(|&id| id != 0).collect();
    if used.is_empty() || layout == Some(ContextIdLayout::None) {
        return BTreeSet::new();
    }
    if layout.is_none() {
        let contexts = counted(used.len() as u64, "context");
        findings.push(Finding::new(
            Severity::Warning,
            Cause::UnknownContextLayout,
            format!("the trace names {contexts}, and the capture does not say what CONTEXTIDR holds"),
            "say contextidr=pid, tid, asid, asid_pid or asid_tid in [events] of contents.ini",
        ));
        return used;
    }
    let name = |id: u64| match layout {
        Some(ContextIdLayout::AsidPid | ContextIdLayout::AsidTid) if id >> 8 != 0 => id >> 8,
        Some(ContextIdLayout::Asid) => id & 0xFF,
        _ => id,
    };
    // A log may declare very many: those that something ran in are few.
    let mut undeclared: BTreeSet<u64> = used.iter().map(|&id| name(id)).collect();
    let mut records = events.records();
    while let Some(record) = records.next() {
        let declared = match &record.item {
            Item::Mapping(_, mapping) => [number(mapping.pid), None],
            Item::Thread { tid, pid, .. } => [Some(*tid), number(*pid)],
            Item::Asid { asid, .. } => [Some(u64::from(*asid)), None],
            _ => continue,
        };
        declared.iter().flatten().for_each(|number| _ = undeclared.remove(number));
    }
    let of_memory = description.memory.iter().filter_map(|dump| dump.pid);
    of_memory.for_each(|pid| _ = undeclared.remove(&pid));
    let unknown: BTreeSet<u64> = used.into_iter().filter(|&id| undeclared.contains(&name(id))).collect();
    if !unknown.is_empty() {
        let contexts = counted(unknown.len() as u64, "context");
        let names: Vec<String> = unknown.iter().map(|&id| format!("{:#x}", name(id))).collect();
        findings.push(Finding::new(
            Severity::Warning,
            Cause::UndeclaredContexts,
            format!("the event log never declares {contexts} of the trace: {}", listed(&names)),
            "their code cannot be found: record from before they start, or list what exists (%snapshot)",
        ));
    }
    unknown
}

fn number(pid: Pid) -> Option<u64> {
    match pid {
        Pid::All => None,
        Pid::Process(pid) => Some(pid),
    }
}

/// Where code changes, the trace has to say when it was where.
pub(super) fn clocks(capture: &Capture, outlines: &[(Source, Outline)], findings: &mut Vec<Finding>) {
    let Some(events) = &capture.description().events else { return };
    let Ok(Some(EventClock::Timestamps)) = capture.code().map(Code::event_clock) else { return };
    let first = outlines.iter().filter_map(|(_, outline)| outline.first_time).min();
    let last = outlines.iter().filter_map(|(_, outline)| outline.last_time).max();
    match (first.zip(last), events.survey().times) {
        (None, None) if !events.replaces_code_untimed() => {}
        (None, _) => findings.push(Finding::new(
            Severity::Warning,
            Cause::NoCommonTime,
            "code changes while it is traced, and the trace has no timestamps: the last version of everything is used",
            "switch timestamps on in the trace unit",
        )),
        (Some((first, last)), Some((begin, end))) if end < first || last < begin => {
            findings.push(Finding::new(
                Severity::Warning,
                Cause::NoCommonTime,
                format!("the trace is from {first:#x} to {last:#x}, the event log from {begin:#x} to {end:#x}: they do not meet"),
                "give the log the clock of the trace, or a %clock line that relates the two",
            ));
        }
        _ => {}
    }
}
