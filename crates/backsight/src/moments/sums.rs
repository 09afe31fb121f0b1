//! What happened in parts of a source, and how often: an index says by them where a search need not look, and what there is to see from afar.
//!
//! A part lies between two points, and ends before an instruction. What is reported between two instructions belongs to the later one, as in
//! a [`Window`](super::Window) that begins there. Parts become longer as a source goes on, so that all of them stay small
//! beside the trace.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range as Span;

use backsight_core::{Address, AddressSpace};
use backsight_flow::{ByPath, Event, PathId, Range};
use backsight_image::Code as _;

use super::entries::{FunctionPlaces, NOWHERE, RangeEnd, interrupts, is_entered};
use super::find::Wanted;
use super::index::SourceIndex;
use crate::SourceCode;
use crate::listing::steps;

/// Parts that are kept: where there are more, each two become one.
const MOST_PARTS: usize = 1 << 12;

/// Functions of parts that are kept in any case.
const FEW: usize = 1 << 12;

/// Bytes of trace for each function of a part, at least: in a file, one takes about five bytes.
const BYTES: u64 = 1400;

/// What a function did in a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionCounts {
    /// Its number: see [`SourceIndex::function`].
    pub function: u32,
    /// How often execution came to its first instruction by a call or from outside of it.
    pub entered: u64,
    /// Instructions of its own.
    pub instructions: u64,
}

/// How often something happened in a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Exceptions and interrupts that were taken.
    pub exceptions: u64,
    /// Places where something is missing.
    pub gaps: u64,
    /// Places where what was reported next need not follow what was reported last.
    pub breaks: u64,
    /// Pieces of messages that software wrote.
    pub messages: u64,
    /// Contexts that execution came to, by ID, and how often.
    pub contexts: Vec<(u64, u64)>,
    /// Functions that ran, by their numbers.
    pub functions: Vec<FunctionCounts>,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.exceptions += other.exceptions;
        self.gaps += other.gaps;
        self.breaks += other.breaks;
        self.messages += other.messages;
        self.contexts = added(&self.contexts, &other.contexts, |one| one.0, |sum, one| sum.1 += one.1);
        self.functions = added(
            &self.functions,
            &other.functions,
            |one| one.function,
            |sum, one| {
                sum.entered += one.entered;
                sum.instructions += one.instructions;
            },
        );
    }

    fn function(&self, number: u32) -> Option<&FunctionCounts> {
        let place = self.functions.binary_search_by_key(&number, |one| one.function).ok()?;
        self.functions.get(place)
    }
}

/// What is in either of two sorted lists, with the sum of both.
fn added<T: Copy, K: Ord>(one: &[T], other: &[T], key: impl Fn(&T) -> K, add: impl Fn(&mut T, &T)) -> Vec<T> {
    let mut all = [one, other].concat();
    all.sort_by_key(&key);
    all.dedup_by(|later, first| {
        let is_same = key(later) == key(first);
        if is_same {
            add(first, later);
        }
        is_same
    });
    all
}

/// A part of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The instruction that it ends before; the next one begins there.
    pub end: u64,
    /// The last timestamp up to there.
    pub time: Option<u64>,
    /// The fewest and the most calls that were under way around an instruction.
    pub depths: (u64, u64),
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

/// What somebody looks for in parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sought<'a> {
    /// Instructions at these addresses.
    pub addresses: &'a [Span<u64>],
    /// Exceptions and interrupts.
    pub exceptions: bool,
    /// [Breaks](Event::is_break).
    pub breaks: bool,
}

impl SourceIndex {
    /// What happened in the source, part by part, from its beginning to its end; nothing, if that is not known.
    pub fn part_sums(&self) -> &[Part] {
        &self.sums.parts
    }

    /// Where a function begins that has a number in the parts. `None`: what is in no function with a name.
    pub fn function(&self, number: u32) -> Option<Address> {
        let start = self.sums.functions.get(number as usize)?;
        Some(Address(*start)).filter(|start| start.0 != NOWHERE)
    }

    /// The instructions among which something may be, in stretches; `None` if that is not known. `code` is that of the source.
    pub fn stretches_with(&self, sought: &Sought<'_>, code: &SourceCode<'_>) -> Option<Vec<Span<u64>>> {
        let parts = Some(self.part_sums()).filter(|parts| !parts.is_empty() && !self.is_tail)?;
        let numbers = self.sums.numbers_with(sought.addresses, code);
        let (mut stretches, mut from) = (Vec::<Span<u64>>::new(), 0);
        for Part { end, counts, .. } in parts {
            let start = std::mem::replace(&mut from, *end);
            let may_be = sought.exceptions && counts.exceptions > 0
                || sought.breaks && counts.breaks > 0
                || numbers.iter().any(|&number| counts.runs(number));
            match stretches.last_mut() {
                Some(last) if may_be && last.end == start => last.end = *end,
                _ if may_be => stretches.push(start..*end),
                _ => {}
            }
        }
        Some(stretches)
    }
}

impl Counts {
    fn runs(&self, number: u32) -> bool {
        self.function(number).is_some_and(|one| one.instructions > 0)
    }
}

impl Sums {
    /// The numbers of functions by where they begin.
    fn numbers(&self, is_wanted: impl Fn(u64) -> bool) -> Vec<u32> {
        (0..).zip(&self.functions).filter(|(_, start)| is_wanted(**start)).map(|(number, _)| number).collect()
    }

    /// Those of the functions that have some addresses.
    fn numbers_with(&self, addresses: &[Span<u64>], code: &SourceCode<'_>) -> Vec<u32> {
        if addresses.is_empty() {
            return Vec::new();
        }
        let places = FunctionPlaces::of(code.image());
        let mut starts = Vec::new();
        for &Span { start: mut at, end } in addresses {
            while at < end {
                let (function, to) = places.around(at);
                starts.push(function);
                at = to;
            }
        }
        starts.sort_unstable();
        self.numbers(|start| starts.binary_search(&start).is_ok())
    }

    /// How what is looked for is counted; `None` if it is not known from the sums.
    pub fn counter(&self, wanted: &Wanted) -> Option<impl Fn(&Counts) -> u64 + use<>> {
        let mut numbers: Vec<u32> = Vec::new();
        let (mut exceptions, mut gaps, mut id) = (false, false, None);
        match wanted {
            _ if self.parts.is_empty() => return None,
            Wanted::Functions { places, are_all_named: true } => {
                numbers = self.numbers(|start| places.iter().any(|place| place.start == start));
            }
            Wanted::Exceptions => exceptions = true,
            Wanted::Gaps => gaps = true,
            Wanted::Context(context) => id = Some(*context),
            Wanted::Functions { .. } | Wanted::Addresses(_) | Wanted::Messages(_) => return None,
        }
        Some(move |counts: &Counts| {
            let entered = |&number: &u32| counts.function(number).map_or(0, |one| one.entered);
            let functions: u64 = numbers.iter().map(entered).sum();
            let others = u64::from(exceptions) * counts.exceptions + u64::from(gaps) * counts.gaps;
            let context = id.and_then(|id| counts.contexts.binary_search_by_key(&id, |one| one.0).ok());
            functions + others + context.map_or(0, |place| counts.contexts[place].1)
        })
    }
}

/// What a function does in a path.
#[derive(Clone, Copy, Debug)]
struct InPath {
    function: u32,
    /// How often it is entered, but at the beginning of the path.
    entered: u32,
    instructions: u32,
}

/// What is known of a path, but for how its first range was come to.
#[derive(Clone, Debug)]
struct KnownPath {
    /// How often it was walked in this part.
    times: u64,
    /// The function that its first range begins at: its number and its end.
    first: Option<(u32, u64)>,
    functions: Box<[InPath]>,
    /// How its last range ends.
    last: Option<RangeEnd>,
}

/// Counts what happens in a source with one hart.
#[derive(Debug)]
pub(super) struct Counting<'c> {
    places: FunctionPlaces,
    code: SourceCode<'c>,
    space: AddressSpace,
    numbers: HashMap<u64, u32>,
    sums: Sums,
    /// Points that a part has, and those that the last one has so far.
    points: usize,
    counted: usize,
    /// Functions and contexts of all parts.
    kept: usize,
    /// What the last part has, but for functions.
    part: Events,
    /// Events since the last instruction: they belong to the next.
    waiting: Events,
    /// What functions did in the last part, but for paths; and those of them that did anything.
    functions: Vec<FunctionCounts>,
    ran: Vec<u32>,
    hart: Option<u16>,
    last: Option<RangeEnd>,
    context: Option<u64>,
    paths: ByPath<KnownPath>,
    /// Paths that the last part has.
    walked: Vec<PathId>,
}

/// Counts of events.
#[derive(Debug, Default)]
struct Events {
    exceptions: u64,
    gaps: u64,
    breaks: u64,
    messages: u64,
    contexts: BTreeMap<u64, u64>,
    /// Something was counted.
    is_filled: bool,
}

/// What is known at the end of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartEnd {
    /// Instructions before it.
    pub instructions: u64,
    pub time: Option<u64>,
    pub depths: (u64, u64),
}

impl<'c> Counting<'c> {
    pub fn new(code: SourceCode<'c>) -> Self {
        let places = FunctionPlaces::of(code.image());
        let (numbers, sums, counted, kept, part, waiting) = Default::default();
        let (functions, ran, hart, last, context, paths, walked) = Default::default();
        Self {
            places,
            code,
            space: AddressSpace::ANY,
            numbers,
            sums,
            points: 4,
            counted,
            kept,
            part,
            waiting,
            functions,
            ran,
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
            let function = self.functions.len() as u32;
            self.sums.functions.push(start);
            self.functions.push(FunctionCounts { function, ..FunctionCounts::default() });
            function
        })
    }

    /// What a function did in the last part.
    #[inline(always)]
    fn function(&mut self, number: u32) -> &mut FunctionCounts {
        let function = &mut self.functions[number as usize];
        if function.entered == 0 && function.instructions == 0 {
            self.ran.push(number);
        }
        function
    }

    /// Gives the functions that a range is in, with how many of its instructions are in each.
    fn split(&mut self, range: &Range, each: &mut dyn FnMut(&mut Self, u32, u32)) {
        let (function, to) = self.places.around(range.start.0);
        if range.end.0 <= to {
            let number = self.number(function);
            return each(self, number, range.instructions);
        }
        let (mut now, mut count, mut met) = ((function, to), 0, Vec::new());
        let places = &self.places;
        steps(range, self.space, &self.code, |step| {
            if step.address.0 >= now.1 {
                met.push((now.0, std::mem::take(&mut count)));
                now = places.around(step.address.0);
            }
            count += 1;
        });
        // Where code is missing, the last function has the rest.
        let known: u32 = met.iter().map(|(_, count)| *count).sum();
        met.push((now.0, range.instructions.saturating_sub(known)));
        for (function, count) in met.into_iter().filter(|(_, count)| *count > 0) {
            let number = self.number(function);
            each(self, number, count);
        }
    }

    /// The next instructions are executed.
    fn settle(&mut self) {
        if !self.waiting.is_filled {
            return;
        }
        let Events { exceptions, gaps, breaks, messages, contexts, .. } = std::mem::take(&mut self.waiting);
        self.part.exceptions += exceptions;
        self.part.gaps += gaps;
        self.part.breaks += breaks;
        self.part.messages += messages;
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
        if let Some(function) = self.places.at(range.start.0)
            && is_entered(&function, before)
        {
            let number = self.number(range.start.0);
            self.function(number).entered += 1;
        }
        self.split(range, &mut |counting, number, count| {
            counting.function(number).instructions += u64::from(count);
        });
    }

    /// Takes an event that is no range.
    pub fn event(&mut self, event: &Event) {
        if interrupts(event) {
            self.last = None;
        }
        let waiting = &mut self.waiting;
        waiting.breaks += u64::from(event.is_break());
        waiting.gaps += u64::from(event.is_loss());
        waiting.is_filled |= event.is_break() || event.is_loss();
        match event {
            Event::Exception { .. } => waiting.exceptions += 1,
            Event::Software(_) => waiting.messages += 1,
            Event::Context(context, _) => {
                self.space = self.code.space_of(context);
                let id = self.code.context_id(context);
                let before = std::mem::replace(&mut self.context, id);
                match id {
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
        if known.times == 0 {
            self.walked.push(path);
        }
        known.times += 1;
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
            self.function(number).entered += 1;
        }
    }

    /// Learns a path, and takes it.
    pub fn learn(&mut self, path: PathId, ranges: &[Range]) {
        if !self.paths.is_current(path) {
            self.count_paths();
            self.paths.begin(path);
        }
        let (mut first, mut functions, mut last) = (None, BTreeMap::<u32, (u32, u32)>::new(), None);
        for (place, range) in ranges.iter().enumerate() {
            let before = last.replace(RangeEnd::of(range));
            if range.instructions == 0 {
                continue;
            }
            self.split(range, &mut |_, number, count| {
                functions.entry(number).or_default().1 += count;
            });
            let Some(function) = self.places.at(range.start.0) else { continue };
            let number = self.number(function.start);
            match place {
                0 => first = Some((number, function.end)),
                _ if is_entered(&function, before) => functions.entry(number).or_default().0 += 1,
                _ => {}
            }
        }
        let last = last.or(self.last);
        let in_path = |(function, (entered, instructions))| InPath { function, entered, instructions };
        let functions = functions.into_iter().map(in_path).collect();
        self.paths.insert(path, KnownPath { times: 0, first, functions, last });
        if !self.path(path) {
            ranges.iter().for_each(|range| self.range(range));
        }
    }

    /// Counts what functions did in paths.
    fn count_paths(&mut self) {
        let mut walked = std::mem::take(&mut self.walked);
        for path in walked.drain(..) {
            let Some(known) = self.paths.get_mut(path) else { continue };
            let times = std::mem::take(&mut known.times);
            for &InPath { function, entered, instructions } in &known.functions {
                let counts = &mut self.functions[function as usize];
                if counts.entered == 0 && counts.instructions == 0 {
                    self.ran.push(function);
                }
                counts.entered += times * u64::from(entered);
                counts.instructions += times * u64::from(instructions);
            }
        }
        self.walked = walked;
    }

    /// A point comes here; `depths` are asked for if a part ends there. It comes after so many bytes of the stream.
    pub fn point(&mut self, offset: u64, end: impl FnOnce() -> PartEnd) {
        self.counted += 1;
        if self.counted < self.points {
            return;
        }
        self.close(end());
        let most = usize::try_from(offset / BYTES).unwrap_or(usize::MAX).max(FEW);
        while self.sums.parts.len() > 1 && (self.sums.parts.len() > MOST_PARTS || self.kept > most) {
            self.halve();
        }
    }

    fn close(&mut self, end: PartEnd) {
        self.count_paths();
        let Events { exceptions, gaps, breaks, messages, contexts, .. } = std::mem::take(&mut self.part);
        self.ran.sort_unstable();
        let none = |function| FunctionCounts { function, ..FunctionCounts::default() };
        let take = |number: u32| std::mem::replace(&mut self.functions[number as usize], none(number));
        let functions = self.ran.drain(..).map(take).collect();
        let contexts = contexts.into_iter().collect();
        let counts = Counts { exceptions, gaps, breaks, messages, contexts, functions };
        self.kept += counts.contexts.len() + counts.functions.len();
        let PartEnd { instructions, time, depths } = end;
        self.sums.parts.push(Part { end: instructions, time, depths, counts });
        self.counted = 0;
    }

    /// Each two parts become one.
    fn halve(&mut self) {
        self.points = self.points.saturating_mul(2);
        let mut parts = std::mem::take(&mut self.sums.parts).into_iter();
        while let Some(mut part) = parts.next() {
            // The last one may have none beside it: that does no harm.
            if let Some(next) = parts.next() {
                (part.end, part.time) = (next.end, next.time.or(part.time));
                part.depths = (part.depths.0.min(next.depths.0), part.depths.1.max(next.depths.1));
                part.counts.add(&next.counts);
            }
            self.sums.parts.push(part);
        }
        self.kept =
            self.sums.parts.iter().map(|part| part.counts.contexts.len() + part.counts.functions.len()).sum();
    }

    /// The source ends.
    pub fn finish(mut self, end: PartEnd) -> Sums {
        self.settle();
        self.close(end);
        self.sums
    }
}
