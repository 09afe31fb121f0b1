//! The arguments that all commands share.

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};
pub use backsight_run::settings::{parse_number, parse_range};

/// What to read, and how.
#[derive(Args, Clone, Debug)]
pub struct CaptureArgs {
    /// Snapshot folder, trace package (folder or ZIP), or a bare file of trace; `-` is standard input
    pub capture: PathBuf,

    /// Protocol of a bare file or of standard input
    #[arg(long, value_name = "P", help_heading = "Capture", value_parser = PROTOCOLS)]
    pub protocol: Option<String>,

    /// How the bytes are framed; overrides what the metadata of a packaged capture says. A bare file is raw (E-Trace:
    /// reference) if nothing is said
    #[arg(long, value_name = "F", help_heading = "Capture", value_parser = FRAMINGS)]
    pub framing: Option<String>,

    /// Configuration of a bare file: a register or option, or a file of them, one a line. May be given several times;
    /// `ID:KEY=VALUE` is for the source with that trace ID only, the rest is for all
    #[arg(long, value_name = "FILE|KEY=VALUE", help_heading = "Capture")]
    pub config: Vec<String>,

    /// The buffer wrapped and its write pointer is lost: find the likeliest start of the trace
    #[arg(long, help_heading = "Capture")]
    pub wrapped: bool,

    /// Only this buffer; may be given several times
    #[arg(long, value_name = "NAME", help_heading = "Capture")]
    pub buffer: Vec<String>,

    /// Only the source with this trace ID, decimal or 0x hexadecimal; may be given several times
    #[arg(long, value_name = "ID", help_heading = "Capture", value_parser = parse_number)]
    pub id: Vec<u64>,
}

/// What every command that writes results takes.
#[derive(Args, Clone, Debug)]
pub struct OutputArgs {
    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// No summary, no progress, no warnings
    #[arg(long, short)]
    pub quiet: bool,

    /// Damage in the trace is a failure: exit status 1
    #[arg(long)]
    pub strict: bool,
}

/// Protocols that a bare file can be said to hold.
pub const PROTOCOLS: [&str; 4] = ["etm4", "ete", "etrace", "ntrace"];

/// Framings that bytes can be said to have. The first row is CoreSight's, the second is of RISC-V trace.
pub const FRAMINGS: [&str; 11] = [
    "raw",
    "coresight",
    "tpiu",
    "tpiu-hsync",
    "dstream", //
    "reference",
    "encap",
    "atb",
    "siemens",
    "esp32",
    "pulp",
];

impl CaptureArgs {
    /// Is this source wanted?
    pub fn wants(&self, id: u8) -> bool {
        self.id.is_empty() || self.id.contains(&u64::from(id))
    }

    /// Refuses IDs that no source can have.
    pub fn check(&self) -> Result {
        match self.id.iter().find(|&&id| id > 0x7F) {
            Some(id) => Err(Failure::usage(format!("--id {id:#x}: trace IDs are 0 to 0x7f"))),
            None => Ok(()),
        }
    }
}
