use super::*;
use backsight_core::{Accounting, Located};
use proptest::prelude::*;
use std::vec::Vec;
use std::{format, vec};

const NO_SYNC: Config = Config { synchronises: false, prescale: 1 };

fn decode(config: &Config, pieces: &[&[u8]]) -> (Vec<Located<Packet>>, Accounting) {
    let (mut decoder, mut packets) = (Decoder::new(config), Vec::new());
    pieces.iter().for_each(|piece| decoder.feed(piece, &mut |packet| packets.push(packet)));
    decoder.finish(&mut |packet| packets.push(packet));
    (packets, decoder.accounting())
}

fn packets(config: &Config, bytes: &[u8]) -> Vec<Packet> {
    decode(config, &[bytes]).0.iter().map(|packet| packet.value).collect()
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let value = || (any::<u32>(), prop_oneof![Just(1u8), Just(2), Just(4)]);
    let fit =
        |(value, size): (u32, u8)| (if size == 4 { value } else { value & ((1 << (8 * size)) - 1) }, size);
    prop_oneof![
        Just(Packet::Sync),
        Just(Packet::Overflow),
        (0..1u32 << 28, 0..4u8).prop_map(|(ticks, relation)| Packet::LocalTimestamp { ticks, relation }),
        (1..7u32).prop_map(|ticks| Packet::LocalTimestamp { ticks, relation: 0 }),
        (0..1u32 << 26, any::<[bool; 2]>()).prop_map(|(low, [wrapped, clock_changed])| {
            Packet::GlobalTimestamp1 { low, length: 4, wrapped, clock_changed }
        }),
        (any::<u32>(), 1..4u8).prop_map(|(low, length)| Packet::GlobalTimestamp1 {
            low: low & ((1 << (7 * length)) - 1),
            length,
            wrapped: false,
            clock_changed: false
        }),
        (any::<u64>(), any::<bool>()).prop_map(|(high, wide)| {
            Packet::GlobalTimestamp2 { high: high >> if wide { 26 } else { 42 }, wide }
        }),
        (any::<bool>(), any::<u32>(), 0..5u8).prop_map(|(hardware, value, length)| {
            let bits = if length == 4 { 32 } else { 3 + 7 * u32::from(length) };
            Packet::Extension { hardware, value: (u64::from(value) & ((1 << bits) - 1)) as u32, length }
        }),
        (0..32u8, value()).prop_map(move |(port, value)| {
            let (value, size) = fit(value);
            Packet::Instrumentation { port, value, size }
        }),
        (0..32u8, value()).prop_map(move |(id, value)| {
            let (value, size) = fit(value);
            Packet::Hardware { id, value, size }
        }),
    ]
}

fn encoded(packets: &[Packet]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (Encoder::new(), Vec::new());
    packets.iter().for_each(|packet| assert!(encoder.put(packet, &mut bytes), "{packet:?}"));
    bytes
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(all in proptest::collection::vec(any_packet(), 0..30)) {
        let mut all = all;
        all.insert(0, Packet::Sync);
        let bytes = encoded(&all);
        for config in [Config::default(), NO_SYNC] {
            let (decoded, accounting) = decode(&config, &[&bytes]);
            prop_assert_eq!(decoded.iter().map(|packet| packet.value).collect::<Vec<_>>(), all.clone());
            prop_assert_eq!(accounting.decoded, bytes.len() as u64);
        }
    }

    #[test]
    fn any_split_gives_the_same_and_every_byte_is_accounted_for(
        good in proptest::collection::vec(any_packet(), 0..8),
        noise in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0u8), Just(0x80)], 0..60),
        splits in proptest::collection::vec(any::<u8>(), 0..6),
    ) {
        let bytes = [encoded(&good), noise, encoded(&[Packet::Sync]), encoded(&good)].concat();
        let mut cuts: Vec<usize> = splits.iter().map(|&at| usize::from(at) % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let one: Vec<&[u8]> = bytes.chunks(1).collect();
        for config in [Config::default(), NO_SYNC] {
            let expected = decode(&config, &[&bytes]);
            prop_assert_eq!(&decode(&config, &pieces), &expected);
            prop_assert_eq!(&decode(&config, &one), &expected);
            prop_assert_eq!(expected.1.total(), bytes.len() as u64);
            let mut end = 0;
            for packet in &expected.0 {
                prop_assert_eq!(packet.offset, end);
                end = packet.end();
            }
            prop_assert_eq!(end, bytes.len() as u64);
        }
    }
}

proptest! {
    #[test]
    fn damage_changes_nothing_before_it_and_nothing_from_the_next_synchronisation_on(
        before in proptest::collection::vec(any_packet(), 1..20),
        after in proptest::collection::vec(any_packet(), 1..20),
        at in any::<usize>(),
        replacement in proptest::collection::vec(any::<u8>(), 0..6),
    ) {
        let sound = encoded(&[vec![Packet::Sync], before].concat());
        let tail = [encoded(&[Packet::Sync]), encoded(&after)].concat();
        let at = 6 + at % (sound.len() - 5);
        let damaged = [&sound[..at], &replacement, &tail].concat();
        let (expected, _) = decode(&Config::default(), &[&sound]);
        let (found, accounting) = decode(&Config::default(), &[&damaged]);
        let whole = expected.iter().filter(|packet| packet.end() <= at as u64).count();
        prop_assert_eq!(&found[..whole], &expected[..whole]);
        let from = (damaged.len() - tail.len()) as u64;
        let synchronised = |packet: &&Located<Packet>| packet.end() >= from + 6 && packet.value == Packet::Sync;
        let first = found.iter().position(|packet| synchronised(&packet)).unwrap_or(0);
        // A packet that damage made up may have taken the first zeros.
        prop_assert_eq!(found[first].end(), from + 6);
        let shifted = |packet: &Located<Packet>| Located { offset: packet.offset - from, ..*packet };
        let again: Vec<_> = found[first + 1..].iter().map(shifted).collect();
        prop_assert_eq!(&again[..], &decode(&Config::default(), &[&tail]).0[1..]);
        prop_assert_eq!(accounting.total(), damaged.len() as u64);
    }
}

#[test]
fn the_bytes_of_the_reference_are_read_as_it_says() {
    let port = |port, value, size| Packet::Instrumentation { port, value, size };
    let dwt = |id, value, size| Packet::Hardware { id, value, size };
    let page = |value| Packet::Extension { hardware: false, value, length: 0 };
    let cases: [(&[u8], Packet); 14] = [
        (&[0, 0, 0, 0, 0, 0x80], Packet::Sync),
        (&[0x70], Packet::Overflow),
        (&[0x19, 0xBB], port(3, 0xBB, 1)),
        (&[0x20], Packet::LocalTimestamp { ticks: 2, relation: 0 }),
        (&[0x0A, 0x45, 0x23], port(1, 0x2345, 2)),
        (&[0x0B, 0x23, 0x01, 0x89, 0x67], port(1, 0x6789_0123, 4)),
        (&[0xD0, 0x0D], Packet::LocalTimestamp { ticks: 13, relation: 1 }),
        (&[0x05, 0x15], dwt(0, 0x15, 1)),
        (&[0x0E, 0x04, 0x10], dwt(1, 0x1004, 2)),
        (&[0x17, 0, 0x10, 0, 0], dwt(2, 0x1000, 4)),
        (&[0x15, 0], dwt(2, 0, 1)),
        (&[0x28], page(2)),
        (
            &[0x94, 0xD6, 0xE8, 0xC8, 0x07],
            Packet::GlobalTimestamp1 { low: 0x0F2_3456, length: 4, wrapped: false, clock_changed: false },
        ),
        (
            &[0xB4, 0x93, 0x98, 0xA0, 0xA0, 0x80, 0],
            Packet::GlobalTimestamp2 { high: 0x13 | 0x18 << 7 | 0x20 << 14 | 0x20 << 21, wide: true },
        ),
    ];
    for (bytes, packet) in cases {
        assert_eq!(packets(&NO_SYNC, bytes), [packet], "{bytes:x?}");
        assert_eq!(encoded(&[packet]), bytes);
    }
}

#[test]
fn reserved_headers_end_synchronisation() {
    for header in [0x04, 0x14, 0x84, 0xA4, 0x80, 0x90, 0xA0, 0xB0] {
        let bytes = [encoded(&[Packet::Sync]), vec![header, 0x20, 0x20], encoded(&[Packet::Sync])].concat();
        let expected = [Packet::Sync, Packet::Bad(Bad::Reserved), Packet::Unsynchronised, Packet::Sync];
        assert_eq!(packets(&Config::default(), &bytes), expected, "{header:x}");
        let tick = Packet::LocalTimestamp { ticks: 2, relation: 0 };
        let expected = [Packet::Sync, Packet::Bad(Bad::Reserved), tick, tick, Packet::Sync];
        assert_eq!(packets(&NO_SYNC, &bytes), expected, "{header:x}");
    }
}

#[test]
fn a_packet_that_does_not_end_is_bad() {
    let long = |header: u8, count: usize| [vec![header], vec![0xFF; count]].concat();
    for (bytes, why) in [
        (long(0xC0, 4), Bad::Length),
        (long(0x94, 4), Bad::Length),
        (long(0xB4, 6), Bad::Length),
        (vec![0xB4, 0x80, 0], Bad::Length),
        (vec![0x03, 1, 2], Bad::Incomplete),
        (long(0xC0, 3), Bad::Incomplete),
        (vec![0, 0], Bad::Incomplete),
        (vec![0, 0, 0, 0, 0x80], Bad::Zeros),
    ] {
        assert_eq!(packets(&NO_SYNC, &bytes).first(), Some(&Packet::Bad(why)), "{bytes:x?}");
    }
}

#[test]
fn every_header_is_a_packet_or_reserved() {
    let reserved: Vec<u8> = (1..=255u8)
        .filter(|&header| {
            let bytes = [header, 0x81, 0x81, 0x81, 0x01, 0, 0];
            packets(&NO_SYNC, &bytes)[0] == Packet::Bad(Bad::Reserved)
        })
        .collect();
    let expected: Vec<u8> = (1..=255u8)
        .filter(|h| {
            h & 3 == 0
                && (matches!(h, 0x80 | 0x90 | 0xA0 | 0xB0) || h & 0xF == 4 && !matches!(h, 0x94 | 0xB4))
        })
        .collect();
    assert_eq!(reserved, expected, "{}", format!("{reserved:x?}"));
}
