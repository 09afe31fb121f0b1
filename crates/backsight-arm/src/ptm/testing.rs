//! Packets by chance, for tests.

use backsight_core::{Address, Isa};
use proptest::prelude::*;

use super::*;
use crate::etm::testing::{Draw, aligned, isa};

/// Configurations by chance.
pub fn configuration() -> impl Strategy<Value = Config> {
    (any::<u32>(), 0..2_u32, any::<u32>()).prop_map(|(cr, minor, ccer)| Config {
        registers: Registers { cr, idr: 0x300 | minor << 4, ccer, traceidr: 0 },
    })
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
