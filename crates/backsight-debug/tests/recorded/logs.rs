//! Registers and memory of a Tarmac log, in a walk.

use std::sync::Arc;

use backsight::moments::{Moment, Window};
use backsight::states::Making;
use backsight::{Capture, Event};
use backsight_debug::replay::{Access, At, Logged, Register, State, Touch};
use backsight_testing::{Random, repository};

use crate::support::{moments, replay};

/// What a log says, with an index of small parts.
fn walk(check: impl FnOnce(&Capture, &mut Logged<'_>)) {
    let path = repository().join("testdata/tarmac/calls.tarmac");
    let capture = Capture::open(path).expect("a bundled log");
    let moments = moments(&capture);
    let replay = replay(&capture, &moments);
    let (source, buffer) = capture.log().expect("it is a log");
    let index = Making { threads: 1, part: 500 }.in_memory(&source, buffer, 1 << 20).expect("an index");
    let mut logged = Logged::new(&replay, Arc::new(index)).expect("a file").expect("it is a log");
    check(&capture, &mut logged);
}

fn at(instruction: u64) -> At {
    At { source: 0, hart: 0, instruction }
}

#[test]
fn registers_of_a_log_are_those_before_each_instruction() {
    walk(|_, logged| {
        let turns = |instruction| match instruction {
            0 => 0,
            1..=9 => 3,
            10..=18 => 2,
            19..=27 => 1,
            _ => 0,
        };
        let forwards = 0..31;
        for instruction in forwards.clone().chain(forwards.rev()) {
            assert_eq!(
                logged.register(at(instruction), Register(19)),
                Some(turns(instruction)),
                "{instruction}"
            );
        }
        // The stack pointer of the mode that the instruction is in.
        assert_eq!(logged.register(at(3), Register(31)), Some(0x1_0000));
        assert_eq!(logged.register(at(4), Register(31)), Some(0xFFF0));
        assert_eq!(logged.register(at(4), Register(40)), None);
        let (mut bytes, mut known) = ([0; 9], [false; 9]);
        logged.memory(at(4), 0xFFEF, &mut bytes, &mut known);
        assert_eq!((bytes[1], bytes[2], known[0], known[8]), (0x0C, 0x10, false, true));
        assert!(logged.knows_accesses() && logged.words(0).contains("as far as the log"));
    });
}

#[test]
fn accesses_of_a_log_are_those_of_its_execution() {
    walk(|capture, logged| {
        let (mut count, mut all) = (0, Vec::new());
        let source = capture.log().expect("a log").0;
        let take = |item: backsight::Item<'_, Event>| match item.value {
            Event::Range(range) => count += u64::from(range.instructions),
            Event::Access(access) => {
                let is_write = access.kind() == backsight::flow::AccessKind::Store;
                let (address, length) = (access.address().expect("a log has it").0, access.size().into());
                all.push(Access { instruction: count - 1, address, length, is_write });
            }
            _ => {}
        };
        let window = Window { from: Some(Moment::Instruction(0)), to: None };
        capture.moments().run(capture.execution(), &source, window, take).expect("a log");
        assert!(all.len() >= 6, "{all:?}");
        let mut random = Random(5);
        for _ in 0..200 {
            let instruction = random.below(count);
            let touch = [Touch::Write, Touch::Read, Touch::Any][random.below(3) as usize];
            let wanted = |one: &&Access| touch == Touch::Any || one.is_write == (touch == Touch::Write);
            let next = all.iter().filter(wanted).find(|one| one.instruction >= instruction).copied();
            let last = all.iter().filter(wanted).rfind(|one| one.instruction < instruction).copied();
            let place = at(instruction);
            assert_eq!(logged.next_access_after(place, 0..u64::MAX, touch), next, "{instruction} {touch:?}");
            assert_eq!(logged.last_access_before(place, 0..u64::MAX, touch), last, "{instruction} {touch:?}");
        }
    });
}
