//! Where a capture is written: recorded into a folder as it happens, described at the end.
//!
//! What is not complete has another name: `NAME.part` becomes `NAME`, a folder or an archive, when it is described. So a
//! recorder that was killed leaves nothing that looks like a capture, and nothing that is in the way: a part whose
//! recorder is gone is removed by the next. A disk that fills up must not cost what was recorded, so a little space is
//! set aside for the description.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use backsight_capture::{Capture, Format, Note, Output};

use crate::Error;

/// Space that is set aside for the description.
const RESERVE: usize = 1 << 18;
/// The file that holds this space, locked by whoever records.
const MARK: &str = ".recording";

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
    /// The files that were there before the description.
    recorded: Option<BTreeSet<String>>,
}

/// Does the name ask for an archive?
pub fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"))
}

impl CaptureFolder {
    /// A new capture: an archive if the name ends in `.zip`, else a folder. `replace`: a capture may be there already.
    pub fn new(path: &Path, format: Format, replace: bool) -> Result<Self, Error> {
        // Without a slash at the end.
        let path: PathBuf = path.components().collect();
        let name = path.file_name().ok_or_else(|| Error::NoName(path.clone()))?;
        check_free(&path, replace)?;
        let part = path.with_file_name([name, ".part".as_ref()].into_iter().collect::<OsString>());
        remove_abandoned(&part)?;
        fs::create_dir_all(&part).map_err(|error| Error::file(&part, error))?;
        // A disk that is full already shows here.
        let mark = part.join(MARK);
        let marked = File::create(&mark).and_then(|mut file| {
            io::Write::write_all(&mut file, &vec![0x55; RESERVE])?;
            // Where files cannot be locked, a part that is left behind has to be removed by hand.
            let _ = file.try_lock();
            Ok(file)
        });
        match marked {
            Ok(file) => Ok(Self { part, path, replace, format, mark: Some(file), recorded: None }),
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

    /// Writes the description. Gives what the format could not hold, in words.
    pub fn describe(&mut self, capture: &Capture) -> Result<Vec<String>, DescribeError> {
        let recorded = self.recorded.get_or_insert_with(|| capture.folder.files().into_iter().collect());
        let mut output = InPlace { recorded, folder: &self.part, full: false };
        let lost = capture.write(self.format, &mut output);
        let lost = lost.map_err(|error| DescribeError { error: error.into(), full: output.full })?;
        // What is copied is the recording's own.
        let words = |note| if let Note::Lost(what) = note { Some(what) } else { None };
        Ok(lost.into_iter().filter_map(words).collect())
    }

    /// The capture is complete: gives it its name.
    pub fn finish(mut self) -> Result<(), Error> {
        fs::remove_file(self.part.join(MARK)).map_err(|error| Error::file(self.part.join(MARK), error))?;
        self.mark = None;
        if !is_archive(&self.path) {
            self.remove_replaced()?;
            return fs::rename(&self.part, &self.path).map_err(|error| Error::file(&self.path, error));
        }
        let archive = self.part.with_extension("part.zip");
        let packed = backsight_capture::pack(&self.part, &archive)
            .and_then(|()| self.remove_replaced().map_err(|error| io::Error::other(error.to_string())))
            .and_then(|()| fs::rename(&archive, &self.path));
        if let Err(error) = packed {
            let _ = fs::remove_file(&archive);
            let complete = format!("{error}; the capture is in {}", self.part.display());
            return Err(Error::file(&self.path, io::Error::other(complete)));
        }
        fs::remove_dir_all(&self.part).map_err(|error| Error::file(&self.part, error))
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

/// Removes a part whose recorder is gone.
fn remove_abandoned(part: &Path) -> Result<(), Error> {
    if !part.exists() {
        return Ok(());
    }
    let Ok(mark) = File::open(part.join(MARK)) else { return Err(Error::Exists(part.to_owned())) };
    match mark.try_lock() {
        Ok(()) => fs::remove_dir_all(part).map_err(|error| Error::file(part, error)),
        Err(TryLockError::WouldBlock) => Err(Error::Busy(part.to_owned())),
        Err(TryLockError::Error(error)) => Err(Error::file(part, error)),
    }
}

/// Puts a description beside what is there already.
struct InPlace<'a> {
    folder: &'a Path,
    recorded: &'a BTreeSet<String>,
    full: bool,
}

impl Output for InPlace<'_> {
    fn file(&mut self, path: &str, contents: &mut dyn Read) -> io::Result<()> {
        if self.recorded.contains(path) {
            return Ok(());
        }
        let path = self.folder.join(path);
        let parent = path.parent().unwrap_or(self.folder);
        let written =
            fs::create_dir_all(parent).and_then(|()| io::copy(contents, &mut File::create(&path)?)).map(drop);
        self.full |= written.as_ref().is_err_and(is_full);
        written
    }
}

/// Is there no room left?
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
