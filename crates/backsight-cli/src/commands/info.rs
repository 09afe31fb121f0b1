//! `backsight info`: what is in a capture.

use std::collections::BTreeMap;

use backsight_arm::etm4;
use backsight_arm::frame::{Chunk, Counts};
use backsight_capture::{Capture, Format as CaptureFormat};
use backsight_core::{Accounting, TraceId};
use clap::Args;
use serde_json::{Value, json};

use crate::args::{CaptureArgs, OutputArgs};
use crate::decoder::Decoder;
use crate::failure::{Failure, Result};
use crate::listing::etrace_words;
use crate::output::Output;
use crate::plan::{Buffer, Decoding, Plan, frame_damage};

/// Say what is in a capture
///
/// Buffers, sources, protocols, configuration in words, code, sizes, time span and damage. The trace is read once;
/// --fast leaves it alone.
#[derive(Args, Debug)]
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
  backsight info trace.bin --protocol etm4 --framing coresight
                                             which trace IDs a bare file holds";

/// Runs the command.
pub fn run(command: &Info) -> Result {
    let plan = Plan::new(&command.capture, command.output.quiet)?;
    let mut surveys = Vec::new();
    for buffer in &plan.buffers {
        surveys.push(if command.fast { None } else { Some(survey(command, buffer)?) });
    }
    let mut output = Output::open(command.output.output.as_deref())?;
    if command.json {
        let value = as_json(&plan, &surveys);
        output.put(|out| writeln!(out, "{value:#}"))?;
    } else {
        let text = as_text(&plan, &surveys);
        output.put(|out| out.write_all(text.as_bytes()))?;
    }
    output.finish()?;
    let damaged = surveys.iter().flatten().any(Survey::is_damaged);
    if command.output.strict && damaged {
        return Err(Failure::new("the trace is damaged (--strict)"));
    }
    Ok(())
}

/// What reading a buffer shows.
struct Survey {
    counts: Counts,
    streams: BTreeMap<TraceId, Stream>,
    triggers: u64,
    flushes: u64,
}

/// What reading a source shows.
#[derive(Default)]
struct Stream {
    packets: u64,
    bytes: Accounting,
    first_time: Option<u64>,
    last_time: Option<u64>,
    overflows: u64,
}

impl Survey {
    fn is_damaged(&self) -> bool {
        !frame_damage(&self.counts).is_empty() || self.streams.values().any(|stream| stream.bytes.bad > 0)
    }
}

/// A source while it is read.
enum Reader {
    Etm4(Box<etm4::Decoder>),
    Other(Decoder),
}

impl Reader {
    fn new(decoding: &Decoding) -> Option<Self> {
        match decoding {
            Decoding::Etm4(config) => Some(Self::Etm4(Box::new(etm4::Decoder::new(config)))),
            other => Decoder::new(other).map(Self::Other),
        }
    }
}

impl Stream {
    fn etm4(&mut self, packet: &etm4::Packet) {
        self.packets += u64::from(!matches!(packet, etm4::Packet::Unsynchronised));
        match packet {
            etm4::Packet::Timestamp(timestamp) if timestamp.value != 0 => {
                self.first_time.get_or_insert(timestamp.value);
                self.last_time = Some(timestamp.value);
            }
            etm4::Packet::Overflow => self.overflows += 1,
            _ => {}
        }
    }
}

fn survey(command: &Info, buffer: &Buffer) -> Result<Survey> {
    let mut readers: BTreeMap<TraceId, (Option<Reader>, Stream)> = BTreeMap::new();
    let (mut triggers, mut flushes) = (0, 0);
    let counts = buffer.chunks(command.output.quiet, |chunk| {
        match chunk {
            Chunk::Data { id, .. } if !buffer.is_raw() && !command.capture.wants(id.get()) => {}
            Chunk::Data { id, bytes, .. } => {
                let (reader, stream) = readers.entry(id).or_insert_with(|| {
                    (buffer.source(id).and_then(|source| Reader::new(&source.decoding)), Stream::default())
                });
                match reader {
                    Some(Reader::Etm4(decoder)) => {
                        decoder.feed(bytes, &mut |packet| stream.etm4(&packet.value))
                    }
                    Some(Reader::Other(decoder)) => decoder.feed(bytes, &mut |_| stream.packets += 1),
                    None => {}
                }
            }
            Chunk::Discontinuity { .. } => {
                for (reader, stream) in readers.values_mut() {
                    match reader {
                        Some(Reader::Etm4(decoder)) => {
                            decoder.reset(&mut |packet| stream.etm4(&packet.value))
                        }
                        Some(Reader::Other(decoder)) => decoder.reset(&mut |_| stream.packets += 1),
                        None => {}
                    }
                }
            }
            Chunk::Trigger { .. } => triggers += 1,
            Chunk::Flush { .. } => flushes += 1,
        }
        Ok(())
    })?;
    let mut streams = BTreeMap::new();
    for (id, (reader, mut stream)) in readers {
        match reader {
            Some(Reader::Etm4(mut decoder)) => {
                decoder.finish(&mut |packet| stream.etm4(&packet.value));
                stream.bytes = decoder.accounting();
            }
            Some(Reader::Other(mut decoder)) => {
                decoder.finish(&mut |_| stream.packets += 1);
                stream.bytes = decoder.accounting();
            }
            None => {}
        }
        streams.insert(id, stream);
    }
    Ok(Survey { counts, streams, triggers, flushes })
}

fn format_words(capture: &Capture) -> &'static str {
    match capture.format {
        CaptureFormat::Snapshot => "snapshot",
        CaptureFormat::Package => "trace package",
        CaptureFormat::Bare => "bare file",
    }
}

/// A configuration in words.
fn configuration(decoding: &Decoding) -> String {
    match decoding {
        Decoding::Etm4(config) => config.words().to_string(),
        Decoding::Etrace(etrace) => etrace_words::etrace(etrace),
        Decoding::Ntrace(config) => format!("N-Trace, {} bits of source", config.source_bits),
        Decoding::NotDecoded(protocol) => format!("{protocol}, not decoded yet"),
    }
}

fn as_text(plan: &Plan, surveys: &[Option<Survey>]) -> String {
    let capture = &plan.capture;
    let mut text = format!("{}: {}\n", capture.name, format_words(capture));
    let mut line = |indentation: usize, words: String| {
        text.push_str(&" ".repeat(indentation));
        text.push_str(&words);
        text.push('\n');
    };
    if let Some(description) = &capture.description {
        line(2, description.clone());
    }
    for core in &capture.cores {
        line(2, format!("core {}: {}", core.name, core.kind));
    }
    for (buffer, survey) in plan.buffers.iter().zip(surveys) {
        let size = buffer.size.map_or_else(|| "size unknown".to_owned(), |size| format!("{size} bytes"));
        line(2, format!("buffer {}: {size}, framing {}", buffer.name, buffer.framing));
        for source in buffer.sources.values() {
            let core = source.core.as_ref().map(|core| format!(" of {core}")).unwrap_or_default();
            line(
                4,
                format!(
                    "source {} (ID {}){core}: {}",
                    source.name,
                    source.id,
                    configuration(&source.decoding)
                ),
            );
        }
        if let Some(survey) = survey {
            survey_text(buffer, survey, capture.timestamp_frequency, &mut line);
        }
    }
    for dump in &capture.memory {
        let length = dump.length.map_or_else(|| "all".to_owned(), |length| format!("{length:#x} bytes"));
        let missing = if dump.file.exists() { "" } else { ", MISSING" };
        let space = dump.space.name().unwrap_or("several spaces");
        line(2, format!("memory {}: {length} of {} ({space}{missing})", dump.address, dump.file.path()));
    }
    for image in &capture.images {
        line(2, format!("image {}: {}", image.name, image.file.path()));
    }
    if let Some(events) = &capture.events {
        line(2, format!("event log: {} events, {} problems", events.records.len(), events.problems.len()));
    }
    text
}

fn survey_text(
    buffer: &Buffer,
    survey: &Survey,
    frequency: Option<u64>,
    line: &mut impl FnMut(usize, String),
) {
    let bytes_of = |id: TraceId| buffer.bytes_of(&survey.counts, id);
    let is_decoded = |id: TraceId| {
        buffer.source(id).is_some_and(|source| !matches!(source.decoding, Decoding::NotDecoded(_)))
    };
    for (&id, stream) in survey.streams.iter().filter(|(id, _)| is_decoded(**id)) {
        let bytes = bytes_of(id);
        let Accounting { unsynchronised, bad, .. } = stream.bytes;
        let overflows = match stream.overflows {
            0 => String::new(),
            count => format!(", {count} overflows"),
        };
        line(
            4,
            format!(
                "ID {id}: {bytes} bytes, {} packets, {unsynchronised} bytes before synchronisation, {bad} bad{overflows}",
                stream.packets
            ),
        );
        if let (Some(first), Some(last)) = (stream.first_time, stream.last_time) {
            let span = last.saturating_sub(first);
            let seconds = frequency
                .filter(|&frequency| frequency > 0)
                .map(|frequency| format!(", {:.6} s", span as f64 / frequency as f64))
                .unwrap_or_default();
            line(6, format!("time {first:#x} to {last:#x}: {span} ticks{seconds}"));
        }
    }
    let undecoded = survey.streams.keys().copied().filter(|&id| !is_decoded(id));
    for words in buffer.why_undecoded(undecoded.map(|id| (id, bytes_of(id)))) {
        line(4, words);
    }
    for source in buffer.sources.iter().filter(|(id, _)| !survey.streams.contains_key(id)) {
        line(4, format!("ID {}: no data ({})", source.0, source.1.name));
    }
    let counts = &survey.counts;
    if counts.frames > 0 {
        line(4, format!("{} frames, {} bytes of padding", counts.frames, counts.padding()));
    }
    if survey.triggers + survey.flushes > 0 {
        line(4, format!("{} triggers, {} flushes", survey.triggers, survey.flushes));
    }
    frame_damage(counts).into_iter().for_each(|what| line(4, format!("damage: {what}")));
}

fn as_json(plan: &Plan, surveys: &[Option<Survey>]) -> Value {
    let capture = &plan.capture;
    let buffers: Vec<Value> = plan
        .buffers
        .iter()
        .zip(surveys)
        .map(|(buffer, survey)| {
            let sources: Vec<Value> = buffer
                .sources
                .values()
                .map(|source| {
                    json!({
                        "name": source.name,
                        "id": source.id.get(),
                        "core": source.core,
                        "configuration": configuration(&source.decoding),
                    })
                })
                .collect();
            let streams: Vec<Value> = survey
                .iter()
                .flat_map(|survey| {
                    survey.streams.iter().map(|(id, stream)| stream_json(buffer, *id, stream, survey))
                })
                .collect();
            json!({
                "name": buffer.name,
                "bytes": buffer.size,
                "framing": buffer.framing.name(),
                "sources": sources,
                "streams": streams,
                "damage": survey.as_ref().map(|survey| frame_damage(&survey.counts)),
            })
        })
        .collect();
    json!({
        "name": capture.name,
        "format": format_words(capture),
        "description": capture.description,
        "cores": capture.cores.iter().map(|core| json!({"name": core.name, "type": core.kind})).collect::<Vec<_>>(),
        "buffers": buffers,
        "memory": capture.memory.iter().map(|dump| json!({
            "file": dump.file.path(),
            "address": format!("{:#x}", dump.address),
            "length": dump.length,
            "missing": !dump.file.exists(),
        })).collect::<Vec<_>>(),
        "events": capture.events.as_ref().map(|events| events.records.len()),
        "warnings": capture.warnings,
    })
}

fn stream_json(buffer: &Buffer, id: TraceId, stream: &Stream, survey: &Survey) -> Value {
    json!({
        "id": id.get(),
        "bytes": buffer.bytes_of(&survey.counts, id),
        "packets": stream.packets,
        "unsynchronised": stream.bytes.unsynchronised,
        "bad": stream.bytes.bad,
        "overflows": stream.overflows,
        "first_timestamp": stream.first_time,
        "last_timestamp": stream.last_time,
    })
}
