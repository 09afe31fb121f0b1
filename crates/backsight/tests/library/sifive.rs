//! Captures of SiFive's trace encoders, against what SiFive's own decoder lists: every message, every instruction, every
//! time. They are part of the corpus, and skipped where that is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use backsight::core::{Describe, Value};
use backsight::flow::{HardwareEvent, InCircuitEvent, SourceTime};
use backsight::image::Code as _;
use backsight::listing::steps;
use backsight::riscv::ntrace::{Message, in_circuit};
use backsight::{Capture, Event, OpenOptions, Packet};
use backsight_testing::{corpus, gunzip, skipped};

/// What a file of options says.
pub struct Case {
    folder: PathBuf,
    lines: Vec<(String, String)>,
}

impl Case {
    fn read(folder: &Path) -> Self {
        let text = std::fs::read_to_string(folder.join("options")).expect("options");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.filter_map(|line| line.split_once(' '));
        Self {
            folder: folder.to_owned(),
            lines: lines.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }
    }

    fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(move |(other, _)| other == key).map(|(_, value)| value.as_str())
    }

    fn open(&self, more: &[&str]) -> Capture {
        self.options(more).open(self.capture()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The file of the trace.
    pub fn capture(&self) -> PathBuf {
        self.folder.join(self.all("capture").next().expect("a capture"))
    }

    /// How it is opened.
    pub fn options(&self, more: &[&str]) -> OpenOptions {
        let mut options = OpenOptions::new().protocol("ntrace");
        for setting in self.all("config").chain(more.iter().copied()) {
            options = options.config(setting);
        }
        for image in self.all("image") {
            options = options.image(&self.folder.join(image).display().to_string());
        }
        options
    }

    fn listed(&self, name: &str) -> Vec<Vec<String>> {
        let text = String::from_utf8(gunzip(&self.folder.join(name))).expect("text");
        text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    pub fn name(&self) -> String {
        self.folder.file_name().expect("a name").to_string_lossy().into_owned()
    }
}

/// The captures that have this file of expectations: a corpus that somebody made may have none of messages.
pub fn cases(expected: &str) -> Vec<Case> {
    let Some(folder) = corpus().map(|corpus| corpus.join("ntrace-sifive")).filter(|folder| folder.is_dir())
    else {
        skipped("the corpus is missing");
        return Vec::new();
    };
    let mut cases: Vec<Case> = std::fs::read_dir(folder)
        .expect("corpus")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("options").is_file() && path.join(expected).is_file())
        .map(|path| Case::read(&path))
        .collect();
    cases.sort_by_key(Case::name);
    if cases.is_empty() {
        skipped("the corpus has no such expectations");
    }
    cases
}

/// The instruction that the reference lists for an event: marks in an instruction trace have none.
fn listed_address(event: &InCircuitEvent) -> Option<u64> {
    let is_mark = matches!(event.event, in_circuit::EXTERNAL_TRIGGER | in_circuit::WATCHPOINT)
        && event.number().is_none();
    event.address().filter(|_| !is_mark).map(|address| address.0)
}

/// Source, address and whether it is that of an event.
type Line = (u16, u64, bool);

fn executed(case: &Case) -> Vec<Line> {
    let capture = case.open(&[]);
    let code = capture.code().expect("code");
    let wanted: BTreeSet<u64> = case.all("context").map(|id| id.parse().expect("a number")).collect();
    let samples_only = case.name() == "pc-sample-sync";
    let mut contexts: BTreeMap<u16, Option<u64>> = BTreeMap::new();
    let mut lines = Vec::new();
    let mut spaces = BTreeMap::new();
    let summary = capture.execution().run(|item| {
        let source = item.sub_source;
        let is_wanted = wanted.is_empty()
            || contexts.get(&source).copied().flatten().is_some_and(|context| wanted.contains(&context));
        match item.value {
            Event::Context(context, _) => {
                contexts.insert(source, context.context_id);
                spaces.insert(source, code.image().space_of(&context));
            }
            Event::Range(range) if is_wanted => {
                let space = spaces.get(&source).copied().unwrap_or(backsight::core::AddressSpace::ANY);
                steps(&range, space, code.image(), |step| lines.push((source, step.address.0, false)));
            }
            // Samples by messages that synchronise are not in the listing.
            Event::Hardware(HardwareEvent::InCircuit(event)) if is_wanted && !samples_only => {
                lines.extend(listed_address(&event).map(|address| (source, address, true)));
            }
            _ => {}
        }
    });
    summary.unwrap_or_else(|error| panic!("{error}"));
    lines
}

/// Where the two part. Lines that may be missing are passed over if they are.
fn difference(case: &Case, actual: &[Line]) -> Option<String> {
    let mut expected: BTreeMap<u16, Vec<(u64, bool, bool)>> = BTreeMap::new();
    for line in case.listed("pcs.gz") {
        let mark = line.get(2).map(String::as_str);
        let source = u16::from_str_radix(&line[0], 16).expect("a source");
        let address = u64::from_str_radix(&line[1], 16).expect("an address");
        expected.entry(source).or_default().push((address, mark == Some("event"), mark == Some("more")));
    }
    let mut by_source: BTreeMap<u16, Vec<(u64, bool)>> = BTreeMap::new();
    for &(source, address, is_event) in actual {
        by_source.entry(source).or_default().push((address, is_event));
    }
    let sources: BTreeSet<u16> = expected.keys().chain(by_source.keys()).copied().collect();
    for source in sources {
        let mut ours = by_source.get(&source).into_iter().flatten().copied().enumerate().peekable();
        for &(address, is_event, optional) in expected.get(&source).into_iter().flatten() {
            match ours.peek() {
                Some(&(_, next)) if next == (address, is_event) => drop(ours.next()),
                _ if optional => {}
                other => {
                    return Some(format!("source {source}: {address:#x} {is_event}, not {other:x?}"));
                }
            }
        }
        if let Some(more) = ours.next() {
            return Some(format!("source {source}: {more:x?} after the end"));
        }
    }
    None
}

#[test]
fn every_instruction_is_listed() {
    let mut wrong = Vec::new();
    for case in cases("pcs.gz") {
        let actual = executed(&case);
        if let Some(difference) = difference(&case, &actual) {
            wrong.push(format!("{}: {difference} ({} lines)", case.name(), actual.len()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A field as the reference writes it; `None` for what it does not have.
fn field(name: &str, value: Value) -> Option<String> {
    let text = match value {
        Value::Decimal(value) => value.to_string(),
        Value::Hexadecimal(value) => format!("{value:#x}"),
        _ => return None,
    };
    Some(format!("{name}={text}"))
}

#[test]
fn every_message_has_its_fields() {
    let derived = ["BTYPE=", "CDF=", "CKDF=", "RCODE=", "TIME=", "NEXT=", "SRC="];
    for case in cases("messages.gz") {
        let mut actual = BTreeMap::new();
        let decoded = case.open(&[]).packets().run(|item| {
            let Packet::Ntrace(packet) = item.value else { return };
            if let Message::Bad(_) = packet.message {
                return;
            }
            let mut fields = BTreeSet::new();
            packet.fields(&mut |one| fields.extend(field(one.name, one.value)));
            actual.insert((item.offset, item.length), fields);
        });
        decoded.unwrap_or_else(|error| panic!("{error}"));
        let expected = case.listed("messages.gz");
        for line in &expected {
            let location = (line[0].parse().expect("an offset"), line[1].parse().expect("a length"));
            let fields =
                actual.get(&location).unwrap_or_else(|| panic!("{}: {line:?} is missing", case.name()));
            for wanted in
                line.iter().skip(3).filter(|field| !derived.iter().any(|key| field.starts_with(key)))
            {
                assert!(fields.contains(wanted), "{}: {line:?}: {fields:?}", case.name());
            }
        }
        assert_eq!(actual.len(), expected.len(), "{}", case.name());
    }
}

fn times(case: &Case, settings: &[&str]) -> BTreeMap<u64, u64> {
    let mut times = BTreeMap::new();
    let decoded = case.open(settings).execution().run(|item| match item.value {
        Event::Timestamp { value, .. } | Event::SourceTime(SourceTime::Global { value, .. }) => {
            times.insert(item.offset, value);
        }
        _ => {}
    });
    decoded.unwrap_or_else(|error| panic!("{error}"));
    times
}

#[test]
fn times_are_those_of_the_reference_and_the_dialect_shows() {
    for case in cases("messages.gz") {
        let expected: BTreeMap<u64, u64> = case
            .listed("messages.gz")
            .iter()
            .filter_map(|line| {
                let time = line.iter().find_map(|field| field.strip_prefix("TIME="))?;
                Some((line[0].parse().expect("an offset"), time.parse().expect("a time")))
            })
            .collect();
        assert_eq!(times(&case, &["dialect=sifive"]), expected, "{}", case.name());
        // Without a word about it, the first few may be sums.
        let found = times(&case, &[]);
        let wrong = expected.iter().filter(|&(offset, time)| found.get(offset) != Some(time)).count();
        assert!(wrong <= 1, "{}: {wrong} of {}", case.name(), expected.len());
    }
}
