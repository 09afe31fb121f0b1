//! Messages of software in the program: recorded, listed, and on one time axis.

use backsight_testing::repository;
use serde_json::Value;

use crate::support::{Scratch, line};

/// What a program prints, as `record` with this unit sees it, and the capture.
fn recorded(scratch: &Scratch, unit: &str) -> (String, String) {
    let capture = scratch.path("capture").display().to_string();
    let program = repository().join("testdata/programs/riscv64/calls");
    let arguments =
        format!("record --quiet --force --unit {unit} --output {capture} -- {}", program.display());
    (line(&arguments).done().out, capture)
}

/// The texts of all messages, as JSON has them.
fn texts(listing: &str) -> String {
    let text = |line: &str| {
        let object: Value = serde_json::from_str(line).expect("JSON");
        let bytes = object["bytes"].as_str().expect("bytes").to_owned();
        let digits = (0..bytes.len()).step_by(2).map(|at| &bytes[at..at + 2]);
        let bytes = digits.map(|digits| u8::from_str_radix(digits, 16).expect("digits")).collect();
        String::from_utf8(bytes).expect("text")
    };
    listing.lines().map(text).collect()
}

#[test]
fn what_a_program_prints_is_in_the_capture_beside_its_trace() {
    let scratch = Scratch::new();
    for unit in ["etrace,stm", "ntrace,itm"] {
        let (printed, capture) = recorded(&scratch, unit);
        let listing = line(&format!("flow {capture} --messages --format json --quiet")).done().out;
        let printed_without_ends: String = printed.chars().filter(|c| *c != '\n').collect();
        assert_eq!(texts(&listing), printed_without_ends, "{unit}");
        let traced = line(&format!("flow {capture} --format pcs --quiet")).done().out.lines().count();
        assert_eq!(traced, 536_079, "{unit}");
    }
}

#[test]
fn all_sources_are_listed_in_the_order_of_time() {
    let scratch = Scratch::new();
    let (_, capture) = recorded(&scratch, "ntrace,stm --config timestamps=all --retire single");
    let listing = line(&format!("flow {capture} --all --format json --quiet")).done().out;
    let mut latest = 0;
    let mut ids = std::collections::BTreeMap::new();
    for line in listing.lines() {
        let object: Value = serde_json::from_str(line).expect("JSON");
        *ids.entry(object["id"].as_u64().expect("an ID")).or_insert(0) += 1;
        let Some(estimate) = object["at"]["estimate"].as_u64() else { continue };
        assert!(estimate >= latest, "{line}");
        latest = estimate;
    }
    assert!(ids.len() == 2 && ids.values().all(|&count| count > 50), "{ids:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scratch = Scratch::new();
    let program = repository().join("testdata/programs/riscv64/calls").display().to_string();
    let output = scratch.path("none").display().to_string();
    let record = |more: &str| line(&format!("record --quiet {more} --output {output} -- {program}"));
    record("--unit stm,itm").wrong_use("one of stm and itm");
    record("--unit etrace,ntrace").wrong_use("one unit traces a core");
    let capture = repository().join("testdata/captures/first").display().to_string();
    line(&format!("flow {capture} --all --format pcs")).wrong_use("--all is for --format text and json");
    line(&format!("flow {capture} --messages --calls")).wrong_use("cannot be used with");
}
