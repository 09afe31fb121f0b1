//! Why a result is empty, wrong or thin, and what to do about it.
//!
//! A capture goes through many hands before it becomes a profile: a sink, somebody who wrote down registers, somebody who
//! copied programs. This looks at each of them, in the order in which data flows, and says what is wrong in plain words.
//! What can be tried is tried: other framings, protocols and settings. What is wrong with a buffer explains whatever comes of
//! it: once the cause is found, its consequences are not reported.

mod buffers;
mod contexts;
mod description;
mod execution;
mod finding;
mod packets;
mod programs;
mod registers;

use std::collections::BTreeSet;

use crate::detect::{Confidence, Detection, Found};
use crate::{Capture, Error, Result};
pub use finding::{Cause, Finding, Severity};

/// Items of a list that are shown.
const LISTED: usize = 5;

/// Looks at everything between a capture and a good profile. The worst comes first; of equally bad ones, what comes first in
/// the flow of data: it may explain the others.
///
/// # Errors
/// If bytes or code cannot be read at all.
pub fn examine(capture: &Capture) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    description::examine(capture, &mut findings);
    let is_gone = |finding: &Finding| {
        matches!(finding.cause, Cause::MissingFiles | Cause::Losses) && finding.severity == Severity::Fatal
    };
    if findings.iter().any(is_gone) {
        // There is nothing to look at.
        return Ok(findings);
    }
    let (summary, outlines) = capture.packets().threads(0).outline()?;
    let mut explained = BTreeSet::new();
    registers::examine(capture, &mut explained, &mut findings);
    buffers::examine(capture, &summary, &mut explained, &mut findings);
    packets::examine(&summary, &outlines, &explained, &mut findings);
    let is_open = |name: &str| !explained.contains(name);
    if outlines.iter().any(|(source, _)| source.is_decoded() && is_open(source.buffer())) {
        execution::examine(capture, &outlines, &explained, &mut findings)?;
    }
    findings.sort_by_key(|finding| (finding.severity, finding.cause));
    Ok(findings)
}

/// What is wrong if a capture could not be opened; `None` where the reason is no property of the file: it is not there, or
/// what was asked for makes no sense.
pub fn of_failure(error: &Error) -> Option<Finding> {
    match error {
        Error::Undescribed(detection) => Some(of_detection(detection, "doctor")),
        Error::Capture(error) if !error.what.contains("there is no such file") => {
            let plain = backsight_capture::Error { advice: String::new(), ..error.clone() };
            let usual = "correct the file, or copy the capture again";
            let advice = if error.advice.is_empty() { usual } else { &error.advice };
            Some(Finding::new(Severity::Fatal, Cause::BadMetadata, plain.to_string(), advice))
        }
        _ => None,
    }
}

/// What a bare file holds, as a finding.
fn of_detection(detection: &Detection, verb: &str) -> Finding {
    let cause = match &detection.found {
        Found::Trace(_) => Cause::BareFile,
        Found::Empty | Found::Constant(_) => Cause::EmptyBuffer,
        _ => Cause::NoTrace,
    };
    let nobody = match detection.confidence() {
        Some(Confidence::Certain | Confidence::Likely) => "nothing describes this file; ",
        Some(Confidence::Possible) => "nothing describes this file, and what it holds is not certain; ",
        None => "",
    };
    let what = format!("{}: {nobody}{}", detection.name, detection.what());
    let mut advice = detection.advice();
    if advice.is_empty() && detection.reading().is_some() {
        advice = "say what it holds".to_owned();
    }
    let commands = detection.commands(verb);
    Finding { commands, ..Finding::new(Severity::Fatal, cause, what, advice) }
}

/// The first of some names, and how many more there are.
fn listed<T: ToString>(all: &[T]) -> String {
    let names: Vec<String> = all.iter().take(LISTED).map(ToString::to_string).collect();
    match all.len().saturating_sub(LISTED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
