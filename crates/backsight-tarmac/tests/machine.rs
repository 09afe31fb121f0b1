//! Registers and memory out of the lines of logs.

use std::collections::BTreeMap;

use backsight_tarmac::{Bank, Class, Config, Decoder, Line, Machine, Register};
use backsight_testing::{corpus, repository};

fn machine_at(text: &str, offset: u64) -> Machine {
    let (mut decoder, mut machine) = (Decoder::new(&Config::default()), Machine::new(1 << 20));
    decoder.feed(text.as_bytes(), &mut |packet| {
        if packet.offset < offset {
            machine.push(&packet);
        }
    });
    machine
}

fn machine(text: &str) -> Machine {
    machine_at(text, u64::MAX)
}

fn value(machine: &Machine, core: u16, register: Register) -> Option<u64> {
    let bytes = &machine.register(core, register)?.bytes;
    bytes.iter().take(8).rev().try_fold(0, |sum, byte| Some(sum << 8 | u64::from((*byte)?)))
}

fn x(number: u8) -> Register {
    Register::new(Class::X, number)
}

#[test]
fn a_write_of_w_clears_the_upper_half_of_x() {
    let text = "1 clk IT (1) 1000 d2800073 O EL1h_n : MOV\n1 clk R X3 1111111111111111\n1 clk R W3 00000002\n1 clk R W4 00000003\n";
    let machine = machine(text);
    assert_eq!((value(&machine, 0, x(3)), value(&machine, 0, x(4))), (Some(2), Some(3)));
    assert_eq!(value(&machine, 0, x(5)), None);
    assert_eq!(machine.register(0, x(3)).map(|contents| contents.writer.instruction), Some(Some(0x1000)));
}

#[test]
fn floating_point_registers_lie_in_each_other_by_the_instruction_set() {
    let d = |state: &str| {
        let line = format!("1 clk IT (1) 1000 e1a00000 {state} EL1h_n : NOP\n");
        machine(&format!("{line}1 clk R q0 {}\n1 clk R d1 0000000000000005\n", "11".repeat(16)))
    };
    let bytes = |machine: &Machine, number| {
        machine.register(0, Register::new(Class::V, number)).map(|contents| contents.bytes.clone())
    };
    let narrow = d("A");
    assert_eq!(bytes(&narrow, 0).unwrap()[7..10], [Some(0x11), Some(5), Some(0)]);
    let wide = d("O");
    assert_eq!(bytes(&wide, 1).unwrap()[..9], [[Some(5)].as_slice(), &[Some(0); 8]].concat());
    assert_eq!(bytes(&wide, 0).unwrap(), [Some(0x11); 16]);
}

#[test]
fn stack_pointers_of_modes_are_apart_and_one_without_a_mode_may_be_any() {
    let r13 = |bank: &str| Register { class: Class::R, number: 13, bank: Bank::new(bank.as_bytes()) };
    let it = "1 clk IT (1) 1000 e1a00000 A svc : NOP\n";
    let both = machine(&format!("{it}1 clk R r13_svc 00000010\n1 clk R r13_irq 00000020\n"));
    assert_eq!(
        (value_of_four(&both, r13("svc")), value_of_four(&both, r13("irq"))),
        (Some(0x10), Some(0x20))
    );
    let one = machine(&format!("{it}1 clk R r13_svc 00000010\n1 clk R r13 00000030\n"));
    assert_eq!((value_of_four(&one, r13("svc")), value_of_four(&one, r13(""))), (None, Some(0x30)));
}

fn value_of_four(machine: &Machine, register: Register) -> Option<u64> {
    let bytes = &machine.register(0, register)?.bytes;
    bytes.iter().take(4).rev().try_fold(0, |sum, byte| Some(sum << 8 | u64::from((*byte)?)))
}

#[test]
fn memory_is_what_was_written_or_seen_and_reads_are_believed() {
    let text = "1 clk IT (1) 1000 d2800073 O EL1h_n : STR\n1 clk MW4 2000 12345678\n2 clk IT (2) 1004 d2800073 O EL1h_n : LDR\n2 clk MR2 2001 ff56\n2 clk MR4 3000 (ABORTED)\n2 clk MW2 2002 xx34\n";
    let machine = machine(text);
    let byte = |address| machine.byte(address).map(|(byte, _)| byte);
    assert_eq!([0x2000, 0x2001, 0x2002, 0x2003].map(byte), [Some(0x78), Some(0x56), Some(0x34), None]);
    assert_eq!((byte(0x3000), machine.contradictions()), (None, 1));
    assert_eq!(machine.byte(0x2000).unwrap().1.unwrap().instruction, Some(0x1004));
}

#[test]
fn what_the_host_may_have_changed_is_not_known() {
    let before = "1 clk IT (1) 1000 d2800073 O EL1h_n : MOV\n1 clk R X0 0000000000000006\n1 clk R X1 0000000000002000\n1 clk MW8 2000 00000000_00000001\n1 clk MW8 2008 00000000_00003000\n1 clk MW8 2010 00000000_00000002\n1 clk MW4 3000 11223344\n";
    let machine = machine(&format!("{before}2 clk IT (2) 1004 d45e0000 O EL1h_n : HLT\n"));
    let known = [0x2FFF, 0x3000, 0x3001, 0x3002].map(|address| machine.byte(address).is_some());
    assert_eq!(known, [false, false, false, true]);
    assert_eq!((value(&machine, 0, x(0)), value(&machine, 0, x(1))), (None, Some(0x2000)));
}

#[test]
fn memory_that_is_kept_is_bounded() {
    let text: String = (0..10_000).map(|n| format!("1 clk MW1 {:x} 00\n", n * 4096)).collect();
    assert!(machine_with(&text, 4096).is_full());
}

fn machine_with(text: &str, most: u64) -> Machine {
    let (mut decoder, mut machine) = (Decoder::new(&Config::default()), Machine::new(most));
    decoder.feed(text.as_bytes(), &mut |packet| machine.push(&packet));
    machine
}

/// A pass of its own over the text: X registers and bytes of memory of a Fast Models log of A64.
fn plain_pass(text: &str, end: usize) -> (BTreeMap<u8, u64>, BTreeMap<u64, u8>) {
    let (mut registers, mut memory) = (BTreeMap::new(), BTreeMap::new());
    for line in text[..end].lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |text: &str| u64::from_str_radix(&text.replace('_', ""), 16).unwrap();
        match words[2..] {
            ["R", name, value, ..] if name.starts_with('X') => {
                registers.insert(name[1..].parse().unwrap(), hex(value));
            }
            [kind, address, value] if kind.starts_with("MR") || kind.starts_with("MW") => {
                let (address, size) = (hex(address.split(':').next().unwrap()), kind[2..].parse().unwrap());
                for index in 0..size {
                    memory.insert(address + index, (hex(value) >> (8 * index)) as u8);
                }
            }
            _ => {}
        }
    }
    (registers, memory)
}

/// Compares every `step`th moment with the plain pass.
fn compare(text: &str, step: usize) -> usize {
    let mut starts = Vec::new();
    let mut calls = Vec::new();
    Decoder::new(&Config::default()).feed(text.as_bytes(), &mut |packet| {
        if let Line::Instruction(it) = packet.value.line {
            starts.push(packet.offset);
            calls.extend((it.opcode == 0xD45E_0000).then_some(packet.offset));
        }
    });
    let mut compared = 0;
    for start in starts.iter().step_by(step) {
        let machine = machine_at(text, *start);
        let (registers, memory) = plain_pass(text, *start as usize);
        let host = calls.iter().any(|call| call < start);
        for (number, expected) in registers {
            let found = value(&machine, 0, x(number));
            assert!(
                found == Some(expected) || number == 0 && host && found.is_none(),
                "x{number} at {start}"
            );
        }
        for (address, expected) in memory {
            let found = machine.byte(address).map(|(byte, _)| byte);
            assert!(found == Some(expected) || host && found.is_none(), "{address:#x} at {start}");
            compared += usize::from(found.is_some());
        }
        assert_eq!(machine.contradictions(), 0);
    }
    compared
}

#[test]
fn registers_and_memory_are_those_of_a_plain_pass() {
    let text = std::fs::read_to_string(repository().join("testdata/tarmac/calls.tarmac")).unwrap();
    assert!(compare(&text, 1) > 100);
}

#[test]
fn registers_and_memory_of_other_logs_are_those_of_a_plain_pass() {
    let Some(folder) = corpus().map(|corpus| corpus.join("tarmac")) else { return };
    for (name, step) in
        [("quicksort", 100), ("calculator-aarch64-fastmodel", 100), ("calltests/calltest64", 5)]
    {
        let text = std::fs::read_to_string(folder.join(format!("{name}.tarmac"))).unwrap();
        assert!(compare(&text, step) > 0, "{name}");
    }
}

#[test]
fn after_a_line_that_makes_no_sense_nothing_that_is_wrong_is_known() {
    let text = std::fs::read_to_string(repository().join("testdata/tarmac/calls.tarmac")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_data = |line: &&str| [" R ", " MW", " MR"].iter().any(|kind| line.contains(kind));
    let mut compared = 0;
    for damaged in (0..lines.len()).filter(|&number| is_data(&lines[number])) {
        // The last word is its value, or what stands for one.
        let (rest, _) = lines[damaged].rsplit_once(' ').unwrap();
        let bad = format!("{rest} zz");
        for end in [lines.len(), (damaged + 9).min(lines.len())] {
            let whole = machine(&(lines[..end].join("\n") + "\n"));
            let mut mutated = lines[..end].to_vec();
            mutated[damaged] = &bad;
            let known = machine(&(mutated.join("\n") + "\n"));
            for number in 0..31 {
                let found = value(&known, 0, x(number));
                assert!(found.is_none() || found == value(&whole, 0, x(number)), "x{number} after {bad}");
            }
            for address in 0xFF00..0x1_0000 {
                let byte = |machine: &Machine| machine.byte(address).map(|(byte, _)| byte);
                assert!(byte(&known).is_none() || byte(&known) == byte(&whole), "{address:#x} after {bad}");
                compared += u32::from(byte(&known).is_some());
            }
        }
    }
    assert!(compared > 100, "{compared}");
}
