//! Speedscope: the tree of calls, and calls over time where they were kept.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::chrome::{Phase, events_of};
use super::stacks::{functions_of, threads_of};
use super::{ExportError, ExportOptions, Format, Need};
use crate::json::Object;
use crate::{Function, Profile, Thread};

pub(super) const FORMAT: Format = Format {
    name: "speedscope",
    title: "Calls over time and sums of calls",
    readers: "speedscope.app",
    needs: &[Need::Symbols, Need::Timeline],
    write,
};

fn write(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    Object::write(out, |file| {
        file.value("$schema", "https://www.speedscope.app/file-format-schema.json")?;
        file.value("exporter", concat!("backsight ", env!("CARGO_PKG_VERSION")))?;
        file.value("name", options.title.as_str())?;
        file.value("activeProfileIndex", 0)?;
        let frames = profile.functions.iter().map(|function| frame(profile, function));
        file.object("shared", |shared| shared.list("frames", frames))?;
        // Each thread has its calls over time, if there are any, and their sums.
        let parts = profile.threads.iter().zip(0..).flat_map(|(thread, number)| {
            let over_time = (!thread.slices.is_empty()).then_some(Part::OverTime(thread));
            over_time.into_iter().chain([Part::Sums(thread, number)])
        });
        let threads = threads_of(profile);
        file.objects("profiles", parts, |part, object| match part {
            Part::OverTime(thread) => evented(thread, object),
            Part::Sums(thread, number) => {
                let is_of_thread = |node: u32| threads.get(node as usize) == Some(&Some(number));
                sampled(profile, &thread.full_name(true), options, &is_of_thread, object)
            }
        })
    })?;
    Ok(writeln!(out)?)
}

/// A thread, and which of its profiles.
enum Part<'p> {
    OverTime(&'p Thread),
    Sums(&'p Thread, u32),
}

fn frame(profile: &Profile, function: &Function) -> Value {
    let line = profile.module_of(function).and_then(|module| {
        let debug = module.debug();
        debug.line(function.start?).map(|line| (debug.file(line.file), line.line))
    });
    match line {
        Some((file, line)) => json!({ "name": function.name, "file": file, "line": line }),
        None => json!({ "name": function.name }),
    }
}

fn evented(thread: &Thread, object: &mut Object<'_>) -> io::Result<()> {
    object.value("type", "evented")?;
    object.value("name", format!("{}: calls over time, in instructions", thread.full_name(true)))?;
    object.value("unit", "none")?;
    object.value("startValue", thread.slices.first().map_or(0, |slice| slice.begin))?;
    object.value("endValue", thread.slices.iter().map(|slice| slice.end).max().unwrap_or(0))?;
    let events = events_of(&thread.slices).map(|event| {
        let kind = if event.phase == Phase::Begin { "O" } else { "C" };
        json!({ "type": kind, "frame": event.function, "at": event.at })
    });
    object.list("events", events)
}

fn sampled(
    profile: &Profile,
    name: &str,
    options: &ExportOptions,
    is_of_thread: &dyn Fn(u32) -> bool,
    object: &mut Object<'_>,
) -> io::Result<()> {
    let nodes = || {
        let costs = profile.calls.iter().map(|node| options.weight.of(node));
        costs.zip(0..).filter(|&(cost, node)| cost > 0 && is_of_thread(node))
    };
    object.value("type", "sampled")?;
    object.value("name", format!("{name}: {}", options.weight.name()))?;
    object.value("unit", "none")?;
    object.value("startValue", 0)?;
    object.value("endValue", nodes().map(|(cost, _)| cost).sum::<u64>())?;
    let stacks = nodes().map(|(_, node)| {
        let mut functions = functions_of(profile, node);
        functions.reverse();
        functions
    });
    object.list("samples", stacks)?;
    object.list("weights", nodes().map(|(cost, _)| cost))
}
