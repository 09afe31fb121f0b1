//! `compress` and `decompress`: what was executed comes back, and what is not right is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backsight_core::Execution;
use backsight_run::retired::RetiredReader;

fn backsight(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_backsight")).args(arguments).output().unwrap()
}

fn items(path: &Path) -> Vec<Execution> {
    let file = std::fs::File::open(path).unwrap();
    let mut items = Vec::new();
    RetiredReader::new(file).unwrap().read(&mut |item| items.push(item)).unwrap();
    items
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn captures_of_every_architecture_come_back() {
    let captures = backsight_testing::repository().join("testdata/captures");
    let folder = folder("compress-captures");
    let (packed, restored) = (folder.join("packed"), folder.join("restored"));
    for name in ["calls-riscv64", "calls-aarch64", "interwork-arm"] {
        let capture = captures.join(name);
        let before = items(&capture.join("truth.retired"));
        for scheme in ["btmbp", "esdc:sets=8,ways=2", "mix8k", "edmtf"] {
            let done = backsight(&["compress", text(&capture), "--scheme", scheme, "-o", text(&packed)]);
            assert!(done.status.success(), "{done:?}");
            let done = backsight(&["decompress", text(&packed), "-o", text(&restored)]);
            assert!(done.status.success(), "{done:?}");
            assert!(items(&restored) == before, "{name}, {scheme}");
        }
    }
}

#[test]
fn a_file_for_another_program_or_cut_off_is_refused() {
    let capture = backsight_testing::repository().join("testdata/captures/calls-riscv64");
    let folder = folder("compress-refused");
    let (packed, restored) = (folder.join("packed"), folder.join("restored"));
    let program = capture.join("code/calls");
    let other = backsight_testing::repository().join("testdata/programs/riscv64/sort");
    let pack = ["compress", text(&capture), "--program", text(&program), "-o", text(&packed)];
    assert!(backsight(&pack).status.success());
    let unpack = |program: &[&str]| {
        let done = backsight(&[&["decompress", text(&packed), "-o", text(&restored)], program].concat());
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    assert_eq!(unpack(&["--program", text(&program)]).0, Some(0));
    assert!(items(&restored) == items(&capture.join("truth.retired")));
    let (status, words) = unpack(&["--program", text(&other)]);
    assert!(status == Some(1) && words.contains("another program"), "{words}");
    let (status, words) = unpack(&[]);
    assert!(status == Some(1) && words.contains("is needed"), "{words}");
    let bytes = std::fs::read(&packed).unwrap();
    std::fs::write(&packed, &bytes[..bytes.len() - 3]).unwrap();
    let (status, words) = unpack(&["--program", text(&program)]);
    assert!(status == Some(1) && words.contains("truncated"), "{words}");
}

/// Only the instructions: a trace says nothing of loads and of what came from outside.
fn instructions(items: &[Execution]) -> Vec<Execution> {
    items.iter().filter(|item| matches!(item, Execution::Instruction(_))).copied().collect()
}

#[test]
fn what_a_trace_says_is_compressed_where_nothing_better_is_known() {
    let captures = backsight_testing::repository().join("testdata/captures");
    let folder = folder("compress-traces");
    let (packed, restored) = (folder.join("packed"), folder.join("restored"));
    for name in ["calls-riscv64", "calls-aarch64", "interwork-arm"] {
        let capture = captures.join(name);
        let truth = instructions(&items(&capture.join("truth.retired")));
        let done = backsight(&["compress", text(&capture), "--trace", "-o", text(&packed)]);
        assert!(done.status.success(), "{done:?}");
        let done = backsight(&["decompress", text(&packed), "-o", text(&restored)]);
        assert!(done.status.success(), "{done:?}");
        let traced = instructions(&items(&restored));
        let differing = truth.iter().zip(&traced).position(|(truth, traced)| truth != traced);
        let lengths = (truth.len(), traced.len());
        assert!(differing.is_none_or(|at| at + 1 == truth.len()), "{name}: {differing:?} of {lengths:?}");
        assert_eq!(lengths.0, lengths.1, "{name}");
    }
}

#[test]
fn a_trace_without_code_is_refused_with_advice() {
    let capture = backsight_testing::repository().join("testdata/captures/calls-riscv64");
    let folder = folder("compress-without-code");
    for entry in std::fs::read_dir(&capture).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() && entry.file_name() != "truth.retired" {
            std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
    let done = backsight(&["compress", text(&folder), "-o", text(&folder.join("packed"))]);
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1), "{words}");
}

#[test]
fn exceptions_and_filters_are_no_gaps_and_what_is_lost_is() {
    let scratch = crate::support::Scratch::new();
    let packed = scratch.path("packed");
    let first = crate::support::first();
    let done = backsight(&["compress", text(&first), "--trace", "-o", text(&packed)]);
    let words = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && !words.contains("gap"), "{words}");
    let copy = scratch.copy_of(&first, "copy");
    // The last instructions are not there.
    crate::support::edit(&copy.join("cpu_0.ini"), "length=0x5c", "length=0x40");
    std::fs::File::options().write(true).open(copy.join("code0.bin")).unwrap().set_len(0x40).unwrap();
    let done = backsight(&["compress", text(&copy), "--trace", "-o", text(&packed)]);
    let words = String::from_utf8_lossy(&done.stderr);
    let flow = backsight(&["flow", text(&copy), "-o", "/dev/null"]);
    let listed = String::from_utf8_lossy(&flow.stderr);
    let gaps = words.split("warning: ").find(|line| line.contains("in the trace")).expect("a warning");
    let count = gaps.split(' ').next().unwrap();
    assert!(listed.contains(&format!("{count} gaps")), "{words} {listed}");
}
