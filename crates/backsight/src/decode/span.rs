//! A span of one source, decoded on its own.
//!
//! Trace is written in terms of what came before it. A decoder that begins at a synchronisation, and knows nothing else,
//! comes to know all that one knows which has read the source from its beginning; most often within a few bytes.
//! [`Decode::find_cuts`] reads a source once, begins again at synchronisations beside that, and compares: where both know
//! the same, there is a [`Cut`]. Decoding that begins at the synchronisation of a cut, and whose output is dropped up to the
//! offset of the cut, gives from there on exactly what the decode of the whole source gives. So spans between cuts can be
//! decoded anywhere, in any order, by whoever has the capture.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use backsight_arm::frame::{Counts, FrameStart, Run};
use backsight_core::{Accounting, TraceId};
use backsight_flow::PathId;
use backsight_image::Window;

use super::item::{Accumulate, Executor, Item, Outcome};
use super::kind::Kind;
use super::pieces::{Cutter, StreamPiece};
use super::session::Setup;
use super::source_decoder::{Break, EachItem, ItemSink, Known, Part, SourceDecoder, Wanted};
use super::split::{Piece, Splitter};
use super::{Decode, read_blocks};
use crate::protocol::{SavedState, Stream};
use crate::{Buffer, Error, Result, Source};

/// Bytes of a buffer between places where reading may begin.
const SEEK: usize = 1 << 14;

/// Bytes of a source that are searched for a synchronisation at first, and at most.
const FIRST_SEARCHED: usize = 1 << 10;
const MOST_SEARCHED: usize = 1 << 23;

/// Where a source can be cut in two. Offsets count the bytes of the stream of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Decoding begins here: this is a synchronisation.
    pub sync: u64,
    /// From here on, what comes out is what a decode of the whole source gives.
    pub offset: u64,
    /// Where reading of the buffer may begin; `None`: at its beginning.
    pub seek: Option<Seek>,
}

/// Where in a buffer reading may begin: between two frames, before the first byte of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    /// Bytes of the buffer that come before.
    pub position: u64,
    /// The trace ID that the next bytes belong to, where frames have said so before.
    pub id: Option<TraceId>,
    /// Bytes of the stream of the source that come before.
    pub offset: u64,
}

/// A span of the stream of one source of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The name of the buffer.
    pub buffer: String,
    /// The trace ID of the source.
    pub id: TraceId,
    /// Where it begins; `None`: where the source begins.
    pub start: Option<Cut>,
    /// The offset of the cut that it ends at; `None`: where the source ends.
    pub end: Option<u64>,
}

impl Span {
    /// All of a source.
    pub fn all(buffer: &str, id: TraceId) -> Self {
        Self { buffer: buffer.to_owned(), id, start: None, end: None }
    }
}

/// What came of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanSummary {
    /// The sink wanted no more.
    pub stopped: bool,
    /// Packets, bad ones included.
    pub packets: u64,
    /// What became of the bytes.
    pub accounting: Accounting,
}

/// What the frames of a buffer hold.
pub(crate) fn count_frames(buffer: &Buffer) -> Result<Counts> {
    let wanted = Wanted { positions: false, bytes: false, arrivals: false };
    let mut splitter = Splitter::new(buffer, wanted);
    read_blocks(buffer, 0, false, &mut |block| {
        splitter.feed(block, &mut |_| false);
        ControlFlow::Continue(())
    })?;
    splitter.restart();
    Ok(splitter.counts())
}

impl<'c, K: Kind> Decode<'c, K> {
    /// Decodes a span of a source, and gives what is in it to `sink`, on the calling thread. Buffers and sources that were
    /// chosen before do not matter.
    ///
    /// # Errors
    /// As [`Decode::run`]; and if the source cannot be cut, but the span begins at a cut.
    pub fn run_span<R: Outcome>(
        self,
        span: &Span,
        sink: &mut impl FnMut(Item<'_, K::Value>) -> R,
    ) -> Result<SpanSummary> {
        let mut each = |item: Item<'_, K::Value>, _: Known| sink(item);
        self.span_to(span, &mut EachItem(&mut each))
    }

    /// As [`Decode::run_span`], for whoever takes items itself, and paths of execution that were walked before as what they are,
    /// until it has enough.
    ///
    /// # Errors
    /// As [`Decode::run_span`].
    pub fn accumulate_span(self, span: &Span, state: &mut impl Accumulate<K::Value>) -> Result<SpanSummary> {
        self.span_to(span, &mut Accumulating(state))
    }

    fn span_to<F: ItemSink<K::Value>>(mut self, span: &Span, sink: &mut F) -> Result<SpanSummary> {
        let (setup, id) = self.setup_of(&span.buffer, span.id)?;
        let Some(mut decoder) = setup.decoder(id) else { return Ok(SpanSummary::default()) };
        let mut bounds = Bounds { sync: 0, offset: 0, end: span.end };
        if let Some(cut) = span.start {
            let state = starting_state(&mut decoder, cut.sync).ok_or_else(|| {
                Error::misuse(format!("source {}: its trace cannot be cut", decoder.source.name()))
            })?;
            decoder.restore(cut.sync, &state);
            bounds = Bounds { sync: cut.sync, offset: cut.offset, end: span.end };
        }
        let mut sink = Given { sink, is_given: false };
        let seek = span.start.and_then(|cut| cut.seek.filter(|seek| seek.offset <= cut.sync));
        let mut stream = SourceStream::new(&setup, id, seek);
        let mut outcome = ControlFlow::Continue(());
        self.blocks_from(setup.buffer, seek.map_or(0, |seek| seek.position), false, &mut |block| {
            outcome = stream.feed(block, &mut |piece, at| bounds.decode(piece, at, &mut decoder, &mut sink));
            if outcome.is_break() || bounds.is_past(stream.offset) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if outcome.is_continue() && span.end.is_none() && stream.is_met() {
            outcome = stream.finish(&mut |piece, at| bounds.decode(piece, at, &mut decoder, &mut sink));
            sink.is_given = true;
            if outcome.is_continue() {
                outcome = decoder.finish_to(&mut sink);
            }
        }
        let (packets, accounting) = (decoder.stream.packets(), decoder.stream.accounting());
        Ok(SpanSummary { stopped: outcome.is_break(), packets, accounting })
    }

    /// Decodes all of a source, and finds where it can be cut, into spans of at least about so many bytes. Where the protocol
    /// cannot be left and taken up again, there are no cuts.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn find_cuts(
        self,
        buffer: &str,
        id: TraceId,
        size: usize,
        sink: &mut impl Accumulate<K::Value>,
    ) -> Result {
        self.find_cuts_after(None, (buffer, id), size, sink)
    }

    /// The same from a synchronisation on that comes after about this position of the buffer, if one can be found there: what
    /// comes out before the first cut may not be what a decode of the whole source gives. Offsets count from that position.
    /// Where no decoder can begin in the middle there are no cuts.
    pub(crate) fn find_cuts_after(
        mut self,
        position: Option<u64>,
        (buffer, id): (&str, TraceId),
        size: usize,
        sink: &mut impl Accumulate<K::Value>,
    ) -> Result {
        let (setup, id) = self.setup_of(buffer, id)?;
        let (Some(mut decoder), Some(mut probe)) = (setup.decoder(id), setup.decoder(id)) else {
            return Ok(());
        };
        // What can never be taken up again need not be read.
        if decoder.state().is_none() || !setup.buffer.continued.is_empty() {
            return Ok(());
        }
        let seek = match position {
            Some(position) => match middle(&setup, &mut decoder, position) {
                Some(seek) => Some(seek),
                None => return Ok(()),
            },
            None => None,
        };
        let (mut cutter, mut gathered) = (Cutter::new(size), Piece::default());
        let mut stream = SourceStream::new(&setup, id, seek);
        let (mut seeks, mut is_synchronised) = (VecDeque::new(), seek.is_none());
        let position = seek.map_or(0, |seek| seek.position);
        self.blocks_from(setup.buffer, position, false, &mut |block| {
            for block in block.chunks(SEEK) {
                seeks.extend(stream.seek());
                stream.feed(block, &mut |piece, _| {
                    gathered.append(piece);
                    ControlFlow::Continue(())
                })?;
            }
            if !is_synchronised && let Some(skipped) = synchronise(&mut decoder, &mut gathered, position) {
                cutter = Cutter::starting_at(size, skipped);
                is_synchronised = true;
            }
            while is_synchronised && let Some(piece) = next_piece(&mut decoder, &mut cutter, &mut gathered) {
                let seek = latest(&mut seeks, piece.offset);
                look_for_cut(&piece, seek, &mut decoder, &mut probe, sink);
            }
            if is_synchronised || gathered.bytes.len() < MOST_SEARCHED {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        if is_synchronised {
            let rest = cutter.rest(&mut gathered);
            look_for_cut(&rest, latest(&mut seeks, rest.offset), &mut decoder, &mut probe, sink);
        }
        Ok(())
    }

    /// Can a source be cut, as far as its protocol is concerned?
    pub(crate) fn can_be_cut(&self, source: &Source) -> Result<bool> {
        let (setup, id) = self.clone().setup_of(source.buffer(), source.id())?;
        let can_resume = setup.decoder(id).is_some_and(|mut decoder| decoder.state().is_some());
        Ok(can_resume && setup.buffer.continued.is_empty())
    }

    /// The sources that are wanted and can be decoded. What a bare file with frames holds, its frames are read for.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn sources(&self) -> Result<Vec<Source>> {
        self.check_buffers()?;
        self.check_ids()?;
        let mut sources = Vec::new();
        for buffer in self.wanted_buffers() {
            match buffer.fallback {
                Some(_) => sources.extend(buffer.contents()?.sources.into_iter().map(|(source, _)| source)),
                None => sources.extend(buffer.sources().cloned()),
            }
        }
        // Where a source goes on under another ID, it is one all the same.
        sources.retain(|source| {
            let buffer = self.capture.buffer(source.buffer());
            let is_first = buffer.is_none_or(|buffer| !buffer.continued.contains_key(&source.frame_id()));
            source.is_decoded() && self.wants(source.id()) && is_first
        });
        Ok(sources)
    }

    /// What a session of one source needs to know, and the ID of the source in frames.
    fn setup_of(&mut self, buffer: &str, id: TraceId) -> Result<(Setup<'c, K>, TraceId)> {
        self.settings.buffers = BTreeSet::from([buffer.to_owned()]);
        self.settings.ids = BTreeSet::from([id.get().into()]);
        self.settings.any_order = true;
        let setup = self.setups()?.pop();
        let setup = setup.ok_or_else(|| Error::misuse(format!("buffer {buffer}: it has no source {id}")))?;
        let id = if setup.buffer.is_raw() { TraceId::NULL } else { setup.buffer.first_id(id) };
        Ok((setup, id))
    }
}

fn starting_state<S: Stream>(decoder: &mut SourceDecoder<S>, offset: u64) -> Option<SavedState> {
    Some(decoder.stream.resumable()?.starting_at(offset))
}

/// Where reading can begin in the middle of a buffer, if a decoder can, too.
fn middle<K: Kind, S: Stream>(
    setup: &Setup<'_, K>,
    decoder: &mut SourceDecoder<S>,
    position: u64,
) -> Option<Seek> {
    let splitter = Splitter::new(setup.buffer, setup.wanted);
    splitter.frame_start(setup.buffer)?;
    decoder.stream.resumable().filter(|stream| stream.finds_synchronisation_anywhere())?;
    // Frames begin at multiples of their size.
    let position = position - position % 16;
    Some(Seek { position, id: None, offset: position })
}

/// Begins at the first synchronisation in what was gathered, the first byte of which is at this offset, and drops what comes before it.
/// Gives the offset of the synchronisation.
fn synchronise<S: Stream>(decoder: &mut SourceDecoder<S>, gathered: &mut Piece, offset: u64) -> Option<u64> {
    let stream = decoder.stream.resumable()?;
    let mut length = FIRST_SEARCHED;
    let found = loop {
        let bytes = gathered.bytes.get(..length).unwrap_or(&gathered.bytes);
        if let Some(found) = stream.last_sync(bytes, 0) {
            break found;
        }
        if bytes.len() < length {
            return None;
        }
        length *= 2;
    };
    let sync = offset + found as u64;
    let state = stream.starting_at(sync);
    *gathered = gathered.slice(found..gathered.bytes.len()).into_piece();
    decoder.restore(sync, &state);
    Some(sync)
}

fn next_piece<S: Stream>(
    decoder: &mut SourceDecoder<S>,
    cutter: &mut Cutter,
    gathered: &mut Piece,
) -> Option<StreamPiece> {
    let stream = decoder.stream.resumable()?;
    cutter.next(gathered, &|bytes, from| stream.last_sync(bytes, from))
}

/// The last of the places that come before an offset of the stream. Those before it are not needed any more.
fn latest(seeks: &mut VecDeque<Seek>, offset: u64) -> Option<Seek> {
    while seeks.get(1).is_some_and(|next| next.offset <= offset) {
        seeks.pop_front();
    }
    seeks.front().copied().filter(|seek| seek.offset <= offset)
}

/// Decodes a piece, and beside that its beginning by a decoder that knows nothing of what came before.
fn look_for_cut<S: Stream, C: Accumulate<S::Value>>(
    piece: &StreamPiece,
    seek: Option<Seek>,
    decoder: &mut SourceDecoder<S>,
    probe: &mut SourceDecoder<S>,
    sink: &mut C,
) {
    let state = if piece.can_begin_alone { starting_state(probe, piece.offset) } else { None };
    let mut is_probed = state.is_some();
    if let Some(state) = state {
        probe.restore(piece.offset, &state);
    }
    // The sink never has enough. One for both decoders, so that they are compiled once.
    let mut given = Accumulating(sink);
    let mut given = Given { sink: &mut given, is_given: true };
    for part in 0..=StreamPiece::OWN_END {
        let bytes = piece.part(part);
        given.is_given = true;
        let _ = decoder.take_to(bytes.part(), &mut given);
        if is_probed && part < StreamPiece::OWN_END {
            given.is_given = false;
            let _ = probe.take_to(bytes.part(), &mut given);
            if decoder.state() == probe.state() {
                is_probed = false;
                given.sink.0.cut(Cut { sync: piece.offset, offset: piece.offset_of(part + 1), seek });
            }
        }
    }
}

/// Whoever takes the items of a span itself, until it has enough.
struct Accumulating<'s, T>(&'s mut T);

impl<T> Accumulating<'_, T> {
    #[inline(always)]
    fn says<V>(&self) -> ControlFlow<()>
    where
        T: Accumulate<V>,
    {
        if self.0.has_enough() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl<V, T: Accumulate<V>> ItemSink<V> for Accumulating<'_, T> {
    type Says = ControlFlow<()>;

    const TAKES_PATHS: bool = T::TAKES_PATHS;

    #[inline(always)]
    fn take(&mut self, item: Item<'_, V>, _known: Known) -> ControlFlow<()> {
        self.0.item(item);
        self.says()
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
        self.says()
    }
}

/// One sink for what is given and for what is dropped: decoders are compiled once.
struct Given<'f, F> {
    sink: &'f mut F,
    is_given: bool,
}

impl<V, F: ItemSink<V>> ItemSink<V> for Given<'_, F> {
    type Says = ControlFlow<()>;

    const TAKES_PATHS: bool = F::TAKES_PATHS;

    #[inline(always)]
    fn take(&mut self, item: Item<'_, V>, known: Known) -> ControlFlow<()> {
        if self.is_given { self.sink.take(item, known).control() } else { ControlFlow::Continue(()) }
    }

    fn enter(&mut self, window: Window) {
        self.sink.enter(window);
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
        if self.is_given { self.sink.take_path(path, executor, items) } else { ControlFlow::Continue(()) }
    }
}

/// Which part of a stream is decoded, and which part of that is given.
struct Bounds {
    sync: u64,
    offset: u64,
    end: Option<u64>,
}

impl Bounds {
    fn is_past(&self, offset: u64) -> bool {
        self.end.is_some_and(|end| offset >= end)
    }

    /// Decodes what is within the bounds of some bytes of the stream, the first of which is at this offset.
    fn decode<S: Stream, F: ItemSink<S::Value>>(
        &self,
        piece: &Piece,
        at: u64,
        decoder: &mut SourceDecoder<S>,
        sink: &mut Given<'_, F>,
    ) -> ControlFlow<()> {
        let length = piece.bytes.len();
        let within =
            |offset: u64| usize::try_from(offset.saturating_sub(at)).map_or(length, |n| n.min(length));
        let (from, give) = (within(self.sync), within(self.offset));
        let to = self.end.map_or(length, within);
        let mut take = |part: Part<'_>, given: bool| {
            sink.is_given = given;
            decoder.take_to(part, sink)
        };
        if (from, give, to) == (0, 0, length) {
            return take(piece.part(), true);
        }
        if from < give {
            take(piece.slice(from..give).part(), false)?;
        }
        if give < to {
            take(piece.slice(give..to).part(), true)?;
        }
        ControlFlow::Continue(())
    }
}

/// The bytes of one source on their way out of a buffer.
struct SourceStream<'s, 'c, K> {
    setup: &'s Setup<'c, K>,
    id: TraceId,
    splitter: Splitter,
    /// Bytes so far.
    offset: u64,
    /// Breaks at the end of what was taken: they belong to what comes next.
    breaks: Vec<Break>,
    raw: Piece,
}

impl<'s, 'c, K: Kind> SourceStream<'s, 'c, K> {
    fn new(setup: &'s Setup<'c, K>, id: TraceId, seek: Option<Seek>) -> Self {
        let splitter = match seek {
            Some(Seek { position: index, id, .. }) => {
                Splitter::starting_at(setup.buffer, setup.wanted, FrameStart { index, id })
            }
            None => Splitter::new(setup.buffer, setup.wanted),
        };
        let offset = seek.map_or(0, |seek| seek.offset);
        Self { setup, id, splitter, offset, breaks: Vec::new(), raw: Piece::default() }
    }

    /// Where the next block of the buffer begins, if reading may begin there: no break belongs to what comes next.
    fn seek(&self) -> Option<Seek> {
        let FrameStart { index: position, id } = self.splitter.frame_start(self.setup.buffer)?;
        self.breaks.is_empty().then_some(Seek { position, id, offset: self.offset })
    }

    /// Takes more of the buffer; gives what the source has in it, with its offset in the stream.
    fn feed(
        &mut self,
        block: &[u8],
        each: &mut impl FnMut(&Piece, u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Self { setup, id, splitter, offset, breaks, raw } = self;
        let mut give = |piece: &mut Piece| {
            let length = piece.bytes.len();
            if !breaks.is_empty() {
                breaks.append(&mut piece.breaks);
                std::mem::swap(breaks, &mut piece.breaks);
            }
            let kept = piece.breaks.partition_point(|one| one.at < length);
            breaks.extend(piece.breaks.drain(kept..).map(|one| Break { at: 0, ..one }));
            let outcome = each(piece, *offset);
            *offset += length as u64;
            outcome
        };
        if setup.buffer.is_raw() {
            raw.clear();
            let (index, at_starts) = splitter.feed_raw(block);
            raw.bytes.extend_from_slice(block);
            raw.runs.push(Run { index, at: 0 });
            raw.breaks = at_starts;
            return give(raw);
        }
        splitter.feed(block, &mut |met| met == *id);
        let mut outcome = ControlFlow::Continue(());
        splitter.pieces(|_, piece| {
            if outcome.is_continue() {
                outcome = give(piece);
            }
        });
        outcome
    }

    /// Gives the breaks at the very end.
    fn finish(&mut self, each: &mut impl FnMut(&Piece, u64) -> ControlFlow<()>) -> ControlFlow<()> {
        let piece = Piece { breaks: std::mem::take(&mut self.breaks), ..Piece::default() };
        if piece.breaks.is_empty() { ControlFlow::Continue(()) } else { each(&piece, self.offset) }
    }

    /// Were there bytes of the source?
    fn is_met(&self) -> bool {
        self.offset > 0 || !self.breaks.is_empty()
    }
}
