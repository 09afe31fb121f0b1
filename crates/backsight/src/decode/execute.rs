//! Decodes that give each source, or each part of one, a consumer of its own.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::consumer::{Consumer, Folded};
use super::item::Item;
use super::kind::Kind;
use super::lane::{BoxedLane, Lane, MakeLane, Outcomes, Pool, TextSink};
use super::pieces::{self, PieceOptions, Portion};
use super::session::{Order, Setup};
use super::source_decoder::Wanted;
use super::summary::{BufferSummary, Summary};
use super::{Decode, Spread, parallel};
use crate::{Buffer, Error, Result, Source};

/// What [`Decode::write`] gives.
#[derive(Debug)]
pub enum Written<'a> {
    /// A buffer begins.
    Buffer(&'a Buffer),
    /// More text.
    Text(&'a [u8]),
}

/// What is to be decoded, on how many threads, for whom.
pub struct Spreading<'c, 'l, 'm, K: Kind> {
    setup: Setup<'c, K>,
    threads: usize,
    lane: MakeLane<'l, 'm, K::Value>,
    output: TextSink<'l>,
}

/// What came of a buffer.
pub struct Executed {
    pub(super) summary: BufferSummary,
    /// A consumer has enough, or nobody wants more.
    pub(super) stopped: bool,
}

impl<'c, K: Kind> Decode<'c, K> {
    /// Decodes, each source with a state of its own, which `make` makes and `each` gives items to, on the thread of the
    /// source. Gives the states.
    ///
    /// ```
    /// let capture = backsight::Capture::open("captures/first")?;
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
    pub fn fold<S: Send>(
        self,
        make: impl Fn(&Source) -> S + Sync,
        each: impl Fn(&mut S, Item<'_, K::Value>) + Sync,
    ) -> Result<(Summary, Vec<(Source, S)>)> {
        self.folded(make, each, None::<fn(&mut S, S)>)
    }

    /// As [`Decode::fold`], but a source may have several states, each of which `each` gives a part of it to; `join` puts
    /// them together, in their order. So several cores share a single source.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn reduce<S: Send>(
        self,
        make: impl Fn(&Source) -> S + Sync,
        each: impl Fn(&mut S, Item<'_, K::Value>) + Sync,
        join: impl Fn(&mut S, S) + Sync,
    ) -> Result<(Summary, Vec<(Source, S)>)> {
        self.folded(make, each, Some(join))
    }

    fn folded<S: Send, J: Fn(&mut S, S) + Sync>(
        self,
        make: impl Fn(&Source) -> S + Sync,
        each: impl Fn(&mut S, Item<'_, K::Value>) + Sync,
        join: Option<J>,
    ) -> Result<(Summary, Vec<(Source, S)>)> {
        let make = |source: &Source| Folded { state: make(source), each: &each, join: join.as_ref() };
        let (summary, states) = self.consume(make)?;
        Ok((summary, states.into_iter().map(|(source, folded)| (source, folded.state)).collect()))
    }

    /// Decodes, each source with a consumer of its own, which `make` makes, on the thread of the source. Gives the consumers.
    /// Nothing is handed from thread to thread: this is the way to use many cores. Where consumers can be joined, several
    /// threads share a single source.
    ///
    /// ```
    /// use backsight::decode::Consumer;
    /// use backsight::{Event, Item};
    ///
    /// #[derive(Default)]
    /// struct Ranges(u64);
    ///
    /// impl Consumer<Event> for Ranges {
    ///     fn item(&mut self, item: Item<'_, Event>) {
    ///         self.0 += u64::from(matches!(item.value, Event::Range(_)));
    ///     }
    ///
    ///     fn can_join(&self) -> bool {
    ///         true
    ///     }
    ///
    ///     fn join(&mut self, later: Self) {
    ///         self.0 += later.0;
    ///     }
    /// }
    ///
    /// let capture = backsight::Capture::open("captures/first")?;
    /// let (_, counted) = capture.execution().threads(0).consume(|_source| Ranges::default())?;
    /// assert!(counted.iter().all(|(_, ranges)| ranges.0 > 0));
    /// # Ok::<(), backsight::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn consume<C: Consumer<K::Value> + Send>(
        self,
        make: impl Fn(&Source) -> C + Sync,
    ) -> Result<(Summary, Vec<(Source, C)>)> {
        let mut summary = self.empty_summary();
        let mut consumers = Vec::new();
        let make = |source: &Source| Some(make(source));
        let executed = parallel::map(self.setups()?, self.settings.threads, |setup, threads| {
            let wanted = Wanted { arrivals: false, ..setup.wanted };
            let setup = Setup { wanted, order: Order::Any, ..setup };
            let (pool, outcomes, buffer) = (Pool::default(), Outcomes::default(), setup.buffer);
            let lane = || Lane::new(&make, &pool, &outcomes, Some(buffer));
            let executed = self.execute((setup, threads), &lane, &mut |_| ControlFlow::Continue(()))?;
            let only = executed.summary.sources.first().map(|of| &of.source);
            let consumers = outcomes.into_consumers(only);
            Ok::<_, Error>((executed, consumers))
        });
        for executed in executed {
            let (executed, of_buffer) = executed?;
            summary.stopped |= executed.stopped;
            summary.buffers.push(executed.summary);
            consumers.extend(of_buffer.into_iter().map(|one| (one.source, one.consumer)));
        }
        Ok((summary, consumers))
    }

    /// Decodes, and lets a consumer of each source put what it gives into text, or other bytes: [`Consumer::text`]. The text comes
    /// to `output` in order.
    ///
    /// # Errors
    /// As [`Decode::run`]; and what `make` and `output` say.
    pub fn write<C, E>(
        self,
        make: impl Fn(&Source) -> Result<C, E> + Sync,
        mut output: impl FnMut(Written<'_>) -> Result<(), E>,
    ) -> Result<Summary, E>
    where
        C: Consumer<K::Value> + Send,
        E: From<Error> + Send,
    {
        let mut summary = self.empty_summary();
        let (failure, mut refusal, pool) = (Mutex::new(None), None, Pool::default());
        let make = |source: &Source| {
            let fail = |error| *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            make(source).map_err(fail).ok()
        };
        for setup in self.setups()? {
            output(Written::Buffer(setup.buffer))?;
            let mut hand_on = |text: Vec<u8>| {
                if refusal.is_some() {
                    return ControlFlow::Break(());
                }
                let written = output(Written::Text(&text));
                pool.give_back(text);
                refusal = written.err();
                if refusal.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            // Text names the ID that a source has at the moment.
            let outcomes = Outcomes::default();
            let lane = || Lane::new(&make, &pool, &outcomes, None);
            let executed = self.execute((setup, self.settings.threads), &lane, &mut hand_on)?;
            let failed = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(failure) = failed.or(refusal.take()) {
                return Err(failure);
            }
            summary.buffers.push(executed.summary);
            if executed.stopped {
                summary.stopped = true;
                break;
            }
        }
        Ok(summary)
    }

    /// Decodes a buffer, or a span of it, for consumers that `make` makes. Text goes to `output`.
    fn execute<'m, C: Consumer<K::Value> + Send + 'm>(
        &self,
        (setup, threads): (Setup<'c, K>, usize),
        lane: &(dyn Fn() -> Lane<'m, C> + Sync),
        output: TextSink<'_>,
    ) -> Result<Executed> {
        let lane = || -> BoxedLane<'m, K::Value> { Box::new(lane()) };
        K::spread(self, Spreading { setup, threads, lane: &lane, output })
    }

    /// Decodes on up to so many threads, each with a lane.
    pub(super) fn spread_out(&self, spreading: Spreading<'c, '_, '_, K>) -> Result<Executed> {
        let Spreading { setup, threads, lane, output } = spreading;
        let mut spread = self.spread(&setup, threads);
        if let Spread::Pieces(id) = spread
            && !setup.decoder(id).is_some_and(|decoder| lane().can_join(&decoder.source))
        {
            spread = Spread::None;
        }
        match spread {
            Spread::None => {
                let (mut lane, mut setup, mut outcome) = (lane(), Some(setup), None);
                let _ = lane.deliver(output, &mut |consumer| {
                    outcome = setup.take().map(|setup| self.here(setup, consumer));
                    ControlFlow::Continue(())
                });
                lane.end();
                let nothing = || Err(Error::misuse("there is nothing to decode"));
                let (summary, outcome) = outcome.unwrap_or_else(nothing)?;
                Ok(Executed { summary, stopped: outcome.is_break() })
            }
            Spread::Sources => parallel::run(&setup, threads, &mut self.reader(&setup), lane, output),
            Spread::Pieces(id) => {
                let options = PieceOptions { threads, size: self.piece() };
                let mut joiner = lane();
                let joins = setup.decoder(id).is_some_and(|decoder| joiner.begin_joining(&decoder.source));
                let mut output = |portion| match portion {
                    Portion::Text(text) if !joins => output(text),
                    Portion::Text(mut text) => match joiner.join_text(&text) {
                        Some(joined) if !joined.is_empty() => {
                            text.clear();
                            output(std::mem::replace(joined, text))
                        }
                        _ => ControlFlow::Continue(()),
                    },
                    Portion::Part(part) => part.join(),
                };
                pieces::run(&setup, id, options, &mut self.reader(&setup), lane, &mut output)
            }
        }
    }
}
