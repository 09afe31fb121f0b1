//! A buffer while it is decoded, by bytes that are pushed in.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use backsight_arm::frame::Run;
use backsight_core::TraceId;
use backsight_flow::PathId;
use backsight_image::Window;

use super::caches::{CodeCaches, CodeKey, SharedCode};
use super::item::{Accumulate, Executor, Item, Outcome};
use super::kind::Kind;
use super::merge::Waiting;
use super::source_decoder::{EachItem, ItemSink, Known, Part, SourceDecoder, Wanted};
use super::split::{Piece, Splitter};
use super::summary::{BufferSummary, SourceSummary, Summary, Undecoded};
use crate::Source;
use crate::capture::Buffer;
use crate::code::Code;
use crate::protocol::Stream;

/// Bytes of a buffer that are taken apart before their sources are decoded, where the order of sources is restored or
/// nobody asks for it: they stay in the fastest memory.
const SMALL_BLOCK: usize = 1 << 15;

/// Bytes of a buffer that are taken apart before its sources are decoded one after the other.
pub(super) const BLOCK: usize = 1 << 18;

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

/// What comes at the end of a buffer.
pub(super) enum End<'a, T> {
    /// Another item.
    Item(Item<'a, T>),
    /// That was all of this source.
    Source(&'a Source),
}

/// A buffer while it is decoded: bytes are pushed in, items come out. The bytes may come from anywhere and in any pieces.
///
/// ```
/// # let bytes = std::fs::read("captures/first/trace.bin").unwrap();
/// # let received = bytes.chunks(100);
/// let capture = backsight::OpenOptions::new().protocol("etm4").framing("coresight").live()?;
/// let mut session = capture.packets().session()?;
/// let mut count = 0;
/// let mut sink = |_: backsight::Item<'_, backsight::Packet>| count += 1;
/// for bytes in received {
///     session.feed(bytes, &mut sink);
/// }
/// session.finish(&mut sink);
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
            waiting: Waiting::default(),
        }
    }

    /// Takes more bytes of the buffer, and gives what is in them. If the sink says that it wants no more, the rest is
    /// not given.
    pub fn feed<R, F>(&mut self, bytes: &[u8], sink: &mut F) -> ControlFlow<()>
    where
        R: Outcome,
        F: FnMut(Item<'_, K::Value>) -> R,
    {
        self.feed_to(bytes, &mut EachItem(&mut |item: Item<'_, K::Value>, _| sink(item)))
    }

    /// The same for whoever may take whole paths.
    pub(super) fn feed_to(&mut self, bytes: &[u8], sink: &mut impl ItemSink<K::Value>) -> ControlFlow<()> {
        let block = if self.setup.order == Order::Blocks { BLOCK } else { SMALL_BLOCK };
        bytes.chunks(block).try_for_each(|block| self.block(block, sink))
    }

    fn block(&mut self, block: &[u8], sink: &mut impl ItemSink<K::Value>) -> ControlFlow<()> {
        if self.setup.buffer.is_raw() {
            return self.raw_block(block, sink);
        }
        let Self { setup, splitter, decoders, undecoded, waiting } = self;
        splitter.feed(block, &mut |id| met(setup, id, decoders, undecoded));
        let mut outcome = ControlFlow::Continue(());
        let merge = setup.order == Order::Capture && decoders.len() > 1;
        splitter.pieces(|id, piece| {
            let (Some(decoder), ControlFlow::Continue(())) = (decoders.get_mut(&id), outcome) else { return };
            let part = piece.part();
            outcome = match merge {
                true => wait::<K>(decoder, part, waiting),
                false => decoder.take_to(part, sink),
            };
        });
        match merge && outcome.is_continue() {
            true => waiting.give(&mut |item| sink.take(item, Known::Unasked).control()),
            false => outcome,
        }
    }

    /// Makes the decoder of a buffer whose bytes all belong to one source.
    fn meet_raw_source(&mut self) {
        let Self { setup, decoders, undecoded, .. } = self;
        if decoders.is_empty() && undecoded.is_empty() {
            met(setup, TraceId::NULL, decoders, undecoded);
        }
    }

    /// All bytes belong to one source: nothing has to be gathered.
    fn raw_block<F: ItemSink<K::Value>>(&mut self, block: &[u8], sink: &mut F) -> ControlFlow<()> {
        self.meet_raw_source();
        let Self { splitter, decoders, .. } = self;
        let (index, breaks) = splitter.feed_raw(block);
        match decoders.get_mut(&TraceId::NULL) {
            Some(decoder) => {
                let part =
                    Part { bytes: block, runs: &[Run { index, at: 0 }], arrivals: &[], breaks: &breaks };
                decoder.take_to(part, sink)
            }
            None => ControlFlow::Continue(()),
        }
    }

    /// The buffer ends. What is pushed in after that is another one, with the same sources; what decoders have learnt of
    /// the code stays known.
    pub fn finish<R, F>(&mut self, sink: &mut F) -> ControlFlow<()>
    where
        R: Outcome,
        F: FnMut(Item<'_, K::Value>) -> R,
    {
        self.finish_with(&mut |end| match end {
            End::Item(item) => sink(item).control(),
            End::Source(_) => ControlFlow::Continue(()),
        })
    }

    /// The buffer ends; the sink is also told where each source does.
    pub(super) fn finish_with<F>(&mut self, sink: &mut F) -> ControlFlow<()>
    where
        F: FnMut(End<'_, K::Value>) -> ControlFlow<()>,
    {
        self.splitter.restart();
        self.decoders.values_mut().try_for_each(|decoder| {
            decoder.finish(&mut |item, _| sink(End::Item(item)))?;
            sink(End::Source(&decoder.source))
        })
    }

    /// Bytes are missing here: what follows does not continue what came before, but for the sources and their
    /// configuration.
    pub fn reset<R, F>(&mut self, sink: &mut F) -> ControlFlow<()>
    where
        R: Outcome,
        F: FnMut(Item<'_, K::Value>) -> R,
    {
        self.splitter.restart();
        self.decoders.values_mut().try_for_each(|decoder| decoder.reset(&mut |item, _| sink(item)))
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

    /// Takes more bytes of the buffer. Each source has a state of its own, which `make` makes and which takes its items: see
    /// [`Decode::accumulate`](super::Decode::accumulate). Sources are decoded on up to so many threads.
    pub fn accumulate<T: Accumulate<K::Value> + Send>(
        &mut self,
        bytes: &[u8],
        threads: usize,
        states: &mut States<T>,
        make: &impl Fn(&Source) -> T,
    ) {
        if self.setup.buffer.is_raw() {
            self.meet_raw_source();
            // The one state is looked up once for all items.
            let source = self.decoders.get(&TraceId::NULL).map(|decoder| &decoder.source);
            let Some(source) = source else {
                self.splitter.feed_raw(bytes);
                return;
            };
            let known = states.0.remove(&TraceId::NULL);
            let (source, mut state) = known.unwrap_or_else(|| (source.clone(), make(source)));
            let _ = self.raw_block(bytes, &mut StateSink(&mut state));
            states.0.insert(TraceId::NULL, (source, state));
            return;
        }
        let Self { setup, splitter, decoders, undecoded, .. } = self;
        splitter.feed(bytes, &mut |id| met(setup, id, decoders, undecoded));
        for (id, decoder) in decoders.iter() {
            states.0.entry(*id).or_insert_with(|| (decoder.source.clone(), make(&decoder.source)));
        }
        let mut pieces: BTreeMap<_, _> = splitter.gathered().collect();
        let both = decoders.iter_mut().zip(states.0.values_mut());
        let mut work: Vec<_> = both
            .filter_map(|((id, decoder), (_, state))| Some((decoder, pieces.remove(id)?, state)))
            .collect();
        let decode =
            |(decoder, piece, state): &mut (&mut SourceDecoder<K::Stream<'c>>, &mut Piece, &mut T)| {
                let _ = decoder.take_to(piece.part(), &mut StateSink(&mut **state));
                piece.clear();
            };
        if threads < 2 || work.len() < 2 {
            return work.iter_mut().for_each(decode);
        }
        let share = work.len().div_ceil(threads);
        std::thread::scope(|scope| {
            for some in work.chunks_mut(share) {
                scope.spawn(|| some.iter_mut().for_each(&decode));
            }
        });
    }

    /// The buffer ends, for sources with states of their own.
    pub fn finish_accumulated<T: Accumulate<K::Value>>(&mut self, states: &mut States<T>) {
        self.splitter.restart();
        for (id, decoder) in &mut self.decoders {
            let Some((_, state)) = states.0.get_mut(id) else { continue };
            let _ = decoder.finish_to(&mut StateSink(state));
        }
    }
}

/// A state as what takes the items of its source.
struct StateSink<'s, T>(&'s mut T);

impl<V, T: Accumulate<V>> ItemSink<V> for StateSink<'_, T> {
    type Says = ();

    const TAKES_PATHS: bool = T::TAKES_PATHS;

    #[inline(always)]
    fn take(&mut self, item: Item<'_, V>, _known: Known) {
        self.0.item(item);
    }

    fn enter(&mut self, window: Window) {
        self.0.enter(window);
    }

    #[inline(always)]
    fn take_path<'a>(
        &mut self,
        path: PathId,
        executor: Executor<'a>,
        items: impl Iterator<Item = Item<'a, V>>,
    ) -> ControlFlow<()>
    where
        V: 'a,
    {
        self.0.path(path, executor.sub_source, items);
        ControlFlow::Continue(())
    }
}

/// Something for each source of a buffer.
#[derive(Debug)]
pub struct States<T>(pub(super) BTreeMap<TraceId, (Source, T)>);

impl<T> Default for States<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> States<T> {
    /// All of them, by ID.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut (Source, T)> {
        self.0.values_mut()
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

/// Decodes a part; what comes out waits for that of other sources.
fn wait<K: Kind>(
    decoder: &mut SourceDecoder<K::Stream<'_>>,
    part: Part<'_>,
    waiting: &mut Waiting<K::Value>,
) -> ControlFlow<()> {
    waiting.begin(&decoder.source);
    decoder.take(part, &mut |item, known| waiting.push(&item, known, K::is_late(&item.value)))
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
