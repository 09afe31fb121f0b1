//! Calls of one source, listed on several threads: byte for byte what a single thread lists.

use std::sync::Arc;

use backsight::decode::Written;
use backsight::listing::{Detail, ExecutionFormat, ExecutionWriter, Filter, FilterOptions, Style};
use backsight::{Capture, Error};
use backsight_testing::{Random, corpus, repository, skipped};

use crate::execution_pieces::{made, of_corpus};
use crate::pieces::{captures, damage, damaged};

const STYLES: [(Detail, ExecutionFormat); 4] = [
    (Detail::Calls, ExecutionFormat::Text),
    (Detail::Calls, ExecutionFormat::Json),
    (Detail::CallTree, ExecutionFormat::Text),
    (Detail::CallTree, ExecutionFormat::Json),
];

/// The listing of a source, and what is said of it.
fn listing(
    capture: &Capture,
    (buffer, id): (&str, u64),
    (detail, format): (Detail, ExecutionFormat),
    (threads, piece): (usize, usize),
) -> (String, String) {
    let (style, code) = (Style { format, detail, ..Style::default() }, capture.code().unwrap());
    let mut text = Vec::new();
    let decode = capture.execution().buffer(buffer).id(id).threads(threads).piece_size(piece);
    let summary = decode.write(
        |source| {
            let filter = Filter::new(&FilterOptions::default(), || code.of(source))?;
            Ok(ExecutionWriter::new(style, source, code.seen_by(source), filter, Arc::default()))
        },
        |written| {
            if let Written::Text(more) = written {
                text.extend_from_slice(more);
            }
            Ok::<_, Error>(())
        },
    );
    (String::from_utf8_lossy(&text).into_owned(), summary.unwrap().to_string())
}

/// Lists the calls of every source alone, in pieces of many sizes. Gives the lines of all.
fn check(capture: &Capture, sizes: &[usize], what: &str) -> usize {
    let mut lines = 0;
    for buffer in capture.buffers() {
        for source in buffer.sources().filter(|source| source.is_decoded()) {
            let of = (buffer.name(), u64::from(source.id().get()));
            for style in STYLES {
                let (expected, summary) = listing(capture, of, style, (1, 1));
                lines += expected.lines().count();
                for (&size, threads) in sizes.iter().zip([2, 3, 2, 5].into_iter().cycle()) {
                    let (given, of_pieces) = listing(capture, of, style, (threads, size));
                    let what = format!("{what}, {of:?}, {style:?}, pieces of {size}");
                    if given != expected {
                        let other = expected.lines().zip(given.lines()).enumerate();
                        let first = other.into_iter().find(|(_, (one, other))| one != other);
                        panic!("{what}: {} and {} bytes, {first:#?}", expected.len(), given.len());
                    }
                    assert_eq!(of_pieces, summary, "{what}");
                }
            }
        }
    }
    lines
}

#[test]
fn calls_of_bundled_captures_in_pieces_are_those_of_the_whole() {
    for (name, path) in captures(&repository().join("testdata/captures")) {
        check(&Capture::open(path).unwrap(), &[1, 3_000], &name);
    }
}

#[test]
fn calls_of_made_streams_in_pieces_are_those_of_the_whole() {
    let mut random = Random(24);
    for stream in made() {
        check(&stream.open(stream.bytes.clone()), &[1, 9_000], &stream.name);
        let mut bytes = stream.bytes.clone();
        (0..5).for_each(|_| damage(&mut bytes, &mut random));
        check(&stream.open(bytes), &[1, 9_000], &format!("{}, damaged", stream.name));
    }
}

#[test]
fn calls_of_real_captures_in_pieces_are_those_of_the_whole() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut lines = 0;
    for (name, path) in captures(&corpus.join("opencsd")) {
        // Some folders are of captures that are described wrongly on purpose.
        if let Ok(capture) = Capture::open(&path) {
            lines += check(&capture, &[1, 20_000], &name);
        }
    }
    assert!(lines > 100_000, "{lines}");
}

#[test]
fn calls_of_damaged_captures_in_pieces_are_those_of_the_whole() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut random = Random(22);
    let folder = std::env::temp_dir().join(format!("backsight-call-pieces-{}", std::process::id()));
    for name in
        ["a55-test-tpiu", "juno_r1_1", "cc1-head", "juno-ret-stck", "ete_spec_1", "q_elem", "trace_cov_a15"]
    {
        for round in 0..2 {
            let to = folder.join(format!("{name}-{round}"));
            damaged(&corpus.join("opencsd").join(name).join("capture"), &to, &mut random);
            check(&Capture::open(&to).unwrap(), &[1, 9_000], &format!("{name}, damaged, {round}"));
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn calls_of_real_streams_in_pieces_are_those_of_the_whole() {
    let streams = of_corpus();
    if streams.is_empty() {
        skipped("no corpus");
    }
    let mut random = Random(25);
    for stream in streams {
        let mut bytes = stream.bytes.clone();
        bytes.truncate(30_000);
        check(&stream.open(bytes.clone()), &[1], &stream.name);
        (0..5).for_each(|_| damage(&mut bytes, &mut random));
        check(&stream.open(bytes), &[2_000], &format!("{}, damaged", stream.name));
    }
}
