//! Where a capture is written: recorded into a folder as it happens, described at the end.
//!
//! A disk that fills up must not cost what was recorded. So a little space is set aside for the description, and
//! an archive is packed only when the folder is complete.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use backsight_capture::{Capture, Format, Output};

use crate::failure::{Failure, Result};

/// Space that is set aside for the description.
const RESERVE: usize = 1 << 18;
const RESERVE_FILE: &str = ".reserve";

/// A capture in the making.
pub struct Place {
    /// Where it is written.
    pub folder: PathBuf,
    /// The archive that it becomes.
    archive: Option<PathBuf>,
    format: Format,
}

impl Place {
    /// A new place. A name that ends in `.zip` becomes an archive, anything else a folder.
    pub fn new(path: &Path, format: Format) -> Result<Self> {
        let zip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
        let exists = fs::read_dir(path).map_or(path.exists(), |mut entries| entries.next().is_some());
        if exists {
            return Err(Failure::new(format!(
                "{}: exists; name a place that does not exist yet, or remove it",
                path.display()
            )));
        }
        let (folder, archive) = if zip {
            let mut name = path.as_os_str().to_owned();
            name.push(".part");
            (PathBuf::from(name), Some(path.to_owned()))
        } else {
            (path.to_owned(), None)
        };
        fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, &error))?;
        // A disk that is full already shows here.
        let reserve = folder.join(RESERVE_FILE);
        fs::write(&reserve, vec![0x55; RESERVE]).map_err(|error| Failure::file(&reserve, &error))?;
        Ok(Self { folder, archive, format })
    }

    /// Writes the description, and packs the archive.
    pub fn finish(self, capture: &Capture) -> Result<Vec<String>> {
        let _ = fs::remove_file(self.folder.join(RESERVE_FILE));
        let mut output =
            InPlace { present: capture.folder.files().into_iter().collect(), folder: &self.folder };
        let lost = capture.write(self.format, &mut output).map_err(Failure::new)?;
        if let Some(archive) = &self.archive {
            backsight_capture::pack(&self.folder, archive).map_err(|error| {
                let folder = self.folder.display();
                Failure::new(format!("{}: {error}; the capture is in {folder}", archive.display()))
            })?;
            fs::remove_dir_all(&self.folder).map_err(|error| Failure::file(&self.folder, &error))?;
        }
        Ok(lost)
    }

    /// Nothing was recorded: removes the folder again.
    pub fn abandon(self) {
        // What cannot be removed stays; the reason to give up is what matters.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Puts a description beside what is there already.
struct InPlace<'a> {
    folder: &'a Path,
    present: BTreeSet<String>,
}

impl Output for InPlace<'_> {
    fn file(&mut self, path: &str, contents: &mut dyn Read) -> io::Result<()> {
        if self.present.contains(path) {
            return Ok(());
        }
        let path = self.folder.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        io::copy(contents, &mut File::create(path)?).map(drop)
    }
}
