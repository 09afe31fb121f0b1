//! Stays in functions, from the events of one hart or core.

use std::collections::HashMap;
use std::sync::Arc;

use backsight_core::{Address, AddressSpace, Context};
use backsight_flow::{Event, PathId, Range};
use backsight_image::{Code as _, Naming};

use super::clock::{Clock, Cost};
use super::functions::{FunctionName, Functions};
use super::records::{Kind, Recorder};
use super::saved::{NONE, Paused};
use super::segments::{Segment, Walk};
use super::stack::{Arrival, Departure, Frame, Ledger, NameId, Place, Stack};
use super::walked::WalkedPaths;
use crate::SourceCode;

/// Threads whose calls are kept. Where there are more, those that do not run are forgotten.
const MOST_THREADS: usize = 1 << 12;

/// A stay in a function, from the time that execution comes to it until it goes elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'i> {
    /// The function.
    pub function: FunctionName<'i>,
    /// Calls under way around it, as far as they are known; 0 for the outermost.
    pub depth: usize,
    /// Execution was not in this call before: it begins here.
    pub is_entry: bool,
    /// The latest timestamp before it.
    pub begin: Option<u64>,
    /// What it cost, without what it called.
    pub own: Cost,
    /// The call ended with it: what that cost from beginning to end, with all that it called. `None` if it goes on, or
    /// its beginning is not in the trace.
    pub call: Option<Cost>,
}

/// The same with the number of the name, which is shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    pub name: NameId,
    pub depth: usize,
    pub is_entry: bool,
    pub begin: Option<u64>,
    pub own: Cost,
    pub call: Option<Cost>,
    /// In a call of a function that is [marked](ShadowStack::marking), or in what that called.
    pub is_inside: bool,
}

impl Stay {
    /// With the name of the function.
    pub fn named<'i>(&self, functions: &Functions<'i>) -> Option<Visit<'i>> {
        let &Self { name, depth, is_entry, begin, own, call, is_inside: _ } = self;
        Some(Visit { function: *functions.name(name)?, depth, is_entry, begin, own, call })
    }
}

/// A call that is under way.
#[derive(Clone, Copy, Debug)]
pub struct UnderWay<'i> {
    /// The function.
    pub function: FunctionName<'i>,
    /// Where it will return to, if its call was seen.
    pub return_address: Option<Address>,
    /// Entered by an exception, an interrupt or a signal, and not called.
    pub is_handler: bool,
    /// Instructions that were executed before it, of all harts of its source if somebody [counts](ShadowStack::elsewhere) those.
    pub entered: u64,
}

/// What is kept with a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visited {
    pub name: NameId,
    pub entered: Clock,
    /// Instructions that other harts had executed then.
    pub elsewhere: u64,
    pub is_beginning_known: bool,
    pub was_visited: bool,
    /// It or a call around it is of a function that is marked.
    pub is_inside: bool,
    /// Its number where calls are [kept](super::saved).
    pub saved: u32,
}

/// The calls of one hart or core: takes what was executed, and gives the stays in functions.
#[derive(Clone, Debug)]
pub struct ShadowStack<'i> {
    pub(super) costs: Costs<'i>,
    pub(super) context: Option<Context>,
    pub(super) stack: Stack<Visited>,
    /// The thread whose calls these are, where the trace names it.
    pub(super) thread: Option<u64>,
    /// The calls of others.
    pub(super) paused: HashMap<u64, Stack<Visited>>,
    /// The same as they were kept last, if they are what they were.
    pub(super) saved_paused: Option<Paused>,
    /// Paths that came before.
    walked: WalkedPaths,
}

/// What calls cost, and the functions that they are of.
#[derive(Clone, Debug)]
pub(super) struct Costs<'i> {
    pub functions: Functions<'i>,
    pub space: AddressSpace,
    pub clock: Clock,
    /// When the stay began that goes on.
    pub began: Clock,
    /// Instructions of other harts.
    elsewhere: u64,
    /// Functions that are marked, by where they are.
    marked: Option<Arc<[std::ops::Range<u64>]>>,
}

impl Costs<'_> {
    /// Is a call inside of one of a function that is marked, or such a call? Execution came to it at an address.
    #[inline(always)]
    pub fn is_inside(&self, callers: &[Frame<Visited>], address: Address) -> bool {
        self.marked.is_some() && self.is_marked(callers, address)
    }

    #[inline(never)]
    fn is_marked(&self, callers: &[Frame<Visited>], address: Address) -> bool {
        let is_it = |function: &std::ops::Range<u64>| function.contains(&address.0);
        callers.last().is_some_and(|caller| caller.kept.is_inside)
            || self.marked.iter().any(|functions| functions.iter().any(is_it))
    }
}

/// A range, and the cycles that were counted right before it, if they were.
pub(crate) type CountedRange = (Option<u32>, Range);

/// Takes stays, with the functions that their numbers are of.
pub(crate) trait Stays<'i> {
    fn take(&mut self, functions: &Functions<'i>, stay: &Stay);

    /// Where the calls of a part of a source are recorded, and stays are not taken one by one.
    #[inline(always)]
    fn recorder(&mut self) -> Option<&mut Recorder> {
        None
    }
}

impl<'i, F: FnMut(&Functions<'i>, &Stay)> Stays<'i> for F {
    fn take(&mut self, functions: &Functions<'i>, stay: &Stay) {
        self(functions, stay);
    }
}

/// Takes stays with the names of functions.
fn with_names<'i>(sink: &mut dyn FnMut(Visit<'i>)) -> impl FnMut(&Functions<'i>, &Stay) {
    |functions, stay| stay.named(functions).into_iter().for_each(&mut *sink)
}

/// Gives stays, with what they cost, to a sink.
pub(super) struct Reporter<'a, 'i, S> {
    costs: &'a mut Costs<'i>,
    sink: &'a mut S,
}

impl<'i> ShadowStack<'i> {
    /// No call is known. Functions are those of the code that a source ran.
    pub fn new(code: SourceCode<'i>) -> Self {
        Self {
            costs: Costs {
                functions: Functions::new(code),
                space: AddressSpace::ANY,
                clock: Clock::default(),
                began: Clock::default(),
                elsewhere: 0,
                marked: None,
            },
            context: None,
            stack: Stack::default(),
            thread: None,
            paused: HashMap::new(),
            saved_paused: None,
            walked: WalkedPaths::default(),
        }
    }

    /// How functions are named.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        let costs = Costs { functions: self.costs.functions.naming(naming), ..self.costs };
        Self { costs, walked: WalkedPaths::default(), ..self }
    }

    /// Marks functions, by where they are: the stack knows what is [inside](Self::is_inside) of their calls.
    #[must_use]
    pub fn marking(self, functions: Arc<[std::ops::Range<u64>]>) -> Self {
        let marked = Some(functions).filter(|functions| !functions.is_empty());
        Self { costs: Costs { marked, ..self.costs }, ..self }
    }

    /// Is a call of a function under way that is marked?
    pub fn is_inside(&self) -> bool {
        self.stack.frames.last().is_some_and(|call| call.kept.is_inside)
    }

    /// Takes what happened next. Stays that ended are given to `sink`.
    pub fn push(&mut self, event: &Event, sink: &mut dyn FnMut(Visit<'i>)) {
        self.take(event, &mut with_names(sink));
    }

    /// Gives the stay that goes on, as far as it has come.
    pub fn flush(&mut self, sink: &mut dyn FnMut(Visit<'i>)) {
        self.interrupt(&mut with_names(sink));
    }

    /// The trace ends.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Visit<'i>)) {
        self.end(&mut with_names(sink));
    }

    /// What happens next, happens after so many instructions of other harts of the same source.
    pub fn elsewhere(&mut self, instructions: u64) {
        self.costs.elsewhere = instructions;
    }

    /// The thread whose calls these are, where the trace names it.
    pub const fn thread(&self) -> Option<u64> {
        self.thread
    }

    /// The address space of what comes next.
    pub(crate) const fn space(&self) -> AddressSpace {
        self.costs.space
    }

    /// Instructions so far.
    pub const fn instructions(&self) -> u64 {
        self.costs.clock.instructions
    }

    /// The calls under way, the outermost first.
    pub fn under_way(&self) -> impl Iterator<Item = UnderWay<'i>> {
        self.named(self.stack.frames.iter())
    }

    /// Those of them that began before so many instructions of this hart were executed.
    pub(crate) fn under_way_before(&self, instructions: u64) -> impl Iterator<Item = UnderWay<'i>> {
        let is_before = move |frame: &&Frame<Visited>| frame.kept.entered.instructions < instructions;
        self.named(self.stack.frames.iter().take_while(is_before))
    }

    /// Calls around those, which are forgotten.
    pub const fn forgotten(&self) -> usize {
        self.stack.forgotten
    }

    /// How many calls are under way.
    pub fn depth(&self) -> usize {
        self.stack.forgotten + self.stack.frames.len()
    }

    /// How many calls are around the one in which instructions were executed since the last stay, if there are any.
    pub(crate) fn depth_of_stay(&self) -> Option<usize> {
        let has_run = self.costs.clock.instructions > self.costs.began.instructions;
        self.depth().checked_sub(1).filter(|_| has_run)
    }

    /// The threads that do not run, each with its calls and how many around those are forgotten.
    pub fn paused(&self) -> impl Iterator<Item = (u64, usize, impl Iterator<Item = UnderWay<'i>>)> {
        self.paused.iter().map(|(thread, stack)| (*thread, stack.forgotten, self.named(stack.frames.iter())))
    }

    fn named<'f>(
        &'f self,
        frames: impl Iterator<Item = &'f Frame<Visited>>,
    ) -> impl Iterator<Item = UnderWay<'i>> {
        frames.filter_map(|&Frame { return_address, is_handler, kept, .. }| {
            let function = *self.costs.functions.name(kept.name)?;
            let entered = kept.entered.instructions.saturating_add(kept.elsewhere);
            Some(UnderWay { function, return_address, is_handler, entered })
        })
    }

    /// As [`ShadowStack::push`], with the numbers of names. A stay that goes on is given as far as it has come, if
    /// `is_interrupted`.
    pub(crate) fn take_numbered(&mut self, event: &Event, is_interrupted: bool, sink: &mut impl Stays<'i>) {
        self.take(event, sink);
        if is_interrupted {
            self.interrupt(sink);
        }
    }

    /// As [`ShadowStack::finish`], with the numbers of names.
    pub(crate) fn end(&mut self, sink: &mut impl Stays<'i>) {
        self.lose(sink);
        self.interrupt(sink);
        self.stack = Stack::default();
        self.paused.clear();
        self.saved_paused = None;
    }

    /// The stack, and what it reports to.
    #[inline(always)]
    pub(super) fn split<'a, S>(
        &'a mut self,
        sink: &'a mut S,
    ) -> (&'a mut Stack<Visited>, Reporter<'a, 'i, S>) {
        (&mut self.stack, Reporter { costs: &mut self.costs, sink })
    }

    /// Something is missing.
    pub(super) fn lose(&mut self, sink: &mut impl Stays<'i>) {
        if let Some(recorder) = sink.recorder() {
            self.end_stretch(recorder);
            let returns = self.stack.departure == Departure::Return;
            recorder.state(Kind::Loss, returns, &self.costs.clock);
        }
        let (stack, mut reporter) = self.split(sink);
        stack.lose(&mut reporter);
    }

    /// Whatever happens next happens to calls that are not known here, too.
    pub(super) fn end_stretch(&mut self, recorder: &mut Recorder) {
        if !self.stack.frames.is_empty() {
            let (stack, mut reporter) = self.split(recorder);
            stack.end_stretch(stack.departure, &mut reporter);
        }
    }

    pub(super) fn interrupt(&mut self, sink: &mut impl Stays<'i>) {
        if self.stack.frames.is_empty()
            && let Some(recorder) = sink.recorder()
        {
            let returns = self.stack.departure == Departure::Return;
            return recorder.state(Kind::Interrupt, returns, &self.costs.clock);
        }
        let (stack, mut reporter) = self.split(sink);
        stack.interrupt(&mut reporter);
    }

    /// What comes next of the thread may be on another hart. `is_lost`: the last thing that happened was that something is missing.
    pub(crate) fn pause(&mut self, is_lost: bool, sink: &mut impl Stays<'i>) {
        let (stack, mut reporter) = self.split(sink);
        match is_lost {
            true => stack.interrupt(&mut reporter),
            false => stack.pause(&mut reporter),
        }
    }

    /// It goes on, on a hart whose last timestamp was this.
    pub(crate) fn go_on(&mut self, time: Option<u64>) {
        self.costs.clock.time = time.or(self.costs.clock.time);
        self.costs.began = self.costs.clock;
    }

    /// Names that nobody needs any more are forgotten.
    #[cold]
    pub(super) fn forget_names(&mut self) {
        self.walked = WalkedPaths::default();
        let stacks = self.paused.values_mut().chain([&mut self.stack]);
        let frames = stacks.flat_map(|stack| stack.frames.iter_mut());
        self.costs.functions.forget_names(frames.map(|frame| &mut frame.kept.name));
    }

    /// The same if there are many.
    fn limit_names(&mut self, sink: &mut impl Stays<'i>) {
        if !self.costs.functions.has_many_names() {
            return;
        }
        if let Some(recorder) = sink.recorder() {
            self.end_stretch(recorder);
            recorder.forget_names();
        }
        self.forget_names();
    }

    fn take(&mut self, event: &Event, sink: &mut impl Stays<'i>) {
        self.limit_names(sink);
        match *event {
            Event::Range(ref range) => self.range(range, sink),
            Event::Exception { return_address, .. } => {
                let (stack, mut reporter) = self.split(sink);
                if let Some(address) = return_address.filter(|_| stack.is_between()) {
                    let place = reporter.place(address);
                    stack.arrive(&place, &mut reporter);
                }
                stack.departure = Departure::exception(return_address);
            }
            Event::ExceptionReturn => self.stack.departure = Departure::ExceptionReturn,
            Event::Context(context, _) => {
                let code = self.costs.functions.code();
                (self.context, self.costs.space) = (Some(context), code.space_of(&context));
                let thread = code.context_id(&context);
                if thread.is_some() && thread != self.thread {
                    self.change_thread(thread, sink);
                }
            }
            Event::Timestamp { value, .. } => self.costs.clock.time = Some(value),
            Event::CycleCount(Some(cycles)) => self.costs.clock.count_cycles(cycles),
            ref event if event.is_edge() => self.lose(sink),
            _ => {}
        }
    }

    fn range(&mut self, range: &Range, sink: &mut impl Stays<'i>) {
        let (stack, mut reporter) = self.split(sink);
        let place = reporter.place(range.start);
        stack.arrive(&place, &mut reporter);
        self.run(range, sink);
    }

    /// A range was executed where execution had arrived.
    fn run(&mut self, range: &Range, sink: &mut impl Stays<'i>) {
        let (stack, mut reporter) = self.split(sink);
        let departure = reporter.costs.functions.departure(range, reporter.costs.space);
        stack.run(range.instructions.into(), departure, &mut reporter);
    }

    /// Another thread has its turn, with calls of its own.
    pub(super) fn change_thread(&mut self, thread: Option<u64>, sink: &mut impl Stays<'i>) {
        if let Some(recorder) = sink.recorder() {
            self.end_stretch(recorder);
            let returns = self.stack.departure == Departure::Return;
            recorder.thread(thread.unwrap_or(0), returns, &self.costs.clock);
            if self.thread.is_some() {
                self.stack = Stack::open();
            }
            self.thread = thread;
            return;
        }
        let Some(before) = std::mem::replace(&mut self.thread, thread) else { return };
        let (stack, mut reporter) = self.split(sink);
        stack.pause(&mut reporter);
        if self.paused.len() >= MOST_THREADS {
            self.paused.clear();
        }
        self.saved_paused = None;
        let next = thread.and_then(|thread| self.paused.remove(&thread)).unwrap_or_default();
        self.paused.insert(before, std::mem::replace(&mut self.stack, next));
        self.costs.began = self.costs.clock;
    }

    /// The code is not what it was: from now on names are those of this one.
    pub fn set_code(&mut self, code: SourceCode<'i>) {
        self.costs.space = self.context.map_or(self.costs.space, |context| code.space_of(&context));
        self.costs.functions.set_code(code);
        self.walked = WalkedPaths::default();
    }

    /// Takes the ranges of a path that was walked before: `path` always stands for the same ones. It comes to what
    /// [`ShadowStack::push`] comes to range by range, and is faster. It seldom looks at the ranges: they stay where they are.
    #[inline(always)]
    pub(crate) fn walk(
        &mut self,
        path: PathId,
        ranges: impl Iterator<Item = Range>,
        sink: &mut impl Stays<'i>,
    ) {
        match self.walk_again(path, || None, sink) {
            Walk::Whole => {}
            walk => self.walk_ranges(path, walk, &mut ranges.map(|range| (None, range)), sink),
        }
    }

    /// The same where cycles were counted between the ranges: `counts` are those right before each, which `ranges` have, too.
    #[inline(always)]
    pub(crate) fn walk_counted(
        &mut self,
        path: PathId,
        mut counts: impl Iterator<Item = Option<u32>>,
        ranges: impl Iterator<Item = CountedRange>,
        sink: &mut impl Stays<'i>,
    ) {
        match self.walk_again(path, || counts.next().flatten(), sink) {
            Walk::Whole => {}
            walk => self.walk_ranges(path, walk, &mut { ranges }, sink),
        }
    }

    #[inline(always)]
    fn walk_again(
        &mut self,
        path: PathId,
        mut cycles: impl FnMut() -> Option<u32>,
        sink: &mut impl Stays<'i>,
    ) -> Walk {
        let Self { costs, stack, walked, .. } = self;
        let Some((first, others)) = walked.get(path, costs.space) else { return Walk::Unknown };
        stack.walk(&first, walked.others(others), &mut Reporter { costs, sink }, |reporter| {
            if let Some(cycles) = cycles() {
                reporter.costs.clock.count_cycles(cycles);
            }
        })
    }

    /// Takes the ranges of a path of which not enough is remembered.
    #[cold]
    #[inline(never)]
    fn walk_ranges(
        &mut self,
        path: PathId,
        walk: Walk,
        ranges: &mut dyn Iterator<Item = CountedRange>,
        sink: &mut impl Stays<'i>,
    ) {
        self.limit_names(sink);
        match walk {
            Walk::Whole => {}
            Walk::Before(count) => {
                let mut rest = ranges.skip(count);
                // The cycles before it are counted.
                rest.next().into_iter().for_each(|(_, range)| self.run(&range, sink));
                rest.for_each(|range| self.counted_range(&range, sink));
            }
            Walk::Unknown if self.walked.has_room(path) => self.learn(path, ranges, sink),
            Walk::Unknown => ranges.for_each(|range| self.counted_range(&range, sink)),
        }
    }

    fn counted_range(&mut self, (cycles, range): &CountedRange, sink: &mut impl Stays<'i>) {
        cycles.iter().for_each(|&cycles| self.costs.clock.count_cycles(cycles));
        self.range(range, sink);
    }

    /// Takes a path range by range, and remembers what it does.
    fn learn(
        &mut self,
        path: PathId,
        ranges: &mut dyn Iterator<Item = CountedRange>,
        sink: &mut impl Stays<'i>,
    ) {
        let mut segments = Vec::new();
        for counted in ranges {
            let (before, (_, range)) = (self.stack.departure, counted);
            self.counted_range(&counted, sink);
            // With its name, if it was called.
            let place = self.costs.functions.at(self.costs.space, range.start);
            Segment::add(&mut segments, 0, before, place, range.instructions, self.stack.departure);
        }
        self.walked.insert(path, self.costs.space, &segments);
    }
}

impl<'i, S: Stays<'i>> Ledger<Visited> for Reporter<'_, 'i, S> {
    #[inline(always)]
    fn run(&mut self, instructions: u64) {
        self.costs.clock.instructions += instructions;
    }

    #[inline(always)]
    fn end_stay<const RETURNS: bool>(&mut self, calls: &mut [Frame<Visited>], forgotten: usize) {
        let Costs { clock, began, .. } = &mut *self.costs;
        if let Some(recorder) = self.sink.recorder() {
            recorder.stay(calls, began, clock, RETURNS);
            *began = *clock;
        } else if self.costs.clock.counts_instructions_only() {
            self.stay::<RETURNS>(Clock::instructions_since, calls, forgotten);
            // The rest of it is the same.
            self.costs.began.instructions = self.costs.clock.instructions;
        } else {
            self.timed_stay::<RETURNS>(calls, forgotten);
        }
    }

    #[inline(always)]
    fn begin(&mut self, callers: &[Frame<Visited>], place: &Place, is_beginning_known: bool) -> Visited {
        let name = self.costs.functions.name_of(self.costs.space, place);
        if let Some(recorder) = self.sink.recorder() {
            recorder.name(name, self.costs.space, place.address);
            recorder.call(callers.len());
        }
        let Costs { clock: entered, elsewhere, .. } = *self.costs;
        let is_inside = self.costs.is_inside(callers, place.address);
        Visited { name, entered, elsewhere, is_beginning_known, was_visited: false, is_inside, saved: NONE }
    }

    fn replace(&mut self, calls: &mut [Frame<Visited>], place: &Place) {
        let name = self.costs.functions.name_of(self.costs.space, place);
        if let Some(recorder) = self.sink.recorder() {
            recorder.name(name, self.costs.space, place.address);
            if calls.len() == 1 {
                recorder.replace(name, place, self.costs.space);
            }
        }
        if let Some((top, callers)) = calls.split_last_mut() {
            (top.kept.name, top.kept.was_visited, top.kept.saved) = (name, false, NONE);
            top.kept.is_inside = self.costs.is_inside(callers, place.address);
        }
    }

    fn has_room(&mut self) -> bool {
        self.sink.recorder().is_some()
    }

    fn begin_stretch(&mut self, arrival: &Arrival) -> Visited {
        if let Some(recorder) = self.sink.recorder() {
            recorder.begin(arrival, self.costs.space, &self.costs.clock);
        }
        self.costs.began = self.costs.clock;
        Visited {
            name: NameId::MIN,
            entered: self.costs.clock,
            elsewhere: self.costs.elsewhere,
            is_beginning_known: false,
            was_visited: false,
            is_inside: false,
            saved: NONE,
        }
    }

    fn takes_function(&self, arrival: &Arrival) -> bool {
        arrival.is_of_function()
    }

    fn end_stretch(&mut self, calls: Vec<Frame<Visited>>, _left: Departure) {
        let Costs { functions, clock, began, .. } = &mut *self.costs;
        if let Some(recorder) = self.sink.recorder().filter(|_| !calls.is_empty()) {
            recorder.end(functions, &calls, began, clock);
        }
    }
}

impl<'i, S: Stays<'i>> Reporter<'_, 'i, S> {
    /// What is at an address.
    fn place(&mut self, address: Address) -> Place {
        self.costs.functions.at(self.costs.space, address)
    }

    /// The same where cycles or time are known.
    #[inline(never)]
    fn timed_stay<const RETURNS: bool>(&mut self, calls: &mut [Frame<Visited>], forgotten: usize) {
        self.stay::<RETURNS>(Clock::since, calls, forgotten);
        self.costs.began = self.costs.clock;
    }

    #[inline(always)]
    fn stay<const RETURNS: bool>(
        &mut self,
        since: impl Fn(&Clock, &Clock) -> (Cost, Option<u64>),
        calls: &mut [Frame<Visited>],
        forgotten: usize,
    ) {
        let (own, begin) = since(&self.costs.clock, &self.costs.began);
        let depth = forgotten + calls.len();
        let Some(Frame { kept: top, .. }) = calls.last_mut() else { return };
        let call = (RETURNS && top.is_beginning_known).then(|| since(&self.costs.clock, &top.entered).0);
        if own.instructions > 0 || call.is_some() {
            let is_entry = !std::mem::replace(&mut top.was_visited, true);
            let Visited { name, is_inside, .. } = *top;
            let stay = Stay { name, depth: depth - 1, is_entry, begin, own, call, is_inside };
            self.sink.take(&self.costs.functions, &stay);
        }
    }
}
