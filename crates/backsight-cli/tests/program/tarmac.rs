//! Tarmac logs, as files and on standard input, and registers and memory at their moments.

use backsight_testing::repository;

use crate::support::{backsight_reading, line, words};

fn log() -> String {
    repository().join("testdata/tarmac/calls.tarmac").display().to_string()
}

#[test]
fn a_log_is_listed_from_a_file_and_from_standard_input() {
    let log = log();
    let listed = line(&format!("flow {log} --format pcs --quiet")).done().out;
    assert_eq!(listed.lines().count(), 32);
    let contents = std::fs::read(&log).expect("a bundled log");
    let (first, rest) = contents.split_at(1000);
    let read = backsight_reading(&words("flow - --format pcs --quiet"), &[first, rest]).done().out;
    assert_eq!(read, listed);
    backsight_reading(&words("flow - --format pcs"), &[b"no log of anything\n"]).wrong_use("--protocol");
    let text = line(&format!("flow {log} --disasm --quiet")).done().out;
    assert!(text.contains("svc #0x0") && text.contains("exception return"), "{text}");
    line(&format!("doctor {log}")).done();
    let functions = line(&format!("profile {log} --format collapsed --quiet")).done().out;
    assert!(functions.lines().any(|line| line.ends_with(" 6")), "{functions}");
}

#[test]
fn state_has_registers_memory_and_who_wrote_them() {
    let log = log();
    let text = line(&format!("state {log} --at #4 --memory 0xfff0+8 --quiet")).done().out;
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).expect(name).to_owned();
    assert!(
        text.starts_with("#4 t0x4 ") && text.lines().next().expect("a line").ends_with("at 0x1034"),
        "{text}"
    );
    assert!(row("x30 ").contains("000000000000100c") && row("x30 ").contains("0x1008"), "{text}");
    assert!(row("0x000000000000fff0 ").contains("0c 10 00 00 00 00 00 00"), "{text}");
    assert!(text.lines().all(|line| !line.starts_with("x31")), "{text}");
    line(&format!("state {log} --at #400")).could_not("does not come to #400");
    line(&format!("state {log} --memory 0+0")).wrong_use("bytes can be shown");
    line("state FIRST").could_not("Tarmac");
    line("state - --at #4").wrong_use("--protocol");
}
