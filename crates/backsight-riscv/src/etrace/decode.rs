//! From payload bytes to packets.

use core::fmt;

use backsight_core::Located;

use crate::cva6;

use super::common::CommonReader;
use super::word::{Bits, WordReader};
use super::{
    Announced, BitReader, BranchMap, BranchPacket, ContextPacket, CountEnd, DataOptions, Dialect,
    MessageSink, Options, Packet, PacketLayout, Params, Reported, Start, SupportLayout, TrapPacket,
};

/// Most branches that format 0 counts, less 31. The field could hold more, but an encoder resynchronises long before;
/// one wrong bit would else make a billion instructions.
pub const MOST_COUNTED: u32 = 1 << 28;

/// Why a payload is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadPacket {
    /// There are no bytes.
    Empty,
    /// More bytes than the fields take: parameters are wrong, or bytes were damaged.
    TooLong,
    /// branch_fmt 1.
    ReservedBranchFormat,
    /// A subformat of format 0 that has no meaning.
    ReservedSubformat,
    /// Format 0, and neither branch prediction nor the jump target cache is on.
    OptionOff,
    /// More predicted branches than any encoder lets pass without a packet: see [`MOST_COUNTED`].
    ImpossibleCount,
    /// A support packet of an encoder that does not trace branches.
    ReservedMode,
    /// A support packet that switches on what the parameters have no table for, or has a width that cannot be.
    ImpossibleOption,
}

impl BadPacket {
    /// The reason, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Empty => "empty payload",
            Self::TooLong => "payload longer than its fields",
            Self::ReservedBranchFormat => "reserved branch_fmt 1",
            Self::ReservedSubformat => "reserved subformat of format 0",
            Self::OptionOff => "format 0 while its option is off",
            Self::ImpossibleCount => "an impossible number of branches",
            Self::ReservedMode => "reserved encoder_mode",
            Self::ImpossibleOption => "an option that the parameters have no room for",
        }
    }
}

impl fmt::Display for BadPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for BadPacket {}

/// Decodes the payloads of one source and keeps the options that its support packets announce.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PayloadDecoder {
    /// For the packets that a long trace is made of; dialects have none.
    common: Option<CommonReader>,
    announced: Announced,
}

impl PayloadDecoder {
    /// A decoder that assumes `options` until a support packet says otherwise.
    pub fn new(params: Params, options: Options) -> Self {
        Self { common: common_reader(&params), announced: Announced::new(params, options) }
    }

    /// The parameters; the draft's support packets change them.
    pub const fn params(&self) -> &Params {
        self.announced.params()
    }

    /// The options in force.
    pub const fn options(&self) -> &Options {
        self.announced.options()
    }

    /// The options of data trace in force.
    pub const fn data_options(&self) -> &DataOptions {
        self.announced.data_options()
    }

    /// Bytes that may have been packets were damaged: options that are doubted are not believed any more. True: others are
    /// in force now.
    pub fn fault(&mut self) -> bool {
        let changed = self.announced.fault();
        self.renew_common();
        changed
    }

    /// Decodes one payload.
    #[inline]
    pub fn decode(&mut self, payload: &[u8]) -> Result<Packet, BadPacket> {
        match self.common.and_then(|common| common.read(payload)) {
            Some((map, address)) => Ok(Packet::Branches { map, address }),
            None => self.decode_any(payload),
        }
    }

    /// Decodes one payload and gives what was found, of source 0.
    #[inline(always)]
    pub fn feed(&mut self, payload: Located<&[u8]>, sink: &mut impl MessageSink) {
        if let Some((map, reported)) = self.branches(payload.value) {
            let (source, time, address, layout) = (0, None, None, PacketLayout::NONE);
            sink.take_branches(payload.map(|_| BranchPacket {
                source,
                time,
                address,
                layout,
                map,
                reported,
            }));
        } else if let Some((index, map, irreport)) = self.jump_target(payload.value) {
            sink.take(payload.map(|_| Packet::JumpTarget { index, map, irreport }.into()));
        } else {
            sink.take(payload.map(|bytes| self.decode_any(bytes).into()));
        }
    }

    /// The packet in a payload if it is of format 1 or 2 and short.
    #[inline(always)]
    pub(super) fn branches(&self, payload: &[u8]) -> Option<(BranchMap, Option<Reported>)> {
        self.common.as_ref().and_then(|common| common.read(payload))
    }

    /// The packet in a payload if it is of format 0 subformat 1 and short.
    #[inline(always)]
    pub(super) fn jump_target(&self, payload: &[u8]) -> Option<(u32, BranchMap, Option<u32>)> {
        let (params, options) = (self.params(), self.options());
        if payload.first()? & 3 != 0 || !options.jump_target_cache || self.common.is_none() {
            return None;
        }
        let mut fields = FieldReader { bits: WordReader::new(payload)?, params, options };
        fields.bits.take(2);
        // Without a subformat the options decide; they are left to the other formats' way.
        if fields.bits.take(params.f0s_width) != 1 {
            return None;
        }
        let target = fields.jump_target();
        (fields.bits.unused() <= 7).then_some(target)
    }

    #[inline(never)]
    fn decode_any(&mut self, payload: &[u8]) -> Result<Packet, BadPacket> {
        let mut packet = self.decode_as_announced(payload);
        let doubtful = match &packet {
            Ok(packet) => self.announced.packet(packet),
            Err(_) => self.announced.fault(),
        };
        if doubtful {
            packet = self.decode_as_announced(payload);
        }
        if let Ok(Packet::Support(support)) = &packet {
            self.announced.support(support);
        }
        self.renew_common();
        packet
    }

    fn decode_as_announced(&self, payload: &[u8]) -> Result<Packet, BadPacket> {
        decode(payload, self.params(), self.options())
    }

    /// While the next packet decides whether the options are believed, it is looked at closely.
    fn renew_common(&mut self) {
        self.common =
            if self.announced.waits_for_sync() { None } else { common_reader(self.announced.params()) };
    }
}

fn common_reader(params: &Params) -> Option<CommonReader> {
    (params.dialect == Dialect::Standard).then(|| CommonReader::new(params))
}

/// Decodes one payload.
#[inline]
pub fn decode(payload: &[u8], params: &Params, options: &Options) -> Result<Packet, BadPacket> {
    if params.dialect == Dialect::Cva6 {
        return cva6::decode(payload, params, options);
    }
    let &first = payload.first().ok_or(BadPacket::Empty)?;
    if first & 3 != 3
        && let Some(bits) = WordReader::new(payload)
    {
        return FieldReader { bits, params, options }.flow();
    }
    FieldReader { bits: BitReader::new(payload), params, options }.any()
}

struct FieldReader<'a, B> {
    bits: B,
    params: &'a Params,
    options: &'a Options,
}

impl FieldReader<'_, BitReader<'_>> {
    #[inline(never)]
    fn any(mut self) -> Result<Packet, BadPacket> {
        let mut ahead = self.bits;
        if ahead.take(2) != 3 {
            return self.flow();
        }
        self.bits = ahead;
        let packet = self.format3();
        // A vendor may append bits to the draft standard's support packet.
        let is_open = matches!(packet, Packet::Support(_)) && self.params.layout == SupportLayout::Standard;
        if self.bits.unused() > 7 && !is_open {
            return Err(BadPacket::TooLong);
        }
        if let Packet::Support(support) = &packet {
            support.check(self.params)?;
        }
        Ok(packet)
    }

    fn format3(&mut self) -> Packet {
        match self.bits.take(2) {
            0 => {
                let (branch, context) = (self.bits.flag(), self.context());
                let address = self.bits.take(self.params.address_bits());
                let ContextPacket { privilege, time, context } = context;
                Packet::Start(Start { branch, privilege, time, context, address })
            }
            1 => self.trap(),
            2 => Packet::Context(self.context()),
            _ => Packet::Support(self.params.layout.read(&mut self.bits)),
        }
    }

    fn trap(&mut self) -> Packet {
        let branch = self.bits.flag();
        let ContextPacket { privilege, time, context } = self.context();
        let ecause = self.bits.take(self.params.ecause_width);
        let (interrupt, thaddr) = (self.bits.flag(), self.bits.flag());
        let implicit = self.options.implicit_exception && thaddr;
        let address = (!implicit).then(|| self.bits.take(self.params.address_bits()));
        let tval = if interrupt { 0 } else { self.bits.take(self.params.iaddress_width) };
        Packet::Trap(TrapPacket {
            branch,
            privilege,
            time,
            context,
            ecause,
            interrupt,
            thaddr,
            address,
            tval,
        })
    }

    fn context(&mut self) -> ContextPacket {
        ContextPacket::read(&mut self.bits, self.params)
    }
}

impl<B: Bits> FieldReader<'_, B> {
    /// Formats 0, 1 and 2.
    #[inline]
    fn flow(mut self) -> Result<Packet, BadPacket> {
        let packet = match self.bits.take(2) {
            0 => self.format0()?,
            1 => self.format1(),
            _ => Packet::address(self.reported()),
        };
        if self.bits.unused() > 7 { Err(BadPacket::TooLong) } else { Ok(packet) }
    }

    fn format0(&mut self) -> Result<Packet, BadPacket> {
        let (predictor, cache) = (self.options.branch_prediction, self.options.jump_target_cache);
        let subformat = match (self.params.f0s_width, predictor, cache) {
            (0, true, _) => 0,
            (0, false, _) => 1,
            (width, ..) => self.bits.take(width),
        };
        match subformat {
            0 if predictor => self.branch_count(),
            1 if cache => {
                let (index, map, irreport) = self.jump_target();
                Ok(Packet::JumpTarget { index, map, irreport })
            }
            0 | 1 => Err(BadPacket::OptionOff),
            _ => Err(BadPacket::ReservedSubformat),
        }
    }

    fn branch_count(&mut self) -> Result<Packet, BadPacket> {
        let count = self.bits.take(32) as u32;
        if count > MOST_COUNTED {
            return Err(BadPacket::ImpossibleCount);
        }
        let end = match self.bits.take(2) {
            0 => CountEnd::Mispredicted,
            1 => return Err(BadPacket::ReservedBranchFormat),
            2 => CountEnd::Address(self.reported()),
            _ => CountEnd::MispredictedAt(self.reported()),
        };
        Ok(Packet::BranchCount { count, end })
    }

    /// Index, branches, and irdepth or irets.
    #[inline]
    fn jump_target(&mut self) -> (u32, BranchMap, Option<u32>) {
        let index = self.bits.take(self.params.cache_size) as u32;
        let count = self.bits.take(5) as u8;
        let (map, above) = match count {
            0 => (BranchMap::EMPTY, false),
            _ => {
                let width = BranchMap::width(count);
                let bits = self.bits.take(width) as u32;
                (BranchMap::new(count, bits), bits >> (width - 1) & 1 != 0)
            }
        };
        (index, map, self.irreport(above))
    }

    #[inline]
    fn format1(&mut self) -> Packet {
        let count = self.bits.take(5) as u8;
        let width = BranchMap::width(count);
        let bits = self.bits.take(width) as u32;
        if count == 0 {
            return Packet::Branches { map: BranchMap::new(BranchMap::FULL, bits), address: None };
        }
        Packet::Branches { map: BranchMap::new(count, bits), address: Some(self.reported()) }
    }

    #[inline]
    fn reported(&mut self) -> Reported {
        self.bits.reported(self.params)
    }

    #[inline]
    fn irreport(&mut self, above: bool) -> Option<u32> {
        let irreport = self.bits.flag();
        let value = self.bits.take(self.params.irdepth_bits()) as u32;
        (irreport != above).then_some(value)
    }
}
