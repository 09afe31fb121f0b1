//! Files and folders that are whole or absent.
//!
//! What is written goes to a temporary name in the same folder, which nobody can foresee, and gets its own name when it is
//! complete. Whatever goes wrong before that, what was there stays as it was. The temporary is removed when the value is dropped,
//! or by [`give_up_all`] when a signal ends the program.

use backsight_core::Printable;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is being written: the place of each temporary. Names are given and temporaries removed only by those who hold it.
static UNFINISHED: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());

fn unfinished() -> MutexGuard<'static, BTreeMap<PathBuf, PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The places of what was given up. While this lives, nothing gets its name.
#[derive(Debug)]
pub struct GivenUp {
    /// Where nothing was written.
    pub places: Vec<PathBuf>,
    _held: MutexGuard<'static, BTreeMap<PathBuf, PathBuf>>,
}

/// Removes all that is not complete: for a program that a signal is about to end. Others may go on writing meanwhile.
pub fn give_up_all() -> GivenUp {
    let mut held = unfinished();
    let mut places = Vec::new();
    for (temporary, place) in std::mem::take(&mut *held) {
        remove(&temporary);
        places.push(place);
    }
    places.sort();
    places.dedup();
    GivenUp { places, _held: held }
}

/// What cannot be removed stays: why it was given up matters more.
fn remove(path: &Path) {
    let _ = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            // For all who may still write into it by its name it is gone at once.
            let moved = temporary_beside(path);
            let path = fs::rename(path, &moved).map_or(path, |()| &moved);
            fs::remove_dir_all(path)
        }
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
}

/// A name beside `place`, short whatever that is called.
fn temporary_beside(place: &Path) -> PathBuf {
    // Keys of the standard library's hashes come from the system's source of randomness.
    let number = RandomState::new().hash_one(std::process::id());
    place.with_file_name(format!(".backsight-{number:016x}.part"))
}

/// The path without a slash at its end. A place has a name of its own.
fn named(place: &Path) -> io::Result<PathBuf> {
    let place: PathBuf = place.components().collect();
    match place.file_name() {
        Some(_) => Ok(place),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "has no name of its own")),
    }
}

/// Makes something under a name beside its place.
fn make_beside<T>(place: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    loop {
        let temporary = temporary_beside(place);
        let mut held = unfinished();
        match make(&temporary) {
            Ok(made) => {
                held.insert(temporary.clone(), place.to_owned());
                return Ok((temporary, made));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new(".")).display();
                let what = format!("nothing can be made in the folder {folder}: {error}");
                return Err(io::Error::new(error.kind(), what));
            }
        }
    }
}

/// A file that is whole or absent. What is at its place, a link for example, is replaced and not followed.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    temporary: PathBuf,
    place: PathBuf,
}

impl WholeFile {
    /// Begins a file that is to be at `place`.
    ///
    /// # Errors
    /// If no file can be made there, a folder is there, or a file that must not be written.
    pub fn create(place: &Path) -> io::Result<Self> {
        let place = named(place)?;
        let before = match fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if found.is_file() => {
                File::options().write(true).open(&place)?;
                Some(found.permissions())
            }
            _ => None,
        };
        // No link is followed to a file that must be new.
        let (temporary, file) = make_beside(&place, |path| File::create_new(path))?;
        let whole = Self { file, temporary, place };
        if let Some(before) = before {
            whole.file.set_permissions(before)?;
        }
        Ok(whole)
    }

    /// The file is complete: it gets its name.
    ///
    /// # Errors
    /// If something cannot be written. Then nothing has changed.
    pub fn finish(self) -> io::Result<()> {
        finish_all([self])
    }
}

/// Several files are complete: all get their names, or none if something cannot be written.
fn finish_all(files: impl IntoIterator<Item = WholeFile>) -> io::Result<()> {
    let files: Vec<WholeFile> = files.into_iter().collect();
    // A disk may turn out to be full only here.
    files.iter().try_for_each(|whole| whole.file.sync_all())?;
    let mut held = unfinished();
    let named = files.iter().try_for_each(|whole| {
        fs::rename(&whole.temporary, &whole.place)?;
        held.remove(&whole.temporary);
        Ok(())
    });
    drop(held);
    named
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if unfinished().remove(&self.temporary).is_some() {
            remove(&self.temporary);
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for WholeFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// A folder that is not complete and is written by others, under a name of its own: a signal removes it.
#[derive(Debug)]
pub struct RemovedOnSignal {
    folder: PathBuf,
}

impl RemovedOnSignal {
    /// Makes the folder: a signal comes before it is there, or removes it. `place` is where it is to be when it is complete.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(folder: &Path, place: &Path) -> io::Result<Self> {
        let mut held = unfinished();
        fs::create_dir_all(folder)?;
        held.insert(folder.to_owned(), place.to_owned());
        Ok(Self { folder: folder.to_owned() })
    }

    /// The last step, which no signal interrupts: after it nothing is removed.
    ///
    /// # Errors
    /// That of the step.
    pub fn finish(self, step: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut held = unfinished();
        step()?;
        held.remove(&self.folder);
        Ok(())
    }
}

impl Drop for RemovedOnSignal {
    fn drop(&mut self) {
        unfinished().remove(&self.folder);
    }
}

/// Is something there? An empty folder is nothing.
pub fn is_taken(place: &Path) -> bool {
    fs::read_dir(place).map_or(fs::symlink_metadata(place).is_ok(), |mut entries| entries.next().is_some())
}

/// A folder that is whole or absent.
#[derive(Debug)]
pub struct WholeFolder {
    temporary: PathBuf,
    place: PathBuf,
    replace: bool,
}

impl WholeFolder {
    /// Begins a folder that is to be at `place`. `replace`: what is there already is replaced as a whole, else it is refused.
    ///
    /// # Errors
    /// If something is there, or no folder can be made there.
    pub fn create(place: &Path, replace: bool) -> io::Result<Self> {
        let place = named(place)?;
        if !replace && is_taken(&place) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        let (temporary, ()) = make_beside(&place, |path| fs::create_dir(path))?;
        Ok(Self { temporary, place, replace })
    }

    /// Begins a file in it, by its path there.
    ///
    /// # Errors
    /// If it cannot be made, or is there.
    pub fn file(&self, path: &str) -> io::Result<File> {
        // Nothing is made in a folder that is being given up.
        let _held = unfinished();
        let path = self.temporary.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        File::create_new(path)
    }

    /// The folder is complete: it gets its name.
    ///
    /// # Errors
    /// If something is there by now that is not to be replaced, or it cannot be.
    pub fn finish(self) -> io::Result<()> {
        let mut held = unfinished();
        if !self.replace && is_taken(&self.place) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let before = temporary_beside(&self.place);
        let had_one = match fs::rename(&self.place, &before) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if let Err(error) = fs::rename(&self.temporary, &self.place) {
            if had_one {
                fs::rename(&before, &self.place)?;
            }
            return Err(error);
        }
        held.remove(&self.temporary);
        drop(held);
        if had_one {
            remove(&before);
        }
        Ok(())
    }
}

impl Drop for WholeFolder {
    fn drop(&mut self) {
        if unfinished().remove(&self.temporary).is_some() {
            remove(&self.temporary);
        }
    }
}

/// Files that are put into a folder together. The folder is made if it is not there; else files of the same names are
/// replaced, and others stay.
#[derive(Debug)]
pub struct FilesInFolder {
    folder: PathBuf,
    whole: Option<WholeFolder>,
    files: Vec<WholeFile>,
}

impl FilesInFolder {
    /// Begins with files that are to be in `folder`.
    ///
    /// # Errors
    /// If no folder can be made there.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let exists = fs::metadata(folder).is_ok_and(|found| found.is_dir());
        let whole = if exists { None } else { Some(WholeFolder::create(folder, false)?) };
        Ok(Self { folder: folder.to_owned(), whole, files: Vec::new() })
    }

    /// Writes a file.
    ///
    /// # Errors
    /// If it cannot be written, or its name has folders in it.
    pub fn file(&mut self, name: &str, contents: &[u8]) -> io::Result<()> {
        if Path::new(name).file_name().is_none_or(|last| last != name) {
            let what = format!("`{}` is no name of a file", Printable(name));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        match &self.whole {
            Some(whole) => {
                let mut file = whole.file(name)?;
                file.write_all(contents)?;
                file.sync_all()
            }
            None => {
                let mut file = WholeFile::create(&self.folder.join(name))?;
                file.write_all(contents)?;
                self.files.push(file);
                Ok(())
            }
        }
    }

    /// All files are there: they get their names.
    ///
    /// # Errors
    /// If something cannot be written.
    pub fn finish(self) -> io::Result<()> {
        finish_all(self.files)?;
        self.whole.map_or(Ok(()), WholeFolder::finish)
    }
}

#[cfg(test)]
#[path = "whole_tests.rs"]
mod tests;
