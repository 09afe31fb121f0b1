//! One HTML file to look at: flame graph, hottest functions with source and disassembly, branches, loops, calls over time,
//! and how good the trace was; and the difference to another profile, if one is given. Everything is in the file; nothing is loaded
//! from elsewhere.
//!
//! What is shown is bounded, whatever the size of the profile: the most expensive functions, chains of callers and
//! branches.

mod code;
mod compared;

use std::collections::HashMap;
use std::io::{self, Write};

use backsight::image::SourceFolders;
use serde_json::{Value, json};

use crate::export::Weight;
use crate::{CallNode, Module, Profile};

/// The page, with a gap for the data.
const PAGE: &str = include_str!("page.html");
const GAP: &str = "\"backsight-data\"";

/// Most functions, branches, loops, chains of callers and calls over time that are shown.
const MOST_FUNCTIONS: usize = 400;
const MOST_DETAILS: usize = 60;
const MOST_BRANCHES: usize = 200;
const MOST_LOOPS: usize = 200;
const MOST_NODES: usize = 20_000;
const MOST_SLICES: usize = 16_000;
const FEWEST_SLICES_OF_A_THREAD: usize = 100;

/// What a report says besides what was counted.
#[derive(Debug, Default)]
pub struct ReportOptions<'a> {
    /// What was run.
    pub title: String,
    /// What calls are weighed by.
    pub weight: Weight,
    /// How it was made and how good the trace was: names and values.
    pub facts: Vec<(String, String)>,
    /// What is missing or doubtful, a line each.
    pub warnings: Vec<String>,
    /// Where source may be read that debug information names: none is shown without.
    pub sources: SourceFolders,
    /// What is shown beside it.
    pub compared: Option<Compared<'a>>,
}

/// Another profile, to show what is different.
#[derive(Debug)]
pub struct Compared<'a> {
    /// What the profile of the report and the other one are called.
    pub names: [String; 2],
    /// The other one.
    pub profile: &'a Profile,
}

/// Writes a report.
///
/// # Errors
/// If it cannot be written.
pub fn write(profile: &Profile, options: &ReportOptions<'_>, out: &mut dyn Write) -> io::Result<()> {
    let data = data(profile, options).to_string();
    // Text of programs must not end the script.
    let data = data.replace('<', "\\u003c");
    let (before, after) = PAGE.split_once(GAP).unwrap_or((PAGE, ""));
    write!(out, "{before}{data}{after}")
}

fn data(profile: &Profile, options: &ReportOptions<'_>) -> Value {
    json!({
        "title": options.title,
        "unit": options.weight.name(),
        "instructions": profile.totals.instructions,
        "cycles": profile.totals.cycles,
        "counts": {
            "modules": profile.modules.len(), "functions": profile.functions.len(),
            "blocks": profile.blocks.len(), "edges": profile.edges.len(), "threads": profile.threads.len(),
        },
        "facts": options.facts,
        "warnings": options.warnings,
        "functions": functions(profile, &options.sources),
        "branches": branches(profile),
        "loops": loops(profile),
        "tree": tree(profile, options.weight),
        "threads": threads(profile),
        "compare": options.compared.as_ref().map(|other| compared::data(profile, other, options.weight)),
    })
}

fn line_of(profile: &Profile, block: u32, address: u64) -> (String, String) {
    let block = profile.blocks.get(block as usize);
    let Some(function) = block.and_then(|block| profile.function_of(block)) else {
        return Default::default();
    };
    let debug = profile.module_of(function).map(Module::debug);
    let line = debug.and_then(|debug| Some((debug, debug.line(address)?)));
    let line = line.map(|(debug, line)| format!("{}:{}", debug.file(line.file), line.line));
    (function.name.clone(), line.unwrap_or_default())
}

fn functions(profile: &Profile, sources: &SourceFolders) -> Vec<Value> {
    let mut sorted: Vec<u32> = (0..profile.functions.len() as u32).collect();
    let cost = |number: u32| profile.functions.get(number as usize).map_or(0, |one| one.instructions);
    sorted.sort_by_key(|&number| std::cmp::Reverse(cost(number)));
    let listings = code::Listings::new(profile, sources);
    let inclusive = profile.inclusive_instructions();
    sorted
        .iter()
        .take(MOST_FUNCTIONS)
        .enumerate()
        .filter_map(|(rank, &number)| {
            let function = profile.functions.get(number as usize)?;
            let module = profile.module_of(function).map_or("", Module::short_name);
            let listing = if rank < MOST_DETAILS { listings.of(number) } else { Vec::new() };
            Some(json!({
                "name": function.name, "module": module, "entries": function.entries,
                "instructions": function.instructions, "inclusive": inclusive.get(number as usize),
                "cycles": function.cycles, "code": listing,
            }))
        })
        .collect()
}

fn branches(profile: &Profile) -> Vec<Value> {
    let branches = profile.branches();
    branches
        .iter()
        .filter(|branch| branch.rarer() > 0)
        .take(MOST_BRANCHES)
        .map(|branch| {
            let (function, line) = line_of(profile, branch.block, branch.address);
            json!({
                "address": format!("{:#x}", branch.address), "function": function, "line": line,
                "taken": branch.taken, "not": branch.not_taken, "entropy": branch.entropy(),
            })
        })
        .collect()
}

fn loops(profile: &Profile) -> Vec<Value> {
    let mut loops = profile.loops();
    loops.sort_by_key(|found| std::cmp::Reverse(found.iterations));
    loops
        .iter()
        .take(MOST_LOOPS)
        .map(|found| {
            let (function, line) = line_of(profile, found.header, found.address);
            json!({
                "address": format!("{:#x}", found.address), "function": function, "line": line,
                "iterations": found.iterations, "entries": found.entries, "depth": found.depth,
            })
        })
        .collect()
}

/// The tree of calls as lists: name, parent, own cost, calls. What is too small to be seen is added to its caller.
fn tree(profile: &Profile, weight: Weight) -> Value {
    let own = |node: &CallNode| weight.of(node);
    let mut totals: Vec<u64> = profile.calls.iter().map(own).collect();
    for (number, node) in profile.calls.iter().enumerate().rev() {
        let total = totals.get(number).copied().unwrap_or(0);
        if let Some(sum) = node.parent.and_then(|parent| totals.get_mut(parent as usize)) {
            *sum += total;
        }
    }
    let mut sizes = totals.clone();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let least = sizes.get(MOST_NODES).map_or(0, |size| size + 1);
    let mut names: Vec<&str> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut place: Vec<Option<usize>> = vec![None; profile.calls.len()];
    let mut nodes: Vec<(usize, Option<usize>, u64, u64)> = Vec::new();
    let threads: HashMap<u32, &str> =
        profile.threads.iter().map(|thread| (thread.node, thread.name.as_str())).collect();
    for (number, node) in profile.calls.iter().enumerate() {
        let parent = node.parent.and_then(|parent| place.get(parent as usize).copied().flatten());
        if totals[number] < least || totals[number] == 0 {
            place[number] = parent;
            if let Some(parent) = parent.and_then(|parent| nodes.get_mut(parent)) {
                parent.2 += own(node);
            }
            continue;
        }
        let name = match node.function.and_then(|function| profile.functions.get(function as usize)) {
            Some(function) => function.name.as_str(),
            None => threads.get(&(number as u32)).copied().unwrap_or("?"),
        };
        let name = *known.entry(name).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        });
        place[number] = Some(nodes.len());
        nodes.push((name, parent, own(node), node.calls));
    }
    json!({ "names": names, "nodes": nodes })
}

/// The longest calls over time, thread by thread.
fn threads(profile: &Profile) -> Vec<Value> {
    let each = (MOST_SLICES / profile.threads.len().max(1)).max(FEWEST_SLICES_OF_A_THREAD);
    profile
        .threads
        .iter()
        .map(|thread| {
            let mut slices: Vec<_> = thread.slices.iter().collect();
            slices.sort_by_key(|slice| std::cmp::Reverse(slice.end - slice.begin));
            slices.truncate(each);
            slices.sort_by_key(|slice| (slice.begin, slice.depth));
            let name = |function: u32| profile.functions.get(function as usize).map_or("?", |one| &one.name);
            let slices: Vec<_> = slices
                .iter()
                .map(|slice| (name(slice.function), slice.depth, slice.begin, slice.end))
                .collect();
            json!({ "name": thread.name, "slices": slices })
        })
        .collect()
}
