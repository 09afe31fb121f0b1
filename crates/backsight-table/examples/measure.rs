//! What tables cost beside the decoder: `measure CAPTURE [ROUNDS [WAY [IMAGE]]]`. Each way, or those whose names contain `WAY`,
//! is tried in turn, again and again, and the best of each counts: other work on the machine makes any single one slower.
//! `IMAGE` is a file of code, for a capture that comes without the names of its functions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, UInt64Type};
use backsight::{Capture, Event, Item, OpenOptions};
use backsight_table::export::Export;
use backsight_table::{Error, Query, Table};

/// A capture, and where files go.
struct Measured {
    path: PathBuf,
    image: Option<String>,
    capture: Capture,
    folder: PathBuf,
}

/// Rows, and bytes that were written.
type Outcome = Result<(u64, u64), Error>;

/// Takes every range, and looks at all that a row of three columns has.
fn look(sums: &mut (u64, u64), item: Item<'_, Event>) {
    if let Event::Range(range) = item.value {
        sums.0 += 1;
        let sum = (range.start.0 ^ range.end.0).wrapping_add(range.instructions.into());
        sums.1 = sums.1.wrapping_add(sum);
    }
}

/// The same, and where it was reported, as a row of all columns has it.
fn look_with_position(sums: &mut (u64, u64), item: Item<'_, Event>) {
    let place = item.offset ^ item.position().unwrap_or(0);
    look(sums, item);
    sums.1 = sums.1.wrapping_add(place);
}

/// How many ranges of all sources were looked at.
fn ranges<S>(counts: &[(S, (u64, u64))]) -> u64 {
    counts.iter().map(|(_, (ranges, _))| ranges).sum()
}

fn open(path: &Path, image: Option<&str>) -> backsight::Result<Capture> {
    let options = OpenOptions::new();
    image.into_iter().fold(options, OpenOptions::image).open(path)
}

impl Measured {
    /// Ranges, as the library gives them on one thread.
    fn decoder(&self) -> Outcome {
        let decode = self.capture.execution().positions(false).any_order();
        let (_, counts) = decode.fold(|_| (0, 0), look)?;
        Ok((ranges(&counts), 0))
    }

    /// The same, and where they were reported.
    fn decoder_with_positions(&self) -> Outcome {
        let (_, counts) = self.capture.execution().any_order().fold(|_| (0, 0), look_with_position)?;
        Ok((ranges(&counts), 0))
    }

    /// The first on all cores, a piece of each source at a time.
    fn decoder_on_all_cores(&self) -> Outcome {
        let decode = self.capture.execution().positions(false).any_order().threads(0).piece_size(1 << 20);
        let (_, counts) = decode.reduce(
            |_| (0, 0),
            look,
            |sums, later| *sums = (sums.0 + later.0, sums.1.wrapping_add(later.1)),
        )?;
        Ok((ranges(&counts), 0))
    }

    /// Rows of three columns of numbers.
    fn numbers(&self) -> Outcome {
        let query = Query::new(Table::Ranges).columns(["start", "end", "instructions"])?;
        let mut rows = 0;
        for batch in query.read_arrow(&self.capture)? {
            rows += batch.map_err(|error| Error::File(error.to_string()))?.num_rows() as u64;
        }
        Ok((rows, 0))
    }

    /// Instructions of each function.
    fn functions(&self) -> Outcome {
        let query = Query::new(Table::Ranges).columns(["function", "instructions"])?;
        let (mut rows, mut sums) = (0, HashMap::<String, u64>::new());
        for batch in query.read_arrow(&self.capture)? {
            let batch = batch.map_err(|error| Error::File(error.to_string()))?;
            rows += batch.num_rows() as u64;
            let function = batch.column(0).as_dictionary::<Int32Type>();
            let names = function.values().as_string::<i32>();
            let instructions = batch.column(1).as_primitive::<UInt64Type>();
            let mut of_batch = vec![0_u64; names.len() + 1];
            let keys = function.keys().values().iter().zip(instructions.values());
            match function.nulls() {
                None => keys.for_each(|(&key, &count)| of_batch[key as usize] += count),
                Some(nulls) => keys.zip(nulls).for_each(|((&key, &count), has_name)| {
                    of_batch[if has_name { key as usize } else { names.len() }] += count;
                }),
            }
            for (key, sum) in of_batch.into_iter().enumerate().filter(|(_, sum)| *sum > 0) {
                let name = if key < names.len() { names.value(key) } else { "" };
                *sums.entry(name.to_owned()).or_default() += sum;
            }
        }
        std::hint::black_box(sums.len());
        Ok((rows, 0))
    }

    fn parquet(&self, query: Query) -> Outcome {
        // What was written before would be kept.
        let _ = std::fs::remove_dir_all(&self.folder);
        let export = Export::new(&self.folder, vec![query])?;
        let open = |path: &Path| open(path, self.image.as_deref());
        let exported = export.run(std::slice::from_ref(&self.path), &open, Arc::new(|_| {}))?;
        Ok((exported.rows, exported.bytes))
    }

    fn parquet_of_four(&self) -> Outcome {
        self.parquet(Query::new(Table::Ranges).columns(["start", "end", "instructions", "function"])?)
    }

    fn parquet_of_all(&self) -> Outcome {
        self.parquet(Query::new(Table::Ranges))
    }
}

type Way = (&'static str, fn(&Measured) -> Outcome);

const WAYS: [Way; 7] = [
    ("decoder, one thread", Measured::decoder),
    ("decoder, positions", Measured::decoder_with_positions),
    ("decoder, all cores", Measured::decoder_on_all_cores),
    ("3 columns", Measured::numbers),
    ("by function", Measured::functions),
    ("Parquet, 4 columns", Measured::parquet_of_four),
    ("Parquet, all columns", Measured::parquet_of_all),
];

/// Seconds of all threads on processors so far, where the system says.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// The best of a way.
#[derive(Clone, Copy)]
struct Best {
    seconds: f64,
    processor: f64,
    rows: u64,
    bytes: u64,
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let path =
        arguments.next().ok_or_else(|| Error::Misuse("measure CAPTURE [ROUNDS [WAY [IMAGE]]]".to_owned()))?;
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let wanted = arguments.next().unwrap_or_default();
    let image = arguments.next();
    let path = Path::new(&path).to_owned();
    let capture = open(&path, image.as_deref())?;
    let folder = std::env::temp_dir().join(format!("backsight-measure-{}", std::process::id()));
    let measured = Measured { path, image, capture, folder };
    let mut best = WAYS.map(|_| Best { seconds: f64::MAX, processor: f64::MAX, rows: 0, bytes: 0 });
    for _ in 0..rounds {
        for ((name, way), best) in WAYS.iter().zip(&mut best) {
            if !name.contains(&wanted) {
                continue;
            }
            let (start, processor) = (Instant::now(), processor_seconds());
            (best.rows, best.bytes) = way(&measured)?;
            best.seconds = best.seconds.min(start.elapsed().as_secs_f64());
            best.processor = best.processor.min(processor_seconds() - processor);
        }
    }
    let _ = std::fs::remove_dir_all(&measured.folder);
    println!(
        "{:<22}{:>12}{:>10}{:>14}{:>8}{:>16}{:>8}{:>12}",
        "", "rows", "seconds", "M rows/s", "share", "ns of CPU/row", "share", "bytes/row"
    );
    // Of the decoder alone, where it was measured.
    let own = best[0];
    let share =
        |own: f64, other: f64| if own < f64::MAX { format!("{:.2}", own / other) } else { String::new() };
    for ((name, _), Best { seconds, processor, rows, bytes }) in WAYS.iter().zip(best) {
        if rows > 0 {
            let of_rows = |amount: f64| amount / rows as f64;
            let (rate, cost) = (rows as f64 / seconds / 1e6, of_rows(processor) * 1e9);
            let size = if bytes > 0 { format!("{:.2}", of_rows(bytes as f64)) } else { String::new() };
            let shares = (share(own.seconds, seconds), share(own.processor, processor));
            println!(
                "{name:<22}{rows:>12}{seconds:>10.2}{rate:>14.1}{:>8}{cost:>16.1}{:>8}{size:>12}",
                shares.0, shares.1
            );
        }
    }
    Ok(())
}
