//! What was executed goes in; trace goes to one file, and the instructions themselves, if wanted, to another.
//!
//! Units take many steps of execution at a time: one call for all of them costs next to nothing.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use backsight_capture::events::Item;
use backsight_core::{Execution, Isa};

use super::threads::ThreadUnits;
use crate::retired::RetiredWriter;
use crate::units::EventCause;
use crate::{Error, TRUTH};

/// Name of the file of a capture with the instructions that caused events, where the core is modelled.
pub const EVENT_CAUSES: &str = "event-causes.csv";

/// The name of a stream of trace in a capture.
pub fn trace_name(stream: usize) -> String {
    match stream {
        0 => "trace.bin".to_owned(),
        number => format!("trace-{number}.bin"),
    }
}

/// Trace bytes that are written at a time.
const PIECE: usize = 1 << 16;
/// Steps of execution that units take at a time: as many as fit the nearest cache.
const BATCH: usize = 256;

/// Writes trace, and what it was made from.
pub struct TraceWriter {
    pub units: ThreadUnits,
    batch: Vec<Execution>,
    folder: PathBuf,
    /// A file for each stream.
    traces: Vec<File>,
    truth: Option<RetiredWriter<BufWriter<File>>>,
    /// The causes of events, as soon as there are any.
    causes: Option<BufWriter<File>>,
    instructions: u64,
    trouble: Option<String>,
}

impl TraceWriter {
    /// Writes into `folder`.
    pub fn new(folder: &Path, units: ThreadUnits, truth: Option<Isa>) -> Result<Self, Error> {
        let truth = match truth {
            Some(isa) => {
                let file = BufWriter::new(create(folder, TRUTH)?);
                Some(RetiredWriter::new(file, isa).map_err(|error| Error::file(TRUTH, error))?)
            }
            None => None,
        };
        Ok(Self {
            units,
            batch: Vec::with_capacity(BATCH),
            folder: folder.to_owned(),
            traces: vec![create(folder, &trace_name(0))?],
            truth,
            causes: None,
            instructions: 0,
            trouble: None,
        })
    }

    /// One step of execution. False: nothing more can be written.
    #[inline(always)]
    pub fn push(&mut self, item: Execution) -> bool {
        self.instructions += u64::from(matches!(item, Execution::Instruction(_)));
        self.batch.push(item);
        if self.batch.len() == BATCH { self.take_batch() } else { true }
    }

    /// The program wrote to its standard output or error, after what it executed so far. False: nothing more can be
    /// written.
    pub fn output(&mut self, stream: u8, bytes: &[u8]) -> bool {
        if !self.units.has_messages() {
            return true;
        }
        let goes_on = self.take_batch();
        if let Err(error) = self.units.output(stream, bytes) {
            self.trouble.get_or_insert(error);
        }
        goes_on && self.trouble.is_none()
    }

    /// The operating system did something at a time, after what was executed so far. False: nothing more can be written.
    pub fn event(&mut self, time: u64, item: &Item) -> bool {
        let goes_on = self.take_batch();
        if let Err(error) = self.units.event(time, item) {
            self.trouble.get_or_insert(error);
        }
        goes_on && self.trouble.is_none()
    }

    /// The unit that watches what was executed last writes a timestamp. False: nothing more can be written.
    pub fn request_timestamp(&mut self, time: u64) -> bool {
        let goes_on = self.take_batch();
        if let Err(error) = self.units.request_timestamp(time) {
            self.trouble.get_or_insert(error);
        }
        goes_on && self.trouble.is_none()
    }

    #[inline(never)]
    fn take_batch(&mut self) -> bool {
        if self.trouble.is_some() {
            self.batch.clear();
            return false;
        }
        if let Some(truth) = &mut self.truth
            && let Err(error) = self.batch.iter().try_for_each(|item| truth.push(item))
        {
            self.trouble = Some(format!("{TRUTH}: {error}"));
        }
        if let Err(error) = self.units.push(&self.batch) {
            self.trouble = Some(error);
        }
        self.batch.clear();
        self.write_causes();
        self.write(PIECE);
        self.trouble.is_none()
    }

    fn write_causes(&mut self) {
        let Self { units, causes, folder, .. } = self;
        let written = units.take_causes().try_for_each(|(thread, cause)| {
            if causes.is_none() {
                let mut file = BufWriter::new(File::create(folder.join(EVENT_CAUSES))?);
                writeln!(file, "{}", EventCause::HEADER)?;
                *causes = Some(file);
            }
            causes.iter_mut().try_for_each(|file| write!(file, "{}", cause.lines(thread)))
        });
        if let Err(error) = written {
            self.trouble.get_or_insert(format!("{EVENT_CAUSES}: {error}"));
        }
    }

    /// Writes the streams that have at least so many bytes ready.
    fn write(&mut self, least: usize) {
        for (number, bytes) in self.units.streams().enumerate() {
            if bytes.len() < least {
                continue;
            }
            let name = trace_name(number);
            if number == self.traces.len() {
                match create(&self.folder, &name) {
                    Ok(file) => self.traces.push(file),
                    Err(error) => drop(self.trouble.get_or_insert(error.to_string())),
                }
            }
            if let Some(Err(error)) = self.traces.get_mut(number).map(|file| file.write_all(bytes)) {
                self.trouble.get_or_insert(format!("{name}: {error}"));
            }
            bytes.clear();
        }
    }

    /// Instructions seen so far.
    #[inline(always)]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Writes what there is to say at the end. Gives what went wrong, now or before.
    pub fn finish(&mut self) -> Option<String> {
        self.take_batch();
        if let Err(error) = self.units.finish() {
            self.trouble.get_or_insert(error);
        }
        self.write_causes();
        if let Some(Err(error)) = self.causes.take().map(|mut file| file.flush()) {
            self.trouble.get_or_insert(format!("{EVENT_CAUSES}: {error}"));
        }
        self.write(0);
        if let Some(truth) = self.truth.take()
            && let Err(error) = truth.finish().and_then(|file| file.into_inner().map_err(io::Error::from))
        {
            self.trouble.get_or_insert(format!("{TRUTH}: {error}"));
        }
        self.trouble.take()
    }

    /// Gives up the last bytes of the longest stream, so that there is room for what must not be missing. False: there is
    /// nothing left to give up.
    pub fn give_up(&mut self, bytes: u64) -> bool {
        let length = |file: &File| file.metadata().map_or(0, |file| file.len());
        let longest = self.traces.iter().max_by_key(|file| length(file));
        longest.is_some_and(|file| {
            let length = length(file);
            length > 0 && file.set_len(length.saturating_sub(bytes)).is_ok()
        })
    }
}

fn create(folder: &Path, name: &str) -> Result<File, Error> {
    let path = folder.join(name);
    File::create(&path).map_err(|error| Error::file(path, error))
}
