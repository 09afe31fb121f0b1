//! `backsight lab etm4`: how much trace an ETMv4 or ETE sends, and how fast, configuration by configuration.
//!
//! The figures that a paper and a thesis on a decoder in hardware give for such a unit are put beside ours.

mod literature;
mod plot;
mod table;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use backsight_run::measure::bandwidth::{
    Bandwidth, Conditions, Configuration, Drain, Loop, bandwidth, configurations,
};
use backsight_run::qemu::{EmulatedProgram, EmulationOptions};
use backsight_run::{Error, RetiredFile, UnitKind};
use clap::Args;

use crate::failure::{Failure, Result};
use crate::output::{Inputs, Output};
use crate::recording::Executed;

/// Measure how much trace an ETMv4 or ETE sends, configuration by configuration
///
/// Every instruction of a program goes to one trace unit for each configuration: each feature alone, and together. Bytes
/// are those of the unit, before frames are put around them. Time is that of the processor: instructions carry their
/// cycles, or take a steady number of them (--ipc). The peak is over all windows of so many cycles, wherever they begin.
/// The buffer is the smallest between the unit and something that takes --drain megabytes a second which never overflows.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Etm4 {
    /// Captures recorded with `record --truth`, files of retired instructions, or programs for aarch64 and arm, which
    /// run under QEMU; without any, four recorded programs that backsight brings along and two loops, simple and complex
    inputs: Vec<PathBuf>,

    /// The trace unit
    #[arg(long, value_name = "UNIT", value_parser = ["etm4", "ete"], default_value = "etm4")]
    unit: String,

    /// A setting of the unit in every configuration, as in `record --config`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,

    /// One configuration more: settings with commas between them; may be given several times
    #[arg(long, value_name = "KEY=VALUE,…")]
    also: Vec<String>,

    /// The processor's clock, in MHz
    #[arg(long, value_name = "MHZ", default_value_t = 1300, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    clock: u64,

    /// Instructions in a cycle, where they do not carry their cycles: 0.001 to 100
    #[arg(long, value_name = "N", default_value = "1", value_parser = thousandths)]
    ipc: u64,

    /// Megabytes (10^6) a second at which the buffer is emptied; several with commas
    #[arg(long, value_name = "MB/S", value_delimiter = ',', default_value = "125,250,1000")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    drain: Vec<u64>,

    /// Windows for peaks, in cycles; several with commas
    #[arg(long, value_name = "CYCLES", value_delimiter = ',', default_value = "64,4096")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    window: Vec<u64>,

    /// Stop each program after so many instructions
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,

    /// One JSON object, with every kind of packet
    #[arg(long)]
    json: bool,

    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Draw the figures as bars
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  backsight lab etm4 --plot bandwidth.svg
  backsight record -o run --truth -- ./arm-program && backsight lab etm4 run --clock 2000 --ipc 1.5 --drain 400
  backsight lab etm4 --unit ete --also cyclecount=1,cycle_threshold=16,return_stack=1";

/// Programs that are always at hand: what they executed under QEMU.
const BUNDLED: [(&str, &[u8]); 4] = [
    ("calls", include_bytes!("retired/calls.retired")),
    ("pack", include_bytes!("retired/pack.retired")),
    ("sort", include_bytes!("retired/sort.retired")),
    ("vm", include_bytes!("retired/vm.retired")),
];

/// Instructions of a loop: it repeats itself.
const LOOP_LIMIT: u64 = 100_000;

/// Everything that was measured.
struct Experiment {
    clock: u64,
    drains: Vec<u64>,
    conditions: Conditions,
    configurations: Vec<Configuration>,
    programs: Vec<Bandwidth>,
}

impl Experiment {
    /// Megabytes a second of so many bytes a cycle.
    fn rate(&self, bytes_per_cycle: f64) -> f64 {
        bytes_per_cycle * self.clock as f64
    }
}

/// Runs the command.
pub fn run(command: &Etm4) -> Result {
    let inputs = Inputs::none().and(&command.inputs);
    let mut output = Output::for_tables(command.output.as_deref(), &inputs, command.json)?;
    let plot = command.plot.as_ref().map(|path| Output::open(Some(path), &inputs)).transpose()?;
    let experiment = measure(command)?;
    let text =
        if command.json { format!("{:#}\n", table::json(&experiment)) } else { table::text(&experiment) };
    output.put(|out| out.write_all(text.as_bytes()))?;
    output.finish()?;
    match plot {
        Some(mut output) => {
            output.put(|out| out.write_all(plot::svg(&experiment).as_bytes()))?;
            output.finish()
        }
        None => Ok(()),
    }
}

fn measure(command: &Etm4) -> Result<Experiment> {
    let unit = UnitKind::named(&command.unit).ok_or_else(|| Failure::usage("--unit: etm4 or ete"))?;
    let base = backsight_capture::settings(&command.config).map_err(Failure::usage)?;
    let mut all = configurations(&base);
    for more in &command.also {
        let settings: Vec<_> = more.split(',').map(str::to_owned).collect();
        let own =
            backsight_capture::settings(&settings).map_err(|why| Failure::usage(format!("--also {why}")))?;
        let settings = all[0].settings.iter().cloned().chain(own).collect();
        all.push(Configuration { name: more.clone(), settings });
    }
    let conditions = Conditions {
        unit,
        instructions_per_kilocycle: command.ipc,
        windows: command.window.clone(),
        drains: command.drain.iter().map(|&bytes| Drain { bytes, cycles: command.clock }).collect(),
        limit: command.limit,
    };
    let mut programs = Vec::new();
    if command.inputs.is_empty() {
        for (name, bytes) in BUNDLED {
            let mut source = RetiredFile::open(name, || Ok(Cursor::new(bytes)))?;
            programs.push(bandwidth(name, &mut source, &all, &conditions)?);
        }
        let short = Conditions { limit: conditions.limit.min(LOOP_LIMIT), ..conditions.clone() };
        for (name, mut source) in
            [(literature::SIMPLE_LOOP, Loop::simple()), ("complex-loop", Loop::complex())]
        {
            programs.push(bandwidth(name, &mut source, &all, &short)?);
        }
    }
    for path in &command.inputs {
        programs.push(measure_file(path, &all, &conditions)?);
    }
    refuse_if_nothing_fits(&all, &programs)?;
    let drains = command.drain.clone();
    Ok(Experiment { clock: command.clock, drains, conditions, configurations: all, programs })
}

/// A setting that no configuration can have is a mistake, not a result.
fn refuse_if_nothing_fits(configurations: &[Configuration], programs: &[Bandwidth]) -> Result {
    let none = |program: &&Bandwidth| program.sent.iter().all(|sent| sent.is_err());
    match programs.iter().find(none).and_then(|program| program.sent.first()) {
        Some(Err(why)) => Err(Failure::usage(format!("{}: {why}", configurations[0].name))),
        _ => Ok(()),
    }
}

fn measure_file(path: &Path, all: &[Configuration], conditions: &Conditions) -> Result<Bandwidth> {
    let name =
        path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
    if let Some(mut executed) = Executed::open(path)? {
        return Ok(bandwidth(&name, &mut executed.source, all, conditions)?);
    }
    // What the program prints is not to be among the figures.
    let options = EmulationOptions { program: path.to_owned(), silent: true, ..EmulationOptions::default() };
    let mut program = EmulatedProgram::new(options).map_err(Error::Qemu)?;
    Ok(bandwidth(&name, &mut program, all, conditions)?)
}

/// A decimal number as thousandths.
fn thousandths(text: &str) -> std::result::Result<u64, String> {
    let value: f64 = text.parse().map_err(|_| "a number is expected".to_owned())?;
    let thousandths = (value * 1000.0).round();
    if (1.0..=100_000.0).contains(&thousandths) {
        Ok(thousandths as u64)
    } else {
        Err("0.001 to 100 is expected".to_owned())
    }
}

#[cfg(test)]
mod tests;
