//! The way to moments at which something holds: where an index says how often it did, the parts in which it did not are passed over, and
//! the others are looked at on several threads.

use std::ops::{ControlFlow, Range};

use super::find::{Finder, Hit, Wanted};
use super::index::SourceIndex;
use super::moment::{Moment, Window};
use super::reach::Moments;
use super::sums::Sought;
use crate::decode::{Decode, Execution};
use crate::{Result, Source, SourceCode};

/// Spans between points that are looked at by one thread at a time, at least.
const SPANS: usize = 8;

/// Stretches of a source of which nothing is counted.
const MOST_STRETCHES: usize = 1 << 12;

/// Moments that are kept for each thread: where there are more, one thread looks for them, and each is given as it is found.
const MOST_HITS: usize = 1 << 14;

/// A part of the execution.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: u64,
    /// `None`: to the end.
    to: Option<u64>,
    /// How often it held there, if that is known.
    times: Option<u64>,
}

impl Stretch {
    fn window(&self) -> Window {
        let from = (self.from > 0).then_some(Moment::Instruction(self.from));
        Window { from, to: self.to.map(Moment::Instruction) }
    }
}

impl<'c> Moments<'c> {
    /// Looks for moments in a window of a source, in their order, until the closure has enough. With an index, what is between
    /// its points is looked at on as many threads as the decode has.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn find(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
        window: Window,
        wanted: &Wanted,
        each: &mut dyn FnMut(&Hit) -> ControlFlow<()>,
    ) -> Result<()> {
        match self.stretches(source, window, wanted) {
            Some(stretches) => self.find_in(decode, source, &stretches, wanted, each),
            None => self.find_one_by_one(decode, source, window, wanted, each),
        }
    }

    /// The moment of that number in a window of a source; the first has number 1.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn find_nth(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
        window: Window,
        wanted: &Wanted,
        nth: u64,
    ) -> Result<Option<Hit>> {
        let stretches = self.stretches(source, window, wanted);
        let mut left = nth.max(1);
        let skipped = stretches.iter().flatten().take_while(|stretch| {
            let after = stretch.times.and_then(|times| left.checked_sub(times)).filter(|&after| after > 0);
            left = after.unwrap_or(left);
            after.is_some()
        });
        let skipped = skipped.count();
        let mut found = None;
        let mut look = |hit: &Hit| {
            left -= 1;
            if left > 0 {
                return ControlFlow::Continue(());
            }
            found = Some(hit.clone());
            ControlFlow::Break(())
        };
        match &stretches {
            Some(stretches) => self.find_in(decode, source, &stretches[skipped..], wanted, &mut look)?,
            None => self.find_one_by_one(decode, source, window, wanted, &mut look)?,
        }
        Ok(found)
    }

    /// How many of the moments are in a window of a source.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn count(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
        window: Window,
        wanted: &Wanted,
    ) -> Result<u64> {
        let mut found = 0;
        let mut look = |_: &Hit| {
            found += 1;
            ControlFlow::Continue(())
        };
        let Some(stretches) = self.stretches(source, window, wanted) else {
            self.find_one_by_one(decode, source, window, wanted, &mut look)?;
            return Ok(found);
        };
        let (known, unknown): (Vec<_>, Vec<_>) = stretches.into_iter().partition(|one| one.times.is_some());
        self.find_in(decode, source, &unknown, wanted, &mut look)?;
        Ok(found + known.iter().filter_map(|stretch| stretch.times).sum::<u64>())
    }

    /// The last of the moments in a window of a source. With an index, it is looked for from the end.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn find_last(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
        window: Window,
        wanted: &Wanted,
    ) -> Result<Option<Hit>> {
        let mut last = None;
        let mut look = |hit: &Hit| {
            last = Some(hit.clone());
            ControlFlow::Continue(())
        };
        let Some(stretches) = self.stretches(source, window, wanted) else {
            self.find_one_by_one(decode, source, window, wanted, &mut look)?;
            return Ok(last);
        };
        let mut left = stretches.into_iter().rev().filter(|stretch| stretch.times != Some(0));
        let threads = decode.thread_count();
        let mut together = 1;
        loop {
            let some: Vec<_> = left.by_ref().take(together).collect();
            if some.is_empty() {
                return Ok(None);
            }
            let look = |stretch: Stretch, _| {
                let mut last = None;
                self.find_one_by_one(decode, source, stretch.window(), wanted, &mut |hit| {
                    last = Some(hit.clone());
                    ControlFlow::Continue(())
                })?;
                Ok::<_, crate::Error>(last)
            };
            for looked in crate::decode::map(some, threads, look) {
                if let Some(last) = looked? {
                    return Ok(Some(last));
                }
            }
            together = threads;
        }
    }

    fn find_one_by_one(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
        window: Window,
        wanted: &Wanted,
        each: &mut dyn FnMut(&Hit) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut finder = Finder::new(wanted, self.capture().code()?.seen_by(source), each);
        self.take(decode.clone().positions(false), source, window, &mut finder)?;
        Ok(())
    }

    /// Looks at stretches in which it may have held, several at a time.
    fn find_in(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
        stretches: &[Stretch],
        wanted: &Wanted,
        each: &mut dyn FnMut(&Hit) -> ControlFlow<()>,
    ) -> Result<()> {
        let threads = decode.thread_count();
        let mut left = stretches.iter().filter(|stretch| stretch.times != Some(0)).copied();
        // Where one moment is wanted, it need not wait for many stretches.
        let mut together = 1;
        loop {
            let some: Vec<_> = left.by_ref().take(together).collect();
            if some.is_empty() {
                return Ok(());
            }
            let look = |stretch: Stretch, _| {
                let mut hits = Vec::new();
                if together > 1 {
                    self.find_one_by_one(decode, source, stretch.window(), wanted, &mut |hit| {
                        hits.push(hit.clone());
                        if hits.len() > MOST_HITS {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        }
                    })?;
                }
                Ok::<_, crate::Error>((stretch, hits))
            };
            for looked in crate::decode::map(some, threads, look) {
                let (stretch, hits) = looked?;
                let mut outcome = ControlFlow::Continue(());
                if together > 1 && hits.len() <= MOST_HITS {
                    outcome = hits.iter().try_for_each(&mut *each);
                } else {
                    self.find_one_by_one(decode, source, stretch.window(), wanted, &mut |hit| {
                        outcome = each(hit);
                        outcome
                    })?;
                }
                if outcome.is_break() {
                    return Ok(());
                }
            }
            together = if threads > 1 { 2 * threads } else { 1 };
        }
    }

    /// What is to be looked at in a window; `None` if that is not known from an index.
    fn stretches(&self, source: &Source, window: Window, wanted: &Wanted) -> Option<Vec<Stretch>> {
        let index = self.known_index()?.source(source).filter(|index| !index.is_tail)?;
        // A message may be put together from what was written long before.
        if matches!(wanted, Wanted::Messages(_)) {
            return None;
        }
        let end = index.end.instructions;
        let number = |moment: Moment| match moment {
            Moment::Instruction(number) => Some(number),
            Moment::BeforeEnd(number) => Some(end.saturating_sub(number)),
            _ => None,
        };
        let from = window.from.map_or(Some(0), number)?;
        let to = match window.to {
            None | Some(Moment::END) => None,
            Some(moment) => Some(number(moment)?),
        };
        let mut stretches = stretches_of(index, wanted, &self.capture().code().ok()?.seen_by(source));
        // At the edges of the window, only some of a stretch is in it.
        stretches.retain_mut(|stretch| {
            let whole = *stretch;
            stretch.from = stretch.from.max(from);
            stretch.to = match (stretch.to, to) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            if (stretch.from, stretch.to) != (whole.from, whole.to) {
                stretch.times = stretch.times.filter(|&times| times == 0);
            }
            stretch.to.is_none_or(|to| stretch.from < to)
        });
        Some(stretches)
    }
}

/// Stretches in which it may have held, with what is between them.
fn around(index: &SourceIndex, some: &[Range<u64>]) -> Vec<Stretch> {
    let spans = index.points.len().div_ceil(MOST_STRETCHES).max(SPANS);
    let edges = index.points.iter().step_by(spans).map(|point| point.place.instructions);
    let (mut stretches, mut from, mut edges) = (Vec::new(), 0, edges.peekable());
    for one in some {
        if from < one.start {
            stretches.push(Stretch { from, to: Some(one.start), times: Some(0) });
        }
        from = one.start;
        while let Some(to) = edges.next_if(|edge| *edge < one.end) {
            if to > from {
                stretches.push(Stretch { from, to: Some(to), times: None });
                from = to;
            }
        }
        stretches.push(Stretch { from, to: Some(one.end), times: None });
        from = one.end;
    }
    // What is reported at the end is no instruction.
    stretches.push(Stretch { from, to: None, times: Some(0) });
    stretches
}

/// Stretches of a whole source.
fn stretches_of(index: &SourceIndex, wanted: &Wanted, code: &SourceCode<'_>) -> Vec<Stretch> {
    let addresses = match wanted {
        Wanted::Addresses(addresses) => &addresses[..],
        Wanted::Functions { places, are_all_named: false } => &places[..],
        _ => &[],
    };
    if let [_, ..] = addresses
        && let Some(some) = index.stretches_with(&Sought { addresses, ..Sought::default() }, code)
    {
        return around(index, &some);
    }
    let (mut ends, last): (Vec<(u64, Option<u64>)>, _) = match index.sums.counter(wanted) {
        Some(count) => {
            let mut parts = index.sums.parts.iter().map(|part| (part.end, Some(count(&part.counts))));
            // The last goes on to the end, with what is reported there.
            let last = parts.next_back().and_then(|(_, times)| times);
            (parts.collect(), last)
        }
        None => {
            let spans = index.points.len().div_ceil(MOST_STRETCHES).max(SPANS);
            let some = index.points.iter().skip(spans).step_by(spans);
            (some.map(|point| (point.place.instructions, None)).collect(), None)
        }
    };
    // Points may come one after another without an instruction between them.
    ends.dedup_by_key(|end| end.0);
    let mut from = 0;
    let mut stretches: Vec<_> = ends
        .into_iter()
        .map(|(to, times)| Stretch { from: std::mem::replace(&mut from, to), to: Some(to), times })
        .collect();
    stretches.push(Stretch { from, to: None, times: last });
    stretches
}
