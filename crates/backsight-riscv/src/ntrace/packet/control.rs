//! What processes run, what was lost, and why tracing ends.
//!
//! ```text
//! Ownership                PROCESS
//! Error                    ETYPE (4)    ECODE
//! Program Trace Correlation  EVCODE (4)   CDF (2)   I-CNT   [HIST, if CDF is 1]
//! ```

use backsight_core::{Field, Value};

use super::branch::{instruction_count, outcomes};
use super::{Bad, Each, Message};
use crate::ntrace::event;
use crate::ntrace::fields::{FieldReader, FieldValue, FieldWriter};
use crate::ntrace::process::{Process, ProcessContext};
use crate::ntrace::table::Kind;

/// Reads one of these messages.
pub(super) fn read<V: FieldValue>(kind: Kind, from: &mut FieldReader<'_, V>) -> Result<Message, Bad> {
    Ok(match kind {
        Kind::Ownership => Message::Ownership { process: from.variable()? },
        Kind::Error => Message::Error { kind: from.fixed(4) as u8, code: from.variable()? },
        _ => {
            let (reason, has_history) = (from.fixed(4) as u8, from.fixed(2) == 1);
            let count = from.instruction_count()?;
            let history = if has_history { Some(from.history()?) } else { None };
            Message::ProgramTraceCorrelation { reason, count, history }
        }
    })
}

/// Writes one of them.
pub(super) fn write(message: &Message, to: &mut FieldWriter<'_>) {
    match *message {
        Message::Ownership { process } => to.variable(process),
        Message::Error { kind, code } => {
            to.fixed(kind.into(), 4);
            to.variable(code);
        }
        Message::ProgramTraceCorrelation { reason, count, history } => {
            to.fixed(reason.into(), 4);
            to.fixed(history.is_some().into(), 2);
            to.variable(count.into());
            if let Some(history) = history {
                to.variable(history.0);
            }
        }
        _ => {}
    }
}

/// Lists one of them.
pub(super) fn fields(message: &Message, each: Each<'_>) {
    match *message {
        Message::Ownership { process } => ownership(process, each),
        Message::Error { kind, code } => {
            each(Field::new("ETYPE", Value::Decimal(kind.into())));
            each(Field::new("ECODE", Value::Hexadecimal(code)));
        }
        Message::ProgramTraceCorrelation { reason, count, history } => {
            each(Field::new("EVCODE", Value::Decimal(reason.into())));
            each(Field::new("reason", Value::Word(event::name(reason))));
            instruction_count(count, each);
            if let Some(history) = history {
                outcomes(history, each);
            }
        }
        _ => {}
    }
}

fn ownership(process: u64, each: Each<'_>) {
    each(Field::new("PROCESS", Value::Hexadecimal(process)));
    let Some(Process { privilege, context }) = Process::from_field(process) else { return };
    each(Field::new("privilege", Value::Decimal(privilege.into())));
    match context {
        ProcessContext::Same => {}
        ProcessContext::Supervisor(context) => each(Field::new("scontext", Value::Hexadecimal(context))),
        ProcessContext::Hypervisor(context) => each(Field::new("hcontext", Value::Hexadecimal(context))),
    }
}
