//! One HTML file to look at: flame graph, functions with callers, callees, source and disassembly, branches, loops, calls over time,
//! and how good the trace was; and the difference to another profile, if one is given. Everything is in the file; nothing is loaded
//! from elsewhere.
//!
//! What is shown is bounded, whatever the size of the profile: the most expensive functions, chains of callers and
//! branches. What was left out is said in the data, and on the page.
//!
//! The page is made of JavaScript [modules](MODULES), which other pages load one by one. A report has them joined in one script.

mod code;
mod compared;

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use backsight::image::SourceFolders;
use serde_json::{Value, json};

use crate::export::Weight;
use crate::{CallNode, Module, Profile};

/// The page, with gaps for style, data and script.
const PAGE: &str = include_str!("page/report.html");
const MAIN: &str = include_str!("page/report.js");

/// The modules that pages show profiles with: their names, and their text. Each imports only those before it, with one line
/// for each import; no two of them name anything the same at the outermost level.
pub const MODULES: &[(&str, &str)] = &[
    ("dom.js", include_str!("page/dom.js")),
    ("paint.js", include_str!("page/paint.js")),
    ("save.js", include_str!("page/save.js")),
    ("table.js", include_str!("page/table.js")),
    ("tree.js", include_str!("page/tree.js")),
    ("flame.js", include_str!("page/flame.js")),
    ("code.js", include_str!("page/code.js")),
    ("compare.js", include_str!("page/compare.js")),
    ("profile.js", include_str!("page/profile.js")),
    ("lanes.js", include_str!("page/lanes.js")),
    ("timeline.js", include_str!("page/timeline.js")),
];

/// How they look.
pub const STYLE: &str = include_str!("page/style.css");

/// How much of a profile is shown.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Functions.
    pub functions: usize,
    /// Those of them that have their code beside them.
    pub details: usize,
    /// Branches, and as many loops.
    pub branches: usize,
}

impl Limits {
    /// What a file may have.
    pub const REPORT: Self = Self { functions: 2_000, details: 100, branches: 400 };
}

/// Most chains of callers, calls over time, and characters of a name that are shown.
const MOST_NODES: usize = 20_000;
const MOST_NAME: usize = 1_000;
const MOST_SLICES: usize = 60_000;
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
    pub sources: Arc<SourceFolders>,
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
    let mut rest = PAGE;
    for (gap, text) in [("/*style*/", STYLE), ("\"backsight-data\"", &data), ("/*script*/", &script())] {
        let (before, after) = rest.split_once(gap).unwrap_or((rest, ""));
        write!(out, "{before}{text}")?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// The modules and the page's own script in one: a file that is opened from a disk may import nothing.
fn script() -> String {
    let mut script = String::new();
    for line in MODULES.iter().map(|(_, text)| *text).chain([MAIN]).flat_map(str::lines) {
        if !line.starts_with("import ") {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script
}

fn data(profile: &Profile, options: &ReportOptions<'_>) -> Value {
    let mut data = profile_data(profile, options.weight, &options.sources, Limits::REPORT);
    data["title"] = options.title.as_str().into();
    data["facts"] = json!(options.facts);
    data["warnings"] = json!(options.warnings);
    let (threads, left_out) = threads(profile);
    data["threads"] = threads;
    data["omitted"]["slices"] = (left_out + profile.totals.short_slices).into();
    data["compare"] =
        options.compared.as_ref().map(|other| compared::data(profile, other, options.weight)).into();
    data
}

/// What pages show of a profile.
pub fn profile_data(profile: &Profile, weight: Weight, sources: &SourceFolders, limits: Limits) -> Value {
    let (tree, folded) = tree(profile, weight);
    let (branches, more_branches) = branches(profile, limits.branches);
    let (loops, more_loops) = loops(profile, limits.branches);
    json!({
        "unit": weight.name(),
        "instructions": profile.totals.instructions,
        "cycles": profile.totals.cycles,
        "counts": {
            "modules": profile.modules.len(), "functions": profile.functions.len(),
            "blocks": profile.blocks.len(), "edges": profile.edges.len(), "threads": profile.threads.len(),
        },
        "functions": functions(profile, sources, limits),
        "branches": branches,
        "loops": loops,
        "tree": tree,
        "omitted": {
            "functions": profile.functions.len().saturating_sub(limits.functions),
            "code": profile.functions.len().saturating_sub(limits.details),
            "branches": more_branches, "loops": more_loops, "nodes": folded,
            "folded_calls": profile.totals.folded_calls, "unknown_path": profile.totals.unknown_path,
            "breaks": profile.totals.breaks,
        },
    })
}

/// The code of a function of a profile, by its number: its instructions with counts, and its lines where their text is known.
pub fn function_code(profile: &Profile, number: u32, sources: &SourceFolders) -> Value {
    code::Listings::new(profile, sources).page(number)
}

/// What pages show of two profiles side by side.
pub fn comparison(profile: &Profile, other: &Compared<'_>, weight: Weight) -> Value {
    compared::data(profile, other, weight)
}

/// A name for a page: hostile ones are as long as files.
fn shown(name: &str) -> String {
    match name.char_indices().nth(MOST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

fn line_of(profile: &Profile, block: u32, address: u64) -> (String, String) {
    let block = profile.blocks.get(block as usize);
    let Some(function) = block.and_then(|block| profile.function_of(block)) else {
        return Default::default();
    };
    let debug = profile.module_of(function).map(Module::debug);
    let line = debug.and_then(|debug| Some((debug, debug.line(address)?)));
    let line = line.map(|(debug, line)| format!("{}:{}", debug.file(line.file), line.line));
    (shown(&function.name), line.unwrap_or_default())
}

fn functions(profile: &Profile, sources: &SourceFolders, limits: Limits) -> Vec<Value> {
    let mut sorted: Vec<u32> = (0..profile.functions.len() as u32).collect();
    let cost = |number: u32| profile.functions.get(number as usize).map_or(0, |one| one.instructions);
    sorted.sort_by_key(|&number| std::cmp::Reverse(cost(number)));
    let listings = code::Listings::new(profile, sources);
    let inclusive = profile.inclusive_instructions();
    sorted
        .iter()
        .take(limits.functions)
        .enumerate()
        .filter_map(|(rank, &number)| {
            let function = profile.functions.get(number as usize)?;
            let module = profile.module_of(function).map_or("", Module::short_name);
            let listing = (rank < limits.details).then(|| listings.page(number));
            Some(json!({
                "number": number, "name": shown(&function.name), "module": module, "entries": function.entries,
                "instructions": function.instructions, "inclusive": inclusive.get(number as usize),
                "cycles": function.cycles, "code": listing,
            }))
        })
        .collect()
}

/// Those that are hardest to predict, and how many there are besides.
fn branches(profile: &Profile, most: usize) -> (Vec<Value>, usize) {
    let mut branches = profile.branches();
    branches.retain(|branch| branch.rarer() > 0);
    let more = branches.len().saturating_sub(most);
    let list = branches.iter().take(most).map(|branch| {
        let (function, line) = line_of(profile, branch.block, branch.address);
        json!({
            "address": format!("{:#x}", branch.address), "function": function, "line": line,
            "taken": branch.taken, "not": branch.not_taken, "entropy": branch.entropy(),
        })
    });
    (list.collect(), more)
}

/// Those that iterate most, and how many there are besides.
fn loops(profile: &Profile, most: usize) -> (Vec<Value>, usize) {
    let mut loops = profile.loops();
    loops.sort_by_key(|found| std::cmp::Reverse(found.iterations));
    let more = loops.len().saturating_sub(most);
    let list = loops.iter().take(most).map(|found| {
        let (function, line) = line_of(profile, found.header, found.address);
        json!({
            "address": format!("{:#x}", found.address), "function": function, "line": line,
            "iterations": found.iterations, "entries": found.entries, "depth": found.depth,
        })
    });
    (list.collect(), more)
}

/// The tree of calls as lists: name, parent, own cost, calls. What is too small to be seen is added to its caller: so many
/// chains are.
fn tree(profile: &Profile, weight: Weight) -> (Value, usize) {
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
    let mut names: Vec<String> = Vec::new();
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
            names.push(shown(name));
            names.len() - 1
        });
        place[number] = Some(nodes.len());
        nodes.push((name, parent, own(node), node.calls));
    }
    let folded = profile.calls.len() - nodes.len();
    (json!({ "names": names, "nodes": nodes }), folded)
}

/// The longest calls over time, thread by thread, and how many were left out.
fn threads(profile: &Profile) -> (Value, u64) {
    let each = (MOST_SLICES / profile.threads.len().max(1)).max(FEWEST_SLICES_OF_A_THREAD);
    let mut names: Vec<String> = Vec::new();
    let mut numbers: HashMap<u32, usize> = HashMap::new();
    let mut left_out = 0;
    let threads: Vec<Value> = profile
        .threads
        .iter()
        .map(|thread| {
            let mut slices: Vec<_> = thread.slices.iter().collect();
            left_out += slices.len().saturating_sub(each) as u64;
            slices.sort_by_key(|slice| std::cmp::Reverse(slice.end - slice.begin));
            slices.truncate(each);
            slices.sort_by_key(|slice| (slice.begin, slice.depth));
            let mut name = |function: u32| {
                *numbers.entry(function).or_insert_with(|| {
                    let name = profile.functions.get(function as usize).map_or("?", |one| &one.name);
                    names.push(shown(name));
                    names.len() - 1
                })
            };
            let slices: Vec<_> = slices
                .iter()
                .map(|slice| (name(slice.function), slice.depth, slice.begin, slice.end))
                .collect();
            json!({ "name": shown(&thread.name), "slices": slices })
        })
        .collect();
    (json!({ "names": names, "list": threads }), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line names first at the outermost level.
    fn named(line: &str) -> Option<&str> {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let line = line.strip_prefix("async ").unwrap_or(line);
        let words = ["function* ", "function ", "class ", "const ", "let "];
        let rest = words.iter().find_map(|word| line.strip_prefix(word))?;
        rest.split(|c: char| !c.is_alphanumeric()).next().filter(|name| !name.is_empty())
    }

    #[test]
    fn modules_can_be_one_script() {
        let mut known: Vec<&str> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        for (module, text) in MODULES.iter().chain(&[("report.js", MAIN)]) {
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("import ") {
                    let from = rest.rsplit_once(" from \"./").map(|(_, from)| from.trim_end_matches("\";"));
                    assert!(from.is_some_and(|from| known.contains(&from)), "{module}: {line}");
                }
                assert!(!line.contains("</script"), "{module}");
                if let Some(name) = named(line) {
                    assert!(!names.contains(&name), "{module} names {name} again");
                    names.push(name);
                }
            }
            known.push(module);
        }
        assert!(names.len() > 40, "{names:?}");
        assert!(!script().contains("\nimport ") && !script().contains("\nexport "));
    }
}
