//! A buffer while it is decoded, by bytes that are pushed in.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use backsight_arm::frame::Run;
use backsight_core::TraceId;

use super::caches::{CodeCaches, CodeKey, SharedCode};
use super::consumer::{AnyConsumer, Consumer};
use super::kind::Kind;
use super::merge::Waiting;
use super::source_decoder::{Part, SourceDecoder, Wanted};
use super::split::Splitter;
use super::summary::{BufferSummary, SourceSummary, Summary, Undecoded};
use crate::capture::{BLOCK, Buffer};
use crate::code::Code;
use crate::protocol::Stream;

/// Bytes of a buffer that are taken apart before their sources are decoded, where the order of sources is restored or
/// nobody asks for it: they stay in the fastest memory.
const SMALL_BLOCK: usize = 1 << 15;

/// How the items of several sources follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As they became known.
    Capture,
    /// Block by block, in each block by ID.
    Blocks,
    /// Nobody asks.
    Any,
}

/// What a session needs to know.
#[derive(Clone)]
pub(super) struct Setup<'c, K> {
    pub kind: K,
    pub buffer: &'c Buffer,
    pub code: Option<&'c Code>,
    /// What was read of it, shared by all sources.
    pub caches: Arc<CodeCaches>,
    /// IDs that are wanted; none: all.
    pub ids: Vec<TraceId>,
    pub wanted: Wanted,
    pub order: Order,
}

impl<'c, K: Kind> Setup<'c, K> {
    /// Is this ID wanted? The one source of a raw buffer was chosen before.
    pub fn wants(&self, id: TraceId) -> bool {
        self.buffer.is_raw() || self.ids.is_empty() || self.ids.contains(&id)
    }

    /// The decoder of an ID. Whether there can be one was asked before the decode began.
    pub fn decoder(&self, id: TraceId) -> Option<SourceDecoder<K::Stream<'c>>> {
        let source = self.buffer.source(id)?;
        let stream = self.kind.stream(&source, self.code).ok().flatten()?;
        let key = self.code.and_then(|code| CodeKey::new(code, &source));
        let shared = key.map(|key| SharedCode::new(&self.caches, key));
        let mut decoder = SourceDecoder::new(source, stream, self.wanted, shared);
        for (&later, _) in self.buffer.continued.iter().filter(|(_, first)| **first == id) {
            let Some(source) = self.buffer.source(later) else { continue };
            if let Some(stream) = self.kind.stream(&source, self.code).ok().flatten() {
                decoder.may_go_on_as(source, stream);
            }
        }
        Some(decoder)
    }
}

/// A buffer while it is decoded: bytes are pushed in, items come out. The bytes may come from anywhere and in any pieces.
///
/// ```
/// # let bytes = std::fs::read("captures/first/trace.bin").unwrap();
/// # let received = bytes.chunks(100);
/// let capture = backsight::OpenOptions::new().protocol("etm4").framing("coresight").live()?;
/// let mut session = capture.packets().session()?;
/// let mut count = 0;
/// let mut consumer = |_: backsight::Item<'_, backsight::Packet>| count += 1;
/// for bytes in received {
///     session.feed(bytes, &mut consumer);
/// }
/// session.finish(&mut consumer);
/// println!("{}", session.summary());
/// # assert!(count > 100);
/// # Ok::<(), backsight::Error>(())
/// ```
pub struct Session<'c, K: Kind> {
    setup: Setup<'c, K>,
    splitter: Splitter,
    decoders: BTreeMap<TraceId, SourceDecoder<K::Stream<'c>>>,
    undecoded: Vec<TraceId>,
    waiting: Waiting<K::Value>,
}

impl<'c, K: Kind> Session<'c, K> {
    pub(super) fn new(setup: Setup<'c, K>) -> Self {
        Self {
            splitter: Splitter::new(setup.buffer, setup.wanted),
            setup,
            decoders: BTreeMap::new(),
            undecoded: Vec::new(),
            waiting: Waiting::new(K::is_late),
        }
    }

    /// Takes more bytes of the buffer, and gives what is in them. If the consumer has enough, the rest is not given.
    pub fn feed(&mut self, bytes: &[u8], consumer: &mut impl Consumer<K::Value>) -> ControlFlow<()> {
        self.feed_to(bytes, consumer)
    }

    pub(super) fn feed_to(
        &mut self,
        bytes: &[u8],
        consumer: &mut dyn AnyConsumer<K::Value>,
    ) -> ControlFlow<()> {
        let block = if self.setup.order == Order::Blocks { BLOCK } else { SMALL_BLOCK };
        bytes.chunks(block).try_for_each(|block| self.block(block, consumer))
    }

    fn block(&mut self, block: &[u8], consumer: &mut dyn AnyConsumer<K::Value>) -> ControlFlow<()> {
        if self.setup.buffer.is_raw() {
            return self.raw_block(block, consumer);
        }
        let Self { setup, splitter, decoders, undecoded, waiting } = self;
        splitter.feed(block, &mut |id| met(setup, id, decoders, undecoded));
        let mut outcome = ControlFlow::Continue(());
        let merge = setup.order == Order::Capture && decoders.len() > 1;
        splitter.pieces(|id, piece| {
            let (Some(decoder), ControlFlow::Continue(())) = (decoders.get_mut(&id), outcome) else { return };
            outcome = match merge {
                true => decoder.take(piece.part(), waiting),
                false => decoder.take(piece.part(), consumer),
            };
        });
        if merge {
            waiting.give(consumer);
        }
        if consumer.has_enough() { ControlFlow::Break(()) } else { outcome }
    }

    /// All bytes belong to one source: nothing has to be gathered.
    fn raw_block(&mut self, block: &[u8], consumer: &mut dyn AnyConsumer<K::Value>) -> ControlFlow<()> {
        let Self { setup, splitter, decoders, undecoded, .. } = self;
        if decoders.is_empty() && undecoded.is_empty() {
            met(setup, TraceId::NULL, decoders, undecoded);
        }
        let (index, breaks) = splitter.feed_raw(block);
        let Some(decoder) = decoders.get_mut(&TraceId::NULL) else { return ControlFlow::Continue(()) };
        let part = Part { bytes: block, runs: &[Run { index, at: 0 }], arrivals: &[], breaks: &breaks };
        decoder.take(part, consumer)
    }

    /// The buffer ends. What is pushed in after that is another one, with the same sources; what decoders have learnt of
    /// the code stays known.
    pub fn finish(&mut self, consumer: &mut impl Consumer<K::Value>) -> ControlFlow<()> {
        self.finish_to(consumer)
    }

    pub(super) fn finish_to(&mut self, consumer: &mut dyn AnyConsumer<K::Value>) -> ControlFlow<()> {
        self.splitter.restart();
        self.decoders.values_mut().try_for_each(|decoder| {
            decoder.finish(consumer)?;
            consumer.finish();
            ControlFlow::Continue(())
        })
    }

    /// Bytes are missing here: what follows does not continue what came before, but for the sources and their
    /// configuration.
    pub fn reset(&mut self, consumer: &mut impl Consumer<K::Value>) -> ControlFlow<()> {
        self.splitter.restart();
        self.decoders.values_mut().try_for_each(|decoder| decoder.reset(consumer))
    }

    /// What was decoded so far, what was not, and why.
    pub fn summary(&mut self) -> Summary {
        let buffers = vec![self.buffer_summary()];
        Summary { buffers, stopped: false, about: K::ABOUT.0 }
    }

    pub(super) fn buffer_summary(&mut self) -> BufferSummary {
        let sources = self.decoders.values_mut().flat_map(summaries_of::<K>).collect();
        buffer_summary(&self.setup, &self.splitter, sources, &self.undecoded)
    }
}

/// An ID is met first: makes its decoder. Says whether its bytes are wanted.
pub(super) fn met<'c, K: Kind>(
    setup: &Setup<'c, K>,
    id: TraceId,
    decoders: &mut BTreeMap<TraceId, SourceDecoder<K::Stream<'c>>>,
    undecoded: &mut Vec<TraceId>,
) -> bool {
    if !setup.wants(id) {
        return false;
    }
    match setup.decoder(id) {
        Some(decoder) => drop(decoders.insert(id, decoder)),
        None => undecoded.push(id),
    }
    decoders.contains_key(&id)
}

/// What came of a source, in each configuration that it had; at least one.
pub(super) fn summaries_of<K: Kind>(decoder: &mut SourceDecoder<K::Stream<'_>>) -> Vec<SourceSummary> {
    let mut summaries: Vec<(u64, SourceSummary)> = Vec::new();
    for (source, stream, bytes) in decoder.configurations() {
        let summary = SourceSummary {
            source: source.clone(),
            packets: stream.packets(),
            accounting: stream.accounting(),
            statistics: stream.statistics(),
            notes: stream.notes().into_words(),
            kinds: stream.kinds(),
        };
        summaries.push((bytes, summary));
    }
    let is_only = summaries.len() == 1;
    summaries.retain(|(bytes, _)| *bytes > 0 || is_only);
    summaries.sort_by_key(|(_, summary)| summary.source.id());
    summaries.into_iter().map(|(_, summary)| summary).collect()
}

/// What came of a buffer.
pub(super) fn buffer_summary<K: Kind>(
    setup: &Setup<'_, K>,
    splitter: &Splitter,
    sources: Vec<SourceSummary>,
    undecoded: &[TraceId],
) -> BufferSummary {
    let frames = splitter.counts();
    let bytes_of =
        |id: TraceId| if setup.buffer.is_raw() { frames.raw } else { frames.data[usize::from(id.get())] };
    let mut undecoded: Vec<Undecoded> = undecoded
        .iter()
        .map(|&id| Undecoded { id, bytes: bytes_of(id), source: setup.buffer.source(id) })
        .collect();
    undecoded.sort_by_key(|one| one.id);
    // Which sources a bare file holds, only its frames say.
    let of_frames = setup.buffer.fallback.is_some();
    let is_absent = |id: &&TraceId| of_frames && frames.data[usize::from(id.get())] == 0;
    BufferSummary {
        name: setup.buffer.name().to_owned(),
        sources,
        undecoded,
        absent: setup.ids.iter().filter(is_absent).copied().collect(),
        triggers: splitter.triggers,
        flushes: splitter.flushes,
        frames,
    }
}
