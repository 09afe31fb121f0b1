//! What each event says, field by field, and in a line of text.

use std::fmt;

use backsight_core::describe::write_after;
use backsight_core::{Address, Cause, Describe, Field, Text, Value};

use crate::describe_messages::{hardware_fields, software_fields, source_time_fields};
use crate::{Channel, Event, NoSync, Outcome, Range, SourceTime, Symptom, TracedAccess};

use Text::{Hidden, Plain, Within, Words};
use Value::{Absent, Bits, Decimal, Flag, Hexadecimal, Word};

type Each<'e> = &'e mut dyn FnMut(Field);

impl Describe for Event {
    fn name(&self) -> &'static str {
        match self {
            Self::StartOfTrace => "start",
            Self::NoSync(_) => "gap",
            Self::TraceOn(_) => "trace_on",
            Self::Context(..) => "context",
            Self::Range(_) => "range",
            Self::AddressUnknown => "address_unknown",
            Self::PathUnknown { .. } => "path_unknown",
            Self::UncountedLoop { .. } => "uncounted_loop",
            Self::NoMemory { .. } => "no_memory",
            Self::Exception { .. } => "exception",
            Self::ExceptionReturn => "exception_return",
            Self::Timestamp { .. } => "timestamp",
            Self::CycleCount(_) => "cycle_count",
            Self::Trigger => "trigger",
            Self::UnitEvents(_) => "events",
            Self::TimestampMarker => "timestamp_marker",
            Self::Transaction(_) => "transaction",
            Self::Software(message) => match message.channel {
                Channel::ExceptionLevel(_) => "instrumentation",
                _ => "message",
            },
            Self::Hardware(_) => "hardware",
            Self::SourceTime(SourceTime::Local { .. }) => "local_timestamp",
            Self::SourceTime(SourceTime::Global { .. }) => "timestamp",
            Self::Condition { .. } => "condition",
            Self::Access(_) => "access",
            Self::AccessesLost => "accesses_lost",
            Self::Mismatch { .. } => "mismatch",
            Self::EndOfTrace { .. } => "end",
        }
    }

    fn fields(&self, each: Each<'_>) {
        let why = |words| Field::new("why", Word(words)).text(Plain);
        match *self {
            Self::StartOfTrace
            | Self::AddressUnknown
            | Self::ExceptionReturn
            | Self::Trigger
            | Self::TimestampMarker
            | Self::AccessesLost => {}
            Self::NoSync(reason) => each(why(reason.text())),
            Self::TraceOn(reason) => each(why(reason.text())),
            Self::Context(context, isa) => {
                each(Field::new("isa", Word(isa.name())).text(Plain));
                context.fields(each);
            }
            Self::Range(range) => range_fields(&range, each),
            Self::PathUnknown { start, next, instructions } => path_unknown(start, next, instructions, each),
            Self::UncountedLoop { address } => {
                let text = Within("at ", ": how often it ran is not in the trace");
                each(Field::new("address", Value::Address(address)).text(text));
            }
            Self::NoMemory { address, space } => {
                each(Field::new("address", Value::Address(address)).text(Within("no code at ", "")));
                each(match space.name() {
                    Some(name) => Field::new("space", Word(name)).text(Within("(", ")")),
                    None => Field::new("space", Absent).text(Words("(several memory spaces)")),
                });
            }
            Self::Exception { .. } => exception(self, each),
            Self::Timestamp { value, cycles } => {
                each(Field::new("timestamp", Hexadecimal(value)).text(Plain));
                each(Field::new("cycles", decimal(cycles)).text(Within("+", " cycles")));
            }
            Self::CycleCount(cycles) => each(Field::new("cycles", decimal(cycles)).text(match cycles {
                Some(_) => Within("+", ""),
                None => Words("unknown"),
            })),
            Self::UnitEvents(events) => each(Field::new("events", Bits(events.into(), 4)).text(Plain)),
            Self::Transaction(step) => each(Field::new("what", Word(step.text())).text(Plain)),
            Self::Software(message) => software_fields(&message, each),
            Self::Hardware(event) => hardware_fields(&event, each),
            Self::SourceTime(time) => source_time_fields(&time, each),
            Self::Condition { key, outcome } => {
                let flags =
                    if let Outcome::Flags(flags) = outcome { Hexadecimal(flags.into()) } else { Absent };
                each(Field::new("key", Decimal(key.into())).text(Within("", ":")));
                each(Field::new("outcome", Word(outcome.text())).text(Plain));
                each(Field::new("flags", flags).text(Hidden));
            }
            Self::Access(access) => access_fields(&access, each),
            Self::Mismatch { symptom, address } => {
                each(Field::new("address", Value::Address(address)).text(Within("at ", ":")));
                each(why(symptom.text()));
            }
            Self::EndOfTrace { after_overflow } => {
                each(
                    Field::new("after_overflow", Flag(after_overflow))
                        .text(Words("after an overflow"))
                        .comma(),
                );
            }
        }
    }
}

fn decimal(number: Option<u32>) -> Value {
    number.map_or(Absent, |number| Decimal(number.into()))
}

fn hexadecimal(number: Option<u64>) -> Value {
    number.map_or(Absent, Hexadecimal)
}

fn address(address: Option<Address>) -> Value {
    address.map_or(Absent, Value::Address)
}

fn range_fields(range: &Range, each: Each<'_>) {
    let Range { start, end, instructions, isa, flags, last_size, executed, .. } = *range;
    each(Field::new("start", Value::Address(start)).text(Within("", "")));
    each(Field::new("end", Value::Address(end)).text(Within("", "")).separated("-"));
    each(Field::new("instructions", Decimal(instructions.into())).text(Within("", " instructions")));
    each(Field::new("isa", Word(isa.name())).text(Plain));
    let ending = range.ending();
    each(Field::new("last", Word(ending)).text(if ending.is_empty() { Hidden } else { Plain }));
    each(Field::new("last_size", Decimal(last_size.into())).text(Hidden));
    each(Field::new("taken", Flag(executed)).text(Hidden));
    each(Field::new("conditional", Flag(flags.conditional)).text(Hidden));
}

fn path_unknown(start: Option<Address>, next: Address, instructions: u32, each: Each<'_>) {
    let count = Field::new("instructions", Decimal(instructions.into()));
    each(count.text(if instructions == 0 {
        Words("some instructions")
    } else {
        Within("", " instructions")
    }));
    each(Field::new("start", address(start)).text(Within("from ", "")));
    each(Field::new("next", Value::Address(next)).text(Within("path unknown, then ", "")).comma());
}

fn exception(event: &Event, each: Each<'_>) {
    let Event::Exception { cause, return_address, is_branch_target, fault_pending, value } = *event else {
        return;
    };
    let number = Field::new("number", Hexadecimal(cause.number().into()));
    each(number.text(if matches!(cause, Cause::NotTraced { .. }) { Hidden } else { Plain }));
    each(Field::new("name", cause.name().map_or(Absent, Word)).text(Within("(", ")")));
    each(Field::new("interrupt", Flag(cause.is_interrupt())).text(Hidden));
    each(Field::new("return_address", address(return_address)).text(Within("returns to ", "")).comma());
    each(Field::new("branch_target", Flag(is_branch_target)).text(Words("(target of the branch before)")));
    each(Field::new("fault_pending", Flag(fault_pending)).text(Words("fault pending")).comma());
    each(
        Field::new("value", Hexadecimal(value))
            .text(match value {
                0 => Hidden,
                _ => Within("value ", ""),
            })
            .comma(),
    );
}

fn access_fields(access: &TracedAccess, each: Each<'_>) {
    each(Field::new("kind", Word(access.kind().text())).text(Plain));
    let size = if access.size() > 0 { Decimal(access.size().into()) } else { Absent };
    each(Field::new("size", size).text(Within("of ", " bytes")));
    each(Field::new("address", address(access.address())).text(Within("at ", "")));
    each(Field::new("value", hexadecimal(access.value())).text(Within("value ", "")).comma());
    each(Field::new("operand", hexadecimal(access.operand())).text(Within("operand ", "")).comma());
    each(Field::new("instruction", address(access.instruction())).text(Within("by ", "")).comma());
    each(Field::new("failed", Flag(access.has_failed())).text(Words("failed")).comma());
}

impl Event {
    /// What the line of text begins with.
    const fn heading(&self) -> &'static str {
        match self {
            Self::StartOfTrace => "start of trace",
            Self::NoSync(_) | Self::PathUnknown { .. } | Self::NoMemory { .. } => "gap:",
            Self::AddressUnknown => "gap: instructions at an address that is not known",
            Self::AccessesLost => "gap: accesses are missing to the next one",
            Self::UncountedLoop { .. } => "loop without branches",
            Self::TraceOn(_) => "trace on:",
            Self::Context(..) => "context:",
            Self::Range(_) | Self::Access(_) => "",
            Self::Exception { cause, .. } if cause.is_interrupt() => "interrupt",
            Self::Exception { .. } => "exception",
            Self::ExceptionReturn => "exception return",
            Self::Timestamp { .. } => "timestamp",
            Self::CycleCount(_) => "cycles",
            Self::Trigger => "trigger",
            Self::UnitEvents(_) => "events",
            Self::TimestampMarker => "timestamp marker",
            Self::Transaction(_) => "transaction",
            Self::Software(message) => match message.channel {
                Channel::ExceptionLevel(_) => "instrumentation",
                _ => "message",
            },
            Self::Hardware(_) => "hardware:",
            Self::SourceTime(SourceTime::Local { .. }) => "local timestamp",
            Self::SourceTime(SourceTime::Global { .. }) => "timestamp",
            Self::Condition { .. } => "condition",
            Self::Mismatch { .. } => "image does not fit",
            Self::EndOfTrace { .. } => "end of trace",
        }
    }
}

/// One line.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_after(self.heading(), self, f)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Event::Range(*self).fmt(f)
    }
}

impl fmt::Display for NoSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}
