//! What an editor asks for when it wants to move.

use crate::motion::{Calls, Motion};
use crate::replay::Direction::{Backwards, Forwards};

use super::message::Request;

/// The one that a request asks for, and the number of the thread.
///
/// # Errors
/// In words, if it makes no sense.
pub(super) fn of_request(request: &Request) -> Result<(Option<i64>, Motion), String> {
    let is_instruction = match request.text("granularity") {
        None | Some("statement" | "line") => false,
        Some("instruction") => true,
        Some(_) => return Err("steps are by statement, line or instruction".to_owned()),
    };
    let step = |direction, calls| match is_instruction {
        true => Motion::Instruction(direction, calls),
        false => Motion::Line(direction, calls),
    };
    let motion = match &*request.command {
        "continue" => Motion::Run(Forwards),
        "reverseContinue" => Motion::Run(Backwards),
        "next" => step(Forwards, Calls::Over),
        "stepIn" => step(Forwards, Calls::Into),
        "stepBack" if is_instruction => Motion::Instruction(Backwards, Calls::Into),
        "stepBack" => Motion::Line(Backwards, Calls::Over),
        _ => Motion::Out(Forwards),
    };
    Ok((request.number("threadId"), motion))
}

/// Those that the protocol has no requests for, by their names in gdb.
pub(super) fn named(name: &str) -> Option<Motion> {
    Some(match name {
        "reverse-step" => Motion::Line(Backwards, Calls::Into),
        "reverse-next" => Motion::Line(Backwards, Calls::Over),
        "reverse-finish" => Motion::Out(Backwards),
        _ => return None,
    })
}
