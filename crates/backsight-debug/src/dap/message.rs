//! Requests, and what is answered.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::wire::send;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub number: i64,
    pub command: String,
    pub arguments: Value,
}

impl Request {
    /// Reads one.
    ///
    /// # Errors
    /// In words, if it is none.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        let mut message: Value =
            serde_json::from_slice(body).map_err(|error| format!("a message that is no JSON: {error}"))?;
        let number = message.get("seq").and_then(Value::as_i64);
        let command = message.get("command").and_then(Value::as_str).map(str::to_owned);
        let is_request = message.get("type").and_then(Value::as_str) == Some("request");
        let (Some(number), Some(command), true) = (number, command, is_request) else {
            return Err("a message that is no request".to_owned());
        };
        let arguments = message.get_mut("arguments").map(Value::take).unwrap_or_default();
        Ok(Self { number, command, arguments })
    }

    /// A number among the arguments.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.arguments.get(name)?.as_i64()
    }

    /// A text among the arguments.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name)?.as_str()
    }

    /// A list among the arguments; nothing where there is none.
    pub fn list(&self, name: &str) -> &[Value] {
        self.arguments.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// What goes to the editor.
pub(super) struct Talk<'o> {
    out: Box<dyn Write + 'o>,
    number: i64,
}

impl<'o> Talk<'o> {
    pub fn new(out: impl Write + 'o) -> Self {
        Self { out: Box::new(out), number: 0 }
    }

    fn send(&mut self, mut message: Value) -> io::Result<()> {
        self.number += 1;
        message["seq"] = self.number.into();
        send(&mut self.out, &message.to_string())
    }

    /// Something happened.
    pub fn event(&mut self, name: &str, body: Value) -> io::Result<()> {
        self.send(json!({"type": "event", "event": name, "body": body}))
    }

    /// Text for the user.
    pub fn say(&mut self, category: &str, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.event("output", json!({"category": category, "output": text}))
    }

    /// It was done.
    pub fn answer(&mut self, request: &Request, body: Value) -> io::Result<()> {
        let Request { number, command, .. } = request;
        let mut answer =
            json!({"type": "response", "request_seq": number, "success": true, "command": command});
        if !body.is_null() {
            answer["body"] = body;
        }
        self.send(answer)
    }

    /// It was not done. A user sees why where that is of use.
    pub fn refuse(&mut self, request: &Request, why: &str, is_shown: bool) -> io::Result<()> {
        let Request { number, command, .. } = request;
        // Braces in the format would be names of variables.
        let error = json!({"id": 1, "format": "{why}", "variables": {"why": why}, "showUser": is_shown});
        self.send(json!({
            "type": "response", "request_seq": number, "success": false, "command": command, "message": why,
            "body": {"error": error},
        }))
    }

    /// The session is over.
    pub fn end(&mut self, request: Option<&Request>) -> io::Result<()> {
        if let Some(request) = request {
            self.answer(request, Value::Null)?;
        }
        self.event("terminated", Value::Null)?;
        self.event("exited", json!({"exitCode": 0}))
    }
}

/// What a server of this protocol can do.
pub(super) fn capabilities() -> Value {
    json!({
        "supportsConfigurationDoneRequest": true,
        "supportsFunctionBreakpoints": true,
        "supportsInstructionBreakpoints": true,
        "supportsStepBack": true,
        "supportsSteppingGranularity": true,
        "supportsGotoTargetsRequest": true,
        "supportsDisassembleRequest": true,
        "supportsReadMemoryRequest": true,
        "supportsModulesRequest": true,
        "supportsExceptionInfoRequest": true,
        "supportsDelayedStackTraceLoading": true,
        "supportsEvaluateForHovers": true,
        "supportsCancelRequest": true,
        "supportsTerminateRequest": true,
        "exceptionBreakpointFilters": [
            {"filter": "gaps", "label": "Gaps", "description": "Stops where something is missing in the trace", "default": true},
            {"filter": "exceptions", "label": "Exceptions and interrupts", "description": "Stops where one was taken", "default": false},
        ],
    })
}
