//! Recordings that are not complete: a recorder describes a capture before it writes trace, and marks it until the end.

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::{Buffer, Capture};

/// The file that a capture has until its recording is complete. Its recorder holds a lock on it.
pub const RECORDING: &str = ".recording";

/// Where the recording of a capture is until it is complete.
pub fn unfinished(capture: &Path) -> PathBuf {
    let name = capture.file_name().unwrap_or_default();
    capture.with_file_name([name, ".part".as_ref()].into_iter().collect::<OsString>())
}

/// What became of a recording that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingState {
    /// Its recorder goes on.
    Running,
    /// Its recorder is gone, and did not complete it.
    Interrupted,
}

impl Capture {
    /// The state of the recording; `None` if the capture is complete.
    pub fn recording(&self) -> Option<RecordingState> {
        self.folder.length(RECORDING).ok()?;
        let mark = self.folder.location(RECORDING).and_then(|path| File::open(path).ok());
        let is_locked =
            mark.is_some_and(|mark| matches!(mark.try_lock_shared(), Err(TryLockError::WouldBlock)));
        Some(if is_locked { RecordingState::Running } else { RecordingState::Interrupted })
    }

    /// Says in the warnings that the recording is not complete, if that is so.
    pub(crate) fn warn_of_recording(mut self) -> Self {
        if let Some(state) = self.recording() {
            let bytes = self.buffers.iter().filter_map(Buffer::length).sum::<u64>();
            self.warnings.insert(
                0,
                format!("{state}: {bytes} bytes of trace are here, and what is needed to decode them"),
            );
        }
        self
    }
}

impl fmt::Display for RecordingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "this recording is being written",
            Self::Interrupted => "this recording was interrupted, the end of it is missing",
        })
    }
}
