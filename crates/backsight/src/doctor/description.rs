//! What shows without reading any trace.

use std::collections::BTreeSet;

use backsight_capture::events::Events;

use super::{Cause, Finding, LISTED, Severity, listed};
use crate::Capture;
use crate::listing::counted;

/// Words of warnings that speak of something lost.
const LOSS: [&str; 5] = ["lost", "missing", "collided", "filled the buffer", "partial"];

pub(super) fn examine(capture: &Capture, findings: &mut Vec<Finding>) {
    files(capture, findings);
    warnings(capture, findings);
    log(capture, findings);
    if capture.description().sources.is_empty() {
        findings.push(Finding::new(
            Severity::Fatal,
            Cause::UnknownIds,
            "the capture describes no trace source",
            "describe them in its metadata, or read the file with --protocol, --framing and --config",
        ));
    }
}

/// Files of trace that are not there. Those of code are looked at where code is needed.
fn files(capture: &Capture, findings: &mut Vec<Finding>) {
    let buffers = capture.description().buffers.iter().flat_map(|buffer| &buffer.files);
    let trace: BTreeSet<&str> = buffers.filter(|file| !file.exists()).map(|file| file.path()).collect();
    if !trace.is_empty() {
        let trace: Vec<&str> = trace.into_iter().collect();
        findings.push(Finding::new(
            Severity::Fatal,
            Cause::MissingFiles,
            format!("files of trace are not there: {}", listed(&trace)),
            "copy the capture again, with all its files",
        ));
    }
}

/// What was doubtful when the capture was opened: where the result is good, nothing came of it.
fn warnings(capture: &Capture, findings: &mut Vec<Finding>) {
    // What is not there is looked at elsewhere.
    let is_said = |warning: &&String| {
        ["there is no such file", "these memory contents are not there"]
            .iter()
            .any(|what| warning.contains(what))
    };
    let (losses, doubts): (Vec<&String>, Vec<&String>) = capture
        .warnings()
        .iter()
        .filter(|warning| !is_said(warning))
        .partition(|warning| LOSS.iter().any(|word| warning.contains(word)));
    let log = capture.description().events.as_ref().map(Events::survey);
    let problems: BTreeSet<String> =
        log.iter().flat_map(|survey| &survey.problems).map(ToString::to_string).collect();
    let doubts: Vec<&String> = doubts.into_iter().filter(|doubt| !problems.contains(*doubt)).collect();
    // Without any buffer there is nothing else to look at.
    let is_all = capture.buffers().is_empty();
    let severity = if is_all { Severity::Fatal } else { Severity::Warning };
    for loss in losses {
        findings.push(Finding::new(severity, Cause::Losses, loss.clone(), ""));
    }
    for doubt in doubts.iter().take(LISTED) {
        findings.push(Finding::new(Severity::Note, Cause::Doubt, (*doubt).clone(), ""));
    }
    let more = doubts.len().saturating_sub(LISTED) as u64;
    if more > 0 {
        let what = format!("{} more of this kind (`backsight info` lists them)", counted(more, "doubt"));
        findings.push(Finding::new(Severity::Note, Cause::Doubt, what, ""));
    }
}

fn log(capture: &Capture, findings: &mut Vec<Finding>) {
    let Some(survey) = capture.description().events.as_ref().map(Events::survey) else { return };
    if let Some(problem) = survey.problems.first() {
        let lines = survey.problems.len();
        findings.push(Finding::new(
            Severity::Warning,
            Cause::BadLog,
            format!(
                "lines of the event log that cannot be read, and are left out: {lines}; the first: {problem}"
            ),
            "correct the log",
        ));
    }
    if survey.losses > 0 {
        let times = counted(survey.losses, "time");
        findings.push(Finding::new(
            Severity::Warning,
            Cause::Losses,
            format!("the event log says that events were lost, {times}"),
            "mappings may be unknown after each: list what exists again after a loss (%snapshot)",
        ));
    }
}
