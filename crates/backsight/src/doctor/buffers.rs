//! Buffers that are empty, or of which little can be read: what they would be if they were described otherwise.

use std::collections::BTreeSet;
use std::io::Read;

use backsight_arm::frame::Framing;

use super::{Cause, Finding, Severity, listed};
use crate::decode::{BufferSummary, Summary};
use crate::detect::{Detection, Found, Reading};
use crate::listing::counted;
use crate::{Buffer, Capture, OpenOptions, Source};

/// Bytes of a buffer that are tried.
const SAMPLE: u64 = 1 << 17;
/// More unknown IDs than this are no sources that somebody forgot.
const MANY_IDS: usize = 8;
/// Settings that people forget or get wrong, with the values that units have.
const SETTINGS: [(&str, &[&str]); 6] = [
    ("sync", &["none"]),
    ("context_id", &["0", "8", "16", "32"]),
    ("vmid", &["0", "8", "16", "32"]),
    ("cyclecount", &["0", "1"]),
    ("commopt", &["0", "1"]),
    ("source_bits", &["0", "1", "2", "3"]),
];

const EMPTY: &str = "see that the trace unit and the sink were enabled and powered, and that their trace was copied out before they were switched off";

/// How well a way to read some bytes fits.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    decoded: u64,
    bad: u64,
    total: u64,
}

impl Fit {
    fn of<'a>(buffers: impl Iterator<Item = &'a BufferSummary> + Clone) -> Self {
        let mut fit = Self::default();
        for source in buffers.clone().flat_map(|buffer| &buffer.sources) {
            fit.decoded += source.accounting.decoded;
            fit.bad += source.accounting.bad;
            fit.total += source.accounting.total();
        }
        for buffer in buffers {
            let unknown: u64 = buffer.undecoded.iter().map(|one| one.bytes).sum();
            fit.total += buffer.frames.unsynchronised + unknown;
        }
        fit
    }

    /// Nearly everything is understood, and there was something.
    fn is_good(&self) -> bool {
        let is_all = self.decoded > 0 && self.decoded == self.total;
        (is_all || self.decoded > 16) && self.decoded * 10 >= self.total * 9 && self.bad * 20 <= self.decoded
    }
}

/// Looks at buffers that are empty, or of which little can be read. Those whose trouble has a cause are `explained`.
pub(super) fn examine(
    capture: &Capture,
    summary: &Summary,
    explained: &mut BTreeSet<String>,
    findings: &mut Vec<Finding>,
) {
    let mut empty: Vec<String> = Vec::new();
    let mut is_all_empty = true;
    for buffer in capture.buffers() {
        let Some(sample) = sample(buffer) else { continue };
        if let Some(what) = emptiness(buffer, &sample) {
            explained.insert(buffer.name().to_owned());
            empty.push(what);
            continue;
        }
        is_all_empty = false;
        if explained.contains(buffer.name()) {
            continue;
        }
        unused(buffer, &sample, findings);
        let Some(own) = summary.buffers.iter().find(|own| own.name == buffer.name()) else { continue };
        let fit = Fit::of(std::iter::once(own));
        if fit.is_good() {
            silent(buffer, own, findings);
            continue;
        }
        let tried = Tried { capture, buffer, own, sample: &sample, fit };
        if let Some(finding) = tried.explain() {
            explained.insert(buffer.name().to_owned());
            findings.push(finding);
        } else {
            silent(buffer, own, findings);
        }
    }
    if !empty.is_empty() {
        // Where other buffers have trace, this one's units may have had nothing to say.
        let severity = if is_all_empty { Severity::Fatal } else { Severity::Note };
        findings.push(Finding::new(severity, Cause::EmptyBuffer, empty.join("; "), EMPTY));
    }
}

fn sample(buffer: &Buffer) -> Option<Vec<u8>> {
    let mut sample = Vec::new();
    buffer.open().ok()?.take(SAMPLE).read_to_end(&mut sample).ok()?;
    Some(sample)
}

/// Does it hold nothing, or nothing but one value?
fn emptiness(buffer: &Buffer, sample: &[u8]) -> Option<String> {
    let name = buffer.name();
    let Some(&first) = sample.first() else { return Some(format!("buffer {name}: it is empty")) };
    let is_constant = sample.iter().all(|&byte| byte == first);
    is_constant.then(|| {
        let bytes = sample.len();
        format!("buffer {name}: all {bytes} bytes that were looked at are {first:#04x}")
    })
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
fn silent(buffer: &Buffer, summary: &BufferSummary, findings: &mut Vec<Finding>) {
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
                counted(silent.len() as u64, "source"),
                listed(&silent)
            ),
            "nothing, if these units traced nothing or into another buffer",
        ));
    }
}

/// A buffer that makes no sense as it is described.
struct Tried<'a> {
    capture: &'a Capture,
    buffer: &'a Buffer,
    own: &'a BufferSummary,
    sample: &'a [u8],
    fit: Fit,
}

impl Tried<'_> {
    /// Finds a way in which the bytes make sense.
    fn explain(&self) -> Option<Finding> {
        let source = self.buffer.sources().find(|source| source.is_decoded());
        // A bare file describes a source only where there are no frames.
        let source = source.or_else(|| self.own.sources.first().map(|one| &one.source));
        let protocol = source.and_then(Source::protocol).map(|names| names.name);
        let registers: Vec<String> = source.map_or_else(Vec::new, |source| {
            let registers = source.decoding().registers().unwrap_or_default();
            registers.iter().map(|(name, value)| format!("{name}={value:#x}")).collect()
        });
        let same = protocol.and_then(|protocol| {
            self.other_ids(protocol, &registers)
                .or_else(|| self.other_framing(protocol, &registers))
                .or_else(|| self.other_settings(protocol, &registers))
        });
        same.or_else(|| self.detected(protocol)).or_else(|| self.lost())
    }

    /// What was understood as it is described.
    fn share(&self) -> String {
        let Fit { decoded, bad, total } = self.fit;
        let name = self.buffer.name();
        format!("buffer {name}: of {}, {decoded} are understood and {bad} are bad", counted(total, "byte"))
    }

    /// The frames have other IDs than the metadata says, and their bytes are what was described.
    fn other_ids(&self, protocol: &str, registers: &[String]) -> Option<Finding> {
        let unknown: Vec<_> = self.own.undecoded.iter().filter(|one| one.source.is_none()).collect();
        let is_few = (1..=MANY_IDS).contains(&unknown.len());
        if !is_few || !self.tried(protocol, self.buffer.framing(), registers).is_good() {
            return None;
        }
        let ids: Vec<String> = unknown.iter().map(|one| one.id.to_string()).collect();
        let named: Vec<String> = self.buffer.sources().map(|source| source.id().to_string()).collect();
        let (bytes, name) = (unknown.iter().map(|one| one.bytes).sum(), self.buffer.name());
        Some(Finding::new(
            if self.own.sources.is_empty() { Severity::Fatal } else { Severity::Warning },
            Cause::UnknownIds,
            format!(
                "buffer {name}: {} have the trace ID {}, and the metadata names {}",
                counted(bytes, "byte"),
                listed(&ids),
                listed(&named)
            ),
            "correct the trace IDs in the metadata, or add the sources that have these",
        ))
    }

    fn other_framing(&self, protocol: &str, registers: &[String]) -> Option<Finding> {
        let own = self.buffer.framing();
        let others = Framing::ALL.iter().copied().filter(|other| *other != own);
        let other = others.into_iter().find(|other| self.tried(protocol, *other, registers).is_good())?;
        let (share, own, other) = (self.share(), own.name(), other.name());
        Some(Finding::new(
            Severity::Fatal,
            Cause::WrongFraming,
            format!("{share}: the data is not framed as {own}, it makes sense as {other}"),
            format!("correct the metadata, or give --framing {other}"),
        ))
    }

    fn other_settings(&self, protocol: &str, registers: &[String]) -> Option<Finding> {
        let all = SETTINGS.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        let setting = all.map(|(key, value)| format!("{key}={value}")).find(|setting| {
            let settings = [registers, std::slice::from_ref(setting)].concat();
            self.tried(protocol, self.buffer.framing(), &settings).is_good()
        })?;
        let share = self.share();
        Some(Finding::new(
            Severity::Fatal,
            Cause::WrongConfiguration,
            format!("{share}: the trace makes sense with {setting}, which was not given"),
            format!("give --config {setting}, or correct the metadata"),
        ))
    }

    /// What the bytes are, whatever was said about them.
    fn detected(&self, protocol: Option<&str>) -> Option<Finding> {
        let file = self.capture.description().buffers.iter().find(|one| one.name == self.buffer.name());
        let file = file.and_then(|buffer| buffer.files.first());
        let name = file.and_then(|file| file.location()).map(|path| path.display().to_string());
        let name = name.unwrap_or_else(|| self.buffer.name().to_owned());
        let detection = Detection::of_bytes(&name, self.sample);
        let share = self.share();
        match &detection.found {
            Found::Other(_) => {
                let what = format!("buffer {}: {}", self.buffer.name(), detection.what());
                Some(Finding::new(Severity::Fatal, Cause::NoTrace, what, detection.advice()))
            }
            Found::Trace(reading) => {
                let cause = self.cause_of(reading, protocol)?;
                let own = protocol.unwrap_or("what is described");
                let what = match cause {
                    Cause::WrongProtocol => format!("{share}: this is not {own}; {}", detection.what()),
                    _ => format!("{share}: {}", detection.what()),
                };
                let advice = "correct the metadata, or read the file as it is";
                let commands = detection.commands("info");
                Some(Finding { commands, ..Finding::new(Severity::Fatal, cause, what, advice) })
            }
            _ => None,
        }
    }

    /// In what a reading differs from the description; `None` if in nothing.
    fn cause_of(&self, reading: &Reading, protocol: Option<&str>) -> Option<Cause> {
        let framing = self.buffer.packet_framing().unwrap_or(self.buffer.framing().name());
        let differs = protocol != Some(reading.protocol) && protocol != reading.also;
        match () {
            () if differs => Some(Cause::WrongProtocol),
            () if !reading.steps.is_empty() || reading.framing != framing => Some(Cause::WrongFraming),
            () if !reading.config.is_empty() => Some(Cause::WrongConfiguration),
            () => None,
        }
    }

    /// Nothing that is known fits.
    fn lost(&self) -> Option<Finding> {
        (self.fit.decoded == 0).then(|| {
            let (name, bytes) = (self.buffer.name(), counted(self.fit.total, "byte"));
            Finding::new(
                Severity::Fatal,
                Cause::NoSynchronisation,
                format!("buffer {name}: no synchronisation is found in {bytes} of trace, read in any way that is known"),
                "see that the trace unit was programmed to synchronise, that this file holds trace, and where it begins",
            )
        })
    }

    fn tried(&self, protocol: &str, framing: Framing, settings: &[String]) -> Fit {
        let options = OpenOptions::new().protocol(protocol).framing(framing.name());
        let options = settings.iter().fold(options, |options, setting| options.config(setting));
        let summary = options.bytes(self.sample.to_vec()).and_then(|capture| capture.packets().count());
        summary.map_or_else(|_| Fit::default(), |summary| Fit::of(summary.buffers.iter()))
    }
}
