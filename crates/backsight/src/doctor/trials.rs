//! Buffers that make no sense as they are described: what they would be if they were described otherwise.

use std::io::Read;

use backsight_arm::frame::Framing;

use super::{Cause, Finding, Severity};
use crate::decode::Summary;
use crate::{Buffer, Capture, OpenOptions, Source};

/// Bytes of a buffer that are tried.
const SAMPLE: u64 = 1 << 18;
/// Settings that people forget or get wrong, with the values that units have.
const SETTINGS: [(&str, &[&str]); 4] = [
    ("context_id", &["0", "8", "16", "32"]),
    ("vmid", &["0", "8", "16", "32"]),
    ("cyclecount", &["0", "1"]),
    ("commopt", &["0", "1"]),
];
/// Protocols whose streams say where they begin: nonsense does not look like them.
const RECOGNISED: [&str; 5] = ["etm4", "ete", "etm3", "ptm", "stm"];

/// How well a way to read some bytes fits.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    decoded: u64,
    bad: u64,
    total: u64,
}

impl Fit {
    fn of(summary: &Summary) -> Self {
        let accounting = summary.accounting();
        let frames: u64 = summary.buffers.iter().map(|buffer| buffer.frames.unsynchronised).sum();
        let unknown: u64 =
            summary.buffers.iter().flat_map(|buffer| &buffer.undecoded).map(|one| one.bytes).sum();
        Self {
            decoded: accounting.decoded,
            bad: accounting.bad,
            total: accounting.total() + frames + unknown,
        }
    }

    /// Nearly everything is understood, and there was something.
    fn is_good(&self) -> bool {
        self.decoded > 16 && self.decoded * 10 >= self.total * 9 && self.bad * 20 <= self.decoded
    }
}

/// Looks at buffers that are empty, or of which little can be read.
pub(super) fn buffers(capture: &Capture, summary: &Summary, findings: &mut Vec<Finding>) {
    for buffer in capture.buffers() {
        let Some(sample) = sample(buffer) else { continue };
        let Some(&first) = sample.first() else {
            let what = format!("buffer {}: it is empty", buffer.name());
            findings.push(Finding::new(Severity::Fatal, Cause::EmptyBuffer, what, EMPTY));
            continue;
        };
        if sample.iter().all(|&byte| byte == first) {
            let what = format!(
                "buffer {}: all {} bytes that were looked at are {first:#04x}",
                buffer.name(),
                sample.len()
            );
            findings.push(Finding::new(Severity::Fatal, Cause::EmptyBuffer, what, EMPTY));
            continue;
        }
        unused(buffer, &sample, findings);
        let Some(own) = summary.buffers.iter().find(|own| own.name == buffer.name()) else { continue };
        let one = Summary { buffers: vec![own.clone()], ..Summary::default() };
        let fit = Fit::of(&one);
        silent(buffer, own, findings);
        if !fit.is_good() && !explain(buffer, &sample, fit, findings) && fit.decoded == 0 {
            findings.push(Finding::new(
                Severity::Fatal,
                Cause::NoSynchronisation,
                format!("buffer {}: no synchronisation is found in {} bytes of trace, read in any way that is known", buffer.name(), fit.total),
                "see that the trace unit was programmed to synchronise, that this file holds trace, and where it begins",
            ));
        }
    }
}

const EMPTY: &str = "see that the trace unit and the sink were enabled and powered, and that their trace was copied out before they were switched off";

fn sample(buffer: &Buffer) -> Option<Vec<u8>> {
    let mut sample = Vec::new();
    buffer.open().ok()?.take(SAMPLE).read_to_end(&mut sample).ok()?;
    Some(sample)
}

/// Much of the end of a buffer is zeros.
fn unused(buffer: &Buffer, sample: &[u8], findings: &mut Vec<Finding>) {
    let used = sample.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let unused = sample.len() - used;
    if unused > 256 && unused * 2 > sample.len() {
        findings.push(Finding::new(
            Severity::Note,
            Cause::UnusedBuffer,
            format!("buffer {}: only the first {used} of {} bytes were written", buffer.name(), sample.len()),
            "nothing, if the program was short; else see that tracing was not stopped early",
        ));
    }
}

/// Sources that are described and have no data, where others have.
fn silent(buffer: &Buffer, summary: &crate::decode::BufferSummary, findings: &mut Vec<Finding>) {
    let heard =
        |source: &&Source| summary.sources.iter().any(|one| one.source.frame_id() == source.frame_id());
    let silent: Vec<_> = buffer.sources().filter(|source| !heard(source)).map(Source::name).collect();
    if !silent.is_empty() && !summary.sources.is_empty() {
        findings.push(Finding::new(
            Severity::Note,
            Cause::SilentSources,
            format!(
                "buffer {}: {} described and without data: {}",
                buffer.name(),
                silent.len(),
                silent.join(", ")
            ),
            "nothing, if these units traced nothing or into another buffer",
        ));
    }
}

/// Finds a way in which the bytes make sense. Says whether there is one.
fn explain(buffer: &Buffer, sample: &[u8], fit: Fit, findings: &mut Vec<Finding>) -> bool {
    let source = buffer.sources().find(|source| source.is_decoded());
    let protocol = source.and_then(Source::protocol).map(|names| names.name);
    let framing = buffer.framing();
    let share = format!(
        "buffer {}: of {} bytes, {} are understood and {} are bad",
        buffer.name(),
        fit.total,
        fit.decoded,
        fit.bad
    );
    let registers: Vec<String> = source.map_or_else(Vec::new, |source| {
        let registers = source.decoding().registers().unwrap_or_default();
        registers.iter().map(|(name, value)| format!("{name}={value:#x}")).collect()
    });
    if let Some(protocol) = protocol {
        for other in Framing::ALL.iter().copied().filter(|other| *other != framing) {
            if tried(protocol, other, &registers, sample).is_good() {
                let (own, other) = (framing.name(), other.name());
                findings.push(Finding::new(
                    Severity::Fatal,
                    Cause::WrongFraming,
                    format!("{share}: the data is not framed as {own}, it makes sense as {other}"),
                    format!("correct the metadata, or give --framing {other}"),
                ));
                return true;
            }
        }
        for (key, values) in SETTINGS {
            for value in values {
                let setting = format!("{key}={value}");
                let settings = [&registers[..], std::slice::from_ref(&setting)].concat();
                if tried(protocol, framing, &settings, sample).is_good() {
                    findings.push(Finding::new(
                        Severity::Fatal,
                        Cause::WrongConfiguration,
                        format!(
                            "{share}: the trace makes sense with {setting}, which the metadata does not say"
                        ),
                        format!("correct the registers in the metadata, or give --config {setting}"),
                    ));
                    return true;
                }
            }
        }
    }
    let framings =
        [framing].into_iter().chain(Framing::ALL.iter().copied().filter(|other| *other != framing));
    for other_framing in framings {
        for other in RECOGNISED.into_iter().filter(|other| Some(*other) != protocol) {
            if tried(other, other_framing, &[], sample).is_good() {
                let own = protocol.unwrap_or("what is described");
                findings.push(Finding::new(
                    Severity::Fatal,
                    Cause::WrongProtocol,
                    format!(
                        "{share}: this is not {own}, it makes sense as {other} ({} framing)",
                        other_framing.name()
                    ),
                    format!(
                        "correct the metadata, or read the file with --protocol {other} --framing {}",
                        other_framing.name()
                    ),
                ));
                return true;
            }
        }
    }
    false
}

fn tried(protocol: &str, framing: Framing, settings: &[String], sample: &[u8]) -> Fit {
    let options = OpenOptions::new().protocol(protocol).framing(framing.name());
    let options = settings.iter().fold(options, |options, setting| options.config(setting));
    let summary = options.bytes(sample.to_vec()).and_then(|capture| capture.packets().count());
    summary.map_or_else(|_| Fit::default(), |summary| Fit::of(&summary))
}
