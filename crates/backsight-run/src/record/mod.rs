//! Recording: execution goes through a trace unit, and a capture comes out.
//!
//! ```no_run
//! use std::path::{Path, PathBuf};
//! use backsight_run::{ExecutionSource, Recording, SimulatedProgram, UnitKind};
//!
//! let path = Path::new("testdata/programs/riscv64/sort");
//! let mut program = SimulatedProgram::load(path, &std::fs::read(path)?, Default::default())?;
//! let unit = UnitKind::named("etrace").expect("a unit of that name");
//! let settings = [("branch_prediction".to_owned(), "1".to_owned())];
//! let recorded = Recording::new(unit.program(program.isa(), &settings)?)
//!     .title("sort")
//!     .truth(true)
//!     .record(&mut program, Path::new("sort.zip"), &mut |_| {})?;
//! println!("{}: {} instructions", recorded.ending.ended, recorded.instructions);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod code;
mod description;
mod folder;
mod output;
mod system;
mod threads;
mod trace;

use std::num::NonZero;
use std::path::{Path, PathBuf};

use backsight_capture::events::{self, EventLog};
use backsight_capture::{Buffer, Capture, ContextIdLayout, Format};
use backsight_core::{Address, Execution, Isa, RetiredBlocks};

use self::code::RecordedCode;
use self::description::Facts;
use self::folder::{CaptureFolder, DescribeError};
use self::output::TraceOutput;
use self::system::{Step, System};
use self::threads::ThreadUnits;
use self::trace::TraceWriter;
use crate::units::{MessageKind, MessageUnit, UnitFigures, UnitTemplate};
use crate::{Ended, Ending, Error, ExecutionSource, Journal, Observation, Stop};

pub use self::output::EVENT_CAUSES;
pub use self::system::SystemOptions;
/// Name of the file of retired instructions in a capture.
pub use backsight_capture::TRUTH;
/// Instructions between two calls of the one who wants to know how far it is.
const PROGRESS: u64 = 1 << 20;
/// Bytes of trace that are given up first for a description that finds no room.
const FIRST_SACRIFICE: u64 = 1 << 16;

/// What to record, and how.
pub struct Recording {
    unit: Box<dyn UnitTemplate>,
    messages: Option<MessageKind>,
    title: String,
    format: Format,
    truth: bool,
    limit: u64,
    replace: bool,
    given: Vec<GivenCode>,
    system: Option<SystemOptions>,
    events_in_trace: bool,
    two_threads: Option<bool>,
}

/// A file of code that the source does not bring along.
struct GivenCode {
    path: PathBuf,
    contents: Vec<u8>,
    /// What was where in memory. `None`: the file says it.
    parts: Option<Vec<CodePart>>,
}

/// A part of a file that was in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePart {
    /// Where it begins in the file.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// Where it was.
    pub address: Address,
}

impl Recording {
    /// A recording with this unit: a trace package, no limit.
    pub fn new(unit: Box<dyn UnitTemplate>) -> Self {
        Self {
            unit,
            messages: None,
            title: String::new(),
            format: Format::Package,
            truth: false,
            limit: u64::MAX,
            replace: false,
            given: Vec::new(),
            system: None,
            events_in_trace: false,
            two_threads: None,
        }
    }

    /// The units work on a thread of their own, beside that of the source, or not. Without a word about it,
    /// [`record`](Self::record) does so where there is a core for it. What is recorded is the same.
    pub fn two_threads(mut self, two_threads: bool) -> Self {
        self.two_threads = Some(two_threads);
        self
    }

    /// All processes of the program, whose threads take turns on a few CPUs, each with a trace unit; the log has what
    /// came and went, and when. The unit has to be one [`for such systems`](UnitTemplate::for_system).
    pub fn system(mut self, options: Option<SystemOptions>) -> Self {
        self.system = options;
        self
    }

    /// The events of a system are messages of an STM, in one buffer with the trace, and not in a log beside it.
    pub fn events_in_trace(mut self, in_trace: bool) -> Self {
        self.events_in_trace = in_trace;
        self
    }

    /// What the program writes to its standard output and error becomes messages of a source of this kind, in one
    /// formatted buffer with the trace.
    pub fn messages(mut self, kind: Option<MessageKind>) -> Self {
        self.messages = kind;
        self
    }

    /// What is recorded, in words.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// The format of the capture.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Keep everything that the source hands out beside the trace, in [`TRUTH`].
    pub fn truth(mut self, truth: bool) -> Self {
        self.truth = truth;
        self
    }

    /// Stop after so many instructions.
    pub fn limit(mut self, instructions: u64) -> Self {
        self.limit = instructions;
        self
    }

    /// A capture of the same name may be replaced.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Code: an ELF file, loaded where it was linked.
    pub fn program(mut self, path: &Path, contents: Vec<u8>) -> Self {
        self.given.push(GivenCode { path: path.to_owned(), contents, parts: None });
        self
    }

    /// Code: parts of a file that were in memory.
    pub fn memory(mut self, path: &Path, contents: Vec<u8>, parts: Vec<CodePart>) -> Self {
        self.given.push(GivenCode { path: path.to_owned(), contents, parts: Some(parts) });
        self
    }

    /// Records all of a source. The capture is an archive if its name ends in `.zip`, else a folder. `progress` is called
    /// now and then with the number of instructions so far.
    ///
    /// # Errors
    /// If nothing can be recorded; then nothing is left behind. Where writing fails after the beginning there is a
    /// capture of what was recorded until then: see [`Recorded::cut_short`].
    pub fn record(
        mut self,
        source: &mut impl ExecutionSource,
        path: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Recorded, Error> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        self.two_threads.get_or_insert(cores > source.busy_cores());
        let mut recorder = self.start(path, source.isa(), source.has_threads(), source.stop())?;
        let mut shown = 0;
        let ending = source.run_blocks(&mut |seen| {
            recorder.push(&seen);
            if recorder.instructions() - shown >= PROGRESS {
                shown = recorder.instructions();
                progress(shown);
            }
        });
        match ending {
            Ok(ending) => recorder.finish(ending),
            Err(error) => {
                recorder.abandon();
                Err(error)
            }
        }
    }

    /// Begins to write a capture of what will be pushed. `stop` is requested when nothing more is wanted.
    ///
    /// # Errors
    /// If there is a capture of that name already, or it cannot be written.
    pub fn start(self, path: &Path, isa: Isa, threads: bool, stop: Stop) -> Result<Recorder, Error> {
        let folder = CaptureFolder::new(path, self.format, self.replace)?;
        let mut code = RecordedCode::new(&folder.part);
        let given = self.given.iter().try_for_each(|given| match &given.parts {
            None => code.add_program(&given.path, &given.contents),
            Some(parts) => code.add_memory(&given.path, &given.contents, parts),
        });
        let writer = given
            .and_then(|()| {
                let messages = match self.events_in_trace {
                    true => Some(MessageUnit::with_events()),
                    false => self.messages.map(MessageUnit::new),
                };
                ThreadUnits::new(self.unit, threads, messages).map_err(Error::Unit)
            })
            .and_then(|units| TraceOutput::new(&folder.part, units, self.truth.then_some(isa)));
        match writer {
            Ok(output) => Ok(Recorder {
                folder,
                writer: TraceWriter::new(output, self.two_threads.unwrap_or(false)),
                code,
                journal: Journal::new(),
                records: Vec::new(),
                system: self.system.map(System::new),
                contextidr: self.system.map(|system| system.contextidr),
                events_in_trace: self.events_in_trace,
                stop,
                isa,
                title: self.title,
                format: self.format,
                truth: self.truth,
                limit: self.limit,
                is_full: false,
                thread_ids: false,
                trouble: None,
            }),
            Err(error) => {
                folder.abandon();
                Err(error)
            }
        }
    }
}

/// A capture that is being recorded.
pub struct Recorder {
    folder: CaptureFolder,
    writer: TraceWriter,
    code: RecordedCode,
    journal: Journal,
    records: Vec<events::Record>,
    system: Option<System>,
    contextidr: Option<ContextIdLayout>,
    events_in_trace: bool,
    stop: Stop,
    isa: Isa,
    title: String,
    format: Format,
    truth: bool,
    limit: u64,
    /// Nothing more is taken.
    is_full: bool,
    thread_ids: bool,
    trouble: Option<String>,
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// How execution ended.
    pub ending: Ending,
    /// Instructions.
    pub instructions: u64,
    /// Threads, each a source of its own.
    pub threads: usize,
    /// Bytes of trace.
    pub bytes: u64,
    /// What the unit of each thread counted.
    pub figures: Vec<(u32, UnitFigures)>,
    /// Why writing ended before execution did. What was recorded until then is there.
    pub cut_short: Option<String>,
}

impl Recorder {
    /// Takes what is seen of the program.
    pub fn push(&mut self, seen: &Observation<'_>) {
        if self.is_full {
            return;
        }
        if self.system.is_some() {
            return self.push_system(seen);
        }
        match seen {
            Observation::Execution(item) => {
                if self.writer.instructions() >= self.limit && self.is_beyond(item) {
                    return;
                }
                if !self.writer.push(*item) {
                    self.end();
                }
            }
            Observation::Blocks(blocks) => self.push_blocks(blocks),
            other => self.note(other),
        }
    }

    fn push_blocks(&mut self, blocks: &RetiredBlocks<'_>) {
        let instructions = blocks.count();
        if self.writer.instructions() + instructions > self.limit {
            // The limit is reached in the middle of them.
            for retired in blocks.iter().flat_map(|block| block.instructions()) {
                self.push(&Observation::Execution(Execution::Instruction(retired)));
            }
        } else if !self.writer.push_blocks(blocks, instructions) {
            self.end();
        }
    }

    /// Takes what is seen of a system of processes.
    fn push_system(&mut self, seen: &Observation<'_>) {
        let Some(mut system) = self.system.take() else { return };
        if let Observation::Output { stream, bytes } = seen
            && !self.writer.output(*stream, bytes)
        {
            self.end();
        }
        let pushed = system.push(seen, &mut |step| match step {
            Step::Execution(item) => {
                if self.is_full || self.writer.instructions() >= self.limit && self.is_beyond(&item) {
                    return;
                }
                if !self.writer.push(item) {
                    self.end();
                }
            }
            Step::Timestamp(time) => {
                if !self.is_full && !self.writer.request_timestamp(time) {
                    self.end();
                }
            }
        });
        let copied =
            system.take_files().iter().try_for_each(|file| self.code.keep_file(&file.path, &file.name));
        if let Err(error) = pushed.and(copied) {
            self.trouble.get_or_insert(error.to_string());
            self.end();
        }
        if self.events_in_trace {
            self.write_events(&system.take_records());
        }
        self.system = Some(system);
    }

    /// Writes events into the trace.
    fn write_events(&mut self, records: &[events::Record]) {
        for record in records {
            if !self.writer.event(record.time.unwrap_or(0), &record.item) {
                self.end();
            }
        }
    }

    /// The limit is reached. What belongs to the last instruction is still taken.
    #[cold]
    fn is_beyond(&mut self, item: &Execution) -> bool {
        self.stop.request_at_once();
        self.is_full = matches!(item, Execution::Instruction(_) | Execution::Thread(_));
        self.is_full
    }

    #[cold]
    fn end(&mut self) {
        self.is_full = true;
        self.stop.request_at_once();
    }

    #[cold]
    #[inline(never)]
    fn note(&mut self, seen: &Observation<'_>) {
        self.journal.note(None, seen, &mut self.records);
        let noted = match seen {
            Observation::Output { stream, bytes } => {
                if !self.writer.output(*stream, bytes) {
                    self.end();
                }
                Ok(())
            }
            Observation::Map(map) => {
                self.code.map(map);
                Ok(())
            }
            Observation::Unmap { address, length } => {
                self.code.unmap(*address, *length);
                Ok(())
            }
            Observation::Code { address, bytes } => self.code.see(*address, bytes),
            Observation::ThreadStarts { .. } => {
                self.thread_ids = true;
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = noted {
            self.trouble.get_or_insert(error.to_string());
            self.end();
        }
    }

    /// Instructions taken so far.
    #[inline(always)]
    pub fn instructions(&self) -> u64 {
        self.writer.instructions()
    }

    /// Execution ended: describes the capture and gives it its name.
    ///
    /// # Errors
    /// If the description cannot be written.
    pub fn finish(mut self, mut ending: Ending) -> Result<Recorded, Error> {
        if let Some(system) = self.system.as_mut().filter(|_| self.events_in_trace) {
            let records = system.records();
            self.write_events(&records);
        }
        let instructions = self.instructions();
        if ending.ended == Ended::Stopped && instructions >= self.limit {
            ending.ended = Ended::Limit;
        }
        if self.code.changed() > 0 {
            ending.notes.push(format!(
                "code changed at {} addresses while the program ran: the capture keeps the last",
                self.code.changed()
            ));
        }
        let Self { folder, writer, code, records, system, contextidr, events_in_trace, .. } = self;
        let Self { isa, title, format, truth, thread_ids, trouble, .. } = self;
        let mut output = writer.finish();
        let cut_short = output.finish().or(trouble);
        folder.free_reserve();
        let mut written = WrittenTrace {
            folder,
            code,
            records,
            system,
            contextidr,
            events_in_trace,
            isa,
            title,
            format,
            truth,
            thread_ids,
        };
        let capture = written.describe(&mut output)?;
        let recorded = Recorded {
            ending,
            instructions,
            threads: capture.sources.iter().filter(|source| source.core.is_some()).count(),
            bytes: capture.buffers.iter().filter_map(Buffer::length).sum(),
            figures: output.units().figures().collect(),
            cut_short,
        };
        written.folder.finish()?;
        Ok(recorded)
    }

    /// Nothing was recorded that anybody would want: leaves nothing behind.
    pub fn abandon(self) {
        // Nobody writes after this.
        drop(self.writer.finish());
        self.folder.abandon();
    }
}

/// A capture whose trace is written, and whose description is not.
struct WrittenTrace {
    folder: CaptureFolder,
    code: RecordedCode,
    records: Vec<events::Record>,
    system: Option<System>,
    contextidr: Option<ContextIdLayout>,
    events_in_trace: bool,
    isa: Isa,
    title: String,
    format: Format,
    truth: bool,
    thread_ids: bool,
}

impl WrittenTrace {
    /// Writes everything but the trace. Where there is no room for it, the last bytes of the trace make some.
    fn describe(&mut self, output: &mut TraceOutput) -> Result<Capture, Error> {
        let mut sacrifice = FIRST_SACRIFICE;
        loop {
            match self.try_to_describe(output.units()) {
                Ok(capture) => return Ok(capture),
                Err(DescribeError { full: true, .. }) if output.give_up(sacrifice) => sacrifice *= 2,
                Err(DescribeError { error, .. }) => return Err(error),
            }
        }
    }

    fn try_to_describe(&mut self, units: &ThreadUnits) -> Result<Capture, DescribeError> {
        let plain = |error| DescribeError { error, full: false };
        let dumps = self.code.finish().map_err(|error| DescribeError {
            full: matches!(&error, Error::File { error, .. } if folder::is_full(error)),
            error,
        })?;
        if let Some(system) = self.system.as_mut().filter(|_| !self.events_in_trace) {
            self.records = system.records();
        }
        let seen = !self.records.is_empty();
        let facts = Facts {
            folder: &self.folder,
            format: self.format,
            title: self.title.clone(),
            isa: self.isa,
            events: seen.then(|| EventLog { records: self.records.clone(), problems: Vec::new() }),
            thread_ids: self.thread_ids,
            system: self.contextidr,
            truth: self.truth,
        };
        let capture = description::capture(facts, units, &self.code, &dumps).map_err(plain)?;
        self.folder.describe(&capture)?;
        Ok(capture)
    }
}
