//! A table in C.

use std::fmt::Write;

use super::comment;
use crate::sequence::{Action, RegisterAccess};
use crate::session::Session;

const PREAMBLE: &str = "\
/* Starts and stops a trace session: do what each row says, in order. */
#include <stdint.h>

enum trace_operation {
    TRACE_WRITE,     /* write value to address */
    TRACE_CHANGE,    /* read address, replace the bits of mask by those of value, write it back */
    TRACE_WAIT,      /* read address until (what was read & mask) == value */
    TRACE_READ,      /* read address and keep the value with the trace */
    TRACE_READ_TRACE /* read address until it is 0xffffffff; what was read before that is the trace */
};

struct trace_step {
    uint64_t address;
    uint32_t mask;
    uint32_t value;
    enum trace_operation operation;
};
";

/// The accesses as two tables, `trace_start` and `trace_stop`.
pub fn c_table(session: &Session) -> String {
    let mut text = PREAMBLE.to_owned();
    for (name, steps) in [("trace_start", &session.start), ("trace_stop", &session.stop)] {
        let _ = writeln!(text, "\nstatic const struct trace_step {name}[] = {{");
        steps.iter().for_each(|step| row(step, &mut text));
        text.push_str("};\n");
    }
    text
}

fn row(step: &RegisterAccess, text: &mut String) {
    let (mask, value, operation) = match step.action {
        Action::Write(value) => (u32::MAX, value, "TRACE_WRITE"),
        Action::Change { mask, value } => (mask, value, "TRACE_CHANGE"),
        Action::Wait { mask, value } => (mask, value, "TRACE_WAIT"),
        Action::Read => (u32::MAX, 0, "TRACE_READ"),
        Action::ReadTrace => (u32::MAX, 0, "TRACE_READ_TRACE"),
    };
    // A name that the user chose does not end the comment.
    let comment = comment(step).replace("*/", "* /");
    let address = step.address;
    let _ = writeln!(text, "    {{ {address:#x}u, {mask:#x}u, {value:#x}u, {operation} }}, /* {comment} */");
}
