//! Everything that may go wrong for a follower: named, reported, and over at the next synchronisation.

use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{Event, NoSync, Symptom, TraceOn};
use backsight_riscv::etrace::{
    BadPacket, BranchMap, CountEnd, Options, Packet, Params, QualStatus, Reported, Start, Support, TrapPacket,
};

use crate::program::Program;

fn program() -> Program {
    let bytes = [
        &0x0002_8463u32.to_le_bytes()[..], // 1000  beq 1008
        &0x8302u16.to_le_bytes(),          // 1004  jr t1
        &0x0001u16.to_le_bytes(),          // 1006  nop
        &0x0001u16.to_le_bytes(),          // 1008  nop
        &0xFE02_8BE3u32.to_le_bytes(),     // 100a  beq 1000
        &0x0000_006Fu32.to_le_bytes(),     // 100e  j 100e
        &0x0000u16.to_le_bytes(),          // 1012  c.unimp
        &0x8302u16.to_le_bytes(),          // 1014  jr t1
    ];
    Program(vec![(0x1000, bytes.concat())])
}

const OPTIONS: Options = Options {
    implicit_return: false,
    implicit_exception: true,
    full_address: true,
    jump_target_cache: true,
    branch_prediction: false,
    sijump: false,
    resync_disabled: false,
};

fn start(address: u64) -> Packet {
    Packet::Start(Start { branch: true, address: address >> 1, ..Start::default() })
}

fn reported(address: u64) -> Reported {
    Reported { address: address >> 1, ..Reported::default() }
}

/// Packets that lead to the fault, the last of which shows it.
fn packets(fault: Fault) -> Vec<Packet> {
    let address = |address| Packet::address(reported(address));
    let full = BranchMap::new(BranchMap::FULL, 0);
    match fault {
        // A payload that is no packet comes after these.
        Fault::BadPacket | Fault::BadData => vec![start(0x1006)],
        Fault::TraceLost => {
            let lost = Support { qual_status: QualStatus::TraceLost, options: OPTIONS, ..Support::default() };
            vec![start(0x1006), Packet::Support(lost)]
        }
        Fault::Unsynchronised => vec![address(0x1006)],
        Fault::NoCode => vec![start(0x1006), address(0x5000)],
        Fault::UnexpectedDiscontinuity => {
            vec![start(0x1000), Packet::Branches { map: full, address: None }]
        }
        Fault::OutcomeMissing => vec![start(0x1006), address(0x1004)],
        Fault::OutcomesLeftOver => {
            vec![start(0x1004), Packet::Branches { map: full, address: Some(reported(0x1006)) }]
        }
        Fault::CacheEntryInvalid => {
            vec![start(0x1004), Packet::JumpTarget { index: 1, map: BranchMap::EMPTY, irreport: None }]
        }
        Fault::PathTooLong => vec![start(0x100E), address(0x1004)],
        Fault::CountTooLarge => {
            let end = CountEnd::Address(reported(0x1006));
            vec![start(0x1006), Packet::BranchCount { count: 1_431_743_824, end }]
        }
        Fault::WrongImage => vec![start(0x1012), address(0x1006)],
        Fault::HandlerUnknown => {
            vec![start(0x1006), Packet::Trap(TrapPacket { thaddr: true, ..TrapPacket::default() })]
        }
    }
}

/// The events that name the fault.
fn complaint(fault: Fault) -> Vec<Event> {
    let mismatch = |symptom, address| Event::Mismatch { symptom, address: Address(address) };
    let wrong_image = Event::NoSync(NoSync::WrongImage);
    match fault {
        Fault::BadPacket | Fault::BadData | Fault::CountTooLarge => {
            vec![Event::NoSync(NoSync::BadPacket)]
        }
        Fault::TraceLost => vec![Event::NoSync(NoSync::Overflow)],
        Fault::Unsynchronised => vec![],
        Fault::NoCode => {
            vec![Event::NoMemory { address: Address(0x5000), space: AddressSpace::ANY }, wrong_image]
        }
        Fault::UnexpectedDiscontinuity => vec![mismatch(Symptom::TargetMissing, 0x1004), wrong_image],
        Fault::OutcomeMissing => vec![mismatch(Symptom::AddressDiffers, 0x100A), wrong_image],
        Fault::OutcomesLeftOver => vec![mismatch(Symptom::AddressDiffers, 0x1006), wrong_image],
        Fault::CacheEntryInvalid => vec![mismatch(Symptom::TargetMissing, 0x1004), wrong_image],
        Fault::PathTooLong => vec![mismatch(Symptom::EndlessRange, 0x100E), wrong_image],
        Fault::WrongImage => vec![mismatch(Symptom::UndefinedInstruction, 0x1012), wrong_image],
        Fault::HandlerUnknown => vec![mismatch(Symptom::TargetMissing, 0x1006), wrong_image],
    }
}

#[test]
fn every_fault_is_named_and_the_next_start_is_a_new_beginning() {
    let params = Params { cache_size: 2, ..Params::default() };
    let program = program();
    // Bad data leaves the position alone.
    for fault in Fault::ALL.into_iter().filter(|&fault| fault != Fault::BadData) {
        for fast_walk in [false, true] {
            let strict_image = fault == Fault::WrongImage;
            let settings = Settings { fast_walk, strict_image, ..Settings::new(params, OPTIONS) };
            let (mut follower, mut events) = (Follower::new(settings, &program), Vec::new());
            let mut sink = |event: Located<Event>| events.push(event.value);
            for value in packets(fault) {
                follower.push(Located { offset: 0, length: 1, value }, &mut sink);
            }
            if fault == Fault::BadPacket {
                let bad: Result<Packet, _> = Err(BadPacket::Empty);
                follower.push(Located { offset: 0, length: 1, value: bad }, &mut sink);
            }
            let counted: Vec<Fault> =
                Fault::ALL.into_iter().filter(|&fault| follower.faults().of(fault) > 0).collect();
            assert_eq!(counted, [fault]);
            let again = Located { offset: 1, length: 1, value: start(0x1006) };
            follower.push(again, &mut sink);
            let complaint = complaint(fault);
            let found = events.windows(complaint.len() + 1).any(|seen| {
                let (seen, next) = seen.split_at(complaint.len());
                seen == complaint && matches!(next, [Event::TraceOn(_)])
            });
            assert!(found, "{fault:?}: {events:x?}");
            let lost = fault == Fault::TraceLost;
            let begin = if lost { TraceOn::Overflow } else { TraceOn::Begin };
            let last = events.iter().rev().find(|event| matches!(event, Event::TraceOn(_)));
            assert_eq!(last, Some(&Event::TraceOn(begin)), "{fault:?}");
        }
    }
}

#[test]
fn an_undefined_instruction_is_reported_and_passed_unless_the_image_is_to_be_strict() {
    let program = program();
    let settings = Settings::new(Params { cache_size: 2, ..Params::default() }, OPTIONS);
    let (mut follower, mut lines) = (Follower::new(settings, &program), Vec::new());
    let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
    for value in packets(Fault::WrongImage) {
        follower.push(Located { offset: 0, length: 1, value }, &mut sink);
    }
    follower.finish(&mut sink);
    let expected = [
        "image does not fit at 0x1012: an undefined instruction was executed",
        "0x1012-0x1014 1 instructions RV32",
        "0x1014-0x1016 1 instructions RV32 indirect branch",
        "0x1006-0x1008 1 instructions RV32",
        "end of trace",
    ];
    assert_eq!(lines[3..], expected);
}

#[test]
fn outcomes_before_an_address_without_code_are_followed() {
    let program = program();
    let options = Options { jump_target_cache: false, ..OPTIONS };
    let map = BranchMap::new(BranchMap::FULL, 0);
    let taken_back_and_forth = Packet::Branches { map, address: Some(reported(0x5000)) };
    let of = |fast_walk| {
        let settings = Settings { fast_walk, ..Settings::new(Params::default(), options) };
        let mut follower = Follower::new(settings, &program);
        let mut events = Vec::new();
        // What was walked once is looked up the next time.
        for offset in 0..4 {
            for packet in [start(0x1008), taken_back_and_forth] {
                follower.push(Located { offset, length: 1, value: packet }, &mut |event| events.push(event));
            }
        }
        (events, *follower.statistics())
    };
    let (events, statistics) = of(false);
    let absent = Event::NoMemory { address: Address(0x5000), space: AddressSpace::ANY };
    assert_eq!(events.iter().filter(|event| event.value == absent).count(), 4);
    // Two instructions and one, in turn; the last branch is not gone away from.
    assert!(statistics.instructions >= 4 * 44, "{statistics:?}");
    assert_eq!((events, statistics), of(true));
}
