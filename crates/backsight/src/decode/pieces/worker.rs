//! A piece on its thread.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use backsight_core::Accounting;
use backsight_flow::Statistics;

use super::cut::StreamPiece;
use crate::decode::lane::{AnyPart, BoxedLane};
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
    pub fn of<S: AnyStream>(
        decoder: &mut SourceDecoder<S>,
        lane: &BoxedLane<'_, S::Value>,
        is_needed: bool,
    ) -> Self {
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
pub(in crate::decode) enum Portion<'m, V> {
    Text(Vec<u8>),
    /// The consumer of a part.
    Part(Box<dyn AnyPart<V> + Send + 'm>),
}

/// What comes back of a piece.
pub(super) enum Reply<'m, V> {
    Portion(Portion<'m, V>),
    /// The first comes before all, then one after each part.
    Mark(Box<Mark>),
}

/// A piece to decode.
pub(super) struct Job<'m, V> {
    pub piece: Arc<StreamPiece>,
    /// What is known at its beginning.
    pub state: SavedState,
    pub replies: SyncSender<Reply<'m, V>>,
}

/// Decodes pieces, one after the other, until there are no more.
pub(super) fn work<'m, S: AnyStream>(
    jobs: &Mutex<Receiver<Job<'m, S::Value>>>,
    decoder: &mut SourceDecoder<S>,
    lane: &mut BoxedLane<'m, S::Value>,
) {
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(job) = next() {
        // Who stops listening knows the rest from elsewhere.
        let _ = decode_piece(&job, decoder, lane);
    }
}

fn decode_piece<'m, S: AnyStream>(
    Job { piece, state, replies }: &Job<'m, S::Value>,
    decoder: &mut SourceDecoder<S>,
    lane: &mut BoxedLane<'m, S::Value>,
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
pub(super) fn decode_part<'m, S: AnyStream>(
    piece: &StreamPiece,
    part: usize,
    decoder: &mut SourceDecoder<S>,
    lane: &mut BoxedLane<'m, S::Value>,
    output: &mut dyn FnMut(Portion<'m, S::Value>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    lane.deliver(&mut |text| output(Portion::Text(text)), &mut |consumer| {
        decoder.take(piece.part(part).part(), consumer)?;
        if piece.is_last && part == piece.own_end() {
            decoder.finish(consumer)?;
            consumer.finish();
        }
        ControlFlow::Continue(())
    })?;
    match lane.take_part() {
        Some(portion) => output(portion),
        None => ControlFlow::Continue(()),
    }
}
