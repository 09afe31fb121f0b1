//! How often something happened in parts of a source: an index says by them where a search need not look.
//!
//! A part lies between two points, and ends before an instruction. What is reported between two instructions belongs to the later one, as in
//! a [`Window`](super::Window) that begins there. Parts become longer as a source goes on, so that all of them stay small
//! beside the trace.

use std::collections::{BTreeMap, HashMap};

use backsight_flow::{ByPath, Event, PathId, Range};

use super::entries::{FunctionStarts, RangeEnd, interrupts, is_entered};
use super::find::Wanted;
use crate::SourceCode;

/// Parts that are kept: where there are more, each two become one.
const MOST_PARTS: usize = 1 << 12;

/// Functions of parts that are kept in any case.
const FEW: usize = 1 << 12;

/// Bytes of trace for each function of a part, at least: in a file, one takes about three bytes.
const BYTES: u64 = 800;

/// How often something happened in a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Exceptions and interrupts that were taken.
    pub exceptions: u64,
    /// Places where something is missing.
    pub gaps: u64,
    /// Contexts that execution came to, and how often, by ID.
    pub contexts: Vec<(u64, u64)>,
    /// Functions that were entered, by their numbers, and how often.
    pub functions: Vec<(u32, u64)>,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.exceptions += other.exceptions;
        self.gaps += other.gaps;
        self.contexts = added(&self.contexts, &other.contexts);
        self.functions = added(&self.functions, &other.functions);
    }
}

/// What is in either of two sorted lists, with the sum of both.
fn added<K: Ord + Copy>(one: &[(K, u64)], other: &[(K, u64)]) -> Vec<(K, u64)> {
    let mut all = [one, other].concat();
    all.sort_unstable_by_key(|one| one.0);
    all.dedup_by(|later, first| {
        let is_same = later.0 == first.0;
        first.1 += if is_same { later.1 } else { 0 };
        is_same
    });
    all
}

/// A part of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// The instruction that it ends before.
    pub end: u64,
    /// What happened in it.
    pub counts: Counts,
}

/// The parts of a source, in order: from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Where functions begin, by their numbers.
    pub functions: Vec<u64>,
    /// The parts; none, if nothing is known.
    pub parts: Vec<Part>,
}

impl Sums {
    /// How what is looked for is counted; `None` if it is not known from the sums.
    pub fn counter(&self, wanted: &Wanted) -> Option<impl Fn(&Counts) -> u64 + use<>> {
        let mut numbers: Vec<u32> = Vec::new();
        let (mut exceptions, mut gaps, mut id) = (false, false, None);
        match wanted {
            _ if self.parts.is_empty() => return None,
            Wanted::Functions { places, are_all_named: true } => {
                let is_wanted = |start: &u64| places.iter().any(|place| place.start == *start);
                let of = self.functions.iter().enumerate().filter(|(_, start)| is_wanted(start));
                numbers.extend(of.map(|(number, _)| number as u32));
            }
            Wanted::Exceptions => exceptions = true,
            Wanted::Gaps => gaps = true,
            Wanted::Context(context) => id = Some(*context),
            Wanted::Functions { .. } | Wanted::Addresses(_) | Wanted::Messages(_) => return None,
        }
        fn times<K: Ord + Copy>(list: &[(K, u64)], key: K) -> u64 {
            list.binary_search_by_key(&key, |one| one.0).map_or(0, |place| list[place].1)
        }
        Some(move |counts: &Counts| {
            let functions: u64 = numbers.iter().map(|&number| times(&counts.functions, number)).sum();
            let others = u64::from(exceptions) * counts.exceptions + u64::from(gaps) * counts.gaps;
            functions + others + id.map_or(0, |id| times(&counts.contexts, id))
        })
    }
}

/// What is known of a path, but for how its first range was come to.
#[derive(Clone, Debug)]
struct KnownPath {
    /// How often it was walked in this part.
    times: u64,
    /// The function that its first range begins at: its number and its end.
    first: Option<(u32, u64)>,
    /// Functions that are entered further on.
    others: Box<[u32]>,
    /// How its last range ends.
    last: Option<RangeEnd>,
}

/// Counts what happens in a source with one hart.
#[derive(Debug)]
pub(super) struct Counting {
    starts: FunctionStarts,
    numbers: HashMap<u64, u32>,
    sums: Sums,
    /// Points that a part has, and those that the last one has so far.
    points: usize,
    counted: usize,
    /// Functions and contexts of all parts.
    kept: usize,
    /// What the last part has, but for paths.
    part: PartCounts,
    /// Events since the last instruction: they belong to the next.
    waiting: PartCounts,
    hart: Option<u16>,
    last: Option<RangeEnd>,
    context: Option<u64>,
    paths: ByPath<KnownPath>,
    /// Paths that the last part has.
    walked: Vec<PathId>,
}

/// Counts by key.
#[derive(Debug, Default)]
struct PartCounts {
    exceptions: u64,
    gaps: u64,
    contexts: BTreeMap<u64, u64>,
    functions: HashMap<u32, u64>,
    /// Something was counted.
    is_filled: bool,
}

impl Counting {
    pub fn new(code: SourceCode<'_>) -> Self {
        let starts = FunctionStarts::of(code.image());
        let (numbers, sums, counted, kept, part, waiting) = Default::default();
        let (hart, last, context, paths, walked) = Default::default();
        Self {
            starts,
            numbers,
            sums,
            points: 4,
            counted,
            kept,
            part,
            waiting,
            hart,
            last,
            context,
            paths,
            walked,
        }
    }

    /// Is everything of one hart so far? If not, what one of them did before another point is not known, and nothing is counted.
    pub fn is_of(&mut self, hart: u16) -> bool {
        *self.hart.get_or_insert(hart) == hart
    }

    fn number(&mut self, start: u64) -> u32 {
        *self.numbers.entry(start).or_insert_with(|| {
            self.sums.functions.push(start);
            self.sums.functions.len() as u32 - 1
        })
    }

    /// The next instructions are executed.
    fn settle(&mut self) {
        if !self.waiting.is_filled {
            return;
        }
        let PartCounts { exceptions, gaps, contexts, .. } = std::mem::take(&mut self.waiting);
        self.part.exceptions += exceptions;
        self.part.gaps += gaps;
        for (id, times) in contexts {
            *self.part.contexts.entry(id).or_default() += times;
        }
    }

    /// Takes a range that is not of a path.
    pub fn range(&mut self, range: &Range) {
        let before = self.last.replace(RangeEnd::of(range));
        if range.instructions == 0 {
            return;
        }
        self.settle();
        if let Some(function) = self.starts.at(range.start.0)
            && is_entered(&function, before)
        {
            let number = self.number(range.start.0);
            *self.part.functions.entry(number).or_default() += 1;
        }
    }

    /// Takes an event that is no range.
    pub fn event(&mut self, event: &Event) {
        if interrupts(event) {
            self.last = None;
        }
        let waiting = &mut self.waiting;
        match event {
            Event::Exception { .. } => waiting.exceptions += 1,
            event if event.is_loss() => waiting.gaps += 1,
            Event::Context(context, _) => {
                let before = std::mem::replace(&mut self.context, context.context_id);
                match context.context_id {
                    Some(id) if before != Some(id) => *waiting.contexts.entry(id).or_default() += 1,
                    _ => return,
                }
            }
            _ => return,
        }
        waiting.is_filled = true;
    }

    /// Takes a path that is known; says whether it is.
    #[inline(always)]
    pub fn path(&mut self, path: PathId) -> bool {
        let Some(known) = self.paths.get_mut(path) else { return false };
        if !known.others.is_empty() {
            if known.times == 0 {
                self.walked.push(path);
            }
            known.times += 1;
        }
        let before = std::mem::replace(&mut self.last, known.last);
        let first = known.first;
        if self.waiting.is_filled {
            self.settle();
        }
        if let Some((number, end)) = first {
            self.first(number, end, before);
        }
        true
    }

    fn first(&mut self, number: u32, end: u64, before: Option<RangeEnd>) {
        let start = self.sums.functions.get(number as usize).copied().unwrap_or(end);
        if is_entered(&(start..end), before) {
            *self.part.functions.entry(number).or_default() += 1;
        }
    }

    /// Learns a path, and takes it.
    pub fn learn(&mut self, path: PathId, ranges: &[Range]) {
        if !self.paths.is_current(path) {
            self.count_paths();
            self.paths.begin(path);
        }
        let (mut first, mut others, mut last) = (None, Vec::new(), None);
        for (place, range) in ranges.iter().enumerate() {
            let before = last.replace(RangeEnd::of(range));
            let Some(function) = self.starts.at(range.start.0).filter(|_| range.instructions > 0) else {
                continue;
            };
            let number = self.number(function.start);
            match place {
                0 => first = Some((number, function.end)),
                _ if is_entered(&function, before) => others.push(number),
                _ => {}
            }
        }
        let last = last.or(self.last);
        self.paths.insert(path, KnownPath { times: 0, first, others: others.into(), last });
        if !self.path(path) {
            ranges.iter().for_each(|range| self.range(range));
        }
    }

    /// Counts what was entered in paths.
    fn count_paths(&mut self) {
        for path in self.walked.drain(..) {
            let Some(known) = self.paths.get_mut(path) else { continue };
            let times = std::mem::take(&mut known.times);
            for &number in &known.others {
                *self.part.functions.entry(number).or_default() += times;
            }
        }
    }

    /// A point comes before this instruction, and after so many bytes of the stream.
    pub fn point(&mut self, instructions: u64, offset: u64) {
        self.counted += 1;
        if self.counted < self.points {
            return;
        }
        self.close(instructions);
        let most = usize::try_from(offset / BYTES).unwrap_or(usize::MAX).max(FEW);
        while self.sums.parts.len() > 1 && (self.sums.parts.len() > MOST_PARTS || self.kept > most) {
            self.halve();
        }
    }

    fn close(&mut self, end: u64) {
        self.count_paths();
        let PartCounts { exceptions, gaps, contexts, functions, .. } = std::mem::take(&mut self.part);
        let mut functions: Vec<_> = functions.into_iter().collect();
        functions.sort_unstable();
        let counts = Counts { exceptions, gaps, contexts: contexts.into_iter().collect(), functions };
        self.kept += counts.contexts.len() + counts.functions.len();
        self.sums.parts.push(Part { end, counts });
        self.counted = 0;
    }

    /// Each two parts become one.
    fn halve(&mut self) {
        self.points = self.points.saturating_mul(2);
        let mut parts = std::mem::take(&mut self.sums.parts).into_iter();
        while let Some(mut part) = parts.next() {
            // The last one may have none beside it: that does no harm.
            if let Some(next) = parts.next() {
                part.end = next.end;
                part.counts.add(&next.counts);
            }
            self.sums.parts.push(part);
        }
        self.kept =
            self.sums.parts.iter().map(|part| part.counts.contexts.len() + part.counts.functions.len()).sum();
    }

    /// The source ends.
    pub fn finish(mut self, instructions: u64) -> Sums {
        self.settle();
        self.close(instructions);
        self.sums
    }
}
