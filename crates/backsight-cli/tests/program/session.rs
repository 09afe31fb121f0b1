//! `backsight session`: a trace that was made as the session programs it is decoded by the session's package.

use std::fs;
use std::path::Path;

use backsight_testing::repository;

use crate::support::{Scratch, line};

/// Programs a unit, has it trace a recorded program, and lists what was executed by the session's own metadata.
fn traced_and_decoded(system: &Path, unit: &str, options: &str, protocol: &str) -> (String, String) {
    let scratch = Scratch::new();
    let (package, encoded) = (scratch.path("package"), scratch.path("encoded"));
    let session = format!("session {} --trace {unit} --sink etb {options}", system.display());
    let said = line(&format!("{session} --as package -o {}", package.display())).done().err;
    let metadata = fs::read_to_string(package.join("trace.ini")).unwrap();
    let registers: String = metadata
        .lines()
        .filter(|line| line.starts_with("ETM"))
        .map(|register| format!(" --config {register}"))
        .collect();
    let retired = repository().join("testdata/captures/interwork-arm/truth.retired");
    let program = repository().join("testdata/programs/arm/interwork");
    line(&format!(
        "encode {} --unit {protocol}{registers} --quiet -o {}",
        retired.display(),
        encoded.display()
    ))
    .done();
    fs::copy(encoded.join("trace.bin"), package.join("trace.bin")).unwrap();
    let listed =
        line(&format!("flow {} --format pcs --image {} --quiet", package.display(), program.display()));
    (said, listed.done().out)
}

#[test]
fn what_a_programmed_ptm_or_etmv3_traces_is_decoded_by_the_package_of_its_session() {
    let recorded = repository().join("testdata/captures/interwork-arm");
    let truth = line(&format!("flow {} --truth --format pcs --quiet", recorded.display())).done().out;
    assert_eq!(truth.lines().count(), 40_000);
    let bundled = repository().join("testdata/systems/armv7.ini");
    let options = "--cycle-counts 1 --return-stack --timestamps=1000";
    let (said, listed) = traced_and_decoded(&bundled, "ptm0", options, "ptm");
    assert!(said.contains("ptm0: trace ID 0x10, PFTv1.0; on: cycle counts, timestamps"), "{said}");
    assert!(listed == truth, "PTM");

    // A microcontroller has no A32 code: the same unit at a processor that has.
    let scratch = Scratch::new();
    let text = fs::read_to_string(&bundled).unwrap().replace("Cortex-M4", "Cortex-R5");
    let system = scratch.file("system.ini", text);
    let options = "--branch-broadcast --context-id --timestamps";
    let (said, listed) = traced_and_decoded(&system, "etm", options, "etm3");
    assert!(said.contains("etm: trace ID 0x10, ETMv3.5, A or R profile"), "{said}");
    assert!(said.contains("on: timestamps, context ID (32 bits), branch broadcast"), "{said}");
    assert!(listed == truth, "ETMv3");
}

#[test]
fn what_a_unit_cannot_do_is_one_line_that_names_it() {
    let system = repository().join("testdata/systems/armv7.ini");
    let session = |options: &str| line(&format!("session {} --sink etb {options}", system.display()));
    session("--trace etm --return-stack").could_not("etm: return stack: the trace unit cannot");
    session("--trace ptm0 --data both").could_not("ptm0: data trace: the trace unit cannot");
    session("--trace ptm0 --cycle-counts 16").could_not("with 1, all cycles are counted");
    session("--trace ptm0 --data all").wrong_use("possible values: address, value, both");
}
