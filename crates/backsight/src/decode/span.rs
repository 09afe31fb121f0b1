//! A span of one source, decoded on its own.
//!
//! Trace is written in terms of what came before it. A decoder that begins at a synchronisation, and knows nothing else,
//! comes to know all that one knows which has read the source from its beginning; most often within a few bytes.
//! [`Decode::find_cuts`] reads a source once, begins again at synchronisations beside that, and compares: where both know
//! the same, there is a [`Cut`]. Decoding that begins at the synchronisation of a cut, and whose output is dropped up to the
//! offset of the cut, gives from there on exactly what the decode of the whole source gives. So spans between cuts can be
//! decoded anywhere, in any order, by any holder of the capture.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use backsight_arm::frame::{FrameStart, Run};
use backsight_core::TraceId;
use backsight_image::Window;

use super::Decode;
use super::consumer::{AnyConsumer, Consumer};
use super::item::{Cut, Item, Seek};
use super::kind::Kind;
use super::pieces::{Cutter, StreamPiece};
use super::session::{Setup, buffer_summary, summaries_of};
use super::source_decoder::{Break, SourceDecoder};
use super::split::{Piece, Splitter};
use super::summary::BufferSummary;
use crate::protocol::{AnyStream, SavedState};
use crate::{Error, Result, Source};

/// Bytes of a buffer between places where reading may begin.
const SEEK: usize = 1 << 14;

/// Bytes of a source that are its beginning; and blocks of its buffer in which they are looked for.
const EARLY: u64 = 1 << 16;
const EARLY_BLOCKS: u32 = 64;

/// Bytes of a source that are searched for a synchronisation at first, and at most.
const FIRST_SEARCHED: usize = 1 << 10;
const MOST_SEARCHED: usize = 1 << 23;

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

impl<'c, K: Kind> Decode<'c, K> {
    /// Decodes a span of a source on this thread.
    pub(super) fn run_span(
        &self,
        setup: &Setup<'c, K>,
        span: &Span,
        consumer: &mut dyn AnyConsumer<K::Value>,
    ) -> Result<(BufferSummary, ControlFlow<()>)> {
        let id = id_in_frames(setup, span.id);
        let mut stream = SourceStream::new(setup, id, None);
        let Some(mut decoder) = setup.decoder(id) else {
            return Ok((
                buffer_summary(setup, &stream.splitter, Vec::new(), &[id]),
                ControlFlow::Continue(()),
            ));
        };
        let mut bounds = Bounds { sync: 0, offset: 0, end: span.end };
        let mut seek = None;
        if let Some(cut) = span.start {
            let known = self.known_early(setup, id)?;
            let state = starting_state(&mut decoder, cut.sync, known.as_ref()).ok_or_else(|| {
                Error::misuse(format!("source {}: its trace cannot be cut", decoder.source.name()))
            })?;
            decoder.restore(cut.sync, &state);
            bounds = Bounds { sync: cut.sync, offset: cut.offset, end: span.end };
            seek = cut.seek.filter(|seek| seek.offset <= cut.sync);
            stream = SourceStream::new(setup, id, seek);
        }
        let mut outcome = ControlFlow::Continue(());
        self.blocks_from(setup.buffer, seek.map_or(0, |seek| seek.position), false, &mut |block| {
            outcome = stream.feed(block, &mut |piece, at| bounds.decode(piece, at, &mut decoder, consumer));
            consumer.pause();
            if outcome.is_break() || bounds.is_past(stream.offset) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if outcome.is_continue() && span.end.is_none() && stream.is_met() {
            outcome = stream.finish(&mut |piece, at| bounds.decode(piece, at, &mut decoder, consumer));
            if outcome.is_continue() {
                outcome = decoder.finish(consumer);
                consumer.finish();
            }
            consumer.pause();
        }
        let sources = summaries_of::<K>(&mut decoder);
        Ok((buffer_summary(setup, &stream.splitter, sources, &[]), outcome))
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
        consumer: &mut impl Consumer<K::Value>,
    ) -> Result {
        self.find_cuts_after(None, (buffer, id), size, consumer)
    }

    /// The same from a synchronisation on that comes after about this position of the buffer, if one can be found there: what
    /// comes out before the first cut may not be what a decode of the whole source gives. Offsets count from that position.
    /// Where no decoder can begin in the middle there are no cuts.
    pub(crate) fn find_cuts_after(
        self,
        position: Option<u64>,
        (buffer, id): (&str, TraceId),
        size: usize,
        consumer: &mut dyn AnyConsumer<K::Value>,
    ) -> Result {
        let decode = self.span(&Span::all(buffer, id));
        let Some(setup) = decode.setups()?.pop() else { return Ok(()) };
        let id = id_in_frames(&setup, id);
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
        let known = decode.known_early(&setup, id)?;
        let (mut cutter, mut gathered) = (Cutter::new(size), Piece::default());
        let mut stream = SourceStream::new(&setup, id, seek);
        let (mut seeks, mut is_synchronised) = (VecDeque::new(), seek.is_none());
        let position = seek.map_or(0, |seek| seek.position);
        decode.blocks_from(setup.buffer, position, false, &mut |block| {
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
                look_for_cut(&piece, (seek, known.as_ref()), &mut decoder, &mut probe, consumer);
            }
            if is_synchronised || gathered.bytes.len() < MOST_SEARCHED {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        if is_synchronised {
            let _ = stream.finish(&mut |piece, _| {
                gathered.append(piece);
                ControlFlow::Continue(())
            });
            let rest = cutter.rest(&mut gathered);
            let seek = latest(&mut seeks, rest.offset);
            look_for_cut(&rest, (seek, known.as_ref()), &mut decoder, &mut probe, consumer);
            let _ = decoder.finish(consumer);
            consumer.finish();
        }
        Ok(())
    }

    /// Can a source be cut, as far as its protocol is concerned?
    pub(crate) fn can_be_cut(&self, source: &Source) -> Result<bool> {
        let decode = self.clone().span(&Span::all(source.buffer(), source.id()));
        let Some(setup) = decode.setups()?.pop() else { return Ok(false) };
        let id = id_in_frames(&setup, source.id());
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

    /// What is known soon after the beginning of a source, of which things are said there that are not said again. It is the
    /// same for all spans.
    fn known_early(&self, setup: &Setup<'c, K>, id: TraceId) -> Result<Option<SavedState>> {
        let Some(mut decoder) = setup.decoder(id) else { return Ok(None) };
        let (mut stream, mut left) = (SourceStream::new(setup, id, None), EARLY_BLOCKS);
        self.blocks(setup.buffer, false, &mut |block| {
            for block in block.chunks(SEEK) {
                left -= 1;
                stream.feed(block, &mut |piece, _| decoder.take(piece.part(), &mut ()))?;
                if left == 0 || stream.offset >= EARLY {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(decoder.state())
    }
}

/// The ID of a source in frames.
fn id_in_frames<K>(setup: &Setup<'_, K>, id: TraceId) -> TraceId {
    if setup.buffer.is_raw() { TraceId::NULL } else { setup.buffer.first_id(id) }
}

fn starting_state<S: AnyStream>(
    decoder: &mut SourceDecoder<S>,
    offset: u64,
    known: Option<&SavedState>,
) -> Option<SavedState> {
    Some(decoder.stream.resumable()?.starting_at(offset, known))
}

/// Where reading can begin in the middle of a buffer, if a decoder can, too.
fn middle<K: Kind, S: AnyStream>(
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
fn synchronise<S: AnyStream>(
    decoder: &mut SourceDecoder<S>,
    gathered: &mut Piece,
    offset: u64,
) -> Option<u64> {
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
    let state = stream.starting_at(sync, None);
    *gathered = gathered.slice(found..gathered.bytes.len()).into_piece();
    decoder.restore(sync, &state);
    Some(sync)
}

fn next_piece<S: AnyStream>(
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
fn look_for_cut<S: AnyStream>(
    piece: &StreamPiece,
    (seek, known): (Option<Seek>, Option<&SavedState>),
    decoder: &mut SourceDecoder<S>,
    probe: &mut SourceDecoder<S>,
    consumer: &mut dyn AnyConsumer<S::Value>,
) {
    let state = if piece.can_begin_alone { starting_state(probe, piece.offset, known) } else { None };
    let mut is_probed = state.is_some();
    if let Some(state) = state {
        probe.restore(piece.offset, &state);
    }
    for part in 0..=piece.own_end() {
        let bytes = piece.part(part);
        let _ = decoder.take(bytes.part(), consumer);
        if is_probed && part < piece.own_end() {
            let _ = probe.take(bytes.part(), &mut ());
            if decoder.state() == probe.state() {
                is_probed = false;
                consumer.cut(Cut { sync: piece.offset, offset: piece.offset_of(part + 1), seek });
            }
        }
    }
}

/// Drops what comes before the beginning of a span, but for what decides what code there is.
struct BeforeSpan<'c, V>(&'c mut dyn AnyConsumer<V>);

impl<V> Consumer<V> for BeforeSpan<'_, V> {
    fn item(&mut self, _item: Item<'_, V>) {}

    fn ignores_items(&self) -> bool {
        true
    }

    fn source(&mut self, source: &Source, window: Option<Window>) {
        self.0.source(source, window);
    }

    fn enter(&mut self, window: Window) {
        self.0.enter(window);
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
    fn decode<S: AnyStream>(
        &self,
        piece: &Piece,
        at: u64,
        decoder: &mut SourceDecoder<S>,
        consumer: &mut dyn AnyConsumer<S::Value>,
    ) -> ControlFlow<()> {
        let length = piece.bytes.len();
        let within =
            |offset: u64| usize::try_from(offset.saturating_sub(at)).map_or(length, |n| n.min(length));
        let (from, give) = (within(self.sync), within(self.offset));
        let to = self.end.map_or(length, within);
        if (from, give, to) == (0, 0, length) {
            return decoder.take(piece.part(), consumer);
        }
        if from < give {
            decoder.take(piece.slice(from..give).part(), &mut BeforeSpan(consumer))?;
        }
        if give < to {
            decoder.take(piece.slice(give..to).part(), consumer)?;
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
