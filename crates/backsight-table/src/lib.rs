//! Captures as tables.
//!
//! A [`Query`] asks for columns and rows of a [`Table`]: sources, packets, ranges of executed instructions, branches, calls,
//! events or damage. It is read from a capture in batches, by a decoder on a thread of its own that stays a few batches
//! ahead; what was not asked for is not computed, and where the rows are enough the decoder stops.
//!
//! ```
//! use backsight_table::{Query, Table};
//! let capture = backsight::Capture::open("captures/first")?;
//! let query = Query::new(Table::Ranges).columns(["start", "function"])?.filter("instructions > 4")?.limit(100);
//! let rows: usize = query.read(&capture)?.map(|batch| batch.map(|batch| batch.rows())).sum::<Result<_, _>>()?;
//! assert_eq!(rows, 100);
//! # Ok::<(), backsight_table::Error>(())
//! ```
//!
//! Rows come buffer by buffer, source by source, in the order of the trace. [`plan`] cuts captures into [`Piece`]s that can
//! be read anywhere, each on its own, and give the same rows.
//!
//! The feature `arrow` gives batches as record batches of Arrow; `export` writes Parquet and streams of Arrow.
//!
//! # What is where
//!
//! Captures as tables: `table` (one list of tables and columns gives names, types, documentation and dispatch), `filter/`,
//! `rows/` a file for each table, `output` (rows to columns to batches), `gather` (ranges as numbers of blocks that come
//! again, with the columns of each block computed once for all batches), `shape` (which value of a column each row has),
//! `steps` (where rows were reported, a byte for each), `plan` and `piece` (spans of sources that are read anywhere, on
//! `decode::span` of `backsight`), `window` (what lies between two moments), `identity`; with the feature `arrow` record batches, with `export` Parquet and streams
//! of Arrow (`export/repeats`: what rows of ranges repeat is found once, among the numbers of blocks, and every column is
//! compressed by it).

#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "arrow")]
pub mod arrow;
#[cfg(feature = "export")]
pub mod export;
pub mod filter;

mod block_filter;
mod data;
mod decode;
mod error;
mod gather;
mod identity;
mod names;
mod output;
mod piece;
mod piece_json;
mod plan;
mod query;
mod reader;
mod rows;
mod shape;
mod steps;
mod table;
mod texts;
mod tracker;
mod window;

pub use error::{Error, Result};
pub use filter::Filter;
pub use identity::{Guard, Identity};
pub use piece::Piece;
pub use plan::{PlanOptions, Wanted, plan};
pub use query::Query;
pub use reader::{Batch, Batches};
pub use table::{Column, Kind, Table};
pub use window::{IndexOf, Part, WindowOf};
