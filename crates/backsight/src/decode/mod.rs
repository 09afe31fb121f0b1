//! From the bytes of a capture to what they say.
//!
//! A buffer is taken apart into the streams of its sources (`split`); each stream goes through the decoder of its
//! protocol (`source_decoder`); what comes out is given to a sink, in an order that does not depend on how many
//! threads did the work.

mod by_thread;
mod caches;
mod consumer;
mod execute;
mod item;
mod items;
mod kind;
mod lane;
mod measure;
mod merge;
mod outline;
mod parallel;
mod pieces;
mod positions;
mod session;
mod source_decoder;
mod span;
mod split;
mod summary;
mod timed;
mod timeline;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backsight_core::TraceId;

use crate::capture::{Buffer, Capture};
pub use crate::protocol::SavedState;
use crate::{Error, Result};
pub use by_thread::{ThreadId, ThreadItem, Turn, Turns};
pub use consumer::Consumer;
use consumer::{AnyConsumer, Each};
pub use execute::Written;
pub use item::{Cut, Item, Outcome, Seek};
pub use items::{Items, OwnedItem};
pub use kind::{Branches, ByKind, Counting, Counts, Execution, Kind, Number, Packets};
pub use measure::{Blocks, demultiplex};
pub use outline::Outline;
pub(crate) use parallel::map;
pub use positions::Stretch;
pub use session::Session;
use session::{Order, Setup};
use source_decoder::Wanted;
pub use span::Span;
pub use summary::{BufferSummary, SourceSummary, Summary, Undecoded};
pub use timeline::TimeBounds;

/// Bytes of a buffer that are worth starting threads for.
const SMALLEST_FOR_THREADS: u64 = 1 << 12;

/// Bytes of a source that are decoded at a time where several threads share it.
const PIECE: usize = 1 << 17;

/// A decode of a capture: what to decode, and how. Nothing happens until [`Decode::run`] or one of the others that end
/// with a result is called.
///
/// ```
/// let capture = backsight::Capture::open("captures/first")?;
/// let mut instructions = 0;
/// let summary = capture.execution().id(0x10).run(|item| {
///     if let backsight::Event::Range(range) = item.value {
///         instructions += range.instructions;
///     }
/// })?;
/// assert_eq!(instructions, 1681);
/// println!("{summary}");
/// # Ok::<(), backsight::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Decode<'c, K> {
    capture: &'c Capture,
    kind: K,
    settings: Settings,
    progress: Option<Arc<dyn Fn(u64) + Send + Sync + 'c>>,
}

/// What is decoded, and how.
#[derive(Clone, Debug)]
struct Settings {
    /// Names of buffers that are wanted; none: all.
    buffers: BTreeSet<String>,
    /// IDs that are wanted; none: all.
    ids: BTreeSet<u64>,
    threads: usize,
    positions: bool,
    any_order: bool,
    /// Bytes of a source that a thread decodes at a time, where somebody has said how many.
    piece: Option<usize>,
    stop: Option<Arc<AtomicBool>>,
    /// The only span that is wanted.
    span: Option<Span>,
}

impl Default for Settings {
    fn default() -> Self {
        let (buffers, ids, stop, span) = Default::default();
        Self { buffers, ids, threads: 1, positions: true, any_order: false, piece: None, stop, span }
    }
}

impl<K: fmt::Debug> fmt::Debug for Decode<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capture, kind, settings, progress: _ } = self;
        f.debug_struct("Decode")
            .field("capture", &capture.name())
            .field("kind", kind)
            .field("settings", settings)
            .finish_non_exhaustive()
    }
}

impl<'c> Decode<'c, Execution> {
    /// Stops following at strong evidence that the code is not what ran, until the trace names an address again.
    pub fn strict_image(mut self, strict: bool) -> Self {
        self.kind.following.strict_image = strict;
        self
    }

    /// Do as the listing that users of OpenCSD know does, where the protocol says otherwise.
    pub fn as_opencsd(mut self, as_opencsd: bool) -> Self {
        self.kind.following.as_opencsd = as_opencsd;
        self
    }
}

impl<'c> Decode<'c, Packets> {
    /// Counts the packets. They are not looked at one by one, which is the fastest way to read them.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn count(self) -> Result<Summary> {
        Ok(self.counter().consume(|_| ())?.0)
    }

    /// The same, for the bytes of a [`Session`].
    pub fn counter(self) -> Decode<'c, Counts<Number>> {
        self.of_kind(Counts::default()).positions(false)
    }

    /// Counts the packets and their bytes by kind: [`Summary::kinds`].
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn tally(self) -> Result<Summary> {
        let decode = self.of_kind(Counts::<ByKind>::default()).positions(false);
        Ok(decode.consume(|_| ())?.0)
    }
}

impl<'c, K: Kind> Decode<'c, K> {
    pub(crate) fn new(capture: &'c Capture, kind: K) -> Self {
        Self { capture, kind, settings: Settings::default(), progress: None }
    }

    fn of_kind<L>(self, kind: L) -> Decode<'c, L> {
        let Self { capture, kind: _, settings, progress } = self;
        Decode { capture, kind, settings, progress }
    }

    /// Only this buffer. May be said again and again; if it is never said, all are decoded.
    pub fn buffer(mut self, name: &str) -> Self {
        self.settings.buffers.insert(name.to_owned());
        self
    }

    /// Only this buffer, whatever was said before.
    pub fn only(mut self, name: &str) -> Self {
        self.settings.buffers = BTreeSet::from([name.to_owned()]);
        self
    }

    /// Only the source with this trace ID. May be said again and again; if it is never said, all are decoded.
    pub fn id(mut self, id: u64) -> Self {
        self.settings.ids.insert(id);
        self
    }

    /// Decodes several sources on up to so many threads, or parts of a single one where what consumers make of them can be joined
    /// ([`Decode::consume`], [`Decode::write`]); 0 is as many as the machine has cores. What comes out, and in which order, is the
    /// same. The default is 1.
    pub fn threads(mut self, threads: usize) -> Self {
        self.settings.threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        self
    }

    /// Up to how many threads that are.
    pub fn thread_count(&self) -> usize {
        self.settings.threads
    }

    /// Bytes of a source that a thread decodes at a time where several share one. What they give is kept until it is its
    /// turn: larger pieces need more memory.
    pub fn piece_size(mut self, bytes: usize) -> Self {
        self.settings.piece = Some(bytes);
        self
    }

    /// The same where nobody has said how many.
    pub fn default_piece_size(mut self, bytes: usize) -> Self {
        self.settings.piece.get_or_insert(bytes);
        self
    }

    /// Will anybody ask where items were ([`Item::position`]), or for their bytes? If not, keeping track is saved.
    pub fn positions(mut self, wanted: bool) -> Self {
        self.settings.positions = wanted;
        self
    }

    /// Nobody asks how the items of different sources follow one another: those of each source stay in order.
    ///
    /// Without it, packets come in the order of their last bytes in the buffer. Execution comes block by block of the
    /// buffer, in each block by trace ID.
    pub fn any_order(mut self) -> Self {
        self.settings.any_order = true;
        self
    }

    /// Reads no more once this flag is set, by another thread or by a signal: what was read until then is decoded.
    pub fn stop_on(mut self, flag: Arc<AtomicBool>) -> Self {
        self.settings.stop = Some(flag);
        self
    }

    /// Only this span of a source. Buffers and sources that were chosen before do not matter.
    pub fn span(mut self, span: &Span) -> Self {
        self.settings.buffers = BTreeSet::from([span.buffer.clone()]);
        self.settings.ids = BTreeSet::from([span.id.get().into()]);
        self.settings.any_order = true;
        self.settings.span = Some(span.clone());
        self
    }

    /// Calls `progress` with the number of bytes that were read, again and again.
    pub fn progress(mut self, progress: impl Fn(u64) + Send + Sync + 'c) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Decodes, and gives everything to a closure, on the calling thread. It may say that it wants no more, by
    /// [`ControlFlow::Break`].
    ///
    /// # Errors
    /// If what was asked for is not in the capture, or bytes or code cannot be read.
    pub fn run<R: Outcome>(self, each: impl FnMut(Item<'_, K::Value>) -> R) -> Result<Summary> {
        self.run_to(&mut Each::new(each))
    }

    /// The same with one consumer for all.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn run_to(self, consumer: &mut impl Consumer<K::Value>) -> Result<Summary> {
        K::run(&self, consumer)
    }

    fn run_any(&self, consumer: &mut dyn AnyConsumer<K::Value>) -> Result<Summary> {
        let mut summary = self.empty_summary();
        for setup in self.setups()? {
            let (of_buffer, outcome) = self.here(setup, consumer)?;
            summary.buffers.push(of_buffer);
            if outcome.is_break() {
                summary.stopped = true;
                break;
            }
        }
        Ok(summary)
    }

    /// Decodes a buffer, or a span of it, on this thread.
    fn here(
        &self,
        setup: Setup<'c, K>,
        consumer: &mut dyn AnyConsumer<K::Value>,
    ) -> Result<(BufferSummary, ControlFlow<()>)> {
        if let Some(span) = &self.settings.span {
            return self.run_span(&setup, span, consumer);
        }
        let (buffer, fill) = (setup.buffer, setup.order == Order::Blocks);
        let mut session = Session::new(setup);
        let mut outcome = ControlFlow::Continue(());
        self.blocks(buffer, fill, &mut |block| {
            outcome = session.feed_to(block, consumer);
            consumer.pause();
            outcome
        })?;
        if outcome.is_continue() {
            outcome = session.finish_to(consumer);
            consumer.pause();
        }
        Ok((session.buffer_summary(), outcome))
    }

    fn piece(&self) -> usize {
        self.settings.piece.unwrap_or(PIECE)
    }

    /// Reads the blocks of a buffer.
    fn reader(&self, setup: &Setup<'c, K>) -> impl FnMut(parallel::BlockSink<'_>) -> Result {
        let buffer = setup.buffer;
        move |each| self.blocks(buffer, true, each)
    }

    /// Decodes on a thread of its own, a few thousand items ahead of the caller. Progress is not reported.
    ///
    /// ```
    /// let capture = backsight::Capture::open("captures/first")?;
    /// let mut items = capture.packets().iter();
    /// for item in items.by_ref().take(3) {
    ///     let item = item?;
    ///     println!("{} {:?}", item.source.name(), item.value);
    /// }
    /// assert_eq!(3 + items.by_ref().count(), 236);
    /// println!("{}", items.summary().expect("all items were taken"));
    /// # Ok::<(), backsight::Error>(())
    /// ```
    pub fn iter(self) -> Items<K::Value> {
        let Self { capture, kind, settings, progress: _ } = self;
        let capture = capture.clone();
        Items::new(move |sink| {
            Decode { capture: &capture, kind, settings, progress: None }.run(|item| sink.push(&item))
        })
    }

    /// A session for the one buffer that is wanted: bytes are pushed into it.
    ///
    /// # Errors
    /// If there is no such buffer or there are several, or the code cannot be read.
    pub fn session(self) -> Result<Session<'c, K>> {
        let mut setups = self.setups()?;
        match (setups.pop(), setups.pop()) {
            (Some(setup), None) => Ok(Session::new(setup)),
            (None, _) => Err(Error::misuse("there is no buffer to decode")),
            (Some(_), Some(_)) => Err(Error::misuse("a session is for one buffer: say which")),
        }
    }

    /// Is a single source of each buffer decoded in pieces, on several threads?
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn is_in_pieces(&self) -> Result<bool> {
        let threads = self.settings.threads;
        Ok(self.setups()?.iter().all(|setup| matches!(self.spread(setup, threads), Spread::Pieces(_))))
    }

    /// How many of the sources have data. Frames are read for that where several sources are described; where they cannot be
    /// read twice, this is how many there may be.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn sources_with_data(&self) -> Result<usize> {
        self.check_buffers()?;
        self.check_ids()?;
        let wants = |id: TraceId| self.wants(id);
        let buffers = self.wanted_buffers();
        Ok(buffers.map(|buffer| pieces::sources_with_data(buffer, &wants, self.settings.threads)).sum())
    }

    fn empty_summary(&self) -> Summary {
        Summary { buffers: Vec::new(), stopped: false, about: K::ABOUT.0 }
    }

    /// How do several threads help? To start them for a tiny buffer takes longer than to decode it, and a capture may have
    /// tens of thousands of those.
    fn spread(&self, setup: &Setup<'_, K>, threads: usize) -> Spread {
        let is_smaller = |bytes: u64| setup.buffer.size().is_some_and(|size| size < bytes);
        if threads < 2 || self.settings.span.is_some() || is_smaller(SMALLEST_FOR_THREADS) {
            return Spread::None;
        }
        let is_one_piece = is_smaller(2 * self.piece() as u64);
        match (!is_one_piece).then(|| pieces::only_source(setup, threads)).flatten() {
            Some(id) => Spread::Pieces(id),
            None if setup.buffer.is_raw() || setup.order == Order::Capture => Spread::None,
            None => Spread::Sources,
        }
    }

    /// What is to be decoded: a session for each buffer. Whatever does not fit the capture is refused here.
    fn setups(&self) -> Result<Vec<Setup<'c, K>>> {
        self.check_buffers()?;
        self.check_ids()?;
        let code = if K::NEEDS_CODE { Some(self.capture.code()?) } else { None };
        let (mut setups, caches) = (Vec::new(), Arc::default());
        for buffer in self.wanted_buffers().filter(|buffer| self.holds_wanted_id(buffer)) {
            for source in buffer.sources().chain(&buffer.fallback).filter(|source| self.wants(source.id())) {
                self.kind.stream(source, code)?;
            }
            let order = match (self.settings.any_order, K::IN_ORDER) {
                (true, _) => Order::Any,
                (false, true) => Order::Capture,
                (false, false) => Order::Blocks,
            };
            setups.push(Setup {
                kind: self.kind.clone(),
                buffer,
                code,
                caches: Arc::clone(&caches),
                ids: self.settings.ids.iter().map(|&id| buffer.first_id(TraceId::new(id as u8))).collect(),
                wanted: Wanted {
                    positions: self.settings.positions,
                    bytes: self.settings.positions && K::HAS_BYTES,
                    arrivals: order == Order::Capture && !buffer.is_raw(),
                },
                order,
            });
        }
        match &self.settings.span {
            Some(Span { buffer, id, .. }) if setups.is_empty() => {
                Err(Error::misuse(format!("buffer {buffer}: it has no source {id}")))
            }
            _ => Ok(setups),
        }
    }

    fn wanted_buffers(&self) -> impl Iterator<Item = &'c Buffer> {
        let wants = |buffer: &&Buffer| {
            self.settings.buffers.is_empty() || self.settings.buffers.contains(buffer.name())
        };
        self.capture.buffers().iter().filter(wants)
    }

    fn wants(&self, id: TraceId) -> bool {
        self.settings.ids.is_empty() || self.settings.ids.contains(&u64::from(id.get()))
    }

    /// A buffer without frames holds one source, by the ID that is known of it.
    fn holds_wanted_id(&self, buffer: &Buffer) -> bool {
        !buffer.is_raw() || buffer.sources().any(|source| self.wants(source.id()))
    }

    fn check_buffers(&self) -> Result {
        match self.settings.buffers.iter().find(|name| self.capture.buffer(name).is_none()) {
            Some(name) => {
                let known: Vec<_> = self.capture.buffers().iter().map(Buffer::name).collect();
                Err(Error::misuse(format!("buffer {name}: the capture has {}", known.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// Refuses IDs that none of the wanted buffers is said to hold. What the frames of a bare file hold, nobody says.
    fn check_ids(&self) -> Result {
        if let Some(id) = self.settings.ids.iter().find(|&&id| id > 0x7F) {
            return Err(Error::misuse(format!("ID {id:#x}: trace IDs are 0 to 0x7f")));
        }
        if self.wanted_buffers().any(|buffer| buffer.fallback.is_some()) {
            return Ok(());
        }
        let known: BTreeSet<TraceId> = self.wanted_buffers().flat_map(Buffer::ids).collect();
        let is_known = |id: u64| known.iter().any(|known| u64::from(known.get()) == id);
        match self.settings.ids.iter().find(|&&id| !is_known(id)) {
            Some(id) => {
                let names: Vec<_> = known.iter().map(TraceId::to_string).collect();
                Err(Error::misuse(format!("ID {id:#x}: the sources have {}", names.join(", "))))
            }
            None => Ok(()),
        }
    }

    fn is_stopped(&self) -> bool {
        self.settings.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Reads a buffer, block by block. Where the order of sources depends on blocks, each is filled, however few bytes
    /// come at a time.
    fn blocks(&self, buffer: &Buffer, fill: bool, each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result {
        self.blocks_from(buffer, 0, fill, each)
    }

    /// The same from this position of the buffer on.
    fn blocks_from(
        &self,
        buffer: &Buffer,
        position: u64,
        fill: bool,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result {
        buffer.read_blocks(position, fill, &mut |block| {
            if self.is_stopped() {
                return ControlFlow::Break(());
            }
            each(block)?;
            if let Some(progress) = &self.progress {
                progress(block.len() as u64);
            }
            ControlFlow::Continue(())
        })
    }
}

/// What several threads share.
enum Spread {
    /// Nothing: there is one.
    None,
    /// Sources.
    Sources,
    /// Pieces of the only source.
    Pieces(TraceId),
}

impl Capture {
    /// Its packets.
    pub fn packets(&self) -> Decode<'_, Packets> {
        Decode::new(self, Packets::default())
    }

    /// What was executed.
    pub fn execution(&self) -> Decode<'_, Execution> {
        Decode::new(self, Execution::default())
    }

    /// The branches that were taken, as far as the packets alone name them: no code is needed.
    pub fn branches(&self) -> Decode<'_, Branches> {
        Decode::new(self, Branches::default())
    }
}
