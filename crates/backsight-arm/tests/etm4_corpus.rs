//! Every ETMv4 and ETE source of the corpus, packet by packet, against the listing that came with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use backsight_arm::etm4::{Config, Decoder, Packet};
use backsight_arm::frame::{Chunk, Deframer, Framing};
use backsight_core::Located;
use backsight_testing::{corpus, gunzip};

/// The value of a key in a section of a snapshot's INI file. Enough for the files of the corpus.
fn values<'a>(text: &'a str, section: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut inside = false;
    text.lines().map(str::trim).filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[') {
            inside = name.trim_end_matches(']') == section;
            return None;
        }
        line.split_once('=').filter(|_| inside).map(|(key, value)| (key.trim(), value.trim()))
    })
}

fn value<'a>(text: &'a str, section: &'a str, key: &str) -> Option<&'a str> {
    values(text, section).find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// The configuration of the source that a device file describes, if it is an ETMv4 or ETE.
fn config(device: &str) -> Option<Config> {
    let mut config = match value(device, "device", "type")?.split('.').next()? {
        "ETM4" => Config::etm4_default(),
        "ETE" => Config::ete_default(),
        _ => return None,
    };
    for (name, value) in values(device, "regs") {
        let name = name.split('(').next().unwrap_or(name);
        config.set(name, value).unwrap_or_else(|error| panic!("{name}={value}: {error}"));
    }
    Some(config)
}

/// One trace source of a buffer.
struct Source {
    id: u8,
    decoder: Decoder,
    /// The stream so far, and the index of each byte in the buffer.
    bytes: Vec<u8>,
    indices: Vec<u64>,
}

impl Source {
    fn new(id: u8, config: &Config) -> Self {
        Self { id, decoder: Decoder::new(config), bytes: Vec::new(), indices: Vec::new() }
    }

    fn feed(&mut self, index: u64, bytes: &[u8], lines: &mut Vec<String>) {
        self.bytes.extend_from_slice(bytes);
        self.indices.extend(index..index + bytes.len() as u64);
        self.decoder
            .feed(bytes, &mut |packet| lines.extend(line(self.id, &self.bytes, &self.indices, &packet)));
    }

    fn finish(&mut self, lines: &mut Vec<String>) {
        self.decoder.finish(&mut |packet| lines.extend(line(self.id, &self.bytes, &self.indices, &packet)));
        assert_eq!(self.decoder.accounting().total(), self.bytes.len() as u64);
    }
}

/// One line of a listing, as the corpus has it.
fn line(id: u8, bytes: &[u8], indices: &[u64], packet: &Located<Packet>) -> Option<String> {
    if packet.value == Packet::Unsynchronised {
        return None;
    }
    let start = packet.offset as usize;
    let data: String =
        bytes[start..][..packet.length as usize].iter().map(|byte| format!("{byte:02x}")).collect();
    let mut line = format!("{}\t{id:x}\t{}\t{data}", indices[start], packet.value.name());
    if let Some(address) = packet.value.address() {
        line += &format!("\tAddr=0x{:016X}", address.address);
    }
    if let Packet::Atoms(atoms) = packet.value {
        line += &format!("\t{atoms}");
    }
    Some(line)
}

/// The lines of all sources of a buffer, in the order of the packets' last bytes.
fn listing(bytes: &[u8], framing: Framing, sources: &mut BTreeMap<u8, Source>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut deframer = Deframer::new(framing);
    deframer.feed(bytes, &mut |chunk| match chunk {
        Chunk::Data { id, index, bytes } => {
            if let Some(source) = sources.get_mut(&id.get()) {
                source.feed(index, bytes, &mut lines);
            }
        }
        Chunk::Discontinuity { .. } => panic!("the corpus has no discontinuities"),
        _ => {}
    });
    for source in sources.values_mut() {
        source.finish(&mut lines);
    }
    lines
}

fn check(folder: &Path, buffer: &str, bytes: &[u8], framing: Framing, configs: &[Config]) -> usize {
    let file = folder.join(format!("expected/{buffer}.packets.gz"));
    if configs.is_empty() || !file.exists() {
        return 0;
    }
    let mut sources = BTreeMap::new();
    for config in configs {
        // A raw stream has no number.
        let id = if framing == Framing::Raw { 0 } else { config.trace_id() };
        sources.insert(id, Source::new(id, config));
    }
    let expected = String::from_utf8(gunzip(&file)).unwrap();
    let of_sources = |line: &&str| {
        let id = u8::from_str_radix(line.split('\t').nth(1).unwrap(), 16).unwrap();
        configs.iter().any(|config| framing == Framing::Raw || config.trace_id() == id)
    };
    let expected: Vec<&str> = expected.lines().filter(of_sources).collect();
    let actual = listing(bytes, framing, &mut sources);
    for (actual, expected) in actual.iter().zip(&expected) {
        assert_eq!(actual, expected, "{} {buffer}", folder.display());
    }
    assert_eq!(actual.len(), expected.len(), "{} {buffer}", folder.display());
    expected.len()
}

#[test]
fn sources_of_the_corpus_give_the_packets_of_their_listings() {
    let Some(corpus) = corpus() else { return };
    let (mut buffers, mut lines) = (0, 0);
    for folder in fs::read_dir(corpus.join("opencsd")).unwrap().map(|entry| entry.unwrap().path()) {
        let capture = folder.join("capture");
        let read = |file: &str| fs::read_to_string(capture.join(file)).unwrap_or_default();
        let trace = read("trace.ini");
        let devices: Vec<String> =
            values(&read("snapshot.ini"), "device_list").map(|(_, file)| read(file)).collect();
        for section in value(&trace, "trace_buffers", "buffers").unwrap().split(',').map(str::trim) {
            let (Some(name), Some(file)) = (value(&trace, section, "name"), value(&trace, section, "file"))
            else {
                continue;
            };
            let framing = match value(&trace, section, "format") {
                Some("source_data") => Framing::Raw,
                Some("dstream_coresight") => Framing::Dstream,
                _ => Framing::Coresight,
            };
            let configs: Vec<Config> = values(&trace, "source_buffers")
                .filter(|(_, buffer)| *buffer == name)
                .filter_map(|(source, _)| {
                    devices.iter().find(|device| value(device, "device", "name") == Some(source))
                })
                .filter_map(|device| config(device))
                .collect();
            let bytes = fs::read(capture.join(file)).unwrap();
            let checked = check(&folder, name, &bytes, framing, &configs);
            buffers += usize::from(checked > 0);
            lines += checked;
        }
    }
    println!("{lines} packets of {buffers} buffers");
    assert!(buffers > 0, "the corpus has no ETMv4 or ETE buffers");
}
