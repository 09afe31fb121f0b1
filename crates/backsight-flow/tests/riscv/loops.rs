//! Loops: those that a few bytes stand for, and those that the trace says nothing about.

use backsight_core::{AddressSpace, Located};
use backsight_flow::etrace::{Follower, Settings};
use backsight_flow::{Buffer, Event};
use backsight_riscv::etrace::{BranchMap, CountEnd, Options, Packet, Params, Reported, Start, TrapPacket};

use crate::program::Program;

const PREDICTING: Options = Options {
    implicit_return: false,
    implicit_exception: false,
    full_address: true,
    jump_target_cache: false,
    branch_prediction: true,
    sijump: false,
    resync_disabled: false,
};

/// `1000: nop; 1002: beq 1000; 1006: j 1006; 100a: nop`
fn program() -> Program {
    let bytes = [
        &0x0001u16.to_le_bytes()[..],
        &0xFE02_8FE3u32.to_le_bytes(),
        &0x0000_006Fu32.to_le_bytes(),
        &0x0001u16.to_le_bytes(),
    ];
    Program(vec![(0x1000, bytes.concat())])
}

fn settings() -> Settings {
    let params = Params { bpred_size: 4, ..Params::default() };
    Settings::new(params, PREDICTING)
}

fn start(address: u64) -> Packet {
    Packet::Start(Start { branch: true, address: address >> 1, ..Start::default() })
}

fn place<T>(value: T) -> Located<T> {
    Located { offset: 0, length: 1, value }
}

fn lines(packets: &[Packet]) -> Vec<String> {
    let program = program();
    let (mut follower, mut lines) = (Follower::new(settings(), &program), Vec::new());
    let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
    packets.iter().for_each(|&packet| follower.push(place(packet), &mut sink));
    follower.finish(&mut sink);
    lines
}

#[test]
fn a_packet_that_stands_for_millions_of_turns_fills_no_memory() {
    let program = program();
    let (mut follower, mut buffer) = (Follower::new(settings(), &program), Buffer::new(1000));
    // Two mispredictions teach the predictor; then three million turns are predicted.
    let turns = 3_000_000;
    let learn = Packet::Branches { map: BranchMap::new(31, 0), address: None };
    let count = Packet::BranchCount { count: turns - 31, end: CountEnd::Mispredicted };
    let (mut ranges, mut most) = (0u64, 0);
    let mut drain = |buffer: &mut Buffer| {
        most = most.max(buffer.events().len());
        ranges += buffer.drain().filter(|event| matches!(event.value, Event::Range(_))).count() as u64;
    };
    for packet in [start(0x1000), learn, count] {
        follower.push(place(packet), &mut buffer);
        while follower.is_paused() {
            drain(&mut buffer);
            follower.resume(&mut buffer);
        }
    }
    follower.finish(&mut buffer);
    drain(&mut buffer);
    assert_eq!((ranges, follower.statistics().ranges), (u64::from(turns) + 32, u64::from(turns) + 32));
    assert!(most < 1010, "{most} events at a time");
    assert_eq!(follower.faults().total(), 0);
}

#[test]
fn an_endless_loop_that_a_trap_ends_is_reported_as_one() {
    let named = Packet::address(Reported { address: 0x1006 >> 1, ..Reported::default() });
    let trap = Packet::Trap(TrapPacket {
        branch: true,
        ecause: 7,
        interrupt: true,
        thaddr: true,
        address: Some(0x100A >> 1),
        ..TrapPacket::default()
    });
    let expected = [
        "0x1006-0x100a 1 instructions RV32 branch",
        "loop without branches at 0x1006: how often it ran is not in the trace",
        "interrupt 0x7 (machine timer interrupt), returns to 0x1006",
        "0x100a-0x100c 1 instructions RV32",
        "end of trace",
    ];
    assert_eq!(lines(&[start(0x1006), trap])[3..], expected);
    assert_eq!(lines(&[start(0x1006), named, trap])[3..].first().map(String::as_str), Some(expected[0]));
    // A synchronisation inside it says that it goes on.
    let resync = lines(&[start(0x1006), start(0x1006)]);
    assert_eq!(resync[3..5], expected[..2]);
}

#[test]
fn an_endless_loop_of_several_instructions_is_reported_by_both_ways_to_walk() {
    // 1000: nop; 1002: j 1000
    let bytes = [&0x0001u16.to_le_bytes()[..], &0xFFFF_F06Fu32.to_le_bytes()].concat();
    let program = Program(vec![(0x1000, bytes)]);
    for fast_walk in [false, true] {
        let settings = Settings { fast_walk, ..settings() };
        let (mut follower, mut lines) = (Follower::new(settings, &program), Vec::new());
        for packet in [start(0x1000), start(0x1000)] {
            follower.push(place(packet), &mut |event: Located<Event>| lines.push(event.value.to_string()));
        }
        let expected = [
            "0x1000-0x1006 2 instructions RV32 branch",
            "loop without branches at 0x1000: how often it ran is not in the trace",
        ];
        assert_eq!(lines[3..], expected, "fast: {fast_walk}");
    }
}

#[test]
fn code_that_changes_is_read_again_but_for_where_execution_stands() {
    let mut follower = Follower::new(settings(), program());
    let mut lines = Vec::new();
    let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
    let turn = Packet::Branches { map: BranchMap::new(1, 0), address: None };
    for packet in [start(0x1000), turn, turn, turn] {
        follower.push(place(packet), &mut sink);
    }
    // The loop gets a second instruction before its branch, which execution stands at.
    let longer =
        [&0x0001u16.to_le_bytes()[..], &0x0001u16.to_le_bytes(), &0xFE02_8EE3u32.to_le_bytes()].concat();
    *follower.change_code(AddressSpace::ANY, 0x1000..0x1008) = Program(vec![(0x1000, longer)]);
    for packet in [turn, turn] {
        follower.push(place(packet), &mut sink);
    }
    let old = "0x1000-0x1006 2 instructions RV32 branch";
    let new = "0x1000-0x1008 3 instructions RV32 branch";
    assert_eq!(lines[3..], [old, old, old, new]);
}

#[test]
fn a_sync_packet_that_no_path_leads_to_begins_anew() {
    // From 1006 execution comes nowhere else.
    let listed = lines(&[start(0x1006), start(0x100A)]);
    let begun = listed.iter().filter(|line| line.contains("trace on")).count();
    assert_eq!(begun, 2, "{listed:#?}");
    assert!(listed.iter().any(|line| line.contains("0x100a")), "{listed:#?}");
}
