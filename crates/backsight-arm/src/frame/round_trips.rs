//! What the formatter packs, the deframer takes apart; and captures out of alignment.

use super::tests::{EXAMPLE, Piece, decode};
use super::*;
use backsight_testing::Random;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

/// What a formatter is given, one at a time.
#[derive(Clone, Debug)]
enum Step {
    Data(u8, Vec<u8>),
    Trigger,
    FlushDone,
    Flush,
}

/// What must come out, byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Byte(u8, u8),
    Trigger,
    FlushDone,
    Lost(Loss),
}

fn encode(config: FormatterConfig, steps: &[Step]) -> Vec<u8> {
    let mut formatter = Formatter::new(config);
    let mut stream = Vec::new();
    let mut sink = |bytes: &[u8]| stream.extend_from_slice(bytes);
    for step in steps {
        match step {
            Step::Data(id, bytes) => formatter.push(TraceId::new(*id), bytes, &mut sink).expect("a source"),
            Step::Trigger => formatter.trigger(&mut sink),
            Step::FlushDone => formatter.flush_done(&mut sink),
            Step::Flush => formatter.flush(&mut sink),
        }
    }
    formatter.finish(&mut sink);
    stream
}

fn items_of_steps(steps: &[Step]) -> Vec<Item> {
    let items = |step: &Step| match step {
        Step::Data(id, bytes) => bytes.iter().map(|&byte| Item::Byte(*id, byte)).collect(),
        Step::Trigger => vec![Item::Trigger],
        Step::FlushDone => vec![Item::FlushDone],
        Step::Flush => vec![],
    };
    steps.iter().flat_map(items).collect()
}

fn items_of_pieces(pieces: &[Piece]) -> Vec<Item> {
    let items = |piece: &Piece| match piece {
        Piece::Data(id, _, bytes) => bytes.iter().map(|&byte| Item::Byte(*id, byte)).collect(),
        Piece::Trigger(_) => vec![Item::Trigger],
        Piece::Flush(_) => vec![Item::FlushDone],
        Piece::Discontinuity(_, why) => vec![Item::Lost(*why)],
    };
    pieces.iter().flat_map(items).collect()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let data = (1_u8..0x70, proptest::collection::vec(any::<u8>(), 0..40));
    let few = (1_u8..4, proptest::collection::vec(prop_oneof![Just(0xFF), Just(0x7F), any::<u8>()], 0..4));
    let step = prop_oneof![
        6 => data.prop_map(|(id, bytes)| Step::Data(id, bytes)),
        12 => few.prop_map(|(id, bytes)| Step::Data(id, bytes)),
        1 => Just(Step::Trigger),
        1 => Just(Step::FlushDone),
        1 => Just(Step::Flush),
    ];
    proptest::collection::vec(step, 0..60)
}

fn configs() -> impl Strategy<Value = FormatterConfig> {
    let framing = proptest::sample::select(&Framing::ALL[1..]);
    (framing, 0_u32..6, 0_u32..6, 0_u32..12).prop_map(|(framing, repeat_id, full_sync, half_sync)| {
        FormatterConfig { framing, repeat_id, full_sync, half_sync }
    })
}

proptest! {
    /// Whatever the bytes are: a source that has data was named.
    #[test]
    fn sources_with_data_are_named(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut deframer = Deframer::new(Framing::Coresight);
        deframer.feed(&bytes, &mut |_| {});
        let mut named = NamedIds::default();
        named.look(&bytes);
        for (id, _) in deframer.counts().sources() {
            prop_assert!(named.has(id), "{id:?}");
        }
        let frames = bytes.as_chunks::<16>().0;
        let is_named = |id: u8| frames.iter().any(|frame| frame.iter().step_by(2).any(|&byte| byte == 2 * id + 1));
        for id in 0..128 {
            prop_assert_eq!(named.has(TraceId::new(id)), is_named(id));
        }
    }

    #[test]
    fn any_interleaving_comes_back(steps in steps(), config in configs()) {
        let stream = encode(config, &steps);
        let (pieces, counts) = decode(config.framing, &stream);
        prop_assert_eq!(items_of_pieces(&pieces), items_of_steps(&steps));
        prop_assert_eq!(counts.unknown + counts.partial + counts.unsynchronised, 0);
        prop_assert_eq!(counts.nonzero_padding + counts.stray_aux + counts.illegal_ids, 0);
    }

    #[test]
    fn damage_loses_no_more_than_what_lies_before_the_second_sync_after_it(
        steps in steps(), position in any::<proptest::sample::Index>(), cut in 1_usize..40,
    ) {
        let config = FormatterConfig { full_sync: 4, repeat_id: 1, ..FormatterConfig::new(Framing::TpiuHsync) };
        let stream = encode(config, &steps);
        prop_assume!(!stream.is_empty());
        let from = position.index(stream.len());
        let to = (from + cut).min(stream.len());
        let damaged = [&stream[..from], &stream[to..]].concat();
        let syncs: Vec<usize> =
            (to..stream.len()).filter(|&at| stream[at..].starts_with(&[0xFF, 0xFF, 0xFF, 0x7F])).collect();
        prop_assume!(syncs.len() >= 2);
        let (undamaged, _) = decode(config.framing, &stream[syncs[1]..]);
        let (found, _) = decode(config.framing, &damaged);
        let (undamaged, found) = (items_of_pieces(&undamaged), items_of_pieces(&found));
        prop_assert!(found.ends_with(&undamaged));
    }
}

#[test]
fn the_worked_example_is_made_byte_for_byte() {
    let steps = [
        Step::Data(0x10, vec![0x11, 0x22, 0x33, 0x45, 0x56, 0x67]),
        Step::Data(0x20, vec![0xA1, 0xB2, 0xC3, 0xD4]),
        Step::Trigger,
        Step::Data(0x20, vec![0xE5, 0xF6]),
        Step::Flush,
    ];
    assert_eq!(encode(FormatterConfig::new(Framing::Coresight), &steps), EXAMPLE);
}

#[test]
fn an_unchanged_id_is_repeated_as_often_as_configured() {
    for repeat_id in [0, 1, 3] {
        let config = FormatterConfig { repeat_id, ..FormatterConfig::new(Framing::Coresight) };
        let stream = encode(config, &[Step::Data(0x10, vec![0xAA; 1000])]);
        let ids: Vec<usize> = (0..stream.len()).step_by(16).filter(|&at| stream[at] == 0x21).collect();
        let gaps: Vec<usize> = ids.windows(2).map(|pair| (pair[1] - pair[0]) / 16).collect();
        assert!(gaps.iter().all(|&gap| gap == repeat_id as usize), "{gaps:?}");
        assert_eq!(gaps.is_empty(), repeat_id == 0);
    }
}

#[test]
fn a_raw_stream_goes_through_the_formatter_unchanged() {
    let steps = [Step::Data(0x10, vec![1, 2, 3]), Step::Trigger, Step::Data(0x10, vec![4])];
    assert_eq!(encode(FormatterConfig::new(Framing::Raw), &steps), [1, 2, 3, 4]);
}

#[test]
fn ids_that_name_no_source_are_refused() {
    let mut formatter = Formatter::new(FormatterConfig::new(Framing::Coresight));
    for id in [0x00, 0x70, 0x7B, 0x7D, 0x7F] {
        let id = TraceId::new(id);
        assert_eq!(formatter.push(id, &[0], &mut |_| {}), Err(NotASource(id)));
    }
}

#[test]
fn a_barrier_separates_sessions_of_one_buffer() {
    let mut formatter = Formatter::new(FormatterConfig::new(Framing::Coresight));
    let mut stream = Vec::new();
    let mut sink = |bytes: &[u8]| stream.extend_from_slice(bytes);
    for byte in [1, 2] {
        formatter.push(TraceId::new(0x10), &[byte], &mut sink).expect("a source");
        formatter.barrier(&mut sink);
    }
    let (pieces, _) = decode(Framing::Coresight, &stream);
    let barrier = Item::Lost(Loss::Barrier);
    let expected = [Item::Byte(0x10, 1), barrier.clone(), Item::Byte(0x10, 2), barrier];
    assert_eq!(items_of_pieces(&pieces), expected);
}

/// Two sources and some padding, as a port sends them.
fn port_stream(framing: Framing) -> (Vec<u8>, Vec<Item>) {
    let mut random = Random(7);
    let mut steps = Vec::new();
    for turn in 0..60 {
        let length = 1 + random.below(30) as usize;
        steps.push(Step::Data(0x10 + turn % 2, (0..length).map(|_| random.next() as u8 | 1).collect()));
        if turn % 5 == 0 {
            steps.push(Step::Flush);
        }
    }
    let config = FormatterConfig { full_sync: 8, repeat_id: 4, ..FormatterConfig::new(framing) };
    (encode(config, &steps), items_of_steps(&steps))
}

fn align(alignment: PortAlignment, bytes: &[u8], pieces: usize) -> Vec<u8> {
    let mut aligner = BitAligner::new(alignment);
    let mut aligned = Vec::new();
    for piece in bytes.chunks(pieces) {
        aligner.feed(piece, &mut |bytes| aligned.extend_from_slice(bytes));
    }
    aligned
}

#[test]
fn a_port_capture_shifted_by_any_number_of_bits_is_found_and_read() {
    let (stream, expected) = port_stream(Framing::TpiuHsync);
    for bits in 0..8 {
        // `bits` bits of something else come first, so that every byte is spread over two.
        let mut carry = 0x55_u8 & ((1 << bits) - 1);
        let mut shifted = Vec::new();
        for &byte in stream.iter().chain(&[0, 0]) {
            shifted.push(carry | (u16::from(byte) << bits) as u8);
            carry = (u16::from(byte) >> (8 - bits)) as u8;
        }
        let alignment = find_port_alignment(&shifted).expect("full syncs");
        assert_eq!((alignment.bits, alignment.swapped), (bits, None));
        for pieces in [1, 7, 1000, 100_000] {
            let aligned = align(alignment, &shifted, pieces);
            assert!(aligned.starts_with(&stream));
        }
        let aligned = align(alignment, &shifted, 300);
        assert_eq!(items_of_pieces(&decode(Framing::TpiuHsync, &aligned).0), expected);
    }
}

#[test]
fn words_stored_last_byte_first_are_reported_and_read() {
    let (stream, expected) = port_stream(Framing::Tpiu);
    for junk in 0..4 {
        let mut swapped = vec![0x55; usize::from(junk)];
        for word in stream.chunks_exact(4) {
            swapped.extend(word.iter().rev());
        }
        let alignment = find_port_alignment(&swapped).expect("full syncs");
        assert_eq!((alignment.bits, alignment.swapped), (0, Some(junk)));
        for pieces in [1, 3, 100_000] {
            assert_eq!(
                items_of_pieces(&decode(Framing::Tpiu, &align(alignment, &swapped, pieces)).0),
                expected
            );
        }
    }
}

#[test]
fn a_stream_without_full_syncs_has_no_port_alignment() {
    assert_eq!(find_port_alignment(&EXAMPLE), None);
    assert_eq!(find_port_alignment(&[]), None);
    assert_eq!(find_port_alignment(&[0xFF, 0xFF, 0xFF]), None);
    assert_eq!(find_port_alignment(&[0xFF, 0xFF, 0xFF, 0x7F]).map(|found| found.syncs), Some(1));
}

#[test]
fn frames_that_begin_anywhere_are_found_by_what_they_decode_to() {
    let (stream, _) = port_stream(Framing::Coresight);
    for junk in 0..16 {
        let shifted = [&stream[16 - junk..16], &stream].concat();
        // The sources send odd bytes only: a decoder that knows them sees the even ones as errors.
        let errors = |frames: &[u8]| {
            let (pieces, _) = decode(Framing::Coresight, frames);
            items_of_pieces(&pieces)
                .iter()
                .filter(|item| matches!(item, Item::Byte(_, byte) if byte & 1 == 0))
                .count() as u64
        };
        let candidates = find_alignment(&shifted, errors);
        assert_eq!((candidates[0].offset, candidates[0].errors), (junk, 0));
        assert!(candidates[1].errors > 0);
    }
}
