//! `backsight record`: runs a program with a trace unit attached.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use backsight_capture::ContextIdLayout;
use backsight_run::qemu::{EmulatedProgram, EmulationOptions};
use backsight_run::units::{MessageKind, TracedData};
use backsight_run::{
    Ended, ExecutionSource, Recorded, Recording, SimulatedProgram, Stop, SystemOptions, Target,
};
use backsight_sim::Options;
use backsight_unit::model::ModelConfig;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::parse_number;
use crate::failure::{Failure, Result};
use crate::output::{counted, say};
use crate::progress::Progress;
use crate::recording::{CaptureFormat, SandboxArgs, UnitArgs, in_words};

/// Run a program with a trace unit attached, and write a capture
///
/// Static riscv64 programs run in the built-in simulator. Programs for aarch64 and arm, and riscv64 ones with --qemu,
/// run under QEMU, one trace source for each thread. What the program prints passes through. Ctrl-C, SIGTERM and SIGHUP
/// end the program; what it did until then is in the capture.
///
/// The exit status is that of the program, as with `env` and `time`: its own, or 128 and the number of the signal that
/// ended it; with --limit 0. Where the recording itself fails, the status is 1, or 2 after a wrong use, and a line that
/// begins with `backsight:` says why.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Record {
    /// The capture to write: a folder, or an archive if the name ends in .zip. While it is written it is called
    /// CAPTURE.part, which can be opened too: that is where a recording is after it was killed
    #[arg(long, short, value_name = "CAPTURE")]
    output: PathBuf,

    /// What kind of program it is; without it, what its ELF header says
    #[arg(long, value_parser = PossibleValuesParser::new(Target::ALL.map(Target::name)))]
    target: Option<String>,

    #[command(flatten)]
    unit: UnitArgs,

    /// Also keep what was executed in the capture, beside the trace: `flow --truth` lists it, `encode` traces it again
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "instructions")]
    truth: Option<Truth>,

    /// Model the caches and the branch predictor of the core, one instruction a cycle: the trace has their events (event 0
    /// L1D_CACHE_REFILL, 1 BR_MIS_PRED_RETIRED, 2 L1I_CACHE_REFILL, 3 L1D_CACHE_WB) and, with --config cyclecount=1,
    /// their cycles; event-causes.csv beside it has the instructions that caused them. SETTINGS, with commas between
    /// them: `l1i=` and `l1d=BYTES:WAYS:LINE` (32K:2:64 and 32K:4:64), `predictor=BITS` (2^12 counters of gshare),
    /// `miss=` and `mispredict=CYCLES` that it costs (12 and 8), `delay=CYCLES` until an event reaches the trace unit
    /// (4). Units etm4 and ete
    #[arg(long, value_name = "SETTINGS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    model: Option<ModelConfig>,

    /// Format of the capture
    #[arg(long, value_enum, default_value_t)]
    format: CaptureFormat,

    /// Stop after so many instructions
    #[arg(long, value_name = "N", value_parser = parse_number)]
    limit: Option<u64>,

    /// Record a system: the program, all that it forks and all that they execute, under QEMU, whose threads take turns on
    /// so many CPUs. Each CPU is a trace source, with timestamps and context identifiers; the event log has processes, libraries, threads and
    /// code made at run time as they come and go. Units with timestamps that can be asked for: etm4, ete, ptm, etm3
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Option<u32>,

    /// With --cpus: what CONTEXTIDR holds. `none`: nothing; the log has context switches instead
    #[arg(long, value_enum, value_name = "WHAT", default_value_t, requires = "cpus")]
    contextidr: ContextIds,

    /// With --cpus: where the events of the operating system go, to a log beside the trace or into the trace itself, as
    /// messages of an STM
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, requires = "cpus")]
    events: EventCarrier,

    /// With --cpus: processes and threads have numbers from 1 to N, which are used again when their owners are gone.
    /// Without it, the numbers of this machine
    #[arg(long, value_name = "N", requires = "cpus")]
    pids: Option<NonZeroU32>,

    /// With --cpus: instructions after which a thread goes on on the next CPU
    #[arg(long, value_name = "N", value_parser = parse_number, default_value = "20000", requires = "cpus")]
    slice: u64,

    /// Run a riscv64 program under QEMU too, not in the simulator
    #[arg(long)]
    qemu: bool,

    /// Where a dynamically linked program finds its dynamic linker and libraries (QEMU's -L)
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,

    /// The processor to be, by QEMU's name for it (QEMU's -cpu). Without it, QEMU's own default, which runs what plain
    /// qemu-aarch64, qemu-arm or qemu-riscv64 runs
    #[arg(long, value_name = "CPU")]
    cpu: Option<String>,

    #[command(flatten)]
    sandbox: SandboxArgs,

    /// The plugin that QEMU loads; without it, the file that BACKSIGHT_QEMU_PLUGIN names, or libbacksight_qemu.so beside
    /// this program or, if that is installed, in ../lib/backsight
    #[arg(long, value_name = "FILE")]
    qemu_plugin: Option<PathBuf>,

    /// Replace a capture that is there already, and discard a recording of that name that was interrupted
    #[arg(long)]
    force: bool,

    /// No summary and no progress
    #[arg(long, short)]
    quiet: bool,

    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  backsight record -o run -- ./program 1 2            a static riscv64 program, in the simulator
  backsight record -o run.zip --truth -- ./program    and keep what was really executed
  backsight record -o run --unit ntrace --config timestamps=1 -- ./program
  backsight record -o run --model --config cyclecount=1 -- ./arm-program
  backsight record -o run --unit etm3,stm --config data=both -- ./arm-program
  backsight record -o run --sysroot /usr/aarch64-linux-gnu -- ./arm-program
  backsight record -o run --allow-read ./data -- ./program data/x     what it may read, and nothing else
  backsight record -o run --cpus 2 --contextidr asid --pids 8 -- ./arm-program-that-forks
  backsight record -o run --cpus 2 --events stm -- ./arm-program-that-forks";

/// What is kept beside the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Truth {
    /// Every instruction
    Instructions,
    /// And its loads and stores with their values, and what comes from outside: results of system calls and the memory
    /// that they write, time, registers that the system sets
    Accesses,
}

/// What carries the events of the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum EventCarrier {
    /// The event log of the package
    #[default]
    Log,
    /// An STM whose trace is in one buffer with that of the CPUs
    Stm,
}

/// What an operating system writes to CONTEXTIDR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ContextIds {
    /// The number of the thread
    #[default]
    Tid,
    /// The number of the process
    Pid,
    /// The identifier of the address space, 8 bits
    Asid,
    /// That, and the number of the process above it
    AsidPid,
    /// That, and the number of the thread above it
    AsidTid,
    /// Nothing
    None,
}

impl From<ContextIds> for ContextIdLayout {
    fn from(ids: ContextIds) -> Self {
        match ids {
            ContextIds::Tid => Self::Tid,
            ContextIds::Pid => Self::Pid,
            ContextIds::Asid => Self::Asid,
            ContextIds::AsidPid => Self::AsidPid,
            ContextIds::AsidTid => Self::AsidTid,
            ContextIds::None => Self::None,
        }
    }
}

impl Record {
    /// The system that is recorded, if it is one.
    fn system(&self) -> Option<SystemOptions> {
        Some(SystemOptions {
            cpus: NonZeroU32::new(self.cpus?)?,
            contextidr: self.contextidr.into(),
            numbers: self.pids,
            slice: self.slice.max(1),
        })
    }

    fn path(&self) -> &Path {
        self.program.first().map_or(Path::new(""), Path::new)
    }
}

/// Runs the command.
pub fn run(command: &Record) -> Result {
    let path = command.path();
    let contents = std::fs::read(path).map_err(|error| Failure::file(path, &error))?;
    let target = target(command, &contents)?;
    let mut unit = command.unit.program(target.first_isa(), target.name())?;
    if let Some(model) = command.model {
        unit = unit.modelled(model).ok_or_else(|| {
            Failure::usage("--model: only the units etm4 and ete, for aarch64 and arm programs, write events")
        })?;
    }
    let system = command.system();
    if let Some(system) = &system {
        if command.format == CaptureFormat::Snapshot {
            return Err(Failure::usage("--cpus: a snapshot has no event log; a trace package has"));
        }
        unit = unit.for_system(system.contextidr != ContextIdLayout::None).ok_or_else(|| {
            let why = "--cpus: events are placed by timestamps that the unit writes when it is asked to";
            Failure::usage(format!("{why}: etm4, ete, ptm and etm3 do, without --model"))
        })?;
    }
    let traced = unit.traced_data();
    let words: Vec<_> = command.program.iter().map(|word| word.to_string_lossy()).collect();
    let messages = command.unit.messages()?;
    let events_in_trace = command.events == EventCarrier::Stm;
    if events_in_trace && messages == Some(MessageKind::Itm) {
        return Err(Failure::usage("--events stm: an STM takes the messages then, as in --unit etm4,stm"));
    }
    let simulated = target == Target::Riscv64 && !command.qemu && system.is_none();
    let recording = Recording::new(unit)
        .messages(messages)
        .system(system)
        .events_in_trace(events_in_trace)
        .title(format!("{} ({target})", words.join(" ")))
        .format(command.format.written(&command.output)?)
        .truth(command.truth.is_some())
        .limit(command.limit.unwrap_or(u64::MAX))
        .replace(command.force);
    let data = command.truth == Some(Truth::Accesses);
    if simulated {
        let Some(arguments) = texts(&command.program) else {
            let why = "the simulator takes only arguments that are UTF-8 text: run the program with --qemu";
            return Err(Failure::new(why));
        };
        let options = Options {
            arguments,
            instructions: command.limit.unwrap_or(u64::MAX),
            sandbox: command.sandbox.of(path)?,
            ..Options::default()
        };
        let program = SimulatedProgram::load(path, &contents, options)?;
        let mut program = if data { program.with_data() } else { program };
        return record(command, recording, &mut program);
    }
    command.sandbox.check_emulated(path)?;
    let options = EmulationOptions {
        program: path.to_owned(),
        arguments: command.program.iter().skip(1).cloned().collect(),
        sysroot: command.sysroot.clone(),
        cpu: command.cpu.clone(),
        plugin: command.qemu_plugin.clone(),
        memory: traced != TracedData::None,
        values: data || traced == TracedData::Values,
        inputs: data,
        output: messages.is_some(),
        children: system.is_some(),
        ..EmulationOptions::default()
    };
    record(command, recording, &mut EmulatedProgram::new(options)?)
}

/// The program and its arguments, if all of them are text.
fn texts(words: &[OsString]) -> Option<Vec<String>> {
    words.iter().map(|word| Some(word.to_str()?.to_owned())).collect()
}

fn record(command: &Record, recording: Recording, source: &mut dyn ExecutionSource) -> Result {
    let signals = Signals::catch(&source.stop());
    let started = Instant::now();
    let progress = Progress::instructions(command.limit, command.quiet);
    let mut shown = 0;
    let recorded = recording.record(source, &command.output, &mut |instructions| {
        progress.add(instructions - shown);
        shown = instructions;
    });
    drop(progress);
    let recorded = recorded?;
    if !command.quiet {
        summarise(command, &recorded, started.elapsed().as_secs_f64());
    }
    if let Some(why) = recorded.cut_short {
        return Err(Failure::new(format!(
            "{}: recording ended early: {why}; what was recorded until then is there",
            command.output.display()
        )));
    }
    match exit_status(&recorded.ending.ended, signals.last()) {
        Some(0) => Ok(()),
        Some(status) => Err(Failure::Status(status)),
        None => Err(Failure::new(format!("{}: {}", command.path().display(), recorded.ending.ended))),
    }
}

fn summarise(command: &Record, recorded: &Recorded, seconds: f64) {
    let Recorded { ending, instructions, threads, bytes, .. } = recorded;
    say(ending.ended);
    say(format_args!(
        "{} of {}, {} of trace ({:.3} bits per instruction), {:.1} million instructions a second",
        counted(*instructions, "instruction"),
        counted(*threads as u64, if command.cpus.is_some() { "CPU" } else { "thread" }),
        counted(*bytes, "byte"),
        *bytes as f64 * 8.0 / (*instructions as f64).max(1.0),
        *instructions as f64 / 1e6 / seconds.max(1e-9),
    ));
    in_words(&recorded.figures).iter().for_each(say);
    ending.notes.iter().for_each(|note| say(format_args!("note: {note}")));
    say(format_args!("to see what it did: backsight flow {} --calls", command.output.display()));
}

/// The kind of program, which its header must agree with.
fn target(command: &Record, contents: &[u8]) -> Result<Target> {
    let path = command.path().display();
    let found = Target::of_elf(contents)
        .ok_or_else(|| Failure::new(format!("{path}: {}", Target::refusal(contents))))?;
    match &command.target {
        Some(wanted) if wanted != found.name() => {
            Err(Failure::usage(format!("--target {wanted}: {path} is a program for {found}")))
        }
        _ => Ok(found),
    }
}

/// The status of a program, as a shell has it; `None` if it cannot end. `signal` is what we were asked to stop by.
fn exit_status(ended: &Ended, signal: Option<i32>) -> Option<u8> {
    let killed_by = |signal: i32| 128 + (signal & 0x7F) as u8;
    match ended {
        Ended::Status(status) => Some(*status as u8),
        Ended::Signal(signal) => Some(killed_by(*signal)),
        Ended::Fault(fault) => Some(killed_by(fault.signal().into())),
        Ended::Stopped => Some(signal.map_or(0, killed_by)),
        Ended::Limit | Ended::EndOfFile => Some(0),
        Ended::Deadlock => None,
    }
}

/// The signals that stop the program and finish the capture.
struct Signals {
    last: Arc<AtomicUsize>,
}

impl Signals {
    /// Ctrl-C, a request to end, or a terminal that is gone. The second Ctrl-C ends us; of the others several may come at
    /// once.
    fn catch(stop: &Stop) -> Self {
        let last = Arc::new(AtomicUsize::new(0));
        // Without a handler the default holds: the recording ends at once, and can be opened.
        let _ = signal_hook::flag::register_conditional_shutdown(SIGINT, 128 + SIGINT, stop.flag());
        for signal in
            [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP))
        {
            let number = usize::try_from(signal).unwrap_or(0);
            let _ = signal_hook::flag::register_usize(signal, Arc::clone(&last), number);
            let _ = signal_hook::flag::register(signal, stop.flag());
        }
        Self { last }
    }

    fn last(&self) -> Option<i32> {
        i32::try_from(self.last.load(Ordering::Relaxed)).ok().filter(|signal| *signal != 0)
    }
}

/// Are we told to ignore a signal, as `nohup` does?
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 != 0
}
