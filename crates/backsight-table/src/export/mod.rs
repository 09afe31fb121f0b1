//! Tables as files: Parquet in folders, or one stream of Arrow.
//!
//! ```text
//! DIR/ranges/capture=boot-17/source=16/part-0.parquet
//! DIR/ranges/capture=boot-17/source=18/part-0.parquet
//! DIR/damage/capture=boot-17/source=16/part-0.parquet
//! DIR/_backsight/boot-17.json                             what of it is finished
//! ```
//!
//! Folders are named as in Hive: readers of Parquet make the columns `capture` and `source` of them, and files do not hold
//! these two. A part is written under another name, and renamed when it is finished; a run that was interrupted goes on where
//! it was, and what was asked for otherwise, or of a capture that has changed, is done again.

mod bits;
mod chunk;
mod dictionary;
mod differences;
mod flags;
mod keys;
mod manifest;
mod names;
mod pages;
mod parallel;
mod parquet;
mod repeats;
mod rows;
mod snappy;
mod stream;

use std::path::{Path, PathBuf};

use backsight::{Capture, OpenOptions};

use crate::{Error, Piece, PlanOptions, Query, Result, Table, plan};
use manifest::{Manifest, Part};
pub use names::{CaptureNames, encoded};
pub use stream::write_stream;

/// What stands for a value that is missing in the name of a folder.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// What is exported.
#[derive(Clone, Debug)]
pub struct Export {
    /// The folder.
    pub folder: PathBuf,
    /// What of which tables; each table once.
    pub queries: Vec<Query>,
    layout: FileLayout,
}

/// How files are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileLayout {
    /// Rows of a row group, about.
    row_group: usize,
    /// May pages be compressed?
    compress: bool,
}

/// Rows of a row group, if nothing else is said: engines read groups side by side, and pass over those that a filter leaves
/// nothing of.
const ROW_GROUP: usize = 1 << 20;

/// What an export came to.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    /// Parts that were written.
    pub written: u64,
    /// Parts that were there.
    pub kept: u64,
    /// Rows in all parts.
    pub rows: u64,
    /// Bytes of all parts.
    pub bytes: u64,
    /// Captures that could not be read, or not all of them, and why.
    pub failed: Vec<(PathBuf, String)>,
}

/// A step of an export.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A capture begins.
    Capture(&'a Path),
    /// A part begins.
    Part(&'a Path),
    /// So many bytes of trace were read.
    Bytes(u64),
}

type OnStep = std::sync::Arc<dyn Fn(Step<'_>) + Send + Sync>;

impl Export {
    /// Refuses what cannot be done.
    ///
    /// # Errors
    /// If a table is named twice, or nothing at all.
    pub fn new(folder: impl Into<PathBuf>, queries: Vec<Query>) -> Result<Self> {
        if queries.is_empty() {
            return Err(Error::misuse("there is no table to export"));
        }
        for (number, query) in queries.iter().enumerate() {
            if queries.iter().take(number).any(|other| other.table() == query.table()) {
                return Err(Error::misuse(format!("table {} is named twice", query.table())));
            }
        }
        let layout = FileLayout { row_group: ROW_GROUP, compress: true };
        Ok(Self { folder: folder.into(), queries, layout })
    }

    /// Rows of a row group, about.
    #[must_use]
    pub fn row_group(mut self, rows: usize) -> Self {
        self.layout.row_group = rows.max(1);
        self
    }

    /// Whether pages are compressed where that saves something, by Snappy; they are if nothing is said.
    #[must_use]
    pub fn compress(mut self, compress: bool) -> Self {
        self.layout.compress = compress;
        self
    }

    /// Exports captures, one after the other. One that cannot be read becomes a row of the table `damage`, and the others
    /// are exported all the same.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn run(
        &self,
        captures: &[PathBuf],
        open: &dyn Fn(&Path) -> backsight::Result<Capture>,
        step: OnStep,
    ) -> Result<Exported> {
        let mut exported = Exported::default();
        let mut names = CaptureNames::new(&self.folder.join(manifest::FOLDER));
        let mut remaining: Vec<Option<u64>> = self.queries.iter().map(|query| query.limit).collect();
        for path in captures {
            step(Step::Capture(path));
            let name = names.name(path);
            let one = CaptureExport { export: self, path, name: &name, step: &step };
            let outcome = match open(path) {
                Ok(capture) => one.run(&capture, &mut remaining, &mut exported)?,
                Err(error) => Some(error.to_string()),
            };
            one.note(outcome.as_deref())?;
            if let Some(why) = outcome {
                exported.failed.push((path.clone(), why));
            }
        }
        Ok(exported)
    }
}

/// How captures are opened, if nothing else is said.
///
/// # Errors
/// As [`OpenOptions::open`].
pub fn open(path: &Path) -> backsight::Result<Capture> {
    OpenOptions::new().open(path)
}

/// A capture while it is exported.
struct CaptureExport<'e> {
    export: &'e Export,
    path: &'e Path,
    name: &'e str,
    step: &'e OnStep,
}

impl CaptureExport<'_> {
    /// The folder of a table.
    fn folder(&self, table: Table) -> PathBuf {
        self.export.folder.join(table.name()).join(format!("capture={}", self.name))
    }

    /// Exports all tables. What goes wrong with the capture is given; what goes wrong with files of the export is an error.
    fn run(
        &self,
        capture: &Capture,
        remaining: &mut [Option<u64>],
        exported: &mut Exported,
    ) -> Result<Option<String>> {
        for (query, remaining) in self.export.queries.iter().zip(remaining) {
            let query = &query.clone().of_capture(self.path, capture);
            let pieces = match plan(query.table(), capture, self.path, PlanOptions { bytes: usize::MAX }) {
                Ok(pieces) => pieces,
                Err(error) => return Ok(Some(error.to_string())),
            };
            let Some(first) = pieces.first() else { continue };
            let file = self.export.folder.join(manifest::FOLDER).join(format!("{}.json", self.name));
            let mut manifest = Manifest::read(&file, self.path, first.identity);
            if manifest.begin(query, self.export.layout) {
                parquet::remove_folder(&self.folder(query.table()))?;
            }
            let mut numbers = std::collections::BTreeMap::<Option<u8>, u32>::new();
            for piece in pieces.iter().filter(|piece| query.wants(piece)) {
                let number = numbers.entry(piece.source).or_default();
                let part = self.part(query, piece, *number, remaining, capture, &mut manifest, exported);
                *number += 1;
                match part {
                    Ok(()) => {}
                    Err(error @ (Error::Capture(_) | Error::Changed(_))) => {
                        return Ok(Some(error.to_string()));
                    }
                    Err(error) => return Err(error),
                }
                manifest.write(&file)?;
            }
        }
        Ok(None)
    }

    #[expect(clippy::too_many_arguments, reason = "what a part is made of")]
    fn part(
        &self,
        query: &Query,
        piece: &Piece,
        number: u32,
        remaining: &mut Option<u64>,
        capture: &Capture,
        manifest: &mut Manifest,
        exported: &mut Exported,
    ) -> Result {
        let source = piece.source.map_or_else(|| NO_VALUE.to_owned(), |id| id.to_string());
        let name = format!("source={source}/part-{number}.parquet");
        let file = self.folder(query.table()).join(&name);
        let known = manifest.part(query.table(), &name).filter(|part| part.is_there(&file, *remaining));
        let part = match known {
            Some(part) => {
                exported.kept += 1;
                part
            }
            None => {
                (self.step)(Step::Part(&file));
                let mut query = query.clone().capture_name(self.name);
                query.limit = *remaining;
                let step = self.step.clone();
                let query = query.progress(move |bytes| step(Step::Bytes(bytes)));
                // What is gathered needs little memory: a batch of it is a row group.
                let query = match query.table() {
                    Table::Ranges => query.batch_rows(self.export.layout.row_group),
                    _ => query,
                };
                let reader = query.read_piece_arrow(capture, piece)?;
                let (rows, bytes) = parquet::write_part(&file, reader, self.export.layout)?;
                exported.written += 1;
                Part { rows, bytes, limit: *remaining }
            }
        };
        *remaining = remaining.map(|remaining| remaining.saturating_sub(part.rows));
        exported.rows += part.rows;
        exported.bytes += part.bytes;
        manifest.add(query.table(), &name, part);
        Ok(())
    }

    /// Writes down that a capture could not be read, or takes that back.
    fn note(&self, why: Option<&str>) -> Result {
        let folder = self.folder(Table::Damage).join(format!("source={NO_VALUE}"));
        let file = folder.join("part-unreadable.parquet");
        match why {
            Some(why) => parquet::write_unreadable(&file, why),
            None => parquet::remove_file(&file),
        }
    }
}
