//! Executions that are cut anywhere: the counters of parts, joined, come to what one counter counts.

use backsight::core::{Address, Cause, Context, Isa, Security};
use backsight::decode::Consumer;
use backsight::flow::{Event, NoSync, Range};
use backsight::isa::{Class, Flags};
use backsight::{Capture, Source};
use backsight_profile::{CountOptions, Counter, Profile};
use backsight_testing::Random;

/// A capture whose program has the functions that the tests speak of, its source, and where these functions are.
struct Script {
    capture: Capture,
    source: Source,
    functions: Vec<Address>,
}

/// How a range ends.
#[derive(Clone, Copy)]
enum End {
    Plain,
    Call,
    Return,
    Jump,
    Indirect,
    ExceptionReturn,
}

/// Four instructions. Any address of a program serves, whatever code is there; but what is in a range is always the same.
fn range(start: Address, end: End) -> Event {
    let (bytes, class, flags) = match end {
        End::Plain => (8, Class::Other, Flags::NONE),
        End::Call => (16, Class::DirectBranch, Flags { link: true, ..Flags::NONE }),
        End::Return => (10, Class::IndirectBranch, Flags { returns: true, ..Flags::NONE }),
        End::Jump => (12, Class::DirectBranch, Flags::NONE),
        End::Indirect => (14, Class::IndirectBranch, Flags::NONE),
        End::ExceptionReturn => (18, Class::IndirectBranch, Flags { exception_return: true, ..Flags::NONE }),
    };
    let (instructions, last_size, executed, isa) = (4, 2, true, Isa::A64);
    Event::Range(Range {
        start,
        end: start.plus(bytes),
        instructions,
        isa,
        class,
        flags,
        last_size,
        executed,
    })
}

impl Script {
    fn new() -> Self {
        let capture = Capture::open("../../testdata/captures/calls-riscv64").expect("bundled");
        let source = capture.buffers().iter().flat_map(|buffer| buffer.sources()).next().expect("a source");
        let source = source.clone();
        let code = capture.code().expect("code");
        let start = |name| code.image().functions().find(|one| one.name == name).expect(name).start;
        let functions = ["program", "hanoi", "put", "grow"].map(start).to_vec();
        Self { source, functions, capture }
    }

    fn counter(&self, options: &CountOptions) -> Counter<'_> {
        Counter::new(&self.source, self.capture.code().expect("code").seen_by(&self.source), options)
    }

    fn whole(&self, options: &CountOptions, events: &[Event]) -> Profile {
        let mut counter = self.counter(options);
        events.iter().for_each(|event| counter.push(0, event));
        counter.finish()
    }

    /// The same of parts of up to so many events, each of which begins with what the one before says.
    fn joined(
        &self,
        options: &CountOptions,
        events: &[Event],
        most: u64,
        random: &mut Random,
    ) -> (Profile, bool) {
        let (mut whole, mut boundary, mut rest): (Option<Counter<'_>>, _, _) = (None, None, events);
        while !rest.is_empty() {
            let (events, others) = rest.split_at((1 + random.below(most) as usize).min(rest.len()));
            let mut part = self.counter(options).of_part();
            part.begin_at(boundary.as_ref());
            events.iter().for_each(|event| part.push(0, event));
            boundary = Consumer::boundary(&mut part);
            rest = others;
            match &mut whole {
                None => whole = Some(part),
                Some(whole) => Counter::join(whole, part),
            }
        }
        let mut whole = whole.expect("a part");
        Counter::join(&mut whole, self.counter(options).of_part());
        let is_exact = whole.is_exact();
        (whole.finish(), is_exact)
    }

    fn check(&self, options: &CountOptions, events: &[Event], most: u64, random: &mut Random, what: &str) {
        let expected = self.whole(options, events);
        let (given, is_exact) = self.joined(options, events, most, random);
        assert!(is_exact, "{what}: not exact");
        assert_eq!(given.totals, expected.totals, "{what}");
        let [expected, given] = [expected, given].map(|profile| format!("{profile:?}"));
        let at = expected.bytes().zip(given.bytes()).position(|(one, other)| one != other);
        let from = at.unwrap_or(0).saturating_sub(200);
        let near = |text: &str| text.get(from..(from + 300).min(text.len())).map(str::to_owned);
        assert!(expected == given, "{what}, at {at:?}:\n{:?}\n{:?}", near(&expected), near(&given));
    }

    fn random_event(&self, threads: u64, random: &mut Random) -> Event {
        let mut address = || self.functions[random.below(4) as usize].plus(8 * random.below(3));
        let (start, return_address) = (address(), Some(address()));
        match random.below(80) {
            0 => Event::NoSync(NoSync::Overflow),
            1 => Event::ExceptionReturn,
            2 => Event::Timestamp { value: random.below(1000), cycles: None },
            3 => Event::Exception {
                cause: Cause::Arm(1),
                return_address: return_address.filter(|_| random.below(4) > 0),
                is_branch_target: false,
                fault_pending: false,
                value: 0,
            },
            4 => Event::CycleCount(Some(random.below(100) as u32)),
            5 if threads > 0 => {
                let context_id = Some(random.below(threads));
                Event::Context(Context { context_id, ..Context::arm(1, Security::NonSecure, true) }, Isa::A64)
            }
            _ => {
                use End::{Call, ExceptionReturn, Indirect, Jump, Plain, Return};
                let ends = [Plain, Plain, Plain, Jump, Call, Call, Return, Indirect, ExceptionReturn];
                range(start, ends[random.below(9) as usize])
            }
        }
    }
}

/// Nothing more than counts, and calls over time.
fn choices() -> [CountOptions; 2] {
    [CountOptions::default(), CountOptions { timeline: 1 << 20, ..CountOptions::default() }]
}

#[test]
fn parts_of_random_executions_come_to_the_whole() {
    let (script, mut random) = (Script::new(), Random(51));
    for round in 0..6 {
        let events: Vec<_> = (0..2000).map(|_| script.random_event(round % 3, &mut random)).collect();
        for (options, most) in choices().iter().flat_map(|options| [1, 7, 300].map(|most| (options, most))) {
            script.check(options, &events, most, &mut random, &format!("round {round}, {most}"));
        }
    }
}

/// Calls and returns that belong together, some by way of another function that never comes back, with gaps now and then.
#[test]
fn parts_of_orderly_executions_come_to_the_whole() {
    let (script, mut random) = (Script::new(), Random(52));
    for round in 0..4 {
        let (mut at, mut callers, mut events) = (script.functions[0], Vec::new(), Vec::new());
        while events.len() < 3000 {
            let call = script.functions[random.below(4) as usize];
            let (end, next) = match random.below(100) {
                0..4 => (End::Jump, call),
                4 => (End::Indirect, call),
                5..40 => (End::Call, call),
                40..75 if !callers.is_empty() => (End::Return, callers.pop().unwrap_or(at)),
                _ => (End::Plain, at.plus(8)),
            };
            if matches!(end, End::Call) {
                callers.push(at.plus(16));
            }
            events.push(range(at, end));
            at = next;
            if random.below(300) == 0 {
                events.push(script.random_event(0, &mut random));
            }
        }
        for (options, most) in choices().iter().flat_map(|options| [1, 20, 500].map(|most| (options, most))) {
            script.check(options, &events, most, &mut random, &format!("round {round}, {most}"));
        }
    }
}

/// More calls are under way than are kept, and parts have many of their own: the oldest are forgotten, and what returns to
/// those comes to functions that nobody is known to have called.
#[test]
fn parts_of_calls_deeper_than_are_kept_come_to_the_whole() {
    let (script, mut random) = (Script::new(), Random(53));
    let [hanoi, put] = [script.functions[1], script.functions[2]];
    let calls = |count| std::iter::repeat_n(range(hanoi, End::Call), count);
    let returns = |count| std::iter::repeat_n(range(hanoi.plus(16), End::Return), count);
    let tail_calls = || {
        [
            range(hanoi.plus(16), End::Jump),
            range(put, End::Jump),
            range(hanoi, End::Jump),
            range(hanoi, End::Plain),
        ]
    };
    let events: Vec<_> = calls(70_000)
        .chain(returns(40_000))
        .chain(tail_calls())
        .chain(calls(80_000))
        .chain(returns(20_000))
        .chain([Event::NoSync(NoSync::Overflow)])
        .chain(tail_calls())
        .chain(returns(1_000))
        .chain(tail_calls())
        .chain(returns(100_000))
        .collect();
    for (options, most) in
        choices().iter().flat_map(|options| [9_000, 60_000, 400_000].map(|most| (options, most)))
    {
        script.check(options, &events, most, &mut random, &format!("{most}"));
    }
}

/// A part that begins anywhere has not seen what was before it, and soon knows all that decides how it goes on.
#[test]
fn exceptions_of_long_ago_do_not_tell_parts_apart() {
    let (script, options) = (Script::new(), CountOptions::default());
    let [program, hanoi] = [script.functions[0], script.functions[1]];
    let exception = Event::Exception {
        cause: Cause::Arm(1),
        return_address: Some(program.plus(8)),
        is_branch_target: false,
        fault_pending: false,
        value: 0,
    };
    let events = [
        range(program, End::Plain),
        exception,
        range(hanoi, End::ExceptionReturn),
        range(program.plus(8), End::Jump),
        range(program, End::Plain),
    ];
    let boundary = |events: &[Event]| {
        let mut part = script.counter(&options).of_part();
        events.iter().for_each(|event| part.push(0, event));
        Consumer::boundary(&mut part)
    };
    assert!(boundary(&events).is_some_and(|known| Some(known) == boundary(&events[3..])));
    assert!(boundary(&events[..2]) != boundary(&events[..1]), "it decides what comes next");
}
