//! The law of the fast engine: it gives what the clear reader gives.
//!
//! [`packets`] is the clear reader alone; [`decode`] and [`decode_pieces`] go through the engine, packet by packet and in
//! batches.

use std::vec::Vec;

use proptest::prelude::*;

use crate::etm4::testing::{ASYNC, Draw, configuration, decode, decode_pieces, draws, encode};
use crate::etm4::{Kind, packets};

/// Kinds that the engine reads.
const KNOWN: [Kind; 12] = [
    Kind::Timestamp,
    Kind::TimestampCycles,
    Kind::CycleCountF2,
    Kind::CycleCountF1,
    Kind::CycleCountF3,
    Kind::AddressShortIs0,
    Kind::AddressShortIs1,
    Kind::Address32Is0,
    Kind::Address64Is0,
    Kind::SourceShortIs0,
    Kind::Source64Is0,
    Kind::AtomF1,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// On streams of several blocks, of mostly one kind of packet and of all kinds.
    #[test]
    fn the_fast_engine_gives_the_packets_of_the_clear_reader(
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
        for (at, byte) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        let clear: Vec<_> = packets(&config, &bytes).collect();
        prop_assert_eq!(&decode(&config, &bytes), &clear);
        let pieces: Vec<&[u8]> = bytes.chunks(300).collect();
        prop_assert_eq!(&decode_pieces(&config, &pieces), &clear);
    }

    /// Headers that the fast engine knows, with fields that go on for too long or just long enough.
    #[test]
    fn the_fast_engine_leaves_fields_that_are_too_long_to_the_clear_reader(
        config in configuration(),
        noise in prop::collection::vec(
            prop_oneof![
                1 => prop::sample::select(&KNOWN[..]).prop_map(Kind::header),
                3 => 0x80..=0xFFu8,
                1 => any::<u8>(),
            ],
            0..1500,
        ),
    ) {
        let bytes = [&ASYNC[..], &noise].concat();
        prop_assert_eq!(&decode(&config, &bytes), &packets(&config, &bytes).collect::<Vec<_>>());
    }
}
