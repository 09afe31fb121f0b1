//! A recording that is executed again has the registers and the memory of the run, forwards, backwards and at random; and those
//! of the same program under QEMU.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use backsight_core::{Access, Budget, Door, Execution, Input, Isa};
use backsight_run::history::{History, HistoryBuilder, InitialMemory};
use backsight_run::{ExecutionSource, Observation, SimulatedProgram};
use backsight_sim::{Elf, Options, Simulator, Streams};
use backsight_testing::{Random, repository};

const LIMIT: u64 = 150_000;
const FCSR: u16 = 4096 + 3;

struct Program {
    path: std::path::PathBuf,
    file: Vec<u8>,
}

impl Program {
    fn bundled(name: &str) -> Self {
        let path = repository().join("testdata/programs/riscv64").join(name);
        let file = std::fs::read(&path).expect("a bundled program");
        Self { path, file }
    }

    fn options(&self, limit: u64) -> Options {
        Options {
            arguments: vec![self.path.display().to_string()],
            streams: Streams::none(),
            host_files: false,
            instructions: limit,
            ..Options::default()
        }
    }

    fn items(&self) -> Vec<Execution> {
        let mut program = SimulatedProgram::load(&self.path, &self.file, self.options(LIMIT))
            .expect("a program")
            .with_data();
        let mut items = Vec::new();
        let run = program.run(&mut |seen| {
            if let Observation::Execution(item) = seen {
                items.push(item);
            }
        });
        run.expect("a program that runs");
        items
    }

    fn history(&self, items: &[Execution]) -> History {
        let elf = Elf::parse(&self.file).expect("a program");
        let parts: Vec<_> = elf
            .segments
            .iter()
            .map(|segment| InitialMemory {
                address: segment.address,
                bytes: segment.bytes,
                length: segment.size,
            })
            .collect();
        let budget = Budget::of(Door::History, None, 0);
        let mut builder = HistoryBuilder::new(Isa::Rv64, &parts, &budget).expect("room");
        items.iter().for_each(|item| builder.push(item).expect("room"));
        let history = builder.finish().expect("room");
        assert_eq!(history.disagreements(), 0, "{}", self.path.display());
        assert!(!history.is_other_program() && history.has_data());
        history
    }
}

/// Lines of 16 bytes that the program touched.
fn touched(items: &[Execution]) -> Vec<u64> {
    let lines: BTreeSet<u64> = items
        .iter()
        .filter_map(|item| match item {
            Execution::Access(Access { address, .. }) | Execution::Input(Input::Memory { address, .. }) => {
                Some(address.0 & !15)
            }
            _ => None,
        })
        .collect();
    lines.into_iter().collect()
}

/// Registers and memory as the simulator has them.
struct Truth {
    registers: Vec<(u16, u64)>,
    pc: u64,
    memory: Vec<Option<[u8; 16]>>,
}

fn truth(simulator: &mut Simulator, lines: &[u64]) -> Truth {
    let hart = simulator.hart();
    let integers = (0..).zip(hart.integers());
    let floats = (32..).zip(hart.floats().iter().copied());
    let fcsr = (FCSR, u64::from(hart.frm) << 5 | u64::from(hart.fflags));
    let (registers, pc) = (integers.chain(floats).chain([fcsr]).collect(), hart.pc);
    let memory = lines
        .iter()
        .map(|&line| {
            let mut bytes = [0; 16];
            simulator.read_memory(line, &mut bytes).then_some(bytes)
        })
        .collect();
    Truth { registers, pc, memory }
}

/// Compares a moment with the truth. Gives how many bytes are known.
fn compare(history: &mut History, moment: u64, truth: &Truth, lines: &[u64], name: &str) -> usize {
    let at = history.at(moment);
    assert_eq!(at.instructions(), moment);
    if let Some(next) = at.next() {
        assert_eq!(next.0, truth.pc, "{name} {moment}");
    }
    for &(number, value) in &truth.registers {
        assert_eq!(at.register(number), Some(value), "{name}: register {number} at moment {moment}");
    }
    let mut known = 0;
    for (&line, truth) in lines.iter().zip(&truth.memory) {
        let mut bytes = [None; 16];
        at.memory(line, &mut bytes);
        for (byte, truth) in bytes.iter().zip(truth.iter().flatten()) {
            assert!(
                byte.is_none_or(|byte| byte == *truth),
                "{name}: {line:#x} at moment {moment}: {byte:x?} {truth:x}"
            );
            known += usize::from(byte.is_some());
        }
    }
    known
}

#[test]
fn every_moment_has_the_registers_and_the_memory_of_the_run() {
    for name in ["calls", "isa", "jit", "loops", "pack", "signals", "sort", "threads", "vm"] {
        let program = Program::bundled(name);
        let items = program.items();
        let lines = touched(&items);
        let mut history = program.history(&items);
        let count = history.instructions();
        let mut simulator = Simulator::load(&program.file, program.options(0)).expect("a program");
        let mut truths = Vec::new();
        // A prime distance comes to all places of loops.
        let distance = [4999, 1999, 211, 17]
            .into_iter()
            .find(|distance| count > 25 * distance)
            .expect("a program that does something");
        for moment in (0..count).step_by(distance as usize) {
            simulator.set_limit(moment);
            simulator.run(&mut |_| {});
            truths.push((moment, truth(&mut simulator, &lines)));
        }
        assert!(truths.len() > 25, "{name}: {count} instructions");
        let forwards = 0..truths.len();
        let backwards = (0..truths.len()).rev();
        let mut random = Random(7);
        let at_random = (0..truths.len()).map(|_| random.below(truths.len() as u64) as usize);
        let mut known = 0;
        for index in forwards.chain(backwards).chain(at_random.collect::<Vec<_>>()) {
            let (moment, truth) = &truths[index];
            known = known.max(compare(&mut history, *moment, truth, &lines, name));
        }
        assert!(known > lines.len() * 8, "{name}: {known} bytes of {} are known", lines.len() * 16);
    }
}

#[test]
fn what_a_program_reads_is_known_before_it_reads_it() {
    let program = Program::bundled("sort");
    let items = program.items();
    let mut history = program.history(&items);
    let mut count = 0;
    let (mut checked, mut cleared) = (0, false);
    for item in &items {
        match item {
            Execution::Instruction(_) => count += 1,
            Execution::Input(Input::Cleared { .. }) => cleared = true,
            Execution::Access(access) if !access.store && !cleared && count % 50 == 0 => {
                let mut bytes = vec![None; access.size.into()];
                // Before the instruction that loads.
                history.at(count - 1).memory(access.address.0, &mut bytes);
                let value = access.value.to_le_bytes();
                let expected: Vec<_> = value.iter().take(access.size.into()).copied().map(Some).collect();
                assert_eq!(bytes, expected, "{access:x?} of instruction {count}");
                checked += 1;
            }
            _ => {}
        }
    }
    assert!(checked > 100, "{checked}");
}

/// A program that QEMU's gdb server has stopped.
struct Stopped {
    child: Child,
    stream: TcpStream,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stopped {
    /// `None`, and a word about it, where there is no QEMU.
    fn start(program: &Program) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
        let command = Command::new("qemu-riscv64")
            .args(["-g", &port.to_string()])
            .arg(&program.path)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = command else {
            backsight_testing::skipped("no qemu-riscv64 (apt-get install qemu-user)");
            return None;
        };
        let connect = || TcpStream::connect(("127.0.0.1", port)).ok();
        let stream = (0..500).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            connect()
        });
        let stream = stream.expect("QEMU listens");
        stream.set_nodelay(true).expect("a socket");
        let mut stopped = Self { child, stream };
        stopped.ask("?");
        Some(stopped)
    }

    fn ask(&mut self, request: &str) -> String {
        let sum = request.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
        write!(self.stream, "${request}#{sum:02x}").expect("QEMU reads");
        let (mut answer, mut sum) = (String::new(), 0);
        let mut begun = false;
        while sum < 2 {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("QEMU answers");
            match byte[0] {
                b'$' => begun = true,
                b'#' if begun => {
                    let mut rest = [0; 2];
                    self.stream.read_exact(&mut rest).expect("a checksum");
                    sum = 2;
                }
                byte if begun => answer.push(byte.into()),
                _ => {}
            }
        }
        self.stream.write_all(b"+").expect("QEMU reads");
        answer
    }

    /// x0 to x31 and pc.
    fn registers(&mut self) -> Vec<u64> {
        let answer = self.ask("g");
        let word = |n: usize| {
            u64::from_str_radix(&answer[16 * n..16 * n + 16], 16).expect("hexadecimal").swap_bytes()
        };
        (0..33).map(word).collect()
    }
}

#[test]
fn registers_are_those_of_the_same_program_under_qemu() {
    const STEPS: u64 = 3000;
    for name in ["sort", "vm", "calls"] {
        let program = Program::bundled(name);
        let Some(mut qemu) = Stopped::start(&program) else { return };
        let items = program.items();
        let mut history = program.history(&items);
        let mut random = Random(11);
        let moments: BTreeSet<u64> = (0..100).map(|_| random.below(STEPS)).collect();
        let mut moved = None;
        let mut now = 0;
        let mut theirs = Vec::new();
        for &moment in &moments {
            while now < moment {
                let stop = qemu.ask("s");
                assert!(stop.starts_with("T05") || stop.starts_with("S05"), "{stop}");
                now += 1;
            }
            theirs.push((moment, qemu.registers()));
        }
        for (moment, theirs) in theirs.iter().rev() {
            let at = history.at(*moment);
            assert_eq!(at.next().map(|next| next.0), theirs.last().copied(), "{name}: pc at moment {moment}");
            for (number, &theirs) in (0..32).zip(theirs) {
                let ours = at.register(number).expect("every register is known");
                // Only where the stack is differs.
                let same = ours == theirs
                    || *moved.get_or_insert(theirs.wrapping_sub(ours)) == theirs.wrapping_sub(ours);
                assert!(same, "{name}: x{number} at moment {moment}: {ours:#x}, QEMU has {theirs:#x}");
            }
        }
    }
}
