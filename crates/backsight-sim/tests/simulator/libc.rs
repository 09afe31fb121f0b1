//! Programs of the C library: threads, signals, files, memory.
//!
//! The sources in `tests/c` are compiled with `riscv64-linux-gnu-gcc -static` (`apt-get install gcc-riscv64-linux-gnu`); where
//! that is missing, nothing is checked. What the programs print is compared with `tests/c/NAME.expected`, which
//! `BLESS=1` takes from QEMU, and with QEMU itself where it is installed.

use crate::support;
use crate::support::quiet;
use backsight_sim::{Event, Exit, Observer, Options, Sandbox, Simulator, Watch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file or directory of a test, which goes with it.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{number}", std::process::id());
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn directory(name: &str) -> Self {
        let directory = Self::new(name);
        std::fs::create_dir_all(&directory.0).unwrap();
        directory
    }

    fn argument(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ =
            if self.0.is_dir() { std::fs::remove_dir_all(&self.0) } else { std::fs::remove_file(&self.0) };
    }
}

/// The compiled program; `None` without a compiler.
fn compiled(name: &str) -> Option<Temporary> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let program = Temporary::new(name);
    let compiled = Command::new("riscv64-linux-gnu-gcc")
        .args(["-O1", "-static", "-pthread", "-w", "-Wl,--no-warn-execstack"])
        .arg(source)
        .arg("-o")
        .arg(&program.0)
        .output();
    match compiled {
        Ok(output) => {
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(_) => {
            backsight_testing::skipped("no riscv64-linux-gnu-gcc");
            None
        }
    }
}

/// What QEMU prints and the status that it ends with; `None`, and a word about it, without QEMU.
fn in_qemu(program: &Temporary, arguments: &[String]) -> Option<(Option<i32>, String)> {
    use std::os::unix::process::ExitStatusExt;
    let output = Command::new("qemu-riscv64").arg(&program.0).args(arguments).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        backsight_testing::skipped("no qemu-riscv64");
        return None;
    };
    let status = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    Some((status, String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn simulator(program: &Temporary, arguments: &[String]) -> (Simulator, support::Output) {
    let (options, output) = quiet();
    let arguments = [vec![program.argument()], arguments.to_vec()].concat();
    let options = Options { arguments, host_files: true, ..options };
    (Simulator::load(&std::fs::read(&program.0).unwrap(), options).unwrap(), output)
}

/// Runs a program in both, and compares with what is expected. Each has a directory to work in.
fn compare(name: &str, status: u8) {
    let Some(program) = compiled(name) else { return };
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.expected"));
    let in_qemu = {
        let directory = Temporary::directory(name);
        in_qemu(&program, &[directory.argument()])
    };
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&expected, &in_qemu.as_ref().expect("qemu-riscv64").1).unwrap();
    }
    let expected = std::fs::read_to_string(expected).unwrap();
    let directory = Temporary::directory(name);
    let (mut simulator, output) = simulator(&program, &[directory.argument()]);
    let exit = simulator.run(&mut |_| {});
    assert_eq!(output.text(), expected, "{name}: {exit}");
    assert_eq!(exit.status(), Some(status), "{name}");
    assert_eq!(simulator.missing(), [], "{name}");
    if let Some((ended, printed)) = in_qemu {
        assert_eq!((ended, printed), (Some(status.into()), expected), "{name} in QEMU");
    }
}

#[test]
fn threads_do_what_they_do_in_qemu() {
    compare("threads", 0);
}

#[test]
fn signals_do_what_they_do_in_qemu() {
    compare("signals", 143);
}

#[test]
fn memory_code_and_clocks_do_what_they_do_in_qemu() {
    compare("system", 0);
}

#[test]
fn files_do_what_they_do_in_qemu() {
    compare("files", 3);
}

#[test]
fn files_do_the_same_in_a_sandbox_that_allows_their_directory() {
    let Some(program) = compiled("files") else { return };
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/files.expected");
    let directory = Temporary::directory("sandbox");
    let mut sandbox = Sandbox::new();
    // The program makes a temporary file, too.
    for folder in [&directory.0, &PathBuf::from("/tmp")] {
        sandbox.allow(folder, true).unwrap();
    }
    let (options, output) = quiet();
    let arguments = vec![program.argument(), directory.argument()];
    let options = Options { arguments, host_files: true, sandbox: Some(sandbox), ..options };
    let mut simulator = Simulator::load(&std::fs::read(&program.0).unwrap(), options).unwrap();
    let exit = simulator.run(&mut |_| {});
    assert_eq!(
        output.text(),
        std::fs::read_to_string(expected).unwrap(),
        "{exit}: {:?}",
        simulator.refused()
    );
    assert_eq!((exit.status(), simulator.refused()), (Some(3), Vec::new()));
}

#[test]
fn a_program_ends_as_in_qemu() {
    let Some(program) = compiled("ends") else { return };
    for (way, status) in [("a", 134), ("n", 139), ("k", 137), ("d", 138), ("i", 132), ("t", 7), (" ", 3)] {
        let arguments = [way.to_owned()];
        let exit = simulator(&program, &arguments).0.run(&mut |_| {});
        assert_eq!(exit.status(), Some(status), "{way}: {exit}");
        if let Some((in_qemu, _)) = in_qemu(&program, &arguments) {
            assert_eq!(in_qemu, Some(status.into()), "{way}");
        }
    }
    let exit = simulator(&program, &["l".to_owned()]).0.run(&mut |_| {});
    assert_eq!((exit, exit.status()), (Exit::Deadlock, None));
}

#[test]
fn what_is_missing_is_named() {
    let Some(program) = compiled("ends") else { return };
    for (way, name) in [
        (
            "f",
            "the simulator does not have fork: a second process (clone without CLONE_THREAD): it failed (once); use --qemu",
        ),
        ("e", "the simulator does not have the system call execve: it failed (once); use --qemu"),
    ] {
        let (mut simulator, _) = simulator(&program, &[way.to_owned()]);
        assert_eq!(simulator.run(&mut |_| {}), Exit::Status(1));
        let missing: Vec<String> = simulator.missing().iter().map(ToString::to_string).collect();
        assert_eq!(missing, [name]);
    }
}

/// A memory that is made of nothing but what was reported.
#[derive(Default)]
struct Shadow {
    bytes: BTreeMap<u64, u8>,
    file: Vec<(u64, Vec<u8>)>,
    loads: u64,
}

impl Shadow {
    fn byte(&self, address: u64) -> u8 {
        let in_file = || {
            self.file
                .iter()
                .find_map(|(start, bytes)| bytes.get(usize::try_from(address.checked_sub(*start)?).ok()?))
        };
        self.bytes.get(&address).or_else(in_file).copied().unwrap_or(0)
    }
}

impl Observer for Shadow {
    fn execution(&mut self, item: backsight_core::Execution) {
        let backsight_core::Execution::Access(access) = item else { return };
        for n in 0..u64::from(access.size) {
            let byte = (access.value >> (8 * n)) as u8;
            if access.store {
                self.bytes.insert(access.address.0 + n, byte);
            } else {
                assert_eq!(self.byte(access.address.0 + n), byte, "{access:?}");
            }
        }
        self.loads += u64::from(!access.store);
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Written { address, bytes } => {
                self.bytes.extend((address.0..).zip(bytes.iter().copied()));
            }
            Event::Cleared { address, length } => {
                let end = address.0 + length;
                let gone: Vec<u64> = self.bytes.range(address.0..end).map(|(&at, _)| at).collect();
                for at in gone {
                    self.bytes.remove(&at);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn every_value_that_a_program_loads_was_reported_before() {
    for name in ["threads", "signals", "system", "files"] {
        let Some(program) = compiled(name) else { return };
        let file = std::fs::read(&program.0).unwrap();
        let elf = backsight_sim::Elf::parse(&file).unwrap();
        let segments = elf.segments.iter().map(|segment| (segment.address, segment.bytes.to_vec())).collect();
        let mut shadow = Shadow { file: segments, ..Shadow::default() };
        let directory = Temporary::directory("shadow");
        let watch = Watch { accesses: true, external: true };
        let exit = simulator(&program, &[directory.argument()]).0.observe(watch, &mut shadow);
        assert!(exit.status().is_some(), "{name}: {exit}");
        assert!(shadow.loads > 10_000, "{name}: {}", shadow.loads);
    }
}
