//! What a path leads to.

use crate::archive::Archive;
use crate::folder::{Directory, Folder};
use crate::{Capture, Error, package, snapshot};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// How to name what cannot be recognised.
const ADVICE: &str =
    "give a snapshot folder, a trace package (folder or ZIP), or a bare file with its protocol and framing";

impl Capture {
    /// Opens a snapshot folder or a trace package (folder or ZIP). Reads the metadata; the trace stays where it is.
    ///
    /// # Errors
    /// If there is no capture there, or its metadata does not follow its format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let metadata = std::fs::metadata(path).map_err(|error| Error::io(&name, &error))?;
        if metadata.is_dir() {
            return Self::from_folder(Arc::new(Directory(path.to_owned())), &name);
        }
        let entry_file =
            path.file_name().is_some_and(|file| file == snapshot::ENTRY || file == package::ENTRY);
        if entry_file {
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            return Self::from_folder(Arc::new(Directory(folder.to_owned())), &folder.display().to_string());
        }
        if !metadata.is_file() {
            return Err(Error::file(name, "is neither a folder nor a file").advise(ADVICE));
        }
        let mut magic = [0; 8];
        let mut file = File::open(path).map_err(|error| Error::io(&name, &error))?;
        let length = file.read(&mut magic).map_err(|error| Error::io(&name, &error))?;
        match &magic[..length] {
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => {
                Self::from_folder(Arc::new(Archive::open(path.to_owned())?), &name)
            }
            _ => Err(Error::file(name, "is neither a folder nor a ZIP archive").advise(ADVICE)),
        }
    }

    /// Reads the capture in a folder, whatever the folder is.
    ///
    /// # Errors
    /// If there is no capture there, or its metadata does not follow its format.
    pub fn from_folder(folder: Arc<dyn Folder>, name: &str) -> Result<Self, Error> {
        // A dump tool may write a contents.ini next to a snapshot: the snapshot says more.
        if folder.length(snapshot::ENTRY).is_ok() {
            return snapshot::read(folder, name);
        }
        if folder.length(package::ENTRY).is_ok() {
            return package::read(folder, name);
        }
        let what = format!("holds neither {} nor {}", snapshot::ENTRY, package::ENTRY);
        Err(Error::file(name, what).advise(ADVICE))
    }
}
