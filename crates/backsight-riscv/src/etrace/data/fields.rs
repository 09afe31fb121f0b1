//! Data packets as named fields, for listings.

use super::{DataCoding, Packet};

impl Packet {
    /// Names every number that the packet carries, as sent: `true` for those that are listed in hexadecimal.
    pub fn fields(&self, sink: &mut impl FnMut(&'static str, u128, bool)) {
        match self {
            Self::Access(access) => {
                sink("size", 1 << access.size.min(7), false);
                if access.multiple {
                    sink("multiple", 1, false);
                }
                if !access.aligned {
                    sink("unaligned", 1, false);
                }
                if let Some(lrid) = access.lrid {
                    sink("lrid", lrid.into(), false);
                }
                if access.coding.differential_address {
                    sink("diff_address", 1, false);
                }
                coding(access.coding.data, sink);
                for (name, value) in [("operand", access.operand), ("data", access.data)] {
                    if let Some(value) = value {
                        sink(name, value, true);
                    }
                }
                if let Some(address) = access.address {
                    sink("address", address.into(), true);
                }
            }
            Self::Response(response) => {
                sink("size", 1 << response.size.min(7), false);
                sink("lrid", response.lrid.into(), false);
                match response.data {
                    Some((how, data)) => {
                        coding(how, sink);
                        sink("data", data, true);
                    }
                    None => sink("error", 1, false),
                }
            }
        }
    }
}

fn coding(coding: DataCoding, sink: &mut impl FnMut(&'static str, u128, bool)) {
    match coding {
        DataCoding::Full => {}
        DataCoding::Xor => sink("xor_data", 1, false),
        DataCoding::Differential => sink("diff_data", 1, false),
    }
}
