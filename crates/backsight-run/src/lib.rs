//! What makes programs run and be seen, and recording them.
//!
//! A program that runs is a sequence of [`Observation`]s: what it executes, and what happens to its code and its
//! threads.

#![forbid(unsafe_code)]

mod journal;
mod observation;
pub mod qemu;
pub mod retired;
mod target;

pub use journal::Journal;
pub use observation::{CodeMap, Observation};
pub use target::Target;
