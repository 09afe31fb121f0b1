//! Every ETMv4 and ETE source of the corpus, packet by packet, against the listing that came with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use backsight_arm::etm4::{Config, Decoder, Packet};
use backsight_arm::frame::{Chunk, Deframer, Framing};
use backsight_core::Located;
use backsight_testing::{Random, corpus, gunzip};

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

/// Compares the packets of a buffer with its listing, if there is one; gives how many there are.
fn check(buffer: &Buffer) -> usize {
    let Buffer { folder, name, framing, configs, bytes } = buffer;
    let file = folder.join(format!("expected/{name}.packets.gz"));
    if !file.exists() {
        return 0;
    }
    let mut sources = BTreeMap::new();
    for config in configs {
        // A raw stream has no number.
        let id = if *framing == Framing::Raw { 0 } else { config.trace_id() };
        sources.insert(id, Source::new(id, config));
    }
    let expected = String::from_utf8(gunzip(&file)).unwrap();
    let of_sources = |line: &&str| {
        let id = u8::from_str_radix(line.split('\t').nth(1).unwrap(), 16).unwrap();
        sources.contains_key(&id)
    };
    let expected: Vec<&str> = expected.lines().filter(of_sources).collect();
    let actual = listing(bytes, *framing, &mut sources);
    for (actual, expected) in actual.iter().zip(&expected) {
        assert_eq!(actual, expected, "{} {name}", folder.display());
    }
    assert_eq!(actual.len(), expected.len(), "{} {name}", folder.display());
    expected.len()
}

/// A buffer of the corpus with its ETMv4 and ETE sources.
struct Buffer {
    folder: PathBuf,
    name: String,
    framing: Framing,
    configs: Vec<Config>,
    bytes: Vec<u8>,
}

fn buffers(corpus: &Path) -> Vec<Buffer> {
    let mut buffers = Vec::new();
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
            if !configs.is_empty() {
                let bytes = fs::read(capture.join(file)).unwrap();
                buffers.push(Buffer { folder: folder.clone(), name: name.into(), framing, configs, bytes });
            }
        }
    }
    assert!(!buffers.is_empty(), "the corpus has no ETMv4 or ETE buffers");
    buffers
}

#[test]
fn sources_of_the_corpus_give_the_packets_of_their_listings() {
    let Some(corpus) = corpus() else { return };
    let lines: usize = buffers(&corpus).iter().map(check).sum();
    println!("{lines} packets are as listed");
    assert!(lines > 0, "the corpus has no listings");
}

/// Packets of a stream that is fed in pieces of that length; every byte must be accounted for.
fn decode(config: &Config, bytes: &[u8], piece: usize) -> Vec<Located<Packet>> {
    let mut decoder = Decoder::new(config);
    let mut packets = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.feed(piece, &mut |packet| packets.push(packet));
    }
    decoder.finish(&mut |packet| packets.push(packet));
    assert_eq!(decoder.accounting().total(), bytes.len() as u64);
    packets
}

#[test]
fn damage_to_a_real_stream_loses_no_byte_and_does_not_show_how_it_was_cut() {
    let Some(corpus) = corpus() else { return };
    let mut random = Random(11);
    for buffer in
        buffers(&corpus).iter().filter(|buffer| buffer.framing == Framing::Raw && !buffer.bytes.is_empty())
    {
        let mut bytes = buffer.bytes[..buffer.bytes.len().min(20_000)].to_vec();
        for _ in 0..bytes.len() / 200 + 1 {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = random.next() as u8,
                1 => drop(bytes.drain(at..bytes.len().min(at + 7))),
                _ => bytes.truncate(bytes.len() - bytes.len() / 500),
            }
        }
        let in_one = decode(&buffer.configs[0], &bytes, bytes.len());
        for piece in [1, 3, 64] {
            assert_eq!(decode(&buffer.configs[0], &bytes, piece), in_one, "{}", buffer.folder.display());
        }
    }
}
