//! Writing a capture in another format.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use backsight_arm::frame::Deframer;
use backsight_capture::events::message::EVENT_CHANNEL;
use backsight_capture::folder::Folder;
use backsight_capture::{Capture as Description, FileRef, Format, Image, Note, Register, Source};
use backsight_core::TraceId;

use crate::capture::{Buffer, Capture};
use crate::code::Located;
use crate::{Error, Result, sources};

/// Bytes that are looked through at a time.
const PIECE: usize = 1 << 16;

impl Capture {
    /// Writes the capture to a new place: a ZIP archive if the name ends in `.zip`, else a folder. Gives what the format
    /// could not hold, and what was copied.
    ///
    /// # Errors
    /// If the place exists, or something cannot be read or written.
    pub fn save(&self, path: impl AsRef<Path>, format: Format) -> Result<Vec<Note>> {
        let (description, mut notes) = self.described_for(format)?;
        notes.extend(description.save(path, format)?);
        Ok(notes)
    }

    /// The same, also to the place of another capture, which is replaced as a whole.
    ///
    /// # Errors
    /// If something else is there, or something cannot be read or written.
    pub fn replace(&self, path: impl AsRef<Path>, format: Format) -> Result<Vec<Note>> {
        let (description, mut notes) = self.described_for(format)?;
        notes.extend(description.replace(path, format)?);
        Ok(notes)
    }

    /// What is written, and what the format cannot hold, in words.
    fn described_for(&self, format: Format) -> Result<(Description, Vec<Note>)> {
        let mut description = Description::clone(&self.description);
        let mut notes = Vec::new();
        self.take_images_along(&mut description)?;
        if description.format == Format::Bare {
            notes.extend(self.describe_bare(&mut description)?.into_iter().map(Note::Lost));
        }
        let has_log = matches!(format, Format::Package | Format::ElfCore);
        if has_log {
            // The log describes them, and says when they are what they are.
            let is_continued = |id| self.buffers.iter().any(|buffer| buffer.continued.contains_key(&id));
            description.sources.retain(|source| !source.id.is_some_and(is_continued));
        }
        if has_log && description.events.is_some() {
            // The log has them now: they are not to be taken twice.
            for source in &mut description.sources {
                source.options.retain(|(key, _)| !key.eq_ignore_ascii_case(EVENT_CHANNEL));
            }
        }
        if format == Format::Snapshot {
            describe_by_registers(&mut description)?;
        }
        Ok((description, notes))
    }

    /// Programs that the event log names and that lie outside the capture go into it.
    fn take_images_along(&self, description: &mut Description) -> Result<()> {
        let mut known: BTreeSet<String> = description.images.iter().map(|image| image.name.clone()).collect();
        for (name, located) in self.code()?.files_outside() {
            if known.insert(name.clone()) {
                description.images.push(Image { name, file: Opened::file(located)? });
            }
        }
        Ok(())
    }

    /// Describes what a bare file holds: each trace ID in its frames is a source, configured as was said of all, or of
    /// that ID. Gives what was said and is of no use, in words.
    fn describe_bare(&self, description: &mut Description) -> Result<Vec<String>> {
        for buffer in &mut description.buffers {
            let file = Path::new(&buffer.name).file_name();
            buffer.name =
                file.map_or_else(|| buffer.name.clone(), |file| file.to_string_lossy().into_owned());
        }
        let (Some(buffer), Some(common)) = (self.buffers.first(), description.sources.first().cloned())
        else {
            return Ok(Vec::new());
        };
        if buffer.is_raw() {
            if let Some((&id, own)) = self.of_ids.iter().next_back() {
                description.sources = vec![Source { id: Some(id), ..own.clone() }];
            }
            return Ok(Vec::new());
        }
        let ids = ids_in(buffer)?;
        let describe = |&id: &TraceId| {
            let mut source = self.of_ids.get(&id).unwrap_or(&common).clone();
            // The frames say which ID is whose.
            source.options.retain(|(key, _)| !key.eq_ignore_ascii_case("trace_id"));
            Source { name: format!("{}_{:02x}", source.name, id.get()), id: Some(id), ..source }
        };
        description.sources = ids.iter().map(describe).collect();
        let mut notes = Vec::new();
        if ids.is_empty() {
            notes.push(format!("{}: no trace ID in {} frames has data", buffer.name(), buffer.framing()));
        }
        let idle = self.of_ids.keys().filter(|id| !ids.contains(id));
        notes.extend(idle.map(|id| format!("ID {id}: no data; what was said of it is left out")));
        Ok(notes)
    }

    /// Leaves out buffers that are not wanted, and sources that are in no other.
    pub fn keep_buffers(&mut self, wanted: impl Fn(&str) -> bool) {
        Arc::make_mut(&mut self.description).keep_buffers(|buffer| wanted(&buffer.name));
        Arc::make_mut(&mut self.buffers).retain(|buffer| wanted(buffer.name()));
    }
}

/// A file outside of the capture that was found and judged when code was looked for. What was judged is what is copied:
/// it is not opened again.
struct Opened(Located);

impl Opened {
    fn file(located: Located) -> Result<FileRef> {
        let base = located.name.file_name().map_or_else(|| "image".into(), |name| name.to_string_lossy());
        let base = base.into_owned();
        let folder: Arc<dyn Folder> = Arc::new(Self(located));
        Ok(FileRef::new(&folder, &base).or_else(|_| FileRef::new(&folder, "image"))?)
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opened({})", self.0.name.display())
    }
}

impl Folder for Opened {
    fn open(&self, _: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(io::Cursor::new(self.0.contents.clone())))
    }

    fn length(&self, _: &str) -> io::Result<Option<u64>> {
        Ok(Some(self.0.contents.len() as u64))
    }

    fn files(&self) -> Vec<String> {
        Vec::new()
    }

    fn describe(&self, _: &str) -> String {
        self.0.name.display().to_string()
    }
}

/// The trace IDs that have data in a buffer.
fn ids_in(buffer: &Buffer) -> Result<BTreeSet<TraceId>> {
    if buffer.size().is_none() {
        return Err(Error::misuse(format!(
            "{}: which sources it holds shows only when it is read, and it can be read once: save it to a file first",
            buffer.name()
        )));
    }
    let mut deframer = Deframer::new(buffer.framing());
    let (mut reader, mut piece) = (buffer.open()?, vec![0; PIECE]);
    loop {
        let read = reader.read(&mut piece);
        let count = read.map_err(|error| backsight_capture::Error::io(buffer.name(), &error))?;
        if count == 0 {
            break;
        }
        deframer.feed(&piece[..count], &mut |_| {});
    }
    Ok(deframer.counts().sources().map(|(id, _)| id).collect())
}

/// A snapshot describes sources by their registers: what options and trace IDs say is put into those.
fn describe_by_registers(description: &mut Description) -> Result {
    for number in 0..description.sources.len() {
        let understood = sources::understand(description, number)?;
        let source = &mut description.sources[number];
        if let Some(registers) = understood.configuration.registers() {
            registers.into_iter().for_each(|(name, value)| set(source, name, value.into()));
            source.options.clear();
        }
        let base = source.id.map(|id| id.get().wrapping_sub(source.stream));
        let register = understood.names.and_then(|names| names.id_register);
        if let (Some(id), Some(register)) = (base, register) {
            let name = register.names.iter().find(|name| source.register(name).is_some());
            let name = name.copied().unwrap_or(register.names[0]);
            let old = source.register(name).and_then(|register| register.value).unwrap_or(0);
            let others = old & !(0x7F << register.lowest_bit);
            set(source, name, others | u64::from(id) << register.lowest_bit);
        }
    }
    Ok(())
}

fn set(source: &mut Source, name: &str, value: u64) {
    let text = format!("{value:#010x}");
    match source.registers.iter_mut().find(|register| register.name.eq_ignore_ascii_case(name)) {
        Some(register) if register.value == Some(value) => {}
        Some(register) => (register.text, register.value) = (text, Some(value)),
        None => source.registers.push(Register::new(name, &text)),
    }
}
