//! What is to be decoded: the buffers of a capture, each with its framing and its sources.
//!
//! Commands work on a plan and need not know which kind of capture it came from, nor which of its facts the
//! user has overridden.

mod bare;
mod config;
mod packaged;
mod wrapped;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use backsight_arm::etm4;
use backsight_arm::frame::{Batch, Chunk, Counts, Deframer, Demultiplexer, Framing};
use backsight_capture::Capture;
use backsight_core::TraceId;
use backsight_flow::etrace::Handlers;
use backsight_riscv::{encap, etrace, ntrace};

use crate::args::CaptureArgs;
use crate::failure::{Failure, Result};
use crate::output::tell;
use crate::progress::Progress;

/// What is to be decoded.
pub struct Plan {
    /// The buffers, in the order of the capture.
    pub buffers: Vec<Buffer>,
    /// Where it all came from.
    pub capture: Capture,
}

impl Plan {
    /// Opens the capture and applies what the user said. Doubts about it go to standard error unless `quiet`.
    pub fn new(arguments: &CaptureArgs, quiet: bool) -> Result<Self> {
        arguments.check()?;
        let mut plan =
            if bare::is_meant(arguments) { bare::plan(arguments)? } else { packaged::plan(arguments)? };
        plan.unwrap_buffers()?;
        plan.doubt_parameters();
        if !quiet {
            for warning in &plan.capture.warnings {
                tell(format_args!("warning: {warning}"));
            }
        }
        Ok(plan)
    }

    fn doubt_parameters(&mut self) {
        let decodings = self.buffers.iter().flat_map(|buffer| buffer.sources.values());
        let unknown: BTreeSet<&String> = decodings
            .filter_map(|source| match &source.decoding {
                Decoding::Etrace(etrace) => Some(&etrace.unknown),
                _ => None,
            })
            .flatten()
            .collect();
        let doubts = unknown.into_iter().map(|name| format!("parameter {name} is not known, and not used"));
        self.capture.warnings.extend(doubts);
    }

    /// Wrapped buffers are read from where their trace seems to begin.
    fn unwrap_buffers(&mut self) -> Result {
        let mut buffers = Vec::with_capacity(self.buffers.len());
        for buffer in self.buffers.drain(..) {
            let ring = buffer.wrapped && buffer.framing == Framing::Coresight;
            let warnings = &mut self.capture.warnings;
            buffers.push(if ring { wrapped::unwrap_buffer(buffer, warnings)? } else { buffer });
        }
        self.buffers = buffers;
        Ok(())
    }
}

/// How the bytes of one source are understood.
#[derive(Clone, Debug)]
pub enum Decoding {
    /// ETMv4 or ETE.
    Etm4(Box<etm4::Config>),
    /// RISC-V E-Trace, with the framing of its packets.
    Etrace(Box<Etrace>),
    /// RISC-V N-Trace.
    Ntrace(ntrace::Config),
    /// A protocol that is known but not decoded, by its name.
    NotDecoded(String),
}

/// How E-Trace is understood.
#[derive(Clone, Debug)]
pub struct Etrace {
    /// Parameters of the encoder.
    pub params: etrace::Params,
    /// Options until the trace says otherwise.
    pub options: etrace::Options,
    /// How packets are framed.
    pub framing: encap::Framing,
    /// Where trap handlers are, for traces that leave that out.
    pub handlers: Handlers,
    /// Parameters that were given and are not known.
    pub unknown: Vec<String>,
}

impl Etrace {
    /// What the decoder must know.
    pub const fn config(&self) -> etrace::Config {
        etrace::Config { params: self.params, options: self.options, framing: self.framing }
    }
}

/// One source of a buffer.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// The ID in its registers, for listings of what was executed.
    pub id: TraceId,
    /// Name of the core that it traces.
    pub core: Option<String>,
    /// How to understand it.
    pub decoding: Decoding,
}

impl Source {
    /// Did the trace unit count cycles?
    pub fn counts_cycles(&self) -> bool {
        matches!(&self.decoding, Decoding::Etm4(config) if config.cycle_counting())
    }
}

/// One buffer.
pub struct Buffer {
    /// Its name.
    pub name: String,
    /// How its bytes are framed.
    pub framing: Framing,
    /// Its sources by trace ID; a raw buffer has its one source under [`TraceId::NULL`].
    pub sources: BTreeMap<TraceId, Source>,
    /// What an ID without a source of its own is taken for: bare files use one configuration for all.
    pub fallback: Option<Decoding>,
    /// It wrapped, and where its trace begins is lost.
    pub wrapped: bool,
    /// Bytes of it, where that is known.
    pub size: Option<u64>,
    /// Opens its bytes.
    pub open: Box<dyn Fn() -> Result<Box<dyn Read + Send>> + Send + Sync>,
}

/// More IDs without metadata than this are not listed one by one.
const MOST_UNKNOWN_IDS: usize = 4;

/// Bytes that are read at a time.
const READ_SIZE: usize = 1 << 18;

impl Buffer {
    /// The source with this ID, if it is known or there is something to take it for.
    pub fn source(&self, id: TraceId) -> Option<Source> {
        self.sources.get(&id).cloned().or_else(|| {
            let decoding = self.fallback.clone()?;
            Some(Source { name: format!("ID {id}"), id, core: None, decoding })
        })
    }

    /// Holds the bytes of one source, without frames.
    pub fn is_raw(&self) -> bool {
        self.framing == Framing::Raw
    }

    /// Why the bytes of these IDs are not decoded, in words. Many IDs without metadata are a sign that this is no
    /// trace (the unused part of a buffer, or a wrong framing), and get one line.
    pub fn why_undecoded(&self, ids: impl IntoIterator<Item = (TraceId, u64)>) -> Vec<String> {
        let mut lines = Vec::new();
        let mut unknown = Vec::new();
        for (id, bytes) in ids {
            match self.sources.get(&id) {
                Some(Source { name, decoding: Decoding::NotDecoded(protocol), .. }) => {
                    lines.push(format!("ID {id}: {bytes} bytes not decoded: {name} is {protocol}"));
                }
                _ => unknown.push((id, bytes)),
            }
        }
        if unknown.len() > MOST_UNKNOWN_IDS {
            let bytes: u64 = unknown.iter().map(|(_, bytes)| bytes).sum();
            lines.push(format!(
                "{} IDs without metadata: {bytes} bytes not decoded: an unused part of the buffer, or a wrong framing?",
                unknown.len()
            ));
        } else {
            let line =
                |(id, bytes)| format!("ID {id}: {bytes} bytes not decoded: no metadata names this source");
            lines.extend(unknown.into_iter().map(line));
        }
        lines
    }

    /// How many bytes of a source there were.
    pub fn bytes_of(&self, counts: &Counts, id: TraceId) -> u64 {
        if self.is_raw() { counts.raw } else { counts.data[usize::from(id.get())] }
    }

    /// IDs that the user asked for and that a bare file does not hold, in words.
    pub fn absent_ids(&self, wanted: &[u64], counts: &Counts) -> Option<String> {
        self.fallback.as_ref()?;
        let holds = |id: usize| counts.data.get(id).is_some_and(|&bytes| bytes > 0);
        let absent: Vec<_> =
            wanted.iter().filter(|&&id| !holds(id as usize)).map(|id| format!("{id:#04x}")).collect();
        if absent.is_empty() {
            return None;
        }
        let held: Vec<_> =
            (1..0x70).filter(|&id| holds(id.into())).map(|id| TraceId::new(id).to_string()).collect();
        let held = if held.is_empty() { "none".to_owned() } else { held.join(", ") };
        Some(format!("ID {}: no data; IDs in this file: {held}", absent.join(", ")))
    }

    /// Reads the whole buffer and takes its frames apart.
    pub fn chunks(&self, quiet: bool, mut sink: impl FnMut(Chunk<'_>) -> Result) -> Result<Counts> {
        let mut deframer = Deframer::new(self.framing);
        let mut guarded = |outcome: &mut Result, chunk: Chunk<'_>| {
            if outcome.is_ok() {
                *outcome = sink(chunk);
            }
        };
        // A failure ends the reading at once: standard input may have no end.
        self.blocks(quiet, |block| {
            let mut outcome = Ok(());
            deframer.feed(block, &mut |chunk| guarded(&mut outcome, chunk));
            outcome
        })?;
        let mut outcome = Ok(());
        deframer.finish(&mut |chunk| guarded(&mut outcome, chunk));
        outcome?;
        Ok(deframer.counts().clone())
    }

    /// Takes the buffer apart in large pieces. Gives what became of its bytes.
    pub fn batches(&self, quiet: bool, mut sink: impl FnMut(Batch<'_>)) -> Result<Counts> {
        let mut demultiplexer = Demultiplexer::new(self.framing);
        self.blocks(quiet, |block| {
            demultiplexer.feed(block, &mut sink);
            Ok(())
        })?;
        demultiplexer.finish(&mut sink);
        Ok(demultiplexer.counts().clone())
    }

    /// Reads the whole buffer, block by block.
    pub fn blocks(&self, quiet: bool, mut sink: impl FnMut(&[u8]) -> Result) -> Result {
        let mut reader = (self.open)()?;
        let progress = Progress::bytes(self.size, quiet);
        let mut block = vec![0; READ_SIZE];
        loop {
            let count = match reader.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::new(format!("{}: {error}", self.name))),
            };
            sink(&block[..count])?;
            progress.add(count as u64);
        }
    }
}

/// What is wrong with the frames of a buffer, in words: nothing if all is well.
pub fn frame_damage(counts: &Counts) -> Vec<String> {
    let mut damage = Vec::new();
    let mut note = |count: u64, what: &str| {
        if count > 0 {
            damage.push(format!("{count} {what}"));
        }
    };
    note(counts.unsynchronised, "bytes skipped while searching for frame synchronisation");
    note(counts.partial, "bytes of frames that were cut off");
    note(counts.illegal_ids, "ID bytes with the illegal ID 0x7f");
    note(counts.reserved(), "bytes of reserved IDs");
    note(counts.nonzero_padding, "padding bytes that are not zero");
    damage
}
