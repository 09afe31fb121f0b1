//! Where results go: standard output or a file, buffered; a closed pipe ends the program quietly.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use backsight::listing::Printable;
pub use backsight::listing::counted;

use crate::color::{self, Highlighter};
use crate::failure::{Failure, Result};

/// Says something to the user: lines on standard error. Names in it may come from a capture: whatever would move a
/// terminal's cursor or change its colours is escaped. Where nobody listens any more, that is no reason to fail.
pub fn say(words: impl Display) {
    let words = words.to_string();
    let lines = words.split('\n').map(|line| Printable(line).to_string());
    let colored = color::is_wanted(&io::stderr());
    let lines: Vec<_> = lines.map(|line| if colored { color::message(&line) } else { line }).collect();
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}

/// A buffered stream of results.
pub struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    name: PathBuf,
    is_terminal: bool,
    /// Lines that may yet be written.
    lines_left: Option<u64>,
}

impl Output {
    /// Opens `path`, or standard output for `None` and `-`, for text that people read: coloured on a terminal.
    pub fn for_people(path: Option<&Path>) -> Result<Self> {
        let output = Self::open(path)?;
        let to_file = path.is_some_and(|path| path != Path::new("-"));
        if to_file || !color::is_wanted(&io::stdout()) {
            return Ok(output);
        }
        let writer: Box<dyn Write + Send> = Box::new(Highlighter::new(output.writer));
        Ok(Self { writer: BufWriter::with_capacity(1 << 16, writer), ..output })
    }

    /// Opens `path`, or standard output for `None` and `-`.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let (inner, name, is_terminal): (Box<dyn Write + Send>, PathBuf, bool) = match path {
            Some(path) if path != Path::new("-") => {
                let file = File::create(path).map_err(|error| Failure::file(path, &error))?;
                let is_terminal = file.is_terminal();
                (Box::new(file), path.to_owned(), is_terminal)
            }
            _ => (Box::new(io::stdout()), "standard output".into(), io::stdout().is_terminal()),
        };
        let writer = BufWriter::with_capacity(1 << 16, inner);
        Ok(Self { writer, name, is_terminal, lines_left: None })
    }

    /// Can `path` be written to? To be asked before work that takes long: nothing is created or changed.
    pub fn check(path: Option<&Path>) -> Result {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let checked = match std::fs::metadata(path) {
            Ok(known) if known.is_file() => File::options().write(true).open(path).map(drop),
            // Whoever reads from a pipe would take it for the end.
            Ok(_) => Ok(()),
            Err(_) => std::fs::metadata(folder.unwrap_or(Path::new("."))).map(drop),
        };
        checked.map_err(|error| Failure::file(path, &error))
    }

    /// The same, for so many lines by [`Output::put_lines`]; `None`: as many as there are.
    pub fn limit(self, lines: Option<u64>) -> Self {
        Self { lines_left: lines, ..self }
    }

    /// Does somebody watch the results as they are written?
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes everything that is buffered. To be called at the end: a full disk must not go unnoticed.
    pub fn finish(mut self) -> Result {
        self.writer.flush().map_err(|error| self.failure(&error))
    }

    /// Turns an error of writing into a failure of the program.
    pub fn failure(&self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::PipeClosed,
            _ => Failure::file(&self.name, error),
        }
    }

    /// Writes lines, each with its end. After as many as there may be: [`Failure::Enough`].
    pub fn put_lines(&mut self, mut lines: &[u8]) -> Result {
        if let Some(left) = &mut self.lines_left {
            let ends = lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
            let wanted: Vec<usize> = ends.take(usize::try_from(*left).unwrap_or(usize::MAX)).collect();
            *left -= wanted.len() as u64;
            if *left == 0 {
                lines = &lines[..wanted.last().copied().unwrap_or(0)];
            }
        }
        self.put(|out| out.write_all(lines))?;
        if self.lines_left == Some(0) { Err(Failure::Enough) } else { Ok(()) }
    }

    /// Writes through `write`, with its error turned into a failure of the program.
    pub fn put(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result {
        write(&mut self.writer).map_err(|error| self.failure(&error))
    }
}
