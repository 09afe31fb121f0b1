//! `backsight info`: what is in a capture.

mod bare;

use std::collections::BTreeMap;

use backsight::core::{Accounting, TraceId};
use backsight::decode::{BufferSummary, Outline, SourceSummary};
use backsight::description::Format as CaptureFormat;
use backsight::description::events::Events;
use backsight::listing::Printable;
use backsight::{Buffer, Capture};
use clap::Args;
use serde_json::{Value, json};

use crate::args::{CaptureArgs, ImageArgs, OutputArgs};
use crate::failure::{Failure, Result};
use crate::output::{Output, counted};

/// Say what is in a capture
///
/// Buffers, sources, protocols, configuration in words, code, sizes, time span and damage. The trace is read once;
/// --fast leaves it alone. Of a bare file without --protocol it says what it seems to hold, and how sure that is.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Info {
    #[command(flatten)]
    capture: CaptureArgs,

    /// Only the metadata: do not read the trace
    #[arg(long)]
    fast: bool,

    /// One JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  backsight info capture/                    everything about a snapshot or package
  backsight info capture.zip --fast --json   only its metadata, for a program
  backsight info trace.bin                   what a bare file seems to hold, and the command that reads it
  backsight info trace.bin --protocol etm4 --framing coresight
                                             which trace IDs a bare file holds";

/// Runs the command.
pub fn run(command: &Info) -> Result {
    let images = ImageArgs::default();
    command.capture.check(&images)?;
    let capture = match command.capture.open_as(&images) {
        Err(backsight::Error::Undescribed(detection)) if detection.reading().is_some() => {
            return bare::run(command, &detection);
        }
        capture => capture?,
    };
    CaptureArgs::say_warnings(&capture, command.output.quiet);
    let surveys = survey(command, &capture)?;
    let path = command.output.output.as_deref();
    let inputs = command.capture.inputs(&ImageArgs::default());
    let mut output = match command.json {
        true => Output::for_tables(path, &inputs, true)?,
        false => Output::for_people(path, &inputs)?,
    };
    if command.json {
        let value = as_json(command, &capture, &surveys);
        output.put(|out| writeln!(out, "{value:#}"))?;
    } else {
        let text = as_text(command, &capture, &surveys);
        output.put(|out| out.write_all(text.as_bytes()))?;
    }
    output.finish()?;
    let is_damaged = |survey: &Survey| {
        let bad = survey.summary.sources.iter().any(|source| source.accounting.bad > 0);
        bad || !survey.summary.frame_damage().is_empty()
    };
    match command.output.strict && surveys.values().any(is_damaged) {
        true => Err(Failure::new("the trace is damaged (--strict)")),
        false => Ok(()),
    }
}

/// What reading a buffer shows.
struct Survey {
    summary: BufferSummary,
    outlines: BTreeMap<TraceId, Outline>,
}

/// Reads the trace: a survey of each buffer, by name.
fn survey(command: &Info, capture: &Capture) -> Result<BTreeMap<String, Survey>> {
    if command.fast {
        command.capture.check_buffers(capture)?;
        return Ok(BTreeMap::new());
    }
    let (summary, outlines) =
        command.capture.choose(capture.packets(), capture, command.output.quiet).outline()?;
    let surveys = summary.buffers.into_iter().map(|summary| {
        let own = outlines.iter().filter(|(source, _)| source.buffer() == summary.name);
        let outlines = own.map(|(source, outline)| (source.frame_id(), *outline)).collect();
        (summary.name.clone(), Survey { summary, outlines })
    });
    Ok(surveys.collect())
}

fn format_words(capture: &Capture) -> &'static str {
    match capture.description().format {
        CaptureFormat::Snapshot => "snapshot",
        CaptureFormat::Package => "trace package",
        CaptureFormat::Bare => "bare file",
        CaptureFormat::Perf => "perf.data",
        CaptureFormat::ElfCore => "ELF core file",
    }
}

fn as_text(command: &Info, capture: &Capture, surveys: &BTreeMap<String, Survey>) -> String {
    let description = capture.description();
    let mut text = format!("{}: {}\n", Printable(capture.name()), format_words(capture));
    let mut line = |indentation: usize, words: String| {
        text.push_str(&format!("{:indentation$}{}\n", "", Printable(&words)));
    };
    if let Some(description) = &description.description {
        line(2, description.clone());
    }
    for (key, value) in description.system.iter().filter(|_| description.format == CaptureFormat::Perf) {
        line(2, format!("{key}: {value}"));
    }
    for core in &description.cores {
        let kind = if core.kind.is_empty() { String::new() } else { format!(": {}", core.kind) };
        line(2, format!("core {}{kind}", core.name));
    }
    for buffer in command.capture.chosen(capture) {
        let pieces = match buffer.pieces() {
            1 => String::new(),
            count => format!(", in {count} pieces"),
        };
        line(2, format!("buffer {buffer}{pieces}"));
        for source in buffer.sources() {
            line(4, format!("source {source}"));
        }
        if let Some(survey) = surveys.get(buffer.name()) {
            survey_text(buffer, survey, description.timestamp_frequency, &mut line);
        }
    }
    for (memory, cores) in memories(capture) {
        let cores = if cores.is_empty() { String::new() } else { format!(", seen by {}", cores.join(", ")) };
        line(2, format!("memory {memory}{cores}"));
    }
    for image in &description.images {
        line(2, format!("image {}: {}", image.name, image.file.path()));
    }
    if let Some(survey) = description.events.as_ref().map(Events::survey) {
        let problems = counted(survey.problems.len() as u64, "problem");
        line(2, format!("event log: {}, {problems}", counted(survey.records, "event")));
    }
    text
}

/// The memory contents that came along, each once, with the cores that see it; none where all do.
fn memories(capture: &Capture) -> Vec<(String, Vec<&str>)> {
    let description = capture.description();
    let (mut memories, mut known) = (Vec::<(String, Vec<&str>)>::new(), BTreeMap::new());
    for dump in &description.memory {
        let length = dump.length.map_or_else(|| "all".to_owned(), |length| format!("{length:#x} bytes"));
        let missing = if dump.file.exists() { "" } else { ", MISSING" };
        let space = dump.space.name().unwrap_or("several spaces");
        let memory = format!("{}: {length} of {} ({space}{missing})", dump.address, dump.file.path());
        let core = dump.core.and_then(|core| description.cores.get(core)).map(|core| core.name.as_str());
        let number = *known.entry(memory.clone()).or_insert(memories.len());
        match memories.get_mut(number) {
            Some((_, cores)) => cores.extend(core),
            None => memories.push((memory, core.into_iter().collect())),
        }
    }
    for (_, cores) in &mut memories {
        if cores.len() == description.cores.len() {
            cores.clear();
        }
    }
    memories
}

fn survey_text(
    buffer: &Buffer,
    survey: &Survey,
    frequency: Option<u64>,
    line: &mut impl FnMut(usize, String),
) {
    for summary in &survey.summary.sources {
        let SourceSummary { source, packets, accounting, .. } = summary;
        let Accounting { unsynchronised, bad, .. } = accounting;
        let (id, bytes) = (source.id(), accounting.total());
        let outline = survey.outlines.get(&source.frame_id()).copied().unwrap_or_default();
        let overflows = match outline.overflows {
            0 => String::new(),
            count => format!(", {}", counted(count, "overflow")),
        };
        line(
            4,
            format!(
                "ID {id}: {}, {}, {} before synchronisation, {bad} bad{overflows}",
                counted(bytes, "byte"),
                counted(*packets, "packet"),
                counted(*unsynchronised, "byte"),
            ),
        );
        if let (Some(first), Some(last)) = (outline.first_time, outline.last_time) {
            let span = last.saturating_sub(first);
            let seconds = frequency
                .filter(|&frequency| frequency > 0)
                .map(|frequency| format!(", {:.6} s", span as f64 / frequency as f64))
                .unwrap_or_default();
            line(6, format!("time {first:#x} to {last:#x}: {}{seconds}", counted(span, "tick")));
        }
    }
    for words in survey.summary.why_undecoded() {
        line(4, words);
    }
    let met = |id: TraceId| {
        survey.summary.sources.iter().any(|summary| summary.source.frame_id() == id)
            || survey.summary.undecoded.iter().any(|undecoded| undecoded.id == id)
    };
    for source in buffer.sources().filter(|source| !met(source.frame_id())) {
        line(4, format!("ID {}: no data ({})", source.id(), source.name()));
    }
    let BufferSummary { frames, triggers, flushes, .. } = &survey.summary;
    if frames.frames > 0 {
        let padding = counted(frames.padding(), "byte");
        line(4, format!("{}, {padding} of padding", counted(frames.frames, "frame")));
    }
    if triggers + flushes > 0 {
        line(4, format!("{}, {}", counted(*triggers, "trigger"), counted(*flushes, "flush")));
    }
    survey.summary.frame_damage().into_iter().for_each(|what| line(4, format!("damage: {what}")));
}

fn as_json(command: &Info, capture: &Capture, surveys: &BTreeMap<String, Survey>) -> Value {
    let description = capture.description();
    let buffers: Vec<Value> = command
        .capture
        .chosen(capture)
        .map(|buffer| {
            let sources = buffer.sources().map(|source| {
                json!({
                    "name": source.name(),
                    "id": source.id().get(),
                    "core": source.core(),
                    "configuration": source.configuration(),
                })
            });
            let survey = surveys.get(buffer.name());
            json!({
                "name": buffer.name(),
                "bytes": buffer.size(),
                "framing": buffer.framing().name(),
                "sources": sources.collect::<Vec<_>>(),
                "streams": survey.map_or_else(Vec::new, streams_json),
                "damage": survey.map(|survey| survey.summary.frame_damage()),
            })
        })
        .collect();
    json!({
        "name": capture.name(),
        "format": format_words(capture),
        "description": description.description,
        "cores": description.cores.iter().map(|core| json!({"name": core.name, "type": core.kind})).collect::<Vec<_>>(),
        "buffers": buffers,
        "memory": description.memory.iter().map(|dump| json!({
            "file": dump.file.path(),
            "address": format!("{:#x}", dump.address),
            "length": dump.length,
            "missing": !dump.file.exists(),
        })).collect::<Vec<_>>(),
        "events": description.events.as_ref().map(|events| events.survey().records),
        "warnings": capture.warnings(),
    })
}

/// What was read of each source, those that are not decoded included.
fn streams_json(survey: &Survey) -> Vec<Value> {
    let mut streams = BTreeMap::new();
    for SourceSummary { source, packets, accounting, .. } in &survey.summary.sources {
        let outline = survey.outlines.get(&source.frame_id()).copied().unwrap_or_default();
        let stream = json!({
            "id": source.id().get(),
            "bytes": accounting.total(),
            "packets": packets,
            "unsynchronised": accounting.unsynchronised,
            "bad": accounting.bad,
            "overflows": outline.overflows,
            "first_timestamp": outline.first_time,
            "last_timestamp": outline.last_time,
        });
        streams.insert(source.frame_id(), stream);
    }
    for undecoded in &survey.summary.undecoded {
        let id = undecoded.source.as_ref().map_or(undecoded.id, |source| source.id());
        let stream = json!({
            "id": id.get(), "bytes": undecoded.bytes, "packets": 0, "unsynchronised": 0, "bad": 0, "overflows": 0,
            "first_timestamp": null, "last_timestamp": null,
        });
        streams.insert(undecoded.id, stream);
    }
    streams.into_values().collect()
}
