//! The system event log: what the operating system did while the trace was taken.
//!
//! Which code is at an address changes while processes start, load libraries and compile. The log says it, one
//! event a line with the time of the global timestamp, so that a decoder can follow: forward from a snapshot at the
//! beginning, or backward from one at the end.

mod forward;
pub mod message;
mod parse;
mod reader;
mod store;
mod words;
mod write;

pub use forward::{Changes, HEAD, Head};
pub use store::{EventSurvey, Events, RecordReader};

use crate::Error;
use backsight_core::{Address, TraceId};
use std::sync::Arc;

/// A log, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventLog {
    /// What it says, sorted by time; what has no time stays after what it stood after.
    pub records: Vec<Record>,
    /// Lines that were not understood, and were skipped.
    pub problems: Vec<Error>,
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its line, from 1.
    pub line: u32,
    /// Its time on the clock of the global timestamp; `None` if it is not known.
    pub time: Option<u64>,
    /// What it says.
    pub item: Item,
}

/// What a line of a log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Ticks of the global timestamp in a second.
    Frequency(u64),
    /// The events until [`Item::SnapshotEnd`] list what exists. Complete: nothing else does.
    SnapshotBegin {
        /// What is not listed does not exist.
        complete: bool,
    },
    /// The end of such a list.
    SnapshotEnd,
    /// Events were lost here; how many, where known.
    Lost(Option<u64>),
    /// What the system is: keys and values.
    Host(Vec<(String, String)>),
    /// An image is mapped in an address space.
    Mapping(State, Box<Mapping>),
    /// A thread of a process.
    Thread {
        /// What happens to it.
        state: State,
        /// Its number.
        tid: u64,
        /// Its process.
        pid: Pid,
        /// Its name, for people.
        name: Option<Box<str>>,
    },
    /// An ASID stands for a process.
    Asid {
        /// What happens to it.
        state: State,
        /// The address space identifier.
        asid: u32,
        /// The process.
        pid: Pid,
        /// Only on this CPU.
        cpu: Option<u32>,
    },
    /// New code was installed.
    Patch(Box<Patch>),
    /// A trace source works in a configuration, under a trace ID.
    DefineTrace(State, Box<TraceDefinition>),
    /// The operating system switched a CPU to a process.
    Switch {
        /// The CPU.
        cpu: u32,
        /// The process.
        pid: Pid,
        /// The thread, where known.
        tid: Option<u64>,
    },
}

/// What happens to the thing an event names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It begins to exist.
    Start,
    /// It stops existing.
    End,
    /// It exists.
    Current,
}

/// A process, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pid {
    /// Every address space: the kernel and its modules.
    All,
    /// One process.
    Process(u64),
}

/// An image in an address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The main image of a process (`declare_process`), else a library or module (`declare_library`).
    pub main: bool,
    /// The address space.
    pub pid: Pid,
    /// Without a size: what is added to the addresses in the image. With one: where the mapping begins.
    pub base: Address,
    /// The image, as named on the target.
    pub image: Option<Arc<str>>,
    /// The build ID or content hash that the image must have.
    pub build_id: Option<Arc<str>>,
    /// Bytes mapped, if this is a single mapping of the file and not a whole image.
    pub size: Option<u64>,
    /// Where in the file such a mapping begins.
    pub offset: u64,
    /// A fixed image (a kernel) that was moved as a whole by `base`.
    pub relocated: bool,
    /// Name, for people.
    pub name: Option<String>,
    /// Only on this CPU.
    pub cpu: Option<u32>,
}

/// New code at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The address space.
    pub pid: Pid,
    /// Where.
    pub address: Address,
    /// How many bytes.
    pub length: u64,
    /// The code.
    pub code: PatchCode,
}

/// Where new code is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchCode {
    /// Here, in memory byte order.
    Inline(Vec<u8>),
    /// In a file of the package, from an offset on.
    File(String, u64),
    /// In the file `code/` of that name.
    Id(String),
    /// In the memory contents: it was never replaced.
    InMemory,
}

/// The configuration of a trace source under a trace ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceDefinition {
    /// The trace ID.
    pub id: TraceId,
    /// The source.
    pub source: String,
    /// What it speaks, such as `ETM4.2`.
    pub format: Option<String>,
    /// Registers and options.
    pub items: Vec<(String, String)>,
}

#[cfg(test)]
mod tests;
