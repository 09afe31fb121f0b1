//! Trace packages: `contents.ini` names the buffers, the metadata of their sources, the system event log, images
//! and memory contents. A package is a folder or a ZIP archive of one.

mod metadata;
mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

/// The file that makes a folder a trace package.
pub(crate) const ENTRY: &str = "contents.ini";
