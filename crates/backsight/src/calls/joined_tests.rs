//! Executions that are cut anywhere: parts that are joined come to what the whole comes to.

use backsight_core::{Context, Isa, Security};
use backsight_flow::{Event, PathId, Range};
use backsight_testing::Random;

use super::functions::Functions;
use super::joined::{Joined, Joining};
use super::records::{Recorder, Records};
use super::shadow::{ShadowStack, Stay, Stays};
use super::tests::{End, Script, capture, random_event, range};

/// Stays, and lines of events.
#[derive(Default)]
struct Lines(Vec<String>);

impl<'i> Stays<'i> for Lines {
    fn take(&mut self, functions: &Functions<'i>, stay: &Stay) {
        self.0.push(format!("{:?}", stay.named(functions).expect("a name that has a number")));
    }
}

impl Joined<'_> for Lines {
    fn lines(&mut self, lines: &[u8]) {
        self.0.push(String::from_utf8_lossy(lines).into_owned());
    }

    fn index(&mut self, _index: u64) {}
}

/// Is a stay interrupted by a line of the event?
fn is_shown(event: &Event) -> bool {
    !matches!(event, Event::Range(_) | Event::CycleCount(_) | Event::Timestamp { .. } | Event::Context(..))
}

fn listed(stack: &ShadowStack<'_>, events: &[Event]) -> Vec<String> {
    let (mut stack, mut lines) = (stack.clone(), Lines::default());
    for event in events {
        stack.take_numbered(event, is_shown(event), &mut lines);
        if is_shown(event) {
            lines.lines(format!("{event:?}").as_bytes());
        }
    }
    stack.end(&mut lines);
    lines.0
}

/// The same of parts of so many events. Some go on with what the decoder of the part before has learnt, and others begin with
/// nothing but its boundary. Ranges may come as paths of one.
fn listed_in_parts(
    stack: &ShadowStack<'_>,
    events: &[Event],
    mut length: impl FnMut() -> usize,
    random: &mut Random,
) -> Vec<String> {
    let (mut joined, mut joining, mut lines) = (stack.clone(), Joining::default(), Lines::default());
    let (mut part, mut recorder) = (stack.clone(), Recorder::default());
    recorder.begin_part();
    part.begin_part(&Default::default());
    let mut known: Vec<Range> = Vec::new();
    let mut rest = events;
    while !rest.is_empty() {
        let (events, others) = rest.split_at(length().clamp(1, rest.len()));
        for event in events {
            match event {
                Event::Range(range) if random.below(2) == 0 => {
                    let number = known.iter().position(|one| one == range).unwrap_or_else(|| {
                        known.push(*range);
                        known.len() - 1
                    });
                    let path = PathId { generation: 1, number: number as u32 };
                    part.walk(path, [*range].into_iter(), &mut recorder);
                }
                _ => part.take_numbered(event, is_shown(event), &mut recorder),
            }
            if is_shown(event) {
                recorder.lines(|lines| lines.extend_from_slice(format!("{event:?}").as_bytes()));
            }
            if random.below(500) == 0 {
                // Names are numbered again when there are many.
                part.end_stretch(&mut recorder);
                recorder.forget_names();
                part.forget_names();
            }
        }
        let boundary = part.end_part(&mut recorder);
        recorder.begin_part();
        if random.below(2) == 0 {
            (part, known) = (stack.clone(), Vec::new());
            part.begin_part(&boundary);
        }
        let bytes = std::mem::take(&mut recorder.bytes);
        joined.begin_joining(&mut joining);
        joined.join(&mut joining, &mut Records::new(&bytes), &mut lines);
        rest = others;
    }
    joined.end(&mut lines);
    lines.0
}

fn check(stack: &ShadowStack<'_>, events: &[Event], most: u64, random: &mut Random, what: &str) {
    let expected = listed(stack, events);
    let mut lengths = Random(random.next());
    let given = listed_in_parts(stack, events, || 1 + lengths.below(most) as usize, random);
    let first = expected.iter().zip(&given).position(|(one, other)| one != other);
    let lines =
        first.map(|first| (&expected[first], &given[first], &expected[first.saturating_sub(3)..first]));
    assert!(expected == given, "{what}: {} and {} lines, {first:?}: {lines:#?}", expected.len(), given.len());
}

/// Threads take turns, cycles are counted.
fn event(script: &Script<'_>, threads: u64, random: &mut Random) -> Event {
    match random.below(80) {
        0 => Event::CycleCount(Some(random.below(100) as u32)),
        1 if threads > 0 => {
            let context_id = Some(random.below(threads));
            Event::Context(Context { context_id, ..Context::arm(1, Security::NonSecure, true) }, Isa::A64)
        }
        _ => random_event(script, random),
    }
}

#[test]
fn parts_of_random_executions_come_to_the_whole() {
    let capture = capture();
    let mut random = Random(31);
    for round in 0..18 {
        let script = Script::new(&capture);
        let (threads, time) = (round % 3, round % 2 == 0);
        let wants = |event: &Event| time || !matches!(event, Event::Timestamp { .. } | Event::CycleCount(_));
        let events = std::iter::repeat_with(|| event(&script, threads, &mut random));
        let events: Vec<_> = events.filter(wants).take(3000).collect();
        for most in [1, 7, 100, 2000] {
            check(&script.stack, &events, most, &mut random, &format!("round {round}, {most}"));
        }
    }
}

/// Calls and returns that belong together, with exceptions and gaps now and then.
#[test]
fn parts_of_orderly_executions_come_to_the_whole() {
    let capture = capture();
    let script = Script::new(&capture);
    let mut random = Random(32);
    for round in 0..10 {
        let (mut at, mut callers, mut events) = (script.address("program", 0), Vec::new(), Vec::new());
        let functions = ["program", "hanoi", "put", "grow"];
        while events.len() < 3000 {
            let call = script.address(functions[random.below(4) as usize], 0);
            let (end, next) = match random.below(100) {
                0 => (End::Jump, call),
                1 => (End::Indirect, call),
                2..40 => (End::Call, call),
                40..80 if !callers.is_empty() => (End::Return, callers.pop().unwrap_or(at)),
                _ => (End::Plain, at.plus(8)),
            };
            let here = range(at, end);
            if matches!(end, End::Call) {
                callers.push(here.end);
            }
            events.push(Event::Range(here));
            at = next;
            if random.below(300) == 0 {
                events.push(random_event(&script, &mut random));
            }
        }
        for most in [1, 20, 500] {
            check(&script.stack, &events, most, &mut random, &format!("round {round}, {most}"));
        }
    }
}

#[test]
fn parts_of_calls_deeper_than_are_kept_come_to_the_whole() {
    let capture = capture();
    let script = Script::new(&capture);
    let (call, back) = (script.address("hanoi", 0), script.address("hanoi", 8));
    let mut random = Random(33);
    let range = |at, end| Event::Range(range(at, end));
    let calls = |count| std::iter::repeat_n(range(call, End::Call), count);
    let returns = |count| std::iter::repeat_n(range(back, End::Return), count);
    let events: Vec<_> = calls(70_000)
        .chain(returns(40_000))
        .chain(calls(80_000))
        .chain(returns(20_000))
        .chain([Event::NoSync(backsight_flow::NoSync::Overflow)])
        .chain(returns(100_000))
        .collect();
    for most in [5_000, 60_000, 400_000] {
        check(&script.stack, &events, most, &mut random, &format!("{most}"));
    }
}
