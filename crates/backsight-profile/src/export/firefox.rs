//! The Firefox profiler's processed profile: tables of strings, functions, frames and stacks for each thread.
//!
//! A sample is a chain of callers with its cost as weight. Time stands still at 0: sums have none.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::stacks::threads_of;
use super::{ExportError, ExportOptions, Format, Need};
use crate::json::Object;
use crate::{Function, Profile, Thread};

pub(super) const FORMAT: Format = Format {
    name: "firefox",
    title: "Chains of callers for the Firefox profiler",
    readers: "profiler.firefox.com",
    needs: &[Need::Symbols],
    write,
};

fn write(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
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
    let meta = json!({
        "version": 24, "preprocessedProfileVersion": 46, "interval": 1, "startTime": 0, "processType": 0,
        "product": options.title, "stackwalk": 1, "debug": false, "gcpoison": 0, "asyncstack": 0,
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
        "categories": [{ "name": "User", "color": "yellow", "subcategories": ["Other"] }],
        "markerSchema": [], "symbolicated": true, "usesOnlyOneStackType": true,
        "doesNotUseFrameImplementation": true, "sourceCodeIsNotOnSearchfox": true,
    });
    let nodes = threads_of(profile);
    Object::write(out, |file| {
        file.value("meta", meta)?;
        file.value("libs", libraries)?;
        file.list("pages", [Value::Null; 0])?;
        file.objects("threads", profile.threads.iter().zip(0..), |(thread, number), object| {
            let is_of_thread = |node: u32| nodes.get(node as usize) == Some(&Some(number));
            let tables = Tables::new(profile, options, &is_of_thread);
            write_thread(profile, (thread, number), tables, options, object)
        })
    })?;
    Ok(writeln!(out)?)
}

/// The tables of a thread.
#[derive(Default)]
struct Tables<'p> {
    strings: Strings<'p>,
    /// Of functions, which are frames too: the name, the file, the line and the module.
    names: Vec<usize>,
    files: Vec<Option<usize>>,
    lines: Vec<Option<u32>>,
    libraries: Vec<u32>,
    /// Of chains of callers: the one without its innermost call, and that call.
    prefixes: Vec<Option<usize>>,
    frames: Vec<usize>,
    /// Of samples: the chain of callers and what it cost.
    samples: Vec<usize>,
    weights: Vec<u64>,
}

/// Texts by their numbers.
#[derive(Default)]
struct Strings<'p> {
    list: Vec<&'p str>,
    known: HashMap<&'p str, usize>,
}

impl<'p> Strings<'p> {
    fn number(&mut self, text: &'p str) -> usize {
        *self.known.entry(text).or_insert_with(|| {
            self.list.push(text);
            self.list.len() - 1
        })
    }
}

impl<'p> Tables<'p> {
    fn new(profile: &'p Profile, options: &ExportOptions, is_of_thread: &dyn Fn(u32) -> bool) -> Self {
        let mut tables = Self::default();
        let mut functions: HashMap<u32, usize> = HashMap::new();
        let mut stacks: HashMap<u32, usize> = HashMap::new();
        for (node, id) in profile.calls.iter().zip(0u32..).filter(|&(_, id)| is_of_thread(id)) {
            let described = node.function.and_then(|function| profile.functions.get(function as usize));
            let (Some(function), Some(described)) = (node.function, described) else { continue };
            let frame = *functions.entry(function).or_insert_with(|| tables.add_function(profile, described));
            tables.prefixes.push(node.parent.and_then(|parent| stacks.get(&parent)).copied());
            tables.frames.push(frame);
            stacks.insert(id, tables.frames.len() - 1);
            let cost = options.weight.of(node);
            if cost > 0 {
                tables.samples.push(tables.frames.len() - 1);
                tables.weights.push(cost);
            }
        }
        tables
    }

    fn add_function(&mut self, profile: &'p Profile, function: &'p Function) -> usize {
        let debug = profile.module_of(function).map(crate::Module::debug);
        let line = debug.and_then(|debug| Some((debug, debug.line(function.start?)?)));
        self.names.push(self.strings.number(&function.name));
        self.files.push(line.map(|(debug, line)| self.strings.number(debug.file(line.file))));
        self.lines.push(line.map(|(_, line)| line.line));
        self.libraries.push(function.module);
        self.names.len() - 1
    }
}

/// Columns of a table that say nothing.
fn nulls(length: usize) -> impl Iterator<Item = Value> {
    std::iter::repeat_n(Value::Null, length)
}

fn zeros(length: usize) -> impl Iterator<Item = u32> {
    std::iter::repeat_n(0, length)
}

fn write_thread<'p>(
    profile: &'p Profile,
    (thread, number): (&Thread, u32),
    mut tables: Tables<'p>,
    options: &ExportOptions,
    object: &mut Object<'_>,
) -> io::Result<()> {
    let resources: Vec<usize> =
        profile.modules.iter().map(|module| tables.strings.number(module.short_name())).collect();
    object.value("name", thread.full_name(true))?;
    object.value("isMainThread", number == 0)?;
    object.value("processType", "default")?;
    object.value("processName", options.title.as_str())?;
    object.value("processStartupTime", 0)?;
    object.value("processShutdownTime", Value::Null)?;
    object.value("registerTime", 0)?;
    object.value("unregisterTime", Value::Null)?;
    object.list("pausedRanges", nulls(0))?;
    object.value("pid", "1")?;
    object.value("tid", number + 1)?;
    object.object("samples", |samples| {
        samples.value("length", tables.samples.len())?;
        samples.list("stack", tables.samples.iter().copied())?;
        samples.list("time", zeros(tables.samples.len()))?;
        samples.list("weight", tables.weights.iter().copied())?;
        samples.value("weightType", "samples")
    })?;
    object.object("markers", |markers| {
        markers.value("length", 0)?;
        let columns = ["category", "data", "endTime", "name", "phase", "startTime"];
        columns.iter().try_for_each(|column| markers.list(column, nulls(0)))
    })?;
    object.object("stackTable", |stacks| {
        let length = tables.frames.len();
        stacks.value("length", length)?;
        stacks.list("prefix", tables.prefixes.iter().copied())?;
        stacks.list("frame", tables.frames.iter().copied())?;
        stacks.list("category", zeros(length))?;
        stacks.list("subcategory", zeros(length))
    })?;
    write_functions(&tables, object)?;
    object.object("resourceTable", |table| {
        table.value("length", resources.len())?;
        table.list("lib", 0..resources.len())?;
        table.list("name", resources.iter().copied())?;
        table.list("host", nulls(resources.len()))?;
        table.list("type", std::iter::repeat_n(1, resources.len()))
    })?;
    object.object("nativeSymbols", |table| {
        table.value("length", 0)?;
        let columns = ["address", "functionSize", "libIndex", "name"];
        columns.iter().try_for_each(|column| table.list(column, nulls(0)))
    })?;
    object.list("stringArray", tables.strings.list.iter().copied())
}

/// Each function is a frame.
fn write_functions(tables: &Tables<'_>, object: &mut Object<'_>) -> io::Result<()> {
    let length = tables.names.len();
    object.object("frameTable", |frames| {
        frames.value("length", length)?;
        frames.list("address", std::iter::repeat_n(-1, length))?;
        for column in ["inlineDepth", "category", "subcategory", "innerWindowID"] {
            frames.list(column, zeros(length))?;
        }
        frames.list("func", 0..length)?;
        frames.list("line", tables.lines.iter().copied())?;
        let columns = ["nativeSymbol", "implementation", "column", "optimizations"];
        columns.iter().try_for_each(|column| frames.list(column, nulls(length)))
    })?;
    object.object("funcTable", |functions| {
        functions.value("length", length)?;
        functions.list("name", tables.names.iter().copied())?;
        functions.list("isJS", std::iter::repeat_n(false, length))?;
        functions.list("relevantForJS", std::iter::repeat_n(false, length))?;
        functions.list("resource", tables.libraries.iter().copied())?;
        functions.list("fileName", tables.files.iter().copied())?;
        functions.list("lineNumber", tables.lines.iter().copied())?;
        functions.list("columnNumber", nulls(length))
    })
}
