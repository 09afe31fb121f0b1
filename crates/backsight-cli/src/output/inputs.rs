//! What a command reads: results must not be written over it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// The files and folders that a command line names to be read.
#[derive(Clone, Debug, Default)]
pub struct Inputs(Vec<PathBuf>);

impl Inputs {
    /// Nothing is read.
    pub fn none() -> Self {
        Self::default()
    }

    /// These, too.
    #[must_use]
    pub fn and<P: Into<PathBuf>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.0.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Refuses a place for a file: one that is read, one in a folder that is read, and one that a link in such a folder leads to.
    pub fn refuse_file(&self, place: &Path) -> Result {
        let found = fs::metadata(place).ok();
        let shown = place.display();
        for input in &self.0 {
            let Ok(known) = fs::metadata(input) else { continue };
            let is_same = found.as_ref().is_some_and(|found| id(found) == id(&known));
            if known.is_file() && is_same {
                return Err(refused(format!("{shown}: is read by this command: write to another file")));
            }
            let Some(root) = fs::canonicalize(input).ok().filter(|_| known.is_dir()) else { continue };
            let is_inside = fs::canonicalize(folder_of(place)).is_ok_and(|folder| folder.starts_with(&root));
            let input = input.display();
            if is_inside && fs::symlink_metadata(place).is_ok() {
                return Err(refused(format!(
                    "{shown}: is in the folder {input} that is read: remove it first, or write to another file"
                )));
            }
            let is_named_inside = place.ancestors().skip(1).any(|one| is_folder(one, &root));
            if is_named_inside && !is_inside {
                return Err(refused(format!(
                    "{shown}: a link in {input} leads out of it: write to another file"
                )));
            }
        }
        Ok(())
    }

    /// Refuses a place for a capture: one that is read, in one that is read, or around one.
    pub fn refuse_folder(&self, place: &Path) -> Result {
        self.refuse_file(place)?;
        let Ok(place_is) = fs::canonicalize(place) else { return Ok(()) };
        for input in &self.0 {
            if fs::canonicalize(input).is_ok_and(|input| input.starts_with(&place_is)) {
                return Err(refused(format!(
                    "{}: is read by this command: choose another name",
                    place.display()
                )));
            }
        }
        Ok(())
    }
}

fn refused(why: String) -> Failure {
    Failure::usage(why)
}

fn id(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn folder_of(place: &Path) -> &Path {
    place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_folder(path: &Path, folder: &Path) -> bool {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    fs::canonicalize(path).is_ok_and(|path| path == folder)
}
