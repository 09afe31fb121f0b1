//! Runs a program under QEMU and reads its stream while it runs.
//!
//! QEMU connects to a socket in a folder made for the run. A reader that is slow to read slows the program
//! down; nothing piles up. What QEMU had not sent when it died is read from the tails in that folder.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::tools::Tools;
use super::{QemuError, StreamError, StreamReader, Summary};
use crate::{Observation, Target};

const POLL: Duration = Duration::from_millis(5);
/// How long a program may take to end by itself after it was asked to stop.
const GRACE: Duration = Duration::from_millis(500);
const BUFFER: usize = 1 << 18;

/// What to run and how.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The program: an ELF file for AArch64, 32-bit Arm or RV64.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment; without one it has that of this process.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// Where a dynamically linked program finds its interpreter and libraries (QEMU's `-L`).
    pub sysroot: Option<PathBuf>,
    /// The processor to be (QEMU's `-cpu`); without one, one that does not change between releases of QEMU.
    pub cpu: Option<String>,
    /// Record loads and stores.
    pub memory: bool,
    /// Record what was loaded and stored; this needs `memory` and implies it.
    pub values: bool,
    /// Send what the program writes to its standard output nowhere.
    pub silent: bool,
    /// More arguments for QEMU, such as `-seed 1`.
    pub qemu_arguments: Vec<OsString>,
    /// QEMU; without one, `qemu-TARGET` of the search path.
    pub qemu: Option<PathBuf>,
    /// The plugin; without one, see [`Tools::find`].
    pub plugin: Option<PathBuf>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// What QEMU returned, which is what the program returned; or the signal that both died of.
    pub status: ExitStatus,
    /// What was recorded. It is complete only if the program ended in order.
    pub summary: Summary,
    /// What is wrong with the recording, if anything is. What was handed out before is good.
    pub error: Option<StreamError>,
    /// The target of the program.
    pub target: Target,
}

/// Runs a program to its end and hands out what it does while it does it. When `stop` becomes true the
/// program is ended; what it did until then is handed out in full.
///
/// # Errors
/// If the program could not be run under QEMU with the plugin: [`QemuError`] says why and what to do. A program that fails
/// or crashes is no error: see [`Outcome::status`].
pub fn run(
    options: &RunOptions,
    stop: &AtomicBool,
    sink: &mut impl FnMut(Observation<'_>),
) -> Result<Outcome, QemuError> {
    let target = target_of(&options.program)?;
    let tools = Tools::find(target, options.qemu.as_deref(), options.plugin.as_deref())?;
    let folder = Folder::new().map_err(QemuError::Folder)?;
    let listener = UnixListener::bind(folder.0.join("socket")).map_err(QemuError::Folder)?;
    listener.set_nonblocking(true).map_err(QemuError::Folder)?;
    let child = command(options, target, &tools, &folder.0)
        .spawn()
        .map_err(|error| QemuError::Start { qemu: tools.qemu.clone(), error })?;
    let child = Mutex::new(child);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| watch(stop, &ended, &child));
        let result = record(target, &listener, &folder.0, &child, sink);
        ended.store(true, Ordering::Relaxed);
        result
    })
}

/// The target of an ELF file.
fn target_of(program: &Path) -> Result<Target, QemuError> {
    let unreadable = |error| QemuError::Program { program: program.into(), error };
    let mut header = Vec::new();
    let file = File::open(program).map_err(unreadable)?;
    file.take(20).read_to_end(&mut header).map_err(unreadable)?;
    Target::of_elf(&header).ok_or_else(|| QemuError::NotElf(program.into()))
}

fn command(options: &RunOptions, target: Target, tools: &Tools, folder: &Path) -> Command {
    let mut command = Command::new(&tools.qemu);
    if let Some(environment) = &options.environment {
        command.env_clear().envs(environment.iter().cloned());
    }
    let cpu = options.cpu.as_deref().unwrap_or(match target {
        Target::Aarch64 => "cortex-a72",
        Target::Arm => "cortex-a15",
        Target::Riscv64 => "rv64",
    });
    command.arg("-cpu").arg(cpu);
    if let Some(sysroot) = &options.sysroot {
        command.arg("-L").arg(sysroot);
    }
    if options.silent {
        command.stdout(Stdio::null());
    }
    command.args(&options.qemu_arguments);
    let mut plugin = escaped(tools.plugin.as_os_str());
    plugin.push(",dir=");
    plugin.push(escaped(folder.as_os_str()));
    if options.memory {
        plugin.push(",memory=on");
    }
    if options.values {
        plugin.push(",values=on");
    }
    command.arg("-plugin").arg(plugin).arg(&options.program).args(&options.arguments);
    command
}

/// A comma ends an option of QEMU; two are one comma of a name.
fn escaped(name: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = Vec::with_capacity(name.len());
    for &byte in name.as_bytes() {
        bytes.push(byte);
        if byte == b',' {
            bytes.push(byte);
        }
    }
    OsString::from_vec(bytes)
}

/// Ends the program when `stop` says so. A terminal tells it to stop at the same time: it has a moment to do so.
fn watch(stop: &AtomicBool, ended: &AtomicBool, child: &Mutex<Child>) {
    let mut asked = None;
    while !ended.load(Ordering::Relaxed) {
        thread::sleep(POLL);
        if !stop.load(Ordering::Relaxed) {
            continue;
        }
        if asked.get_or_insert_with(Instant::now).elapsed() < GRACE {
            continue;
        }
        if let Ok(mut child) = child.lock() {
            // It may have ended by itself.
            let _ = child.kill();
        }
    }
}

fn try_wait(child: &Mutex<Child>) -> Result<Option<ExitStatus>, QemuError> {
    match child.lock() {
        Ok(mut child) => child.try_wait().map_err(QemuError::Stream),
        Err(_) => Err(QemuError::Stream(io::ErrorKind::Other.into())),
    }
}

fn record(
    target: Target,
    listener: &UnixListener,
    folder: &Path,
    child: &Mutex<Child>,
    sink: &mut impl FnMut(Observation<'_>),
) -> Result<Outcome, QemuError> {
    let mut reader = StreamReader::new();
    let mut error = None;
    match accept(listener, child)? {
        Ok(stream) => {
            if let Err(damage) = read(stream, &mut reader, sink)? {
                error = Some(damage);
            }
        }
        Err(status) => return Err(QemuError::NotRecorded(status)),
    }
    if error.is_some()
        && let Ok(mut child) = child.lock()
    {
        let _ = child.kill();
    }
    let status = loop {
        match try_wait(child)? {
            Some(status) => break status,
            None => thread::sleep(POLL),
        }
    };
    for tail in tails(folder) {
        if error.is_none()
            && let Err(damage) = reader.tail(&tail, sink)
        {
            error = Some(damage);
        }
    }
    Ok(Outcome { status, summary: reader.finish(sink), error, target })
}

/// Waits for the plugin. The inner error is how QEMU ended without it.
fn accept(
    listener: &UnixListener,
    child: &Mutex<Child>,
) -> Result<Result<UnixStream, ExitStatus>, QemuError> {
    loop {
        // Asked first: QEMU may connect and end between the two questions.
        let ended = try_wait(child)?;
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(QemuError::Stream)?;
                return Ok(Ok(stream));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(QemuError::Stream(error)),
        }
        if let Some(status) = ended {
            return Ok(Err(status));
        }
        thread::sleep(POLL);
    }
}

fn read(
    mut stream: UnixStream,
    reader: &mut StreamReader,
    sink: &mut impl FnMut(Observation<'_>),
) -> Result<Result<(), StreamError>, QemuError> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(Ok(())),
            Ok(count) => {
                if let Err(error) = reader.feed(&buffer[..count], sink) {
                    return Ok(Err(error));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // QEMU died with bytes of ours unread, which there are none of: as good as the end.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Ok(())),
            Err(error) => return Err(QemuError::Stream(error)),
        }
    }
}

/// The tails that are there: definitions first, then threads in start order.
fn tails(folder: &Path) -> impl Iterator<Item = Vec<u8>> {
    let mut threads: Vec<u32> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("tail.")?.parse().ok())
        .collect();
    threads.sort_unstable();
    let names = std::iter::once("tail.definitions".to_string());
    let folder = folder.to_path_buf();
    names
        .chain(threads.into_iter().map(|thread| format!("tail.{thread}")))
        .filter_map(move |name| fs::read(folder.join(name)).ok())
}

/// A folder that goes when it is no longer needed.
struct Folder(PathBuf);

impl Folder {
    /// In memory where there is such a place: the tails in it are written all the time.
    fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("backsight-{}-{count}", std::process::id());
        let memory = Path::new("/dev/shm").join(&name);
        if fs::create_dir(&memory).is_ok() {
            return Ok(Self(memory));
        }
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_of_names_reach_qemu() {
        assert_eq!(escaped(OsStr::new("/a,b/c")), "/a,,b/c");
    }

    #[test]
    fn a_program_that_is_no_elf_file_is_refused() {
        let options = RunOptions { program: "/etc/passwd".into(), ..RunOptions::default() };
        let failure = run(&options, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
        assert!(matches!(failure, QemuError::NotElf(_)), "{failure}");
        let options = RunOptions { program: "/no/such/file".into(), ..RunOptions::default() };
        let failure = run(&options, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
        assert!(failure.to_string().contains("/no/such/file"), "{failure}");
    }
}
