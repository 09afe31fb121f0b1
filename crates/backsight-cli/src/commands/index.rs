//! `backsight index`: makes moments of a capture reachable.

use std::fs;
use std::path::Path;

use backsight::moments::{Index, SourceIndex};
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
/// but time. It takes less than a hundredth of the trace.
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
    let identity = capture.identity()?;
    let decode = arguments.choose(capture.execution(), &capture, *quiet);
    let threads = decode.clone().threads(command.threads).thread_count();
    let index = capture.moments().index_of(&decode, threads)?;
    drop(decode);
    let bytes = index.to_bytes(identity);
    let cached = index_file::in_cache(identity);
    let beside = index_file::beside(&arguments.capture).filter(|_| !command.cache);
    let inputs = arguments.inputs(images);
    let written = match (beside.map(|path| write(&path, &bytes, &inputs).map(|()| path)), cached) {
        (Some(Ok(path)), _) => path,
        (failed, Some(path)) => {
            if let (Some(Err(why)), false) = (failed, quiet) {
                say(format_args!("{why}; it goes to the cache folder"));
            }
            write_cached(&path, &bytes, &inputs)?;
            path
        }
        (Some(Err(why)), None) => return Err(why),
        (None, None) => {
            return Err(Failure::new("--cache: neither XDG_CACHE_HOME nor HOME says where that is"));
        }
    };
    if !quiet {
        say_what_it_has(&index);
        say(format_args!("{}: {}", written.display(), counted(bytes.len() as u64, "byte")));
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8], inputs: &Inputs) -> Result {
    let mut output = Output::open(Some(path), inputs)?;
    output.put(|out| out.write_all(bytes))?;
    output.finish()
}

fn write_cached(path: &Path, bytes: &[u8], inputs: &Inputs) -> Result {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
    }
    write(path, bytes, inputs)
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
