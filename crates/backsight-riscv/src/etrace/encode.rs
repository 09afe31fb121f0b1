//! From packets to payload bytes.

use crate::cva6;

use super::{
    BitWriter, BranchMap, ContextPacket, CountEnd, Dialect, Options, Packet, Params, Payload, Reported,
    Start, TrapPacket,
};

/// Encodes one packet. Fields are cut to their widths.
pub fn encode(packet: &Packet, params: &Params, options: &Options) -> Payload {
    if params.dialect == Dialect::Cva6 {
        return cva6::encode(packet, params, options);
    }
    match packet {
        Packet::Branches { map, address: Some(reported) } if has_clear_flags(reported) => {
            encode_address(*map, reported.address, params)
        }
        Packet::Branches { map, address: None } => encode_full(map),
        _ => encode_fields(packet, params, options),
    }
}

#[inline]
fn has_clear_flags(reported: &Reported) -> bool {
    !reported.notify && !reported.updiscon && reported.irreport.is_none()
}

/// Encodes an address without flags, with the branches before it (format 1) or, without any, alone (format 2). All
/// bits after the address repeat its sign, so that they compress away.
#[inline(always)]
pub fn encode_address(map: BranchMap, address: u64, params: &Params) -> Payload {
    if params.dialect == Dialect::Cva6 {
        return encode_address_of_cva6(map, address, params);
    }
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

#[cold]
fn encode_address_of_cva6(map: BranchMap, address: u64, params: &Params) -> Payload {
    let packet = map.with_address(Reported { address, ..Reported::default() });
    cva6::encode(&packet, params, &Options::default())
}

/// Encodes a full map without an address. All bits after it repeat its last one, so that they compress away.
#[inline]
fn encode_full(map: &BranchMap) -> Payload {
    const WIDTH: u8 = 7 + BranchMap::FULL;
    let fields = (1 | u64::from(map.bits) << 7) & ((1 << WIDTH) - 1);
    let last = fields >> (WIDTH - 1);
    Payload::compressed_pair(fields, WIDTH, -(last as i64))
}

/// Field by field.
fn encode_fields(packet: &Packet, params: &Params, options: &Options) -> Payload {
    let mut fields = FieldWriter { bits: BitWriter::new(), params, options };
    fields.packet(packet);
    fields.bits.finish()
}

struct FieldWriter<'a> {
    bits: BitWriter,
    params: &'a Params,
    options: &'a Options,
}

impl FieldWriter<'_> {
    fn packet(&mut self, packet: &Packet) {
        let (format, subformat) = packet.format();
        self.bits.put(format.into(), 2);
        match (format, subformat) {
            (0, Some(subformat)) => self.bits.put(subformat.into(), self.params.f0s_width),
            (_, Some(subformat)) => self.bits.put(subformat.into(), 2),
            _ => {}
        }
        match packet {
            Packet::BranchCount { count, end } => self.branch_count(*count, end),
            Packet::JumpTarget { index, map, irreport } => self.jump_target(*index, map, *irreport),
            Packet::Branches { map, address } => self.branches(map, address.as_ref()),
            Packet::Start(Start { branch, privilege, time, context, address }) => {
                self.bits.put((*branch).into(), 1);
                self.context(*privilege, *time, *context);
                self.address(*address);
            }
            Packet::Trap(trap) => self.trap(trap),
            Packet::Context(c) => self.context(c.privilege, c.time, c.context),
            Packet::Support(support) => self.params.layout.write(support, &mut self.bits),
        }
    }

    fn branch_count(&mut self, count: u32, end: &CountEnd) {
        self.bits.put(count.into(), 32);
        match end {
            CountEnd::Mispredicted => self.bits.put(0, 2),
            CountEnd::Address(reported) => {
                self.bits.put(2, 2);
                self.reported(reported);
            }
            CountEnd::MispredictedAt(reported) => {
                self.bits.put(3, 2);
                self.reported(reported);
            }
        }
    }

    fn jump_target(&mut self, index: u32, map: &BranchMap, irreport: Option<u32>) {
        self.bits.put(index.into(), self.params.cache_size);
        self.bits.put(map.count.into(), 5);
        if map.count > 0 {
            self.bits.put(map.bits.into(), BranchMap::width(map.count));
        }
        self.irreport(irreport);
    }

    fn branches(&mut self, map: &BranchMap, address: Option<&Reported>) {
        if map.count > 0 {
            let count = if address.is_some() { map.count } else { 0 };
            self.bits.put(count.into(), 5);
            self.bits.put(map.bits.into(), BranchMap::width(count));
        }
        if let Some(reported) = address {
            self.reported(reported);
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
        if !trap.interrupt {
            self.bits.put(trap.tval, self.params.iaddress_width);
        }
    }

    fn context(&mut self, privilege: u8, time: u64, context: u64) {
        ContextPacket { privilege, time, context }.write(&mut self.bits, self.params);
    }

    fn address(&mut self, address: u64) {
        self.bits.put(address, self.params.address_bits());
    }

    fn reported(&mut self, reported: &Reported) {
        self.address(reported.address);
        let notify = reported.notify != self.bits.top();
        let updiscon = reported.updiscon != notify;
        self.bits.put(notify.into(), 1);
        self.bits.put(updiscon.into(), 1);
        self.irreport(reported.irreport);
    }

    /// Without a report the field repeats the bit before it, so that it compresses away.
    fn irreport(&mut self, irreport: Option<u32>) {
        let above = self.bits.top();
        self.bits.put((irreport.is_some() != above).into(), 1);
        let value = match irreport {
            Some(value) => value.into(),
            None if above => u64::MAX,
            None => 0,
        };
        self.bits.put(value, self.params.irdepth_bits());
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ImplicitReturn, SupportLayout, decode};
    use super::*;
    use backsight_testing::Random;

    fn reference_params() -> Params {
        Params { iaddress_width: 64, context_width: 32, nocontext: 0, ecause_width: 5, ..Params::default() }
    }

    /// The byte-exact vectors of the reference flow: each is a header byte and a payload.
    #[test]
    fn vectors_of_the_reference_flow_decode_and_encode() {
        let at = |address: i64| Reported { address: address as u64 & (u64::MAX >> 1), ..Reported::default() };
        let map = |count, bits| BranchMap { count, bits };
        let trap = TrapPacket {
            branch: true,
            privilege: 3,
            ecause: 2,
            thaddr: true,
            address: Some(0x4000_001C),
            ..TrapPacket::default()
        };
        let vectors: [(&[u8], Packet); 11] = [
            (
                &[0x73, 0, 0, 0, 0, 0, 4],
                Packet::Start(Start { branch: true, privilege: 3, address: 0x800, ..Start::default() }),
            ),
            (&[0x02, 0xE0, 0xFF, 0xFF, 0], Packet::address(at(0x3FFF_F800))),
            (&[0x11, 0x81, 0x17, 3], Packet::Branches { map: map(4, 2), address: Some(at(0xC5E)) }),
            (&[0x81, 1], Packet::Branches { map: map(31, 3), address: None }),
            (&[1], Packet::Branches { map: map(31, 0), address: None }),
            (&[0x81, 0xFF, 0xFB, 0xF7, 0x1F], Packet::Branches { map: map(31, 0x3FEF_F7FF), address: None }),
            (&[5, 4], Packet::Branches { map: map(1, 0), address: Some(at(4)) }),
            (
                &[0x39, 0xE0, 0x4F, 0x2F, 0xFF],
                Packet::Branches { map: map(14, 0x1FC0), address: Some(at(-0x343)) },
            ),
            (&[0xF2], Packet::address(at(-4))),
            (
                &[0x85, 0x2D, 0, 0, 0, 0, 0, 0, 0, 0xFF],
                Packet::Branches { map: map(1, 1), address: Some(Reported { updiscon: true, ..at(0x2D) }) },
            ),
            (&[0x77, 0, 0, 0, 0, 0x21, 7, 0, 0, 0x10], Packet::Trap(trap)),
        ];
        let (params, options) = (reference_params(), Options::default());
        for (bytes, packet) in vectors {
            assert_eq!(decode(bytes, &params, &options), Ok(packet), "{bytes:02x?}");
            assert_eq!(encode(&packet, &params, &options).as_slice(), bytes, "{packet:x?}");
        }
    }

    #[test]
    fn vectors_in_full_address_mode_decode_and_encode() {
        let params = Params { iaddress_width: 40, iaddress_lsb: 0, ..reference_params() };
        let options = Options { full_address: true, ..Options::default() };
        let vectors: [&[u8]; 5] = [
            &[0x32, 4, 0, 0, 2],
            &[0xBD, 0xAA, 0xAA, 0x68, 0, 0, 0x20],
            &[0x77, 0, 0, 0, 0x80, 0x33, 0x6C, 0, 0, 0x20],
            &[0x77, 0, 0, 0, 0, 0x81, 0x88, 0, 0, 0x20],
            &[0x73, 0, 0, 0, 0, 0x91, 0x82, 0, 0x10],
        ];
        for bytes in vectors {
            let packet = decode(bytes, &params, &options).unwrap();
            assert_eq!(encode(&packet, &params, &options).as_slice(), bytes, "{packet:x?}");
        }
        let Ok(Packet::Trap(trap)) = decode(vectors[2], &params, &options) else { panic!() };
        assert!(trap.interrupt && trap.thaddr);
        assert_eq!((trap.ecause, trap.address), (7, Some(0x8000_01B0)));
    }

    fn random_params(random: &mut Random) -> Params {
        Params {
            bpred_size: 4,
            cache_size: 1 + random.below(8) as u8,
            f0s_width: 1 + random.below(2) as u8,
            iaddress_width: 32 + random.below(33) as u8,
            iaddress_lsb: random.below(3) as u8,
            nocontext: random.below(2) as u8,
            context_width: 1 + random.below(64) as u8,
            notime: random.below(2) as u8,
            time_width: 1 + random.below(64) as u8,
            ecause_width: 1 + random.below(64) as u8,
            privilege_width: 2 + random.below(2) as u8,
            return_stack_size: random.below(4) as u8,
            call_counter_size: random.below(4) as u8,
            implicit_return: [ImplicitReturn::Depth, ImplicitReturn::Returns][random.below(2) as usize],
            layout: [SupportLayout::Reference, SupportLayout::Standard][random.below(2) as usize],
            ..Params::default()
        }
    }

    /// Any bits of enough length are some packet; encoding it again gives a packet that means the same.
    #[test]
    fn whatever_decodes_encodes_and_decodes_to_itself() {
        let mut random = Random(7);
        let mut decoded = 0;
        for _ in 0..20_000 {
            let params = random_params(&mut random);
            let options = Options {
                branch_prediction: true,
                jump_target_cache: true,
                implicit_exception: random.below(2) == 1,
                ..Options::default()
            };
            let length = 1 + random.below(50) as usize;
            let bytes: std::vec::Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            let Ok(packet) = decode(&bytes, &params, &options) else { continue };
            decoded += 1;
            let again = encode(&packet, &params, &options);
            assert_eq!(decode(&again, &params, &options), Ok(packet), "{params:?}");
        }
        assert!(decoded > 2500, "{decoded}");
    }

    #[test]
    fn a_bare_address_or_a_full_map_is_the_same_field_by_field() {
        let mut random = Random(11);
        for n in 0..20_000 {
            let params = random_params(&mut random);
            let address = random.next() as i64 >> random.below(64);
            let irreport = (random.below(8) == 0).then_some(1);
            let reported = Reported { address: address as u64, irreport, ..Reported::default() };
            let map = BranchMap::new(1 + random.below(31) as u8, random.next() as u32);
            let packet = match n % 3 {
                0 => Packet::address(reported),
                1 => Packet::Branches { map: BranchMap::new(31, map.bits << random.below(2)), address: None },
                _ => Packet::Branches { map, address: Some(reported) },
            };
            let options = Options::default();
            let fields = encode_fields(&packet, &params, &options);
            assert_eq!(encode(&packet, &params, &options), fields, "{packet:?} {params:?}");
        }
    }

    #[test]
    fn a_context_packet_has_no_branch_bit() {
        let params = reference_params();
        let packet = Packet::Context(ContextPacket { privilege: 3, time: 0, context: 0x7FFF_FFFF });
        assert_eq!(encode(&packet, &params, &Options::default()).as_slice(), &[0xFB, 0xFF, 0xFF, 0xFF, 0x1F]);
    }
}
