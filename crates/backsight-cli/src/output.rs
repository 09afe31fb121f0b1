//! Where results go: standard output or a file, buffered; a closed pipe ends the program quietly.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use backsight::listing::Printable;

use crate::failure::{Failure, Result};

/// Says something to the user: lines on standard error. Names in it may come from a capture: whatever would move a
/// terminal's cursor or change its colours is escaped. Where nobody listens any more, that is no reason to fail.
pub fn say(words: impl Display) {
    let words = words.to_string();
    let lines: Vec<_> = words.split('\n').map(|line| Printable(line).to_string()).collect();
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}

/// A buffered stream of results.
pub struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    name: PathBuf,
}

impl Output {
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
