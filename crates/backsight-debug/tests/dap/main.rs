//! Walks that an editor makes are held to what the library lists, in the messages of the protocol.

mod messages;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;

use backsight::calls::{ShadowStack, Visit};
use backsight::core::AddressSpace;
use backsight::listing::steps;
use backsight::moments::Moment;
use backsight::{Capture, Event};
use backsight_debug::dap::{Server, Settings};
use backsight_testing::repository;
use serde_json::{Value, json};
use support::editor::{Editor, stop};
use support::{Random, bundled, moments, replay};

/// The addresses of all instructions, as they are listed from the beginning on.
fn listed(capture: &Capture) -> Vec<u64> {
    let code = capture.code().expect("code");
    let mut all = Vec::new();
    let summary = capture.execution().run(|item| {
        if let Event::Range(range) = &item.value {
            let seen = code.seen_by(item.source);
            steps(range, AddressSpace::ANY, &seen, |step| all.push(step.address.0));
        }
    });
    summary.expect("a decode");
    all
}

const BUNDLED: [&str; 4] = ["calls-aarch64", "interwork-arm", "calls-riscv64", "first"];

#[test]
fn stepping_through_a_whole_program_gives_its_instructions_forwards_and_backwards() {
    for name in BUNDLED {
        let capture = bundled(name);
        let expected = listed(&capture);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        let mut editor = Editor::new(&mut replay);
        editor.ask("setExceptionBreakpoints", json!({"filters": []}));
        let (reason, number, address) = editor.go("configurationDone", json!({}));
        assert_eq!((&*reason, number + 1), ("entry", expected.len() as u64), "{name}");
        let mut backwards = vec![address];
        loop {
            let (reason, number, address) = editor.step("stepBack");
            if reason == "beginning of the trace" {
                break;
            }
            backwards.push(address);
            assert_eq!(number as usize, expected.len() - backwards.len(), "{name}");
        }
        backwards.reverse();
        assert!(backwards == expected, "{name}: {} {}", backwards.len(), expected.len());
        let mut forwards = vec![expected[0]];
        loop {
            let (reason, _, address) = editor.step("stepIn");
            if reason == "end of the trace" {
                break;
            }
            forwards.push(address);
        }
        assert!(forwards == expected, "{name}: {} {}", forwards.len(), expected.len());
    }
}

/// The functions under way at each instruction, the innermost first, as calls are listed from the beginning on.
fn stacks(capture: &Capture, numbers: &[u64]) -> BTreeMap<u64, Vec<String>> {
    let mut shadow = ShadowStack::new(capture.code().expect("code").seen_by_all());
    let (mut stack, mut at, mut found) = (Vec::<String>::new(), 0, BTreeMap::new());
    let summary = capture.execution().run(|item| {
        let mut keep = |visit: Visit<'_>| {
            stack.truncate(visit.depth);
            stack.push(visit.function.to_string().split('+').next().expect("a name").to_owned());
            let end = at + visit.own.instructions;
            for number in numbers.iter().filter(|number| (at..end).contains(number)) {
                found.insert(*number, stack.iter().rev().cloned().collect());
            }
            at = end;
        };
        shadow.push(&item.value, &mut keep);
        if let Event::Range(_) = item.value {
            shadow.flush(&mut keep);
        }
    });
    summary.expect("a decode");
    found
}

#[test]
fn stacks_at_random_moments_are_those_of_a_listing_from_the_beginning() {
    for name in ["calls-aarch64", "calls-riscv64", "interwork-arm"] {
        let capture = bundled(name);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        let (mut random, last) = (Random(11), replay.instructions(0));
        let numbers: Vec<u64> = (0..200).map(|_| random.below(last)).collect();
        let expected = stacks(&capture, &numbers);
        let mut editor = Editor::new(&mut replay);
        for number in numbers {
            editor.go_to(number);
            let (mut names, mut total) = (Vec::new(), 1);
            while names.len() < total {
                let page = json!({"threadId": 1, "startFrame": names.len(), "levels": 20});
                let page = editor.ask("stackTrace", page);
                total = page["totalFrames"].as_u64().expect("a number") as usize;
                let frames = page["stackFrames"].as_array().expect("a list");
                assert!(!frames.is_empty(), "{name} #{number}: {page}");
                let name_of = |frame: &Value| {
                    frame["name"].as_str().expect("a name").split(' ').next().map(str::to_owned)
                };
                names.extend(frames.iter().map(|frame| name_of(frame).expect("a word")));
            }
            assert_eq!(names, expected[&number], "{name} #{number}");
        }
    }
}

#[test]
fn breakpoints_by_line_function_and_instruction_are_met_each_time_in_both_directions() {
    for name in ["calls-aarch64", "calls-riscv64"] {
        let capture = bundled(name);
        let all = listed(&capture);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        let mut editor = Editor::new(&mut replay);
        let path = repository().join("testdata/programs/src/calls.c");
        let line = json!({"source": {"path": path}, "breakpoints": [{"line": 9}]});
        let function = json!({"breakpoints": [{"name": "ackermann"}]});
        let by_line = editor.ask("setBreakpoints", line)["breakpoints"][0].clone();
        let by_name = editor.ask("setFunctionBreakpoints", function)["breakpoints"][0].clone();
        let address_of = |set: &Value| {
            assert_eq!(set["verified"], true, "{set}");
            let digits =
                set["instructionReference"].as_str().expect("an address").strip_prefix("0x").expect("0x");
            u64::from_str_radix(digits, 16).expect("an address")
        };
        let (line, function) = (address_of(&by_line), address_of(&by_name));
        let instruction = function + 4;
        let set = json!({"breakpoints": [{"instructionReference": format!("{function:#x}"), "offset": 4}]});
        editor.ask("setInstructionBreakpoints", set);
        let reason_at = |address: u64| match address {
            _ if address == line => "breakpoint",
            _ if address == function => "function breakpoint",
            _ => "instruction breakpoint",
        };
        let is_one = |address: &u64| [line, function, instruction].contains(address);
        let expected: Vec<_> =
            (0_u64..).zip(&all).filter(|(_, address)| is_one(address)).map(|(number, _)| number).collect();
        assert!(expected.len() > 500, "{name}");
        for (command, end) in
            [("reverseContinue", "beginning of the trace"), ("continue", "end of the trace")]
        {
            let mut met = Vec::new();
            loop {
                let (reason, number, address) = editor.go(command, json!({"threadId": 1}));
                if reason == end {
                    break;
                }
                assert_eq!(reason, reason_at(address), "{name} #{number}");
                met.push(number);
            }
            met.sort_unstable();
            assert_eq!(met, expected, "{name} {command}");
        }
        // All of a source are set together: none is left.
        editor.ask("setBreakpoints", json!({"source": {"path": path}, "breakpoints": []}));
        editor.ask("setFunctionBreakpoints", json!({"breakpoints": []}));
        editor.ask("setInstructionBreakpoints", json!({}));
        assert_eq!(editor.go("reverseContinue", json!({"threadId": 1})).0, "beginning of the trace");
    }
}

#[test]
fn an_editor_goes_to_where_a_line_is_executed() {
    let capture = bundled("calls-aarch64");
    let all = listed(&capture);
    let moments = moments(&capture);
    let mut replay = replay(&capture, &moments);
    let mut editor = Editor::new(&mut replay);
    editor.go_to(20_000);
    let source = json!({"path": repository().join("testdata/programs/src/calls.c")});
    let targets = editor.ask("gotoTargets", json!({"source": source, "line": 9}))["targets"].clone();
    let [before, after] = &targets.as_array().expect("a list")[..] else { panic!("{targets}") };
    for (target, is_before) in [(before, true), (after, false)] {
        let (reason, number, address) = editor.go("goto", json!({"threadId": 1, "targetId": target["id"]}));
        assert_eq!(reason, "goto");
        assert_eq!(number < 20_000, is_before);
        assert_eq!(format!("{address:#x}"), target["instructionPointerReference"]);
        let between = if is_before { number as usize + 1..20_000 } else { 20_001..number as usize };
        assert!(!all[between].contains(&address), "{targets}: there is a nearer one");
    }
    let (response, _) = editor.all("gotoTargets", &json!({"source": {"path": "/nowhere/else.c"}, "line": 9}));
    assert_eq!(response["success"], false);
    let (response, _) = editor.all("goto", &json!({"threadId": 1, "targetId": 99}));
    assert_eq!(response["success"], false);
}

#[test]
fn what_is_not_traced_is_said_and_never_made_up() {
    let capture = bundled("calls-riscv64");
    let moments = moments(&capture);
    let mut replay = replay(&capture, &moments);
    let mut editor = Editor::new(&mut replay);
    let (_, number, address) = editor.go("configurationDone", json!({}));
    let scopes = editor.ask("scopes", json!({"frameId": 1}))["scopes"].clone();
    let registers = editor.ask("variables", json!({"variablesReference": scopes[0]["variablesReference"]}));
    for register in registers["variables"].as_array().expect("a list") {
        match register["name"].as_str().expect("a name") {
            "pc" => assert_eq!(register["value"], format!("{address:#018x}")),
            "zero" => assert_eq!(register["value"], "0x0000000000000000"),
            _ => assert_eq!(register["value"], "not traced", "{register}"),
        }
    }
    let trace = editor.ask("variables", json!({"variablesReference": scopes[1]["variablesReference"]}));
    assert_eq!(trace["variables"][0]["value"], format!("#{number} of #0 to #{number}"));
    let value = |editor: &mut Editor<'_, '_>, name: &str| {
        editor.all("evaluate", &json!({"expression": name, "context": "watch"})).0
    };
    assert_eq!(value(&mut editor, "$moment")["body"]["result"], number.to_string());
    for unknown in ["$a0", "n", "", "$"] {
        assert_eq!(value(&mut editor, unknown)["success"], false, "{unknown}");
    }
    let memory = editor.ask("readMemory", json!({"memoryReference": "0", "count": 8}));
    assert_eq!((&memory["data"], &memory["unreadableBytes"]), (&json!(""), &json!(8)));
    let code = editor.ask("readMemory", json!({"memoryReference": format!("{address:#x}"), "count": 3}));
    assert_eq!(code["data"].as_str().map(str::len), Some(4));
    for change in ["setVariable", "setExpression", "writeMemory"] {
        assert_eq!(editor.all(change, &json!({})).0["success"], false);
    }
}

#[test]
fn code_stands_in_for_source_that_is_not_there() {
    for name in ["calls-riscv64", "interwork-arm"] {
        let capture = bundled(name);
        let all = listed(&capture);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        // No folder: no source.
        let mut editor = Editor::of(Server::new(&mut replay, Settings::default()));
        let mut random = Random(3);
        for _ in 0..20 {
            let number = random.below(all.len() as u64);
            editor.go_to(number);
            let trace = editor.ask("stackTrace", json!({"threadId": 1}));
            for (index, frame) in trace["stackFrames"].as_array().expect("a list").iter().enumerate() {
                let reference = frame["source"]["sourceReference"].as_u64().expect("a reference");
                let source = editor.ask("source", json!({"sourceReference": reference}));
                let line = frame["line"].as_u64().expect("a line") as usize - 1;
                let text = source["content"].as_str().expect("text").lines().nth(line).expect("a line");
                let pc = frame["instructionPointerReference"].as_str().expect("an address");
                if index == 0 {
                    assert!(text.starts_with(pc), "{name} #{number}: {text} {frame}");
                    assert_eq!(pc, format!("{:#x}", all[number as usize]));
                }
            }
            let pc = trace["stackFrames"][0]["instructionPointerReference"].clone();
            let request = json!({"memoryReference": pc, "instructionOffset": -5, "instructionCount": 12});
            let shown = editor.ask("disassemble", request)["instructions"].clone();
            assert_eq!(shown.as_array().map(Vec::len), Some(12));
            assert_eq!(shown[5]["address"], pc, "{name} #{number}");
        }
        // A breakpoint in it is one at an instruction.
        let source = json!({"sourceReference": 1});
        let set = editor.ask(
            "setBreakpoints",
            json!({"source": source, "breakpoints": [{"line": 1}, {"line": 100_000}]}),
        );
        assert_eq!(
            (&set["breakpoints"][0]["verified"], &set["breakpoints"][1]["verified"]),
            (&json!(true), &json!(false))
        );
    }
}

#[test]
fn a_damaged_capture_stops_at_its_gaps_and_nowhere_wrong() {
    let scratch = std::env::temp_dir().join(format!("backsight-dap-damaged-{}", std::process::id()));
    let whole = repository().join("testdata/captures/calls-aarch64");
    fs::create_dir_all(scratch.join("code")).expect("a folder");
    for file in ["trace.ini", "contents.ini", "system-event-log", "trace.bin", "code/calls"] {
        fs::copy(whole.join(file), scratch.join(file)).expect("a copy");
    }
    let trace = scratch.join("trace.bin");
    let original = fs::read(&trace).expect("trace");
    let mut random = Random(5);
    for _ in 0..12 {
        let mut bytes = original.clone();
        for _ in 0..=random.below(3) {
            let (at, length) = (random.below(bytes.len() as u64) as usize, random.below(300) as usize);
            let end = (at + length).min(bytes.len());
            bytes[at..end].iter_mut().for_each(|byte| *byte = random.next() as u8);
        }
        fs::write(&trace, bytes).expect("trace");
        let capture = Capture::open(&scratch).expect("a capture");
        let all = listed(&capture);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        // Damage may make a source of its own: what is compared is the one that is walked through.
        if replay.sources().count() > 1 {
            continue;
        }
        let mut editor = Editor::new(&mut replay);
        let mut stops = Vec::new();
        loop {
            let (reason, number, address) = editor.go("reverseContinue", json!({"threadId": 1}));
            assert_eq!(address, all[number as usize], "#{number}");
            if reason == "beginning of the trace" {
                break;
            }
            assert_eq!(reason, "exception");
            assert!(stops.last().is_none_or(|last| number < *last), "{stops:?} {number}");
            stops.push(number);
            assert_ne!(editor.ask("exceptionInfo", json!({"threadId": 1}))["description"], "");
        }
        // Forwards, the same ones.
        let mut forwards = Vec::new();
        loop {
            let (reason, number, _) = editor.go("continue", json!({"threadId": 1}));
            if reason == "end of the trace" {
                break;
            }
            forwards.insert(0, number);
        }
        assert_eq!(stops, forwards);
        for command in ["next", "stepIn", "stepOut", "stepBack", "stepBack"] {
            editor.go_to(random.below(all.len() as u64));
            let (_, events) = editor.all(command, &json!({"threadId": 1}));
            if let Some((_, number, address)) = stop(&events) {
                assert_eq!(address, all[number as usize], "{command} #{number}");
            }
        }
    }
    fs::remove_dir_all(&scratch).expect("it is gone");
}

#[test]
fn a_function_is_left_backwards_to_its_call() {
    let capture = bundled("calls-aarch64");
    let moments = moments(&capture);
    let mut replay = replay(&capture, &moments);
    let (mut random, last) = (Random(9), replay.instructions(0));
    let mut editor = Editor::new(&mut replay);
    let depth = |editor: &mut Editor<'_, '_>| {
        editor.ask("stackTrace", json!({"threadId": 1, "levels": 1}))["totalFrames"]
            .as_u64()
            .expect("a number")
    };
    for _ in 0..50 {
        let number = random.below(last - 100) + 100;
        editor.go_to(number);
        let inside = depth(&mut editor);
        let (reason, call, _) =
            editor.go("evaluate", json!({"expression": "reverse-finish", "context": "repl"}));
        assert_eq!((&*reason, depth(&mut editor)), ("step", inside - 1), "#{number}");
        // All from the call on is in the function, or in what it called.
        let (reason, entry, _) = editor.step("stepIn");
        assert_eq!((&*reason, entry, depth(&mut editor)), ("step", call + 1, inside), "#{number}");
        let (_, back, _) = editor.go("stepOut", json!({"threadId": 1}));
        assert!(back > number || back + 1 == last, "#{number}: {back}");
    }
}

#[test]
fn a_walk_begins_where_it_was_left() {
    let capture = bundled("calls-riscv64");
    let moments = moments(&capture);
    let mut replay = replay(&capture, &moments);
    assert!(replay.go_to(replay.current(), Moment::Instruction(100)).expect("a moment"));
    let mut editor = Editor::new(&mut replay);
    assert_eq!(editor.go("configurationDone", json!({})).1, 100);
}
