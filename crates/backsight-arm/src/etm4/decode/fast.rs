//! The fast way through the middle of a slice.
//!
//! As long as a few more bytes follow than any common packet has, those packets can be read without asking at
//! each byte whether there is another. Packets made of their header alone, addresses, timestamps and cycle counts
//! are read here, with few branches that depend on the data; everything else, and everything that looks wrong, is
//! left to the clear reader. Both must give the same packets: the property tests compare streams fed whole with
//! the same streams fed byte by byte, which never come here.

use backsight_core::{Address, Located};

use super::super::{AddressPacket, CycleCount, CycleCountFormat, Is, Kind, Packet, Timestamp};
use super::payload::{f2, timestamp_bits};
use super::shape::{self, SHAPES, Shape};
use super::{COUNT, Decoder};
use crate::etm4::history::merge;

/// Bytes that must follow: a header, nine of a timestamp, and a four-byte load for the cycle count behind it.
const WINDOW: usize = 16;

/// How to go on after a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fast {
    /// Ask the clear reader.
    No,
    /// An address.
    Address {
        /// Its shape, see [`SHAPES`].
        shape: u8,
        /// 1 if bit 7 of the first byte means one byte more and the next shape.
        continues: u8,
        /// Bytes without that one. The shape has it too, but would have to be looked up before the next packet can
        /// be found.
        length: u8,
    },
    /// A timestamp, with a cycle count behind it or without.
    Timestamp { cycles: bool },
    /// A cycle count without a commit count, of format 1 or of format 2.
    CycleCount { format: CycleCountFormat },
    /// A cycle count of format 2 with a commit count.
    CycleCountCommit,
}

impl Fast {
    pub fn new(header: u8, kind: Kind, commit_mode1: bool) -> Self {
        let address =
            |length, continues| Self::Address { shape: shape::of_header(header), continues, length };
        match kind {
            Kind::AddressExact => address(1, 0),
            Kind::AddressShortIs0 | Kind::AddressShortIs1 => address(2, 1),
            Kind::Address32Is0 | Kind::Address32Is1 => address(5, 0),
            Kind::Address64Is0 | Kind::Address64Is1 => address(9, 0),
            Kind::Timestamp => Self::Timestamp { cycles: false },
            Kind::TimestampCycles => Self::Timestamp { cycles: true },
            Kind::CycleCountF1 if commit_mode1 => Self::CycleCount { format: CycleCountFormat::F1 },
            Kind::CycleCountF2 if commit_mode1 => Self::CycleCount { format: f2(header) },
            Kind::CycleCountF2 => Self::CycleCountCommit,
            _ => Self::No,
        }
    }
}

impl Decoder {
    /// Decodes packets as long as enough bytes follow; gives how many bytes that were.
    #[inline]
    pub(super) fn run(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) -> usize {
        let base = self.offset;
        // Bytes that the clear reader has counted.
        let mut counted = 0;
        let mut rest = bytes;
        let end = base + bytes.len() as u64;
        while let Some(window) = rest.first_chunk::<WINDOW>() {
            let header = usize::from(window[0]);
            let offset = end - rest.len() as u64;
            let place = |length: usize, value| Located { offset, length: length as u32, value };
            // A branch of its own for what is commonest is predicted better than a jump for everything.
            if let Some(packet) = self.whole[header] {
                sink(place(1, packet));
                let Some(behind) = rest.get(1..) else { break };
                rest = behind;
                continue;
            }
            let read = match self.fast[header] {
                Fast::Address { shape, continues, length } => {
                    let more = window[1] >> 7 & continues;
                    let length = usize::from(length + more);
                    let address = self.fast_address(shape + more, window);
                    sink(place(length, Packet::Address(address)));
                    Some(length)
                }
                Fast::Timestamp { cycles } => {
                    self.fast_timestamp(cycles, window).map(|(timestamp, length)| {
                        sink(place(length, Packet::Timestamp(timestamp)));
                        length
                    })
                }
                Fast::CycleCount { format } => {
                    self.fast_cycle_count(format, window).map(|(count, length)| {
                        sink(place(length, Packet::CycleCount(count)));
                        length
                    })
                }
                Fast::CycleCountCommit => {
                    sink(place(2, self.cycle_count_f2(window[0], window[1])));
                    Some(2)
                }
                Fast::No => None,
            };
            if let Some(length) = read {
                // Never taken: the window is longer than these packets. But a branch, which can be predicted.
                let Some(behind) = rest.get(length..) else { break };
                rest = behind;
                continue;
            }
            self.offset = offset;
            let Some(packet) = self.decode(rest) else { break };
            sink(packet);
            rest = rest.get(packet.length as usize..).unwrap_or_default();
            counted += u64::from(packet.length);
        }
        let used = bytes.len() - rest.len();
        self.offset = base + used as u64;
        self.accounting.decoded += used as u64 - counted;
        used
    }

    #[inline(always)]
    fn fast_address(&mut self, shape: u8, window: &[u8; WINDOW]) -> AddressPacket {
        let payload = word(window, 1);
        let shape: &Shape = &SHAPES[usize::from(self.state.wide)][usize::from(shape & 15)];
        let (entry, is) = self.state.history.entry(shape.entry);
        let address = Address(shape.address(payload, entry.0));
        // Not a branch: `&` and `|` on numbers.
        let is1 = (is == Is::Is1) & shape.keep_is | (shape.is == Is::Is1);
        let is = if is1 { Is::Is1 } else { Is::Is0 };
        self.state.history.push(address, is);
        AddressPacket { address, is, form: shape.form }
    }

    /// Whether a count follows is as good as random: it is read in any case, and counts for nothing if it is none.
    #[inline(always)]
    fn fast_timestamp(&mut self, has_cycles: bool, window: &[u8; WINDOW]) -> Option<(Timestamp, usize)> {
        let (low, bytes) = timestamp(window);
        let behind = 1 + usize::from(bytes);
        let (count, length) = count(u32::from_le_bytes(*window.get(behind..)?.first_chunk()?));
        if has_cycles & (length > COUNT) {
            return None;
        }
        self.state.timestamp = merge(self.state.timestamp, low, timestamp_bits(bytes));
        let cycles = has_cycles.then_some(count & self.cycle_mask);
        Some((
            Timestamp { value: self.state.timestamp, bytes, cycles },
            behind + if has_cycles { length } else { 0 },
        ))
    }

    /// Commit mode 1: the two formats differ in how many bytes and bits there are, and again that is as good as random.
    #[inline(always)]
    fn fast_cycle_count(
        &self,
        format: CycleCountFormat,
        window: &[u8; WINDOW],
    ) -> Option<(CycleCount, usize)> {
        let payload = word(window, 1) as u32;
        let f1 = format == CycleCountFormat::F1;
        let (count, length) = count(payload);
        if f1 & (length > COUNT) {
            return None;
        }
        let (above, length) = if f1 { (count, length) } else { (payload & 0xF, 1) };
        let cycles = Some(self.state.threshold.wrapping_add(above));
        Some((CycleCount { format, commit: 0, cycles }, 1 + length))
    }
}

/// Eight bytes as a number.
#[inline(always)]
fn word(window: &[u8; WINDOW], at: usize) -> u64 {
    window.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Where bit 7 of each byte is.
const CONTINUES: u64 = 0x8080_8080_8080_8080;

/// The bits of a timestamp, and how many bytes they are in.
#[inline(always)]
fn timestamp(window: &[u8; WINDOW]) -> (u64, u8) {
    let payload = word(window, 1);
    let ends = !payload & CONTINUES;
    if ends == 0 {
        return (compact(payload) | u64::from(window[9]) << 56, 9);
    }
    let last = ends.trailing_zeros();
    (compact(payload & (!0 >> (63 - last))), (last / 8 + 1) as u8)
}

/// A cycle count field and its length; one that is longer than it may be has a length of 4.
#[inline(always)]
const fn count(payload: u32) -> (u32, usize) {
    const { assert!(COUNT == 3) };
    let ends = !payload & 0x0080_8080 | 1 << 31;
    let last = ends.trailing_zeros();
    let bits = payload & (!0 >> (31 - last));
    (bits & 0x7F | bits >> 1 & 0x7F << 7 | bits >> 2 & 0x7F << 14, last as usize / 8 + 1)
}

/// Puts the low seven bits of each byte together.
#[inline(always)]
const fn compact(bytes: u64) -> u64 {
    let bits = bytes & !CONTINUES;
    let pairs = bits & 0x007F_007F_007F_007F | bits >> 1 & 0x3F80_3F80_3F80_3F80;
    let fours = pairs & 0x0000_3FFF_0000_3FFF | pairs >> 2 & 0x0FFF_C000_0FFF_C000;
    fours & 0x0FFF_FFFF | fours >> 4 & 0x00FF_FFFF_F000_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_puts_seven_bits_of_each_byte_together() {
        for index in 0..8 {
            for bit in 0..7 {
                assert_eq!(compact(1 << (8 * index + bit)), 1 << (7 * index + bit));
            }
        }
        assert_eq!(compact(u64::MAX), (1 << 56) - 1);
    }
}
