//! Speedscope: the tree of calls, and calls over time where they were kept.

use std::io::Write;

use serde_json::{Value, json};

use super::chrome::{Phase, events_of};
use super::stacks::{functions_of, own, threads_of};
use super::{ExportError, ExportOptions, Format, Need, json_text};
use crate::Profile;

pub(super) const FORMAT: Format = Format {
    name: "speedscope",
    title: "Calls over time and sums of calls",
    readers: "speedscope.app",
    needs: &[Need::Symbols, Need::Timeline],
    write,
};

fn write(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let frames: Vec<Value> = profile
        .functions
        .iter()
        .map(|function| {
            let module = profile.module_of(function);
            let line = module.and_then(|module| {
                let debug = module.debug();
                debug.line(function.start?).map(|line| (debug.file(line.file), line.line))
            });
            match line {
                Some((file, line)) => json!({ "name": function.name, "file": file, "line": line }),
                None => json!({ "name": function.name }),
            }
        })
        .collect();
    let mut profiles = Vec::new();
    for (thread, number) in profile.threads.iter().zip(0..) {
        let name = thread.full_name(true);
        if !thread.slices.is_empty() {
            profiles.push(evented(thread, &name));
        }
        profiles.push(sampled(profile, number, &name, options));
    }
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("backsight ", env!("CARGO_PKG_VERSION")),
        "name": json_text(&options.title),
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": profiles,
    });
    serde_json::to_writer(&mut *out, &file).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

fn evented(thread: &crate::Thread, name: &str) -> Value {
    let mut last = 0;
    let events: Vec<Value> = events_of(&thread.slices)
        .map(|event| {
            last = last.max(event.at);
            let kind = if event.phase == Phase::Begin { "O" } else { "C" };
            json!({ "type": kind, "frame": event.function, "at": event.at })
        })
        .collect();
    let start = thread.slices.first().map_or(0, |slice| slice.begin);
    json!({
        "type": "evented",
        "name": format!("{name}: calls over time, in instructions"),
        "unit": "none",
        "startValue": start,
        "endValue": last,
        "events": events,
    })
}

fn sampled(profile: &Profile, thread: u32, name: &str, options: &ExportOptions) -> Value {
    let threads = threads_of(profile);
    let (mut samples, mut weights, mut sum) = (Vec::new(), Vec::new(), 0);
    for (node, number) in profile.calls.iter().zip(0..) {
        let cost = own(node, options.weight);
        if cost > 0 && threads.get(number as usize).copied().flatten() == Some(thread) {
            let mut functions = functions_of(profile, number);
            functions.reverse();
            samples.push(functions);
            weights.push(cost);
            sum += cost;
        }
    }
    json!({
        "type": "sampled",
        "name": format!("{name}: {}", options.weight.name()),
        "unit": "none",
        "startValue": 0,
        "endValue": sum,
        "samples": samples,
        "weights": weights,
    })
}
