//! A capture that was opened: its buffers and sources, and what they hold.

use std::path::PathBuf;

use backsight::core::{Address, AddressSpace};
use backsight::decode::{Decode, Kind};
use backsight::description::Format;
use backsight::image::ImageSpec;
use backsight::{Buffer, Capture, OpenOptions, Source};
use backsight_table::Guard;
use pyo3::prelude::*;

use crate::background::{self, StopFlag};
use crate::error;
use crate::items::{EventIterator, Items, PacketIterator};
use crate::profile::ProfileObject;
use crate::table::{TableObject, query};

/// Opens a capture: a snapshot folder, a trace package (a folder, or a ZIP archive), perf.data, an ELF core file or, with
/// `protocol`, a bare file of trace.
///
/// `images` are files of code besides what the capture brings along: "FILE" or "FILE@ADDRESS". `symfs` are folders that hold
/// files as the traced system had them; with `host_files`, this machine's own files are used too that the capture names, if they
/// are ELF files with the recorded build ID. `config` are settings of its sources, "KEY=VALUE" or "ID:KEY=VALUE". `label` is the
/// trace ID that the one source of a bare file is shown with.
#[pyfunction]
#[pyo3(signature = (path, *, images=Vec::new(), symfs=Vec::new(), host_files=false, protocol=None, framing=None, config=Vec::new(),
    label=None, wrapped=false, follow_links=false, budget=None),
    text_signature = "(path, *, images=(), symfs=(), host_files=False, protocol=None, framing=None, config=(), label=None, \
        wrapped=False, follow_links=False, budget=None)")]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub fn open(
    py: Python<'_>,
    path: PathBuf,
    images: Vec<PathBuf>,
    symfs: Vec<PathBuf>,
    host_files: bool,
    protocol: Option<String>,
    framing: Option<String>,
    config: Vec<String>,
    label: Option<u8>,
    wrapped: bool,
    follow_links: bool,
    budget: Option<u64>,
) -> PyResult<CaptureObject> {
    if let Some(folder) = symfs.iter().find(|folder| !folder.is_dir()) {
        return Err(error::usage(format!("symfs {}: there is no such folder", folder.display())));
    }
    let images: Vec<_> = images.iter().map(|image| ImageSpec::from(image.as_os_str())).collect();
    if let Some(image) = images.iter().find(|image| !image.file.is_file()) {
        return Err(error::image(format!("images {}: there is no such file", image.file.display())));
    }
    let mut options = OpenOptions::new().wrapped(wrapped).follow_links(follow_links).host_files(host_files);
    options = protocol.iter().fold(options, |options, name| options.protocol(name));
    options = framing.iter().fold(options, |options, name| options.framing(name));
    options = config.iter().fold(options, |options, setting| options.config(setting));
    options = label.iter().fold(options, |options, id| options.label(*id));
    options = budget.iter().fold(options, |options, bytes| options.budget(*bytes));
    options = images.into_iter().fold(options, OpenOptions::image_file);
    options = symfs.iter().fold(options, |options, folder| options.symfs(folder));
    let opened = path.clone();
    let (guard, capture) = background::run(py, &StopFlag::default(), move || {
        // What cannot be looked at cannot be opened either.
        (Guard::new(&opened).ok(), options.open(&opened))
    })?;
    let capture = capture.map_err(|error| error::of_library(&error))?;
    Ok(CaptureObject { capture, path, guard })
}

/// A capture: trace, and what is known about it. `backsight.open` opens one.
#[pyclass(frozen, module = "backsight", name = "Capture")]
pub struct CaptureObject {
    pub capture: Capture,
    path: PathBuf,
    /// Its files, as they were when it was opened.
    guard: Option<Guard>,
}

#[pymethods]
impl CaptureObject {
    /// Where it was opened.
    #[getter]
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Its name: where it came from.
    #[getter]
    fn name(&self) -> &str {
        self.capture.name()
    }

    /// What kind of capture it is: "snapshot", "trace package", "bare file", "perf.data" or "ELF core file".
    #[getter]
    fn format(&self) -> &'static str {
        match self.capture.description().format {
            Format::Snapshot => "snapshot",
            Format::Package => "trace package",
            Format::Bare => "bare file",
            Format::Perf => "perf.data",
            Format::ElfCore => "ELF core file",
        }
    }

    /// What its makers say about it, in words; `None` where they say nothing.
    #[getter]
    fn description(&self) -> Option<String> {
        self.capture.description().description.clone()
    }

    /// What is doubtful about it, in words.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.capture.warnings().iter().map(|warning| error::in_python(warning)).collect()
    }

    /// Ticks of its timestamps in a second, where it says so.
    #[getter]
    fn timestamp_frequency(&self) -> Option<u64> {
        self.capture.description().timestamp_frequency
    }

    /// The names of its cores.
    #[getter]
    fn cores(&self) -> Vec<String> {
        self.capture.description().cores.iter().map(|core| core.name.clone()).collect()
    }

    /// Its buffers, in the order of the capture.
    #[getter]
    fn buffers(&self) -> Vec<BufferObject> {
        self.capture.buffers().iter().cloned().map(BufferObject).collect()
    }

    /// The sources that it describes, buffer by buffer. A bare file with frames describes none: which sources it holds, its
    /// frames say.
    #[getter]
    fn sources(&self) -> Vec<SourceObject> {
        self.capture.buffers().iter().flat_map(Buffer::sources).cloned().map(SourceObject).collect()
    }

    /// Its packets, as an iterator: of one source if `source` is its trace ID, of one buffer if `buffer` is its name.
    #[pyo3(signature = (source=None, *, buffer=None))]
    fn packets(&self, source: Option<u64>, buffer: Option<String>) -> PacketIterator {
        let choice = Choice { source, buffer };
        PacketIterator(Items::new(self.capture.clone(), self.guard.clone(), |capture| {
            choice.apply(capture.packets())
        }))
    }

    /// What was executed, as an iterator of events: ranges of instructions, exceptions, gaps, the time.
    #[pyo3(signature = (source=None, *, buffer=None))]
    fn execution(&self, source: Option<u64>, buffer: Option<String>) -> EventIterator {
        let choice = Choice { source, buffer };
        EventIterator(Items::new(self.capture.clone(), self.guard.clone(), |capture| {
            choice.apply(capture.execution())
        }))
    }

    /// The name of the function at an address, as far as the code says without knowing the process or the time; `None` if no
    /// symbol names it.
    fn function_at(&self, py: Python<'_>, address: u64) -> PyResult<Option<String>> {
        let capture = self.capture.clone();
        background::run(py, &StopFlag::default(), move || {
            let image = capture.code()?.image();
            Ok(image.symbolise(AddressSpace::ANY, Address(address)).map(|symbol| symbol.name.to_owned()))
        })?
        .map_err(|error: backsight::Error| error::of_library(&error))
    }

    /// A table of what is in it: "sources", "packets", "ranges", "branches", "calls", "events" or "damage". `columns` are
    /// those that are wanted, the others are not computed; `where` is a filter, as in "source == 0x10 and time >= 5"; `limit`
    /// is the most rows; `until` is a time: of each source, what comes after its first later timestamp is not decoded. Nothing
    /// is decoded until the table is read: by pyarrow, Polars, DuckDB, pandas, or whatever else
    /// takes Arrow streams.
    #[pyo3(signature = (name, columns=None, r#where=None, limit=None, *, until=None))]
    fn table(
        &self,
        name: &str,
        columns: Option<Vec<String>>,
        r#where: Option<&str>,
        limit: Option<u64>,
        until: Option<u64>,
    ) -> PyResult<TableObject> {
        let query = query(name, columns, r#where, limit, until)?;
        Ok(TableObject::new(query, self.capture.clone(), self.guard.clone()))
    }

    /// Counts what was executed. With `format`, the profile is also written to the file `output` as that format, one of
    /// `backsight.PROFILE_FORMATS`. `source` is the trace ID of the one source that is wanted.
    #[pyo3(signature = (format=None, output=None, *, source=None, buffer=None, weight="instructions", module=None, threads=0))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn profile(
        &self,
        py: Python<'_>,
        format: Option<&str>,
        output: Option<PathBuf>,
        source: Option<u64>,
        buffer: Option<String>,
        weight: &str,
        module: Option<String>,
        threads: usize,
    ) -> PyResult<ProfileObject> {
        let choice = Choice { source, buffer };
        let title = self.path.display().to_string();
        let (capture, guard) = (self.capture.clone(), self.guard.clone());
        let profile = ProfileObject::count(py, capture, guard, title, format, move |capture| {
            choice.apply(capture.execution()).threads(threads)
        })?;
        match (format, output) {
            (Some(format), Some(output)) => profile.write(py, format, output, weight, module)?,
            (None, Some(_)) => return Err(error::usage("output: `format` says what to write there")),
            (_, None) => {}
        }
        Ok(profile)
    }

    fn __repr__(&self) -> String {
        let sources = self.capture.buffers().iter().flat_map(Buffer::sources).count();
        format!("<Capture {:?}: {}, {sources} sources>", self.path, self.format())
    }
}

/// Which part of a capture is wanted.
struct Choice {
    source: Option<u64>,
    buffer: Option<String>,
}

impl Choice {
    fn apply<K: Kind>(self, mut decode: Decode<'_, K>) -> Decode<'_, K> {
        decode = self.source.iter().fold(decode, |decode, id| decode.id(*id));
        self.buffer.iter().fold(decode, |decode, name| decode.buffer(name))
    }
}

/// What one trace sink captured.
#[pyclass(frozen, module = "backsight", name = "Buffer")]
pub struct BufferObject(Buffer);

#[pymethods]
impl BufferObject {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// How many bytes it has; `None` where only reading it says.
    #[getter]
    fn size(&self) -> Option<u64> {
        self.0.size()
    }

    /// How its bytes are framed.
    #[getter]
    fn framing(&self) -> String {
        self.0.framing().to_string()
    }

    /// The sources that the capture describes in it.
    #[getter]
    fn sources(&self) -> Vec<SourceObject> {
        self.0.sources().cloned().map(SourceObject).collect()
    }

    fn __repr__(&self) -> String {
        format!("<Buffer {}>", self.0)
    }
}

/// One source of trace in a buffer: a trace unit, with the way it was configured.
#[pyclass(frozen, module = "backsight", name = "Source")]
pub struct SourceObject(Source);

#[pymethods]
impl SourceObject {
    /// Its trace ID; 0 where nobody says.
    #[getter]
    fn id(&self) -> u8 {
        self.0.id().get()
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The name of the buffer that holds its trace.
    #[getter]
    fn buffer(&self) -> &str {
        self.0.buffer()
    }

    /// The name of the core that it traces, where the capture says.
    #[getter]
    fn core(&self) -> Option<&str> {
        self.0.core()
    }

    /// Its protocol; `None` if the capture has a word for it that nobody knows.
    #[getter]
    fn protocol(&self) -> Option<&'static str> {
        self.0.protocol().map(|names| names.name)
    }

    /// The word that the capture has for its protocol, such as "ETM4.2".
    #[getter]
    fn format(&self) -> &str {
        self.0.format()
    }

    /// The thread that all of its trace belongs to, in a capture of single threads.
    #[getter]
    fn thread(&self) -> Option<u64> {
        self.0.thread()
    }

    /// How it was built and programmed, in words.
    #[getter]
    fn configuration(&self) -> String {
        self.0.configuration()
    }

    fn __repr__(&self) -> String {
        format!("<Source {}>", self.0)
    }
}
