//! Events in words, one line each.

use std::fmt;

use backsight_core::{Context, Isa, Security};
use backsight_isa::Class;

use crate::{Event, NoSync, Outcome, Range, Symptom, TraceOn, TracedAccess, Transaction};

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoSync(why) => write!(f, "no sync: {why}"),
            Self::TraceOn(why) => write!(f, "trace on{why}"),
            Self::Context(context, isa) => write_context(&context, isa, f),
            Self::Range(range) => write!(f, "{range}"),
            Self::PathUnknown { start, next, instructions: 0 } => {
                write!(f, "path unknown from {start} to {next}")
            }
            Self::PathUnknown { start, next, instructions } => {
                write!(f, "path unknown from {start} to {next}, {instructions} instructions")
            }
            Self::NoMemory { address, space } => {
                write!(f, "no code at {address} in {}", space.name().unwrap_or("memory"))
            }
            Self::Exception { cause, return_address, is_branch_target, fault_pending, value } => {
                write!(f, "{cause}")?;
                if let Some(address) = return_address {
                    write!(f, " at {address}")?;
                }
                if is_branch_target {
                    f.write_str(", where a branch went")?;
                }
                if fault_pending {
                    f.write_str(", a fault is pending")?;
                }
                if value != 0 { write!(f, ", value {value:#x}") } else { Ok(()) }
            }
            Self::ExceptionReturn => f.write_str("exception return"),
            Self::Timestamp { value, cycles: None } => write!(f, "time {value:#x}"),
            Self::Timestamp { value, cycles: Some(cycles) } => write!(f, "time {value:#x}, {cycles} cycles"),
            Self::CycleCount(Some(cycles)) => write!(f, "{cycles} cycles"),
            Self::CycleCount(None) => f.write_str("cycles unknown"),
            Self::UnitEvents(events) => {
                f.write_str("event")?;
                (0..8).filter(|event| events >> event & 1 == 1).try_for_each(|event| write!(f, " {event}"))
            }
            Self::TimestampMarker => f.write_str("timestamp marker"),
            Self::Transaction(step) => write!(f, "transaction {step}"),
            Self::Instrumentation { level, value } => write!(f, "instrumentation EL{level} {value:#x}"),
            Self::Condition { key, outcome } => write!(f, "condition {key}: {outcome}"),
            Self::Access(access) => write!(f, "{access}"),
            Self::Mismatch { symptom, address } => write!(f, "mismatch at {address}: {symptom}"),
            Self::EndOfTrace { after_overflow: false } => f.write_str("end of trace"),
            Self::EndOfTrace { after_overflow: true } => f.write_str("end of trace after overflow"),
        }
    }
}

impl fmt::Display for TracedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.kind().text(), self.size())?;
        if let Some(address) = self.address() {
            write!(f, " at {address}")?;
        }
        if let Some(value) = self.value() {
            write!(f, ", value {value:#x}")?;
        }
        if let Some(operand) = self.operand() {
            write!(f, ", operand {operand:#x}")?;
        }
        if self.has_failed() { f.write_str(", failed") } else { Ok(()) }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end, instructions, isa, .. } = self;
        write!(f, "range {start}..{end} {instructions} {isa}")?;
        let done = match self.class {
            Class::DirectBranch | Class::IndirectBranch if self.executed => " taken",
            Class::DirectBranch | Class::IndirectBranch => " not taken",
            _ if self.executed => "",
            _ => " not executed",
        };
        write!(f, "{}{done}", self.kind())
    }
}

impl Range {
    /// The last instruction in words, with a blank before; empty where it is nothing special.
    fn kind(&self) -> &'static str {
        match (self.class, self.flags.link) {
            (Class::Other, _) => "",
            (Class::DirectBranch, false) => " branch",
            (Class::DirectBranch, true) => " call",
            (Class::IndirectBranch, true) => " indirect call",
            (Class::IndirectBranch, false) if self.flags.returns => " return",
            (Class::IndirectBranch, false) if self.flags.exception_return => " exception return",
            (Class::IndirectBranch, false) => " indirect branch",
            (Class::Isb, _) => " isb",
            (Class::DataBarrier, _) => " barrier",
            (Class::Wait, _) => " wait",
            (Class::TransactionStart, _) => " transaction start",
        }
    }
}

fn write_context(context: &Context, isa: Isa, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let security = match context.privilege.security() {
        Security::Secure => "secure",
        Security::NonSecure => "non-secure",
        Security::Root => "root",
        Security::Realm => "realm",
    };
    match isa {
        Isa::Rv32 | Isa::Rv64 => write!(f, "context privilege {} {isa}", context.level())?,
        _ => write!(f, "context EL{} {security} {isa}", context.level())?,
    }
    if let Some(vmid) = context.vmid {
        write!(f, " vmid {vmid:#x}")?;
    }
    if let Some(id) = context.context_id {
        write!(f, " id {id:#x}")?;
    }
    Ok(())
}

impl fmt::Display for NoSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl fmt::Display for TraceOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begin => "",
            Self::Overflow => " after overflow",
            Self::DebugRestart => " after debug state",
        })
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initial => "under way",
            Self::Start => "start",
            Self::Commit => "commit",
            Self::Failure => "failure",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => f.write_str("failed"),
            Self::Passed => f.write_str("passed"),
            Self::Flags(flags) => write!(f, "flags {flags:#x}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}
