//! `backsight gdb`: walks through a capture with gdb.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backsight::Capture;
use backsight::decode::{Decode, Execution};
use backsight::moments::{Moment, Moments};
use backsight_debug::gdb::{arguments, commands, listen, quoted, serve};
use backsight_debug::replay::{Replay, Scheduler};
use clap::{Args, ValueEnum};

use crate::args::{CaptureArgs, ImageArgs};
use crate::data::DataArgs;
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::{Output, say};

/// Walk through a capture with gdb: step, run and look at calls, forwards and backwards
///
/// Starts gdb with this capture, and stands at the end of the trace. Code, constants, source lines and calls are known; registers and memory
/// where a recording with loads and stores is there (`record --truth=accesses`). `monitor help` says what else there is.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Gdb {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    #[command(flatten)]
    data: DataArgs,

    /// Begin at this moment: #INSTRUCTION, start, end-INSTRUCTIONS, tTIMESTAMP, a time as in 3.2s, or @POSITION
    #[arg(long, value_name = "MOMENT", default_value = "end")]
    at: Moment,

    /// What moves when one source is stepped through: all sources, to the same time, or it alone
    #[arg(long, value_name = "WHAT", default_value = "time")]
    scheduler: Moving,

    /// Serve the protocol on standard input and output, for `target remote | backsight gdb CAPTURE --stdio`
    #[arg(long, group = "how")]
    stdio: bool,

    /// Wait for a debugger at this port of this machine, and serve it; 0 is any free port
    #[arg(long, value_name = "PORT", group = "how")]
    port: Option<u16>,

    /// Write the commands that gdb is started with, and start nothing
    #[arg(long, group = "how")]
    print_commands: bool,

    /// The gdb to start; without it, gdb-multiarch or gdb
    #[arg(long, value_name = "PROGRAM")]
    gdb: Option<PathBuf>,

    /// Use up to N threads to look for breakpoints; 0 is as many as the machine has cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,

    /// No progress, no warnings
    #[arg(long, short)]
    quiet: bool,

    /// Set once nobody waits for the index any more.
    #[arg(skip)]
    pub(super) stop: Option<Arc<AtomicBool>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Moving {
    Time,
    Alone,
}

const EXAMPLES: &str = "Examples:
  backsight gdb capture/
  backsight gdb capture/ --at '#4000000'
  backsight gdb capture/ --data run.retired
  backsight gdb capture/ --port 3333        then, in a gdb: target remote :3333
  backsight gdb capture/ --print-commands > walk.gdb";

/// Runs the command.
pub fn run(command: &Gdb) -> Result {
    match command {
        Gdb { stdio: true, .. } => {
            serve_walk(command, |replay| Ok(serve(replay, std::io::stdin(), std::io::stdout().lock())?))
        }
        &Gdb { port: Some(port), .. } => serve_walk(command, |replay| serve_port(command, replay, port)),
        Gdb { print_commands: true, .. } => {
            let inputs = command.data.inputs(command.capture.inputs(&command.images));
            let mut output = Output::open(None, &inputs)?;
            output.put_lines(commands(&connect()?).as_bytes())?;
            Ok(output.finish()?)
        }
        _ => start(command),
    }
}

/// Serves a walk that stands where the user wants to begin.
pub(super) fn serve_walk(command: &Gdb, serve: impl FnOnce(&mut Replay<'_>) -> Result) -> Result {
    if command.capture.is_standard_input() {
        return Err(Failure::usage("standard input can be read once only: a debugger goes back and forth"));
    }
    let capture = command.capture.open(&command.images, command.quiet)?;
    command.capture.check_buffers(&capture)?;
    let decode = command.capture.choose(capture.execution(), &capture, true);
    let moments = indexed(command, &capture, &decode)?;
    let replay = Replay::new(&capture, &moments, &decode)?;
    let mut replay = command.data.give(replay, &command.capture, command.quiet)?;
    if command.scheduler == Moving::Alone {
        replay.set_scheduler(Scheduler::Alone);
    }
    if command.threads > 0 {
        replay.set_cores(command.threads);
    }
    if command.at != Moment::END && !replay.go_to(replay.current(), command.at)? {
        let (at, name) = (command.at, capture.name());
        return Err(Failure::new(format!("--at {at}: the source of {name} does not come to that moment")));
    }
    serve(&mut replay)
}

/// The moments by an index that knows all sources: that of a file, or one that is made now.
fn indexed<'c>(command: &Gdb, capture: &'c Capture, decode: &Decode<'c, Execution>) -> Result<Moments<'c>> {
    let moments = index_file::moments(&command.capture, capture, command.quiet);
    let is_known = |index: &backsight::moments::Index| {
        Ok::<_, Failure>(decode.sources()?.iter().all(|source| index.source(source).is_some()))
    };
    if let Some(index) = moments.known_index()
        && is_known(index)?
    {
        return Ok(moments);
    }
    let with_progress = command.capture.choose(capture.execution(), capture, command.quiet || command.stdio);
    let with_progress = command.stop.iter().fold(with_progress, |decode, flag| decode.stop_on(flag.clone()));
    let index = capture.moments().index_of(&with_progress, command.threads)?;
    if command.stop.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
        return Err(Failure::new("it was interrupted while an index was made"));
    }
    Ok(capture.moments().with_index(Arc::new(index)))
}

fn serve_port(command: &Gdb, replay: &mut Replay<'_>, port: u16) -> Result {
    let stream = listen(port, |port| {
        if !command.quiet {
            say(format_args!("waiting at port {port} of this machine: target remote :{port}"));
        }
    });
    let stream = stream.map_err(|error| Failure::new(format!("--port {port}: {error}")))?;
    let input = stream.try_clone().map_err(|error| Failure::new(format!("--port {port}: {error}")))?;
    Ok(serve(replay, input, stream)?)
}

/// How gdb comes to this program: by a pipe, with the same arguments.
fn connect() -> Result<String> {
    let program = std::env::current_exe().map_err(|error| Failure::new(format!("this program: {error}")))?;
    let mut words = vec![program.to_string_lossy().into_owned()];
    for argument in std::env::args().skip(1) {
        if argument != "--print-commands" {
            words.push(argument);
        }
    }
    words.push("--stdio".to_owned());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    Ok(format!("target remote | {}", words.join(" ")))
}

/// Starts gdb, which takes the place of this program.
fn start(command: &Gdb) -> Result {
    // What is wrong is said here, and not by gdb.
    drop(command.capture.open(&command.images, true)?);
    command.data.check()?;
    let known = [Path::new("gdb-multiarch"), Path::new("gdb")];
    let programs = command.gdb.iter().map(PathBuf::as_path).chain(known);
    let limit = if command.gdb.is_some() { 1 } else { known.len() };
    let mut last = None;
    for program in programs.take(limit) {
        let mut gdb = Command::new(program);
        gdb.arg("-q").args(arguments(&connect()?));
        match replace_by(&mut gdb) {
            Ok(status) => return if status { Ok(()) } else { Err(Failure::Status(1)) },
            Err(error) => last = Some(format!("{}: {error}", program.display())),
        }
    }
    let why = last.unwrap_or_default();
    Err(Failure::new(format!(
        "{why}: no gdb can be started; install gdb-multiarch, name one with --gdb, or serve one with --port"
    )))
}

/// Runs a program in place of this one. Gives whether it ended well where that cannot be done.
#[cfg(unix)]
fn replace_by(command: &mut Command) -> std::io::Result<bool> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec())
}

#[cfg(not(unix))]
fn replace_by(command: &mut Command) -> std::io::Result<bool> {
    command.status().map(|status| status.success())
}
