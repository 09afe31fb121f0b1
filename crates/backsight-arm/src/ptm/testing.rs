//! Packets by chance, for tests.

use std::vec::Vec;

use backsight_core::{Address, Isa, Located};
use proptest::prelude::*;

use super::*;

/// What a packet is made of.
pub type Draw = (u8, u64, u64, u64);

/// Configurations by chance.
pub fn configuration() -> impl Strategy<Value = Config> {
    (any::<u32>(), 0..2_u32, any::<u32>()).prop_map(|(cr, minor, ccer)| Config {
        registers: Registers { cr, idr: 0x300 | minor << 4, ccer, traceidr: 0 },
    })
}

fn isa(choice: u64) -> Isa {
    [Isa::A32, Isa::T32, Isa::ThumbEe, Isa::Jazelle][choice as usize & 3]
}

fn aligned(address: u64, isa: Isa) -> Address {
    let bits = match isa {
        Isa::A32 => !3,
        Isa::Jazelle => !0,
        _ => !1,
    };
    Address(address & 0xFFFF_FFFF & bits)
}

/// A packet that the encoder can write next.
pub fn packet(encoder: &Encoder, (kind, a, b, c): Draw) -> Packet {
    let config = encoder.config();
    let cycles = config.cycle_accurate().then_some((a >> (b & 31)) as u32);
    let isa = isa(b);
    let state = State { alt_isa: isa == Isa::ThumbEe, non_secure: c & 1 != 0, hyp: c & 2 != 0 };
    let context_bits = 8 * u32::from(config.context_id_bytes());
    let context_id = (context_bits > 0).then(|| (c & ((1 << context_bits) - 1)) as u32);
    match kind % 16 {
        0 => Packet::Async,
        1 | 2 => {
            let reason = Reason::from_bits((c >> 8) as u8);
            let cycles = cycles.filter(|_| reason != Reason::Periodic);
            // Addresses of Jazelle have no bit 0 in an I-sync: it says Thumb.
            let address = Address(aligned(a, isa).0 & !1);
            Packet::ISync(ISync { address, isa, reason, state, context_id, cycles })
        }
        3..=6 => {
            let count = if cycles.is_some() { 1 } else { 1 + (a % 5) as u8 };
            Packet::Atoms(Atoms { bits: b as u8 & ((1 << count) - 1), count, cycles })
        }
        7..=11 => {
            let is_long = c & 0x40 != 0;
            let (hyp, exception) = if is_long { (state.hyp, (c >> 8) as u16 & 0x1FF) } else { (false, 14) };
            let information = Information { state: State { hyp, ..state }, exception, is_long };
            let said = c & 4 != 0 || encoder.must_say_alt_isa(isa);
            Packet::Branch(encoder.branch_to(aligned(a, isa), isa, said.then_some(information), cycles))
        }
        12 => Packet::WaypointUpdate(encoder.waypoint_update_at(aligned(a, isa), isa)),
        13 => {
            let code = config.timestamp_code();
            let value = (a >> (b & 63)) & if code.is_wide { u64::MAX } else { (1 << 48) - 1 };
            let timestamp = if c & 1 == 0 {
                encoder.timestamp(value, cycles)
            } else {
                encoder.full_timestamp(value, cycles)
            };
            Packet::Timestamp(Timestamp { clock_changed: c & 2 != 0, ..timestamp })
        }
        14 => match context_id {
            Some(id) => Packet::ContextId(id),
            None => Packet::Trigger,
        },
        _ => match b % 4 {
            0 if config.minor() > 0 => Packet::Vmid(a as u8),
            1 => Packet::ExceptionReturn,
            2 => Packet::Ignore,
            _ => Packet::Trigger,
        },
    }
}

/// Packets by chance, and their bytes.
pub fn encode(config: &Config, draws: &[Draw]) -> (Vec<Packet>, Vec<u8>) {
    let mut encoder = Encoder::new(config);
    let mut bytes = encoder.encode(&Packet::Async).unwrap().to_vec();
    let mut written = std::vec![Packet::Async];
    for draw in draws {
        let packet = packet(&encoder, *draw);
        bytes.extend_from_slice(encoder.encode(&packet).unwrap_or_else(|why| panic!("{packet:?}: {why}")));
        written.push(packet);
    }
    (written, bytes)
}

/// The packets of a stream that is fed in pieces. Asserts that every byte is accounted for.
pub fn decode_pieces(config: &Config, pieces: &[&[u8]]) -> Vec<Located<Packet>> {
    let mut decoder = Decoder::new(config);
    let mut read = Vec::new();
    pieces.iter().for_each(|piece| decoder.feed(piece, &mut |packet| read.push(packet)));
    decoder.finish(&mut |packet| read.push(packet));
    let total: usize = pieces.iter().map(|piece| piece.len()).sum();
    assert_eq!(decoder.accounting().total(), total as u64);
    let mut at = 0;
    for packet in &read {
        assert_eq!(packet.offset, at, "packets follow one another");
        at = packet.end();
    }
    assert_eq!(at, total as u64);
    read
}
