//! The Firefox profiler's processed profile: tables of strings, functions, frames and stacks for each thread.
//!
//! A sample is a chain of callers with its cost as weight. Time stands still at 0: sums have none.

use std::collections::HashMap;
use std::io::Write;

use serde_json::{Value, json};

use super::stacks::{own, threads_of};
use super::{ExportError, ExportOptions, Format, Need};
use crate::{Profile, Thread};

pub(super) const FORMAT: Format = Format {
    name: "firefox",
    title: "Chains of callers for the Firefox profiler",
    readers: "profiler.firefox.com",
    needs: &[Need::Symbols],
    write,
};

fn write(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let nodes = threads_of(profile);
    let threads: Vec<Value> = profile
        .threads
        .iter()
        .zip(0..)
        .map(|(thread, number)| thread_tables(profile, thread, number, &nodes, options))
        .collect();
    let libraries: Vec<Value> = profile
        .modules
        .iter()
        .map(|module| {
            json!({
                "name": module.short_name(), "path": module.name(), "debugName": module.short_name(),
                "debugPath": module.name(), "breakpadId": "", "codeId": module.build_id(), "arch": "",
            })
        })
        .collect();
    let file = json!({
        "meta": {
            "version": 24, "preprocessedProfileVersion": 46, "interval": 1, "startTime": 0, "processType": 0,
            "product": options.title, "stackwalk": 1, "debug": false, "gcpoison": 0, "asyncstack": 0,
            "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
            "categories": [{ "name": "User", "color": "yellow", "subcategories": ["Other"] }],
            "markerSchema": [], "symbolicated": true, "usesOnlyOneStackType": true,
            "doesNotUseFrameImplementation": true, "sourceCodeIsNotOnSearchfox": true,
        },
        "libs": libraries,
        "pages": [],
        "threads": threads,
    });
    serde_json::to_writer(&mut *out, &file).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

fn thread_tables(
    profile: &Profile,
    thread: &Thread,
    number: u32,
    threads: &[Option<u32>],
    options: &ExportOptions,
) -> Value {
    let mut strings: Vec<String> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut string = |text: &str| {
        *known.entry(text.to_owned()).or_insert_with(|| {
            strings.push(text.to_owned());
            strings.len() - 1
        })
    };
    let mut functions: HashMap<u32, usize> = HashMap::new();
    let (mut names, mut files, mut lines, mut libraries) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut stacks: HashMap<u32, usize> = HashMap::new();
    let (mut prefixes, mut frames) = (Vec::new(), Vec::new());
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for (node, id) in profile.calls.iter().zip(0u32..) {
        let (Some(function), true) = (node.function, threads.get(id as usize) == Some(&Some(number))) else {
            continue;
        };
        let Some(described) = profile.functions.get(function as usize) else { continue };
        let frame = *functions.entry(function).or_insert_with(|| {
            let debug = profile.module_of(described).map(crate::Module::debug);
            let line = debug.and_then(|debug| Some((debug, debug.line(described.start?)?)));
            names.push(string(&described.name));
            files.push(line.map(|(debug, line)| string(debug.file(line.file))));
            lines.push(line.map(|(_, line)| line.line));
            libraries.push(described.module);
            names.len() - 1
        });
        prefixes.push(node.parent.and_then(|parent| stacks.get(&parent)).copied());
        frames.push(frame);
        stacks.insert(id, frames.len() - 1);
        let cost = own(node, options.weight);
        if cost > 0 {
            samples.push(frames.len() - 1);
            weights.push(cost);
        }
    }
    let (function_count, stack_count, sample_count) = (names.len(), frames.len(), samples.len());
    let nulls = |count: usize| vec![Value::Null; count];
    let zeros = |count: usize| vec![0; count];
    let resources: Vec<usize> = profile.modules.iter().map(|module| string(module.short_name())).collect();
    json!({
        "name": thread.full_name(true), "isMainThread": number == 0, "processType": "default",
        "processName": options.title, "processStartupTime": 0, "processShutdownTime": null, "registerTime": 0,
        "unregisterTime": null, "pausedRanges": [], "pid": "1", "tid": number + 1,
        "samples": {
            "length": sample_count, "stack": samples, "time": zeros(sample_count), "weight": weights,
            "weightType": "samples",
        },
        "markers": {
            "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": [],
        },
        "stackTable": {
            "length": stack_count, "prefix": prefixes, "frame": frames, "category": zeros(stack_count),
            "subcategory": zeros(stack_count),
        },
        "frameTable": {
            "length": function_count, "address": vec![-1; function_count], "inlineDepth": zeros(function_count),
            "category": zeros(function_count), "subcategory": zeros(function_count),
            "func": (0..function_count).collect::<Vec<_>>(), "nativeSymbol": nulls(function_count),
            "innerWindowID": zeros(function_count), "implementation": nulls(function_count), "line": lines,
            "column": nulls(function_count), "optimizations": nulls(function_count),
        },
        "funcTable": {
            "length": function_count, "name": names, "isJS": vec![false; function_count],
            "relevantForJS": vec![false; function_count], "resource": libraries, "fileName": files,
            "lineNumber": lines, "columnNumber": nulls(function_count),
        },
        "resourceTable": {
            "length": resources.len(), "lib": (0..resources.len()).collect::<Vec<_>>(), "name": resources,
            "host": nulls(resources.len()), "type": vec![1; resources.len()],
        },
        "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
        "stringArray": strings,
    })
}
