//! Systems that change while they are traced: a program that forks, has threads, loads and unloads libraries and makes
//! code of its own is recorded on two CPUs, and every instruction is decoded again, whatever CONTEXTIDR holds; with the
//! event log as it was written, with what only its end says, and with holes. Needs QEMU, its plugin
//! (`tools/qemu-plugin`, built) and a C compiler for AArch64; without them they say so.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Scratch, assert_same, backsight, record};

const SYSROOT: &str = "/usr/aarch64-linux-gnu";

/// Builds the program and its libraries. `None`, and a word about it, where there is no compiler.
fn build(scratch: &Scratch) -> Option<PathBuf> {
    let sources = backsight_testing::repository().join("crates/backsight-cli/tests/programs");
    let compile = |output: &str, source: &str, options: &[&str]| {
        let mut compiler = Command::new("aarch64-linux-gnu-gcc");
        compiler.arg("-O1").arg("-o").arg(scratch.path(output)).arg(sources.join(source)).args(options);
        compiler.status().is_ok_and(|status| status.success())
    };
    let built = compile("system", "system.c", &["-ldl", "-lpthread"])
        && compile("libfirst.so", "library.c", &["-shared", "-fPIC"])
        && compile("libsecond.so", "library.c", &["-shared", "-fPIC", "-DSECOND"]);
    if !built {
        backsight_testing::skipped("aarch64-linux-gnu-gcc is not installed (Debian: gcc-aarch64-linux-gnu)");
    }
    built.then(|| scratch.path("system"))
}

/// Records the program. `None` where something is missing.
fn recorded(scratch: &Scratch, contextidr: &str) -> Option<PathBuf> {
    let program = build(scratch)?.display().to_string();
    let folder = scratch.path("").display().to_string();
    let capture = scratch.path("capture");
    let system = ["--truth", "--cpus", "2", "--pids", "5", "--slice", "3000", "--sysroot", SYSROOT];
    let options = [&system[..], &["--contextidr", contextidr]].concat();
    record(&capture, &options, &[&program, &folder, "8"]).then_some(capture)
}

/// The trace IDs of a capture.
fn ids(capture: &Path) -> Vec<String> {
    let metadata = std::fs::read_to_string(capture.join("trace.ini")).expect("a package");
    let id = |line: &str| Some(line.strip_prefix("[trace_")?.strip_suffix(']')?.to_owned());
    metadata.lines().filter_map(id).collect()
}

/// What was decoded of a source, and what it executed.
fn both(capture: &Path, id: &str) -> (String, String) {
    let decoded = backsight(&["flow", "--format", "pcs", "--id", id], capture);
    (decoded, backsight(&["flow", "--truth", "--format", "pcs", "--id", id], capture))
}

/// Replaces the event log.
fn rewrite_log(capture: &Path, rewrite: impl FnOnce(Vec<String>) -> Vec<String>) {
    let path = capture.join("system-event-log");
    let lines = std::fs::read_to_string(&path).expect("a log").lines().map(String::from).collect();
    std::fs::write(&path, rewrite(lines).join("\n") + "\n").expect("a folder to write to");
}

#[test]
fn every_instruction_of_a_changing_system_is_decoded_whatever_contextidr_holds() {
    for contextidr in ["tid", "pid", "asid", "asid-tid", "none"] {
        let scratch = Scratch::new(&format!("system-{contextidr}"));
        let Some(capture) = recorded(&scratch, contextidr) else { return };
        let log = std::fs::read_to_string(capture.join("system-event-log")).expect("a log");
        let ended = log.lines().filter(|line| line.contains("declare_process END")).count();
        assert!(ended >= 8, "{ended} processes ended, of which some had the number of another");
        assert!(log.contains("patch_code") && log.contains("libsecond.so"), "code comes and goes");
        assert_eq!(log.contains(" switch "), contextidr == "none");
        let ids = ids(&capture);
        assert_eq!(ids.len(), 2, "a source for each CPU");
        for id in ids {
            let (decoded, truth) = both(&capture, &id);
            assert!(truth.lines().count() > 10_000, "{} instructions", truth.lines().count());
            assert_same(&decoded, &truth, &format!("CONTEXTIDR {contextidr}, ID {id}"));
        }
    }
}

#[test]
fn a_log_that_never_says_what_began_is_wound_back_from_what_ended() {
    for contextidr in ["tid", "asid"] {
        let scratch = Scratch::new(&format!("system-end-{contextidr}"));
        let Some(capture) = recorded(&scratch, contextidr) else { return };
        let is_start = |line: &String| line.contains("declare_") && line.contains(" START ");
        rewrite_log(&capture, |lines| lines.into_iter().filter(|line| !is_start(line)).collect());
        for id in ids(&capture) {
            let (decoded, truth) = both(&capture, &id);
            assert_same(&decoded, &truth, &format!("wound back, CONTEXTIDR {contextidr}, ID {id}"));
        }
    }
}

#[test]
fn holes_in_the_log_are_gaps_and_nothing_is_made_up() {
    for contextidr in ["tid", "asid", "none"] {
        let scratch = Scratch::new(&format!("system-holes-{contextidr}"));
        let Some(capture) = recorded(&scratch, contextidr) else { return };
        rewrite_log(&capture, |lines| {
            // Of every thirty events the last eight are lost.
            let keep = |(number, line): (usize, String)| match number % 30 {
                22 => Some("%lost count=8".to_owned()),
                23.. => None,
                _ => Some(line),
            };
            lines.into_iter().enumerate().filter_map(keep).collect()
        });
        let (mut all, mut seen) = (0, 0);
        for id in ids(&capture) {
            let (decoded, truth) = both(&capture, &id);
            (all, seen) = (all + truth.lines().count(), seen + decoded.lines().count());
            let mut executed = truth.lines();
            for (number, line) in decoded.lines().enumerate() {
                let what = format!("CONTEXTIDR {contextidr}, ID {id}: instruction {number}, {line}");
                assert!(executed.any(|other| other == line), "{what}, was never executed there");
            }
        }
        assert!(seen < all, "{contextidr}: something is missing where events are");
        assert!(seen * 10 > all, "{contextidr}: {seen} of {all} instructions");
    }
}
