//! `dap`: what it refuses. Walks are made by an editor's client, in tests/editor: a session whose input is at its end is over.

use backsight_testing::repository;
use serde_json::{Value, json};

use crate::support::{Run, backsight_reading};

/// Requests, each with its header.
fn sent(requests: &[(&str, Value)]) -> Vec<u8> {
    let framed = (1..).zip(requests).flat_map(|(number, (command, arguments))| {
        let body =
            json!({"seq": number, "type": "request", "command": command, "arguments": arguments}).to_string();
        format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    framed.collect()
}

fn served(bytes: &[u8]) -> Run {
    backsight_reading(&["dap".to_owned()], &[bytes])
}

#[test]
fn what_cannot_be_launched_is_said_to_the_editor() {
    let run = served(&sent(&[
        ("launch", json!({"capture": "/nowhere/capture"})),
        (
            "launch",
            json!({"capture": repository().join("testdata/captures/first"), "source": "/nowhere/src"}),
        ),
    ]))
    .done();
    for part in ["/nowhere/capture", "/nowhere/src: there is no such folder"] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    assert!(!run.out.contains("initialized"), "{}", run.out);
}

#[test]
fn what_is_no_message_is_a_failure_with_its_reason() {
    served(b"GET / HTTP/1.1\r\n\r\n").could_not("Content-Length");
    served(b"").done();
}
