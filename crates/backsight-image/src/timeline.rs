//! Code that changes: which mapping was at an address, in a process, at a time.
//!
//! Everything that was ever mapped is kept with the time from which and up to which it was there. What is mapped later
//! hides what is below it for as long as it lives. Times are those of the event log; they are only compared.

use crate::SortedMap;

/// Versions that are kept of any timeline, and for each mapping of it: mappings inside of each other would be as many as
/// their number multiplied with itself.
const LEAST_VERSIONS: usize = 1 << 20;
const VERSIONS_OF_A_MAPPING: usize = 16;

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
    versions: Versions,
}

/// There may be as many spans as lines of a log: memory is counted by them.
const _: () = assert!(size_of::<Span>() <= 24);

/// What was mapped at the addresses of a span.
#[derive(Clone, Debug)]
enum Versions {
    None,
    /// Most are mapped once, at the time at which the mapping begins.
    One {
        to: u64,
        id: MappingId,
    },
    Many(Box<ManyVersions>),
}

#[derive(Clone, Debug, Default)]
struct ManyVersions {
    /// By the time from which on they are there.
    versions: Vec<Version>,
    /// The last time at which something ended here.
    ended: u64,
}

/// Code over time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// By process and the first address of spans, which do not overlap.
    spans: Spans,
    changes: Vec<TimedChange>,
    /// When changes were lost, in order.
    losses: Vec<u64>,
    /// When each mapping begins, by its number.
    begins: Vec<u64>,
    versions: usize,
    /// There was more than can be kept: this is the last of which anything is.
    last_kept: Option<MappingId>,
}

impl Timeline {
    /// From `from` on, something is at `start` to `last` in a process; 0: in all of them.
    pub fn map(&mut self, process: u32, (start, last): (u64, u64), from: u64) -> MappingId {
        let id = self.keep(process, (start, last), from);
        if start <= last && self.is_kept(id) {
            self.changed(from, process, start, last);
        }
        id
    }

    /// The same of what is known from before the time that this timeline is of: that is no change.
    pub fn keep(&mut self, process: u32, (start, last): (u64, u64), from: u64) -> MappingId {
        let id = MappingId(u32::try_from(self.begins.len()).unwrap_or(u32::MAX));
        self.begins.push(from);
        if start > last || self.is_full() {
            return id;
        }
        self.versions += split(&mut self.spans, process, start);
        if let Some(after) = last.checked_add(1) {
            self.versions += split(&mut self.spans, process, after);
        }
        fill(&mut self.spans, process, start, last);
        let most = VERSIONS_OF_A_MAPPING.saturating_mul(self.begins.len()).saturating_add(LEAST_VERSIONS);
        for span in within(&mut self.spans, process, (start, last)) {
            if self.versions >= most {
                self.last_kept = Some(id);
                break;
            }
            self.versions += 1;
            span.insert(id, &self.begins);
        }
        id
    }

    /// What was mapped in a range is not there any more from a time on.
    pub fn end(&mut self, process: u32, (start, last): (u64, u64), id: MappingId, at: u64) {
        if start > last || !self.is_kept(id) {
            return;
        }
        for span in within(&mut self.spans, process, (start, last)) {
            span.end(id, at, &self.begins);
        }
        self.changed(at, process, start, last);
    }

    /// What was mapped in a range was never there after all.
    pub fn withdraw(&mut self, process: u32, (start, last): (u64, u64), id: MappingId) {
        if start > last || !self.is_kept(id) {
            return;
        }
        for span in within(&mut self.spans, process, (start, last)) {
            self.versions -= usize::from(span.withdraw(id, &self.begins));
        }
    }

    /// From this time on, up to the next change that is known, others were lost: where nothing is known to be, something may
    /// have been.
    pub fn lose(&mut self, time: u64) {
        self.losses.push(time);
    }

    /// When a mapping begins.
    pub fn begin(&self, id: MappingId) -> Option<u64> {
        self.begins.get(id.index()).copied()
    }

    fn changed(&mut self, time: u64, process: u32, start: u64, last: u64) {
        if time > 0 {
            self.changes.push(TimedChange { time, process, start, last });
        }
    }

    /// Nothing more is added: changes are put in order.
    pub fn finish(&mut self) {
        // Sorting takes memory, and most logs are in order.
        if !self.changes.is_sorted_by_key(|change| change.time) {
            self.changes.sort_by_key(|change| change.time);
        }
    }

    /// All changes by time. [`Timeline::finish`] comes first.
    pub fn changes(&self) -> &[TimedChange] {
        &self.changes
    }

    /// The processes that have something of their own.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let (&(process, _), _) = self.spans.starting_at(&(next?, 0)).next()?;
            next = process.checked_add(1);
            Some(process)
        })
    }

    /// The first address above this one where anything was ever mapped in a process.
    pub fn next_start(&self, process: u32, address: u64) -> Option<u64> {
        let above = address.checked_add(1)?;
        let (&(other, start), _) = self.spans.starting_at(&(process, above)).next()?;
        (other == process).then_some(start)
    }

    /// The last time at which something ended anywhere in a range of a process; 0: never.
    pub fn last_end(&self, process: u32, (start, last): (u64, u64)) -> u64 {
        // Where nothing more is kept, nothing is asked for any more.
        if start > last || self.is_full() {
            return 0;
        }
        let first = self.span(process, start);
        let inside =
            self.spans.starting_at(&(process, start)).take_while(|(key, _)| **key <= (process, last));
        first.into_iter().chain(inside.map(|(_, span)| span)).map(Span::ended).max().unwrap_or(0)
    }

    /// There was more than can be kept.
    pub fn is_full(&self) -> bool {
        self.last_kept.is_some()
    }

    fn is_kept(&self, id: MappingId) -> bool {
        self.last_kept.is_none_or(|last| id <= last)
    }

    /// What is at an address of a process, 0: of all of them, in a span of time. What was there when it began counts; where
    /// nothing was, what came first, unless changes were lost before that.
    pub fn look(&self, process: u32, address: u64, window: Window) -> Lookup {
        let Some(span) = self.span(process, address) else { return Lookup::Nothing };
        match span.at(window, &self.losses, &self.begins) {
            Ok(Some(id)) => Lookup::Mapped { id, last: span.last },
            Ok(None) => Lookup::Nothing,
            Err(Lost) => Lookup::Unknown,
        }
    }

    /// The span that an address is in.
    fn span(&self, process: u32, address: u64) -> Option<&Span> {
        let (&(other, _), span) = self.spans.up_to(&(process, address))?;
        (other == process && address <= span.last).then_some(span)
    }
}

/// Changes were lost: what was there is not known.
struct Lost;

impl Span {
    /// Something is mapped here from its beginning on.
    fn insert(&mut self, id: MappingId, begins: &[u64]) {
        if let Versions::None = self.versions {
            self.versions = Versions::One { to: u64::MAX, id };
            return;
        }
        let from = begin(begins, id);
        let versions = &mut self.many(begins).versions;
        let index = versions.partition_point(|version| version.from <= from);
        versions.insert(index, Version { from, to: u64::MAX, id });
    }

    /// Something ends, here too if it was mapped here.
    fn end(&mut self, id: MappingId, at: u64, begins: &[u64]) {
        match &mut self.versions {
            // The time of one that has ended is that of the last end.
            Versions::One { to, id: one } if *one == id && *to == u64::MAX && at < u64::MAX => *to = at,
            _ => {
                let many = self.many(begins);
                if let Some(index) = place(&many.versions, id, begins) {
                    many.versions[index].to = at;
                }
                many.ended = many.ended.max(at);
            }
        }
    }

    /// Something was never here. Was it listed here?
    fn withdraw(&mut self, id: MappingId, begins: &[u64]) -> bool {
        match &mut self.versions {
            Versions::None => false,
            Versions::One { to: u64::MAX, id: one } if *one == id => {
                self.versions = Versions::None;
                true
            }
            _ => {
                let versions = &mut self.many(begins).versions;
                place(versions, id, begins).map(|index| versions.remove(index)).is_some()
            }
        }
    }

    /// The last time at which something ended here; 0: never.
    fn ended(&self) -> u64 {
        match &self.versions {
            Versions::None | Versions::One { to: u64::MAX, .. } => 0,
            Versions::One { to, .. } => *to,
            Versions::Many(many) => many.ended,
        }
    }

    /// How many versions there are.
    fn count(&self) -> usize {
        match &self.versions {
            Versions::None => 0,
            Versions::One { .. } => 1,
            Versions::Many(many) => many.versions.len(),
        }
    }

    /// The versions in a list, which they stay in.
    fn many(&mut self, begins: &[u64]) -> &mut ManyVersions {
        let ended = self.ended();
        if let Versions::None | Versions::One { .. } = self.versions {
            let versions = one_version(&self.versions, begins).into_iter().collect();
            self.versions = Versions::Many(Box::new(ManyVersions { versions, ended }));
        }
        let Versions::Many(many) = &mut self.versions else { unreachable!("it was made a list") };
        many
    }

    fn at(&self, window: Window, losses: &[u64], begins: &[u64]) -> Result<Option<MappingId>, Lost> {
        let one = one_version(&self.versions, begins);
        let versions = match &self.versions {
            Versions::Many(many) => &many.versions[..],
            _ => one.as_slice(),
        };
        let begun = versions.partition_point(|version| version.from <= window.from);
        let (before, after) = versions.split_at(begun);
        if let Some(live) = before.iter().rev().find(|version| window.from < version.to) {
            return Ok(Some(live.id));
        }
        let next = after.iter().find(|version| version.from <= window.to);
        let ended = before.iter().map(|version| version.to).max().unwrap_or(0);
        match next {
            Some(next) if is_any_between(losses, ended, next.from) => Err(Lost),
            next => Ok(next.map(|version| version.id)),
        }
    }
}

fn one_version(versions: &Versions, begins: &[u64]) -> Option<Version> {
    match *versions {
        Versions::One { to, id } => Some(Version { from: begin(begins, id), to, id }),
        _ => None,
    }
}

/// When a mapping begins.
fn begin(begins: &[u64], id: MappingId) -> u64 {
    begins.get(id.index()).copied().unwrap_or(0)
}

/// Where the version of a mapping is: they are in the order of time, and of one time in that of their numbers.
fn place(versions: &[Version], id: MappingId, begins: &[u64]) -> Option<usize> {
    versions.binary_search_by_key(&(begin(begins, id), id), |version| (version.from, version.id)).ok()
}

/// Is one of these times, which are in order, in a span?
fn is_any_between(times: &[u64], from: u64, to: u64) -> bool {
    let first = times.partition_point(|&time| time < from);
    times.get(first).is_some_and(|&time| time <= to)
}

/// By process and first address.
type Spans = SortedMap<(u32, u64), Span>;

/// The spans that begin in a range of a process.
fn within(spans: &mut Spans, process: u32, (start, last): (u64, u64)) -> impl Iterator<Item = &mut Span> {
    let inside =
        spans.starting_at_mut(&(process, start)).take_while(move |(key, _)| **key <= (process, last));
    inside.map(|(_, span)| span)
}

/// Makes a span begin at an address, if one reaches over it. Gives how many versions that adds.
fn split(spans: &mut Spans, process: u32, address: u64) -> usize {
    let Some(below) = address.checked_sub(1) else { return 0 };
    let Some((&(other, _), span)) = spans.up_to_mut(&(process, below)) else { return 0 };
    if other != process || span.last < address {
        return 0;
    }
    let upper = span.clone();
    span.last = below;
    let added = upper.count();
    spans.insert((process, address), upper);
    added
}

/// Makes every address of a range part of a span.
fn fill(spans: &mut Spans, process: u32, start: u64, last: u64) {
    let (mut at, mut holes) = (Some(start), Vec::new());
    let inside = spans.starting_at(&(process, start)).take_while(|(key, _)| **key <= (process, last));
    for (&(_, address), span) in inside {
        if let Some(from) = at.filter(|&from| from < address) {
            holes.push((from, address - 1));
        }
        at = span.last.checked_add(1);
    }
    holes.extend(at.filter(|&from| from <= last).map(|from| (from, last)));
    for (start, last) in holes {
        spans.insert((process, start), Span { last, versions: Versions::None });
    }
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

    #[test]
    fn mappings_inside_of_each_other_take_memory_as_their_number() {
        let mut timeline = Timeline::default();
        let count = 5000;
        for number in 0..count {
            let (start, last) = (0x1000_0000 - number * 0x1000, 0x1000_0000 + number * 0x1000);
            let id = timeline.map(1, (start, last), number);
            timeline.end(1, (start, last), id, number + 1);
        }
        assert!(timeline.is_full(), "there would be {} versions", count * count);
        let versions: usize = timeline.spans.iter().map(|(_, span)| span.count()).sum();
        assert!(versions <= LEAST_VERSIONS + (VERSIONS_OF_A_MAPPING + 2) * count as usize, "{versions}");
    }
}
