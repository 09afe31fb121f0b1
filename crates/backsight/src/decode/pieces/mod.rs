//! One source on several threads.
//!
//! Trace is written in terms of what came before it, so it has to be read from its beginning; but a trace unit repeats
//! from time to time all that a reader needs who comes late. The stream of a source is cut there, and the pieces are
//! decoded at the same time, each as if nothing was known of what came before.
//!
//! Whether that was right is checked. The decoder of a piece goes on a little way into the next one; where both decoders
//! know the same at the same byte, both give the same from there on, and what the second one gave before is dropped.
//! Where they do not come to know the same, the piece is decoded again on the calling thread, from what the first one
//! knows. So what comes out is what a single thread gives, whatever is in the trace.

mod cut;
mod worker;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};

use backsight_arm::frame::{Framing, NamedIds, Run};
use backsight_core::TraceId;

pub(super) use self::cut::{Cutter, StreamPiece};
pub(super) use self::worker::Portion;
use self::worker::{Counts, Job, Mark, Reply, decode_part, work};
use super::execute::Executed;
use super::kind::Kind;
use super::lane::{BoxedLane, MakeLane};
use super::parallel::{self, Read};
use super::session::{Setup, buffer_summary};
use super::source_decoder::{SourceDecoder, Wanted};
use super::split::{Piece, Splitter};
use super::summary::SourceSummary;
use crate::capture::BLOCK;
use crate::protocol::{AnyStream, SavedState};
use crate::{Buffer, Result, Source};

/// Portions of a piece that may wait for those before them: then its decoder waits, too.
const PORTIONS: usize = 512;

/// Pieces that had to be decoded again, one after the other, after which no more are decoded ahead: this source cannot be
/// cut.
const MOST_IN_VAIN: u32 = 8;

/// How a source is decoded in pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceOptions {
    /// Threads beside the calling one.
    pub threads: usize,
    /// Bytes of a piece.
    pub size: usize,
}

/// The one source of a buffer that is wanted, if it can be decoded in pieces.
pub(super) fn only_source<K: Kind>(setup: &Setup<'_, K>, threads: usize) -> Option<TraceId> {
    let buffer = setup.buffer;
    let can_resume = |id: TraceId| setup.decoder(id).is_some_and(|mut decoder| decoder.state().is_some());
    if buffer.is_raw() {
        return Some(TraceId::NULL).filter(|&id| can_resume(id));
    }
    let ids = described(buffer, &|id| setup.wants(id));
    if !buffer.continued.is_empty() || !ids.iter().any(|&id| can_resume(id)) {
        return None;
    }
    match with_data(buffer, ids, threads)?.as_slice() {
        &[id] if can_resume(id) => Some(id),
        _ => None,
    }
}

/// The sources of a buffer with frames that are wanted and can be decoded. Where none is described, anyone may be there.
fn described(buffer: &Buffer, wants: &dyn Fn(TraceId) -> bool) -> Vec<TraceId> {
    let described = buffer.sources().filter(|source| source.is_decoded()).map(Source::id);
    let mut ids: Vec<TraceId> = match buffer.fallback {
        Some(_) => (0..=0x7F).map(TraceId::new).filter(|id| id.is_source()).collect(),
        None => described.collect(),
    };
    ids.retain(|&id| wants(id));
    ids
}

/// Those of several sources that have data: frames say which. `None` where that would be to read what cannot be read twice.
fn with_data(buffer: &Buffer, mut ids: Vec<TraceId>, threads: usize) -> Option<Vec<TraceId>> {
    if ids.len() > 1 {
        let size = buffer.size()?;
        let named = named_ids(buffer, size, threads).ok()?;
        ids.retain(|&id| named.is_none_or(|named| named.has(id)));
    }
    if ids.len() > 1 {
        let counts = buffer.count_frames().ok()?;
        ids.retain(|id| counts.data[usize::from(id.get())] > 0);
    }
    Some(ids)
}

/// How many of the wanted sources of a buffer have data; where that cannot be known, how many there may be.
pub(super) fn sources_with_data(buffer: &Buffer, wants: &dyn Fn(TraceId) -> bool, threads: usize) -> usize {
    let ids = described(buffer, wants);
    let count = ids.len();
    match buffer.is_raw() {
        true => count,
        false => with_data(buffer, ids, threads).map_or(count, |ids| ids.len()),
    }
}

/// The sources that the frames of a buffer name, where these are simple enough to see that. Nothing else can be done before
/// it is known: each thread reads a part of the buffer.
fn named_ids(buffer: &Buffer, size: u64, threads: usize) -> Result<Option<NamedIds>> {
    if buffer.framing() != Framing::Coresight || !buffer.starts.is_empty() {
        return Ok(None);
    }
    // A frame is in one part.
    let part = size.max(1).div_ceil(threads.max(1) as u64).next_multiple_of(BLOCK as u64);
    let parts = (0..size.div_ceil(part)).map(|number| number * part).collect();
    let look = |start: u64, _| {
        let is_last = start + part >= size;
        let (mut named, mut left) = (NamedIds::default(), if is_last { u64::MAX } else { part });
        buffer.read_blocks(start, true, &mut |block| {
            named.look(block);
            left = left.saturating_sub(block.len() as u64);
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(named)
    };
    let named: Result<Vec<_>> = parallel::map(parts, threads, look).into_iter().collect();
    Ok(Some(named?.into_iter().fold(NamedIds::default(), |all, some| all | some)))
}

/// Takes portions, in order.
type Output<'o, 'm, V> = &'o mut (dyn FnMut(Portion<'m, V>) -> ControlFlow<()> + 'o);

/// Decodes the only source of a buffer. Each thread has a lane; `output` gets the portions in order.
pub(super) fn run<'m, K: Kind>(
    setup: &Setup<'_, K>,
    id: TraceId,
    options: PieceOptions,
    read: Read<'_>,
    lane: MakeLane<'_, 'm, K::Value>,
    output: Output<'_, 'm, K::Value>,
) -> Result<Executed> {
    // The order of one source is that of its bytes.
    let wanted = Wanted { arrivals: false, ..setup.wanted };
    let setup = &Setup { wanted, ..setup.clone() };
    let mut decoders = Vec::new();
    while decoders.len() <= options.threads
        && let Some(decoder) = setup.decoder(id)
    {
        decoders.push(decoder);
    }
    let Some(decoder) = decoders.pop() else {
        return Err(crate::Error::misuse("the source cannot be decoded"));
    };
    let source = decoder.source.clone();
    let (jobs, queue) = channel();
    let queue = Mutex::new(queue);
    let mut chain = Chain {
        jobs: Some(jobs),
        ahead: options.threads + 1,
        decoder,
        lane: lane(),
        track: None,
        waiting: VecDeque::new(),
        known: None,
        counts: Counts::default(),
        in_vain: 0,
        output,
    };
    let mut gathering = Gathering {
        setup,
        id,
        splitter: Splitter::new(setup.buffer, setup.wanted),
        cutter: Cutter::up_to_twice(options.size),
        raw: Piece::default(),
        undecoded: Vec::new(),
    };
    let (reading, outcome) = std::thread::scope(|scope| {
        for mut decoder in decoders {
            let queue = &queue;
            scope.spawn(move || work(queue, &mut decoder, &mut lane()));
        }
        let mut outcome = ControlFlow::Continue(());
        let reading = read(&mut |block| {
            outcome = gathering.feed(block, &mut chain);
            outcome
        });
        if reading.is_ok() && outcome.is_continue() && gathering.is_met() {
            outcome = chain.finish(gathering.rest());
        }
        // Threads end when there is nobody to ask them.
        chain.jobs = None;
        chain.waiting.clear();
        chain.track = None;
        (reading, outcome)
    });
    reading?;
    gathering.splitter.restart();
    let Counts { packets, accounting, statistics, kinds, notes } = chain.counts;
    let notes = notes.into_words();
    let summary = SourceSummary { source, packets, accounting, statistics, notes, kinds };
    let sources = if gathering.is_met() { vec![summary] } else { Vec::new() };
    let summary = buffer_summary(setup, &gathering.splitter, sources, &gathering.undecoded);
    Ok(Executed { summary, stopped: outcome.is_break() })
}

/// The bytes of the source on their way from the buffer to pieces.
struct Gathering<'s, 'c, K> {
    setup: &'s Setup<'c, K>,
    id: TraceId,
    splitter: Splitter,
    cutter: Cutter,
    /// What there is of a buffer without frames; else the splitter has it.
    raw: Piece,
    undecoded: Vec<TraceId>,
}

impl<'c, K: Kind> Gathering<'_, 'c, K> {
    /// Takes more of the buffer.
    fn feed(&mut self, block: &[u8], chain: &mut Chain<'_, '_, K::Stream<'c>>) -> ControlFlow<()> {
        let Self { setup, id, splitter, cutter, raw, undecoded } = self;
        if setup.buffer.is_raw() {
            let (index, breaks) = splitter.feed_raw(block);
            let runs = vec![Run { index, at: 0 }];
            raw.append(&Piece { bytes: block.to_vec(), runs, arrivals: Vec::new(), breaks });
        } else {
            splitter.feed(block, &mut |met| {
                if met != *id && setup.wants(met) {
                    undecoded.push(met);
                }
                met == *id
            });
        }
        let gathered = splitter.gathered().next().map_or(raw, |(_, piece)| piece);
        while let Some(piece) = chain.cut(cutter, gathered) {
            chain.take(piece)?;
        }
        ControlFlow::Continue(())
    }

    /// What is left at the end.
    fn rest(&mut self) -> StreamPiece {
        let Self { splitter, cutter, raw, .. } = self;
        cutter.rest(splitter.gathered().next().map_or(raw, |(_, piece)| piece))
    }

    /// Were there bytes of the source?
    fn is_met(&self) -> bool {
        let counts = self.splitter.counts();
        if self.setup.buffer.is_raw() { counts.raw > 0 } else { counts.data[usize::from(self.id.get())] > 0 }
    }
}

/// A piece that was handed out.
struct Handed<'m, V> {
    piece: Arc<StreamPiece>,
    /// What comes of it; nothing if it was not decoded ahead.
    replies: Option<Receiver<Reply<'m, V>>>,
}

/// Where the decoding that is certain stands.
struct Track<'m, V> {
    piece: Arc<StreamPiece>,
    /// The next part.
    part: usize,
    /// Who decodes it: a thread, or the calling one.
    replies: Option<Receiver<Reply<'m, V>>>,
    /// What the decoder had counted when this track began.
    base: Counts,
}

/// The pieces of a source, in order.
struct Chain<'o, 'm, S: AnyStream> {
    jobs: Option<Sender<Job<'m, S::Value>>>,
    /// Pieces that are handed out before the first of them has to be done.
    ahead: usize,
    /// For what is decoded on the calling thread.
    decoder: SourceDecoder<S>,
    lane: BoxedLane<'m, S::Value>,
    track: Option<Track<'m, S::Value>>,
    waiting: VecDeque<Handed<'m, S::Value>>,
    /// What was known at the end of a part that is certain.
    known: Option<SavedState>,
    /// What was counted in what has been put out.
    counts: Counts,
    /// Pieces that were decoded ahead in vain since the last one that was not.
    in_vain: u32,
    output: Output<'o, 'm, S::Value>,
}

impl<'m, S: AnyStream> Chain<'_, 'm, S> {
    /// The next piece, where there is enough for one.
    fn cut(&mut self, cutter: &mut Cutter, gathered: &mut Piece) -> Option<StreamPiece> {
        let stream = self.decoder.stream.resumable()?;
        cutter.next(gathered, &|bytes, from| stream.last_sync(bytes, from))
    }

    /// Hands out a piece, and puts out what comes of the oldest one if there are many.
    fn take(&mut self, piece: StreamPiece) -> ControlFlow<()> {
        let piece = Arc::new(piece);
        let is_first = piece.offset == 0;
        let is_ahead = piece.can_begin_alone && self.in_vain < MOST_IN_VAIN;
        let mut replies = None;
        if (is_first || is_ahead)
            && let Some(jobs) = &self.jobs
            && let Some(stream) = self.decoder.stream.resumable()
        {
            let (sender, receiver) = sync_channel(PORTIONS);
            let state = match is_first {
                true => stream.state(),
                false => stream.starting_at(piece.offset, self.known.as_ref()),
            };
            // A thread that has ended was told to.
            let _ = jobs.send(Job { piece: Arc::clone(&piece), state, replies: sender });
            replies = Some(receiver);
        }
        let handed = Handed { piece, replies };
        if is_first {
            return self.begin(handed);
        }
        self.waiting.push_back(handed);
        if self.waiting.len() > self.ahead { self.advance() } else { ControlFlow::Continue(()) }
    }

    /// Takes the last piece, and puts out all that is left.
    fn finish(&mut self, last: StreamPiece) -> ControlFlow<()> {
        self.take(last)?;
        while !self.waiting.is_empty() {
            self.advance()?;
        }
        let Some(mut track) = self.track.take() else { return ControlFlow::Continue(()) };
        self.finish_own_bytes(&mut track)
    }

    /// Puts out what comes of the piece that the track is on, up to where the next one takes over.
    fn advance(&mut self) -> ControlFlow<()> {
        let Some(mut next) = self.waiting.pop_front() else { return ControlFlow::Continue(()) };
        let Some(mut track) = self.track.take() else { return ControlFlow::Break(()) };
        self.finish_own_bytes(&mut track)?;
        let mut ahead = next.replies.take().map(|replies| Ahead { replies, part: 0 });
        let mut last = None;
        while track.part < track.piece.parts() {
            let mark = self.part(&mut track)?;
            if let Some(ahead) = &mut ahead
                && let Some(other) = ahead.next_mark()
                && mark.meets(&other)
            {
                self.counts.add(&track.base, &mark.counts);
                self.in_vain = 0;
                self.track = Some(Track {
                    piece: next.piece,
                    part: ahead.part,
                    base: other.counts,
                    replies: Some(std::mem::replace(&mut ahead.replies, sync_channel(0).1)),
                });
                return ControlFlow::Continue(());
            }
            last = Some(mark);
        }
        self.in_vain += u32::from(ahead.is_some());
        drop(ahead);
        let Some(Mark { state, boundary, counts }) = last.map(|mark| *mark) else {
            return ControlFlow::Break(());
        };
        self.counts.add(&track.base, &counts);
        // All parts that were compared are done.
        let part = track.piece.own_end();
        if track.replies.is_some() {
            let Some(state) = state else { return ControlFlow::Break(()) };
            self.decoder.restore(track.piece.offset, &state);
            self.decoder.keep(&track.piece.all());
        }
        self.lane.go_on_at(boundary);
        let base = Counts::of(&mut self.decoder.stream);
        self.track = Some(Track { piece: next.piece, part, replies: None, base });
        ControlFlow::Continue(())
    }

    /// The first piece: a source says things at its beginning that it does not say again.
    fn begin(&mut self, Handed { piece, replies }: Handed<'m, S::Value>) -> ControlFlow<()> {
        let Some(Reply::Mark(mark)) = replies.as_ref().and_then(|replies| replies.recv().ok()) else {
            return ControlFlow::Break(());
        };
        let mut track = Track { piece, part: 0, replies, base: mark.counts };
        while track.part < track.piece.own_end() {
            self.known = self.part(&mut track)?.state.or_else(|| self.known.take());
        }
        self.track = Some(track);
        ControlFlow::Continue(())
    }

    /// Puts out the bytes that are the piece's own.
    fn finish_own_bytes(&mut self, track: &mut Track<'m, S::Value>) -> ControlFlow<()> {
        let mut last = None;
        while track.part <= track.piece.own_end() {
            last = Some(self.part(track)?);
        }
        if let Some(mark) = last {
            if track.piece.is_last {
                self.counts.add(&track.base, &mark.counts);
            }
            self.known = mark.state.or_else(|| self.known.take());
        }
        ControlFlow::Continue(())
    }

    /// Puts out the next part of a track.
    fn part(&mut self, track: &mut Track<'m, S::Value>) -> ControlFlow<(), Box<Mark>> {
        let part = track.part;
        track.part += 1;
        let Some(replies) = &track.replies else {
            let Self { decoder, lane, output, .. } = self;
            return match decode_part(&track.piece, part, decoder, lane, output) {
                ControlFlow::Continue(()) => ControlFlow::Continue(Box::new(Mark::of(decoder, lane, false))),
                ControlFlow::Break(()) => ControlFlow::Break(()),
            };
        };
        loop {
            match replies.recv() {
                Ok(Reply::Portion(portion)) => (self.output)(portion)?,
                Ok(Reply::Mark(mark)) => return ControlFlow::Continue(mark),
                // Its thread panicked.
                Err(_) => return ControlFlow::Break(()),
            }
        }
    }
}

/// A piece that was decoded ahead, up to where it takes over.
struct Ahead<'m, V> {
    replies: Receiver<Reply<'m, V>>,
    /// The next part.
    part: usize,
}

impl<V> Ahead<'_, V> {
    /// The end of its next part. What it gave before is not needed.
    fn next_mark(&mut self) -> Option<Box<Mark>> {
        // One more mark comes before the first part.
        let marks = if self.part == 0 { 2 } else { 1 };
        self.part += 1;
        let mut seen = 0;
        loop {
            if let Reply::Mark(mark) = self.replies.recv().ok()? {
                seen += 1;
                if seen == marks {
                    return Some(mark);
                }
            }
        }
    }
}
