//! Captures: trace with what is needed to read it.
//!
//! Trace does not describe itself: which source has which ID, what it speaks and how it was configured stands
//! beside it. People hand it over as a snapshot folder or a trace package (a folder or a ZIP archive), or as a bare
//! file with options. All become one [`Capture`], and a capture can be written as either.
//!
//! Metadata is read at once, trace never: a buffer is opened as a stream, from a directory or out of an archive.
//!
//! ```no_run
//! use backsight_capture::Capture;
//! let capture = Capture::open("snapshot")?;
//! for (number, buffer) in capture.buffers.iter().enumerate() {
//!     println!("{}: {:?} bytes, {}", buffer.name, buffer.length(), buffer.framing);
//!     for source in capture.sources_of(number) {
//!         println!("  {} {:?} {}", source.name, source.id, source.protocol);
//!     }
//! }
//! # Ok::<(), backsight_capture::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod archive;
pub mod events;
pub mod folder;
pub mod ini;

mod bare;
mod error;
mod model;
mod open;
mod package;
mod precondition;
mod protocol;
mod resolve;
pub mod seam;
mod snapshot;
mod write;

pub use bare::settings;
pub use error::{Error, Place};
pub use folder::FileRef;
pub use model::{
    Buffer, Capture, ContextIdLayout, Core, Format, Image, MemoryDump, Register, Source, SourceConfig,
};
pub use protocol::Protocol;
pub use write::{DirectoryOutput, Output, pack};
