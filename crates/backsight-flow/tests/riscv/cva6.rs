//! The rules of the thesis's dialect, one by one.

use backsight_core::{Cause, Located};
use backsight_flow::Event;
use backsight_flow::etrace::{Fault, Faults, Follower, Settings};
use backsight_riscv::etrace::{BranchMap, Packet, Reported, Start, TrapPacket};
use backsight_testing::Random;

use crate::program::Program;
use crate::reference::addresses;

const CODE: [u32; 8] = [
    0x0000_0013, // 1000: nop
    0xFE00_0EE3, // 1004: beq to 1000
    0x0100_00EF, // 1008: call 1018
    0x0000_0013, // 100c: nop
    0x0005_0067, // 1010: jump through a register
    0x0000_0013, // 1014: nop
    0x0000_0013, // 1018: nop
    0x0000_8067, // 101c: return
];

fn program() -> Program {
    Program(vec![(0x1000, CODE.iter().flat_map(|opcode| opcode.to_le_bytes()).collect())])
}

fn follow(packets: &[Packet]) -> (Vec<Event>, Faults) {
    let program = program();
    let mut follower =
        Follower::new(Settings::new(backsight_riscv::cva6::params(), Default::default()), &program);
    let mut events = Vec::new();
    let mut sink = |event: Located<Event>| events.push(event.value);
    for (n, &value) in packets.iter().enumerate() {
        follower.push(Located { offset: n as u64, length: 1, value }, &mut sink);
    }
    follower.finish(&mut sink);
    (events, *follower.faults())
}

/// Addresses of the instructions, and how often some before one of them are unknown.
fn path(packets: &[Packet]) -> (Vec<u64>, usize) {
    let (events, faults) = follow(packets);
    assert_eq!(faults.total(), 0, "{faults:?}");
    let unknown = events.iter().filter(|event| matches!(event, Event::PathUnknown { .. })).count();
    (addresses(&program(), &events), unknown)
}

fn start(address: u64) -> Packet {
    Packet::Start(Start { branch: true, privilege: 3, address, ..Start::default() })
}

fn address(distance: i64, updiscon: bool) -> Reported {
    Reported { address: distance as u64, updiscon, ..Reported::default() }
}

fn branches(count: u8, bits: u32, distance: i64, updiscon: bool) -> Packet {
    Packet::Branches { map: BranchMap { count, bits }, address: Some(address(distance, updiscon)) }
}

#[test]
fn the_outcome_of_a_branch_that_a_start_names_comes_with_the_next_map() {
    let packets = [start(0x1004), branches(2, 0b10, 0xC, true)];
    let expected = [0x1004, 0x1000, 0x1004, 0x1008, 0x1018, 0x101C, 0x100C, 0x1010];
    assert_eq!(path(&packets), (expected.to_vec(), 0));
}

#[test]
fn a_resync_that_repeats_an_address_moves_nothing() {
    let once = [start(0x1004), branches(2, 0, 0, false), branches(1, 1, 0xC, true)];
    let again = [once[0], once[1], start(0x1004), start(0x1004), once[2], start(0x1010)];
    assert_eq!(path(&once), path(&again));
}

#[test]
fn a_resync_may_stand_in_for_the_packet_behind_a_return() {
    let expected = [0x1008, 0x1018, 0x101C, 0x100C, 0x1010];
    assert_eq!(path(&[start(0x1008), start(0x1010)]), (expected.to_vec(), 0));
}

#[test]
fn instructions_behind_a_jump_through_a_register_are_unknown() {
    let packets = [start(0x1010), Packet::address(address(0xC, true))];
    assert_eq!(path(&packets), (vec![0x1010, 0x101C], 1));
}

#[test]
fn a_return_that_its_call_does_not_explain_is_a_jump() {
    let packets = [start(0x1008), branches(1, 1, -4, true)];
    assert_eq!(path(&packets), (vec![0x1008, 0x1018, 0x101C, 0x1004], 1));
}

#[test]
fn the_number_of_branches_that_is_not_told_is_found() {
    for count in 16..31 {
        let (pcs, unknown) =
            path(&[start(0x1004), branches(BranchMap::UNCOUNTED, 1 << (count - 1), 0xC, true)]);
        let turns = pcs.iter().filter(|&&pc| pc == 0x1004).count();
        assert_eq!((turns, unknown, pcs.last()), (count, 0, Some(&0x1010)));
    }
}

#[test]
fn a_number_of_branches_that_nothing_settles_is_the_least_and_said_to_be_unknown() {
    let (pcs, unknown) = path(&[start(0x1004), branches(BranchMap::UNCOUNTED, 0, 0, false)]);
    let turns = pcs.iter().filter(|&&pc| pc == 0x1004).count();
    assert_eq!((turns, unknown), (16, 1));
}

#[test]
fn a_trap_is_told_and_the_first_instructions_of_its_handler_are_unknown() {
    let trap =
        TrapPacket { ecause: 5, thaddr: true, privilege: 3, address: Some(0x1010), ..TrapPacket::default() };
    let packets = [start(0x1008), Packet::Trap(trap)];
    assert_eq!(path(&packets), (vec![0x1008, 0x1010], 1));
    let exception = |event: &Event| matches!(event, Event::Exception { cause: Cause::Riscv(5), .. });
    assert!(follow(&packets).0.iter().any(exception));
}

#[test]
fn what_does_not_fit_is_named_and_the_next_start_is_a_new_beginning() {
    let cases = [
        (branches(1, 0, 0xC, true), Fault::OutcomeMissing),
        (branches(7, 1, 0xC, true), Fault::OutcomesLeftOver),
        (Packet::address(address(0x100, true)), Fault::NoCode),
        (Packet::Branches { map: BranchMap::new(31, 1), address: None }, Fault::UnexpectedDiscontinuity),
    ];
    for (packet, fault) in cases {
        let (events, faults) = follow(&[start(0x1004), packet, start(0x1010)]);
        assert_eq!((faults.of(fault), faults.total()), (1, 1), "{packet:?}: {faults:?}");
        assert_eq!(addresses(&program(), &events).last(), Some(&0x1010));
    }
}

#[test]
fn no_sequence_of_packets_is_too_strange() {
    let mut random = Random(7);
    for _ in 0..200 {
        let packet = |random: &mut Random| {
            let at = 0x1000 + 4 * random.below(9);
            let distance = 4 * random.below(15) as i64 - 28;
            match random.below(6) {
                0 => start(at),
                1 => {
                    let (thaddr, interrupt) = (random.below(2) == 0, random.below(2) == 0);
                    let address = (random.below(4) > 0).then_some(at);
                    Packet::Trap(TrapPacket { thaddr, interrupt, address, ..TrapPacket::default() })
                }
                2 => Packet::address(address(distance, random.below(2) == 0)),
                3 => Packet::Branches { map: BranchMap::new(31, random.next() as u32), address: None },
                4 => branches(
                    BranchMap::UNCOUNTED,
                    random.below(1 << 20) as u32,
                    distance,
                    random.below(2) == 0,
                ),
                _ => {
                    let map = BranchMap::new(1 + random.below(5) as u8, random.next() as u32);
                    branches(map.count, map.bits, distance, random.below(2) == 0)
                }
            }
        };
        let packets: Vec<_> = (0..20).map(|_| packet(&mut random)).collect();
        let (events, _) = follow(&packets);
        // Every range is code, told to its end.
        let _ = addresses(&program(), &events);
        assert!(matches!(events.last(), Some(Event::EndOfTrace { .. })));
    }
}
