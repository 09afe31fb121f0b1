//! Streams that are hard to decode, made on the spot: for benchmarks, and to compare decoders on the same bytes.
//!
//! A decoder's speed depends on what it is given. Three streams are the worst of their kind: nothing but one-byte
//! packets (most packets for each byte), nothing but addresses as with branch broadcast (longest dependency from
//! packet to packet), and a cycle count and a timestamp with each atom (most fields of variable length). The
//! choices are random, so that branch prediction does not help. Every stream has an Async and a Trace Info about
//! every 4 KiB, as real ones do.

use backsight_core::Address;

use super::{Atoms, Config, Encoder, Is, Kind, Packet, TraceInfo};

/// A kind of stream that is hard to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorstCase {
    /// Only packets of one byte: atoms, events, cycle counts of format 3, exact match addresses.
    OneByte,
    /// Only address packets: exact, short and long.
    Addresses,
    /// An atom, a cycle count and a timestamp, over and over.
    Timed,
}

impl WorstCase {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OneByte, Self::Addresses, Self::Timed];

    /// A name for files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneByte => "one-byte",
            Self::Addresses => "addresses",
            Self::Timed => "timed",
        }
    }

    /// The configuration of the trace unit that makes the stream.
    pub const fn config(self) -> Config {
        let mut config = Config::etm4_default();
        config.registers.traceidr = 0x10;
        config.registers.configr = match self {
            Self::OneByte => 0x01 | 1 << 4,
            Self::Addresses => 0x01 | 1 << 3,
            Self::Timed => 0x01 | 1 << 4 | 1 << 11,
        };
        config
    }

    /// Writes a stream of at least `length` bytes, packet by packet. The same `seed` gives the same stream.
    pub fn write(self, length: u64, seed: u64, sink: &mut impl FnMut(&[u8])) {
        let mut generator =
            Generator { encoder: Encoder::new(&self.config()), random: seed, time: 0, written: 0 };
        let mut synchronise_at = 0;
        while generator.written < length {
            if generator.written >= synchronise_at {
                synchronise_at = generator.written + 4096;
                generator.synchronise(sink);
            }
            match self {
                Self::OneByte => generator.one_byte(sink),
                Self::Addresses => generator.address(sink),
                Self::Timed => generator.timed(sink),
            }
        }
    }
}

/// Cycle count threshold in the Trace Info packets.
const THRESHOLD: u32 = 4;

/// How many headers are atoms.
const ATOM_HEADERS: u64 = 0x40;

struct Generator {
    encoder: Encoder,
    random: u64,
    time: u64,
    written: u64,
}

impl Generator {
    fn put(&mut self, packet: Packet, sink: &mut impl FnMut(&[u8])) {
        // What is made here is always expressible; a test says so.
        if let Ok(bytes) = self.encoder.encode(&packet) {
            self.written += bytes.len() as u64;
            sink(bytes);
        }
    }

    /// A random number below `bound` (splitmix64).
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31) % bound
    }

    fn synchronise(&mut self, sink: &mut impl FnMut(&[u8])) {
        self.put(Packet::Async, sink);
        let info = TraceInfo { sections: 0b1001, info: 1, threshold: THRESHOLD, ..TraceInfo::default() };
        self.put(Packet::TraceInfo(info), sink);
    }

    fn atom(&mut self) -> Packet {
        Packet::Atoms(Atoms::from_header(Kind::AtomF6.header() + self.below(ATOM_HEADERS) as u8))
    }

    fn one_byte(&mut self, sink: &mut impl FnMut(&[u8])) {
        let packet = match self.below(98) {
            0..64 => self.atom(),
            choice @ 64..79 => Packet::Event((choice - 63) as u8),
            choice @ 79..95 => match self.encoder.cycle_count(0, Some(THRESHOLD + choice as u32 % 4)) {
                Some(count) => Packet::CycleCount(count),
                None => return,
            },
            choice => {
                let (address, is) = self.encoder.history().entry((choice - 95) as u8);
                Packet::Address(self.encoder.compress(address, is))
            }
        };
        self.put(packet, sink);
    }

    fn address(&mut self, sink: &mut impl FnMut(&[u8])) {
        let newest = self.encoder.history().newest().0;
        let far = self.below(u64::MAX);
        let address = match self.below(16) {
            0..2 => self.encoder.history().entry(self.random as u8 % 3).0.0,
            2..9 => newest ^ far & 0x1FC,
            9..13 => newest ^ far & 0x1_FFFC,
            13..15 => newest ^ far & 0xFFFF_FFFC,
            _ => far & 0xFFFF_FFFF_FFFC,
        };
        self.put(Packet::Address(self.encoder.compress(Address(address), Is::Is0)), sink);
    }

    fn timed(&mut self, sink: &mut impl FnMut(&[u8])) {
        let atom = self.atom();
        self.put(atom, sink);
        let bits = self.below(14);
        let cycles = THRESHOLD + self.below(1 << bits) as u32;
        if let Some(count) = self.encoder.cycle_count(0, Some(cycles)) {
            self.put(Packet::CycleCount(count), sink);
        }
        let bits = self.below(40);
        self.time = self.time.wrapping_add(self.below(1 << bits));
        let beside = if self.below(2) == 0 { None } else { Some(cycles & 0xFFF) };
        self.put(Packet::Timestamp(self.encoder.timestamp(self.time, beside)), sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etm4::{AddressForm, packets};
    use std::collections::HashSet;
    use std::vec::Vec;

    fn stream(case: WorstCase) -> Vec<u8> {
        let mut bytes = Vec::new();
        case.write(100_000, 1, &mut |packet| bytes.extend_from_slice(packet));
        bytes
    }

    #[test]
    fn worst_cases_hold_what_they_promise_and_nothing_bad() {
        for case in WorstCase::ALL {
            let bytes = stream(case);
            assert!((100_000..100_100).contains(&bytes.len()));
            for packet in packets(&case.config(), &bytes) {
                let expected = match packet.value {
                    Packet::Async | Packet::TraceInfo(_) => true,
                    Packet::Address(_) => case == WorstCase::Addresses || packet.length == 1,
                    Packet::Atoms(_) | Packet::Event(_) => case != WorstCase::Addresses,
                    Packet::CycleCount(_) => case == WorstCase::Timed || packet.length == 1,
                    Packet::Timestamp(_) => case == WorstCase::Timed,
                    _ => false,
                };
                assert!(expected, "{} {packet:?}", case.name());
            }
        }
    }

    #[test]
    fn addresses_come_in_every_form() {
        let bytes = stream(WorstCase::Addresses);
        let forms: HashSet<AddressForm> = packets(&WorstCase::Addresses.config(), &bytes)
            .filter_map(|packet| packet.value.address().map(|address| address.form))
            .collect();
        assert_eq!(forms.len(), 7);
    }
}
