//! The profile as tables to read.

use std::cmp::Reverse;
use std::io::{Result, Write};

use backsight::listing::Printable;
use backsight_profile::{EventProfile, EventShare, Function, Module, Profile};
use clap::ValueEnum;

use crate::output::counted;

/// What functions are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// Instructions executed in the function itself
    #[default]
    #[value(name = "self")]
    Own,
    /// Instructions with all that the function called
    Inclusive,
    /// How often it was called
    Calls,
    /// Cycles spent in the function itself, where the trace counts them
    Cycles,
    /// Its name
    Name,
}

/// How tables are written.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// Rows of each table.
    pub top: usize,
    /// What functions are sorted by.
    pub sort: SortKey,
}

/// Writes all tables.
pub fn write(profile: &Profile, options: TableOptions, out: &mut dyn Write) -> Result<()> {
    let TableOptions { top, sort } = options;
    summary(profile, out)?;
    let is_sampled = profile.totals.samples > 0;
    if !is_sampled || profile.functions.iter().any(|function| function.start.is_some()) {
        functions(profile, top, sort, out)?;
    }
    if is_sampled {
        return addresses(profile, top, out);
    }
    branches(profile, top, out)?;
    loops(profile, top, out)?;
    profile.events.iter().try_for_each(|events| unit_events(profile, events, top, out))?;
    paths(profile, top, out)?;
    exceptions(profile, out)
}

fn is_executed(function: &&Function) -> bool {
    function.instructions > 0 || function.entries > 0
}

/// The names of the threads that executed something that counts.
fn threads(profile: &Profile) -> Vec<&str> {
    let mut thread_of: Vec<Option<usize>> = vec![None; profile.calls.len()];
    for (number, thread) in profile.threads.iter().enumerate() {
        thread_of.get_mut(thread.node as usize).into_iter().for_each(|of| *of = Some(number));
    }
    let mut has_run = vec![false; profile.threads.len()];
    // Callees come after their callers.
    for (number, node) in profile.calls.iter().enumerate() {
        let around = node.parent.and_then(|parent| thread_of.get(parent as usize).copied().flatten());
        thread_of[number] = thread_of[number].or(around);
        thread_of[number].filter(|_| node.instructions > 0).into_iter().for_each(|of| has_run[of] = true);
    }
    let threads = profile.threads.iter().zip(has_run);
    let mut names: Vec<_> = Vec::new();
    for (thread, _) in threads.filter(|(_, has_run)| *has_run) {
        // Several buffers of one core are several by the same name.
        if names.last() != Some(&thread.name.as_str()) {
            names.push(thread.name.as_str());
        }
    }
    names
}

fn summary(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    let totals = &profile.totals;
    writeln!(
        out,
        "{} in {} of {}, {}",
        counted(totals.instructions, "instruction"),
        counted(profile.blocks.iter().filter(|block| block.count > 0).count() as u64, "block"),
        counted(profile.functions.iter().filter(is_executed).count() as u64, "function"),
        counted(profile.edges.iter().filter(|edge| edge.count > 0).count() as u64, "edge"),
    )?;
    let threads = threads(profile);
    if threads.len() > 1 {
        /// Names that fit into a line.
        const SHOWN: usize = 12;
        let shown = threads.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
        let more = if threads.len() > SHOWN { ", …" } else { "" };
        writeln!(out, "{}: {}{more}", counted(threads.len() as u64, "thread"), Printable(&shown))?;
    }
    if totals.windows > 0 {
        let instructions = totals.instructions as f64 / totals.windows as f64;
        let windows = counted(totals.windows, "window");
        writeln!(out, "in {windows}, {instructions:.1} instructions each: counts are samples")?;
    }
    if totals.samples > 0 {
        writeln!(
            out,
            "{} of the program counter ({} more asleep): an instruction is a sample, edges are not known",
            counted(totals.samples, "sample"),
            totals.sleeping_samples
        )?;
    }
    Ok(())
}

/// A part in a hundred.
fn percent(part: u64, total: u64) -> f64 {
    100.0 * part as f64 / total.max(1) as f64
}

fn functions(profile: &Profile, top: usize, sort: SortKey, out: &mut dyn Write) -> Result<()> {
    let inclusive = profile.inclusive_instructions();
    let total = profile.totals.instructions;
    let mut rows: Vec<(&Function, u64)> = profile.functions.iter().zip(inclusive).collect();
    rows.retain(|(function, inclusive)| is_executed(function) || *inclusive > 0);
    match sort {
        SortKey::Own => rows.sort_by_key(|(function, _)| Reverse(function.instructions)),
        SortKey::Inclusive => rows.sort_by_key(|&(_, inclusive)| Reverse(inclusive)),
        SortKey::Calls => rows.sort_by_key(|(function, _)| Reverse(function.entries)),
        SortKey::Cycles => rows.sort_by_key(|(function, _)| Reverse(function.cycles)),
        SortKey::Name => rows.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name)),
    }
    let cycles = if profile.has_cycles() { "       cycles  sure cycles" } else { "" };
    writeln!(out, "\nInstructions in each function (self), and with all that it called (inclusive)")?;
    writeln!(out, "self %          self  incl. %     inclusive        calls{cycles}  function")?;
    for (function, inclusive) in rows.iter().take(top) {
        let own = function.instructions;
        let shares = (percent(own, total), percent(*inclusive, total));
        write!(out, "{:6.2} {own:13}  {:7.2} {inclusive:13} {:12}", shares.0, shares.1, function.entries)?;
        if profile.has_cycles() {
            write!(out, " {:12} {:12}", function.cycles, function.certain_cycles)?;
        }
        let module = profile.module_of(function).map_or("", Module::short_name);
        writeln!(out, "  {} ({})", Printable(&function.name), Printable(module))?;
    }
    Ok(())
}

/// Where the program counter was sampled: without code, that is all that is known.
fn addresses(profile: &Profile, top: usize, out: &mut dyn Write) -> Result<()> {
    let mut blocks: Vec<_> = profile.blocks.iter().zip(0..).filter(|(block, _)| block.count > 0).collect();
    blocks.sort_by_key(|(block, _)| (Reverse(block.count), block.start));
    writeln!(out, "\nAddresses that were sampled most often")?;
    writeln!(out, "     %       samples  address")?;
    for (block, number) in blocks.into_iter().take(top) {
        let share = percent(block.count, profile.totals.samples);
        let is_named = profile.function_of(block).is_some_and(|function| function.start.is_some());
        let place = if is_named { place(profile, number, block.start) } else { String::new() };
        writeln!(out, "{share:6.2} {:13}  {:#x}{}", block.count, block.start, Printable(&place))?;
    }
    Ok(())
}

fn branches(profile: &Profile, top: usize, out: &mut dyn Write) -> Result<()> {
    let branches = profile.branches();
    writeln!(out, "\nConditional branches that are hardest to predict: both outcomes are frequent")?;
    writeln!(out, "     executed         taken     not taken  taken %  branch")?;
    for branch in branches.iter().filter(|branch| branch.rarer() > 0).take(top) {
        let (executed, taken, not_taken) = (branch.executed(), branch.taken, branch.not_taken);
        let place = place(profile, branch.block, branch.address);
        write!(out, "{executed:13} {taken:13} {not_taken:13} {:7.1}%", 100.0 * branch.frequency())?;
        writeln!(out, "  {:#x}{}", branch.address, Printable(&place))?;
    }
    Ok(())
}

fn loops(profile: &Profile, top: usize, out: &mut dyn Write) -> Result<()> {
    let mut loops = profile.loops();
    loops.sort_by_key(|found| Reverse(found.iterations));
    writeln!(out, "\nLoops with most iterations")?;
    writeln!(out, "   iterations       entered  iterations per entry  loop")?;
    for found in loops.iter().take(top) {
        let (iterations, entries) = (found.iterations, found.entries);
        let place = place(profile, found.header, found.address);
        write!(out, "{iterations:13} {entries:13} {:21.1}", found.iterations_per_entry())?;
        writeln!(out, "  {:#x}{}", found.address, Printable(&place))?;
    }
    Ok(())
}

fn unit_events(profile: &Profile, events: &EventProfile, top: usize, out: &mut dyn Write) -> Result<()> {
    let EventProfile { choice, total, unattributed, .. } = events;
    write!(out, "\nEvent {}, {}: ", choice.number, Printable(&choice.name))?;
    if *total == 0 {
        return writeln!(out, "not in the trace");
    }
    let sorted = |shares: &[EventShare]| {
        let mut shares = shares.to_vec();
        shares.sort_by(|one, other| other.expected.total_cmp(&one.expected).then(one.of.cmp(&other.of)));
        shares.truncate(top);
        shares
    };
    let uncertain = |shares: &[EventShare]| 100.0 * EventProfile::uncertainty(shares, events.attributed());
    writeln!(
        out,
        "{}, {unattributed} not attributed; on average {:.2} blocks can have caused one; uncertain: {:.1} % by function, \
         {:.1} % by block",
        counted(*total, "time"),
        events.mean_window(),
        uncertain(&events.functions),
        uncertain(&events.blocks),
    )?;
    writeln!(out, "   expected    certain   possible  function")?;
    for EventShare { of, expected, certain, possible } in sorted(&events.functions) {
        let name = profile.functions.get(of as usize).map_or("?", |function| &function.name);
        writeln!(out, "{expected:11.1} {certain:10} {possible:10}  {}", Printable(name))?;
    }
    writeln!(out, "   expected    certain   possible  block")?;
    for EventShare { of, expected, certain, possible } in sorted(&events.blocks) {
        let Some(block) = profile.blocks.get(of as usize) else { continue };
        let place = place(profile, of, block.start);
        write!(out, "{expected:11.1} {certain:10} {possible:10}  {:#x}..{:#x}", block.start, block.end)?;
        writeln!(out, "{}", Printable(&place))?;
    }
    Ok(())
}

fn paths(profile: &Profile, top: usize, out: &mut dyn Write) -> Result<()> {
    let Some(paths) = &profile.paths else { return Ok(()) };
    writeln!(out, "\nBranches whose outcome depends on the last {} branches", paths.window)?;
    writeln!(out, "  bits saved   entropy  with path  branch")?;
    for found in profile.path_branches().iter().filter(|found| found.gain > 0.0).take(top) {
        let (address, block) = (found.branch.address, found.branch.block);
        let place = place(profile, block, address);
        write!(out, "{:12.0} {:9.3} {:10.3}", found.gain, found.entropy, found.conditional_entropy)?;
        writeln!(out, "  {address:#x}{}", Printable(&place))?;
    }
    Ok(())
}

fn exceptions(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    if profile.exceptions.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n        count  exception or interrupt")?;
    profile.exceptions.iter().try_for_each(|(cause, count)| writeln!(out, "{count:13}  {cause}"))
}

/// Function, file and line of an address in a block, in words.
fn place(profile: &Profile, block: u32, address: u64) -> String {
    let block = profile.blocks.get(block as usize);
    let Some(function) = block.and_then(|block| profile.function_of(block)) else { return String::new() };
    let debug = profile.module_of(function).map(Module::debug);
    let name = Printable(&function.name);
    match debug.and_then(|debug| Some((debug, debug.line(address)?))) {
        Some((debug, line)) => format!(" {name} ({}:{})", Printable(debug.file(line.file)), line.line),
        None => format!(" {name}"),
    }
}
