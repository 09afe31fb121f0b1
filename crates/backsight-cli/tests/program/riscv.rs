//! Listings of RISC-V trace: golden files, harts, branches.

use std::path::PathBuf;

use backsight_riscv::ntrace::{self, Config, Packet};
use backsight_testing::{assert_golden, repository};
use serde_json::Value;

use crate::support::{Scratch, backsight_reading, line, words};

fn golden(name: &str) -> String {
    format!("crates/backsight-cli/tests/golden/{name}")
}

/// A capture of a bundled program that goes with the source: E-Trace.
fn etrace() -> PathBuf {
    repository().join("testdata/captures/calls-riscv64")
}

fn program() -> PathBuf {
    repository().join("testdata/programs/riscv64/calls")
}

/// The same program, traced by N-Trace.
fn ntrace(scratch: &Scratch) -> PathBuf {
    let capture = scratch.path("ntrace");
    let arguments = "record --quiet --unit ntrace --limit 40000 --output";
    line(&format!("{arguments} {} -- {}", capture.display(), program().display())).done();
    capture
}

#[test]
fn listings_of_both_protocols_are_as_before() {
    let scratch = Scratch::new();
    for (name, capture) in [("etrace", etrace()), ("ntrace", ntrace(&scratch))] {
        for listing in [
            "packets --format text",
            "packets --format json",
            "packets --format opencsd",
            "flow --format text",
            "flow --format json",
            "flow --format branches",
            "flow --calls",
            "flow --disasm --format json",
        ] {
            let (command, options) = listing.split_once(' ').expect("options");
            let run = line(&format!("{command} {} {options} --limit 60 --quiet", capture.display())).done();
            let options = options.replace("--format ", "").replace("--", "").replace(' ', "-");
            assert_golden(&golden(&format!("{name}.{command}.{options}")), &run.out);
        }
        let summary = line(&format!("packets {} --format summary", capture.display())).done();
        assert_golden(
            &golden(&format!("{name}.packets.summary")),
            &format!("{}{}", summary.out, summary.err),
        );
        let tree = line(&format!("flow {} --calls=tree", capture.display())).done();
        let head: String = tree.out.lines().take(12).flat_map(|line| [line, "\n"]).collect();
        assert_golden(&golden(&format!("{name}.flow.calls-tree")), &format!("{head}{}", tree.err));
    }
}

/// What two harts did, in one stream: the same.
fn two_harts(scratch: &Scratch) -> Vec<u8> {
    let recorded = std::fs::read(ntrace(scratch).join("trace.bin")).expect("trace");
    let mut bytes = Vec::new();
    for packet in ntrace::messages(&Config::with_source_bits(0), &recorded) {
        for source in [0, 1] {
            let packet = Packet { source, ..packet.value };
            assert!(ntrace::encode(&Config::with_source_bits(2), &packet, &mut bytes), "{packet:?}");
        }
    }
    bytes
}

#[test]
fn each_hart_of_a_source_is_shown_and_has_a_state_of_its_own() {
    let scratch = Scratch::new();
    let bytes = two_harts(&scratch);
    let flow = |options: &str| {
        let image = program().display().to_string();
        let arguments =
            format!("flow - --protocol ntrace --config source_bits=2 --image {image} --quiet {options}");
        backsight_reading(&words(&arguments), &[&bytes]).done().out
    };
    let one = line(&format!("flow {} --quiet", scratch.path("ntrace").display())).done().out;
    let one: Vec<&str> = one.lines().map(|line| line.strip_prefix("0x01").expect(line)).collect();
    let text = flow("");
    for hart in ["0x00.0", "0x00.1"] {
        let of_hart: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(hart)).collect();
        assert_eq!(of_hart, one);
    }
    assert_eq!(text.lines().count(), 2 * one.len());
    for text in flow("--format json").lines() {
        let value: Value = serde_json::from_str(text).expect(text);
        assert!(value["hart"] == 0 || value["hart"] == 1, "{text}");
    }
    let calls = flow("--calls");
    let of =
        |hart: &str| calls.lines().filter(|line| line.starts_with(hart)).map(|line| &line[6..]).collect();
    let (zero, first): (Vec<&str>, Vec<&str>) = (of("0x00.0"), of("0x00.1"));
    assert!(zero.len() > 1000 && zero == first);
}

#[test]
fn branches_of_riscv_come_from_its_execution() {
    let capture = etrace().display().to_string();
    let all = line(&format!("flow {capture} --format branches")).done();
    let taken: u64 = all
        .err
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(" taken"))
        .expect("a summary")
        .0
        .parse()
        .expect("a number");
    let (from, without): (Vec<&str>, Vec<&str>) =
        all.out.lines().partition(|line| line.contains("\tfrom 0x"));
    assert_eq!(without, ["branch\t0\t0x11428"], "where tracing began");
    // The last branch goes where nobody sees.
    assert!(from.len() as u64 == taken || from.len() as u64 + 1 == taken, "{} of {taken}", from.len());
    let some = line(&format!("flow {capture} --format branches --function hanoi --quiet")).done().out;
    assert!(some.lines().all(|line| all.out.contains(line)), "{some}");
    // The program ran without a context ID, and without time.
    let branches = format!("flow {capture} --format branches --quiet");
    assert_eq!(line(&format!("{branches} --context 5")).done().out, "");
    line(&format!("{branches} --from t0 --to t5")).could_not("comes to that moment");
}
