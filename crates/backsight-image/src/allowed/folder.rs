//! A folder that the user gave, and what lies beneath it.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use super::{check_opened, check_regular, is_of_the_system};
use crate::{Contents, ImageError};

/// Links that are followed on the way to one file.
const MOST_LINKS: u32 = 40;

/// A folder that the user gave: names that a capture chose are looked up beneath it, and nowhere else.
#[derive(Clone, Debug)]
pub struct GivenFolder {
    path: PathBuf,
    /// Where it is, whatever links lead to it.
    real: OnceLock<PathBuf>,
    is_root: bool,
}

impl GivenFolder {
    /// A folder with files. Links in it that lead out of it are refused.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), real: OnceLock::new(), is_root: false }
    }

    /// The root folder of another system: absolute paths, in names and in links, begin at it.
    pub fn root(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), real: OnceLock::new(), is_root: true }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is, whatever links lead to it.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn real_path(&self) -> io::Result<&Path> {
        if let Some(real) = self.real.get() {
            return Ok(real);
        }
        let real = fs::canonicalize(&self.path)?;
        Ok(self.real.get_or_init(|| real))
    }

    /// Where the regular file of this name really is.
    ///
    /// # Errors
    /// If there is none beneath the folder.
    pub fn find(&self, name: impl AsRef<Path>) -> io::Result<(PathBuf, Metadata)> {
        let root = self.real_path()?;
        let (inside, metadata) = self.resolve(root, name.as_ref())?;
        check_regular(&metadata)?;
        let path = root.join(inside);
        if is_of_the_system(&path) && !is_of_the_system(root) {
            return Err(io::Error::other("it is a file of /proc, /sys or /dev"));
        }
        Ok((path, metadata))
    }

    /// Opens the regular file of this name; gives where it really is, too.
    ///
    /// # Errors
    /// If there is none beneath the folder, or it cannot be read.
    pub fn open(&self, name: impl AsRef<Path>) -> io::Result<(File, PathBuf)> {
        let (path, _) = self.find(name)?;
        let root = self.real_path()?;
        let inside = path.strip_prefix(root).map_err(io::Error::other)?;
        let file = open_beneath(root, inside)?;
        check_opened(&file)?;
        Ok((file, path))
    }

    /// The contents of the regular file of this name.
    ///
    /// # Errors
    /// If there is none beneath the folder, or it cannot be read.
    pub fn contents(&self, name: impl AsRef<Path>) -> Result<Contents, ImageError> {
        let name = name.as_ref();
        let (file, path) = self.open(name).map_err(|error| ImageError::io(&self.path.join(name), error))?;
        Contents::of_file(&path, file)
    }

    /// Follows a name, part by part: where it leads to inside of the folder, without links.
    fn resolve(&self, root: &Path, name: &Path) -> io::Result<(PathBuf, Metadata)> {
        let mut wanted = Vec::new();
        for part in name.components().rev() {
            match part {
                Component::Normal(part) => wanted.push(part.to_owned()),
                Component::CurDir => {}
                Component::RootDir if self.is_root => {}
                Component::ParentDir => return Err(io::Error::other("`..` in a name is refused")),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(io::Error::other("it is an absolute path"));
                }
            }
        }
        let (mut inside, mut links) = (PathBuf::new(), 0);
        let mut metadata = None;
        while let Some(part) = wanted.pop() {
            if part == ".." {
                // Of a link: above a root there is the root.
                if !inside.pop() && !self.is_root {
                    return Err(leads_out(root));
                }
                metadata = None;
                continue;
            }
            let mut at = root.join(&inside);
            at.push(&part);
            let found = fs::symlink_metadata(&at)?;
            if !found.is_symlink() {
                inside.push(part);
                metadata = Some(found);
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(io::Error::other("too many links lead to it"));
            }
            let mut target = fs::read_link(&at)?;
            if target.is_absolute() {
                if !self.is_root {
                    let real = fs::canonicalize(&target)?;
                    target = real.strip_prefix(root).map_err(|_| leads_out(root))?.to_owned();
                }
                inside = PathBuf::new();
            }
            wanted.extend(parts_of(&target));
        }
        let metadata = metadata.map_or_else(|| fs::symlink_metadata(root.join(&inside)), Ok)?;
        Ok((inside, metadata))
    }
}

/// The parts of a link's target, the last first.
fn parts_of(target: &Path) -> impl Iterator<Item = OsString> {
    target.components().rev().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

fn leads_out(root: &Path) -> io::Error {
    io::Error::other(format!("it is a link that leads out of {}", root.display()))
}

/// Opens what was found. Where the kernel can, it sees to it that no link was put there in the meantime.
#[cfg(target_os = "linux")]
fn open_beneath(root: &Path, inside: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let folder = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    match openat2(&folder, inside, flags, Mode::empty(), resolve) {
        // Kernels before 5.6, and sandboxes that do not know the call.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            Ok(open(root.join(inside), flags | OFlags::NOFOLLOW, Mode::empty())?.into())
        }
        opened => Ok(opened?.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(root: &Path, inside: &Path) -> io::Result<File> {
    super::open_regular(&root.join(inside))
}
