//! Running a program.

use crate::blocks::Blocks;
use crate::elf::{Elf, ElfError};
use crate::fault::Fault;
use crate::hart::Hart;
use crate::hart::run::{Bounds, run};
use crate::linux::{Kernel, Missing, Refused, Sandbox, Streams};
use crate::observer::{Items, Observer, Watch};
use crate::recorder::Recorder;
use backsight_core::{Context, Execution};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How a program is run.
pub struct Options {
    /// The program's name, then its arguments.
    pub arguments: Vec<String>,
    /// The environment, as `NAME=VALUE`.
    pub variables: Vec<String>,
    /// Where its standard streams go.
    pub streams: Streams,
    /// It may use files of the host.
    pub host_files: bool,
    /// Only those that this allows; without it, all that this process may use.
    pub sandbox: Option<Sandbox>,
    /// What time it sees.
    pub clock: Clock,
    /// Bytes of memory that it may touch.
    pub memory: u64,
    /// Instructions after which [`Simulator::run`] returns; it can be called again with more.
    pub instructions: u64,
    /// Set it from anywhere (a Ctrl-C handler, say) to make [`Simulator::run`] return soon.
    pub interrupt: Arc<AtomicBool>,
}

impl Default for Options {
    /// No arguments, streams and files of this process, repeatable time, 2 GiB, no limit.
    fn default() -> Self {
        Self {
            arguments: vec!["program".to_owned()],
            variables: Vec::new(),
            streams: Streams::inherited(),
            host_files: true,
            sandbox: None,
            clock: Clock::Instructions,
            memory: 2 << 30,
            instructions: u64::MAX,
            interrupt: Arc::default(),
        }
    }
}

/// What time a program sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Always the same: a fixed date, and one nanosecond per instruction.
    #[default]
    Instructions,
    /// The host's.
    Host,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The program ended with this status.
    Status(u8),
    /// A signal ended the program.
    Signal(u8),
    /// An instruction could not be executed.
    Fault(Fault),
    /// As many instructions as allowed were executed.
    Limit,
    /// [`Options::interrupt`] was set.
    Interrupted,
    /// All threads wait for something that cannot happen: for each other, or for a signal that nobody sends.
    Deadlock,
    /// A [replay](crate::Replay) has no more values.
    EndOfRecording,
}

impl Exit {
    /// The status a shell would show; `None` if the program did not end.
    pub fn status(&self) -> Option<u8> {
        match self {
            Self::Status(status) => Some(*status),
            Self::Signal(signal) => Some(128 + signal),
            Self::Fault(fault) => Some(128 + fault.signal()),
            Self::Limit | Self::Interrupted | Self::Deadlock | Self::EndOfRecording => None,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "ended with status {status}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::Fault(fault) => write!(f, "{fault}"),
            Self::Limit => f.write_str("the instruction limit was reached"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Deadlock => f.write_str("all threads wait for something that cannot happen"),
            Self::EndOfRecording => f.write_str("the recording ended"),
        }
    }
}

/// A program that runs in simulated memory under a simulated kernel.
pub struct Simulator {
    hart: Hart,
    blocks: Blocks,
    kernel: Kernel,
    limit: u64,
    interrupt: Arc<AtomicBool>,
    bias: u64,
    /// The result of a system call is missing from a recording.
    unfinished: bool,
    /// How the program ended.
    ended: Option<Exit>,
}

impl Simulator {
    /// Loads a statically linked RV64 program.
    pub fn load(file: &[u8], options: Options) -> Result<Self, ElfError> {
        let elf = Elf::parse(file)?;
        let limit = options.instructions;
        let interrupt = Arc::clone(&options.interrupt);
        let (kernel, hart) = Kernel::load(&elf, options)?;
        let blocks = Blocks::default();
        Ok(Self { hart, blocks, kernel, limit, interrupt, bias: elf.bias, unfinished: false, ended: None })
    }

    /// Runs; every instruction that retires goes to `sink`. The first item is the context.
    pub fn run(&mut self, sink: &mut impl FnMut(Execution)) -> Exit {
        self.observe(Watch::default(), &mut Items(sink))
    }

    /// Like [`run`](Self::run), and the loads and stores of each instruction follow it.
    pub fn run_with_accesses(&mut self, sink: &mut impl FnMut(Execution)) -> Exit {
        self.observe(Watch { accesses: true, external: false }, &mut Items(sink))
    }

    /// Like [`run`](Self::run), and the observer receives all that there is to see.
    pub fn observe(&mut self, watch: Watch, observer: &mut impl Observer) -> Exit {
        if let Some(exit) = self.ended {
            return exit;
        }
        if watch.external {
            self.kernel.watch_external();
        }
        let bounds = Bounds { instructions: self.limit, interrupt: &self.interrupt };
        let Self { hart, blocks, kernel, .. } = self;
        let exit = if watch.accesses {
            run::<true, _>(hart, blocks, kernel, &bounds, observer)
        } else {
            run::<false, _>(hart, blocks, kernel, &bounds, observer)
        };
        self.end(exit)
    }

    /// Like [`run`](Self::run), and every value that [`Replay`](crate::Replay) needs goes to `value`. Whether they are
    /// enough says [`is_replayable`](Self::is_replayable) afterwards.
    pub fn record(&mut self, value: &mut impl FnMut(u64), sink: &mut impl FnMut(Execution)) -> Exit {
        if let Some(exit) = self.ended {
            return exit;
        }
        let bounds = Bounds { instructions: self.limit, interrupt: &self.interrupt };
        let mut recorder = Recorder { kernel: &mut self.kernel, value, unfinished: &mut self.unfinished };
        let exit =
            run::<false, _>(&mut self.hart, &mut self.blocks, &mut recorder, &bounds, &mut Items(sink));
        self.end(exit)
    }

    /// A program that has ended stays so.
    fn end(&mut self, exit: Exit) -> Exit {
        self.ended = (!matches!(exit, Exit::Limit | Exit::Interrupted)).then_some(exit);
        exit
    }

    /// Can [`Replay`](crate::Replay) repeat what has run so far? It cannot repeat threads, signal handlers, and code that is
    /// not in the program's file.
    pub fn is_replayable(&self) -> bool {
        self.kernel.is_replayable()
    }

    /// Allows this many instructions, counted from the start of the program.
    pub fn set_limit(&mut self, instructions: u64) {
        self.limit = instructions;
    }

    /// The registers of the thread that runs.
    pub fn hart(&self) -> &Hart {
        &self.hart
    }

    /// What is in the program's memory. False: some of it is not there, or may not be read.
    pub fn read_memory(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.kernel.read_memory(address, bytes)
    }

    /// The number that the program knows the thread by that runs.
    pub fn tid(&self) -> u32 {
        self.kernel.tid()
    }

    /// Instructions retired so far, by all threads.
    pub fn retired(&self) -> u64 {
        self.hart.retired
    }

    /// How far the program was moved from the addresses in its file: 0 unless it is position-independent.
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// System calls that the program made and that are not implemented (they fail with `ENOSYS`): their numbers,
    /// and how often.
    pub fn unknown_system_calls(&self) -> &BTreeMap<u64, u64> {
        self.kernel.unknown()
    }

    /// All that the program asked for and that is not implemented, in words.
    pub fn missing(&self) -> Vec<Missing> {
        self.kernel.missing()
    }

    /// What the sandbox refused.
    pub fn refused(&self) -> Vec<Refused> {
        self.kernel.refused()
    }
}

/// User mode.
pub(crate) const USER: Context = Context::riscv(0, true);
