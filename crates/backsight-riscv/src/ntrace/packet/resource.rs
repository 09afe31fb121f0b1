//! A counter or the branch history was full.

use backsight_core::{Field, Value};

use super::branch::{History, instruction_count, outcomes};
use super::{Bad, Each};
use crate::ntrace::fields::{FieldReader, FieldValue, FieldWriter, INSTRUCTION_COUNT_BITS};

/// RCODE: what was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// I-CNT: so many half-words retired, and it begins again at 0.
    Count(u32),
    /// HIST.
    History(History),
    /// HIST, the same several times in a row.
    HistoryRepeat {
        /// HIST.
        history: History,
        /// HREPEAT: how many times it occurred.
        times: u32,
    },
    /// So many branches in a row, all taken or none of them (SiFive).
    Run {
        /// Were they taken?
        taken: bool,
        /// How many.
        branches: u32,
    },
    /// Something else: its RCODE.
    Other(u8),
}

// RCODE.
const COUNT: u8 = 0;
const HISTORY: u8 = 1;
const HISTORY_REPEAT: u8 = 2;
const NOT_TAKEN: u8 = 8;
const TAKEN: u8 = 9;

impl Resource {
    #[inline]
    pub(super) fn read<V: FieldValue>(from: &mut FieldReader<'_, V>) -> Result<Self, Bad> {
        Ok(match from.fixed(4) as u8 {
            COUNT => Self::Count(from.instruction_count()?),
            HISTORY => Self::History(from.history()?),
            HISTORY_REPEAT => Self::HistoryRepeat { history: from.history()?, times: from.repetitions()? },
            code @ (NOT_TAKEN | TAKEN) => {
                Self::Run { taken: code == TAKEN, branches: from.bounded(INSTRUCTION_COUNT_BITS)? }
            }
            other => Self::Other(other),
        })
    }

    /// False if it has no bytes of its own.
    pub(super) fn write(self, to: &mut FieldWriter<'_>) -> bool {
        let mut code = |code: u8| to.fixed(code.into(), 4);
        match self {
            Self::Count(count) => {
                code(COUNT);
                to.variable(count.into());
            }
            Self::History(history) => {
                code(HISTORY);
                to.variable(history.0);
            }
            Self::HistoryRepeat { history, times } => {
                code(HISTORY_REPEAT);
                to.variable(history.0);
                to.variable(times.into());
            }
            Self::Run { taken, branches } => {
                code(if taken { TAKEN } else { NOT_TAKEN });
                to.variable(branches.into());
            }
            Self::Other(_) => return false,
        }
        true
    }

    pub(super) fn fields(self, each: Each<'_>) {
        match self {
            Self::Count(count) => instruction_count(count, each),
            Self::History(history) => outcomes(history, each),
            Self::HistoryRepeat { history, times } => {
                outcomes(history, each);
                each(Field::new("HREPEAT", Value::Decimal(times.into())));
            }
            Self::Run { taken, branches } => {
                let name = if taken { "TAKEN" } else { "NOTTAKEN" };
                each(Field::new(name, Value::Decimal(branches.into())));
            }
            Self::Other(code) => each(Field::new("RCODE", Value::Decimal(code.into()))),
        }
    }
}
