//! Writing a package.

use super::ENTRY;
use crate::events::{Item, PatchCode};
use crate::folder::FileRef;
use crate::model::{Buffer, Capture, EventClock, MemoryDump, Source, Start};
use crate::repack::{Converted, WithoutFooters};
use crate::snapshot::space_name;
use crate::write::{Files, Output, plain};
use crate::{Error, Format};
use backsight_arm::frame::Framing;
use backsight_core::TraceId;
use std::collections::HashSet;
use std::fmt::Write;

const LOG: &str = "system-event-log";

/// Writes the capture as a trace package; gives what a package cannot hold.
pub(crate) fn write(capture: &Capture, output: &mut dyn Output) -> Result<Vec<String>, Error> {
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
    Ok(writer.lost)
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
            write_description(&mut metadata, &section, buffer, ids.first().copied());
            if shared && number > 0 {
                continue;
            }
            if !shared {
                let _ = writeln!(contents, "metadata{number}=trace{number}.ini");
            }
            let mut sources = String::new();
            for (source, id) in self.capture.sources_of(number).zip(ids) {
                self.write_source(&mut sources, source, id);
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
    fn ids(&self, buffer: usize) -> Vec<TraceId> {
        let known: Vec<Option<TraceId>> = self.capture.sources_of(buffer).map(|source| source.id).collect();
        let mut ids: Vec<TraceId> = Vec::new();
        for id in &known {
            let fits = |id: &TraceId| id.get() <= 0x6F && !ids.contains(id);
            let free = || (1..=0x6F).map(TraceId::new).find(|id| fits(id) && !known.contains(&Some(*id)));
            ids.push(id.filter(fits).or_else(free).unwrap_or(TraceId::NULL));
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
        let _ = write!(text, "\n[trace_{}]\n", id.get());
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(text, "{}: {}", plain(key, &['=', ':']), plain(value, &[]));
        };
        line("format", &source.format);
        line("source", &source.name);
        if source.stream != 0 {
            line("stream", &source.stream.to_string());
        }
        if let Some(core) = source.core.and_then(|core| self.capture.cores.get(core)) {
            if !core.kind.is_empty() {
                line("core", &core.kind);
            }
            line("core_name", &core.name);
        }
        if let Some(location) = &source.location {
            line("location", location);
        }
        for register in &source.registers {
            match register.value {
                Some(value) => line(&register.name, &format!("{value:#010x}")),
                None => line(&register.name, &register.text),
            }
        }
        for (key, value) in &source.options {
            line(key, value);
        }
    }

    fn write_events(&mut self, contents: &mut String) -> Result<(), Error> {
        let capture = self.capture;
        if capture.events.is_none() && capture.contextidr.is_none() && capture.asid_bits.is_none() {
            return Ok(());
        }
        contents.push_str("\n[events]\n");
        if let Some(log) = &capture.events {
            let _ = writeln!(contents, "log={LOG}");
            self.files.text(LOG, &log.log().to_string())?;
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
        let mut lines = String::new();
        for image in &self.capture.images {
            if image.name.contains(['=', '\n']) || image.name.contains(": ") {
                self.lost.push(format!("image {}: its name cannot be written", image.name));
            } else if image.file.exists() {
                let file = self.files.copy(&image.file)?;
                let _ = writeln!(lines, "{}={file}", image.name);
            } else {
                self.lost.push(format!("{}: this image is not there", image.file));
            }
        }
        // Images and code that the log leads to without an entry.
        for (name, file) in self.mentioned() {
            let file = self.files.copy(&file)?;
            if let Some(name) = name {
                let _ = writeln!(lines, "{name}={file}");
            }
        }
        if !lines.is_empty() {
            let _ = write!(contents, "\n[images]\n{lines}");
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
                    if by_id || listed(image) || image.contains(['=', '\n']) {
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
        let mut lines = String::new();
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(lines, "{}={}", plain(key, &['=', ':']), plain(value, &[]));
        };
        if let Some(description) = &self.capture.description {
            line("description", description);
        }
        if let Some(frequency) = self.capture.timestamp_frequency {
            line("timestamp_frequency", &frequency.to_string());
        }
        if matches!(self.capture.format, Format::Package | Format::Perf | Format::ElfCore) {
            let others = self.capture.system.iter().filter(|(key, _)| key != "truth");
            others.for_each(|(key, value)| line(key, value));
        }
        if let Some(file) = truth {
            line("truth", &file);
        }
        if !lines.is_empty() {
            let _ = write!(contents, "\n[system]\n{lines}");
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
        let file = FileRef::new(&self.capture.folder, path)?;
        if !file.exists() {
            self.lost.push(format!("{file}: these retired instructions are not there"));
            return Ok(None);
        }
        self.files.copy(&file).map(Some)
    }
}

fn write_description(text: &mut String, section: &str, buffer: &Buffer, source: Option<TraceId>) {
    let separator = if text.is_empty() { "" } else { "\n" };
    let _ = writeln!(text, "{separator}[{section}]");
    for (key, value) in &buffer.details {
        let _ = writeln!(text, "{}: {}", plain(key, &['=', ':']), plain(value, &[]));
    }
    let format = match buffer.framing {
        Framing::Coresight => "coresight",
        Framing::Tpiu | Framing::Dstream => "tpiu",
        Framing::TpiuHsync => "tpiu_hsync",
        Framing::Raw => buffer.packet_framing().unwrap_or("raw"),
    };
    let _ = write!(text, "format: {format}\nid: {}\n", plain(&buffer.name, &[]));
    if buffer.wrapped {
        text.push_str("wrapped: 1\n");
    }
    if !buffer.starts.is_empty() {
        let start = |start: &Start| match start.time {
            Some(time) => format!("{}@{time}", start.offset),
            None => start.offset.to_string(),
        };
        let _ = writeln!(text, "starts: {}", buffer.starts.iter().map(start).collect::<Vec<_>>().join(" "));
    }
    if let Some(thread) = buffer.thread {
        let _ = writeln!(text, "thread: {thread}");
    }
    if let (Framing::Raw, Some(source)) = (buffer.framing, source) {
        let _ = writeln!(text, "source: {}", source.get());
    }
}
