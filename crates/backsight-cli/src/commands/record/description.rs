//! What a capture says about itself: sources, code, events.

use std::path::Path;
use std::sync::Arc;

use backsight_arm::etm4::Config;
use backsight_capture::events::EventLog;
use backsight_capture::folder::{Directory, Folder};
use backsight_capture::{
    Buffer, Capture, ContextIdLayout, Core, FileRef, Format, Image, MemoryDump, Origin, Register, Source,
};
use backsight_core::{Address, AddressSpace};

use super::code::{Code, Dump};
use super::hart::HartConfig;
use super::tracer::{TRACE, TRUTH, Traced, TracedUnit, Tracer};
use super::{etrace_unit, ntrace_unit};
use crate::failure::{Failure, Result};

/// The facts of a recording.
pub struct Facts<'a> {
    /// Where it is.
    pub folder: &'a Path,
    /// The format it will have.
    pub format: Format,
    /// What was recorded, in words.
    pub title: String,
    /// The type of the processor; none for RISC-V.
    pub core: &'a str,
    /// What the operating system did.
    pub events: Option<EventLog>,
    /// What context IDs are.
    pub contextidr: ContextIdLayout,
    /// The truth is there.
    pub truth: bool,
}

/// The registers of a unit that a decoder needs.
const REGISTERS: [&str; 11] = [
    "TRCCONFIGR",
    "TRCTRACEIDR",
    "TRCIDR0",
    "TRCIDR1",
    "TRCIDR2",
    "TRCIDR8",
    "TRCIDR9",
    "TRCIDR12",
    "TRCIDR13",
    "TRCDEVARCH",
    "TRCCCCTLR",
];

/// The capture as it stands in its folder.
pub fn describe(facts: Facts<'_>, tracer: &Tracer, code: &Code, dumps: &[Dump]) -> Result<Capture> {
    let folder: Arc<dyn Folder> = Arc::new(Directory(facts.folder.to_owned()));
    let file = |name: &str| FileRef::new(&folder, name).map_err(Failure::new);
    let traced = tracer.sources();
    let (format, framing) = tracer.framing();
    let buffer = Buffer {
        name: "trace".to_owned(),
        files: vec![file(TRACE)?],
        framing,
        format: format.to_owned(),
        wrapped: false,
        details: Vec::new(),
    };
    let cores = traced.iter().map(|traced| Core {
        name: format!("thread_{}", traced.thread),
        kind: facts.core.to_owned(),
        registers: Vec::new(),
        location: None,
    });
    let mut memory = Vec::new();
    for dump in dumps {
        memory.push(MemoryDump {
            file: file(&dump.file)?,
            offset: dump.offset,
            length: Some(dump.length),
            address: Address(dump.address),
            space: AddressSpace::ANY,
            // Other decoders look for the memory of a snapshot at its cores.
            core: Some(0).filter(|_| facts.format == Format::Snapshot && !traced.is_empty()),
            pid: None,
        });
    }
    let mut images = Vec::new();
    if facts.format == Format::Package {
        for (path, name) in code.files() {
            images.push(Image { name: path.display().to_string(), file: file(name)? });
        }
    }
    let truth = if facts.truth { vec![("truth".to_owned(), TRUTH.to_owned())] } else { Vec::new() };
    Ok(Capture {
        name: facts.folder.display().to_string(),
        format: facts.format,
        description: Some(facts.title),
        buffers: vec![buffer],
        cores: cores.collect(),
        sources: traced.iter().enumerate().map(|(core, traced)| source(core, traced)).collect(),
        memory,
        images,
        events: facts.events.filter(|_| facts.format == Format::Package),
        contextidr: Some(facts.contextidr).filter(|_| facts.format == Format::Package),
        asid_bits: None,
        timestamp_frequency: None,
        system: if facts.format == Format::Package { truth } else { Vec::new() },
        warnings: Vec::new(),
        folder,
    })
}

fn source(core: usize, traced: &Traced) -> Source {
    let mut source = Source {
        name: format!("unit_{}", traced.thread),
        id: Some(traced.id),
        format: "E-Trace".to_owned(),
        stream: 0,
        registers: Vec::new(),
        options: Vec::new(),
        core: Some(core),
        buffers: vec![0],
        location: None,
        origin: Origin::default(),
    };
    match &traced.unit {
        TracedUnit::Hart(HartConfig::Etrace(unit, _)) => source.options = etrace_unit::described(unit),
        TracedUnit::Hart(HartConfig::Ntrace(unit)) => {
            source.format = "N-Trace".to_owned();
            source.options = ntrace_unit::described(unit);
        }
        TracedUnit::Etm4(config) => {
            source.format = if config.is_ete() { "ETE1.0" } else { "ETM4.0" }.to_owned();
            source.registers = registers(config);
        }
    }
    source
}

fn registers(config: &Config) -> Vec<Register> {
    let mut registers = Vec::new();
    for name in REGISTERS {
        if name == "TRCDEVARCH" && !config.is_ete() {
            continue;
        }
        if let Some(value) = config.register(name) {
            registers.push(Register {
                name: name.to_owned(),
                info: String::new(),
                text: format!("{value:#010x}"),
                value: Some(value.into()),
            });
        }
    }
    registers
}
