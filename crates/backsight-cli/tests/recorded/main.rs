//! Programs that are run and recorded, and what comes of their traces.

mod core_files;
mod ground_truth;
#[cfg(target_os = "linux")]
mod hostile_programs;
#[cfg(target_os = "linux")]
mod interrupted;
mod objects;
mod reconfigured;
mod record;
#[cfg(target_os = "linux")]
mod recording_failures;
mod riscv_units;
mod sandbox;
mod source_lines;
#[path = "../support/mod.rs"]
mod support;
mod system;
mod trace_events;
