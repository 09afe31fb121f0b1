//! Instruction by instruction against QEMU's user-mode emulator (`apt-get install qemu-user`).
//!
//! QEMU logs all registers before each instruction; the simulator must have the same. Only the addresses of the
//! stacks differ. Where QEMU is not installed nothing is checked. By default the first instructions of each
//! bundled program are compared; `BACKSIGHT_QEMU=all` compares all of them, and `BACKSIGHT_QEMU_PROGRAMS` may
//! name other static programs (separated by colons; arguments by spaces) whose flow is compared to the end.

use crate::support;
use crate::support::quiet;
use backsight_core::Execution;
use backsight_sim::{Exit, Options, Simulator};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const QUICK: u64 = 5_000;

/// QEMU's log of a run, one line per item; it is stopped when this goes.
struct Log {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
    line: String,
}

impl Log {
    fn start(items: &str, arguments: &[String]) -> Option<Self> {
        let child = Command::new("qemu-riscv64")
            .args(["-singlestep", "-d", items])
            .args(arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            backsight_testing::skipped("no qemu-riscv64");
            return None;
        };
        // Streams are pipes, as the simulator's are. Nothing to read; what it writes is dropped.
        drop(child.stdin.take());
        let mut output = child.stdout.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let lines = BufReader::with_capacity(1 << 20, child.stderr.take().unwrap());
        Some(Self { child, lines, line: String::new() })
    }

    /// The next line; empty at the end.
    fn next(&mut self) -> &str {
        self.line.clear();
        self.lines.read_line(&mut self.line).unwrap();
        &self.line
    }

    /// The address of the next instruction, `None` at the end.
    fn next_pc(&mut self) -> Option<u64> {
        loop {
            match self.next() {
                "" => return None,
                line if line.starts_with("Trace ") => {
                    let fields = line.split_once('[')?.1;
                    return u64::from_str_radix(fields.split('/').nth(1)?, 16).ok();
                }
                _ => {}
            }
        }
    }

    /// `count` registers, in the order of their numbers.
    fn registers(&mut self, count: usize) -> Vec<u64> {
        let mut registers = Vec::new();
        while registers.len() < count {
            let line = self.next();
            assert!(!line.is_empty(), "the log ends among registers");
            registers.extend(line.split_whitespace().skip(1).step_by(2).map(|text| {
                u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("not a register: {text:?}"))
            }));
        }
        registers
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// QEMU's stack lies here; ours elsewhere.
const QEMU_STACK: std::ops::Range<u64> = 0x40_0000_0000..0x40_0100_0000;

fn compare_registers(name: &str, limit: u64) {
    let path = support::path(name).display().to_string();
    let Some(mut log) = Log::start("nochain,exec,cpu,fpu", &[path]) else {
        return;
    };
    let mut simulator = Simulator::load(&support::program(name), quiet().0).unwrap();
    let mut moved = None;
    while let Some(pc) = log.next_pc() {
        let hart = simulator.hart().clone();
        let at = simulator.retired();
        assert_eq!(hart.pc, pc, "{name}: instruction {at}");
        log.next();
        let theirs = log.registers(32);
        let moved = *moved.get_or_insert(theirs[2].wrapping_sub(hart.x(2)));
        for (n, (ours, theirs)) in hart.integers().into_iter().zip(theirs).enumerate() {
            let ours = if QEMU_STACK.contains(&theirs) { ours.wrapping_add(moved) } else { ours };
            assert_eq!(ours, theirs, "{name}: x{n} before instruction {at} at {pc:#x}");
        }
        for (n, (ours, theirs)) in hart.floats().iter().zip(log.registers(32)).enumerate() {
            assert_eq!(*ours, theirs, "{name}: f{n} before instruction {at} at {pc:#x}");
        }
        if at == limit {
            return;
        }
        simulator.set_limit(at + 1);
        simulator.run(&mut |_| {});
    }
    assert_eq!(simulator.run(&mut |_| {}), Exit::Limit, "{name}: QEMU ended first");
}

#[test]
fn registers_are_qemus_before_every_instruction() {
    let all = std::env::var("BACKSIGHT_QEMU").is_ok_and(|value| value == "all");
    for name in ["sort", "vm", "pack", "calls", "isa"] {
        // All of `isa` would take hours; its own hashes check it.
        compare_registers(name, if all && name != "isa" { u64::MAX } else { QUICK });
    }
}

#[test]
fn the_flow_of_other_programs_is_qemus() {
    let Ok(programs) = std::env::var("BACKSIGHT_QEMU_PROGRAMS") else {
        backsight_testing::skipped("BACKSIGHT_QEMU_PROGRAMS is not set");
        return;
    };
    for program in programs.split(':').filter(|program| !program.is_empty()) {
        let arguments: Vec<String> = program.split(' ').map(str::to_owned).collect();
        let Some(mut log) = Log::start("nochain,exec", &arguments) else {
            return;
        };
        let file = std::fs::read(&arguments[0]).unwrap_or_else(|error| panic!("{}: {error}", arguments[0]));
        let options = Options { arguments, host_files: true, ..quiet().0 };
        let mut simulator = Simulator::load(&file, options).unwrap();
        let mut at = 0u64;
        let exit = simulator.run(&mut |item| {
            if let Execution::Instruction(retired) = item {
                assert_eq!(Some(retired.address.0), log.next_pc(), "{program}: instruction {at}");
                at += 1;
            }
        });
        assert_eq!(log.next_pc(), None, "{program}: QEMU goes on");
        eprintln!("{program}: {at} instructions the same; {exit}");
    }
}
