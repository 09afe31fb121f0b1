//! Reading the contents of a package.

use super::ENTRY;
use super::metadata::{Metadata, define};
use crate::events::{Events, Item, Record, State, TraceDefinition};
use crate::folder::{FileRef, Folder, LONGEST_METADATA};
use crate::ini::{Dialect, Entry, Ini, Section, parse_boolean, short};
use crate::model::{Buffer, Capture, ContextIdLayout, EventClock, Format, Image, MemoryDump};
use crate::snapshot::space_from_name;
use crate::{Error, ReadOptions};
use backsight_arm::frame::Framing;
use backsight_core::{Address, AddressSpace};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Reads the trace package in a folder.
pub(crate) fn read(folder: Arc<dyn Folder>, name: &str, options: &ReadOptions) -> Result<Capture, Error> {
    let mut capture = Capture::empty(name.to_owned(), Format::Package, folder.clone());
    let ini = read_ini(&FileRef::new(&folder, ENTRY)?)?;
    read_system(&ini, &mut capture)?;
    read_trace(&ini, &folder, &mut capture, options)?;
    for section in ini.sections.iter().filter(|section| is_numbered(&section.name, "memory")) {
        let dump = read_memory(&ini, section, &folder, &mut capture)?;
        capture.memory.push(dump);
    }
    for entry in ini.sections("images").flat_map(|section| &section.entries) {
        let file = file_at(&ini, entry, &folder)?;
        if !file.exists() {
            capture.warnings.push(format!("{}:{}: {file}: there is no such file", ini.file, entry.line));
        }
        capture.images.push(Image { name: entry.key.clone(), file });
    }
    read_events(&ini, &folder, &mut capture)?;
    Ok(capture)
}

/// Reads an INI file of a package: no section twice, no key twice in a section.
fn read_ini(file: &FileRef) -> Result<Ini, Error> {
    let ini = Ini::parse(&file.to_string(), &file.text(LONGEST_METADATA)?, Dialect::Package)?;
    let mut seen = BTreeMap::new();
    for section in &ini.sections {
        if let Some(first) = seen.insert(section.name.to_ascii_lowercase(), section.line) {
            let what =
                format!("section [{}] is given a second time (first in line {first})", short(&section.name));
            return Err(Error::line(&ini.file, section.line, what));
        }
        let images = section.name.eq_ignore_ascii_case("images");
        let same = |key: &str| if images { key.to_owned() } else { key.to_ascii_lowercase() };
        ini.refuse_duplicates(std::iter::once(section), same)?;
    }
    Ok(ini)
}

/// `base`, or `base` with a number after it.
fn is_numbered(name: &str, base: &str) -> bool {
    name.get(..base.len()).is_some_and(|start| start.eq_ignore_ascii_case(base))
        && name[base.len()..].bytes().all(|byte| byte.is_ascii_digit())
}

fn file_at(ini: &Ini, entry: &Entry, folder: &Arc<dyn Folder>) -> Result<FileRef, Error> {
    FileRef::new(folder, &entry.value).map_err(|error| ini.error(entry, error.what))
}

fn read_system(ini: &Ini, capture: &mut Capture) -> Result<(), Error> {
    for entry in ini.sections("system").flat_map(|section| &section.entries) {
        match entry.key.to_ascii_lowercase().as_str() {
            "description" => capture.description = Some(entry.value.clone()),
            "timestamp_frequency" => capture.timestamp_frequency = Some(ini.number(entry)?),
            _ => capture.system.push((entry.key.clone(), entry.value.clone())),
        }
    }
    Ok(())
}

/// Buffers with the metadata of their sources.
fn read_trace(
    ini: &Ini,
    folder: &Arc<dyn Folder>,
    capture: &mut Capture,
    options: &ReadOptions,
) -> Result<(), Error> {
    let entries = || ini.sections("trace").flat_map(|section| &section.entries);
    let numbered = |base: &'static str| {
        entries().filter_map(move |entry| {
            let number = entry.key.get(base.len()..)?.parse::<u32>().ok()?;
            entry.key[..base.len()].eq_ignore_ascii_case(base).then_some((number, entry))
        })
    };
    let metadata_of = |entry: &Entry| -> Result<Metadata, Error> {
        let file = file_at(ini, entry, folder)?;
        let metadata = read_ini(&file).map_err(|error| match error.position {
            crate::Position::File => ini.error(entry, error.to_string()),
            _ => error,
        })?;
        Metadata::new(metadata)
    };
    let shared = ini.get("trace", "metadata").map(&metadata_of).transpose()?;
    let mut own = BTreeMap::new();
    for (number, entry) in numbered("metadata") {
        own.insert(number, metadata_of(entry)?);
    }
    let (mut shared_buffers, mut taken) = (Vec::new(), BTreeSet::new());
    let buffers: BTreeMap<u32, &Entry> = numbered("buffer").collect();
    for (number, entry) in buffers {
        let file = file_at(ini, entry, folder)?;
        if !file.exists() {
            capture.warnings.push(format!("{}:{}: {file}: there is no such file", ini.file, entry.line));
        }
        let Some(metadata) = own.get(&number).or(shared.as_ref()) else {
            let what = format!("there is no metadata for `{}`, expected `metadata=`", short(&entry.key));
            return Err(ini.error(entry, what));
        };
        let description = metadata.buffer(number, options, &mut capture.warnings)?;
        let place = capture.buffers.len();
        let name = description.id.clone().filter(|id| !taken.contains(id));
        let name = name.unwrap_or_else(|| format!("buffer{number}"));
        taken.insert(name.clone());
        capture.buffers.push(Buffer {
            files: vec![file],
            framing: description.framing,
            format: description.format,
            wrapped: description.wrapped,
            details: description.details,
            starts: description.starts,
            thread: description.thread,
            ..Buffer::new(name)
        });
        if own.contains_key(&number) {
            metadata.take_sources(capture, &[(place, description.source)])?;
        } else {
            shared_buffers.push((place, description.source));
        }
    }
    if let Some(metadata) = &shared
        && !shared_buffers.is_empty()
    {
        metadata.take_sources(capture, &shared_buffers)?;
    }
    if capture.buffers.is_empty() {
        capture.warnings.push(format!("{}: [trace] names no buffer", ini.file));
    }
    Ok(())
}

fn read_memory(
    ini: &Ini,
    section: &Section,
    folder: &Arc<dyn Folder>,
    capture: &mut Capture,
) -> Result<MemoryDump, Error> {
    let needed = |key: &str| {
        ini.entry(section, key).ok_or_else(|| {
            Error::line(&ini.file, section.line, format!("expected `{key}` in [{}]", short(&section.name)))
        })
    };
    let number = |key: &str| ini.entry(section, key).map(|entry| ini.number(entry)).transpose();
    let file = file_at(ini, needed("file")?, folder)?;
    if !file.exists() {
        capture.warnings.push(format!("{file}: these memory contents are not there"));
    }
    let space = match ini.entry(section, "space") {
        None => AddressSpace::ANY,
        Some(entry) => space_from_name(&entry.value).ok_or_else(|| {
            ini.error(
                entry,
                format!("`{}` is no memory space, expected EL1N, EL3, S, ANY …", short(&entry.value)),
            )
        })?,
    };
    let core = ini.entry(section, "core").map(|entry| entry.value.as_str());
    Ok(MemoryDump {
        file,
        offset: number("offset")?.unwrap_or(0),
        length: number("length")?,
        address: Address(ini.number(needed("address")?)?),
        space,
        core: core.and_then(|name| capture.cores.iter().position(|core| core.name == name)),
        pid: number("pid")?,
    })
}

fn read_events(ini: &Ini, folder: &Arc<dyn Folder>, capture: &mut Capture) -> Result<(), Error> {
    if let Some(entry) = ini.get("events", "contextidr") {
        capture.contextidr = ContextIdLayout::from_name(&entry.value);
        if capture.contextidr.is_none() {
            let words: Vec<&str> = ContextIdLayout::ALL.iter().map(|(_, word)| *word).collect();
            let what =
                format!("`{}` is no use of CONTEXTIDR, expected {}", short(&entry.value), words.join(", "));
            return Err(ini.error(entry, what));
        }
    }
    if let Some(entry) = ini.get("events", "context_in_vmid") {
        capture.context_in_vmid = parse_boolean(&entry.value).ok_or_else(|| {
            ini.error(entry, format!("`context_in_vmid` is `{}`, expected 0 or 1", short(&entry.value)))
        })?;
    }
    if let Some(entry) = ini.get("events", "clock") {
        capture.event_clock = match entry.value.as_str() {
            "timestamps" => EventClock::Timestamps,
            "starts" => EventClock::Slices,
            other => {
                let what = format!("`{}` is no clock, expected timestamps or starts", short(other));
                return Err(ini.error(entry, what));
            }
        };
    }
    if let Some(entry) = ini.get("events", "asid_bits") {
        capture.asid_bits = match ini.number(entry)? {
            bits @ (8 | 16) => Some(bits as u8),
            other => return Err(ini.error(entry, format!("ASIDs of {other} bits, expected 8 or 16"))),
        };
    }
    let Some(entry) = ini.get("events", "log") else { return Ok(()) };
    if capture.contextidr.is_none() {
        capture
            .warnings
            .push(format!("{}: [events] does not say how CONTEXTIDR is used: taken as none", ini.file));
    }
    let file = file_at(ini, entry, folder)?;
    // Packets can be read without the log: trouble with it is no reason to refuse them.
    match Events::open(&file) {
        Ok(events) => capture.take_events(events),
        Err(error) => capture.warnings.push(format!("{error}: the event log is not used")),
    }
    Ok(())
}

impl Capture {
    /// Adds events, of a log or of the trace itself, to those that are known: sources that they define are sources of the
    /// capture.
    pub fn take_events(&mut self, events: impl Into<Events>) {
        let events = events.into();
        self.warnings.extend(events.problems().iter().map(ToString::to_string));
        take_definitions(events.definitions(), self);
        self.timestamp_frequency = self.timestamp_frequency.or_else(|| events.frequency());
        self.events = Some(match self.events.take() {
            Some(known) => {
                let mut log = known.log().clone();
                log.append(events.log().clone());
                log.into()
            }
            None => events,
        });
    }
}

impl Capture {
    /// What the event log says of sources that begin to work in a configuration, in the order of time.
    pub fn definitions(&self) -> impl Iterator<Item = &TraceDefinition> {
        let records = self.events.iter().flat_map(Events::definitions);
        records.filter_map(|record| match &record.item {
            Item::DefineTrace(State::Start | State::Current, definition) => Some(definition.as_ref()),
            _ => None,
        })
    }
}

/// Sources that the log defines: a source that was reconfigured goes on under another trace ID.
fn take_definitions(records: &[Record], capture: &mut Capture) {
    let formatted: Vec<usize> =
        (0..capture.buffers.len()).filter(|&place| capture.buffers[place].framing != Framing::Raw).collect();
    for record in records {
        let Item::DefineTrace(State::Start | State::Current, definition) = &record.item else { continue };
        let known = capture.sources.iter().find(|source| source.id == Some(definition.id));
        match known {
            None => define(capture, definition, &formatted),
            Some(source) if record.time.is_some() && source.name != definition.source => {
                let (id, name) = (definition.id, &definition.source);
                capture.warnings.push(format!(
                    "event log line {}: trace ID {id} is given to {name} while it is that of {}: the first counts",
                    record.line, source.name
                ));
            }
            Some(source) if record.time.is_some() && !definition.items.is_empty() => {
                capture.warnings.push(format!(
                    "event log line {}: {} is reconfigured under the same trace ID: the first configuration counts",
                    record.line, source.name
                ));
            }
            Some(_) => {}
        }
    }
}
