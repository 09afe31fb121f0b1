//! Messages as they come in: mutated, cut off, in one block, and no messages at all.

use std::io::{PipeWriter, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use backsight::image::SourceFolders;
use backsight_debug::dap::{Launcher, Server, Settings, Walk, serve};
use backsight_testing::repository;
use serde_json::{Value, json};

use crate::support::editor::{Editor, body, messages};
use crate::support::{Random, bundled, moments, replay};

/// Requests that an editor sends.
fn sent() -> Vec<(&'static str, Value)> {
    let source = json!({"path": repository().join("testdata/programs/src/calls.c"), "sourceReference": 0});
    vec![
        ("initialize", json!({"linesStartAt1": false, "columnsStartAt1": true})),
        ("configurationDone", json!({})),
        ("threads", json!({})),
        ("stackTrace", json!({"threadId": 1, "startFrame": 0, "levels": 20})),
        ("scopes", json!({"frameId": 2})),
        ("variables", json!({"variablesReference": 1, "start": 0, "count": 4})),
        ("setBreakpoints", json!({"source": source, "breakpoints": [{"line": 9}, {"line": 30}]})),
        ("setBreakpoints", json!({"source": {"sourceReference": 1}, "breakpoints": [{"line": 2}]})),
        ("setFunctionBreakpoints", json!({"breakpoints": [{"name": "ackermann"}]})),
        (
            "setInstructionBreakpoints",
            json!({"breakpoints": [{"instructionReference": "0x400530", "offset": 4}]}),
        ),
        (
            "setExceptionBreakpoints",
            json!({"filters": ["gaps"], "filterOptions": [{"filterId": "exceptions"}]}),
        ),
        ("continue", json!({"threadId": 1})),
        ("reverseContinue", json!({"threadId": 1})),
        ("next", json!({"threadId": 1, "granularity": "line"})),
        ("stepIn", json!({"threadId": 1, "granularity": "instruction"})),
        ("stepOut", json!({"threadId": 1})),
        ("stepBack", json!({"threadId": 1})),
        ("pause", json!({"threadId": 1})),
        ("gotoTargets", json!({"source": source, "line": 9})),
        ("goto", json!({"threadId": 1, "targetId": 0})),
        (
            "disassemble",
            json!({"memoryReference": "0x400530", "offset": 0, "instructionOffset": -20, "instructionCount": 40}),
        ),
        ("readMemory", json!({"memoryReference": "0x400530", "offset": 1, "count": 100})),
        ("evaluate", json!({"expression": "goto #1000", "context": "repl", "frameId": 1})),
        ("evaluate", json!({"expression": "find ackermann", "context": "repl"})),
        ("evaluate", json!({"expression": "reverse-step", "context": "repl"})),
        ("evaluate", json!({"expression": "$pc", "context": "hover", "frameId": 1})),
        ("source", json!({"source": source, "sourceReference": 1})),
        ("exceptionInfo", json!({"threadId": 1})),
        ("modules", json!({"startModule": 0, "moduleCount": 1})),
        ("cancel", json!({"requestId": 3})),
    ]
}

#[test]
fn thousands_of_mutated_messages_do_not_end_a_server() {
    for (name, seed) in [("calls-riscv64", 1), ("interwork-arm", 2), ("first", 3)] {
        let capture = bundled(name);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        let settings = Settings { sources: SourceFolders::new([repository().join("testdata/programs")]) };
        let mut server = Server::new(&mut replay, settings);
        let (mut random, sent) = (Random(seed), sent());
        for number in 0..4000 {
            let (command, arguments) = &sent[random.below(sent.len() as u64) as usize];
            let mut bytes = body(number, command, arguments);
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len() as u64 + 1) as usize;
                match random.below(4) {
                    0 if at < bytes.len() => bytes[at] = random.next() as u8,
                    1 if at < bytes.len() => drop(bytes.remove(at)),
                    2 if at < bytes.len() => bytes[at] = b'0' + random.below(10) as u8,
                    _ => bytes.insert(at, b"0-9,;:{}[]\""[random.below(11) as usize]),
                }
            }
            let mut out = Vec::new();
            let goes_on = server.take(&bytes, &mut out).expect("memory takes everything");
            assert!(goes_on, "{}", String::from_utf8_lossy(&bytes));
            // What is answered are messages.
            assert!(!messages(&out).is_empty(), "{}", String::from_utf8_lossy(&bytes));
        }
        let mut editor = Editor::of(server);
        editor.ask("setExceptionBreakpoints", json!({"filters": []}));
        editor.ask("setFunctionBreakpoints", json!({"breakpoints": []}));
        editor.ask("setInstructionBreakpoints", json!({"breakpoints": []}));
        assert_eq!(editor.ask("threads", json!({}))["threads"][0]["id"], 1);
    }
}

/// Opens one capture, whatever is launched.
struct Bundled;

impl Launcher for Bundled {
    fn launch(
        &mut self,
        arguments: &Value,
        _stop: &Arc<AtomicBool>,
        walk: &mut Walk<'_>,
    ) -> Result<(), String> {
        let name = arguments["capture"].as_str().ok_or("no capture")?;
        let capture = bundled(name);
        let moments = moments(&capture);
        walk(&mut replay(&capture, &moments), Settings::default());
        Ok(())
    }
}

/// Serves what a client writes, and gives the outcome and the messages.
fn connect(client: impl FnOnce(PipeWriter) + Send + 'static) -> (std::io::Result<()>, Vec<Value>) {
    let (input, writer) = std::io::pipe().expect("a pipe");
    let client = std::thread::spawn(move || client(writer));
    let mut out = Vec::new();
    let outcome = serve(&mut Bundled, input, &mut out);
    client.join().expect("a client");
    (outcome, messages(&out))
}

/// Messages in one block.
fn block(requests: &[(&str, Value)]) -> Vec<u8> {
    let framed = (1..).zip(requests).flat_map(|(number, (command, arguments))| {
        let body = body(number, command, arguments);
        [format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes(), body].concat()
    });
    framed.collect()
}

#[test]
fn a_session_begins_and_ends_and_a_pause_ends_a_search() {
    let requests = [
        ("threads", json!({})),
        ("initialize", json!({})),
        ("launch", json!({"nothing": 1})),
        ("launch", json!({"capture": "calls-aarch64"})),
        ("setFunctionBreakpoints", json!({"breakpoints": [{"name": "program"}]})),
        ("configurationDone", json!({})),
        ("reverseContinue", json!({"threadId": 1})),
        ("pause", json!({"threadId": 1})),
        ("reverseContinue", json!({"threadId": 1})),
        ("threads", json!({})),
        ("cancel", json!({"requestId": 10})),
        ("disconnect", json!({})),
        ("threads", json!({})),
    ];
    // The end is told last: else it would end the second search, too.
    let (first, last) = requests.split_at(11);
    let (first, last) = (block(first), block(last));
    let (outcome, messages) = connect(move |mut writer| {
        writer.write_all(&first).expect("a block");
        std::thread::sleep(std::time::Duration::from_millis(500));
        writer.write_all(&last).expect("a block");
    });
    outcome.expect("a session");
    let responses: Vec<_> = messages.iter().filter(|message| message["type"] == "response").collect();
    let outcomes: Vec<_> = responses
        .iter()
        .map(|response| (response["command"].as_str().expect("a word"), response["success"] == true))
        .collect();
    assert_eq!(
        outcomes,
        [
            ("threads", false),
            ("initialize", true),
            ("launch", false),
            ("launch", true),
            ("setFunctionBreakpoints", true),
            ("configurationDone", true),
            ("reverseContinue", true),
            ("pause", true),
            ("reverseContinue", true),
            ("threads", false),
            ("cancel", true),
            ("disconnect", true),
        ]
    );
    let stops: Vec<_> = messages.iter().filter(|message| message["event"] == "stopped").collect();
    let reasons: Vec<_> = stops.iter().map(|stop| stop["body"]["reason"].as_str().expect("a word")).collect();
    assert_eq!(&reasons[..2], ["entry", "pause"], "{stops:?}");
    assert_eq!(messages.last().map(|message| message["event"].clone()), Some(json!("exited")));
}

#[test]
fn what_is_no_message_ends_a_session_and_is_said() {
    for wrong in ["Content-Length: 999999999\r\n\r\n", "garbage\r\n\r\n", "Content-Length: 10\r\n\r\n{}"] {
        for begun in
            [vec![], vec![("initialize", json!({})), ("launch", json!({"capture": "calls-riscv64"}))]]
        {
            let mut bytes = block(&begun);
            bytes.extend_from_slice(wrong.as_bytes());
            let (outcome, messages) = connect(move |mut writer| writer.write_all(&bytes).expect("a block"));
            assert_eq!(
                outcome.map_err(|error| error.kind()),
                Err(std::io::ErrorKind::InvalidData),
                "{wrong}"
            );
            let mut said = messages.iter().filter(|message| message["event"] == "output");
            assert!(
                said.next_back().is_some_and(|said| said["body"]["category"] == "stderr"),
                "{messages:?}"
            );
        }
    }
    // A message that is no JSON is passed over, and a client that goes away is no error.
    let (outcome, messages) = connect(|mut writer| {
        let bytes = [&b"Content-Length: 3\r\n\r\n{,}"[..], &block(&[("initialize", json!({}))])].concat();
        writer.write_all(&bytes).expect("a block");
    });
    outcome.expect("the end");
    assert!(messages.iter().any(|message| message["command"] == "initialize" && message["success"] == true));
}
