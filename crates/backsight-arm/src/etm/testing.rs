//! What the tests of both protocols need.

use std::string::{String, ToString};
use std::vec::Vec;

use backsight_core::describe::{Describe, write_text};
use backsight_core::{Address, Isa, Located};

use super::{Configuration, Decoder, Encoder};

/// An A-sync.
pub(crate) const A_SYNC: [u8; 6] = [0, 0, 0, 0, 0, 0x80];

/// Bytes in pieces of these lengths, and the rest.
pub(crate) fn cut<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for &length in lengths {
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

/// Gives words of bytes by chance, most of which go on with another byte of an address, to something that can make sense
/// of many of them: it says of which.
pub(crate) fn words(mut is_known: impl FnMut(&[u8; 8]) -> bool) {
    let (mut state, mut known) = (1_u64, 0);
    for round in 0..100_000 {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let mixed = (state ^ state >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        // Of two rounds, one has more bytes that others follow.
        let word = if round % 2 == 0 { mixed } else { mixed | (mixed << 13) & 0x8080_8080_8080_8080 };
        known += usize::from(is_known(&word.to_le_bytes()));
    }
    assert!((20_000..80_000).contains(&known), "{known}");
}

/// What a packet is made of.
pub(crate) type Draw = (u8, u64, u64, u64);

/// An instruction set by chance.
pub(crate) fn isa(choice: u64) -> Isa {
    [Isa::A32, Isa::T32, Isa::ThumbEe, Isa::Jazelle][choice as usize & 3]
}

/// An address that an instruction of the set can have.
pub(crate) fn aligned(address: u64, isa: Isa) -> Address {
    let bits = match isa {
        Isa::A32 => !3,
        Isa::Jazelle => !0,
        _ => !1,
    };
    Address(address & 0xFFFF_FFFF & bits)
}

/// Packets by chance, each one that the encoder can write next, and their bytes.
pub(crate) fn encode<C: Configuration>(
    config: &C,
    draws: &[Draw],
    packet: impl Fn(&Encoder<C>, Draw) -> C::Packet,
) -> (Vec<C::Packet>, Vec<u8>) {
    let mut encoder = Encoder::new(config);
    let mut bytes = encoder.encode(&C::ASYNC).unwrap().to_vec();
    let mut written = std::vec![C::ASYNC];
    for draw in draws {
        let packet = packet(&encoder, *draw);
        bytes.extend_from_slice(encoder.encode(&packet).unwrap_or_else(|why| panic!("{packet:?}: {why}")));
        written.push(packet);
    }
    (written, bytes)
}

/// The packets of a stream that is fed in pieces. Asserts that every byte is accounted for.
pub(crate) fn decode_pieces<C: Configuration>(config: &C, pieces: &[&[u8]]) -> Vec<Located<C::Packet>> {
    let mut decoder = Decoder::<C>::new(config);
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

/// The packets of a stream.
pub(crate) fn decode<C: Configuration>(config: &C, bytes: &[u8]) -> Vec<C::Packet> {
    decode_pieces(config, &[bytes]).iter().map(|packet| packet.value).collect()
}

/// What is listed of the packets after an A-sync.
pub(crate) fn texts<C: Configuration>(config: &C, bytes: &[u8]) -> Vec<String> {
    let bytes = [&A_SYNC[..], bytes].concat();
    let text = |packet: &C::Packet| {
        let mut text = packet.name().to_string();
        text.push(' ');
        write_text(packet, &mut text).unwrap();
        text.trim_end().to_string()
    };
    decode(config, &bytes)[1..].iter().map(text).collect()
}

/// What encoder and decoder of a protocol are to each other. The module `testing` beside it makes configurations and packets by
/// chance.
macro_rules! laws {
    ($cases:literal) => {
        use proptest::prelude::*;

        use super::testing::{configuration, packet};
        use crate::etm::testing::{Draw, cut, decode, decode_pieces, encode};

        fn draws(most: usize) -> impl Strategy<Value = Vec<Draw>> {
            prop::collection::vec(any::<Draw>(), 0..most)
        }

        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            #[test]
            fn what_is_encoded_is_decoded_again(config in configuration(), draws in draws(200)) {
                let (written, bytes) = encode(&config, &draws, packet);
                prop_assert_eq!(decode(&config, &bytes), written);
            }

            #[test]
            fn any_cut_of_a_stream_gives_the_same_packets(
                config in configuration(),
                before in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..40),
                draws in draws(40),
                noise in prop::collection::vec(prop_oneof![Just(0u8), Just(0x80u8), any::<u8>()], 0..60),
                lengths in prop::collection::vec(0..20usize, 0..60),
            ) {
                let bytes = [&before[..], &encode(&config, &draws, packet).1, &noise].concat();
                let expected = decode_pieces(&config, &[&bytes]);
                prop_assert_eq!(&decode_pieces(&config, &cut(&bytes, &lengths)), &expected);
                let single: Vec<&[u8]> = bytes.chunks(1).collect();
                prop_assert_eq!(&decode_pieces(&config, &single), &expected);
            }

            /// Packets read from noise are packets like any others: they can be written and read again.
            #[test]
            fn what_is_decoded_can_be_encoded_again(
                config in configuration(),
                noise in prop::collection::vec(any::<u8>(), 0..400),
            ) {
                let bytes = [&crate::etm::testing::A_SYNC[..], &noise].concat();
                let mut encoder = Encoder::new(&config);
                let mut again = Vec::new();
                let read: Vec<Packet> = decode(&config, &bytes)
                    .into_iter()
                    .take_while(|packet| !matches!(packet, Packet::Bad(_) | Packet::Unsynchronised))
                    .collect();
                for packet in &read {
                    let encoded = encoder.encode(packet);
                    prop_assert!(encoded.is_ok(), "{packet:?}: {encoded:?}");
                    again.extend_from_slice(encoded.unwrap());
                }
                prop_assert_eq!(decode(&config, &again), read);
            }
        }
    };
}
pub(crate) use laws;
