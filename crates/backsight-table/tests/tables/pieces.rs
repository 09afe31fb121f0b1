//! Pieces, read apart from each other, give the rows of the capture.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backsight::{Capture, OpenOptions};
use backsight_table::{Error, Guard, Piece, PlanOptions, Query, Table, plan};
use backsight_testing::{Random, corpus, skipped};
use proptest::prelude::*;

use crate::support::{Folder, Row, all_rows, bundled, captures, columns, copy, damage, read};

/// Reads a piece as somebody else would who has nothing but its JSON.
fn read_alone(query: &Query, piece: &Piece) -> Vec<Row> {
    let capture = piece.open(OpenOptions::new()).expect("a capture");
    read_from(query, &capture, piece)
}

fn read_from(query: &Query, capture: &Capture, piece: &Piece) -> Vec<Row> {
    let piece = Piece::from_json(&piece.to_json()).expect("a piece");
    all_rows(query.read_piece_arrow(capture, &piece).expect("a reader"))
}

/// Checks all tables of a capture. Gives the number of pieces of ranges.
fn check(path: &Path, sizes: &[usize], what: &str) -> usize {
    let capture = Capture::open(path).expect("a capture");
    let mut count = 0;
    for table in Table::ALL {
        let sizes = if table.is_cut() { sizes } else { &sizes[..1] };
        let query = Query::new(table);
        let expected = read(&query, &capture);
        for &bytes in sizes {
            let pieces = plan(table, &capture, path, PlanOptions { bytes }).expect("a plan");
            // A reader of the last one need know nothing of the others.
            let mut parts: Vec<_> =
                pieces.iter().rev().map(|piece| read_from(&query, &capture, piece)).collect();
            parts.reverse();
            let rows = parts.concat();
            let first = expected.iter().zip(&rows).position(|(one, other)| one != other);
            let at = first.map(|at| (at, &expected[at], &rows[at]));
            let counts = (expected.len(), rows.len());
            assert!(expected == rows, "{what}, {table}, pieces of {bytes}: {counts:?}, {at:?}");
            if table == Table::Ranges {
                count += pieces.len();
            }
        }
    }
    count
}

/// Captures of each protocol and kind that are read in a few seconds; `BACKSIGHT_TEST_WHOLE=1`: all there are.
#[test]
fn pieces_give_the_rows_of_the_capture() {
    let is_whole = std::env::var_os("BACKSIGHT_TEST_WHOLE").is_some();
    let few = [
        "juno_r1_1",
        "juno-ret-stck",
        "ete_spec_1",
        "q_elem",
        "stm_only-juno",
        "itm_only_raw",
        "tc2-ptm-rstk-t32",
    ];
    let (mut pieces, mut read) = (0, 0);
    for (name, path) in captures() {
        if is_whole || few.contains(&name.as_str()) || !path.ends_with("capture") {
            pieces += check(&path, if is_whole { &[4_000, 20_000] } else { &[4_000] }, &name);
            read += 1;
        }
    }
    assert!(corpus().is_none() || pieces > 20 && read > 8, "{pieces} of {read}");
}

#[test]
fn pieces_of_damaged_captures_give_the_rows_of_the_capture() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let folder = Folder::new("damaged");
    let mut random = Random(18);
    let mut pieces = 0;
    for name in ["juno_r1_1", "cc1-head", "juno-ret-stck", "ete_spec_1", "q_elem", "stm_only-juno"] {
        for round in 0..2 {
            let path = folder.path(&format!("{name}-{round}"));
            copy(&corpus.join("opencsd").join(name).join("capture"), &path);
            damage(&path, &mut random);
            pieces += check(&path, &[5_000], &format!("{name}, damaged, {round}"));
        }
    }
    assert!(pieces > 20, "{pieces}");
}

/// A reader of a piece of a long buffer begins near it.
#[test]
fn reading_all_pieces_reads_the_buffer_about_once() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let folder = Folder::new("long");
    let (path, of) = (folder.path("capture"), corpus.join("opencsd/juno_r1_1/capture"));
    copy(&of, &path);
    let trace = path.join("cstrace.bin");
    let bytes = std::fs::read(&trace).expect("a trace").repeat(40);
    std::fs::write(&trace, &bytes).expect("a longer trace");
    let capture = Capture::open(&path).expect("a capture");
    let buffer = capture.buffers().iter().find(|buffer| buffer.size() == Some(bytes.len() as u64));
    let buffer = buffer.expect("the buffer that is longer").name().to_owned();
    let pieces = plan(Table::Ranges, &capture, &path, PlanOptions { bytes: 40_000 }).expect("a plan");
    let wanted = columns(Table::Ranges, &["source", "position", "offset", "start", "time"]);
    let (mut rows, mut most, mut read_bytes) = (Vec::new(), 0, 0);
    let sources: std::collections::BTreeSet<_> = pieces.iter().map(|piece| piece.source).collect();
    for piece in pieces.iter().filter(|piece| piece.buffer == buffer) {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let noted = Arc::clone(&bytes_read);
        let query = wanted.clone().progress(move |bytes| {
            noted.fetch_add(bytes, Ordering::Relaxed);
        });
        rows.extend(read_from(&query, &capture, piece));
        read_bytes += bytes_read.load(Ordering::Relaxed);
        most = most.max(piece.start.and_then(|cut| cut.seek).map_or(0, |seek| seek.position));
    }
    assert!(rows == read(&wanted.buffer(&buffer), &capture));
    assert!(pieces.len() > 20 && most > bytes.len() as u64 / 2, "{} {most}", pieces.len());
    let once = (bytes.len() * sources.len()) as u64;
    assert!(read_bytes < once + once / 2, "{read_bytes} of {once}");
}

#[test]
fn a_capture_that_changed_is_refused() {
    let folder = Folder::new("changed");
    let path = folder.path("capture");
    copy(&bundled("first"), &path);
    let capture = Capture::open(&path).expect("a capture");
    let pieces = plan(Table::Ranges, &capture, &path, PlanOptions::default()).expect("a plan");
    let query = columns(Table::Ranges, &["start"]);
    let expected = read_alone(&query, &pieces[0]);
    // Another copy of the same bytes is the same capture.
    let other = folder.path("copy");
    copy(&path, &other);
    assert_eq!(read_alone(&query, &pieces[0].clone().at(&other)), expected);
    let trace = path.join("trace.bin");
    let mut bytes = std::fs::read(&trace).expect("trace");
    bytes[100] ^= 1;
    std::fs::write(&trace, &bytes).expect("trace");
    let error = query.read_piece(&capture, &pieces[0]).unwrap_err();
    assert!(matches!(error, Error::Changed(_)) && error.to_string().contains("has changed"), "{error}");
    let error = pieces[0].clone().at(folder.path("nothing")).open(OpenOptions::new()).unwrap_err();
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[test]
fn a_capture_that_changes_while_it_is_read_is_noticed() {
    let folder = Folder::new("changes");
    let path = folder.path("capture");
    copy(&bundled("calls-aarch64"), &path);
    let query = Query::new(Table::Ranges).batch_rows(1).guard(Guard::new(&path).expect("files"));
    let capture = Capture::open(&path).expect("a capture");
    // What comes to lie beside its files is none of them.
    std::fs::write(path.join("notes"), b"notes").expect("a file");
    let mut batches = query.read(&capture).expect("batches");
    assert!(batches.next().expect("a batch").is_ok());
    let trace = path.join("trace.bin");
    let mut bytes = std::fs::read(&trace).expect("trace");
    bytes.push(0);
    std::fs::write(&trace, bytes).expect("trace");
    let last = batches.last().expect("an end");
    assert!(matches!(last, Err(Error::Changed(_))), "{last:?}");
    // It is not what was opened.
    let error = query.read(&capture).unwrap_err();
    assert!(matches!(error, Error::Changed(_)) && error.to_string().contains("trace.bin"), "{error}");
}

#[test]
fn a_table_that_needs_all_of_a_source_is_refused_for_a_part_of_one() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let path = corpus.join("opencsd/juno_r1_1/capture");
    let capture = Capture::open(&path).expect("a capture");
    let pieces = plan(Table::Ranges, &capture, &path, PlanOptions { bytes: 1 }).expect("a plan");
    let piece = pieces.iter().find(|piece| piece.is_cut()).expect("a cut");
    let error = Query::new(Table::Calls).read_piece(&capture, piece).unwrap_err().to_string();
    assert!(error.contains("table calls cannot be read from a piece of a source"), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_a_piece_or_refused(text in ".{0,80}") {
        let _ = Piece::from_json(&text);
    }

    #[test]
    fn a_piece_with_a_member_changed_is_read_or_refused(number in 0_usize..40, value in 0_usize..8) {
        let path = bundled("first");
        let capture = Capture::open(&path).expect("a capture");
        let piece = plan(Table::Ranges, &capture, &path, PlanOptions { bytes: 1 }).expect("a plan").remove(0);
        let mut json: serde_json::Value = serde_json::from_str(&piece.to_json()).expect("JSON");
        let values = ["null", "-1", "1e300", "18446744073709551615", "\"x\"", "[]", "{}", "true"];
        let members = json.as_object_mut().expect("an object");
        let names: Vec<String> = members.keys().cloned().collect();
        members.insert(names[number % names.len()].clone(), serde_json::from_str(values[value]).expect("JSON"));
        let _ = Piece::from_json(&json.to_string());
    }
}
