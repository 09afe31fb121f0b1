//! Where a capture is written: recorded into a folder as it happens, described before trace is written and at the end.
//!
//! What is not complete has another name and a mark: `NAME.part` becomes `NAME`, a folder or an archive, when all is
//! there. What a recorder that was killed leaves can be opened, and is not removed by the next unless that is asked to. A
//! disk that fills up must not cost what was recorded, so a little space is set aside for the last description.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use backsight_capture::whole::RemovedOnSignal;
use backsight_capture::{Buffer, Capture, Format, Output, RECORDING, unfinished};

use crate::Error;

/// Space that is set aside for the description.
const RESERVE: usize = 1 << 18;
/// The file that holds this space, locked by the recorder.
const MARK: &str = RECORDING;

/// A capture in the making.
#[derive(Debug)]
pub struct CaptureFolder {
    /// Where it is written.
    pub part: PathBuf,
    /// What it becomes.
    path: PathBuf,
    replace: bool,
    format: Format,
    /// Held while it is written.
    mark: Option<File>,
    /// The files of the description; all others were recorded.
    described: BTreeSet<String>,
    /// It is worth nothing unless it is complete.
    removed_on_signal: Option<RemovedOnSignal>,
}

/// Does the name ask for an archive?
pub fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"))
}

impl CaptureFolder {
    /// A new capture: an archive if the name ends in `.zip`, else a folder. `replace`: a capture may be there already.
    /// `remove_on_signal`: a signal that ends the program removes it.
    pub fn new(path: &Path, format: Format, replace: bool, remove_on_signal: bool) -> Result<Self, Error> {
        // Without a slash at the end.
        let path: PathBuf = path.components().collect();
        path.file_name().ok_or_else(|| Error::NoName(path.clone()))?;
        check_free(&path, replace)?;
        let part = unfinished(&path);
        remove_abandoned(&part, replace)?;
        let removed_on_signal = if remove_on_signal {
            RemovedOnSignal::create(&part, &path).map(Some)
        } else {
            fs::create_dir_all(&part).map(|()| None)
        };
        let removed_on_signal = removed_on_signal.map_err(|error| Error::file(&part, error))?;
        // A disk that is full already shows here.
        let mark = part.join(MARK);
        let marked = File::create(&mark).and_then(|mut file| {
            io::Write::write_all(&mut file, &vec![0x55; RESERVE])?;
            // Where files cannot be locked, a part that is left behind has to be removed by hand.
            let _ = file.try_lock();
            Ok(file)
        });
        match marked {
            Ok(file) => {
                let (mark, described) = (Some(file), BTreeSet::new());
                Ok(Self { part, path, replace, format, mark, described, removed_on_signal })
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&part);
                Err(Error::file(&mark, error))
            }
        }
    }

    /// What it becomes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives back the space that was set aside.
    pub fn free_reserve(&self) {
        if let Some(mark) = &self.mark {
            // If it stays, the description has to find other room.
            let _ = mark.set_len(0);
        }
    }

    /// Writes the description. Unless the capture is `complete`, it reaches the disk before it takes the place of the last.
    pub fn describe(&mut self, capture: &Capture, complete: bool) -> Result<(), DescribeError> {
        let Self { part, described, format, .. } = self;
        let mut output = InPlace { described, folder: part, complete, full: false };
        let lost = capture.write(*format, &mut output);
        // A package has room for all that is recorded, and a snapshot is known to have no log.
        lost.map(drop).map_err(|error| DescribeError { error: error.into(), full: output.full })
    }

    /// The capture is complete: gives it its name.
    pub fn finish(mut self) -> Result<(), Error> {
        fs::remove_file(self.part.join(MARK)).map_err(|error| Error::file(self.part.join(MARK), error))?;
        self.mark = None;
        let guard = self.removed_on_signal.take();
        let last = |step: &dyn Fn() -> io::Result<()>| match guard {
            Some(guard) => guard.finish(step),
            None => step(),
        };
        if !is_archive(&self.path) {
            self.remove_replaced()?;
            let named = last(&|| fs::rename(&self.part, &self.path));
            return named.map_err(|error| Error::file(&self.path, error));
        }
        // An archive that is there is replaced when the new one is complete.
        if self.path.is_dir() {
            self.remove_replaced()?;
        }
        backsight_capture::pack(&self.part, &self.path).map_err(|error| {
            let complete = format!("{error}; the capture is in {}", self.part.display());
            Error::file(&self.path, io::Error::other(complete))
        })?;
        last(&|| fs::remove_dir_all(&self.part)).map_err(|error| Error::file(&self.part, error))
    }

    fn remove_replaced(&self) -> Result<(), Error> {
        if !self.replace || !self.path.exists() {
            return Ok(());
        }
        let removed =
            if self.path.is_dir() { fs::remove_dir_all(&self.path) } else { fs::remove_file(&self.path) };
        removed.map_err(|error| Error::file(&self.path, error))
    }

    /// Nothing was recorded: removes the folder again.
    pub fn abandon(self) {
        // What cannot be removed stays; the reason to give up is what matters.
        let _ = fs::remove_dir_all(&self.part);
    }
}

/// A description that could not be written.
pub struct DescribeError {
    /// Why not.
    pub error: Error,
    /// There was no room left.
    pub full: bool,
}

/// Is there room for a capture of this name?
fn check_free(path: &Path, replace: bool) -> Result<(), Error> {
    let used = fs::read_dir(path).map_or(path.exists(), |mut entries| entries.next().is_some());
    match (used, replace) {
        (false, _) => Ok(()),
        (true, false) => Err(Error::Exists(path.to_owned())),
        (true, true) if Capture::open(path).is_ok() => Ok(()),
        (true, true) => Err(Error::NoCapture(path.to_owned())),
    }
}

/// Removes a part whose recorder is gone, if it holds nothing or may be replaced.
fn remove_abandoned(part: &Path, replace: bool) -> Result<(), Error> {
    if !part.exists() {
        return Ok(());
    }
    let Ok(mark) = File::open(part.join(MARK)) else { return Err(Error::Exists(part.to_owned())) };
    match mark.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::Busy(part.to_owned())),
        Err(TryLockError::Error(error)) => return Err(Error::file(part, error)),
    }
    // Without a description no trace was written.
    let trace = Capture::open(part).map(|capture| capture.buffers.iter().filter_map(Buffer::length).sum());
    match trace.unwrap_or(0) {
        bytes if bytes > 0 && !replace => Err(Error::Interrupted { part: part.to_owned(), bytes }),
        _ => fs::remove_dir_all(part).map_err(|error| Error::file(part, error)),
    }
}

/// Puts a description beside what was recorded.
struct InPlace<'a> {
    folder: &'a Path,
    described: &'a mut BTreeSet<String>,
    complete: bool,
    full: bool,
}

impl InPlace<'_> {
    /// Takes the place of the file of that name at once, so that there is always a whole one.
    fn replace(&self, path: &Path, contents: &mut dyn Read) -> io::Result<()> {
        let new = self.folder.join(".new");
        let mut file = File::create(&new)?;
        io::copy(contents, &mut file)?;
        if !self.complete {
            file.sync_data()?;
        }
        fs::rename(&new, path)
    }
}

impl Output for InPlace<'_> {
    fn file(&mut self, name: &str, contents: &mut dyn Read) -> io::Result<()> {
        let path = self.folder.join(name);
        if !self.described.contains(name) && path.exists() {
            return Ok(());
        }
        self.described.insert(name.to_owned());
        let written = make_folders(self.folder, name).and_then(|()| self.replace(&path, contents));
        self.full |= written.as_ref().is_err_and(is_full);
        if written.is_err() {
            let _ = fs::remove_file(self.folder.join(".new"));
        }
        written
    }
}

/// Makes the folders of a file in a capture. The capture's own is not made: where it is gone, a signal ends the program.
pub fn make_folders(capture: &Path, name: &str) -> io::Result<()> {
    let mut folder = capture.to_owned();
    for part in Path::new(name).parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Is there no room left?
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
