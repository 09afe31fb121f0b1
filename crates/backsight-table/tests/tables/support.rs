//! What the tests share: captures, and rows as texts.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_schema::DataType;
use backsight::Capture;
use backsight_table::{Query, Table};
use backsight_testing::{Random, corpus, repository};

/// A row: its cells as texts, in the order of the columns; `-` is null.
pub type Row = Vec<String>;

fn cell(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "-".to_owned();
    }
    match array.data_type() {
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).to_string(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).to_string(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        DataType::Binary => {
            array.as_binary::<i32>().value(row).iter().map(|byte| format!("{byte:02x}")).collect()
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_dictionary::<Int32Type>();
            let key = dictionary.keys().value(row) as usize;
            dictionary.values().as_string::<i32>().value(key).to_owned()
        }
        other => panic!("a column of {other}"),
    }
}

/// The rows of a batch.
pub fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    (0..batch.num_rows()).map(|row| batch.columns().iter().map(|array| cell(array, row)).collect()).collect()
}

/// All rows of a reader.
pub fn all_rows(reader: impl RecordBatchReader) -> Vec<Row> {
    reader.flat_map(|batch| rows_of(&batch.expect("a batch"))).collect()
}

/// All rows of a query.
pub fn read(query: &Query, capture: &Capture) -> Vec<Row> {
    all_rows(query.read_arrow(capture).expect("a reader"))
}

/// Some columns of a table.
pub fn columns(table: Table, names: &[&str]) -> Query {
    Query::new(table).columns(names).expect("columns")
}

/// A capture that is bundled.
pub fn bundled(name: &str) -> PathBuf {
    repository().join("testdata/captures").join(name)
}

/// Captures that are bundled, and those of the corpus that can be opened without more being said.
pub fn captures() -> Vec<(String, PathBuf)> {
    let mut all = folders(&repository().join("testdata/captures"));
    if let Some(corpus) = corpus() {
        all.extend(folders(&corpus.join("opencsd")));
        all.push(("simpleperf".to_owned(), corpus.join("simpleperf/perf_etm.data")));
    }
    all.retain(|(_, path)| Capture::open(path).is_ok());
    assert!(all.len() >= 4);
    all
}

fn folders(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut all: Vec<_> = entries
        .filter(|path| path.is_dir())
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let inner = path.join("capture");
            (name, if inner.is_dir() { inner } else { path })
        })
        .collect();
    all.sort();
    all
}

/// A folder for one test, gone at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("backsight-tables-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Copies a capture.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a capture") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a copy");
        }
    }
}

/// Damages the trace of a capture in a few places.
pub fn damage(folder: &Path, random: &mut Random) {
    for entry in std::fs::read_dir(folder).expect("a capture") {
        let path = entry.expect("an entry").path();
        let is_trace = path.file_name().is_some_and(|name| name.to_string_lossy().contains("trace"));
        let Ok(mut bytes) = std::fs::read(&path) else { continue };
        if !is_trace || path.extension().is_none_or(|extension| extension != "bin") || bytes.len() < 100 {
            continue;
        }
        for _ in 0..10 {
            let at = random.below(bytes.len() as u64 - 50) as usize;
            match random.below(3) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at..at + 40].fill(random.next() as u8),
                _ => drop(bytes.drain(at..at + 1 + random.below(40) as usize)),
            }
        }
        std::fs::write(&path, bytes).expect("a damaged trace");
    }
}
