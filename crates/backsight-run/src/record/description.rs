//! What a capture says about itself: sources, code, events.

use std::sync::Arc;

use backsight_capture::events::EventLog;
use backsight_capture::folder::{Directory, Folder};
use backsight_capture::{
    Buffer, Capture, ContextIdLayout, Core, EventClock, FileRef, Format, Image, MemoryDump, Origin, Source,
};
use backsight_core::{Address, AddressSpace, Isa};

use super::code::{CodeDump, RecordedCode};
use super::folder::CaptureFolder;
use super::output::trace_name;
use super::threads::{ThreadSource, ThreadUnits};
use crate::{Error, TRUTH};

/// The facts of a recording.
pub struct Facts<'a> {
    /// Where it is.
    pub folder: &'a CaptureFolder,
    /// The format it will have.
    pub format: Format,
    /// What was recorded, in words.
    pub title: String,
    /// What was executed.
    pub isa: Isa,
    /// What the operating system did, if anybody looked.
    pub events: Option<EventLog>,
    /// Contexts have the numbers of threads.
    pub thread_ids: bool,
    /// It is a system of several processes on CPUs; what CONTEXTIDR has.
    pub system: Option<ContextIdLayout>,
    /// The retired instructions are there.
    pub truth: bool,
}

/// The capture as it stands in its folder.
pub fn capture(
    facts: Facts<'_>,
    units: &ThreadUnits,
    code: &RecordedCode,
    dumps: &[CodeDump],
) -> Result<Capture, Error> {
    let folder: Arc<dyn Folder> = Arc::new(Directory(facts.folder.part.clone()));
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
    let truth = (facts.truth && package).then(|| ("truth".to_owned(), TRUTH.to_owned()));
    Ok(Capture {
        name: facts.folder.path().display().to_string(),
        format: facts.format,
        description: Some(facts.title),
        buffers,
        cores: cores(units, facts.isa, if facts.system.is_some() { "cpu" } else { "thread" }),
        sources,
        memory,
        images,
        events: facts.events.filter(|_| package).map(Into::into),
        contextidr: package.then_some(match facts.isa {
            _ if facts.system.is_some() => facts.system.unwrap_or(ContextIdLayout::None),
            Isa::A64 | Isa::A32 | Isa::T32 if facts.thread_ids => ContextIdLayout::Tid,
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
