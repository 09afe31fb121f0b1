//! Threads that go from CPU to CPU have the calls that each of them made.

mod support;

use std::collections::BTreeMap;
use std::io::BufReader;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use backsight::Capture;
use backsight::calls::{CallTree, ShadowStack};
use backsight::core::{Cause, Context, Execution, Isa, Retired};
use backsight::decode::Written;
use backsight::flow::{Event, Range, TraceOn};
use backsight::image::Window;
use backsight::isa::classify_retired;
use backsight::listing::{Detail, ExecutionFormat, FilterOptions, Style, ThreadCalls};
use backsight::moments::Moment;
use backsight_profile::{CountOptions, Profile, count};
use backsight_run::qemu::EmulationOptions;
use backsight_run::retired::RetiredReader;
use backsight_run::{Recording, SystemOptions, TRUTH, UnitKind};
use support::{Scratch, emulated, program};

/// Calls and own instructions, by the names of functions from the outermost on.
type Calls = BTreeMap<String, (u64, u64)>;

/// Records `threads` on two CPUs, with the truth; false, and a word about it, where QEMU is missing.
fn record(capture: &Path, slice: u64) -> bool {
    let options = EmulationOptions {
        program: program("aarch64", "threads"),
        silent: true,
        ..EmulationOptions::default()
    };
    let Some(mut source) = emulated(options) else { return false };
    let kind = UnitKind::named("etm4").expect("the unit");
    // Two turns of a thread on different CPUs may look alike: only timestamps in them say which was first.
    let settings = [("timestamps".to_owned(), "250".to_owned())];
    let unit = kind.program(Isa::A64, &settings).expect("a unit").for_system(true).expect("for systems");
    let system = SystemOptions { cpus: NonZeroU32::new(2).expect("two"), slice, ..SystemOptions::default() };
    let recording = Recording::new(unit).truth(true).replace(true).system(Some(system));
    recording.record(&mut source, capture, &mut |_| {}).expect("a recording");
    true
}

fn range_of(retired: &Retired) -> Range {
    let instruction = classify_retired(retired);
    Range {
        start: retired.address,
        end: retired.end(),
        instructions: 1,
        isa: retired.isa,
        class: instruction.class,
        flags: instruction.flags,
        last_size: retired.size,
        executed: retired.taken,
    }
}

/// An instruction of the truth: the CPU, the number of the instruction on that, and the thread with the calls under way.
type Executed<'a, 'c> = (u32, u64, u64, &'a ShadowStack<'c>);

/// What each thread called, by the truth, which is in the order of time.
fn calls_of_truth(path: &Path, each: &mut dyn FnMut(Executed<'_, '_>)) -> BTreeMap<String, Calls> {
    let capture = Capture::open(path).expect("a capture");
    let code = capture.code().expect("code");
    let mut numbers: BTreeMap<u32, u64> = BTreeMap::new();
    let file = std::fs::File::open(path.join(TRUTH)).expect("the truth");
    let mut threads: BTreeMap<u64, (ShadowStack<'_>, CallTree)> = BTreeMap::new();
    let (mut cpu, mut now, mut on): (u32, u64, BTreeMap<u32, Context>) = (0, 0, BTreeMap::new());
    for item in RetiredReader::new(BufReader::new(file)).expect("the truth") {
        let item = item.expect("an item");
        match item {
            Execution::Thread(number) => cpu = number,
            Execution::Context(context) => drop(on.insert(cpu, context)),
            _ => {}
        }
        let number = numbers.entry(cpu).or_default();
        *number += u64::from(matches!(item, Execution::Instruction(_)));
        let number = number.saturating_sub(1);
        let (Some(&context), Execution::Instruction(_) | Execution::Trap(_) | Execution::Gap) =
            (on.get(&cpu), item)
        else {
            continue;
        };
        if let Execution::Instruction(retired) = item {
            now = retired.cycle;
        }
        // Names are those of its process, which the log has by time.
        let new = || {
            let mut code = code.seen_by_all();
            code.enter(Window { from: now, to: now });
            let mut stack = ShadowStack::new(code);
            stack.push(&Event::Context(context, Isa::A64), &mut |_| {});
            (stack, CallTree::default())
        };
        let thread = context.context_id.expect("a thread");
        let (stack, tree) = threads.entry(thread).or_insert_with(new);
        let event = match item {
            Execution::Instruction(retired) => Event::Range(range_of(&retired)),
            Execution::Trap(trap) => Event::Exception {
                cause: Cause::Arm(trap.cause as u16),
                return_address: Some(trap.return_address),
                is_branch_target: false,
                fault_pending: false,
                value: 0,
            },
            Execution::Gap => Event::TraceOn(TraceOn::Begin),
            _ => continue,
        };
        stack.push(&event, &mut |visit| tree.add(&visit));
        if let Event::Range(_) = event {
            each((cpu, number, thread, stack));
        }
    }
    let mut calls = BTreeMap::new();
    for (thread, (mut stack, mut tree)) in threads {
        stack.finish(&mut |visit| tree.add(&visit));
        let mut path: Vec<String> = Vec::new();
        let mut of_thread = Calls::new();
        for node in tree.nodes() {
            path.truncate(node.depth);
            path.push(node.name.clone());
            of_thread.insert(path.join(";"), (node.calls, node.own.instructions));
        }
        calls.insert(format!("thread {thread}"), of_thread);
    }
    calls
}

/// The same as counted.
fn calls_of_profile(profile: &Profile) -> BTreeMap<String, Calls> {
    let mut calls: BTreeMap<String, Calls> = BTreeMap::new();
    let mut paths: Vec<(String, String)> = Vec::new();
    for (node, number) in profile.calls.iter().zip(0_u32..) {
        let thread = profile.threads.iter().find(|thread| thread.node == number);
        let (thread, path) = match (thread, node.parent, node.function) {
            (Some(thread), ..) => (thread.name.clone(), String::new()),
            (None, Some(parent), Some(function)) => {
                let (thread, path) = &paths[parent as usize];
                let separator = if path.is_empty() { "" } else { ";" };
                (thread.clone(), format!("{path}{separator}{}", profile.functions[function as usize].name))
            }
            (None, None, None) => (String::new(), String::new()),
            _ => panic!("node {number} belongs to nothing"),
        };
        if node.function.is_some() && (node.instructions > 0 || node.calls > 0) {
            calls.entry(thread.clone()).or_default().insert(path.clone(), (node.calls, node.instructions));
        }
        paths.push((thread, path));
    }
    calls
}

fn profile_of(path: &Path) -> Profile {
    let capture = Capture::open(path).expect("a capture");
    count(&capture, capture.execution(), &CountOptions::default()).expect("a profile").0
}

#[test]
fn threads_that_go_from_cpu_to_cpu_have_the_calls_that_the_truth_says() {
    let scratch = Scratch::new("threads");
    for slice in [997, 5000, 20_000] {
        let capture = scratch.path("capture");
        if !record(&capture, slice) {
            return;
        }
        let (profile, truth) = (profile_of(&capture), calls_of_truth(&capture, &mut |_| {}));
        assert_eq!((profile.totals.unordered_threads, profile.totals.unjoined_turns), (0, 0));
        let counted = calls_of_profile(&profile);
        let names = |calls: &BTreeMap<String, Calls>| calls.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&counted), names(&truth), "slices of {slice}");
        assert!(truth.len() >= 4, "{} threads", truth.len());
        for (thread, expected) in &truth {
            let counted = &counted[thread];
            for (path, costs) in expected {
                assert_eq!(counted.get(path), Some(costs), "slices of {slice}, {thread}: {path}");
            }
            let more = counted.iter().find(|(path, costs)| costs.1 > 0 && !expected.contains_key(*path));
            assert_eq!(more, None, "slices of {slice}, {thread}");
        }
    }
}

/// The same as `flow --calls=tree` lists them.
fn calls_of_listing(path: &Path) -> BTreeMap<String, Calls> {
    let capture = Capture::open(path).expect("a capture");
    let code = capture.code().expect("code");
    let style = Style { format: ExecutionFormat::Json, detail: Detail::CallTree, ..Style::default() };
    let (filter, counts) = (FilterOptions::default(), Arc::default());
    let listing = ThreadCalls { style, filter: &filter, harts: &[], counts };
    let mut lines = Vec::new();
    let mut put = |written: Written<'_>| {
        if let Written::Text(text) = written {
            lines.extend_from_slice(text);
        }
        ControlFlow::Continue(())
    };
    assert!(capture.execution().threads_may_move(code).expect("sources"));
    listing.write(capture.execution(), code, &mut put).expect("a listing");
    let lines = String::from_utf8(lines).expect("text");
    let member = |line: &str, name: &str| -> String {
        let (_, after) = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name}: {line}"));
        after.split([',', '}']).next().unwrap_or_default().trim_matches('"').to_owned()
    };
    let (mut calls, mut names) = (BTreeMap::<String, Calls>::new(), Vec::new());
    for line in lines.lines() {
        let number = |name: &str| member(line, name).parse::<u64>().expect("a number");
        names.truncate(number("depth") as usize);
        names.push(member(line, "function"));
        // Those of its own come first.
        let costs = (number("calls"), number("instructions"));
        calls.entry(member(line, "thread")).or_default().insert(names.join(";"), costs);
    }
    calls
}

#[test]
fn listed_calls_of_threads_that_go_from_cpu_to_cpu_are_those_of_the_truth() {
    for slice in [700, 3000, 20_000] {
        let scratch = Scratch::new(&format!("threads-listed-{slice}"));
        let capture = scratch.path("capture");
        if !record(&capture, slice) {
            return;
        }
        let (listed, truth) = (calls_of_listing(&capture), calls_of_truth(&capture, &mut |_| {}));
        assert!(truth.len() >= 4, "{} threads", truth.len());
        assert_eq!(listed, truth, "slices of {slice}");
    }
}

#[test]
fn the_stack_at_a_moment_has_what_its_thread_called_on_other_cpus() {
    let scratch = Scratch::new("threads-moments");
    let path = scratch.path("capture");
    if !record(&path, 3000) {
        return;
    }
    let mut expected = Vec::new();
    calls_of_truth(&path, &mut |(cpu, number, thread, stack)| {
        if number % 9_973 == 4_000 {
            let names: Vec<_> = stack.under_way().map(|call| call.function.to_string()).collect();
            expected.push((cpu, number, thread, names));
        }
    });
    assert!(expected.len() > 20, "{} moments", expected.len());
    let capture = Capture::open(&path).expect("a capture");
    let index = capture.moments().distance(500).index(2).expect("an index");
    let sources = capture.execution().sources().expect("sources");
    for moments in [capture.moments(), capture.moments().with_index(index.into())] {
        for (cpu, number, thread, names) in &expected {
            let is_it = |source: &&backsight::Source| u32::from(source.id().get()) == 0x10 + cpu;
            let source = sources.iter().find(is_it).expect("a source");
            let decode = capture.execution();
            let stacks = moments.stack_at(&decode, source, Moment::Instruction(*number)).expect("stacks");
            let next = stacks.iter().find(|stack| stack.is_next).expect("a thread");
            let given: Vec<_> = next.calls.iter().map(|call| call.function.to_string()).collect();
            assert_eq!((next.thread, &given), (Some(*thread), names), "CPU {cpu}, #{number}");
        }
    }
}

#[test]
fn calls_over_time_of_a_thread_are_inside_of_each_other_wherever_it_ran() {
    let scratch = Scratch::new("threads-timeline");
    let path = scratch.path("capture");
    if !record(&path, 3000) {
        return;
    }
    let capture = Capture::open(&path).expect("a capture");
    let options = CountOptions { timeline: 100_000, ..CountOptions::default() };
    let (profile, _) = count(&capture, capture.execution(), &options).expect("a profile");
    for thread in &profile.threads {
        let mut open: Vec<(u32, u64)> = Vec::new();
        for slice in &thread.slices {
            open.retain(|&(depth, end)| depth < slice.depth && end > slice.begin);
            assert!(slice.begin <= slice.end, "{}: {slice:?}", thread.name);
            assert!(open.iter().all(|&(_, end)| slice.end <= end), "{}: {slice:?} in {open:?}", thread.name);
            open.push((slice.depth, slice.end));
        }
        assert!(!thread.slices.is_empty(), "{}", thread.name);
    }
}
