//! What a recording with loads and stores says beside a trace: the registers and the memory of the same moments, or nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::recording::{emulated, history, items, record, record_with, recorded, simulated};
use crate::support::session::Scratch;
use crate::support::{Random, moments, replay};
use backsight::Capture;
use backsight::moments::Moments;
use backsight_core::{Budget, Door, Execution};
use backsight_debug::replay::{
    At, Direction, Recorded, Register, Replay, State as _, Stopped, Stops, ThreadId, Touch, Watchpoint,
};
use backsight_run::TRUTH;

const LIMIT: u64 = 60_000;

/// Records a bundled program.
fn captured(scratch: &Scratch, name: &str, unit: &str) -> Capture {
    let folder = scratch.0.join("capture");
    record(&mut simulated(name, LIMIT), unit, &folder);
    Capture::open(folder).expect("a capture")
}

/// A walk with what the recording beside it knows.
fn knowing<'c>(capture: &'c Capture, moments: &Moments<'c>, folder: &Path) -> Replay<'c> {
    let replay = replay(capture, moments);
    let recorded = recorded(&replay, folder).expect("the recording is of this run");
    assert_eq!(recorded.warnings(), Vec::<String>::new());
    replay.with_state(Box::new(recorded))
}

/// The number of the source that a thread is.
fn source_of(replay: &Replay<'_>, thread: u32) -> usize {
    let name = format!("unit_{thread}");
    replay.sources().position(|source| source.name() == name).expect("each thread is a source")
}

#[test]
fn loads_bring_what_is_in_memory_and_every_register_is_known() {
    for (name, unit) in
        [("calls", "etrace"), ("calls", "ntrace"), ("threads", "etrace"), ("signals", "ntrace")]
    {
        let scratch = Scratch::new(&format!("loads-{name}-{unit}"));
        let capture = captured(&scratch, name, unit);
        let moments = moments(&capture);
        let mut replay = knowing(&capture, &moments, &scratch.0.join("capture"));
        let (mut thread, mut counts, mut loads) = (0, BTreeMap::<u32, u64>::new(), Vec::new());
        for item in items(name, LIMIT) {
            match item {
                Execution::Thread(other) => thread = other,
                Execution::Instruction(retired) => {
                    *counts.entry(thread).or_default() += 1;
                    loads.push((thread, counts[&thread] - 1, retired.address, None));
                }
                Execution::Access(access) if !access.store => {
                    loads.last_mut().expect("an instruction").3 = Some(access);
                }
                _ => {}
            }
        }
        loads.retain(|load| load.3.is_some());
        let (mut random, sources) = (Random(3), counts.len());
        for _ in 0..300 {
            let (thread, instruction, address, access) = loads[random.below(loads.len() as u64) as usize];
            let access = access.expect("a load");
            let at = At { source: source_of(&replay, thread), hart: 0, instruction };
            let what = replay.what(at).expect("code").expect("an instruction");
            assert_eq!(what.address, address, "{name} {unit} {at:?}");
            let bytes = replay.memory(at, access.address.0, access.size.into()).expect("code");
            let value = access.value.to_le_bytes()[..access.size.into()].to_vec();
            assert_eq!(bytes, value.into_iter().map(Some).collect::<Vec<_>>(), "{name} {unit} {at:?}");
            for register in (0..64).chain(4097..4100).map(Register) {
                assert!(replay.register(at, register).is_some(), "{name} {unit} {at:?} {register:?}");
            }
        }
        assert_eq!(sources, if name == "threads" { 4 } else { 1 });
    }
}

#[test]
fn threads_are_where_they_were_at_the_same_time_without_any_timestamp() {
    let scratch = Scratch::new("interleaved");
    let capture = captured(&scratch, "threads", "etrace");
    let moments = moments(&capture);
    let mut replay = knowing(&capture, &moments, &scratch.0.join("capture"));
    let mut truth = history(&replay, &scratch.0.join("capture").join(TRUTH)).expect("a recording");
    let threads: Vec<u32> = truth.threads().keys().copied().collect();
    let mut random = Random(5);
    for _ in 0..40 {
        let thread = threads[random.below(4) as usize];
        let instruction = random.below(truth.threads()[&thread]);
        let number = truth.number_of(thread, instruction).expect("it is there");
        let source = source_of(&replay, thread);
        replay.go_to_place(At { source, hart: 0, instruction }).expect("code");
        for &other in &threads {
            let source = source_of(&replay, other);
            let id = replay.threads().iter().position(|one| one.source == source).expect("it was met");
            let place = replay.place(ThreadId(id)).expect("code").expect("it is somewhere");
            let expected = truth.instructions_of(other, number).min(replay.instructions(source) - 1);
            assert_eq!(place.instruction, expected, "thread {other} at {instruction} of {thread}");
        }
    }
}

/// Where a walk stops, until it comes to an end.
fn stops(replay: &mut Replay<'_>, direction: Direction, stops: &Stops) -> Vec<(u64, Stopped)> {
    let (mut all, thread) = (Vec::new(), replay.current());
    loop {
        let stopped = replay.run(thread, direction, stops).expect("code");
        if let Stopped::End | Stopped::Beginning = stopped {
            return all;
        }
        let at = replay.place(thread).expect("code").expect("it is there");
        all.push((at.instruction, stopped));
    }
}

#[test]
fn a_walk_stops_at_every_access_forwards_and_backwards() {
    let scratch = Scratch::new("accesses");
    let capture = captured(&scratch, "calls", "etrace");
    let moments = moments(&capture);
    let mut replay = knowing(&capture, &moments, &scratch.0.join("capture"));
    let (mut count, mut accesses) = (0, Vec::new());
    for item in items("calls", LIMIT) {
        match item {
            Execution::Instruction(_) => count += 1,
            Execution::Access(access) => accesses.push((count - 1, access)),
            _ => {}
        }
    }
    // A slot of the stack that is used often, and the second half of it.
    let wanted = accesses[accesses.len() / 2].1.address.0;
    for (address, length) in [(wanted, 8), (wanted + 4, 2)] {
        for touch in [Touch::Write, Touch::Read, Touch::Any] {
            let is_meant = |store: bool| match touch {
                Touch::Write => store,
                Touch::Read => !store,
                Touch::Any => true,
            };
            let mut expected: Vec<u64> = accesses
                .iter()
                .filter(|(_, access)| {
                    let start = access.address.0;
                    is_meant(access.store)
                        && start < address + length
                        && address < start + u64::from(access.size)
                })
                .map(|(number, _)| *number)
                .collect();
            expected.dedup();
            assert!(expected.len() > 5, "{touch:?}: {expected:?}");
            let watchpoint = Watchpoint { address, length, touch };
            let wanted = Stops { watchpoints: [watchpoint].into(), ..Stops::default() };
            let at_each = |shift: u64| {
                let stop = |number: &u64| (number + shift, Stopped::Touched(watchpoint));
                let last = replay_end(&capture);
                expected.iter().map(stop).filter(|stop| stop.0 <= last).collect::<Vec<_>>()
            };
            replay.go_to_place(At { source: 0, hart: 0, instruction: 0 }).expect("code");
            assert_eq!(stops(&mut replay, Direction::Forwards, &wanted), at_each(1), "{touch:?}");
            let mut backwards = stops(&mut replay, Direction::Backwards, &wanted);
            backwards.reverse();
            // What the last instruction of the trace did is not undone.
            let undone: Vec<_> =
                at_each(0).into_iter().filter(|stop| stop.0 < replay_end(&capture)).collect();
            assert_eq!(backwards, undone, "{touch:?}");
        }
    }
}

#[test]
fn a_run_to_the_caller_stops_where_watched_memory_is_touched() {
    let scratch = Scratch::new("watched-returns");
    let capture = captured(&scratch, "calls", "etrace");
    let moments = moments(&capture);
    let mut replay = knowing(&capture, &moments, &scratch.0.join("capture"));
    let mut accesses = Vec::new();
    for item in items("calls", LIMIT) {
        if let Execution::Access(access) = item {
            accesses.push(access.address.0);
        }
    }
    let address = accesses[accesses.len() / 2];
    let watchpoint = Watchpoint { address, length: 8, touch: Touch::Any };
    let watched = Stops { watchpoints: [watchpoint].into(), ..Stops::default() };
    let (thread, last, mut touches, mut returns) = (replay.current(), replay_end(&capture), 0, 0);
    for part in 1..40 {
        let from = At { source: 0, hart: 0, instruction: last * part / 40 };
        let depth = replay.depth(from).expect("code").saturating_sub(1 + part as u32 % 3);
        for direction in [Direction::Forwards, Direction::Backwards] {
            let mut going = |go: &mut dyn FnMut(&mut Replay<'_>) -> Stopped| {
                replay.go_to_place(from).expect("code");
                let stopped = go(&mut replay);
                (replay.place(thread).expect("code").expect("it is there").instruction, stopped)
            };
            let touched = going(&mut |replay| replay.run(thread, direction, &watched).expect("code"));
            let plain = Stops::default();
            let mut to_caller =
                |stops| going(&mut |replay| replay.return_to(thread, direction, depth, stops).expect("code"));
            let (returned, both) = (to_caller(&plain), to_caller(&watched));
            let is_touched = touched.1 == Stopped::Touched(watchpoint)
                && match direction {
                    Direction::Forwards => touched.0 <= returned.0,
                    Direction::Backwards => touched.0 >= returned.0,
                };
            assert_eq!(both, if is_touched { touched } else { returned }, "{from:?}, {direction:?}");
            touches += u32::from(is_touched);
            returns += u32::from(!is_touched);
        }
    }
    assert!(touches > 3 && returns > 3, "{touches}, {returns}");
}

/// The last instruction of the only source.
fn replay_end(capture: &Capture) -> u64 {
    let moments = moments(capture);
    replay(capture, &moments).instructions(0) - 1
}

#[test]
fn a_recording_of_another_run_or_without_data_is_refused() {
    let scratch = Scratch::new("refused");
    let capture = captured(&scratch, "calls", "etrace");
    let moments = moments(&capture);
    let other = scratch.0.join("other");
    record(&mut simulated("sort", LIMIT), "etrace", &other);
    let replay = replay(&capture, &moments);
    let refusal = |folder: &Path| match recorded(&replay, folder) {
        Ok(_) => panic!("{} is believed", folder.display()),
        Err(error) => error.to_string(),
    };
    assert!(refusal(&other).contains("not of this run"), "{}", refusal(&other));
    let bare = scratch.0.join("bare");
    let file = fs::read(crate::support::recording::program("calls")).expect("a bundled program");
    let options = backsight_sim::Options {
        arguments: vec!["calls".to_owned()],
        streams: backsight_sim::Streams::none(),
        instructions: LIMIT,
        ..backsight_sim::Options::default()
    };
    let path = crate::support::recording::program("calls");
    let mut program = backsight_run::SimulatedProgram::load(&path, &file, options).expect("a program");
    record(&mut program, "etrace", &bare);
    assert!(refusal(&bare).contains("no loads and stores"), "{}", refusal(&bare));
}

#[test]
fn damage_of_the_trace_or_of_the_recording_leaves_what_is_before_it() {
    let scratch = Scratch::new("damage");
    drop(captured(&scratch, "calls", "etrace"));
    let folder = scratch.0.join("capture");
    let (trace, truth) = (folder.join("trace.bin"), folder.join(TRUTH));
    let (whole_trace, whole_truth) = (fs::read(&trace).expect("trace"), fs::read(&truth).expect("truth"));
    let open = || Capture::open(&folder).expect("a capture");
    let reference = open();
    let reference_moments = moments(&reference);
    let mut reference = knowing(&reference, &reference_moments, &folder);
    let mut random = Random(9);
    let mut gaps = 0;
    for _ in 0..12 {
        let mut bytes = whole_trace.clone();
        let at = bytes.len() / 4 + random.below(bytes.len() as u64 / 2) as usize;
        bytes[at..at + 20].fill(0x5A);
        fs::write(&trace, bytes).expect("trace");
        let capture = open();
        let moments = moments(&capture);
        let replay = replay(&capture, &moments);
        let recorded = recorded(&replay, &folder).expect("it is of this run up to there");
        gaps += recorded.warnings().len();
        let mut replay = replay.with_state(Box::new(recorded));
        let end = replay.instructions(0);
        for _ in 0..50 {
            let at = At { source: 0, hart: 0, instruction: random.below(end) };
            let what = replay.what(at).expect("code");
            if replay.register(at, Register(2)).is_none() {
                assert!(replay.state().next_access_after(at, 0..u64::MAX, Touch::Any).is_none());
                continue;
            }
            assert_eq!(what, reference.what(at).expect("code"));
            for register in (0..64).map(Register) {
                assert_eq!(replay.register(at, register), reference.register(at, register), "{at:?}");
            }
        }
    }
    assert!(gaps >= 10, "{gaps}");
    fs::write(&trace, &whole_trace).expect("trace");
    let capture = open();
    let moments = moments(&capture);
    for _ in 0..12 {
        let mut bytes = whole_truth.clone();
        let at = 12 + random.below(bytes.len() as u64 - 12) as usize;
        bytes[at] ^= 1 << random.below(8);
        fs::write(&truth, &bytes).expect("truth");
        let replay = replay(&capture, &moments);
        // One whose end is beyond the file looks cut off.
        match history(&replay, &truth) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(history) => assert!(history.truncated().is_some(), "byte {at}"),
        }
    }
    for length in [whole_truth.len() / 3, whole_truth.len() / 2, whole_truth.len() - 1] {
        fs::write(&truth, &whole_truth[..length]).expect("truth");
        let replay = replay(&capture, &moments);
        let recorded = recorded(&replay, &folder).expect("it is of this run up to there");
        let words = recorded.words(0);
        assert!(words.contains("cut off") && words.contains("the recording ends there"), "{words}");
        let mut replay = replay.with_state(Box::new(recorded));
        let known = |replay: &mut Replay<'_>, instruction: u64| {
            replay.register(At { source: 0, hart: 0, instruction }, Register(2))
        };
        let end = replay.instructions(0);
        assert!(known(&mut replay, 0).is_some() && known(&mut replay, end - 1).is_none(), "{length}");
    }
}

#[test]
fn data_trace_says_of_memory_what_a_recording_says() {
    let Some(mut program) = emulated("arm/calls") else { return };
    let scratch = Scratch::new("data-trace");
    let folder = scratch.0.join("capture");
    record_with(&mut program, "etm3", &[("data", "both")], &folder);
    let capture = Capture::open(&folder).expect("a capture");
    let moments = moments(&capture);
    let replay = replay(&capture, &moments);
    let budget = || Budget::of(Door::History, None, 0);
    let mut traced =
        Recorded::from_data_trace(&replay, &budget()).expect("room").expect("the unit traces data");
    let mut recorded = recorded(&replay, &folder).expect("it is of this run");
    assert!(traced.words(0).contains("data trace") && traced.knows_accesses());
    let (mut random, end, mut known) = (Random(21), replay.instructions(0), 0);
    for _ in 0..300 {
        let at = At { source: 0, hart: 0, instruction: random.below(end) };
        let all = 0..u64::MAX;
        let access = traced.next_access_after(at, all.clone(), Touch::Any);
        assert_eq!(access, recorded.next_access_after(at, all.clone(), Touch::Any), "{at:?}");
        assert_eq!(
            traced.last_access_before(at, all.clone(), Touch::Any),
            recorded.last_access_before(at, all, Touch::Any),
            "{at:?}"
        );
        let Some(access) = access else { continue };
        let at = At { instruction: access.instruction, ..at };
        let look = |state: &mut Recorded| {
            let (mut bytes, mut known) = ([0; 32], [false; 32]);
            state.memory(at, access.address & !15, &mut bytes, &mut known);
            bytes.into_iter().zip(known).collect::<Vec<_>>()
        };
        for ((ours, is_ours), (theirs, is_theirs)) in look(&mut traced).into_iter().zip(look(&mut recorded)) {
            assert!(!is_ours || is_theirs && ours == theirs, "{at:?} {access:x?}");
            known += u32::from(is_ours);
        }
        assert_eq!(traced.register(at, Register(0)), None);
    }
    assert!(known > 1000, "{known}");
    let none = Recorded::from_data_trace(&replay, &Budget::new(1000));
    assert!(none.is_err_and(|error| error.to_string().contains("--budget")));
    let plain = crate::support::bundled("calls-aarch64");
    let plain_moments = crate::support::moments(&plain);
    let plain = crate::support::replay(&plain, &plain_moments);
    assert!(Recorded::from_data_trace(&plain, &budget()).expect("room").is_none());
}
