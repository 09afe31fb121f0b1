//! A piece on its thread.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use backsight_core::Accounting;
use backsight_flow::Statistics;

use super::cut::StreamPiece;
use crate::decode::consumers::{Consumer, Portions};
use crate::decode::source_decoder::SourceDecoder;
use crate::protocol::{Kinds, Notes, SavedState, Stream};

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
    pub fn of<S, C>(decoder: &mut SourceDecoder<S>, consumer: &C, is_needed: bool) -> Self
    where
        S: Stream,
        C: Consumer<S::Value>,
    {
        let (state, boundary) =
            (decoder.state_if(|stream| is_needed || !stream.is_costly()), consumer.boundary());
        Self { state, boundary, counts: Counts::of(&mut decoder.stream) }
    }

    /// Do both know the same?
    pub fn meets(&self, other: &Self) -> bool {
        self.state.is_some() && self.state == other.state && self.boundary == other.boundary
    }
}

/// What comes back of a piece.
pub(super) enum Reply<P> {
    Portion(P),
    /// The first comes before all, then one after each part.
    Mark(Box<Mark>),
}

/// A piece to decode.
pub(super) struct Job<P> {
    pub piece: Arc<StreamPiece>,
    /// What is known at its beginning.
    pub state: SavedState,
    pub replies: SyncSender<Reply<P>>,
}

/// Decodes pieces, one after the other, until there are no more.
pub(super) fn work<S: Stream, C: Consumer<S::Value>>(
    jobs: &Mutex<Receiver<Job<C::Portion>>>,
    decoder: &mut SourceDecoder<S>,
    consumer: &mut C,
) {
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(job) = next() {
        // Who stops listening knows the rest from elsewhere.
        let _ = decode_piece(&job, decoder, consumer);
        consumer.take();
    }
}

fn decode_piece<S: Stream, C: Consumer<S::Value>>(
    Job { piece, state, replies }: &Job<C::Portion>,
    decoder: &mut SourceDecoder<S>,
    consumer: &mut C,
) -> ControlFlow<()> {
    let send = |reply| match replies.send(reply) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    decoder.restore(piece.offset, state);
    consumer.go_on_at(None);
    send(Reply::Mark(Box::new(Mark::of(decoder, consumer, false))))?;
    for part in 0..piece.parts() {
        decode_part(piece, part, decoder, consumer, &mut |portion| send(Reply::Portion(portion)))?;
        let is_needed = part + 1 == piece.parts();
        send(Reply::Mark(Box::new(Mark::of(decoder, consumer, is_needed))))?;
    }
    ControlFlow::Continue(())
}

/// Decodes a part of a piece, and what comes at the end of the source if that is its end.
pub(super) fn decode_part<S: Stream, C: Consumer<S::Value>>(
    piece: &StreamPiece,
    part: usize,
    decoder: &mut SourceDecoder<S>,
    consumer: &mut C,
    output: &mut dyn FnMut(C::Portion) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut portions = Portions { consumer, output };
    decoder.take_to(piece.part(part).part(), &mut portions)?;
    if piece.is_last && part == piece.own_end() {
        decoder.finish_to(&mut portions)?;
        portions.consumer.finish();
    }
    portions.flush()
}
