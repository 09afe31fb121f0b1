//! What tables cost beside the decoder: `measure CAPTURE [ROUNDS]`. Each way is tried in turn, again and again, and the best of
//! each counts: other work on the machine makes any single one slower.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, UInt32Type};
use backsight::{Capture, Event};
use backsight_table::export::{Export, open};
use backsight_table::{Error, Query, Table};

/// Ranges, as the library gives them.
fn decoder(capture: &Capture) -> Result<u64, Error> {
    let (_, counts) = capture.execution().positions(false).any_order().fold(
        |_| (0_u64, 0_u64),
        |(ranges, sum), item| {
            if let Event::Range(range) = item.value {
                *ranges += 1;
                *sum = sum.wrapping_add(range.start.0 ^ range.end.0).wrapping_add(range.instructions.into());
            }
        },
    )?;
    Ok(counts.iter().map(|(_, (ranges, _))| ranges).sum())
}

/// Rows of three columns of numbers.
fn columns(capture: &Capture) -> Result<u64, Error> {
    let query = Query::new(Table::Ranges).columns(["start", "end", "instructions"])?;
    let mut rows = 0;
    for batch in query.read_arrow(capture)? {
        rows += batch.map_err(|error| Error::File(error.to_string()))?.num_rows() as u64;
    }
    Ok(rows)
}

/// Instructions of each function.
fn functions(capture: &Capture) -> Result<u64, Error> {
    let query = Query::new(Table::Ranges).columns(["function", "instructions"])?;
    let (mut rows, mut sums) = (0, HashMap::<String, u64>::new());
    for batch in query.read_arrow(capture)? {
        let batch = batch.map_err(|error| Error::File(error.to_string()))?;
        rows += batch.num_rows() as u64;
        let function = batch.column(0).as_dictionary::<Int32Type>();
        let names = function.values().as_string::<i32>();
        let instructions = batch.column(1).as_primitive::<UInt32Type>();
        let mut of_batch = vec![0_u64; names.len() + 1];
        for (key, count) in function.keys().iter().zip(instructions.values()) {
            of_batch[key.map_or(names.len(), |key| key as usize)] += u64::from(*count);
        }
        for (key, sum) in of_batch.into_iter().enumerate().filter(|(_, sum)| *sum > 0) {
            let name = if key < names.len() { names.value(key) } else { "" };
            *sums.entry(name.to_owned()).or_default() += sum;
        }
    }
    std::hint::black_box(sums.len());
    Ok(rows)
}

/// All columns, or some, as Parquet. Gives rows and bytes.
fn parquet(path: &Path, folder: &Path, query: Query) -> Result<(u64, u64), Error> {
    // What was written before would be kept.
    let _ = std::fs::remove_dir_all(folder);
    let exported = Export::new(folder, vec![query])?.run(&[path.to_owned()], &open, Arc::new(|_| {}))?;
    Ok((exported.rows, exported.bytes))
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(|| Error::Misuse("measure CAPTURE [ROUNDS]".to_owned()))?;
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let path = Path::new(&path);
    let capture = Capture::open(path)?;
    let folder = std::env::temp_dir().join(format!("backsight-measure-{}", std::process::id()));
    let narrow = Query::new(Table::Ranges).columns(["start", "end", "instructions", "function"])?;
    let mut bytes = [0; 2];
    let mut best = [f64::MAX; 5];
    let mut rows = 0;
    for _ in 0..rounds {
        for (way, best) in best.iter_mut().enumerate() {
            let start = Instant::now();
            rows = match way {
                0 => decoder(&capture)?,
                1 => columns(&capture)?,
                2 => functions(&capture)?,
                _ => {
                    let query = if way == 3 { narrow.clone() } else { Query::new(Table::Ranges) };
                    let (rows, written) = parquet(path, &folder, query)?;
                    bytes[way - 3] = written;
                    rows
                }
            };
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    println!("{rows} ranges");
    let names = ["decoder alone", "3 columns", "by function", "Parquet, 4 columns", "Parquet, all columns"];
    for (name, seconds) in names.iter().zip(best) {
        let (rate, share) = (rows as f64 / seconds / 1e6, best[0] / seconds);
        println!("{name:<22}{seconds:>8.2} s {rate:>8.2} M rows/s {share:>6.2} of the decoder's rate");
    }
    for (name, bytes) in names[3..].iter().zip(bytes) {
        println!("{name:<22}{:>8.2} bytes a row", bytes as f64 / rows as f64);
    }
    Ok(())
}
