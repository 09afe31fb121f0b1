//! One access a line.

use std::fmt::Write;

use super::comment;
use crate::sequence::{Action, RegisterAccess};
use crate::session::Session;

/// The accesses as lines of words: `write ADDRESS VALUE`, `change ADDRESS MASK VALUE`, `wait ADDRESS MASK VALUE`, `read
/// ADDRESS`, `read-trace ADDRESS`, all numbers hexadecimal; a comment after `#`.
pub fn words(session: &Session) -> String {
    let mut text = String::new();
    for (title, steps) in [("start", &session.start), ("stop", &session.stop)] {
        let _ = writeln!(text, "# {title}");
        for step in steps {
            let _ = writeln!(text, "{:<44}# {}", access(step), comment(step));
        }
    }
    text
}

fn access(step: &RegisterAccess) -> String {
    let address = step.address;
    match step.action {
        Action::Write(value) => format!("write {address:#010x} {value:#010x}"),
        Action::Change { mask, value } => format!("change {address:#010x} {mask:#010x} {value:#010x}"),
        Action::Wait { mask, value } => format!("wait {address:#010x} {mask:#010x} {value:#010x}"),
        Action::Read => format!("read {address:#010x}"),
        Action::ReadTrace => format!("read-trace {address:#010x}"),
    }
}
