//! The header map: one row for each kind of packet. Everything that knows a header byte knows it from here.

/// What a header introduces.
#[expect(missing_docs, reason = "the rows below describe each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    BranchAddress,
    PHeader,
    Async,
    CycleCount,
    ISync,
    Trigger,
    OutOfOrderData,
    ISyncCycleCount,
    StoreFailed,
    OutOfOrderPlaceholder,
    Vmid,
    NormalData,
    Timestamp,
    DataSuppressed,
    Ignore,
    ValueNotTraced,
    ContextId,
    ExceptionExit,
    ExceptionEntry,
    Reserved,
}

/// One row of the header map: headers for which `header & mask == value`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The bits that are looked at.
    pub mask: u8,
    /// What they have to be.
    pub value: u8,
    /// What such a header introduces.
    pub kind: Kind,
    /// Its name in listings.
    pub name: &'static str,
    /// The first minor version that has it.
    pub since: u8,
    /// What its bits say, and what follows.
    pub title: &'static str,
}

const fn row(mask: u8, value: u8, kind: Kind, name: &'static str, since: u8, title: &'static str) -> Row {
    Row { mask, value, kind, name, since, title }
}

/// The header map. A header that no row has is reserved.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row(0x01, 0x01, Kind::BranchAddress, "BRANCH_ADDRESS", 0, "address, exception information"),
    row(0x81, 0x80, Kind::PHeader, "P_HDR", 0, "atoms and cycles"),
    row(0xFF, 0x00, Kind::Async, "A_SYNC", 0, "four or more 00, then 80"),
    row(0xFF, 0x04, Kind::CycleCount, "CYCLE_COUNT", 0, "1 to 5 bytes"),
    row(0xFF, 0x08, Kind::ISync, "I_SYNC", 0, "context ID, information, address, next address"),
    row(0xFF, 0x0C, Kind::Trigger, "TRIGGER", 0, ""),
    row(0xF3, 0x20, Kind::OutOfOrderData, "OOO_DATA", 0, "0TT0SS00, TT=1: value of SS bytes"),
    row(0xF3, 0x40, Kind::OutOfOrderData, "OOO_DATA", 0, "TT=2"),
    row(0xF3, 0x60, Kind::OutOfOrderData, "OOO_DATA", 0, "TT=3"),
    row(0xFF, 0x70, Kind::ISyncCycleCount, "I_SYNC_CYCLE", 0, "cycle count, then as I-sync"),
    row(0xFF, 0x50, Kind::StoreFailed, "STORE_FAIL", 0, ""),
    row(0xDF, 0x54, Kind::OutOfOrderPlaceholder, "OOO_ADDR_PLC", 0, "01A1TT00, TT=1: address if A"),
    row(0xDF, 0x58, Kind::OutOfOrderPlaceholder, "OOO_ADDR_PLC", 0, "TT=2"),
    row(0xDF, 0x5C, Kind::OutOfOrderPlaceholder, "OOO_ADDR_PLC", 0, "TT=3"),
    row(0xFF, 0x3C, Kind::Vmid, "VMID", 5, "one byte"),
    row(0xD3, 0x02, Kind::NormalData, "NORM_DATA", 0, "00A0SS10: address if A, value of SS bytes"),
    row(0xFB, 0x42, Kind::Timestamp, "TIMESTAMP", 5, "01000R10: 1 to 7 or 9 bytes; R: a clock changed"),
    row(0xFF, 0x62, Kind::DataSuppressed, "DATA_SUPPRESSED", 0, ""),
    row(0xFF, 0x66, Kind::Ignore, "IGNORE", 0, ""),
    row(0xEF, 0x6A, Kind::ValueNotTraced, "VAL_NOT_TRACED", 0, "011A1010: address if A"),
    row(0xFF, 0x6E, Kind::ContextId, "CONTEXT_ID", 0, "1, 2 or 4 bytes"),
    row(0xFF, 0x76, Kind::ExceptionExit, "EXCEPTION_EXIT", 4, ""),
    row(0xFF, 0x7E, Kind::ExceptionEntry, "EXCEPTION_ENTRY", 4, ""),
];

/// The row of each header byte; one more than there are where it has none.
const ROW_OF: [u8; 256] = {
    let mut rows = [ROWS.len() as u8; 256];
    let mut header = 0;
    while header < rows.len() {
        let mut index = 0;
        while index < ROWS.len() {
            if header as u8 & ROWS[index].mask == ROWS[index].value {
                rows[header] = index as u8;
            }
            index += 1;
        }
        header += 1;
    }
    rows
};

/// The row that a header byte matches, if it is not reserved.
#[inline]
pub const fn lookup(header: u8) -> Option<&'static Row> {
    let index = ROW_OF[header as usize] as usize;
    if index < ROWS.len() { Some(&ROWS[index]) } else { None }
}

/// The kind of each header byte in a version.
pub(super) const fn kinds(minor: u8) -> [Kind; 256] {
    let mut kinds = [Kind::Reserved; 256];
    let mut header = 0;
    while header < kinds.len() {
        if let Some(row) = lookup(header as u8)
            && row.since <= minor
        {
            kinds[header] = row.kind;
        }
        header += 1;
    }
    kinds
}

impl Kind {
    /// The name in listings.
    pub const fn name(self) -> &'static str {
        match self.row() {
            Some(row) => row.name,
            None => "RESERVED",
        }
    }

    /// The lowest header of this kind.
    pub const fn header(self) -> u8 {
        match self.row() {
            Some(row) => row.value,
            None => 0x10,
        }
    }

    /// The first minor version that has it.
    pub(super) const fn since(self) -> u8 {
        match self.row() {
            Some(row) => row.since,
            None => u8::MAX,
        }
    }

    const fn row(self) -> Option<&'static Row> {
        let mut index = 0;
        while index < ROWS.len() {
            if ROWS[index].kind as u8 == self as u8 {
                return Some(&ROWS[index]);
            }
            index += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_matches_one_row_at_most() {
        for header in 0..=255_u8 {
            let rows = ROWS.iter().filter(|row| header & row.mask == row.value).count();
            assert!(rows <= 1, "{header:#04x}");
            assert_eq!(rows == 0, lookup(header).is_none());
        }
    }

    #[test]
    fn what_is_reserved_is_what_the_manual_says() {
        for header in 0..=255_u8 {
            let reserved = matches!(header, 0x10 | 0x14 | 0x18 | 0x1C | 0x30 | 0x34 | 0x38 | 0x72)
                || header & 0xD3 == 0x12
                || header & 0xF3 == 0x52
                || header & 0xEB == 0x4A;
            assert_eq!(lookup(header).is_none(), reserved, "{header:#04x}");
        }
    }
}
