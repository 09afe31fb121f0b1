//! Executed instructions, as people name them on the command line.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use backsight_capture::{Capture, FileRef};
use backsight_run::{Error, RetiredFile, TRUTH, retired};

use crate::failure::{Failure, Result};

/// A file of executed instructions, and the capture that holds it if it is in one.
pub struct Executed {
    pub source: RetiredFile<'static>,
    pub capture: Option<Capture>,
}

impl Executed {
    /// Opens a capture that was recorded with `--truth`, or a file of retired instructions. `None` if it is neither.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let is_archive = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
        if path.is_dir() || is_archive {
            let capture = Capture::open(path).map_err(Failure::new)?;
            let file = FileRef::new(&capture.folder, TRUTH).map_err(Failure::new)?;
            if !file.exists() {
                let why = format!("{}: the capture has no {TRUTH}; record it with --truth", capture.name);
                return Err(Failure::new(why));
            }
            let source = RetiredFile::open(&file.to_string(), || Ok(file.open()?))?;
            return Ok(Some(Self { source, capture: Some(capture) }));
        }
        let open = || -> std::result::Result<Box<dyn Read + Send>, Error> {
            Ok(Box::new(File::open(path).map_err(|error| Error::file(path, error))?))
        };
        let mut begin = Vec::new();
        open()?.take(12).read_to_end(&mut begin).map_err(|error| Failure::file(path, &error))?;
        if !retired::is_retired(&begin) {
            return Ok(None);
        }
        let source = RetiredFile::open(&path.display().to_string(), open)?;
        Ok(Some(Self { source, capture: None }))
    }
}
