//! The packets that a long trace is made of, formats 1 and 2 in at most eight bytes, read by table.
//!
//! One table, looked up by format and number of branches, says where the fields are; nothing depends on what was
//! decoded before. Everything else is left to [`decode`](super::decode), which agrees with this wherever both answer.

use super::{BranchMap, Params, Reported, word};

/// Where the fields before the address are.
#[derive(Clone, Copy)]
struct Row {
    /// Number of branches.
    count: u8,
    /// First bit after the map.
    after: u8,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Format 0 or 3.
    Other,
    /// A full map and nothing else.
    Map,
    Address,
}

/// By the lowest seven bits: format, and in format 1 the number of branches.
static ROWS: [Row; 128] = {
    let mut rows = [Row { count: 0, after: 0, form: Form::Other }; 128];
    let mut bits = 0;
    while bits < rows.len() {
        let count = (bits >> 2) as u8;
        let after = 7 + BranchMap::width(count);
        rows[bits] = match (bits & 3, count) {
            (1, 0) => Row { count: BranchMap::FULL, after, form: Form::Map },
            (1, _) => Row { count, after, form: Form::Address },
            (2, _) => Row { count: 0, after: 2, form: Form::Address },
            _ => rows[bits],
        };
        bits += 1;
    }
    rows
};

/// Reads them; widths are worked out once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CommonReader {
    address_width: u32,
    address_mask: u64,
    returns_mask: u32,
    /// Bits from the address on.
    width: u32,
}

impl CommonReader {
    /// For these parameters.
    pub const fn new(params: &Params) -> Self {
        let (address_width, returns_width) = (params.address_bits() as u32, params.irdepth_bits() as u32);
        Self {
            address_width,
            address_mask: if address_width == 64 { u64::MAX } else { (1 << address_width) - 1 },
            returns_mask: (1u64 << returns_width) as u32 - 1,
            width: address_width + 3 + returns_width,
        }
    }

    /// The packet in a payload, if it is one of those.
    #[inline(always)]
    pub fn read(&self, payload: &[u8]) -> Option<(BranchMap, Option<Reported>)> {
        let row = &ROWS[usize::from(*payload.first()? & 0x7F)];
        if row.form == Form::Other {
            return None;
        }
        let word = word::word(payload)?;
        let map = BranchMap { count: row.count, bits: (word >> 7) as u32 & ((1 << row.count) - 1) };
        let (address, width) = match row.form {
            Form::Address => (Some(self.reported(word, row.after.into())), self.width),
            _ => (None, 0),
        };
        let unused_at_most = u32::from(row.after) + width + 7;
        (payload.len() as u32 * 8 <= unused_at_most).then_some((map, address))
    }

    /// The address and the flags after it. Each of those is sent as whether it differs from the bit before it.
    #[inline(always)]
    fn reported(&self, word: i64, at: u32) -> Reported {
        let address = (word >> at) as u64 & self.address_mask;
        let flags_at = at + self.address_width;
        let sent = (word >> flags_at.min(63)) as u32;
        let sign = (word >> (flags_at - 1).min(63)) as u32 & 1;
        let flags = sent ^ (sent << 1 | sign);
        let returns = (word >> (flags_at + 3).min(63)) as u32 & self.returns_mask;
        Reported {
            address,
            notify: flags & 1 != 0,
            updiscon: flags & 2 != 0,
            irreport: if flags & 4 != 0 { Some(returns) } else { None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ImplicitReturn, Options, Packet, decode};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_the_table_reads_is_what_the_packet_says(
            bytes in prop::collection::vec(any::<u8>(), 0..11),
            iaddress_width in 3u8..=64,
            iaddress_lsb in 0u8..=2,
            return_stack_size in 0u8..=16,
            draft: bool,
        ) {
            let implicit_return = if draft { ImplicitReturn::Returns } else { ImplicitReturn::Depth };
            let params =
                Params { iaddress_width, iaddress_lsb, return_stack_size, implicit_return, ..Params::default() };
            let packet = decode(&bytes, &params, &Options::default()).ok();
            let expected = match packet {
                Some(Packet::Branches { map, address }) if bytes.len() <= 8 => Some((map, address)),
                _ => None,
            };
            prop_assert_eq!(CommonReader::new(&params).read(&bytes), expected);
        }
    }
}
