//! Sessions of a real gdb, where there is one: what it prints is compared with transcripts.

mod support;

use std::fs;
use std::path::Path;

use backsight::moments::Moment;
use backsight::{Capture, OpenOptions};
use backsight_debug::replay::{At, Replay};
use backsight_testing::{assert_golden, corpus, repository};
use serde_json::json;
use support::editor::Editor;
use support::session::{Scratch, has_gdb, session, transcript};
use support::{Random, bundled, moments, replay};

/// Holds a session on a bundled capture to its transcript.
fn compare(capture: &str, words: &str) {
    if !has_gdb() {
        return;
    }
    let opened = bundled(capture);
    let moments = moments(&opened);
    let mut replay = replay(&opened, &moments);
    let text = session(capture, &mut replay, words);
    let transcript = transcript(&text);
    assert!(transcript.contains('+'), "{text}");
    assert_golden(&format!("crates/backsight-debug/tests/golden/{capture}.txt"), &transcript);
}

const STEPS: &str = "\
bt 3
bt -2
info registers pc sp moment calls
x/2i $pc
reverse-stepi
stepi
stepi
reverse-step
reverse-next
reverse-finish
monitor where
info threads
x/4x $sp
set $pc = 4
";

#[test]
fn a64_is_walked_through() {
    let more = "\
monitor first
break ackermann
continue
bt
continue
finish
reverse-continue
delete
next
step
until
tbreak calls.c:9
continue
monitor goto #20000
bt 3
print $moment
monitor find program
monitor messages
monitor goto #99999999
monitor goto nowhere
monitor nonsense
reverse-continue
";
    compare("calls-aarch64", &format!("{STEPS}{more}"));
}

#[test]
fn t32_and_a32_are_walked_through() {
    let more = "\
tbreak arm_step
reverse-continue
bt
x/2i $pc
finish
tbreak thumb_step
continue
x/2i $pc
up
reverse-continue
";
    compare("interwork-arm", &format!("{STEPS}{more}"));
}

#[test]
fn rv64_is_walked_through() {
    let more = "\
break program
reverse-continue
bt
next
reverse-next
print program
delete
continue
";
    compare("calls-riscv64", &format!("{STEPS}{more}"));
}

#[test]
fn gaps_stop_a_walk_and_are_named_and_exceptions_are_shown_where_they_happened() {
    let words = "\
bt
reverse-continue
reverse-continue
monitor gaps off
monitor exceptions on
reverse-continue
monitor exceptions off
reverse-continue
continue
continue
";
    compare("first", words);
}

/// The addresses that gdb says it stands at, one after the other.
fn addresses(text: &str) -> Vec<u64> {
    let values = text.lines().filter_map(|line| line.split_once(" = ")?.1.split_once("0x"));
    values
        .map(|(_, rest)| rest.split_whitespace().next().expect("digits"))
        .map(|digits| u64::from_str_radix(digits, 16).expect("hex"))
        .collect()
}

/// The addresses of instructions, from the library.
fn expected(replay: &mut Replay<'_>, numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    numbers
        .map(|instruction| {
            let at = At { source: 0, hart: 0, instruction };
            replay.what(at).expect("code").expect("an instruction").address.0
        })
        .collect()
}

#[test]
fn a_real_capture_is_walked_through() {
    let Some(corpus) = corpus() else { return };
    if !has_gdb() {
        return;
    }
    let capture = Capture::open(corpus.join("opencsd/juno_r1_1/capture")).expect("a capture");
    let moments = moments(&capture);
    let decode = capture.execution().id(0x10);
    let mut replay = Replay::new(&capture, &moments, &decode).expect("a walk");
    assert!(replay.go_to(replay.current(), Moment::BeforeEnd(100)).expect("a moment"));
    let last = replay.place(replay.current()).expect("a place").expect("it is there").instruction;
    let words = "print/x $pc\nreverse-stepi\n".repeat(40);
    let text = session("corpus", &mut replay, &words);
    let expected = expected(&mut replay, (0..40).map(|back| last - back));
    assert_eq!(addresses(&text), expected, "{text}");
}

#[test]
fn a_damaged_capture_stops_at_its_gaps_and_nowhere_wrong() {
    if !has_gdb() {
        return;
    }
    let whole = repository().join("testdata/captures/calls-aarch64");
    let scratch = Scratch::new("damaged");
    let copy = |from: &Path, to: &Path| fs::copy(from, to).map(drop).expect("a copy");
    fs::create_dir_all(scratch.0.join("code")).expect("a folder");
    for file in ["trace.ini", "contents.ini", "system-event-log", "trace.bin", "code/calls"] {
        copy(&whole.join(file), &scratch.0.join(file));
    }
    let trace = scratch.0.join("trace.bin");
    let mut bytes = fs::read(&trace).expect("trace");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 200].fill(0x5A);
    fs::write(&trace, bytes).expect("trace");
    let capture = OpenOptions::new().open(&scratch.0).expect("a capture");
    let moments = moments(&capture);
    let mut replay = replay(&capture, &moments);
    let text = session(
        "damaged",
        &mut replay,
        "reverse-continue\nprint $moment\nmonitor where\nreverse-continue\nprint $moment\nmonitor gaps off\nmonitor last\nreverse-continue\nprint $moment\n",
    );
    assert!(text.contains("something is missing in the trace here"), "{text}");
    assert!(text.contains("Program stopped."), "{text}");
    assert!(text.contains("$3 = 0"), "{text}");
}

/// The numbers of instructions that gdb prints.
fn printed(text: &str) -> Vec<u64> {
    let values = text.lines().filter_map(|line| line.strip_prefix('$')?.split_once(" = "));
    values.map(|(_, digits)| digits.trim().parse().expect("a number")).collect()
}

#[test]
fn editors_step_through_lines_as_gdb_does() {
    if !has_gdb() {
        return;
    }
    for (name, seed) in [("calls-aarch64", 1), ("calls-riscv64", 2)] {
        let capture = bundled(name);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        let (mut random, last) = (Random(seed), replay.instructions(0));
        // Not `reverse-finish`: in a recursion, gdb takes the call of an inner one for that of the function.
        let commands = ["reverse-next", "reverse-step", "next", "step", "finish"];
        let steps: Vec<_> =
            (0..240).map(|index| (random.below(last), commands[index % commands.len()])).collect();
        let words: String = steps
            .iter()
            .map(|(number, command)| format!("monitor goto #{number}\n{command}\nprint $moment\n"))
            .collect();
        let text = session(&format!("lines-{name}"), &mut replay, &words);
        let expected = printed(&text);
        assert_eq!(expected.len(), steps.len(), "{text}");
        // The end of the connection is over.
        replay.stop_flag().store(false, std::sync::atomic::Ordering::SeqCst);
        let mut editor = Editor::new(&mut replay);
        let mut different = Vec::new();
        for ((number, command), expected) in steps.into_iter().zip(expected) {
            editor.go_to(number);
            let thread = json!({"threadId": 1});
            let (_, events) = match command {
                "next" => editor.all("next", &thread),
                "step" => editor.all("stepIn", &thread),
                "finish" => editor.all("stepOut", &thread),
                _ => editor.all("evaluate", &json!({"expression": command, "context": "repl"})),
            };
            let found = support::editor::stop(&events).map(|(_, number, _)| number);
            if found != Some(expected) {
                different.push(format!("{command} from #{number}: {found:?}, gdb {expected}"));
            }
        }
        assert!(different.is_empty(), "{name}: {}", different.join("\n"));
    }
}
