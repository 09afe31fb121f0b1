//! Systems that change while they are traced: a program that forks, has threads, loads and unloads libraries and makes
//! code of its own is recorded on two CPUs, and every instruction is decoded again, whatever CONTEXTIDR holds; with the
//! event log as it was written, with what only its end says, and with holes. Needs QEMU, its plugin
//! (`tools/qemu-plugin`, built) and a C compiler for AArch64; without them they say so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Scratch, assert_same, backsight, hexadecimal, record};

/// What programs are built for.
struct Target {
    compiler: &'static str,
    options: &'static [&'static str],
    sysroot: &'static str,
    package: &'static str,
}

const A64: Target = Target {
    compiler: "aarch64-linux-gnu-gcc",
    options: &[],
    sysroot: "/usr/aarch64-linux-gnu",
    package: "gcc-aarch64-linux-gnu",
};

const T32: Target = Target {
    compiler: "arm-linux-gnueabihf-gcc",
    options: &["-mthumb"],
    sysroot: "/usr/arm-linux-gnueabihf",
    package: "gcc-arm-linux-gnueabihf",
};

/// Builds the program and its libraries. `None`, and a word about it, where there is no compiler.
fn build(scratch: &Scratch, target: &Target) -> Option<PathBuf> {
    let sources = backsight_testing::repository().join("crates/backsight-cli/tests/programs");
    let compile = |output: &str, source: &str, options: &[&str]| {
        let mut compiler = Command::new(target.compiler);
        compiler.arg("-O1").args(target.options).arg("-o").arg(scratch.path(output));
        compiler.arg(sources.join(source)).args(options);
        compiler.status().is_ok_and(|status| status.success())
    };
    let built = compile("system", "system.c", &["-ldl", "-lpthread"])
        && compile("other", "other.c", &[])
        && compile("libfirst.so", "library.c", &["-shared", "-fPIC"])
        && compile("libsecond.so", "library.c", &["-shared", "-fPIC", "-DSECOND"]);
    if !built {
        let Target { compiler, package, .. } = target;
        backsight_testing::skipped(format_args!("{compiler} is not installed (Debian: {package})"));
    }
    built.then(|| scratch.path("system"))
}

/// Records the program for A64. `None` where something is missing.
fn recorded(scratch: &Scratch, contextidr: &str) -> Option<PathBuf> {
    recorded_for(&A64, scratch, &["--contextidr", contextidr])
}

/// Records the program. `None` where something is missing.
fn recorded_for(target: &Target, scratch: &Scratch, options: &[&str]) -> Option<PathBuf> {
    let program = build(scratch, target)?.display().to_string();
    let folder = scratch.path("").display().to_string();
    let capture = scratch.path("capture");
    let system = ["--truth", "--cpus", "2", "--pids", "5", "--slice", "3000", "--sysroot", target.sysroot];
    let options = [&system[..], options].concat();
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
        let is_other = |line: &&str| line.contains("declare_process START") && line.contains("/other\"");
        assert_eq!(log.lines().filter(is_other).count(), 2, "two children become another program");
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

#[test]
fn instructions_of_two_sizes_are_told_apart_in_the_code_of_their_time() {
    for unit in ["etm4", "ptm", "etm3"] {
        let scratch = Scratch::new(&format!("system-t32-{unit}"));
        let options = ["--contextidr", "tid", "--unit", unit];
        let Some(capture) = recorded_for(&T32, &scratch, &options) else { return };
        for id in ids(&capture) {
            let (decoded, truth) = both(&capture, &id);
            assert_same(&decoded, &truth, &format!("{unit}, ID {id}"));
        }
    }
}

#[test]
fn code_is_shown_as_it_was_and_by_the_names_that_it_had() {
    let scratch = Scratch::new("system-names");
    let Some(capture) = recorded(&scratch, "tid") else { return };
    let listing = backsight(&["flow", "--disasm"], &capture);
    assert!(!listing.contains("  00000000"), "code that is not there any more is shown too");
    for count in ["#0x14", "#0x15", "#0x16", "#0x17"] {
        let move_of = |line: &&str| line.contains("mov x1, ") && line.ends_with(count);
        assert!(
            listing.lines().any(|line| move_of(&line)),
            "each version of code that the program made: {count}"
        );
    }
    // Both libraries were at the same addresses, one after the other.
    let pages = |name: &str| -> BTreeSet<u64> {
        let named = listing.lines().filter(|line| line.contains("-0x") && line.ends_with(name));
        named
            .filter_map(|line| Some(hexadecimal(line.split_whitespace().nth(1)?.split('-').next()?) >> 16))
            .collect()
    };
    let (first, second) = (pages("first_step"), pages("second_step"));
    assert!(first.intersection(&second).next().is_some(), "{first:x?} and {second:x?}");
    assert!(!pages("other_step").is_empty());
    let calls = backsight(&["flow", "--calls"], &capture);
    assert!(calls.contains("first_step") && calls.contains("second_step"));
    // The program and its eight children call each library once, two of them another program.
    let functions = backsight(&["profile", "--format", "functions"], &capture);
    for (name, entries) in [("first_step", 9 * 60), ("second_step", 9 * 60), ("other_step", 2 * 300)] {
        let line = functions.lines().find(|line| line.contains(name)).expect("a function that ran");
        assert!(line.split(',').any(|field| field == entries.to_string()), "{name}: {entries} in {line}");
    }
}
