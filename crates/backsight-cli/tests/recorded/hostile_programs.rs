//! Programs that make it hard to record them (`tests/programs/hostile.c`): recording ends, says what it ends with, and what
//! was recorded can be read. Needs cross compilers, and for aarch64 QEMU and its plugin; without them the tests say so.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::recording_failures::{has_qemu, part_of, wait_for};
use crate::support::{Scratch, backsight, run};

/// The program for a target; `None` where a compiler is missing.
fn hostile(scratch: &Scratch, target: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/hostile.c");
    let compiler = format!("{target}-linux-gnu-gcc");
    let program = scratch.path(&format!("hostile-{target}"));
    let built = Command::new(&compiler)
        .args(["-O1", "-static", "-pthread", "-w"])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .output();
    match built {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(_) => {
            backsight_testing::skipped(format_args!("no {compiler}"));
            None
        }
    }
}

/// The targets that programs can be recorded for here, with the program.
fn targets(scratch: &Scratch) -> Vec<(&'static str, PathBuf)> {
    let targets = if has_qemu() { vec!["riscv64", "aarch64"] } else { vec!["riscv64"] };
    targets.into_iter().filter_map(|target| Some((target, hostile(scratch, target)?))).collect()
}

fn recorded(capture: &Path, options: &[&str], program: &Path, words: &[&str]) -> Output {
    let (capture, program) = (capture.display().to_string(), program.display().to_string());
    run(&[&["record", "-o", &capture], options, &["--", &program], words].concat())
}

/// Processes that run this program.
fn still_running(program: &Path) -> usize {
    let name = program.display().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let runs = |line: Vec<u8>| String::from_utf8_lossy(&line).contains(&name);
    processes.filter(|process| fs::read(process.path().join("cmdline")).is_ok_and(runs)).count()
}

#[test]
fn programs_that_map_much_exit_in_the_middle_or_overflow_their_stack_end_as_without_a_recorder() {
    let scratch = Scratch::new("hostile-ends");
    for (target, program) in targets(&scratch) {
        for (word, status) in [("maps", 0), ("exits", 7), ("deep", 139)] {
            let capture = scratch.path(&format!("{target}-{word}"));
            let output = recorded(&capture, &["--truth"], &program, &[word]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(status), "{target} {word}: {said}");
            assert!(!said.contains("backsight: ") && !said.contains("damaged"), "{target} {word}: {said}");
            assert!(
                backsight(&["flow", "--format", "pcs"], &capture).lines().count() > 1000,
                "{target} {word}"
            );
        }
    }
}

#[test]
fn a_program_that_forks_for_ever_finds_no_second_process_in_the_simulator() {
    let scratch = Scratch::new("hostile-forks");
    let Some(program) = hostile(&scratch, "riscv64") else { return };
    let capture = scratch.path("capture");
    let output = recorded(&capture, &[], &program, &["forks"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(9) && said.contains("does not have fork"), "{said}");
    assert!(backsight(&["flow", "--format", "pcs"], &capture).lines().count() > 1000);
}

#[test]
fn a_program_that_kills_its_recorder_leaves_what_was_recorded() {
    let scratch = Scratch::new("hostile-kills");
    for (target, program) in targets(&scratch).into_iter().filter(|(target, _)| *target == "aarch64") {
        let capture = scratch.path(target);
        let output = recorded(&capture, &[], &program, &["kills"]);
        assert_eq!(output.status.signal(), Some(9));
        wait_for("the program stays", || still_running(&program) == 0);
        let told = backsight(&["flow", "--format", "pcs"], &part_of(&capture));
        assert!(told.lines().count() > 100_000, "{} instructions", told.lines().count());
    }
}

#[test]
fn a_program_that_closes_or_garbles_all_its_files_is_recorded_up_to_there_or_to_its_end() {
    let scratch = Scratch::new("hostile-files");
    for (target, program) in targets(&scratch) {
        for word in ["closes", "garbles"] {
            let capture = scratch.path(&format!("{target}-{word}"));
            let output = recorded(&capture, &["--truth"], &program, &[word]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{target} {word}: {said}");
            // The connection of the plugin is one of the files of its process.
            let is_lost = (target, word) == ("aarch64", "closes");
            assert_eq!(said.contains("the rest is missing"), is_lost, "{target} {word}: {said}");
            let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
            let halves = if is_lost { 1 } else { 2 };
            assert!(
                truth.lines().count() > halves * 200_000 * 3,
                "{target} {word}: {}",
                truth.lines().count()
            );
        }
    }
}

#[test]
fn code_that_is_other_code_each_time_is_recorded_or_said_to_be_too_much() {
    let scratch = Scratch::new("hostile-changes");
    for (target, program) in targets(&scratch) {
        let capture = scratch.path(target);
        let output = recorded(&capture, &[], &program, &["changes", "3000"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{target}: {said}");
        assert!(said.contains("code changed at"), "{target}: {said}");
    }
}
