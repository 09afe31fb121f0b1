//! perf.data: what Linux perf and Android's simpleperf record.
//!
//! The kernel lets a program sample CoreSight trace as an event like others. The file holds records of what processes
//! mapped, how the trace units were programmed, and the bytes of trace buffers; the trace is cut out of it where it lies.
//! Which code ran is not in the file: it names paths and build identifiers, and the code is looked up by them.

mod etm;
mod fields;
mod header;
mod record;
mod rings;
mod space;
mod system;
mod walk;
mod zstd;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backsight_arm::frame::Framing;
use backsight_core::{Budget, TraceId};
use backsight_image::GivenFolder;

use crate::Error;
use crate::folder::{FileRef, Folder};
use crate::model::{Buffer, Capture, ContextIdLayout, Core, EventClock, Format, Origin, Source, Start};
use crate::store::{ExtentFolder, Store};
use etm::{Info, Unit};
use rings::{Recorder, Ring, Slices};
use walk::{Contents, Warnings};

/// Is this the beginning of a perf.data file?
pub(crate) fn is_perf(magic: &[u8]) -> bool {
    header::byte_order(magic).is_some()
}

/// Memory for a trace unit whose trace may be in a buffer.
const PAIR: u64 = 256;

/// Where the parts of perf.data are if it is a folder: its first file.
const ENTRY: &str = "data";

/// Reads a perf.data file, but for its trace. What it says of itself takes the memory that `budget` allows, or its size.
pub(crate) fn read(store: Store, name: &str, budget: Option<u64>) -> Result<Capture, Error> {
    let mut contents = walk::walk(&store, name, budget)?;
    let info = contents.info.take().ok_or_else(|| no_trace(&contents, name))?;
    let rings = rings::cut(&contents.traces, &contents.aux);
    let ids = Ids::new(&info, &contents.hardware_ids, &mut contents.warnings);
    let mut warnings = std::mem::take(&mut contents.warnings).finish();
    let conversion = contents.conversion.filter(|_| info.units.iter().all(|unit| unit.virtual_counter));
    let convert = |time: u64| conversion.map_or(time, |conversion| conversion.counter(time));
    let folder = Arc::new(folder(store, name, &rings));
    let mut capture = Capture::empty(name.to_owned(), Format::Perf, folder.clone() as Arc<dyn Folder>);
    let recorder = recorder(&contents);
    for (ring, slices) in &rings {
        warnings.extend(slices.losses(&ring.name(), recorder));
        if !slices.slices.is_empty() {
            capture.buffers.push(buffer(&capture.folder, ring, slices, convert)?);
        }
    }
    // What was announced and lost is said already.
    if capture.buffers.is_empty() && rings.values().all(|slices| slices.missing == 0) {
        warnings.push(
            "there is no trace in it: the trace unit wrote nothing, or the recorder was stopped too early"
                .to_owned(),
        );
    }
    let kept: Vec<&Ring> =
        rings.iter().filter(|(_, slices)| !slices.slices.is_empty()).map(|(ring, _)| ring).collect();
    // As much as for the records, which may have used theirs.
    let of_pairs = Budget::new(contents.budget.limit());
    for unit in &info.units {
        capture.cores.push(core(unit.cpu));
        let number = capture.cores.len() - 1;
        let source = source(unit, number, &ids, &kept);
        let pairs = PAIR * source.buffers.len() as u64;
        of_pairs.take(pairs).map_err(|why| {
            let what =
                format!("{} buffers may hold trace of each of {} units: {why}", kept.len(), info.units.len());
            Error::file(name, what)
        })?;
        capture.sources.push(source);
    }
    if contents.lost > 0 {
        warnings.push(format!("the kernel lost {} records: some mappings may be missing", contents.lost));
    }
    let system = std::mem::take(&mut contents.system);
    let log = system::log(system, &contents.build_ids, conversion.as_ref(), &contents.budget, &mut warnings);
    capture.events = Some(log.into());
    capture.event_clock = if conversion.is_some() { EventClock::Timestamps } else { EventClock::Slices };
    capture.timestamp_frequency = conversion.map(|conversion| conversion.frequency());
    let has_context = info.units.iter().any(Unit::traces_context);
    capture.contextidr = Some(if has_context { ContextIdLayout::Tid } else { ContextIdLayout::None });
    capture.context_in_vmid = info.units.iter().any(Unit::context_in_vmid);
    let snapshot = info.is_snapshot.then(|| ("mode".to_owned(), "snapshot".to_owned()));
    capture.system = contents.texts.into_iter().chain(snapshot).collect();
    capture.warnings = warnings;
    Ok(capture)
}

/// simpleperf says so in keys of its own, which perf does not have.
fn recorder(contents: &Contents) -> Recorder {
    let is_simpleperf = contents.texts.iter().any(|(key, _)| key == "simpleperf_version");
    if is_simpleperf { Recorder::Simpleperf } else { Recorder::Perf }
}

fn no_trace(contents: &Contents, name: &str) -> Error {
    match contents.other_trace {
        Some(number) => Error::file(
            name,
            format!("holds {} trace, expected CoreSight (cs_etm)", etm::other_trace(number)),
        ),
        None => {
            let why = contents.warnings.all.first().map_or(String::new(), |why| format!(": {why}"));
            let what = format!("holds no CoreSight trace: it has no AUXTRACE_INFO record{why}");
            Error::file(name, what)
                .advise("record with perf record -e cs_etm//u, or simpleperf record -e cs-etm")
        }
    }
}

fn folder(store: Store, name: &str, rings: &BTreeMap<Ring, Slices>) -> ExtentFolder {
    let extents =
        |slices: &Slices| slices.slices.iter().flat_map(|slice| slice.extents.iter().copied()).collect();
    let buffers = rings.iter().map(|(ring, slices)| (ring.name(), extents(slices))).collect();
    ExtentFolder { store, name: name.to_owned(), buffers }
}

fn buffer(
    folder: &Arc<dyn Folder>,
    ring: &Ring,
    slices: &Slices,
    convert: impl Fn(u64) -> u64,
) -> Result<Buffer, Error> {
    let (mut starts, mut offset) = (Vec::with_capacity(slices.slices.len()), 0);
    for slice in &slices.slices {
        starts.push(Start { offset, time: slice.time.map(&convert) });
        offset += slice.extents.iter().map(|extent| extent.length).sum::<u64>();
    }
    let framing = if ring.is_raw { Framing::Raw } else { Framing::Coresight };
    Ok(Buffer {
        files: vec![FileRef::new(folder, &ring.name())?],
        framing,
        format: framing.name().to_owned(),
        starts,
        thread: ring.tid.map(u64::from),
        ..Buffer::new(ring.name())
    })
}

/// Trace IDs of CPUs. Where the kernel hands them out it says so in records, and the metadata means nothing.
struct Ids {
    by_cpu: BTreeMap<u32, TraceId>,
    sinks: BTreeMap<u32, u32>,
}

impl Ids {
    fn new(info: &Info, records: &[(Option<u32>, u64)], warnings: &mut Warnings) -> Self {
        let mut ids = Self { by_cpu: BTreeMap::new(), sinks: BTreeMap::new() };
        for &(cpu, word) in records {
            let (Some(cpu), 0) = (cpu, word >> 60) else { continue };
            let id = TraceId::new(word as u8);
            if let Some(before) = ids.by_cpu.insert(cpu, id).filter(|before| *before != id) {
                warnings
                    .push(format!("CPU {cpu} changed its trace ID from {before} to {id}: the last counts"));
            }
            if word >> 56 & 0xF >= 1 {
                ids.sinks.insert(cpu, (word >> 8) as u32);
            }
        }
        if ids.by_cpu.is_empty() {
            ids.by_cpu = info.units.iter().map(|unit| (unit.cpu, TraceId::new(unit.id))).collect();
        }
        ids
    }

    /// Can the trace of a CPU be in a ring? IDs may be used again in another sink.
    fn shares_sink(&self, cpu: u32, ring: &Ring) -> bool {
        match (self.sinks.get(&cpu), ring.cpu.and_then(|other| self.sinks.get(&other))) {
            (Some(sink), Some(other)) => sink == other,
            _ => true,
        }
    }
}

fn core(cpu: u32) -> Core {
    Core { name: format!("cpu_{cpu}"), kind: String::new(), registers: Vec::new(), location: None }
}

fn source(unit: &Unit, core: usize, ids: &Ids, rings: &[&Ring]) -> Source {
    let holds = |ring: &Ring| match ring.is_raw {
        true => ring.cpu == Some(unit.cpu),
        false => ids.by_cpu.contains_key(&unit.cpu) && ids.shares_sink(unit.cpu, ring),
    };
    Source {
        name: format!("{}_{}", unit.format, unit.cpu),
        id: ids.by_cpu.get(&unit.cpu).copied().or(Some(TraceId::new(unit.id))),
        format: unit.format.to_owned(),
        stream: 0,
        registers: unit.described(),
        options: Vec::new(),
        core: Some(core),
        buffers: (0..).zip(rings).filter(|(_, ring)| holds(ring)).map(|(number, _)| number).collect(),
        location: None,
        origin: Origin::default(),
    }
}

impl Capture {
    /// Reads a perf.data file that is in memory; `name` is for messages.
    ///
    /// # Errors
    /// If it is no perf.data file, or holds no CoreSight trace.
    pub fn from_perf(bytes: impl Into<Arc<[u8]>>, name: &str) -> Result<Self, Error> {
        let bytes = bytes.into();
        if !is_perf(&bytes) {
            return Err(Error::file(name, "is no perf.data file"));
        }
        read(Store::Memory(bytes), name, None)
    }
}

/// The file of a folder that perf writes (`perf record --threads`), if it is one.
pub(crate) fn file_in(folder: &Path, follow_links: bool) -> Option<PathBuf> {
    let opened = match follow_links {
        true => std::fs::File::open(folder.join(ENTRY)).map(|file| (file, folder.join(ENTRY))),
        false => GivenFolder::new(folder).open(ENTRY),
    };
    let ((mut file, path), mut magic) = (opened.ok()?, [0; 8]);
    std::io::Read::read_exact(&mut file, &mut magic).ok()?;
    is_perf(&magic).then_some(path)
}
