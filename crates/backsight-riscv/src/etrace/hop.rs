//! The quick way through the packets that a long trace is made of: formats 1 and 2 in at most eight bytes.
//!
//! One table, looked up by format and number of branches, says where the fields are; nothing depends on what was
//! decoded before. Everything else is left to [`decode`](super::decode), which agrees with this wherever both answer.

use super::short::{Bits, ShortReader};
use super::{BranchMap, Dialect, Packet, Params, Reported};

/// What a packet of format 1 or 2 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Outcomes of branches; none in format 2.
    pub map: BranchMap,
    /// Where they led to.
    pub address: Option<Reported>,
}

/// Where the fields are.
#[derive(Clone, Copy)]
struct Row {
    /// Number of branches.
    count: u8,
    /// Bits of the map.
    width: u8,
    /// First bit behind the map.
    behind: u8,
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
    let mut rows = [Row { count: 0, width: 0, behind: 0, form: Form::Other }; 128];
    let mut bits = 0;
    while bits < rows.len() {
        let count = (bits >> 2) as u8;
        let width = BranchMap::width(count);
        rows[bits] = match (bits & 3, count) {
            (1, 0) => Row { count: BranchMap::FULL, width, behind: 7 + width, form: Form::Map },
            (1, _) => Row { count, width, behind: 7 + width, form: Form::Address },
            (2, _) => Row { count: 0, width: 0, behind: 2, form: Form::Address },
            _ => rows[bits],
        };
        bits += 1;
    }
    rows
};

impl Hop {
    /// The packet in a payload, if it is one of those.
    #[inline]
    pub fn read(payload: &[u8], params: &Params) -> Option<Self> {
        let row = &ROWS[usize::from(*payload.first()? & 0x7F)];
        if row.form == Form::Other || params.dialect != Dialect::Standard {
            return None;
        }
        let mut bits = ShortReader::new(payload)?;
        bits.seek(7);
        let map = BranchMap::new(row.count, bits.take(row.width) as u32);
        bits.seek(row.behind);
        let address = if row.form == Form::Address { Some(bits.reported(params)) } else { None };
        (bits.unused() <= 7).then_some(Self { map, address })
    }

    /// What a packet says, if it is one of those.
    #[inline]
    pub const fn of(packet: &Packet) -> Option<Self> {
        match *packet {
            Packet::Branches { map, address } => Some(Self { map, address }),
            Packet::Address(reported) => Some(Self { map: BranchMap::EMPTY, address: Some(reported) }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ImplicitReturn, Options, decode};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hop_is_what_the_packet_says(
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
            let hop = packet.as_ref().and_then(Hop::of);
            prop_assert_eq!(Hop::read(&bytes, &params), hop.filter(|_| bytes.len() <= 8));
            let seed = Params { dialect: Dialect::Seed, ..params };
            prop_assert_eq!(Hop::read(&bytes, &seed), None);
        }
    }
}
