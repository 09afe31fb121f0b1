//! Payloads both ways.

use crate::etrace::{
    BadPacket, BitReader, BitWriter, BranchMap, ContextPacket, Options, Packet, Params, Payload, Reported,
    Start, TrapPacket,
};

/// Bits of a full branch map and what stands before it: payloads that are longer have an address.
const FULL_MAP: usize = 40;
/// Bits of the flags after an address.
const FLAGS: usize = 3;

/// Decodes one payload.
pub fn decode(payload: &[u8], params: &Params, options: &Options) -> Result<Packet, BadPacket> {
    if payload.is_empty() {
        return Err(BadPacket::Empty);
    }
    let length = payload.len() * 8;
    let mut fields = FieldsReader { bits: BitReader::zero_padded(payload), length, params, options };
    let packet = match fields.bits.take(2) {
        0 => return Err(BadPacket::OptionOff),
        1 => fields.branches(),
        2 => Packet::address(fields.reported()),
        _ => fields.format3(),
    };
    if fields.bits.unused() > 7 {
        return Err(BadPacket::TooLong);
    }
    if let Packet::Support(support) = &packet {
        support.check(params)?;
    }
    Ok(packet)
}

struct FieldsReader<'a> {
    bits: BitReader<'a>,
    length: usize,
    params: &'a Params,
    options: &'a Options,
}

impl FieldsReader<'_> {
    fn branches(&mut self) -> Packet {
        let count = self.bits.take(5) as u8;
        let bits = self.bits.take(BranchMap::width(count)) as u32;
        match count {
            0 | BranchMap::FULL if self.length <= FULL_MAP => {
                Packet::Branches { map: BranchMap::new(BranchMap::FULL, bits), address: None }
            }
            0 => BranchMap { count: BranchMap::UNCOUNTED, bits }.with_address(self.reported()),
            _ => BranchMap::new(count, bits).with_address(self.reported()),
        }
    }

    fn format3(&mut self) -> Packet {
        match self.bits.take(2) {
            0 => {
                let (branch, context) = (self.bits.flag(), self.context());
                let ContextPacket { privilege, time, context } = context;
                Packet::Start(Start { branch, privilege, time, context, address: self.address(0) })
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
        let width = self.params.iaddress_width;
        let implicit = self.options.implicit_exception && thaddr;
        let address = (!implicit).then(|| self.address(width.into()));
        let tval = self.bits.take(width);
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

    /// An address that so many bits follow: as many whole bytes as there is room for, and its sign.
    fn address(&mut self, following: usize) -> u64 {
        let others = self.bits.position() + following;
        let bytes = (self.length.saturating_sub(others) / 8).min(8) as u32;
        let field = self.bits.take((bytes * 8) as u8);
        let negative = self.bits.flag();
        if negative && bytes < 8 { field | u64::MAX << (bytes * 8) } else { field }
    }

    fn reported(&mut self) -> Reported {
        let address = self.address(FLAGS);
        let sent = self.bits.take(FLAGS as u8);
        let flags = sent ^ sent << 1;
        Reported {
            address,
            notify: flags & 1 != 0,
            updiscon: flags & 2 != 0,
            irreport: (flags & 4 != 0).then_some(0),
        }
    }
}

/// Encodes one packet. Format 0, which the hardware does not have, becomes an address or nothing but its format.
pub fn encode(packet: &Packet, params: &Params, options: &Options) -> Payload {
    let mut fields = FieldsWriter { bits: BitWriter::new(), params, options };
    let (format, subformat) = packet.format();
    fields.bits.put(format.into(), 2);
    if let Some(subformat) = subformat {
        fields.bits.put(subformat.into(), 2);
    }
    fields.packet(packet);
    fields.bits.padded()
}

struct FieldsWriter<'a> {
    bits: BitWriter,
    params: &'a Params,
    options: &'a Options,
}

impl FieldsWriter<'_> {
    fn packet(&mut self, packet: &Packet) {
        match packet {
            Packet::Branches { map, address } => {
                if map.count > 0 {
                    let count = if address.is_some() { map.count % BranchMap::UNCOUNTED } else { 0 };
                    self.bits.put(count.into(), 5);
                    self.bits.put(map.bits.into(), BranchMap::width(count));
                }
                if let Some(reported) = address {
                    self.reported(reported);
                }
            }
            Packet::Start(Start { branch, privilege, time, context, address }) => {
                self.bits.put((*branch).into(), 1);
                self.context(*privilege, *time, *context);
                self.address(*address);
            }
            Packet::Trap(trap) => self.trap(trap),
            Packet::Context(c) => self.context(c.privilege, c.time, c.context),
            Packet::Support(support) => self.params.layout.write(support, &mut self.bits),
            Packet::BranchCount { .. } | Packet::JumpTarget { .. } => {}
        }
    }

    fn trap(&mut self, trap: &TrapPacket) {
        self.bits.put(trap.branch.into(), 1);
        self.context(trap.privilege, trap.time, trap.context);
        self.bits.put(trap.ecause, self.params.ecause_width);
        self.bits.put(trap.interrupt.into(), 1);
        self.bits.put(trap.thaddr.into(), 1);
        if !(self.options.implicit_exception && trap.thaddr) {
            self.address(trap.address.unwrap_or(0));
        }
        self.bits.put(trap.tval, self.params.iaddress_width);
    }

    fn context(&mut self, privilege: u8, time: u64, context: u64) {
        ContextPacket { privilege, time, context }.write(&mut self.bits, self.params);
    }

    fn address(&mut self, address: u64) {
        let significant = 64 - (address ^ ((address as i64) >> 63) as u64).leading_zeros();
        let bytes = (significant + 1).div_ceil(8).min(8);
        self.bits.put(address, (bytes * 8) as u8);
        self.bits.put(address >> 63, 1);
    }

    /// Each flag is sent as whether it differs from the one before it.
    fn reported(&mut self, reported: &Reported) {
        self.address(reported.address);
        let notify = reported.notify;
        let updiscon = reported.updiscon != notify;
        let irreport = reported.irreport.is_some() != updiscon;
        [notify, updiscon, irreport].into_iter().for_each(|flag| self.bits.put(flag.into(), 1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::params;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_keeps_whole_bytes_and_one_bit() {
        let (params, options) = (params(), Options::default());
        for address in [0u64, 1, 0x7F, 0x80, 0x8000_0000, u64::MAX, u64::MAX - 0x1234, 1 << 63] {
            let reported = Reported { address, updiscon: true, ..Reported::default() };
            let packets = [
                Packet::address(reported),
                BranchMap::new(9, 0x155).with_address(reported),
                BranchMap { count: BranchMap::UNCOUNTED, bits: 0x1_5555 }.with_address(reported),
                Packet::Start(Start { branch: true, privilege: 3, address, ..Start::default() }),
                Packet::Trap(TrapPacket {
                    ecause: 1 << 63 | 7,
                    address: Some(address),
                    tval: address,
                    ..TrapPacket::default()
                }),
            ];
            for packet in packets {
                let payload = encode(&packet, &params, &options);
                assert_eq!(decode(&payload, &params, &options), Ok(packet));
            }
        }
    }

    proptest! {
        #[test]
        fn a_packet_encodes_to_what_decodes_to_it(bytes in prop::collection::vec(any::<u8>(), 0..31)) {
            let (params, options) = (params(), Options::default());
            let Ok(packet) = decode(&bytes, &params, &options) else { return Ok(()) };
            let again = encode(&packet, &params, &options);
            prop_assert_eq!(decode(&again, &params, &options), Ok(packet));
        }
    }
}
