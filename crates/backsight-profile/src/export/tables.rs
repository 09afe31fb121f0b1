//! Tables: CSV of functions, blocks, edges and branches, and all of them as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::names::csv as field;
use super::{ExportError, ExportOptions, Format, Need};
use crate::json::Object;
use crate::{Block, EventProfile, EventShare, Function, Profile};

pub(super) const FUNCTIONS: Format = Format {
    name: "functions",
    title: "Table of functions, CSV",
    readers: "spreadsheets, scripts",
    needs: &[Need::Symbols],
    write: functions,
};

pub(super) const BLOCKS: Format = Format {
    name: "blocks",
    title: "Table of blocks, CSV",
    readers: "spreadsheets, scripts",
    needs: &[],
    write: blocks,
};

pub(super) const EDGES: Format = Format {
    name: "edges",
    title: "Table of edges between blocks, CSV",
    readers: "spreadsheets, scripts",
    needs: &[],
    write: edges,
};

pub(super) const BRANCHES: Format = Format {
    name: "branches",
    title: "Table of conditional branches, CSV",
    readers: "spreadsheets, scripts",
    needs: &[],
    write: branches,
};

pub(super) const JSON: Format =
    Format { name: "json", title: "All tables, JSON", readers: "scripts", needs: &[], write: all };

/// Function, file and line of an address.
pub(super) fn place(profile: &Profile, block: &Block, address: u64) -> (String, String, u32) {
    let Some(function) = profile.function_of(block) else { return Default::default() };
    let debug = profile.module_of(function).map(crate::Module::debug);
    let line = debug.and_then(|debug| debug.line(address).map(|line| (debug.file(line.file), line.line)));
    let (file, line) = line.unwrap_or(("", 0));
    (function.name.clone(), file.to_owned(), line)
}

/// Titles of the columns of events.
fn event_titles(profile: &Profile) -> String {
    let titles = profile.events.iter().flat_map(|events| {
        let name = &events.choice.name;
        [name.clone(), format!("{name} certain"), format!("{name} possible")]
    });
    titles.map(|title| format!(",{}", field(&title))).collect()
}

type SharesByNumber<'a> = std::collections::HashMap<u32, &'a EventShare>;

fn by_number(shares: &[EventShare]) -> SharesByNumber<'_> {
    shares.iter().map(|share| (share.of, share)).collect()
}

/// The columns of events of one block or function.
fn event_fields(events: &[SharesByNumber<'_>], number: u32) -> String {
    let fields = events.iter().map(|shares| match shares.get(&number) {
        Some(share) => format!(",{:.2},{},{}", share.expected, share.certain, share.possible),
        None => ",0,0,0".to_owned(),
    });
    fields.collect()
}

fn functions(profile: &Profile, _options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    writeln!(
        out,
        "module,address,size,function,entries,instructions,cycles,certain_cycles,inclusive_instructions,inclusive_cycles{}",
        event_titles(profile)
    )?;
    let inclusive = (profile.inclusive_instructions(), profile.inclusive_cycles());
    let mut sorted: Vec<_> = profile.functions.iter().zip(0..).collect();
    sorted.sort_by_key(|(function, _)| std::cmp::Reverse(function.instructions));
    let events: Vec<_> = profile.events.iter().map(|events| by_number(&events.functions)).collect();
    for (function, number) in sorted {
        let module = profile.module_of(function).map_or("", crate::Module::name);
        let start = function.start.map(|start| format!("{start:#x}")).unwrap_or_default();
        writeln!(
            out,
            "{},{start},{},{},{},{},{},{},{},{}{}",
            field(module),
            function.size,
            field(&function.name),
            function.entries,
            function.instructions,
            function.cycles,
            function.certain_cycles,
            inclusive.0[number as usize],
            inclusive.1[number as usize],
            event_fields(&events, number)
        )?;
    }
    Ok(())
}

fn blocks(profile: &Profile, _options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let titles = event_titles(profile);
    writeln!(out, "start,end,instructions,count,cycles,certain_cycles,function,file,line{titles}")?;
    let mut sorted: Vec<_> = profile.blocks.iter().zip(0..).collect();
    sorted.sort_by_key(|(block, _)| (block.start, block.end));
    let events: Vec<_> = profile.events.iter().map(|events| by_number(&events.blocks)).collect();
    for (block, number) in sorted {
        let (function, file, line) = place(profile, block, block.start);
        let Block { start, end, instructions, count, cycles, certain_cycles, .. } = block;
        writeln!(
            out,
            "{start:#x},{end:#x},{instructions},{count},{cycles},{certain_cycles},{},{},{line}{}",
            field(&function),
            field(&file),
            event_fields(&events, number)
        )?;
    }
    Ok(())
}

fn edges(profile: &Profile, _options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    writeln!(out, "from,to,kind,count,from_function,to_function")?;
    for edge in &profile.edges {
        let (Some(from), Some(to)) =
            (profile.blocks.get(edge.from as usize), profile.blocks.get(edge.to as usize))
        else {
            continue;
        };
        let name = |block| profile.function_of(block).map_or("", |function| &function.name);
        writeln!(
            out,
            "{:#x},{:#x},{},{},{},{}",
            from.last(),
            to.start,
            edge.kind.name(),
            edge.count,
            field(name(from)),
            field(name(to))
        )?;
    }
    Ok(())
}

fn branches(profile: &Profile, _options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    writeln!(out, "address,taken,not_taken,frequency,entropy,function,file,line")?;
    for branch in profile.branches() {
        let Some(block) = profile.blocks.get(branch.block as usize) else { continue };
        let (function, file, line) = place(profile, block, branch.address);
        writeln!(
            out,
            "{:#x},{},{},{:.6},{:.6},{},{},{line}",
            branch.address,
            branch.taken,
            branch.not_taken,
            branch.frequency(),
            branch.entropy(),
            field(&function),
            field(&file)
        )?;
    }
    Ok(())
}

fn all(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    Object::write(out, |file| {
        file.value("title", options.title.as_str())?;
        let totals = &profile.totals;
        file.object("totals", |object| {
            object.value("instructions", totals.instructions)?;
            object.value("cycles", totals.cycles)?;
            object.value("unknown_path", totals.unknown_path)?;
            object.value("breaks", totals.breaks)
        })?;
        let modules = profile.modules.iter();
        file.list(
            "modules",
            modules.map(|module| json!({ "name": module.name(), "build_id": module.build_id() })),
        )?;
        file.list("functions", profile.functions.iter().map(function_json))?;
        file.list("blocks", profile.blocks.iter().map(block_json))?;
        let edges = profile.edges.iter().map(
            |edge| json!({ "from": edge.from, "to": edge.to, "kind": edge.kind.name(), "count": edge.count }),
        );
        file.list("edges", edges)?;
        let calls = profile.calls.iter().map(|node| {
            json!({
                "function": node.function, "parent": node.parent, "calls": node.calls,
                "instructions": node.instructions, "cycles": node.cycles,
            })
        });
        file.list("calls", calls)?;
        let exceptions = profile.exceptions.iter();
        file.list(
            "exceptions",
            exceptions.map(|(cause, count)| json!({ "cause": cause.to_string(), "count": count })),
        )?;
        file.objects("events", &profile.events, event_json)
    })?;
    Ok(writeln!(out)?)
}

fn function_json(function: &Function) -> Value {
    json!({
        "module": function.module, "name": function.name, "mangled": function.mangled,
        "start": function.start, "size": function.size, "entries": function.entries,
        "instructions": function.instructions, "cycles": function.cycles,
        "certain_cycles": function.certain_cycles,
    })
}

fn block_json(block: &Block) -> Value {
    json!({
        "function": block.function, "start": block.start, "end": block.end, "isa": block.isa.name(),
        "instructions": block.instructions, "count": block.count, "cycles": block.cycles,
        "certain_cycles": block.certain_cycles,
    })
}

fn event_json(events: &EventProfile, object: &mut Object<'_>) -> io::Result<()> {
    let share = |one: &EventShare| json!({ "of": one.of, "expected": one.expected, "certain": one.certain, "possible": one.possible });
    object.value("number", events.choice.number)?;
    object.value("name", events.choice.name.as_str())?;
    object.value("total", events.total)?;
    object.value("unattributed", events.unattributed)?;
    object.value("mean_window", events.mean_window())?;
    object.list("blocks", events.blocks.iter().map(share))?;
    object.list("functions", events.functions.iter().map(share))
}
