//! Why a result is empty, wrong or thin, and what to do about it.
//!
//! A capture goes through many hands before it becomes a profile: a sink, somebody who wrote down registers, somebody who
//! copied programs. This looks at each of them, in the order in which data flows, and says what is wrong in plain words.
//! What can be tried is tried: other framings, protocols and settings.

mod execution;
mod trials;

use std::fmt;

use backsight_capture::events::Events;

use crate::decode::{Outline, Summary};
use crate::{Capture, Result, Source};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The result cannot be right, or there is none.
    Fatal,
    /// Something is missing in the result.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fatal => "problem",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A buffer holds nothing, or nothing but one value.
    EmptyBuffer,
    /// Much of a buffer was never written.
    UnusedBuffer,
    /// The bytes are framed in another way.
    WrongFraming,
    /// Another protocol fits.
    WrongProtocol,
    /// Other settings fit.
    WrongConfiguration,
    /// A source never says where it begins.
    NoSynchronisation,
    /// Bytes of trace IDs that nobody describes.
    UnknownIds,
    /// Sources that are described and have no data.
    SilentSources,
    /// Frames or packets are damaged.
    Damage,
    /// The trace unit could not keep up.
    Overflow,
    /// The recorder or the kernel lost something.
    Losses,
    /// Files of the capture are missing.
    MissingFiles,
    /// Programs are not those that ran.
    OtherBuild,
    /// Code that ran is in no image.
    MissingCode,
    /// Code and trace contradict each other.
    WrongCode,
    /// Contexts that nobody declared.
    UndeclaredContexts,
    /// Nobody says what CONTEXTIDR means.
    UnknownContextLayout,
    /// Lines of the event log are not understood.
    BadLog,
    /// The log and the trace have different clocks, or the trace has none.
    NoCommonTime,
    /// Programs without names or lines.
    NoDebugInformation,
    /// Anything that was doubtful when the capture was opened.
    Doubt,
}

impl Cause {
    /// The word for it, for scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::EmptyBuffer => "empty-buffer",
            Self::UnusedBuffer => "unused-buffer",
            Self::WrongFraming => "wrong-framing",
            Self::WrongProtocol => "wrong-protocol",
            Self::WrongConfiguration => "wrong-configuration",
            Self::NoSynchronisation => "no-synchronisation",
            Self::UnknownIds => "unknown-ids",
            Self::SilentSources => "silent-sources",
            Self::Damage => "damage",
            Self::Overflow => "overflow",
            Self::Losses => "losses",
            Self::MissingFiles => "missing-files",
            Self::OtherBuild => "other-build",
            Self::MissingCode => "missing-code",
            Self::WrongCode => "wrong-code",
            Self::UndeclaredContexts => "undeclared-contexts",
            Self::UnknownContextLayout => "unknown-context-layout",
            Self::BadLog => "bad-log",
            Self::NoCommonTime => "no-common-time",
            Self::NoDebugInformation => "no-debug-information",
            Self::Doubt => "doubt",
        }
    }
}

/// One thing that is wrong, with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub cause: Cause,
    /// In words.
    pub what: String,
    /// What to do about it; may be empty.
    pub advice: String,
}

impl Finding {
    fn new(severity: Severity, cause: Cause, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity, cause, what: what.into(), advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.severity.name(), self.cause.name(), self.what)?;
        if !self.advice.is_empty() {
            write!(f, "\n    to do: {}", self.advice)?;
        }
        Ok(())
    }
}

/// Looks at everything between a capture and a good profile. The worst comes first.
///
/// # Errors
/// If bytes or code cannot be read at all.
pub fn examine(capture: &Capture) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    description(capture, &mut findings);
    let is_gone =
        |finding: &Finding| finding.cause == Cause::MissingFiles && finding.severity == Severity::Fatal;
    if findings.iter().any(is_gone) {
        // There is nothing to look at.
        return Ok(findings);
    }
    let (summary, outlines) = capture.packets().threads(0).outline()?;
    trials::buffers(capture, &summary, &mut findings);
    packets(&summary, &outlines, &mut findings);
    let decoded = outlines.iter().any(|(source, _)| source.is_decoded());
    if decoded {
        execution::examine(capture, &outlines, &mut findings)?;
    }
    findings.sort_by_key(|finding| finding.severity);
    Ok(findings)
}

/// What shows without reading any trace.
fn description(capture: &Capture, findings: &mut Vec<Finding>) {
    let description = capture.description();
    let missing: Vec<&str> =
        description.memory.iter().filter(|dump| !dump.file.exists()).map(|dump| dump.file.path()).collect();
    let buffers = description.buffers.iter().flat_map(|buffer| &buffer.files);
    let trace: Vec<&str> = buffers.filter(|file| !file.exists()).map(|file| file.path()).collect();
    if !trace.is_empty() {
        let what = format!("files of trace are not there: {}", trace.join(", "));
        findings.push(Finding::new(
            Severity::Fatal,
            Cause::MissingFiles,
            what,
            "copy the capture again, with all its files",
        ));
    }
    if !missing.is_empty() {
        let what = format!("memory contents are not there: {}", missing.join(", "));
        findings.push(Finding::new(
            Severity::Warning,
            Cause::MissingFiles,
            what,
            "copy the files beside the capture, or name the program with --image",
        ));
    }
    for warning in capture.warnings().iter().filter(|warning| !warning.contains("there is no such file")) {
        let lost =
            ["lost", "missing", "collided", "filled the buffer"].iter().any(|word| warning.contains(word));
        let cause = if lost { Cause::Losses } else { Cause::Doubt };
        findings.push(Finding::new(Severity::Warning, cause, warning.clone(), ""));
    }
    if let Some(survey) = description.events.as_ref().map(Events::survey) {
        for problem in survey.problems.iter().take(3) {
            findings.push(Finding::new(
                Severity::Warning,
                Cause::BadLog,
                format!("the event log is not understood: {problem} ({} such lines)", survey.problems.len()),
                "correct the line; it is left out until then",
            ));
        }
        let lost = survey.losses;
        if lost > 0 {
            findings.push(Finding::new(
                Severity::Warning,
                Cause::Losses,
                format!("the event log says that events were lost, {lost} times"),
                "mappings may be unknown after each: list what exists again after a loss (%snapshot)",
            ));
        }
    }
    if description.sources.is_empty() {
        findings.push(Finding::new(
            Severity::Fatal,
            Cause::UnknownIds,
            "the capture describes no trace source",
            "describe them in its metadata, or read the file with --protocol, --framing and --config",
        ));
    }
}

/// What the packets show.
fn packets(summary: &Summary, outlines: &[(Source, Outline)], findings: &mut Vec<Finding>) {
    for buffer in &summary.buffers {
        let unknown: Vec<_> = buffer.undecoded.iter().filter(|one| one.source.is_none()).collect();
        if !unknown.is_empty() {
            let ids: Vec<String> = unknown.iter().map(|one| one.id.to_string()).collect();
            let bytes: u64 = unknown.iter().map(|one| one.bytes).sum();
            findings.push(Finding::new(
                if buffer.sources.is_empty() { Severity::Fatal } else { Severity::Warning },
                Cause::UnknownIds,
                format!(
                    "buffer {}: {bytes} bytes of trace IDs that no metadata names: {}",
                    buffer.name,
                    ids.join(", ")
                ),
                "add their sources to the metadata, with the trace IDs that were programmed",
            ));
        }
        let damage = buffer.frame_damage();
        if !damage.is_empty() {
            findings.push(Finding::new(
                Severity::Warning,
                Cause::Damage,
                format!("buffer {}: {}", buffer.name, damage.join(", ")),
                "see that the file was copied in full, begins at a frame, and was not changed on the way",
            ));
        }
    }
    for source in summary.sources().filter(|source| source.accounting.bad > 0) {
        let (bad, all) = (source.accounting.bad, source.accounting.total());
        findings.push(Finding::new(
            if bad * 10 > all { Severity::Fatal } else { Severity::Warning },
            Cause::Damage,
            format!("source {}: {bad} of {all} bytes are no packets", source.source.name()),
            "the trace is damaged, or the registers in the metadata are not those that were programmed",
        ));
    }
    for (source, outline) in outlines.iter().filter(|(_, outline)| outline.overflows > 0) {
        findings.push(Finding::new(
            Severity::Warning,
            Cause::Overflow,
            format!(
                "source {}: the trace unit lost data {} times, because nobody took it fast enough",
                source.name(),
                outline.overflows
            ),
            "trace less (filter addresses, no cycle counts, no data), or use a faster sink",
        ));
    }
}
