//! A QEMU user-mode plugin that writes what a program executes, for Backsight to read.
//!
//! QEMU translates a program block by block and calls the plugin at the start of every block. A block that
//! begins need not end: a load or store in it may fault. So the instructions of a block that may fault
//! are watched: they are counted as they begin, and a block in which fewer began than it has was cut short.
//! While the program has one thread, translated code does the counting itself; after that, a callback does
//! (version 1 of the interface has no counters per thread).
//!
//! Arguments: `dir=DIR` (required: where the stream goes), `memory=on` (loads and stores, their addresses),
//! `values=on` (and what was loaded or stored), `inputs=on` (results of system calls, and the memory that they wrote),
//! `output=on` (what the program writes to its standard output and error),
//! `children=on` (children that the program forks and programs that replace it are recorded too, each in a stream of its
//! own to the same socket), `connection=N` (the descriptor that a program which replaces another one has its connection in),
//! `watch=off` (faster; blocks are not exact where they fault).

mod api;
mod callbacks;
mod calls;
mod event;
mod forks;
mod inputs;
mod mappings;
mod output;
mod outputs;
mod replacement;
mod system;
mod tail;
mod target;
mod thread;

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock};

use crate::output::Output;
use crate::outputs::StandardStreams;
use crate::tail::Tails;
use crate::target::Target;

/// The version of the interface that the plugin was written for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// What all callbacks share.
pub(crate) struct Recorder {
    target: Target,
    tails: &'static Tails,
    watch: bool,
    memory: bool,
    values: bool,
    inputs: bool,
    /// Where what the program writes is recorded: what its standard streams are.
    streams: Option<StandardStreams>,
    output: Mutex<Output>,
    /// For a child to close; -1 when there is none.
    descriptor: AtomicI32,
    /// Where children that are recorded too connect to.
    children: Option<PathBuf>,
    /// This process is a forked child: nothing is recorded.
    abandoned: AtomicBool,
    /// The first block of the program was translated.
    begun: Once,
    /// Distance from addresses of the program to addresses of the host.
    base: AtomicU64,
    base_known: AtomicBool,
}

/// What all callbacks share; they are registered after it is there.
pub(crate) fn recorder() -> &'static Recorder {
    RECORDER.get().expect("callbacks come after installation")
}

impl Recorder {
    /// The stream, unless this is a child or writing failed.
    pub(crate) fn output(&self) -> Option<MutexGuard<'_, Output>> {
        if self.is_abandoned() {
            return None;
        }
        self.output.lock().ok().filter(|output| output.is_open())
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Distance from addresses of the program to addresses of the host, once it is known.
    pub(crate) fn base(&self) -> Option<u64> {
        self.base_known.load(Ordering::Acquire).then(|| self.base.load(Ordering::Relaxed))
    }

    /// Learns that distance from an instruction, and makes sure of it.
    fn learn_base(&self, address: u64, host: *const u8, bytes: &[u8]) {
        let mut there = [0; 4];
        let there = &mut there[..bytes.len().min(4)];
        if !host.is_null() && system::read_memory(host as u64, there) == there.len() && bytes == there {
            self.base.store((host as u64).wrapping_sub(address), Ordering::Relaxed);
            self.base_known.store(true, Ordering::Release);
        } else if self.values {
            eprintln!("backsight: the program's memory was not found: values are not recorded");
        }
    }
}

struct Arguments {
    directory: PathBuf,
    memory: bool,
    values: bool,
    inputs: bool,
    output: bool,
    children: bool,
    connection: Option<RawFd>,
    watch: bool,
}

impl Arguments {
    fn parse<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut parsed = Self {
            directory: PathBuf::new(),
            memory: false,
            values: false,
            inputs: false,
            output: false,
            children: false,
            connection: None,
            watch: true,
        };
        for argument in arguments {
            let (key, value) = argument.split_once('=').unwrap_or((argument, "on"));
            let on = match value {
                "on" | "true" | "yes" => Ok(true),
                "off" | "false" | "no" => Ok(false),
                _ => Err(format!("argument {key}: expected on or off, found {value}")),
            };
            match key {
                "dir" => parsed.directory = value.into(),
                "memory" => parsed.memory = on?,
                "values" => parsed.values = on?,
                "inputs" => parsed.inputs = on?,
                "output" => parsed.output = on?,
                "children" => parsed.children = on?,
                "watch" => parsed.watch = on?,
                "connection" => {
                    let number =
                        value.parse().map_err(|_| format!("argument connection: {value} is no number"))?;
                    parsed.connection = Some(number);
                }
                _ => {
                    let known = "dir, memory, values, inputs, output, children, connection, watch";
                    return Err(format!("unknown argument {key}; known: {known}"));
                }
            }
        }
        parsed.memory |= parsed.values;
        if parsed.directory.as_os_str().is_empty() {
            return Err("argument dir=DIR is missing: the folder that the stream goes to".into());
        }
        Ok(parsed)
    }
}

/// Called by QEMU when it has loaded the plugin.
///
/// # Safety
/// The arguments must be what QEMU passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: api::PluginId,
    info: *const api::Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes a valid description and `count` strings.
    let (info, arguments) = unsafe {
        let strings = (0..usize::try_from(count).unwrap_or(0)).map(|i| CStr::from_ptr(*arguments.add(i)));
        (&*info, strings.map(|string| string.to_str().unwrap_or_default()).collect::<Vec<_>>())
    };
    match install(id, info, &arguments) {
        Ok(()) => api::INSTALLED,
        Err(message) => {
            eprintln!("backsight: {message}");
            api::REFUSED
        }
    }
}

fn install(id: api::PluginId, info: &api::Info, arguments: &[&str]) -> Result<(), String> {
    // SAFETY: QEMU's name of the target is a string.
    let name = unsafe { CStr::from_ptr(info.target_name) };
    let target = Target::named(name.to_bytes()).filter(|_| !info.system_emulation).ok_or_else(|| {
        format!("cannot record {name:?}: only programs for aarch64, arm and riscv64 under user-mode QEMU")
    })?;
    let Arguments { directory, memory, values, inputs, output: outputs, children, connection, watch } =
        Arguments::parse(arguments.iter().copied())?;
    let failed = |error| format!("{}: {error}", directory.display());
    // The memory in it is never given back.
    let tails = match connection {
        None => Tails::new(&directory).map_err(failed)?,
        Some(_) => Tails::private(),
    };
    let tails: &'static Tails = Box::leak(Box::new(tails));
    let output = match connection {
        None => Output::new(&directory, target, tails),
        Some(connection) => {
            system::inherited(connection).and_then(|connection| Output::connected(connection, target, tails))
        }
    };
    let output = output.map_err(failed)?;
    let recorder = Recorder {
        target,
        tails,
        watch,
        memory,
        values,
        inputs,
        streams: outputs.then(StandardStreams::now),
        descriptor: AtomicI32::new(output.descriptor().unwrap_or(-1)),
        output: Mutex::new(output),
        children: children.then(|| directory.join("socket")).filter(|socket| socket.exists()),
        abandoned: AtomicBool::new(false),
        begun: Once::new(),
        base: AtomicU64::new(0),
        base_known: AtomicBool::new(false),
    };
    RECORDER.set(recorder).map_err(|_| "the plugin is loaded twice".to_string())?;
    system::at_fork(forks::before, forks::in_parent, forks::in_child);
    // SAFETY: the functions have the types that the interface asks for, and live as long as the plugin.
    unsafe {
        api::qemu_plugin_register_vcpu_init_cb(id, callbacks::thread_starts);
        api::qemu_plugin_register_vcpu_exit_cb(id, callbacks::thread_ends);
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, callbacks::translated);
        api::qemu_plugin_register_vcpu_syscall_cb(id, callbacks::system_call);
        api::qemu_plugin_register_vcpu_syscall_ret_cb(id, callbacks::system_call_result);
        api::qemu_plugin_register_atexit_cb(id, callbacks::program_ends, std::ptr::null_mut());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_required() {
        assert!(Arguments::parse(["memory=on"].into_iter()).is_err());
        assert!(Arguments::parse(["dir=/x", "memory=maybe"].into_iter()).is_err());
        assert!(Arguments::parse(["dir=/x", "colour=on"].into_iter()).is_err());
    }

    #[test]
    fn values_need_the_accesses_they_belong_to() {
        let arguments = Arguments::parse(["dir=/x", "values=on"].into_iter()).unwrap();
        assert!(arguments.memory && arguments.values && arguments.watch);
    }
}
