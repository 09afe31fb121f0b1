//! The formats of te_inst packets.

/// One format: what its first bits are, and which fields come after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The first two bits.
    pub format: u8,
    /// The bits after them, where the format has some: `f0s_width` in format 0, two in format 3.
    pub subformat: Option<u8>,
    /// What packets of it are.
    pub kind: Kind,
    /// The name in listings.
    pub name: &'static str,
    /// The fields by the names of the specification, in the order of the wire.
    pub fields: &'static [&'static str],
    /// What it says.
    pub title: &'static str,
}

/// The kinds of packets, in the order of [`ROWS`].
#[expect(missing_docs, reason = "the rows below describe each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    BranchCount,
    JumpTarget,
    Branches,
    Address,
    Start,
    Trap,
    Context,
    Support,
}

impl Kind {
    /// Its row.
    pub const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

const fn row(
    (format, subformat): (u8, Option<u8>),
    kind: Kind,
    name: &'static str,
    fields: &'static [&'static str],
    title: &'static str,
) -> Row {
    Row { format, subformat, kind, name, fields, title }
}

/// All formats.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row((0, Some(0)), Kind::BranchCount, "F0.0_count", &["branch_count", "branch_fmt", "address", "notify", "updiscon", "irreport", "irdepth"], "Correctly predicted branches"),
    row((0, Some(1)), Kind::JumpTarget, "F0.1_cache", &["index", "branches", "branch_map", "irreport", "irdepth"], "Index into the jump target cache"),
    row((1, None), Kind::Branches, "F1_map", &["branches", "branch_map", "address", "notify", "updiscon", "irreport", "irdepth"], "Branch map, with or without an address"),
    row((2, None), Kind::Address, "F2_address", &["address", "notify", "updiscon", "irreport", "irdepth"], "Address"),
    row((3, Some(0)), Kind::Start, "F3.0_start", &["branch", "privilege", "time", "context", "address"], "Start of trace, or resync"),
    row((3, Some(1)), Kind::Trap, "F3.1_trap", &["branch", "privilege", "time", "context", "ecause", "interrupt", "thaddr", "address", "tval"], "Exception or interrupt"),
    row((3, Some(2)), Kind::Context, "F3.2_context", &["privilege", "time", "context"], "Context"),
    row((3, Some(3)), Kind::Support, "F3.3_support", &["ienable", "encoder_mode", "qual_status", "ioptions", "denable", "dloss", "doptions"], "State of the encoder"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etrace::{BadPacket, Options, PacketLayout, Params, decode};
    use backsight_testing::Random;
    use std::collections::BTreeSet;

    #[test]
    fn rows_stand_in_the_order_of_their_kinds() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!((row.kind as usize, row.kind.row()), (index, row));
        }
    }

    fn whole() -> (Params, Options) {
        let params = Params {
            bpred_size: 4,
            cache_size: 4,
            f0s_width: 2,
            nocontext: 0,
            notime: 0,
            time_width: 9,
            context_width: 7,
            return_stack_size: 3,
            call_counter_size: 2,
            ..Params::default()
        };
        let options = Options { branch_prediction: true, jump_target_cache: true, ..Options::default() };
        (params, options)
    }

    /// Each beginning is of exactly one row, or reserved; packets list the fields of their row, all of them, and no others.
    #[test]
    fn packets_of_each_beginning_have_the_fields_of_its_row() {
        let (params, options) = whole();
        let mut random = Random(5);
        for head in 0..16u8 {
            let (format, subformat) = (head & 3, head >> 2);
            let is_its =
                |row: &&Row| row.format == format && row.subformat.is_none_or(|own| own == subformat);
            let mut rows = ROWS.iter().filter(is_its);
            let (row, mut listed) = (rows.next(), BTreeSet::new());
            assert_eq!(rows.next(), None);
            for _ in 0..2000 {
                let mut bytes: [u8; 12] = core::array::from_fn(|_| random.next() as u8);
                bytes[0] = bytes[0] & 0xF0 | head;
                let length = 1 + random.below(12) as usize;
                match (row, decode(&bytes[..length], &params, &options)) {
                    (None, found) => assert_eq!(found, Err(BadPacket::ReservedSubformat)),
                    (Some(_), Err(_)) => {}
                    (Some(row), Ok(packet)) => {
                        assert_eq!(packet.kind(), row.kind);
                        packet.fields(&PacketLayout::new(&params), &mut |field| {
                            listed.insert(if field.name == "cache_index" { "index" } else { field.name });
                        });
                    }
                }
            }
            if let Some(row) = row {
                listed.remove("format");
                listed.remove("subformat");
                assert_eq!(listed, row.fields.iter().copied().collect());
            }
        }
    }
}
