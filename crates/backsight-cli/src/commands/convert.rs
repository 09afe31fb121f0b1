//! `backsight convert`: from one kind of capture to another.

use std::path::PathBuf;

use backsight::description::whole::is_taken;
use backsight::description::{Format as CaptureFormat, Note};
use clap::{Args, ValueEnum};

use crate::args::{CaptureArgs, FileArgs, ImageArgs};
use crate::failure::{Failure, Result};
use crate::output::say;

/// Turn one kind of capture into another
///
/// Reads a snapshot, a trace package, perf.data, an ELF core file or a bare file and writes a snapshot folder, a trace
/// package or a core file, with all the metadata that the new format can hold. What it cannot hold is said on standard error. Programs that the
/// capture names and that --symfs or --host-files lead to go into the package; every file that is copied is listed on
/// standard error. The sources of a bare file are the trace IDs in its frames.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Convert {
    #[command(flatten)]
    capture: CaptureArgs,

    /// Where to write, a place that does not exist yet; a name that ends in .zip makes an archive
    #[arg(long, short, value_name = "PATH")]
    output: PathBuf,

    /// Replace a capture that is there already
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    files: FileArgs,

    /// What to write
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// No summary, no warnings
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  backsight convert snapshot/ --output package.zip
  backsight convert package.zip --output snapshot/ --format snapshot
  backsight convert package.zip --output program.core --format core
  backsight convert perf.data --symfs rootfs/ --output package.zip
  backsight convert trace.bin --protocol etm4 --framing tpiu --config registers.txt \\
      --config 0x11:TRCCONFIGR=0x1 --output package/";

/// Kinds of capture that can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A trace package
    #[default]
    Package,
    /// A snapshot folder, as OpenCSD's tools read it
    Snapshot,
    /// An ELF core file whose sections are the files of a trace package
    Core,
}

/// Runs the command.
pub fn run(command: &Convert) -> Result {
    if command.output.as_os_str() == "-" {
        return Err(Failure::usage("--output -: a capture is written to a folder or a .zip file"));
    }
    if !command.capture.id.is_empty() {
        return Err(Failure::usage("--id: a capture is converted with all its sources; choose later"));
    }
    check_place(command)?;
    let images = ImageArgs { files: command.files.clone(), ..ImageArgs::default() };
    let mut capture = command.capture.open(&images, command.quiet)?;
    let chosen = &command.capture.buffer;
    command.capture.check_buffers(&capture)?;
    capture.keep_buffers(|name| chosen.is_empty() || chosen.iter().any(|wanted| wanted == name));
    let format = match command.format {
        Format::Package => CaptureFormat::Package,
        Format::Snapshot => CaptureFormat::Snapshot,
        Format::Core => CaptureFormat::ElfCore,
    };
    let notes = match command.force {
        true => capture.replace(&command.output, format)?,
        false => capture.save(&command.output, format)?,
    };
    if !command.quiet {
        for note in &notes {
            match note {
                Note::Copied { .. } => say(format_args!("copied: {note}")),
                Note::Lost(what) => say(format_args!("warning: {what}")),
            }
        }
        capture.code()?.warnings().iter().for_each(|what| say(format_args!("warning: {what}")));
        say(format_args!("to see what it holds: backsight info {}", command.output.display()));
    }
    Ok(())
}

/// Refuses a place that is read or taken, before anything is done.
fn check_place(command: &Convert) -> Result {
    command.capture.inputs(&ImageArgs::default()).refuse_folder(&command.output)?;
    match !command.force && is_taken(&command.output) {
        true => Err(Failure::new(format!(
            "{}: exists; choose another name, or replace it with --force",
            command.output.display()
        ))),
        false => Ok(()),
    }
}
