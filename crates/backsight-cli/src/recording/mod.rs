//! What `record` and `encode` share: the arguments for a unit and a capture, and what is said of them.

mod executed;
mod figures;
mod sandbox;
mod unit;

use std::path::Path;

use backsight_capture::Format;
use clap::ValueEnum;

use crate::failure::{Failure, Result};
pub use executed::Executed;
pub use figures::in_words;
pub use sandbox::SandboxArgs;
pub use unit::UnitArgs;

/// How a capture is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CaptureFormat {
    /// Trace package: a folder, or a ZIP archive
    #[default]
    Package,
    /// Trace package as a ZIP archive
    Zip,
    /// Snapshot folder, which other decoders read too; it has no event log
    Snapshot,
}

impl CaptureFormat {
    /// What is written to `path`; an archive is a package too.
    pub fn written(self, path: &Path) -> Result<Format> {
        let zip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
        match self {
            Self::Zip if !zip => Err(Failure::usage(format!("{}: an archive ends in .zip", path.display()))),
            Self::Snapshot => Ok(Format::Snapshot),
            Self::Package | Self::Zip => Ok(Format::Package),
        }
    }
}
