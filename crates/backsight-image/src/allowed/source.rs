//! Source text that debug information names.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::GivenFolder;

/// Longest file of source that is read.
const LONGEST_SOURCE: u64 = 4 << 20;

/// Parts of a path that are looked at: the last ones.
const MOST_PARTS: usize = 40;

/// Folders whose files may be shown as source. Debug information names paths of the machine that the program was built
/// on: such a path is found whole beneath a folder, or by as many of its last parts as lead to a file. Hidden files and
/// folders are never looked into.
#[derive(Debug, Default)]
pub struct SourceFolders {
    folders: Vec<GivenFolder>,
    files: Mutex<HashMap<String, Option<Arc<[String]>>>>,
}

impl SourceFolders {
    /// These folders.
    pub fn new(folders: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let folders = folders.into_iter().map(GivenFolder::new).collect();
        Self { folders, files: Mutex::default() }
    }

    /// Is there none, so that no source is shown?
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// The lines of a file as debug information names it; `None` if no folder has it.
    pub fn lines(&self, file: &str) -> Option<Arc<[String]>> {
        if self.folders.is_empty() {
            return None;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.entry(file.to_owned()).or_insert_with(|| self.read(file)).clone()
    }

    /// Where the file is that debug information names so, beneath one of the folders as they were given.
    pub fn path(&self, file: &str) -> Option<PathBuf> {
        self.find(file, |folder, name| folder.find(name).ok().map(|_| folder.path().join(name)))
    }

    fn read(&self, file: &str) -> Option<Arc<[String]>> {
        Some(self.find(file, read_text)?.lines().map(str::to_owned).collect())
    }

    /// The first of the files that are meant that gives something.
    fn find<T>(&self, file: &str, mut take: impl FnMut(&GivenFolder, &Path) -> Option<T>) -> Option<T> {
        let parts = parts_of(file);
        let is_hidden = |part: &&OsStr| part.as_encoded_bytes().starts_with(b".");
        self.folders.iter().find_map(|folder| {
            let real = folder.real_path().ok()?;
            let below = Path::new(file).strip_prefix(real).ok().map(|inside| inside.components().count());
            let counts = below.into_iter().chain((1..=parts.len()).rev());
            counts.filter_map(|count| parts.get(parts.len().checked_sub(count)?..)).find_map(|last| {
                let name: PathBuf = last.iter().collect();
                match last.iter().any(is_hidden) {
                    true => None,
                    false => take(folder, &name),
                }
            })
        })
    }
}

/// The parts of a path, with `..` taken back as far as there is something to take back.
fn parts_of(file: &str) -> Vec<&OsStr> {
    let mut parts = Vec::new();
    for part in Path::new(file).components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::ParentDir => _ = parts.pop(),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    parts.split_off(parts.len().saturating_sub(MOST_PARTS))
}

fn read_text(folder: &GivenFolder, name: &Path) -> Option<String> {
    let (file, _) = folder.open(name).ok()?;
    let mut bytes = Vec::new();
    file.take(LONGEST_SOURCE + 1).read_to_end(&mut bytes).ok()?;
    let is_text = bytes.len() as u64 <= LONGEST_SOURCE && !bytes.contains(&0);
    is_text.then(|| String::from_utf8_lossy(&bytes).into_owned())
}
