//! What was executed, for people and for programs: one line, or one JSON object, per event.

use std::fmt;

use backsight_core::{Context, Privilege};
use backsight_flow::{Event, Outcome, Range, TraceOn, Transaction};
use backsight_isa::Class;
use serde_json::{Value, json};

/// How a range ended, in a word or two.
pub fn ending(range: &Range) -> &'static str {
    let flags = range.flags;
    match range.class {
        _ if !range.executed && range.class != Class::Other => "not taken",
        Class::DirectBranch if flags.link => "call",
        Class::DirectBranch => "branch",
        Class::IndirectBranch if flags.exception_return => "exception return",
        Class::IndirectBranch if flags.returns => "return",
        Class::IndirectBranch if flags.link => "indirect call",
        Class::IndirectBranch => "indirect branch",
        Class::Isb => "isb",
        Class::DataBarrier => "barrier",
        Class::Wait => "wait",
        Class::TransactionStart => "tstart",
        Class::Other => "",
    }
}

/// An event other than a range, in words.
pub struct Words<'a>(pub &'a Event);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Event::NoSync(why) => write!(f, "gap: {}", why.text()),
            Event::TraceOn(why) => write!(f, "trace on: {}", trace_on_words(*why)),
            Event::Context(context, isa) => {
                write!(f, "context: {isa} ")?;
                write!(f, "{context}")
            }
            Event::Range(range) => write!(
                f,
                "{:#x}-{:#x} {} instructions {} {}",
                range.start.0,
                range.end.0,
                range.instructions,
                range.isa,
                ending(range)
            ),
            Event::PathUnknown { start, next, instructions: 0 } => {
                write!(f, "gap: some instructions from {start}, path unknown, then {next}")
            }
            Event::PathUnknown { start, next, instructions } => {
                write!(f, "gap: {instructions} instructions from {start}, path unknown, then {next}")
            }
            Event::NoMemory { address, space } => {
                write!(f, "gap: no code at {address} ({})", space.name().unwrap_or("several memory spaces"))
            }
            Event::Exception { cause, return_address, is_branch_target, fault_pending, value } => {
                write!(f, "{cause}")?;
                if let Some(address) = return_address {
                    write!(f, ", returns to {address}")?;
                }
                if *is_branch_target {
                    f.write_str(" (target of the branch before)")?;
                }
                if *fault_pending {
                    f.write_str(", fault pending")?;
                }
                if *value != 0 { write!(f, ", value {value:#x}") } else { Ok(()) }
            }
            Event::ExceptionReturn => f.write_str("exception return"),
            Event::Timestamp { value, cycles } => {
                write!(f, "timestamp {value:#x}")?;
                cycles.map_or(Ok(()), |cycles| write!(f, " +{cycles} cycles"))
            }
            Event::CycleCount(Some(cycles)) => write!(f, "cycles +{cycles}"),
            Event::CycleCount(None) => f.write_str("cycles unknown"),
            Event::UnitEvents(events) => write!(f, "events {events:#06b}"),
            Event::TimestampMarker => f.write_str("timestamp marker"),
            Event::Transaction(what) => write!(f, "transaction {}", transaction_word(*what)),
            Event::Instrumentation { level, value } => write!(f, "instrumentation EL{level} {value:#018x}"),
            Event::Condition { key, outcome } => write!(f, "condition {key}: {}", outcome_words(*outcome)),
            Event::Access(access) => write!(f, "{access}"),
            Event::Mismatch { symptom, address } => {
                write!(f, "image does not fit at {address}: {}", symptom.text())
            }
            Event::EndOfTrace { after_overflow: false } => f.write_str("end of trace"),
            Event::EndOfTrace { after_overflow: true } => f.write_str("end of trace, after an overflow"),
        }
    }
}

/// A context as a JSON object.
fn context_json(context: &Context) -> Value {
    let bits = if context.wide { 64 } else { 32 };
    let (vmid, context_id) = (context.vmid, context.context_id);
    match context.privilege {
        Privilege::Arm { level, security } => json!({
            "level": level, "security": security.name(), "bits": bits, "vmid": vmid, "context_id": context_id,
        }),
        Privilege::Riscv(mode) => json!({
            "mode": mode.0, "mode_name": mode.name(), "bits": bits, "vmid": vmid, "context_id": context_id,
        }),
        Privilege::Unknown => json!({"bits": bits, "vmid": vmid, "context_id": context_id}),
    }
}

fn trace_on_words(why: TraceOn) -> &'static str {
    match why {
        TraceOn::Begin => "begin or filter",
        TraceOn::Overflow => "after an overflow",
        TraceOn::DebugRestart => "after debug state",
    }
}

fn transaction_word(what: Transaction) -> &'static str {
    match what {
        Transaction::Initial => "under way",
        Transaction::Start => "start",
        Transaction::Commit => "commit",
        Transaction::Failure => "failure",
    }
}

/// What the trace says about a condition, in words.
fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Failed => "failed",
        Outcome::Passed => "passed",
        Outcome::Flags(_) => "by the flags",
        Outcome::Unknown => "unknown",
    }
}

/// An event as a JSON object, without its place.
pub fn json(event: &Event) -> Value {
    let hex = |address: backsight_core::Address| format!("{:#x}", address.0);
    match event {
        Event::NoSync(why) => json!({"event": "gap", "why": why.text()}),
        Event::TraceOn(why) => json!({"event": "trace_on", "why": trace_on_words(*why)}),
        Event::Context(context, isa) => {
            json!({"event": "context", "isa": isa.name(), "context": context_json(context)})
        }
        Event::Range(range) => json!({
            "event": "range",
            "start": hex(range.start),
            "end": hex(range.end),
            "instructions": range.instructions,
            "isa": range.isa.name(),
            "last": ending(range),
            "last_size": range.last_size,
            "taken": range.executed,
            "conditional": range.flags.conditional,
        }),
        Event::PathUnknown { start, next, instructions } => json!({
            "event": "path_unknown", "start": hex(*start), "next": hex(*next), "instructions": instructions,
        }),
        Event::NoMemory { address, space } => {
            json!({"event": "no_memory", "address": hex(*address), "space": space.name()})
        }
        Event::Exception { cause, return_address, is_branch_target, fault_pending, value } => {
            json!({
                "event": "exception",
                "number": cause.number(),
                "name": cause.name(),
                "interrupt": cause.is_interrupt(),
                "return_address": return_address.map(hex),
                "branch_target": is_branch_target,
                "fault_pending": fault_pending,
                "value": value,
            })
        }
        Event::ExceptionReturn => json!({"event": "exception_return"}),
        Event::Timestamp { value, cycles } => {
            json!({"event": "timestamp", "timestamp": value, "cycles": cycles})
        }
        Event::CycleCount(cycles) => json!({"event": "cycle_count", "cycles": cycles}),
        Event::UnitEvents(events) => json!({"event": "events", "events": events}),
        Event::TimestampMarker => json!({"event": "timestamp_marker"}),
        Event::Transaction(what) => json!({"event": "transaction", "what": transaction_word(*what)}),
        Event::Instrumentation { level, value } => {
            json!({"event": "instrumentation", "level": level, "value": value})
        }
        Event::Condition { key, outcome } => {
            let flags = if let Outcome::Flags(flags) = outcome { Some(*flags) } else { None };
            json!({"event": "condition", "key": key, "outcome": outcome_words(*outcome), "flags": flags})
        }
        Event::Access(access) => json!({
            "event": "access",
            "kind": access.kind().text(),
            "size": access.size(),
            "address": access.address().map(hex),
            "value": access.value(),
            "operand": access.operand(),
            "failed": access.has_failed(),
        }),
        Event::Mismatch { symptom, address } => {
            json!({"event": "mismatch", "why": symptom.text(), "address": hex(*address)})
        }
        Event::EndOfTrace { after_overflow } => json!({"event": "end", "after_overflow": after_overflow}),
    }
}
