//! Which files of this machine a recorded program may use.

use std::path::{Path, PathBuf};

use backsight_sim::Sandbox;
use clap::Args;

use crate::failure::{Failure, Result};

/// What a program may use.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What the program may do")]
pub struct SandboxArgs {
    /// Refuse the program all files of this machine but those that --allow-read and --allow-write allow; what was refused
    /// is listed at the end. Programs that lie in a capture run so by themselves. In the simulator only: without it, and
    /// always under QEMU, a program may do all that you may do
    #[arg(long)]
    sandbox: bool,

    /// Run a program that lies in a capture as any other, with all your rights
    #[arg(long, conflicts_with_all = ["sandbox", "allow_read", "allow_write"])]
    no_sandbox: bool,

    /// The program may read what is beneath this folder, and nothing else (implies --sandbox). May be given several times
    #[arg(long, value_name = "DIR")]
    allow_read: Vec<PathBuf>,

    /// The program may read and change what is beneath this folder (implies --sandbox). May be given several times
    #[arg(long, value_name = "DIR")]
    allow_write: Vec<PathBuf>,
}

impl SandboxArgs {
    /// The sandbox for a program, if it is to have one.
    pub fn of(&self, program: &Path) -> Result<Option<Sandbox>> {
        let is_asked_for = self.sandbox || !self.allow_read.is_empty() || !self.allow_write.is_empty();
        if self.no_sandbox || !is_asked_for && capture_around(program).is_none() {
            return Ok(None);
        }
        let mut sandbox = Sandbox::new();
        let reads = self.allow_read.iter().map(|folder| ("--allow-read", folder, false));
        for (option, folder, writable) in
            reads.chain(self.allow_write.iter().map(|folder| ("--allow-write", folder, true)))
        {
            let refused = |error| Failure::usage(format!("{option} {}: {error}", folder.display()));
            sandbox.allow(folder, writable).map_err(refused)?;
        }
        Ok(Some(sandbox))
    }

    /// Under QEMU there is no sandbox.
    pub fn check_emulated(&self, program: &Path) -> Result {
        if self.of(program)?.is_none() {
            return Ok(());
        }
        let rights = "under QEMU a program has all your rights: run it in a container or as another user";
        Err(match capture_around(program).filter(|_| !self.sandbox) {
            Some(capture) => Failure::new(format!(
                "{}: it lies in the capture {}, whose programs run in a sandbox, and {rights}; or give --no-sandbox if you \
                 trust it",
                program.display(),
                capture.display()
            )),
            None => Failure::usage(format!(
                "--sandbox holds in the simulator only (static riscv64 programs); {rights}"
            )),
        })
    }
}

/// The capture that a program lies in: somebody else may have put it there.
fn capture_around(program: &Path) -> Option<PathBuf> {
    let real = program.canonicalize().ok()?;
    let is_capture =
        |folder: &&Path| backsight_capture::ENTRIES.iter().any(|entry| folder.join(entry).is_file());
    real.ancestors().skip(1).find(is_capture).map(Path::to_owned)
}
