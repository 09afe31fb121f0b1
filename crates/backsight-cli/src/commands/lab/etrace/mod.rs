//! `backsight lab etrace`: how well E-Trace compresses, option by option.
//!
//! Programs run in the simulator; every block that retires goes to one encoder for each set of options. What the
//! encoders send is counted as the thesis on the RTL encoder counted it, and its table is put beside ours.

mod plot;
mod retire;
mod table;
mod thesis;

use std::path::{Path, PathBuf};

use backsight_riscv::etrace::{ImplicitReturn, Options, Params, set};
use backsight_run::SimulatedProgram;
use backsight_run::measure::{Measured, Variant, measure, variants};
use backsight_sim::{Options as SimulatorOptions, Streams};
use backsight_unit::riscv::retire::Retirement;
use clap::Args;

use crate::failure::{Failure, Result};
use crate::output::{Inputs, Output};

/// Measure how well E-Trace compresses, option by option
///
/// Runs static RV64 Linux programs in the simulator and encodes what they executed with every option alone and with
/// all of them. The rate is (1 - 8 * bytes / (32 * instructions)) in percent, where bytes are those of the packets'
/// payloads and every instruction counts as 32 bits. U. Laghi (Efficient Trace for RISC-V, master's thesis, University
/// of Bologna 2024) measured 20 programs so on an encoder in hardware for the CVA6 core, with differential addresses and
/// none of the other options: that table comes along, and that encoder too, without resyncs. So does N-Trace, with
/// whole messages counted.
#[derive(Args, Debug)]
pub struct Etrace {
    /// Statically linked RISC-V programs; without any, those that backsight brings along
    programs: Vec<PathBuf>,

    /// A parameter of the encoder (bpred_size, cache_size, return_stack_size, ...), or an option that is to be on
    /// in every measurement; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,

    /// Also count the cycles of a hart that retires several instructions in one: `single`, `branches:N` (one packet a
    /// cycle) or `blocks:N` (N packets), with `/PORTS` and `+serial` as in `record --retire`; several with commas
    #[arg(long, value_name = "SHAPE", value_delimiter = ',')]
    retire: Vec<Retirement>,

    /// Stop each program after so many instructions
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    limit: u64,

    /// One JSON object
    #[arg(long)]
    json: bool,

    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Draw the figures as bars
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Programs that are always at hand.
const BUNDLED: [(&str, &[u8]); 5] = [
    ("calls", include_bytes!("programs/calls")),
    ("isa", include_bytes!("programs/isa")),
    ("pack", include_bytes!("programs/pack")),
    ("sort", include_bytes!("programs/sort")),
    ("vm", include_bytes!("programs/vm")),
];

/// Runs the command.
pub fn run(command: &Etrace) -> Result {
    let inputs = Inputs::none().and(&command.programs);
    let mut output = Output::for_tables(command.output.as_deref(), &inputs, command.json)?;
    let plot = command.plot.as_ref().map(|path| Output::open(Some(path), &inputs)).transpose()?;
    let (params, options) = configuration(&command.config)?;
    let variants = variants(params, options);
    let mut measured = Vec::new();
    if command.programs.is_empty() {
        for (name, file) in BUNDLED {
            measured.push(simulate(name, file, command.limit, &variants, &command.retire)?);
        }
    }
    for path in &command.programs {
        let file = std::fs::read(path).map_err(|error| Failure::file(path, &error))?;
        measured.push(simulate(&name_of(path), &file, command.limit, &variants, &command.retire)?);
    }
    let text = if command.json {
        format!("{:#}\n", table::json(&params, &variants, &measured))
    } else {
        table::text(&params, &variants, &measured)
    };
    output.put(|out| out.write_all(text.as_bytes()))?;
    output.finish()?;
    match plot {
        Some(mut output) => {
            output.put(|out| out.write_all(plot::svg(&variants, &measured).as_bytes()))?;
            output.finish()
        }
        None => Ok(()),
    }
}

/// Measures a program that sees no files and no input, and whose output goes nowhere.
fn simulate(
    name: &str,
    file: &[u8],
    limit: u64,
    variants: &[Variant],
    shapes: &[Retirement],
) -> Result<Measured> {
    let options = SimulatorOptions {
        arguments: vec![name.to_owned()],
        streams: Streams::none(),
        host_files: false,
        instructions: limit,
        ..SimulatorOptions::default()
    };
    let mut program = SimulatedProgram::load(Path::new(name), file, options)?;
    Ok(measure(name, &mut program, variants, shapes)?)
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// An encoder of modest size that has every table, changed by what the user says.
fn configuration(settings: &[String]) -> Result<(Params, Options)> {
    let mut params = Params {
        iaddress_width: 64,
        ecause_width: 6,
        bpred_size: 8,
        cache_size: 6,
        f0s_width: 1,
        return_stack_size: 4,
        implicit_return: ImplicitReturn::Returns,
        sijump: 1,
        ..Params::default()
    };
    let mut options = Options::default();
    for setting in settings {
        set(&mut params, &mut options, setting).map_err(|why| Failure::usage(format!("--config: {why}")))?;
    }
    params.validate().map_err(|why| Failure::usage(format!("--config: {why}")))?;
    Ok((params, options))
}

/// Unweighted mean over the programs, as the thesis has it.
fn mean(measured: &[Measured], variant: usize, of: impl Fn(&Measured, usize) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = measured.iter().map(|program| of(program, variant)).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests;
