//! Properties: what is encoded is decoded again, however it is cut, and no byte is lost.

use std::collections::HashSet;
use std::vec::Vec;

use backsight_testing::Random;
use proptest::prelude::*;

use super::testing::{
    ASYNC, Draw, configuration, configurations, decode, decode_pieces, draws, encode, packet,
};
use super::{Config, EncodeError, Encoder, Packet, ROWS, lookup, packets};

/// Cuts a stream into pieces of the given lengths.
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
            // Made for another configuration and another state.
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
