//! Which files may be read because a capture, a program or debug information names them.
//!
//! The author of a capture chose the names in it, and is not trusted: a name may be that of a key, of `/proc/self/environ`,
//! of a pipe that never ends. So there is one rule, and every reader of such a name comes through here:
//!
//! * a name is looked up beneath folders that the user gave ([`GivenFolder`]): no `..`, no link that leads out;
//! * this machine's own paths only if the user allows it ([`AllowedFiles::allow_host`]), and then only ELF files whose
//!   build ID is the recorded one;
//! * source text only beneath folders that the user gave for it ([`SourceFolders`]);
//! * regular files only, and nothing of `/proc`, `/sys` and `/dev`.

mod folder;
mod source;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

pub use folder::GivenFolder;
pub use source::SourceFolders;

use crate::{Contents, Elf};

/// The files that names in a capture may lead to, besides those of the capture.
#[derive(Clone, Debug, Default)]
pub struct AllowedFiles {
    folders: Arc<[GivenFolder]>,
    host: bool,
}

/// A program of this machine is not the one that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostImageError {
    /// Its build ID, if it has one.
    pub build_id: Option<String>,
    /// That of the program that ran.
    pub expected: String,
}

impl fmt::Display for HostImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.build_id {
            Some(own) => write!(f, "is another version: it has build ID {own}, and ")?,
            None => f.write_str("has no build ID, and ")?,
        }
        write!(f, "{} ran: it is not used", self.expected)
    }
}

impl std::error::Error for HostImageError {}

impl AllowedFiles {
    /// Those beneath these folders.
    pub fn beneath(folders: impl IntoIterator<Item = GivenFolder>) -> Self {
        Self { folders: folders.into_iter().collect(), host: false }
    }

    /// This machine's own programs too, if they have the build ID that was recorded.
    pub fn allow_host(mut self, allow: bool) -> Self {
        self.host = allow;
        self
    }

    /// The folders, in the order in which they were given.
    pub fn folders(&self) -> &[GivenFolder] {
        &self.folders
    }

    /// Are this machine's own programs allowed?
    pub fn allows_host(&self) -> bool {
        self.host
    }

    /// The ELF file at a path of this machine, if that is allowed and it has this build ID, given in hexadecimal digits.
    ///
    /// # Errors
    /// If there is such a file and it is not what ran.
    pub fn host_image(&self, path: &Path, build_id: &str) -> Result<Option<Contents>, HostImageError> {
        let Some(contents) = self.host_elf(path).filter(|_| !build_id.is_empty()) else { return Ok(None) };
        match Elf::build_id_of(&contents) {
            Some(own) if is_same_id(&own, build_id) => Ok(Some(contents)),
            own => Err(HostImageError {
                build_id: own.as_deref().map(hexadecimal),
                expected: build_id.to_owned(),
            }),
        }
    }

    /// The same for debug information, which `is_right` recognises.
    pub(crate) fn host_debug_file(
        &self,
        path: &Path,
        is_right: impl Fn(&Contents) -> bool,
    ) -> Option<Contents> {
        self.host_elf(path).filter(is_right)
    }

    /// The ELF file at a path of this machine, whatever is in it. What lies beside it is not looked at: its contents do not
    /// know where they come from.
    fn host_elf(&self, path: &Path) -> Option<Contents> {
        if !self.host || !is_plain(path) || is_of_the_system(path) {
            return None;
        }
        let path = fs::canonicalize(path).ok().filter(|path| !is_of_the_system(path))?;
        let mut file = open_regular(&path).ok()?;
        if !begins_as_elf(&mut file).ok()? {
            return None;
        }
        Contents::of_file(&path, file).ok().map(Contents::without_file)
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Is a build ID of a file the one that was recorded? perf pads identifiers with zeros.
pub fn is_same_id(own: &[u8], recorded: &str) -> bool {
    let own = hexadecimal(own);
    let (own, recorded) = (own.trim_end_matches('0'), recorded.trim_end_matches('0'));
    !own.is_empty() && own.eq_ignore_ascii_case(recorded)
}

/// Is it an absolute path without `..`?
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

/// Does the path lead to what the system makes up, and to devices?
fn is_of_the_system(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|root| path.starts_with(root))
}

fn begins_as_elf(file: &mut File) -> io::Result<bool> {
    use std::io::{Read, Seek};
    let mut magic = [0; 4];
    let read = file.read(&mut magic)?;
    file.rewind()?;
    Ok(Elf::is_elf(&magic[..read]))
}

/// Opens a regular file that no name of a capture led to unchecked. Never waits for a pipe to be written to.
fn open_regular(path: &Path) -> io::Result<File> {
    check_regular(&fs::metadata(path)?)?;
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits() as i32);
    }
    let file = options.open(path)?;
    check_opened(&file)?;
    Ok(file)
}

/// What was opened may be another file than the one that was looked at.
fn check_opened(file: &File) -> io::Result<()> {
    check_regular(&file.metadata()?)?;
    #[cfg(target_os = "linux")]
    {
        /// `PROC_SUPER_MAGIC` and `SYSFS_MAGIC`: mounted wherever.
        const MADE_UP: [u64; 2] = [0x9FA0, 0x6265_6572];
        if MADE_UP.contains(&(rustix::fs::fstatfs(file)?.f_type as u64)) {
            return Err(io::Error::other("it is a file that the system makes up"));
        }
    }
    Ok(())
}

fn check_regular(metadata: &fs::Metadata) -> io::Result<()> {
    match () {
        () if metadata.is_file() => Ok(()),
        () if metadata.is_dir() => Err(io::Error::other("it is a directory")),
        () => Err(io::Error::other("it is no regular file")),
    }
}

#[cfg(test)]
mod tests;
