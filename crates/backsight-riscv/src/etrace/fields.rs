//! Packets as named fields, for listings: the columns of the reference flow's CSV files.

use core::fmt;

use super::{BranchMap, CountEnd, Options, Packet, Params, Reported};

/// A field's value with the base that it is listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Listed in decimal.
    Decimal(u64),
    /// Listed in hexadecimal, without a prefix.
    Hexadecimal(u64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal(value) => write!(f, "{value}"),
            Self::Hexadecimal(value) => write!(f, "{value:x}"),
        }
    }
}

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

impl Packet {
    /// The columns of a CSV listing, in order.
    pub const COLUMNS: [&'static str; 26] = [
        "format",
        "subformat",
        "address",
        "branch",
        "branches",
        "branch_map",
        "branch_count",
        "branch_fmt",
        "context",
        "ecause",
        "ienable",
        "encoder_mode",
        "interrupt",
        "irreport",
        "irdepth",
        "notify",
        "ioptions",
        "privilege",
        "qual_status",
        "time",
        "thaddr",
        "tval",
        "updiscon",
        "denable",
        "dloss",
        "doptions",
    ];

    /// Names every field that the packet has. `notify`, `updiscon` and `irreport` are the bits on the wire.
    pub fn fields(&self, layout: &PacketLayout, sink: &mut impl FnMut(&'static str, Value)) {
        use Value::{Decimal, Hexadecimal};
        let (format, subformat) = self.format();
        sink("format", Decimal(format.into()));
        if let Some(subformat) = subformat {
            sink("subformat", Decimal(subformat.into()));
        }
        match self {
            Self::BranchCount { count, end } => {
                sink("branch_count", Decimal((*count).into()));
                let (format, reported) = match end {
                    CountEnd::Mispredicted => (0, None),
                    CountEnd::Address(reported) => (2, Some(reported)),
                    CountEnd::MispredictedAt(reported) => (3, Some(reported)),
                };
                sink("branch_fmt", Decimal(format));
                if let Some(reported) = reported {
                    reported.fields(layout, sink);
                }
            }
            Self::JumpTarget { index, map, irreport } => {
                sink("index", Decimal((*index).into()));
                map_fields(map, sink);
                let width = BranchMap::width(map.count);
                let above = map.count > 0 && map.bits >> (width - 1) & 1 != 0;
                irreport_fields(*irreport, above, layout, sink);
            }
            Self::Branches { map, address } => {
                if map.count > 0 {
                    let listed = if address.is_some() { map.count % BranchMap::UNCOUNTED } else { 0 };
                    map_fields(&BranchMap { count: listed, bits: map.bits }, sink);
                }
                if let Some(reported) = address {
                    reported.fields(layout, sink);
                }
            }
            Self::Start(start) => {
                sink("address", Hexadecimal(start.address));
                sink("branch", Decimal(start.branch.into()));
                context_fields(start.privilege, start.time, start.context, layout, sink);
            }
            Self::Trap(trap) => {
                if let Some(address) = trap.address {
                    sink("address", Hexadecimal(address));
                }
                sink("branch", Decimal(trap.branch.into()));
                context_fields(trap.privilege, trap.time, trap.context, layout, sink);
                sink("ecause", Decimal(trap.ecause));
                sink("interrupt", Decimal(trap.interrupt.into()));
                sink("thaddr", Decimal(trap.thaddr.into()));
                if !trap.interrupt {
                    sink("tval", Hexadecimal(trap.tval));
                }
            }
            Self::Context(c) => context_fields(c.privilege, c.time, c.context, layout, sink),
            Self::Support(support) => {
                sink("ienable", Decimal(support.ienable.into()));
                sink("encoder_mode", Decimal(support.encoder_mode.into()));
                sink("qual_status", Decimal(support.qual_status as u64));
                sink("ioptions", Decimal(support.options.bits()));
                if support.denable || support.dloss {
                    sink("denable", Decimal(support.denable.into()));
                    sink("dloss", Decimal(support.dloss.into()));
                }
            }
        }
    }
}

impl Options {
    /// The option bits in the order of the reference model.
    pub const fn bits(&self) -> u64 {
        self.implicit_return as u64
            | (self.implicit_exception as u64) << 1
            | (self.full_address as u64) << 2
            | (self.jump_target_cache as u64) << 3
            | (self.branch_prediction as u64) << 4
    }
}

fn map_fields(map: &BranchMap, sink: &mut impl FnMut(&'static str, Value)) {
    sink("branches", Value::Decimal(map.count.into()));
    sink("branch_map", Value::Decimal(map.bits.into()));
}

fn context_fields(
    privilege: u8,
    time: u64,
    context: u64,
    layout: &PacketLayout,
    sink: &mut impl FnMut(&'static str, Value),
) {
    sink("privilege", Value::Decimal(privilege.into()));
    if layout.has_time {
        sink("time", Value::Decimal(time));
    }
    if layout.has_context {
        sink("context", Value::Decimal(context));
    }
}

fn irreport_fields(
    irreport: Option<u32>,
    above: bool,
    layout: &PacketLayout,
    sink: &mut impl FnMut(&'static str, Value),
) {
    sink("irreport", Value::Decimal((irreport.is_some() != above).into()));
    if layout.irdepth_bits > 0 {
        let silent = if above { u64::MAX >> (64 - layout.irdepth_bits) } else { 0 };
        sink("irdepth", Value::Decimal(irreport.map_or(silent, u64::from)));
    }
}

impl Reported {
    fn fields(&self, layout: &PacketLayout, sink: &mut impl FnMut(&'static str, Value)) {
        let sign = self.address >> (layout.address_bits.max(1) - 1) & 1 != 0;
        let notify = self.notify != sign;
        let updiscon = self.updiscon != notify;
        sink("address", Value::Hexadecimal(self.address));
        sink("notify", Value::Decimal(notify.into()));
        sink("updiscon", Value::Decimal(updiscon.into()));
        irreport_fields(self.irreport, updiscon, layout, sink);
    }
}
