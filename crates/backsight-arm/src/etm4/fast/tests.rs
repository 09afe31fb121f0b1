//! The law of the fast engine: it gives what the clear reader gives.
//!
//! [`packets`] is the clear reader alone; [`decode`] and [`decode_pieces`] go through the engine, packet by packet, and in
//! batches with each set of vector instructions that the processor has.

use std::vec::Vec;

use proptest::prelude::*;

use crate::etm4::synthetic::WorstCase;
use crate::etm4::testing::{ASYNC, Draw, configuration, configured, decode, decode_pieces, draws, encode};
use crate::etm4::{Config, Decoder, InstructionSet, Kind, Packet, packets};

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
        draws in draws(900),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        piece in 60..2000usize,
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
        let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
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
            0..3000,
        ),
    ) {
        let bytes = [&ASYNC[..], &noise].concat();
        prop_assert_eq!(&decode(&config, &bytes), &packets(&config, &bytes).collect::<Vec<_>>());
    }
}

/// Atoms alone: a batch ends in the middle of them, and what comes after it belongs to the next.
#[test]
fn runs_of_atoms_end_where_a_batch_does() {
    let config = Config::etm4_default();
    for length in 4000..4040 {
        let bytes: Vec<u8> =
            ASYNC.into_iter().chain((0..length).map(|n| 0xC0 | (n * 7 % 64) as u8)).collect();
        assert_eq!(decode(&config, &bytes), packets(&config, &bytes).collect::<Vec<_>>());
    }
}

/// Where a region of the engine ends, and what is left to the clear reader, depends on where the input ends.
#[test]
fn the_fast_engine_gives_the_same_packets_wherever_the_input_is_cut() {
    let mut random = backsight_testing::Random(5);
    let mut draw = || -> Draw {
        let kind = if random.below(3) == 0 { 40 } else { random.next() as u8 };
        (kind, random.next(), random.next(), random.next())
    };
    let draws: Vec<Draw> = (0..1100).map(|_| draw()).collect();
    let settings: [&[(&str, &str)]; 4] = [
        &[],
        &[("TRCCONFIGR", "0x811")],
        // Timestamps without cycle counts.
        &[("TRCCONFIGR", "0x801")],
        &[("version", "ETE1.1"), ("TRCCONFIGR", "0x11")],
    ];
    for settings in settings {
        let config = configured(settings);
        let (_, bytes) = encode(&config, &draws);
        let clear: Vec<_> = packets(&config, &bytes).collect();
        assert!(bytes.len() > 1400, "{}", bytes.len());
        for cut in 0..bytes.len() {
            let (before, after) = bytes.split_at(cut);
            let mut decoder = Decoder::new(&config);
            let mut at = 0;
            let mut check = |packet| {
                assert_eq!(Some(&packet), clear.get(at), "cut at {cut}");
                at += 1;
            };
            decoder.feed_batches(before, &mut |batch| batch.for_each(&mut check));
            decoder.feed(after, &mut check);
            decoder.finish(&mut check);
            assert_eq!(at, clear.len());
            assert_eq!(decoder.accounting().total(), bytes.len() as u64);
        }
    }
}

/// What is uncommon is left to the clear reader; what is common must not be.
#[test]
fn the_fast_engine_reads_all_that_is_common() {
    for case in WorstCase::ALL {
        let mut bytes = Vec::new();
        case.write(50_000, 7, &mut |packet| bytes.extend_from_slice(packet));
        let is_common = |packet: &Packet| !matches!(packet, Packet::Async | Packet::TraceInfo(_));
        let mut apart = 0;
        Decoder::new(&case.config()).feed_batches(&bytes, &mut |batch| {
            apart += batch.large().iter().filter(|(packet, _)| is_common(packet)).count();
        });
        // Those of the last few bytes are left to it.
        assert!(apart < 64, "{}: {apart}", case.name());
    }
}

#[test]
fn instructions_that_the_processor_lacks_are_not_used() {
    let config = Config::etm4_default();
    let bytes = [&ASYNC[..], &[0xF7; 500]].concat();
    for set in InstructionSet::ALL {
        let mut count = 0;
        Decoder::new(&config).with_instructions(set).feed(&bytes, &mut |_| count += 1);
        assert_eq!(count, 501, "{}", set.name());
    }
}
