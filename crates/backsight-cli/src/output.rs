//! Where results go. All commands write through this: standard output, or files and folders that are whole or absent.

mod inputs;
mod signals;
mod visible;

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use backsight::decode::Written;
pub use backsight::listing::counted;
use backsight::listing::{Escape, Put, first_lines};
use backsight_capture::whole::{FilesInFolder, WholeFile, is_taken};
use backsight_core::Printable;

use crate::color::{self, Highlighter};
use crate::failure::{Failure, Result};
pub use inputs::Inputs;
pub use signals::give_up_on_signals;
use visible::VisibleWriter;

/// Says something to the user: lines on standard error. Names in it may come from a capture: whatever would move a
/// terminal's cursor or change its colours is escaped. Where nobody listens any more, that is no reason to fail.
pub fn say(words: impl Display) {
    let words = words.to_string();
    // A warning is one line, whatever names are in it.
    let lines = if words.starts_with("warning: ") { vec![&*words] } else { words.split('\n').collect() };
    let lines = lines.into_iter().map(|line| Printable(line).to_string());
    let colored = color::is_wanted(&io::stderr());
    let lines: Vec<_> = lines.map(|line| if colored { color::message(&line) } else { line }).collect();
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}

/// Where bytes go in the end.
enum Target {
    /// Standard output, a pipe or a device: what is written is gone.
    Direct(Box<dyn Write + Send>),
    /// A file, which gets its name at the end.
    Whole(WholeFile),
}

impl Target {
    fn stream(&mut self) -> &mut dyn Write {
        match self {
            Self::Direct(stream) => stream,
            Self::Whole(file) => file,
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream().flush()
    }
}

/// A buffered stream of results. A file is there when [`Output::finish`] is done, and not before.
pub struct Output {
    writer: BufWriter<VisibleWriter<Target>>,
    name: PathBuf,
    is_terminal: bool,
    /// Lines that may yet be written.
    lines_left: Option<u64>,
}

impl Output {
    /// Opens `path`, or standard output for `None` and `-`, for text that people read: coloured on a terminal.
    pub fn for_people(path: Option<&Path>, inputs: &Inputs) -> Result<Self> {
        Self::with(path, inputs, Escape::Text, true)
    }

    /// Opens `path`, or standard output for `None` and `-`, for tables without colours, or for JSON.
    pub fn for_tables(path: Option<&Path>, inputs: &Inputs, is_json: bool) -> Result<Self> {
        Self::with(path, inputs, if is_json { Escape::Json } else { Escape::Text }, false)
    }

    /// Opens `path`, or standard output for `None` and `-`, for bytes that are written as they are.
    pub fn open(path: Option<&Path>, inputs: &Inputs) -> Result<Self> {
        Self::with(path, inputs, Escape::Nothing, false)
    }

    fn with(path: Option<&Path>, inputs: &Inputs, escape: Escape, colored: bool) -> Result<Self> {
        let (target, name, is_terminal) = match path.filter(|path| *path != Path::new("-")) {
            Some(path) => {
                inputs.refuse_file(path)?;
                let target = open_target(path).map_err(|error| Failure::file(path, &error))?;
                let is_terminal = matches!(&target, Ok(file) if file.is_terminal());
                let target = match target {
                    Ok(file) => Target::Direct(Box::new(file)),
                    Err(file) => Target::Whole(file),
                };
                (target, path.to_owned(), is_terminal)
            }
            None if colored && color::is_wanted(&io::stdout()) => {
                let target = Target::Direct(Box::new(Highlighter::new(io::stdout())));
                (target, "standard output".into(), io::stdout().is_terminal())
            }
            None => {
                let target = Target::Direct(Box::new(io::stdout()));
                (target, "standard output".into(), io::stdout().is_terminal())
            }
        };
        let writer = BufWriter::with_capacity(1 << 16, VisibleWriter::new(target, escape));
        Ok(Self { writer, name, is_terminal, lines_left: None })
    }

    /// The same, for so many lines by [`Output::put_lines`]; `None`: as many as there are.
    pub fn limit(self, lines: Option<u64>) -> Self {
        Self { lines_left: lines, ..self }
    }

    /// Does somebody watch the results as they are written?
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// All results are written: a file gets its name. What is dropped without this is not there.
    pub fn finish(mut self) -> Result {
        self.writer.flush().map_err(|error| self.failure(&error))?;
        let Self { writer, name, .. } = self;
        match writer.into_inner().map(VisibleWriter::into_inner) {
            Ok(Target::Whole(file)) => file.finish().map_err(|error| not_written(&name, &error)),
            Ok(Target::Direct(_)) => Ok(()),
            Err(error) => Err(not_written(&name, error.error())),
        }
    }

    /// Turns an error of writing into a failure of the program.
    pub fn failure(&self, error: &io::Error) -> Failure {
        match (error.kind(), self.writer.get_ref().get_ref()) {
            (io::ErrorKind::BrokenPipe, _) => Failure::PipeClosed,
            (_, Target::Whole(_)) => not_written(&self.name, error),
            (_, Target::Direct(_)) => Failure::file(&self.name, error),
        }
    }

    /// Writes lines, each with its end. After as many as there may be: [`Failure::Enough`].
    pub fn put_lines(&mut self, mut lines: &[u8]) -> Result {
        if let Some(left) = &mut self.lines_left {
            lines = first_lines(lines, left);
        }
        self.put(|out| out.write_all(lines))?;
        if self.lines_left == Some(0) { Err(Failure::Enough) } else { Ok(()) }
    }

    /// Writes through `write`, with its error turned into a failure of the program.
    pub fn put(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result {
        write(&mut self.writer).map_err(|error| self.failure(&error))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A file of results that is gone back to while it is written. It is there when [`WholeOutput::finish`] is done, and not before.
pub struct WholeOutput {
    file: BufWriter<WholeFile>,
    name: PathBuf,
}

impl WholeOutput {
    /// Begins the file at `path`.
    pub fn create(path: &Path, inputs: &Inputs) -> Result<Self> {
        inputs.refuse_file(path)?;
        // A device or a pipe would be replaced.
        if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) || is_open_already(path)
        {
            return Err(Failure::usage(format!(
                "{}: no regular file, and what is written has to be gone back to",
                path.display()
            )));
        }
        let file = WholeFile::create(path).map_err(|error| Failure::file(path, &error))?;
        Ok(Self { file: BufWriter::with_capacity(1 << 16, file), name: path.to_owned() })
    }

    /// What is written to.
    pub fn file(&mut self) -> &mut BufWriter<WholeFile> {
        &mut self.file
    }

    /// All results are written: the file gets its name.
    pub fn finish(self) -> Result {
        let file = self.file.into_inner().map_err(|error| not_written(&self.name, error.error()))?;
        file.finish().map_err(|error| not_written(&self.name, &error))
    }
}

/// A listing of the library, with what it writes put out by `put`: the failure of that is the outcome.
pub fn listed<T>(
    list: impl FnOnce(Put<'_>) -> backsight::Result<Option<T>>,
    put: &mut dyn FnMut(Written<'_>) -> Result,
) -> Result<T> {
    let mut failure = None;
    let found = list(&mut |written| match put(written) {
        Ok(()) => ControlFlow::Continue(()),
        Err(refused) => {
            failure = Some(refused);
            ControlFlow::Break(())
        }
    })?;
    found.ok_or_else(|| failure.unwrap_or(Failure::Enough))
}

/// What is at a place that results cannot be written to: as it was.
pub fn not_written(place: &Path, error: &dyn Display) -> Failure {
    if place == Path::new("-") {
        return Failure::new(format!("standard output: {error}"));
    }
    let before =
        if fs::symlink_metadata(place).is_ok() { "; what was there before is unchanged" } else { "" };
    Failure::new(format!("{}: nothing was written: {error}{before}", place.display()))
}

/// A file that is written directly, if a device, a pipe or something that is open already is there; else one that is whole
/// or absent.
fn open_target(path: &Path) -> io::Result<std::result::Result<File, WholeFile>> {
    let special = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if special || is_open_already(path) {
        return File::options().append(true).open(path).map(Ok);
    }
    WholeFile::create(path).map(Err)
}

/// Is it a name for something that is open already, like /dev/stdout and /dev/fd/3?
fn is_open_already(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
    fs::read_link(path).is_ok_and(|target| target.starts_with("/proc"))
        || folder.is_some_and(|folder| folder.starts_with("/proc"))
}

/// Puts files into a folder, all of them or none. `replace`: the folder may have something in it; files of the same names are
/// replaced, others stay.
pub fn put_files<'f>(
    folder: &Path,
    replace: bool,
    inputs: &Inputs,
    files: impl IntoIterator<Item = (&'f str, &'f [u8])>,
) -> Result {
    if !replace && is_taken(folder) {
        return Err(Failure::new(format!(
            "{}: exists; choose another name, or replace the files in it with --force",
            folder.display()
        )));
    }
    let failed = |error: io::Error| not_written(folder, &error);
    let mut output = FilesInFolder::create(folder).map_err(failed)?;
    for (name, contents) in files {
        inputs.refuse_file(&folder.join(name))?;
        output.file(name, contents).map_err(failed)?;
    }
    output.finish().map_err(failed)
}
