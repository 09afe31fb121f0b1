//! Where results go: standard output or a file, buffered; a closed pipe ends the program quietly.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use backsight::listing::Printable;

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

/// A number of things: `1 buffer`, `2 buffers`.
pub fn counted(count: impl Into<u64>, thing: &str) -> String {
    let count = count.into();
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A buffered stream of results.
pub struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    name: PathBuf,
}

impl Output {
    /// Opens `path`, or standard output for `None` and `-`, for text that people read: coloured on a terminal.
    pub fn for_people(path: Option<&Path>) -> Result<Self> {
        let Self { writer, name } = Self::open(path)?;
        let to_file = path.is_some_and(|path| path != Path::new("-"));
        if to_file || !color::is_wanted(&io::stdout()) {
            return Ok(Self { writer, name });
        }
        let writer: Box<dyn Write + Send> = Box::new(Highlighter::new(writer));
        Ok(Self { writer: BufWriter::with_capacity(1 << 16, writer), name })
    }

    /// Opens `path`, or standard output for `None` and `-`.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let (inner, name): (Box<dyn Write + Send>, PathBuf) = match path {
            Some(path) if path != Path::new("-") => {
                let file = File::create(path).map_err(|error| Failure::file(path, &error))?;
                (Box::new(file), path.to_owned())
            }
            _ => (Box::new(io::stdout()), "standard output".into()),
        };
        Ok(Self { writer: BufWriter::with_capacity(1 << 16, inner), name })
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

    /// Writes through `write`, with its error turned into a failure of the program.
    pub fn put(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result {
        write(&mut self.writer).map_err(|error| self.failure(&error))
    }
}
