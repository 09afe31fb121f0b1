//! Files of retired instructions as a source.

use std::io::Read;

use backsight_core::{Execution, ExecutionSink, Isa, RetiredBlock, RetiredBlocks};

use crate::retired::{RetiredError, RetiredReader};
use crate::{Ended, Ending, Error, ExecutionSource, Observation, Stop};

/// Items between two looks at the request to stop.
const PIECE: usize = 1 << 12;

/// A file of retired instructions.
pub struct RetiredFile<'r> {
    name: String,
    reader: RetiredReader<'r>,
    threads: bool,
    stop: Stop,
}

impl<'r> RetiredFile<'r> {
    /// Opens a file that can be opened again: it is looked through once for its threads. `name` is for messages.
    ///
    /// # Errors
    /// If it cannot be opened, or is no file of retired instructions. What is wrong further on shows when it is run.
    pub fn open<R: Read + Send + 'r>(
        name: &str,
        mut open: impl FnMut() -> Result<R, Error>,
    ) -> Result<Self, Error> {
        let failed = |error| Error::Retired { name: name.to_owned(), error };
        let threads = has_threads(RetiredReader::new(open()?).map_err(failed)?);
        let reader = RetiredReader::new(open()?).map_err(failed)?;
        Ok(Self { name: name.to_owned(), reader, threads, stop: Stop::new() })
    }

    /// Reads piece by piece, until the end or a request to stop.
    fn read(
        &mut self,
        mut piece: impl FnMut(&mut RetiredReader<'r>) -> Result<bool, RetiredError>,
    ) -> Result<Ending, Error> {
        while !self.stop.is_requested() {
            let more = piece(&mut self.reader);
            if !more.map_err(|error| Error::Retired { name: self.name.clone(), error })? {
                return Ok(Ended::EndOfFile.into());
            }
        }
        Ok(Ended::Stopped.into())
    }
}

/// Are there several threads, as far as the file can be read?
fn has_threads(mut reader: RetiredReader<'_>) -> bool {
    let mut threads = false;
    while !threads {
        let sink = &mut |item| threads |= matches!(item, Execution::Thread(1..));
        if !matches!(reader.read_some(PIECE, sink), Ok(true)) {
            break;
        }
    }
    threads
}

/// What is read, as observations.
struct Observed<'a>(&'a mut dyn FnMut(Observation<'_>));

impl ExecutionSink for Observed<'_> {
    #[inline]
    fn item(&mut self, item: Execution) {
        (self.0)(Observation::Execution(item));
    }

    #[inline]
    fn block(&mut self, block: &RetiredBlock<'_>) {
        RetiredBlocks::of_one(block, |blocks| (self.0)(Observation::Blocks(blocks)));
    }
}

impl ExecutionSource for RetiredFile<'_> {
    fn isa(&self) -> Isa {
        self.reader.isa()
    }

    fn has_threads(&self) -> bool {
        self.threads
    }

    fn stop(&self) -> Stop {
        self.stop.clone()
    }

    fn run(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        let mut each = |item| sink(Observation::Execution(item));
        self.read(|reader| reader.read_some(PIECE, &mut each))
    }

    fn run_blocks(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        let mut observed = Observed(sink);
        self.read(|reader| reader.read_blocks(PIECE, &mut observed))
    }
}
