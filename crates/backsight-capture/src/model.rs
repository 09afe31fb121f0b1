//! What a capture holds, whatever format it came in.

use crate::Error;
use crate::events::Events;
use crate::folder::{FileRef, Folder, passed_over};
use backsight_arm::frame::Framing;
use backsight_core::{Address, AddressSpace, TraceId};
use std::io::{self, Read};
use std::sync::Arc;

/// The format a capture was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A snapshot folder.
    Snapshot,
    /// A trace package, folder or ZIP.
    Package,
    /// A file of trace with nothing beside it.
    Bare,
    /// A perf.data file of Linux perf or Android's simpleperf.
    Perf,
    /// An ELF core file with trace in its sections.
    ElfCore,
}

/// What says which events of the log have happened at a point of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventClock {
    /// The timestamps in the trace: the log has times of the same clock.
    #[default]
    Timestamps,
    /// The times of [`Buffer::starts`]: timestamps in the trace are of another clock.
    Slices,
}

/// Where the data of a buffer does not continue what came before: the trace units were stopped and programmed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// How many bytes of the buffer come before.
    pub offset: u64,
    /// When all that follows, up to the next start, had been written, on the clock of the event log.
    pub time: Option<u64>,
}

/// Trace with what is known about it.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Where it came from, for messages.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// What its maker said of it.
    pub description: Option<String>,
    /// The trace itself.
    pub buffers: Vec<Buffer>,
    /// The trace sources.
    pub sources: Vec<Source>,
    /// The processors.
    pub cores: Vec<Core>,
    /// Memory contents that came along.
    pub memory: Vec<MemoryDump>,
    /// Program images that came along, under the names that events use.
    pub images: Vec<Image>,
    /// What the operating system did meanwhile.
    pub events: Option<Events>,
    /// What the operating system keeps in CONTEXTIDR.
    pub contextidr: Option<ContextIdLayout>,
    /// Context identifiers are in the field for virtual machines: the kernel ran at EL2.
    pub context_in_vmid: bool,
    /// What the times of [`Capture::events`] are compared with.
    pub event_clock: EventClock,
    /// Bits of an ASID, 8 or 16, where the capture says.
    pub asid_bits: Option<u8>,
    /// Ticks of the global timestamp in a second, where known.
    pub timestamp_frequency: Option<u64>,
    /// Anything else that was said of the system, as it stands: clusters of a snapshot, `[system]` of a package.
    pub system: Vec<(String, String)>,
    /// What is doubtful about the capture, in words.
    pub warnings: Vec<String>,
    /// Everything that came along.
    pub folder: Arc<dyn Folder>,
}

/// What one trace sink captured.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its name, unique in the capture.
    pub name: String,
    /// Its contents, in this order.
    pub files: Vec<FileRef>,
    /// How the streams of several sources are packed.
    pub framing: Framing,
    /// The word that the capture used for that.
    pub format: String,
    /// The data begins somewhere in the middle: the write pointer was lost.
    pub wrapped: bool,
    /// Maker, kind and identifier of the sink and the like, as they stand.
    pub details: Vec<(String, String)>,
    /// Where the data begins again, in order; the very beginning may be left out.
    pub starts: Vec<Start>,
    /// The thread that all of it belongs to, where a buffer was that of one thread.
    pub thread: Option<u64>,
}

impl Buffer {
    /// A buffer without contents.
    pub fn new(name: String) -> Self {
        let framing = Framing::Coresight;
        let (files, details, starts, thread) = Default::default();
        Self {
            name,
            files,
            framing,
            format: framing.name().to_owned(),
            wrapped: false,
            details,
            starts,
            thread,
        }
    }

    /// Opens the contents as one stream.
    ///
    /// # Errors
    /// If the first file cannot be opened. Trouble with the others shows while reading.
    pub fn open(&self) -> Result<Box<dyn Read + Send>, Error> {
        let Some((first, others)) = self.files.split_first() else { return Ok(Box::new(io::empty())) };
        let first = first.open()?;
        if others.is_empty() {
            return Ok(first);
        }
        Ok(Box::new(Joined { current: Some(first), others: Vec::from(others).into_iter() }))
    }

    /// Opens the contents as one stream, and passes over the first bytes, without reading them where that is possible.
    ///
    /// # Errors
    /// As [`Buffer::open`].
    pub fn open_at(&self, mut position: u64) -> Result<Box<dyn Read + Send>, Error> {
        let mut files = self.files.as_slice();
        while let [first, others @ ..] = files
            && !others.is_empty()
            && let Some(length) = first.length().filter(|length| *length <= position)
        {
            position -= length;
            files = others;
        }
        let Some((first, others)) = files.split_first() else { return Ok(Box::new(io::empty())) };
        if others.is_empty() {
            return first.open_at(position);
        }
        let current = Some(first.open()?);
        let joined = Joined { current, others: Vec::from(others).into_iter() };
        passed_over(Box::new(joined), position).map_err(|error| Error::io(first.to_string(), &error))
    }

    /// The word for how the packets of a raw stream are framed, where the capture has one.
    pub fn packet_framing(&self) -> Option<&str> {
        let carrier = ["", "raw", "source_data"].contains(&self.format.to_ascii_lowercase().as_str());
        (self.framing == Framing::Raw && !carrier).then_some(&self.format)
    }

    /// The length of the contents; `None` where only reading says.
    pub fn length(&self) -> Option<u64> {
        self.files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.length()?))
    }
}

/// Files one after the other, each opened when its turn comes.
struct Joined {
    current: Option<Box<dyn Read + Send>>,
    others: std::vec::IntoIter<FileRef>,
}

impl Read for Joined {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(current) = &mut self.current {
            match current.read(buffer)? {
                0 if !buffer.is_empty() => {
                    self.current =
                        self.others.next().map(|file| file.open()).transpose().map_err(io::Error::other)?;
                }
                count => return Ok(count),
            }
        }
        Ok(0)
    }
}

/// A register of a device, as it stands in the capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its name, without what is in parentheses.
    pub name: String,
    /// What is in parentheses: index, size. May be empty.
    pub info: String,
    /// Its value as text.
    pub text: String,
    /// Its value, where the text is a number of at most 64 bits.
    pub value: Option<u64>,
}

/// One trace source in one configuration.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its trace ID; `None` where the capture does not say, or only in a register. In a raw buffer it is only a label.
    pub id: Option<TraceId>,
    /// The word that the capture uses for what it speaks, such as `ETM4.2`.
    pub format: String,
    /// Which of the streams of its trace unit it is. The first, 0, has the trace ID of the unit, the others follow it.
    pub stream: u8,
    /// Its registers, as they stand.
    pub registers: Vec<Register>,
    /// Its options, as they stand.
    pub options: Settings,
    /// Its processor: index in [`Capture::cores`].
    pub core: Option<usize>,
    /// The buffers that hold its trace: indices in [`Capture::buffers`].
    pub buffers: Vec<usize>,
    /// Where the device is in the target, as it stands in the capture.
    pub location: Option<String>,
    /// Where all this stands, for messages.
    pub origin: Origin,
}

/// Keys with their values.
pub type Settings = Vec<(String, String)>;

/// Where the settings of a source stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file; empty where there is none.
    pub file: String,
    /// The line where its description begins.
    pub line: u32,
    /// The line of each setting.
    pub lines: Vec<(String, u32)>,
}

impl Origin {
    /// What is wrong with a setting, with the file and the line where it stands.
    pub fn error(&self, key: &str, what: impl Into<String>) -> Error {
        if self.file.is_empty() {
            return Error::file("configuration", what);
        }
        let line = self.lines.iter().find(|(other, _)| other.eq_ignore_ascii_case(key));
        match line.map_or(self.line, |(_, line)| *line) {
            0 => Error::file(&self.file, what),
            line => Error::line(&self.file, line, what),
        }
    }
}

impl Source {
    /// A register by name, in any case.
    pub fn register(&self, name: &str) -> Option<&Register> {
        self.registers.iter().find(|register| register.name.eq_ignore_ascii_case(name))
    }

    /// An option by name, in any case.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// A processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its name.
    pub name: String,
    /// Its type, such as `Cortex-A53`; may be empty.
    pub kind: String,
    /// Its registers at the end of the trace, as they stand.
    pub registers: Vec<Register>,
    /// Where it is in the target.
    pub location: Option<String>,
}

/// Contents of memory.
#[derive(Clone, Debug)]
pub struct MemoryDump {
    /// The file with the contents.
    pub file: FileRef,
    /// Where in the file they begin.
    pub offset: u64,
    /// How many bytes; `None`: to the end of the file.
    pub length: Option<u64>,
    /// Where in memory they are.
    pub address: Address,
    /// The memory spaces that see them there.
    pub space: AddressSpace,
    /// The core they were read by: index in [`Capture::cores`]; `None`: all see them.
    pub core: Option<usize>,
    /// The process that sees them; `None`: all.
    pub pid: Option<u64>,
}

/// A program image in the capture.
#[derive(Clone, Debug)]
pub struct Image {
    /// The path on the target, or `build-id:` and the build ID.
    pub name: String,
    /// The file.
    pub file: FileRef,
}

/// What the operating system keeps in CONTEXTIDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextIdLayout {
    /// Nothing.
    None,
    /// The ASID, in the low 8 bits.
    Asid,
    /// The ASID in the low 8 bits, the process ID above.
    AsidPid,
    /// The ASID in the low 8 bits, the thread ID above.
    AsidTid,
    /// The thread ID.
    Tid,
    /// The process ID.
    Pid,
}

impl ContextIdLayout {
    /// All of them, with the words for them in a trace package.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::None, "none"),
        (Self::Asid, "asid"),
        (Self::AsidPid, "asid_pid"),
        (Self::AsidTid, "asid_tid"),
        (Self::Tid, "tid"),
        (Self::Pid, "pid"),
    ];

    /// The layout that a word means.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, word)| word.eq_ignore_ascii_case(name)).map(|(layout, _)| layout)
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(layout, _)| *layout == self).map_or("none", |(_, word)| word)
    }
}

impl Capture {
    pub(crate) fn empty(name: String, format: Format, folder: Arc<dyn Folder>) -> Self {
        Self {
            name,
            format,
            description: None,
            buffers: Vec::new(),
            sources: Vec::new(),
            cores: Vec::new(),
            memory: Vec::new(),
            images: Vec::new(),
            events: None,
            contextidr: None,
            context_in_vmid: false,
            event_clock: EventClock::default(),
            asid_bits: None,
            timestamp_frequency: None,
            system: Vec::new(),
            warnings: Vec::new(),
            folder,
        }
    }

    /// Drops the buffers that are not wanted, and the sources that were in no other.
    pub fn keep_buffers(&mut self, wanted: impl Fn(&Buffer) -> bool) {
        let mut places = Vec::with_capacity(self.buffers.len());
        let mut kept = 0;
        for buffer in &self.buffers {
            places.push(wanted(buffer).then_some(kept));
            kept += usize::from(wanted(buffer));
        }
        self.buffers.retain(|buffer| wanted(buffer));
        for source in &mut self.sources {
            source.buffers =
                source.buffers.iter().filter_map(|&buffer| places.get(buffer).copied().flatten()).collect();
        }
        self.sources.retain(|source| !source.buffers.is_empty());
    }

    /// The sources whose trace is in a buffer.
    pub fn sources_of(&self, buffer: usize) -> impl Iterator<Item = &Source> + '_ {
        self.sources.iter().filter(move |source| source.buffers.contains(&buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{LinkedDirectory, Memory};
    use std::sync::Arc;

    #[test]
    fn contents_from_a_position_on_are_the_rest_of_the_contents() {
        let name = format!("backsight-open-at-{}", std::process::id());
        std::fs::write(std::env::temp_dir().join(&name), b"file").unwrap();
        let folder: Arc<dyn Folder> = Arc::new(LinkedDirectory(std::env::temp_dir()));
        let on_disk = FileRef::new(&folder, &name).unwrap();
        let mut buffer = Buffer::new("b".to_owned());
        for files in [
            vec![on_disk.clone()],
            vec![Memory::file("one", *b"memory"), on_disk, Memory::file("two", *b"!")],
        ] {
            buffer.files = files;
            let mut all = Vec::new();
            buffer.open().unwrap().read_to_end(&mut all).unwrap();
            for position in 0..=all.len() + 1 {
                let mut rest = Vec::new();
                buffer.open_at(position as u64).unwrap().read_to_end(&mut rest).unwrap();
                assert_eq!(rest, all[position.min(all.len())..]);
            }
        }
        std::fs::remove_file(std::env::temp_dir().join(&name)).unwrap();
    }
}
