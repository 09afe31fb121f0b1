//! Files of source: where they are, and which code their lines have.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backsight::Result;
use backsight::core::AddressSpace;
use backsight::image::{DebugInfo, Image, Module, SourceFolders};
use serde_json::Value;

use super::message::Request;
use super::server::{Server, refusal};
use crate::console::here;

/// Files whose places are remembered.
const MOST_FILES: usize = 1 << 14;

/// The code of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The line: the one that was asked for, or the next that has code.
    pub line: u32,
    /// Where execution comes to it, once for each function, and each copy of one that was put into another.
    pub addresses: Vec<u64>,
}

/// Lines and their code, in one file of code.
struct Table {
    info: DebugInfo,
    /// Statements: lines and the first addresses of their code, in the numbering of the file, by the names of files of source.
    files: BTreeMap<String, Vec<(u32, u64)>>,
}

impl Table {
    fn new(info: DebugInfo) -> Self {
        let mut files: BTreeMap<String, Vec<(u32, u64)>> = BTreeMap::new();
        let mut before = None;
        for (start, end, line) in info.stops() {
            // Code that goes on with a line is no place to stop at.
            let goes_on = before == Some((start, line.file, line.line));
            if line.is_statement && line.line > 0 && !goes_on {
                files.entry(info.file(line.file).to_owned()).or_default().push((line.line, start));
            }
            before = Some((end, line.file, line.line));
        }
        files.values_mut().for_each(|lines| lines.sort_unstable());
        Self { info, files }
    }
}

/// What is known of files of source.
pub(super) struct Sources {
    folders: SourceFolders,
    paths: HashMap<String, Option<PathBuf>>,
    /// By the bytes of the files of code, which are there as long as the capture is.
    tables: HashMap<(usize, usize), Option<Arc<Table>>>,
}

impl Sources {
    pub fn new(folders: SourceFolders) -> Self {
        Self { folders, paths: HashMap::new(), tables: HashMap::new() }
    }

    /// Where the file is that debug information names so.
    pub fn path(&mut self, file: &str) -> Option<PathBuf> {
        if let Some(known) = self.paths.get(file) {
            return known.clone();
        }
        if self.paths.len() >= MOST_FILES {
            self.paths.clear();
        }
        let path = self.folders.path(file);
        self.paths.insert(file.to_owned(), path.clone());
        path
    }

    fn table(&mut self, image: &Image, module: &Module) -> Option<Arc<Table>> {
        let source = image.debug_source_of(module)?;
        let bytes: &[u8] = source.contents();
        let key = (bytes.as_ptr() as usize, bytes.len());
        self.tables
            .entry(key)
            .or_insert_with(|| source.read().ok().map(|info| Arc::new(Table::new(info))))
            .clone()
    }

    /// The code of a line of a file that the editor names by its path.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&mut self, image: &Image, path: &str, line: u32) -> Result<Found> {
        let modules = image.modules().iter();
        let tables: Vec<_> =
            modules.filter_map(|module| Some((module, self.table(image, module)?))).collect();
        let names: Vec<String> = tables.iter().flat_map(|(_, table)| table.files.keys().cloned()).collect();
        let meant = self.meant(path, &names);
        let of_file = || {
            let meant = &meant;
            tables.iter().flat_map(move |(module, table)| {
                let lines = meant.iter().filter_map(|name| table.files.get(*name));
                lines.flat_map(move |lines| {
                    let first = lines.partition_point(|known| known.0 < line);
                    lines[first..].iter().map(move |known| (*module, table, *known))
                })
            })
        };
        let Some(nearest) = of_file().map(|(_, _, (line, _))| line).min() else {
            let why = match meant.is_empty() {
                true => "no code of the capture is from this file, as far as debug information says",
                false => "no code is from this line, or from one after it",
            };
            return Err(refusal(why));
        };
        // The lowest address in each function counts.
        let mut places = BTreeMap::new();
        for (module, table, (_, start)) in of_file().filter(|(_, _, known)| known.0 == nearest) {
            let address = backsight::core::Address(start.wrapping_add(module.bias()));
            let function = image.symbolise(AddressSpace::ANY, address).map(|symbol| symbol.start);
            let frames = table.info.frames(start);
            let around: Vec<_> =
                frames.iter().skip(1).map(|frame| (frame.function.to_owned(), frame.line)).collect();
            let innermost = frames.first().map(|frame| frame.function.to_owned());
            let lowest = places.entry((module.bias(), function, innermost, around)).or_insert(address.0);
            *lowest = address.0.min(*lowest);
        }
        Ok(Found { line: nearest, addresses: places.into_values().collect() })
    }

    /// The names in debug information that a path stands for: those that are found there, or that end as it does.
    fn meant<'n>(&mut self, path: &str, names: &'n [String]) -> Vec<&'n String> {
        let is_there = |name: &&String| self.path(name).is_some_and(|found| found == Path::new(path));
        let found: Vec<_> = names.iter().filter(is_there).collect();
        if !found.is_empty() {
            return found;
        }
        let common = |name: &String| {
            let (one, other) = (Path::new(name).components().rev(), Path::new(path).components().rev());
            one.zip(other).take_while(|(one, other)| one == other).count()
        };
        let most = names.iter().map(common).max().unwrap_or(0);
        names.iter().filter(|name| most > 0 && common(name) == most).collect()
    }
}

/// The reference of the source that a request is about, if it has no path.
pub(super) fn reference_of(request: &Request) -> Option<usize> {
    let source = request.arguments.get("source");
    let number = source.and_then(|source| source.get("sourceReference")).and_then(Value::as_i64);
    number.filter(|number| *number > 0).and_then(|number| usize::try_from(number).ok())
}

impl Server<'_, '_> {
    /// The line that a request is about.
    pub(super) fn asked_line(&self, request: &Request) -> Result<u32> {
        let line = request.number("line").and_then(|line| self.client.own_line(line));
        line.ok_or_else(|| refusal("a request without a line"))
    }

    /// The code of a line of the source that a request is about.
    pub(super) fn line_addresses(&mut self, request: &Request, line: u32) -> Result<Found> {
        if let Some(reference) = reference_of(request) {
            let address = self.listings.address(reference, line);
            let address =
                address.ok_or_else(|| refusal("this line of the disassembly has no instruction"))?;
            return Ok(Found { line, addresses: vec![address] });
        }
        let source = request.arguments.get("source");
        let path = source.and_then(|source| source.get("path")).and_then(Value::as_str);
        let path =
            path.ok_or_else(|| refusal("neither a path nor a reference says which source is meant"))?;
        let at = here(self.replay)?;
        let code = self.replay.code(at)?;
        self.sources.find(code.image(), path, line)
    }
}
