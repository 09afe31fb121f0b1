//! What a path leads to.

use crate::archive::Archive;
use crate::folder::{Directory, Folder, LinkedDirectory};
use crate::recording::{RECORDING, unfinished};
use crate::store::Store;
use crate::{Capture, Error, core_file, package, perf, snapshot};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// How to name what cannot be recognised.
const ADVICE: &str = "give a snapshot folder, a trace package (folder or ZIP), a perf.data file, an ELF core file with trace, or a bare file with its protocol and framing";

/// Is this a file that describes nothing: no capture of any format that does?
pub fn is_bare(path: &Path) -> bool {
    let is_entry = path.file_name().is_some_and(|file| file == snapshot::ENTRY || file == package::ENTRY);
    if is_entry || !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut magic = [0; MAGIC];
    let length = File::open(path).and_then(|mut file| file.read(&mut magic));
    length.is_ok_and(|length| Kind::of(&magic[..length]).is_none())
}

/// Bytes that say what a file is.
const MAGIC: usize = 20;

/// A file that describes what it holds.
enum Kind {
    Archive,
    Perf,
    Core,
}

impl Kind {
    fn of(start: &[u8]) -> Option<Self> {
        match start {
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Self::Archive),
            magic if perf::is_perf(magic) => Some(Self::Perf),
            start if core_file::is_core(start) => Some(Self::Core),
            _ => None,
        }
    }
}

/// How captures are read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Words for the format of a buffer, besides CoreSight's, that mean the bytes of one source without frames.
    pub raw_formats: Vec<&'static str>,
    /// Files of a folder may be links that lead out of it, and need not be regular files.
    pub follow_links: bool,
    /// Most bytes that are unpacked and kept of what a capture says of itself; without it, what its size allows for
    /// ([`backsight_core::Door`] has the table).
    pub budget: Option<u64>,
}

impl ReadOptions {
    /// Opens a snapshot folder, a trace package (folder or ZIP), a perf.data file or an ELF core file with trace. Reads the metadata; the trace stays
    /// where it is.
    ///
    /// # Errors
    /// If there is no capture there, or its metadata does not follow its format.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Capture, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let metadata = std::fs::metadata(path).map_err(|error| {
            let part = unfinished(path);
            match part.join(RECORDING).is_file() {
                true => Error::io(&name, &error)
                    .advise(format!("a recording that is not complete is in {}", part.display())),
                false => Error::io(&name, &error),
            }
        })?;
        if metadata.is_dir() {
            return self.directory(path);
        }
        let entry_file =
            path.file_name().is_some_and(|file| file == snapshot::ENTRY || file == package::ENTRY);
        if entry_file {
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            return self.directory(folder);
        }
        if !metadata.is_file() {
            return Err(Error::file(name, "is neither a folder nor a file").advise(ADVICE));
        }
        let mut magic = [0; MAGIC];
        let mut file = File::open(path).map_err(|error| Error::io(&name, &error))?;
        let length = file.read(&mut magic).map_err(|error| Error::io(&name, &error))?;
        match Kind::of(&magic[..length]) {
            Some(Kind::Archive) => {
                let archive = Archive::open(path.to_owned(), self.budget)?;
                self.read(Arc::new(archive), &name)
            }
            Some(Kind::Perf) => perf::read(Store::File(path.to_owned()), &name, self.budget),
            Some(Kind::Core) => core_file::read(Store::File(path.to_owned()), &name, self),
            None => {
                let what = "is neither a folder nor a ZIP archive nor perf.data nor an ELF core file";
                Err(Error::file(name, what).advise(ADVICE))
            }
        }
    }

    fn directory(&self, path: &Path) -> Result<Capture, Error> {
        let folder: Arc<dyn Folder> = match self.follow_links {
            true => Arc::new(LinkedDirectory(path.to_owned())),
            false => Arc::new(Directory::new(path)),
        };
        let is_ours = [snapshot::ENTRY, package::ENTRY].iter().any(|entry| folder.length(entry).is_ok());
        if let Some(file) = (!is_ours).then(|| perf::file_in(path, self.follow_links)).flatten() {
            return perf::read(Store::File(file), &path.display().to_string(), self.budget);
        }
        self.read(folder, &path.display().to_string())
    }

    /// Reads the capture in a folder, whatever the folder is.
    ///
    /// # Errors
    /// If there is no capture there, or its metadata does not follow its format.
    pub fn read(&self, folder: Arc<dyn Folder>, name: &str) -> Result<Capture, Error> {
        // A dump tool may write a contents.ini next to a snapshot: the snapshot says more.
        if folder.length(snapshot::ENTRY).is_ok() {
            return snapshot::read(folder, name).map(Capture::warn_of_recording);
        }
        if folder.length(package::ENTRY).is_ok() {
            return package::read(folder, name, self).map(Capture::warn_of_recording);
        }
        let what = format!("holds neither {} nor {}", snapshot::ENTRY, package::ENTRY);
        Err(Error::file(name, what).advise(ADVICE))
    }
}

impl Capture {
    /// Opens a snapshot folder, a trace package (folder or ZIP) or a perf.data file with the usual [`ReadOptions`].
    ///
    /// # Errors
    /// If there is no capture there, or its metadata does not follow its format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        ReadOptions::default().open(path)
    }

    /// Reads the capture in a folder with the usual [`ReadOptions`].
    ///
    /// # Errors
    /// If there is no capture there, or its metadata does not follow its format.
    pub fn from_folder(folder: Arc<dyn Folder>, name: &str) -> Result<Self, Error> {
        ReadOptions::default().read(folder, name)
    }
}
