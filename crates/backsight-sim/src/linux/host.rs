//! The files of the host that a program may use: all, none, or those beneath some folders.
//!
//! Beneath a folder means for the kernel what it means here: names are looked up from the open folder, and neither `..`
//! nor a link leads out of it (`openat2` with `RESOLVE_BENEATH`). Where the kernel does not have that, no link is
//! followed at all.

use super::errno::Errno;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, FileType, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Devices that neither tell nor change anything.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Refusals that are listed one by one; the others are only counted.
const MOST_LISTED: usize = 64;

/// The folders of the host that a program may use. Everything else is refused.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    folders: Vec<AllowedFolder>,
}

#[derive(Clone, Debug)]
struct AllowedFolder {
    /// As it was named, and where it really is.
    paths: [PathBuf; 2],
    open: Arc<OwnedFd>,
    writable: bool,
}

impl Sandbox {
    /// No files at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows to read what is beneath a folder, and to change it if it is `writable`.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn allow(&mut self, folder: &Path, writable: bool) -> io::Result<()> {
        let open =
            rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let paths = [std::path::absolute(folder)?, fs::canonicalize(folder)?];
        self.folders.push(AllowedFolder { paths, open: Arc::new(open), writable });
        Ok(())
    }

    /// The folder that a path is in, and the rest of the path. Of several the innermost counts that the rest stays in.
    fn find(&self, path: &Path, writing: bool) -> Option<(&AllowedFolder, PathBuf)> {
        let rest = |folder: &AllowedFolder| {
            let rest = folder.paths.iter().find_map(|named| path.strip_prefix(named).ok())?;
            let mut depth = 0;
            let stays = rest.components().all(|part| {
                depth += if part == Component::ParentDir { -1 } else { 1 };
                depth >= 0
            });
            stays.then_some(())?;
            Some(if rest.as_os_str().is_empty() { PathBuf::from(".") } else { rest.to_owned() })
        };
        let allowed = self.folders.iter().filter(|folder| folder.writable || !writing);
        let found = allowed.filter_map(|folder| Some((folder, rest(folder)?)));
        found.min_by_key(|(_, rest)| rest.components().count())
    }
}

/// Something that a sandbox did not allow; it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What the program wanted to do.
    pub what: &'static str,
    /// The file; `None` for all that are not listed.
    pub path: Option<PathBuf>,
    /// How often.
    pub count: u64,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = if self.count == 1 { "once".to_owned() } else { format!("{} times", self.count) };
        match &self.path {
            // The name is the program's choice.
            Some(path) => write!(f, "the sandbox refused to {} {path:?} ({times})", self.what),
            None => write!(f, "the sandbox refused to {} other files ({times})", self.what),
        }
    }
}

/// Which files there are.
enum Access {
    None,
    All,
    Beneath(Sandbox),
}

/// The files of the host.
pub struct Host {
    access: Access,
    refused: BTreeMap<(&'static str, Option<PathBuf>), u64>,
}

/// The last name of a path, and the folder that it is looked up in.
pub struct Named {
    folder: Option<OwnedFd>,
    name: PathBuf,
}

impl Named {
    fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(CWD, AsFd::as_fd)
    }
}

const READ: &str = "read";
const WRITE: &str = "change";

impl Host {
    /// All files, or none; or those that a sandbox allows.
    pub fn new(all: bool, sandbox: Option<Sandbox>) -> Self {
        let access = match (all, sandbox) {
            (false, _) => Access::None,
            (true, None) => Access::All,
            (true, Some(sandbox)) => Access::Beneath(sandbox),
        };
        Self { access, refused: BTreeMap::new() }
    }

    /// Are there any?
    pub fn is_there(&self) -> bool {
        !matches!(self.access, Access::None)
    }

    /// What was refused, and how often.
    pub fn refused(&self) -> Vec<Refused> {
        let refused = self.refused.iter();
        refused.map(|((what, path), &count)| Refused { what, path: path.clone(), count }).collect()
    }

    fn refuse(&mut self, what: &'static str, path: &Path) -> Errno {
        let mut key = (what, Some(path.to_owned()));
        if self.refused.len() >= MOST_LISTED && !self.refused.contains_key(&key) {
            key.1 = None;
        }
        *self.refused.entry(key).or_default() += 1;
        Errno::ACCES
    }

    /// Opens a file.
    pub fn open(&mut self, path: &Path, flags: OFlags, mode: u32) -> Result<File, Errno> {
        let changes = OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        self.open_where(path, flags, mode, flags.intersects(changes))
    }

    /// Opens a file, where it could also be changed if `writing`.
    fn open_where(&mut self, path: &Path, flags: OFlags, mode: u32, writing: bool) -> Result<File, Errno> {
        let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode));
        let Access::Beneath(sandbox) = &self.access else {
            return Ok(rustix::fs::open(path, flags, mode)?.into());
        };
        if DEVICES.iter().any(|device| path == Path::new(device)) {
            return Ok(rustix::fs::open(path, flags & !OFlags::CREATE, mode)?.into());
        }
        let what = if writing { WRITE } else { READ };
        let Some((folder, rest)) = sandbox.find(path, writing) else { return Err(self.refuse(what, path)) };
        match open_beneath(folder.open.as_fd(), &rest, flags, mode) {
            Ok(file) => Ok(file.into()),
            Err(rustix::io::Errno::XDEV) => Err(self.refuse(what, path)),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the program itself, to read it: it knows what is in it.
    pub fn open_program(&mut self, path: &Path) -> Result<File, Errno> {
        Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// What is known of a file, or of the link that it is.
    pub fn metadata(&mut self, path: &Path, follow: bool) -> Result<Metadata, Errno> {
        if let Access::All = self.access {
            return Ok(if follow { fs::metadata(path)? } else { fs::symlink_metadata(path)? });
        }
        let link = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        Ok(self.open(path, OFlags::PATH | link, 0)?.metadata()?)
    }

    /// What kind of file it is that is to be opened, to change it if `writing`.
    pub fn kind(&mut self, path: &Path, writing: bool) -> Result<FileType, Errno> {
        match self.access {
            Access::All => Ok(fs::metadata(path)?.file_type()),
            _ => Ok(self.open_where(path, OFlags::PATH, 0, writing)?.metadata()?.file_type()),
        }
    }

    /// Where a directory is, without links and `..`.
    pub fn real_directory(&mut self, path: &Path) -> Result<PathBuf, Errno> {
        if let Access::All = self.access {
            let path = fs::canonicalize(path)?;
            return if path.is_dir() { Ok(path) } else { Err(Errno::NOTDIR) };
        }
        let open = self.open(path, OFlags::PATH | OFlags::DIRECTORY, 0)?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&open);
        Ok(fs::read_link(format!("/proc/self/fd/{number}"))?)
    }

    /// Where the last name of a path is looked up, to change what it names.
    fn name_to_change(&mut self, path: &Path) -> Result<Named, Errno> {
        self.named(path, true)
    }

    fn named(&mut self, path: &Path, writing: bool) -> Result<Named, Errno> {
        let Access::Beneath(sandbox) = &self.access else {
            return Ok(Named { folder: None, name: path.to_owned() });
        };
        let what = if writing { WRITE } else { READ };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(self.refuse(what, path));
        };
        let Some((folder, rest)) = sandbox.find(parent, writing) else { return Err(self.refuse(what, path)) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match open_beneath(folder.open.as_fd(), &rest, flags, Mode::empty()) {
            Ok(folder) => Ok(Named { folder: Some(folder), name: name.into() }),
            Err(rustix::io::Errno::XDEV) => Err(self.refuse(what, path)),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a file or an empty directory.
    pub fn remove(&mut self, path: &Path, directory: bool) -> Result<(), Errno> {
        let named = self.name_to_change(path)?;
        let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(rustix::fs::unlinkat(named.folder(), &named.name, flags)?)
    }

    /// Makes a directory.
    pub fn make_directory(&mut self, path: &Path) -> Result<(), Errno> {
        let named = self.name_to_change(path)?;
        Ok(rustix::fs::mkdirat(named.folder(), &named.name, Mode::from_raw_mode(0o777))?)
    }

    /// Gives a file another name.
    pub fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let (from, to) = (self.name_to_change(from)?, self.name_to_change(to)?);
        Ok(rustix::fs::renameat(from.folder(), &from.name, to.folder(), &to.name)?)
    }

    /// Makes a symbolic link. In a sandbox it must not lead out of its folder.
    pub fn symlink(&mut self, target: &OsStr, path: &Path) -> Result<(), Errno> {
        let stays = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if matches!(self.access, Access::Beneath(_)) && !Path::new(target).components().all(stays) {
            return Err(self.refuse("make a link that leads elsewhere,", path));
        }
        let named = self.name_to_change(path)?;
        Ok(rustix::fs::symlinkat(target, named.folder(), &named.name)?)
    }

    /// Gives a file a second name. Who may change the one may change the other.
    pub fn hard_link(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let (from, to) = (self.name_to_change(from)?, self.name_to_change(to)?);
        Ok(rustix::fs::linkat(from.folder(), &from.name, to.folder(), &to.name, AtFlags::empty())?)
    }

    /// Where a link leads.
    pub fn read_link(&mut self, path: &Path) -> Result<Vec<u8>, Errno> {
        let named = self.named(path, false)?;
        Ok(rustix::fs::readlinkat(named.folder(), &named.name, Vec::new())?.into_bytes())
    }
}

/// Opens what a path names beneath a folder. `EXDEV`: it would lead out of it.
fn open_beneath(
    folder: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, rustix::io::Errno> {
    use rustix::io::Errno;
    /// Somebody moves folders about while one is looked up.
    const ATTEMPTS: usize = 8;
    // The kernel takes a mode only where a file may be made.
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..ATTEMPTS {
        match rustix::fs::openat2(folder, path, flags, mode, resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM) => return walk_beneath(folder, path, flags, mode),
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// The same, name by name, without following any link.
fn walk_beneath(
    folder: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, rustix::io::Errno> {
    use rustix::fs::openat;
    use rustix::io::Errno;
    let names: Vec<&OsStr> = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| if let Component::Normal(name) = part { Ok(name) } else { Err(Errno::XDEV) })
        .collect::<Result<_, _>>()?;
    let Some((last, folders)) = names.split_last() else { return openat(folder, ".", flags, mode) };
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut reached: Option<OwnedFd> = None;
    for name in folders {
        let here = reached.as_ref().map_or(folder, AsFd::as_fd);
        reached = Some(openat(here, *name, step, Mode::empty())?);
    }
    let here = reached.as_ref().map_or(folder, AsFd::as_fd);
    let found = openat(here, *last, flags | OFlags::NOFOLLOW, mode)?;
    let is_link = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode).is_symlink();
    if is_link && !flags.contains(OFlags::NOFOLLOW) { Err(Errno::LOOP) } else { Ok(found) }
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Self(errno.raw_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Opens = fn(BorrowedFd<'_>, &Path, OFlags, Mode) -> Result<OwnedFd, rustix::io::Errno>;

    /// A folder `inside` with a file, a folder and links, beside a secret.
    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("backsight-sandbox-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("inside/deep")).unwrap();
        fs::write(folder.join("secret"), "secret").unwrap();
        fs::write(folder.join("inside/file"), "file").unwrap();
        let link =
            |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.join("inside").join(name)).unwrap();
        link("../secret", "out");
        link("..", "up");
        link("/", "root");
        link("file", "within");
        folder
    }

    #[test]
    fn nothing_leads_out_of_a_folder_whichever_way_it_is_looked_up() {
        let folder = scratch("out");
        let inside = rustix::fs::open(folder.join("inside"), OFlags::PATH, Mode::empty()).unwrap();
        for opens in [open_beneath as Opens, walk_beneath] {
            let open =
                |path: &str| opens(inside.as_fd(), Path::new(path), OFlags::RDONLY, Mode::empty()).map(drop);
            assert_eq!(open("file"), Ok(()));
            assert_eq!(open("./deep"), Ok(()));
            for path in
                ["out", "../secret", "up/secret", "deep/../../secret", "root/etc/passwd", "/etc/passwd"]
            {
                assert!(open(path).is_err(), "{path}");
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_sandbox_allows_what_is_beneath_its_folders_and_counts_what_it_refuses() {
        let folder = scratch("counts");
        let mut sandbox = Sandbox::new();
        sandbox.allow(&folder.join("inside"), false).unwrap();
        sandbox.allow(&folder.join("inside/deep"), true).unwrap();
        assert!(sandbox.allow(&folder.join("nothing"), true).is_err());
        let mut host = Host::new(true, Some(sandbox));
        let inside = |name: &str| folder.join("inside").join(name);
        assert!(host.open(&inside("within"), OFlags::RDONLY, 0).is_ok());
        assert!(host.metadata(&inside("out"), false).is_ok_and(|link| link.is_symlink()));
        assert!(host.open(Path::new("/dev/null"), OFlags::WRONLY, 0).is_ok());
        assert!(host.open(&inside("deep/new"), OFlags::WRONLY | OFlags::CREATE, 0o600).is_ok());
        assert!(host.symlink(OsStr::new("new"), &inside("deep/link")).is_ok());
        assert_eq!(host.read_link(&inside("deep/link")).unwrap(), b"new");
        let refused = [
            host.open(&folder.join("secret"), OFlags::RDONLY, 0).err(),
            host.open(&inside("out"), OFlags::RDONLY, 0).err(),
            host.open(&inside("out"), OFlags::RDONLY, 0).err(),
            host.open(&inside("file"), OFlags::WRONLY, 0).err(),
            host.open(&inside("new"), OFlags::CREATE, 0o600).err(),
            host.remove(&inside("file"), false).err(),
            host.rename(&inside("file"), &inside("deep/file")).err(),
            host.hard_link(&inside("file"), &inside("deep/file")).err(),
            host.make_directory(&folder.join("other")).err(),
            host.symlink(OsStr::new("../../secret"), &inside("deep/out")).err(),
            host.real_directory(&folder).err(),
        ];
        assert_eq!(refused, [Some(Errno::ACCES); 11]);
        assert_eq!(host.refused().iter().map(|refused| refused.count).sum::<u64>(), 11);
        let twice = Refused { what: READ, path: Some(inside("out")), count: 2 };
        assert!(host.refused().contains(&twice), "{:?}", host.refused());
        assert_eq!(
            host.real_directory(&inside("deep/../deep")),
            Ok(fs::canonicalize(inside("deep")).unwrap())
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_program_that_asks_for_ever_other_files_needs_no_memory_for_them() {
        let mut host = Host::new(true, Some(Sandbox::new()));
        for number in 0..10_000 {
            let _ = host.open(Path::new(&format!("/no/{number}")), OFlags::RDONLY, 0);
        }
        assert_eq!(host.refused().len(), MOST_LISTED + 1);
        assert_eq!(host.refused().iter().map(|refused| refused.count).sum::<u64>(), 10_000);
    }
}
