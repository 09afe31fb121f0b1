//! From packets to payload bytes.

use crate::cva6;

use super::{BitWriter, BranchMap, Dialect, Options, Packet, Params, Payload, Reported, packet};

/// Encodes one packet. Fields are cut to their widths.
pub fn encode(packet: &Packet, params: &Params, options: &Options) -> Payload {
    if params.dialect == Dialect::Cva6 {
        return cva6::encode(packet, params, options);
    }
    match packet {
        Packet::Branches { map, address: Some(reported) } if reported.has_clear_flags() => {
            packet::encode_address(*map, reported.address, params)
        }
        Packet::Branches { map, address: None } => packet::encode_full(map),
        _ => encode_fields(packet, params, options),
    }
}

/// Encodes an address without flags, with the branches before it (format 1) or, without any, alone (format 2).
#[inline(always)]
pub fn encode_address(map: BranchMap, address: u64, params: &Params) -> Payload {
    if params.dialect == Dialect::Cva6 {
        return encode_address_of_cva6(map, address, params);
    }
    packet::encode_address(map, address, params)
}

#[cold]
fn encode_address_of_cva6(map: BranchMap, address: u64, params: &Params) -> Payload {
    let packet = map.with_address(Reported { address, ..Reported::default() });
    cva6::encode(&packet, params, &Options::default())
}

/// Field by field.
#[inline(never)]
fn encode_fields(packet: &Packet, params: &Params, options: &Options) -> Payload {
    let mut bits = BitWriter::new();
    packet.write(&mut bits, params, options);
    bits.finish()
}

#[cfg(test)]
mod tests {
    use super::super::{ContextPacket, ImplicitReturn, Start, SupportLayout, TrapPacket, decode};
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
