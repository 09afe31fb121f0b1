//! What the stack makes of executions that are hard on it: any address of a program serves, whatever code is there.

use backsight_core::{Address, AddressSpace, Cause, Isa};
use backsight_flow::{Event, NoSync, PathId, Range, TraceOn};
use backsight_isa::{Class, Flags};
use backsight_testing::Random;

use super::functions::Functions;
use super::{CallTree, NameId, ShadowStack, Stay, Visit};
use crate::Capture;

/// How a range ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    Plain,
    Call,
    Return,
    Jump,
    Indirect,
    ExceptionReturn,
}

use End::{Call, ExceptionReturn, Indirect, Jump, Plain, Return};

/// A capture whose program has the functions that the tests speak of.
pub(super) fn capture() -> Capture {
    Capture::open("../../testdata/captures/calls-riscv64").expect("bundled")
}

pub(super) struct Script<'c> {
    functions: Vec<(&'c str, u64)>,
    pub stack: ShadowStack<'c>,
    tree: CallTree,
    lines: Vec<String>,
}

impl<'c> Script<'c> {
    pub fn new(capture: &'c Capture) -> Self {
        let code = capture.code().expect("code");
        let functions = code.image().functions().map(|function| (function.name, function.start.0)).collect();
        let stack = ShadowStack::new(code.seen_by_all());
        Self { functions, stack, tree: CallTree::default(), lines: Vec::new() }
    }

    pub fn address(&self, function: &str, offset: u64) -> Address {
        let found = self.functions.iter().find(|(name, _)| *name == function);
        Address(found.unwrap_or_else(|| panic!("no function {function}")).1 + offset)
    }

    fn event(&mut self, event: Event) {
        let (lines, tree) = (&mut self.lines, &mut self.tree);
        self.stack.push(&event, &mut |visit| {
            let name = visit.function.symbol.map_or("?", |symbol| symbol.name);
            let call = visit.call.map_or(String::new(), |call| format!(" call {}", call.instructions));
            lines.push(format!("{}{name} {}{call}", "  ".repeat(visit.depth), visit.own.instructions));
            tree.add(&visit);
        });
    }

    /// Four instructions of a function, from an offset on.
    fn run(&mut self, function: &str, offset: u64, end: End) {
        self.event(Event::Range(range(self.address(function, offset), end)));
    }

    fn exception(&mut self, function: &str, offset: u64) {
        self.event(Event::Exception {
            cause: Cause::Arm(1),
            return_address: Some(self.address(function, offset)),
            is_branch_target: false,
            fault_pending: false,
            value: 0,
        });
    }

    fn ends_as(mut self, expected: &[&str]) -> CallTree {
        self.event(Event::EndOfTrace { after_overflow: false });
        let lines = &mut self.lines;
        self.stack.finish(&mut |visit| {
            let name = visit.function.symbol.map_or("?", |symbol| symbol.name);
            lines.push(format!("{}{name} {}", "  ".repeat(visit.depth), visit.own.instructions));
        });
        assert_eq!(self.lines, expected);
        self.tree
    }
}

/// Four instructions.
pub(super) fn range(start: Address, end: End) -> Range {
    let (class, flags) = match end {
        Plain => (Class::Other, Flags::NONE),
        Call => (Class::DirectBranch, Flags { link: true, ..Flags::NONE }),
        Return => (Class::IndirectBranch, Flags { returns: true, ..Flags::NONE }),
        Jump => (Class::DirectBranch, Flags::NONE),
        Indirect => (Class::IndirectBranch, Flags::NONE),
        ExceptionReturn => (Class::IndirectBranch, Flags { exception_return: true, ..Flags::NONE }),
    };
    let (end, isa) = (start.plus(8), Isa::A64);
    let (instructions, last_size, executed) = (4, 2, true);
    Range { start, end, instructions, isa, class, flags, last_size, executed }
}

#[test]
fn calls_nest_and_returns_say_what_they_cost() {
    let capture = capture();
    let mut script = Script::new(&capture);
    script.run("program", 0, Call);
    script.run("hanoi", 0, Call);
    script.run("put", 0, Return);
    script.run("hanoi", 8, Return);
    script.run("program", 8, Plain);
    let expected = ["program 4", "  hanoi 4", "    put 4 call 4", "  hanoi 4 call 12", "program 4"];
    let tree = script.ends_as(&expected);
    let nodes: Vec<_> =
        tree.nodes().iter().map(|n| (n.name.clone(), n.depth, n.calls, n.own.instructions)).collect();
    assert_eq!(
        nodes,
        [("program".to_owned(), 0, 1, 4), ("hanoi".to_owned(), 1, 1, 8), ("put".to_owned(), 2, 1, 4)]
    );
    assert_eq!(tree.nodes()[0].total.instructions, 16, "the last stay was not added");
}

#[test]
fn a_tail_call_takes_the_place_of_its_caller_and_returns_for_it() {
    let capture = capture();
    let mut script = Script::new(&capture);
    script.run("program", 0, Call);
    script.run("is_even", 0, Jump);
    script.run("is_odd", 0, Indirect);
    script.run("is_even", 0, Return);
    script.run("program", 8, Plain);
    script.ends_as(&["program 4", "  is_even 4", "  is_odd 4", "  is_even 4 call 12", "program 4"]);
}

#[test]
fn a_long_jump_ends_all_calls_that_it_leaves() {
    let capture = capture();
    for end in [Return, Indirect] {
        let mut script = Script::new(&capture);
        script.run("program", 0, Call);
        script.run("queens", 0, Call);
        script.run("place", 0, Call);
        script.run("place", 0, Call);
        script.run("place", 0, end);
        script.run("queens", 16, Return);
        script.run("program", 8, Plain);
        script.ends_as(&[
            "program 4",
            "  queens 4",
            "    place 4",
            "      place 4",
            "        place 4 call 4",
            "  queens 4 call 20",
            "program 4",
        ]);
    }
}

#[test]
fn gaps_do_not_let_the_depth_drift() {
    let capture = capture();
    let mut script = Script::new(&capture);
    script.run("program", 0, Call);
    // What hanoi calls is not traced, as by a filter; or data is lost in the middle.
    for gap in [Event::TraceOn(TraceOn::Begin), Event::NoSync(NoSync::Overflow)] {
        for _ in 0..3 {
            script.run("hanoi", 0, Call);
            script.event(gap);
        }
    }
    script.run("hanoi", 8, Return);
    script.run("program", 8, Plain);
    for function in ["put", "grow", "put", "grow"] {
        script.event(Event::NoSync(NoSync::Overflow));
        script.run(function, 0, Plain);
    }
    script.ends_as(&["program 4", "  hanoi 28 call 28", "program 4", "put 4", "grow 4", "put 4", "grow 4"]);
}

#[test]
fn a_function_whose_caller_is_not_traced_is_as_deep_each_time() {
    let capture = capture();
    let mut script = Script::new(&capture);
    for _ in 0..3 {
        script.event(Event::TraceOn(TraceOn::Begin));
        script.run("hanoi", 0, Call);
        script.event(Event::TraceOn(TraceOn::Begin));
        script.run("hanoi", 8, Return);
    }
    script.ends_as(&["hanoi 8", "hanoi 8", "hanoi 8"]);
}

#[test]
fn handlers_end_where_what_they_interrupted_goes_on() {
    let capture = capture();
    let mut script = Script::new(&capture);
    script.run("program", 0, Call);
    script.run("hanoi", 0, Plain);
    // A system call: nothing of its handler is traced.
    script.exception("hanoi", 8);
    script.run("hanoi", 8, Plain);
    // An interrupt with a handler, which calls something.
    script.exception("hanoi", 16);
    script.run("put", 0, Call);
    script.run("put_line", 0, Return);
    script.run("put", 8, ExceptionReturn);
    script.run("hanoi", 16, Plain);
    // A signal: the handler returns to code that ends it by a system call.
    script.exception("hanoi", 24);
    script.run("grow", 0, Return);
    script.run("leaf", 0, Plain);
    script.exception("leaf", 8);
    script.run("hanoi", 24, Return);
    script.run("program", 8, Plain);
    script.ends_as(&[
        "program 4",
        "  hanoi 8",
        "    put 4",
        "      put_line 4 call 4",
        "    put 4 call 12",
        "  hanoi 4",
        "    grow 4",
        "    leaf 4 call 8",
        "  hanoi 4 call 36",
        "program 4",
    ]);
}

#[test]
fn an_exception_at_the_first_instruction_of_a_function_is_inside_it() {
    let capture = capture();
    let mut script = Script::new(&capture);
    script.run("program", 0, Call);
    script.exception("hanoi", 0);
    script.run("put", 0, ExceptionReturn);
    script.run("hanoi", 0, Return);
    script.run("program", 8, Plain);
    script.ends_as(&["program 4", "    put 4 call 4", "  hanoi 4 call 8", "program 4"]);
}

#[test]
fn returns_from_calls_that_the_trace_did_not_see_stay_outermost() {
    let capture = capture();
    let mut script = Script::new(&capture);
    script.run("put", 4, Return);
    script.run("hanoi", 4, Return);
    script.run("program", 4, Call);
    script.run("hanoi", 0, Return);
    script.run("program", 12, Plain);
    script.ends_as(&["put 4", "hanoi 4", "program 4", "  hanoi 4 call 4", "program 4"]);
}

#[test]
fn cycles_and_time_are_in_the_cost_where_the_trace_has_them() {
    let capture = capture();
    let mut script = Script::new(&capture);
    let time = |value| Event::Timestamp { value, cycles: None };
    script.event(time(100));
    script.run("program", 0, Call);
    script.event(Event::CycleCount(Some(5)));
    script.run("hanoi", 0, Plain);
    script.event(Event::CycleCount(Some(7)));
    script.event(time(130));
    script.run("hanoi", 8, Return);
    let mut costs = Vec::new();
    let range = Event::EndOfTrace { after_overflow: false };
    script.stack.push(&range, &mut |visit| costs.push((visit.begin, visit.own, visit.call)));
    let cost = super::Cost { instructions: 8, cycles: Some(7), time: Some(30) };
    assert_eq!(costs, [(Some(100), cost, Some(cost))]);
}

#[test]
fn a_stack_deeper_than_is_kept_keeps_its_depth() {
    let capture = capture();
    let script = Script::new(&capture);
    let (call, mut stack) = (Event::Range(range(script.address("hanoi", 0), Call)), script.stack.clone());
    (0..70_000).for_each(|_| stack.push(&call, &mut |_| {}));
    let mut deepest = 0;
    stack.finish(&mut |visit| deepest = deepest.max(visit.depth));
    assert_eq!(deepest, 69_999);
}

#[test]
fn returns_from_exceptions_end_handlers_before_they_end_calls() {
    let capture = capture();
    let mut script = Script::new(&capture);
    script.run("program", 0, Call);
    script.run("hanoi", 0, Plain);
    script.exception("hanoi", 8);
    // The handler goes on where the interrupted function would have returned to: both end, each with its cost.
    script.run("put", 0, ExceptionReturn);
    script.run("program", 8, Plain);
    script.ends_as(&["program 4", "  hanoi 4", "    put 4 call 4", "  hanoi 0 call 8", "program 4"]);
}

#[test]
fn returns_from_the_oldest_call_that_is_kept_lose_nothing() {
    let capture = capture();
    let script = Script::new(&capture);
    let address = |offset| script.address("hanoi", offset);
    let calls = (0..70_000).map(|_| range(address(0), Call));
    let returns = (0..60_000).map(|_| range(address(8), Return));
    let (mut stack, mut own) = (script.stack.clone(), 0);
    for range in calls.chain(returns) {
        stack.push(&Event::Range(range), &mut |visit| own += visit.own.instructions);
    }
    stack.finish(&mut |visit| own += visit.own.instructions);
    assert_eq!(own, 4 * 130_000);
}

/// A random execution of a few functions: ranges, some of them out of place, exceptions, gaps, time.
pub(super) fn random_event(script: &Script<'_>, random: &mut Random) -> Event {
    const FUNCTIONS: [&str; 4] = ["program", "hanoi", "put", "grow"];
    let mut address = || script.address(FUNCTIONS[random.below(4) as usize], 8 * random.below(3));
    let (start, return_address) = (address(), Some(address()));
    match random.below(60) {
        0 => Event::NoSync(NoSync::Overflow),
        1 => Event::ExceptionReturn,
        2 => Event::Timestamp { value: random.below(1000), cycles: None },
        3 => Event::Exception {
            cause: Cause::Arm(1),
            return_address,
            is_branch_target: false,
            fault_pending: false,
            value: 0,
        },
        _ => {
            let ends = [Plain, Plain, Plain, Jump, Call, Return, Indirect, ExceptionReturn];
            Event::Range(range(start, ends[random.below(8) as usize]))
        }
    }
}

/// Pieces of an execution that come again and again, as programs have them.
fn random_events(script: &Script<'_>, random: &mut Random) -> Vec<Vec<Event>> {
    let pieces: Vec<Vec<Event>> =
        (0..20).map(|_| (0..1 + random.below(6)).map(|_| random_event(script, random)).collect()).collect();
    (0..2000).map(|_| pieces[random.below(20) as usize].clone()).collect()
}

#[test]
fn paths_come_to_what_their_ranges_come_to() {
    let capture = capture();
    let mut random = Random(7);
    for round in 0..30 {
        let (script, mut clear) = (Script::new(&capture), Script::new(&capture).stack);
        let mut fast = script.stack.clone();
        let (mut known, mut generation): (Vec<Vec<Range>>, _) = (Vec::new(), 1);
        let (mut expected, mut visits) = (Vec::new(), Vec::new());
        for piece in random_events(&script, &mut random) {
            let ranges: Option<Vec<Range>> = piece
                .iter()
                .map(|event| if let Event::Range(range) = event { Some(*range) } else { None })
                .collect();
            // Cycles before some of the ranges, in some of the rounds.
            let counts = piece.iter().map(|_| Some(random.below(50) as u32).filter(|count| count % 3 > 0));
            let counts = if round % 3 > 0 && ranges.is_some() { counts.collect() } else { Vec::new() };
            let mut cycles = counts.iter().copied().chain(std::iter::repeat(None));
            for event in &piece {
                let count = cycles.next().flatten().map(|cycles| Event::CycleCount(Some(cycles)));
                for event in count.iter().chain([event]) {
                    clear.push(event, &mut |visit| expected.push(format!("{visit:?}")));
                }
            }
            let mut each = |visit: Visit<'_>| visits.push(format!("{visit:?}"));
            if random.below(100) == 0 {
                fast.forget_names();
            }
            match ranges {
                Some(ranges) => {
                    // Followers forget their paths now and then, and name others by the same numbers.
                    if random.below(200) == 0 {
                        known.clear();
                        generation += 1;
                    }
                    let number = known.iter().position(|path| *path == ranges).unwrap_or_else(|| {
                        known.push(ranges.clone());
                        known.len() - 1
                    });
                    let path = PathId { generation, number: number as u32 };
                    let mut sink = |functions: &Functions<'_>, stay: &Stay| {
                        each(stay.named(functions).expect("a function that has a number"));
                    };
                    match counts.is_empty() {
                        true => fast.walk(path, ranges.into_iter(), &mut sink),
                        false => {
                            let counted = counts.clone().into_iter().zip(ranges);
                            fast.walk_counted(path, counts.into_iter(), counted, &mut sink);
                        }
                    }
                }
                None => piece.iter().for_each(|event| fast.push(event, &mut each)),
            }
        }
        clear.finish(&mut |visit| expected.push(format!("{visit:?}")));
        fast.finish(&mut |visit| visits.push(format!("{visit:?}")));
        assert!(expected.len() > 500, "{}", expected.len());
        assert!(visits == expected, "round {round}");
    }
}

#[test]
fn names_that_are_needed_outlive_those_that_are_forgotten() {
    let capture = capture();
    let code = capture.code().expect("code").seen_by_all();
    let mut functions = Functions::new(code);
    let spaces = [1, 2].map(|process| AddressSpace::ANY.in_process(process));
    let name = |functions: &mut Functions<'_>, which: usize| {
        let place = functions.at(spaces[which], Address(0x1000));
        functions.name_of(spaces[which], &place)
    };
    let mut both = [0, 1].map(|which| name(&mut functions, which));
    assert_ne!(both[0], both[1], "an address in two spaces may have two names");
    assert_eq!(name(&mut functions, 0), both[0]);
    // What nobody has asked a name for has none.
    assert_eq!(functions.at(spaces[0], Address(0x1000)).name, Some(both[0]));
    assert_eq!(functions.at(spaces[0], Address(0x2000)).name, None);
    functions.forget_names(both.iter_mut().skip(1));
    assert_eq!((both[1], functions.generation), (NameId::MIN, 1));
    assert!(functions.name(both[1]).is_some_and(|name| name.address == Address(0x1000)));
    assert_ne!(name(&mut functions, 1), both[1]);
}
