//! Reading a snapshot.

use super::ENTRY;
use super::device::Device;
use crate::Error;
use crate::folder::{FileRef, Folder, LONGEST_METADATA};
use crate::ini::{Dialect, Entry, Ini, Section, parse_boolean, short, unquote};
use crate::model::{Buffer, Capture, Core, Format, Source};
use backsight_arm::frame::Framing;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Reads the snapshot in a folder.
pub(crate) fn read(folder: Arc<dyn Folder>, name: &str) -> Result<Capture, Error> {
    let mut capture = Capture::empty(name.to_owned(), Format::Snapshot, folder.clone());
    let entry_file = FileRef::new(&folder, ENTRY)?;
    let ini = Ini::parse(&entry_file.to_string(), &entry_file.text(LONGEST_METADATA)?, Dialect::Snapshot)?;
    check_version(&ini, &mut capture.warnings)?;
    capture.description = ini.get("snapshot", "description").map(|entry| entry.value.clone());
    let clusters = ini.sections("clusters").flat_map(|section| &section.entries);
    capture.system = clusters.map(|entry| (entry.key.clone(), entry.value.clone())).collect();

    let devices = read_devices(&ini, &folder, &mut capture.warnings)?;
    let Some(metadata) = ini.get("trace", "metadata") else {
        capture.warnings.push(format!("{}: no [trace] metadata: the snapshot holds no trace", ini.file));
        take_cores(&mut capture, &devices);
        return Ok(capture);
    };
    let file =
        FileRef::new(&folder, unquote(&metadata.value)).map_err(|error| ini.error(metadata, error.what))?;
    let text = file.text(LONGEST_METADATA).map_err(|error| ini.error(metadata, error.to_string()))?;
    let trace = Ini::parse(&file.to_string(), &text, Dialect::Snapshot)?;
    take_cores(&mut capture, &devices);
    read_buffers(&trace, &folder, &mut capture)?;
    capture.timestamp_frequency =
        trace.get("timestamp", "frequency").map(|entry| trace.number(entry)).transpose()?;
    let links = Links::read(&trace, &mut capture, &devices);
    for device in devices.iter().filter(|device| links.is_source(device)) {
        links.take_source(&mut capture, device);
    }
    Ok(capture)
}

fn check_version(ini: &Ini, warnings: &mut Vec<String>) -> Result<(), Error> {
    let Some(section) = ini.sections("snapshot").next() else {
        warnings.push(format!("{}: no section [snapshot]: read as the old format 0.1", ini.file));
        return Ok(());
    };
    ini.refuse_duplicates(ini.sections("snapshot"), str::to_owned)?;
    let Some(version) = ini.get("snapshot", "version") else {
        return Err(Error::line(&ini.file, section.line, "expected `version=1.0` in [snapshot]"));
    };
    match unquote(&version.value) {
        "1" | "1.0" => Ok(()),
        other => Err(ini.error(version, format!("snapshot version `{}`, expected 1.0", short(other)))),
    }
}

fn read_devices(
    ini: &Ini,
    folder: &Arc<dyn Folder>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Device>, Error> {
    let (mut devices, mut names) = (Vec::new(), BTreeSet::new());
    let entries = ini.sections("device_list").flat_map(|section| &section.entries);
    for entry in entries {
        let at_entry = |error: Error| if error.file == ini.file { error } else { from(ini, entry, error) };
        let file =
            FileRef::new(folder, unquote(&entry.value)).map_err(|error| ini.error(entry, error.what))?;
        let device = Device::read(folder, &file).map_err(at_entry)?;
        if names.insert(device.name.clone()) {
            devices.push(device);
        } else {
            warnings
                .push(format!("{file}: a device named {} was read before: this one is ignored", device.name));
        }
    }
    if devices.is_empty() {
        warnings.push(format!("{}: [device_list] names no device", ini.file));
    }
    Ok(devices)
}

/// A file that is not there is the fault of the line that names it.
fn from(ini: &Ini, entry: &Entry, error: Error) -> Error {
    match error.position {
        crate::Position::File => ini.error(entry, error.to_string()),
        _ => error,
    }
}

/// Cores and all memory contents.
fn take_cores(capture: &mut Capture, devices: &[Device]) {
    let mut missing = BTreeSet::new();
    for device in devices {
        let core = device.class.eq_ignore_ascii_case("core").then(|| {
            capture.cores.push(Core {
                name: device.name.clone(),
                kind: device.kind.clone(),
                registers: device.registers.clone(),
                location: device.location.clone(),
            });
            capture.cores.len() - 1
        });
        for dump in &device.dumps {
            if !dump.file.exists() && missing.insert(dump.file.path().to_owned()) {
                capture.warnings.push(format!("{}: these memory contents are not there", dump.file));
            }
            capture.memory.push(crate::MemoryDump { core, ..dump.clone() });
        }
    }
}

fn read_buffers(ini: &Ini, folder: &Arc<dyn Folder>, capture: &mut Capture) -> Result<(), Error> {
    let Some(list) = ini.get("trace_buffers", "buffers") else {
        return Err(Error::file(&ini.file, "expected `buffers=` in a section [trace_buffers]"));
    };
    let mut names = BTreeSet::new();
    for name in list.value.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let Some(section) = ini.sections(name).next() else {
            return Err(ini.error(list, format!("there is no section [{}] for that buffer", short(name))));
        };
        let buffer = read_buffer(ini, section, folder, &mut capture.warnings)?;
        if !names.insert(buffer.name.clone()) {
            let what = format!("a second buffer named `{}`", short(&buffer.name));
            return Err(Error::line(&ini.file, section.line, what).advise("buffer names must be unique"));
        }
        capture.buffers.push(buffer);
    }
    if capture.buffers.is_empty() {
        capture.warnings.push(format!("{}: [trace_buffers] names no buffer", ini.file));
    }
    Ok(())
}

fn read_buffer(
    ini: &Ini,
    section: &Section,
    folder: &Arc<dyn Folder>,
    warnings: &mut Vec<String>,
) -> Result<Buffer, Error> {
    ini.refuse_duplicates(std::iter::once(section), str::to_owned)?;
    let text = |key| ini.entry(section, key).map(|entry| unquote(&entry.value));
    let Some(list) = ini.entry(section, "file") else {
        return Err(Error::line(
            &ini.file,
            section.line,
            format!("expected `file=` in [{}]", short(&section.name)),
        ));
    };
    let mut files = Vec::new();
    for path in list.value.split(',').map(unquote).filter(|path| !path.is_empty()) {
        let file = FileRef::new(folder, path).map_err(|error| ini.error(list, error.what))?;
        if !file.exists() {
            warnings.push(format!("{}:{}: {file}: there is no such file", ini.file, list.line));
        }
        files.push(file);
    }
    if files.is_empty() {
        return Err(ini.error(list, "expected the name of a data file, found nothing"));
    }
    let format = text("format").unwrap_or_default().to_owned();
    let framing = match format.to_ascii_lowercase().as_str() {
        "coresight" => Framing::Coresight,
        "source_data" => Framing::Raw,
        "dstream_coresight" => Framing::Dstream,
        _ => {
            let line = section.line;
            warnings.push(format!(
                "{}:{line}: buffer format `{}` is not known: read as coresight",
                ini.file,
                short(&format)
            ));
            Framing::Coresight
        }
    };
    let name = text("name").filter(|name| !name.is_empty()).unwrap_or(&section.name).to_owned();
    // Two keys of our own, which other readers pass over.
    let format = text("packets").map_or(format, str::to_owned);
    let wrapped = text("wrapped").and_then(parse_boolean).unwrap_or(false);
    Ok(Buffer { files, framing, format, wrapped, ..Buffer::new(name) })
}

/// Which source belongs to which core and buffer.
struct Links {
    /// Stream numbers and buffers, by the name of the source.
    buffers: BTreeMap<String, Vec<(u8, Vec<usize>)>>,
    /// The core, by the name or `@location` of its source; of several, the first.
    cores: BTreeMap<String, usize>,
    /// No such section: with one buffer, all sources use it.
    unsaid: bool,
}

impl Links {
    fn read(ini: &Ini, capture: &mut Capture, devices: &[Device]) -> Self {
        let mut links = Self {
            buffers: BTreeMap::new(),
            cores: BTreeMap::new(),
            unsaid: ini.sections("source_buffers").next().is_none(),
        };
        let at = |entry: &Entry| format!("{}:{}", ini.file, entry.line);
        let known: BTreeSet<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        let buffer_names = places(capture.buffers.iter().map(|buffer| buffer.name.as_str()));
        let core_names = places(capture.cores.iter().map(|core| core.name.as_str()));
        for entry in ini.sections("source_buffers").flat_map(|section| &section.entries) {
            let (name, stream) = match entry.key.split_once('(') {
                None => (entry.key.as_str(), Some(0)),
                Some((name, info)) => {
                    let number = info.trim_end_matches(')').trim().strip_prefix("stream:");
                    (name.trim(), number.and_then(|number| number.trim().parse().ok()))
                }
            };
            let Some(stream) = stream else {
                capture.warnings.push(format!(
                    "{}: `{}` selects no stream: ignored",
                    at(entry),
                    short(&entry.key)
                ));
                continue;
            };
            if !known.contains(name) {
                capture.warnings.push(format!("{}: there is no device {}: ignored", at(entry), short(name)));
                continue;
            }
            let mut buffers = Vec::new();
            for wanted in entry.value.split(',').map(unquote).filter(|wanted| !wanted.is_empty()) {
                match buffer_names.get(wanted) {
                    Some(&buffer) => buffers.push(buffer),
                    None => {
                        capture.warnings.push(format!("{}: there is no buffer {}", at(entry), short(wanted)))
                    }
                }
            }
            links.buffers.entry(name.to_owned()).or_default().push((stream, buffers));
        }
        for entry in ini.sections("core_trace_sources").flat_map(|section| &section.entries) {
            match core_names.get(entry.key.as_str()) {
                Some(&core) => drop(links.cores.entry(source_key(unquote(&entry.value))).or_insert(core)),
                None => {
                    capture.warnings.push(format!("{}: there is no core {}", at(entry), short(&entry.key)))
                }
            }
        }
        links
    }

    /// Trace sources, and what is used as one.
    fn is_source(&self, device: &Device) -> bool {
        device.class.eq_ignore_ascii_case("trace_source")
            || (!device.class.eq_ignore_ascii_case("core") && self.buffers.contains_key(&device.name))
    }

    fn take_source(&self, capture: &mut Capture, device: &Device) {
        let by_location = device.location.as_ref().map(|location| format!("@{location}"));
        let core = [Some(&device.name), by_location.as_ref()].into_iter().flatten();
        let core = core.filter_map(|key| self.cores.get(key)).min().copied();
        let mut uses = self.buffers.get(&device.name).cloned().unwrap_or_default();
        if self.unsaid && capture.buffers.len() == 1 {
            uses = vec![(0, vec![0])];
        }
        if uses.is_empty() {
            capture.warnings.push(format!("source {}: no buffer is said to hold its trace", device.name));
            uses.push((0, Vec::new()));
        }
        for (stream, buffers) in uses {
            let source = source(capture, device, stream, core, &buffers);
            capture.sources.push(source);
        }
    }
}

/// Where the things of each name are; of several of one name, the first.
fn places<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    for (place, name) in names.enumerate() {
        places.entry(name.to_owned()).or_insert(place);
    }
    places
}

/// A source by its name, or `@` and its location.
fn source_key(text: &str) -> String {
    match text.strip_prefix('@') {
        Some(location) => format!("@{}", location.trim()),
        None => text.to_owned(),
    }
}

fn source(
    capture: &mut Capture,
    device: &Device,
    stream: u8,
    core: Option<usize>,
    buffers: &[usize],
) -> Source {
    // The same data may be in several buffers: the first that is there counts.
    let there = |&&buffer: &&usize| capture.buffers[buffer].files.iter().all(FileRef::exists);
    let buffer = buffers.iter().find(there).or(buffers.first()).copied();
    Source {
        name: device.name.clone(),
        id: None,
        format: device.kind.clone(),
        stream,
        registers: device.registers.clone(),
        options: device.options.clone(),
        core,
        buffers: buffer.into_iter().collect(),
        location: device.location.clone(),
        origin: device.origin.clone(),
    }
}
