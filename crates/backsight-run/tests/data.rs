//! Loads, stores and what comes from outside: the simulator and QEMU see the same, and what a program loads is what was
//! stored or came there.
//!
//! What is not installed (QEMU, a cross compiler) is skipped with a message.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use backsight_core::{Access, Execution, Input, Retired};
use backsight_run::qemu::{EmulatedProgram, EmulationOptions, QemuError};
use backsight_run::{Ended, Error, ExecutionSource, Observation, SimulatedProgram};
use backsight_sim::{Options, Streams};
use backsight_testing::{qemu_plugin, repository};

fn bundled(name: &str) -> PathBuf {
    repository().join("testdata/programs/riscv64").join(name)
}

fn simulated(path: &Path, limit: u64) -> SimulatedProgram {
    let file = std::fs::read(path).expect("a program");
    let options = Options {
        arguments: vec![path.display().to_string()],
        streams: Streams::none(),
        instructions: limit,
        ..Options::default()
    };
    SimulatedProgram::load(path, &file, options).expect("a program for the simulator").with_data()
}

/// `None`, and a word about it, where QEMU or its plugin is missing.
fn emulated(path: &Path) -> Option<EmulatedProgram> {
    let options = EmulationOptions {
        program: path.to_owned(),
        environment: Some(Vec::new()),
        values: true,
        inputs: true,
        silent: true,
        plugin: qemu_plugin(),
        ..EmulationOptions::default()
    };
    match EmulatedProgram::new(options) {
        Ok(program) => Some(program),
        Err(why @ (QemuError::NoQemu(_) | QemuError::NoPlugin(_))) => {
            backsight_testing::skipped(format_args!("{why}"));
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// What the first instructions do to memory.
fn accesses(source: &mut dyn ExecutionSource, limit: usize) -> Vec<(Retired, Vec<Access>)> {
    let stop = source.stop();
    let mut executed: Vec<(Retired, Vec<Access>)> = Vec::new();
    let run = source.run(&mut |seen| match seen {
        Observation::Execution(Execution::Instruction(_)) if executed.len() == limit => {
            stop.request_at_once()
        }
        Observation::Execution(Execution::Instruction(retired)) => executed.push((retired, Vec::new())),
        Observation::Execution(Execution::Access(access)) if !stop.is_requested() => {
            executed.last_mut().expect("an instruction").1.push(access);
        }
        _ => {}
    });
    run.expect("a program that runs");
    executed
}

/// QEMU shows the store of an instruction that loads and stores, and not its load.
fn is_hidden(retired: &Retired, access: &Access) -> bool {
    const LOAD_RESERVED: u32 = 0b00010;
    let atomic = retired.size == 4 && retired.opcode & 0x7F == 0x2F;
    atomic && retired.opcode >> 27 != LOAD_RESERVED && !access.store
}

#[test]
fn the_simulator_and_qemu_see_the_same_loads_and_stores() {
    const LIMIT: usize = 300_000;
    for name in ["sort", "vm", "pack", "calls", "isa"] {
        let path = bundled(name);
        let Some(mut qemu) = emulated(&path) else { return };
        let theirs = accesses(&mut qemu, LIMIT);
        let ours = accesses(&mut simulated(&path, u64::MAX), LIMIT);
        assert_eq!(ours.len(), theirs.len(), "{name}");
        // Only where the stack is differs.
        let mut moved = None;
        let mut count = 0;
        for (index, ((retired, ours), (other, theirs))) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(retired, other, "{name}: instruction {index}");
            let ours: Vec<_> = ours.iter().filter(|access| !is_hidden(retired, access)).collect();
            assert_eq!(ours.len(), theirs.len(), "{name}: instruction {index}, {retired:x?}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                let mut same = |ours: u64, theirs: u64| {
                    ours == theirs
                        || *moved.get_or_insert(theirs.wrapping_sub(ours)) == theirs.wrapping_sub(ours)
                };
                assert!(
                    same(ours.address.0, theirs.address.0) && same(ours.value, theirs.value),
                    "{name}: instruction {index}: {ours:x?} {theirs:x?}"
                );
                assert_eq!(
                    (ours.size, ours.store, ours.known),
                    (theirs.size, theirs.store, true),
                    "{name}: {index}"
                );
                count += 1;
            }
        }
        assert!(count > LIMIT / 10, "{name}: {count} accesses");
    }
}

/// Memory as far as it is known.
#[derive(Default)]
struct Memory(BTreeMap<u64, u8>);

impl Memory {
    fn put(&mut self, address: u64, value: u64, size: u8) {
        self.0.extend((address..).zip(value.to_le_bytes()).take(size.into()));
    }

    fn check(&self, access: &Access, what: &str) {
        for (address, byte) in (access.address.0..).zip(access.value.to_le_bytes()).take(access.size.into()) {
            let known = self.0.get(&address).copied();
            assert!(
                known.is_none_or(|known| known == byte),
                "{what}: at {address:#x} {known:x?}: {access:x?}"
            );
        }
    }
}

/// Runs a program; what it loads must be what was stored or what came from outside. Gives the results of its system
/// calls, and how many bytes came.
fn checked(source: &mut dyn ExecutionSource, what: &str) -> (Vec<u64>, u64) {
    let mut memory = Memory::default();
    let (mut results, mut bytes) = (Vec::new(), 0);
    let ending = source.run(&mut |seen| match seen {
        Observation::Execution(Execution::Access(access)) if access.store => {
            memory.put(access.address.0, access.value, access.size);
        }
        Observation::Execution(Execution::Access(access)) => memory.check(&access, what),
        Observation::Execution(Execution::Input(input)) => match input {
            Input::Memory { address, value, size } => {
                memory.put(address.0, value, size);
                bytes += u64::from(size);
            }
            Input::Cleared { address, length } => {
                memory.0.retain(|at, _| at.wrapping_sub(address.0) >= length);
            }
            Input::Result(value) => results.push(value),
            Input::Counter(_) | Input::Register { .. } => {}
        },
        _ => {}
    });
    assert_eq!(ending.expect("a program that runs").ended, Ended::Status(0), "{what}");
    (results, bytes)
}

/// Compiles `tests/programs/inputs.c`, if the cross compiler is there.
fn compiled(compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = repository().join("crates/backsight-run/tests/programs/inputs.c");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{compiler}{}-inputs", flags.concat()));
    let status = Command::new(compiler)
        .args(["-O1", "-w", "-static"])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&out)
        .status();
    match status {
        Ok(status) => assert!(status.success(), "inputs.c does not compile"),
        Err(_) => {
            backsight_testing::skipped(format_args!(
                "no {compiler} (apt-get install gcc-{})",
                compiler.trim_end_matches("-gcc")
            ));
            return None;
        }
    }
    Some(out)
}

#[test]
fn what_a_program_loads_under_qemu_was_stored_or_came_from_outside() {
    for (compiler, flags) in [
        ("aarch64-linux-gnu-gcc", &[][..]),
        ("arm-linux-gnueabihf-gcc", &["-marm"]),
        ("arm-linux-gnueabihf-gcc", &["-mthumb"]),
        ("riscv64-linux-gnu-gcc", &[]),
    ] {
        let Some(program) = compiled(compiler, flags) else { continue };
        let Some(mut qemu) = emulated(&program) else { return };
        let (results, bytes) = checked(&mut qemu, compiler);
        // What was read at first, and the pieces of the vectors.
        assert!(
            results.contains(&3000) && results.contains(&77) && results.contains(&60),
            "{compiler}: {results:x?}"
        );
        assert!(bytes > 3000 + 77 + 60 + 390, "{compiler}: {bytes}");
    }
}

#[test]
fn what_a_program_loads_in_the_simulator_was_stored_or_came_from_outside() {
    let Some(program) = compiled("riscv64-linux-gnu-gcc", &[]) else { return };
    let (results, bytes) = checked(&mut simulated(&program, u64::MAX), "simulator");
    assert!(results.contains(&3000) && results.contains(&77) && results.contains(&60), "{results:x?}");
    assert!(bytes > 3000 + 77 + 60 + 390, "{bytes}");
}

#[test]
fn the_first_registers_of_a_simulated_program_are_known() {
    let mut first = Vec::new();
    let ending = simulated(&bundled("calls"), 1).run(&mut |seen| {
        if let Observation::Execution(item) = seen {
            first.push(item);
        }
    });
    assert_eq!(ending.expect("a program that runs").ended, Ended::Limit);
    let stack = first.iter().find_map(|item| match item {
        Execution::Input(Input::Register { number: 2, value }) => Some(*value),
        _ => None,
    });
    assert!(stack.is_some_and(|stack| stack > 0 && stack % 16 == 0), "{stack:x?}");
    assert!(matches!(first.last(), Some(Execution::Instruction(_) | Execution::Access(_))));
    let context = first.iter().position(|item| matches!(item, Execution::Context(_))).expect("a context");
    assert!(matches!(first[context + 1], Execution::Input(Input::Register { number: 1, .. })));
}

#[test]
fn a_program_of_another_machine_is_refused_by_the_simulator() {
    let path = repository().join("testdata/programs/aarch64/calls");
    let file = std::fs::read(&path).expect("a bundled program");
    let refused = SimulatedProgram::load(&path, &file, Options::default());
    assert!(matches!(refused, Err(Error::Simulator { .. })));
}
