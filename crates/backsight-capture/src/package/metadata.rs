//! The metadata file of a package: `[buffer]` describes the sink, `[trace_N]` the source with trace ID N.

use crate::bare::sort;
use crate::events::TraceDefinition;
use crate::ini::{Dialect, Ini, Section, parse_boolean, parse_number, short};
use crate::model::{Capture, Core, Origin, Source, Start};
use crate::{Error, ReadOptions};
use backsight_arm::frame::Framing;
use backsight_core::TraceId;

pub(super) struct Metadata {
    ini: Ini,
    /// The trace sections, with their trace ID.
    sources: Vec<(TraceId, usize)>,
}

/// What `[buffer]` says.
pub(super) struct Description {
    pub(super) id: Option<String>,
    pub(super) framing: Framing,
    pub(super) format: String,
    pub(super) wrapped: bool,
    /// The one source of a raw buffer.
    pub(super) source: Option<TraceId>,
    pub(super) details: Vec<(String, String)>,
    pub(super) starts: Vec<Start>,
    pub(super) thread: Option<u64>,
}

impl Metadata {
    pub(super) fn new(ini: Ini) -> Result<Self, Error> {
        let mut sources: Vec<(TraceId, usize)> = Vec::new();
        for (place, section) in ini.sections.iter().enumerate() {
            let Some(number) = section.name.to_ascii_lowercase().strip_prefix("trace_").map(str::to_owned)
            else {
                continue;
            };
            // A raw stream may be labelled 0.
            let id = parse_number(&number, Dialect::Package).filter(|id| *id <= 0x6F).ok_or_else(|| {
                let what = format!(
                    "[{}] names no trace ID, expected [trace_1] to [trace_0x6f]",
                    short(&section.name)
                );
                Error::line(&ini.file, section.line, what)
            })?;
            let id = TraceId::new(id as u8);
            if sources.iter().any(|(other, _)| *other == id) {
                return Err(Error::line(
                    &ini.file,
                    section.line,
                    format!("trace ID {id} is described twice"),
                ));
            }
            sources.push((id, place));
        }
        Ok(Self { ini, sources })
    }

    /// What is said of buffer `number`: in a section of its own, else in the one for all.
    pub(super) fn buffer(
        &self,
        number: u32,
        options: &ReadOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Description, Error> {
        let ini = &self.ini;
        let own = format!("buffer{number}");
        let section = ini.sections(&own).next().or_else(|| ini.sections("buffer").next());
        let entry = |key: &str| section.and_then(|section| ini.entry(section, key));
        let format = entry("format").map_or("", |entry| entry.value.as_str()).to_owned();
        let framing = framing_of(&format, options).unwrap_or_else(|| {
            warnings.push(format!(
                "{}: format `{}` of {own} is not known: read as coresight",
                ini.file,
                short(&format)
            ));
            Framing::Coresight
        });
        let wrapped = match entry("wrapped") {
            None => false,
            Some(entry) => parse_boolean(&entry.value).ok_or_else(|| {
                ini.error(entry, format!("`wrapped` is `{}`, expected 0 or 1", short(&entry.value)))
            })?,
        };
        let source = match entry("source") {
            Some(entry) => {
                let id = TraceId::new(ini.number(entry)?.min(0x7F) as u8);
                if !self.sources.iter().any(|(other, _)| *other == id) {
                    return Err(
                        ini.error(entry, format!("there is no section [trace_{}]", short(&entry.value)))
                    );
                }
                Some(id)
            }
            None => None,
        };
        let starts = match entry("starts") {
            Some(entry) => starts(&entry.value).ok_or_else(|| {
                ini.error(entry, "`starts` expects offsets in order, each with `@` and a time or without")
            })?,
            None => Vec::new(),
        };
        let thread = entry("thread").map(|entry| ini.number(entry)).transpose()?;
        let kept = ["format", "wrapped", "source", "id", "starts", "thread"];
        let entries = section.map_or(&[][..], |section| section.entries.as_slice());
        let details = entries
            .iter()
            .filter(|entry| !kept.iter().any(|key| entry.key.eq_ignore_ascii_case(key)))
            .map(|entry| (entry.key.clone(), entry.value.clone()))
            .collect();
        let id = entry("id").map(|entry| entry.value.clone()).filter(|id| !id.is_empty());
        Ok(Description { id, framing, format, wrapped, source, details, starts, thread })
    }

    /// Adds the sources of these buffers to the capture. A raw buffer has the one source that is named for it; the
    /// others share those that are left.
    pub(super) fn take_sources(
        &self,
        capture: &mut Capture,
        buffers: &[(usize, Option<TraceId>)],
    ) -> Result<(), Error> {
        let raw = |place: usize| capture.buffers[place].framing == Framing::Raw;
        let named: Vec<TraceId> =
            buffers.iter().filter(|(place, _)| raw(*place)).filter_map(|(_, source)| *source).collect();
        let mut uses = Vec::new();
        for &(id, section) in &self.sources {
            let its: Vec<usize> = buffers
                .iter()
                .filter(|(place, source)| match source {
                    Some(source) if raw(*place) => *source == id,
                    _ => !named.contains(&id),
                })
                .map(|(place, _)| *place)
                .collect();
            uses.push((id, section, its));
        }
        for (id, section, its) in uses {
            let source = self.source(capture, id, &self.ini.sections[section], its)?;
            capture.sources.push(source);
        }
        let mut counts = vec![0_usize; capture.buffers.len()];
        for &buffer in capture.sources.iter().flat_map(|source| &source.buffers) {
            counts[buffer] += 1;
        }
        for &(place, _) in buffers {
            let count = counts[place];
            let (name, raw) = (&capture.buffers[place].name, capture.buffers[place].framing == Framing::Raw);
            let warning = match count {
                0 => format!("buffer {name}: no source is described"),
                2.. if raw => {
                    format!("buffer {name}: it is raw and has {count} sources: say which by `source`")
                }
                _ => continue,
            };
            capture.warnings.push(warning);
        }
        Ok(())
    }

    fn source(
        &self,
        capture: &mut Capture,
        id: TraceId,
        section: &Section,
        buffers: Vec<usize>,
    ) -> Result<Source, Error> {
        let ini = &self.ini;
        let items: Vec<(String, String)> =
            section.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect();
        let value = |key: &str| ini.entry(section, key).map(|entry| entry.value.as_str());
        let Some(format) = value("format") else {
            let what = format!("expected `format` in [{}]", short(&section.name));
            return Err(Error::line(&ini.file, section.line, what));
        };
        let name = value("source").unwrap_or(&section.name).to_owned();
        let lines = section.entries.iter().map(|entry| (entry.key.clone(), entry.line)).collect();
        let origin = Origin { file: ini.file.clone(), line: section.line, lines };
        Ok(make_source(capture, name, id, format, &items, buffers, origin))
    }
}

/// The framing that a word means.
fn framing_of(word: &str, options: &ReadOptions) -> Option<Framing> {
    let word = word.to_ascii_lowercase().replace('_', "-");
    Framing::from_name(&word).or(options.raw_formats.contains(&word.as_str()).then_some(Framing::Raw))
}

/// Adds a source that the event log defines. What was said of it before, under another trace ID, holds as far as nothing
/// else is said: the log names what was programmed, not how the unit was built. Options say again what registers do, and
/// hold only where no register is given.
pub(super) fn define(capture: &mut Capture, definition: &TraceDefinition, buffers: &[usize]) {
    let before = capture.sources.iter().rev().find(|source| source.name == definition.source).cloned();
    let format = definition.format.clone().or_else(|| before.as_ref().map(|source| source.format.clone()));
    let format = format.unwrap_or_default();
    let (name, items, origin) = (definition.source.clone(), &definition.items, Origin::default());
    let buffers = before.as_ref().map_or_else(|| buffers.to_vec(), |source| source.buffers.clone());
    let mut source = make_source(capture, name, definition.id, &format, items, buffers, origin);
    if let Some(before) = before {
        let has_registers = !source.registers.is_empty();
        for register in before.registers.into_iter().filter(|register| !is_trace_id(&register.name)) {
            if source.register(&register.name).is_none() {
                source.registers.push(register);
            }
        }
        for (key, value) in before.options.into_iter().filter(|_| !has_registers) {
            if source.option(&key).is_none() {
                source.options.push((key, value));
            }
        }
        source.core = source.core.or(before.core);
        source.location = source.location.or(before.location);
    }
    capture.sources.push(source);
}

/// Registers that hold the trace ID, which is another one now.
fn is_trace_id(register: &str) -> bool {
    ["TRCTRACEIDR", "ETMTRACEIDR"].iter().any(|name| register.eq_ignore_ascii_case(name))
}

/// What is said of a source for other purposes than its configuration.
const NO_OPTIONS: [&str; 7] = ["format", "source", "stream", "core", "core_name", "cpu", "location"];

fn make_source(
    capture: &mut Capture,
    name: String,
    id: TraceId,
    format: &str,
    items: &[(String, String)],
    buffers: Vec<usize>,
    origin: Origin,
) -> Source {
    let item =
        |key: &str| items.iter().find(|(other, _)| other.eq_ignore_ascii_case(key)).map(|(_, value)| value);
    let (registers, mut options) = sort(items);
    options.retain(|(key, _)| !NO_OPTIONS.iter().any(|other| key.eq_ignore_ascii_case(other)));
    Source {
        name,
        id: Some(id),
        format: format.to_owned(),
        stream: item("stream").and_then(|stream| stream.parse().ok()).unwrap_or(0),
        registers,
        options,
        core: take_core(capture, item("core"), item("core_name"), item("cpu")),
        buffers,
        location: item("location").cloned(),
        origin,
    }
}

/// The core of a source: one that was named before, or a new one.
fn take_core(
    capture: &mut Capture,
    kind: Option<&String>,
    name: Option<&String>,
    cpu: Option<&String>,
) -> Option<usize> {
    let name = match (name, cpu, kind) {
        (Some(name), ..) => name.clone(),
        (None, Some(cpu), _) => format!("cpu_{cpu}"),
        (None, None, Some(kind)) => format!("{kind} #{}", capture.cores.len()),
        (None, None, None) => return None,
    };
    if let Some(known) = capture.cores.iter().position(|core| core.name == name) {
        return Some(known);
    }
    let kind = kind.cloned().unwrap_or_default();
    capture.cores.push(Core { name, kind, registers: Vec::new(), location: None });
    Some(capture.cores.len() - 1)
}

/// Where the data of a buffer begins again: offsets, each with the time when what follows was complete.
fn starts(text: &str) -> Option<Vec<Start>> {
    let mut starts: Vec<Start> = Vec::new();
    for word in text.split_ascii_whitespace() {
        let (offset, time) = word.split_once('@').map_or((word, None), |(offset, time)| (offset, Some(time)));
        let time = time.map(|time| parse_number(time, Dialect::Package).ok_or(())).transpose().ok()?;
        let offset = parse_number(offset, Dialect::Package)?;
        if starts.last().is_some_and(|last| last.offset > offset) {
            return None;
        }
        starts.push(Start { offset, time });
    }
    Some(starts)
}
