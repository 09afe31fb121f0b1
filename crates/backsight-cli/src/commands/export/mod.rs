//! `backsight export`: tables for Parquet and Arrow.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::flow::FilterArgs;
use crate::args::{CaptureArgs, ImageArgs, parse_number};
use crate::window::WindowArgs;

#[cfg(feature = "tables")]
mod write;

#[cfg(feature = "tables")]
pub use write::run;

/// Write captures as tables, for DuckDB, Polars, pandas, Spark and whatever else reads Parquet or Arrow
///
/// Tables: sources, packets, ranges (what was executed), branches, calls, events, damage; docs/tables.md describes their
/// columns. --parquet writes DIR/TABLE/capture=NAME/source=ID/part-0.parquet; a run that was interrupted goes on where it was,
/// and what is there already is not done again. --arrow writes one table as a stream of Arrow. A capture that cannot be read
/// becomes a row of the table damage, and the others are exported; the exit status is 1 then. One core decodes, source after
/// source, and the others write.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("target").required(true).args(["parquet", "arrow", "describe"]), after_help = EXAMPLES)]
pub struct Export {
    #[command(flatten)]
    capture: CaptureArgs,

    /// More captures
    #[arg(value_name = "CAPTURE")]
    others: Vec<PathBuf>,

    #[command(flatten)]
    images: ImageArgs,

    /// Which tables, with commas between them; `all` is all of them
    #[arg(long, value_name = "TABLE", value_delimiter = ',', default_value = "ranges")]
    table: Vec<String>,

    /// Write files of Parquet into this folder
    #[arg(long, value_name = "DIR")]
    parquet: Option<PathBuf>,

    /// Write one table as a stream of Arrow (IPC) to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    arrow: Option<PathBuf>,

    /// List the columns of the tables, and what they say
    #[arg(long)]
    describe: bool,

    /// Only these columns, with commas between them: the others are not computed
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    columns: Vec<String>,

    /// Only rows of which this is true, as in "function == 'main' and time >= 0x1000"
    #[arg(long = "where", value_name = "FILTER")]
    filter: Option<String>,

    /// At most so many rows of each table
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Read each source until its first timestamp after this one: what comes later is not decoded
    #[arg(long, value_name = "TIME", value_parser = parse_number, conflicts_with_all = ["from", "to", "last", "around", "range", "function", "module", "context", "thread"])]
    until: Option<u64>,

    /// How pages of Parquet are compressed, where that saves something; `snappy` if nothing is said
    #[arg(long, value_name = "HOW", value_enum, conflicts_with_all = ["arrow", "describe"])]
    compression: Option<Compression>,

    /// Rows of a row group of Parquet, about; 1048576 if nothing is said
    #[arg(long, value_name = "N", conflicts_with_all = ["arrow", "describe"],
        value_parser = clap::value_parser!(u32).range(1..))]
    row_group: Option<u32>,

    #[command(flatten)]
    window: WindowArgs,

    #[command(flatten)]
    chosen: FilterArgs,

    /// No summary, no progress, no warnings
    #[arg(long, short)]
    quiet: bool,
}

/// How pages are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compression {
    /// Not at all.
    None,
    /// By Snappy.
    Snappy,
}

const EXAMPLES: &str = "Examples:
  backsight export capture/ --table ranges,calls --parquet out
  duckdb -c \"select function, sum(instructions) n from 'out/ranges/**/*.parquet' group by 1 order by 2 desc limit 20\"
  backsight export boards/*/capture --table all --parquet fleet
  backsight export capture/ --columns start,function --where \"function in ('read', 'write')\" --arrow - | python3 -c '…'
  backsight export capture/ --table ranges --from 3.2s --to 3.3s --arrow spike.arrow
  backsight export capture/ --table all --function parse --parquet parse
  backsight export capture/ --table all --describe";

/// Says how to get a program that can do it.
///
/// # Errors
/// Always.
#[cfg(not(feature = "tables"))]
pub fn run(_: &Export) -> crate::failure::Result {
    Err(super::without_tables())
}
