//! Captures: trace with what is needed to read it.
//!
//! Trace does not describe itself: which source has which ID, what it speaks and how it was configured stands
//! with it. People hand it over as a snapshot folder, a trace package (a folder or a ZIP archive), a perf.data file, an
//! ELF core file, or as a bare file with options. All become one [`Capture`], and a capture can be written as a snapshot, a
//! package or a core file.
//!
//! Metadata is read at once, trace never: a buffer is opened as a stream, from a directory or out of an archive. What a
//! source speaks and how it was configured is kept in the words of the capture: the decoder understands them.
//!
//! ```no_run
//! use backsight_capture::Capture;
//! let capture = Capture::open("snapshot")?;
//! for (number, buffer) in capture.buffers.iter().enumerate() {
//!     println!("{}: {:?} bytes, {}", buffer.name, buffer.length(), buffer.framing);
//!     for source in capture.sources_of(number) {
//!         println!("  {} {:?} {}", source.name, source.id, source.format);
//!     }
//! }
//! # Ok::<(), backsight_capture::Error>(())
//! ```
//!
//! # What is where
//!
//! What people hand us: snapshots, trace packages (folder, ZIP), `perf/` perf.data of Linux perf and Android's simpleperf,
//! `core_file/` ELF core files, bare files; the event log, as text and as messages in the trace; writers for packages,
//! snapshots and core files; `whole`: files and folders that are whole or absent, for all who write.

#![forbid(unsafe_code)]

pub mod archive;
pub mod events;
pub mod folder;
pub mod ini;
pub mod whole;

mod bare;
mod core_file;
mod error;
mod model;
mod open;
mod package;
pub mod packed;
mod perf;
mod recording;
mod repack;
mod snapshot;
mod store;
mod write;

pub use bare::{is_register, settings};
pub use core_file::CoreWriter;
pub use error::{Error, Position};
pub use folder::{FileRef, LONGEST_LOG};
pub use model::{
    Buffer, Capture, ContextIdLayout, Core, EventClock, Format, Image, MemoryDump, Origin, Register,
    Settings, Source, Start,
};
pub use open::{ReadOptions, is_bare};
pub use recording::{RECORDING, RecordingState, unfinished};
/// The files that make a folder a capture.
pub const ENTRIES: [&str; 2] = [snapshot::ENTRY, package::ENTRY];
/// The file of a trace package that holds every executed instruction, where a recording kept them.
pub const TRUTH: &str = "truth.retired";

pub use write::{Note, Output, pack};
