//! Where batches go: trace to one file, and what was executed, if wanted, to another.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use backsight_capture::Capture;
use backsight_core::{Execution, Isa, RetiredBlock, RetiredBlocks};

use super::batch::{Batch, Happened, KnownCode};
use super::description::Description;
use super::folder::{CaptureFolder, DescribeError};
use super::threads::ThreadUnits;
use crate::retired::RetiredWriter;
use crate::units::{EventCause, UnitError};
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
/// Time after which fewer are written, too: recording may be interrupted.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes that wait for a description at most.
const MOST_WAITING: usize = 1 << 24;
/// Bytes of trace that are given up first for a description that finds no room.
const FIRST_SACRIFICE: u64 = 1 << 16;
/// Steps of execution after which the bytes of a unit are handed on, where several travel together.
const PORTION: usize = 4096;

type TruthWriter = RetiredWriter<BufWriter<File>>;

/// Where batches go.
pub struct TraceOutput {
    units: ThreadUnits,
    /// Steps of execution since bytes were handed on.
    since: usize,
    /// The instructions of a block that does not go to its unit in one piece.
    single: Vec<Execution>,
    folder: PathBuf,
    description: Description,
    /// A file for each stream.
    traces: Vec<File>,
    /// When all streams were written.
    written: Instant,
    truth: Option<TruthWriter>,
    /// The causes of events, as soon as there are any.
    causes: Option<BufWriter<File>>,
    trouble: Option<String>,
}

impl TraceOutput {
    /// Writes into the folder of a capture, and describes it.
    pub fn new(
        description: Description,
        units: ThreadUnits,
        truth: Option<Isa>,
    ) -> Result<Self, Box<(Description, Error)>> {
        let folder = description.folder.part.clone();
        match Self::create(&folder, truth) {
            Ok((trace, truth)) => Ok(Self {
                units,
                since: 0,
                single: Vec::new(),
                folder,
                description,
                traces: vec![trace],
                written: Instant::now(),
                truth,
                causes: None,
                trouble: None,
            }),
            Err(error) => Err(Box::new((description, error))),
        }
    }

    fn create(folder: &Path, truth: Option<Isa>) -> Result<(File, Option<TruthWriter>), Error> {
        let truth = match truth {
            Some(isa) => {
                let file = BufWriter::new(create(folder, TRUTH)?);
                // A file without its header is none.
                let writer = RetiredWriter::new(file, isa)
                    .and_then(|mut writer| writer.flush().map(|()| writer))
                    .map_err(|error| Error::file(TRUTH, error))?;
                Some(writer)
            }
            None => None,
        };
        Ok((create(folder, &trace_name(0))?, truth))
    }

    /// The units.
    pub fn units(&self) -> &ThreadUnits {
        &self.units
    }

    /// Has something gone wrong? Then nothing more is taken.
    pub fn has_failed(&self) -> bool {
        self.trouble.is_some()
    }

    /// Takes a batch. `known` is the code that came with it and with those before.
    pub fn take(&mut self, batch: &Batch, known: &mut KnownCode) {
        if self.has_failed() {
            return;
        }
        batch.give(known, |happened| match happened {
            Happened::Items(items) => self.take_items(items),
            Happened::Blocks(blocks) => self.take_blocks(&blocks),
            Happened::Output { stream, bytes } => self.between(|units| units.output(stream, bytes)),
            Happened::Event { time, item } => self.between(|units| units.event(time, item)),
            Happened::Timestamp { time } => self.between(|units| units.request_timestamp(time)),
            Happened::Time { time } => self.units.set_time(time),
        });
        self.write_ready();
    }

    /// Writes what is ready to files. False: nothing more can be written.
    pub fn write_ready(&mut self) -> bool {
        self.write_causes();
        let most = self.units.streams().map(|bytes| bytes.len()).max().unwrap_or(0);
        let is_late = self.written.elapsed() >= PAUSE;
        if most >= PIECE || is_late {
            self.open_streams();
            match self.description.keep_up(&self.units, most >= MOST_WAITING) {
                Ok(true) => self.write(if is_late { 0 } else { PIECE }),
                Ok(false) => {}
                Err(error) => self.fail(error.to_string()),
            }
        }
        !self.has_failed()
    }

    /// Makes the files of streams that are new: a description names them.
    fn open_streams(&mut self) {
        for number in self.traces.len()..self.units.streams().count() {
            match create(&self.folder, &trace_name(number)) {
                Ok(file) => self.traces.push(file),
                Err(error) => return self.fail(error.to_string()),
            }
        }
    }

    /// Does something; what goes wrong ends everything.
    fn attempt(&mut self, act: impl FnOnce(&mut ThreadUnits) -> Result<(), UnitError>) {
        if let Err(error) = act(&mut self.units) {
            self.fail(error.to_string());
        }
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, error: String) {
        self.trouble.get_or_insert(error);
    }

    fn take_items(&mut self, mut items: &[Execution]) {
        if let Some(truth) = &mut self.truth
            && let Err(error) = items.iter().try_for_each(|item| truth.push(item))
        {
            self.trouble = Some(format!("{TRUTH}: {error}"));
        }
        if !self.units.is_framed() {
            return self.attempt(|units| units.push(items));
        }
        while !items.is_empty() {
            let (now, later) = items.split_at(items.len().min(PORTION - self.since));
            self.attempt(|units| units.push(now));
            self.since += now.len();
            if self.since == PORTION {
                self.end_portion();
            }
            items = later;
        }
    }

    /// Takes blocks that were executed.
    pub fn take_blocks(&mut self, blocks: &RetiredBlocks<'_>) {
        if !self.units.is_framed() {
            return self.take_whole_blocks(blocks);
        }
        // All blocks that are in a portion from their first instruction to their last go to the units at once.
        let mut rest = *blocks;
        while let Some((block, others)) = rest.split_first() {
            let fits = |block: &RetiredBlock<'_>| {
                let fits = self.since + block.code.len() < PORTION;
                self.since += if fits { block.code.len() } else { 0 };
                fits
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count());
            if now.steps.is_empty() {
                self.take_single(&block);
                rest = others;
            } else {
                self.take_whole_blocks(&now);
                rest = later;
            }
        }
    }

    fn take_whole_blocks(&mut self, blocks: &RetiredBlocks<'_>) {
        if let Some(truth) = &mut self.truth
            && let Err(error) = blocks.iter().try_for_each(|block| truth.push_block(&block))
        {
            self.trouble = Some(format!("{TRUTH}: {error}"));
        }
        self.attempt(|units| units.push_blocks(blocks));
    }

    /// A portion ends in the middle of a block.
    #[cold]
    fn take_single(&mut self, block: &RetiredBlock<'_>) {
        let mut single = std::mem::take(&mut self.single);
        single.clear();
        single.extend(block.instructions().map(Execution::Instruction));
        self.take_items(&single);
        self.single = single;
    }

    /// Does something to the units that is no execution.
    fn between(&mut self, act: impl FnOnce(&mut ThreadUnits) -> Result<(), UnitError>) {
        self.end_portion();
        self.attempt(act);
    }

    fn end_portion(&mut self) {
        self.since = 0;
        self.attempt(ThreadUnits::hand_on);
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
        if least == 0 {
            self.written = Instant::now();
            if let Some(Err(error)) = self.truth.as_mut().map(RetiredWriter::flush) {
                self.fail(format!("{TRUTH}: {error}"));
            }
        }
        for (number, bytes) in self.units.streams().enumerate() {
            if bytes.len() < least {
                continue;
            }
            if let Some(Err(error)) = self.traces.get_mut(number).map(|file| file.write_all(bytes)) {
                self.trouble.get_or_insert(format!("{}: {error}", trace_name(number)));
            }
            bytes.clear();
        }
    }

    /// Writes what there is to say at the end. Gives what went wrong, now or before.
    pub fn finish(&mut self) -> Option<String> {
        self.end_portion();
        self.attempt(ThreadUnits::finish);
        self.write_causes();
        if let Some(Err(error)) = self.causes.take().map(|mut file| file.flush()) {
            self.trouble.get_or_insert(format!("{EVENT_CAUSES}: {error}"));
        }
        self.open_streams();
        // The last description may find room where this one does not.
        let _ = self.description.keep_up(&self.units, true);
        self.write(0);
        if let Some(truth) = self.truth.take()
            && let Err(error) = truth.finish().and_then(|file| file.into_inner().map_err(io::Error::from))
        {
            self.trouble.get_or_insert(format!("{TRUTH}: {error}"));
        }
        self.trouble.take()
    }

    /// Describes all that was written. Where there is no room for it, the last bytes of the trace make some.
    pub fn describe(&mut self) -> Result<Capture, Error> {
        self.description.folder.free_reserve();
        let mut sacrifice = FIRST_SACRIFICE;
        loop {
            match self.description.write(&self.units, true) {
                Ok(capture) => return Ok(capture),
                Err(DescribeError { full: true, .. }) if self.give_up(sacrifice) => sacrifice *= 2,
                Err(DescribeError { error, .. }) => return Err(error),
            }
        }
    }

    /// The folder that was written to.
    pub fn into_folder(self) -> CaptureFolder {
        self.description.folder
    }

    /// Gives up the last bytes of the longest stream, so that there is room for what must not be missing. False: there is
    /// nothing left to give up.
    fn give_up(&mut self, bytes: u64) -> bool {
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
