//! The packets of one source on several threads: exactly what a single thread gives, for every protocol.

use backsight::core::TraceId;
use backsight::decode::Written;
use backsight::etm4::synthetic::WorstCase;
use backsight::frame::{Formatter, FormatterConfig, Framing};
use backsight::listing::{PacketFormat, PacketWriter};
use backsight::riscv::etrace::{BranchMap, Options, Params, Reported, Start, encode};
use backsight::riscv::{encap, etrace, ntrace};
use backsight::{Capture, Decode, Error, Item, OpenOptions, Packet, Summary, itm, stm};
use backsight_testing::{Random, corpus, repository, skipped};

use crate::pieces::{captures, damage, damaged};

/// Chooses what is decoded of a capture.
type Choose<'f> = &'f dyn for<'c> Fn(&'c Capture) -> Decode<'c, backsight::decode::Packets>;

/// Whatever should be the same, in the text of a line.
fn line(item: &Item<'_, Packet>) -> String {
    let Item { sub_source, offset, length, value, .. } = item;
    format!("{sub_source} {offset} {length} {:?} {:02x?} {value:?}\n", item.position(), item.bytes())
}

/// All that comes of packets: what is in them, each listing, the number by kind, and what is said at the end.
fn all_of(capture: &Capture, choose: Choose<'_>, threads: usize, piece: usize) -> Vec<String> {
    let decode = || choose(capture).threads(threads).piece_size(piece);
    let words = |summary: &Summary| {
        let notes =
            summary.buffers.iter().flat_map(|buffer| &buffer.sources).flat_map(|source| &source.notes);
        format!("{summary} {:?} {:?}", summary.kinds().by_name(), notes.collect::<Vec<_>>())
    };
    let mut all = Vec::new();
    let put = |text: &mut String, item: Item<'_, Packet>| text.push_str(&line(&item));
    let (summary, texts) = decode().reduce(|_| String::new(), put, |text, later| *text += &later).unwrap();
    all.extend([words(&summary), texts.into_iter().map(|(_, text)| text).collect()]);
    for format in [PacketFormat::Text, PacketFormat::Json, PacketFormat::Opencsd] {
        let mut text = Vec::new();
        let output = |written: Written<'_>| {
            if let Written::Text(more) = written {
                text.extend_from_slice(more);
            }
            Ok::<_, Error>(())
        };
        let summary = decode().write(|_| Ok(PacketWriter::new(format)), output).unwrap();
        all.extend([words(&summary), String::from_utf8_lossy(&text).into_owned()]);
    }
    all.extend([words(&decode().count().unwrap()), words(&decode().tally().unwrap())]);
    all
}

/// Compares pieces of many sizes with the whole. Gives how many lines there are.
fn check(capture: &Capture, choose: Choose<'_>, sizes: &[usize], what: &str) -> usize {
    let expected = all_of(capture, choose, 1, 1);
    for (&size, threads) in sizes.iter().zip([2, 3, 4].into_iter().cycle()) {
        let given = all_of(capture, choose, threads, size);
        for (number, (expected, given)) in expected.iter().zip(&given).enumerate() {
            let first = expected.lines().zip(given.lines()).find(|(one, other)| one != other);
            assert!(expected == given, "{what}, pieces of {size}, output {number}: {first:?}");
        }
    }
    expected.iter().map(|text| text.lines().count()).sum()
}

/// A stream of one source, and what it is opened with.
struct Stream {
    protocol: &'static str,
    framing: &'static str,
    settings: &'static [&'static str],
    bytes: Vec<u8>,
}

impl Stream {
    fn open(&self, framing: &str, bytes: Vec<u8>) -> Capture {
        let options = OpenOptions::new().protocol(self.protocol).framing(framing);
        let options = self.settings.iter().fold(options, |options, setting| options.config(setting));
        options.bytes(bytes).unwrap_or_else(|error| panic!("{}: {error}", self.protocol))
    }
}

/// Bytes of each stream, and how far apart its synchronisations are.
const LENGTH: usize = 24_000;
const DISTANCE: usize = 1_300;

/// A stream of parts that `part` makes, with `sync` before some.
fn stream_of(sync: impl Fn(&mut Vec<u8>), mut part: impl FnMut(&mut Random, &mut Vec<u8>)) -> Vec<u8> {
    let (mut bytes, mut random, mut next) = (Vec::new(), Random(5), 0);
    while bytes.len() < LENGTH {
        if bytes.len() >= next {
            next = bytes.len() + DISTANCE;
            sync(&mut bytes);
        }
        part(&mut random, &mut bytes);
    }
    bytes
}

/// ETMv3 and PTM: A-sync and I-sync, then atoms, addresses of one, two and five bytes, and something else.
fn etm(i_sync: &'static [u8], other: &'static [u8]) -> Vec<u8> {
    let sync = |bytes: &mut Vec<u8>| bytes.extend([&[0, 0, 0, 0, 0, 0x80], i_sync].concat());
    stream_of(sync, |random, bytes| match random.below(12) {
        0..6 => bytes.push(0x80 | (4 + 4 * random.below(15) as u8)),
        6..8 => bytes.push(random.next() as u8 & 0x7E | 1),
        8..10 => bytes.extend([random.next() as u8 | 0x81, random.next() as u8 & 0x3F]),
        10 => bytes.extend([0x91, 0x80, random.next() as u8 | 0x80, 0xA0, random.next() as u8 & 7 | 8]),
        _ => bytes.extend(other),
    })
}

fn n_trace() -> Vec<u8> {
    let mut encoder = ntrace::Encoder::new(&ntrace::Config::default());
    let sync = |bytes: &mut Vec<u8>| {
        let sync = ntrace::Message::ProgramTraceSync { reason: 2, count: 3, address: 0x8000 };
        ntrace::encode(&ntrace::Config::default(), &ntrace::Packet::new(0, None, sync), bytes);
    };
    stream_of(sync, |random, bytes| {
        let count = random.below(1000) as u32;
        let kind = ntrace::BranchKind::from_bits(0);
        let message = match random.below(2) {
            0 => ntrace::Message::DirectBranch { count },
            _ => ntrace::Message::IndirectBranch { kind, count, address: random.below(1 << 20) },
        };
        assert!(encoder.put(&ntrace::Packet::new(0, None, message), bytes));
    })
}

fn e_trace(framing: encap::Framing) -> Vec<u8> {
    let (params, options) = (Params::default(), Options::default());
    let put = |packet: etrace::Packet, bytes: &mut Vec<u8>| {
        let payload = encode(&packet, &params, &options).to_vec();
        let kind = encap::Kind::Instruction;
        let packet = encap::Encapsulated { source: 0, kind, flow: 0, time: None, payload: &payload };
        encap::Framer::new(framing).frame(&packet, bytes).unwrap();
    };
    let start = Start { branch: true, address: 0x4000, ..Start::default() };
    stream_of(
        |bytes| put(etrace::Packet::Start(start), bytes),
        |random, bytes| {
            let (count, outcomes) = (1 + random.below(31) as u8, random.next() as u32);
            let map = BranchMap::new(count, outcomes & ((1 << count) - 1));
            let address = Reported { address: random.below(1 << 16), ..Reported::default() };
            put(etrace::Packet::Branches { map, address: Some(address) }, bytes);
        },
    )
}

fn streams() -> Vec<Stream> {
    let stream = |protocol, settings, bytes| Stream { protocol, framing: "raw", settings, bytes };
    let worst = |case: WorstCase, settings| {
        let mut bytes = Vec::new();
        case.write(LENGTH as u64, 3, &mut |packet| bytes.extend_from_slice(packet));
        stream("etm4", settings, bytes)
    };
    let itm = || {
        let put = |packet: itm::Packet, bytes: &mut Vec<u8>| assert!(itm::Encoder::new().put(&packet, bytes));
        stream_of(
            |bytes| put(itm::Packet::Sync, bytes),
            |random, bytes| {
                let (port, value) = (random.below(32) as u8, random.next() as u32);
                put(itm::Packet::Instrumentation { port, value, size: 4 }, bytes);
                put(itm::Packet::LocalTimestamp { ticks: 1 + random.below(6) as u32, relation: 0 }, bytes);
            },
        )
    };
    let stm = || {
        let mut encoder = stm::Encoder::new();
        let (mut bytes, mut random) = (Vec::new(), Random(5));
        while bytes.len() < LENGTH {
            let mut put = |content| assert!(encoder.put(&stm::Packet::new(content), &mut bytes));
            put(stm::Content::Async { found: false });
            put(stm::Content::Version { value: 3, more: None });
            for _ in 0..300 {
                let (value, nibbles) = (random.next() & 0xFF, if random.below(2) == 0 { 2 } else { 8 });
                put(stm::Content::Data { value, nibbles, marked: false });
                put(stm::Content::Master8(random.next() as u8));
            }
            if random.below(2) == 0 {
                put(stm::Content::Null);
            }
        }
        encoder.finish(&mut bytes);
        bytes
    };
    let data = stream_of(
        |bytes| bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]),
        |random, bytes| bytes.push(if random.below(2000) == 0 { 0x85 } else { 1 }),
    );
    let e_trace = |name, framing| Stream { framing: name, ..stream("etrace", &[], e_trace(framing)) };
    vec![
        worst(WorstCase::OneByte, &["TRCCONFIGR=0x11"]),
        worst(WorstCase::Addresses, &["TRCCONFIGR=0x9"]),
        worst(WorstCase::Timed, &["TRCCONFIGR=0x811"]),
        stream("etm3", &[], etm(&[0x08, 0x01, 0, 0x80, 0, 0], &[0x66])),
        stream("ptm", &[], etm(&[0x08, 0, 0x80, 0, 0, 0x01], &[0x42, 0x37])),
        stream("itm", &[], itm()),
        stream("stm", &[], stm()),
        stream("etm4-data", &[], data),
        stream("ntrace", &[], n_trace()),
        e_trace("reference", encap::Framing::REFERENCE),
        e_trace("atb", encap::Framing::ATB),
    ]
}

/// In frames of CoreSight, as the only source.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let (mut formatter, mut frames) = (Formatter::new(FormatterConfig::new(Framing::Coresight)), Vec::new());
    formatter.push(TraceId::new(0x10), bytes, &mut |frame| frames.extend_from_slice(frame)).unwrap();
    formatter.finish(&mut |frame| frames.extend_from_slice(frame));
    frames
}

const SIZES: [usize; 3] = [1, 2_500, 7_000];

#[test]
fn packets_of_every_protocol_in_pieces_are_those_of_the_whole() {
    for stream in streams() {
        let what = format!("{} {}", stream.protocol, stream.framing);
        let capture = stream.open(stream.framing, stream.bytes.clone());
        assert!(capture.packets().threads(2).piece_size(1).is_in_pieces().unwrap(), "{what}");
        let accounting = capture.packets().count().unwrap().accounting();
        assert!(accounting.bad == 0 && accounting.decoded > LENGTH as u64 / 2, "{what}: {accounting:?}");
        let lines = check(&capture, &Capture::packets, &SIZES, &what);
        assert!(lines > 10_000, "{what}: {lines}");
    }
}

#[test]
fn packets_of_damaged_streams_in_pieces_are_those_of_the_whole() {
    let mut random = Random(41);
    for stream in streams() {
        for round in 0..4 {
            let mut bytes = stream.bytes.clone();
            (0..1 + 4 * round).for_each(|_| damage(&mut bytes, &mut random));
            let what = format!("{} {}, damaged, {round}", stream.protocol, stream.framing);
            check(&stream.open(stream.framing, bytes), &Capture::packets, &SIZES[..2], &what);
        }
    }
}

#[test]
fn packets_in_frames_have_their_positions_and_bytes_in_pieces_too() {
    let mut random = Random(7);
    for stream in
        streams().into_iter().filter(|stream| stream.framing == "raw" && stream.protocol != "ntrace")
    {
        for round in 0..3 {
            let mut frames = framed(&stream.bytes);
            (0..3 * round).for_each(|_| damage(&mut frames, &mut random));
            let capture = stream.open("coresight", frames);
            let decode = capture.packets().threads(2).piece_size(1);
            assert!(round > 0 || decode.is_in_pieces().unwrap(), "{}", stream.protocol);
            let what = format!("{} in frames, {round}", stream.protocol);
            check(&capture, &|capture| capture.packets().id(0x10), &SIZES[..2], &what);
        }
    }
}

/// Decodes every source of a capture alone.
fn check_sources(capture: &Capture, sizes: &[usize], what: &str) -> usize {
    let mut lines = 0;
    for buffer in capture.buffers() {
        for source in buffer.sources().filter(|source| source.is_decoded()) {
            let (name, id) = (buffer.name(), u64::from(source.id().get()));
            let what = format!("{what}, {id:#x}");
            lines += check(capture, &|capture| capture.packets().buffer(name).id(id), sizes, &what);
        }
    }
    lines
}

#[test]
fn packets_of_bundled_captures_in_pieces_are_those_of_the_whole() {
    for (name, path) in captures(&repository().join("testdata/captures")) {
        check_sources(&Capture::open(path).unwrap(), &SIZES[..2], &name);
    }
}

#[test]
fn packets_of_real_captures_in_pieces_are_those_of_the_whole() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut lines = 0;
    for (name, path) in captures(&corpus.join("opencsd")) {
        // Some folders are of captures that are described wrongly on purpose.
        if let Ok(capture) = Capture::open(&path) {
            lines += check_sources(&capture, &SIZES[..1], &name);
        }
    }
    assert!(lines > 1_000_000, "{lines}");
}

#[test]
fn packets_of_damaged_captures_in_pieces_are_those_of_the_whole() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut random = Random(12);
    let folder = std::env::temp_dir().join(format!("backsight-packet-pieces-{}", std::process::id()));
    for name in
        ["a55-test-tpiu", "juno-ret-stck", "trace_cov_a15", "itm_only_raw", "stm_only", "tc2-ptm-rstk-t32"]
    {
        let from = corpus.join("opencsd").join(name).join("capture");
        for round in 0..2 {
            let to = folder.join(format!("{name}-{round}"));
            damaged(&from, &to, &mut random);
            check_sources(&Capture::open(&to).unwrap(), &SIZES[..2], &format!("{name}, damaged, {round}"));
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_was_passed_over_at_length_is_where_it_began() {
    let stream = streams().remove(0);
    for length in [40_000, 90_000, 700_000] {
        let bytes = [vec![0x33; length], stream.bytes.clone()].concat();
        let capture = stream.open("coresight", framed(&bytes));
        let mut first = None;
        let summary = capture.packets().run(|item| {
            first.get_or_insert((item.position(), item.length as usize, item.bytes().len()));
        });
        let shown = if length < 1 << 16 { length } else { 0 };
        assert_eq!(first, Some((Some(0), length, shown)), "{}", summary.unwrap());
        check(&capture, &Capture::packets, &[1, 100_000], &format!("{length} bytes before it"));
    }
}
