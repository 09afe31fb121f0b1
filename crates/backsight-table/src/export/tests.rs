//! Row groups of gathered rows against what the writer of the Parquet crate makes of the same rows.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use backsight_testing::Random;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;

use super::*;
use crate::arrow::{data_type, expand};
use crate::data::{FinishedColumn, FinishedValues, Layout, Values};
use crate::shape::Shape;
use crate::steps::Steps;
use crate::table::Kind;

const KINDS: [Kind; 6] = [Kind::U8, Kind::U16, Kind::U32, Kind::U64, Kind::Bool, Kind::Word];
const LAYOUTS: [Layout; 3] = [Layout::Once, Layout::Blocks, Layout::States];

/// Which values of a column there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nulls {
    Never,
    Sometimes,
    Always,
}

const NULLS: [Nulls; 3] = [Nulls::Never, Nulls::Sometimes, Nulls::Always];

/// So many values, of about so many different ones.
fn values(kind: Kind, count: usize, different: u64, random: &mut Random) -> FinishedValues {
    let mut some =
        |most: u64| -> Vec<u64> { (0..count).map(|_| random.below(different.min(most))).collect() };
    FinishedValues::Plain(match kind {
        Kind::U8 => Values::U8(some(1 << 8).iter().map(|&n| n as u8).collect()),
        Kind::U16 => Values::U16(some(1 << 16).iter().map(|&n| n as u16).collect()),
        Kind::U32 => {
            Values::U32(some(1 << 32).iter().map(|&n| (n as u32).wrapping_mul(0x9E37_79B9)).collect())
        }
        Kind::U64 => {
            Values::U64(some(u64::MAX).iter().map(|&n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect())
        }
        Kind::Bool => Values::Bool(some(2).iter().map(|&n| n == 1).collect()),
        _ => {
            let texts: Vec<Arc<str>> = (0..different.min(5000)).map(|n| format!("text {n}").into()).collect();
            let keys = some(5000).iter().map(|&n| n as i32).collect();
            return FinishedValues::Words { keys, values: texts.into() };
        }
    })
}

/// The first rows of runs.
fn firsts(rows: usize, random: &mut Random) -> Vec<u32> {
    let (mut firsts, mut at) = (Vec::new(), 0);
    while at < rows {
        firsts.push(at as u32);
        let longest = [1, 4, 300][random.below(3) as usize];
        at += 1 + random.below(longest) as usize;
    }
    firsts
}

/// The blocks of rows: loops of loops, or any.
fn blocks(rows: usize, known: usize, is_repetitive: bool, random: &mut Random) -> Vec<u32> {
    let mut blocks: Vec<u32> = Vec::new();
    while blocks.len() < rows {
        let length = 1 + random.below(40) as usize;
        let body: Vec<u32> = (0..length).map(|_| random.below(known as u64) as u32).collect();
        (0..if is_repetitive { 1 + random.below(30) } else { 1 }).for_each(|_| blocks.extend(&body));
    }
    blocks.truncate(rows);
    blocks
}

struct Case {
    rows: usize,
    known: usize,
    different: u64,
    is_repetitive: bool,
}

impl Case {
    /// A batch with a column of each kind, layout and way to have nulls.
    fn batch(&self, random: &mut Random) -> (Batch, SchemaRef) {
        let Self { rows, known, different, is_repetitive } = *self;
        let shape =
            Shape { blocks: blocks(rows, known, is_repetitive, random), states: firsts(rows, random) };
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for (layout, kind, nulls) in LAYOUTS
            .iter()
            .flat_map(|&layout| KINDS.iter().map(move |&kind| (layout, kind)))
            .flat_map(|(layout, kind)| NULLS.iter().map(move |&nulls| (layout, kind, nulls)))
        {
            let count = match layout {
                Layout::Blocks => known,
                Layout::States => shape.states.len(),
                Layout::Once | Layout::Rows => 1,
            };
            let valid = match nulls {
                Nulls::Never => None,
                Nulls::Sometimes => Some((0..count).map(|_| random.below(3) > 0).collect()),
                Nulls::Always => Some(vec![false; count]),
            };
            let values = values(kind, count, different, random);
            columns.push(Arc::new(FinishedColumn { values, valid, layout }));
            fields.push(Field::new(
                format!("{layout:?} {kind:?} {nulls:?}"),
                data_type(kind),
                nulls != Nulls::Never,
            ));
        }
        // Columns that grow, and one that grows and falls.
        for name in GROWING {
            let is_state = ["time", "cycles"].contains(&name);
            let count = if is_state { shape.states.len() } else { rows };
            let mut at = random.next();
            let most = [2, 5, 300, u64::MAX][random.below(4) as usize];
            let mut grown = |_| {
                // Many in turn are the same, and now and then there is a leap.
                if random.below(4) == 0 {
                    let most = if random.below(500) > 0 { most } else { 10_000 };
                    at = at.wrapping_add(random.below(most));
                    at = at.wrapping_sub(if ["offset", "cycles"].contains(&name) { 3 } else { 0 });
                }
                at
            };
            let numbers: Vec<_> = (0..count).map(&mut grown).collect();
            columns.push(Arc::new(if !is_state {
                let mut steps = Steps::default();
                numbers.iter().for_each(|&number| steps.push(number));
                FinishedColumn::of_steps(steps)
            } else {
                let values = FinishedValues::Plain(Values::U64(numbers));
                let valid = (name == "time").then(|| (0..count).map(|_| random.below(9) > 0).collect());
                FinishedColumn { values, valid, layout: Layout::States }
            }));
            fields.push(Field::new(name, DataType::UInt64, ["time", "position"].contains(&name)));
        }
        (Batch { columns, rows, shape }, Arc::new(Schema::new(fields)))
    }
}

fn read(file: &Path, rows: usize) -> (RecordBatch, Arc<ParquetMetaData>) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap()).unwrap();
    let metadata = builder.metadata().clone();
    let mut batches = builder.with_batch_size(rows.max(1)).build().unwrap();
    (batches.next().unwrap().unwrap(), metadata)
}

/// The lowest, the highest, and how many are missing.
fn bounds(statistics: Option<&Statistics>) -> (Option<Vec<u8>>, Option<Vec<u8>>, Option<u64>) {
    let statistics = statistics.unwrap();
    let bytes = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    (bytes(statistics.min_bytes_opt()), bytes(statistics.max_bytes_opt()), statistics.null_count_opt())
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn row_groups_are_read_as_what_was_gathered() {
    let folder = Folder(std::env::temp_dir().join(format!("backsight-row-groups-{}", std::process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    let (ours, theirs) = (folder.0.join("ours.parquet"), folder.0.join("theirs.parquet"));
    let mut random = Random(18);
    // Pages have 131,072 rows.
    let sizes = [
        (1, 1, 1),
        (7, 3, 2),
        (1000, 1, 1),
        (3001, 40, 17),
        (140_000, 3000, 300),
        (200_003, 150_000, 100_000),
    ];
    let mut compressed = 0;
    for (rows, known, different) in sizes {
        for (is_repetitive, compress) in [(false, true), (true, true), (true, false)] {
            let case = Case { rows, known, different, is_repetitive };
            let (batch, schema) = case.batch(&mut random);
            let layout = FileLayout { row_group: 1 << 20, compress };
            let kept: Vec<_> = (0..batch.columns.len()).collect();
            let mut writer = PartWriter::new(File::create(&ours).unwrap(), schema.clone(), layout).unwrap();
            writer.write_gathered(&batch, &kept).unwrap();
            writer.close().unwrap();
            let expected = expand(batch, &schema);
            let mut writer = ArrowWriter::try_new(File::create(&theirs).unwrap(), schema, None).unwrap();
            writer.write(&expected).unwrap();
            writer.close().unwrap();
            let ((found, of_found), (expected, of_expected)) = (read(&ours, rows), read(&theirs, rows));
            assert_eq!((found.num_rows(), expected.num_rows()), (rows, rows));
            let columns = found.schema();
            for (number, field) in columns.fields().iter().enumerate() {
                let same = found.column(number).as_ref() == expected.column(number).as_ref();
                assert!(same, "{} of {rows} rows, {known} blocks, repetitive: {is_repetitive}", field.name());
                let (found, expected) =
                    (of_found.row_group(0).column(number), of_expected.row_group(0).column(number));
                assert_eq!(bounds(found.statistics()), bounds(expected.statistics()), "{}", field.name());
                assert_eq!(found.num_values(), expected.num_values());
                let is_compressed = found.compression() == Compression::SNAPPY;
                assert!(compress || !is_compressed);
                compressed += usize::from(is_compressed);
            }
        }
    }
    assert!(compressed > 100, "{compressed}");
}
