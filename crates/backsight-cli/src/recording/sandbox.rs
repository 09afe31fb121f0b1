//! Which files of this machine a recorded program may use.

use std::path::{Path, PathBuf};

use backsight_run::{RefusedFolder, SandboxRequest};
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
    fn request(&self) -> SandboxRequest {
        let wanted = (self.sandbox || self.no_sandbox).then_some(self.sandbox);
        SandboxRequest { wanted, read: self.allow_read.clone(), write: self.allow_write.clone() }
    }

    /// The sandbox for a program, if it is to have one.
    pub fn of(&self, program: &Path) -> Result<Option<Sandbox>> {
        self.request().of(program).map_err(|RefusedFolder { folder, writable, error }| {
            let option = if writable { "--allow-write" } else { "--allow-read" };
            Failure::usage(format!("{option} {}: {error}", folder.display()))
        })
    }

    /// Under QEMU there is no sandbox.
    pub fn check_emulated(&self, program: &Path) -> Result {
        let request = self.request();
        let checked = request.check_emulated(program, "--sandbox", "--no-sandbox");
        checked.map_err(|why| if request.is_explicit() { Failure::usage(why) } else { Failure::new(why) })
    }
}
