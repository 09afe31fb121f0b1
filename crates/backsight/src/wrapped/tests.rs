//! Wrapped buffers whose write pointer was lost.

use backsight_arm::etm4::Config;
use backsight_arm::etm4::synthetic::WorstCase;
use backsight_arm::frame::{Formatter, FormatterConfig, Framing};
use backsight_core::TraceId;
use backsight_testing::Random;

use super::search::{Confidence, Prober, Start, find_start};
use crate::OpenOptions;

/// Frames of some sources that take turns, as a sink sees them.
fn frames(case: WorstCase, sources: u8, bytes: u64, seed: u64) -> Vec<[u8; 16]> {
    let mut random = Random(seed);
    let mut streams: Vec<(TraceId, Vec<u8>, usize)> = Vec::new();
    for source in 0..sources {
        let mut stream = Vec::new();
        case.write(bytes, seed ^ u64::from(source), &mut |bytes| stream.extend_from_slice(bytes));
        streams.push((TraceId::new(0x10 + source), stream, 0));
    }
    let mut formatter = Formatter::new(FormatterConfig::new(Framing::Coresight));
    let mut buffer = Vec::new();
    while streams.iter().any(|(_, stream, place)| *place < stream.len()) {
        let (id, stream, place) = &mut streams[random.below(u64::from(sources)) as usize];
        let end = stream.len().min(*place + 1 + random.below(60) as usize);
        formatter.push(*id, &stream[*place..end], &mut |bytes| buffer.extend_from_slice(bytes)).unwrap();
        *place = end;
    }
    buffer.as_chunks().0.to_vec()
}

/// Probers for sources of that configuration.
fn probers(config: Config) -> impl FnMut(TraceId) -> Option<Prober> {
    let registers = ["TRCCONFIGR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8"];
    let mut options = OpenOptions::new().protocol("etm4").framing("coresight");
    for name in registers {
        options = options.config(&format!("{name}={:#x}", config.register(name).unwrap()));
    }
    let capture = options.live().unwrap();
    move |id| {
        let source = capture.buffers[0].source(id)?;
        let stream = source.decoding().packets()?;
        (0x10..0x14).contains(&id.get()).then(|| Prober::new(stream))
    }
}

fn search(case: WorstCase, ring: &[[u8; 16]]) -> Start {
    find_start(&ring.concat(), probers(case.config()))
}

/// The newest `length` frames of a longer trace, as a ring that was last written before frame `start`.
fn ring(all: &[[u8; 16]], length: usize, start: usize) -> Vec<[u8; 16]> {
    let mut ring = all[all.len() - length..].to_vec();
    ring.rotate_right(start);
    ring
}

/// How far the answer is from the truth, around the ring.
fn distance(found: usize, truth: usize, length: usize) -> usize {
    let distance = found.abs_diff(truth);
    distance.min(length - distance)
}

#[test]
fn timestamps_lead_to_the_start() {
    let mut exact = 0;
    for (round, sources) in [1, 2, 3, 1, 2, 3, 4, 2, 1, 3].into_iter().enumerate() {
        let all = frames(WorstCase::Timed, sources, 60_000, round as u64);
        let length = all.len() * 3 / 4;
        let truth = (round * 389 + 17) % length;
        let start = search(WorstCase::Timed, &ring(&all, length, truth));
        assert!(start.confidence >= Confidence::Likely, "{start:?}");
        assert!(distance(start.frame, truth, length) <= 40, "frame {truth} expected, {start:?}");
        let (from, to) = start.between;
        let inside = if from <= to { (from..=to).contains(&truth) } else { truth >= from || truth <= to };
        assert!(inside, "frame {truth} expected, {start:?}");
        assert_eq!(start.frames, length);
        exact += usize::from(start.frame == truth);
    }
    assert!(exact >= 6, "only {exact} of 10 were found exactly");
}

#[test]
fn a_trace_that_begins_at_the_first_frame_is_found_there() {
    let all = frames(WorstCase::Timed, 2, 60_000, 3);
    let start = search(WorstCase::Timed, &ring(&all, all.len() * 3 / 4, 0));
    assert!(distance(start.frame, 0, all.len() * 3 / 4) <= 4, "{start:?}");
}

#[test]
fn without_timestamps_broken_packets_are_a_guess() {
    let mut found = 0;
    for round in 0..10 {
        let all = frames(WorstCase::Addresses, 2, 60_000, round);
        let length = all.len() * 3 / 4;
        let truth = (round as usize * 541 + 90) % length;
        let start = search(WorstCase::Addresses, &ring(&all, length, truth));
        assert!(start.confidence <= Confidence::Guess, "{start:?}");
        found +=
            usize::from(start.confidence == Confidence::Guess && distance(start.frame, truth, length) <= 4);
    }
    assert!(found >= 5, "only {found} of 10 were found");
}

#[test]
fn memory_that_was_never_written_ends_the_trace() {
    let all = frames(WorstCase::Timed, 2, 20_000, 4);
    for fill in [[0; 16], [0xA5; 16]] {
        let mut buffer = all.clone();
        buffer.resize(all.len() + 200, fill);
        let start = search(WorstCase::Timed, &buffer);
        assert_eq!(
            (start.frame, start.frames, start.confidence),
            (0, all.len(), Confidence::High),
            "{start:?}"
        );
    }
}

#[test]
fn random_memory_behind_the_trace_is_recognised() {
    let all = frames(WorstCase::Timed, 2, 20_000, 5);
    let mut random = Random(6);
    let mut buffer = all.clone();
    for _ in 0..200 {
        buffer.push(std::array::from_fn(|_| random.next() as u8));
    }
    let start = search(WorstCase::Timed, &buffer);
    assert_eq!((start.frame, start.confidence), (0, Confidence::High), "{start:?}");
    assert!(start.frames.abs_diff(all.len()) <= 2, "{} frames, {start:?}", all.len());
}

#[test]
fn nothing_to_go_by_is_said() {
    for buffer in [vec![], vec![[0x20; 16]; 3], vec![[0x5A; 16]; 100]] {
        let start = search(WorstCase::Timed, &buffer);
        assert_eq!((start.frame, start.confidence), (0, Confidence::None), "{start:?}");
    }
}
