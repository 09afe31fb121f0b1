//! `backsight profile`: counts what was executed.

mod compared;
mod counting;
mod table;
mod waves;

use std::path::PathBuf;

use backsight::listing::FilterOptions;
use backsight_profile::export::{ExportError, ExportOptions, FORMATS, Format, Weight};
use backsight_profile::waves::WaveFormat;
use backsight_profile::{BranchWindows, CountOptions, EventChoice, Profile};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};

use super::flow::{FILTERS, FilterArgs};
use crate::args::{CaptureArgs, ImageArgs, OutputArgs};
use crate::failure::{Failure, Result};
use crate::output::{Output, say};
use crate::window::WindowArgs;
pub use compared::{CompareArgs, name_of};
pub use counting::{Counted, Counting};
use table::{SortKey, TableOptions};

/// Count what was executed, and write a profile
///
/// Follows the trace through the code once and counts blocks, edges, calls and, where the trace has them, cycles. Without
/// --format, lists the functions that executed most and the branches that are hardest to predict; with it, writes the
/// profile as another tool reads it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ProfileCommand {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// What to write; without it, a table to read
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<String>,

    /// What calls are weighed by
    #[arg(long, value_enum, default_value_t)]
    weight: WeightName,

    /// Add what another capture counts; may be given several times
    #[arg(long, value_name = "CAPTURE")]
    merge: Vec<PathBuf>,

    /// Multiply all counts, to mix profiles of different lengths
    #[arg(long, value_name = "FACTOR", value_parser = parse_factor)]
    scale: Option<f64>,

    /// Count only what a processor with a record of the last branches would show that is sampled every PERIOD
    /// instructions: windows of BRANCHES (32) that were taken, and what is between them
    #[arg(long, value_name = "PERIOD[:BRANCHES]", value_parser = parse_windows)]
    sample: Option<BranchWindows>,

    /// Calls over time that are kept, for formats that show them; where there are more, the shortest are left out
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    slices: usize,

    /// Count outcomes of branches by the path of the last W branches, and list those that depend on it most
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u8).range(1..=16))]
    paths: Option<u8>,

    /// An event of the trace unit and what the unit was programmed to signal by it, as in 0=L1D_CACHE_REFILL: its packets
    /// are attributed to the blocks in which they can have happened. May be given several times. By the name, only
    /// loads and stores cause L1D…, LD_… and ST_…, only branches BR_…, every instruction others
    #[arg(long, value_name = "NUMBER=NAME", value_parser = parse_event)]
    event: Vec<EventChoice>,

    /// Instructions by which events come to the trace unit late, at most: as many as the processor has in flight. An event
    /// happened in the block that its packet is in, or in so many instructions before it. LEAST.. says that it never
    /// comes earlier than that
    #[arg(long, value_name = "[LEAST..]MOST", default_value = "8", value_parser = parse_skid)]
    skid: (u32, u32),

    /// Rows of each table to read
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// What the functions of the table to read are sorted by
    #[arg(long, value_enum, default_value_t, conflicts_with = "format")]
    sort: SortKey,

    /// Follow several sources on up to N cores; or pieces of a single one, unless it
    /// is sampled, threads go from one CPU to another, or code changes (event logs).
    /// 0, the default, is as many as there are
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,

    #[command(flatten)]
    waves: waves::WaveArgs,

    #[command(flatten)]
    compare: CompareArgs,

    #[command(flatten)]
    window: WindowArgs,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  backsight profile capture/                                   the hottest functions, branches and loops
  backsight profile capture/ --sort inclusive                  by what functions cost with all that they called
  backsight profile capture/ --context 1742 --from t5000 --to t9000     one thread, between two timestamps
  backsight profile capture/ --to 3s --compare-from 3s --compare-to 6s  three seconds beside the next three
  backsight profile good/ --compare bad/                       what another run executed more and less often
  backsight profile capture/ --format llvm -o program.prof     clang -fprofile-sample-use=program.prof
  backsight profile capture/ --format bolt -o program.bolt     llvm-bolt program -pa -p program.bolt -o faster
  backsight profile capture/ --format lcov -o program.info     genhtml --branch-coverage program.info -o html
  backsight profile run.tarmac --format fst --register x0 --memory 0x8000:4 -o run.fst    waves for GTKWave and Surfer
  backsight profile capture/ --format collapsed | flamegraph.pl > flame.svg
  backsight profile monday/ --merge tuesday/ --format pprof -o week.pb.gz";

/// Branches on a path, if nobody says.
const DEFAULT_PATH: usize = 8;

fn formats() -> PossibleValuesParser {
    let named = |name, title, readers| PossibleValue::new(name).help(format!("{title}, for {readers}"));
    let profiles = FORMATS.iter().map(|format| named(format.name, format.title, format.readers));
    let waves = WaveFormat::ALL.iter().map(|format| named(format.name(), format.title(), format.readers()));
    PossibleValuesParser::new(profiles.chain(waves))
}

fn parse_factor(text: &str) -> std::result::Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1e-12..=1e12).contains(factor));
    factor.ok_or_else(|| format!("`{text}`: a number above 0 is expected"))
}

fn parse_windows(text: &str) -> std::result::Result<BranchWindows, String> {
    let (period, branches) = text.split_once(':').unwrap_or((text, "32"));
    let windows = period.parse().ok().zip(branches.parse().ok());
    windows
        .filter(|&(period, branches)| period > 0 && (1..=4096).contains(&branches))
        .map(|(period, branches)| BranchWindows { period, branches })
        .ok_or_else(|| format!("`{text}`: PERIOD or PERIOD:BRANCHES is expected, from 1 on, as in 100000:32"))
}

fn parse_skid(text: &str) -> std::result::Result<(u32, u32), String> {
    let (least, most) = text.split_once("..").unwrap_or(("0", text));
    let skid = least.parse().ok().zip(most.parse().ok()).filter(|(least, most)| least <= most);
    skid.ok_or_else(|| format!("`{text}`: MOST or LEAST..MOST instructions are expected, as in 1..8"))
}

fn parse_event(text: &str) -> std::result::Result<EventChoice, String> {
    let parts = text.split_once('=').map(|(number, name)| (number.trim().parse::<u8>(), name.trim()));
    match parts {
        Some((Ok(number @ 0..=3), name)) if !name.is_empty() => {
            Ok(EventChoice { number, name: name.to_owned() })
        }
        _ => Err(format!("`{text}`: NUMBER=NAME is expected, NUMBER from 0 to 3, as in 0=L1D_CACHE_REFILL")),
    }
}

/// What calls are weighed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WeightName {
    /// Instructions, which every trace has
    #[default]
    Instructions,
    /// Cycles, where the trace counts them
    Cycles,
}

impl From<WeightName> for Weight {
    fn from(name: WeightName) -> Self {
        match name {
            WeightName::Instructions => Self::Instructions,
            WeightName::Cycles => Self::Cycles,
        }
    }
}

/// Runs the command.
pub fn run(command: &ProfileCommand) -> Result {
    let format = command.format.as_deref().and_then(Format::named);
    compared::check(command)?;
    if let Some(format) = waves::format(command)? {
        return waves::run(command, format);
    }
    let quiet = command.output.quiet;
    let path = command.output.output.as_deref();
    let inputs = command.capture.inputs(&command.images).and(&command.merge).and(&command.compare.compare);
    let mut output = match format {
        Some(format) if format.is_json() => Output::for_tables(path, &inputs, true)?,
        Some(_) => Output::open(path, &inputs)?,
        None => Output::for_people(path, &inputs)?,
    };
    let slices = if format.is_some_and(Format::needs_timeline) { command.slices } else { 0 };
    let paths = match (command.paths, format.is_some_and(Format::needs_paths)) {
        (Some(window), _) => window.into(),
        (None, true) => DEFAULT_PATH,
        (None, false) => 0,
    };
    let counting = Counting {
        images: &command.images,
        options: CountOptions {
            timeline: slices,
            paths,
            events: command.event.clone(),
            skid: command.skid,
            windows: command.sample,
            filter: filter_of(command, format)?,
            by_core: false,
        },
        threads: command.threads,
        quiet,
    };
    let Counted { mut profile, is_damaged: mut damaged, .. } =
        counting.count(&command.capture, &command.window)?;
    for other in &command.merge {
        let another = counting.count(&command.capture.at(other), &command.window)?;
        profile.merge(another.profile);
        damaged |= another.is_damaged;
    }
    if let Some(factor) = command.scale {
        profile.scale(factor);
    }
    command.filter.check_counted(&profile)?;
    check(&profile, command.weight)?;
    if command.sort == SortKey::Cycles && !profile.has_cycles() {
        return Err(Failure::new("--sort cycles: the trace counts none; record with --config cyclecount=1"));
    }
    if !quiet {
        for events in profile.events.iter().filter(|events| events.total == 0) {
            say(format_args!(
                "warning: event {}: the trace has no packets of it; program the trace unit to signal it (TRCEVENTCTL0R, \
                 TRCEVENTCTL1R), or record with --model",
                events.choice.number
            ));
        }
    }
    if let Some((arguments, window)) = command.compare.other(&command.capture, &command.window) {
        let other = counting.count(&arguments, &window)?;
        check(&other.profile, command.weight)?;
        let names =
            [name_of(&command.capture.capture, &command.window), name_of(&arguments.capture, &window)];
        let names = names.each_ref().map(String::as_str);
        compared::write(command, (&profile, &other.profile), names, &mut output)?;
        output.finish()?;
        return strict(command.output.strict, damaged || other.is_damaged);
    }
    let options = ExportOptions {
        weight: command.weight.into(),
        module: command.filter.module.first().cloned(),
        title: command.capture.capture.display().to_string(),
    };
    match format {
        Some(format) => {
            if !quiet {
                format
                    .missing(&profile, &options)
                    .iter()
                    .for_each(|what| say(format_args!("warning: {what}")));
            }
            write(format, &profile, &options, &mut output)?;
        }
        None => {
            let table = TableOptions { top: command.top, sort: command.sort };
            output.put(|out| table::write(&profile, table, out))?;
        }
    }
    output.finish()?;
    strict(command.output.strict, damaged)
}

/// Refuses damage where that is asked for.
pub fn strict(is_strict: bool, is_damaged: bool) -> Result {
    match is_strict && is_damaged {
        true => Err(Failure::new("the trace or the image is damaged (--strict)")),
        false => Ok(()),
    }
}

/// Which part of the execution counts. A format that has room for one file takes that file of a whole profile.
fn filter_of(command: &ProfileCommand, format: Option<&Format>) -> Result<FilterOptions> {
    let mut filter = command.filter.options();
    if format.is_some_and(Format::needs_one_module) {
        filter.modules.clear();
    }
    let conflict = match () {
        () if !filter.is_selective() => None,
        () if command.sample.is_some() => Some("--sample"),
        () if command.paths.is_some() => Some("--paths"),
        () if !command.event.is_empty() => Some("--event"),
        () if format.is_some_and(Format::needs_timeline) => Some("--format of calls over time"),
        () if format.is_some_and(Format::needs_paths) => Some("--format paths"),
        () => None,
    };
    match conflict {
        Some(what) => Err(Failure::usage(format!("{what} takes the whole execution: leave out {FILTERS}"))),
        None => Ok(filter),
    }
}

/// Refuses what there is nothing to write of.
pub fn check(profile: &Profile, weight: WeightName) -> Result {
    if profile.totals.instructions == 0 {
        return Err(Failure::new(
            "no instruction could be followed: the code that ran is not there; give it with --image FILE[@ADDRESS], and see `backsight info` for what the capture has",
        ));
    }
    if weight == WeightName::Cycles && !profile.has_cycles() {
        return Err(Failure::new(
            "--weight cycles: the trace counts none; record with --config cyclecount=1, or program the trace unit to",
        ));
    }
    Ok(())
}

fn write(format: &Format, profile: &Profile, options: &ExportOptions, output: &mut Output) -> Result {
    match format.write(profile, options, output) {
        Ok(()) => Ok(()),
        Err(ExportError::Missing(what)) => Err(Failure::new(format!("--format {}: {what}", format.name))),
        Err(ExportError::Io(error)) => Err(output.failure(&error)),
    }
}
