//! Threads: how they start, what they wait for, how they end.

use super::Kernel;
use super::errno::{Errno, register};
use super::report::Report;
use super::signals::ThreadSignals;
use crate::environment::After;
use crate::hart::Hart;
use crate::simulator::Exit;

/// The process and its first thread.
pub const PROCESS: u32 = 1000;
/// Threads that may be there at a time.
const MOST: usize = 4096;

const A0: u8 = 10;
const SP: u8 = 2;
const TP: u8 = 4;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For another thread to wake it.
    Futex {
        /// The word.
        address: u64,
        /// Which wakes it takes.
        bits: u32,
        /// When it gives up.
        deadline: Option<u64>,
    },
    /// For time to pass.
    Sleep {
        /// The end of it.
        deadline: u64,
        /// Where the rest goes if a signal ends it; 0 for nowhere.
        rest: u64,
    },
    /// For something that shows when the call is made again.
    Again {
        /// When it gives up.
        deadline: Option<u64>,
        /// The descriptor whose input comes from the host.
        host: Option<u64>,
        /// A signal whose handler says so restarts it.
        restarts: bool,
    },
    /// For a signal.
    Signal {
        /// Signals that are taken without a handler.
        accepted: u64,
        /// Where the signal is described; 0 for nowhere.
        info: u64,
        /// When it gives up.
        deadline: Option<u64>,
    },
}

impl Wait {
    /// When it ends by itself.
    pub fn deadline(&self) -> Option<u64> {
        match *self {
            Self::Sleep { deadline, .. } => Some(deadline),
            Self::Futex { deadline, .. } | Self::Again { deadline, .. } | Self::Signal { deadline, .. } => {
                deadline
            }
        }
    }

    /// Is the call made again after a handler with `SA_RESTART`?
    pub fn restarts(&self) -> bool {
        matches!(self, Self::Futex { deadline: None, .. } | Self::Again { restarts: true, .. })
    }
}

/// Whether a thread can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can.
    Ready,
    /// It can, and its system call gives this.
    Woken(u64),
    /// It cannot.
    Waiting(Wait),
}

/// A thread.
pub struct Thread {
    /// Its number in the execution stream.
    pub number: u32,
    /// Its number for the program.
    pub tid: u32,
    /// Its registers while another thread runs.
    pub hart: Hart,
    pub state: State,
    /// Its position among those that wait: the first to wait is the first to be woken.
    pub order: u64,
    /// Bytes that the system call under way has moved.
    pub progress: u64,
    /// When the system call under way gives up.
    pub deadline: Option<u64>,
    /// The word that becomes 0 when it ends.
    pub clear_tid: u64,
    /// Locks that it may hold when it ends.
    pub robust_list: u64,
    pub signals: ThreadSignals,
    /// Those who observe know its context.
    pub context_reported: bool,
}

impl Thread {
    fn new(number: u32, signals: ThreadSignals) -> Self {
        Self {
            number,
            tid: PROCESS.wrapping_add(number),
            hart: Hart::default(),
            state: State::Ready,
            order: 0,
            progress: 0,
            deadline: None,
            clear_tid: 0,
            robust_list: 0,
            signals,
            context_reported: false,
        }
    }
}

/// All threads of the process: never none.
pub struct Threads {
    pub list: Vec<Thread>,
    /// The one that runs. Its registers are with whoever executes them.
    pub current: usize,
    started: u32,
    /// What the first thread left when it ended.
    status: u8,
    /// Waits so far.
    pub waits: u64,
}

impl Threads {
    /// The first thread.
    pub fn new() -> Self {
        let list = vec![Thread::new(0, ThreadSignals::default())];
        Self { list, current: 0, started: 1, status: 0, waits: 0 }
    }

    /// The thread with this number for the program.
    pub fn find(&self, tid: u32) -> Option<usize> {
        self.list.iter().position(|thread| thread.tid == tid)
    }
}

/// What `clone` is asked for.
struct Clone {
    flags: u64,
    stack: u64,
    parent_tid: u64,
    child_tid: u64,
    tls: u64,
}

const CLONE_VM: u64 = 0x100;
const CLONE_SIGHAND: u64 = 0x800;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

impl Kernel {
    /// The thread that runs.
    pub(super) fn thread(&mut self) -> &mut Thread {
        let current = self.threads.current;
        &mut self.threads.list[current]
    }

    /// The system call under way cannot complete: the thread waits for this.
    pub(super) fn wait(&mut self, wait: Wait) -> Errno {
        self.waiting = Some(wait);
        Errno::WAIT
    }

    /// It completes after all.
    pub(super) fn no_wait(&mut self) {
        self.waiting = None;
    }

    /// `clone`.
    pub(super) fn clone_thread(&mut self, hart: &Hart, a: [u64; 6]) -> Result<u64, Errno> {
        let [flags, stack, parent_tid, tls, child_tid, _] = a;
        self.start_thread(hart, &Clone { flags, stack, parent_tid, child_tid, tls })
    }

    /// `clone3`.
    pub(super) fn clone3_thread(&mut self, hart: &Hart, a: [u64; 6]) -> Result<u64, Errno> {
        const SMALLEST: u64 = 64;
        let [address, size, ..] = a;
        if size < SMALLEST {
            return Err(Errno::INVAL);
        }
        let mut fields = [0; SMALLEST as usize];
        self.memory.read(address, &mut fields)?;
        let field = |n: usize| {
            fields.get(n * 8..).and_then(<[u8]>::first_chunk).map_or(0, |&bytes| u64::from_le_bytes(bytes))
        };
        // Flags, pidfd, child and parent TID, signal at exit, stack and its size, TLS.
        let stack = field(5).wrapping_add(field(6));
        let clone =
            Clone { flags: field(0), stack, parent_tid: field(3), child_tid: field(2), tls: field(7) };
        self.start_thread(hart, &clone)
    }

    fn start_thread(&mut self, hart: &Hart, clone: &Clone) -> Result<u64, Errno> {
        const THREAD: u64 = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
        let asked = |flag: u64| clone.flags & flag != 0;
        if clone.flags & THREAD != THREAD {
            return Err(self.missing.feature("fork: a second process (clone without CLONE_THREAD)"));
        }
        if self.threads.list.len() >= MOST {
            return Err(Errno::AGAIN);
        }
        let signals = self.thread().signals.of_new_thread();
        let mut thread = Thread::new(self.threads.started, signals);
        let tid = thread.tid.to_le_bytes();
        if asked(CLONE_PARENT_SETTID) {
            self.memory.write(clone.parent_tid, &tid)?;
        }
        if asked(CLONE_CHILD_SETTID) {
            self.memory.write(clone.child_tid, &tid)?;
        }
        thread.clear_tid = if asked(CLONE_CHILD_CLEARTID) { clone.child_tid } else { 0 };
        thread.hart = hart.clone();
        thread.hart.reservation = None;
        thread.hart.set_x(A0, 0);
        if clone.stack != 0 {
            thread.hart.set_x(SP, clone.stack);
        }
        if asked(CLONE_SETTLS) {
            thread.hart.set_x(TP, clone.tls);
        }
        self.threads.started += 1;
        self.replayable = false;
        self.reports.push(Report::ThreadStarts { thread: thread.number, tid: thread.tid });
        let result = u64::from(thread.tid);
        self.threads.list.push(thread);
        Ok(result)
    }

    /// `exit`: this thread ends; with the last one, the process.
    pub(super) fn end_thread(&mut self, hart: &mut Hart, status: u64) -> After {
        let thread = self.thread();
        let (number, clear_tid) = (thread.number, thread.clear_tid);
        if number == 0 {
            self.threads.status = status as u8;
        }
        self.release_robust_locks();
        // The word may be gone: whoever waited for it is, too.
        if clear_tid != 0 && self.memory.write(clear_tid, &[0; 4]).is_ok() {
            self.wake(clear_tid, 1, u32::MAX);
        }
        self.reports.push(Report::ThreadEnds { thread: number });
        if self.threads.list.len() == 1 {
            return After::Exit(Exit::Status(self.threads.status));
        }
        let ended = self.threads.current;
        self.threads.list.remove(ended);
        let next = ended % self.threads.list.len();
        self.threads.current = next;
        let retired = hart.retired;
        *hart = std::mem::take(&mut self.threads.list[next].hart);
        hart.retired = retired;
        self.schedule(hart, 0)
    }

    /// `exit_group`, or a signal that ends the process.
    pub(super) fn end_process(&mut self, exit: Exit) -> After {
        let ends = self.threads.list.iter().map(|thread| Report::ThreadEnds { thread: thread.number });
        self.reports.extend(ends);
        After::Exit(exit)
    }

    /// `set_tid_address`.
    pub(super) fn set_tid_address(&mut self, address: u64) -> Result<u64, Errno> {
        let thread = self.thread();
        thread.clear_tid = address;
        Ok(thread.tid.into())
    }

    /// `get_robust_list`.
    pub(super) fn robust_list(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        const SIZE: u64 = 24;
        let index = match a[0] as u32 {
            0 => self.threads.current,
            tid => self.threads.find(tid).ok_or(Errno::SRCH)?,
        };
        let list = self.threads.list[index].robust_list;
        self.memory.write(a[1], &list.to_le_bytes())?;
        self.memory.write(a[2], &SIZE.to_le_bytes())?;
        Ok(0)
    }

    /// The system call of the current thread gives this.
    pub(super) fn complete(&mut self, hart: &mut Hart, result: Result<u64, Errno>) {
        let thread = self.thread();
        thread.progress = 0;
        thread.deadline = None;
        thread.state = State::Ready;
        hart.set_x(A0, register(result));
    }
}
