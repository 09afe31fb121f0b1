//! Walks through captures are held to what the library lists of them, without a debugger.

mod support;

use backsight::calls::{ShadowStack, Visit};
use backsight::moments::Moment;
use backsight::{Capture, Event};
use backsight_debug::replay::{At, Direction, Scheduler, Stopped, Stops};
use support::{Random, bundled, moments, replay};

/// The name or address of the function of each instruction, with the calls around it, as calls are listed from the beginning on.
fn sequential_calls(capture: &Capture) -> Vec<(u64, String, usize)> {
    let mut stack = ShadowStack::new(capture.code().expect("code").seen_by_all());
    let mut all = Vec::new();
    let summary = capture.execution().run(|item| {
        let mut keep =
            |visit: Visit<'_>| all.push((visit.own.instructions, visit.function.to_string(), visit.depth));
        stack.push(&item.value, &mut keep);
        if let Event::Range(_) = item.value {
            stack.flush(&mut keep);
        }
    });
    summary.expect("a decode");
    all
}

#[test]
fn calls_at_random_moments_are_those_of_a_listing_from_the_beginning() {
    for name in ["calls-aarch64", "calls-riscv64", "interwork-arm"] {
        let capture = bundled(name);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        let mut expected = Vec::new();
        for (instructions, function, depth) in sequential_calls(&capture) {
            (0..instructions).for_each(|_| expected.push((function.clone(), depth)));
        }
        assert_eq!(expected.len() as u64, replay.instructions(0), "{name}");
        let mut random = Random(7);
        for _ in 0..1000 {
            let number = random.below(expected.len() as u64);
            let at = At { source: 0, hart: 0, instruction: number };
            let (calls, is_deep) = replay.calls(at).expect("calls");
            let code = replay.code(at).expect("code");
            let innermost = calls.first().expect("a call");
            let address = innermost.function.unwrap_or(innermost.entered);
            let space = replay.what(at).expect("code").expect("an instruction").space;
            let function = code.image().symbolise(space, address).map(|symbol| symbol.name.to_owned());
            let (name_then, depth) = &expected[number as usize];
            let name_then = name_then.split('+').next().expect("a name");
            assert_eq!((function.as_deref(), calls.len() - 1), (Some(name_then), *depth), "{name} #{number}");
            assert!(!is_deep);
        }
    }
}

#[test]
fn a_run_stops_at_every_breakpoint_in_both_directions_and_nowhere_else() {
    for (name, function) in
        [("calls-aarch64", "ackermann"), ("calls-riscv64", "ackermann"), ("interwork-arm", "thumb_step")]
    {
        let capture = bundled(name);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        let image = capture.code().expect("code").image();
        let address = image.functions().find(|one| one.name == function).expect("a function").start.0;
        let all: Vec<u64> = (0..replay.instructions(0))
            .filter(|number| {
                let at = At { source: 0, hart: 0, instruction: *number };
                replay.what(at).expect("code").expect("an instruction").address.0 == address
            })
            .collect();
        assert!(all.len() > 100, "{name}");
        let (thread, mut stops) = (replay.current(), Stops::default());
        let here = replay.place(thread).expect("a place").expect("it is there");
        stops.breakpoints.insert(replay.breakpoint(here, address).expect("a breakpoint"));
        for direction in [Direction::Backwards, Direction::Forwards] {
            let mut met = Vec::new();
            while let Stopped::Breakpoint(at) = replay.run(thread, direction, &stops).expect("a run") {
                assert_eq!(at, address);
                met.push(replay.place(thread).expect("a place").expect("it is there").instruction);
            }
            if direction == Direction::Backwards {
                met.reverse();
            }
            // The last one is where it stood at first, if it did.
            assert_eq!(met, all, "{name} {direction:?}");
        }
    }
}

#[test]
fn sources_of_one_time_axis_go_back_together_and_alone_where_that_is_wanted() {
    let capture = bundled("calls-aarch64");
    let moments = moments(&capture);
    let mut replay = replay(&capture, &moments);
    let thread = replay.current();
    assert!(replay.go_to(thread, Moment::Instruction(1000)).expect("a moment"));
    replay.set_scheduler(Scheduler::Alone);
    assert_eq!(replay.place(thread).expect("a place").map(|at| at.instruction), Some(1000));
    assert!(!replay.go_to(thread, Moment::Instruction(1 << 40)).expect("no such moment"));
    assert_eq!(replay.place(thread).expect("a place").map(|at| at.instruction), Some(1000));
}

#[test]
fn memory_is_code_and_constants_and_nothing_else() {
    let capture = bundled("calls-riscv64");
    let moments = moments(&capture);
    let mut replay = replay(&capture, &moments);
    let at = At { source: 0, hart: 0, instruction: 0 };
    let image = capture.code().expect("code").image();
    let main = image.functions().find(|one| one.name == "program").expect("a function").start.0;
    assert!(replay.memory(at, main, 16).expect("memory").iter().all(Option::is_some));
    for address in [0, 0x7fff_0000, u64::MAX - 3] {
        assert_eq!(replay.memory(at, address, 8).expect("memory"), [None; 8]);
    }
}
