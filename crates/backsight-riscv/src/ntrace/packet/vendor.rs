//! What only SiFive's encoders send.
//!
//! ```text
//! Data Acquisition   IDTAG   DATA
//! In-Circuit Trace   CKSRC (4)   CKDF (2)   CKDATA0   [CKDATA1, if CKDF is 1]
//! ```

use backsight_core::{Field, Value};

use super::{Bad, Each, Message};
use crate::ntrace::fields::{FieldReader, FieldValue, FieldWriter};
use crate::ntrace::in_circuit;
use crate::ntrace::table::Kind;

/// Reads one of these messages.
pub(super) fn read<V: FieldValue>(kind: Kind, from: &mut FieldReader<'_, V>) -> Result<Message, Bad> {
    if let Kind::DataAcquisition | Kind::AuxAccessWrite = kind {
        let (tag, data) = (from.bounded(32)?, from.variable()?);
        return Ok(Message::DataAcquisition { tag, data, old: kind == Kind::AuxAccessWrite });
    }
    let (event, more) = (from.fixed(4) as u8, from.fixed(2));
    if more > 1 {
        return Ok(Message::Other(kind as u8));
    }
    let first = from.variable()?;
    let second = if more == 1 { Some(from.variable()?) } else { None };
    Ok(Message::InCircuitTrace { event, is_sync: kind == Kind::InCircuitTraceSync, first, second })
}

/// Writes one of them.
pub(super) fn write(message: &Message, to: &mut FieldWriter<'_>) {
    match *message {
        Message::DataAcquisition { tag, data, .. } => {
            to.variable(tag.into());
            to.variable(data);
        }
        Message::InCircuitTrace { event, first, second, .. } => {
            to.fixed(event.into(), 4);
            to.fixed(second.is_some().into(), 2);
            to.variable(first);
            if let Some(second) = second {
                to.variable(second);
            }
        }
        _ => {}
    }
}

/// Lists one of them.
pub(super) fn fields(message: &Message, each: Each<'_>) {
    match *message {
        Message::DataAcquisition { tag, data, .. } => {
            each(Field::new("IDTAG", Value::Hexadecimal(tag.into())));
            each(Field::new("DATA", Value::Hexadecimal(data)));
        }
        Message::InCircuitTrace { event, first, second, .. } => {
            each(Field::new("CKSRC", Value::Decimal(event.into())));
            each(Field::new("event", Value::Word(in_circuit::name(event))));
            each(Field::new("CKDATA0", Value::Hexadecimal(first)));
            if let Some(second) = second {
                each(Field::new("CKDATA1", Value::Hexadecimal(second)));
            }
        }
        _ => {}
    }
}
