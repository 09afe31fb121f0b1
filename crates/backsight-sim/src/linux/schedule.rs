//! Which thread runs.
//!
//! Threads take turns in the order in which they started: the next one continues when a slice of instructions is used
//! up, and when a thread waits, yields or ends. When all wait, the clock goes on to the next deadline; where one waits
//! for the host, the host's time passes.

use super::Kernel;
use super::errno::Errno;
use super::threads::{State, Wait};
use crate::environment::After;
use crate::hart::Hart;
use crate::simulator::{Clock, Exit};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two looks at the interrupt while nothing can run.
const PATIENCE: u64 = 20_000_000;

/// Looks in a row at threads that all wait, with a clock that costs nothing: then nobody will ever run.
const MOST_LOOKS: u32 = 1_000_000;

/// What can be done while all threads wait.
enum Idle {
    /// Time has passed, or the host may have something.
    LookAgain,
    /// The run is to return.
    Stop(Exit),
}

impl Kernel {
    /// Lets a thread run: the first that can, beginning `first` threads after the current one.
    pub(super) fn schedule(&mut self, hart: &mut Hart, first: usize) -> After {
        let mut first = first;
        for _ in 0..MOST_LOOKS {
            self.fire_timers();
            let count = self.threads.list.len();
            let current = self.threads.current;
            for index in (first..first + count).map(|step| (current + step) % count) {
                if !self.may_run(index) {
                    continue;
                }
                self.switch(hart, index);
                if let Some(after) = self.continue_thread(hart) {
                    return after;
                }
            }
            first = 1;
            match self.idle() {
                Idle::LookAgain => {}
                Idle::Stop(exit) => return After::Exit(exit),
            }
        }
        // A timer whose signal nobody takes, for example. Who waits for the host has waited for hours.
        After::Exit(Exit::Deadlock)
    }

    /// Could the thread go on now?
    fn may_run(&self, index: usize) -> bool {
        let thread = &self.threads.list[index];
        match thread.state {
            State::Ready | State::Woken(_) => true,
            State::Waiting(wait) => {
                matches!(wait, Wait::Again { .. })
                    || wait.deadline().is_some_and(|deadline| deadline <= self.clock.elapsed())
                    || self.has_signal(index)
            }
        }
    }

    /// Makes a thread the current one.
    fn switch(&mut self, hart: &mut Hart, index: usize) {
        let current = self.threads.current;
        if index == current {
            return;
        }
        hart.reservation = None;
        let mut next = std::mem::take(&mut self.threads.list[index].hart);
        next.retired = hart.retired;
        self.threads.list[current].hart = std::mem::replace(hart, next);
        self.threads.current = index;
    }

    /// The current thread goes on, if it can: `None` if it still waits.
    fn continue_thread(&mut self, hart: &mut Hart) -> Option<After> {
        match self.thread().state {
            State::Ready => {}
            State::Woken(result) => self.complete(hart, Ok(result)),
            State::Waiting(wait) => {
                if let Some(after) = self.take_accepted_signal(hart, wait) {
                    return Some(after);
                }
                if self.has_signal(self.threads.current) {
                    return Some(self.interrupt_wait(hart, wait));
                }
                let over = wait.deadline().is_some_and(|deadline| deadline <= self.clock.elapsed());
                match wait {
                    Wait::Again { .. } => {
                        let result = self.serve_call(hart);
                        if result == Err(Errno::WAIT) {
                            self.begin_wait();
                            return None;
                        }
                        self.complete(hart, result);
                    }
                    Wait::Futex { .. } if over => self.complete(hart, Err(Errno::TIMEDOUT)),
                    Wait::Sleep { .. } if over => self.complete(hart, Ok(0)),
                    Wait::Signal { .. } if over => self.complete(hart, Err(Errno::AGAIN)),
                    _ => return None,
                }
            }
        }
        Some(self.return_to_program(hart))
    }

    /// The current thread waits for what its system call asked for.
    pub(super) fn begin_wait(&mut self) {
        // A call that waits says for what; anything else would be asked again at once.
        let wait = self.waiting.take().unwrap_or(Wait::Again { deadline: None, host: None, restarts: true });
        self.threads.waits += 1;
        let order = self.threads.waits;
        let thread = self.thread();
        thread.state = State::Waiting(wait);
        thread.order = order;
    }

    /// All threads wait.
    fn idle(&mut self) -> Idle {
        if self.interrupt.load(Ordering::Relaxed) {
            return Idle::Stop(Exit::Interrupted);
        }
        let waits = || {
            self.threads.list.iter().filter_map(|thread| match thread.state {
                State::Waiting(wait) => Some(wait),
                _ => None,
            })
        };
        let next = waits().filter_map(|wait| wait.deadline()).chain(self.next_timer()).min();
        let host = waits().find_map(|wait| match wait {
            Wait::Again { host, .. } => host,
            _ => None,
        });
        let until = next.map(|next| next.saturating_sub(self.clock.elapsed()));
        let pause = until.unwrap_or(PATIENCE).min(PATIENCE);
        match (host, until) {
            (Some(fd), _) => {
                let ready = self.files.ready(fd, Duration::from_nanos(pause)).is_ok_and(|ready| ready.read);
                if !ready {
                    self.clock.pass(pause);
                }
            }
            (None, Some(until)) if self.clock.kind() == Clock::Instructions => self.clock.pass(until),
            (None, Some(_)) => std::thread::sleep(Duration::from_nanos(pause)),
            (None, None) => return Idle::Stop(Exit::Deadlock),
        }
        Idle::LookAgain
    }
}
