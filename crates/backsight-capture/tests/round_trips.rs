//! A capture that was written is the same when it is read.

mod common;

use backsight_arm::frame::{Chunk, Deframer, Framing};
use backsight_capture::archive::Archive;
use backsight_capture::folder::Memory;
use backsight_capture::{Capture, Format, ReadOptions};
use common::{bytes, from, open};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::sync::Arc;

fn checksum(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |sum, &byte| sum.rotate_left(5).wrapping_mul(31) ^ u64::from(byte))
}

/// Length and checksum of every stream of a buffer.
fn streams(capture: &Capture, buffer: usize) -> BTreeMap<u8, (u64, u64)> {
    let mut streams: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
    let mut deframer = Deframer::new(capture.buffers[buffer].framing);
    deframer.feed(&bytes(capture, buffer), &mut |chunk| {
        if let Chunk::Data { id, bytes, .. } = chunk {
            let (length, sum) = streams.entry(id.get()).or_default();
            *length += bytes.len() as u64;
            *sum = checksum(*sum, bytes);
        }
    });
    streams
}

/// All that both formats can say, as text.
fn summary(capture: &Capture) -> Vec<String> {
    let mut lines = vec![format!("{:?} {:?}", capture.description, capture.timestamp_frequency)];
    for (number, buffer) in capture.buffers.iter().enumerate() {
        lines.push(format!(
            "buffer {} wrapped {} {:?}",
            buffer.name,
            buffer.wrapped,
            streams(capture, number)
        ));
        for source in capture.sources_of(number) {
            let core = source.core.map(|core| (&capture.cores[core].name, &capture.cores[core].kind));
            // The ID of a snapshot's source stands in its registers, that of a package's beside them.
            lines.push(format!(
                "  source {} {} {} {core:?} {:?}",
                source.name, source.stream, source.format, source.location
            ));
            let registers: Vec<_> = source.registers.iter().map(|r| (&r.name, r.value)).collect();
            lines.push(format!("    {registers:?} {:?}", source.options));
        }
    }
    let mut memory = Vec::new();
    for dump in capture.memory.iter().filter(|dump| dump.file.exists()) {
        let mut contents = Vec::new();
        dump.file.open().unwrap().read_to_end(&mut contents).unwrap();
        // A core that traces nothing has no name in a package.
        let core = dump.core.filter(|core| capture.sources.iter().any(|source| source.core == Some(*core)));
        let core = core.map(|core| &capture.cores[core].name);
        let sum = checksum(0, &contents);
        memory.push(format!(
            "memory {} {:?} {} {sum:x} {:?} {core:?}",
            dump.address, dump.length, dump.offset, dump.space
        ));
    }
    memory.sort();
    lines.extend(memory);
    lines
}

fn rewrite(capture: &Capture, format: Format) -> Capture {
    let mut written = Memory::default();
    capture.write(format, &mut written).unwrap_or_else(|error| panic!("{error}"));
    let again = from(written).unwrap_or_else(|error| panic!("{}: {error}", capture.name));
    assert_eq!(again.format, format);
    again
}

fn same(lines: &[String], expected: &[String], what: &str) {
    for (line, expected) in lines.iter().zip(expected) {
        assert_eq!(line, expected, "{what}");
    }
    assert_eq!(lines.len(), expected.len(), "{what}");
}

/// Written as either format, and from that as the other, the capture is what it was.
fn check(capture: &Capture) {
    let expected = summary(capture);
    for (first, second) in [(Format::Snapshot, Format::Package), (Format::Package, Format::Snapshot)] {
        let once = rewrite(capture, first);
        same(&summary(&once), &expected, &format!("{} as {first:?}", capture.name));
        let twice = summary(&rewrite(&once, second));
        same(&twice, &expected, &format!("{} as {first:?}, then {second:?}", capture.name));
    }
}

#[test]
fn every_capture_of_the_corpus_comes_back() {
    let Some(corpus) = backsight_testing::corpus() else { return };
    for entry in std::fs::read_dir(corpus.join("opencsd")).unwrap() {
        let mut capture = Capture::open(entry.unwrap().path().join("capture")).unwrap();
        // A source without a buffer has no place in a package.
        capture.sources.retain(|source| !source.buffers.is_empty());
        check(&capture);
    }
}

const CONTENTS: &str = "\
[trace]
metadata=trace.ini
buffer0=cluster0.data
[system]
description: a test
timestamp_frequency: 50000000
[memory]
file=rom.bin
address=0x1000
offset=2
length=4
space=EL3
";

const METADATA: &str = "\
[buffer]
vendor: ARM
component: ETB
format: tpiu_hsync
id: ETB 0
wrapped: 1
[trace_16]
format: ETM4.2
source: ETM for CPU 0
core: Cortex-A53
cpu: 0
cyclecount: 1
timestamp_bits: 64
context_id: 32
[trace_19]
format: PFT1.1
source: PTM for CPU 3
core: Cortex-A15
cpu: 3
ETMCR: 0x10001000
ETMCCER: 0x34C01AC2
ETMIDR: 0x411CF312
ETMTRACEIDR: 0x00000013
[trace_32]
format: STP
source: STM
STMTCSR: 0x00200000
";

#[test]
fn a_package_with_several_protocols_and_options_comes_back() {
    let port = [
        0xFF, 0xFF, 0xFF, 0x7F, 0x21, 0x11, 0x22, 0x33, 0x44, 0x56, 0x27, 0x67, 0xFF, 0x7F, 0xA0, 0xB2, 0x41,
        0xD4, 0xFA, 0x00, 0x01, 0x3C,
    ];
    let files = common::folder(&[
        ("contents.ini", CONTENTS.as_bytes()),
        ("trace.ini", METADATA.as_bytes()),
        ("cluster0.data", &port),
        ("rom.bin", &[1, 2, 3, 4, 5, 6, 7]),
    ]);
    let capture = from(files).unwrap();
    assert_eq!(capture.sources.len(), 3);
    assert_eq!(streams(&capture, 0).len(), 3, "all sources have data");
    check(&capture);
}

#[test]
fn an_etrace_source_keeps_its_options_and_its_packet_framing() {
    let files = common::text_folder(&[
        ("contents.ini", "[trace]\nmetadata=trace.ini\nbuffer0=hart0.te\nbuffer1=hart1.te\n"),
        (
            "trace.ini",
            "[buffer0]\nformat: encap\nsource: 1\n[buffer1]\nformat: reference\nsource: 2\n\
             [trace_1]\nformat: E-Trace\nsource: hart 0\niaddress_width_p: 64\ncontext_width_p: 32\n\
             [trace_2]\nformat: E-Trace\nsource: hart 1\n",
        ),
        ("hart0.te", "abc"),
        ("hart1.te", "de"),
    ]);
    let options = ReadOptions { raw_formats: vec!["encap", "reference"], ..ReadOptions::default() };
    let read = |files: Memory| options.read(Arc::new(files), "capture").unwrap();
    let capture = read(files);
    assert_eq!(capture.warnings, [] as [&str; 0]);
    let source = &capture.sources[0];
    assert_eq!((source.format.as_str(), source.option("IADDRESS_WIDTH_P")), ("E-Trace", Some("64")));
    assert_eq!((capture.buffers[0].framing, capture.buffers[0].format.as_str()), (Framing::Raw, "encap"));
    for format in [Format::Package, Format::Snapshot] {
        let mut written = Memory::default();
        capture.write(format, &mut written).unwrap();
        let again = read(written);
        assert_eq!(again.buffers[0].format, "encap");
        assert_eq!(again.buffers[1].format, "reference");
        assert_eq!(again.sources[0].options, source.options);
        assert_eq!(again.sources_of(1).map(|source| source.name.as_str()).collect::<Vec<_>>(), ["hart 1"]);
    }
}

#[test]
fn events_images_and_code_stay_in_a_package() {
    let log = "%system-event-log version=1\n\
        5 declare_process START pid=1 base=0x10000 image=\"/bin/a\"\n\
        6 declare_library START pid=1 base=0x20000 image=\"/lib/b.so\"\n\
        7 patch_code pid=1 addr=0x30000 len=4 file=\"code/jit.bin\"\n\
        8 patch_code pid=1 addr=0x30000 len=4 id=blob\n";
    let capture = open(&[
        (
            "contents.ini",
            "[trace]\nmetadata=trace.ini\nbuffer0=data\n[events]\nlog=log\ncontextidr=asid_tid\nasid_bits=16\n\
             [images]\n/bin/a=images/a\n",
        ),
        ("trace.ini", "[buffer]\nformat: coresight\n[trace_16]\nformat: ETM4.0\n"),
        ("data", ""),
        ("log", log),
        ("images/a", "A"),
        ("lib/b.so", "B"),
        ("code/jit.bin", "jit!"),
        ("code/blob", "blob"),
    ])
    .unwrap();
    assert_eq!(capture.warnings, [] as [&str; 0]);
    let again = rewrite(&capture, Format::Package);
    assert_eq!(again.events, capture.events);
    assert_eq!((again.contextidr, again.asid_bits), (capture.contextidr, Some(16)));
    let mut images: Vec<(String, Vec<u8>)> =
        again.images.iter().map(|image| (image.name.clone(), image.file.read(10).unwrap())).collect();
    images.sort();
    assert_eq!(images, [("/bin/a".to_owned(), b"A".to_vec()), ("/lib/b.so".to_owned(), b"B".to_vec())]);
    let files = again.folder.files();
    assert!(
        files.contains(&"code/jit.bin".to_owned()) && files.contains(&"code/blob".to_owned()),
        "{files:?}"
    );
}

#[test]
fn a_reconfigured_source_goes_on_under_its_new_trace_id() {
    let log = "%system-event-log version=1\n\
        5 define_trace END id=0x10 source=\"ETM_0\"\n\
        5 define_trace START id=0x18 source=\"ETM_0\" format=ETM4.2 cyclecount=1\n";
    let capture = open(&[
        ("contents.ini", "[trace]\nmetadata=trace.ini\nbuffer0=data\n[events]\nlog=log\ncontextidr=none\n"),
        ("trace.ini", "[buffer]\nformat: coresight\n[trace_16]\nformat: ETM4.2\nsource: ETM_0\n"),
        ("data", ""),
        ("log", log),
    ])
    .unwrap();
    let ids: Vec<_> =
        capture.sources.iter().map(|source| (source.name.as_str(), source.id.unwrap().get())).collect();
    assert_eq!(ids, [("ETM_0", 0x10), ("ETM_0", 0x18)]);
    assert_eq!(capture.sources[1].option("cyclecount"), Some("1"));
    assert_eq!(capture.sources[1].buffers, [0]);
}

#[test]
fn a_package_in_an_archive_is_read_as_from_a_folder() {
    let capture = open(&[
        ("contents.ini", CONTENTS),
        ("trace.ini", METADATA),
        ("cluster0.data", "not much"),
        ("rom.bin", "1234567"),
    ])
    .unwrap();
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    capture.write(Format::Package, &mut archive).unwrap();
    let archive: Arc<[u8]> = archive.finish().unwrap().into_inner().into();
    let again = from(Archive::in_memory(archive, "capture.zip").unwrap()).unwrap();
    assert_eq!(summary(&again), summary(&capture));
    assert_eq!(again.buffers[0].length(), Some(8));
}

#[test]
fn a_capture_is_saved_to_new_places_only() {
    let folder = std::env::temp_dir().join(format!("backsight-capture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let capture = open(&[
        ("contents.ini", CONTENTS),
        ("trace.ini", METADATA),
        ("cluster0.data", "not much"),
        ("rom.bin", "1234567"),
    ])
    .unwrap();
    for (name, format) in [
        ("a", Format::Package),
        ("a.zip", Format::Package),
        ("b", Format::Snapshot),
        ("b.zip", Format::Snapshot),
    ] {
        let path = folder.join(name);
        capture.save(&path, format).unwrap();
        let again = Capture::open(&path).unwrap();
        assert_eq!(again.format, format);
        assert_eq!(again.sources.len(), 3);
        assert!(capture.save(&path, format).unwrap_err().to_string().contains("exists"));
    }
    let entry = Capture::open(folder.join("b/snapshot.ini")).unwrap();
    assert_eq!(entry.format, Format::Snapshot);
    assert!(Capture::open(folder.join("b/trace.ini")).is_err());
    assert!(Capture::open(folder.join("nowhere")).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}
