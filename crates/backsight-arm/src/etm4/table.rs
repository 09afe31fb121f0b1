//! The header map: one row for each range of header bytes, in the order of the bytes.
//!
//! ```text
//!   header byte       payload
//!  ┌─┬─┬─┬─┬─┬─┬─┬─┐ ┌──────────┐ ┌───
//!  │7│6│5│4│3│2│1│0│ │ 0 … 30   │ │ next header
//!  └─┴─┴─┴─┴─┴─┴─┴─┘ └──────────┘ └───
//! ```
//!
//! The decoder's dispatch, the names in listings and this page come from the same rows. Whether a header is
//! valid depends on the version and the configuration of the trace unit: the `when` column.

use super::{Bad, Config};

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

/// What follows the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing.
    None,
    /// So many bytes.
    Bytes(u8),
    /// Fields whose length is in their continuation bits or in the configuration.
    Fields,
}

/// When a header is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In every trace unit.
    Always,
    /// In none.
    Never,
    /// In ETMv4 only.
    Etm4,
    /// In ETE only.
    Ete,
    /// From this version on.
    Since(u8),
    /// Armv8-M from v4.2 on.
    FunctionReturn,
    /// With Q element support.
    Q,
    /// With data trace on.
    DataTrace,
    /// With conditional instruction tracing on.
    Conditional,
}

impl When {
    /// Is a header of this column valid in that configuration, and if not, how is it to be called?
    pub const fn check(self, config: &Config) -> Result<(), Bad> {
        let (valid, otherwise) = match self {
            Self::Always => (true, Bad::Reserved),
            Self::Never => (false, Bad::Reserved),
            Self::Etm4 => (!config.is_ete(), Bad::ReservedByConfiguration),
            Self::Ete => (config.is_ete(), Bad::NotImplemented),
            Self::Since(version) => (config.version().0 >= version, Bad::NotImplemented),
            Self::FunctionReturn => (config.function_return(), Bad::NotImplemented),
            Self::Q => (config.q_elements(), Bad::NotImplemented),
            Self::DataTrace => (config.data_trace(), Bad::ReservedByConfiguration),
            Self::Conditional => (config.conditional(), Bad::ReservedByConfiguration),
        };
        if valid { Ok(()) } else { Err(otherwise) }
    }
}

/// One row of the header map.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// First header byte.
    pub first: u8,
    /// Last header byte.
    pub last: u8,
    /// What it introduces.
    pub kind: Kind,
    /// Its name in listings.
    pub name: &'static str,
    /// What follows.
    pub payload: Payload,
    /// When it is valid.
    pub when: When,
    /// Its name in the manual, and what its bits say.
    pub title: &'static str,
}

const fn row(
    (first, last): (u8, u8),
    kind: Kind,
    name: &'static str,
    payload: Payload,
    when: When,
    title: &'static str,
) -> Row {
    Row { first, last, kind, name, payload, when, title }
}

const fn reserved(first: u8, last: u8) -> Row {
    row((first, last), Kind::Reserved, "I_RESERVED", Payload::None, When::Never, "Reserved")
}

use Payload::{Bytes, Fields, None as Nothing};
use When::{Always, Conditional, DataTrace, Ete, Etm4, Since};

/// The header map.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row((0x00, 0x00), Kind::Extension, "I_EXTENSION", Fields, Always, "Extension: Async, Discard (0x03), Overflow (0x05)"),
    row((0x01, 0x01), Kind::TraceInfo, "I_TRACE_INFO", Fields, Always, "Trace Info: PLCTL, [INFO], [KEY], [SPEC], [CYCT], [WNDW]"),
    row((0x02, 0x02), Kind::Timestamp, "I_TIMESTAMP", Fields, Always, "Timestamp"),
    row((0x03, 0x03), Kind::TimestampCycles, "I_TIMESTAMP", Fields, Always, "Timestamp with cycle count"),
    row((0x04, 0x04), Kind::TraceOn, "I_TRACE_ON", Nothing, Always, "Trace On"),
    row((0x05, 0x05), Kind::FunctionReturn, "I_FUNC_RET", Nothing, When::FunctionReturn, "Function Return"),
    row((0x06, 0x06), Kind::Exception, "I_EXCEPT", Fields, Always, "Exception; ETE: PE Reset, Transaction Failure"),
    row((0x07, 0x07), Kind::ExceptionReturn, "I_EXCEPT_RTN", Nothing, Etm4, "Exception Return"),
    reserved(0x08, 0x08),
    row((0x09, 0x09), Kind::Instrumentation, "I_ITE", Bytes(9), Since(0x53), "Instrumentation: EL, value"),
    row((0x0A, 0x0A), Kind::TransactionStart, "I_TRANS_ST", Nothing, Ete, "Transaction Start"),
    row((0x0B, 0x0B), Kind::TransactionCommit, "I_TRANS_COMMIT", Nothing, Ete, "Transaction Commit"),
    row((0x0C, 0x0D), Kind::CycleCountF2, "I_CCNT_F2", Bytes(1), Always, "Cycle Count format 2: bit 0 F"),
    row((0x0E, 0x0F), Kind::CycleCountF1, "I_CCNT_F1", Fields, Always, "Cycle Count format 1: bit 0 U"),
    row((0x10, 0x1F), Kind::CycleCountF3, "I_CCNT_F3", Nothing, Always, "Cycle Count format 3: AABB"),
    row((0x20, 0x27), Kind::NumberedDataSync, "I_NUM_DS_MKR", Nothing, DataTrace, "Numbered Data Synchronisation Marker"),
    row((0x28, 0x2C), Kind::UnnumberedDataSync, "I_UNNUM_DS_MKR", Nothing, DataTrace, "Unnumbered Data Synchronisation Marker"),
    row((0x2D, 0x2D), Kind::Commit, "I_COMMIT", Fields, Always, "Commit"),
    row((0x2E, 0x2E), Kind::CancelF1, "I_CANCEL_F1", Fields, Always, "Cancel format 1"),
    row((0x2F, 0x2F), Kind::CancelF1Mispredict, "I_CANCEL_F1_MISPRED", Fields, Always, "Cancel format 1, then mispredict"),
    row((0x30, 0x33), Kind::Mispredict, "I_MISPREDICT", Nothing, Always, "Mispredict: AA"),
    row((0x34, 0x37), Kind::CancelF2, "I_CANCEL_F2", Nothing, Always, "Cancel format 2: AA"),
    row((0x38, 0x3F), Kind::CancelF3, "I_CANCEL_F3", Nothing, Always, "Cancel format 3: CC, A"),
    row((0x40, 0x42), Kind::ConditionalInstructionF2, "I_COND_I_F2", Nothing, Conditional, "Conditional Instruction format 2: CI"),
    row((0x43, 0x43), Kind::ConditionalFlush, "I_COND_FLUSH", Nothing, Conditional, "Conditional Flush"),
    row((0x44, 0x46), Kind::ConditionalResultF4, "I_COND_RES_F4", Nothing, Conditional, "Conditional Result format 4: T"),
    reserved(0x47, 0x47),
    row((0x48, 0x4A), Kind::ConditionalResultF2, "I_COND_RES_F2", Nothing, Conditional, "Conditional Result format 2, K = 0: T"),
    reserved(0x4B, 0x4B),
    row((0x4C, 0x4E), Kind::ConditionalResultF2, "I_COND_RES_F2", Nothing, Conditional, "Conditional Result format 2, K = 1: T"),
    reserved(0x4F, 0x4F),
    row((0x50, 0x5F), Kind::ConditionalResultF3, "I_COND_RES_F3", Bytes(1), Conditional, "Conditional Result format 3: TOKEN[11:8]"),
    reserved(0x60, 0x67),
    row((0x68, 0x6B), Kind::ConditionalResultF1, "I_COND_RES_F1", Fields, Conditional, "Conditional Result format 1, two results: CI1, CI0"),
    row((0x6C, 0x6C), Kind::ConditionalInstructionF1, "I_COND_I_F1", Fields, Conditional, "Conditional Instruction format 1"),
    row((0x6D, 0x6D), Kind::ConditionalInstructionF3, "I_COND_I_F3", Bytes(1), Conditional, "Conditional Instruction format 3"),
    row((0x6E, 0x6F), Kind::ConditionalResultF1, "I_COND_RES_F1", Fields, Conditional, "Conditional Result format 1, one result: CI0"),
    row((0x70, 0x70), Kind::Ignore, "I_IGNORE", Nothing, Since(0x43), "Ignore"),
    row((0x71, 0x7F), Kind::Event, "I_EVENT", Nothing, Always, "Event"),
    row((0x80, 0x81), Kind::Context, "I_CTXT", Fields, Always, "Context: bit 0 P"),
    row((0x82, 0x82), Kind::AddressContext32Is0, "I_ADDR_CTXT_L_32IS0", Fields, Always, "Address with Context, 32-bit, IS0"),
    row((0x83, 0x83), Kind::AddressContext32Is1, "I_ADDR_CTXT_L_32IS1", Fields, Always, "Address with Context, 32-bit, IS1"),
    reserved(0x84, 0x84),
    row((0x85, 0x85), Kind::AddressContext64Is0, "I_ADDR_CTXT_L_64IS0", Fields, Always, "Address with Context, 64-bit, IS0"),
    row((0x86, 0x86), Kind::AddressContext64Is1, "I_ADDR_CTXT_L_64IS1", Fields, Always, "Address with Context, 64-bit, IS1"),
    reserved(0x87, 0x87),
    row((0x88, 0x88), Kind::TimestampMarker, "I_TS_MARKER", Nothing, Since(0x46), "Timestamp Marker"),
    reserved(0x89, 0x8F),
    row((0x90, 0x92), Kind::AddressExact, "I_ADDR_MATCH", Nothing, Always, "Exact Match Address: QE"),
    reserved(0x93, 0x94),
    row((0x95, 0x95), Kind::AddressShortIs0, "I_ADDR_S_IS0", Fields, Always, "Short Address, IS0"),
    row((0x96, 0x96), Kind::AddressShortIs1, "I_ADDR_S_IS1", Fields, Always, "Short Address, IS1"),
    reserved(0x97, 0x99),
    row((0x9A, 0x9A), Kind::Address32Is0, "I_ADDR_L_32IS0", Bytes(4), Always, "Long Address, 32-bit, IS0"),
    row((0x9B, 0x9B), Kind::Address32Is1, "I_ADDR_L_32IS1", Bytes(4), Always, "Long Address, 32-bit, IS1"),
    reserved(0x9C, 0x9C),
    row((0x9D, 0x9D), Kind::Address64Is0, "I_ADDR_L_64IS0", Bytes(8), Always, "Long Address, 64-bit, IS0"),
    row((0x9E, 0x9E), Kind::Address64Is1, "I_ADDR_L_64IS1", Bytes(8), Always, "Long Address, 64-bit, IS1"),
    reserved(0x9F, 0x9F),
    row((0xA0, 0xA2), Kind::Q, "I_Q", Fields, When::Q, "Q: exact match address, count"),
    reserved(0xA3, 0xA4),
    row((0xA5, 0xA6), Kind::Q, "I_Q", Fields, When::Q, "Q: short address IS0 or IS1, count"),
    reserved(0xA7, 0xA9),
    row((0xAA, 0xAC), Kind::Q, "I_Q", Fields, When::Q, "Q: 32-bit address IS0 or IS1, or none; count"),
    reserved(0xAD, 0xAE),
    row((0xAF, 0xAF), Kind::Q, "I_Q", Fields, When::Q, "Q: no address, no count"),
    row((0xB0, 0xB2), Kind::SourceExact, "I_SRC_ADDR_MATCH", Nothing, Ete, "Source Address Exact Match: QE"),
    reserved(0xB3, 0xB3),
    row((0xB4, 0xB4), Kind::SourceShortIs0, "I_SRC_ADDR_S_IS0", Fields, Ete, "Source Address Short, IS0"),
    row((0xB5, 0xB5), Kind::SourceShortIs1, "I_SRC_ADDR_S_IS1", Fields, Ete, "Source Address Short, IS1"),
    // The listing that users know spells this one so.
    row((0xB6, 0xB6), Kind::Source32Is0, "I_SCR_ADDR_L_32IS0", Bytes(4), Ete, "Source Address Long, 32-bit, IS0"),
    row((0xB7, 0xB7), Kind::Source32Is1, "I_SRC_ADDR_L_32IS1", Bytes(4), Ete, "Source Address Long, 32-bit, IS1"),
    row((0xB8, 0xB8), Kind::Source64Is0, "I_SRC_ADDR_L_64IS0", Bytes(8), Ete, "Source Address Long, 64-bit, IS0"),
    row((0xB9, 0xB9), Kind::Source64Is1, "I_SRC_ADDR_L_64IS1", Bytes(8), Ete, "Source Address Long, 64-bit, IS1"),
    reserved(0xBA, 0xBF),
    row((0xC0, 0xD4), Kind::AtomF6, "I_ATOM_F6", Nothing, Always, "Atom format 6: COUNT + 3 E, then E"),
    row((0xD5, 0xD7), Kind::AtomF5, "I_ATOM_F5", Nothing, Always, "Atom format 5: NNNNN, NENEN, ENENE"),
    row((0xD8, 0xDB), Kind::AtomF2, "I_ATOM_F2", Nothing, Always, "Atom format 2: AA"),
    row((0xDC, 0xDF), Kind::AtomF4, "I_ATOM_F4", Nothing, Always, "Atom format 4: NEEE, NNNN, NENE, ENEN"),
    row((0xE0, 0xF4), Kind::AtomF6, "I_ATOM_F6", Nothing, Always, "Atom format 6: COUNT + 3 E, then N"),
    row((0xF5, 0xF5), Kind::AtomF5, "I_ATOM_F5", Nothing, Always, "Atom format 5: NEEEE"),
    row((0xF6, 0xF7), Kind::AtomF1, "I_ATOM_F1", Nothing, Always, "Atom format 1: A"),
    row((0xF8, 0xFF), Kind::AtomF3, "I_ATOM_F3", Nothing, Always, "Atom format 3: AAA"),
];

/// The row of each header byte.
const ROW_OF: [u8; 256] = {
    let mut rows = [0; 256];
    let mut index = 0;
    while index < ROWS.len() {
        let mut header = ROWS[index].first as usize;
        while header <= ROWS[index].last as usize {
            rows[header] = index as u8;
            header += 1;
        }
        index += 1;
    }
    rows
};

/// The row that a header byte matches.
#[inline]
pub const fn lookup(header: u8) -> &'static Row {
    &ROWS[ROW_OF[header as usize] as usize]
}

const KINDS: usize = Kind::AtomF3 as usize + 1;

/// The name of each kind in listings.
const NAMES: [&str; KINDS] = {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etm4::Decoder;
    use crate::etm4::testing::configurations;

    #[test]
    fn each_header_byte_matches_exactly_one_row() {
        for header in 0..=255u8 {
            let rows = ROWS.iter().filter(|row| (row.first..=row.last).contains(&header)).count();
            assert_eq!(rows, 1, "{header:#04x}");
        }
        assert!(ROWS.windows(2).all(|pair| pair[0].last + 1 == pair[1].first), "rows are in order");
    }

    #[test]
    fn every_kind_has_a_name() {
        assert!(NAMES.iter().all(|name| name.starts_with("I_")));
    }

    /// A valid header is never taken for a reserved one, an invalid one always is, and packets without payload
    /// or with a fixed one are as long as the table says: in every configuration.
    #[test]
    fn the_decoder_agrees_with_the_table_on_every_header_in_every_configuration() {
        for config in configurations() {
            for header in 0..=255u8 {
                let row = lookup(header);
                let mut decoder = Decoder::new(&config);
                decoder.feed(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80], &mut |_| ());
                let mut found = std::vec::Vec::new();
                decoder.feed(&[header, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &mut |packet| found.push(packet));
                let expected = match (row.when.check(&config), row.payload) {
                    (Err(why), _) => {
                        assert_eq!(found[0].value, crate::etm4::Packet::Bad(why), "{header:#04x}");
                        1
                    }
                    (Ok(()), Nothing) => 1,
                    (Ok(()), Bytes(bytes)) => u32::from(bytes) + 1,
                    (Ok(()), Fields) => continue,
                };
                assert_eq!(found[0].length, expected, "{header:#04x} {}", row.title);
            }
        }
    }

    #[test]
    fn names_in_listings_come_from_the_header_that_was_read() {
        for config in configurations() {
            for header in 0x01..=255u8 {
                let row = lookup(header);
                if row.when.check(&config).is_err() || row.kind == Kind::Exception {
                    continue;
                }
                let mut decoder = Decoder::new(&config);
                decoder.feed(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80], &mut |_| ());
                let mut found = std::vec::Vec::new();
                decoder.feed(&[&[header][..], &[0; 24]].concat(), &mut |packet| found.push(packet));
                assert_eq!(found[0].value.name(), row.name, "{header:#04x}");
            }
        }
    }
}
