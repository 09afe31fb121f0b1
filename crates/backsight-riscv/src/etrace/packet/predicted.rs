//! Format 0: branches that the predictor knew, and jumps that the jump target cache knows.
//!
//! ```text
//! subformat 0: branch_count (32)   branch_fmt (2)   [address notify updiscon irreport irdepth]
//! subformat 1: index   branches (5)   branch_map   irreport irdepth
//! ```
//!
//! The subformat has `f0s_width` bits; where it has none, the options in force decide.

use backsight_core::{Field, Text, Value};

use super::branches::{BranchMap, Reported, irreport_fields};
use super::{Packet, PacketLayout};
use crate::etrace::{BadPacket, BitWriter, FieldReader, FieldWriter, Options, Params};

/// Most branches that format 0 counts, less 31. The field could hold more, but an encoder resynchronises long before;
/// one wrong bit would else make a billion instructions.
pub const MOST_COUNTED: u32 = 1 << 28;

/// Where a count of predicted branches ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountEnd {
    /// No address: the branch after the counted ones was mispredicted (branch_fmt 0).
    Mispredicted,
    /// The address of an instruction that is not a branch, or a branch predicted correctly (branch_fmt 2).
    Address(Reported),
    /// The address of a mispredicted branch, which is not counted (branch_fmt 3).
    MispredictedAt(Reported),
}

impl CountEnd {
    /// branch_fmt, and the address that follows it.
    const fn parts(&self) -> (u64, Option<&Reported>) {
        match self {
            Self::Mispredicted => (0, None),
            Self::Address(reported) => (2, Some(reported)),
            Self::MispredictedAt(reported) => (3, Some(reported)),
        }
    }
}

/// Reads what follows the format.
#[inline]
pub(in crate::etrace) fn read(
    fields: &mut impl FieldReader,
    params: &Params,
    options: &Options,
) -> Result<Packet, BadPacket> {
    let (predictor, cache) = (options.branch_prediction, options.jump_target_cache);
    let subformat = match (params.f0s_width, predictor) {
        (0, true) => 0,
        (0, false) => 1,
        (width, _) => fields.take(width),
    };
    match subformat {
        0 if predictor => read_count(fields, params),
        1 if cache => {
            let (index, map, irreport) = read_target(fields, params);
            Ok(Packet::JumpTarget { index, map, irreport })
        }
        0 | 1 => Err(BadPacket::OptionOff),
        _ => Err(BadPacket::ReservedSubformat),
    }
}

#[inline]
fn read_count(fields: &mut impl FieldReader, params: &Params) -> Result<Packet, BadPacket> {
    let count = fields.take(32) as u32;
    if count > MOST_COUNTED {
        return Err(BadPacket::ImpossibleCount);
    }
    let end = match fields.take(2) {
        0 => CountEnd::Mispredicted,
        1 => return Err(BadPacket::ReservedBranchFormat),
        2 => CountEnd::Address(fields.reported(params)),
        _ => CountEnd::MispredictedAt(fields.reported(params)),
    };
    Ok(Packet::BranchCount { count, end })
}

/// Index, branches, and irdepth or irets.
#[inline]
pub(in crate::etrace) fn read_target(
    fields: &mut impl FieldReader,
    params: &Params,
) -> (u32, BranchMap, Option<u32>) {
    let index = fields.take(params.cache_size) as u32;
    let count = fields.take(5) as u8;
    let (map, above) = match count {
        0 => (BranchMap::EMPTY, false),
        _ => {
            let width = BranchMap::width(count);
            let bits = fields.take(width) as u32;
            (BranchMap::new(count, bits), bits >> (width - 1) & 1 != 0)
        }
    };
    let irreport = fields.flag();
    let value = fields.take(params.irdepth_bits()) as u32;
    (index, map, (irreport != above).then_some(value))
}

/// Writes subformat 0.
pub(in crate::etrace) fn write_count(count: u32, end: &CountEnd, fields: &mut BitWriter, params: &Params) {
    let (branch_format, reported) = end.parts();
    fields.put(count.into(), 32);
    fields.put(branch_format, 2);
    if let Some(reported) = reported {
        fields.reported(reported, params);
    }
}

/// Writes subformat 1.
pub(in crate::etrace) fn write_target(
    index: u32,
    map: &BranchMap,
    irreport: Option<u32>,
    fields: &mut BitWriter,
    params: &Params,
) {
    fields.put(index.into(), params.cache_size);
    fields.put(map.count.into(), 5);
    if map.count > 0 {
        fields.put(map.bits.into(), BranchMap::width(map.count));
    }
    fields.irreport(irreport, params);
}

/// Lists subformat 0.
pub(super) fn count_fields(count: u32, end: &CountEnd, layout: &PacketLayout, each: &mut dyn FnMut(Field)) {
    let (branch_format, reported) = end.parts();
    each(Field::new("branch_count", Value::Decimal(count.into())));
    each(Field::new("branch_fmt", Value::Decimal(branch_format)));
    if let Some(reported) = reported {
        reported.fields(layout, each);
    }
}

/// Lists subformat 1.
pub(super) fn target_fields(
    index: u32,
    map: &BranchMap,
    irreport: Option<u32>,
    layout: &PacketLayout,
    each: &mut dyn FnMut(Field),
) {
    // Every line of a listing has an index of its own.
    each(Field::new("cache_index", Value::Decimal(index.into())).text(Text::Labelled("index")));
    map.fields(each);
    let above = map.count > 0 && map.bits >> (BranchMap::width(map.count) - 1) & 1 != 0;
    irreport_fields(irreport, above, layout, each);
}
