use super::*;
use backsight_testing::Random;
use std::vec;
use std::vec::Vec;

/// A chunk that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Data(u8, u64, Vec<u8>),
    Trigger(u64),
    Flush(u64),
    Discontinuity(u64, Loss),
}

fn piece(chunk: Chunk<'_>) -> Piece {
    match chunk {
        Chunk::Data { id, index, bytes } => Piece::Data(id.get(), index, bytes.to_vec()),
        Chunk::Trigger { index } => Piece::Trigger(index),
        Chunk::Flush { index } => Piece::Flush(index),
        Chunk::Discontinuity { index, why } => Piece::Discontinuity(index, why),
    }
}

/// Decodes `bytes` in pieces of lengths that `cut` gives.
fn decode_in_pieces(framing: Framing, bytes: &[u8], mut cut: impl FnMut() -> usize) -> (Vec<Piece>, Counts) {
    let mut deframer = Deframer::new(framing);
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (part, others) = rest.split_at(cut().clamp(1, rest.len()));
        deframer.feed(part, &mut |chunk| pieces.push(piece(chunk)));
        rest = others;
    }
    deframer.finish(&mut |chunk| pieces.push(piece(chunk)));
    let counts = deframer.counts().clone();
    assert_eq!(counts.total(), bytes.len() as u64, "every byte is counted once");
    (pieces, counts)
}

pub(super) fn decode(framing: Framing, bytes: &[u8]) -> (Vec<Piece>, Counts) {
    decode_in_pieces(framing, bytes, || bytes.len())
}

/// Every data byte with its source and index.
pub(super) fn bytes_of(pieces: &[Piece]) -> Vec<(u8, u64, u8)> {
    let mut all = Vec::new();
    for piece in pieces {
        if let Piece::Data(id, index, bytes) = piece {
            all.extend(bytes.iter().zip(*index..).map(|(&byte, index)| (*id, index, byte)));
        }
    }
    all
}

/// The reference's procedure for one frame and its rule for indices, written as they stand there.
fn decode_as_the_reference_says(frames: &[u8]) -> Vec<(u8, u64, u8)> {
    let mut all = Vec::new();
    let mut current = None;
    for (number, frame) in frames.chunks_exact(16).enumerate() {
        let mut next_index = number as u64 * 16;
        for k in 0..8 {
            let (x, a) = (frame[2 * k], frame[15] >> k & 1);
            let mut emit = |current: Option<u8>, byte: u8| {
                if let Some(id @ 1..0x70) = current {
                    all.push((id, next_index, byte));
                }
                next_index += 1;
            };
            if x & 1 == 0 {
                emit(current, x | a);
                if k < 7 {
                    emit(current, frame[2 * k + 1]);
                }
                continue;
            }
            let new = Some(x >> 1).filter(|&id| id != 0x7F);
            let changes = current != Some(x >> 1);
            if k < 7 && (a == 1 || !changes) {
                emit(current, frame[2 * k + 1]);
            }
            if changes {
                next_index = number as u64 * 16 + 2 * k as u64;
            }
            if k < 7 && a == 0 && changes {
                if let Some(id @ 1..0x70) = new {
                    all.push((id, next_index, frame[2 * k + 1]));
                }
                next_index += 1;
            }
            current = new;
        }
    }
    all
}

pub(super) const EXAMPLE: [u8; 32] = [
    0x21, 0x11, 0x22, 0x33, 0x44, 0x56, 0x41, 0x67, 0xA0, 0xB2, 0xC2, 0xD4, 0xFB, 0x00, 0x41, 0x3C, //
    0xE4, 0xF6, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
];

fn example_pieces(first: u64, second: u64) -> Vec<Piece> {
    vec![
        Piece::Data(0x10, first, vec![0x11, 0x22, 0x33, 0x45, 0x56, 0x67]),
        Piece::Data(0x20, first + 6, vec![0xA1, 0xB2, 0xC3, 0xD4]),
        Piece::Trigger(first + 12),
        Piece::Data(0x20, second, vec![0xE5, 0xF6]),
    ]
}

#[test]
fn the_worked_example_decodes() {
    let (pieces, counts) = decode(Framing::Coresight, &EXAMPLE);
    assert_eq!(pieces, example_pieces(0, 16));
    assert_eq!(
        counts.sources().map(|(id, bytes)| (id.get(), bytes)).collect::<Vec<_>>(),
        [(0x10, 6), (0x20, 6)]
    );
    assert_eq!((counts.padding(), counts.triggers(), counts.ids, counts.frames), (12, 1, 5, 2));
    assert_eq!((counts.nonzero_padding, counts.stray_aux, counts.unknown), (0, 0, 0));
}

#[test]
fn the_worked_example_decodes_from_a_port_with_half_syncs() {
    let mut stream = vec![0xFF, 0xFF, 0xFF, 0x7F];
    stream.extend(&EXAMPLE[..8]);
    stream.extend([0xFF, 0x7F]);
    stream.extend(&EXAMPLE[8..16]);
    stream.extend([0xFF, 0x7F]);
    stream.extend(&EXAMPLE[16..]);
    let (pieces, counts) = decode(Framing::TpiuHsync, &stream);
    assert_eq!(pieces, example_pieces(4, 22), "a half sync before a frame counts as part of it");
    assert_eq!((counts.sync, counts.unsynchronised, counts.partial), (8, 0, 0));
}

#[test]
fn a_half_sync_is_damage_where_the_producer_sends_none() {
    let mut stream = vec![0xFF, 0xFF, 0xFF, 0x7F];
    stream.extend(&EXAMPLE[..16]);
    stream.extend([0xFF, 0x7F]);
    stream.extend(&EXAMPLE);
    stream.extend([0xFF, 0xFF, 0xFF, 0x7F]);
    stream.extend(&EXAMPLE[16..]);
    let (pieces, counts) = decode(Framing::Tpiu, &stream);
    assert_eq!(pieces[..3], example_pieces(4, 0)[..3]);
    assert_eq!(
        pieces[3..],
        [Piece::Discontinuity(20, Loss::SyncLost)],
        "the source is unknown after the loss"
    );
    assert_eq!((counts.unsynchronised, counts.sync, counts.unknown), (34, 8, 2));
}

#[test]
fn bytes_before_the_first_sync_are_skipped_at_any_alignment() {
    for junk in 0..40 {
        let mut stream = vec![0xFE; junk];
        stream.extend([0xFF, 0xFF, 0xFF, 0x7F]);
        stream.extend(&EXAMPLE);
        let start = junk as u64 + 4;
        for framing in [Framing::Tpiu, Framing::TpiuHsync] {
            let (pieces, counts) = decode(framing, &stream);
            assert_eq!(pieces, example_pieces(start, start + 16));
            assert_eq!(counts.unsynchronised, junk as u64);
        }
    }
}

#[test]
fn a_frame_cut_by_a_full_sync_is_dropped_and_the_streams_are_marked() {
    let mut stream = vec![0xFF, 0xFF, 0xFF, 0x7F];
    stream.extend(&EXAMPLE[..10]);
    stream.extend([0xFF, 0xFF, 0xFF, 0x7F]);
    stream.extend(&EXAMPLE);
    let (pieces, counts) = decode(Framing::TpiuHsync, &stream);
    assert_eq!(pieces[0], Piece::Discontinuity(14, Loss::PartialFrame));
    assert_eq!(pieces[1..], example_pieces(18, 34));
    assert_eq!((counts.partial, counts.discontinuities), (10, 1));
}

#[test]
fn a_lost_byte_is_recovered_from_at_the_very_next_full_sync() {
    for missing in 0..16 {
        let mut stream = vec![0xFF, 0xFF, 0xFF, 0x7F];
        stream.extend(&EXAMPLE[..missing]);
        stream.extend(&EXAMPLE[missing + 1..16]);
        stream.extend([0xFF, 0xFF, 0xFF, 0x7F]);
        stream.extend(&EXAMPLE);
        let (pieces, _) = decode(Framing::TpiuHsync, &stream);
        let loss = pieces.iter().position(|piece| matches!(piece, Piece::Discontinuity(..)));
        let loss = loss.expect("the loss is reported");
        assert_eq!(pieces[loss + 1..], example_pieces(23, 39), "byte {missing} lost");
    }
}

#[test]
fn a_barrier_frame_resets_the_streams() {
    let mut stream = EXAMPLE[..16].to_vec();
    stream.extend([0xFF, 0xFF, 0xFF, 0x7F].repeat(4));
    stream.extend(&EXAMPLE[16..]);
    let (pieces, counts) = decode(Framing::Coresight, &stream);
    assert_eq!(
        pieces[3..],
        [Piece::Discontinuity(16, Loss::Barrier)],
        "the source is unknown after a barrier"
    );
    assert_eq!((counts.sync, counts.unknown, counts.illegal_ids), (16, 2, 0));
}

#[test]
fn a_full_sync_that_is_no_barrier_is_an_illegal_id_in_memory() {
    let mut stream = vec![0xFF, 0xFF, 0xFF, 0x7F];
    stream.extend([0x21; 12]);
    let (pieces, counts) = decode(Framing::Coresight, &stream);
    assert_eq!(
        pieces[..2],
        [Piece::Discontinuity(0, Loss::IllegalId), Piece::Discontinuity(2, Loss::IllegalId)]
    );
    assert_eq!(counts.illegal_ids, 2);
}

#[test]
fn padding_reserved_ids_and_flush_markers_are_counted_and_not_delivered() {
    let frame = [0xE1, 1, 0x02, 3, 0xF7, 0, 0x01, 9, 0x21, 7, 0xFD, 8, 0x21, 6, 0x23, 0xA0];
    let (pieces, counts) = decode(Framing::Coresight, &frame);
    assert_eq!(
        pieces,
        [Piece::Flush(4), Piece::Data(0x10, 8, vec![7, 8]), Piece::Data(0x10, 12, vec![6])],
        "an ID that takes effect late leaves the next byte to the old source"
    );
    assert_eq!((counts.reserved(), counts.flushes(), counts.padding(), counts.nonzero_padding), (3, 1, 1, 1));
    assert_eq!(counts.stray_aux, 1, "the auxiliary bit of an ID in byte 14 must be 0");
}

#[test]
fn the_tail_of_a_memory_buffer_is_counted() {
    let (pieces, counts) = decode(Framing::Coresight, &EXAMPLE[..23]);
    assert_eq!(pieces, example_pieces(0, 0)[..3]);
    assert_eq!(counts.partial, 7);
}

#[test]
fn a_raw_capture_is_one_stream() {
    let (pieces, counts) = decode(Framing::Raw, &EXAMPLE);
    assert_eq!(pieces, [Piece::Data(0, 0, EXAMPLE.to_vec())]);
    assert_eq!((counts.raw, counts.total()), (32, 32));
}

#[test]
fn footers_of_dstream_blocks_are_cut_out_of_frames_and_syncs() {
    let mut stream = Vec::new();
    for _ in 0..100 {
        stream.extend([0xFF, 0xFF, 0xFF, 0x7F]);
        stream.extend(&EXAMPLE);
    }
    let expected = decode(Framing::Tpiu, &stream);
    let mut dump = Vec::new();
    for block in stream.chunks(504) {
        dump.extend(block);
        if block.len() == 504 {
            dump.extend([0, 0, 0, 0, 0x7E, 0, 0xFE, 0x0F]);
        }
    }
    let (pieces, counts) = decode(Framing::Dstream, &dump);
    assert_eq!(pieces, expected.0);
    assert_eq!((counts.footers, counts.sync), (56, 400));
}

/// Frames of sources that take turns at random, with repeated, reserved and null IDs.
fn random_frames(random: &mut Random, count: usize) -> Vec<u8> {
    let mut frames = Vec::new();
    for _ in 0..count {
        let mut frame = [0_u8; 16];
        frame.iter_mut().for_each(|byte| *byte = random.next() as u8);
        for k in 0..8 {
            let id = [0x10, 0x11, 0x20, 0x00, 0x70, 0x7D, 0x7B, 0x10][random.below(8) as usize];
            frame[2 * k] = if random.below(5) == 0 { id << 1 | 1 } else { frame[2 * k] & 0xFE };
        }
        frames.extend(frame);
    }
    frames
}

#[test]
fn random_frames_decode_as_the_reference_says() {
    let mut random = Random(1);
    for _ in 0..200 {
        let frames = random_frames(&mut random, 40);
        let (pieces, _) = decode(Framing::Coresight, &frames);
        assert_eq!(bytes_of(&pieces), decode_as_the_reference_says(&frames));
    }
}

/// Streams that every framing has something to find in: frames, syncs, barriers, junk.
fn random_stream(random: &mut Random) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..random.below(60) {
        match random.below(8) {
            0 => stream.extend([0xFF, 0xFF, 0xFF, 0x7F]),
            1 => stream.extend([0xFF, 0xFF, 0xFF, 0x7F].repeat(4)),
            2 => stream.extend([0xFF, 0x7F]),
            3 => stream.extend([0xFF].repeat(random.below(5) as usize)),
            4 => stream.push(random.next() as u8),
            _ => stream.extend(random_frames(random, 3)),
        }
    }
    stream
}

#[test]
fn any_split_of_the_input_gives_the_same_output() {
    let mut random = Random(2);
    for _ in 0..300 {
        let stream = random_stream(&mut random);
        for framing in [Framing::Coresight, Framing::Tpiu, Framing::TpiuHsync, Framing::Dstream] {
            let in_one = decode(framing, &stream);
            assert_eq!(decode_in_pieces(framing, &stream, || 1), in_one, "{framing} byte by byte");
            let split = decode_in_pieces(framing, &stream, || random.below(50) as usize);
            assert_eq!(split, in_one, "{framing} in pieces");
        }
    }
}

#[test]
fn batches_hold_the_same_bytes_at_the_same_indices() {
    let mut random = Random(3);
    for _ in 0..300 {
        let stream = random_stream(&mut random);
        for framing in [Framing::Raw, Framing::Coresight, Framing::Tpiu, Framing::TpiuHsync, Framing::Dstream]
        {
            batches_equal_pieces(framing, &stream, 1 + random.below(500) as usize);
        }
    }
}

#[test]
fn batches_of_frames_that_repeat_their_id_are_the_same() {
    let mut random = Random(4);
    for _ in 0..20 {
        let mut stream = Vec::new();
        for _ in 0..600 {
            let mut frame = [0_u8; 16];
            frame.iter_mut().for_each(|byte| *byte = random.next() as u8);
            frame.iter_mut().step_by(2).for_each(|byte| *byte &= 0xFE);
            // Mostly that of the source, anywhere, with any auxiliary bit.
            let id = if random.below(100) == 0 { 0x11 } else { 0x10 };
            if stream.is_empty() || random.below(3) == 0 {
                frame[2 * random.below(8) as usize] = id << 1 | 1;
            }
            stream.extend(frame);
        }
        batches_equal_pieces(Framing::Coresight, &stream, 1 + random.below(9600) as usize);
    }
}

/// Fed in parts of that length, a demultiplexer gives what a deframer gives, at the same indices.
fn batches_equal_pieces(framing: Framing, stream: &[u8], part: usize) {
    let (expected, counts) = decode(framing, stream);
    let mut demultiplexer = Demultiplexer::new(framing);
    let mut pieces = Vec::new();
    for part in stream.chunks(part) {
        demultiplexer.feed(part, &mut |batch| match batch {
            Batch::Data { id, bytes, runs } => {
                let ends = runs.iter().skip(1).map(|run| run.at as usize).chain([bytes.len()]);
                for (run, end) in runs.iter().zip(ends) {
                    pieces.push(Piece::Data(id.get(), run.index, bytes[run.at as usize..end].to_vec()));
                }
            }
            Batch::Trigger { index } => pieces.push(Piece::Trigger(index)),
            Batch::Flush { index } => pieces.push(Piece::Flush(index)),
            Batch::Discontinuity { index, why } => pieces.push(Piece::Discontinuity(index, why)),
        });
    }
    demultiplexer.finish(&mut |_| {});
    assert_eq!(bytes_of(&pieces), bytes_of(&expected), "{framing}");
    let marks = |pieces: &[Piece]| -> Vec<Piece> {
        pieces.iter().filter(|piece| !matches!(piece, Piece::Data(..))).cloned().collect()
    };
    assert_eq!(marks(&pieces), marks(&expected));
    assert_eq!(*demultiplexer.counts(), counts);
}

#[test]
fn a_deframer_that_begins_between_two_frames_goes_on_as_the_one_that_read_all() {
    let mut random = Random(31);
    for _ in 0..100 {
        let bytes = random_frames(&mut random, 20);
        let (all, _) = decode(Framing::Coresight, &bytes);
        for at in (0..=bytes.len()).step_by(16) {
            let (before, after) = bytes.split_at(at);
            let (mut deframer, mut pieces) = (Deframer::new(Framing::Coresight), Vec::new());
            deframer.feed(before, &mut |chunk| pieces.push(piece(chunk)));
            let start = deframer.frame_start().unwrap();
            assert_eq!(start.index, at as u64);
            let mut later = Deframer::starting_at(Framing::Coresight, start);
            later.feed(after, &mut |chunk| pieces.push(piece(chunk)));
            assert_eq!(bytes_of(&pieces), bytes_of(&all));
            let mut batches = Demultiplexer::starting_at(Framing::Coresight, start);
            let mut found = Vec::new();
            batches.feed(after, &mut |batch| {
                if let Batch::Data { id, bytes, .. } = batch {
                    found.extend(bytes.iter().map(|&byte| (id.get(), byte)));
                }
            });
            let expected: Vec<_> =
                bytes_of(&all).into_iter().filter(|(_, index, _)| *index >= at as u64).collect();
            assert_eq!(found, expected.iter().map(|&(id, _, byte)| (id, byte)).collect::<Vec<_>>());
        }
        deframer_in_a_frame_has_no_start(&bytes);
    }
}

fn deframer_in_a_frame_has_no_start(bytes: &[u8]) {
    let mut deframer = Deframer::new(Framing::Coresight);
    deframer.feed(&bytes[..17], &mut |_| {});
    assert_eq!(deframer.frame_start(), None);
    let mut port = Deframer::new(Framing::Tpiu);
    port.feed(&bytes[..16], &mut |_| {});
    assert_eq!(port.frame_start(), None);
}

#[test]
fn reset_begins_another_capture() {
    let mut deframer = Deframer::new(Framing::TpiuHsync);
    deframer.feed(&[0xFF, 0xFF, 0xFF, 0x7F, 0x21, 0x00, 0x00], &mut |_| {});
    deframer.reset();
    let mut pieces = Vec::new();
    deframer.feed(&[0xFF, 0xFF, 0xFF, 0x7F], &mut |chunk| pieces.push(piece(chunk)));
    deframer.feed(&EXAMPLE, &mut |chunk| pieces.push(piece(chunk)));
    assert_eq!(pieces, example_pieces(4, 20));
}
