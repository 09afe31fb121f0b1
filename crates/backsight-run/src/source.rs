//! Where execution comes from.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backsight_core::Isa;
use backsight_sim::Fault;

use crate::{Error, Observation};

/// A thing that executes a program, or that knows what one executed: the [simulator](crate::SimulatedProgram),
/// [QEMU](crate::qemu::EmulatedProgram), a [file of retired instructions](crate::RetiredFile), a
/// [commit log](crate::CommitLog).
pub trait ExecutionSource {
    /// The instruction set that execution starts in.
    fn isa(&self) -> Isa;

    /// Is more than one thread to be expected?
    fn has_threads(&self) -> bool;

    /// How to end it early, from wherever one is.
    fn stop(&self) -> Stop;

    /// How many cores it keeps busy while it runs.
    fn busy_cores(&self) -> usize {
        1
    }

    /// Hands out everything in order, until execution ends. After a request to stop, little more comes.
    ///
    /// # Errors
    /// If there is nothing to execute, or what is read makes no sense. A program that fails or crashes is no error.
    fn run(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error>;

    /// The same, with straight-line code as [blocks](Observation::Blocks) where the source knows it as such: that is faster.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    fn run_blocks(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        self.run(sink)
    }
}

/// A request to stop, which all its clones share.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    requested: Arc<AtomicBool>,
    at_once: Arc<AtomicBool>,
}

impl Stop {
    /// Not requested yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that a flag requests.
    pub fn of(requested: Arc<AtomicBool>) -> Self {
        Self { requested, ..Self::default() }
    }

    /// Requests to stop. A program that was asked to stop otherwise, too, has a moment to do so by itself.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Requests to stop: nobody wants to know what else the program would do.
    pub fn request_at_once(&self) {
        self.at_once.store(true, Ordering::Relaxed);
        self.request();
    }

    /// Was it requested?
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Was it requested to stop at once?
    pub fn is_at_once(&self) -> bool {
        self.at_once.load(Ordering::Relaxed)
    }

    /// The flag itself, for a signal handler that sets it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.requested)
    }
}

/// How a run ended, and what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How.
    pub ended: Ended,
    /// What may surprise: system calls that are not known, damage.
    pub notes: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program ended with this status.
    Status(i32),
    /// A signal ended the program.
    Signal(i32),
    /// An instruction could not be executed.
    Fault(Fault),
    /// As many instructions as wanted were executed.
    Limit,
    /// Somebody wanted it to stop.
    Stopped,
    /// All threads wait for something that cannot happen.
    Deadlock,
    /// There is no more in the file.
    EndOfFile,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the program ended with status {status}"),
            Self::Signal(signal) => write!(f, "the program ended by signal {signal}"),
            Self::Fault(fault) => write!(f, "the program crashed: {fault} (signal {})", fault.signal()),
            Self::Limit => f.write_str("the instruction limit was reached"),
            Self::Stopped => f.write_str("interrupted"),
            Self::Deadlock => f.write_str("all threads wait for something that cannot happen"),
            Self::EndOfFile => f.write_str("all of it was read"),
        }
    }
}

impl From<Ended> for Ending {
    fn from(ended: Ended) -> Self {
        Self { ended, notes: Vec::new() }
    }
}
