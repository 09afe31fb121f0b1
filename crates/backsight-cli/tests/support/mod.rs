//! Runs the program, and compares what it says.

// Each test file uses a part.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that is gone at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("backsight-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A bundled program.
pub fn program(target: &str, name: &str) -> String {
    backsight_testing::repository().join("testdata/programs").join(target).join(name).display().to_string()
}

/// The program, which finds the QEMU plugin if there is one.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backsight"));
    if let Some(plugin) = backsight_testing::qemu_plugin() {
        command.env("BACKSIGHT_QEMU_PLUGIN", plugin);
    }
    command
}

/// The program with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("the program that was built")
}

/// Records a program. False, and a word about it, where QEMU or its plugin is missing.
pub fn record(capture: &Path, options: &[&str], program: &[&str]) -> bool {
    let capture = capture.display().to_string();
    let output = run(&[&["record", "--quiet", "--output", &capture], options, &["--"], program].concat());
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && (complaint.contains("not installed") || complaint.contains("not built")) {
        backsight_testing::skipped(format_args!("{complaint}"));
        return false;
    }
    assert!(output.status.success(), "{options:?} {program:?}: {complaint}");
    true
}

/// What the program says of a capture.
pub fn backsight(arguments: &[&str], capture: &Path) -> String {
    let output = run(&[arguments, &["--quiet", &capture.display().to_string()]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Two lists of addresses are the same; if not, names the first difference.
pub fn assert_same(told: &str, truth: &str, what: &str) {
    if told == truth {
        return;
    }
    let same = told.lines().zip(truth.lines()).take_while(|(a, b)| a == b).count();
    let (told_count, truth_count) = (told.lines().count(), truth.lines().count());
    panic!(
        "{what}: from instruction {same} on: told {:?}, executed {:?} ({told_count} and {truth_count} instructions)",
        told.lines().nth(same),
        truth.lines().nth(same)
    );
}

pub fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a hexadecimal number")
}

/// First address, address behind the last.
pub type Range = (u64, u64);

/// What OpenCSD makes of a snapshot; `None` where it is not installed.
pub fn opencsd_ranges(snapshot: &Path, id: u8) -> Option<Vec<Range>> {
    let mut lister = Command::new("trc_pkt_lister");
    // It leaves a log where it runs.
    lister.current_dir(snapshot);
    lister.arg("-ss_dir").arg(snapshot).args(["-decode", "-logstdout"]);
    let Ok(output) = lister.output() else {
        backsight_testing::skipped("trc_pkt_lister is not installed (Debian: libopencsd-bin)");
        return None;
    };
    Some(ranges(&String::from_utf8_lossy(&output.stdout), id))
}

/// The ranges in a listing of that style.
pub fn ranges(listing: &str, id: u8) -> Vec<Range> {
    let of_source = format!("ID:{id:x};");
    let mut ranges = Vec::new();
    for line in listing.lines().filter(|line| line.contains(&of_source)) {
        let Some((_, rest)) = line.split_once("exec range=0x") else { continue };
        let (first, rest) = rest.split_once(":[0x").expect("a range");
        let (behind, _) = rest.split_once(']').expect("its end");
        ranges.push((hexadecimal(first), hexadecimal(behind)));
    }
    ranges
}
