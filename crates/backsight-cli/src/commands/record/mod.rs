//! `backsight record`: runs a program with a trace unit attached.

mod code;
mod cycles;
mod description;
#[cfg(unix)]
mod emulate;
mod etm4_unit;
mod etrace_unit;
mod filter;
mod hart;
mod ntrace_unit;
mod place;
mod simulate;
mod tracer;
mod unit;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use backsight_capture::events::EventLog;
use backsight_capture::{ContextIdLayout, Format};
use backsight_core::Isa;
use backsight_run::Target;
use clap::{Args, ValueEnum};

use crate::args::parse_number;
use crate::failure::{Failure, Result};
pub use code::Code;
pub use description::{Facts, describe};
pub use place::Place;
pub use tracer::{TRUTH, Tracer};
pub use unit::{UnitArgs, UnitKind};

/// Run a program with a trace unit attached, and write a capture
///
/// Static riscv64 programs run in the built-in simulator. Programs for aarch64 and arm, and riscv64 ones with --qemu,
/// run under QEMU, one trace source for each thread. What the program prints passes through. Ctrl-C ends the program;
/// what it did until then is in the capture. The exit status is that of the recording: 0 when there is a capture,
/// however the program ended; how it ended is shown.
#[derive(Args, Debug)]
pub struct Record {
    /// The capture to write: a folder, or an archive if the name ends in .zip
    #[arg(long, short, value_name = "CAPTURE")]
    output: PathBuf,

    /// What kind of program it is; without it, what its ELF header says
    #[arg(long, value_enum)]
    target: Option<TargetName>,

    #[command(flatten)]
    unit: UnitArgs,

    /// Also write every executed instruction into the capture: `flow --truth` lists them
    #[arg(long)]
    truth: bool,

    /// Format of the capture
    #[arg(long, value_enum, default_value_t)]
    format: CaptureFormat,

    /// Stop after so many instructions
    #[arg(long, value_name = "N", value_parser = parse_number)]
    limit: Option<u64>,

    /// Run a riscv64 program under QEMU too, not in the simulator
    #[arg(long)]
    qemu: bool,

    /// Where a dynamically linked program finds its libraries (QEMU)
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,

    /// The processor to be, by QEMU's name for it
    #[arg(long, value_name = "CPU")]
    cpu: Option<String>,

    /// No summary and no progress
    #[arg(long, short)]
    quiet: bool,

    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TargetName {
    Riscv64,
    Aarch64,
    Arm,
}

/// How a capture is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CaptureFormat {
    /// Trace package: a folder, or a ZIP archive
    #[default]
    Package,
    /// Trace package as a ZIP archive
    Zip,
    /// Snapshot folder, which other decoders read too; it has no event log
    Snapshot,
}

impl CaptureFormat {
    /// The place for a capture of this format and name.
    pub fn place(self, path: &Path) -> Result<Place> {
        let zip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
        match self {
            Self::Zip if !zip => Err(Failure::usage(format!("{}: an archive ends in .zip", path.display()))),
            _ => Place::new(path, self.written()),
        }
    }

    /// What is written; an archive is a package too.
    pub fn written(self) -> Format {
        match self {
            Self::Snapshot => Format::Snapshot,
            Self::Package | Self::Zip => Format::Package,
        }
    }
}

/// How a program ended.
pub struct Ended {
    how: String,
    notes: Vec<String>,
}

impl Record {
    fn path(&self) -> &Path {
        self.program.first().map_or(Path::new(""), Path::new)
    }
}

/// Runs the command.
pub fn run(command: &Record) -> Result {
    let path = command.path();
    let contents = std::fs::read(path).map_err(|error| Failure::file(path, &error))?;
    let target = target(command, &contents)?;
    let unit = command.unit.program(target)?;
    let stop = Arc::new(AtomicBool::new(false));
    let simulated = target == Target::Riscv64 && !command.qemu;
    let loaded = if simulated { Some(simulate::load(command, &contents, &stop)?) } else { None };
    if !simulated {
        check_qemu(target)?;
    }
    let place = command.format.place(&command.output)?;
    let isa = match target {
        Target::Riscv64 => Isa::Rv64,
        Target::Aarch64 => Isa::A64,
        Target::Arm => Isa::A32,
    };
    let made = Tracer::new(&place.folder, &unit, !simulated, command.truth.then_some(isa));
    let mut tracer = match made {
        Ok(tracer) => tracer,
        Err(error) => {
            place.abandon();
            return Err(Failure::new(error));
        }
    };
    catch_interrupts(&stop);
    let started = Instant::now();
    let mut code = Code::new(&place.folder);
    let recorded = match loaded {
        Some(loaded) => simulate::events(path, &contents, &mut code)
            .map(|events| (simulate::run(loaded, command, &mut tracer, &stop), events)),
        None => run_under_qemu(command, &mut tracer, &mut code, &stop),
    };
    let (ended, events) = match recorded {
        Ok(recorded) => recorded,
        Err(failure) => {
            place.abandon();
            return Err(failure);
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    finish(command, place, &mut tracer, &mut code, Recording { target, ended, events, seconds })
}

/// What is known when the program has ended.
struct Recording {
    target: Target,
    ended: Ended,
    events: EventLog,
    seconds: f64,
}

fn finish(
    command: &Record,
    place: Place,
    tracer: &mut Tracer,
    code: &mut Code,
    recording: Recording,
) -> Result {
    let trouble = tracer.finish();
    let dumps = code.finish()?;
    let words: Vec<_> = command.program.iter().map(|word| word.to_string_lossy()).collect();
    let facts = Facts {
        folder: &place.folder,
        format: command.format.written(),
        title: format!("{} ({})", words.join(" "), recording.target),
        core: match recording.target {
            Target::Riscv64 => "",
            Target::Aarch64 => "ARM-AA64",
            Target::Arm => "Cortex-A53",
        },
        events: Some(recording.events),
        contextidr: match recording.target {
            Target::Riscv64 => ContextIdLayout::None,
            Target::Aarch64 | Target::Arm => ContextIdLayout::Tid,
        },
        truth: command.truth,
    };
    let capture = describe(facts, tracer, code, &dumps)?;
    let bytes = capture.buffers.first().and_then(backsight_capture::Buffer::length).unwrap_or(0);
    let sources = capture.sources.len();
    place.finish(&capture)?;
    if !command.quiet {
        let instructions = tracer.instructions();
        eprintln!("{}", recording.ended.how);
        eprintln!(
            "{instructions} instructions of {sources} thread{}, {bytes} bytes of trace ({:.3} bits per instruction), \
             {:.1} million instructions a second",
            if sources == 1 { "" } else { "s" },
            bytes as f64 * 8.0 / (instructions as f64).max(1.0),
            instructions as f64 / 1e6 / recording.seconds.max(1e-9),
        );
        tracer.remarks().iter().for_each(|line| eprintln!("{line}"));
        recording.ended.notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
    match trouble {
        Some(trouble) => Err(Failure::new(format!(
            "{}: recording ended early: {trouble}; what was recorded until then is there",
            command.output.display()
        ))),
        None => Ok(()),
    }
}

/// The kind of program, which its header must agree with.
fn target(command: &Record, contents: &[u8]) -> Result<Target> {
    let path = command.path().display();
    let found = Target::of_elf(contents).ok_or_else(|| {
        Failure::new(format!(
            "{path}: not a program for riscv64, aarch64 or arm (expected a little-endian ELF file)"
        ))
    })?;
    let wanted = match command.target {
        None => found,
        Some(TargetName::Riscv64) => Target::Riscv64,
        Some(TargetName::Aarch64) => Target::Aarch64,
        Some(TargetName::Arm) => Target::Arm,
    };
    if wanted != found {
        return Err(Failure::usage(format!("--target {wanted}: {path} is a program for {found}")));
    }
    Ok(found)
}

/// Ctrl-C, or a request to end, stops the program and finishes the capture; the second one ends us.
fn catch_interrupts(stop: &Arc<AtomicBool>) {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Without a handler the default holds: the recording ends at once.
        let _ = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(stop));
        let _ = signal_hook::flag::register(signal, Arc::clone(stop));
    }
}

#[cfg(unix)]
fn check_qemu(target: Target) -> Result {
    emulate::check(target)
}

#[cfg(unix)]
fn run_under_qemu(
    command: &Record,
    tracer: &mut Tracer,
    code: &mut Code,
    stop: &AtomicBool,
) -> Result<(Ended, EventLog)> {
    emulate::run(command, tracer, code, stop)
}

#[cfg(not(unix))]
fn check_qemu(_: Target) -> Result {
    Err(Failure::new("QEMU runs programs on Linux only"))
}

#[cfg(not(unix))]
fn run_under_qemu(_: &Record, _: &mut Tracer, _: &mut Code, _: &AtomicBool) -> Result<(Ended, EventLog)> {
    Err(Failure::new("QEMU runs programs on Linux only"))
}
