//! Whether a program runs in a sandbox, and which files it may use there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use backsight_sim::Sandbox;

/// What a user asks for.
#[derive(Clone, Debug, Default)]
pub struct SandboxRequest {
    /// With a sandbox, or without. `None`: programs that lie in a capture, and those with folders, have one.
    pub wanted: Option<bool>,
    /// The program may read what is beneath these folders.
    pub read: Vec<PathBuf>,
    /// It may read and change what is beneath these.
    pub write: Vec<PathBuf>,
}

/// A folder of a request that cannot be used.
#[derive(Debug)]
pub struct RefusedFolder {
    /// The folder.
    pub folder: PathBuf,
    /// It is one of [`SandboxRequest::write`].
    pub writable: bool,
    /// Why.
    pub error: io::Error,
}

/// Why a program that is to have a sandbox cannot run under QEMU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoSandbox {
    /// A sandbox is asked for.
    Asked {
        /// What asks for it.
        with: String,
    },
    /// It lies in a capture, whose programs have one.
    InCapture {
        /// The program.
        program: PathBuf,
        /// The capture.
        capture: PathBuf,
        /// What asks for none.
        without: String,
    },
}

impl fmt::Display for NoSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rights = "under QEMU a program has all your rights: run it in a container or as another user";
        match self {
            Self::Asked { with } => {
                write!(f, "{with} holds in the simulator only (static riscv64 programs); {rights}")
            }
            Self::InCapture { program, capture, without } => write!(
                f,
                "{}: it lies in the capture {}, whose programs run in a sandbox, and {rights}; or give {without} if you \
                 trust it",
                program.display(),
                capture.display()
            ),
        }
    }
}

impl std::error::Error for NoSandbox {}

impl SandboxRequest {
    /// The sandbox for a program, if it is to have one.
    ///
    /// # Errors
    /// If a folder is not there.
    pub fn of(&self, program: &Path) -> Result<Option<Sandbox>, RefusedFolder> {
        if !self.is_explicit() && (self.wanted.is_some() || capture_around(program).is_none()) {
            return Ok(None);
        }
        let mut sandbox = Sandbox::new();
        let read = self.read.iter().map(|folder| (folder, false));
        for (folder, writable) in read.chain(self.write.iter().map(|folder| (folder, true))) {
            let allowed = sandbox.allow(folder, writable);
            allowed.map_err(|error| RefusedFolder { folder: folder.clone(), writable, error })?;
        }
        Ok(Some(sandbox))
    }

    /// Is a sandbox asked for, whatever the program is?
    pub fn is_explicit(&self) -> bool {
        self.wanted.unwrap_or(!self.read.is_empty() || !self.write.is_empty())
    }

    /// Under QEMU there is no sandbox: a program that is to have one cannot run there. `with` and `without` are what asks for
    /// a sandbox, and for none.
    ///
    /// # Errors
    /// Why it is to have one.
    pub fn check_emulated(&self, program: &Path, with: &str, without: &str) -> Result<(), NoSandbox> {
        if self.is_explicit() {
            return Err(NoSandbox::Asked { with: with.to_owned() });
        }
        match capture_around(program).filter(|_| self.wanted.is_none()) {
            Some(capture) => {
                let (program, without) = (program.to_owned(), without.to_owned());
                Err(NoSandbox::InCapture { program, capture, without })
            }
            None => Ok(()),
        }
    }
}

/// The capture that a program lies in: somebody else may have put it there.
fn capture_around(program: &Path) -> Option<PathBuf> {
    let real = program.canonicalize().ok()?;
    let is_capture =
        |folder: &&Path| backsight_capture::ENTRIES.iter().any(|entry| folder.join(entry).is_file());
    real.ancestors().skip(1).find(is_capture).map(Path::to_owned)
}
