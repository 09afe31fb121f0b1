//! What the software says of the same stream.

use backsight_arm::etm4::{Bad, Config, Decoder, Packet, TraceInfo};

use super::hardware::Item;

/// The packets and gaps of a stream that comes in pieces, with bytes missing between them.
pub fn items(pieces: &[Vec<u8>], config: &Config) -> Vec<Item> {
    let mut decoder = Decoder::new(config);
    let mut items = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            let mut cut = false;
            decoder.reset(&mut |packet| cut |= packet.value == Packet::Bad(Bad::Incomplete));
            items.push(Item::Gap(cut));
        }
        decoder.feed(piece, &mut |packet| {
            let value = match packet.value {
                Packet::Unsynchronised => return,
                // The hardware keeps the section that it needs.
                Packet::TraceInfo(TraceInfo { threshold, .. }) => {
                    Packet::TraceInfo(TraceInfo { threshold, ..TraceInfo::default() })
                }
                other => other,
            };
            items.push(Item::Packet(packet.end(), value));
        });
    }
    items
}

/// The records that packets make, as the testbench prints them.
pub fn records(items: &[Item]) -> Vec<String> {
    let (mut cycle, mut taken) = (0u64, false);
    let mut lines = Vec::new();
    for item in items {
        let Item::Packet(_, packet) = item else {
            (cycle, taken) = (0, false);
            lines.push("G".into());
            continue;
        };
        let (kind, value) = match packet {
            Packet::Address(address) | Packet::AddressContext(address, _) if taken => (1, address.address.0),
            Packet::Event(events) => (2, u64::from(*events)),
            Packet::Exception(exception) => (3, u64::from(exception.number)),
            Packet::PeReset => (3, 0),
            Packet::TransactionFailure => (3, 0x18),
            Packet::Bad(why) => (4, number(*why)),
            Packet::Overflow => (4, 8),
            Packet::Discard => (4, 9),
            _ => (0, 0),
        };
        if kind != 0 {
            lines.push(format!("R {kind} {cycle} {value:016x}"));
        }
        match packet {
            Packet::Atoms(atoms) => taken = atoms.iter().last() == Some(true),
            Packet::SourceAddress(_) => taken = true,
            Packet::Address(_)
            | Packet::AddressContext(..)
            | Packet::Exception(_)
            | Packet::PeReset
            | Packet::TransactionFailure
            | Packet::Bad(_)
            | Packet::Overflow
            | Packet::Discard
            | Packet::TraceOn
            | Packet::Q(_)
            | Packet::CancelF1 { .. }
            | Packet::CancelF2(_)
            | Packet::CancelF3 { .. }
            | Packet::Mispredict(_) => taken = false,
            Packet::CycleCount(count) => cycle = (cycle + u64::from(count.cycles.unwrap_or(0))) & CYCLE_MASK,
            _ => {}
        }
    }
    lines
}

/// The hardware's sum has 48 bits.
const CYCLE_MASK: u64 = (1 << 48) - 1;

fn number(why: Bad) -> u64 {
    match why {
        Bad::Reserved => 1,
        Bad::ReservedByConfiguration => 2,
        Bad::NotImplemented => 3,
        Bad::Extension => 4,
        Bad::AsyncLength => 5,
        Bad::FieldTooLong => 6,
        Bad::Incomplete => unreachable!("only a gap cuts packets off"),
    }
}
