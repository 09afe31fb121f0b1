//! What of a capture is finished.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::FileLayout;
use super::parquet::replace_file;
use crate::{Identity, Query, Result, Table};

/// The folder of manifests. Readers of Parquet pass over names that begin so.
pub(super) const FOLDER: &str = "_backsight";

/// A part that is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub rows: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Rows that it could have at most.
    pub limit: Option<u64>,
}

impl Part {
    /// Is its file there, as it was written, for the same limit?
    pub fn is_there(&self, file: &Path, limit: Option<u64>) -> bool {
        limit == self.limit && fs::metadata(file).is_ok_and(|metadata| metadata.len() == self.bytes)
    }
}

/// What of a capture is finished: for each table, what was asked for, and parts by name.
#[derive(Debug)]
pub(super) struct Manifest {
    capture: PathBuf,
    identity: Identity,
    tables: BTreeMap<String, (String, BTreeMap<String, Part>)>,
}

/// The capture that a manifest is about.
pub(super) fn capture_of(file: &Path) -> Option<PathBuf> {
    let manifest: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    Some(PathBuf::from(manifest.get("capture")?.as_str()?))
}

/// What a query asks for, apart from its limit, and how it is written, in words that are the same if and only if these are.
fn words(query: &Query, layout: FileLayout) -> String {
    // With their types: files of one table have the same ones, whichever version wrote them.
    let columns: Vec<_> = query.chosen().iter().map(|column| (column.name, column.kind.name())).collect();
    let filter = query.filter.as_ref().map(crate::Filter::text);
    let FileLayout { row_group, compress } = layout;
    let part = query.part.as_ref().map(|(part, _)| &part.words);
    let asked = (columns, filter, query.until, part, &query.buffers, &query.sources);
    json!([asked, [row_group, usize::from(compress)], env!("CARGO_PKG_VERSION")]).to_string()
}

impl Manifest {
    /// Reads one. What cannot be read, or is about something else, is as if nothing was finished.
    pub fn read(file: &Path, capture: &Path, identity: Identity) -> Self {
        let capture = fs::canonicalize(capture).unwrap_or_else(|_| capture.to_owned());
        let known = fs::read(file).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let tables = known.filter(|known| is_of(known, &capture, &identity)).and_then(|known| tables(&known));
        Self { capture, identity, tables: tables.unwrap_or_default() }
    }

    /// A query of a table begins. Is it another one than before?
    pub fn begin(&mut self, query: &Query, layout: FileLayout) -> bool {
        let words = words(query, layout);
        let table = self.tables.entry(query.table().name().to_owned()).or_default();
        let is_new = table.0 != words;
        if is_new {
            *table = (words, BTreeMap::new());
        }
        is_new
    }

    /// A part, if it is finished.
    pub fn part(&self, table: Table, name: &str) -> Option<Part> {
        self.tables.get(table.name())?.1.get(name).copied()
    }

    /// A part is finished.
    pub fn add(&mut self, table: Table, name: &str, part: Part) {
        if let Some((_, parts)) = self.tables.get_mut(table.name()) {
            parts.insert(name.to_owned(), part);
        }
    }

    pub fn write(&self, file: &Path) -> Result {
        let Self { capture, identity: Identity { bytes, modified, digest }, tables } = self;
        let part = |part: &Part| json!({ "rows": part.rows, "bytes": part.bytes, "limit": part.limit });
        let table = |(query, parts): &(String, BTreeMap<String, Part>)| {
            let parts: BTreeMap<_, _> = parts.iter().map(|(name, one)| (name.clone(), part(one))).collect();
            json!({ "query": query, "parts": parts })
        };
        let tables: BTreeMap<_, _> = tables.iter().map(|(name, one)| (name.clone(), table(one))).collect();
        let manifest = json!({
            "capture": capture.to_string_lossy(),
            "identity": { "bytes": bytes, "modified": modified, "digest": digest },
            "tables": tables,
        });
        replace_file(file, |output| writeln!(output, "{manifest:#}"))
    }
}

/// By table: its query, and its parts by name.
type Tables = BTreeMap<String, (String, BTreeMap<String, Part>)>;

/// Another copy of the same bytes is the same capture.
fn is_of(known: &Value, capture: &Path, identity: &Identity) -> bool {
    let number = |name: &str| known.get("identity").and_then(|known| known.get(name)).and_then(Value::as_u64);
    known.get("capture").and_then(Value::as_str).is_some_and(|known| Path::new(known) == capture)
        && number("bytes") == Some(identity.bytes)
        && number("digest") == Some(identity.digest.into())
}

fn tables(known: &Value) -> Option<Tables> {
    let part = |value: &Value| {
        Some(Part {
            rows: value.get("rows")?.as_u64()?,
            bytes: value.get("bytes")?.as_u64()?,
            limit: value.get("limit")?.as_u64(),
        })
    };
    let mut tables = BTreeMap::new();
    for (name, table) in known.get("tables")?.as_object()? {
        let parts = table.get("parts")?.as_object()?.iter();
        let parts = parts.map(|(name, value)| Some((name.clone(), part(value)?))).collect::<Option<_>>()?;
        tables.insert(name.clone(), (table.get("query")?.as_str()?.to_owned(), parts));
    }
    Some(tables)
}
