//! What a capture is known by: that it is still what it was.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use backsight::image::GivenFolder;
use crc32fast::Hasher;

use crate::{Error, Result};

/// Files of a capture that are looked at, at most.
const MOST_FILES: usize = 1 << 20;

/// Deepest folders of a capture.
const DEEPEST: usize = 16;

/// What the files of a capture were. Another copy of the same files has the same one, but for when they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Bytes of all files.
    pub bytes: u64,
    /// Of when the files were written.
    pub modified: u64,
    /// Of the names and contents of the files.
    pub digest: u32,
}

/// The files of a capture, by name.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(path, 0, &mut files)?;
    files.sort();
    Ok(files)
}

fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        // A pipe or a device in a folder is no file of the capture, and could be read for ever.
        if depth == 0 || path.is_file() {
            files.push(path.to_owned());
        }
        return Ok(());
    }
    if depth > DEEPEST || files.len() > MOST_FILES {
        return Err(io::Error::other("too many files or folders for a capture"));
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // A link to a folder may lead anywhere.
        if entry.file_type()?.is_symlink() && entry.path().is_dir() {
            continue;
        }
        collect(&entry.path(), depth + 1, files)?;
    }
    Ok(())
}

/// Sizes and times of the files of a capture.
fn outline(path: &Path) -> io::Result<(u64, u64)> {
    let (mut bytes, mut times) = (0, 0_u64);
    for file in files(path)? {
        let metadata = fs::metadata(&file)?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        bytes += metadata.len();
        times = times.rotate_left(7) ^ (modified.as_nanos() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    Ok((bytes, times))
}

fn digest(path: &Path) -> io::Result<u32> {
    let mut hasher = Hasher::new();
    let mut block = vec![0; 1 << 18];
    for file in files(path)? {
        let name = file.strip_prefix(path).unwrap_or(Path::new(""));
        hasher.update(name.as_os_str().as_encoded_bytes());
        hasher.update(&fs::metadata(&file)?.len().to_le_bytes());
        // What a link out of the capture leads to is not read.
        let opened = match name.as_os_str().is_empty() {
            true => File::open(&file),
            false => GivenFolder::new(path).open(name).map(|(file, _)| file),
        };
        let Ok(mut contents) = opened else { continue };
        loop {
            match contents.read(&mut block)? {
                0 => break,
                count => hasher.update(block.get(..count).unwrap_or_default()),
            }
        }
    }
    Ok(hasher.finalize())
}

impl Identity {
    /// Of a file or a folder. Everything is read.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(path: &Path) -> Result<Self> {
        let found = || {
            let (bytes, modified) = outline(path)?;
            Ok::<_, io::Error>(Self { bytes, modified, digest: digest(path)? })
        };
        found().map_err(|error| Error::file(path, error))
    }

    /// Refuses what is not the same. Contents are read only where sizes are the same and times are not.
    ///
    /// # Errors
    /// If the capture has changed, or cannot be read.
    pub fn check(&self, path: &Path) -> Result {
        let (bytes, modified) = outline(path).map_err(|error| Error::file(path, error))?;
        if bytes == self.bytes && modified == self.modified {
            return Ok(());
        }
        let is_same =
            bytes == self.bytes && digest(path).map_err(|error| Error::file(path, error))? == self.digest;
        if is_same { Ok(()) } else { Err(changed(path)) }
    }
}

fn changed(path: &Path) -> Error {
    Error::Changed(format!("{}: the capture is not what it was: it has changed since", path.display()))
}

/// Watches over a capture: the files that it had when it was opened are to stay as they were until it has been read. Files that
/// come later, beside them, are none of its own.
#[derive(Clone, Debug)]
pub struct Guard {
    path: PathBuf,
    /// Each file, with its size and when it was written.
    files: Arc<[(PathBuf, u64, SystemTime)]>,
}

impl Guard {
    /// Of a file or a folder, before it is opened as a capture.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn new(path: &Path) -> Result<Self> {
        let look = |file: PathBuf| {
            let (size, written) = size_and_time(&file)?;
            Ok::<_, io::Error>((file, size, written))
        };
        let looked_at = files(path).and_then(|files| files.into_iter().map(look).collect());
        Ok(Self { path: path.to_owned(), files: looked_at.map_err(|error| Error::file(path, error))? })
    }

    /// Is it still what it was?
    ///
    /// # Errors
    /// If it is not.
    pub fn check(&self) -> Result {
        let same = |(file, size, written): &(PathBuf, u64, SystemTime)| {
            size_and_time(file).is_ok_and(|now| now == (*size, *written))
        };
        match self.files.iter().find(|file| !same(file)) {
            None => Ok(()),
            Some((file, ..)) => Err(Error::Changed(format!(
                "{}: the capture changed while it was read: {} is not what it was when the capture was opened",
                self.path.display(),
                file.display()
            ))),
        }
    }
}

fn size_and_time(file: &Path) -> io::Result<(u64, SystemTime)> {
    let metadata = fs::metadata(file)?;
    Ok((metadata.len(), metadata.modified()?))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn pipes_and_what_links_lead_to_elsewhere_are_not_read() {
        let folder = std::env::temp_dir().join(format!("backsight-identity-{}", std::process::id()));
        let capture = folder.join("capture");
        fs::create_dir_all(&capture).unwrap();
        fs::write(folder.join("secret"), "one").unwrap();
        fs::write(capture.join("trace.bin"), "trace").unwrap();
        let made = std::process::Command::new("mkfifo").arg(capture.join("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()));
        std::os::unix::fs::symlink("../secret", capture.join("linked")).unwrap();
        let digest = Identity::of(&capture).unwrap().digest;
        fs::write(folder.join("secret"), "two").unwrap();
        assert_eq!(Identity::of(&capture).unwrap().digest, digest);
        fs::write(capture.join("trace.bin"), "other").unwrap();
        assert_ne!(Identity::of(&capture).unwrap().digest, digest);
        fs::remove_dir_all(&folder).unwrap();
    }
}
