//! One source of a buffer.

use std::fmt;
use std::sync::Arc;

use backsight_capture::Start;
use backsight_core::TraceId;

use crate::protocol::{Configuration, Names};

/// One source of trace in a buffer: a trace unit, with the way it was configured. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Source(Arc<Inner>);

#[derive(Clone, Debug)]
pub(crate) struct Inner {
    pub name: String,
    pub buffer: Arc<str>,
    /// As it is shown and chosen by.
    pub id: TraceId,
    /// As it stands in frames; 0 in a buffer without frames.
    pub frame_id: TraceId,
    pub core: Option<String>,
    pub protocol: Option<&'static Names>,
    /// The word of the capture for its protocol.
    pub format: String,
    pub configuration: Configuration,
    /// The thread that all of it belongs to.
    pub thread: Option<u64>,
    /// Where the data of its buffer begins again.
    pub starts: Arc<[Start]>,
}

impl Source {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// The same source with another ID, as it is met in frames.
    pub(crate) fn with_id(&self, name: String, id: TraceId) -> Self {
        Self::new(Inner { name, id, frame_id: id, ..Inner::clone(&self.0) })
    }

    /// The same source, labelled with an ID: there are no frames that would have one.
    pub(crate) fn labelled(&self, id: TraceId) -> Self {
        Self::new(Inner { id, ..Inner::clone(&self.0) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Is it the same source of a capture?
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.id() == other.id() && self.buffer() == other.buffer()
    }

    /// The name of the buffer that holds its trace.
    pub fn buffer(&self) -> &str {
        &self.0.buffer
    }

    /// Its trace ID: that of its registers, or of the frames that it was found in; 0 where nobody says.
    pub fn id(&self) -> TraceId {
        self.0.id
    }

    /// The ID that its bytes have in frames; 0 in a buffer without frames.
    pub fn frame_id(&self) -> TraceId {
        self.0.frame_id
    }

    /// The name of the core that it traces, where the capture says.
    pub fn core(&self) -> Option<&str> {
        self.0.core.as_deref()
    }

    /// What a hart of it is called: the core, or the source where the capture names no core, and the number of the hart where
    /// the trace gives it.
    pub fn hart_name(&self, hart: u16) -> String {
        let name = self.core().unwrap_or(self.name());
        if self.numbers_harts() { format!("{name} hart {hart}") } else { name.to_owned() }
    }

    /// The thread that all of its trace belongs to, in a capture of single threads.
    pub fn thread(&self) -> Option<u64> {
        self.0.thread
    }

    /// Its protocol; `None` if the capture has a word for it that nobody knows.
    pub fn protocol(&self) -> Option<&'static Names> {
        self.0.protocol
    }

    /// The word that the capture has for its protocol, such as `ETM4.2`.
    pub fn format(&self) -> &str {
        &self.0.format
    }

    /// Can its trace be decoded?
    pub fn is_decoded(&self) -> bool {
        !matches!(self.0.configuration, Configuration::NotDecoded)
    }

    /// Did it count cycles?
    pub fn counts_cycles(&self) -> bool {
        self.0.configuration.counts_cycles()
    }

    /// Does the listing that users of OpenCSD know say where its exceptions return to?
    pub(crate) fn lists_return_addresses(&self) -> bool {
        self.0.configuration.lists_return_addresses()
    }

    /// Does its trace say which of several harts it is about?
    pub fn numbers_harts(&self) -> bool {
        self.0.configuration.numbers_harts()
    }

    /// Are the targets of its branches in the code, and not in its packets? A list of them then comes from its
    /// execution, and [`Capture::branches`](crate::Capture::branches) refuses it.
    pub fn branches_need_code(&self) -> bool {
        self.0.configuration.branches().is_err()
    }

    /// How it was built and programmed, in words.
    pub fn configuration(&self) -> String {
        self.0.configuration.words().unwrap_or_else(|| format!("{}, not decoded yet", self.what()))
    }

    /// What it speaks, in words, for a source that is not decoded.
    pub(crate) fn what(&self) -> String {
        let protocol = self.0.protocol.map_or("unknown", |names| names.name);
        format!("{} ({protocol})", self.0.format)
    }

    /// Where the data of its buffer begins again.
    pub(crate) fn starts(&self) -> &Arc<[Start]> {
        &self.0.starts
    }

    /// Is it trace of a RISC-V processor?
    pub fn is_riscv(&self) -> bool {
        matches!(self.decoding(), Configuration::Etrace(_) | Configuration::Ntrace(_))
    }

    pub(crate) fn decoding(&self) -> &Configuration {
        &self.0.configuration
    }
}

/// In words: name, ID, core and configuration.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (ID {})", self.name(), self.id())?;
        if let Some(core) = self.core() {
            write!(f, " of {core}")?;
        }
        write!(f, ": {}", self.configuration())
    }
}
