//! What a te_data packet means after those before it.

use core::fmt;

use super::{Coding, DataCoding, Packet};
use crate::ingress::{DataAccess, DataRecord, Dtype};

/// A record of data trace with how it was sent, in a few words of memory: a stream of packets holds it by value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// Low half, high half.
    data: [u64; 2],
    operand: [u64; 2],
    address: u64,
    lrid: u16,
    dtype: Dtype,
    size: u8,
    coding: Coding,
    has_data: bool,
    has_operand: bool,
    has_address: bool,
    has_lrid: bool,
    multiple: bool,
    is_response: bool,
    is_atomic: bool,
}

const _: () = assert!(size_of::<Traced>() <= 56);

const fn halves(value: Option<u128>) -> ([u64; 2], bool) {
    match value {
        Some(value) => ([value as u64, (value >> 64) as u64], true),
        None => ([0; 2], false),
    }
}

fn joined([low, high]: [u64; 2], known: bool) -> Option<u128> {
    known.then_some(u128::from(low) | u128::from(high) << 64)
}

impl Traced {
    /// What `packet` means.
    pub(super) fn new(packet: &Packet, record: &DataRecord) -> Self {
        let coding = match packet {
            Packet::Access(access) => access.coding,
            Packet::Response(response) => {
                let data = response.data.map_or(DataCoding::Full, |(coding, _)| coding);
                Coding { differential_address: false, data }
            }
        };
        let (access, is_response, is_atomic) = match *record {
            DataRecord::Access(access) => (access, false, false),
            DataRecord::Response { lrid, atomic, size, data } => {
                (DataAccess { lrid: Some(lrid), size, data, ..DataAccess::default() }, true, atomic)
            }
        };
        let ((data, has_data), (operand, has_operand)) = (halves(access.data), halves(access.operand));
        Self {
            data,
            operand,
            address: access.address.unwrap_or(0),
            lrid: access.lrid.unwrap_or(0),
            dtype: access.dtype,
            size: access.size,
            coding,
            has_data,
            has_operand,
            has_address: access.address.is_some(),
            has_lrid: access.lrid.is_some(),
            multiple: access.multiple,
            is_response,
            is_atomic,
        }
    }

    /// What the hart did.
    pub fn record(&self) -> DataRecord {
        let Self { lrid, dtype, size, multiple, .. } = *self;
        let data = joined(self.data, self.has_data);
        if self.is_response {
            return DataRecord::Response { lrid, atomic: self.is_atomic, size, data };
        }
        DataRecord::Access(DataAccess {
            dtype,
            multiple,
            size,
            address: self.has_address.then_some(self.address),
            operand: joined(self.operand, self.has_operand),
            data,
            lrid: self.has_lrid.then_some(lrid),
        })
    }

    /// How address and data were sent.
    pub const fn coding(&self) -> Coding {
        self.coding
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced").field("record", &self.record()).field("coding", &self.coding).finish()
    }
}
