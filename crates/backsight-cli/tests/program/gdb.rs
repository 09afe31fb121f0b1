//! `gdb`: what it prints, refuses and serves, without a gdb.

use backsight_testing::repository;

use crate::support::{Run, Scratch, backsight_reading, line};

fn capture() -> String {
    repository().join("testdata/captures/calls-riscv64").display().to_string()
}

/// Packets, each with its checksum.
fn packets(contents: &[&str]) -> Vec<u8> {
    let packet = |contents: &&str| {
        let sum = contents.bytes().fold(0_u8, u8::wrapping_add);
        format!("+${contents}#{sum:02x}").into_bytes()
    };
    contents.iter().flat_map(packet).collect()
}

fn served(options: &str, contents: &[&str]) -> Run {
    let words: Vec<_> = format!("gdb {} --stdio --quiet {options}", capture())
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    backsight_reading(&words, &[&packets(contents)])
}

#[test]
fn packets_on_standard_input_are_answered_on_standard_output() {
    let run = served("", &["qSupported", "?", "bs", "D"]).done();
    assert_eq!(run.err, "");
    assert!(run.out.starts_with("+$PacketSize=4000;"), "{}", run.out);
    // The last instruction is number 39999, and the one before it is 39998.
    for moment in ["45:3f9c000000000000", "45:3e9c000000000000"] {
        assert!(run.out.contains(moment), "{}", run.out);
    }
    assert!(run.out.ends_with("$OK#9a"), "{}", run.out);
    // A debugger that goes away without a word is no failure.
    served("", &["?"]).done();
}

#[test]
fn a_walk_begins_where_the_user_says() {
    for (at, moment) in
        [("#0", "45:0000000000000000"), ("#1000", "45:e803000000000000"), ("end-1", "45:3f9c000000000000")]
    {
        let run = served(&format!("--at {at}"), &["?", "D"]).done();
        assert!(run.out.contains(moment), "{at}: {}", run.out);
    }
    served("--at #99999999", &[]).could_not("#99999999");
    served("--at yesterday", &[]).wrong_use("a moment is");
}

#[test]
fn the_commands_for_gdb_are_printed() {
    let run = line(&format!("gdb {} --at #5 --print-commands", capture())).done();
    let connect = run.out.lines().find(|line| line.starts_with("target remote | ")).expect("a line");
    assert!(connect.ends_with("--stdio") && connect.contains("--at '#5'"), "{connect}");
    assert!(!connect.contains("--print-commands"), "{connect}");
    assert!(run.out.contains("class BacksightUnwinder"), "{}", run.out);
}

#[test]
fn what_cannot_be_walked_through_is_refused() {
    line("gdb /nowhere --stdio").could_not("/nowhere");
    line("gdb /nowhere").could_not("/nowhere");
    line(&format!("gdb {} --stdio --port 0", capture())).wrong_use("cannot be used with");
    line("gdb - --protocol etm4 --config TRCCONFIGR=0x11 --stdio").wrong_use("standard input");
    line(&format!("gdb {} --stdio --buffer nothing", capture())).wrong_use("--buffer nothing");
    line(&format!("gdb {} --gdb /no/such/gdb", capture())).could_not("/no/such/gdb");
}

/// Serves a capture, and asks for the stack pointer, for a watchpoint, and what is known.
fn served_recording(words: &str) -> Run {
    let words: Vec<String> = format!("gdb --stdio {words}").split_whitespace().map(str::to_owned).collect();
    let known = "known".bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    backsight_reading(&words, &[&packets(&["p2", "Z2,13064,4", &format!("qRcmd,{known}"), "D"])])
}

/// The answers to these questions.
fn answers(run: &Run) -> (String, String, String) {
    let all: Vec<&str> = run.out.split('$').skip(1).filter_map(|answer| answer.split('#').next()).collect();
    let [sp, watch, known, _] = all[..] else { panic!("{run:?}") };
    let bytes =
        (0..known.len() / 2).map(|at| u8::from_str_radix(&known[2 * at..2 * at + 2], 16).expect("hex"));
    (sp.to_owned(), watch.to_owned(), String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned())
}

#[test]
fn registers_and_memory_come_from_a_recording_where_there_is_one() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path(name).display().to_string();
    let program = repository().join("testdata/programs/riscv64/calls").display().to_string();
    let record = |name: &str, more: &str| {
        line(&format!("record --quiet --limit 20000 {more} --output {} -- {program}", at(name))).done();
    };
    record("run", "--truth=accesses");
    let (run, truth) = (at("run"), at("run/truth.retired"));
    let full = answers(&served_recording(&run).done());
    assert!(full.0.len() == 16 && !full.0.contains('x') && full.1 == "OK", "{full:?}");
    assert!(full.2.starts_with("registers, and memory"), "{full:?}");

    // Others without one: not asked for, recorded without, traced again.
    let none = answers(&served_recording(&format!("{run} --no-data")).done());
    assert_eq!((&*none.0, &*none.1), ("xxxxxxxxxxxxxxxx", ""));
    record("bare", "--truth");
    let bare = served_recording(&at("bare")).done();
    assert_eq!((answers(&bare), &*bare.err), (none.clone(), ""));
    line(&format!("encode {run} --quiet --unit ntrace --output {}", at("again"))).done();
    assert_eq!(answers(&served_recording(&at("again")).done()), none);

    // It can be named: as it is, and compressed, with the program or without.
    let again = at("again");
    assert_eq!(answers(&served_recording(&format!("{again} --data {truth}")).done()), full);
    let small = at("small");
    line(&format!("compress {run} --quiet --data replay=1 --program {program} --output {small}")).done();
    assert_eq!(
        answers(&served_recording(&format!("{again} --data {small} --program {program}")).done()),
        full
    );
    served_recording(&format!("{again} --data {small}")).could_not("is needed");
    line(&format!("compress {run} --quiet --output {}", at("smaller"))).done();
    assert_eq!(answers(&served_recording(&format!("{again} --data {}", at("smaller"))).done()), full);

    // What is wrong with a recording that is named is an error; with one that lies there, a warning.
    served_recording(&format!("{again} --data {}", at("nowhere"))).could_not("nowhere");
    line(&format!("gdb {again} --data {}", at("nowhere"))).could_not("nowhere");
    served_recording(&format!("{again} --data {}", at("bare/truth.retired")))
        .could_not("no loads and stores");
    served_recording(&format!("{again} --data {program}")).could_not("calls");
    served_recording(&format!("{run} --no-data --data {truth}")).wrong_use("cannot be used with");
    let other = repository().join("testdata/programs/riscv64/sort").display().to_string();
    let recorded =
        format!("record --quiet --limit 20000 --truth=accesses --output {} -- {other}", at("other"));
    line(&recorded).done();
    served_recording(&format!("{again} --data {}", at("other/truth.retired"))).could_not("not of this run");
    let mut bytes = std::fs::read(&truth).expect("a recording");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&truth, bytes).expect("a recording");
    let damaged = served_recording(&run).done();
    assert!(damaged.err.contains("warning: ") && damaged.err.contains("truth.retired"), "{damaged:?}");
    assert_eq!(answers(&damaged), none);
    served_recording(&format!("{again} --data {truth}")).could_not("truth.retired");
    served_recording(&format!("{again} --budget 1000 --data {small} --program {program}"))
        .could_not("--budget");
}
