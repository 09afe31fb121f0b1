//! Sources that run the same code share what was read of it: what comes of each is what comes of it alone.

use std::collections::BTreeMap;
use std::path::Path;

use backsight::core::TraceId;
use backsight::decode::Execution;
use backsight::frame::{Formatter, FormatterConfig, Framing};
use backsight::{Capture, Decode, Event, OpenOptions, Source};
use backsight_testing::{Random, corpus, repository, skipped};

use crate::pieces::captures;

/// A stream of one trace unit, and what it is opened with.
struct Stream {
    bytes: Vec<u8>,
    protocol: &'static str,
    images: Vec<String>,
    settings: Vec<String>,
}

impl Stream {
    fn open(&self, bytes: &[u8], framing: &str) -> Capture {
        let mut options = OpenOptions::new().protocol(self.protocol).framing(framing);
        options = self.images.iter().fold(options, |options, image| options.image(image));
        options = self.settings.iter().fold(options, |options, setting| options.config(setting));
        options.bytes(bytes).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The bytes of the only source of a capture.
fn bytes_of(capture: &Path) -> Vec<u8> {
    let capture = Capture::open(capture).unwrap_or_else(|error| panic!("{error}"));
    let mut bytes = Vec::new();
    capture.packets().run(|item| bytes.extend_from_slice(item.bytes())).unwrap();
    bytes
}

/// The registers of a trace unit that decide how its trace is read, from a file of a capture.
fn settings(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let values = text.lines().filter_map(|line| line.rsplit_once(['=', ':']));
    let values = values.map(|(key, value)| (key.split('(').next().unwrap_or(key), value.trim()));
    let is_read = |key: &str| {
        ["TRCCONFIGR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "ETMCR", "ETMIDR", "ETMCCER"].contains(&key)
    };
    values.filter(|(key, _)| is_read(key)).map(|(key, value)| format!("{key}={value}")).collect()
}

fn bundled(name: &str, program: &str) -> Stream {
    let folder = repository().join("testdata/captures").join(name);
    Stream {
        bytes: bytes_of(&folder),
        protocol: "etm4",
        images: vec![folder.join("code").join(program).display().to_string()],
        settings: settings(&folder.join("trace.ini")),
    }
}

/// A PTM that a board recorded, where the corpus is at hand.
fn ptm() -> Option<Stream> {
    let folder = corpus()?.join("opencsd/tc2-ptm-rstk-t32/capture");
    let code = folder.join("mem_Cortex-A15_0_1_RO_CODE.bin");
    Some(Stream {
        bytes: std::fs::read(folder.join("PTM_0_2.bin")).ok()?,
        protocol: "ptm",
        images: vec![format!("{}@0x80000278", code.display())],
        settings: settings(&folder.join("device5.ini")),
    })
}

/// The stream under several IDs, in turns of random length.
fn framed(bytes: &[u8], ids: u8, random: &mut Random) -> Vec<u8> {
    let mut formatter = Formatter::new(FormatterConfig::new(Framing::Coresight));
    let mut buffer = Vec::new();
    let mut left = vec![bytes; usize::from(ids)];
    while left.iter().any(|left| !left.is_empty()) {
        let id = random.below(ids.into()) as u8;
        let rest = &mut left[usize::from(id)];
        let (now, later) = rest.split_at(rest.len().min(1 + random.below(3000) as usize));
        *rest = later;
        let put = &mut |bytes: &[u8]| buffer.extend_from_slice(bytes);
        formatter.push(TraceId::new(1 + id), now, put).unwrap();
    }
    formatter.finish(&mut |bytes| buffer.extend_from_slice(bytes));
    buffer
}

fn check(name: &str, stream: &Stream) {
    let (mut random, mut alone) = (Random(64), Vec::new());
    stream.open(&stream.bytes, "raw").execution().run(|item| alone.push(item.value)).unwrap();
    assert!(alone.iter().any(|event| matches!(event, Event::Range(_))), "{name}: nothing is followed");
    let buffer = framed(&stream.bytes, 9, &mut random);
    let capture = stream.open(&buffer, "coresight");
    for threads in [1, 3] {
        let decode = capture.execution().threads(threads).any_order();
        let (_, sources) = decode.fold(|_| Vec::new(), |events, item| events.push(item.value)).unwrap();
        assert_eq!(sources.len(), 9, "{name}");
        for (source, events) in sources {
            // Frames end in padding, which is no part of the stream alone.
            let same = alone.len() - 1;
            assert!(events[..same] == alone[..same], "{name}: {} on {threads} threads", source.name());
        }
    }
}

#[test]
fn sources_that_run_the_same_code_do_not_disturb_one_another() {
    check("calls", &bundled("calls-aarch64", "calls"));
    check("interwork", &bundled("interwork-arm", "interwork"));
    match ptm() {
        Some(stream) => check("PTM", &stream),
        None => skipped("no corpus for PTM"),
    }
}

/// All events of each source, by buffer and ID.
fn events(decode: Decode<'_, Execution>) -> BTreeMap<(String, u8), Vec<Event>> {
    let fold = decode.any_order().fold(|_| Vec::new(), |events, item| events.push(item.value));
    let (_, sources) = fold.unwrap_or_else(|error| panic!("{error}"));
    let key = |source: &Source| (source.buffer().to_owned(), source.id().get());
    sources.into_iter().map(|(source, events)| (key(&source), events)).collect()
}

#[test]
fn the_cores_of_a_board_do_not_disturb_one_another() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut compared = 0;
    for (name, path) in captures(&corpus.join("opencsd")) {
        let Ok(capture) = Capture::open(&path) else { continue };
        let together = events(capture.execution().threads(2));
        if together.len() < 2 {
            continue;
        }
        for ((buffer, id), events_together) in &together {
            // A capture that is opened again shares nothing.
            let capture = Capture::open(&path).unwrap();
            let alone = events(capture.execution().buffer(buffer).id((*id).into()));
            assert!(alone.values().any(|events| events == events_together), "{name}: {buffer}, ID {id:#x}");
            compared += events_together.len();
        }
    }
    assert!(compared > 20_000, "{compared}");
}
