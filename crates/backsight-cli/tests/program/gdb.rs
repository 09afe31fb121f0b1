//! `gdb`: what it prints, refuses and serves, without a gdb.

use backsight_testing::repository;

use crate::support::{Run, backsight_reading, line};

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
    let connect = run.out.lines().last().expect("a line");
    assert!(connect.starts_with("target remote | "), "{connect}");
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
