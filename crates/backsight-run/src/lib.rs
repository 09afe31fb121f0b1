//! What makes programs run and be seen, and recording them.
//!
//! A program that runs is a sequence of [`Observation`]s: what it executes, and what happens to its code and its
//! threads. Whatever gives them is an [`ExecutionSource`]:
//!
//! | source | what it is |
//! |---|---|
//! | [`SimulatedProgram`] | a static RV64 program in the simulator |
//! | [`qemu::EmulatedProgram`] | a Linux program for AArch64, Arm or RV64 under QEMU, with all its threads |
//! | [`RetiredFile`] | a file of retired instructions, as recordings keep it beside their trace |
//! | [`CommitLog`] | the log of a RISC-V core or simulator |
//! | [`TarmacLog`] | the log of an Arm simulator |
//!
//! Trace units, compressors and tests take what they give, whichever it is. A [`Recording`] sends it through a
//! [trace unit](units) and writes a capture.
//!
//! # What is where
//!
//! What makes programs run and be seen: `ExecutionSource` (the simulator, `qemu/`, `retired/` streams, commit logs) gives
//! `Observation`s, instruction by instruction or block by block; `units/` kinds of trace unit by name, a module and a row
//! each; `record/` sends observations (straight-line code as numbered blocks, many at a time, whose code units and
//! `retired/` look at once) through a unit, on a thread of its own where there is a core for it, and writes a capture,
//! described before the trace that needs it (`known`, `description`), so that it can be opened whenever recording is
//! interrupted; `record/system/` those of several processes, whose threads take turns on CPUs; `measure/` counts what
//! encoders send, `measure/bandwidth/` also how fast Arm trace units do and the buffers that they need. After
//! `backsight-capture`, because a recording is a capture.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod commit_log;
mod error;
pub mod history;
mod journal;
pub mod measure;
mod observation;
pub mod qemu;
mod record;
pub mod retired;
mod retired_file;
mod sandbox;
pub mod settings;
mod simulated;
mod source;
mod target;
mod tarmac_log;
pub mod units;

pub use commit_log::CommitLog;
pub use error::Error;
pub use journal::Journal;
pub use observation::{CodeMap, Observation};
pub use record::{CodePart, EVENT_CAUSES, Recorded, Recorder, Recording, SystemOptions, TRUTH};
pub use retired_file::RetiredFile;
pub use sandbox::{NoSandbox, RefusedFolder, SandboxRequest};
pub use simulated::SimulatedProgram;
pub use source::{Ended, Ending, ExecutionSource, Stop};
pub use target::Target;
pub use tarmac_log::TarmacLog;
pub use units::UnitKind;
