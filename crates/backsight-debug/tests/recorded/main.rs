//! Registers and memory beside a trace, out of a recording of the same run.

mod logs;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
mod walk;
