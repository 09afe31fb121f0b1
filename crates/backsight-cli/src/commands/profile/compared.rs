//! `profile --compare`: two captures, or two windows of one, side by side.

use std::io::Write;
use std::path::{Path, PathBuf};

use backsight::listing::Printable;
use backsight::moments::Moment;
use backsight_profile::Profile;
use backsight_profile::compare::{Comparison, difference, ratio};
use clap::Args;

use super::{ProfileCommand, SortKey};
use crate::args::CaptureArgs;
use crate::failure::{Failure, Result};
use crate::output::{Output, counted};
use crate::window::WindowArgs;

/// What to compare with.
#[derive(Args, Clone, Debug, Default)]
pub struct CompareArgs {
    /// Show what this capture counts beside it, by function and by line, sorted by the difference; in the same window if
    /// --compare-from and --compare-to name no other
    #[arg(long, value_name = "CAPTURE", help_heading = "Comparison")]
    pub compare: Option<PathBuf>,

    /// From this moment on, in the other capture; without --compare, in the same one
    #[arg(long, value_name = "MOMENT", help_heading = "Comparison")]
    compare_from: Option<Moment>,

    /// Up to this moment, in the same way
    #[arg(long, value_name = "MOMENT", help_heading = "Comparison")]
    compare_to: Option<Moment>,
}

impl CompareArgs {
    /// Is anything to be compared?
    pub fn is_given(&self) -> bool {
        self.compare.is_some() || self.has_window()
    }

    fn has_window(&self) -> bool {
        self.compare_from.is_some() || self.compare_to.is_some()
    }

    /// The other side, if there is one.
    pub fn other(&self, arguments: &CaptureArgs, window: &WindowArgs) -> Option<(CaptureArgs, WindowArgs)> {
        let window = match self.has_window() {
            true => WindowArgs::between(self.compare_from, self.compare_to),
            false => window.clone(),
        };
        let arguments = self.compare.as_ref().map_or_else(|| arguments.clone(), |path| arguments.at(path));
        self.is_given().then_some((arguments, window))
    }

    /// Refuses a second reading of what can be read once.
    pub fn check(&self, arguments: &CaptureArgs) -> Result {
        let other = self.compare.as_ref().map(|path| arguments.at(path));
        let is_standard_input =
            arguments.is_standard_input() || other.is_some_and(|other| other.is_standard_input());
        match self.is_given() && is_standard_input {
            true => Err(Failure::usage("standard input can be read once: it cannot be compared")),
            false => Ok(()),
        }
    }
}

/// What a side of a comparison is called: its capture, and its window.
pub fn name_of(capture: &Path, window: &WindowArgs) -> String {
    match window.is_given() {
        true => format!("{} {}", capture.display(), window.words()),
        false => capture.display().to_string(),
    }
}

/// Refuses what has no room for a second side.
pub(super) fn check(command: &ProfileCommand) -> Result {
    command.compare.check(&command.capture)?;
    let beside = match () {
        () if !command.compare.is_given() => None,
        () if command.format.as_deref().is_some_and(|format| format != "json") => {
            return Err(Failure::usage("--compare is for tables to read and for --format json"));
        }
        () if !command.merge.is_empty() => Some("--merge"),
        () if command.scale.is_some() => Some("--scale"),
        () if command.paths.is_some() => Some("--paths"),
        () if !command.event.is_empty() => Some("--event"),
        () => None,
    };
    match beside {
        Some(option) => Err(Failure::usage(format!("--compare cannot be used with {option}"))),
        None => Ok(()),
    }
}

/// Writes both sides, as the command line asks for it.
pub(super) fn write(
    command: &ProfileCommand,
    (one, other): (&Profile, &Profile),
    names: [&str; 2],
    output: &mut Output,
) -> Result {
    let mut comparison = Comparison::new(one, other);
    if command.format.is_some() {
        return output.put(|out| comparison.write_json(names, out));
    }
    match command.sort {
        SortKey::Own => {}
        SortKey::Inclusive => comparison.sort_functions_by(|counts| counts.inclusive),
        SortKey::Calls => comparison.sort_functions_by(|counts| counts.entries),
        SortKey::Cycles => comparison.sort_functions_by(|counts| counts.cycles),
        SortKey::Name => comparison.functions.sort_by(|one, other| one.name.cmp(&other.name)),
    }
    output.put(|out| tables(&comparison, names, command.top, out))
}

fn tables(comparison: &Comparison, names: [&str; 2], top: usize, out: &mut dyn Write) -> std::io::Result<()> {
    for (label, (name, instructions)) in
        ["this", "other"].into_iter().zip(names.into_iter().zip(comparison.instructions))
    {
        writeln!(out, "{label:5}  {}: {}", Printable(name), counted(instructions, "instruction"))?;
    }
    writeln!(out, "\nInstructions in each function (self), and how often it was entered (calls)")?;
    writeln!(
        out,
        "         this         other    difference     ratio  calls, this  calls, other  function"
    )?;
    for function in comparison.functions.iter().take(top) {
        numbers(function.instructions(), out)?;
        let [this, other] = function.counts.map(|counts| counts.entries);
        let (name, module) = (Printable(&function.name), Printable(&function.module));
        writeln!(out, " {this:12} {other:13}  {name} ({module})")?;
    }
    if comparison.has_cycles() {
        writeln!(out, "\nCycles in each function")?;
        writeln!(out, "         this         other    difference     ratio  function")?;
        let mut rows: Vec<_> = comparison.functions.iter().collect();
        let cycles = |function: &backsight_profile::compare::ComparedFunction| {
            function.counts.map(|counts| counts.cycles)
        };
        rows.sort_by_key(|function| std::cmp::Reverse(difference(cycles(function)).unsigned_abs()));
        for function in rows.into_iter().take(top) {
            numbers(cycles(function), out)?;
            writeln!(out, "  {} ({})", Printable(&function.name), Printable(&function.module))?;
        }
    }
    if comparison.lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nInstructions of each line of source")?;
    writeln!(out, "         this         other    difference     ratio  line")?;
    for line in comparison.lines.iter().take(top) {
        numbers(line.instructions, out)?;
        writeln!(out, "  {}:{}", Printable(&line.file), line.line)?;
    }
    Ok(())
}

/// Both counts, what is between them, and how many times the first the other is.
fn numbers(counts: [u64; 2], out: &mut dyn Write) -> std::io::Result<()> {
    let [this, other] = counts;
    let ratio = match ratio(counts) {
        Some(ratio) if ratio < 100_000.0 => format!("{ratio:.3}"),
        Some(ratio) => format!("{ratio:.0}"),
        None if other > 0 => "new".to_owned(),
        None => "-".to_owned(),
    };
    write!(out, "{this:13} {other:13} {:>+13} {ratio:>9}", difference(counts))
}
