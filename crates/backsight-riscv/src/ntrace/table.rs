//! The messages by their codes.

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is; as a number its TCODE.
    pub kind: Kind,
    /// The name in listings.
    pub name: &'static str,
    /// The fields after TCODE and SRC, in the order of the wire. TSTAMP may come after them.
    pub fields: &'static [Part],
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// So many bits.
    Fixed(&'static str, u32),
    /// As many as are needed.
    Variable(&'static str),
    /// As [`Part::Variable`], where the field of fixed size before it is 1.
    Optional(&'static str),
}

/// What messages are, with their codes.
#[expect(missing_docs, reason = "the rows below describe each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Ownership = 2,
    DirectBranch = 3,
    IndirectBranch = 4,
    DataAcquisition = 7,
    Error = 8,
    ProgramTraceSync = 9,
    DirectBranchSync = 11,
    IndirectBranchSync = 12,
    AuxAccessWrite = 23,
    ResourceFull = 27,
    IndirectBranchHistory = 28,
    IndirectBranchHistorySync = 29,
    RepeatBranch = 30,
    ProgramTraceCorrelation = 33,
    InCircuitTrace = 34,
    InCircuitTraceSync = 35,
}

const fn row(kind: Kind, name: &'static str, fields: &'static [Part]) -> Row {
    Row { kind, name, fields }
}

const SYNC: Part = Part::Fixed("SYNC", 4);
const BTYPE: Part = Part::Fixed("BTYPE", 2);
const ICNT: Part = Part::Variable("ICNT");
const UADDR: Part = Part::Variable("UADDR");
const FADDR: Part = Part::Variable("FADDR");
const HIST: Part = Part::Variable("HIST");
const CKSRC: Part = Part::Fixed("CKSRC", 4);
const CKDF: Part = Part::Fixed("CKDF", 2);

/// All messages. Other codes are of vendors or reserved.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row(Kind::Ownership, "Ownership", &[Part::Variable("PROCESS")]),
    row(Kind::DirectBranch, "DirectBranch", &[ICNT]),
    row(Kind::IndirectBranch, "IndirectBranch", &[BTYPE, ICNT, UADDR]),
    row(Kind::DataAcquisition, "DataAcquisition", &[Part::Variable("IDTAG"), Part::Variable("DATA")]),
    row(Kind::Error, "Error", &[Part::Fixed("ETYPE", 4), Part::Variable("ECODE")]),
    row(Kind::ProgramTraceSync, "ProgTraceSync", &[SYNC, ICNT, FADDR]),
    row(Kind::DirectBranchSync, "DirectBranchSync", &[SYNC, ICNT, FADDR]),
    row(Kind::IndirectBranchSync, "IndirectBranchSync", &[SYNC, BTYPE, ICNT, FADDR]),
    row(Kind::AuxAccessWrite, "AuxAccessWrite", &[Part::Variable("IDTAG"), Part::Variable("DATA")]),
    // Its other fields are in `RESOURCES`.
    row(Kind::ResourceFull, "ResourceFull", &[Part::Fixed("RCODE", 4)]),
    row(Kind::IndirectBranchHistory, "IndirectBranchHist", &[BTYPE, ICNT, UADDR, HIST]),
    row(Kind::IndirectBranchHistorySync, "IndirectBranchHistSync", &[SYNC, BTYPE, ICNT, FADDR, HIST]),
    row(Kind::RepeatBranch, "RepeatBranch", &[Part::Variable("BCNT")]),
    row(Kind::ProgramTraceCorrelation, "ProgTraceCorrelation", &[Part::Fixed("EVCODE", 4), Part::Fixed("CDF", 2), ICNT, Part::Optional("HIST")]),
    row(Kind::InCircuitTrace, "InCircuitTrace", &[CKSRC, CKDF, Part::Variable("CKDATA0"), Part::Optional("CKDATA1")]),
    row(Kind::InCircuitTraceSync, "InCircuitTraceSync", &[CKSRC, CKDF, Part::Variable("CKDATA0"), Part::Optional("CKDATA1")]),
];

/// What follows each RCODE. Others are of vendors or reserved.
pub const RESOURCES: &[(u8, &[Part])] = &[
    (0, &[ICNT]),
    (1, &[HIST]),
    (2, &[HIST, Part::Variable("HREPEAT")]),
    (8, &[Part::Variable("NOTTAKEN")]),
    (9, &[Part::Variable("TAKEN")]),
];

/// Codes of messages.
const CODES: usize = 1 << 6;

const ROW_OF: [Option<&Row>; CODES] = {
    let mut rows = [None; CODES];
    let mut index = 0;
    while index < ROWS.len() {
        rows[ROWS[index].kind as usize] = Some(&ROWS[index]);
        index += 1;
    }
    rows
};

impl Kind {
    /// The kind of messages with that code.
    #[inline]
    pub const fn of(code: u8) -> Option<Self> {
        match ROW_OF[code as usize % CODES] {
            Some(row) => Some(row.kind),
            None => None,
        }
    }

    /// Its row.
    pub const fn row(self) -> &'static Row {
        match ROW_OF[self as usize] {
            Some(row) => row,
            None => panic!("every kind has a row"),
        }
    }

    /// Has a message of this kind a whole address, with which decoding can begin?
    pub const fn is_sync(self) -> bool {
        matches!(
            self,
            Self::ProgramTraceSync
                | Self::DirectBranchSync
                | Self::IndirectBranchSync
                | Self::IndirectBranchHistorySync
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::any_message;
    use super::super::{Config, Message, Packet, encode, fields};
    use super::*;
    use alloc::vec::Vec;
    use backsight_core::{Describe, Value};
    use proptest::prelude::*;

    /// The fields of a message as its row has them.
    fn by_row(bytes: &[u8]) -> Vec<(&'static str, u64)> {
        let mut sent = fields::separate(bytes);
        let row = Kind::of(sent.fixed(6) as u8).unwrap().row();
        let mut found = Vec::new();
        let mut parts = row.fields.iter();
        let mut before = 0;
        while let Some(part) = parts.next() {
            match *part {
                Part::Fixed(name, bits) => {
                    before = sent.fixed(bits);
                    found.push((name, before));
                }
                Part::Optional(_) if before != 1 => {}
                Part::Variable(name) | Part::Optional(name) => found.push((name, sent.variable().unwrap())),
            }
            if row.kind == Kind::ResourceFull && parts.as_slice().is_empty() && found.len() == 1 {
                let resource = RESOURCES.iter().find(|&&(code, _)| u64::from(code) == before);
                parts = resource.unwrap().1.iter();
            }
        }
        assert_eq!(sent.optional(), None);
        found
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_the_row_has_and_what_is_listed(message in any_message()) {
            let mut bytes = Vec::new();
            prop_assert!(encode(&Config::default(), &Packet::new(0, None, message), &mut bytes));
            let sent = by_row(&bytes);
            let mut listed = Vec::new();
            Packet::new(0, None, message).fields(&mut |field| match field.value {
                Value::Decimal(value) | Value::Hexadecimal(value) => listed.push((field.name, value)),
                _ => {}
            });
            // What fields mean is listed too, and what says which fields there are is not.
            let meanings = ["SRC", "privilege", "scontext", "hcontext"];
            listed.retain(|(name, _)| !meanings.contains(name));
            let shapes = ["BTYPE", "CDF", "CKDF", "RCODE"];
            let sent: Vec<_> = sent.into_iter().filter(|(name, _)| !shapes.contains(name)).collect();
            prop_assert_eq!(listed, sent);
        }
    }

    #[test]
    fn each_code_is_one_message() {
        for code in 0..CODES as u8 {
            let rows: Vec<_> = ROWS.iter().filter(|row| row.kind as u8 == code).collect();
            assert!(rows.len() <= 1);
            assert_eq!(Kind::of(code).map(Kind::row), rows.first().copied());
        }
        assert_eq!(Message::Other(5).kind(), None);
    }
}
