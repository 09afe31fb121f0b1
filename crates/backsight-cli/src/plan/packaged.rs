//! A capture that brings its metadata along: a snapshot or a trace package.

use std::collections::{BTreeMap, BTreeSet};

use backsight_arm::frame::Framing;
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
    let mut plan = from_capture(arguments, capture)?;
    check_ids(arguments, &plan)?;
    plan.buffers.retain(|buffer| {
        !buffer.is_raw() || buffer.sources.values().any(|source| arguments.wants(source.id.get()))
    });
    Ok(plan)
}

/// Refuses IDs that none of the wanted buffers is said to hold.
fn check_ids(arguments: &CaptureArgs, plan: &Plan) -> Result {
    let sources = plan.buffers.iter().flat_map(|buffer| buffer.sources.values());
    let known: BTreeSet<TraceId> = sources.map(|source| source.id).collect();
    let is_known = |id: u64| known.iter().any(|known| u64::from(known.get()) == id);
    match arguments.id.iter().find(|&&id| !is_known(id)) {
        Some(id) => {
            let names: Vec<_> = known.iter().map(TraceId::to_string).collect();
            Err(Failure::usage(format!("--id {id:#x}: the sources have {}", names.join(", "))))
        }
        None => Ok(()),
    }
}

/// Plans the buffers that the user wants.
pub fn from_capture(arguments: &CaptureArgs, capture: Capture) -> Result<Plan> {
    for name in &arguments.buffer {
        if !capture.buffers.iter().any(|buffer| buffer.name == *name) {
            let names: Vec<_> = capture.buffers.iter().map(|buffer| buffer.name.as_str()).collect();
            return Err(Failure::usage(format!("--buffer {name}: the capture has {}", names.join(", "))));
        }
    }
    let mut buffers = Vec::new();
    for (index, buffer) in capture.buffers.iter().enumerate() {
        if arguments.buffer.is_empty() || arguments.buffer.contains(&buffer.name) {
            buffers.push(plan_buffer(arguments, &capture, index, buffer)?);
        }
    }
    Ok(Plan { buffers, capture })
}

fn plan_buffer(
    arguments: &CaptureArgs,
    capture: &Capture,
    index: usize,
    buffer: &capture::Buffer,
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
    Ok(Buffer {
        name: buffer.name.clone(),
        framing,
        sources,
        fallback: None,
        wrapped: buffer.wrapped || arguments.wrapped,
        size: buffer.length(),
        open: Box::new(move || data.open().map_err(Failure::new)),
    })
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
