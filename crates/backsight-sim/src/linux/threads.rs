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

const A0: u8 = 10;

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
    pub fn new(number: u32, signals: ThreadSignals) -> Self {
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
    /// The one that runs. Its registers are in the executing loop.
    pub current: usize,
    /// Threads that were started so far.
    pub started: u32,
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

    /// `exit`: this thread ends; with the last one, the process.
    pub(super) fn end_thread(&mut self, hart: &mut Hart, status: u64) -> After {
        let thread = self.thread();
        let (number, clear_tid) = (thread.number, thread.clear_tid);
        if number == 0 {
            self.threads.status = status as u8;
        }
        self.release_robust_locks();
        // The word may be gone: the threads that waited for it are, too.
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
