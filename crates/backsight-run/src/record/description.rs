//! What a capture says about itself: sources, code, events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backsight_capture::events::EventLog;
use backsight_capture::folder::{Directory, Folder};
use backsight_capture::{
    Buffer, Capture, ContextIdLayout, Core, EventClock, FileRef, Format, Image, MemoryDump, Origin, Source,
};
use backsight_core::{Address, AddressSpace, Isa};

use super::code::CodeDump;
use super::folder::{CaptureFolder, DescribeError, is_full};
use super::known::{RecordedSoFar, SharedKnown};
use super::output::trace_name;
use super::threads::{ThreadSource, ThreadUnits};
use crate::{Error, TRUTH};

/// Time between two descriptions of a recording that goes on: at least this, and so many times what one takes.
const PAUSE: Duration = Duration::from_secs(1);
const SHARE: u32 = 20;

/// What a capture says about itself whatever is recorded.
pub struct Facts {
    /// The format it will have.
    pub format: Format,
    /// What was recorded, in words.
    pub title: String,
    /// What was executed.
    pub isa: Isa,
    /// It is a system of several processes on CPUs; what CONTEXTIDR has.
    pub system: Option<ContextIdLayout>,
    /// The retired instructions are there.
    pub truth: bool,
}

/// The capture in its folder, described as far as it is known.
pub struct Description {
    pub folder: CaptureFolder,
    facts: Facts,
    known: SharedKnown,
    /// Changes of what is known, and sources, that were written down.
    described: (u64, usize),
    /// When that was done, and how long it took.
    last: Option<(Instant, Duration)>,
}

impl Description {
    pub fn new(folder: CaptureFolder, facts: Facts, known: SharedKnown) -> Self {
        Self { folder, facts, known, described: (0, 0), last: None }
    }

    fn state(&self, units: &ThreadUnits) -> (u64, usize) {
        (self.known.changes(), units.threads())
    }

    /// Writes down what changed, so that all trace of these units can be decoded. False: it has to wait, because
    /// that was done a moment ago. `urgent`: it must not wait.
    pub fn keep_up(&mut self, units: &ThreadUnits, urgent: bool) -> Result<bool, Error> {
        let state = self.state(units);
        if state == self.described {
            return Ok(true);
        }
        let is_soon = |(when, took): (Instant, Duration)| when.elapsed() < PAUSE.max(took * SHARE);
        if !urgent && self.last.is_some_and(is_soon) {
            return Ok(false);
        }
        self.write(units, false).map_err(|failed| failed.error)?;
        Ok(true)
    }

    /// Writes the description; `complete`: nothing comes any more.
    pub fn write(&mut self, units: &ThreadUnits, complete: bool) -> Result<Capture, DescribeError> {
        let begun = Instant::now();
        let state = self.state(units);
        let Self { folder, facts, known, .. } = self;
        let plain = |error| DescribeError { error, full: false };
        let described = known.look(|known| {
            let dumps = known.code.write_unfiled(complete).map_err(|error| DescribeError {
                full: matches!(&error, Error::File { error, .. } if is_full(error)),
                error,
            })?;
            capture(folder, facts, units, known, &dumps).map_err(plain)
        })?;
        folder.describe(&described, complete)?;
        known.look(|known| known.code.remove_outdated(complete));
        self.described = state;
        self.last = Some((Instant::now(), begun.elapsed()));
        Ok(described)
    }
}

/// The capture as it stands in its folder.
fn capture(
    place: &CaptureFolder,
    facts: &Facts,
    units: &ThreadUnits,
    known: &RecordedSoFar,
    dumps: &[CodeDump],
) -> Result<Capture, Error> {
    let code = &known.code;
    let folder: Arc<dyn Folder> = Arc::new(Directory::new(&place.part));
    let file = |name: &str| FileRef::new(&folder, name);
    let (framing_word, framing) = units.framing();
    let streams = units.sources().map(|source| source.stream + 1).max().unwrap_or(1);
    let mut buffers = Vec::new();
    for stream in 0..streams {
        let name = trace_name(stream);
        buffers.push(Buffer {
            files: vec![file(&name)?],
            framing,
            format: framing_word.to_owned(),
            ..Buffer::new(name.trim_end_matches(".bin").to_owned())
        });
    }
    let package = facts.format == Format::Package;
    let sources: Vec<Source> = sources(units);
    let mut memory = Vec::new();
    for dump in dumps {
        memory.push(MemoryDump {
            file: file(&dump.file)?,
            offset: dump.offset,
            length: Some(dump.length),
            address: Address(dump.address),
            space: AddressSpace::ANY,
            // Other decoders look for the memory of a snapshot at its cores.
            core: Some(0).filter(|_| facts.format == Format::Snapshot && !sources.is_empty()),
            pid: None,
        });
    }
    let mut images = Vec::new();
    for (path, name) in code.files().filter(|_| package && facts.system.is_none()) {
        images.push(Image { name: path.display().to_string(), file: file(name)? });
    }
    for (name, path) in code.named().iter().filter(|_| package) {
        images.push(Image { name: name.clone(), file: file(path)? });
    }
    let records: Vec<_> = known.records().cloned().collect();
    let events = (package && !records.is_empty()).then_some(EventLog { records, problems: Vec::new() });
    let truth = (facts.truth && package).then(|| ("truth".to_owned(), TRUTH.to_owned()));
    Ok(Capture {
        name: place.path().display().to_string(),
        format: facts.format,
        description: Some(facts.title.clone()),
        buffers,
        cores: cores(units, facts.isa, if facts.system.is_some() { "cpu" } else { "thread" }),
        sources,
        memory,
        images,
        events: events.map(Into::into),
        contextidr: package.then_some(match facts.isa {
            _ if facts.system.is_some() => facts.system.unwrap_or(ContextIdLayout::None),
            Isa::A64 | Isa::A32 | Isa::T32 if known.thread_ids => ContextIdLayout::Tid,
            _ => ContextIdLayout::None,
        }),
        context_in_vmid: false,
        event_clock: EventClock::default(),
        asid_bits: facts.system.map(|_| 8),
        timestamp_frequency: None,
        system: truth.into_iter().collect(),
        warnings: Vec::new(),
        folder,
    })
}

fn cores(units: &ThreadUnits, isa: Isa, word: &str) -> Vec<Core> {
    // Other decoders know what a processor can do by its name.
    let kind = match isa {
        Isa::A64 => "ARM-AA64",
        Isa::A32 | Isa::T32 | Isa::ThumbEe | Isa::Jazelle => "Cortex-A53",
        Isa::Rv32 | Isa::Rv64 => "",
    };
    let core = |thread| Core {
        name: format!("{word}_{thread}"),
        kind: kind.to_owned(),
        registers: Vec::new(),
        location: None,
    };
    units.sources().filter_map(|source| Some(core(source.thread?))).collect()
}

fn sources(units: &ThreadUnits) -> Vec<Source> {
    let source = |(core, source): (usize, ThreadSource)| Source {
        name: source.thread.map_or_else(|| "messages".to_owned(), |thread| format!("unit_{thread}")),
        id: Some(source.id),
        format: source.description.format.to_owned(),
        stream: 0,
        registers: source.description.registers,
        options: source.description.options,
        core: source.thread.map(|_| core),
        buffers: vec![source.stream],
        location: None,
        origin: Origin::default(),
    };
    units.sources().enumerate().map(source).collect()
}
