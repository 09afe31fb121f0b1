//! `backsight index`: makes moments of a capture reachable.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use backsight::moments::{Identity, Index, SourceIndex};
use backsight::states::Making;
use clap::Args;

use crate::args::{CaptureArgs, ImageArgs};
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::{Inputs, Output, counted, say};

/// Make moments of a capture reachable
///
/// Decodes the capture once and writes down points from which decoding can begin, a few kilobytes apart: `flow --last`, `--around` and
/// `find` then take milliseconds in captures of any length. The file is CAPTURE.index beside the capture; if that cannot be written, or with
/// --cache, it is in the user's cache folder. It is used by itself, as long as capture and code stay what they are; nothing depends on it
/// but time. It takes less than a hundredth of the trace. Of a Tarmac log there is a second file, CAPTURE.states, by which `state`, `gdb` and `dap`
/// have registers and memory at any moment.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct IndexCommand {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// Keep it in the user's cache folder ($XDG_CACHE_HOME or ~/.cache)
    #[arg(long)]
    cache: bool,

    /// Decode several sources on up to N cores; 0, the default, is as many as there are
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,

    /// No summary, no progress, no warnings
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  backsight index capture/
  backsight flow capture/ --around '#4000000000'
  backsight find capture/ --function main --last";

/// Runs the command.
pub fn run(command: &IndexCommand) -> Result {
    let IndexCommand { capture: arguments, images, quiet, .. } = command;
    if arguments.is_standard_input() {
        return Err(Failure::usage("standard input can be read once: it has no index"));
    }
    if !arguments.buffer.is_empty() || !arguments.id.is_empty() {
        return Err(Failure::usage("an index is of a whole capture: leave out --buffer and --id"));
    }
    let capture = arguments.open(images, *quiet)?;
    let decode = arguments.choose(capture.execution(), &capture, *quiet);
    let threads = decode.clone().threads(command.threads).thread_count();
    let states = match capture.log() {
        Some((source, buffer)) => {
            let identity = capture.identity_of_trace()?;
            let making = Making::on(threads);
            let path = keep(command, index_file::STATES, identity, &mut |out| {
                Ok(making.write(&source, buffer, identity, out).map(drop)?)
            })?;
            // What is made next need not read the log for its code.
            drop(index_file::states(arguments, &capture, true));
            Some(path)
        }
        None => None,
    };
    let index = capture.moments().index_of(&decode, threads)?;
    drop(decode);
    let identity = capture.identity()?;
    let bytes = index.to_bytes(identity);
    let path = keep(command, index_file::MOMENTS, identity, &mut |out| {
        out.write_all(&bytes).map_err(|error| Failure::new(error.to_string()))
    })?;
    if !quiet {
        say_what_it_has(&index);
        for path in [path].into_iter().chain(states) {
            let length = fs::metadata(&path).map_or(0, |file| file.len());
            say(format_args!("{}: {}", path.display(), counted(length, "byte")));
        }
    }
    Ok(())
}

/// Writes bytes to something.
type Writing<'w> = &'w mut dyn FnMut(&mut dyn Write) -> Result;

/// Writes an index beside the capture, or into the cache folder. Gives where it is.
fn keep(command: &IndexCommand, ending: &str, identity: Identity, writing: Writing<'_>) -> Result<PathBuf> {
    let IndexCommand { capture: arguments, images, quiet, .. } = command;
    let cached = index_file::in_cache(identity, ending);
    let beside = index_file::beside(&arguments.capture, ending).filter(|_| !command.cache);
    let inputs = arguments.inputs(images);
    match (beside.map(|path| write(&path, writing, &inputs).map(|()| path)), cached) {
        (Some(Ok(path)), _) => Ok(path),
        (failed, Some(path)) => {
            if let (Some(Err(why)), false) = (failed, quiet) {
                say(format_args!("{why}; it goes to the cache folder"));
            }
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
            }
            write(&path, writing, &inputs).map(|()| path)
        }
        (Some(Err(why)), None) => Err(why),
        (None, None) => Err(Failure::new("--cache: neither XDG_CACHE_HOME nor HOME says where that is")),
    }
}

fn write(path: &Path, writing: Writing<'_>, inputs: &Inputs) -> Result {
    let mut output = Output::open(Some(path), inputs)?;
    writing(&mut output)?;
    output.finish()
}

fn say_what_it_has(index: &Index) {
    for SourceIndex { buffer, id, points, end, .. } in &index.sources {
        if end.instructions > 0 || !points.is_empty() {
            let points = counted(points.len() as u64, "point");
            say(format_args!(
                "{buffer}, source {id}: {}, {points}",
                counted(end.instructions, "instruction")
            ));
        }
    }
}
