//! A source that is programmed again while it traces: it goes on under another trace ID, the event log says how, and what
//! is decoded is what ran, in order. The same execution is traced twice, by a unit in different configurations, and both
//! traces are joined.

use std::path::{Path, PathBuf};

use crate::support::{Scratch, assert_same, backsight, run};

/// The bundled execution, traced with these settings.
fn traced(scratch: &Scratch, name: &str, settings: &[&str]) -> PathBuf {
    let input = backsight_testing::repository().join("testdata/captures/calls-aarch64").display().to_string();
    let capture = scratch.path(name);
    let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--config", setting]).collect();
    let output = capture.display().to_string();
    let encoded =
        run(&[&["encode", "--quiet", "--truth", &input, "--output", &output], &settings[..]].concat());
    assert!(encoded.status.success(), "{}", String::from_utf8_lossy(&encoded.stderr));
    capture
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a text file")
}

/// The value of a register in the metadata of a capture.
fn register(capture: &Path, name: &str) -> String {
    let metadata = text(&capture.join("trace.ini"));
    let line = metadata.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.expect("a register").to_owned()
}

/// Puts bytes of whole frames of captures after each other, into the first one, with a log of these lines.
fn join(capture: &Path, pieces: &[&Path], lines: &[String]) {
    let all: Vec<u8> =
        pieces.iter().flat_map(|piece| std::fs::read(piece.join("trace.bin")).expect("a trace")).collect();
    assert_eq!(all.len() % 16, 0, "whole frames");
    std::fs::write(capture.join("trace.bin"), all).expect("a folder to write to");
    std::fs::write(
        capture.join("system-event-log"),
        format!("%system-event-log version=1\n{}\n", lines.join("\n")),
    )
    .expect("a folder to write to");
    let contents = text(&capture.join("contents.ini"));
    assert!(contents.contains("[events]\n") && !contents.contains("log="), "{contents}");
    let contents = contents.replace("[events]\n", "[events]\nlog=system-event-log\n");
    std::fs::write(capture.join("contents.ini"), contents).expect("a folder to write to");
}

fn pcs(capture: &Path, options: &[&str]) -> String {
    backsight(&[&["flow", "--format", "pcs"], options].concat(), capture)
}

#[test]
fn a_source_goes_on_under_another_id_in_another_configuration() {
    let scratch = Scratch::new("reconfigured");
    let plain = traced(&scratch, "plain", &["TRCTRACEIDR=0x18"]);
    let counting = traced(&scratch, "counting", &["TRCTRACEIDR=0x10", "cyclecount=1", "branch_broadcast=1"]);
    let config = register(&counting, "TRCCONFIGR");
    assert_ne!(config, register(&plain, "TRCCONFIGR"));
    let truth = pcs(&plain, &["--truth"]);
    assert_eq!(truth.lines().count(), 40_000);
    let joined = scratch.path("joined");
    backsight(&["convert", "--output", &joined.display().to_string()], &plain);
    // There and back again.
    join(
        &joined,
        &[&plain, &counting, &plain],
        &[
            "- define_trace END id=0x18 source=unit_0".to_owned(),
            format!("- define_trace START id=0x10 source=unit_0 TRCCONFIGR={config}"),
            "- define_trace END id=0x10 source=unit_0".to_owned(),
            "- define_trace START id=0x18 source=unit_0".to_owned(),
        ],
    );
    // The new ID is the lower one: sources by themselves would come in the order of their IDs.
    let expected = [&truth[..], &truth, &truth].concat();
    for options in [&[][..], &["--threads", "3"], &["--id", "0x18"], &["--id", "0x10"]] {
        assert_same(&pcs(&joined, options), &expected, &format!("{options:?}"));
    }
    let packets = backsight(&["packets", "--format", "json"], &joined);
    let (first, second) = (packets.find("\"id\":24"), packets.find("\"id\":16"));
    assert!(first < second && first.is_some(), "packets of both, in order");
    let info = backsight(&["info"], &joined);
    assert!(info.contains("ID 0x10: ") && info.contains("ID 0x18: ") && !info.contains("no data"), "{info}");
    // The log describes the second configuration in a package that is made of it.
    let again = scratch.path("again");
    backsight(&["convert", "--output", &again.display().to_string()], &joined);
    assert!(!text(&again.join("trace.ini")).contains("[trace_16]"));
    assert_same(&pcs(&again, &[]), &expected, "converted");
}

#[test]
fn without_its_definition_the_new_id_is_reported_and_not_guessed() {
    let scratch = Scratch::new("not-defined");
    let plain = traced(&scratch, "plain", &["TRCTRACEIDR=0x18"]);
    let counting = traced(&scratch, "counting", &["TRCTRACEIDR=0x10", "cyclecount=1"]);
    let truth = pcs(&plain, &["--truth"]);
    let joined = scratch.path("joined");
    backsight(&["convert", "--output", &joined.display().to_string()], &plain);
    join(&joined, &[&plain, &counting], &[]);
    assert_same(&pcs(&joined, &[]), &truth, "the first configuration");
    assert!(backsight(&["info"], &joined).contains("ID 0x10"), "what is not decoded is named");
}
