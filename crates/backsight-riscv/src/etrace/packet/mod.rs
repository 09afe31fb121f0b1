//! What te_inst packets say.
//!
//! Each family of packets is a file: what it holds, how its bits are laid out, its reader, its writer, and how it is
//! listed; [`ROWS`](table::ROWS) is the table of all formats. Address fields are kept as they are sent: a number of
//! `iaddress_width - iaddress_lsb` bits, absolute in format 3 and in full address mode, otherwise the difference to the
//! address reported before. `notify`, `updiscon` and `irreport` are the flags, not the bits on the wire, which are chained
//! by exclusive or.

mod branches;
mod predicted;
mod support;
mod sync;
mod table;

pub use branches::{BranchMap, Reported};
pub(super) use branches::{encode_address, encode_full};
pub(super) use predicted::read_target;
pub use predicted::{CountEnd, MOST_COUNTED};
pub use support::{Disclosed, QualStatus, Support, SupportLayout};
pub use sync::{ContextPacket, Start, TrapPacket};
pub use table::{Kind, ROWS, Row};

use backsight_core::{Field, Text, Value};

use super::{BadPacket, BitWriter, FieldReader, FieldWriter, Options, Params};

/// One te_inst packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Format 0 subformat 0: this many branches were predicted correctly, less 31.
    BranchCount {
        /// The number less 31.
        count: u32,
        /// What came then.
        end: CountEnd,
    },
    /// Format 0 subformat 1: the target of an uninferable discontinuity is in the jump target cache.
    JumpTarget {
        /// Which entry.
        index: u32,
        /// Branches before (and at) it.
        map: BranchMap,
        /// irdepth or irets, where it is valid.
        irreport: Option<u32>,
    },
    /// Format 1: branches, and where the last of them led to; without an address the map is full. Format 2: no
    /// branches, and an address.
    Branches {
        /// The outcomes.
        map: BranchMap,
        /// The address.
        address: Option<Reported>,
    },
    /// Format 3 subformat 0.
    Start(Start),
    /// Format 3 subformat 1.
    Trap(TrapPacket),
    /// Format 3 subformat 2.
    Context(ContextPacket),
    /// Format 3 subformat 3.
    Support(Support),
}

const _: () = assert!(size_of::<Packet>() <= 64);

/// What the fields of a packet look like on the wire, as far as a listing needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLayout {
    address_bits: u8,
    irdepth_bits: u8,
    has_time: bool,
    has_context: bool,
}

impl PacketLayout {
    /// Nothing is known.
    pub(super) const NONE: Self =
        Self { address_bits: 64, irdepth_bits: 0, has_time: false, has_context: false };

    /// By the parameters of the encoder.
    pub const fn new(params: &Params) -> Self {
        Self {
            address_bits: params.address_bits(),
            irdepth_bits: params.irdepth_bits(),
            has_time: params.time_bits() > 0,
            has_context: params.context_bits() > 0,
        }
    }
}

/// Reads formats 0, 1 and 2 as the standard has them.
#[inline]
pub(super) fn read_flow(
    fields: &mut impl FieldReader,
    params: &Params,
    options: &Options,
) -> Result<Packet, BadPacket> {
    match fields.take(2) {
        0 => predicted::read(fields, params, options),
        1 => Ok(branches::read(fields, params)),
        _ => Ok(Packet::address(fields.reported(params))),
    }
}

/// Reads what follows the format of format 3.
pub(crate) fn read_format3(fields: &mut impl FieldReader, params: &Params, options: &Options) -> Packet {
    match fields.take(2) {
        0 => Packet::Start(Start::read(fields, params)),
        1 => Packet::Trap(TrapPacket::read(fields, params, options)),
        2 => Packet::Context(ContextPacket::read(fields, params)),
        _ => Packet::Support(params.layout.read(fields)),
    }
}

impl Packet {
    /// Writes the packet as the standard has it.
    #[inline]
    pub(super) fn write(&self, bits: &mut BitWriter, params: &Params, options: &Options) {
        match self {
            Self::BranchCount { count, end } => {
                self.write_format(params.f0s_width, bits);
                predicted::write_count(*count, end, bits, params);
            }
            Self::JumpTarget { index, map, irreport } => {
                self.write_format(params.f0s_width, bits);
                predicted::write_target(*index, map, *irreport, bits, params);
            }
            _ => self.write_without_tables(bits, params, options),
        }
    }

    /// Writes the packet as an encoder without a predictor and a jump target cache does: of format 0, nothing but the format.
    #[inline]
    pub(crate) fn write_without_tables(
        &self,
        fields: &mut impl FieldWriter,
        params: &Params,
        options: &Options,
    ) {
        self.write_format(2, fields);
        match self {
            Self::Branches { map, address } => branches::write(map, address.as_ref(), fields, params),
            Self::Start(start) => start.write(fields, params),
            Self::Trap(trap) => trap.write(fields, params, options),
            Self::Context(context) => context.write(fields, params),
            Self::Support(support) => params.layout.write(support, fields),
            Self::BranchCount { .. } | Self::JumpTarget { .. } => {}
        }
    }

    /// Format and, where there is one, subformat.
    #[inline]
    fn write_format(&self, subformat_bits: u8, fields: &mut impl FieldWriter) {
        let row = self.kind().row();
        fields.put(row.format.into(), 2);
        if let Some(subformat) = row.subformat {
            fields.put(subformat.into(), subformat_bits);
        }
    }

    /// Names every field that the packet has. `notify`, `updiscon` and `irreport` are the bits on the wire.
    pub fn fields(&self, layout: &PacketLayout, each: &mut dyn FnMut(Field)) {
        // The format is in the name of the packet.
        let hidden = |name, value: u8| Field::new(name, Value::Decimal(value.into())).text(Text::Hidden);
        let row = self.kind().row();
        each(hidden("format", row.format));
        if let Some(subformat) = row.subformat {
            each(hidden("subformat", subformat));
        }
        match self {
            Self::BranchCount { count, end } => predicted::count_fields(*count, end, layout, each),
            Self::JumpTarget { index, map, irreport } => {
                predicted::target_fields(*index, map, *irreport, layout, each);
            }
            Self::Branches { map, address } => branches::fields(map, address.as_ref(), layout, each),
            Self::Start(start) => start.fields(layout, each),
            Self::Trap(trap) => trap.fields(layout, each),
            Self::Context(context) => context.fields(layout, each),
            Self::Support(support) => support.fields(each),
        }
    }

    /// The row of the table that this packet is of.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::BranchCount { .. } => Kind::BranchCount,
            Self::JumpTarget { .. } => Kind::JumpTarget,
            Self::Branches { map: BranchMap { count: 0, .. }, .. } => Kind::Address,
            Self::Branches { .. } => Kind::Branches,
            Self::Start(_) => Kind::Start,
            Self::Trap(_) => Kind::Trap,
            Self::Context(_) => Kind::Context,
            Self::Support(_) => Kind::Support,
        }
    }

    /// Format 2.
    pub const fn address(reported: Reported) -> Self {
        BranchMap::EMPTY.with_address(reported)
    }

    /// Is this a synchronisation packet (format 3 subformat 0 or 1)?
    pub const fn is_sync(&self) -> bool {
        matches!(self, Self::Start(_) | Self::Trap(_))
    }
}
