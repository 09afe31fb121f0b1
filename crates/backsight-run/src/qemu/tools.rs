//! QEMU and the plugin: where they are, and what to say when they are not.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::Target;

const PLUGIN: &str = "libbacksight_qemu.so";
const BUILT_PLUGIN: &str = "tools/qemu-plugin/target/release/libbacksight_qemu.so";

/// What it takes to record a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// The program `qemu-TARGET`.
    pub qemu: PathBuf,
    /// The plugin that it loads.
    pub plugin: PathBuf,
}

impl Tools {
    /// Finds both. QEMU: `qemu`, else `qemu-TARGET` of the search path. The plugin: `plugin`, else the file that
    /// `BACKSIGHT_QEMU_PLUGIN` names, else beside this executable, else where a checkout builds it, if this
    /// executable or the current folder is in one.
    ///
    /// # Errors
    /// If one of them is not there; the message says how to get it.
    pub fn find(target: Target, qemu: Option<&Path>, plugin: Option<&Path>) -> Result<Self, QemuError> {
        let qemu = match qemu {
            Some(qemu) => Some(qemu.to_path_buf()),
            None => in_search_path(&format!("qemu-{target}")),
        };
        let qemu = qemu.filter(|qemu| qemu.is_file()).ok_or(QemuError::NoQemu(target))?;
        let plugin = plugin
            .map(Path::to_path_buf)
            .or_else(|| std::env::var_os("BACKSIGHT_QEMU_PLUGIN").map(PathBuf::from))
            .or_else(|| plugin_places().into_iter().find(|place| place.is_file()));
        match plugin.filter(|plugin| plugin.is_file()) {
            // QEMU looks for a name without a slash elsewhere.
            Some(plugin) => Ok(Self { qemu, plugin: plugin.canonicalize().unwrap_or(plugin) }),
            None => Err(QemuError::NoPlugin),
        }
    }
}

fn in_search_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn plugin_places() -> Vec<PathBuf> {
    let executable = std::env::current_exe().ok();
    let beside = executable.iter().filter_map(|file| file.parent()).map(|folder| folder.join(PLUGIN));
    let here = std::env::current_dir().ok();
    let above = executable.iter().chain(&here).flat_map(|place| place.ancestors());
    beside.chain(above.map(|folder| folder.join(BUILT_PLUGIN))).collect()
}

/// Why a program could not be recorded.
#[derive(Debug)]
pub enum QemuError {
    /// The program cannot be read.
    Program {
        /// The program.
        program: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The program is not an ELF file for a target that QEMU can record.
    NotElf(PathBuf),
    /// QEMU is not installed.
    NoQemu(Target),
    /// The plugin is not built.
    NoPlugin,
    /// QEMU cannot be started.
    Start {
        /// QEMU.
        qemu: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// QEMU ended before the plugin was there.
    NotRecorded(ExitStatus),
    /// The folder for the run cannot be made.
    Folder(io::Error),
    /// The stream cannot be read.
    Stream(io::Error),
}

impl fmt::Display for QemuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { program, error } => write!(f, "{}: {error}", program.display()),
            Self::NotElf(program) => write!(
                f,
                "{}: not a program for aarch64, arm or riscv64 (expected a little-endian ELF file)",
                program.display()
            ),
            Self::NoQemu(target) => write!(
                f,
                "qemu-{target} is not installed; on Debian 12: apt-get install qemu-user (version 7.2; \
                 versions that are linked statically load no plugins)"
            ),
            Self::NoPlugin => write!(
                f,
                "the QEMU plugin is not built; in the checkout of Backsight: cargo build --release --manifest-path \
                 tools/qemu-plugin/Cargo.toml (or set BACKSIGHT_QEMU_PLUGIN to {PLUGIN})"
            ),
            Self::Start { qemu, error } => write!(f, "{}: {error}", qemu.display()),
            Self::NotRecorded(status) => write!(
                f,
                "QEMU ended ({status}) before the program began; its own message is above. It must be able to load plugins: \
                 Debian 12's qemu-user 7.2 is"
            ),
            Self::Folder(error) => write!(f, "no folder for the recording: {error}"),
            Self::Stream(error) => write!(f, "the recording cannot be read: {error}"),
        }
    }
}

impl std::error::Error for QemuError {}
