//! Runs to the next place at which something holds, on all cores.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use backsight::core::AddressSpace;
use backsight::flow::{PathId, Range};
use backsight::image::{Code as _, Window as TimeSpan};
use backsight::moments::{InWindow, KnownPath, KnownPaths, Moment, Place, Window};
use backsight::{Event, Item, Result, SourceCode};

use super::chunk::Executor;
use super::track::Track;
use super::walk::{Stopped, Stops};
use super::watch::Watchpoint;

/// Most spans between points of an index that are looked at together, at least. It begins with one: what is near is found soon.
const MOST_TOGETHER: usize = 64;

/// Pieces for each thread that a long way is looked at in, about. Each piece meets its code for the first time, so that they are
/// as long as the way allows.
const PIECES: usize = 8;

/// Where to stop.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// At instructions at these addresses.
    pub addresses: BTreeSet<u64>,
    /// After something is missing.
    pub gaps: bool,
    /// After an exception was taken.
    pub exceptions: bool,
    /// At any instruction of this hart and thread.
    pub of: Option<Executor>,
}

impl Wanted {
    /// What a run stops at.
    pub fn of_stops(stops: &Stops) -> Self {
        let addresses = stops.breakpoints.iter().map(|one| one.address).collect();
        Self { addresses, gaps: stops.gaps, exceptions: stops.exceptions, of: None }
    }
}

/// Why it stopped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Address(u64),
    Gap,
    Exception,
    Turn,
    /// Watched memory was touched.
    Touch(Watchpoint),
}

impl Reason {
    pub fn stopped(self) -> Stopped {
        match self {
            Self::Address(address) => Stopped::Breakpoint(address),
            Self::Gap => Stopped::Gap,
            Self::Exception => Stopped::Exception,
            Self::Turn => Stopped::Step,
            Self::Touch(watchpoint) => Stopped::Touched(watchpoint),
        }
    }
}

/// A place where it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub number: u64,
    pub reason: Reason,
    /// The latest time before it.
    pub time: Option<u64>,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// As it was executed.
    Forwards,
    /// Back to where it came from.
    Backwards,
}

/// Says whether what is at an address is what is meant: another program may have other code there.
pub(super) type IsRight<'a> = dyn Fn(&SourceCode<'_>, AddressSpace, u64) -> bool + Sync + 'a;

/// Looks for the nearest place after an instruction, or before it, up to another one.
pub(super) fn search(
    track: &Track<'_>,
    (from, until): (u64, u64),
    direction: Direction,
    wanted: &Wanted,
    is_right: &IsRight<'_>,
    threads: usize,
) -> Result<Option<Found>> {
    let (first, end) = match direction {
        Direction::Forwards => (from + 1, until.saturating_add(1).min(track.instructions)),
        Direction::Backwards => (until, from),
    };
    if first >= end {
        return Ok(None);
    }
    let spans = spans(track, (first, end), direction, wanted, threads);
    let next = AtomicUsize::new(0);
    // The nearest span in which something was found.
    let nearest = AtomicUsize::new(usize::MAX);
    let outcomes = Mutex::new((None::<(usize, Found)>, None));
    let stop = &track.reader().stop;
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(from, to)) = spans.get(number) else { return };
            if number > nearest.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) {
                return;
            }
            let is_useless = || number > nearest.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
            let outcome = search_span(track, (from, to), direction, wanted, is_right, &is_useless);
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Err(error) => {
                    outcomes.1.get_or_insert(error);
                    nearest.fetch_min(number, Ordering::Relaxed);
                }
                Ok(Some(found)) => {
                    nearest.fetch_min(number, Ordering::Relaxed);
                    if outcomes.0.is_none_or(|known| number < known.0) {
                        outcomes.0 = Some((number, found));
                    }
                }
                Ok(None) => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(spans.len()) {
            scope.spawn(work);
        }
        work();
    });
    match outcomes.into_inner().unwrap_or_else(PoisonError::into_inner) {
        (_, Some(error)) => Err(error),
        (found, None) => Ok(found.map(|found| found.1)),
    }
}

/// The spans to look at, the nearest first: longer and longer ones, since to begin takes time, too. What the index knows to hold nothing of
/// it is left out.
fn spans(
    track: &Track<'_>,
    (first, end): (u64, u64),
    direction: Direction,
    wanted: &Wanted,
    threads: usize,
) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    for (mut at, end) in track.stretches(wanted, first, end) {
        for to in track.points(at, end).into_iter().chain([end]) {
            pieces.push((at, to));
            at = to;
        }
    }
    if direction == Direction::Backwards {
        pieces.reverse();
    }
    let most = (pieces.len() / (PIECES * threads.max(1))).max(MOST_TOGETHER);
    let (mut spans, mut left, mut together) = (Vec::new(), pieces.as_slice(), 1);
    while let Some((&(mut from, mut to), others)) = left.split_first() {
        let mut count = 1;
        for &(other_from, other_to) in others.iter().take(together - 1) {
            if other_from != to && other_to != from {
                break;
            }
            (from, to) = (from.min(other_from), to.max(other_to));
            count += 1;
        }
        spans.push((from, to));
        left = &left[count..];
        together = (2 * together).min(most);
    }
    spans
}

fn search_span(
    track: &Track<'_>,
    (from, to): (u64, u64),
    direction: Direction,
    wanted: &Wanted,
    is_right: &IsRight<'_>,
    is_useless: &dyn Fn() -> bool,
) -> Result<Option<Found>> {
    let mut finder = Finder {
        wanted,
        is_right,
        is_useless,
        wants_first: direction == Direction::Forwards,
        code: track.code,
        number: 0,
        end: track.instructions,
        time: None,
        is_inside: false,
        harts: Vec::new(),
        paths: KnownPaths::default(),
        found: None,
    };
    // What was reported at the first instruction after the span belongs to what comes next.
    let window = Window {
        from: (from > 0).then_some(Moment::Instruction(from)),
        to: (to < track.instructions).then_some(Moment::Instruction(to)),
    };
    let reader = track.reader();
    let decode = reader.decode.clone().positions(false).stop_on(reader.stop.clone());
    reader.moments.take(decode, &track.source, window, &mut finder)?;
    Ok(finder.found)
}

/// What has to be known of a hart.
struct Hart {
    number: u16,
    space: AddressSpace,
    executor: Executor,
}

struct Finder<'f, 'c> {
    wanted: &'f Wanted,
    is_right: &'f IsRight<'f>,
    is_useless: &'f dyn Fn() -> bool,
    /// The first is wanted, and not the last.
    wants_first: bool,
    code: SourceCode<'c>,
    number: u64,
    /// Instructions of the source.
    end: u64,
    time: Option<u64>,
    is_inside: bool,
    harts: Vec<Hart>,
    paths: KnownPaths,
    found: Option<Found>,
}

impl Finder<'_, '_> {
    fn hart(&mut self, number: u16) -> &mut Hart {
        let found = self.harts.iter().position(|known| known.number == number).unwrap_or_else(|| {
            let executor = Executor { hart: number, thread: None };
            self.harts.push(Hart { number, space: AddressSpace::ANY, executor });
            self.harts.len() - 1
        });
        &mut self.harts[found]
    }

    fn hit(&mut self, number: u64, reason: Reason) {
        if self.is_inside && (self.found.is_none() || !self.wants_first) {
            self.found = Some(Found { number, reason, time: self.time });
        }
    }

    fn may_hold(&self, range: &Range) -> bool {
        self.wanted.addresses.range(range.start.0..range.end.0.max(range.start.0)).next().is_some()
    }

    fn range(&mut self, hart: u16, range: &Range) {
        let number = self.number;
        if let Some(of) = self.wanted.of
            && range.instructions > 0
            && self.hart(hart).executor == of
        {
            let last = if self.wants_first { 0 } else { u64::from(range.instructions) - 1 };
            self.hit(number + last, Reason::Turn);
        }
        if self.may_hold(range) && self.is_inside {
            let space = self.hart(hart).space;
            let (mut met, mut index) = (Vec::new(), 0);
            backsight::listing::steps(range, space, &self.code, |step| {
                if self.wanted.addresses.contains(&step.address.0) {
                    met.push((index, step.address.0));
                }
                index += 1;
            });
            for (index, address) in met {
                if (self.is_right)(&self.code, space, address) {
                    self.hit(number + index, Reason::Address(address));
                }
            }
        }
        self.number += u64::from(range.instructions);
    }

    fn event(&mut self, hart: u16, event: &Event) {
        match event {
            Event::Context(context, _) => {
                let (space, thread) = (self.code.space_of(context), self.code.context_id(context));
                let known = self.hart(hart);
                (known.space, known.executor.thread) = (space, thread);
            }
            Event::Timestamp { value, .. } if *value != 0 => self.time = self.time.max(Some(*value)),
            // Before the first instruction and after the last one is no place to stop at.
            _ if self.number == 0 || self.number >= self.end => {}
            event if self.wanted.gaps && event.is_break() => self.hit(self.number, Reason::Gap),
            Event::Exception { .. } if self.wanted.exceptions => self.hit(self.number, Reason::Exception),
            _ => {}
        }
    }
}

impl InWindow for Finder<'_, '_> {
    fn has_enough(&self) -> bool {
        self.wants_first && self.found.is_some() || (self.is_useless)()
    }

    fn begin(&mut self, place: &Place) {
        (self.number, self.time) = (place.instructions, place.time.max(self.time));
        self.is_inside = true;
    }

    fn before(&mut self, item: Item<'_, Event>) {
        self.event(item.sub_source, &item.value);
    }

    fn item(&mut self, item: Item<'_, Event>) {
        match &item.value {
            Event::Range(range) => self.range(item.sub_source, range),
            event => self.event(item.sub_source, event),
        }
    }

    fn enter(&mut self, span: TimeSpan) {
        self.code.enter(span);
    }

    fn path(&mut self, path: PathId, hart: u16, items: &mut dyn Iterator<Item = Item<'_, Event>>) {
        let is_turn = self.wanted.of.is_some_and(|of| self.hart(hart).executor == of);
        if !is_turn && let Some(known) = self.paths.without(path) {
            self.number += known.instructions;
            return;
        }
        let mut known = KnownPath::default();
        for item in items {
            let may_hold = match &item.value {
                Event::Range(range) => self.may_hold(range),
                _ => true,
            };
            known.add(&item.value, may_hold);
            self.item(item);
        }
        self.paths.insert(path, known);
    }
}
