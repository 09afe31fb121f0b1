//! The header map: one row for each kind of packet. Everything that knows a header byte knows it from here.

/// What a header introduces.
#[expect(missing_docs, reason = "the rows below describe each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Async,
    ISync,
    Trigger,
    Vmid,
    Timestamp,
    Ignore,
    ContextId,
    WaypointUpdate,
    ExceptionReturn,
    Atom,
    BranchAddress,
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
    /// What follows, in the order of the bytes.
    pub payload: &'static str,
}

const fn row(mask: u8, value: u8, kind: Kind, name: &'static str, payload: &'static str) -> Row {
    Row { mask, value, kind, name, payload }
}

/// The header map. A header that no row has is reserved.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row(0xFF, 0x00, Kind::Async, "ASYNC", "four or more 00, then 80"),
    row(0xFF, 0x08, Kind::ISync, "ISYNC", "address, information, cycle count, context ID"),
    row(0xFF, 0x0C, Kind::Trigger, "TRIGGER", ""),
    row(0xFF, 0x3C, Kind::Vmid, "VMID", "one byte; PFTv1.1"),
    row(0xFB, 0x42, Kind::Timestamp, "TIMESTAMP", "1 to 7 or 9 bytes, cycle count; bit 2 of the header: a clock changed"),
    row(0xFF, 0x66, Kind::Ignore, "IGNORE", ""),
    row(0xFF, 0x6E, Kind::ContextId, "CTXTID", "1, 2 or 4 bytes"),
    row(0xFF, 0x72, Kind::WaypointUpdate, "WP_UPDATE", "address, information"),
    row(0xFF, 0x76, Kind::ExceptionReturn, "ERET", ""),
    row(0x81, 0x80, Kind::Atom, "ATOM", "rest of the cycle count"),
    row(0x01, 0x01, Kind::BranchAddress, "BRANCH_ADDRESS", "rest of the address, exception information, cycle count"),
];

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Reserved; 256];
    let mut header = 0;
    while header < kinds.len() {
        let mut index = 0;
        while index < ROWS.len() {
            if header as u8 & ROWS[index].mask == ROWS[index].value {
                kinds[header] = ROWS[index].kind;
            }
            index += 1;
        }
        header += 1;
    }
    kinds
};

/// What a header introduces.
#[inline]
pub const fn lookup(header: u8) -> Kind {
    KINDS[header as usize]
}

impl Kind {
    /// The name in listings.
    pub const fn name(self) -> &'static str {
        let mut index = 0;
        while index < ROWS.len() {
            if ROWS[index].kind as u8 == self as u8 {
                return ROWS[index].name;
            }
            index += 1;
        }
        "RESERVED"
    }

    /// The lowest header of this kind.
    pub const fn header(self) -> u8 {
        let mut header = 0;
        while header < KINDS.len() - 1 && KINDS[header] as u8 != self as u8 {
            header += 1;
        }
        header as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_matches_one_row_at_most() {
        let mut reserved = 0;
        for header in 0..=255_u8 {
            let rows = ROWS.iter().filter(|row| header & row.mask == row.value).count();
            assert!(rows <= 1, "{header:#04x}");
            reserved += usize::from(rows == 0);
            assert_eq!(rows == 0, lookup(header) == Kind::Reserved);
        }
        // Half are branches, a quarter atoms; of the even ones below 0x80, ten are packets.
        assert_eq!(reserved, 256 - 128 - 64 - 10);
        assert_eq!((Kind::Timestamp.header(), Kind::Atom.header()), (0x42, 0x80));
    }
}
