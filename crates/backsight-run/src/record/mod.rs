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
mod known;
mod output;
mod system;
mod threads;
mod trace;

use std::num::NonZero;
use std::path::{Path, PathBuf};

use backsight_capture::events;
use backsight_capture::{Buffer, Format};
use backsight_core::{Address, Execution, Isa, RetiredBlocks};

use self::code::RecordedCode;
use self::description::{Description, Facts};
use self::folder::CaptureFolder;
use self::known::SharedKnown;
use self::output::TraceOutput;
use self::system::{LogNews, System, SystemItem};
use self::threads::ThreadUnits;
use self::trace::TraceWriter;
use crate::qemu::QemuError;
use crate::units::{MessageKind, MessageUnit, UnitFigures, UnitTemplate};
use crate::{Ended, Ending, Error, ExecutionSource, Journal, Observation, Stop};

pub use self::output::EVENT_CAUSES;
pub use self::system::SystemOptions;
/// Name of the file of retired instructions in a capture.
pub use backsight_capture::TRUTH;
/// Instructions between two calls of the one who wants to know how far it is.
const PROGRESS: u64 = 1 << 20;

/// What to record, and how.
pub struct Recording {
    unit: Box<dyn UnitTemplate>,
    messages: Option<MessageKind>,
    title: String,
    format: Format,
    truth: bool,
    limit: u64,
    replace: bool,
    remove_on_signal: bool,
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
            remove_on_signal: false,
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

    /// What is not complete when a signal ends the program is removed
    /// ([`whole::give_up_all`](backsight_capture::whole::give_up_all)), because the source can be read again. Else it stays.
    pub fn remove_on_signal(mut self, remove: bool) -> Self {
        self.remove_on_signal = remove;
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
        source: &mut dyn ExecutionSource,
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
            // QEMU ran, and cannot be heard any more.
            Err(error @ Error::Qemu(QemuError::Stream(_))) if recorder.instructions() > 0 => {
                recorder.trouble.get_or_insert(error.to_string());
                recorder.finish(Ended::Stopped.into())
            }
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
        let folder = CaptureFolder::new(path, self.format, self.replace, self.remove_on_signal)?;
        let mut code = RecordedCode::new(&folder.part);
        let given = self.given.iter().try_for_each(|given| match &given.parts {
            None => code.add_program(&given.path, &given.contents),
            Some(parts) => code.add_memory(&given.path, &given.contents, parts),
        });
        let units = given.and_then(|()| {
            let messages = match self.events_in_trace {
                true => Some(MessageUnit::with_events()),
                false => self.messages.map(MessageUnit::new),
            };
            ThreadUnits::new(self.unit, threads, messages).map_err(Error::Unit)
        });
        let units = match units {
            Ok(units) => units,
            Err(error) => {
                folder.abandon();
                return Err(error);
            }
        };
        let Self { title, format, truth, .. } = self;
        let facts = Facts { format, title, isa, system: self.system.map(|system| system.contextidr), truth };
        let known = SharedKnown::new(code);
        // What was executed is kept with its cycles, which blocks do not have.
        let takes_blocks = units.keep_time() && !truth;
        let description = Description::new(folder, facts, known.clone());
        match TraceOutput::new(description, units, truth.then_some(isa)) {
            Ok(output) => Ok(Recorder {
                writer: TraceWriter::new(output, self.two_threads.unwrap_or(false)),
                known,
                journal: Journal::new(),
                system: self.system.map(|options| System::new(options, takes_blocks)),
                events_in_trace: self.events_in_trace,
                events: Vec::new(),
                stop,
                limit: self.limit,
                is_full: false,
                trouble: None,
            }),
            Err(failed) => {
                let (description, error) = *failed;
                description.folder.abandon();
                Err(error)
            }
        }
    }
}

/// A capture that is being recorded.
pub struct Recorder {
    writer: TraceWriter,
    known: SharedKnown,
    journal: Journal,
    system: Option<System>,
    events_in_trace: bool,
    /// Events that are to be written into the trace.
    events: Vec<events::Record>,
    stop: Stop,
    limit: u64,
    /// Nothing more is taken.
    is_full: bool,
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
        let room = self.limit - self.writer.instructions().min(self.limit);
        let pushed = system.push(seen, room, &mut |step| {
            if self.is_full {
                return;
            }
            let goes_on = match step {
                SystemItem::Execution(item) => {
                    if self.writer.instructions() >= self.limit && self.is_beyond(&item) {
                        return;
                    }
                    self.writer.push(item)
                }
                SystemItem::Blocks(blocks, instructions) => self.writer.push_blocks(blocks, instructions),
                SystemItem::Time(time) => self.writer.set_time(time),
                SystemItem::Timestamp(time) => self.writer.request_timestamp(time),
                SystemItem::News(news) => return self.note_news(news),
            };
            if !goes_on {
                self.end();
            }
        });
        self.end_if_failed(pushed);
        if let Some(news) = system.take_news() {
            self.note_news(news);
        }
        self.write_events();
        self.system = Some(system);
    }

    /// Takes what a system logged.
    fn note_news(&mut self, news: LogNews) {
        let LogNews { records, growing, files } = news;
        let in_trace = self.events_in_trace;
        let (events, records) = if in_trace { (records, Vec::new()) } else { (Vec::new(), records) };
        self.events.extend(events);
        let noted = self.known.change(|known| {
            known.log(records)?;
            known.growing = growing.filter(|_| !in_trace);
            files.iter().try_for_each(|file| known.code.keep_file(&file.path, &file.name))
        });
        self.end_if_failed(noted);
    }

    fn end_if_failed(&mut self, done: Result<(), Error>) {
        if let Err(error) = done {
            self.trouble.get_or_insert(error.to_string());
            self.end();
        }
    }

    /// Writes events into the trace, after what was executed.
    fn write_events(&mut self) {
        for record in std::mem::take(&mut self.events) {
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
        if let Observation::Output { stream, bytes } = seen {
            if !self.writer.output(*stream, bytes) {
                self.end();
            }
            return;
        }
        let journal = &mut self.journal;
        let noted = self.known.change(|known| {
            let mut records = Vec::new();
            journal.note(None, seen, &mut records);
            known.log(records)?;
            match seen {
                Observation::Map(map) => known.code.map(map),
                Observation::Unmap { address, length } => known.code.unmap(*address, *length),
                Observation::Code { address, bytes } => return known.code.see(*address, bytes),
                Observation::ThreadStarts { .. } => known.thread_ids = true,
                _ => {}
            }
            Ok(())
        });
        self.end_if_failed(noted);
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
        if let Some(mut system) = self.system.take() {
            system.end();
            if let Some(news) = system.take_news() {
                self.note_news(news);
            }
            self.write_events();
        }
        let instructions = self.instructions();
        if ending.ended == Ended::Stopped && instructions >= self.limit {
            ending.ended = Ended::Limit;
        }
        let changed = self.known.look(|known| known.code.changed());
        if changed > 0 {
            ending.notes.push(format!(
                "code changed at {changed} addresses while the program ran: the capture keeps the last"
            ));
        }
        let mut output = self.writer.finish();
        let cut_short = output.finish().or(self.trouble);
        let capture = output.describe()?;
        let recorded = Recorded {
            ending,
            instructions,
            threads: capture.sources.iter().filter(|source| source.core.is_some()).count(),
            bytes: capture.buffers.iter().filter_map(Buffer::length).sum(),
            figures: output.units().figures().collect(),
            cut_short,
        };
        output.into_folder().finish()?;
        Ok(recorded)
    }

    /// Nothing was recorded that anybody would want: leaves nothing behind.
    pub fn abandon(self) {
        // Nobody writes after this.
        self.writer.finish().into_folder().abandon();
    }
}
