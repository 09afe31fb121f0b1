//! Packets to bytes.

use super::Packet;

/// Turns packets into bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Encoder(());

impl Encoder {
    /// An encoder. Packets do not depend on one another.
    pub const fn new() -> Self {
        Self(())
    }

    /// Gives the bytes of a packet. Bad packets and bytes passed over have none, and a packet with a field that has no
    /// room for its value has none either: the result is `false`.
    pub fn put(&mut self, packet: &Packet, out: &mut impl Extend<u8>) -> bool {
        match *packet {
            Packet::Sync => out.extend([0, 0, 0, 0, 0, 0x80]),
            Packet::Overflow => out.extend([0x70]),
            Packet::LocalTimestamp { ticks: ticks @ 1..=6, relation: 0 } => out.extend([(ticks as u8) << 4]),
            Packet::LocalTimestamp { ticks, relation: relation @ 0..=3 } if ticks >> 28 == 0 => {
                out.extend([0xC0 | relation << 4]);
                sevens(ticks.into(), length_of(ticks), out);
            }
            Packet::GlobalTimestamp1 { low, length: 4, wrapped, clock_changed } if low >> 26 == 0 => {
                let flags = u64::from(clock_changed) << 26 | u64::from(wrapped) << 27;
                out.extend([0x94]);
                sevens(u64::from(low) | flags, 4, out);
            }
            Packet::GlobalTimestamp1 {
                low,
                length: length @ 1..=3,
                wrapped: false,
                clock_changed: false,
            } if low >> (7 * length) == 0 => {
                out.extend([0x94]);
                sevens(low.into(), length, out);
            }
            Packet::GlobalTimestamp2 { high, wide } if high >> (if wide { 38 } else { 22 }) == 0 => {
                out.extend([0xB4]);
                sevens(high, if wide { 6 } else { 4 }, out);
            }
            Packet::Extension { hardware, value, length } => return extension(hardware, value, length, out),
            Packet::Instrumentation { port, value, size } => {
                return source(port << 3, port, value, size, out);
            }
            Packet::Hardware { id, value, size } => return source(id << 3 | 4, id, value, size, out),
            _ => return false,
        }
        true
    }

    /// The stream ends. Every packet is complete by itself.
    pub const fn finish(&mut self) {}
}

/// Bytes of seven bits that a number needs, at least one.
const fn length_of(value: u32) -> u8 {
    let bits = 32 - value.leading_zeros();
    if bits == 0 { 1 } else { bits.div_ceil(7) as u8 }
}

/// So many bytes of seven bits, the lowest first, all but the last with bit 7.
fn sevens(value: u64, length: u8, out: &mut impl Extend<u8>) {
    out.extend((0..length).map(|index| {
        let more = if index + 1 < length { 0x80 } else { 0 };
        (value >> (7 * index)) as u8 & 0x7F | more
    }));
}

fn source(header: u8, number: u8, value: u32, size: u8, out: &mut impl Extend<u8>) -> bool {
    let code = match size {
        1 if value >> 8 == 0 => 1,
        2 if value >> 16 == 0 => 2,
        4 => 3,
        _ => return false,
    };
    if number > 31 {
        return false;
    }
    out.extend([header | code]);
    out.extend(value.to_le_bytes().into_iter().take(size.into()));
    true
}

fn extension(hardware: bool, value: u32, length: u8, out: &mut impl Extend<u8>) -> bool {
    let bits = if length == 4 { 32 } else { 3 + 7 * u32::from(length) };
    if length > 4 || u64::from(value) >> bits != 0 {
        return false;
    }
    let more = if length > 0 { 0x80 } else { 0 };
    out.extend([more | (value as u8 & 7) << 4 | 8 | u8::from(hardware) << 2]);
    if length == 4 {
        out.extend((0..3).map(|index| (value >> (3 + 7 * index)) as u8 | 0x80));
        out.extend([(value >> 24) as u8]);
    } else {
        sevens(u64::from(value >> 3), length, out);
    }
    true
}
