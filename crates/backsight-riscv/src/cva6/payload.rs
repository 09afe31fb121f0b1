//! Payloads both ways.

use crate::etrace::{
    BadPacket, BitReader, BitWriter, BranchMap, FieldReader, FieldWriter, Options, Packet, Params, Payload,
    Reported, read_format3,
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
    let mut fields = SizedReader { bits: BitReader::zero_padded(payload), length };
    let packet = match fields.take(2) {
        0 => return Err(BadPacket::OptionOff),
        1 => fields.branches(params),
        2 => Packet::address(fields.reported(params)),
        _ => read_format3(&mut fields, params, options),
    };
    if fields.unused() > 7 {
        return Err(BadPacket::TooLong);
    }
    if let Packet::Support(support) = &packet {
        support.check(params)?;
    }
    Ok(packet)
}

/// Reads a payload whose length says how long its address is.
struct SizedReader<'a> {
    bits: BitReader<'a>,
    length: usize,
}

impl SizedReader<'_> {
    fn branches(&mut self, params: &Params) -> Packet {
        let count = self.take(5) as u8;
        let bits = self.take(BranchMap::width(count)) as u32;
        match count {
            0 | BranchMap::FULL if self.length <= FULL_MAP => {
                Packet::Branches { map: BranchMap::new(BranchMap::FULL, bits), address: None }
            }
            0 => BranchMap { count: BranchMap::UNCOUNTED, bits }.with_address(self.reported(params)),
            _ => BranchMap::new(count, bits).with_address(self.reported(params)),
        }
    }
}

impl FieldReader for SizedReader<'_> {
    fn take(&mut self, width: u8) -> u64 {
        self.bits.take(width)
    }

    fn unused(&self) -> usize {
        self.bits.unused()
    }

    /// As many whole bytes as there is room for before the fields that follow, and the sign.
    fn address(&mut self, following: usize, _: &Params) -> u64 {
        let others = self.bits.position() + following;
        let bytes = (self.length.saturating_sub(others) / 8).min(8) as u32;
        let field = self.bits.take((bytes * 8) as u8);
        let negative = self.bits.flag();
        if negative && bytes < 8 { field | u64::MAX << (bytes * 8) } else { field }
    }

    fn reported(&mut self, params: &Params) -> Reported {
        let address = self.address(FLAGS, params);
        let reported = self.flags(address, 0, params);
        Reported { irreport: reported.irreport.map(|_| 0), ..reported }
    }
}

/// Encodes one packet. Format 0, which the hardware does not have, becomes nothing but its format.
pub fn encode(packet: &Packet, params: &Params, options: &Options) -> Payload {
    let mut fields = SizedWriter(BitWriter::new());
    packet.write_without_tables(&mut fields, params, options);
    fields.0.padded()
}

/// Writes a payload whose length says how long its address is.
struct SizedWriter(BitWriter);

impl FieldWriter for SizedWriter {
    fn put(&mut self, value: u64, width: u8) {
        self.0.put(value, width);
    }

    fn address(&mut self, address: u64, _: &Params) {
        let significant = 64 - (address ^ ((address as i64) >> 63) as u64).leading_zeros();
        let bytes = (significant + 1).div_ceil(8).min(8);
        self.put(address, (bytes * 8) as u8);
        self.put(address >> 63, 1);
    }

    /// Each flag is sent as whether it differs from the one before it.
    fn reported(&mut self, reported: &Reported, params: &Params) {
        self.address(reported.address, params);
        let notify = reported.notify;
        let updiscon = reported.updiscon != notify;
        let irreport = reported.irreport.is_some() != updiscon;
        self.flags([notify, updiscon, irreport]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::params;
    use super::*;
    use crate::etrace::{Start, TrapPacket};
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
