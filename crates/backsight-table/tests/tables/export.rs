//! Files of Parquet, and streams of Arrow.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_ipc::reader::StreamReader;
use backsight::Capture;
use backsight_table::export::{Export, Exported, Step, open, write_stream};
use backsight_table::{Query, Table};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use crate::support::{Folder, Row, all_rows, bundled, captures, columns, copy, read};

fn export(folder: &Path, queries: Vec<Query>, captures: &[PathBuf]) -> (Exported, Vec<PathBuf>) {
    let begun = Arc::new(Mutex::new(Vec::new()));
    let noted = begun.clone();
    let step = move |step: Step<'_>| {
        if let Step::Part(file) = step {
            noted.lock().expect("a list").push(file.to_owned());
        }
    };
    let exported =
        Export::new(folder, queries).expect("an export").run(captures, &open, Arc::new(step)).expect("files");
    let begun = begun.lock().expect("a list").clone();
    (exported, begun)
}

/// Every file of a folder, by its path in it.
fn files(folder: &Path) -> Vec<String> {
    fn collect(root: &Path, folder: &Path, all: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => collect(root, &path, all),
                false => all.push(path.strip_prefix(root).expect("inside").to_string_lossy().into_owned()),
            }
        }
    }
    let mut all = Vec::new();
    collect(folder, folder, &mut all);
    all.sort();
    all
}

fn parquet_rows(file: &Path) -> Vec<Row> {
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(File::open(file).expect("a file")).expect("Parquet");
    all_rows(builder.build().expect("a reader"))
}

const PARTITIONED: [&str; 2] = ["capture", "source"];

/// Large row groups of ranges are written by blocks, places and states, small ones row by row.
#[test]
fn row_groups_of_any_size_hold_the_same_rows() {
    let kept = Table::Ranges.columns().iter().map(|column| column.name);
    let kept: Vec<_> = kept.filter(|name| !PARTITIONED.contains(name)).collect();
    let mut groups = 0;
    for (name, path) in captures().into_iter().filter(|(name, _)| SOME.contains(&name.as_str())) {
        let capture = Capture::open(&path).expect("a capture");
        for row_group in [40, 3000] {
            let folder = Folder::new("row-groups");
            let export = Export::new(&folder.0, vec![Query::new(Table::Ranges)]).expect("an export");
            export
                .row_group(row_group)
                .run(std::slice::from_ref(&path), &open, Arc::new(|_| {}))
                .expect("files");
            for buffer in capture.buffers() {
                for (source, _) in buffer.contents().expect("sources").sources {
                    let query = columns(Table::Ranges, &kept).buffer(buffer.name()).source(source.id().get());
                    let expected = read(&query.batch_rows(usize::MAX), &capture);
                    let found = files(&folder.0).into_iter().filter(|file| file.contains("parquet"));
                    let of = format!("source={}/", source.id().get());
                    let parts: Vec<_> =
                        found.filter(|file| file.contains(&of)).map(|file| folder.path(&file)).collect();
                    groups += parts.iter().map(|file| row_groups(file)).sum::<usize>();
                    let rows = parts.iter().map(|file| parquet_rows(file));
                    assert!(rows.into_iter().any(|rows| rows == expected), "{name}, {row_group}, {of}");
                }
            }
        }
    }
    assert!(groups > 30, "{groups}");
}

const SOME: [&str; 6] =
    ["first", "calls-aarch64", "calls-riscv64", "juno_r1_1", "ete_spec_1", "tc2-ptm-rstk-t32"];

fn row_groups(file: &Path) -> usize {
    let file = File::open(file).expect("a file");
    SerializedFileReader::new(file).expect("Parquet").metadata().num_row_groups()
}

#[test]
fn parquet_holds_the_rows_of_every_table() {
    let folder = Folder::new("parquet");
    let captures = [bundled("first"), bundled("calls-riscv64")];
    let (exported, _) = export(&folder.0, Table::ALL.map(Query::new).to_vec(), &captures);
    assert!(exported.failed.is_empty() && exported.kept == 0);
    let mut rows = 0;
    for path in &captures {
        let capture = Capture::open(path).expect("a capture");
        let name = path.file_name().expect("a name").to_string_lossy();
        for table in Table::ALL {
            let kept =
                table.columns().iter().map(|column| column.name).filter(|name| !PARTITIONED.contains(name));
            let kept: Vec<_> = kept.collect();
            // What is about a buffer as a whole has no source.
            rows += read(&columns(table, &kept), &capture).len() as u64;
            for source in capture.buffers()[0].sources() {
                let id = source.id().get();
                let file = folder.path(&format!("{table}/capture={name}/source={id}/part-0.parquet"));
                let expected = read(
                    &columns(table, &kept).filter(&format!("source == {id}")).expect("a filter"),
                    &capture,
                );
                assert_eq!(parquet_rows(&file), expected, "{}", file.display());
            }
        }
    }
    assert_eq!(exported.rows, rows);
    let all = files(&folder.0);
    assert!(
        all.contains(&"_backsight/first.json".to_owned()) && !all.iter().any(|name| name.ends_with(".tmp")),
        "{all:?}"
    );
}

#[test]
fn columns_have_statistics_and_dictionaries() {
    let folder = Folder::new("statistics");
    export(&folder.0, vec![Query::new(Table::Ranges)], &[bundled("first")]);
    let file = folder.path("ranges/capture=first/source=16/part-0.parquet");
    let reader = SerializedFileReader::new(File::open(file).expect("a file")).expect("Parquet");
    let group = reader.metadata().row_group(0);
    for column in group.columns() {
        let name = column.column_path().string();
        assert!(column.statistics().is_some(), "{name}");
        if ["function", "start", "isa"].contains(&name.as_str()) {
            assert!(column.dictionary_page_offset().is_some(), "{name}");
        }
    }
}

#[test]
fn what_is_finished_is_not_done_again() {
    let folder = Folder::new("resumed");
    let captures = [bundled("first"), bundled("calls-aarch64")];
    let queries = || vec![Query::new(Table::Ranges), Query::new(Table::Calls)];
    let (first, begun) = export(&folder.0, queries(), &captures);
    assert_eq!(first.written, begun.len() as u64);
    let (again, begun) = export(&folder.0, queries(), &captures);
    assert_eq!(
        (again.written, again.kept, again.rows, again.bytes),
        (0, first.written, first.rows, first.bytes)
    );
    assert!(begun.is_empty());
    // A part that is cut off, as a file system may leave it.
    let file = folder.path("ranges/capture=first/source=16/part-0.parquet");
    let whole = std::fs::read(&file).expect("a part");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("a part");
    let (mended, begun) = export(&folder.0, queries(), &captures);
    assert_eq!((mended.written, begun), (1, vec![file.clone()]));
    assert_eq!(std::fs::read(&file).expect("a part"), whole);
    let beside = std::fs::read_dir(file.parent().expect("a folder")).expect("a folder");
    assert_eq!(beside.count(), 1, "a temporary file is left");
    // What is asked for otherwise is done again, for that table.
    let queries = || vec![columns(Table::Ranges, &["start"]), Query::new(Table::Calls)];
    let (other, begun) = export(&folder.0, queries(), &captures);
    assert!(begun.iter().all(|file| file.to_string_lossy().contains("/ranges/")) && other.kept > 0);
    assert_eq!(parquet_rows(&file)[0].len(), 1);
}

#[test]
fn a_capture_that_changed_is_exported_anew() {
    let folder = Folder::new("anew");
    let path = folder.path("capture");
    copy(&bundled("first"), &path);
    let out = folder.path("out");
    let queries = || vec![Query::new(Table::Ranges)];
    export(&out, queries(), std::slice::from_ref(&path));
    let (kept, _) = export(&out, queries(), std::slice::from_ref(&path));
    assert_eq!(kept.written, 0);
    let trace = path.join("trace.bin");
    let mut bytes = std::fs::read(&trace).expect("trace");
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&trace, bytes).expect("trace");
    let (changed, _) = export(&out, queries(), &[path]);
    assert!(changed.written > 0 && changed.kept == 0);
}

#[test]
fn a_capture_that_cannot_be_read_is_a_row_of_damage() {
    let folder = Folder::new("unreadable");
    let bad = folder.path("bad");
    std::fs::create_dir_all(&bad).expect("a folder");
    std::fs::write(bad.join("snapshot.ini"), b"[snapshot]\nversion=what\n").expect("a file");
    let captures = [bundled("first"), bad.clone(), folder.path("nothing"), bundled("calls-riscv64")];
    let out = folder.path("out");
    let (exported, _) = export(&out, vec![Query::new(Table::Ranges)], &captures);
    let failed: Vec<_> = exported.failed.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(failed, [bad.clone(), folder.path("nothing")]);
    assert!(exported.written >= 2);
    let unreadable = "source=__HIVE_DEFAULT_PARTITION__/part-unreadable.parquet";
    let rows = parquet_rows(&out.join("damage/capture=nothing").join(unreadable));
    assert!(rows.len() == 1 && rows[0].contains(&"unreadable".to_owned()), "{rows:?}");
    // Once it can be read, nothing is wrong with it.
    std::fs::remove_dir_all(&bad).expect("a folder");
    copy(&bundled("first"), &bad);
    let (mended, _) = export(&out, vec![Query::new(Table::Ranges)], &captures);
    assert_eq!(mended.failed.len(), 1);
    assert!(!out.join("damage/capture=bad").join(unreadable).exists());
}

#[test]
fn two_captures_of_the_same_name_do_not_collide() {
    let folder = Folder::new("names");
    let (one, other) = (folder.path("a/capture"), folder.path("b/capture"));
    copy(&bundled("first"), &one);
    copy(&bundled("calls-riscv64"), &other);
    let out = folder.path("out");
    let query = || vec![columns(Table::Ranges, &["start"])];
    let (first, _) = export(&out, query(), &[one.clone(), other.clone()]);
    // Whatever comes first in another run, each keeps its name.
    let (again, _) = export(&out, query(), &[other, one]);
    assert_eq!((again.written, again.kept, again.rows), (0, first.written, first.rows));
    let names: Vec<_> = files(&out).into_iter().filter(|file| file.ends_with(".parquet")).collect();
    assert!(names.iter().any(|name| name.starts_with("ranges/capture=capture/")), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("ranges/capture=capture-")), "{names:?}");
}

#[test]
fn a_limit_is_one_of_all_captures() {
    let folder = Folder::new("limit");
    let captures = [bundled("first"), bundled("calls-riscv64")];
    let all = read(&columns(Table::Ranges, &["start"]), &Capture::open(&captures[0]).expect("a capture"))
        .len() as u64;
    let query = || vec![columns(Table::Ranges, &["start"]).limit(all + 10)];
    let (exported, _) = export(&folder.0, query(), &captures);
    assert_eq!(exported.rows, all + 10);
    let (again, _) = export(&folder.0, query(), &captures);
    assert_eq!((again.rows, again.written), (all + 10, 0));
}

#[test]
fn a_stream_of_arrow_holds_the_rows_of_all_captures() {
    let captures = [bundled("first"), bundled("calls-riscv64")];
    let query = Query::new(Table::Ranges);
    let mut bytes = Vec::new();
    let exported = write_stream(&query, &captures, &open, &mut bytes).expect("a stream");
    let rows = all_rows(StreamReader::try_new(bytes.as_slice(), None).expect("a stream"));
    let expected: Vec<Row> =
        captures.iter().flat_map(|path| read(&query, &Capture::open(path).expect("a capture"))).collect();
    assert_eq!(rows, expected);
    assert_eq!(exported.rows, rows.len() as u64);
}

#[test]
fn a_table_cannot_be_exported_twice_at_once() {
    let error =
        Export::new("/nonexistent", vec![Query::new(Table::Ranges), Query::new(Table::Ranges)]).unwrap_err();
    assert!(error.to_string().contains("named twice"));
}
