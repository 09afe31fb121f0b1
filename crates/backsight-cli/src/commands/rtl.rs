//! `backsight rtl`: trace hardware in SystemVerilog.

mod etrace;

use std::fmt::Display;
use std::path::PathBuf;

use backsight_arm::etm4::Config;
use backsight_rtl::SourceFile;
use backsight_rtl::etm4::{Form, Options, design};
use clap::{Args, Subcommand, ValueEnum};

use crate::failure::{Failure, Result};
use crate::output::{Inputs, put_files, say};

/// Write trace hardware in SystemVerilog
///
/// The hardware goes by the same tables as the software, and tests simulate both on the same streams. Files are written
/// for Verilator, Icarus Verilog and Yosys alike; a testbench, a Makefile and an example for a small board come along.
#[derive(Args, Debug)]
pub struct Rtl {
    #[command(subcommand)]
    design: Design,
}

#[derive(Subcommand, Debug)]
enum Design {
    Etm4(Etm4),
    Etrace(etrace::Etrace),
}

/// A decoder for ETMv4 and ETE that takes several bytes in every clock cycle
///
/// Frames or bytes of one source go in; packets with complete addresses and timestamps come out, and records of branches,
/// events, exceptions and gaps with their cycles.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Etm4 {
    #[command(flatten)]
    destination: Destination,

    /// How lanes depend on each other: chain is small, prefix keeps its clock with many lanes
    #[arg(long, value_name = "FORM", default_value = "chain")]
    form: FormName,

    /// Bytes a cycle: 1 to 16 for a chain (4 if not given), 8 or 16 for prefix (8)
    #[arg(long, value_name = "N")]
    lanes: Option<u8>,

    /// Configuration of the trace unit: a register or option, as of a bare file; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,
}

/// Where the files of a design go.
#[derive(Args, Debug)]
struct Destination {
    /// The folder to write to, which does not exist yet
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,

    /// The folder may have something in it: files of the same names are replaced, others stay
    #[arg(long)]
    force: bool,

    /// No summary
    #[arg(long, short)]
    quiet: bool,
}

impl Destination {
    /// Writes the files, and says how many there are and what they are for.
    fn put(&self, files: &[SourceFile], words: &dyn Display) -> Result {
        let contents = files.iter().map(|file| (file.name, file.text.as_bytes()));
        put_files(&self.output, self.force, &Inputs::none(), contents)?;
        if !self.quiet {
            say(format_args!("{} files in {}, for {words}", files.len(), self.output.display()));
        }
        Ok(())
    }
}

/// The name of a form.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormName {
    /// One byte after the other within a cycle
    Chain,
    /// Parallel prefix: a tree over the lanes
    Prefix,
}

const EXAMPLES: &str = "Examples:
  backsight rtl etm4 -o decoder
  backsight rtl etm4 -o decoder --form prefix --lanes 16
  backsight rtl etm4 -o decoder --lanes 6 --config version=ETE1.1 --config q_elements=1
  make -C decoder lint";

/// Runs the command.
pub fn run(command: &Rtl) -> Result {
    match &command.design {
        Design::Etm4(command) => etm4(command),
        Design::Etrace(command) => etrace::run(command),
    }
}

fn etm4(command: &Etm4) -> Result {
    let config = config(&command.config)?;
    let (form, usual) = match command.form {
        FormName::Chain => (Form::Chain, 4),
        FormName::Prefix => (Form::Prefix, 8),
    };
    let lanes = command.lanes.unwrap_or(usual);
    let files = design(&Options { lanes, form, config })
        .map_err(|error| Failure::usage(format!("--lanes {lanes}: {error}")))?;
    command.destination.put(&files, &config.words())
}

/// The configuration that settings say, from that of an ETMv4 of which nothing is known.
pub fn config(settings: &[String]) -> Result<Config> {
    let mut config = Config::etm4_default();
    for setting in settings {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(Failure::usage(format!("--config {setting}: KEY=VALUE is expected")));
        };
        config.set(key, value).map_err(|error| Failure::usage(format!("--config {setting}: {error}")))?;
    }
    Ok(config)
}
