//! `backsight lab squeeze`: the research compressors over a set of programs.

use std::path::PathBuf;

use backsight_squeeze::lab::gates::{gates, state_bits};
use backsight_squeeze::lab::plot::{Point, scatter, series};
use backsight_squeeze::lab::report::{
    Row, address_table, average, instruction_table, mean, share_table, value_table,
};
use backsight_squeeze::lab::run::{Experiment, Set};
use backsight_squeeze::lab::{WINDOW, published};
use backsight_squeeze::{PRESETS, Scheme};
use clap::Args;

use super::super::compress::scheme;
use crate::failure::{Failure, Result};
use crate::output::{Inputs, Output, put_files, say};
use crate::progress::Progress;

/// Compare trace compressors with each other and with published figures
///
/// FOLDER holds programs and a list of how to run them, as `tests/squeeze/programs` makes it. Every program is simulated
/// once, or its recorded run is read, and all schemes see the same run. Addresses count as 32 bits, as in the literature, unless a scheme says otherwise.
#[derive(Args, Debug)]
pub struct Squeeze {
    /// The programs
    folder: PathBuf,

    /// A scheme, and parameters that differ from the preset's; may be given several times. Without one: all presets
    #[arg(long, value_name = "SCHEME[:NAME=VALUE,…]")]
    scheme: Vec<String>,

    /// Sizes of the tables too: every family from its smallest to its largest
    #[arg(long)]
    sweep: bool,

    /// Data addresses and load values too
    #[arg(long)]
    data: bool,

    /// Instead: instructions a second of each scheme, packing and unpacking, on one thread
    #[arg(long)]
    speed: bool,

    /// Instead: execute each program again from its load values (64 KB first-access cache) and what entered from outside, and
    /// compare every instruction, load, store and register
    #[arg(long, conflicts_with_all = ["speed", "scheme", "sweep", "data", "plots"])]
    replay: bool,

    /// Instructions of each program, at most
    #[arg(long, value_name = "N", default_value_t = 50_000_000)]
    instructions: u64,

    /// Write plots into this folder
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,

    /// Programs at a time
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// Every family from its smallest to its largest.
fn sweep() -> Vec<String> {
    let mut names = Vec::new();
    names.extend([32, 64, 128, 192, 256].map(|size| format!("edmtf:first={size}")));
    names.extend([4, 8, 16].map(|size| format!("bdmtf:first=128,second={size}")));
    for preset in ["bsdc", "esdc", "rsdc"] {
        names.extend([8, 16, 32, 64, 128, 256].map(|sets| format!("{preset}:sets={sets}")));
    }
    names.extend([(128, 1), (64, 2), (16, 8)].map(|(sets, ways)| format!("esdc:sets={sets},ways={ways}")));
    names.extend([7, 8, 9, 10, 11, 12].map(|bits| format!("btmbp:index_bits={bits},history_bits={bits}")));
    names.extend([0, 8, 16, 32, 64, 128].map(|sets| format!("btmbp:sets={sets}")));
    names
}

/// The plots, by the names of their files.
fn plots(names: &[String], schemes: &[Scheme], rows: &[Row]) -> Vec<(String, String)> {
    let points: Vec<_> = names
        .iter()
        .zip(schemes)
        .enumerate()
        .filter_map(|(number, (name, scheme))| {
            Some(Point { name: name.clone(), x: gates(scheme)? as f64, y: average(rows, number) })
        })
        .collect();
    let gates = scatter("Bits an instruction by gates", "gates", "bits/ins", &points);
    let points: Vec<_> = names
        .iter()
        .zip(schemes)
        .enumerate()
        .map(|(number, (name, scheme))| Point {
            name: name.clone(),
            x: state_bits(scheme) as f64 / 8.0,
            y: mean(rows, number),
        })
        .collect();
    let title = "Bits an instruction by state, mean of programs";
    let state = scatter(title, "bytes of state", "bits/ins", &points);
    let mut plots = vec![("gates.svg".to_owned(), gates), ("state.svg".to_owned(), state)];
    for row in rows {
        let best = names.iter().position(|name| name == "btmbp").unwrap_or(0);
        let values: Vec<_> =
            row.outcomes[best].windows.iter().map(|&bits| bits as f64 / WINDOW as f64).collect();
        let title = format!("{}: port bandwidth with {}", row.name, names[best]);
        let svg = series(&title, &format!("windows of {WINDOW} instructions"), "bits/ins", &values);
        plots.push((format!("bandwidth-{}.svg", row.name), svg));
    }
    plots
}

/// Passes of which the best counts.
const TIMES: u32 = 3;

fn speed(set: &Set, names: &[String], schemes: &[Scheme], instructions: u64, output: &mut Output) -> Result {
    output.put(|out| {
        writeln!(out, "Millions of instructions a second: packed, unpacked; the best of {TIMES} times\n")?;
        write!(out, "{:14}", "program")?;
        names.iter().try_for_each(|name| write!(out, "{name:>18}"))?;
        writeln!(out)
    })?;
    for case in &set.cases {
        let speeds = set.speed(case, schemes, (instructions, TIMES)).map_err(Failure::new)?;
        output.put(|out| {
            write!(out, "{:14}", case.name)?;
            let mut speeds = speeds.iter();
            speeds.try_for_each(|[pack, unpack]| write!(out, "{:>9.1}{:>9.1}", pack / 1e6, unpack / 1e6))?;
            writeln!(out)
        })?;
    }
    Ok(())
}

fn replay(set: &Set, instructions: u64, output: &mut Output) -> Result {
    output.put(|out| {
        writeln!(
            out,
            "{:14}{:>12}{:>12}{:>10}{:>11}{:>9}{:>9}",
            "program", "instructions", "items", "differing", "registers", "bits/ins", "ratio"
        )
    })?;
    let mut wrong = 0;
    for case in &set.cases {
        let done = set.replay(case, instructions).map_err(Failure::new)?;
        output.put(|out| {
            writeln!(
                out,
                "{:14}{:>12}{:>12}{:>10}{:>11}{:>9.3}{:>9.2}",
                case.name,
                done.instructions,
                done.items,
                done.differing,
                if done.registers { "the same" } else { "differ" },
                done.bits as f64 / done.instructions as f64,
                done.raw_bits as f64 / done.bits as f64
            )
        })?;
        wrong += u32::from(done.differing > 0 || !done.registers);
    }
    if wrong > 0 { Err(Failure::new(format!("{wrong} programs did not do the same again"))) } else { Ok(()) }
}

/// Runs the command.
pub fn run(command: &Squeeze) -> Result {
    let mut names = command.scheme.clone();
    if names.is_empty() && !command.sweep {
        names = PRESETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    }
    if command.sweep {
        names.extend(sweep());
    }
    let schemes: Vec<_> = names
        .iter()
        .map(|name| match scheme(name) {
            Ok(scheme) if name.contains("address_bits") => Ok(scheme),
            Ok(scheme) => Ok(scheme.with_address_bits(32)),
            Err(why) => Err(Failure::usage(format!("--scheme {name}: {why}"))),
        })
        .collect::<Result<_>>()?;
    let set = Set::open(&command.folder).map_err(Failure::new)?;
    let mut output = Output::for_tables(None, &Inputs::none(), false)?;
    if command.speed {
        speed(&set, &names, &schemes, command.instructions, &mut output)?;
        return output.finish();
    }
    if command.replay {
        let outcome = replay(&set, command.instructions, &mut output);
        output.finish()?;
        return outcome;
    }
    let experiment =
        Experiment { schemes: schemes.clone(), data: command.data, instructions: command.instructions };
    let threads =
        command.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let progress = Progress::instructions(None, command.quiet);
    let (rows, failures) = set.measure_all(&experiment, threads, &|_| progress.add(command.instructions));
    drop(progress);
    failures.iter().for_each(|why| say(format_args!("backsight: {why}")));
    if rows.is_empty() {
        return Err(Failure::new("no program could be measured"));
    }
    let missing = published::PROGRAMS.iter().filter(|(name, _)| !rows.iter().any(|row| row.name == *name));
    let missing: Vec<_> = missing.map(|(name, _)| *name).filter(|name| *name != "average").collect();
    output.put(|out| {
        writeln!(out, "Bits an instruction; in brackets those of the text (MiBench on Arm)\n")?;
        writeln!(out, "{}", instruction_table(&names, &schemes, &rows))?;
        writeln!(out, "What the bits are for\n\n{}", share_table(&names, &rows))?;
        if command.data {
            writeln!(out, "Data addresses\n\n{}", address_table(&rows))?;
            writeln!(out, "Load values; in brackets those of the text\n\n{}", value_table(&rows))?;
        }
        match missing.is_empty() {
            true => Ok(()),
            false => writeln!(out, "Programs of the text that are not in the set: {}", missing.join(", ")),
        }
    })?;
    output.finish()?;
    match &command.plots {
        Some(folder) => {
            let plots = plots(&names, &schemes, &rows);
            let files = plots.iter().map(|(name, svg)| (name.as_str(), svg.as_bytes()));
            put_files(folder, true, &Inputs::none(), files)
        }
        None => Ok(()),
    }
}
