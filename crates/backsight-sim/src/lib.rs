//! An RV64GC user-mode simulator that reports every retired instruction.
//!
//! It runs statically linked Linux programs: [`Simulator::load`] one, [`run`](Simulator::run) it, and take an
//! [`Execution`](backsight_core::Execution) item for every instruction. Results are exact (I, M, A, F, D, C,
//! Zicsr, Zifencei) and every run is the same unless the host's clock or files are let in. A run can be
//! [recorded](Simulator::record) and [replayed](Replay) from the values it loaded.
//!
//! ```no_run
//! use backsight_sim::{Options, Simulator};
//!
//! let file = std::fs::read("testdata/programs/riscv64/sort")?;
//! let mut simulator = Simulator::load(&file, Options::default())?;
//! let mut branches = 0u64;
//! let exit = simulator.run(&mut |item| {
//!     if let backsight_core::Execution::Instruction(retired) = item {
//!         branches += u64::from(retired.next != retired.end());
//!     }
//! });
//! println!("{exit}: {} instructions, {branches} jumps", simulator.retired());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is where
//!
//! RV64GC user-mode simulator that reports every retired instruction, one by one or in blocks; `linux/host` which files of
//! this machine a program may use; decoded blocks (`blocks`) know which ones came next, and are reported many at a time
//! (`RetiredBlocks` of `backsight-core`).

#![forbid(unsafe_code)]

mod blocks;
mod compressed;
pub mod decode;
mod elf;
mod environment;
mod fault;
mod float;
mod hart;
mod linux;
mod memory;
mod observer;
mod recorder;
mod replay;
mod simulator;
mod step;

pub use elf::{Elf, ElfError, Segment};
pub use fault::{Cause, Fault};
pub use hart::Hart;
pub use linux::{Missing, Refused, Sandbox, Streams};
pub use observer::{Event, Observer, Watch};
pub use replay::{Inputs, Replay};
pub use simulator::{Clock, Exit, Options, Simulator};
pub use step::step;
