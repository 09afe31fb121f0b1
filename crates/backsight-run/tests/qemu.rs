//! Programs under QEMU, checked instruction by instruction against QEMU's own log of execution.
//!
//! What is not installed (QEMU, a cross compiler) is skipped with a message.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use backsight_core::{Execution, Isa, TrapKind};
use backsight_run::qemu::{EmulationOptions, Outcome, QemuError, Tools, run};
use backsight_run::{Observation, Stop, Target};
use backsight_testing::repository;

/// The plugin, built from this checkout.
fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        let package = repository().join("tools/qemu-plugin");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "--quiet", "--target-dir"])
            .arg(package.join("target"))
            .current_dir(&package)
            .status()
            .expect("cargo");
        assert!(built.success(), "the plugin does not build");
        package.join("target/release/libbacksight_qemu.so")
    })
}

/// Is QEMU there? Says so if not.
fn installed(target: Target) -> bool {
    match Tools::find(target, None, Some(plugin())) {
        Err(QemuError::NoQemu(target)) => {
            backsight_testing::skipped(format_args!("no qemu-{target} (apt-get install qemu-user)"));
            false
        }
        _ => true,
    }
}

fn bundled(target: Target, name: &str) -> PathBuf {
    repository().join("testdata/programs").join(target.name()).join(name)
}

/// Compiles a program of `tests/programs`, if the cross compiler is there.
fn compiled(compiler: &str, flags: &[&str], name: &str) -> Option<PathBuf> {
    let source = repository().join("crates/backsight-run/tests/programs").join(format!("{name}.c"));
    let flavour = flags.concat();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{compiler}{flavour}-{name}"));
    let status =
        Command::new(compiler).args(["-O2", "-static"]).args(flags).arg(source).arg("-o").arg(&out).status();
    match status {
        Ok(status) => assert!(status.success(), "{name} does not compile"),
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

/// Everything that runs here runs the same way every time.
fn options(program: &Path, arguments: &[&str]) -> EmulationOptions {
    EmulationOptions {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: Some(Vec::new()),
        plugin: Some(plugin().into()),
        qemu_arguments: vec!["-seed".into(), "1".into()],
        silent: true,
        ..EmulationOptions::default()
    }
}

fn target(program: &Path) -> Target {
    let header = std::fs::read(program).unwrap();
    Target::of_elf(&header).unwrap()
}

/// What QEMU announces: instructions that retire, and those that begin and fault.
type Announced = Vec<Place>;
type Place = (u64, Option<Isa>);

/// One recorded run: per thread, what was announced.
struct Run {
    threads: BTreeMap<u32, Announced>,
    outcome: Outcome,
    interrupts: usize,
    faults: usize,
    maps: Vec<String>,
}

/// Runs a program; checks that every item follows from the one before.
fn record(options: &EmulationOptions) -> Run {
    let stop = Stop::new();
    let call = if target(&options.program) == Target::Riscv64 { 8 } else { 2 };
    let mut threads: BTreeMap<u32, Announced> = BTreeMap::new();
    let mut expected: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut thread, mut interrupts, mut faults) = (0, 0, 0);
    let mut maps = Vec::new();
    let outcome = run(options, &stop, &mut |item| match item {
        Observation::Execution(Execution::Thread(number)) => thread = number,
        Observation::Execution(Execution::Instruction(retired)) => {
            if let Some(expected) = expected.insert(thread, retired.next.0) {
                assert_eq!(retired.address.0, expected, "thread {thread}");
            }
            let isa = matches!(retired.isa, Isa::A32 | Isa::T32).then_some(retired.isa);
            threads.entry(thread).or_default().push((retired.address.0, isa));
        }
        Observation::Execution(Execution::Trap(trap)) => {
            if let Some(expected) = expected.insert(thread, trap.handler.0) {
                let restart = trap.cause == 2 || trap.cause == 8;
                assert!(
                    trap.return_address.0 == expected || restart,
                    "thread {thread}: {trap:x?} {expected:x}"
                );
            }
            match trap.kind {
                TrapKind::Interrupt => interrupts += 1,
                TrapKind::Exception if trap.cause == call => {}
                TrapKind::Exception => {
                    faults += 1;
                    threads.entry(thread).or_default().push((trap.return_address.0, None));
                }
            }
        }
        Observation::Map(map) => maps.push(map.path.display().to_string()),
        _ => {}
    })
    .unwrap();
    assert_eq!(outcome.error, None);
    Run { threads, outcome, interrupts, faults, maps }
}

/// One line of QEMU's log, `Trace CPU: HOST [CS_BASE/PC/FLAGS/CFLAGS] SYMBOL`. On Arm, bit 23 of CS_BASE is Thumb.
fn parse(line: &str, target: Target) -> Option<(u32, Place)> {
    let (cpu, rest) = line.strip_prefix("Trace ")?.split_once(':')?;
    let mut fields = rest.split_once('[')?.1.split('/');
    let base = u64::from_str_radix(fields.next()?, 16).ok()?;
    let address = u64::from_str_radix(fields.next()?, 16).ok()?;
    let isa = if base >> 23 & 1 == 1 { Isa::T32 } else { Isa::A32 };
    Some((cpu.parse().ok()?, (address, (target == Target::Arm).then_some(isa))))
}

/// Runs a program without the plugin, one instruction at a time, and gives QEMU's log of what it executed.
fn logged(options: &EmulationOptions) -> Announced {
    let target = target(&options.program);
    let sysroot = options.sysroot.iter().flat_map(|sysroot| ["-L".as_ref(), sysroot.as_os_str()]);
    // Not standard error: a program may close it.
    let path = log_path(&options.program);
    let status = Command::new(format!("qemu-{target}"))
        .args(sysroot)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .args(["-seed", "1", "-U", "PATH", "-singlestep", "-d", "exec,nochain", "-D"])
        .arg(&path)
        .arg(&options.program)
        .args(&options.arguments)
        .stdout(Stdio::null())
        .status();
    status.unwrap();
    read_log(&path, target).remove(&0).unwrap()
}

/// A file for a log that no other test uses.
fn log_path(program: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = program.file_name().unwrap().to_str().unwrap();
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{count}.log"))
}

/// What a log says, per processor of QEMU. Removes the log.
fn read_log(path: &Path, target: Target) -> BTreeMap<u32, Announced> {
    let mut announced: BTreeMap<u32, Announced> = BTreeMap::new();
    let lines = BufReader::new(std::fs::File::open(path).unwrap()).lines();
    for (cpu, at) in lines.map_while(Result::ok).filter_map(|line| parse(&line, target)) {
        announced.entry(cpu).or_default().push(at);
    }
    std::fs::remove_file(path).unwrap();
    announced
}

fn assert_same(ours: &Announced, log: &Announced, what: &str) {
    let same = |(a, b): &(&Place, &Place)| a.0 == b.0 && (a.1.is_none() || b.1.is_none() || a.1 == b.1);
    let agree = ours.iter().zip(log).take_while(same).count();
    let around = |list: &Announced| {
        let range = agree.saturating_sub(4)..(agree + 4).min(list.len());
        list.get(range).map(|list| format!("{list:x?}")).unwrap_or_default()
    };
    assert!(
        agree == ours.len() && agree == log.len(),
        "{what}: differs at instruction {agree} of {} and {}\n ours {}\n QEMU {}",
        ours.len(),
        log.len(),
        around(ours),
        around(log),
    );
}

/// QEMU logs a block before it asks whether a signal is waiting: then the block does not run, and is logged again when
/// the handler returns. Takes such repeats out of the log.
fn without_repeats(ours: &Announced, log: &Announced) -> Announced {
    let mut runs = ours.iter().peekable();
    let mut repeats = 0;
    let kept: Announced = log
        .iter()
        .filter(|at| {
            let runs = runs.next_if(|ours| ours.0 == at.0).is_some();
            repeats += usize::from(!runs);
            runs
        })
        .copied()
        .collect();
    assert!(repeats <= 10 + log.len() / 50, "{repeats} of {} in the log did not run", log.len());
    kept
}

fn assert_exact(program: &Path, arguments: &[&str]) -> Run {
    let options = options(program, arguments);
    let run = record(&options);
    assert_same(&run.threads[&0], &logged(&options), &program.display().to_string());
    run
}

#[test]
fn bundled_programs_are_exact() {
    for (target, names) in [
        (Target::Aarch64, &["calls"][..]),
        (Target::Riscv64, &["calls"][..]),
        (Target::Arm, &["interwork"][..]),
    ] {
        if !installed(target) {
            return;
        }
        for name in names {
            let run = assert_exact(&bundled(target, name), &[]);
            assert!(run.outcome.summary.complete && run.outcome.status.success());
            assert!(run.maps.iter().any(|path| path.ends_with(name)), "{:?}", run.maps);
        }
    }
}

const FLAVOURS: [(&str, &[&str], Target); 4] = [
    ("aarch64-linux-gnu-gcc", &[], Target::Aarch64),
    ("arm-linux-gnueabihf-gcc", &["-marm"], Target::Arm),
    ("arm-linux-gnueabihf-gcc", &["-mthumb"], Target::Arm),
    ("riscv64-linux-gnu-gcc", &[], Target::Riscv64),
];

#[test]
fn faults_and_signals_are_exact() {
    for (compiler, flags, target) in FLAVOURS {
        if !installed(target) {
            return;
        }
        let Some(program) = compiled(compiler, flags, "signals") else { continue };
        let run = assert_exact(&program, &[]);
        assert!(run.outcome.status.success() && run.outcome.summary.complete);
        // Five jumps out, one repair, one skip; three signals that the program sends to itself.
        assert_eq!((run.faults, run.interrupts), (7, 3), "{compiler} {flags:?}");
    }
}

/// Both in one run: QEMU's log of one instruction at a time, and the stream. Gives what the log says, per processor of QEMU.
fn logged_while_recorded(program: &Path, arguments: &[&str]) -> (Run, BTreeMap<u32, Announced>) {
    let log = log_path(program);
    let mut options = options(program, arguments);
    options.qemu_arguments.extend(["-singlestep", "-d", "exec,nochain", "-D"].map(Into::into));
    options.qemu_arguments.push(log.clone().into());
    let run = record(&options);
    let announced = read_log(&log, target(program));
    (run, announced)
}

#[test]
fn signals_that_come_at_any_time_are_exact() {
    for (compiler, flags, target) in FLAVOURS {
        if !installed(target) {
            return;
        }
        let Some(program) = compiled(compiler, flags, "signals") else { continue };
        let (run, log) = logged_while_recorded(&program, &["alarms"]);
        assert!(run.outcome.status.success() && run.outcome.summary.complete);
        assert_same(&run.threads[&0], &without_repeats(&run.threads[&0], &log[&0]), compiler);
        // In whole blocks, too, every item follows from the one before.
        let run = record(&options(&program, &["alarms"]));
        assert!(run.outcome.status.success() && run.outcome.summary.complete);
        assert_eq!(run.faults, 7, "{compiler}");
    }
}

#[test]
fn threads_are_streams_of_their_own() {
    for (compiler, flags, target) in FLAVOURS {
        if !installed(target) {
            return;
        }
        let Some(program) = compiled(compiler, &[flags, &["-pthread"]].concat(), "threads") else { continue };
        let (run, log) = logged_while_recorded(&program, &[]);
        assert!(run.outcome.status.success() && run.outcome.summary.complete);
        assert_eq!(run.outcome.summary.threads, 7, "{compiler}");
        // Ten faults each: the first thread, and six others.
        assert_eq!(run.faults, 70, "{compiler}");
        // QEMU numbers processors again when threads have ended, and logs the forked child as the first.
        for cpu in 1..=3 {
            let streams = (0..2).flat_map(|round| &run.threads[&(cpu + 3 * round)]).copied().collect();
            let log = without_repeats(&streams, &log[&cpu]);
            assert_same(&streams, &log, &format!("{compiler} processor {cpu}"));
        }
        let whole = record(&options(&program, &[]));
        assert_eq!((whole.outcome.summary.threads, whole.faults), (7, 70), "{compiler}");
    }
}

#[test]
fn a_program_that_crashes_is_recorded_up_to_the_instruction() {
    for (compiler, flags, target) in FLAVOURS {
        if !installed(target) {
            return;
        }
        let Some(program) = compiled(compiler, flags, "crash") else { continue };
        let options = options(&program, &[]);
        let run = record(&options);
        assert!(!run.outcome.status.success() && !run.outcome.summary.complete);
        let mut log = logged(&options);
        log.pop().expect("the instruction that faults");
        assert_same(&run.threads[&0], &log, compiler);
    }
}

#[test]
fn a_program_that_is_stopped_leaves_what_it_did() {
    if !installed(Target::Aarch64) {
        return;
    }
    let stop = Stop::new();
    let mut instructions = 0u64;
    let options = options(&bundled(Target::Aarch64, "vm"), &["1000000"]);
    let outcome = run(&options, &stop, &mut |item| {
        if let Observation::Execution(Execution::Instruction(_)) = item {
            instructions += 1;
            if instructions == 1_000_000 {
                stop.request();
            }
        }
    })
    .unwrap();
    assert!(!outcome.status.success() && !outcome.summary.complete, "{:?}", outcome.status);
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.summary.instructions, instructions);
}

#[test]
fn accesses_belong_to_their_instructions_and_values_are_right() {
    for (target, may_store) in [
        (Target::Aarch64, |opcode: u32| opcode & 0x0A00_0000 == 0x0800_0000),
        (Target::Riscv64, |opcode: u32| {
            if opcode & 3 == 3 { matches!(opcode & 0x7F, 0x23 | 0x27 | 0x2F) } else { opcode >> 15 & 1 == 1 }
        }),
    ] as [(Target, fn(u32) -> bool); 2]
    {
        if !installed(target) {
            return;
        }
        let mut options = options(&bundled(target, "sort"), &[]);
        options.values = true;
        let mut memory: BTreeMap<u64, u8> = BTreeMap::new();
        let (mut opcode, mut loads, mut stores) = (0, 0u64, 0u64);
        let outcome = run(&options, &Stop::new(), &mut |item| match item {
            Observation::Execution(Execution::Instruction(retired)) => opcode = retired.opcode,
            Observation::Execution(Execution::Access(access)) => {
                assert!(access.known && access.size <= 8);
                let bytes = (access.address.0..).zip(access.value.to_le_bytes()).take(access.size.into());
                if access.store {
                    assert!(may_store(opcode), "{opcode:#x} stores");
                    stores += 1;
                    memory.extend(bytes);
                } else {
                    loads += 1;
                    for (address, byte) in bytes {
                        assert_eq!(memory.get(&address).copied().unwrap_or(byte), byte, "at {address:#x}");
                    }
                }
            }
            _ => {}
        })
        .unwrap();
        assert!(outcome.summary.complete);
        assert!(loads > 100_000 && stores > 100_000, "{loads} loads, {stores} stores");
    }
}

/// Programs of Debian, with their libraries, if `tests/ground-truth/fetch.sh` was run (`BACKSIGHT_GROUND_TRUTH` names
/// the folder, if it is not the default).
#[test]
fn fetched_programs_are_exact() {
    let folder = match std::env::var_os("BACKSIGHT_GROUND_TRUTH") {
        Some(folder) => PathBuf::from(folder),
        None => repository().join("target/ground-truth"),
    };
    for (architecture, target) in [("arm64", Target::Aarch64), ("armhf", Target::Arm)] {
        let sysroot = folder.join(architecture);
        if !sysroot.is_dir() {
            backsight_testing::skipped(format_args!(
                "no {} (tests/ground-truth/fetch.sh makes it)",
                sysroot.display()
            ));
            continue;
        }
        if !installed(target) {
            return;
        }
        for (program, arguments, library) in [
            ("bin/busybox", &["sha1sum", "/dev/null"][..], false),
            ("usr/bin/sha1sum", &["/dev/null"], true),
            ("usr/bin/cjpeg", &["-version"], true),
        ] {
            let mut options = options(&sysroot.join(program), arguments);
            options.sysroot = Some(sysroot.clone());
            let run = record(&options);
            assert!(run.outcome.status.success() && run.outcome.summary.complete, "{program}");
            assert_same(&run.threads[&0], &logged(&options), &format!("{architecture} {program}"));
            let has_library = run.maps.iter().any(|path| path.ends_with("libc.so.6"));
            assert_eq!(has_library, library, "{:?}", run.maps);
        }
    }
}
