//! Code that changes: which mapping was at an address, in a process, at a time.
//!
//! Everything that was ever mapped is kept with the time from which and up to which it was there. What is mapped later
//! hides what is below it for as long as it lives. Times are those of whoever asks; they are only compared.

use std::collections::BTreeMap;

/// Versions that are kept at most, all spans together.
const MOST_VERSIONS: usize = 1 << 23;

/// Something that was mapped, for [`Timeline::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappingId(u32);

impl MappingId {
    /// Mappings are numbered in the order in which they were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Something is there, up to this last address at least.
    Mapped {
        /// What it is.
        id: MappingId,
        /// The last address.
        last: u64,
    },
    /// Something may be there: changes were lost.
    Unknown,
    /// Nothing is there.
    Nothing,
}

/// What a piece of trace says of time: all of it happened in this span, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Not before this.
    pub from: u64,
    /// Not after this.
    pub to: u64,
}

/// At a time, memory of a process changed: what was remembered of it is to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedChange {
    /// When.
    pub time: u64,
    /// In which process; 0: in all.
    pub process: u32,
    /// The first address.
    pub start: u64,
    /// The last address.
    pub last: u64,
}

#[derive(Clone, Debug)]
struct Version {
    from: u64,
    /// The time from which on it is not there any more.
    to: u64,
    id: MappingId,
}

/// Addresses that were always mapped together.
#[derive(Clone, Debug)]
struct Span {
    last: u64,
    /// By the time from which on they are there.
    versions: Vec<Version>,
    /// The last time at which something ended here.
    ended: u64,
}

/// Code over time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// By process, then by the first address of spans, which do not overlap.
    processes: BTreeMap<u32, BTreeMap<u64, Span>>,
    changes: Vec<TimedChange>,
    /// When changes were lost, in order.
    losses: Vec<u64>,
    mappings: u32,
    versions: usize,
    is_full: bool,
}

impl Timeline {
    /// From `from` on, something is at `start` to `last` in a process; 0: in all of them.
    pub fn map(&mut self, process: u32, (start, last): (u64, u64), from: u64) -> MappingId {
        let id = self.keep(process, (start, last), from);
        if start <= last {
            self.changed(from, process, start, last);
        }
        id
    }

    /// The same of what is known from before the time that this timeline is of: that is no change.
    pub fn keep(&mut self, process: u32, (start, last): (u64, u64), from: u64) -> MappingId {
        let id = MappingId(self.mappings);
        self.mappings = self.mappings.saturating_add(1);
        if start > last {
            return id;
        }
        let spans = self.processes.entry(process).or_default();
        if self.versions >= MOST_VERSIONS {
            self.is_full = true;
            return id;
        }
        self.versions += split(spans, start);
        if let Some(after) = last.checked_add(1) {
            self.versions += split(spans, after);
        }
        fill(spans, start, last);
        for span in spans.range_mut(start..=last).map(|(_, span)| span) {
            if self.versions >= MOST_VERSIONS {
                self.is_full = true;
                break;
            }
            self.versions += 1;
            let index = span.versions.partition_point(|version| version.from <= from);
            span.versions.insert(index, Version { from, to: u64::MAX, id });
        }
        id
    }

    /// What was mapped in a range is not there any more from a time on.
    pub fn end(&mut self, process: u32, (start, last): (u64, u64), id: MappingId, at: u64) {
        let Some(spans) = self.processes.get_mut(&process).filter(|_| start <= last) else { return };
        for span in spans.range_mut(start..=last).map(|(_, span)| span) {
            // What ends is nearly always new.
            let mut versions = span.versions.iter_mut().rev();
            if let Some(version) = versions.find(|version| version.id == id) {
                version.to = at;
            }
            span.ended = span.ended.max(at);
        }
        self.changed(at, process, start, last);
    }

    /// What was mapped in a range was never there after all.
    pub fn withdraw(&mut self, process: u32, (start, last): (u64, u64), id: MappingId) {
        let Some(spans) = self.processes.get_mut(&process).filter(|_| start <= last) else { return };
        for span in spans.range_mut(start..=last).map(|(_, span)| span) {
            let before = span.versions.len();
            span.versions.retain(|version| version.id != id);
            self.versions -= before - span.versions.len();
        }
    }

    /// From this time on, up to the next change that is known, others were lost: where nothing is known to be, something may
    /// have been.
    pub fn lose(&mut self, time: u64) {
        self.losses.push(time);
    }

    fn changed(&mut self, time: u64, process: u32, start: u64, last: u64) {
        if time > 0 {
            self.changes.push(TimedChange { time, process, start, last });
        }
    }

    /// Nothing more is added: changes are put in order.
    pub fn finish(&mut self) {
        self.changes.sort_by_key(|change| change.time);
    }

    /// All changes by time. [`Timeline::finish`] comes first.
    pub fn changes(&self) -> &[TimedChange] {
        &self.changes
    }

    /// The processes that have something of their own.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.processes.keys().copied()
    }

    /// The first address above this one where anything was ever mapped in a process.
    pub fn next_start(&self, process: u32, address: u64) -> Option<u64> {
        let above = address.checked_add(1)?;
        self.processes.get(&process)?.range(above..).next().map(|(&start, _)| start)
    }

    /// The last time at which something ended anywhere in a range of a process; 0: never.
    pub fn last_end(&self, process: u32, (start, last): (u64, u64)) -> u64 {
        let Some(spans) = self.processes.get(&process).filter(|_| start <= last) else { return 0 };
        let before = spans.range(..start).next_back().filter(|(_, span)| span.last >= start);
        before.into_iter().chain(spans.range(start..=last)).map(|(_, span)| span.ended).max().unwrap_or(0)
    }

    /// There was more than can be kept.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// What is at an address of a process, 0: of all of them, in a span of time. What was there when it began counts; where
    /// nothing was, what came first, unless changes were lost before that.
    pub fn look(&self, process: u32, address: u64, window: Window) -> Lookup {
        let Some(span) = self.span(process, address) else { return Lookup::Nothing };
        match span.at(window, &self.losses) {
            Ok(Some(version)) => Lookup::Mapped { id: version.id, last: span.last },
            Ok(None) => Lookup::Nothing,
            Err(Lost) => Lookup::Unknown,
        }
    }

    /// The span that an address is in.
    fn span(&self, process: u32, address: u64) -> Option<&Span> {
        let (_, span) = self.processes.get(&process)?.range(..=address).next_back()?;
        (address <= span.last).then_some(span)
    }
}

/// Changes were lost: nobody knows what was there.
struct Lost;

impl Span {
    fn at(&self, window: Window, losses: &[u64]) -> Result<Option<&Version>, Lost> {
        let begun = self.versions.partition_point(|version| version.from <= window.from);
        let (before, after) = self.versions.split_at(begun);
        if let Some(live) = before.iter().rev().find(|version| window.from < version.to) {
            return Ok(Some(live));
        }
        let next = after.iter().find(|version| version.from <= window.to);
        let ended = before.iter().map(|version| version.to).max().unwrap_or(0);
        match next {
            Some(next) if is_any_between(losses, ended, next.from) => Err(Lost),
            next => Ok(next),
        }
    }
}

/// Is one of these times, which are in order, in a span?
fn is_any_between(times: &[u64], from: u64, to: u64) -> bool {
    let first = times.partition_point(|&time| time < from);
    times.get(first).is_some_and(|&time| time <= to)
}

/// Makes a span begin at an address, if one reaches over it. Gives how many versions that adds.
fn split(spans: &mut BTreeMap<u64, Span>, address: u64) -> usize {
    let Some((_, span)) = spans.range_mut(..address).next_back() else { return 0 };
    if span.last < address {
        return 0;
    }
    let upper = span.clone();
    span.last = address - 1;
    let added = upper.versions.len();
    spans.insert(address, upper);
    added
}

/// Makes every address of a range part of a span.
fn fill(spans: &mut BTreeMap<u64, Span>, start: u64, last: u64) {
    let (mut at, mut holes) = (Some(start), Vec::new());
    for (&address, span) in spans.range(start..=last) {
        if let Some(from) = at.filter(|&from| from < address) {
            holes.push((from, address - 1));
        }
        at = span.last.checked_add(1);
    }
    holes.extend(at.filter(|&from| from <= last).map(|from| (from, last)));
    spans.extend(
        holes.into_iter().map(|(start, last)| (start, Span { last, versions: Vec::new(), ended: 0 })),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(timeline: &Timeline, process: u32, address: u64, time: u64) -> Option<MappingId> {
        match timeline.look(process, address, Window { from: time, to: time }) {
            Lookup::Mapped { id, .. } => Some(id),
            _ => None,
        }
    }

    #[test]
    fn what_is_mapped_later_hides_what_is_below_while_it_lives() {
        let mut timeline = Timeline::default();
        let below = Some(timeline.map(1, (0x1000, 0x1FFF), 0));
        let patch = timeline.map(1, (0x1800, 0x1803), 50);
        timeline.end(1, (0x1800, 0x1803), patch, 90);
        let at = |address, time| look(&timeline, 1, address, time);
        assert_eq!(
            [at(0x1800, 49), at(0x1800, 50), at(0x1803, 89), at(0x1800, 90)],
            [below, Some(patch), Some(patch), below]
        );
        assert_eq!([at(0x17FF, 60), at(0x1804, 60), at(0x2000, 60)], [below, below, None]);
        let rest = timeline.look(1, 0x1804, Window { from: 60, to: 60 });
        assert!(matches!(rest, Lookup::Mapped { last: 0x1FFF, .. }), "{rest:?}");
        let before = timeline.look(1, 0x17F0, Window { from: 60, to: 60 });
        assert!(matches!(before, Lookup::Mapped { last: 0x17FF, .. }), "{before:?}");
    }

    #[test]
    fn processes_do_not_see_each_other() {
        let mut timeline = Timeline::default();
        let (one, two) = (timeline.map(1, (0, 9), 0), timeline.map(2, (0, 9), 0));
        let seen = [1, 2, 3].map(|process| look(&timeline, process, 5, 0));
        assert_eq!(seen, [Some(one), Some(two), None]);
    }

    #[test]
    fn where_nothing_was_what_comes_within_the_window_counts() {
        let mut timeline = Timeline::default();
        timeline.map(1, (0, 9), 100);
        let look = |from, to| timeline.look(1, 0, Window { from, to }) != Lookup::Nothing;
        assert!(!look(50, 99) && look(50, 100) && look(100, 100));
    }

    #[test]
    fn where_changes_were_lost_nothing_is_taken_from_later() {
        let mut timeline = Timeline::default();
        let first = timeline.map(1, (0, 9), 10);
        timeline.end(1, (0, 9), first, 20);
        timeline.lose(30);
        timeline.map(1, (0, 9), 40);
        let look = |from, to| timeline.look(1, 0, Window { from, to });
        assert_eq!(look(32, 50), Lookup::Unknown, "something else may have been there meanwhile");
        assert_eq!(look(25, 50), Lookup::Unknown);
        assert!(
            matches!(look(5, 10), Lookup::Mapped { .. }) && matches!(look(40, 40), Lookup::Mapped { .. })
        );
        assert_eq!(look(20, 25), Lookup::Nothing);
    }

    #[test]
    fn mappings_reach_to_the_end_of_memory() {
        let mut timeline = Timeline::default();
        let top = timeline.map(0, (u64::MAX - 7, u64::MAX), 0);
        assert_eq!(look(&timeline, 0, u64::MAX, 0), Some(top));
        assert_eq!(look(&timeline, 0, u64::MAX - 8, 0), None);
    }

    #[test]
    fn changes_come_in_the_order_of_time() {
        let mut timeline = Timeline::default();
        let one = timeline.map(1, (0, 9), 30);
        timeline.map(1, (5, 19), 10);
        timeline.end(1, (0, 9), one, 40);
        timeline.map(1, (0, 3), 0);
        timeline.finish();
        let times: Vec<u64> = timeline.changes().iter().map(|change| change.time).collect();
        assert_eq!(times, [10, 30, 40], "what was always there is no change");
    }
}
