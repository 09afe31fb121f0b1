//! QEMU and the plugin: where they are, and what to say when they are not.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::Target;

const PLUGIN: &str = "libbacksight_qemu.so";
/// The checkout that this program was built from.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The variable that names the plugin.
const VARIABLE: &str = "BACKSIGHT_QEMU_PLUGIN";

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
    /// `BACKSIGHT_QEMU_PLUGIN` names, else the one beside this executable or, of an executable in `PREFIX/bin`, in
    /// `PREFIX/lib/backsight`. It is looked for nowhere else: what QEMU loads runs with all rights of the user.
    ///
    /// # Errors
    /// If one of them is not there; the message says how to get it.
    pub fn find(target: Target, qemu: Option<&Path>, plugin: Option<&Path>) -> Result<Self, QemuError> {
        let qemu = match qemu {
            Some(qemu) => Some(qemu.to_path_buf()),
            None => in_search_path(&format!("qemu-{target}")),
        };
        let qemu = qemu.filter(|qemu| qemu.is_file()).ok_or(QemuError::NoQemu(target))?;
        let named = plugin.map(Path::to_path_buf).or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
        let places = std::env::current_exe().map_or_else(|_| vec![PLUGIN.into()], |program| places(&program));
        let plugin = match named {
            Some(named) if named.is_file() => Some(named),
            Some(named) => return Err(QemuError::PluginMissing(named)),
            None => places.iter().find(|file| file.is_file()).cloned(),
        };
        match plugin {
            // QEMU looks for a name without a slash elsewhere.
            Some(plugin) => Ok(Self { qemu, plugin: plugin.canonicalize().unwrap_or(plugin) }),
            None => Err(QemuError::NoPlugin(places)),
        }
    }
}

/// Where the plugin is looked for if nobody names one: beside the program, and where it belongs if that was installed. The last
/// is the one to put it into.
fn places(program: &Path) -> Vec<PathBuf> {
    let mut places = vec![program.with_file_name(PLUGIN)];
    let folder = program.parent().filter(|folder| folder.file_name() == Some("bin".as_ref()));
    places.extend(folder.and_then(Path::parent).map(|prefix| prefix.join("lib/backsight").join(PLUGIN)));
    places
}

fn in_search_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The command that builds the plugin and puts it where it is looked for, and where to type it: anywhere while the
/// checkout that this program was built from is still there.
fn build_command(checkout: &Path, to: &Path) -> (&'static str, String) {
    let package = Path::new("tools/qemu-plugin");
    let known = checkout.join(package).join("Cargo.toml").is_file();
    let (where_to, package) = match known {
        true => ("", checkout.join(package)),
        false => (", in the checkout of Backsight", package.to_owned()),
    };
    let manifest = in_shell(&package.join("Cargo.toml"));
    let built = in_shell(&package.join("target/release").join(PLUGIN));
    let to = in_shell(to);
    (where_to, format!("cargo build --release --manifest-path {manifest} && install -D {built} {to}"))
}

/// A path as a shell reads it.
fn in_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+@:,".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
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
    /// There is no plugin, and nobody named one: where it was looked for.
    NoPlugin(Vec<PathBuf>),
    /// The plugin that was named is not there.
    PluginMissing(PathBuf),
    /// QEMU cannot be started.
    Start {
        /// QEMU.
        qemu: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// QEMU ended before the plugin was there.
    NotRecorded(ExitStatus),
    /// QEMU ended before the program's first instruction.
    NothingRan {
        /// How it ended.
        status: ExitStatus,
        /// The dynamic linker that the program wants.
        interpreter: Option<PathBuf>,
        /// It was told which processor to be: of this target.
        cpu: Option<Target>,
    },
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
            Self::NoPlugin(places) => {
                let to = places.last().map_or(Path::new(PLUGIN), PathBuf::as_path);
                let (where_to, command) = build_command(Path::new(CHECKOUT), to);
                let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
                write!(
                    f,
                    "the QEMU plugin is not built, or not where it is looked for ({}). Build it and put it there{where_to}:\n    {command}\nor name \
                     the file with {VARIABLE} or --qemu-plugin",
                    places.join(", "),
                )
            }
            Self::PluginMissing(plugin) => {
                write!(
                    f,
                    "{}: there is no such QEMU plugin ({VARIABLE} or --qemu-plugin names it)",
                    plugin.display()
                )
            }
            Self::Start { qemu, error } => write!(f, "{}: {error}", qemu.display()),
            Self::NotRecorded(status) => write!(
                f,
                "QEMU ended ({status}) before the program began; its own message is above. It must be able to load plugins: \
                 Debian 12's qemu-user 7.2 is"
            ),
            Self::NothingRan { status, interpreter, cpu } => {
                write!(
                    f,
                    "QEMU ended ({status}) before the program's first instruction; its own message is above"
                )?;
                if let Some(interpreter) = interpreter {
                    write!(
                        f,
                        ". The program is dynamically linked and needs {}: name the folder that has it and the \
                         libraries with --sysroot DIR (Debian: /usr/aarch64-linux-gnu of libc6-arm64-cross, and others \
                         like it)",
                        interpreter.display()
                    )?;
                }
                match cpu {
                    Some(target) => write!(f, ". `qemu-{target} -cpu help` lists what --cpu takes"),
                    None => Ok(()),
                }
            }
            Self::Folder(error) => write!(f, "no folder for the recording: {error}"),
            Self::Stream(error) => write!(f, "the recording cannot be read: {error}"),
        }
    }
}

impl std::error::Error for QemuError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_for_the_plugin_works_from_any_folder_while_the_checkout_is_there() {
        let beside = Path::new("/opt/my tools/libbacksight_qemu.so");
        let (where_to, command) = build_command(Path::new(CHECKOUT), beside);
        assert_eq!(where_to, "");
        assert!(
            command.contains(&format!("--manifest-path {CHECKOUT}/tools/qemu-plugin/Cargo.toml")),
            "{command}"
        );
        assert!(command.ends_with(" '/opt/my tools/libbacksight_qemu.so'"), "{command}");
        let (where_to, command) = build_command(Path::new("/nowhere"), beside);
        assert_eq!(where_to, ", in the checkout of Backsight");
        assert!(
            command.contains("--manifest-path tools/qemu-plugin/Cargo.toml && install -D tools/"),
            "{command}"
        );
    }

    #[test]
    fn an_installed_program_has_its_plugin_in_the_folder_of_libraries() {
        let of = |program: &str| places(Path::new(program));
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            of("/usr/bin/backsight"),
            paths(&["/usr/bin/libbacksight_qemu.so", "/usr/lib/backsight/libbacksight_qemu.so"])
        );
        assert_eq!(
            of("/home/me/backsight/target/release/backsight"),
            paths(&["/home/me/backsight/target/release/libbacksight_qemu.so"])
        );
        let error = QemuError::NoPlugin(of("/home/me/.cargo/bin/backsight")).to_string();
        assert!(error.contains(" /home/me/.cargo/lib/backsight/libbacksight_qemu.so\nor name"), "{error}");
    }
}
