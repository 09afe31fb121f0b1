//! The sources that a capture describes, understood.

use std::collections::BTreeMap;

use backsight_arm::frame::Framing;
use backsight_capture::{Capture, Format, Source as Description};
use backsight_core::TraceId;

use crate::protocol::{self, Configuration, Described, Names};
use crate::source::{Inner, Source};
use crate::{Error, Result};

/// What a source speaks, and how it was configured.
pub(crate) struct Understood {
    /// `None` if the word for its protocol is not known.
    pub names: Option<&'static Names>,
    pub configuration: Configuration,
    /// What is doubtful about it.
    notes: Vec<String>,
}

/// The sources of each buffer, each with the ID that frames have for it. Trace IDs that stand in registers are put
/// into the description; doubts are added to its warnings.
pub(crate) fn all(capture: &mut Capture) -> Result<Vec<Vec<(TraceId, Source)>>> {
    let (mut of_buffers, mut doubts) = (vec![Vec::new(); capture.buffers.len()], Doubts::default());
    for number in 0..capture.sources.len() {
        let mut understood = understand(capture, number)?;
        doubts.take(&capture.sources[number].name, std::mem::take(&mut understood.notes));
        place(capture, number, understood, &mut of_buffers);
    }
    capture.warnings.extend(doubts.in_words());
    Ok(of_buffers)
}

/// What is doubtful about sources. What is the same for several of them is said once.
#[derive(Default)]
struct Doubts(Vec<(String, Vec<String>)>);

impl Doubts {
    fn take(&mut self, source: &str, notes: Vec<String>) {
        let own = format!("source {source}: ");
        for note in notes {
            let (what, name) = match note.strip_prefix(&own) {
                Some(what) => (what.to_owned(), Some(source.to_owned())),
                None => (note, None),
            };
            match self.0.iter_mut().find(|(other, _)| *other == what) {
                Some((_, names)) => names.extend(name),
                None => self.0.push((what, name.into_iter().collect())),
            }
        }
    }

    fn in_words(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(what, names)| match &names[..] {
            [] => what,
            [name] => format!("source {name}: {what}"),
            [first, .., last] => format!("{} sources, {first} to {last}: {what}", names.len()),
        })
    }
}

/// Understands what a capture says of a source; its trace ID is looked up in its registers.
pub(crate) fn understand(capture: &mut Capture, number: usize) -> Result<Understood> {
    let mut notes = Vec::new();
    let Capture { sources, buffers, cores, format, .. } = capture;
    let source = &mut sources[number];
    let Some(names) = protocol::of_format(&source.format, source.stream) else {
        let word = if *format == Format::Snapshot { "type" } else { "format" };
        let (name, words) = (&source.name, &source.format);
        notes.push(format!("source {name}: {word} `{words}` is not known: its trace is kept"));
        return Ok(Understood { names: None, configuration: Configuration::NotDecoded, notes });
    };
    source.id = match format {
        Format::Snapshot => id_in_registers(source, names, &mut notes),
        Format::Bare => source.option("trace_id").and_then(parse_id).or(source.id),
        Format::Package | Format::Perf | Format::ElfCore => source.id,
    };
    let missing = names.needed_registers.iter().filter(|name| source.register(name).is_none());
    for register in missing.filter(|_| *format == Format::Snapshot) {
        let name = &source.name;
        notes.push(format!("source {name}: register {register} is not given: a usual value is assumed"));
    }
    // A source that no buffer holds is described and never decoded.
    let buffer = source.buffers.first().and_then(|&buffer| buffers.get(buffer));
    let core = source.core.and_then(|core| cores.get(core)).map(|core| core.kind.as_str());
    let described = Described {
        name: &source.name,
        names,
        version: version(*format, source),
        registers: &source.registers,
        options: &source.options,
        core: core.filter(|kind| *format == Format::Snapshot || !kind.is_empty()),
        framing: buffer.and_then(|buffer| buffer.packet_framing()),
        id: source.id,
    };
    let configuration = Configuration::new(&described, &mut notes).map_err(|bad| match format {
        Format::Bare => Error::misuse(bad.what),
        _ => source.origin.error(&bad.key, bad.what).into(),
    })?;
    Ok(Understood { names: Some(names), configuration, notes })
}

fn parse_id(text: &str) -> Option<TraceId> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hexadecimal) => u8::from_str_radix(hexadecimal, 16),
        None => text.parse(),
    };
    number.ok().map(TraceId::new)
}

/// The version label of a format, where no register knows better; the type of a device in a snapshot is less exact.
fn version(format: Format, source: &Description) -> Option<&str> {
    let label = Some(source.format.as_str()).filter(|label| label.contains('.'));
    let is_label = matches!(format, Format::Package | Format::ElfCore);
    label.filter(|_| is_label && source.register("TRCIDR1").is_none())
}

fn id_in_registers(source: &Description, names: &Names, warnings: &mut Vec<String>) -> Option<TraceId> {
    let register = names.id_register?;
    let Some(found) = register.names.iter().find_map(|name| source.register(name)) else {
        warnings.push(format!(
            "source {}: register {} is not given: its trace ID is not known",
            source.name, register.names[0]
        ));
        return None;
    };
    let Some(value) = found.value else {
        let (name, text) = (&found.name, &found.text);
        warnings.push(format!("source {}: {name} is `{text}`, expected a number", source.name));
        return None;
    };
    let base = (value >> register.lowest_bit) as u8 & 0x7F;
    Some(TraceId::new(base.wrapping_add(source.stream)))
}

/// IDs of a buffer that its sources went on under when they were configured again, by what the event log says, with the first
/// ID of each.
pub(crate) fn continued(
    capture: &Capture,
    sources: &BTreeMap<TraceId, Source>,
) -> BTreeMap<TraceId, TraceId> {
    // What the metadata describes comes before what the log does.
    let mut first: BTreeMap<&str, TraceId> = BTreeMap::new();
    for source in &capture.sources {
        if let Some(id) = source.id.filter(|id| sources.get(id).is_some_and(|own| own.name() == source.name))
        {
            first.entry(&source.name).or_insert(id);
        }
    }
    let mut continued = BTreeMap::new();
    for definition in capture.definitions() {
        let id = definition.id;
        let is_own = sources.get(&id).is_some_and(|source| source.name() == definition.source);
        match first.get(definition.source.as_str()) {
            Some(&first) if is_own && first != id => drop(continued.insert(id, first)),
            _ => {}
        }
    }
    continued
}

/// Puts a source into the buffers that hold its trace.
fn place(
    capture: &Capture,
    number: usize,
    understood: Understood,
    of_buffers: &mut [Vec<(TraceId, Source)>],
) {
    let source = &capture.sources[number];
    let core = source.core.and_then(|core| capture.cores.get(core)).map(|core| core.name.clone());
    for &place in &source.buffers {
        let (Some(buffer), Some(all)) = (capture.buffers.get(place), of_buffers.get_mut(place)) else {
            continue;
        };
        let id = source.id.unwrap_or_default();
        let frame_id = if buffer.framing == Framing::Raw { TraceId::NULL } else { id };
        let inner = Inner {
            name: source.name.clone(),
            buffer: buffer.name.as_str().into(),
            id,
            frame_id,
            core: core.clone(),
            protocol: understood.names,
            format: source.format.clone(),
            configuration: understood.configuration.clone(),
            thread: buffer.thread,
            starts: buffer.starts.as_slice().into(),
        };
        all.push((frame_id, Source::new(inner)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_doubtful_about_several_sources_is_said_once() {
        let mut doubts = Doubts::default();
        for name in ["ETE_0", "ETE_1", "ETE_2"] {
            doubts.take(name, vec![format!("source {name}: odd"), "a word".to_owned()]);
        }
        doubts.take("ETE_3", vec!["source ETE_3: even".to_owned()]);
        let words: Vec<String> = doubts.in_words().collect();
        assert_eq!(words, ["3 sources, ETE_0 to ETE_2: odd", "a word", "source ETE_3: even"]);
    }
}
