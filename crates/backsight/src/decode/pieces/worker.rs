//! A piece on its thread.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use backsight_core::Accounting;
use backsight_flow::Statistics;

use super::cut::StreamPiece;
use crate::decode::consumer::Consumer;
use crate::decode::lane::Lane;
use crate::decode::source_decoder::SourceDecoder;
use crate::protocol::{AnyStream, Kinds, Notes, SavedState, Stream};

/// What a decoder has counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub packets: u64,
    pub accounting: Accounting,
    pub statistics: Statistics,
    pub kinds: Kinds,
    pub notes: Notes,
}

impl Counts {
    /// What a stream has counted so far.
    pub fn of(stream: &mut impl Stream) -> Self {
        let (packets, accounting) = (stream.packets(), stream.accounting());
        let (statistics, kinds, notes) = (stream.statistics(), stream.kinds(), stream.notes());
        Self { packets, accounting, statistics, kinds, notes }
    }

    /// Adds what was counted from one moment to another.
    pub fn add(&mut self, from: &Self, to: &Self) {
        self.kinds.add_since(&from.kinds, &to.kinds);
        self.notes.add_since(&from.notes, &to.notes);
        self.packets += to.packets - from.packets;
        self.accounting += to.accounting - from.accounting;
        self.statistics += to.statistics - from.statistics;
    }
}

/// The end of a part of a piece.
pub(super) struct Mark {
    /// What is known there; nothing at the end of a source.
    pub state: Option<SavedState>,
    /// What its consumer knows there, where that decides more than the items.
    pub boundary: Option<SavedState>,
    pub counts: Counts,
}

impl Mark {
    /// Where a decoder and its consumer are now. What is known is needed by those who go on from here; else it is compared, if
    /// that is not too much.
    pub fn of<S: AnyStream, C>(decoder: &mut SourceDecoder<S>, lane: &Lane<'_, C>, is_needed: bool) -> Self {
        let state = decoder.state_if(|stream| is_needed || !stream.is_costly());
        let boundary = lane.boundary().cloned();
        Self { state, boundary, counts: Counts::of(&mut decoder.stream) }
    }

    /// Do both know the same?
    pub fn meets(&self, other: &Self) -> bool {
        self.state.is_some() && self.state == other.state && self.boundary == other.boundary
    }
}

/// What was made of some of a source.
pub(in crate::decode) enum Portion<C> {
    Text(Vec<u8>),
    /// The consumer of a part.
    Part(Box<C>),
}

/// What comes back of a piece.
pub(super) enum Reply<C> {
    Portion(Portion<C>),
    /// The first comes before all, then one after each part.
    Mark(Box<Mark>),
}

/// A piece to decode.
pub(super) struct Job<C> {
    pub piece: Arc<StreamPiece>,
    /// What is known at its beginning.
    pub state: SavedState,
    pub replies: SyncSender<Reply<C>>,
}

/// Decodes pieces, one after the other, until there are no more.
pub(super) fn work<S: AnyStream, C: Consumer<S::Value>>(
    jobs: &Mutex<Receiver<Job<C>>>,
    decoder: &mut SourceDecoder<S>,
    lane: &mut Lane<'_, C>,
) {
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(job) = next() {
        // Who stops listening knows the rest from elsewhere.
        let _ = decode_piece(&job, decoder, lane);
    }
}

fn decode_piece<S: AnyStream, C: Consumer<S::Value>>(
    Job { piece, state, replies }: &Job<C>,
    decoder: &mut SourceDecoder<S>,
    lane: &mut Lane<'_, C>,
) -> ControlFlow<()> {
    let send = |reply| match replies.send(reply) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    decoder.restore(piece.offset, state);
    lane.go_on_at(None);
    send(Reply::Mark(Box::new(Mark::of(decoder, lane, false))))?;
    for part in 0..piece.parts() {
        decode_part(piece, part, decoder, lane, &mut |portion| send(Reply::Portion(portion)))?;
        let is_needed = part + 1 == piece.parts();
        send(Reply::Mark(Box::new(Mark::of(decoder, lane, is_needed))))?;
    }
    ControlFlow::Continue(())
}

/// Decodes a part of a piece, and what comes at the end of the source if that is its end.
pub(super) fn decode_part<S: AnyStream, C: Consumer<S::Value>>(
    piece: &StreamPiece,
    part: usize,
    decoder: &mut SourceDecoder<S>,
    lane: &mut Lane<'_, C>,
    output: &mut dyn FnMut(Portion<C>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut text = |text| output(Portion::Text(text));
    let mut consumer = lane.with(&mut text);
    decoder.take(piece.part(part).part(), &mut consumer)?;
    if piece.is_last && part == piece.own_end() {
        decoder.finish(&mut consumer)?;
        consumer.finish();
    }
    consumer.flush()?;
    match lane.take_part() {
        Some(portion) => output(portion),
        None => ControlFlow::Continue(()),
    }
}
