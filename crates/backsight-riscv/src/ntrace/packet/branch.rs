//! Branches, and synchronisation with them.
//!
//! ```text
//! [SYNC (4)]   [B-TYPE (2)]   I-CNT   [U-ADDR or F-ADDR]   [HIST]
//! ```

use backsight_core::{Field, Value};

use super::{Bad, Each, Message};
use crate::ntrace::fields::{FieldReader, FieldValue, FieldWriter};
use crate::ntrace::sync;
use crate::ntrace::table::Kind;

/// B-TYPE: what an indirect branch message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BranchKind {
    /// An indirect branch.
    Indirect,
    /// An exception or interrupt, which is not said.
    Trap,
    /// An exception.
    Exception,
    /// An interrupt.
    Interrupt,
}

impl BranchKind {
    /// From the two bits of B-TYPE.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Indirect,
            1 => Self::Trap,
            2 => Self::Exception,
            _ => Self::Interrupt,
        }
    }

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Indirect => "indirect",
            Self::Trap => "trap",
            Self::Exception => "exception",
            Self::Interrupt => "interrupt",
        }
    }

    /// The two bits of B-TYPE.
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

/// Outcomes of branches: the top bit that is set is a stop bit, below it 1 = taken, the newest in bit 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct History(pub u64);

impl History {
    /// No outcome.
    pub const EMPTY: Self = Self(1);

    /// How many outcomes there are.
    pub const fn len(self) -> u32 {
        63 - (self.0 | 1).leading_zeros()
    }

    /// Is there none?
    pub const fn is_empty(self) -> bool {
        self.0 <= 1
    }

    /// The outcomes, oldest first: `true` is taken.
    pub fn outcomes(self) -> impl Iterator<Item = bool> {
        (0..self.len()).rev().map(move |bit| self.0 >> bit & 1 == 1)
    }

    /// Appends an outcome.
    #[must_use]
    pub const fn with(self, taken: bool) -> Self {
        Self(self.0 << 1 | taken as u64)
    }
}

/// Reads one of these messages.
#[inline]
pub(super) fn read<V: FieldValue>(kind: Kind, from: &mut FieldReader<'_, V>) -> Result<Message, Bad> {
    let reason = |from: &mut FieldReader<'_, V>| from.fixed(4) as u8;
    let branch = |from: &mut FieldReader<'_, V>| BranchKind::from_bits(from.fixed(2) as u8);
    Ok(match kind {
        Kind::DirectBranch => Message::DirectBranch { count: from.instruction_count()? },
        Kind::IndirectBranch => Message::IndirectBranch {
            kind: branch(from),
            count: from.instruction_count()?,
            address: from.variable()?,
        },
        Kind::ProgramTraceSync => Message::ProgramTraceSync {
            reason: reason(from),
            count: from.instruction_count()?,
            address: from.variable()?,
        },
        Kind::DirectBranchSync => Message::DirectBranchSync {
            reason: reason(from),
            count: from.instruction_count()?,
            address: from.variable()?,
        },
        Kind::IndirectBranchSync => Message::IndirectBranchSync {
            reason: reason(from),
            kind: branch(from),
            count: from.instruction_count()?,
            address: from.variable()?,
        },
        Kind::IndirectBranchHistory => Message::IndirectBranchHistory {
            kind: branch(from),
            count: from.instruction_count()?,
            address: from.variable()?,
            history: from.history()?,
        },
        _ => Message::IndirectBranchHistorySync {
            reason: reason(from),
            kind: branch(from),
            count: from.instruction_count()?,
            address: from.variable()?,
            history: from.history()?,
        },
    })
}

/// What these messages have, each some of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    reason: Option<u8>,
    kind: Option<BranchKind>,
    count: u32,
    address: Option<u64>,
    history: Option<History>,
}

impl Fields {
    #[inline]
    pub fn of(message: &Message) -> Self {
        let none = Self::default();
        match *message {
            Message::DirectBranch { count } => Self { count, ..none },
            Message::IndirectBranch { kind, count, address } => {
                Self { kind: Some(kind), count, address: Some(address), ..none }
            }
            Message::ProgramTraceSync { reason, count, address }
            | Message::DirectBranchSync { reason, count, address } => {
                Self { reason: Some(reason), count, address: Some(address), ..none }
            }
            Message::IndirectBranchSync { reason, kind, count, address } => {
                Self { reason: Some(reason), kind: Some(kind), count, address: Some(address), history: None }
            }
            Message::IndirectBranchHistory { kind, count, address, history } => {
                Self { kind: Some(kind), count, address: Some(address), history: Some(history), ..none }
            }
            Message::IndirectBranchHistorySync { reason, kind, count, address, history } => Self {
                reason: Some(reason),
                kind: Some(kind),
                count,
                address: Some(address),
                history: Some(history),
            },
            _ => none,
        }
    }

    #[inline]
    pub fn write(self, to: &mut FieldWriter<'_>) {
        if let Some(reason) = self.reason {
            to.fixed(reason.into(), 4);
        }
        if let Some(kind) = self.kind {
            to.fixed(kind.bits().into(), 2);
        }
        to.variable(self.count.into());
        if let Some(address) = self.address {
            to.variable(address);
        }
        if let Some(history) = self.history {
            to.variable(history.0);
        }
    }

    pub fn list(self, each: Each<'_>) {
        if let Some(reason) = self.reason {
            each(Field::new("SYNC", Value::Decimal(reason.into())));
            each(Field::new("reason", Value::Word(sync::name(reason))));
        }
        if let Some(kind) = self.kind {
            each(Field::new("BTYPE", Value::Word(kind.text())));
        }
        instruction_count(self.count, each);
        if let Some(address) = self.address {
            // With synchronisation the address is whole.
            let name = if self.reason.is_some() { "FADDR" } else { "UADDR" };
            each(Field::new(name, Value::Hexadecimal(address)));
        }
        if let Some(history) = self.history {
            outcomes(history, each);
        }
    }
}

/// Lists I-CNT.
pub(super) fn instruction_count(count: u32, each: Each<'_>) {
    each(Field::new("ICNT", Value::Decimal(count.into())));
}

/// Lists HIST.
pub(super) fn outcomes(history: History, each: Each<'_>) {
    each(Field::new("HIST", Value::Hexadecimal(history.0)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_newest_outcome_of_a_history_is_its_lowest_bit() {
        let history = History::EMPTY.with(true).with(false).with(false);
        assert_eq!(history, History(0b1100));
        assert_eq!(history.outcomes().collect::<Vec<_>>(), [true, false, false]);
        assert!(History::EMPTY.is_empty() && History(0).is_empty());
    }
}
