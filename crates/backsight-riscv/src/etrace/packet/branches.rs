//! Formats 1 and 2: branches, and addresses.
//!
//! ```text
//! format 1: branches (5)   branch_map   [address notify updiscon irreport irdepth]      without an address: branches = 0
//! format 2:                              address notify updiscon irreport irdepth
//! ```
//!
//! `notify`, `updiscon` and `irreport` are sent as whether they differ from the bit before them, so that they compress away.

use backsight_core::{Field, Value};

use super::{Packet, PacketLayout};
use crate::etrace::{BitWriter, FieldReader, FieldWriter, Params, Payload};

/// Outcomes of branches, oldest in bit 0; 0 = taken, 1 = not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BranchMap {
    /// Number of branches, 0 to 31, or [`BranchMap::UNCOUNTED`].
    pub count: u8,
    /// The outcomes; bits from `count` on are 0.
    pub bits: u32,
}

impl BranchMap {
    /// Most branches that a map holds.
    pub const FULL: u8 = 31;

    /// The number of branches is not known: what the encoder for [CVA6](crate::cva6) sends for 16 to 30 branches and an
    /// address.
    pub const UNCOUNTED: u8 = 32;

    /// No branches.
    pub const EMPTY: Self = Self { count: 0, bits: 0 };

    /// The lowest `count` bits of `bits`.
    #[inline]
    pub const fn new(count: u8, bits: u32) -> Self {
        let count = if count > Self::FULL { Self::FULL } else { count };
        Self { count, bits: bits & ((1 << count) - 1) }
    }

    /// Appends one outcome; a full map stays as it is.
    #[inline]
    pub const fn push(&mut self, taken: bool) {
        if self.count < Self::FULL {
            self.bits |= (!taken as u32) << self.count;
            self.count += 1;
        }
    }

    /// Bits that the map takes in a packet: 1, 3, 7, 15 or 31, the least that `count` fits into.
    #[inline]
    pub const fn width(count: u8) -> u8 {
        match count {
            1..=15 => u8::MAX >> count.leading_zeros(),
            _ => 31,
        }
    }

    /// The packet that reports these branches and then an address.
    #[inline]
    pub const fn with_address(self, reported: Reported) -> Packet {
        Packet::Branches { map: self, address: Some(reported) }
    }

    /// Its fields; a map without an address is listed with as many branches as are sent: none.
    pub(super) fn fields(&self, each: &mut dyn FnMut(Field)) {
        each(Field::new("branches", Value::Decimal(self.count.into())));
        each(Field::new("branch_map", Value::Decimal(self.bits.into())));
    }
}

/// An address with the flags that follow it in formats 0, 1 and 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reported {
    /// The address field.
    pub address: u64,
    /// Reported because a trigger asked for it, not as the target of an uninferable discontinuity.
    pub notify: bool,
    /// Follows an uninferable discontinuity, and the next packet will be of format 3 because of a trap, a privilege
    /// change or a resync.
    pub updiscon: bool,
    /// irdepth or irets, where it is valid.
    pub irreport: Option<u32>,
}

impl Reported {
    /// Are the bits after the address no more than its sign?
    #[inline]
    pub(in crate::etrace) fn has_clear_flags(&self) -> bool {
        !self.notify && !self.updiscon && self.irreport.is_none()
    }

    pub(super) fn fields(&self, layout: &PacketLayout, each: &mut dyn FnMut(Field)) {
        let sign = self.address >> (layout.address_bits.max(1) - 1) & 1 != 0;
        let notify = self.notify != sign;
        let updiscon = self.updiscon != notify;
        each(Field::new("address", Value::Hexadecimal(self.address)));
        each(Field::new("notify", Value::Decimal(notify.into())));
        each(Field::new("updiscon", Value::Decimal(updiscon.into())));
        irreport_fields(self.irreport, updiscon, layout, each);
    }
}

/// irreport and irdepth. Without a report both repeat the bit before them, `above`.
pub(super) fn irreport_fields(
    irreport: Option<u32>,
    above: bool,
    layout: &PacketLayout,
    each: &mut dyn FnMut(Field),
) {
    each(Field::new("irreport", Value::Decimal((irreport.is_some() != above).into())));
    if layout.irdepth_bits > 0 {
        let silent = if above { u64::MAX >> (64 - layout.irdepth_bits) } else { 0 };
        each(Field::new("irdepth", Value::Decimal(irreport.map_or(silent, u64::from))));
    }
}

/// Reads format 1.
#[inline]
pub(in crate::etrace) fn read(fields: &mut impl FieldReader, params: &Params) -> Packet {
    let count = fields.take(5) as u8;
    let bits = fields.take(BranchMap::width(count)) as u32;
    if count == 0 {
        return Packet::Branches { map: BranchMap::new(BranchMap::FULL, bits), address: None };
    }
    BranchMap::new(count, bits).with_address(fields.reported(params))
}

/// Writes format 1 or 2.
#[inline]
pub(super) fn write(
    map: &BranchMap,
    address: Option<&Reported>,
    fields: &mut impl FieldWriter,
    params: &Params,
) {
    if map.count > 0 {
        let count = if address.is_some() { map.count % BranchMap::UNCOUNTED } else { 0 };
        fields.put(count.into(), 5);
        fields.put(map.bits.into(), BranchMap::width(count));
    }
    if let Some(reported) = address {
        fields.reported(reported, params);
    }
}

/// Lists the fields of format 1 or 2.
pub(super) fn fields(
    map: &BranchMap,
    address: Option<&Reported>,
    layout: &PacketLayout,
    each: &mut dyn FnMut(Field),
) {
    if map.count > 0 {
        let listed = if address.is_some() { map.count % BranchMap::UNCOUNTED } else { 0 };
        BranchMap { count: listed, bits: map.bits }.fields(each);
    }
    if let Some(reported) = address {
        reported.fields(layout, each);
    }
}

/// Encodes an address without flags, with the branches before it (format 1) or, without any, alone (format 2). All
/// bits after the address repeat its sign, so that they compress away.
#[inline(always)]
pub(in crate::etrace) fn encode_address(map: BranchMap, address: u64, params: &Params) -> Payload {
    let unused = 64 - params.address_bits().clamp(1, 64);
    let address = (address << unused) as i64 >> unused;
    let (head, width) = match map.count {
        0 => (2, 2),
        count => {
            let width = BranchMap::width(count);
            let bits = u64::from(map.bits) & ((1 << width) - 1);
            (1 | u64::from(count & 31) << 2 | bits << 7, 7 + width)
        }
    };
    Payload::compressed_pair(head, width, address)
}

/// Encodes a full map without an address. All bits after it repeat its last one, so that they compress away.
#[inline]
pub(in crate::etrace) fn encode_full(map: &BranchMap) -> Payload {
    const WIDTH: u8 = 7 + BranchMap::FULL;
    let fields = (1 | u64::from(map.bits) << 7) & ((1 << WIDTH) - 1);
    let last = fields >> (WIDTH - 1);
    Payload::compressed_pair(fields, WIDTH, -(last as i64))
}

impl BitWriter {
    /// irreport and irdepth. Without a report the field repeats the bit before it, so that it compresses away.
    pub(in crate::etrace) fn irreport(&mut self, irreport: Option<u32>, params: &Params) {
        let above = self.top();
        self.put((irreport.is_some() != above).into(), 1);
        let value = match irreport {
            Some(value) => value.into(),
            None if above => u64::MAX,
            None => 0,
        };
        self.put(value, params.irdepth_bits());
    }
}
