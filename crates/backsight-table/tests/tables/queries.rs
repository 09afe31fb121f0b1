//! What a query asks for is what comes out, and no more is done than that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatchReader as _;
use backsight::Capture;
use backsight_table::{PlanOptions, Query, Table, plan};
use backsight_testing::{corpus, skipped};

use crate::support::{Row, all_rows, bundled, captures, columns, read};

fn first() -> Capture {
    Capture::open(bundled("first")).expect("a capture")
}

#[test]
fn columns_come_in_the_order_they_were_asked_for() {
    let capture = first();
    let all = read(&Query::new(Table::Ranges), &capture);
    let names: Vec<_> = Table::Ranges.columns().iter().map(|column| column.name).collect();
    let number = |name: &str| names.iter().position(|other| *other == name).expect("a column");
    let query = columns(Table::Ranges, &["end", "function", "start"]);
    let schema = query.read_arrow(&capture).expect("a reader").schema();
    assert_eq!(
        schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
        ["end", "function", "start"]
    );
    let expected: Vec<Row> = all
        .iter()
        .map(|row| ["end", "function", "start"].map(|name| row[number(name)].clone()).to_vec())
        .collect();
    assert_eq!(read(&query, &capture), expected);
}

#[test]
fn no_column_at_all_gives_rows_to_count() {
    let query = columns(Table::Ranges, &[]);
    let rows: usize =
        query.read_arrow(&first()).expect("a reader").map(|batch| batch.expect("a batch").num_rows()).sum();
    assert_eq!(rows, read(&columns(Table::Ranges, &["start"]), &first()).len());
}

/// Ranges of a large batch are numbers of blocks, places and states; a few are put together row by row.
#[test]
fn rows_do_not_depend_on_how_many_there_are_in_a_batch() {
    let few =
        ["first", "calls-aarch64", "calls-riscv64", "juno_r1_1", "ete_spec_1", "q_elem", "tc2-ptm-rstk-t32"];
    for (name, path) in captures().into_iter().filter(|(name, _)| few.contains(&name.as_str())) {
        let capture = Capture::open(path).expect("a capture");
        let rows = |query: &Query, size: usize| read(&query.clone().batch_rows(size), &capture);
        let query = Query::new(Table::Ranges);
        let expected = rows(&query, usize::MAX);
        for size in [10, 333, 5000] {
            assert!(rows(&query, size) == expected, "{name}, {size}");
        }
        for (filter, _) in FILTERS {
            let query = query.clone().filter(filter).expect(filter);
            let expected = rows(&query, usize::MAX);
            for limit in [1, 77, u64::MAX] {
                let query = query.clone().limit(limit);
                let first = &expected[..expected.len().min(usize::try_from(limit).expect("a length"))];
                assert!([50, 5000].iter().all(|&size| rows(&query, size) == first), "{name}, {filter}");
            }
        }
    }
}

#[test]
fn a_filter_that_is_pushed_down_keeps_what_one_applied_afterwards_keeps() {
    let mut kept = 0;
    for (name, path) in captures() {
        let capture = Capture::open(path).expect("a capture");
        for (filter, holds) in FILTERS {
            let query =
                columns(Table::Ranges, &["source", "start", "instructions", "function", "time", "taken"]);
            let expected: Vec<Row> = read(&query, &capture).into_iter().filter(holds).collect();
            let rows = read(&query.filter(filter).expect(filter), &capture);
            assert_eq!(rows, expected, "{name}: {filter}");
            // Columns that are filtered by need not come out.
            let query = columns(Table::Ranges, &["start"]).filter(filter).expect(filter);
            let starts: Vec<Row> = expected.iter().map(|row| vec![row[1].clone()]).collect();
            assert_eq!(read(&query, &capture), starts, "{name}: {filter}");
            kept += rows.len();
        }
    }
    assert!(kept > 1_000, "{kept}");
}

type Holds = fn(&Row) -> bool;

fn number(cell: &str) -> Option<u64> {
    cell.parse().ok()
}

const FILTERS: [(&str, Holds); 6] = [
    ("source == 0x10", |row| row[0] == "16"),
    ("instructions > 4 and not taken", |row| number(&row[2]) > Some(4) && row[5] == "false"),
    ("function == 'main' or function is null", |row| row[3] == "main" || row[3] == "-"),
    ("start >= 0x400000 and start < 0x500000", |row| {
        number(&row[1]).is_some_and(|start| (0x40_0000..0x50_0000).contains(&start))
    }),
    ("time is not null and time >= 1", |row| number(&row[4]) >= Some(1)),
    ("source in (0x10, 18) and instructions in (1, 2, 3)", |row| {
        ["16", "18"].contains(&row[0].as_str()) && ["1", "2", "3"].contains(&row[2].as_str())
    }),
];

#[test]
fn a_limit_gives_the_first_rows() {
    let capture = first();
    let all = read(&columns(Table::Ranges, &["start"]), &capture);
    for limit in [0, 1, 7, all.len(), all.len() + 5] {
        let rows = read(&columns(Table::Ranges, &["start"]).limit(limit as u64), &capture);
        assert_eq!(rows, all[..limit.min(all.len())]);
    }
}

#[test]
fn batches_have_about_as_many_rows_as_were_asked_for() {
    let capture = Capture::open(bundled("calls-aarch64")).expect("a capture");
    let query = columns(Table::Ranges, &["start"]).batch_rows(10_000);
    let rows: Vec<_> = query
        .read_arrow(&capture)
        .expect("a reader")
        .map(|batch| batch.expect("a batch").num_rows())
        .collect();
    let (last, others) = rows.split_last().expect("rows");
    assert!(others.iter().all(|&rows| (10_000..15_000).contains(&rows)) && *last <= 15_000, "{rows:?}");
}

fn read_bytes(query: Query, capture: &Capture) -> u64 {
    let bytes = Arc::new(AtomicU64::new(0));
    let counted = bytes.clone();
    let query = query.progress(move |more| {
        counted.fetch_add(more, Ordering::Relaxed);
    });
    query.read(capture).expect("batches").for_each(|batch| drop(batch.expect("a batch")));
    bytes.load(Ordering::Relaxed)
}

#[test]
fn sources_that_a_filter_leaves_nothing_of_are_not_decoded() {
    let capture = first();
    assert!(read_bytes(columns(Table::Ranges, &["start"]), &capture) > 0);
    for filter in ["source == 0x7e", "source == 0x7e and time > 5", "buffer == 'none' or source > 0x70"] {
        let query = columns(Table::Ranges, &["start"]).filter(filter).expect(filter);
        assert_eq!(read_bytes(query, &capture), 0, "{filter}");
    }
    let query = columns(Table::Ranges, &["start"]).filter("source == 0x7e or taken").expect("a filter");
    assert!(read_bytes(query, &capture) > 0);
    assert_eq!(read_bytes(columns(Table::Ranges, &["start"]).limit(0), &capture), 0);
}

#[test]
fn dropping_a_reader_stops_the_decoder() {
    let capture = Capture::open(bundled("calls-aarch64")).expect("a capture");
    let mut reader = Query::new(Table::Packets).batch_rows(1).read_arrow(&capture).expect("a reader");
    assert!(reader.next().expect("a batch").is_ok());
    // Its thread is waited for.
    drop(reader);
}

#[test]
fn what_makes_no_sense_is_refused_with_words() {
    let error = Query::new(Table::Ranges).columns(["start", "strat"]).unwrap_err().to_string();
    assert!(error.contains("column `strat`: table ranges has capture, buffer, source"), "{error}");
    let error = Query::new(Table::Ranges).columns(["start", "start"]).unwrap_err().to_string();
    assert!(error.contains("named twice"), "{error}");
    let error = Query::new(Table::Calls).filter("depth == 'deep'").unwrap_err().to_string();
    assert!(error.contains("column `depth` is uint64, and is compared with a text"), "{error}");
    let error = Query::new(Table::Ranges).buffer("nothing").read(&first()).unwrap_err().to_string();
    assert!(error.contains("buffer nothing: the capture has"), "{error}");
}

#[test]
fn a_source_is_read_until_its_first_timestamp_after_a_time() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let path = corpus.join("opencsd/ts_marker/capture");
    let capture = Capture::open(&path).expect("a capture");
    for table in [Table::Ranges, Table::Events, Table::Branches] {
        let query = columns(table, &["source", "offset", "time"]);
        let all = read(&query, &capture);
        let mut times: Vec<u64> = all.iter().filter_map(|row| row[2].parse().ok()).collect();
        times.sort_unstable();
        let until = times[times.len() / 2];
        // Of each source, what comes before the first row that is later.
        let mut ended = std::collections::BTreeSet::new();
        let is_before = |row: &&Row| {
            if row[2].parse::<u64>().is_ok_and(|time| time > until) {
                ended.insert(row[0].clone());
            }
            !ended.contains(&row[0])
        };
        let expected: Vec<Row> = all.iter().filter(is_before).cloned().collect();
        assert!(!expected.is_empty() && expected.len() < all.len());
        let query = query.until(until).expect("a query");
        assert_eq!(read(&query, &capture), expected, "{table}");
        let pieces = plan(table, &capture, &path, PlanOptions { bytes: 1 }).expect("a plan");
        let of_pieces = pieces
            .iter()
            .flat_map(|piece| all_rows(query.read_piece_arrow(&capture, piece).expect("a reader")));
        assert_eq!(of_pieces.collect::<Vec<_>>(), expected, "{table}, in pieces");
    }
    let error = Query::new(Table::Packets).until(5).unwrap_err().to_string();
    assert!(error.contains("table packets has no times"), "{error}");
}
