//! How captures are opened.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backsight_arm::frame::Framing;
use backsight_capture::folder::{Incoming, Lone, Memory};
use backsight_capture::packed::unpacked;
use backsight_capture::{self as description, FileRef, ReadOptions, Settings, settings};
use backsight_core::TraceId;
use backsight_image::{AllowedFiles, GivenFolder, ImageSpec};

use crate::capture::{Buffer, Capture};
use crate::detect::Detection;
use crate::logs::{self, Log};
use crate::protocol::{self, Names};
use crate::source::Source;
use crate::{Error, Result, settings as overrides, sources, trace_events, wrapped};

/// What to say about a capture when it is opened.
///
/// A snapshot or a trace package brings its description along; whatever is said here comes before it. A bare file, a
/// reader and bytes in memory have none: at least the protocol must be named.
///
/// ```
/// # let bytes = std::fs::read("captures/first/trace.bin").unwrap();
/// let capture = backsight::OpenOptions::new()
///     .protocol("etm4")
///     .framing("coresight")
///     .config("TRCCONFIGR=0x1841")
///     .config("context_id=32")
///     .bytes(bytes)?;
/// # assert_eq!(capture.buffers().len(), 1);
/// # Ok::<(), backsight::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct OpenOptions {
    protocol: Option<String>,
    framing: Option<String>,
    config: Vec<String>,
    label: Option<TraceId>,
    wrapped: bool,
    images: Vec<ImageSpec>,
    roots: Vec<PathBuf>,
    host_files: bool,
    follow_links: bool,
    budget: Option<u64>,
}

impl OpenOptions {
    /// Nothing said.
    pub fn new() -> Self {
        Self::default()
    }

    /// The protocol of a bare file: a name of [`protocol::decoded`]. Whatever has a protocol named is a bare file.
    pub fn protocol(mut self, name: &str) -> Self {
        self.protocol = Some(name.to_owned());
        self
    }

    /// How the bytes are framed: a name of [`Framing`], or of [`protocol::packet_framings`] for protocols whose packets
    /// come in frames of their own. A bare file is raw if nothing is said.
    pub fn framing(mut self, name: &str) -> Self {
        self.framing = Some(name.to_owned());
        self
    }

    /// A register or option of the sources, `KEY=VALUE`; of one of them, `ID:KEY=VALUE`; or the name of a file with one
    /// on each line. May be said again and again.
    pub fn config(mut self, setting: &str) -> Self {
        self.config.push(setting.to_owned());
        self
    }

    /// The ID that the one source of a raw bare file is shown with.
    pub fn label(mut self, id: u8) -> Self {
        self.label = Some(TraceId::new(id));
        self
    }

    /// Buffers have wrapped and their write pointers are lost: find the likeliest start of the trace.
    pub fn wrapped(mut self, wrapped: bool) -> Self {
        self.wrapped = wrapped;
        self
    }

    /// Code besides what the capture brings along, `FILE` or `FILE@ADDRESS`: an ELF file, or a raw dump with its
    /// address. Of overlapping ones the last counts. May be said again and again.
    pub fn image(self, image: &str) -> Self {
        self.image_file(ImageSpec::parse(image))
    }

    /// The same, as a value.
    pub fn image_file(mut self, image: ImageSpec) -> Self {
        self.images.push(image);
        self
    }

    /// A folder that holds files as the traced system had them, by their paths, by their names alone, or by their build
    /// identifiers as in perf's cache. May be said again and again.
    pub fn symfs(mut self, folder: impl Into<PathBuf>) -> Self {
        self.roots.push(folder.into());
        self
    }

    /// Files of this machine may be used that perf.data or another capture names, if they are ELF files with the build ID that
    /// was recorded: at their paths, in perf's cache, beside the capture, and their debug information. Without this, what a
    /// capture names is looked up in the capture and in folders of [`OpenOptions::symfs`] only.
    pub fn host_files(mut self, allow: bool) -> Self {
        self.host_files = allow;
        self
    }

    /// Files of a folder may be links that lead out of it, and need not be regular files. A capture from somebody else
    /// should not be trusted with that.
    pub fn follow_links(mut self, follow: bool) -> Self {
        self.follow_links = follow;
        self
    }

    /// Most bytes that are unpacked and kept of what is opened, for each of: a ZIP archive, the records of perf.data, names and
    /// lines of all programs, a wrapped buffer. Without it, what the size of the input allows for:
    /// [`Door`](backsight_core::Door) has the table.
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget = Some(bytes);
        self
    }

    /// Opens a capture on disk: a snapshot folder, a trace package, perf.data, or, where a protocol is named, a bare file; `-` is
    /// standard input.
    ///
    /// # Errors
    /// If there is no capture there, its metadata does not follow its format, or what was said does not fit it. Of a bare file
    /// without a protocol the error says what it seems to hold.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Capture> {
        let path = path.as_ref();
        if self.protocol.is_some() {
            return self.bare(Lone(path.to_owned()).file());
        }
        if path == Path::new("-") {
            return self.undescribed_input();
        }
        if description::is_bare(path) {
            if let Some(log) = logs::in_file(path)? {
                return self.log(log);
            }
            return Err(Error::Undescribed(Box::new(Detection::of_file(path)?)));
        }
        let read = ReadOptions {
            raw_formats: protocol::packet_framings().collect(),
            follow_links: self.follow_links,
            budget: self.budget,
        };
        self.packaged(read.open(path)?)
    }

    /// Takes the bytes of a reader, which are read when they are decoded, once.
    ///
    /// # Errors
    /// If no protocol is named, or what was said makes no sense.
    pub fn reader(self, reader: impl Read + Send + 'static) -> Result<Capture> {
        self.bare(Incoming::file("reader", reader))
    }

    /// Takes bytes in memory.
    ///
    /// # Errors
    /// If no protocol is named, or what was said makes no sense.
    pub fn bytes(self, bytes: impl Into<Arc<[u8]>>) -> Result<Capture> {
        self.bare(Memory::file("bytes", bytes))
    }

    /// Takes no bytes: they will be pushed into a [`Session`](crate::Session).
    ///
    /// # Errors
    /// If no protocol is named, or what was said makes no sense.
    pub fn live(self) -> Result<Capture> {
        self.bytes(Vec::new())
    }

    /// Standard input, of which nobody says what it holds: it may be a log.
    fn undescribed_input(self) -> Result<Capture> {
        match logs::in_input()? {
            Some(log) => self.log(log),
            None => Err(Error::misuse("standard input is a bare stream: --protocol says what it holds")),
        }
    }

    /// A log that was recognised.
    fn log(mut self, log: Log) -> Result<Capture> {
        self.protocol = Some(protocol::tarmac::NAME.to_owned());
        self.config.splice(0..0, log.config.into_iter().map(str::to_owned));
        self.bare(log.file)
    }

    fn packaged(&self, mut capture: description::Capture) -> Result<Capture> {
        let framing = match &self.framing {
            Some(name) => Some(Framing::from_name(name).ok_or_else(|| {
                Error::misuse(format!("framing {name}: the frames of a packaged capture are CoreSight's"))
            })?),
            None => None,
        };
        for buffer in &mut capture.buffers {
            buffer.framing = framing.unwrap_or(buffer.framing);
            buffer.wrapped |= self.wrapped;
        }
        overrides::apply(&self.config, &mut capture)?;
        let capture = self.finish(capture)?;
        match trace_events::read(&capture) {
            Some(description) => self.finish(description),
            None => Ok(capture),
        }
    }

    /// One buffer. Its configuration is for every source in it, except where `ID:KEY=VALUE` says more of one.
    fn bare(self, file: FileRef) -> Result<Capture> {
        let Some(name) = self.protocol.as_deref() else {
            return Err(Error::misuse("a bare stream says nothing about itself: name its protocol"));
        };
        let Some(names) = protocol::decoded().find(|names| names.name == name) else {
            let known: Vec<_> = protocol::decoded().map(|names| names.name).collect();
            return Err(Error::misuse(format!("protocol {name}: expected one of {}", known.join(", "))));
        };
        let file = if names.name == protocol::tarmac::NAME { unpacked(file)? } else { file };
        let (framing, packets) = self.bare_framing(names)?;
        let (own, common): (Vec<_>, Vec<_>) =
            self.config.iter().cloned().partition(|argument| overrides::id_of(argument).is_some());
        let common = settings(&common).map_err(|error| Error::misuse(error.to_string()))?;
        let describe = |settings: &Settings| {
            for (key, value) in settings {
                protocol::check(names, key, value)
                    .map_err(|bad| Error::misuse(format!("{key}={value}: {}", bad.what)))?;
            }
            let mut capture =
                description::Capture::bare(file.clone(), names.format, framing, packets, settings);
            capture.sources.iter_mut().for_each(|source| {
                source.name = names.name.to_owned();
                source.stream = names.stream;
            });
            Ok::<_, Error>(capture)
        };
        let mut described = describe(&common)?;
        described.buffers.iter_mut().for_each(|buffer| buffer.wrapped = self.wrapped);
        let mut of_ids: BTreeMap<TraceId, Settings> = BTreeMap::new();
        for (id, setting) in own.iter().filter_map(|argument| overrides::id_of(argument)) {
            let own = settings(&[setting.to_owned()]).map_err(|error| Error::misuse(error.to_string()))?;
            of_ids.entry(id).or_insert_with(|| common.clone()).extend(own);
        }
        let (mut own, mut described_ids) = (Vec::new(), BTreeMap::new());
        for (id, settings) in &of_ids {
            let mut capture = describe(settings)?;
            own.extend(sources::all(&mut capture)?.into_iter().flatten().map(|(_, source)| (*id, source)));
            described_ids.extend(capture.sources.into_iter().map(|source| (*id, source)));
        }
        let label = self.label;
        let mut capture = self.finish(described)?;
        capture.of_ids = Arc::new(described_ids);
        for buffer in Arc::make_mut(&mut capture.buffers) {
            settle_bare_sources(buffer, &own, label);
        }
        Ok(capture)
    }

    /// What carries a bare stream, and how its packets are framed.
    fn bare_framing(&self, names: &'static Names) -> Result<(Framing, Option<&'static str>)> {
        let usual = names.framings.first().copied();
        let Some(word) = self.framing.as_deref() else { return Ok((Framing::Raw, usual)) };
        if let Some(framing) = Framing::from_name(word) {
            return Ok((framing, usual));
        }
        match protocol::packet_framings().find(|framing| *framing == word) {
            Some(packets) => Ok((Framing::Raw, Some(packets))),
            None => {
                let known: Vec<_> = framings().collect();
                Err(Error::misuse(format!("framing {word}: expected one of {}", known.join(", "))))
            }
        }
    }

    fn finish(&self, mut capture: description::Capture) -> Result<Capture> {
        let sources = sources::all(&mut capture)?;
        let mut buffers = Vec::with_capacity(capture.buffers.len());
        for (buffer, sources) in capture.buffers.iter().zip(sources) {
            let mut by_id = BTreeMap::new();
            for (id, source) in sources {
                by_id.entry(id).or_insert(source);
            }
            let data = buffer.clone();
            let buffer = Buffer {
                name: buffer.name.as_str().into(),
                framing: buffer.framing,
                packets: buffer.packet_framing().map(str::to_owned),
                continued: sources::continued(&capture, &by_id),
                sources: by_id,
                fallback: None,
                wrapped: buffer.wrapped,
                size: buffer.length(),
                starts: buffer.starts.as_slice().into(),
                thread: buffer.thread,
                open: Arc::new(move |position| Ok(data.open_at(position)?)),
            };
            buffers.push(match buffer.wrapped && buffer.framing == Framing::Coresight {
                true => wrapped::unwrap(buffer, self.budget, &mut capture.warnings)?,
                false => buffer,
            });
        }
        let (description, buffers) = (Arc::new(capture), Arc::new(buffers));
        Ok(Capture {
            description,
            buffers,
            of_ids: Arc::default(),
            images: self.images.as_slice().into(),
            allowed: AllowedFiles::beneath(self.roots.iter().map(GivenFolder::root))
                .allow_host(self.host_files),
            budget: self.budget,
            code: Arc::default(),
        })
    }
}

/// In frames, the one source that is described stands for every ID, except for those with settings of their own.
fn settle_bare_sources(buffer: &mut Buffer, own: &[(TraceId, Source)], label: Option<TraceId>) {
    if buffer.is_raw() {
        for (id, source) in own {
            buffer.sources.insert(TraceId::NULL, source.labelled(*id));
        }
        if let Some(id) = label {
            buffer.sources.values_mut().for_each(|source| *source = source.labelled(id));
        }
        return;
    }
    buffer.fallback = std::mem::take(&mut buffer.sources).into_values().next();
    for (id, source) in own {
        buffer.sources.insert(*id, source.with_id(format!("ID {id}"), *id));
    }
}

/// The names of all framings: those that carry several sources, and those of single protocols.
pub fn framings() -> impl Iterator<Item = &'static str> {
    Framing::ALL.iter().map(|framing| framing.name()).chain(protocol::packet_framings())
}
