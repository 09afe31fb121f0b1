//! Events of the operating system in the trace itself: a system is recorded whose STM says what came and went, and what
//! is decoded with those events equals what was executed, and what is decoded with the same events in a log; damaged
//! messages are losses. Needs QEMU, its plugin (`tools/qemu-plugin`, built) and a C compiler for AArch64; without them it
//! says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use backsight_arm::frame::{Chunk, Deframer, FormatterConfig, Framing};
use backsight_core::TraceId;
use backsight_unit::Funnel;

use crate::support::{Scratch, assert_same, backsight, record, run};

/// Builds the program and its libraries, and records it. `None`, and a word about it, where something is missing.
fn recorded(scratch: &Scratch, options: &[&str]) -> Option<PathBuf> {
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
        return None;
    }
    let system = ["--truth", "--cpus", "2", "--pids", "5", "--slice", "3000", "--events", "stm"];
    let options = [&system[..], &["--sysroot", "/usr/aarch64-linux-gnu"], options].concat();
    let program = scratch.path("system").display().to_string();
    let folder = scratch.path("").display().to_string();
    let capture = scratch.path("capture");
    record(&capture, &options, &[&program, &folder, "4"]).then_some(capture)
}

/// Changes a byte here and there in the trace of the STM; that of the CPUs stays as it is.
fn damage_events(path: &Path) {
    let trace = std::fs::read(path).expect("a trace");
    let mut streams: BTreeMap<TraceId, Vec<u8>> = BTreeMap::new();
    Deframer::new(Framing::Coresight).feed(&trace, &mut |chunk| {
        if let Chunk::Data { id, bytes, .. } = chunk {
            streams.entry(id).or_default().extend_from_slice(bytes);
        }
    });
    let events = streams.get_mut(&TraceId::new(0x6F)).expect("an STM");
    assert!(events.len() > 5000, "{} bytes of events", events.len());
    events.iter_mut().skip(400).step_by(1500).for_each(|byte| *byte ^= 0x24);
    let mut funnel = Funnel::new(FormatterConfig::new(Framing::Coresight), 8);
    let mut frames = Vec::new();
    let mut sink = |part: &[u8]| frames.extend_from_slice(part);
    for (id, bytes) in &streams {
        funnel.push(*id, bytes, &mut sink).expect("sources");
    }
    funnel.finish(&mut sink).expect("sources");
    std::fs::write(path, frames).expect("a folder to write to");
}

const CPUS: [&str; 2] = ["0x10", "0x11"];

fn decoded(capture: &Path, id: &str) -> String {
    backsight(&["flow", "--format", "pcs", "--id", id], capture)
}

#[test]
fn what_is_decoded_with_events_in_the_trace_is_what_ran_and_what_the_same_log_gives() {
    for contextidr in ["tid", "asid", "none"] {
        let scratch = Scratch::new(&format!("trace-events-{contextidr}"));
        let Some(capture) = recorded(&scratch, &["--contextidr", contextidr]) else { return };
        assert!(!capture.join("system-event-log").exists(), "the events are in the trace");
        let info = backsight(&["info"], &capture);
        assert!(
            info.contains("system events on master 0 channel 16") && info.contains("event log: "),
            "{info}"
        );
        let with_log = scratch.path("with-log");
        backsight(&["convert", "--output", &with_log.display().to_string()], &capture);
        let log = std::fs::read_to_string(with_log.join("system-event-log")).expect("a log");
        assert!(log.contains("patch_code") && log.contains("libsecond.so") && !log.contains("%lost"));
        for id in CPUS {
            let truth = backsight(&["flow", "--truth", "--format", "pcs", "--id", id], &capture);
            let decoded_here = decoded(&capture, id);
            assert!(truth.lines().count() > 10_000, "{} instructions", truth.lines().count());
            assert_same(&decoded_here, &truth, &format!("CONTEXTIDR {contextidr}, ID {id}"));
            assert_same(&decoded(&with_log, id), &decoded_here, &format!("with the log, ID {id}"));
        }
    }
}

#[test]
fn damaged_messages_are_losses_and_nothing_is_made_up() {
    let scratch = Scratch::new("trace-events-damage");
    let Some(capture) = recorded(&scratch, &[]) else { return };
    damage_events(&capture.join("trace.bin"));
    let output = run(&["doctor", &capture.display().to_string()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("events were lost"), "{said}");
    let (mut all, mut seen) = (0, 0);
    for id in CPUS {
        let truth = backsight(&["flow", "--truth", "--format", "pcs", "--id", id], &capture);
        let mut executed = truth.lines();
        for (number, line) in decoded(&capture, id).lines().enumerate() {
            assert!(
                executed.any(|other| other == line),
                "ID {id}: instruction {number}, {line}, was not executed"
            );
            seen += 1;
        }
        all += truth.lines().count();
    }
    assert!(seen < all, "something is missing where events are");
    // How much depends on when in the recording the damage is.
    assert!(seen > 1_000, "{seen} of {all} instructions");
}
