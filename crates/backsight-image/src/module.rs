//! A file that memory was made from, and what it knows about its code.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use backsight_core::Address;

use crate::debug_files::{self, DebugFile};
use crate::lines::{Lines, SourceRow};
use crate::symbols::{FunctionEntry, Symbols};
use crate::{
    AllowedFiles, Budget, Contents, DebugInfo, Elf, Frame, Function, Mapping, OverBudget, SourceLine, Symbol,
};

/// A file that memory was made from.
#[derive(Debug)]
pub struct Module {
    name: PathBuf,
    file: Option<Arc<ElfFile>>,
    /// What was added to the file's own addresses.
    bias: u64,
    /// Its first and last address in memory.
    range: (Address, Address),
}

/// An ELF file, whatever number of times it is in memory.
pub(crate) struct ElfFile {
    pub elf: Elf,
    pub contents: Contents,
    debug: OnceLock<Option<Contents>>,
    symbols: OnceLock<Symbols>,
    lines: OnceLock<Option<Mutex<Lines>>>,
}

/// What is needed to find names, for all modules of an image.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub budget: Budget,
    /// Where names of debug files may lead to.
    pub allowed: AllowedFiles,
    pub debug_files: Vec<DebugFile>,
    /// What could not be read, in words.
    pub problems: Problems,
}

impl Settings {
    pub fn report(&self, name: &Path, problem: Option<impl fmt::Display>) {
        problem.iter().for_each(|problem| self.problems.report(name, &problem.to_string()));
    }
}

/// What could not be read, in words, for all who read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems(Arc<Mutex<BTreeSet<String>>>);

impl Problems {
    fn report(&self, name: &Path, problem: &str) {
        let mut problems = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        problems.insert(format!("{}: {problem}", name.display()));
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// The debug information of a file that has not been read.
#[derive(Clone, Debug)]
pub struct DebugSource {
    name: PathBuf,
    contents: Contents,
    budget: Budget,
    problems: Problems,
}

impl DebugSource {
    /// The file that has it.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// If the budget of the image does not allow it: that is among its problems, too.
    pub fn read(&self) -> Result<DebugInfo, DebugInfoError> {
        DebugInfo::read(&self.contents, &self.budget).map_err(|why| {
            self.problems.report(&self.name, &why.to_string());
            DebugInfoError { file: self.name.clone(), why }
        })
    }
}

/// The debug information of a file is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugInfoError {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub why: OverBudget,
}

impl fmt::Display for DebugInfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

impl std::error::Error for DebugInfoError {}

impl ElfFile {
    pub fn new(elf: Elf, contents: Contents) -> Self {
        Self { elf, contents, debug: OnceLock::new(), symbols: OnceLock::new(), lines: OnceLock::new() }
    }

    /// The file that has its debug information, if that is not itself.
    fn debug(&self, settings: &Settings) -> Option<&Contents> {
        let find = || debug_files::find(&self.elf, &self.contents, &settings.debug_files, &settings.allowed);
        self.debug.get_or_init(find).as_ref()
    }

    fn symbols(&self, settings: &Settings, name: &Path) -> &Symbols {
        self.symbols.get_or_init(|| {
            let files: Vec<&[u8]> = [Some(&self.contents), self.debug(settings)]
                .into_iter()
                .flatten()
                .map(|file| &**file)
                .collect();
            let (symbols, problem) = Symbols::read(&self.elf, &files, &settings.budget);
            settings.report(name, problem);
            symbols
        })
    }

    /// The file that has its lines: itself, or the one that has its debug information.
    pub fn with_lines(&self, settings: &Settings) -> Option<&Contents> {
        let own = Lines::are_in(&self.contents).then_some(&self.contents);
        own.or_else(|| self.debug(settings))
    }

    fn lines(&self, settings: &Settings, name: &Path) -> Option<&Mutex<Lines>> {
        let read = || {
            let lines = Lines::read(self.with_lines(settings)?, &settings.budget);
            lines
                .unwrap_or_else(|problem| {
                    settings.report(name, Some(problem));
                    None
                })
                .map(Mutex::new)
        };
        self.lines.get_or_init(read).as_ref()
    }
}

impl Module {
    pub(crate) fn new(name: &Path, file: Option<Arc<ElfFile>>, bias: u64, range: (Address, Address)) -> Self {
        Self { name: name.to_owned(), file, bias, range }
    }

    /// Its name.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Its headers, if it is an ELF file.
    pub fn elf(&self) -> Option<&Elf> {
        self.file.as_ref().map(|file| &file.elf)
    }

    /// The bytes of the file, if it is an ELF file.
    pub fn contents(&self) -> Option<&Contents> {
        self.file.as_ref().map(|file| &file.contents)
    }

    /// The address in the file's own numbering.
    pub fn file_address(&self, address: Address) -> u64 {
        self.elf().map_or(address.0, |elf| elf.moved(address.0, self.bias.wrapping_neg()))
    }

    /// What was added to the file's own addresses.
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// Its first and last address in memory.
    pub fn range(&self) -> (Address, Address) {
        self.range
    }

    pub(crate) fn contents_with_lines(&self, settings: &Settings) -> Option<&Contents> {
        self.file.as_ref()?.with_lines(settings)
    }

    /// Takes the file that has its contents, so that its names are read again.
    pub(crate) fn take_file_from(&mut self, files: &HashMap<(usize, usize), Arc<ElfFile>>) {
        if let Some(file) = &mut self.file
            && let Some(same) = files.get(&file.contents.identity())
        {
            *file = same.clone();
        }
    }

    fn symbols(&self, settings: &Settings) -> Option<&Symbols> {
        self.file.as_ref().map(|file| file.symbols(settings, &self.name))
    }

    pub(crate) fn symbolise(&self, settings: &Settings, address: Address) -> Option<Symbol<'_>> {
        let entry = self.symbols(settings)?.find(self.file_address(address))?;
        Some(self.symbol(entry, address))
    }

    /// The variable or table at an address.
    pub(crate) fn object(&self, settings: &Settings, address: Address) -> Option<Symbol<'_>> {
        let entry = self.symbols(settings)?.find_object(self.file_address(address))?;
        Some(self.symbol(entry, address))
    }

    fn symbol<'m>(&self, entry: &'m FunctionEntry, address: Address) -> Symbol<'m> {
        let offset = self.file_address(address) - entry.start;
        let start = Address(address.0.wrapping_sub(offset));
        Symbol { name: entry.name(), mangled: &entry.mangled, start, offset }
    }

    pub(crate) fn mapping(&self, settings: &Settings, address: Address) -> Option<Mapping> {
        self.symbols(settings)?.mapping(self.file_address(address))
    }

    pub(crate) fn functions(&self, settings: &Settings) -> impl Iterator<Item = Function<'_>> {
        self.symbols(settings).into_iter().flat_map(Symbols::functions).map(|entry| Function {
            name: entry.name(),
            mangled: &entry.mangled,
            start: Address(self.elf().map_or(entry.start, |elf| elf.moved(entry.start, self.bias))),
            size: entry.size,
        })
    }

    pub(crate) fn source_line(&self, settings: &Settings, address: Address) -> Option<SourceLine> {
        self.with_lines(settings, |lines| lines.find(self.file_address(address)))?
    }

    pub(crate) fn source_row(&self, settings: &Settings, address: Address) -> Option<SourceRow> {
        let row = self.with_lines(settings, |lines| lines.row(self.file_address(address)))??;
        let moved =
            |inside: Address| Address(self.elf().map_or(inside.0, |elf| elf.moved(inside.0, self.bias)));
        Some(SourceRow { start: moved(row.start), end: moved(row.end), ..row })
    }

    pub(crate) fn frames(&self, settings: &Settings, address: Address) -> Option<Vec<Frame>> {
        let frames = self.with_lines(settings, |lines| lines.frames(self.file_address(address)))?;
        (!frames.is_empty()).then_some(frames)
    }

    fn with_lines<T>(
        &self,
        settings: &Settings,
        find: impl FnOnce(&mut Lines) -> Result<T, OverBudget>,
    ) -> Option<T> {
        let lines = self.file.as_ref()?.lines(settings, &self.name)?;
        // A panic while the lock was held cannot have left the tables half made: each is put there in one step.
        let found = find(&mut lines.lock().unwrap_or_else(PoisonError::into_inner));
        found.map_err(|problem| settings.report(&self.name, Some(problem))).ok()
    }

    /// What its debug information is read from, for those who want all of it.
    pub(crate) fn debug_source(&self, settings: &Settings) -> Option<DebugSource> {
        let contents = self.contents_with_lines(settings)?.clone();
        let (budget, problems) = (settings.budget.clone(), settings.problems.clone());
        Some(DebugSource { name: self.name.clone(), contents, budget, problems })
    }
}

impl fmt::Debug for ElfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElfFile").field("elf", &self.elf).finish_non_exhaustive()
    }
}
