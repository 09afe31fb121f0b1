//! The rows of the header map.

use super::Part::{self, Bytes};
use super::When::{self, Always, Conditional, DataTrace, Ete, Etm4, Since};
use super::{Kind, Row};

const fn row(
    (first, last): (u8, u8),
    kind: Kind,
    name: &'static str,
    payload: &'static [Part],
    when: When,
    title: &'static str,
) -> Row {
    Row { first, last, kind, name, payload, when, title }
}

const fn reserved(first: u8, last: u8) -> Row {
    row((first, last), Kind::Reserved, "I_RESERVED", HEADER_ONLY, When::Never, "Reserved")
}

/// No payload.
const HEADER_ONLY: &[Part] = &[];
const NUMBER: Part = Part::NUMBER;
const COUNT: Part = Part::COUNT;

/// The header map.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row((0x00, 0x00), Kind::Extension, "I_EXTENSION", &[Part::Extension], Always, "Extension: Async, Discard (0x03), Overflow (0x05)"),
    row((0x01, 0x01), Kind::TraceInfo, "I_TRACE_INFO", &[Part::TraceInfo], Always, "Trace Info: PLCTL, [INFO], [KEY], [SPEC], [CYCT], [WNDW]"),
    row((0x02, 0x02), Kind::Timestamp, "I_TIMESTAMP", &[Part::Timestamp], Always, "Timestamp"),
    row((0x03, 0x03), Kind::TimestampCycles, "I_TIMESTAMP", &[Part::Timestamp, COUNT], Always, "Timestamp with cycle count"),
    row((0x04, 0x04), Kind::TraceOn, "I_TRACE_ON", HEADER_ONLY, Always, "Trace On"),
    row((0x05, 0x05), Kind::FunctionReturn, "I_FUNC_RET", HEADER_ONLY, When::FunctionReturn, "Function Return"),
    row((0x06, 0x06), Kind::Exception, "I_EXCEPT", &[Part::Exception], Always, "Exception; ETE: PE Reset, Transaction Failure"),
    row((0x07, 0x07), Kind::ExceptionReturn, "I_EXCEPT_RTN", HEADER_ONLY, Etm4, "Exception Return"),
    reserved(0x08, 0x08),
    row((0x09, 0x09), Kind::Instrumentation, "I_ITE", &[Bytes(9)], Since(0x53), "Instrumentation: EL, value"),
    row((0x0A, 0x0A), Kind::TransactionStart, "I_TRANS_ST", HEADER_ONLY, Ete, "Transaction Start"),
    row((0x0B, 0x0B), Kind::TransactionCommit, "I_TRANS_COMMIT", HEADER_ONLY, Ete, "Transaction Commit"),
    row((0x0C, 0x0D), Kind::CycleCountF2, "I_CCNT_F2", &[Bytes(1)], Always, "Cycle Count format 2: bit 0 F"),
    row((0x0E, 0x0E), Kind::CycleCountF1, "I_CCNT_F1", &[Part::Commit, COUNT], Always, "Cycle Count format 1, U = 0: a known count"),
    row((0x0F, 0x0F), Kind::CycleCountF1, "I_CCNT_F1", &[Part::Commit], Always, "Cycle Count format 1, U = 1: an unknown count"),
    row((0x10, 0x1F), Kind::CycleCountF3, "I_CCNT_F3", HEADER_ONLY, Always, "Cycle Count format 3: AABB"),
    row((0x20, 0x27), Kind::NumberedDataSync, "I_NUM_DS_MKR", HEADER_ONLY, DataTrace, "Numbered Data Synchronisation Marker"),
    row((0x28, 0x2C), Kind::UnnumberedDataSync, "I_UNNUM_DS_MKR", HEADER_ONLY, DataTrace, "Unnumbered Data Synchronisation Marker"),
    row((0x2D, 0x2D), Kind::Commit, "I_COMMIT", &[NUMBER], Always, "Commit"),
    row((0x2E, 0x2E), Kind::CancelF1, "I_CANCEL_F1", &[NUMBER], Always, "Cancel format 1"),
    row((0x2F, 0x2F), Kind::CancelF1Mispredict, "I_CANCEL_F1_MISPRED", &[NUMBER], Always, "Cancel format 1, then mispredict"),
    row((0x30, 0x33), Kind::Mispredict, "I_MISPREDICT", HEADER_ONLY, Always, "Mispredict: AA"),
    row((0x34, 0x37), Kind::CancelF2, "I_CANCEL_F2", HEADER_ONLY, Always, "Cancel format 2: AA"),
    row((0x38, 0x3F), Kind::CancelF3, "I_CANCEL_F3", HEADER_ONLY, Always, "Cancel format 3: CC, A"),
    row((0x40, 0x42), Kind::ConditionalInstructionF2, "I_COND_I_F2", HEADER_ONLY, Conditional, "Conditional Instruction format 2: CI"),
    row((0x43, 0x43), Kind::ConditionalFlush, "I_COND_FLUSH", HEADER_ONLY, Conditional, "Conditional Flush"),
    row((0x44, 0x46), Kind::ConditionalResultF4, "I_COND_RES_F4", HEADER_ONLY, Conditional, "Conditional Result format 4: T"),
    reserved(0x47, 0x47),
    row((0x48, 0x4A), Kind::ConditionalResultF2, "I_COND_RES_F2", HEADER_ONLY, Conditional, "Conditional Result format 2, K = 0: T"),
    reserved(0x4B, 0x4B),
    row((0x4C, 0x4E), Kind::ConditionalResultF2, "I_COND_RES_F2", HEADER_ONLY, Conditional, "Conditional Result format 2, K = 1: T"),
    reserved(0x4F, 0x4F),
    row((0x50, 0x5F), Kind::ConditionalResultF3, "I_COND_RES_F3", &[Bytes(1)], Conditional, "Conditional Result format 3: TOKEN[11:8]"),
    reserved(0x60, 0x67),
    row((0x68, 0x6B), Kind::ConditionalResultF1, "I_COND_RES_F1", &[Part::Result, Part::Result], Conditional, "Conditional Result format 1, two results: CI1, CI0"),
    row((0x6C, 0x6C), Kind::ConditionalInstructionF1, "I_COND_I_F1", &[NUMBER], Conditional, "Conditional Instruction format 1"),
    row((0x6D, 0x6D), Kind::ConditionalInstructionF3, "I_COND_I_F3", &[Bytes(1)], Conditional, "Conditional Instruction format 3"),
    row((0x6E, 0x6F), Kind::ConditionalResultF1, "I_COND_RES_F1", &[Part::Result], Conditional, "Conditional Result format 1, one result: CI0"),
    row((0x70, 0x70), Kind::Ignore, "I_IGNORE", HEADER_ONLY, Since(0x43), "Ignore"),
    row((0x71, 0x7F), Kind::Event, "I_EVENT", HEADER_ONLY, Always, "Event"),
    row((0x80, 0x80), Kind::Context, "I_CTXT", HEADER_ONLY, Always, "Context, P = 0: unchanged"),
    row((0x81, 0x81), Kind::Context, "I_CTXT", &[Part::Context], Always, "Context, P = 1"),
    row((0x82, 0x82), Kind::AddressContext32Is0, "I_ADDR_CTXT_L_32IS0", &[Bytes(4), Part::Context], Always, "Address with Context, 32-bit, IS0"),
    row((0x83, 0x83), Kind::AddressContext32Is1, "I_ADDR_CTXT_L_32IS1", &[Bytes(4), Part::Context], Always, "Address with Context, 32-bit, IS1"),
    reserved(0x84, 0x84),
    row((0x85, 0x85), Kind::AddressContext64Is0, "I_ADDR_CTXT_L_64IS0", &[Bytes(8), Part::Context], Always, "Address with Context, 64-bit, IS0"),
    row((0x86, 0x86), Kind::AddressContext64Is1, "I_ADDR_CTXT_L_64IS1", &[Bytes(8), Part::Context], Always, "Address with Context, 64-bit, IS1"),
    reserved(0x87, 0x87),
    row((0x88, 0x88), Kind::TimestampMarker, "I_TS_MARKER", HEADER_ONLY, Since(0x46), "Timestamp Marker"),
    reserved(0x89, 0x8F),
    row((0x90, 0x92), Kind::AddressExact, "I_ADDR_MATCH", HEADER_ONLY, Always, "Exact Match Address: QE"),
    reserved(0x93, 0x94),
    row((0x95, 0x95), Kind::AddressShortIs0, "I_ADDR_S_IS0", &[Part::ShortAddress], Always, "Short Address, IS0"),
    row((0x96, 0x96), Kind::AddressShortIs1, "I_ADDR_S_IS1", &[Part::ShortAddress], Always, "Short Address, IS1"),
    reserved(0x97, 0x99),
    row((0x9A, 0x9A), Kind::Address32Is0, "I_ADDR_L_32IS0", &[Bytes(4)], Always, "Long Address, 32-bit, IS0"),
    row((0x9B, 0x9B), Kind::Address32Is1, "I_ADDR_L_32IS1", &[Bytes(4)], Always, "Long Address, 32-bit, IS1"),
    reserved(0x9C, 0x9C),
    row((0x9D, 0x9D), Kind::Address64Is0, "I_ADDR_L_64IS0", &[Bytes(8)], Always, "Long Address, 64-bit, IS0"),
    row((0x9E, 0x9E), Kind::Address64Is1, "I_ADDR_L_64IS1", &[Bytes(8)], Always, "Long Address, 64-bit, IS1"),
    reserved(0x9F, 0x9F),
    row((0xA0, 0xA2), Kind::Q, "I_Q", &[NUMBER], When::Q, "Q: exact match address, count"),
    reserved(0xA3, 0xA4),
    row((0xA5, 0xA6), Kind::Q, "I_Q", &[Part::ShortAddress, NUMBER], When::Q, "Q: short address IS0 or IS1, count"),
    reserved(0xA7, 0xA9),
    row((0xAA, 0xAB), Kind::Q, "I_Q", &[Bytes(4), NUMBER], When::Q, "Q: 32-bit address IS0 or IS1, count"),
    row((0xAC, 0xAC), Kind::Q, "I_Q", &[NUMBER], When::Q, "Q: no address, count"),
    reserved(0xAD, 0xAE),
    row((0xAF, 0xAF), Kind::Q, "I_Q", HEADER_ONLY, When::Q, "Q: no address, no count"),
    row((0xB0, 0xB2), Kind::SourceExact, "I_SRC_ADDR_MATCH", HEADER_ONLY, Ete, "Source Address Exact Match: QE"),
    reserved(0xB3, 0xB3),
    row((0xB4, 0xB4), Kind::SourceShortIs0, "I_SRC_ADDR_S_IS0", &[Part::ShortAddress], Ete, "Source Address Short, IS0"),
    row((0xB5, 0xB5), Kind::SourceShortIs1, "I_SRC_ADDR_S_IS1", &[Part::ShortAddress], Ete, "Source Address Short, IS1"),
    // The listing that users know spells this one so.
    row((0xB6, 0xB6), Kind::Source32Is0, "I_SCR_ADDR_L_32IS0", &[Bytes(4)], Ete, "Source Address Long, 32-bit, IS0"),
    row((0xB7, 0xB7), Kind::Source32Is1, "I_SRC_ADDR_L_32IS1", &[Bytes(4)], Ete, "Source Address Long, 32-bit, IS1"),
    row((0xB8, 0xB8), Kind::Source64Is0, "I_SRC_ADDR_L_64IS0", &[Bytes(8)], Ete, "Source Address Long, 64-bit, IS0"),
    row((0xB9, 0xB9), Kind::Source64Is1, "I_SRC_ADDR_L_64IS1", &[Bytes(8)], Ete, "Source Address Long, 64-bit, IS1"),
    reserved(0xBA, 0xBF),
    row((0xC0, 0xD4), Kind::AtomF6, "I_ATOM_F6", HEADER_ONLY, Always, "Atom format 6: COUNT + 3 E, then E"),
    row((0xD5, 0xD7), Kind::AtomF5, "I_ATOM_F5", HEADER_ONLY, Always, "Atom format 5: NNNNN, NENEN, ENENE"),
    row((0xD8, 0xDB), Kind::AtomF2, "I_ATOM_F2", HEADER_ONLY, Always, "Atom format 2: AA"),
    row((0xDC, 0xDF), Kind::AtomF4, "I_ATOM_F4", HEADER_ONLY, Always, "Atom format 4: NEEE, NNNN, NENE, ENEN"),
    row((0xE0, 0xF4), Kind::AtomF6, "I_ATOM_F6", HEADER_ONLY, Always, "Atom format 6: COUNT + 3 E, then N"),
    row((0xF5, 0xF5), Kind::AtomF5, "I_ATOM_F5", HEADER_ONLY, Always, "Atom format 5: NEEEE"),
    row((0xF6, 0xF7), Kind::AtomF1, "I_ATOM_F1", HEADER_ONLY, Always, "Atom format 1: A"),
    row((0xF8, 0xFF), Kind::AtomF3, "I_ATOM_F3", HEADER_ONLY, Always, "Atom format 3: AAA"),
];
