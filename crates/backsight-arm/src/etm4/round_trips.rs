//! Properties: what is encoded is decoded again, however it is cut, and no byte is lost.

use std::collections::HashSet;
use std::vec::Vec;

use backsight_testing::Random;
use proptest::prelude::*;

use super::testing::{Draw, configurations, decode, decode_pieces, packet};
use super::{Config, EncodeError, Encoder, Packet, ROWS, lookup, packets};

const ASYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];

/// Encodes what the configuration has of the packets that the draws give.
fn encode(config: &Config, draws: &[Draw]) -> (Vec<Packet>, Vec<u8>) {
    let mut encoder = Encoder::new(config);
    let mut bytes = encoder.encode(&Packet::Async).unwrap().to_vec();
    let mut written = Vec::from([Packet::Async]);
    for &draw in draws {
        let packet = packet(&encoder, draw);
        if let Ok(encoded) = encoder.encode(&packet) {
            bytes.extend_from_slice(encoded);
            written.push(packet);
        }
    }
    (written, bytes)
}

fn draws(count: usize) -> impl Strategy<Value = Vec<Draw>> {
    prop::collection::vec(any::<Draw>(), 1..count)
}

fn configuration() -> impl Strategy<Value = Config> {
    prop::sample::select(configurations())
}

/// Cuts a stream at the given places.
fn cut<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for &length in lengths {
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_encoded_is_decoded_again(config in configuration(), draws in draws(200)) {
        let (written, bytes) = encode(&config, &draws);
        let read: Vec<Packet> = decode(&config, &bytes).iter().map(|packet| packet.value).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn any_cut_of_a_stream_gives_the_same_packets(
        config in configuration(),
        before in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..40),
        draws in draws(40),
        noise in prop::collection::vec(any::<u8>(), 0..60),
        lengths in prop::collection::vec(0..20usize, 0..60),
    ) {
        let bytes = [&before[..], &encode(&config, &draws).1, &noise].concat();
        let expected = decode(&config, &bytes);
        prop_assert_eq!(&decode_pieces(&config, &cut(&bytes, &lengths)), &expected);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&decode_pieces(&config, &single), &expected);
        prop_assert_eq!(&packets(&config, &bytes).collect::<Vec<_>>(), &expected);
    }

    /// The fast engine and the clear reader: on streams of several blocks, of mostly one kind of packet and of all kinds.
    #[test]
    fn streams_read_in_haste_and_at_leisure_give_the_same_packets(
        config in configuration(),
        kinds in prop::collection::vec(any::<u8>(), 1..6),
        draws in draws(600),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        // The kind is drawn from a few, so that some streams are dense, some full of timestamps.
        let some: Vec<Draw> = draws
            .iter()
            .map(|&(kind, a, b, c)| (kinds[usize::from(kind) % kinds.len()], a, b, c))
            .collect();
        let mut bytes = encode(&config, &some).1;
        bytes.extend(encode(&config, &draws).1);
        for (place, byte) in &damage {
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        let leisure: Vec<_> = packets(&config, &bytes).collect();
        prop_assert_eq!(&decode(&config, &bytes), &leisure);
        let pieces: Vec<&[u8]> = bytes.chunks(300).collect();
        prop_assert_eq!(&decode_pieces(&config, &pieces), &leisure);
    }

    /// Headers that the fast engine knows, with fields that go on for too long or just long enough.
    #[test]
    fn long_fields_read_in_haste_and_at_leisure_give_the_same_packets(
        config in configuration(),
        noise in prop::collection::vec(
            prop_oneof![
                1 => prop::sample::select(&[0x02, 0x03, 0x0C, 0x0E, 0x12, 0x95, 0x96, 0x9A, 0x9D, 0xB4, 0xB8, 0xF7][..]),
                3 => 0x80..=0xFFu8,
                1 => any::<u8>(),
            ],
            0..1500,
        ),
    ) {
        let bytes = [&ASYNC[..], &noise].concat();
        prop_assert_eq!(&decode(&config, &bytes), &packets(&config, &bytes).collect::<Vec<_>>());
    }

    #[test]
    fn every_byte_of_noise_is_accounted_for(
        config in configuration(),
        noise in prop::collection::vec(prop_oneof![1 => Just(0u8), 1 => Just(0x80u8), 6 => any::<u8>()], 0..400),
    ) {
        decode(&config, &noise);
        decode(&config, &[&ASYNC[..], &noise].concat());
    }

    /// Packets read from noise are packets like any others: they can be written and read again.
    #[test]
    fn what_is_decoded_can_be_encoded_again(
        config in configuration(),
        noise in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut encoder = Encoder::new(&config);
        let mut again = Vec::new();
        let read: Vec<Packet> = decode(&config, &[&ASYNC[..], &noise].concat())
            .iter()
            .map(|packet| packet.value)
            .filter(|packet| !matches!(packet, Packet::Bad(_)))
            .collect();
        for packet in &read {
            let encoded = encoder.encode(packet);
            prop_assert!(encoded.is_ok(), "{packet:?}: {encoded:?}");
            again.extend_from_slice(encoded.unwrap());
        }
        let reread: Vec<Packet> = decode(&config, &again).iter().map(|packet| packet.value).collect();
        prop_assert_eq!(reread, read);
    }
}

#[test]
fn the_round_trip_covers_every_packet_of_every_configuration() {
    for config in configurations() {
        let mut random = Random(7);
        let draws: Vec<Draw> =
            (0..6000).map(|_| (random.next() as u8, random.next(), random.next(), random.next())).collect();
        let (written, bytes) = encode(&config, &draws);
        let read = decode(&config, &bytes);
        assert!(read.iter().map(|packet| packet.value).eq(written));
        let rows: HashSet<u8> =
            read.iter().map(|packet| lookup(bytes[packet.offset as usize]).first).collect();
        for row in ROWS {
            let valid = row.when.check(&config).is_ok();
            assert_eq!(rows.contains(&row.first), valid, "{:#04x} {}", row.first, row.title);
        }
    }
}

#[test]
fn a_packet_that_cannot_be_written_changes_nothing() {
    let mut random = Random(3);
    for config in configurations() {
        let mut encoder = Encoder::new(&config);
        let mut refused = 0;
        for _ in 0..2000 {
            let draw = (random.next() as u8, random.next(), random.next(), random.next());
            // Made for another configuration and another place.
            let packet = packet(&Encoder::new(&Config::ete_default()), draw);
            let state =
                |encoder: &Encoder| (*encoder.history(), encoder.last_timestamp(), encoder.threshold());
            let before = state(&encoder);
            if let Err(error) = encoder.encode(&packet) {
                assert_ne!(error, EncodeError::NotAPacket);
                assert_eq!(state(&encoder), before, "{packet:?}");
                refused += 1;
            }
            let Ok(_) = encoder.encode(&super::testing::packet(&encoder, draw)) else { continue };
        }
        assert!(refused > 0);
    }
}
