//! What cannot be run is refused with a reason; what crashes says where.

use crate::support::{assembled, items, program, quiet, run};
use backsight_core::Execution;
use backsight_sim::{Cause, ElfError, Exit, Options, Simulator, Streams};
use proptest::prelude::*;

fn refused(file: &[u8]) -> ElfError {
    match Simulator::load(file, quiet().0) {
        Ok(_) => panic!("was loaded"),
        Err(error) => error,
    }
}

fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = program("sort");
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn files_that_are_not_programs_for_this_machine_are_refused() {
    assert_eq!(refused(b""), ElfError::NotElf);
    assert_eq!(refused(b"#!/bin/sh\n"), ElfError::NotElf);
    assert_eq!(refused(&changed(4, &[1])), ElfError::Not64Bit);
    assert_eq!(refused(&changed(5, &[2])), ElfError::NotLittleEndian);
    assert_eq!(refused(&changed(16, &[1, 0])), ElfError::NotExecutable(1));
    let arm = backsight_testing::repository().join("testdata/programs/aarch64/sort");
    let error = refused(&std::fs::read(arm).unwrap());
    assert_eq!(error, ElfError::WrongMachine(183));
    assert_eq!(error.to_string(), "a program for machine 183 (AArch64); expected 243 (RISC-V)");
}

#[test]
fn a_dynamic_program_is_refused_with_advice() {
    // The type of the first program header becomes "interpreter".
    let error = refused(&changed(64, &[3, 0, 0, 0]));
    assert_eq!(error, ElfError::Dynamic);
    assert!(error.to_string().contains("-static"));
}

#[test]
fn damage_in_the_headers_is_named() {
    let file = program("sort");
    assert_eq!(refused(&file[..40]), ElfError::Truncated(54));
    assert!(matches!(refused(&file[..100]), ElfError::Truncated(_)));
    assert!(matches!(refused(&file[..0x1100]), ElfError::Truncated(_)));
    // A size in memory smaller than in the file; an entry point outside.
    let mut bad = assembled(&[0x13]);
    bad[64 + 40..64 + 48].copy_from_slice(&1u64.to_le_bytes());
    assert_eq!(refused(&bad), ElfError::BadSegment(0));
    let mut bad = assembled(&[0x13]);
    bad[24..32].copy_from_slice(&4u64.to_le_bytes());
    assert_eq!(refused(&bad), ElfError::BadEntry(4));
    let mut huge = assembled(&[0x13]);
    huge[64 + 40..64 + 48].copy_from_slice(&(1u64 << 36).to_le_bytes());
    assert_eq!(refused(&huge), ElfError::TooLarge);
}

#[test]
fn a_crash_says_where_and_ends_as_linux_would() {
    // ld a0, 0(x0)
    let (exit, items) = items(&assembled(&[0x13, 0x0000_3503]));
    let Exit::Fault(fault) = exit else { panic!("{exit:?}") };
    assert_eq!((fault.cause, fault.pc, fault.value), (Cause::LoadPageFault, 0x1_007C, 0));
    assert_eq!(exit.status(), Some(139));
    assert_eq!(exit.to_string(), "bad memory access: pc 0x1007c reads 0x0");
    let Some(Execution::Trap(trap)) = items.last() else { panic!("{items:?}") };
    assert_eq!((trap.cause, trap.return_address.0), (13, 0x1_007C));
    assert_eq!(items.iter().filter(|item| matches!(item, Execution::Instruction(_))).count(), 1);
}

#[test]
fn illegal_instructions_and_breakpoints_are_faults() {
    for (opcode, status) in [(0xFFFF_FFFF, 132), (0x0000_0000, 132), (0x3000_2573, 132), (0x0010_0073, 133)] {
        let (exit, _) = run(&assembled(&[opcode]));
        assert_eq!(exit.status(), Some(status), "{opcode:#x}: {exit}");
    }
    // jr x0
    let (exit, _) = run(&assembled(&[0x0000_0067]));
    assert_eq!(exit.to_string(), "no code at pc 0x0");
    // amoadd.w a0, a1, (a2) with a2 = 2
    let (exit, _) = run(&assembled(&[0x0020_0613, 0x00B6_252F]));
    assert_eq!(exit.status(), Some(135));
}

#[test]
fn an_unknown_system_call_fails_and_is_counted() {
    // li a7, 999; ecall; ecall; neg a0, a0; li a7, 93; ecall
    let code = [0x3E70_0893, 0x73, 0x73, 0x40A0_0533, 0x05D0_0893, 0x73];
    let mut simulator = Simulator::load(&assembled(&code), quiet().0).unwrap();
    assert_eq!(simulator.run(&mut |_| {}), Exit::Status(38));
    assert_eq!(simulator.unknown_system_calls().iter().collect::<Vec<_>>(), [(&999, &2)]);
}

#[test]
fn a_signal_to_itself_ends_the_program() {
    // li a0, 1000; li a1, 15; li a7, 129 (kill); ecall
    let (exit, _) = run(&assembled(&[0x3E80_0513, 0x00F0_0593, 0x0810_0893, 0x73]));
    assert_eq!((exit, exit.status()), (Exit::Signal(15), Some(143)));
}

#[test]
fn a_full_disk_is_the_programs_to_notice() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        backsight_testing::skipped("no /dev/full");
        return;
    };
    // write(1, pc, 8), exit(-result): 28 is ENOSPC
    let code = [0x0010_0513, 0x0000_0597, 0x0080_0613, 0x0400_0893, 0x73, 0x40A0_0533, 0x05D0_0893, 0x73];
    let streams = Streams { output: Box::new(full), ..Streams::none() };
    let options = Options { streams, ..quiet().0 };
    assert_eq!(Simulator::load(&assembled(&code), options).unwrap().run(&mut |_| {}), Exit::Status(28));
}

#[test]
fn code_that_changes_itself_is_seen_after_a_fence() {
    // auipc a1, 0; lw a2, 28(a1); sw a2, 16(a1); fence.i; li a0, 1 (replaced); li a7, 93; ecall; li a0, 2
    let code = [
        0x0000_0597,
        0x01C5_A603,
        0x00C5_A823,
        0x0000_100F,
        0x0010_0513,
        0x05D0_0893,
        0x0000_0073,
        0x0020_0513,
    ];
    assert_eq!(run(&assembled(&code)).0, Exit::Status(2));
}

#[test]
fn memory_use_is_bounded() {
    // Down the stack for ever:
    // addi sp, sp, -2048; sd sp, 0(sp); j .-8
    let code = [0x8001_0113, 0x0021_3023, 0xFF9F_F06F];
    let options = Options { memory: 1 << 20, ..quiet().0 };
    let exit = Simulator::load(&assembled(&code), options).unwrap().run(&mut |_| {});
    let Exit::Fault(fault) = exit else { panic!("{exit:?}") };
    assert_eq!(fault.cause, Cause::OutOfMemory);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_code_never_panics(opcodes in proptest::collection::vec(any::<u32>(), 1..64), seed: u64) {
        // Half of them made likely to be instructions.
        let mut random = backsight_testing::Random(seed);
        const MAJOR: [u32; 16] =
            [0x03, 0x07, 0x0F, 0x13, 0x17, 0x1B, 0x23, 0x27, 0x2F, 0x33, 0x37, 0x3B, 0x43, 0x53, 0x63, 0x73];
        let code: Vec<u32> = opcodes
            .into_iter()
            .map(|opcode| if opcode & 1 == 0 { opcode & !0x7F | MAJOR[random.below(16) as usize] } else { opcode })
            .collect();
        let options = Options { memory: 1 << 22, instructions: 2000, ..quiet().0 };
        let mut simulator = Simulator::load(&assembled(&code), options).unwrap();
        simulator.run_with_accesses(&mut |_| {});
        prop_assert!(simulator.retired() <= 2000);
    }

    #[test]
    fn damaged_programs_never_panic(at in 0usize..400, byte: u8) {
        let file = changed(at, &[byte]);
        let options = Options { memory: 1 << 24, instructions: 100_000, ..quiet().0 };
        if let Ok(mut simulator) = Simulator::load(&file, options) {
            simulator.run(&mut |_| {});
        }
    }
}
