//! What a line of a log says.

use super::words::{Key, Texts, Tokens, Words, hex_bytes, number};
use super::{Item, Mapping, Patch, PatchCode, Pid, State, TraceDefinition};
use crate::ini::{parse_boolean, short};
use backsight_core::{Address, TraceId};
use std::borrow::Cow;

const ADDR: Key = Key::new("addr");
const ASID: Key = Key::new("asid");
const AT: Key = Key::new("at");
const BASE: Key = Key::new("base");
const BUILD_ID: Key = Key::new("build-id");
const CODE: Key = Key::new("code");
const COMPLETE: Key = Key::new("complete");
const CORESIGHT: Key = Key::new("coresight");
const COUNT: Key = Key::new("count");
const CPU: Key = Key::new("cpu");
const FILE: Key = Key::new("file");
const FORMAT: Key = Key::new("format");
const FORWARD: Key = Key::new("forward");
const FREQ: Key = Key::new("freq");
const ID: Key = Key::new("id");
const IMAGE: Key = Key::new("image");
const LEN: Key = Key::new("len");
const NAME: Key = Key::new("name");
const OFFSET: Key = Key::new("offset");
const PID: Key = Key::new("pid");
const RELOCATED: Key = Key::new("relocated");
const SIZE: Key = Key::new("size");
const SOURCE: Key = Key::new("source");
const SYNC: Key = Key::new("sync");
const TID: Key = Key::new("tid");
const VERSION: Key = Key::new("version");

/// A clock that times are written in, and how it relates to that of the global timestamp.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Coresight,
    Other {
        frequency: u64,
        at: u64,
        coresight_at: u64,
    },
    /// Nothing relates it.
    Unrelated,
}

/// What a line says.
pub(super) enum Line {
    Nothing,
    Clock(Clock),
    /// A directive.
    Directive(Item),
    /// A time in the clock of the log, and an event.
    Event(Option<u64>, Item),
}

/// Reads lines, with what is used again from line to line.
#[derive(Debug, Default)]
pub(super) struct LineParser {
    tokens: Tokens,
    texts: Texts,
}

impl LineParser {
    /// Reads the first line of a log. Gives how many bytes follow it in which nothing changes what was before, if it says so.
    pub fn header(&mut self, line: &str) -> Result<Option<u64>, String> {
        const EXPECTED: &str = "expected `%system-event-log version=1`";
        let words = self.tokens.read(line.trim_start_matches('\u{FEFF}')).map_err(|_| EXPECTED.to_owned())?;
        let is_header = words.plain(0) == Some("%system-event-log") && words.plain_count() == 1;
        match words.get(VERSION).filter(|_| is_header).as_deref() {
            Some("1") => words.maybe_number(FORWARD),
            Some(other) => Err(format!("log version `{}`, expected 1", short(other))),
            None => Err(EXPECTED.to_owned()),
        }
    }

    /// Reads a line.
    pub fn line(&mut self, line: &str) -> Result<Line, String> {
        let words = self.tokens.read(line)?;
        match words.plain(0) {
            None if words.is_empty() => Ok(Line::Nothing),
            None => Err("expected a time and the name of an event".to_owned()),
            Some("%clock") => Ok(Line::Clock(words.clock()?)),
            Some(name) if name.starts_with('%') => Ok(Line::Directive(words.directive()?)),
            Some("-") => Ok(Line::Event(None, words.event(1, &mut self.texts)?)),
            Some(time) => {
                let time = number("time", time)?;
                Ok(Line::Event(Some(time), words.event(1, &mut self.texts)?))
            }
        }
    }

    /// Reads an event or a directive that stands without its time.
    pub fn item(&mut self, line: &str) -> Result<Item, String> {
        let words = self.tokens.read(line)?;
        match line.starts_with('%') {
            true => words.directive(),
            false => words.event(0, &mut self.texts),
        }
    }

    /// The frequency of the global timestamp, if this line says it.
    pub fn frequency(&mut self, line: &str) -> Option<u64> {
        match line.trim_start().starts_with("%frequency").then(|| self.line(line)) {
            Some(Ok(Line::Directive(Item::Frequency(frequency)))) => Some(frequency),
            _ => None,
        }
    }
}

impl Clock {
    /// A time of this clock on that of the global timestamp, which has so many ticks in a second; `None` if nobody knows.
    pub fn convert(self, time: u64, ticks: Option<u64>) -> Result<Option<u64>, String> {
        match (self, ticks) {
            (Self::Coresight, _) => Ok(Some(time)),
            (Self::Other { frequency, at, coresight_at }, Some(ticks)) => {
                let distance = i128::from(time) - i128::from(at);
                let ticks = distance * i128::from(ticks) / i128::from(frequency);
                let time = u64::try_from(i128::from(coresight_at) + ticks);
                time.map(Some).map_err(|_| "the time lies outside the global timestamp".to_owned())
            }
            _ => Ok(None),
        }
    }
}

impl Words<'_> {
    fn maybe_cpu(&self) -> Result<Option<u32>, String> {
        self.maybe_number(CPU)?.map(|cpu| small("cpu", cpu)).transpose()
    }

    fn flag(&self, key: Key, name: &str) -> Result<bool, String> {
        match self.get(key) {
            None => Ok(false),
            Some(text) => {
                parse_boolean(&text).ok_or_else(|| format!("`{name}` is `{}`, expected 0 or 1", short(&text)))
            }
        }
    }

    fn pid(&self) -> Result<Pid, String> {
        match self.needed(PID)?.as_ref() {
            "*" => Ok(Pid::All),
            text => Ok(Pid::Process(number("pid", text)?)),
        }
    }

    fn clock(&self) -> Result<Clock, String> {
        if self.needed(NAME)? == "coresight" {
            return Ok(Clock::Coresight);
        }
        let (Some(frequency), Some(sync)) = (self.maybe_number(FREQ)?, self.get(SYNC)) else {
            return Ok(Clock::Unrelated);
        };
        let (at, coresight_at) = sync.split_once(':').ok_or("expected `sync=TIME:CORESIGHT_TIME`")?;
        if frequency == 0 {
            return Err("`freq` is 0".to_owned());
        }
        Ok(Clock::Other { frequency, at: number("sync", at)?, coresight_at: number("sync", coresight_at)? })
    }

    fn directive(&self) -> Result<Item, String> {
        Ok(match self.plain(0).unwrap_or_default() {
            "%frequency" => Item::Frequency(self.number(CORESIGHT)?),
            "%snapshot" => match self.needed(AT)?.as_ref() {
                "begin" => Item::SnapshotBegin { complete: self.flag(COMPLETE, "complete")? },
                "end" => Item::SnapshotEnd,
                other => return Err(format!("`at` is `{}`, expected begin or end", short(other))),
            },
            "%lost" => Item::Lost(self.maybe_number(COUNT)?),
            "%host" => Item::Host(self.all().map(owned).collect()),
            other => return Err(format!("directive `{}` is not known", short(other))),
        })
    }

    /// Reads an event whose name is the plain word of this index.
    fn event(&self, index: usize, texts: &mut Texts) -> Result<Item, String> {
        let name = self.plain(index).ok_or("expected the name of an event after the time")?;
        let state = || match self.plain(index + 1) {
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
                tid: self.number(TID)?,
                pid: self.pid()?,
                name: self.get(NAME).map(Into::into),
            },
            "declare_asid" => Item::Asid {
                state: state()?,
                asid: small("asid", self.number(ASID)?)?,
                pid: self.pid()?,
                cpu: self.maybe_cpu()?,
            },
            "patch_code" => Item::Patch(Box::new(self.patch()?)),
            "define_trace" => Item::DefineTrace(state()?, Box::new(self.definition()?)),
            "switch" => Item::Switch {
                cpu: small("cpu", self.number(CPU)?)?,
                pid: self.pid()?,
                tid: self.maybe_number(TID)?,
            },
            other => return Err(format!("event `{}` is not known", short(other))),
        })
    }

    fn mapping(&self, main: bool, texts: &mut Texts) -> Result<Mapping, String> {
        let mut shared = |key: Key| self.get(key).map(|text| texts.share(&text));
        let mapping = Mapping {
            main,
            pid: self.pid()?,
            base: Address(self.number(BASE)?),
            image: shared(IMAGE),
            build_id: shared(BUILD_ID),
            size: self.maybe_number(SIZE)?,
            offset: self.maybe_number(OFFSET)?.unwrap_or(0),
            relocated: self.flag(RELOCATED, "relocated")?,
            name: self.get(NAME).map(Cow::into_owned),
            cpu: self.maybe_cpu()?,
        };
        if mapping.image.is_none() && mapping.build_id.is_none() {
            return Err("expected `image=` or `build-id=`".to_owned());
        }
        Ok(mapping)
    }

    fn patch(&self) -> Result<Patch, String> {
        let length = self.number(LEN)?;
        let code = match (self.get(CODE), self.get(FILE), self.get(ID)) {
            (None, None, None) => PatchCode::InMemory,
            (None, Some(file), None) => {
                PatchCode::File(file.into_owned(), self.maybe_number(OFFSET)?.unwrap_or(0))
            }
            (None, None, Some(id)) => PatchCode::Id(id.into_owned()),
            (Some(code), None, None) => {
                let bytes = hex_bytes(&code).ok_or("`code` is no even number of hexadecimal digits")?;
                if bytes.len() as u64 != length {
                    return Err(format!("`code` holds {} bytes, `len` says {length}", bytes.len()));
                }
                PatchCode::Inline(bytes)
            }
            _ => return Err("expected one of code, file and id, found several".to_owned()),
        };
        Ok(Patch { pid: self.pid()?, address: Address(self.number(ADDR)?), length, code })
    }

    fn definition(&self) -> Result<TraceDefinition, String> {
        let id = u8::try_from(self.number(ID)?).ok().filter(|id| TraceId::new(*id).is_source() && *id < 0x80);
        let items = self.all().filter(|(key, _)| !["id", "source", "format"].contains(key));
        Ok(TraceDefinition {
            id: id.map(TraceId::new).ok_or("`id` is no trace ID, expected 0x01 to 0x6f")?,
            source: self.needed(SOURCE)?.into_owned(),
            format: self.get(FORMAT).map(Cow::into_owned),
            items: items.map(owned).collect(),
        })
    }
}

fn owned((key, value): (&str, Cow<'_, str>)) -> (String, String) {
    (key.to_owned(), value.into_owned())
}

fn small(key: &str, value: u64) -> Result<u32, String> {
    u32::try_from(value).map_err(|_| format!("`{key}` is {value}, expected at most 32 bits"))
}
