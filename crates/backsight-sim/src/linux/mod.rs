//! The kernel: enough of Linux for one statically linked program with its threads and signals.
//!
//! Everything is repeatable unless the host is asked for: time passes by one nanosecond per instruction, threads take
//! turns after a fixed number of instructions, random numbers and process numbers are always the same, standard
//! streams are always pipes. There is one process: `fork` and `exec` are not there. What is not there fails with
//! `ENOSYS` and is counted ([`Missing`]).

mod calls;
mod clock;
mod clone;
mod control;
mod directory;
mod errno;
mod files;
mod futex;
mod host;
mod image;
mod maps;
mod missing;
mod numbers;
mod paths;
mod pipe;
mod ready;
mod report;
mod schedule;
mod signals;
mod stat;
mod streams;
mod system;
mod threads;
mod transfer;

pub use host::{Refused, Sandbox};
pub use missing::Missing;
pub use streams::Streams;

use crate::elf::{Elf, ElfError};
use crate::environment::{After, Environment};
use crate::fault::{Cause, Fault};
use crate::hart::Hart;
use crate::memory::Memory;
use crate::observer::Observer;
use crate::simulator::Options;
use clock::{Time, Timer};
use files::Files;
use host::Host;
use image::KERNEL_CODE;
use missing::MissingCalls;
use paths::Paths;
use report::Report;
use signals::ProcessSignals;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use threads::{PROCESS, State, Threads, Wait};

/// One process: its memory, and the kernel's state for it.
pub struct Kernel {
    memory: Memory,
    files: Files,
    paths: Paths,
    umask: u32,
    clock: Time,
    timers: [Timer; 3],
    heap_start: u64,
    heap_end: u64,
    threads: Threads,
    signals: ProcessSignals,
    /// What handlers return to.
    trampoline: u64,
    /// What the system call under way waits for.
    waiting: Option<Wait>,
    random: u64,
    missing: MissingCalls,
    interrupt: Arc<AtomicBool>,
    reports: Vec<Report>,
    /// The thread that those who observe believe to run.
    reported_thread: u32,
    started: bool,
    /// Everything that enters the program is reported.
    external: bool,
    /// Nothing has happened that a replay from values cannot repeat.
    replayable: bool,
}

impl Kernel {
    /// Loads a program: makes its memory, and the hart that begins to execute it.
    pub fn load(elf: &Elf<'_>, options: Options) -> Result<(Self, Hart), ElfError> {
        let mut memory = Memory::new(options.memory);
        let heap = image::load_program(&mut memory, elf, options.memory)?;
        let sp = image::build_stack(&mut memory, elf, &options.arguments, &options.variables)?;
        image::load_trampoline(&mut memory)?;
        let mut hart = Hart::default();
        hart.pc = elf.entry;
        hart.set_x(2, sp);
        let program = options.arguments.into_iter().next().unwrap_or_default();
        let kernel = Self {
            memory,
            files: Files::new(options.streams),
            paths: Paths::new(Host::new(options.host_files, options.sandbox), program),
            umask: 0o22,
            clock: Time::new(options.clock),
            timers: [Timer::default(); 3],
            heap_start: heap,
            heap_end: heap,
            threads: Threads::new(),
            signals: ProcessSignals::default(),
            trampoline: KERNEL_CODE,
            waiting: None,
            random: 0x6261_636B_7369_6768,
            missing: MissingCalls::default(),
            interrupt: options.interrupt,
            reports: Vec::new(),
            reported_thread: 0,
            started: false,
            external: false,
            replayable: true,
        };
        Ok((kernel, hart))
    }

    /// Reports everything that enters the program, from now on.
    pub fn watch_external(&mut self) {
        if !self.external {
            self.external = true;
            self.memory.watch_external();
        }
    }

    /// Reads the program's memory. False: that cannot be.
    pub fn read_memory(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.memory.read(address, bytes).is_ok()
    }

    /// The numbers of system calls that are not there, and how often each was made.
    pub fn unknown(&self) -> &BTreeMap<u64, u64> {
        self.missing.numbers()
    }

    /// What is not there and was asked for.
    pub fn missing(&self) -> Vec<Missing> {
        self.missing.list()
    }

    /// What a sandbox refused.
    pub fn refused(&self) -> Vec<Refused> {
        self.paths.host.refused()
    }

    /// Can the run so far be repeated from the values that entered it?
    pub fn is_replayable(&self) -> bool {
        self.replayable
    }

    /// The number for the program of the thread that runs.
    pub fn tid(&self) -> u32 {
        self.threads.list.get(self.threads.current).map_or(PROCESS, |thread| thread.tid)
    }

    /// Before the first instruction: reports the thread, and the stack with arguments and environment.
    fn start(&mut self, hart: &Hart) {
        self.started = true;
        self.reports.push(Report::ThreadStarts { thread: 0, tid: PROCESS });
        if self.external {
            let sp = hart.x(2);
            let mut stack = vec![0; usize::try_from(image::STACK_TOP.saturating_sub(sp)).unwrap_or(0)];
            // What was written can be read, and is written again so that it is reported.
            if self.memory.read(sp, &mut stack).is_ok() {
                let _ = self.memory.write(sp, &stack);
            }
        }
        self.report_registers(hart);
    }
}

impl Environment for Kernel {
    #[inline(always)]
    fn load<const N: usize>(&mut self, address: u64) -> Result<u64, Cause> {
        self.memory.load::<N>(address)
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, address: u64, value: u64) -> Result<(), Cause> {
        self.memory.store::<N>(address, value)
    }

    fn check_store(&mut self, address: u64, size: u64) -> Result<(), Cause> {
        self.memory.check_store(address, size)
    }

    fn fetch(&mut self, address: u64) -> Result<u16, Cause> {
        self.memory.fetch(address)
    }

    fn decoded(&mut self, start: u64, end: u64) {
        self.memory.decoded(start, end);
    }

    fn forget_decoded(&mut self, address: u64, size: u64) {
        self.memory.forget_decoded(address, size);
    }

    fn next_stale_page(&mut self) -> Option<u64> {
        self.memory.next_stale_page()
    }

    fn time(&mut self, hart: &Hart) -> Result<u64, Cause> {
        self.clock.retired = hart.retired;
        let time = self.clock.ticks();
        if self.external {
            self.reports.push(Report::Time(time));
        }
        Ok(time)
    }

    fn resume(&mut self, hart: &mut Hart) -> Result<After, Cause> {
        self.clock.retired = hart.retired;
        if !self.started {
            self.start(hart);
        }
        Ok(match self.thread().state {
            State::Ready => After::Continue,
            _ => self.schedule(hart, 0),
        })
    }

    fn system_call(&mut self, hart: &mut Hart) -> Result<After, Cause> {
        self.clock.retired = hart.retired;
        Ok(self.call(hart))
    }

    fn fault(&mut self, hart: &mut Hart, fault: Fault) -> After {
        self.clock.retired = hart.retired;
        self.handle_fault(hart, fault)
    }

    fn has_slices(&self) -> bool {
        self.threads.list.len() > 1 || self.has_timers()
    }

    fn end_of_slice(&mut self, hart: &mut Hart) -> After {
        self.clock.retired = hart.retired;
        self.schedule(hart, 1)
    }

    fn report(&mut self, observer: &mut impl Observer) {
        self.hand_out(observer);
    }
}
