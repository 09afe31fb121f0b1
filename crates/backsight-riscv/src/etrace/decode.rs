//! From payload bytes to packets.

use backsight_core::Located;

use crate::cva6;

use super::common::CommonReader;
use super::packet::{read_flow, read_format3, read_target};
use super::word::WordReader;
use super::{
    Announced, BadPacket, BitReader, BranchMap, BranchPacket, DataOptions, Dialect, FieldReader, MessageSink,
    Options, Packet, PacketLayout, Params, Reported, SupportLayout,
};

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
        let mut fields = WordReader::new(payload)?;
        fields.take(2);
        // Without a subformat the options decide; they are left to the other formats' way.
        if fields.take(params.f0s_width) != 1 {
            return None;
        }
        let target = read_target(&mut fields, params);
        (fields.unused() <= 7).then_some(target)
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
    if first & 3 == 3 {
        return format3(payload, params, options);
    }
    match WordReader::new(payload) {
        Some(fields) => flow(fields, params, options),
        None => long_flow(payload, params, options),
    }
}

#[inline]
fn flow(mut fields: impl FieldReader, params: &Params, options: &Options) -> Result<Packet, BadPacket> {
    let packet = read_flow(&mut fields, params, options)?;
    if fields.unused() > 7 { Err(BadPacket::TooLong) } else { Ok(packet) }
}

#[inline(never)]
fn long_flow(payload: &[u8], params: &Params, options: &Options) -> Result<Packet, BadPacket> {
    flow(BitReader::new(payload), params, options)
}

#[inline(never)]
fn format3(payload: &[u8], params: &Params, options: &Options) -> Result<Packet, BadPacket> {
    let mut fields = BitReader::new(payload);
    fields.take(2);
    let packet = read_format3(&mut fields, params, options);
    // A vendor may append bits to the draft standard's support packet.
    let is_open = matches!(packet, Packet::Support(_)) && params.layout == SupportLayout::Standard;
    if fields.unused() > 7 && !is_open {
        return Err(BadPacket::TooLong);
    }
    if let Packet::Support(support) = &packet {
        support.check(params)?;
    }
    Ok(packet)
}
