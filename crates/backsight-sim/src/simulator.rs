//! Running a program.

use crate::blocks::Blocks;
use crate::elf::{Elf, ElfError};
use crate::environment::{After, Environment};
use crate::fault::{Cause, Fault};
use crate::hart::Hart;
use crate::hart::execute::{Bounds, run};
use crate::linux::{Kernel, Streams};
use crate::memory::Memory;
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
    /// A signal that the program sent to itself ended it.
    Signal(u8),
    /// An instruction could not be executed.
    Fault(Fault),
    /// As many instructions as allowed were executed.
    Limit,
    /// [`Options::interrupt`] was set.
    Interrupted,
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
            Self::Limit | Self::Interrupted | Self::EndOfRecording => None,
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
            Self::EndOfRecording => f.write_str("the recording ended"),
        }
    }
}

/// Memory and kernel of a process.
pub(crate) struct Process {
    memory: Memory,
    kernel: Kernel,
}

impl Environment for Process {
    #[inline(always)]
    fn load<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Cause> {
        self.memory.load(address)
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Result<(), Cause> {
        self.memory.store(address, bytes)
    }

    fn check_store(&mut self, address: u64) -> Result<(), Cause> {
        self.memory.check_store(address)
    }

    fn fetch(&mut self, address: u64) -> Result<u16, Cause> {
        self.memory.fetch(address)
    }

    fn time(&mut self, hart: &Hart) -> Result<u64, Cause> {
        Ok(self.kernel.ticks(hart.retired))
    }

    fn system_call(&mut self, hart: &mut Hart) -> Result<After, Cause> {
        Ok(self.kernel.call(&mut self.memory, hart))
    }
}

/// Writes down every value that enters the hart.
struct Recorder<'a, F> {
    process: &'a mut Process,
    note: &'a mut F,
}

impl<F: FnMut(u64)> Environment for Recorder<'_, F> {
    #[inline(always)]
    fn load<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Cause> {
        let bytes = self.process.load::<N>(address)?;
        let mut value = [0; 8];
        value[..N].copy_from_slice(&bytes);
        (self.note)(u64::from_le_bytes(value));
        Ok(bytes)
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Result<(), Cause> {
        self.process.store(address, bytes)
    }

    fn check_store(&mut self, address: u64) -> Result<(), Cause> {
        self.process.check_store(address)
    }

    fn fetch(&mut self, address: u64) -> Result<u16, Cause> {
        self.process.fetch(address)
    }

    fn time(&mut self, hart: &Hart) -> Result<u64, Cause> {
        let time = self.process.time(hart)?;
        (self.note)(time);
        Ok(time)
    }

    fn system_call(&mut self, hart: &mut Hart) -> Result<After, Cause> {
        let after = self.process.system_call(hart)?;
        if !matches!(after, After::Exit(_)) {
            (self.note)(hart.x(10));
        }
        Ok(after)
    }
}

/// A program that runs in simulated memory under a simulated kernel.
pub struct Simulator {
    hart: Hart,
    blocks: Blocks,
    process: Process,
    limit: u64,
    interrupt: Arc<AtomicBool>,
    started: bool,
}

impl Simulator {
    /// Loads a statically linked RV64 program.
    pub fn load(file: &[u8], options: Options) -> Result<Self, ElfError> {
        let elf = Elf::parse(file)?;
        let limit = options.instructions;
        let interrupt = Arc::clone(&options.interrupt);
        let (kernel, memory, hart) = Kernel::load(&elf, options)?;
        let process = Process { memory, kernel };
        Ok(Self { hart, blocks: Blocks::default(), process, limit, interrupt, started: false })
    }

    /// Runs; every instruction that retires goes to `sink`. The first item is the context.
    pub fn run(&mut self, sink: &mut impl FnMut(Execution)) -> Exit {
        self.start(sink);
        let bounds = Bounds { instructions: self.limit, interrupt: &self.interrupt };
        run::<false, _>(&mut self.hart, &mut self.blocks, &mut self.process, &bounds, sink)
    }

    /// Like [`run`](Self::run), and the loads and stores of each instruction follow it.
    pub fn run_with_accesses(&mut self, sink: &mut impl FnMut(Execution)) -> Exit {
        self.start(sink);
        let bounds = Bounds { instructions: self.limit, interrupt: &self.interrupt };
        run::<true, _>(&mut self.hart, &mut self.blocks, &mut self.process, &bounds, sink)
    }

    /// Like [`run`](Self::run), and every value that [`Replay`](crate::Replay) needs goes to `note`.
    pub fn record(&mut self, note: &mut impl FnMut(u64), sink: &mut impl FnMut(Execution)) -> Exit {
        self.start(sink);
        let bounds = Bounds { instructions: self.limit, interrupt: &self.interrupt };
        let mut recorder = Recorder { process: &mut self.process, note };
        run::<false, _>(&mut self.hart, &mut self.blocks, &mut recorder, &bounds, sink)
    }

    fn start(&mut self, sink: &mut impl FnMut(Execution)) {
        if !self.started {
            self.started = true;
            sink(Execution::Context(USER));
        }
    }

    /// Allows this many instructions, counted from the start of the program.
    pub fn set_limit(&mut self, instructions: u64) {
        self.limit = instructions;
    }

    /// The registers.
    pub fn hart(&self) -> &Hart {
        &self.hart
    }

    /// Instructions retired so far.
    pub fn retired(&self) -> u64 {
        self.hart.retired
    }

    /// System calls that the program made and that are not implemented (they fail with `ENOSYS`): their numbers,
    /// and how often.
    pub fn unknown_system_calls(&self) -> &BTreeMap<u64, u64> {
        self.process.kernel.unknown()
    }
}

/// User mode.
pub(crate) const USER: Context = Context::riscv(0, true);
