//! A capture that brings its metadata along: a snapshot or a trace package.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::sync::Arc;

use backsight_arm::frame::Framing;
use backsight_capture::seam::{Confidence, Etm4Prober, Prober, find_seam};
use backsight_capture::{self as capture, Capture, Protocol, SourceConfig};
use backsight_core::TraceId;

use super::{Buffer, Decoding, Plan, Source, config};
use crate::args::CaptureArgs;
use crate::failure::{Failure, Result};

/// Opens the capture and plans the buffers that the user wants.
pub fn plan(arguments: &CaptureArgs) -> Result<Plan> {
    let capture = Capture::open(&arguments.capture).map_err(Failure::new)?;
    if !arguments.config.is_empty() {
        return Err(Failure::usage(
            "--config is for bare files: this capture brings its configuration along",
        ));
    }
    from_capture(arguments, capture)
}

/// Plans the buffers that the user wants.
pub fn from_capture(arguments: &CaptureArgs, mut capture: Capture) -> Result<Plan> {
    for name in &arguments.buffer {
        if !capture.buffers.iter().any(|buffer| buffer.name == *name) {
            let names: Vec<_> = capture.buffers.iter().map(|buffer| buffer.name.as_str()).collect();
            return Err(Failure::usage(format!("--buffer {name}: the capture has {}", names.join(", "))));
        }
    }
    let (mut buffers, mut notes) = (Vec::new(), Vec::new());
    for (index, buffer) in capture.buffers.iter().enumerate() {
        if arguments.buffer.is_empty() || arguments.buffer.contains(&buffer.name) {
            buffers.push(plan_buffer(arguments, &capture, index, buffer, &mut notes)?);
        }
    }
    capture.warnings.extend(notes);
    Ok(Plan { buffers, capture })
}

fn plan_buffer(
    arguments: &CaptureArgs,
    capture: &Capture,
    index: usize,
    buffer: &capture::Buffer,
    notes: &mut Vec<String>,
) -> Result<Buffer> {
    let framing = match arguments.framing.as_deref() {
        Some(name) if capture.format != capture::Format::Bare => Framing::from_name(name)
            .ok_or_else(|| Failure::usage(format!("--framing {name}: not a framing of CoreSight")))?,
        _ => buffer.framing,
    };
    let mut sources = BTreeMap::new();
    for source in capture.sources_of(index) {
        let key = if framing == Framing::Raw { TraceId::NULL } else { source.id.unwrap_or_default() };
        let planned = Source {
            name: source.name.clone(),
            id: source.id.unwrap_or_default(),
            core: source.core.and_then(|core| capture.cores.get(core)).map(|core| core.name.clone()),
            decoding: decoding(source, buffer)?,
        };
        sources.entry(key).or_insert(planned);
    }
    let data = buffer.clone();
    let planned = Buffer {
        name: buffer.name.clone(),
        framing,
        sources,
        fallback: None,
        size: buffer.length(),
        open: Box::new(move || data.open().map_err(Failure::new)),
    };
    if (buffer.wrapped || arguments.wrapped) && framing == Framing::Coresight {
        return unwrap_buffer(planned, notes);
    }
    Ok(planned)
}

/// Bytes of a frame.
const FRAME: usize = 16;

/// Longest wrapped buffer: it has to be held in memory.
const LONGEST_WRAPPED: u64 = 1 << 32;

/// Finds where the trace of a wrapped buffer begins, and reads it from there.
fn unwrap_buffer(buffer: Buffer, notes: &mut Vec<String>) -> Result<Buffer> {
    let mut contents = Vec::new();
    let reader = (buffer.open)()?;
    let count = reader.take(LONGEST_WRAPPED + 1).read_to_end(&mut contents);
    count.map_err(|error| Failure::new(format!("{}: {error}", buffer.name)))?;
    if contents.len() as u64 > LONGEST_WRAPPED {
        return Err(Failure::new(format!("{}: too long to find the start of a wrapped buffer", buffer.name)));
    }
    let seam = find_seam(&contents, |id| match buffer.source(id)?.decoding {
        Decoding::Etm4(config) => Some(Box::new(Etm4Prober::new(&config)) as Box<dyn Prober>),
        _ => None,
    });
    notes.push(format!(
        "buffer {}: the trace seems to begin at frame {} of {} ({}): {}",
        buffer.name,
        seam.frame,
        contents.len() / FRAME,
        confidence_words(seam.confidence),
        seam.reasons.join("; ")
    ));
    let start = (seam.frame * FRAME).min(contents.len());
    contents.rotate_left(start);
    contents.truncate(seam.frames * FRAME);
    let contents: Arc<[u8]> = contents.into();
    Ok(Buffer {
        size: Some(contents.len() as u64),
        open: Box::new(move || Ok(Box::new(Cursor::new(Arc::clone(&contents))))),
        ..buffer
    })
}

fn confidence_words(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::None => "nothing points anywhere",
        Confidence::Guess => "a guess",
        Confidence::Likely => "likely",
        Confidence::High => "sure",
    }
}

/// How a source of a capture is understood. RISC-V sources keep their parameters as options.
fn decoding(source: &capture::Source, buffer: &capture::Buffer) -> Result<Decoding> {
    match (&source.config, source.protocol) {
        (SourceConfig::Etm4(config), Protocol::Etm4 | Protocol::Ete) => Ok(Decoding::Etm4(config.clone())),
        (_, Protocol::Etrace) => config::etrace(&buffer.format, &source.options),
        (_, Protocol::Ntrace) => config::ntrace(&source.options),
        (_, protocol) => Ok(Decoding::NotDecoded(format!("{} ({protocol})", source.format))),
    }
}
