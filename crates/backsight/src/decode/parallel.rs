//! Several sources on several threads, with what they give in the order of a single one.
//!
//! The calling thread reads blocks and takes them apart; each source is decoded on a thread, and what it gives comes back
//! through a channel of its own, which is bounded: a few bytes of trace may stand for millions of instructions, and a
//! source whose channel is full waits until it is its turn. Channels are emptied in the order in which a single thread
//! would have decoded: block by block, in each block by trace ID.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

use backsight_core::TraceId;

use super::consumer::AnyConsumer;
use super::execute::Executed;
use super::kind::Kind;
use super::lane::{BoxedLane, MakeLane, TextSink};
use super::session::{Setup, buffer_summary, summaries_of};
use super::source_decoder::SourceDecoder;
use super::split::{Piece, Splitter};
use super::summary::SourceSummary;
use crate::Result;

/// Blocks that are taken apart before the first of them has to be done.
const BLOCKS_AHEAD: usize = 2;

/// Portions of text that may wait in the channel of a source.
const PORTIONS: usize = 4;

/// What a thread is asked to do.
enum Job<'c, 'm, K: Kind> {
    /// Take care of another source.
    Source(TraceId, Box<Worker<'c, 'm, K>>),
    /// Decode more of one.
    Piece(TraceId, Piece),
    /// Finish one.
    Finish(TraceId),
}

/// What comes back from a source.
enum Reply {
    Text(Vec<u8>),
    /// All of what was asked for is done.
    Done,
}

/// A source on its thread.
struct Worker<'c, 'm, K: Kind> {
    decoder: SourceDecoder<K::Stream<'c>>,
    lane: BoxedLane<'m, K::Value>,
    replies: SyncSender<Reply>,
    /// Its consumer has enough.
    is_over: bool,
}

impl<K: Kind> Worker<'_, '_, K> {
    /// Decodes; a break means that nobody wants the result any more.
    fn work(&mut self, piece: Option<&Piece>) -> ControlFlow<()> {
        let Self { decoder, lane, replies, is_over } = self;
        let mut output = |text| control(replies.send(Reply::Text(text)));
        let mut decode = |consumer: &mut dyn AnyConsumer<K::Value>| match piece {
            Some(piece) => decoder.take(piece.part(), consumer),
            None => {
                decoder.finish(consumer)?;
                consumer.finish();
                ControlFlow::Continue(())
            }
        };
        *is_over = *is_over || lane.deliver(&mut output, &mut decode).is_break();
        control(replies.send(Reply::Done))
    }
}

fn control<E>(sent: std::result::Result<(), E>) -> ControlFlow<()> {
    if sent.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// What became of a source on a thread.
struct Done {
    id: TraceId,
    summaries: Vec<SourceSummary>,
    has_enough: bool,
}

/// Does what it is asked to, until nobody asks any more. Gives what came of its sources.
fn thread_of_sources<K: Kind>(jobs: Receiver<Job<'_, '_, K>>) -> Vec<Done> {
    let mut workers = BTreeMap::new();
    for job in jobs {
        let outcome = match job {
            Job::Source(id, worker) => {
                workers.insert(id, worker);
                continue;
            }
            Job::Piece(id, piece) => workers.get_mut(&id).map(|worker| worker.work(Some(&piece))),
            Job::Finish(id) => workers.get_mut(&id).map(|worker| worker.work(None)),
        };
        if outcome.is_some_and(|outcome| outcome.is_break()) {
            break;
        }
    }
    let done = |(id, worker): (TraceId, Box<Worker<'_, '_, K>>)| {
        let Worker { mut decoder, lane, is_over: has_enough, .. } = *worker;
        lane.end();
        Done { id, summaries: summaries_of::<K>(&mut decoder), has_enough }
    };
    workers.into_iter().map(done).collect()
}

/// A thread that decodes some of the sources: what it is asked to do, and what comes of that.
type Thread<'c, 'scope, 'm, K> = (Sender<Job<'c, 'm, K>>, ScopedJoinHandle<'scope, Vec<Done>>);

/// Takes blocks of a buffer.
pub(super) type BlockSink<'a> = &'a mut (dyn FnMut(&[u8]) -> ControlFlow<()> + 'a);

/// Reads the blocks of a buffer.
pub(super) type Read<'a> = &'a mut dyn FnMut(BlockSink<'_>) -> Result;

/// The calling thread's side.
struct Threads<'c, 'scope, 'env, 'm, K: Kind> {
    scope: &'scope Scope<'scope, 'env>,
    /// As many as there are sources, at most `most`: a buffer without sources starts none.
    threads: Vec<Thread<'c, 'scope, 'm, K>>,
    most: usize,
    /// The number of the thread of each source, and what comes back from it.
    sources: BTreeMap<TraceId, (usize, Receiver<Reply>)>,
    /// The sources that are busy with each block that is not done.
    ahead: VecDeque<Vec<TraceId>>,
}

impl<'c, 'scope, 'env, 'm, K: Kind> Threads<'c, 'scope, 'env, 'm, K>
where
    'c: 'scope,
    'm: 'scope,
{
    fn new(scope: &'scope Scope<'scope, 'env>, most: usize) -> Self {
        let most = most.max(1);
        Self { scope, threads: Vec::new(), most, sources: BTreeMap::new(), ahead: VecDeque::new() }
    }

    fn add(&mut self, id: TraceId, decoder: SourceDecoder<K::Stream<'c>>, lane: BoxedLane<'m, K::Value>) {
        let thread = self.sources.len() % self.most;
        if thread == self.threads.len() {
            let (sender, receiver) = channel();
            self.threads.push((sender, self.scope.spawn(move || thread_of_sources::<K>(receiver))));
        }
        let (replies, receiver) = sync_channel(PORTIONS);
        self.sources.insert(id, (thread, receiver));
        self.ask(id, Job::Source(id, Box::new(Worker { decoder, lane, replies, is_over: false })));
    }

    /// A thread that has ended was told to.
    fn ask(&self, id: TraceId, job: Job<'c, 'm, K>) {
        let thread = self.sources.get(&id).and_then(|(thread, _)| self.threads.get(*thread));
        if let Some((jobs, _)) = thread {
            let _ = jobs.send(job);
        }
    }

    /// Hands on what comes of the oldest block.
    fn drain(&mut self, output: TextSink<'_>) -> ControlFlow<()> {
        for id in self.ahead.pop_front().unwrap_or_default() {
            let Some((_, replies)) = self.sources.get(&id) else { continue };
            while let Ok(Reply::Text(text)) = replies.recv() {
                output(text)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Lets the threads end, and gives what came of their sources, by ID.
    fn end(self) -> Vec<Done> {
        // Who still waits for room in a channel is let go.
        drop(self.sources);
        let (senders, handles): (Vec<_>, Vec<_>) = self.threads.into_iter().unzip();
        drop(senders);
        let mut all = Vec::new();
        for handle in handles {
            match handle.join() {
                Ok(some) => all.extend(some),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all.sort_by_key(|done| done.id);
        all
    }
}

/// Decodes a buffer on up to so many threads. `lane` makes the consumers of a source; `output` gets text in order.
pub(super) fn run<'c, 'm, K: Kind>(
    setup: &Setup<'c, K>,
    threads: usize,
    read: Read<'_>,
    lane: MakeLane<'_, 'm, K::Value>,
    output: TextSink<'_>,
) -> Result<Executed> {
    let mut splitter = Splitter::new(setup.buffer, setup.wanted);
    let mut undecoded = Vec::new();
    let (done, reading, outcome) = std::thread::scope(|scope| {
        let mut pool: Threads<'c, '_, '_, 'm, K> = Threads::new(scope, threads);
        let mut outcome = ControlFlow::Continue(());
        let reading = read(&mut |block| {
            splitter.feed(block, &mut |id| {
                if !setup.wants(id) {
                    return false;
                }
                let Some(decoder) = setup.decoder(id) else {
                    undecoded.push(id);
                    return false;
                };
                // Here, so that a failure comes before any text of the block.
                let mut lane = lane();
                match lane.begin(&decoder.source) {
                    true => pool.add(id, decoder, lane),
                    false => outcome = ControlFlow::Break(()),
                }
                true
            });
            if outcome.is_break() {
                return outcome;
            }
            let mut busy = Vec::new();
            for (id, piece) in splitter.gathered() {
                pool.ask(id, Job::Piece(id, std::mem::take(piece)));
                busy.push(id);
            }
            pool.ahead.push_back(busy);
            if pool.ahead.len() > BLOCKS_AHEAD {
                outcome = pool.drain(output);
            }
            outcome
        });
        splitter.restart();
        if outcome.is_continue() && reading.is_ok() {
            let all: Vec<_> = pool.sources.keys().copied().collect();
            all.iter().for_each(|&id| pool.ask(id, Job::Finish(id)));
            pool.ahead.push_back(all);
            while outcome.is_continue() && !pool.ahead.is_empty() {
                outcome = pool.drain(output);
            }
        }
        (pool.end(), reading, outcome)
    });
    reading?;
    let (mut sources, mut stopped) = (Vec::new(), outcome.is_break());
    for one in done {
        sources.extend(one.summaries);
        stopped |= one.has_enough;
    }
    Ok(Executed { summary: buffer_summary(setup, &splitter, sources, &undecoded), stopped })
}

/// Does some work for each of several things, on up to so many threads, and gives the results in order. Each piece of
/// work may use the threads that are left over.
pub(crate) fn map<T, R>(things: Vec<T>, threads: usize, work: impl Fn(T, usize) -> R + Sync) -> Vec<R>
where
    T: Send,
    R: Send,
{
    if threads < 2 || things.len() < 2 {
        return things.into_iter().map(|thing| work(thing, threads)).collect();
    }
    let share = (threads / things.len()).max(1);
    let count = threads.min(things.len());
    let queue = Mutex::new(things.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let one = || {
            let mut done = Vec::new();
            while let Some((number, thing)) = next() {
                done.push((number, work(thing, share)));
            }
            done
        };
        let handles: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
        let joined = handles.into_iter().map(|handle| match handle.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
