//! A system of several processes on a few CPUs, each with a trace unit.
//!
//! What is observed of programs is in the order of threads. Here threads take turns on CPUs, as an operating system has
//! them do: an interrupt ends each turn, CONTEXTIDR names who is next, and the log says what came and went, by one clock
//! that all CPUs share. The clock counts the instructions of all of them, and the events of the log.

mod log;
mod numbers;
mod shadow;

use std::collections::HashMap;
use std::num::NonZeroU32;

use backsight_capture::ContextIdLayout;
use backsight_capture::events::{Item, Pid};
use backsight_core::{
    Address, Context, Execution, Isa, Retired, RetiredBlock, RetiredBlocks, Trap, TrapKind,
};

pub use self::log::LogNews;
use self::log::SystemLog;
use crate::{Error, Observation};

/// How a system of several processes is recorded.
#[derive(Clone, Copy, Debug)]
pub struct SystemOptions {
    /// CPUs that threads take turns on.
    pub cpus: NonZeroU32,
    /// What the operating system writes to CONTEXTIDR; `None`: nothing, and the log has switches instead.
    pub contextidr: ContextIdLayout,
    /// Numbers of processes and threads are taken from 1 to this, again and again; `None`: those of the operating system
    /// that runs them.
    pub numbers: Option<NonZeroU32>,
    /// Instructions after which a thread goes on on the next CPU.
    pub slice: u64,
}

impl Default for SystemOptions {
    fn default() -> Self {
        Self { cpus: NonZeroU32::MIN, contextidr: ContextIdLayout::Tid, numbers: None, slice: 20_000 }
    }
}

/// What comes of an observation.
pub enum SystemItem<'a> {
    /// What was logged: it is needed to decode what comes next.
    News(LogNews),
    /// Execution; threads are CPUs.
    Execution(Execution),
    /// Blocks of so many instructions on the CPU that executed last. Each instruction takes a cycle.
    Blocks(&'a RetiredBlocks<'a>, u64),
    /// The next instruction on that CPU takes this cycle.
    Time(u64),
    /// The CPU that executed last gives the time.
    Timestamp(u64),
}

/// A thread of a program.
#[derive(Clone, Copy)]
struct SystemThread {
    /// The number of its process in the operating system.
    process: u32,
    context: Context,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    /// Where the thread on it goes on, if its last instruction says so; nothing after an exception.
    next: Option<Address>,
    /// Something was logged since it last gave the time.
    is_late: bool,
}

/// Threads on CPUs.
pub struct System {
    options: SystemOptions,
    log: SystemLog,
    threads: HashMap<u32, SystemThread>,
    /// The process and the thread that what comes is of.
    process: u32,
    thread: u32,
    cpus: Vec<Cpu>,
    /// The CPU that the thread is on.
    cpu: Option<usize>,
    turns: usize,
    /// Instructions in this turn.
    used: u64,
    /// Blocks are handed on as such.
    takes_blocks: bool,
    /// The CPU that was told the time, and what it must be for that to be right.
    told: Option<(usize, u64)>,
}

impl System {
    /// `takes_blocks`: code that ran as blocks is handed on as such.
    pub fn new(options: SystemOptions, takes_blocks: bool) -> Self {
        let cpus = vec![Cpu::default(); options.cpus.get() as usize];
        let log = SystemLog::new(options.numbers);
        let (threads, process, thread, cpu, turns, used) = Default::default();
        let told = None;
        Self { options, log, threads, process, thread, cpus, cpu, turns, used, takes_blocks, told }
    }

    /// Takes an observation; gives what the CPUs do. `room`: instructions that are still wanted.
    #[inline]
    pub fn push(
        &mut self,
        seen: &Observation<'_>,
        room: u64,
        sink: &mut impl FnMut(SystemItem<'_>),
    ) -> Result<(), Error> {
        match *seen {
            Observation::Execution(item) => self.execute(item, sink),
            Observation::Blocks(blocks) if self.takes_blocks && blocks.count() <= room => {
                self.execute_blocks(blocks, sink);
            }
            Observation::Blocks(blocks) => {
                let instructions = blocks.iter().flat_map(|block| block.instructions());
                instructions.for_each(|retired| self.retire(retired, sink));
            }
            Observation::ProcessStarts { pid } => {
                self.process = pid;
                let number = self.log.process_starts(pid);
                let is_asid = matches!(
                    self.options.contextidr,
                    ContextIdLayout::Asid | ContextIdLayout::AsidPid | ContextIdLayout::AsidTid
                );
                if is_asid {
                    self.log.asid_starts(pid, number);
                }
            }
            Observation::Process { pid } => self.process = pid,
            Observation::ProcessEnds { pid } => {
                self.end_threads(pid, sink);
                self.log.process_ends(pid);
            }
            Observation::ProcessReplaced { pid } => {
                self.end_threads(pid, sink);
                self.log.process_is_replaced(pid);
            }
            Observation::ThreadStarts { thread, tid } => {
                let context = Context::default();
                self.threads.insert(thread, SystemThread { process: self.process, context });
                self.log.thread_starts(self.process, thread, tid);
            }
            Observation::ThreadEnds { thread } => {
                if self.thread == thread {
                    self.leave(sink);
                }
                self.log.thread_ends(thread);
            }
            Observation::Map(map) => self.log.map(self.process, &map)?,
            Observation::Unmap { address, length } => self.log.unmap(self.process, address.0, length),
            // What is written down is what ran, when it ran.
            Observation::Code { .. } | Observation::Output { .. } => {}
        }
        if self.log.take_news() {
            self.cpus.iter_mut().for_each(|cpu| cpu.is_late = true);
        }
        Ok(())
    }

    fn end_threads(&mut self, pid: u32, sink: &mut impl FnMut(SystemItem<'_>)) {
        if self.threads.get(&self.thread).is_some_and(|thread| thread.process == pid) {
            self.leave(sink);
        }
        self.threads.retain(|_, thread| thread.process != pid);
    }

    fn execute(&mut self, item: Execution, sink: &mut impl FnMut(SystemItem<'_>)) {
        match item {
            Execution::Thread(thread) => {
                if thread != self.thread {
                    self.leave(sink);
                }
                self.thread = thread;
            }
            Execution::Context(context) => {
                if let Some(thread) = self.threads.get_mut(&self.thread) {
                    thread.context = context;
                }
                self.leave(sink);
            }
            Execution::Instruction(retired) => self.retire(retired, sink),
            Execution::Trap(trap) => {
                let cpu = self.be_on_cpu(sink);
                self.cpus[cpu].next = None;
                sink(SystemItem::Execution(Execution::Trap(Trap { cycle: self.log.tick(), ..trap })));
            }
            Execution::Gap => {
                let cpu = self.be_on_cpu(sink);
                self.cpus[cpu].next = None;
                sink(SystemItem::Execution(item));
            }
            Execution::Access(_) | Execution::Input(_) => sink(SystemItem::Execution(item)),
        }
    }

    /// As many blocks at a time as nothing happens between; the instructions of others one by one.
    fn execute_blocks(&mut self, blocks: &RetiredBlocks<'_>, sink: &mut impl FnMut(SystemItem<'_>)) {
        let mut rest = *blocks;
        while let Some((block, others)) = rest.split_first() {
            let (count, instructions) = self.undisturbed(&rest);
            let Some(cpu) = self.cpu.filter(|_| count > 0) else {
                block.instructions().for_each(|retired| self.retire(retired, sink));
                rest = others;
                continue;
            };
            let (now, later) = rest.split_at(count);
            if self.told != Some((cpu, self.log.now())) {
                sink(SystemItem::Time(self.log.now() + 1));
            }
            sink(SystemItem::Blocks(&now, instructions));
            self.used += instructions;
            self.log.pass(instructions);
            self.told = Some((cpu, self.log.now()));
            self.cpus[cpu].next = now.steps.last().map(|step| step.next);
            rest = later;
        }
    }

    /// Blocks at the beginning that run where the thread is, in this turn, in memory of a file that is known to the log:
    /// how many, and their instructions.
    fn undisturbed(&mut self, blocks: &RetiredBlocks<'_>) -> (usize, u64) {
        if self.cpu.is_none_or(|cpu| self.cpus[cpu].is_late) {
            return (0, 0);
        }
        let most = match self.cpus.len() {
            1 => u64::MAX,
            _ => self.options.slice.saturating_sub(self.used),
        };
        let process = self.process_of_thread();
        let mut known = self.log.known_code(process, None);
        let mut instructions = 0;
        let mut is_undisturbed = |block: &RetiredBlock<'_>| {
            let after = instructions + block.code.len() as u64;
            let (Some(first), Some(last)) = (block.code.first(), block.code.last()) else { return false };
            if !known.contains(&first.address.0) {
                known = self.log.known_code(process, Some(first.address.0));
            }
            let fits = after <= most && known.contains(&first.address.0) && known.contains(&last.address.0);
            if fits {
                instructions = after;
            }
            fits
        };
        let count = blocks.iter().take_while(|block| is_undisturbed(block)).count();
        (count, instructions)
    }

    fn retire(&mut self, retired: Retired, sink: &mut impl FnMut(SystemItem<'_>)) {
        if self.used >= self.options.slice && self.cpus.len() > 1 {
            self.leave(sink);
        }
        // What runs from memory of no file is logged before it runs.
        if self.log.ran(self.process_of_thread(), &retired) {
            self.log.take_news();
            self.cpus.iter_mut().for_each(|cpu| cpu.is_late = true);
        }
        let cpu = self.be_on_cpu(sink);
        if let Some(news) = self.log.take_unread() {
            sink(SystemItem::News(news));
        }
        self.give_time(cpu, sink);
        self.used += 1;
        self.cpus[cpu].next = Some(retired.next);
        sink(SystemItem::Execution(Execution::Instruction(Retired { cycle: self.log.tick(), ..retired })));
    }

    fn process_of_thread(&self) -> u32 {
        self.threads.get(&self.thread).map_or(self.process, |thread| thread.process)
    }

    fn give_time(&mut self, cpu: usize, sink: &mut impl FnMut(SystemItem<'_>)) {
        if std::mem::take(&mut self.cpus[cpu].is_late) {
            sink(SystemItem::Timestamp(self.log.now()));
        }
    }

    /// The turn of the thread is over.
    fn leave(&mut self, sink: &mut impl FnMut(SystemItem<'_>)) {
        let Some(cpu) = self.cpu.take() else { return };
        self.used = 0;
        if let Some(next) = self.cpus[cpu].next.take() {
            let is_wide = self.threads.get(&self.thread).is_none_or(|thread| thread.context.wide);
            sink(SystemItem::Execution(Execution::Trap(Trap {
                kind: TrapKind::Interrupt,
                cause: IRQ,
                value: 0,
                return_address: next,
                handler: if is_wide { VECTOR } else { VECTOR_A32 },
                cycle: self.log.tick(),
            })));
        }
        // What the kernel does is not traced.
        sink(SystemItem::Execution(Execution::Gap));
    }

    /// The CPU that the thread is on: the next in turn, if it is on none.
    #[inline]
    fn be_on_cpu(&mut self, sink: &mut impl FnMut(SystemItem<'_>)) -> usize {
        match self.cpu {
            Some(cpu) => cpu,
            None => self.enter(sink),
        }
    }

    fn enter(&mut self, sink: &mut impl FnMut(SystemItem<'_>)) -> usize {
        let cpu = self.turns % self.cpus.len();
        self.turns += 1;
        self.cpu = Some(cpu);
        let thread = self.thread;
        let process = self.process_of_thread();
        let (pid, tid, asid) = self.log.identity(process, thread);
        if self.options.contextidr == ContextIdLayout::None {
            let (pid, tid) = (Pid::Process(pid.into()), Some(tid.into()));
            self.log.write(Item::Switch { cpu: cpu as u32, pid, tid });
            self.log.take_news();
            self.cpus[cpu].is_late = true;
        }
        let id = match self.options.contextidr {
            ContextIdLayout::None => None,
            ContextIdLayout::Asid => Some(asid),
            ContextIdLayout::AsidPid => Some(pid << 8 | asid),
            ContextIdLayout::AsidTid => Some(tid << 8 | asid),
            ContextIdLayout::Tid => Some(tid),
            ContextIdLayout::Pid => Some(pid),
        };
        let context = self.threads.get(&thread).map_or_else(Context::default, |thread| thread.context);
        sink(SystemItem::Execution(Execution::Thread(cpu as u32)));
        self.give_time(cpu, sink);
        let context = Context { context_id: id.map(u64::from), ..context };
        sink(SystemItem::Execution(Execution::Context(context)));
        cpu
    }

    /// What was logged since the last call, if anything was.
    pub fn take_news(&mut self) -> Option<LogNews> {
        self.log.take_unread()
    }

    /// Nothing happens any more.
    pub fn end(&mut self) {
        self.log.end_run();
    }
}

/// The exception number of an interrupt in trace packets.
const IRQ: u32 = 14;
/// Where a kernel handles interrupts from programs of 64 and of 32 bits: it is not traced.
const VECTOR: Address = Address(0xFFFF_8000_0001_0480);
const VECTOR_A32: Address = Address(0xFFFF_0018);

/// The bytes of an instruction as they stand in memory.
fn bytes_of(retired: &Retired) -> ([u8; 4], usize) {
    let opcode = match (retired.isa, retired.size) {
        (Isa::T32 | Isa::ThumbEe, 4) => retired.opcode.rotate_left(16),
        _ => retired.opcode,
    };
    (opcode.to_le_bytes(), usize::from(retired.size).min(4))
}
