//! Writing a package.

use super::ENTRY;
use crate::events::{Item, PatchCode};
use crate::folder::{FileRef, LONGEST_LOG};
use crate::ini::{Dialect, short};
use crate::model::{Buffer, Capture, EventClock, MemoryDump, Source, Start};
use crate::repack::{Converted, WithoutFooters};
use crate::snapshot::space_name;
use crate::write::{Files, Note, Output, SectionLines, plain};
use crate::{Error, Format};
use backsight_arm::frame::Framing;
use backsight_core::TraceId;
use std::collections::HashSet;
use std::fmt::Write;

const LOG: &str = "system-event-log";

/// Writes the capture as a trace package; gives what a package cannot hold.
pub(crate) fn write(capture: &Capture, output: &mut dyn Output) -> Result<Vec<Note>, Error> {
    let metadata: Vec<String> =
        (0..capture.buffers.len()).map(|number| format!("trace{number}.ini")).collect();
    let mut reserved: Vec<&str> = metadata.iter().map(String::as_str).collect();
    reserved.extend([ENTRY, "trace.ini", "snapshot.ini", LOG]);
    let mut writer = PackageWriter { capture, files: Files::new(output, &reserved), lost: Vec::new() };
    let mut contents = String::from("; Trace package\n");
    writer.write_trace(&mut contents)?;
    writer.write_events(&mut contents)?;
    writer.write_images(&mut contents)?;
    writer.write_memory(&mut contents)?;
    writer.write_system(&mut contents)?;
    writer.files.text(ENTRY, &contents)?;
    Ok(writer.files.copies.into_iter().chain(writer.lost.into_iter().map(Note::Lost)).collect())
}

struct PackageWriter<'a> {
    capture: &'a Capture,
    files: Files<'a>,
    lost: Vec<String>,
}

impl PackageWriter<'_> {
    fn write_trace(&mut self, contents: &mut String) -> Result<(), Error> {
        contents.push_str("[trace]\n");
        // One metadata file serves buffers that have all sources in common; trace IDs may mean different sources
        // in different buffers.
        let every = |source: &Source| source.buffers.len() == self.capture.buffers.len();
        let raw = self.capture.buffers.iter().any(|buffer| buffer.framing == Framing::Raw);
        let shared = self.capture.buffers.len() == 1 || (!raw && self.capture.sources.iter().all(every));
        if shared {
            contents.push_str("metadata=trace.ini\n");
        }
        let mut metadata = String::new();
        for (number, buffer) in self.capture.buffers.iter().enumerate() {
            let file = self.write_buffer(number, buffer)?;
            let _ = writeln!(contents, "buffer{number}={file}");
            let section = if shared && self.capture.buffers.len() > 1 {
                format!("buffer{number}")
            } else {
                "buffer".to_owned()
            };
            let ids = self.ids(number);
            write_description(&mut metadata, &section, buffer, ids.first().copied().flatten());
            if shared && number > 0 {
                continue;
            }
            if !shared {
                let _ = writeln!(contents, "metadata{number}=trace{number}.ini");
            }
            let mut sources = String::new();
            let capture = self.capture;
            for (source, id) in capture.sources_of(number).zip(ids) {
                match id {
                    Some(id) => self.write_source(&mut sources, source, id),
                    None => self.lost.push(format!("source {}: no trace ID is left for it", source.name)),
                }
            }
            if !shared {
                self.files.text(
                    &format!("trace{number}.ini"),
                    &format!("{}{sources}", std::mem::take(&mut metadata)),
                )?;
            } else {
                metadata.push_str(&sources);
            }
        }
        if shared {
            self.files.text("trace.ini", &metadata)?;
        }
        for source in self.capture.sources.iter().filter(|source| source.buffers.is_empty()) {
            self.lost.push(format!("source {}: no buffer holds its trace", source.name));
        }
        Ok(())
    }

    /// The trace IDs to write for the sources of a buffer: their own, or a free one where none is known.
    fn ids(&self, buffer: usize) -> Vec<Option<TraceId>> {
        let known: Vec<Option<TraceId>> = self.capture.sources_of(buffer).map(|source| source.id).collect();
        let mut ids: Vec<Option<TraceId>> = Vec::new();
        for id in &known {
            let fits = |id: &TraceId| id.get() <= 0x6F && !ids.contains(&Some(*id));
            let free = || (1..=0x6F).map(TraceId::new).find(|id| fits(id) && !known.contains(&Some(*id)));
            ids.push(id.filter(fits).or_else(free));
        }
        ids
    }

    fn write_buffer(&mut self, number: usize, buffer: &Buffer) -> Result<String, Error> {
        if let ([file], true) = (buffer.files.as_slice(), buffer.framing != Framing::Dstream) {
            return self.files.copy(file);
        }
        let name = format!("buffer{number}.bin");
        let stream = buffer.open()?;
        if buffer.framing == Framing::Dstream {
            return self.files.contents(&name, &mut Converted::new(stream, WithoutFooters::default()));
        }
        self.files.contents(&name, &mut { stream })
    }

    fn write_source(&mut self, text: &mut String, source: &Source, id: TraceId) {
        let own = ["format", "source", "stream", "core", "core_name", "location"];
        let mut lines = SectionLines::new(Dialect::Package, ": ", &own);
        lines.own("format", &source.format);
        lines.own("source", &source.name);
        if source.stream != 0 {
            lines.own("stream", &source.stream.to_string());
        }
        if let Some(core) = source.core.and_then(|core| self.capture.cores.get(core)) {
            if !core.kind.is_empty() {
                lines.own("core", &core.kind);
            }
            lines.own("core_name", &core.name);
        }
        if let Some(location) = &source.location {
            lines.own("location", location);
        }
        let number = |value: u64| format!("{value:#010x}");
        let registers = source
            .registers
            .iter()
            .map(|register| (&register.name, register.value.map_or_else(|| register.text.clone(), number)));
        let options = source.options.iter().map(|(key, value)| (key, value.clone()));
        for (key, value) in registers.chain(options) {
            if !lines.add(key, &value) {
                self.lost.push(format!("source {}: `{}` cannot be written", source.name, short(key)));
            }
        }
        let _ = write!(text, "\n[trace_{}]\n{}", id.get(), lines.text);
    }

    fn write_events(&mut self, contents: &mut String) -> Result<(), Error> {
        let capture = self.capture;
        if capture.events.is_none() && capture.contextidr.is_none() && capture.asid_bits.is_none() {
            return Ok(());
        }
        contents.push_str("\n[events]\n");
        if let Some(log) = &capture.events {
            let _ = writeln!(contents, "log={LOG}");
            let text = log.log().to_string();
            match text.len() as u64 <= LONGEST_LOG {
                true => self.files.put(LOG, &mut text.as_bytes())?,
                false => self.lost.push(format!(
                    "the event log would have {} bytes, and readers take {LONGEST_LOG}: it is left out",
                    text.len()
                )),
            }
        }
        if let Some(layout) = capture.contextidr {
            let _ = writeln!(contents, "contextidr={}", layout.name());
        }
        if capture.context_in_vmid {
            contents.push_str("context_in_vmid=1\n");
        }
        if capture.event_clock == EventClock::Slices {
            contents.push_str("clock=starts\n");
        }
        if let Some(bits) = capture.asid_bits {
            let _ = writeln!(contents, "asid_bits={bits}");
        }
        Ok(())
    }

    fn write_images(&mut self, contents: &mut String) -> Result<(), Error> {
        let mut lines = ImageLines::default();
        for image in &self.capture.images {
            if !lines.can_hold(&image.name) {
                self.lost.push(format!(
                    "image {}: its name cannot be written, or is there twice",
                    short(&image.name)
                ));
            } else if image.file.exists() {
                let file = self.files.copy(&image.file)?;
                lines.add(&image.name, &file);
            } else {
                self.lost.push(format!("{}: this image is not there", image.file));
            }
        }
        // Images and code that the log leads to without an entry.
        for (name, file) in self.mentioned() {
            if name.as_ref().is_some_and(|name| !lines.can_hold(name)) {
                continue;
            }
            let file = self.files.copy(&file)?;
            if let Some(name) = name {
                lines.add(&name, &file);
            }
        }
        if !lines.0.is_empty() {
            let _ = write!(contents, "\n[images]\n{}", lines.text());
        }
        Ok(())
    }

    /// Files that the event log leads to, with the name that an image needs to be found again.
    fn mentioned(&self) -> Vec<(Option<String>, FileRef)> {
        let capture = self.capture;
        let mut found: Vec<(Option<String>, FileRef)> = Vec::new();
        let listed: HashSet<&str> = capture.images.iter().map(|image| image.name.as_str()).collect();
        let (listed, mut seen) = (|name: &str| listed.contains(name), HashSet::new());
        for record in capture.events.iter().flat_map(|events| &events.log().records) {
            let (name, paths) = match &record.item {
                Item::Mapping(_, mapping) => {
                    let Some(image) = &mapping.image else { continue };
                    if !seen.insert((image, &mapping.build_id)) {
                        continue;
                    }
                    let by_id = mapping.build_id.as_ref().is_some_and(|id| listed(&format!("build-id:{id}")));
                    if by_id || listed(image) {
                        continue;
                    }
                    let inside = image.trim_start_matches('/');
                    (Some(image.to_string()), vec![inside.to_owned(), format!("images/{inside}")])
                }
                Item::Patch(patch) => match &patch.code {
                    PatchCode::File(path, _) => (None, vec![path.clone()]),
                    PatchCode::Id(id) => (None, vec![format!("code/{id}")]),
                    PatchCode::Inline(_) | PatchCode::InMemory => continue,
                },
                _ => continue,
            };
            let files = paths.iter().filter_map(|path| FileRef::new(&capture.folder, path).ok());
            if let Some(file) = files.into_iter().find(FileRef::exists)
                && !found.iter().any(|(other, known)| *other == name && known.path() == file.path())
            {
                found.push((name, file));
            }
        }
        found
    }

    fn write_memory(&mut self, contents: &mut String) -> Result<(), Error> {
        for (number, dump) in self.capture.memory.iter().enumerate() {
            if !dump.file.exists() {
                self.lost.push(format!("{}: these memory contents are not there", dump.file));
                continue;
            }
            let file = self.files.copy(&dump.file)?;
            let _ = write!(contents, "\n[memory{number}]\nfile={file}\naddress={:#x}\n", dump.address);
            self.write_details(contents, dump);
        }
        Ok(())
    }

    fn write_details(&mut self, contents: &mut String, dump: &MemoryDump) {
        let mut number = |key: &str, value: Option<u64>| {
            if let Some(value) = value {
                let _ = writeln!(contents, "{key}={value:#x}");
            }
        };
        number("length", dump.length);
        number("offset", Some(dump.offset).filter(|offset| *offset != 0));
        number("pid", dump.pid);
        match space_name(dump.space) {
            Some("ANY") => {}
            Some(space) => {
                let _ = writeln!(contents, "space={space}");
            }
            None => self.lost.push(format!("{}: no word for its memory spaces", dump.file)),
        }
        if let Some(core) = dump.core.and_then(|core| self.capture.cores.get(core)) {
            let _ = writeln!(contents, "core={}", plain(&core.name, &[]));
        }
    }

    fn write_system(&mut self, contents: &mut String) -> Result<(), Error> {
        let truth = self.copy_truth()?;
        let mut lines =
            SectionLines::new(Dialect::Package, "=", &["description", "timestamp_frequency", "truth"]);
        if let Some(description) = &self.capture.description {
            lines.own("description", description);
        }
        if let Some(frequency) = self.capture.timestamp_frequency {
            lines.own("timestamp_frequency", &frequency.to_string());
        }
        if matches!(self.capture.format, Format::Package | Format::Perf | Format::ElfCore) {
            for (key, value) in self.capture.system.iter().filter(|(key, _)| key != "truth") {
                if !lines.add(key, value) {
                    self.lost.push(format!("`{}` of [system] cannot be written", short(key)));
                }
            }
        }
        if let Some(file) = truth {
            lines.own("truth", &file);
        }
        if !lines.text.is_empty() {
            let _ = write!(contents, "\n[system]\n{}", lines.text);
        }
        if self.capture.cores.iter().any(|core| !core.registers.is_empty()) {
            self.lost.push("a package has no place for the registers of cores".to_owned());
        }
        Ok(())
    }

    /// The retired instructions come along with the trace that was made from them.
    fn copy_truth(&mut self) -> Result<Option<String>, Error> {
        let Some((_, path)) = self.capture.system.iter().find(|(key, _)| key == "truth") else {
            return Ok(None);
        };
        let file = FileRef::new(&self.capture.folder, path).ok().filter(FileRef::exists);
        let Some(file) = file else {
            self.lost.push(format!("{}: these retired instructions are not there", short(path)));
            return Ok(None);
        };
        self.files.copy(&file).map(Some)
    }
}

/// The lines of `[images]`: names are those by which images are found, and stay as they are.
#[derive(Default)]
struct ImageLines(Vec<(String, String)>, HashSet<String>);

impl ImageLines {
    fn can_hold(&self, name: &str) -> bool {
        let lines = SectionLines::new(Dialect::Package, "=", &[]);
        !self.1.contains(name) && lines.can_hold(name, "file")
    }

    fn add(&mut self, name: &str, file: &str) {
        self.1.insert(name.to_owned());
        self.0.push((name.to_owned(), file.to_owned()));
    }

    fn text(&self) -> String {
        self.0.iter().map(|(name, file)| format!("{name}={file}\n")).collect()
    }
}

fn write_description(text: &mut String, section: &str, buffer: &Buffer, source: Option<TraceId>) {
    let separator = if text.is_empty() { "" } else { "\n" };
    let own = ["format", "id", "wrapped", "starts", "thread", "source"];
    let mut lines = SectionLines::new(Dialect::Package, ": ", &own);
    for (key, value) in &buffer.details {
        lines.add(key, value);
    }
    let format = match buffer.framing {
        Framing::Coresight => "coresight",
        Framing::Tpiu | Framing::Dstream => "tpiu",
        Framing::TpiuHsync => "tpiu_hsync",
        Framing::Raw => buffer.packet_framing().unwrap_or("raw"),
    };
    lines.own("format", format);
    lines.own("id", &buffer.name);
    if buffer.wrapped {
        lines.own("wrapped", "1");
    }
    if !buffer.starts.is_empty() {
        let start = |start: &Start| match start.time {
            Some(time) => format!("{}@{time}", start.offset),
            None => start.offset.to_string(),
        };
        lines.own("starts", &buffer.starts.iter().map(start).collect::<Vec<_>>().join(" "));
    }
    if let Some(thread) = buffer.thread {
        lines.own("thread", &thread.to_string());
    }
    if let (Framing::Raw, Some(source)) = (buffer.framing, source) {
        lines.own("source", &source.get().to_string());
    }
    let _ = write!(text, "{separator}[{section}]\n{}", lines.text);
}
