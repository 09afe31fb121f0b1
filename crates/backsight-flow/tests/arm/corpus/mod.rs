//! The captures of the corpus, as far as these tests need them: a small reader of snapshot folders.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use backsight_arm::etm4::{Config, Decoder, Packet};
use backsight_arm::frame::{Batch, Demultiplexer, Framing};
use backsight_core::{Address, AddressSpace, Located, TraceId};
use backsight_flow::Event;
use backsight_flow::etm4::{Follower, Options};
use backsight_image::Code;

/// Sections of an ini file; keys without what stands in parentheses.
type Ini = Vec<(String, Vec<(String, String)>)>;

fn ini(path: &Path) -> Ini {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut sections: Ini = Vec::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let line = line.split(';').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[') {
            sections.push((name.trim_end_matches(']').to_owned(), Vec::new()));
        } else if let Some((key, value)) = line.split_once('=')
            && let Some((_, entries)) = sections.last_mut()
        {
            let key = key.split('(').next().unwrap_or_default().trim();
            entries.push((key.to_owned(), value.trim().trim_matches('"').to_owned()));
        }
    }
    sections
}

fn section<'i>(ini: &'i Ini, name: &str) -> impl Iterator<Item = (&'i str, &'i str)> {
    let found = ini.iter().filter(move |(section, _)| section == name).collect::<Vec<_>>();
    found.into_iter().flat_map(|(_, entries)| entries.iter().map(|(k, v)| (k.as_str(), v.as_str())))
}

fn value<'i>(ini: &'i Ini, name: &str, key: &str) -> Option<&'i str> {
    section(ini, name).find(|(found, _)| *found == key).map(|(_, value)| value)
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).expect("a hexadecimal number"),
        None => text.parse().expect("a number"),
    }
}

/// Dumps of memory.
#[derive(Clone, Default)]
pub struct Memory(pub Vec<(AddressSpace, u64, Vec<u8>)>);

impl Code for Memory {
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        self.0.iter().filter(|(theirs, ..)| theirs.meets(space)).find_map(|(_, base, bytes)| {
            let offset = usize::try_from(address.0.wrapping_sub(*base)).ok()?;
            bytes.get(offset..).filter(|rest| !rest.is_empty())
        })
    }
}

/// One trace unit of a buffer.
pub struct Source {
    pub config: Config,
    pub memory: Memory,
    /// The pieces of its stream; between two of them bytes are missing.
    pub streams: Vec<Vec<u8>>,
}

/// One buffer of a capture.
pub struct Buffer {
    pub name: String,
    pub expected: PathBuf,
    pub sources: Vec<Source>,
    /// Bytes of the whole buffer, and how they are framed.
    pub bytes: Vec<u8>,
    pub framing: Framing,
}

/// All buffers of the corpus with ETMv4 or ETE sources and expected elements, or only those of one capture. `None`, and a
/// word about it, without a corpus.
pub fn buffers(only: Option<&str>) -> Option<Vec<Buffer>> {
    let corpus = backsight_testing::corpus()?;
    let mut captures: Vec<_> = fs::read_dir(corpus.join("opencsd"))
        .expect("corpus")
        .map(|entry| entry.expect("entry").path())
        .collect();
    captures.sort();
    let buffers: Vec<Buffer> = captures
        .into_iter()
        .filter(|path| only.is_none_or(|only| path.ends_with(only)))
        .flat_map(|path| capture(&path))
        .filter(|buffer| buffer.expected.exists())
        .collect();
    assert!(!buffers.is_empty(), "{only:?}: the corpus has no such capture");
    Some(buffers)
}

fn capture(path: &Path) -> Vec<Buffer> {
    let folder = path.join("capture");
    let snapshot = ini(&folder.join("snapshot.ini"));
    let trace = ini(&folder.join(value(&snapshot, "trace", "metadata").expect("metadata")));
    let devices: BTreeMap<String, Ini> = section(&snapshot, "device_list")
        .map(|(_, file)| ini(&folder.join(file)))
        .map(|device| (value(&device, "device", "name").expect("name").to_owned(), device))
        .collect();
    let names = value(&trace, "trace_buffers", "buffers").expect("buffers");
    names.split(',').filter_map(|name| buffer(path, &trace, &devices, name.trim())).collect()
}

fn buffer(path: &Path, trace: &Ini, devices: &BTreeMap<String, Ini>, section_name: &str) -> Option<Buffer> {
    let name = value(trace, section_name, "name")?;
    let capture = path.file_name()?.to_str()?;
    let mut sources = Vec::new();
    for (source, buffers) in section(trace, "source_buffers") {
        if !buffers.split(',').any(|buffer| buffer.trim() == name) {
            continue;
        }
        let core = section(trace, "core_trace_sources").find(|(_, of)| *of == source).map(|(core, _)| core);
        let core = core.and_then(|core| devices.get(core));
        sources.extend(trace_unit(path, &devices[source], core));
    }
    if sources.is_empty() {
        return None;
    }
    let files = value(trace, section_name, "file")?;
    let bytes: Vec<u8> = files
        .split(',')
        .flat_map(|file| fs::read(path.join("capture").join(file.trim())).expect("trace file"))
        .collect();
    let framing = match value(trace, section_name, "format")? {
        "source_data" => Framing::Raw,
        "dstream_coresight" => Framing::Dstream,
        _ => Framing::Coresight,
    };
    split(&mut sources, &bytes, framing);
    Some(Buffer {
        name: format!("{capture}/{name}"),
        expected: path.join(format!("expected/{name}.elements.gz")),
        sources,
        bytes,
        framing,
    })
}

fn trace_unit(path: &Path, device: &Ini, core: Option<&Ini>) -> Option<Source> {
    let kind = value(device, "device", "type")?;
    let mut config = match kind {
        "ETE" => Config::ete_default(),
        kind if kind.starts_with("ETM4") => Config::etm4_default(),
        _ => return None,
    };
    for (register, text) in section(device, "regs") {
        let _ = config.set_register(register, number(text) as u32);
    }
    let mut memory = Memory::default();
    for (name, _) in core.into_iter().flatten().filter(|(name, _)| name.starts_with("dump")) {
        memory.0.extend(dump(path, core.expect("just seen"), name));
    }
    if let Some(core) = core.and_then(|core| value(core, "device", "type")) {
        config.set_option("core", core).expect("a core");
    }
    Some(Source { config, memory, streams: Vec::new() })
}

fn dump(path: &Path, core: &Ini, name: &str) -> Option<(AddressSpace, u64, Vec<u8>)> {
    let file = path.join("capture").join(value(core, name, "file")?.replace('\\', "/"));
    let mut bytes = fs::read(file).ok()?;
    if let Some(offset) = value(core, name, "offset") {
        bytes.drain(..(number(offset) as usize).min(bytes.len()));
    }
    if let Some(length) = value(core, name, "length") {
        bytes.truncate(number(length) as usize);
    }
    let space = match value(core, name, "space") {
        None => AddressSpace::ANY,
        Some("S") => AddressSpace::ANY_S,
        Some("N") => AddressSpace::ANY_N,
        Some("EL2") => AddressSpace::EL2N,
        Some(other) => panic!("no test needs memory space {other} yet"),
    };
    Some((space, number(value(core, name, "address")?), bytes))
}

fn split(sources: &mut [Source], bytes: &[u8], framing: Framing) {
    for source in sources.iter_mut() {
        source.streams.push(Vec::new());
    }
    let mut frames = Demultiplexer::new(framing);
    let mut sink = |batch: Batch| match batch {
        Batch::Data { id, bytes, .. } => {
            for source in sources.iter_mut() {
                if id == TraceId::NULL || id.get() == source.config.trace_id() {
                    source.streams.last_mut().expect("a stream").extend(bytes);
                }
            }
        }
        Batch::Discontinuity { .. } => sources.iter_mut().for_each(|source| source.streams.push(Vec::new())),
        Batch::Trigger { .. } | Batch::Flush { .. } => {}
    };
    frames.feed(bytes, &mut sink);
    frames.finish(&mut sink);
}

impl Source {
    /// All packets of one piece of its stream.
    pub fn packets(config: &Config, bytes: &[u8]) -> Vec<Located<Packet>> {
        let mut packets = Vec::new();
        let mut decoder = Decoder::new(config);
        decoder.feed(bytes, &mut |packet| packets.push(packet));
        decoder.finish(&mut |packet| packets.push(packet));
        packets
    }

    /// What was executed.
    pub fn events(&self, options: Options) -> Vec<Located<Event>> {
        let mut events = Vec::new();
        let mut follower = Follower::with_options(&self.config, &self.memory, options);
        let mut decoder = Decoder::new(&self.config);
        for (piece, stream) in self.streams.iter().enumerate() {
            let mut sink = |event| events.push(event);
            if piece > 0 {
                follower.reset();
            }
            decoder.feed(stream, &mut |packet| follower.push(packet, &mut sink));
            decoder.reset(&mut |packet| follower.push(packet, &mut sink));
        }
        follower.finish(&mut |event| events.push(event));
        events
    }
}

/// What was executed according to `packets`.
pub fn follow(config: &Config, code: &impl Code, packets: &[Located<Packet>]) -> Vec<Located<Event>> {
    let mut events = Vec::new();
    let mut follower = Follower::new(config, code);
    for &packet in packets {
        follower.push(packet, &mut |event| events.push(event));
    }
    follower.finish(&mut |event| events.push(event));
    events
}
