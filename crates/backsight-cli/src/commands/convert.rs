//! `backsight convert`: from one kind of capture to another.

use std::path::PathBuf;

use backsight_capture::Format as CaptureFormat;
use clap::{Args, ValueEnum};

use crate::args::CaptureArgs;
use crate::failure::{Failure, Result};
use crate::plan::Plan;

/// Turn one kind of capture into another
///
/// Reads a snapshot, a trace package or a bare file and writes a snapshot folder or a trace package, with all the
/// metadata that the new format can hold. What it cannot hold is said on standard error.
#[derive(Args, Debug)]
pub struct Convert {
    #[command(flatten)]
    capture: CaptureArgs,

    /// Where to write; a name that ends in .zip makes an archive
    #[arg(long, short, value_name = "PATH")]
    output: PathBuf,

    /// What to write
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// No summary, no warnings
    #[arg(long, short)]
    quiet: bool,
}

/// Kinds of capture that can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A trace package
    #[default]
    Package,
    /// A snapshot folder, as OpenCSD's tools read it
    Snapshot,
}

/// Runs the command.
pub fn run(command: &Convert) -> Result {
    let plan = Plan::new(&command.capture, command.quiet)?;
    let mut capture = plan.capture;
    if !command.capture.buffer.is_empty() {
        capture.keep_buffers(|buffer| command.capture.buffer.contains(&buffer.name));
    }
    for (buffer, planned) in capture.buffers.iter_mut().zip(&plan.buffers) {
        buffer.framing = planned.framing;
    }
    let format = match command.format {
        Format::Package => CaptureFormat::Package,
        Format::Snapshot => CaptureFormat::Snapshot,
    };
    let lost = capture.save(&command.output, format).map_err(Failure::new)?;
    if !command.quiet {
        for what in &lost {
            eprintln!("warning: {what}");
        }
        let (buffers, sources) = (capture.buffers.len(), capture.sources.len());
        eprintln!("{}: {buffers} buffers, {sources} sources", command.output.display());
    }
    Ok(())
}
