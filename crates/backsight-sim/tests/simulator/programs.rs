//! The bundled programs do what they do elsewhere, and every instruction of them is reported.

use crate::support;
use crate::support::{program, quiet, run};
use backsight_core::Execution;
use backsight_sim::{Elf, Exit, Options, Replay, Simulator};
use std::sync::atomic::Ordering;

const PROGRAMS: [&str; 4] = ["sort", "vm", "pack", "calls"];

fn expected(name: &str) -> String {
    let path = backsight_testing::repository().join("testdata/programs/expected").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn bundled_programs_print_what_they_print_elsewhere() {
    for name in PROGRAMS.into_iter().chain(["threads", "signals", "jit"]) {
        assert_eq!(run(&program(name)), (Exit::Status(0), expected(name)), "{name}");
    }
}

/// One line per instruction: a hash of what it does with many operands, in every rounding mode. The expected
/// lines come from QEMU.
#[test]
fn every_instruction_gives_exact_results() {
    let (exit, output) = run(&program("isa"));
    assert_eq!(exit, Exit::Status(0));
    for (ours, theirs) in output.lines().zip(expected("isa").lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(output, expected("isa"));
}

#[test]
fn each_instruction_follows_from_the_one_before() {
    for name in PROGRAMS {
        let mut simulator = Simulator::load(&program(name), quiet().0).unwrap();
        let mut next = None;
        let mut count = 0u64;
        simulator.run(&mut |item| {
            if let Execution::Instruction(retired) = item {
                assert!(next.is_none_or(|next| next == retired.address), "{name}");
                assert!(retired.taken || retired.next == retired.end(), "{name}");
                next = Some(retired.next);
                count += 1;
            }
        });
        assert_eq!(count, simulator.retired(), "{name}");
    }
}

#[test]
fn every_run_is_the_same() {
    let file = program("calls");
    assert_eq!(support::items(&file), support::items(&file));
}

#[test]
fn a_run_in_pieces_is_the_same_run() {
    let file = program("calls");
    let (exit, whole) = support::items(&file);
    assert!((exit, whole) == support::items_in_pieces(&file, 12_347));
}

#[test]
fn accesses_follow_their_instruction_and_hold_what_memory_holds() {
    let mut simulator = Simulator::load(&program("pack"), quiet().0).unwrap();
    let mut memory = std::collections::HashMap::new();
    let (mut loads, mut stores) = (0, 0);
    simulator.run_with_accesses(&mut |item| {
        let Execution::Access(access) = item else {
            return;
        };
        for n in 0..u64::from(access.size) {
            let byte = (access.value >> (8 * n)) as u8;
            let address = access.address.0 + n;
            if access.store {
                memory.insert(address, byte);
            } else {
                assert_eq!(*memory.entry(address).or_insert(byte), byte, "{access:?}");
            }
        }
        *(if access.store { &mut stores } else { &mut loads }) += 1;
    });
    assert!(loads > 100_000 && stores > 10_000, "{loads} loads, {stores} stores");
}

#[test]
fn a_replay_from_load_values_is_the_same_run() {
    for name in PROGRAMS {
        let file = program(name);
        let mut simulator = Simulator::load(&file, quiet().0).unwrap();
        let first = simulator.hart().clone();
        let (mut values, mut recorded) = (Vec::new(), Vec::new());
        simulator.record(&mut |value| values.push(value), &mut |item| recorded.push(item));
        assert!(simulator.is_replayable(), "{name}");

        let elf = Elf::parse(&file).unwrap();
        let mut replay = Replay::new(&elf, first, values.into_iter(), simulator.retired());
        let mut replayed = Vec::new();
        let exit = replay.run(&mut |item| replayed.push(item));
        // The last instruction is the system call that ends the program: nothing came back from it.
        assert_eq!(exit, Exit::EndOfRecording, "{name}");
        assert!(recorded == replayed, "{name}");
    }
}

#[test]
fn a_replay_with_too_few_values_ends_early() {
    let file = program("sort");
    let mut simulator = Simulator::load(&file, quiet().0).unwrap();
    let first = simulator.hart().clone();
    let mut values = Vec::new();
    simulator.record(&mut |value| values.push(value), &mut |_| {});
    values.truncate(1000);
    let elf = Elf::parse(&file).unwrap();
    let mut replay = Replay::new(&elf, first, values.into_iter(), simulator.retired());
    assert_eq!(replay.run(&mut |_| {}), Exit::EndOfRecording);
    assert!(replay.hart().retired < simulator.retired());
}

#[test]
fn a_recording_that_cannot_be_replayed_is_known_as_such() {
    for name in ["threads", "signals", "jit"] {
        let mut simulator = Simulator::load(&program(name), quiet().0).unwrap();
        assert_eq!(simulator.record(&mut |_| {}, &mut |_| {}), Exit::Status(0));
        assert!(!simulator.is_replayable(), "{name}");
    }
}

#[test]
fn an_interrupt_from_outside_stops_the_run() {
    let (options, _) = quiet();
    let interrupt = options.interrupt.clone();
    let mut simulator = Simulator::load(&program("sort"), options).unwrap();
    let mut count = 0;
    let exit = simulator.run(&mut |_| {
        count += 1;
        interrupt.store(count >= 1000, Ordering::Relaxed);
    });
    assert_eq!(exit, Exit::Interrupted);
    // It is looked at when a slice of 10,000 instructions has ended.
    assert!(simulator.retired() < 10_200, "{}", simulator.retired());
    interrupt.store(false, Ordering::Relaxed);
    assert_eq!(simulator.run(&mut |_| interrupt.store(false, Ordering::Relaxed)), Exit::Status(0));
}

#[test]
fn arguments_reach_the_program() {
    let (options, output) = quiet();
    let options = Options { arguments: vec!["sort".into(), "3".into()], ..options };
    let exit = Simulator::load(&program("sort"), options).unwrap().run(&mut |_| {});
    assert_eq!(exit, Exit::Status(0));
    assert_eq!(output.text().lines().count(), 4);
}
