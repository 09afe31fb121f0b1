//! From the bytes of a capture to what they say.
//!
//! A buffer is taken apart into the streams of its sources ([`split`]); each stream goes through the decoder of its
//! protocol ([`source_decoder`]); what comes out is given to a sink, in an order that does not depend on how many
//! threads did the work.

mod item;
mod items;
mod kind;
mod merge;
mod outline;
mod pages;
mod parallel;
mod positions;
mod session;
mod source_decoder;
mod split;
mod summary;
mod timed;
mod timeline;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

use backsight_core::TraceId;

use crate::capture::{Buffer, Capture};
use crate::{Error, Result, Source};
use item::Closure;
pub use item::{Item, Outcome, Sink};
pub use items::{Items, OwnedItem};
pub use kind::{Branches, ByKind, Counting, Counts, Execution, Kind, Number, Packets};
pub use outline::Outline;
use pages::Pages;
pub use parallel::Writer;
use parallel::{Collected, Kept, Text};
use session::{BLOCK, End, Order, Setup};
pub use session::{Session, States};
use source_decoder::Wanted;
pub use summary::{BufferSummary, SourceSummary, Summary, Undecoded};
pub use timeline::TimeBounds;

/// Bytes of a buffer that are worth starting threads for.
const SMALLEST_FOR_THREADS: u64 = 1 << 12;

/// A decode of a capture: what to decode, and how. Nothing happens until [`Decode::run`] or one of the others that end
/// with a result is called.
///
/// ```
/// let capture = backsight::Capture::open("../../testdata/captures/first")?;
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
#[must_use]
pub struct Decode<'c, K> {
    capture: &'c Capture,
    kind: K,
    buffers: BTreeSet<String>,
    ids: BTreeSet<u64>,
    threads: usize,
    positions: bool,
    any_order: bool,
    progress: Option<Arc<dyn Fn(u64) + Send + Sync + 'c>>,
}

impl<K: fmt::Debug> fmt::Debug for Decode<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capture, kind, buffers, ids, threads, positions, any_order, progress: _ } = self;
        f.debug_struct("Decode")
            .field("capture", &capture.name())
            .field("kind", kind)
            .field("buffers", buffers)
            .field("ids", ids)
            .field("threads", threads)
            .field("positions", positions)
            .field("any_order", any_order)
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
        Ok(self.counter().fold(|_| (), |(), _| {})?.0)
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
        Ok(self.of_kind(Counts::<ByKind>::default()).positions(false).fold(|_| (), |(), _| {})?.0)
    }
}

impl<'c, K: Kind> Decode<'c, K> {
    pub(crate) fn new(capture: &'c Capture, kind: K) -> Self {
        Self {
            capture,
            kind,
            buffers: BTreeSet::new(),
            ids: BTreeSet::new(),
            threads: 1,
            positions: true,
            any_order: false,
            progress: None,
        }
    }

    fn of_kind<L>(self, kind: L) -> Decode<'c, L> {
        let Self { capture, kind: _, buffers, ids, threads, positions, any_order, progress } = self;
        Decode { capture, kind, buffers, ids, threads, positions, any_order, progress }
    }

    /// Only this buffer. May be said again and again; if it is never said, all are decoded.
    pub fn buffer(mut self, name: &str) -> Self {
        self.buffers.insert(name.to_owned());
        self
    }

    /// Only this buffer, whatever was said before.
    pub fn only(mut self, name: &str) -> Self {
        self.buffers = BTreeSet::from([name.to_owned()]);
        self
    }

    /// Only the source with this trace ID. May be said again and again; if it is never said, all are decoded.
    pub fn id(mut self, id: u64) -> Self {
        self.ids.insert(id);
        self
    }

    /// Decodes several sources on up to so many threads; 0 is as many as the machine has cores. What comes out, and in
    /// which order, is the same. The default is 1.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        self
    }

    /// Will anybody ask where items were ([`Item::position`]), or for their bytes? If not, keeping track is saved.
    pub fn positions(mut self, wanted: bool) -> Self {
        self.positions = wanted;
        self
    }

    /// Nobody asks how the items of different sources follow one another: those of each source stay in order.
    ///
    /// Without it, packets come in the order of their last bytes in the buffer. Execution comes block by block of the
    /// buffer, in each block by trace ID.
    pub fn any_order(mut self) -> Self {
        self.any_order = true;
        self
    }

    /// Calls `progress` with the number of bytes that were read, again and again.
    pub fn progress(mut self, progress: impl Fn(u64) + Send + Sync + 'c) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Decodes, and gives everything to `sink`, on the calling thread. The sink may say that it wants no more, by
    /// [`ControlFlow::Break`]. Each item is a call of the sink: [`Decode::fold`] compiles it into the decoders, which is
    /// faster, and takes longer to build.
    ///
    /// # Errors
    /// If what was asked for is not in the capture, or bytes or code cannot be read.
    pub fn run<R: Outcome>(self, sink: impl FnMut(Item<'_, K::Value>) -> R) -> Result<Summary> {
        self.run_sink(&mut Closure(sink))
    }

    /// The same with a [`Sink`], which also learns where buffers begin.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn run_sink(self, sink: &mut dyn Sink<K::Value>) -> Result<Summary> {
        let mut summary = self.empty_summary();
        for setup in self.setups()? {
            if sink.buffer(setup.buffer).is_break() {
                summary.stopped = true;
                break;
            }
            let (of_buffer, outcome) = match self.is_parallel(&setup) {
                true => self.run_threads(&setup, sink)?,
                false => self.run_here(setup, sink)?,
            };
            summary.buffers.push(of_buffer);
            if outcome.is_break() {
                summary.stopped = true;
                break;
            }
        }
        Ok(summary)
    }

    fn run_here(
        &self,
        setup: Setup<'c, K>,
        sink: &mut dyn Sink<K::Value>,
    ) -> Result<(BufferSummary, ControlFlow<()>)> {
        let (buffer, fill) = (setup.buffer, setup.order == Order::Blocks);
        let mut session = Session::new(setup);
        let mut outcome = ControlFlow::Continue(());
        self.blocks(buffer, fill, &mut |block| {
            outcome = session.feed(block, &mut |item: Item<'_, K::Value>| sink.item(item));
            outcome
        })?;
        if outcome.is_continue() {
            outcome = session.finish(&mut |item: Item<'_, K::Value>| sink.item(item));
        }
        Ok((session.buffer_summary(), outcome))
    }

    fn run_threads(
        &self,
        setup: &Setup<'c, K>,
        sink: &mut dyn Sink<K::Value>,
    ) -> Result<(BufferSummary, ControlFlow<()>)> {
        let mut make =
            |source: &Source| Ok::<_, Error>(Collected { source: source.clone(), items: Vec::new() });
        let mut output = |(source, items): (Source, Vec<Kept<K::Value>>)| {
            items.iter().try_for_each(|kept| sink.item(kept.item(&source)))
        };
        let mut read = |each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>| self.blocks(setup.buffer, true, each);
        parallel::run(setup, self.threads, &mut read, &mut make, &mut output)
    }

    /// Decodes, and lets a writer of each source put what it gives into text (or other bytes), on the thread of that
    /// source. The text comes to `output` in order, portion by portion.
    ///
    /// # Errors
    /// As [`Decode::run`]; and what `make` and `output` say.
    pub fn write<W, E>(
        self,
        mut make: impl FnMut(&Source) -> std::result::Result<W, E>,
        mut output: impl FnMut(Portion<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<Summary, E>
    where
        W: Writer<K::Value>,
        E: From<Error>,
    {
        let mut summary = self.empty_summary();
        for setup in self.setups()? {
            output(Portion::Buffer(setup.buffer))?;
            let mut text = |text: &[u8]| output(Portion::Text(text));
            let of_buffer = match self.is_parallel(&setup) {
                true => self.write_threads(&setup, &mut make, &mut text)?,
                false => self.write_here(setup, &mut make, &mut text)?,
            };
            summary.buffers.push(of_buffer);
        }
        Ok(summary)
    }

    fn write_here<W: Writer<K::Value>, E: From<Error>>(
        &self,
        setup: Setup<'c, K>,
        make: &mut impl FnMut(&Source) -> std::result::Result<W, E>,
        output: &mut impl FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<BufferSummary, E> {
        let (buffer, fill) = (setup.buffer, setup.order == Order::Blocks);
        let mut session = Session::new(setup);
        let mut pages = Pages::new(make, output);
        self.blocks(buffer, fill, &mut |block| {
            session.feed(block, &mut |item: Item<'_, K::Value>| pages.item(&item))?;
            pages.flush()
        })?;
        if pages.failure.is_none() {
            let _ = session.finish_with(&mut |end| match end {
                End::Item(item) => pages.item(&item),
                End::Source(source) => pages.end(source),
            });
            let _ = pages.flush();
        }
        match pages.failure {
            Some(failure) => Err(failure),
            None => Ok(session.buffer_summary()),
        }
    }

    fn write_threads<W: Writer<K::Value>, E: From<Error>>(
        &self,
        setup: &Setup<'c, K>,
        make: &mut impl FnMut(&Source) -> std::result::Result<W, E>,
        output: &mut impl FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<BufferSummary, E> {
        let mut failure = None;
        let mut make = |source: &Source| make(source).map(|writer| Text { writer, text: Vec::new() });
        let mut each = |text: Vec<u8>| match output(&text) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        };
        let mut read = |each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>| self.blocks(setup.buffer, true, each);
        let (summary, _) = parallel::run(setup, self.threads, &mut read, &mut make, &mut each)?;
        match failure {
            Some(failure) => Err(failure),
            None => Ok(summary),
        }
    }

    /// Decodes, each source with a state of its own, which `make` makes and `each` gives items to, on the thread of the
    /// source. Gives the states. Nothing is handed from thread to thread: this is the way to use many cores.
    ///
    /// ```
    /// let capture = backsight::Capture::open("../../testdata/captures/first")?;
    /// let (_, ranges) = capture.execution().threads(0).fold(
    ///     |_source| 0,
    ///     |count, item| *count += u32::from(matches!(item.value, backsight::Event::Range(_))),
    /// )?;
    /// for (source, count) in ranges {
    ///     println!("{}: {count} ranges", source.name());
    /// }
    /// # Ok::<(), backsight::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn fold<T: Send>(
        self,
        make: impl Fn(&Source) -> T + Sync,
        each: impl Fn(&mut T, Item<'_, K::Value>) + Sync,
    ) -> Result<(Summary, Vec<(Source, T)>)> {
        let mut summary = self.empty_summary();
        let mut states = Vec::new();
        let buffers = parallel::map(self.setups()?, self.threads, |setup, threads| {
            let buffer = setup.buffer;
            let (mut session, mut states) = (Session::new(setup), States::default());
            self.blocks(buffer, true, &mut |block| {
                session.feed_each(block, threads, &mut states, &make, &each);
                ControlFlow::Continue(())
            })?;
            session.finish_each(&mut states, &each);
            Ok::<_, Error>((session.buffer_summary(), states))
        });
        for result in buffers {
            let (of_buffer, of_sources) = result?;
            summary.buffers.push(of_buffer);
            states.extend(of_sources.0.into_values());
        }
        Ok((summary, states))
    }

    /// Decodes on a thread of its own, a few thousand items ahead of whoever asks for them. Progress is not reported.
    ///
    /// ```
    /// let capture = backsight::Capture::open("../../testdata/captures/first")?;
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
        let Self { capture, kind, buffers, ids, threads, positions, any_order, progress: _ } = self;
        let capture = capture.clone();
        Items::new(move |sink| {
            let capture = &capture;
            let decode =
                Decode { capture, kind, buffers, ids, threads, positions, any_order, progress: None };
            decode.run(|item| sink.push(&item))
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

    fn empty_summary(&self) -> Summary {
        Summary { buffers: Vec::new(), stopped: false, about: K::ABOUT.0 }
    }

    /// Do several threads help? To start them for a tiny buffer takes longer than to decode it, and a capture may have
    /// tens of thousands of those.
    fn is_parallel(&self, setup: &Setup<'_, K>) -> bool {
        let is_tiny = setup.buffer.size().is_some_and(|size| size < SMALLEST_FOR_THREADS);
        self.threads > 1 && !is_tiny && !setup.buffer.is_raw() && setup.order != Order::Capture
    }

    /// What is to be decoded: a session for each buffer. Whatever does not fit the capture is refused here.
    fn setups(&self) -> Result<Vec<Setup<'c, K>>> {
        self.check_buffers()?;
        self.check_ids()?;
        let code = if K::NEEDS_CODE { Some(self.capture.code()?) } else { None };
        let mut setups = Vec::new();
        for buffer in self.wanted_buffers().filter(|buffer| self.holds_wanted_id(buffer)) {
            for source in buffer.sources().chain(&buffer.fallback).filter(|source| self.wants(source.id())) {
                self.kind.stream(source, code)?;
            }
            let order = match (self.any_order, K::IN_ORDER) {
                (true, _) => Order::Any,
                (false, true) => Order::Capture,
                (false, false) => Order::Blocks,
            };
            setups.push(Setup {
                kind: self.kind.clone(),
                buffer,
                code,
                ids: self.ids.iter().map(|&id| TraceId::new(id as u8)).collect(),
                wanted: Wanted {
                    positions: self.positions,
                    bytes: self.positions && K::HAS_BYTES,
                    arrivals: order == Order::Capture && !buffer.is_raw(),
                },
                order,
            });
        }
        Ok(setups)
    }

    fn wanted_buffers(&self) -> impl Iterator<Item = &'c Buffer> {
        let wants = |buffer: &&Buffer| self.buffers.is_empty() || self.buffers.contains(buffer.name());
        self.capture.buffers().iter().filter(wants)
    }

    fn wants(&self, id: TraceId) -> bool {
        self.ids.is_empty() || self.ids.contains(&u64::from(id.get()))
    }

    /// A buffer without frames holds one source, by the ID that is known of it.
    fn holds_wanted_id(&self, buffer: &Buffer) -> bool {
        !buffer.is_raw() || buffer.sources().any(|source| self.wants(source.id()))
    }

    fn check_buffers(&self) -> Result {
        match self.buffers.iter().find(|name| self.capture.buffer(name).is_none()) {
            Some(name) => {
                let known: Vec<_> = self.capture.buffers().iter().map(Buffer::name).collect();
                Err(Error::misuse(format!("buffer {name}: the capture has {}", known.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// Refuses IDs that none of the wanted buffers is said to hold. What the frames of a bare file hold, nobody says.
    fn check_ids(&self) -> Result {
        if let Some(id) = self.ids.iter().find(|&&id| id > 0x7F) {
            return Err(Error::misuse(format!("ID {id:#x}: trace IDs are 0 to 0x7f")));
        }
        if self.wanted_buffers().any(|buffer| buffer.fallback.is_some()) {
            return Ok(());
        }
        let known: BTreeSet<TraceId> = self.wanted_buffers().flat_map(Buffer::ids).collect();
        let is_known = |id: u64| known.iter().any(|known| u64::from(known.get()) == id);
        match self.ids.iter().find(|&&id| !is_known(id)) {
            Some(id) => {
                let names: Vec<_> = known.iter().map(TraceId::to_string).collect();
                Err(Error::misuse(format!("ID {id:#x}: the sources have {}", names.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// Reads a buffer, block by block. Where the order of sources depends on blocks, each is filled, however few bytes
    /// come at a time.
    fn blocks(&self, buffer: &Buffer, fill: bool, each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result {
        let mut reader = buffer.open()?;
        let mut block = vec![0; BLOCK];
        let fill = fill && !buffer.is_raw();
        loop {
            let count = read_block(&mut reader, &mut block, fill)
                .map_err(|error| backsight_capture::Error::io(buffer.name(), &error))?;
            if count == 0 || each(&block[..count]).is_break() {
                return Ok(());
            }
            if let Some(progress) = &self.progress {
                progress(count as u64);
            }
        }
    }
}

fn read_block(reader: &mut impl Read, block: &mut [u8], fill: bool) -> io::Result<usize> {
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

/// What [`Decode::write`] gives.
#[derive(Clone, Copy, Debug)]
pub enum Portion<'a> {
    /// A buffer begins.
    Buffer(&'a Buffer),
    /// More text.
    Text(&'a [u8]),
}
