//! A capture that was opened: its buffers, and the sources in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use backsight_arm::frame::Framing;
use backsight_capture as description;
use backsight_core::TraceId;
use backsight_image::{AllowedFiles, ImageSpec};

use crate::code::Code;
use crate::source::Source;
use crate::{OpenOptions, Result};

/// A capture: trace, and what is known about it.
///
/// ```
/// let capture = backsight::Capture::open("captures/first")?;
/// for buffer in capture.buffers() {
///     println!("{buffer}");
///     for source in buffer.sources() {
///         println!("  {source}");
///     }
/// }
/// # Ok::<(), backsight::Error>(())
/// ```
///
/// Cheap to clone: clones share the code once it was read.
#[derive(Clone, Debug)]
pub struct Capture {
    pub(crate) description: Arc<description::Capture>,
    pub(crate) buffers: Arc<Vec<Buffer>>,
    /// Of a bare file: sources with settings of their own.
    pub(crate) of_ids: Arc<BTreeMap<TraceId, description::Source>>,
    pub(crate) images: Arc<[ImageSpec]>,
    /// Where names in it may lead to.
    pub(crate) allowed: AllowedFiles,
    /// Most bytes that names and lines may take, where the user said so.
    pub(crate) budget: Option<u64>,
    pub(crate) code: Arc<OnceLock<Code>>,
}

impl Capture {
    /// Opens a snapshot folder or a trace package (a folder, or a ZIP archive). [`OpenOptions`] opens everything else.
    ///
    /// # Errors
    /// If there is no capture there, or its metadata does not follow its format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    /// Its name: where it came from.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// Its buffers, in the order of the capture.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The buffer of that name.
    pub fn buffer(&self, name: &str) -> Option<&Buffer> {
        self.buffers.iter().find(|buffer| buffer.name() == name)
    }

    /// Everything that its makers said about it: cores, memory, images, events.
    pub fn description(&self) -> &description::Capture {
        &self.description
    }

    /// What is doubtful about it, in words.
    pub fn warnings(&self) -> &[String] {
        &self.description.warnings
    }

    /// The code that its sources ran: what came along in the capture, and what was named when it was opened. Read when
    /// it is asked for first.
    ///
    /// # Errors
    /// If a file that was named cannot be used.
    pub fn code(&self) -> Result<&Code> {
        if let Some(code) = self.code.get() {
            return Ok(code);
        }
        let code =
            Code::read(self.description.clone(), self.images.clone(), self.allowed.clone(), self.budget)?;
        Ok(self.code.get_or_init(|| code))
    }
}

/// What a buffer holds, with numbers of bytes, by trace ID.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The sources that it holds trace of.
    pub sources: Vec<(Source, u64)>,
    /// Trace IDs of which nobody knows what they are.
    pub unknown: Vec<(TraceId, u64)>,
    /// What is wrong with the frames, in words.
    pub frame_damage: Vec<String>,
}

/// Bytes of a buffer that are taken apart before its sources are decoded one after the other.
pub(crate) const BLOCK: usize = 1 << 18;

/// What one trace sink captured.
#[derive(Clone)]
pub struct Buffer {
    pub(crate) name: Arc<str>,
    pub(crate) framing: Framing,
    pub(crate) packets: Option<String>,
    /// By the ID in frames; a raw buffer has its one source under [`TraceId::NULL`].
    pub(crate) sources: BTreeMap<TraceId, Source>,
    /// IDs that sources went on under when they were configured again, with the first ID of each.
    pub(crate) continued: BTreeMap<TraceId, TraceId>,
    /// What an ID without a source of its own is taken for: bare files use one configuration for all.
    pub(crate) fallback: Option<Source>,
    pub(crate) wrapped: bool,
    pub(crate) size: Option<u64>,
    /// Where the data begins again.
    pub(crate) starts: Arc<[description::Start]>,
    /// The thread that all of it belongs to.
    pub(crate) thread: Option<u64>,
    pub(crate) open: Arc<dyn Fn(u64) -> Result<Box<dyn Read + Send>> + Send + Sync>,
}

impl Buffer {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its bytes are framed.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// The word for how the packets of its one source are framed, where they are.
    pub fn packet_framing(&self) -> Option<&str> {
        self.packets.as_deref()
    }

    /// How many bytes it has; `None` where only reading it says.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// How many pieces its data is in, each of which begins again: 1 if nothing else is said.
    pub fn pieces(&self) -> usize {
        1 + self.starts.iter().filter(|start| start.offset > 0).count()
    }

    /// The sources that the capture describes, by ID. A bare file with frames describes none: which sources it holds,
    /// its frames say.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.values()
    }

    /// The source with this trace ID, if the capture describes it or has something to take it for. Nothing is read.
    pub fn source_with_id(&self, id: TraceId) -> Option<Source> {
        self.sources().find(|source| source.id() == id).cloned().or_else(|| self.source(id))
    }

    /// Reads it from this position on, block by block.
    pub(crate) fn read_blocks(
        &self,
        position: u64,
        fill: bool,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result {
        let mut reader = self.open_at(position)?;
        let mut block = vec![0; BLOCK];
        let fill = fill && !self.is_raw();
        loop {
            let count = read_block(&mut reader, &mut block, fill)
                .map_err(|error| description::Error::io(self.name(), &error))?;
            if count == 0 || each(&block[..count]).is_break() {
                return Ok(());
            }
        }
    }

    /// Opens its bytes.
    ///
    /// # Errors
    /// If they cannot be opened.
    pub fn open(&self) -> Result<Box<dyn Read + Send>> {
        self.open_at(0)
    }

    /// The same from this position on.
    ///
    /// # Errors
    /// As [`Buffer::open`].
    pub fn open_at(&self, position: u64) -> Result<Box<dyn Read + Send>> {
        (self.open)(position)
    }

    /// Does it hold the bytes of one source, without frames?
    pub fn is_raw(&self) -> bool {
        self.framing == Framing::Raw
    }

    /// The source with this ID in frames, if it is known or there is something to take it for.
    pub(crate) fn source(&self, id: TraceId) -> Option<Source> {
        let known = self.sources.get(&id).cloned();
        known.or_else(|| Some(self.fallback.as_ref()?.with_id(format!("ID {id}"), id)))
    }

    /// The first ID of the source that has this one.
    pub(crate) fn first_id(&self, id: TraceId) -> TraceId {
        self.continued.get(&id).copied().unwrap_or(id)
    }

    /// The IDs that its sources are described with.
    pub(crate) fn ids(&self) -> BTreeSet<TraceId> {
        self.sources.values().map(Source::id).collect()
    }
}

/// In words: name, size and framing.
impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match self.size {
            Some(size) => write!(f, "{size} bytes")?,
            None => f.write_str("size unknown")?,
        }
        write!(f, ", framing {}", self.framing)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            framing,
            packets,
            sources,
            continued,
            fallback,
            wrapped,
            size,
            starts,
            thread,
            open: _,
        } = self;
        f.debug_struct("Buffer")
            .field("name", name)
            .field("framing", framing)
            .field("packets", packets)
            .field("sources", sources)
            .field("continued", continued)
            .field("fallback", fallback)
            .field("wrapped", wrapped)
            .field("size", size)
            .field("starts", starts)
            .field("thread", thread)
            .finish_non_exhaustive()
    }
}

pub(crate) fn read_block(reader: &mut impl Read, block: &mut [u8], fill: bool) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        match reader.read(&mut block[filled..]) {
            Ok(0) => return Ok(filled),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // What came before the trouble is decoded; the next read meets it again.
            Err(_) if filled > 0 => return Ok(filled),
            Err(error) => return Err(error),
        }
        if !fill || filled == block.len() {
            return Ok(filled);
        }
    }
}
