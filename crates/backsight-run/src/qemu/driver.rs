//! Runs a program under QEMU and reads its stream while it runs.
//!
//! QEMU connects to a socket in a folder made for the run, which is removed as soon as it has: whatever happens then,
//! nothing stays. A reader that is slow to read slows the program down; nothing piles up. What QEMU had not sent when it
//! died is read from the file of tails. QEMU ends with its reader: the plugin asks the kernel for it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use backsight_image::elf_headers::{ElfHeaders, PT_INTERP};

use super::rendezvous::{Rendezvous, tails};
use super::streams::ProcessStreams;
use super::tools::Tools;
use super::{QemuError, StreamError, Summary};
use crate::{Observation, Stop, Target};

const POLL: Duration = Duration::from_millis(5);
/// How long a program may take to end by itself after it was asked to stop.
const GRACE: Duration = Duration::from_millis(500);

/// What to run and how.
#[derive(Clone, Debug, Default)]
pub struct EmulationOptions {
    /// The program: an ELF file for AArch64, 32-bit Arm or RV64.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment; without one it has that of this process.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// Where a dynamically linked program finds its interpreter and libraries (QEMU's `-L`).
    pub sysroot: Option<PathBuf>,
    /// The processor to be (QEMU's `-cpu`); without one, that of QEMU itself, which has everything QEMU knows.
    pub cpu: Option<String>,
    /// Record loads and stores.
    pub memory: bool,
    /// Record what was loaded and stored; this needs `memory` and implies it.
    pub values: bool,
    /// Record what system calls return, and what they write to memory.
    pub inputs: bool,
    /// Hand out what the program writes to its standard output and error.
    pub output: bool,
    /// Record the children that the program forks, too.
    pub children: bool,
    /// Hand out code that ran from its beginning to its end as [blocks](Observation::Blocks).
    pub blocks: bool,
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
    options: &EmulationOptions,
    stop: &Stop,
    sink: &mut dyn FnMut(Observation<'_>),
) -> Result<Outcome, QemuError> {
    let target = target_of(&options.program)?;
    let tools = Tools::find(target, options.qemu.as_deref(), options.plugin.as_deref())?;
    let rendezvous = Rendezvous::new().map_err(QemuError::Folder)?;
    let child = command(options, &tools, rendezvous.folder())
        .spawn()
        .map_err(|error| QemuError::Start { qemu: tools.qemu.clone(), error })?;
    let child = Mutex::new(child);
    let ended = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| watch(stop, &ended, &child));
        let result = record((target, options), rendezvous, &child, stop, sink);
        ended.store(true, Ordering::Relaxed);
        result
    })?;
    if outcome.summary.instructions == 0 && !stop.is_requested() {
        let interpreter = interpreter(&options.program);
        let cpu = options.cpu.is_some().then_some(target);
        return Err(QemuError::NothingRan { status: outcome.status, interpreter, cpu });
    }
    Ok(outcome)
}

/// The target of an ELF file.
pub(super) fn target_of(program: &Path) -> Result<Target, QemuError> {
    let unreadable = |error| QemuError::Program { program: program.into(), error };
    let mut header = Vec::new();
    let file = File::open(program).map_err(unreadable)?;
    file.take(20).read_to_end(&mut header).map_err(unreadable)?;
    Target::of_elf(&header).ok_or_else(|| QemuError::NotElf(program.into()))
}

/// The dynamic linker that a program wants.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let file = std::fs::read(program).ok()?;
    let headers = ElfHeaders::parse(&file).ok()?;
    let header = headers.programs.iter().find(|header| header.kind == PT_INTERP)?;
    let name =
        file.get(usize::try_from(header.offset).ok()?..)?.get(..usize::try_from(header.file_size).ok()?)?;
    Some(OsStr::from_bytes(name.split(|&byte| byte == 0).next()?).into())
}

fn command(options: &EmulationOptions, tools: &Tools, folder: &Path) -> Command {
    let mut command = Command::new(&tools.qemu);
    if let Some(environment) = &options.environment {
        command.env_clear().envs(environment.iter().cloned());
    }
    if let Some(cpu) = &options.cpu {
        command.arg("-cpu").arg(cpu);
    }
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
    if options.inputs {
        plugin.push(",inputs=on");
    }
    if options.output {
        plugin.push(",output=on");
    }
    if options.children {
        plugin.push(",children=on");
    }
    command.arg("-plugin").arg(plugin).arg(&options.program).args(&options.arguments);
    command
}

/// A comma ends an option of QEMU; two are one comma of a name.
fn escaped(name: &OsStr) -> OsString {
    let mut bytes = Vec::with_capacity(name.len());
    for &byte in name.as_bytes() {
        bytes.push(byte);
        if byte == b',' {
            bytes.push(byte);
        }
    }
    OsString::from_vec(bytes)
}

/// Ends the program when `stop` says so. A terminal asks it to stop at the same time: it has a moment to do so.
fn watch(stop: &Stop, ended: &AtomicBool, child: &Mutex<Child>) {
    let mut asked = None;
    while !ended.load(Ordering::Relaxed) {
        thread::sleep(POLL);
        if !stop.is_requested() {
            continue;
        }
        if asked.get_or_insert_with(Instant::now).elapsed() < GRACE && !stop.is_at_once() {
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
    (target, options): (Target, &EmulationOptions),
    rendezvous: Rendezvous,
    child: &Mutex<Child>,
    stop: &Stop,
    sink: &mut dyn FnMut(Observation<'_>),
) -> Result<Outcome, QemuError> {
    let stream = match accept(rendezvous.listener(), child)? {
        Ok(stream) => stream,
        Err(status) => return Err(QemuError::NotRecorded(status)),
    };
    let tail_file = rendezvous.tails().map_err(QemuError::Folder)?;
    // Children connect in the same folder.
    let rendezvous = options.children.then_some(rendezvous);
    let mut streams = ProcessStreams::new(&options.program, options.blocks);
    let listener = rendezvous.as_ref().map(Rendezvous::listener);
    let mut error = streams.read(stream, listener, stop, sink).map_err(QemuError::Stream)?.err();
    if error.is_some()
        && let Ok(mut child) = child.lock()
    {
        // It may have ended by itself.
        let _ = child.kill();
    }
    let status = loop {
        match try_wait(child)? {
            Some(status) => break status,
            None => thread::sleep(POLL),
        }
    };
    for tail in tails(&tail_file) {
        if error.is_none()
            && let Err(damage) = streams.tail(&tail, sink)
        {
            error = Some(damage);
        }
    }
    Ok(Outcome { status, summary: streams.finish_all(sink), error, target })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_of_names_reach_qemu() {
        assert_eq!(escaped(OsStr::new("/a,b/c")), "/a,,b/c");
    }

    #[test]
    fn a_program_that_is_no_elf_file_is_refused() {
        let options = EmulationOptions { program: "/etc/passwd".into(), ..EmulationOptions::default() };
        let failure = run(&options, &Stop::new(), &mut |_| {}).unwrap_err();
        assert!(matches!(failure, QemuError::NotElf(_)), "{failure}");
        let options = EmulationOptions { program: "/no/such/file".into(), ..EmulationOptions::default() };
        let failure = run(&options, &Stop::new(), &mut |_| {}).unwrap_err();
        assert!(failure.to_string().contains("/no/such/file"), "{failure}");
    }
}
