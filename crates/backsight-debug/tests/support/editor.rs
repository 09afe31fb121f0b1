//! An editor, as far as tests need one.

use backsight::image::SourceFolders;
use backsight_debug::dap::{Server, Settings};
use backsight_debug::replay::Replay;
use backsight_testing::repository;
use serde_json::{Value, json};

/// A request as it is sent.
pub fn body(number: i64, command: &str, arguments: &Value) -> Vec<u8> {
    json!({"seq": number, "type": "request", "command": command, "arguments": arguments})
        .to_string()
        .into_bytes()
}

/// The messages that were written.
pub fn messages(mut bytes: &[u8]) -> Vec<Value> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("headers");
        let header = std::str::from_utf8(&bytes[..end]).expect("text");
        let length: usize =
            header.strip_prefix("Content-Length: ").expect("a length").parse().expect("a number");
        all.push(serde_json::from_slice(&bytes[end + 4..end + 4 + length]).expect("JSON"));
        bytes = &bytes[end + 4 + length..];
    }
    all
}

/// An editor.
pub struct Editor<'c, 'r> {
    server: Server<'c, 'r>,
    number: i64,
}

impl<'c, 'r> Editor<'c, 'r> {
    pub fn new(replay: &'r mut Replay<'c>) -> Self {
        let sources = SourceFolders::new([repository().join("testdata/programs")]);
        Self::of(Server::new(replay, Settings { sources }))
    }

    pub fn of(server: Server<'c, 'r>) -> Self {
        Self { server, number: 0 }
    }

    /// Asks, and gives the response and the events.
    pub fn all(&mut self, command: &str, arguments: &Value) -> (Value, Vec<Value>) {
        self.number += 1;
        let mut out = Vec::new();
        let body = body(self.number, command, arguments);
        assert!(self.server.take(&body, &mut out).expect("memory takes everything"), "{command}");
        let (responses, events): (Vec<_>, Vec<_>) =
            messages(&out).into_iter().partition(|message| message["type"] == "response");
        let [response] = &responses[..] else { panic!("{command}: {responses:?}") };
        assert_eq!(response["request_seq"], self.number);
        (response.clone(), events)
    }

    /// Asks for what there has to be.
    pub fn ask(&mut self, command: &str, arguments: Value) -> Value {
        let (response, _) = self.all(command, &arguments);
        assert_eq!(response["success"], true, "{command} {arguments}: {response}");
        response["body"].clone()
    }

    /// Moves, and gives the reason of the stop, the number of the instruction, and its address.
    pub fn go(&mut self, command: &str, arguments: Value) -> (String, u64, u64) {
        let (response, events) = self.all(command, &arguments);
        assert_eq!(response["success"], true, "{command} {arguments}: {response}");
        stop(&events).unwrap_or_else(|| panic!("{command} {arguments}: {events:?}"))
    }

    pub fn step(&mut self, command: &str) -> (String, u64, u64) {
        self.go(command, json!({"threadId": 1, "granularity": "instruction"}))
    }

    pub fn go_to(&mut self, number: u64) {
        let (response, _) =
            self.all("evaluate", &json!({"expression": format!("goto #{number}"), "context": "repl"}));
        assert_eq!(response["success"], true, "{response}");
    }
}

/// The stop among events.
pub fn stop(events: &[Value]) -> Option<(String, u64, u64)> {
    let of = |name: &str| events.iter().find(|event| event["event"] == name).map(|event| &event["body"]);
    let (moment, stopped) = (of("backsight.moment")?, of("stopped")?);
    let digits = moment["address"].as_str()?.strip_prefix("0x")?;
    let address = u64::from_str_radix(digits, 16).ok()?;
    Some((stopped["reason"].as_str()?.to_owned(), moment["instruction"].as_u64()?, address))
}
