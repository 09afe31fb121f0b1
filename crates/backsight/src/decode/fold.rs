//! Decodes that give each source, or each piece of one, a state of its own.

use std::ops::ControlFlow;

use super::consumers::PieceState;
use super::item::{Accumulate, Folded, Item};
use super::kind::Kind;
use super::session::{Session, States};
use super::summary::{SourceSummary, Summary};
use super::{Decode, Spread, parallel, pieces};
use crate::{Error, Result, Source};

impl<'c, K: Kind> Decode<'c, K> {
    /// Decodes, each source with a state of its own, which `make` makes and `each` gives items to, on the thread of the
    /// source. Gives the states. Nothing is handed from thread to thread: this is the way to use many cores.
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
    pub fn fold<T: Send>(
        self,
        make: impl Fn(&Source) -> T + Sync,
        each: impl Fn(&mut T, Item<'_, K::Value>) + Sync,
    ) -> Result<(Summary, Vec<(Source, T)>)> {
        let make = |source: &Source| Folded { state: make(source), each: &each };
        let (summary, states) = self.accumulate(make)?;
        Ok((summary, of_closures(states)))
    }

    /// As [`Decode::fold`], with states that take items themselves, and paths of execution that were walked before as what
    /// they are: this is the fastest way to count.
    ///
    /// ```
    /// use backsight::decode::Accumulate;
    /// use backsight::{Event, Item};
    ///
    /// #[derive(Default)]
    /// struct Ranges(u64);
    ///
    /// impl Accumulate<Event> for Ranges {
    ///     fn item(&mut self, item: Item<'_, Event>) {
    ///         self.0 += u64::from(matches!(item.value, Event::Range(_)));
    ///     }
    /// }
    ///
    /// let capture = backsight::Capture::open("captures/first")?;
    /// let (_, counted) = capture.execution().accumulate(|_source| Ranges::default())?;
    /// assert!(counted.iter().all(|(_, ranges)| ranges.0 > 0));
    /// # Ok::<(), backsight::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn accumulate<T: Accumulate<K::Value> + Send>(
        self,
        make: impl Fn(&Source) -> T + Sync,
    ) -> Result<(Summary, Vec<(Source, T)>)> {
        let mut summary = self.empty_summary();
        let mut states = Vec::new();
        let buffers = parallel::map(self.setups()?, self.settings.threads, |setup, threads| {
            let buffer = setup.buffer;
            let (mut session, mut states) = (Session::new(setup), States::default());
            self.blocks(buffer, true, &mut |block| {
                session.accumulate(block, threads, &mut states, &make);
                ControlFlow::Continue(())
            })?;
            session.finish_accumulated(&mut states);
            Ok::<_, Error>((session.buffer_summary(), states))
        });
        for result in buffers {
            let (of_buffer, of_sources) = result?;
            summary.buffers.push(of_buffer);
            states.extend(of_sources.0.into_values());
        }
        Ok((summary, states))
    }

    /// As [`Decode::fold`], but a source may have several states, each of which `each` gives a piece of it to; `merge` puts
    /// them together, in their order. This is the way to use many cores for a single source.
    ///
    /// ```
    /// let capture = backsight::Capture::open("captures/first")?;
    /// let (_, instructions) = capture.execution().threads(0).reduce(
    ///     |_source| 0_u64,
    ///     |sum, item| {
    ///         if let backsight::Event::Range(range) = item.value {
    ///             *sum += u64::from(range.instructions);
    ///         }
    ///     },
    ///     |sum, later| *sum += later,
    /// )?;
    /// for (source, instructions) in instructions {
    ///     println!("{}: {instructions} instructions", source.name());
    /// }
    /// # Ok::<(), backsight::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn reduce<T: Send>(
        self,
        make: impl Fn(&Source) -> T + Sync,
        each: impl Fn(&mut T, Item<'_, K::Value>) + Sync,
        merge: impl Fn(&mut T, T),
    ) -> Result<(Summary, Vec<(Source, T)>)> {
        let make = |source: &Source| Folded { state: make(source), each: &each };
        let (summary, states) =
            self.accumulate_and_merge(make, |sum, later| merge(&mut sum.state, later.state))?;
        Ok((summary, of_closures(states)))
    }

    /// As [`Decode::reduce`], with states that take items themselves, and paths of execution that were walked before as what
    /// they are: [`Decode::accumulate`] for a single source on many cores.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn accumulate_and_merge<T: Accumulate<K::Value> + Send>(
        self,
        make: impl Fn(&Source) -> T + Sync,
        merge: impl Fn(&mut T, T),
    ) -> Result<(Summary, Vec<(Source, T)>)> {
        let setups = self.setups()?;
        let only: Option<Vec<_>> = setups
            .iter()
            .map(|setup| match self.spread(setup) {
                Spread::Pieces(id) => Some(id),
                Spread::None | Spread::Sources => None,
            })
            .collect();
        let Some(ids) = only else { return self.accumulate(make) };
        let (mut summary, mut states) = (self.empty_summary(), Vec::new());
        for (setup, id) in setups.iter().zip(ids) {
            let make = &make;
            let mut new = |source: &Source| {
                Ok::<_, Error>(PieceState {
                    source: source.clone(),
                    make,
                    state: None,
                    window: None,
                    boundary: None,
                })
            };
            let mut sum = None;
            let mut output = |state: T| {
                match &mut sum {
                    Some(sum) => merge(sum, state),
                    None => sum = Some(state),
                }
                ControlFlow::Continue(())
            };
            let (of_buffer, _) =
                pieces::run(setup, id, self.piece_options(), &mut self.reader(setup), &mut new, &mut output)?;
            let with_state = |one: &SourceSummary| {
                let state = sum.take().unwrap_or_else(|| make(&one.source));
                (one.source.clone(), state)
            };
            states.extend(of_buffer.sources.iter().map(with_state));
            summary.buffers.push(of_buffer);
        }
        Ok((summary, states))
    }
}

/// The states that closures gave items to.
fn of_closures<S, E>(states: Vec<(Source, Folded<'_, S, E>)>) -> Vec<(Source, S)> {
    states.into_iter().map(|(source, folded)| (source, folded.state)).collect()
}
