//! Recordings that are killed or asked to end: what was written until then can be opened and decoded, and stays.

use std::fs;
use std::path::Path;
use std::process::Child;

use crate::recording_failures::{complaint, has_qemu, part_of, recording, signal, wait_for};
use crate::support::{Scratch, backsight, program, record, run};

/// Bytes of trace in a part.
fn trace_of(part: &Path) -> u64 {
    fs::metadata(part.join("trace.bin")).map_or(0, |file| file.len())
}

/// Waits until so much trace was written, or all of it, and kills the recorder.
fn kill_after(mut child: Child, capture: &Path, bytes: u64) {
    let part = part_of(capture);
    wait_for("no trace is written", || trace_of(&part) >= bytes || capture.exists());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

/// The part of a killed recording tells the beginning of what a whole one does.
fn assert_part_tells_the_beginning(part: &Path, whole: &str, at_least: usize) {
    let told = backsight(&["flow", "--format", "pcs"], part);
    let count = told.lines().count();
    assert!(count >= at_least, "{}: {count} instructions", part.display());
    let same = told.lines().zip(whole.lines()).take_while(|(a, b)| a == b).count();
    assert_eq!(same, count, "{}: what was not executed is told", part.display());
}

#[test]
fn a_recording_killed_at_any_moment_opens_and_tells_what_was_executed_first() {
    let scratch = Scratch::new("killed-at");
    let mut targets = vec!["riscv64"];
    if has_qemu() {
        targets.push("aarch64");
    }
    for target in targets {
        let sort = program(target, "sort");
        let whole = scratch.path(&format!("whole-{target}"));
        assert!(record(&whole, &["--truth"], &[&sort]));
        let truth = backsight(&["flow", "--truth", "--format", "pcs"], &whole);
        for (number, bytes) in [1, 100_000, 300_000].into_iter().enumerate() {
            for format in ["package", "snapshot"] {
                let capture = scratch.path(&format!("{target}-{number}-{format}"));
                let child = recording(&capture, &["--truth", "--format", format], &[&sort]);
                kill_after(child, &capture, bytes);
                let part = part_of(&capture);
                if capture.exists() {
                    // It was done before we were.
                    continue;
                }
                assert_part_tells_the_beginning(&part, &truth, 1);
                let info = run(&["info", &part.display().to_string()]);
                let said = String::from_utf8_lossy(&info.stderr).into_owned()
                    + &String::from_utf8_lossy(&info.stdout);
                assert!(said.contains("this recording was interrupted"), "{said}");
                assert!(said.contains(&format!("{} bytes of trace", trace_of(&part))), "{said}");
                let kept = backsight(&["flow", "--truth", "--format", "pcs"], &part);
                assert!(truth.starts_with(&kept), "the truth that was kept is the beginning too");
            }
        }
    }
}

#[test]
fn a_killed_recording_of_a_system_opens_and_tells_what_its_cpus_executed() {
    if !has_qemu() {
        return;
    }
    let scratch = Scratch::new("killed-system");
    let capture = scratch.path("capture");
    let child = recording(&capture, &["--cpus", "2", "--truth"], &[&program("aarch64", "vm"), "1000000"]);
    let part = part_of(&capture);
    // The truth reaches its file in large pieces.
    let truth = part.join("truth.retired");
    wait_for("no truth is written", || fs::metadata(&truth).is_ok_and(|file| file.len() > 100_000));
    kill_after(child, &capture, 200_000);
    for id in ["0x10", "0x11"] {
        let truth = backsight(&["flow", "--truth", "--format", "pcs", "--id", id], &part);
        let told = backsight(&["flow", "--format", "pcs", "--id", id], &part);
        let (shorter, longer) = if told.len() < truth.len() { (&told, &truth) } else { (&truth, &told) };
        assert!(shorter.lines().count() > 10_000, "{id}: {}", shorter.lines().count());
        assert!(longer.starts_with(shorter.as_str()), "{id}");
    }
}

#[test]
fn a_killed_recording_with_its_events_in_the_trace_tells_what_was_executed() {
    if !has_qemu() {
        return;
    }
    let scratch = Scratch::new("killed-stm");
    // Events that end in the middle of a byte, and at the end of one.
    for name in ["s", "so", "sor", "sort"] {
        let program_of_that_name = scratch.path(name);
        fs::copy(program("aarch64", "sort"), &program_of_that_name).expect("a file");
        let capture = scratch.path(&format!("capture-{name}"));
        let options = ["--cpus", "2", "--pids", "5", "--events", "stm"];
        let child = recording(&capture, &options, &[&program_of_that_name.display().to_string()]);
        kill_after(child, &capture, 1);
        let part = part_of(&capture);
        if capture.exists() {
            continue;
        }
        for id in ["0x10", "0x11"] {
            let told = backsight(&["flow", "--format", "pcs", "--id", id], &part);
            assert!(told.lines().count() > 10_000, "{name} {id}: {}", told.lines().count());
        }
    }
}

#[test]
fn a_killed_recording_is_discarded_only_on_demand() {
    let scratch = Scratch::new("killed-kept");
    let capture = scratch.path("capture");
    let sort = program("riscv64", "sort");
    kill_after(recording(&capture, &[], &[&sort, "1000000"]), &capture, 1);
    let part = part_of(&capture);
    let (name, bytes) = (capture.display().to_string(), trace_of(&part));
    let (code, said) = complaint(&["record", "-o", &name, "--", &sort]);
    assert_eq!(code, 1, "{said}");
    for words in [
        format!("{}: a recording that was interrupted", part.display()),
        format!("{bytes} bytes"),
        "--force".into(),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    assert_eq!(trace_of(&part), bytes, "nothing is lost");
    let (code, said) = complaint(&["info", &name]);
    assert!(code == 1 && said.contains(&format!("not complete is in {}", part.display())), "{code} {said}");
    assert!(record(&capture, &["--force", "--limit", "1000"], &[&sort]));
    assert!(capture.exists() && !part.exists());
    assert!(!run(&["info", &name]).stderr.windows(11).any(|word| word == b"interrupted"));
}

#[test]
fn signals_end_the_program_and_complete_the_capture() {
    let scratch = Scratch::new("signals");
    let mut targets = vec!["riscv64"];
    if has_qemu() {
        targets.push("aarch64");
    }
    for target in targets {
        for (name, status) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
            let capture = scratch.path(&format!("{target}{name}"));
            let mut child = recording(&capture, &["--truth"], &[&program(target, "sort"), "1000000"]);
            signal(&child, name);
            // A terminal that is gone says so more than once.
            if name != "-INT" {
                signal(&child, name);
            }
            assert_eq!(child.wait().expect("it ends").code(), Some(status), "{target} {name}");
            assert!(capture.exists() && !part_of(&capture).exists(), "{target} {name}");
            let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
            let told = backsight(&["flow", "--format", "pcs"], &capture);
            assert!(told.lines().count() > 1000 && truth.starts_with(&told), "{target} {name}");
        }
    }
}

#[test]
fn the_exit_status_is_that_of_the_program() {
    let scratch = Scratch::new("status");
    // `exit(42)`, and an instruction that does not exist: two programs of riscv64.
    let ends: [(&[u32], i32, &str); 2] =
        [(&[0x05D0_0893, 0x02A0_0513, 0x73], 42, "status 42"), (&[0x13, 0], 132, "signal 4")];
    for (number, (code, status, words)) in ends.into_iter().enumerate() {
        let path = scratch.path(&format!("program{number}"));
        fs::write(&path, crate::recording_failures::assembled(code)).expect("a file");
        let capture = scratch.path(&format!("capture{number}"));
        let output =
            run(&["record", "-o", &capture.display().to_string(), "--", &path.display().to_string()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(words) && !said.contains("backsight: "), "{said}");
        assert!(capture.exists());
    }
}
