//! From payload bytes to packets.

use core::fmt;

use super::quick::QuickReader;
use super::short::{Bits, ShortReader};
use super::{
    BitReader, BranchMap, ContextPacket, CountEnd, DataOptions, Dialect, Options, Packet, Params, Reported,
    Start, TrapPacket,
};

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
}

impl fmt::Display for BadPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty payload",
            Self::TooLong => "payload longer than its fields",
            Self::ReservedBranchFormat => "reserved branch_fmt 1",
            Self::ReservedSubformat => "reserved subformat of format 0",
            Self::OptionOff => "format 0 while its option is off",
        })
    }
}

impl core::error::Error for BadPacket {}

/// Decodes the payloads of one source and keeps the options that its support packets announce.
#[derive(Clone, Copy, Debug)]
pub struct PayloadDecoder {
    quick: QuickReader,
    params: Params,
    options: Options,
    data_options: DataOptions,
}

impl PayloadDecoder {
    /// A decoder that assumes `options` until a support packet says otherwise.
    pub fn new(params: Params, options: Options) -> Self {
        Self { quick: QuickReader::new(&params), params, options, data_options: DataOptions::default() }
    }

    /// The parameters; the draft's support packets change them.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// The options in force.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// The options of data trace in force.
    pub const fn data_options(&self) -> &DataOptions {
        &self.data_options
    }

    /// Decodes one payload.
    #[inline]
    pub fn decode(&mut self, payload: &[u8]) -> Result<Packet, BadPacket> {
        match self.quick.read(payload) {
            Some(packet) => Ok(packet),
            None => self.decode_any(payload),
        }
    }

    /// Decodes one payload and hands the packet over. The common formats and all others are handed over in two places,
    /// so that what takes the common ones can be compiled into their reader.
    #[inline(always)]
    pub fn decode_to(&mut self, payload: &[u8], mut sink: impl FnMut(Result<Packet, BadPacket>)) {
        match self.quick.read(payload) {
            Some(packet) => sink(Ok(packet)),
            None => sink(self.decode_any(payload)),
        }
    }

    #[inline(never)]
    fn decode_any(&mut self, payload: &[u8]) -> Result<Packet, BadPacket> {
        let packet = decode(payload, &self.params, &self.options)?;
        if let Packet::Support(support) = &packet {
            support.announce(&mut self.params, &mut self.options);
            self.data_options = support.data_options;
            self.quick = QuickReader::new(&self.params);
        }
        Ok(packet)
    }
}

/// Decodes one payload.
#[inline]
pub fn decode(payload: &[u8], params: &Params, options: &Options) -> Result<Packet, BadPacket> {
    let &first = payload.first().ok_or(BadPacket::Empty)?;
    let length = payload.len() * 8;
    if params.dialect == Dialect::Standard
        && first & 3 != 3
        && let Some(bits) = ShortReader::new(payload)
    {
        return Fields { bits, length, params, options }.flow();
    }
    let bits = match params.dialect {
        Dialect::Standard => BitReader::new(payload),
        Dialect::Seed => BitReader::zero_padded(payload),
    };
    Fields { bits, length, params, options }.any()
}

struct Fields<'a, B> {
    bits: B,
    length: usize,
    params: &'a Params,
    options: &'a Options,
}

impl Fields<'_, BitReader<'_>> {
    #[inline(never)]
    fn any(mut self) -> Result<Packet, BadPacket> {
        let mut ahead = self.bits;
        if ahead.take(2) != 3 {
            return self.flow();
        }
        self.bits = ahead;
        let packet = self.format3();
        let vendor_bits_allowed = matches!(packet, Packet::Support(_));
        if self.bits.unused() > 7 && !vendor_bits_allowed {
            return Err(BadPacket::TooLong);
        }
        Ok(packet)
    }

    fn format3(&mut self) -> Packet {
        match self.bits.take(2) {
            0 => {
                let (branch, context) = (self.bits.flag(), self.context());
                let address = self.address(0);
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
        let address = (!implicit).then(|| self.address(self.params.iaddress_width));
        let has_tval = !interrupt || self.params.dialect == Dialect::Seed;
        let tval = if has_tval { self.bits.take(self.params.iaddress_width) } else { 0 };
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
        ContextPacket {
            privilege: self.bits.take(self.params.privilege_width) as u8,
            time: self.bits.take(self.params.time_bits()),
            context: self.bits.take(self.params.context_bits()),
        }
    }
}

impl<B: Bits> Fields<'_, B> {
    /// Formats 0, 1 and 2.
    #[inline]
    fn flow(mut self) -> Result<Packet, BadPacket> {
        let packet = match self.bits.take(2) {
            0 => self.format0()?,
            1 => self.format1(),
            _ => Packet::Address(self.reported()),
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
            1 if cache => Ok(self.jump_target()),
            0 | 1 => Err(BadPacket::OptionOff),
            _ => Err(BadPacket::ReservedSubformat),
        }
    }

    fn branch_count(&mut self) -> Result<Packet, BadPacket> {
        let count = self.bits.take(32) as u32;
        let end = match self.bits.take(2) {
            0 => CountEnd::Mispredicted,
            1 => return Err(BadPacket::ReservedBranchFormat),
            2 => CountEnd::Address(self.reported()),
            _ => CountEnd::MispredictedAt(self.reported()),
        };
        Ok(Packet::BranchCount { count, end })
    }

    fn jump_target(&mut self) -> Packet {
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
        let irreport = self.irreport(above);
        Packet::JumpTarget { index, map, irreport }
    }

    #[inline]
    fn format1(&mut self) -> Packet {
        let count = self.bits.take(5) as u8;
        let width = BranchMap::width(count);
        let bits = self.bits.take(width) as u32;
        if self.params.dialect == Dialect::Seed && matches!(count, 0 | 31) {
            return self.seed_full_map(count, bits);
        }
        if count == 0 {
            return Packet::Branches { map: BranchMap::new(BranchMap::FULL, bits), address: None };
        }
        Packet::Branches { map: BranchMap::new(count, bits), address: Some(self.reported()) }
    }

    /// The seed writes 0 for 16 to 30 branches too and yet appends an address; with 31 it appends none.
    fn seed_full_map(&mut self, count: u8, bits: u32) -> Packet {
        if self.length <= 40 {
            return Packet::Branches { map: BranchMap::new(BranchMap::FULL, bits), address: None };
        }
        Packet::Branches { map: BranchMap { count, bits }, address: Some(self.reported()) }
    }

    /// An address field. The seed's dialect derives its width from the length of the packet, so it needs to know how
    /// many bits follow.
    #[inline]
    fn address(&mut self, following: u8) -> u64 {
        match self.params.dialect {
            Dialect::Standard => self.bits.take(self.params.address_bits()),
            Dialect::Seed => {
                let others = self.bits.position() + usize::from(following);
                let bytes = (self.length.saturating_sub(others) / 8).min(8) as u32;
                let field = self.bits.take((bytes * 8) as u8);
                let negative = self.bits.flag();
                if negative && bytes < 8 { field | u64::MAX << (bytes * 8) } else { field }
            }
        }
    }

    #[inline]
    fn reported(&mut self) -> Reported {
        match self.params.dialect {
            Dialect::Standard => self.bits.reported(self.params),
            Dialect::Seed => {
                let address = self.address(3);
                // The seed chains to the top of the absolute address, which is not in the packet and 0 in practice.
                self.bits.flags(self.params, address, 0)
            }
        }
    }

    #[inline]
    fn irreport(&mut self, above: bool) -> Option<u32> {
        let irreport = self.bits.flag();
        let value = self.bits.take(self.params.irdepth_bits()) as u32;
        (irreport != above).then_some(value)
    }
}
