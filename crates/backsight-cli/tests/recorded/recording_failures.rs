//! What goes wrong while a program is recorded: what was recorded until then stays and can be read, and nothing is left
//! behind that nobody wants. Those under QEMU need it and the plugin (`tools/qemu-plugin`, built); without them they say
//! so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Scratch, assert_same, backsight, command, program, record, run};

pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something is so.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn complaint(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments);
    (output.status.code().expect("an exit status"), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Can programs be recorded under QEMU here? Says so if not.
pub fn has_qemu() -> bool {
    let scratch = Scratch::new(&format!("has-qemu-{:?}", std::thread::current().id()));
    record(&scratch.path("capture"), &["--limit", "1000"], &[&program("aarch64", "calls")])
}

/// Begins to record, and waits until there is trace.
pub fn recording(capture: &Path, options: &[&str], program: &[&str]) -> Child {
    // The tests themselves may run where signals are ignored, as by nohup.
    let child = Command::new("env")
        .args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_backsight")])
        .args(["record", "--quiet", "--output"])
        .arg(capture)
        .args(options)
        .arg("--")
        .args(program)
        .envs(backsight_testing::qemu_plugin().map(|plugin| ("BACKSIGHT_QEMU_PLUGIN", plugin)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program that was built");
    let trace = part_of(capture).join("trace.bin");
    wait_for("no trace is written", || fs::metadata(&trace).is_ok_and(|file| file.len() > 0));
    child
}

/// Where a capture is while it is written.
pub fn part_of(capture: &Path) -> PathBuf {
    let mut name = capture.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

pub fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// A truncated trace says what happened first.
fn assert_beginning(capture: &Path, whole: &Path, at_least: usize) {
    let told = backsight(&["flow", "--format", "pcs"], capture);
    let truth = backsight(&["flow", "--truth", "--format", "pcs"], whole);
    let count = told.lines().count();
    assert!(count > at_least && truth.starts_with(&told), "{count} instructions");
}

#[test]
fn a_killed_recorder_leaves_no_qemu_and_no_shared_memory() {
    if !has_qemu() {
        return;
    }
    let scratch = Scratch::new("killed");
    let capture = scratch.path("capture");
    let mut child = recording(&capture, &[], &[&program("aarch64", "vm"), "1000000"]);
    let recorder = child.id();
    let qemu = children_of(recorder);
    assert_eq!(qemu.len(), 1, "QEMU runs");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    wait_for("QEMU goes on", || qemu.iter().all(|qemu| !is_running(*qemu)));
    let ours = format!("backsight-qemu-{recorder}-");
    let left: Vec<_> = fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!capture.exists() && part_of(&capture).exists(), "a part looks like one");
    assert!(record(&capture, &["--limit", "1000", "--force"], &[&program("aarch64", "vm")]));
    assert!(capture.exists() && !part_of(&capture).exists());
}

fn children_of(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// A process that has ended but that nobody has asked about runs no more.
fn is_running(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[test]
fn another_recording_of_the_same_name_is_left_alone() {
    let scratch = Scratch::new("busy");
    let capture = scratch.path("capture");
    let mut child = recording(&capture, &[], &[&program("riscv64", "sort"), "1000000"]);
    let name = capture.display().to_string();
    let (code, said) = complaint(&["record", "--force", "-o", &name, "--", &program("riscv64", "calls")]);
    assert!(code == 1 && said.contains("another recording is being written here"), "{code} {said}");
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(backsight(&["flow", "--format", "pcs", "--strict"], &capture).lines().count() > 1000);
}

/// The limit, in blocks of 512 bytes, is on every file that is written.
fn record_with_a_limit_on_files(capture: &Path, blocks: u32, program: &[&str]) -> (Option<i32>, String) {
    let script = format!("ulimit -f {blocks}; exec \"$0\" record --quiet -o \"$@\"");
    let mut shell = Command::new("sh");
    if let Some(plugin) = backsight_testing::qemu_plugin() {
        shell.env("BACKSIGHT_QEMU_PLUGIN", plugin);
    }
    let output = shell
        .args(["-c", &script, env!("CARGO_BIN_EXE_backsight")])
        .arg(capture)
        .arg("--")
        .args(program)
        .stdout(Stdio::null())
        .output()
        .expect("a shell");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_recording_and_says_so() {
    let scratch = Scratch::new("ulimit");
    let mut programs = vec![program("riscv64", "sort")];
    if has_qemu() {
        programs.push(program("aarch64", "sort"));
    }
    for (number, program) in programs.iter().enumerate() {
        let capture = scratch.path(&format!("capture{number}"));
        let (code, said) = record_with_a_limit_on_files(&capture, 700, &[program]);
        assert!(code == Some(1) && said.contains("recording ended early: trace.bin"), "{code:?} {said}");
        let whole = scratch.path(&format!("whole{number}"));
        assert!(record(&whole, &["--truth"], &[program]));
        assert_beginning(&capture, &whole, 100_000);
    }
    let capture = scratch.path("none");
    let (code, said) = record_with_a_limit_on_files(&capture, 1, &[&programs[0]]);
    assert!(code == Some(1) && said.contains("File too large"), "{code:?} {said}");
    assert!(!capture.exists() && !part_of(&capture).exists(), "nothing is left behind");
}

/// A disk of some size in a namespace of its own, where that is allowed.
#[test]
fn a_full_disk_leaves_a_capture_of_what_was_recorded_until_then() {
    let scratch = Scratch::new("disk");
    let mut programs = vec![program("riscv64", "sort")];
    if has_qemu() {
        programs.push(program("aarch64", "sort"));
    }
    for (number, program) in programs.iter().enumerate() {
        let kept = scratch.path(&format!("kept{number}"));
        let disk = scratch.path("disk");
        fs::create_dir_all(&disk).expect("a folder");
        let script = "mount -t tmpfs -o size=600k none \"$1\" || exit 77; \
                      \"$0\" record --quiet -o \"$1/capture\" -- \"$2\" >/dev/null; code=$?; \
                      cp -r \"$1/capture\" \"$3\"; ls -A \"$1\"; exit $code";
        let mut shell = Command::new("unshare");
        if let Some(plugin) = backsight_testing::qemu_plugin() {
            shell.env("BACKSIGHT_QEMU_PLUGIN", plugin);
        }
        shell.args(["-Urm", "sh", "-c", script, env!("CARGO_BIN_EXE_backsight")]);
        let Ok(output) = shell.arg(&disk).arg(program).arg(&kept).output() else {
            backsight_testing::skipped("no unshare");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(77) || said.contains("Operation not permitted") {
            backsight_testing::skipped(format_args!("no disk of its own: {said}"));
            return;
        }
        assert!(
            output.status.code() == Some(1) && said.contains("No space left"),
            "{:?} {said}",
            output.status
        );
        assert_eq!(String::from_utf8_lossy(&output.stdout), "capture\n", "nothing else is on the disk");
        let whole = scratch.path(&format!("whole{number}"));
        assert!(record(&whole, &["--truth"], &[program]));
        assert_beginning(&kept, &whole, 100_000);
    }
}

#[test]
fn a_qemu_that_cannot_start_is_a_failure_that_says_what_to_do() {
    if !has_qemu() {
        return;
    }
    let scratch = Scratch::new("start");
    let capture = scratch.path("capture");
    let dynamic = scratch.path("dynamic");
    fs::write(&dynamic, dynamically_linked(&fs::read(program("aarch64", "calls")).expect("a program")))
        .expect("a file");
    let (calls, dynamic) = (program("aarch64", "calls"), dynamic.display().to_string());
    let name = capture.display().to_string();
    let cases: [(&[&str], &[&str]); 2] = [
        (&["--cpu", "no-such-cpu", "--", &calls], &["first instruction", "qemu-aarch64 -cpu help"]),
        (&["--", &dynamic], &["/lib/no-such-linker.so", "--sysroot DIR"]),
    ];
    for (arguments, expected) in cases {
        let (code, said) = complaint(&[&["record", "-o", &name], arguments].concat());
        assert!(code == 1 && expected.iter().all(|word| said.contains(word)), "{arguments:?}: {code} {said}");
        assert!(!capture.exists() && !part_of(&capture).exists(), "{arguments:?}: something is left");
    }
    assert!(record(&capture, &["--limit", "1000"], &[&calls]), "nothing is in the way");
}

/// The same program, with a dynamic linker that does not exist in place of a program header that is not needed.
fn dynamically_linked(program: &[u8]) -> Vec<u8> {
    const LINKER: &[u8] = b"/lib/no-such-linker.so\0";
    let mut file = program.to_vec();
    let word = |at: usize| u32::from_le_bytes(program[at..at + 4].try_into().expect("four bytes"));
    let count = usize::from(program[56]);
    let spare =
        (0..count).map(|number| 64 + 56 * number).find(|&at| word(at) != 1).expect("one that is not loaded");
    file[spare..spare + 4].copy_from_slice(&3u32.to_le_bytes());
    file[spare + 8..spare + 16].copy_from_slice(&(program.len() as u64).to_le_bytes());
    file[spare + 32..spare + 40].copy_from_slice(&(LINKER.len() as u64).to_le_bytes());
    file.extend_from_slice(LINKER);
    file
}

#[test]
fn the_plugin_is_taken_from_beside_the_program_or_where_it_is_named_and_from_nowhere_else() {
    let scratch = Scratch::new("plugin");
    let checkout = scratch.path("tools/qemu-plugin/target/release");
    fs::create_dir_all(&checkout).expect("a folder");
    fs::write(checkout.join("libbacksight_qemu.so"), "not a plugin").expect("a file");
    let name = scratch.path("capture").display().to_string();
    let arguments = ["record", "-o", &name, "--", &program("aarch64", "calls")];
    let mut without = command();
    let output =
        without.env_remove("BACKSIGHT_QEMU_PLUGIN").current_dir(scratch.path("")).args(arguments).output();
    let output = output.expect("the program that was built");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("not installed") {
        backsight_testing::skipped(format_args!("{said}"));
        return;
    }
    assert!(output.status.code() == Some(1) && said.contains("not built"), "{said}");
    assert!(said.contains("--qemu-plugin") && said.contains("BACKSIGHT_QEMU_PLUGIN"), "{said}");
    let named = [&arguments[..3], &["--qemu-plugin", "no/such/file.so"], &arguments[3..]].concat();
    let (code, said) = complaint(&named);
    assert!(code == 1 && said.contains("no/such/file.so: there is no such QEMU plugin"), "{code} {said}");
}

/// `read(0, sp - 16, 1)`, then the end.
fn reader() -> Vec<u8> {
    assembled(&[0x03F0_0893_u32, 0x0000_0513, 0xFF01_0593, 0x0010_0613, 0x73, 0x05D0_0893, 0x0000_0513, 0x73])
}

/// A program of riscv64 of nothing but these instructions: at 0x10078, a segment of its own.
pub fn assembled(code: &[u32]) -> Vec<u8> {
    let size = 120 + 4 * code.len() as u64;
    let mut file = b"\x7FELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 243, 0, 1, 0, 0, 0]);
    for value in [0x1_0078u64, 64, 0] {
        file.extend(value.to_le_bytes());
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for value in [0, 0x1_0000, 0x1_0000, size, size, 0x1000] {
        file.extend(u64::to_le_bytes(value));
    }
    file.extend(code.iter().flat_map(|opcode| opcode.to_le_bytes()));
    file
}

#[test]
fn the_first_interrupt_ends_a_program_that_waits_for_input() {
    let scratch = Scratch::new("waits");
    let path = scratch.path("reader");
    fs::write(&path, reader()).expect("a file");
    let capture = scratch.path("capture");
    let mut child = command()
        .args(["record", "--truth", "--output"])
        .arg(&capture)
        .arg("--")
        .arg(&path)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program that was built");
    let part = part_of(&capture);
    wait_for("nothing is recorded", || part.join("trace.bin").exists());
    // The program needs no time to come to its system call.
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "-INT");
    wait_for("it goes on waiting", || child.try_wait().expect("a child").is_some());
    assert_eq!(child.wait().expect("it ended").code(), Some(130));
    let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
    assert_eq!(truth, "0x10078\n0x1007c\n0x10080\n0x10084\n0x10088\n");
    assert_same(&backsight(&["flow", "--format", "pcs", "--strict"], &capture), &truth, "interrupted");
}

#[test]
fn what_is_there_is_replaced_only_on_demand_and_only_if_it_is_a_capture() {
    let scratch = Scratch::new("force");
    let (folder, archive) = (scratch.path("capture"), scratch.path("capture.zip"));
    let calls = program("riscv64", "calls");
    for capture in [&folder, &archive] {
        assert!(record(capture, &["--limit", "1000"], &[&calls]));
        let name = capture.display().to_string();
        let (code, said) = complaint(&["record", "-o", &name, "--", &calls]);
        assert!(code == 1 && said.contains("--force"), "{said}");
        assert!(record(capture, &["--limit", "2000", "--truth", "--force"], &[&calls]));
        let told = backsight(&["flow", "--truth", "--format", "pcs"], capture);
        assert_eq!(told.lines().count(), 2000, "{name}");
    }
    let notes = scratch.path("notes");
    fs::create_dir_all(&notes).expect("a folder");
    fs::write(notes.join("text"), "important").expect("a file");
    let (code, said) = complaint(&["record", "--force", "-o", &notes.display().to_string(), "--", &calls]);
    assert!(code == 1 && said.contains("is no capture"), "{said}");
    assert!(notes.join("text").exists());
    // An old capture stays where the new one comes to nothing.
    let truncated = scratch.path("truncated");
    fs::write(&truncated, &fs::read(&calls).expect("a program")[..100]).expect("a file");
    let (name, truncated) = (folder.display().to_string(), truncated.display().to_string());
    assert_eq!(complaint(&["record", "--force", "-o", &name, "--", &truncated]).0, 1);
    assert_eq!(backsight(&["flow", "--truth", "--format", "pcs"], &folder).lines().count(), 2000);
}
