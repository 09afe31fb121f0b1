//! Profiles by probes: as llvm-profgen makes them of the same ranges, and as clang applies them.

use std::path::Path;
use std::process::Command;

use super::readers::{output, tool};
use super::support::{Scratch, record};
use super::{exported, profile_of};

fn compile(clang: &Path, more: &[&str], out: &Path) -> String {
    let source = backsight_testing::repository().join("testdata/programs/src");
    let mut command = Command::new(clang);
    command.args(["--target=aarch64-linux-gnu", "-O2", "-std=gnu11", "-fno-pic", "-static", "-nostdlib"]);
    command.args([
        "-ffreestanding",
        "-fno-builtin",
        "-fno-stack-protector",
        "-fno-asynchronous-unwind-tables",
    ]);
    command
        .args(["-mgeneral-regs-only", "-fpseudo-probe-for-profiling", "-g1", "-fdebug-info-for-profiling"])
        .args(more);
    command.arg("-I").arg(&source).arg("-o").arg(out);
    output(command.arg(source.join("vm.c")).arg(source.join("runtime.c")))
}

/// A program with probes, compiled and recorded; `None`, and a word about it, where a tool is missing.
fn recorded(clang: &Path, scratch: &Scratch) -> Option<backsight_profile::Profile> {
    tool(&["aarch64-linux-gnu-gcc"])?;
    let (program, capture) = (scratch.path("vm"), scratch.path("capture"));
    compile(clang, &[], &program);
    record(&capture, &program, "etm4", &[], u64::MAX).then(|| profile_of(&capture))
}

#[test]
fn llvm_profgen_counts_the_same_probes_of_the_same_ranges() {
    let (Some(clang), Some(profgen)) =
        (tool(&["clang-19", "clang"]), tool(&["llvm-profgen", "llvm-profgen-19"]))
    else {
        return;
    };
    let Some(profdata) = tool(&["llvm-profdata", "llvm-profdata-19"]) else { return };
    let scratch = Scratch::new("probes-profgen");
    let Some(profile) = recorded(&clang, &scratch) else { return };
    let file = |name: &str, format: &str| {
        std::fs::write(scratch.path(name), exported(&profile, format)).expect("a file");
        scratch.path(name)
    };
    let (raw, theirs) = (file("raw", "profgen"), scratch.path("theirs"));
    output(
        Command::new(profgen)
            .arg(format!("--unsymbolized-profile={}", raw.display()))
            .arg(format!("--binary={}", scratch.path("vm").display()))
            .arg(format!("--output={}", theirs.display()))
            .arg("--use-offset=0"),
    );
    let shown = |file: &Path| {
        output(Command::new(&profdata).args(["merge", "--sample", "--text", "-o", "-"]).arg(file))
    };
    let (text, theirs) = (shown(&file("text", "llvm")), shown(&theirs));
    assert!(text.contains("interpret") && text.contains("!CFGChecksum"), "{text}");
    assert_eq!(text, theirs);
    assert_eq!(text, shown(&file("binary", "llvm-binary")));
}

#[test]
fn clang_applies_a_profile_by_probes_and_takes_none_of_it_for_stale() {
    let Some(clang) = tool(&["clang-19", "clang"]) else { return };
    let scratch = Scratch::new("probes-clang");
    let Some(profile) = recorded(&clang, &scratch) else { return };
    for format in ["llvm", "llvm-binary"] {
        let file = scratch.path(format);
        std::fs::write(&file, exported(&profile, format)).expect("a file");
        let profile = format!("-fprofile-sample-use={}", file.display());
        let said = compile(&clang, &[&profile, "-Rpass-analysis=sample-profile"], &scratch.path("again"));
        assert!(said.contains("pplied 72173 samples from profile"), "{format}: {said}");
        assert!(!said.contains("mismatch") && !said.contains("warning"), "{format}: {said}");
        assert_ne!(std::fs::read(scratch.path("vm")).ok(), std::fs::read(scratch.path("again")).ok());
    }
}
