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

use super::consumers::{Consumer, Portions};
use super::kind::Kind;
use super::session::{Setup, buffer_summary, summaries_of};
use super::source_decoder::SourceDecoder;
use super::split::{Piece, Splitter};
use super::summary::{BufferSummary, SourceSummary};
use crate::{Result, Source};

/// Blocks that are taken apart before the first of them has to be done.
const BLOCKS_AHEAD: usize = 2;

/// Portions that may wait in the channel of a source.
const PORTIONS: usize = 4;

/// What a thread is asked to do.
enum Job<'c, K: Kind, C: Consumer<K::Value>> {
    /// Take care of another source.
    Source(TraceId, Box<Worker<'c, K, C>>),
    /// Decode more of one.
    Piece(TraceId, Piece),
    /// Finish one.
    Finish(TraceId),
}

/// What comes back from a source.
enum Reply<P> {
    Portion(P),
    /// All of what was asked for is done.
    Done,
}

/// A source on its thread.
struct Worker<'c, K: Kind, C: Consumer<K::Value>> {
    decoder: SourceDecoder<K::Stream<'c>>,
    consumer: C,
    replies: SyncSender<Reply<C::Portion>>,
}

impl<K: Kind, C: Consumer<K::Value>> Worker<'_, K, C> {
    /// Decodes; an error means that nobody wants the result any more.
    fn work(&mut self, piece: Option<&Piece>) -> ControlFlow<()> {
        let Self { decoder, consumer, replies } = self;
        // The same type as where pieces are decoded, so that decoders are compiled for both at once.
        let output: &mut dyn FnMut(C::Portion) -> ControlFlow<()> =
            &mut |portion| control(replies.send(Reply::Portion(portion)));
        let mut portions = Portions { consumer, output };
        match piece {
            Some(piece) => decoder.take_to(piece.part(), &mut portions)?,
            None => {
                decoder.finish_to(&mut portions)?;
                portions.consumer.finish();
            }
        }
        portions.flush()?;
        control(replies.send(Reply::Done))
    }
}

fn control<E>(sent: std::result::Result<(), E>) -> ControlFlow<()> {
    if sent.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Does what it is asked to, until nobody asks any more. Gives what came of its sources.
fn thread_of_sources<K: Kind, C: Consumer<K::Value>>(
    jobs: Receiver<Job<'_, K, C>>,
) -> Vec<(TraceId, SourceSummary)> {
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
    let summaries = |(id, mut worker): (TraceId, Box<Worker<'_, K, C>>)| {
        summaries_of::<K>(&mut worker.decoder).into_iter().map(move |summary| (id, summary))
    };
    workers.into_iter().flat_map(summaries).collect()
}

/// A thread that decodes some of the sources, and what they come to.
type Worked<'scope> = ScopedJoinHandle<'scope, Vec<(TraceId, SourceSummary)>>;

/// A thread's number, and what comes back from a source that it decodes.
type Replies<P> = (usize, Receiver<Reply<P>>);

/// Takes blocks of a buffer.
pub(super) type BlockSink<'a> = &'a mut (dyn FnMut(&[u8]) -> ControlFlow<()> + 'a);

/// The calling thread's side.
struct Threads<'c, 'scope, 'env, K: Kind, C: Consumer<K::Value>> {
    scope: &'scope Scope<'scope, 'env>,
    /// As many as there are sources, at most `most`: a buffer without sources starts none.
    threads: Vec<(Sender<Job<'c, K, C>>, Worked<'scope>)>,
    most: usize,
    /// The thread of each source, and what comes back from it.
    sources: BTreeMap<TraceId, Replies<C::Portion>>,
    /// The sources that are busy with each block that is not done.
    ahead: VecDeque<Vec<TraceId>>,
}

impl<'c, 'scope, 'env, K: Kind, C: Consumer<K::Value> + 'c> Threads<'c, 'scope, 'env, K, C>
where
    'c: 'scope,
    C: 'scope,
{
    fn new(scope: &'scope Scope<'scope, 'env>, most: usize) -> Self {
        let most = most.max(1);
        Self { scope, threads: Vec::new(), most, sources: BTreeMap::new(), ahead: VecDeque::new() }
    }

    fn add(&mut self, id: TraceId, decoder: SourceDecoder<K::Stream<'c>>, consumer: C) {
        let thread = self.sources.len() % self.most;
        if thread == self.threads.len() {
            let (sender, receiver) = channel();
            self.threads.push((sender, self.scope.spawn(move || thread_of_sources::<K, C>(receiver))));
        }
        let (replies, receiver) = sync_channel(PORTIONS);
        self.sources.insert(id, (thread, receiver));
        self.ask(id, Job::Source(id, Box::new(Worker { decoder, consumer, replies })));
    }

    /// A thread that has ended was told to.
    fn ask(&self, id: TraceId, job: Job<'c, K, C>) {
        let thread = self.sources.get(&id).and_then(|(thread, _)| self.threads.get(*thread));
        if let Some((jobs, _)) = thread {
            let _ = jobs.send(job);
        }
    }

    /// Hands on what comes of the oldest block.
    fn drain(&mut self, output: &mut impl FnMut(C::Portion) -> ControlFlow<()>) -> ControlFlow<()> {
        for id in self.ahead.pop_front().unwrap_or_default() {
            let Some((_, replies)) = self.sources.get(&id) else { continue };
            while let Ok(Reply::Portion(portion)) = replies.recv() {
                output(portion)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Lets the threads end, and gives what came of their sources, by ID.
    fn end(self) -> Vec<SourceSummary> {
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
        all.sort_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, summary)| summary).collect()
    }
}

/// Decodes a buffer on up to so many threads. `make` makes the consumer of a source; `output` gets the portions in order.
pub(super) fn run<'c, K, C, E>(
    setup: &Setup<'c, K>,
    threads: usize,
    read: &mut dyn FnMut(BlockSink<'_>) -> Result,
    make: &mut dyn FnMut(&Source) -> std::result::Result<C, E>,
    output: &mut impl FnMut(C::Portion) -> ControlFlow<()>,
) -> std::result::Result<(BufferSummary, ControlFlow<()>), E>
where
    K: Kind,
    C: Consumer<K::Value>,
    E: From<crate::Error>,
{
    let mut splitter = Splitter::new(setup.buffer, setup.wanted);
    let mut undecoded = Vec::new();
    let mut failure = None;
    let (sources, outcome) = std::thread::scope(|scope| {
        let mut pool: Threads<'_, '_, '_, K, C> = Threads::new(scope, threads);
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
                match make(&decoder.source) {
                    Ok(consumer) => pool.add(id, decoder, consumer),
                    Err(error) => failure = Some(error),
                }
                true
            });
            if failure.is_some() {
                outcome = ControlFlow::Break(());
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
        if let Err(error) = reading {
            failure = Some(error.into());
            outcome = ControlFlow::Break(());
        }
        splitter.restart();
        if outcome.is_continue() {
            let all: Vec<_> = pool.sources.keys().copied().collect();
            all.iter().for_each(|&id| pool.ask(id, Job::Finish(id)));
            pool.ahead.push_back(all);
            while outcome.is_continue() && !pool.ahead.is_empty() {
                outcome = pool.drain(output);
            }
        }
        (pool.end(), outcome)
    });
    match failure {
        Some(error) => Err(error),
        None => Ok((buffer_summary(setup, &splitter, sources, &undecoded), outcome)),
    }
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
