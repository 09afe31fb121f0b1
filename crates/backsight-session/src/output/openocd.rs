//! A script for OpenOCD.

use std::fmt::Write;

use super::comment;
use crate::sequence::{Action, RegisterAccess};
use crate::session::Session;

const PREAMBLE: &str = "\
# Starts and stops a trace session: select a target that reaches the addresses (a mem_ap, say), then
# `start_trace`, and later `stop_trace FILE`. A buffer that is read through its component goes to FILE, as hexadecimal
# digits; `xxd -r -p FILE trace.bin` makes it the trace.

proc trace_word {address} { return [lindex [read_memory $address 32 1] 0] }

proc trace_change {address mask value} {
    mww $address [expr {([trace_word $address] & ~$mask) | $value}]
}

proc trace_wait {address mask value what} {
    for {set tries 0} {$tries < 1000} {incr tries} {
        if {([trace_word $address] & $mask) == $value} { return }
    }
    error \"$what: waited in vain for bits $mask of $address to be $value\"
}

proc trace_read {address file} {
    set out [open $file w]
    while {[set word [trace_word $address]] != 0xffffffff} {
        foreach shift {0 8 16 24} { puts -nonewline $out [format %02x [expr {($word >> $shift) & 255}]] }
        puts $out {}
    }
    close $out
}
";

/// The accesses as procedures `start_trace` and `stop_trace` for OpenOCD.
pub fn openocd(session: &Session) -> String {
    let mut text = PREAMBLE.to_owned();
    procedure("start_trace {}", &session.start, &mut text);
    procedure("stop_trace {{file trace.hex}}", &session.stop, &mut text);
    text
}

fn procedure(title: &str, steps: &[RegisterAccess], text: &mut String) {
    let _ = writeln!(text, "\nproc {title} {{");
    for step in steps {
        let (address, comment) = (step.address, comment(step));
        let _ = match step.action {
            Action::Write(value) => writeln!(text, "    mww {address:#x} {value:#x} ;# {comment}"),
            Action::Change { mask, value } => {
                writeln!(text, "    trace_change {address:#x} {mask:#x} {value:#x} ;# {comment}")
            }
            Action::Wait { mask, value } => {
                writeln!(text, "    trace_wait {address:#x} {mask:#x} {value:#x} \"{comment}\"")
            }
            Action::Read => writeln!(text, "    echo \"{comment}: [trace_word {address:#x}]\""),
            Action::ReadTrace => writeln!(text, "    trace_read {address:#x} $file ;# {comment}"),
        };
    }
    text.push_str("}\n");
}
