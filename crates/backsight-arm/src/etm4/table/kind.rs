//! The kinds of packets, in the order of their headers.

use super::{KINDS, ROWS, lookup};

/// What a header introduces.
#[expect(missing_docs, reason = "the rows below describe each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Reserved,
    Extension,
    TraceInfo,
    Timestamp,
    TimestampCycles,
    TraceOn,
    FunctionReturn,
    Exception,
    ExceptionReturn,
    Instrumentation,
    TransactionStart,
    TransactionCommit,
    CycleCountF2,
    CycleCountF1,
    CycleCountF3,
    NumberedDataSync,
    UnnumberedDataSync,
    Commit,
    CancelF1,
    CancelF1Mispredict,
    Mispredict,
    CancelF2,
    CancelF3,
    ConditionalInstructionF2,
    ConditionalFlush,
    ConditionalResultF4,
    ConditionalResultF2,
    ConditionalResultF3,
    ConditionalResultF1,
    ConditionalInstructionF1,
    ConditionalInstructionF3,
    Ignore,
    Event,
    Context,
    AddressContext32Is0,
    AddressContext32Is1,
    AddressContext64Is0,
    AddressContext64Is1,
    TimestampMarker,
    AddressExact,
    AddressShortIs0,
    AddressShortIs1,
    Address32Is0,
    Address32Is1,
    Address64Is0,
    Address64Is1,
    Q,
    SourceExact,
    SourceShortIs0,
    SourceShortIs1,
    Source32Is0,
    Source32Is1,
    Source64Is0,
    Source64Is1,
    AtomF6,
    AtomF5,
    AtomF2,
    AtomF4,
    AtomF1,
    AtomF3,
}

/// The first header of each kind.
const FIRST: [u8; KINDS] = {
    let mut first = [0; KINDS];
    let mut index = ROWS.len();
    while index > 0 {
        index -= 1;
        first[ROWS[index].kind as usize] = ROWS[index].first;
    }
    first
};

/// The kind of each header: what [`Kind::with`] needs of the table, in few bytes.
const KIND_OF: [Kind; 256] = {
    let mut kinds = [Kind::Reserved; 256];
    let mut header = 0;
    while header < kinds.len() {
        kinds[header] = lookup(header as u8).kind;
        header += 1;
    }
    kinds
};

/// The name of each kind in listings.
pub(super) const NAMES: [&str; KINDS] = {
    let mut names = [""; KINDS];
    let mut index = 0;
    while index < ROWS.len() {
        names[ROWS[index].kind as usize] = ROWS[index].name;
        index += 1;
    }
    names
};

impl Kind {
    /// The name in listings.
    #[inline]
    pub const fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// The lowest header of this kind: that with 0 in its field.
    #[inline]
    pub const fn header(self) -> u8 {
        FIRST[self as usize]
    }

    /// The header of this kind with that value in its field; `None` if there is no such header.
    #[inline]
    pub const fn with(self, field: u8) -> Option<u8> {
        match self.header().checked_add(field) {
            Some(header) if KIND_OF[header as usize] as u8 == self as u8 => Some(header),
            _ => None,
        }
    }

    /// The field of a header of this kind: its distance from the lowest one.
    #[inline]
    pub const fn field(self, header: u8) -> u8 {
        header.wrapping_sub(self.header())
    }
}
