//! Reading a log.

use super::{EventLog, Item, Mapping, Patch, PatchCode, Pid, Record, State, TraceDefinition};
use crate::Error;
use crate::folder::{FileRef, LONGEST_LOG};
use crate::ini::{Dialect, parse_boolean, parse_number, short};
use backsight_core::{Address, TraceId};
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Take};
use std::sync::Arc;

/// Words of a line: those without `=` first, then keys with their values.
struct Words<'t> {
    plain: Vec<&'t str>,
    keyed: Vec<(&'t str, Cow<'t, str>)>,
}

/// Texts that a log repeats in many of its events: each is kept once.
#[derive(Debug, Default)]
pub(super) struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.0.insert(text.clone());
        text
    }
}

/// A clock that times are written in, and how it relates to that of the global timestamp.
#[derive(Clone, Copy)]
enum Clock {
    Coresight,
    Other {
        frequency: u64,
        at: u64,
        coresight_at: u64,
    },
    /// Nothing relates it.
    Unrelated,
}

impl EventLog {
    /// Reads a log. Lines that make no sense are skipped and listed in `problems`.
    ///
    /// # Errors
    /// If the first line is not that of a log of version 1.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut lines = text.lines();
        let mut reader = LineReader::new(file, lines.next().unwrap_or_default())?;
        for line in lines {
            reader.push(line, &mut || text.lines().find_map(frequency_of));
        }
        Ok(reader.finish())
    }

    /// The same of a file, of which a line at a time is in memory.
    pub(crate) fn read(file: &FileRef) -> Result<Self, Error> {
        let (name, mut lines) = (file.to_string(), Lines::open(file)?);
        let first = lines.next()?.unwrap_or_default().to_owned();
        let mut reader = LineReader::new(&name, &first)?;
        while let Some(line) = lines.next()? {
            reader.push(line, &mut || find_frequency(file));
        }
        Ok(reader.finish())
    }

    /// Sorts by time, stably. What has no time stays after what it stands after.
    pub(super) fn sort(&mut self) {
        // Most logs are in order.
        if !self.records.iter().filter_map(|record| record.time).is_sorted() {
            self.append(Self::default());
        }
    }

    /// Adds the events of another log of the same clock, each at its time.
    pub fn append(&mut self, other: Self) {
        let mut keyed: Vec<(u64, Record)> = Vec::with_capacity(self.records.len() + other.records.len());
        for records in [std::mem::take(&mut self.records), other.records] {
            let mut latest = 0;
            keyed.extend(records.into_iter().map(|record| {
                latest = record.time.unwrap_or(latest);
                (latest, record)
            }));
        }
        keyed.sort_by_key(|(time, _)| *time);
        self.records = keyed.into_iter().map(|(_, record)| record).collect();
        self.problems.extend(other.problems);
    }
}

/// The frequency of the global timestamp, if this line says it.
fn frequency_of(line: &str) -> Option<u64> {
    let words = words(line).ok().filter(|words| words.plain.first() == Some(&"%frequency"))?;
    parse_number(words.get("coresight")?, Dialect::Package)
}

/// Looks through a file for the frequency of the global timestamp.
fn find_frequency(file: &FileRef) -> Option<u64> {
    let mut lines = Lines::open(file).ok()?;
    while let Some(line) = lines.next().ok()? {
        if let Some(frequency) = frequency_of(line) {
            return Some(frequency);
        }
    }
    None
}

/// The lines of a file.
struct Lines {
    name: String,
    reader: BufReader<Take<Box<dyn Read + Send>>>,
    bytes: Vec<u8>,
    text: String,
}

impl Lines {
    fn open(file: &FileRef) -> Result<Self, Error> {
        let reader = BufReader::with_capacity(1 << 16, file.open()?.take(LONGEST_LOG + 1));
        Ok(Self { name: file.to_string(), reader, bytes: Vec::new(), text: String::new() })
    }

    /// The next line. What is not UTF-8 is replaced: names and numbers are not affected.
    fn next(&mut self) -> Result<Option<&str>, Error> {
        self.bytes.clear();
        let read = self.reader.read_until(b'\n', &mut self.bytes);
        if read.map_err(|error| Error::io(&self.name, &error))? == 0 {
            return match self.reader.get_ref().limit() {
                0 => Err(Error::file(&self.name, format!("is longer than the {LONGEST_LOG} bytes expected"))),
                _ => Ok(None),
            };
        }
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(&self.bytes));
        Ok(Some(self.text.trim_end_matches(['\n', '\r'])))
    }
}

/// Reads a log line by line.
struct LineReader<'a> {
    file: &'a str,
    log: EventLog,
    line: u32,
    clock: Clock,
    /// Looked for when another clock is met.
    frequency: Option<u64>,
    texts: Texts,
}

impl<'a> LineReader<'a> {
    fn new(file: &'a str, first: &str) -> Result<Self, Error> {
        let header = words(first.trim_start_matches('\u{FEFF}')).ok();
        let header = header.filter(|words| words.plain == ["%system-event-log"]);
        match header.as_ref().and_then(|words| words.get("version")) {
            Some("1") => {}
            Some(other) => {
                return Err(Error::line(file, 1, format!("log version `{}`, expected 1", short(other))));
            }
            None => return Err(Error::line(file, 1, "expected `%system-event-log version=1`")),
        }
        let (log, texts) = Default::default();
        Ok(Self { file, log, line: 1, clock: Clock::Coresight, frequency: None, texts })
    }

    fn push(&mut self, line: &str, find_frequency: &mut dyn FnMut() -> Option<u64>) {
        self.line = self.line.saturating_add(1);
        match self.parse(line, find_frequency) {
            Ok(Some((time, item))) => self.log.records.push(Record { line: self.line, time, item }),
            Ok(None) => {}
            Err(what) => self.log.problems.push(Error::line(self.file, self.line, what)),
        }
    }

    fn parse(
        &mut self,
        line: &str,
        find_frequency: &mut dyn FnMut() -> Option<u64>,
    ) -> Result<Option<(Option<u64>, Item)>, String> {
        let words = words(line)?;
        match words.plain.first() {
            None if words.keyed.is_empty() => Ok(None),
            None => Err("expected a time and the name of an event".to_owned()),
            Some(&"%clock") => {
                self.clock = words.clock()?;
                if matches!(self.clock, Clock::Other { .. }) && self.frequency.is_none() {
                    self.frequency = find_frequency();
                }
                Ok(None)
            }
            Some(name) if name.starts_with('%') => Ok(Some((None, words.directive()?))),
            Some(_) => {
                let time = words.time(self.clock, self.frequency)?;
                Ok(Some((time, words.event(&mut self.texts)?)))
            }
        }
    }

    fn finish(mut self) -> EventLog {
        self.log.sort();
        self.log
    }
}

/// Reads an event or a directive that stands without its time.
pub(super) fn parse_item(line: &str, texts: &mut Texts) -> Result<Item, String> {
    if line.starts_with('%') {
        return words(line)?.directive();
    }
    words(&format!("- {line}"))?.event(texts)
}

impl Words<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.keyed.iter().find(|(other, _)| *other == key).map(|(_, value)| value.as_ref())
    }

    fn needed(&self, key: &str) -> Result<&str, String> {
        self.get(key).ok_or_else(|| format!("expected `{key}=`"))
    }

    fn number(&self, key: &str) -> Result<u64, String> {
        number(key, self.needed(key)?)
    }

    fn maybe_number(&self, key: &str) -> Result<Option<u64>, String> {
        self.get(key).map(|text| number(key, text)).transpose()
    }

    fn maybe_cpu(&self) -> Result<Option<u32>, String> {
        self.maybe_number("cpu")?.map(|cpu| small("cpu", cpu)).transpose()
    }

    fn flag(&self, key: &str) -> Result<bool, String> {
        match self.get(key) {
            None => Ok(false),
            Some(text) => {
                parse_boolean(text).ok_or_else(|| format!("`{key}` is `{}`, expected 0 or 1", short(text)))
            }
        }
    }

    fn pid(&self) -> Result<Pid, String> {
        match self.needed("pid")? {
            "*" => Ok(Pid::All),
            text => Ok(Pid::Process(number("pid", text)?)),
        }
    }

    fn text(&self, key: &str) -> Option<String> {
        self.get(key).map(str::to_owned)
    }

    fn clock(&self) -> Result<Clock, String> {
        if self.needed("name")? == "coresight" {
            return Ok(Clock::Coresight);
        }
        let (Some(frequency), Some(sync)) = (self.maybe_number("freq")?, self.get("sync")) else {
            return Ok(Clock::Unrelated);
        };
        let (at, coresight_at) = sync.split_once(':').ok_or("expected `sync=TIME:CORESIGHT_TIME`")?;
        if frequency == 0 {
            return Err("`freq` is 0".to_owned());
        }
        Ok(Clock::Other { frequency, at: number("sync", at)?, coresight_at: number("sync", coresight_at)? })
    }

    fn time(&self, clock: Clock, frequency: Option<u64>) -> Result<Option<u64>, String> {
        let text = self.plain.first().copied().unwrap_or_default();
        if text == "-" {
            return Ok(None);
        }
        let time = number("time", text)?;
        match (clock, frequency) {
            (Clock::Coresight, _) => Ok(Some(time)),
            (Clock::Other { frequency, at, coresight_at }, Some(ticks)) => {
                let distance = i128::from(time) - i128::from(at);
                let ticks = distance * i128::from(ticks) / i128::from(frequency);
                let time = i128::from(coresight_at) + ticks;
                u64::try_from(time)
                    .map(Some)
                    .map_err(|_| "the time lies outside the global timestamp".to_owned())
            }
            _ => Ok(None),
        }
    }

    fn directive(&self) -> Result<Item, String> {
        Ok(match self.plain.first().copied().unwrap_or_default() {
            "%frequency" => Item::Frequency(self.number("coresight")?),
            "%snapshot" => match self.needed("at")? {
                "begin" => Item::SnapshotBegin { complete: self.flag("complete")? },
                "end" => Item::SnapshotEnd,
                other => return Err(format!("`at` is `{}`, expected begin or end", short(other))),
            },
            "%lost" => Item::Lost(self.maybe_number("count")?),
            "%host" => {
                let owned =
                    |(key, value): &(&str, Cow<'_, str>)| ((*key).to_owned(), value.clone().into_owned());
                Item::Host(self.keyed.iter().map(owned).collect())
            }
            other => return Err(format!("directive `{}` is not known", short(other))),
        })
    }

    fn event(&self, texts: &mut Texts) -> Result<Item, String> {
        let name = *self.plain.get(1).ok_or("expected the name of an event after the time")?;
        let state = || match self.plain.get(2).copied() {
            Some("START") => Ok(State::Start),
            Some("END") => Ok(State::End),
            Some("CURRENT") => Ok(State::Current),
            _ => Err(format!("expected START, END or CURRENT after {name}")),
        };
        Ok(match name {
            "declare_process" | "declare_library" => {
                Item::Mapping(state()?, Box::new(self.mapping(name == "declare_process", texts)?))
            }
            "declare_thread" => Item::Thread {
                state: state()?,
                tid: self.number("tid")?,
                pid: self.pid()?,
                name: self.get("name").map(Into::into),
            },
            "declare_asid" => Item::Asid {
                state: state()?,
                asid: small("asid", self.number("asid")?)?,
                pid: self.pid()?,
                cpu: self.maybe_cpu()?,
            },
            "patch_code" => Item::Patch(Box::new(self.patch()?)),
            "define_trace" => Item::DefineTrace(state()?, Box::new(self.definition()?)),
            "switch" => Item::Switch {
                cpu: small("cpu", self.number("cpu")?)?,
                pid: self.pid()?,
                tid: self.maybe_number("tid")?,
            },
            other => return Err(format!("event `{}` is not known", short(other))),
        })
    }

    fn mapping(&self, main: bool, texts: &mut Texts) -> Result<Mapping, String> {
        let mut shared = |key: &str| self.get(key).map(|text| texts.share(text));
        let mapping = Mapping {
            main,
            pid: self.pid()?,
            base: Address(self.number("base")?),
            image: shared("image"),
            build_id: shared("build-id"),
            size: self.maybe_number("size")?,
            offset: self.maybe_number("offset")?.unwrap_or(0),
            relocated: self.flag("relocated")?,
            name: self.text("name"),
            cpu: self.maybe_cpu()?,
        };
        if mapping.image.is_none() && mapping.build_id.is_none() {
            return Err("expected `image=` or `build-id=`".to_owned());
        }
        Ok(mapping)
    }

    fn patch(&self) -> Result<Patch, String> {
        let length = self.number("len")?;
        let code = match (self.get("code"), self.get("file"), self.get("id")) {
            (None, None, None) => PatchCode::InMemory,
            (None, Some(file), None) => {
                PatchCode::File(file.to_owned(), self.maybe_number("offset")?.unwrap_or(0))
            }
            (None, None, Some(id)) => PatchCode::Id(id.to_owned()),
            (Some(code), None, None) => {
                let bytes = hex_bytes(code).ok_or("`code` is no even number of hexadecimal digits")?;
                if bytes.len() as u64 != length {
                    return Err(format!("`code` holds {} bytes, `len` says {length}", bytes.len()));
                }
                PatchCode::Inline(bytes)
            }
            _ => return Err("expected one of code, file and id, found several".to_owned()),
        };
        Ok(Patch { pid: self.pid()?, address: Address(self.number("addr")?), length, code })
    }

    fn definition(&self) -> Result<TraceDefinition, String> {
        let id =
            u8::try_from(self.number("id")?).ok().filter(|id| TraceId::new(*id).is_source() && *id < 0x80);
        let items = self.keyed.iter().filter(|(key, _)| !["id", "source", "format"].contains(key));
        let owned = |(key, value): &(&str, Cow<'_, str>)| ((*key).to_owned(), value.clone().into_owned());
        Ok(TraceDefinition {
            id: id.map(TraceId::new).ok_or("`id` is no trace ID, expected 0x01 to 0x6f")?,
            source: self.needed("source")?.to_owned(),
            format: self.text("format"),
            items: items.map(owned).collect(),
        })
    }
}

fn number(key: &str, text: &str) -> Result<u64, String> {
    parse_number(text, Dialect::Package)
        .ok_or_else(|| format!("`{key}` is `{}`, expected a number", short(text)))
}

fn small(key: &str, value: u64) -> Result<u32, String> {
    u32::try_from(value).map_err(|_| format!("`{key}` is {value}, expected at most 32 bits"))
}

fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// Takes a line apart at blanks, with strings in quotes and a comment after `#`.
fn words(line: &str) -> Result<Words<'_>, String> {
    let mut words = Words { plain: Vec::new(), keyed: Vec::new() };
    let mut rest = line.trim_matches([' ', '\t', '\r']);
    while !rest.is_empty() && !rest.starts_with('#') {
        let end = rest.find([' ', '\t', '=', '"']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if let Some(value) = after.strip_prefix('=') {
            let (value, others) = read_value(value)?;
            if words.keyed.iter().any(|(key, _)| *key == word) {
                return Err(format!("`{}` is given twice", short(word)));
            }
            words.keyed.push((word, value));
            rest = others;
        } else if after.starts_with('"') {
            return Err("a string stands where a word is expected".to_owned());
        } else if !words.keyed.is_empty() {
            return Err(format!("expected `key=value`, found `{}`", short(word)));
        } else {
            words.plain.push(word);
            rest = after;
        }
        if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
            return Err(format!("expected a blank before `{}`", short(rest)));
        }
        rest = rest.trim_start_matches([' ', '\t']);
    }
    Ok(words)
}

/// A value, in quotes or not, and what follows it.
fn read_value(text: &str) -> Result<(Cow<'_, str>, &str), String> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', '"', '#']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return Ok((Cow::Borrowed(value), rest));
    };
    // Most have no character that is written in another way.
    if let Some(end) = quoted.find(['"', '\\']).filter(|&end| quoted.as_bytes().get(end) == Some(&b'"')) {
        return Ok((Cow::Borrowed(&quoted[..end]), &quoted[end + 1..]));
    }
    let mut value = Vec::new();
    let bytes = quoted.as_bytes();
    let mut place = 0;
    loop {
        match bytes.get(place) {
            None => return Err("the string has no closing quote".to_owned()),
            Some(b'"') => break,
            Some(b'\\') => {
                let (byte, length) = match bytes.get(place + 1) {
                    Some(b'n') => (b'\n', 2),
                    Some(b't') => (b'\t', 2),
                    Some(&byte @ (b'\\' | b'"')) => (byte, 2),
                    Some(b'x') => {
                        let digits = quoted.get(place + 2..place + 4).and_then(hex_bytes);
                        (
                            digits
                                .and_then(|bytes| bytes.first().copied())
                                .ok_or("`\\x` needs two digits")?,
                            4,
                        )
                    }
                    _ => return Err("expected \\\\, \\\", \\n, \\t or \\xHH in the string".to_owned()),
                };
                value.push(byte);
                place += length;
            }
            Some(&byte) => {
                value.push(byte);
                place += 1;
            }
        }
    }
    let rest = quoted.get(place + 1..).unwrap_or_default();
    Ok((Cow::Owned(String::from_utf8_lossy(&value).into_owned()), rest))
}
