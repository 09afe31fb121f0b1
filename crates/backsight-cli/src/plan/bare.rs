//! A bare file of trace, or standard input: what a package would say comes from the command line.

use std::path::Path;

use backsight_capture::{Capture, Protocol, settings};
use backsight_core::TraceId;

use super::{Plan, Source, packaged};
use crate::args::{CaptureArgs, parse_number};
use crate::failure::{Failure, Result};

/// Plans the one buffer. Its configuration is for every source in it, except where `ID:KEY=VALUE` says more of one.
pub fn plan(arguments: &CaptureArgs) -> Result<Plan> {
    let Some(protocol) = arguments.protocol.as_deref() else {
        return Err(Failure::usage("standard input is a bare stream: --protocol says what it holds"));
    };
    let (own, common): (Vec<_>, Vec<_>) =
        arguments.config.iter().cloned().partition(|argument| id_of(argument).is_some());
    let common = settings(&common).map_err(Failure::usage)?;
    let open = |settings: &[(String, String)]| {
        let framing = arguments.framing.as_deref().unwrap_or(default_framing(protocol));
        Capture::bare(&arguments.capture, Protocol::from_name(protocol), framing, settings)
            .map_err(Failure::usage)
    };
    let mut plan = packaged::from_capture(arguments, open(&common)?)?;
    let Some(buffer) = plan.buffers.first_mut() else {
        return Err(Failure::new(format!("{}: no buffer", arguments.capture.display())));
    };
    let fallback = buffer.sources.values().next().map(|source| source.decoding.clone());
    if !buffer.is_raw() {
        buffer.sources.clear();
        buffer.fallback = fallback;
    }
    for id in own.iter().filter_map(|argument| id_of(argument)) {
        let mut all = common.clone();
        for argument in own.iter().filter(|argument| id_of(argument) == Some(id)) {
            let setting = argument.split_once(':').map_or("", |(_, setting)| setting).to_owned();
            all.extend(settings(&[setting]).map_err(Failure::usage)?);
        }
        let one = packaged::from_capture(arguments, open(&all)?)?;
        let decoding = one.buffers.into_iter().flat_map(|buffer| buffer.sources.into_values()).next();
        if let Some(Source { decoding, .. }) = decoding {
            let key = if buffer.is_raw() { TraceId::NULL } else { id };
            buffer.sources.insert(key, Source { name: format!("ID {id}"), id, core: None, decoding });
        }
    }
    if let (true, Some(&id)) = (buffer.is_raw(), arguments.id.first()) {
        buffer.sources.values_mut().for_each(|source| source.id = TraceId::new(id as u8));
    }
    Ok(plan)
}

/// The ID of `ID:KEY=VALUE`.
fn id_of(argument: &str) -> Option<TraceId> {
    let (key, _) = argument.split_once('=')?;
    let (id, _) = key.split_once(':')?;
    parse_number(id).ok().and_then(|id| u8::try_from(id).ok()).filter(|&id| id < 0x80).map(TraceId::new)
}

/// How the bytes of a bare file are framed if nothing is said.
fn default_framing(protocol: &str) -> &'static str {
    if protocol == "etrace" { "reference" } else { "raw" }
}

/// Is this a bare file as far as the command line tells?
pub fn is_meant(arguments: &CaptureArgs) -> bool {
    arguments.protocol.is_some() || arguments.capture == Path::new("-")
}
