//! Counting, in one pass over what a source executed.
//!
//! What is executed again and again costs a comparison and an addition: see [`blocks`], and [`walked`] for whole paths.
//! Calls are rebuilt where execution changes functions ([`calls`]), cycles are shared out where the trace counts them ([`cycles`]). Memory is bounded by
//! the code that was executed, and by limits where that is not what it should be.

mod blocks;
mod branch_windows;
mod calls;
mod cycles;
mod events;
mod handover;
mod hash;
mod join;
mod parts;
mod paths;
mod pc_samples;
mod result;
mod selection;
mod stretches;
mod timeline;
mod turns;
mod walked;
mod window;

use std::collections::BTreeMap;

use backsight::calls::{Departure, Functions, Place};
use backsight::core::{Address, AddressSpace, Cause};
use backsight::flow::{Event, Range, TraceOn};
use backsight::image::{Code as _, Window};
use backsight::listing::{Filter, FilterOptions};
use backsight::{Source, SourceCode};

use crate::{EventChoice, Totals};
pub(crate) use blocks::NONE;
use blocks::{Blocks, Ending, Followed, Way, way_of};
pub use branch_windows::BranchWindows;
use branch_windows::WindowSampler;
use calls::Tree;
use cycles::{CertainCycles, Stay};
use events::{BlockOrigins, EventCounter};
pub use handover::Handover;
pub(crate) use hash::NumberMap;
pub(crate) use join::ThreadNames;
use parts::Part;
use paths::PathCounter;
use pc_samples::PcSamples;
use selection::{Selection, Step};
pub(crate) use stretches::Stretch;
use timeline::Timeline;
use turns::{Hart, ThreadRecord};

/// What to count.
#[derive(Clone, Debug, Default)]
pub struct CountOptions {
    /// Calls over time that are kept; 0: none.
    pub timeline: usize,
    /// Branches on a path, 1 to 16, for outcomes by path; 0: they are not counted.
    pub paths: usize,
    /// Events of the trace unit that are attributed to blocks.
    pub events: Vec<EventChoice>,
    /// Instructions by which events come to the trace unit late, at least and at most.
    pub skid: (u32, u32),
    /// Count only windows of branches that end in a sample.
    pub windows: Option<BranchWindows>,
    /// Count only this part of the execution: whole blocks, of which some instruction is wanted.
    pub filter: FilterOptions,
    /// Keep the calls of threads that ran on several cores apart by core, as parts of sources do that are counted alone.
    pub by_core: bool,
}

/// Counts what one source executed.
#[derive(Debug)]
pub struct Counter<'c> {
    source: Source,
    options: CountOptions,
    functions: Functions<'c>,
    blocks: Blocks,
    tree: Tree,
    timeline: Timeline,
    hart: Hart,
    /// Other harts of the same source.
    others: Vec<Hart>,
    /// The threads, by the nodes of the tree that are theirs.
    threads: Vec<ThreadRecord>,
    /// Cycles, by block.
    cycles: Vec<u64>,
    exceptions: BTreeMap<Cause, u64>,
    certain_cycles: CertainCycles,
    paths: Option<PathCounter>,
    events: Option<EventCounter>,
    sampler: Option<WindowSampler>,
    /// What counts, and its counts, where not everything does.
    filter: Option<(Filter<'c>, Selection)>,
    samples: PcSamples,
    /// Somebody asks for every range in its order: nothing is counted by paths.
    needs_order: bool,
    /// Not everything counts.
    selects: bool,
    /// Somebody asks for the time of calls.
    keeps_time: bool,
    /// Threads may go on on other harts.
    joins_threads: bool,
    /// What only the parts before it know, where a part is counted.
    part: Option<Box<Part>>,
    /// Parts that were joined come to what one counter counts.
    is_exact: bool,
    totals: Totals,
}

impl<'c> Counter<'c> {
    /// Nothing is counted yet. `code` is what the source ran.
    pub fn new(source: &Source, code: SourceCode<'c>, options: &CountOptions) -> Self {
        let mut tree = Tree::default();
        let hart = Hart::new(0, source.counts_cycles(), &mut tree);
        let threads = vec![ThreadRecord { root: hart.stack.node(), hart: 0, context_id: None }];
        Self {
            source: source.clone(),
            options: options.clone(),
            functions: Functions::new(code),
            blocks: Blocks::default(),
            tree,
            timeline: Timeline::new(options.timeline),
            hart,
            others: Vec::new(),
            threads,
            cycles: Vec::new(),
            exceptions: BTreeMap::new(),
            certain_cycles: CertainCycles::default(),
            sampler: options.windows.map(WindowSampler::new),
            filter: None,
            samples: PcSamples::default(),
            events: (!options.events.is_empty()).then(|| EventCounter::new(&options.events, options.skid)),
            paths: (options.paths > 0).then(|| PathCounter::new(options.paths)),
            keeps_time: options.timeline > 0,
            joins_threads: false,
            part: None,
            is_exact: true,
            selects: options.windows.is_some(),
            needs_order: options.paths > 0 || !options.events.is_empty() || options.windows.is_some(),
            totals: Totals::default(),
        }
    }

    /// Threads may go on on other harts, of this source or of others: their calls are put together when all sources have
    /// been counted.
    #[must_use]
    pub(crate) fn joining_threads(self, joins_threads: bool) -> Self {
        Self { joins_threads, ..self }
    }

    /// Only what a filter wants counts. Calls are rebuilt from everything.
    #[must_use]
    pub fn selecting(self, filter: Option<Filter<'c>>) -> Self {
        let (needs_order, selects) = (self.needs_order || filter.is_some(), self.selects || filter.is_some());
        let filter = filter.map(|filter| (filter, Selection::default()));
        Self { filter, needs_order, selects, ..self }
    }

    /// Takes what happened next on one of the harts of the source.
    #[inline]
    pub fn push(&mut self, hart: u16, event: &Event) {
        if hart != self.hart.number {
            self.switch_hart(hart);
        }
        self.event(event);
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        match event {
            Event::Range(range) => self.range(range),
            Event::CycleCount(Some(cycles)) if self.filter.is_none() => self.count_cycles((*cycles).into()),
            event => self.other(event),
        }
    }

    #[inline]
    fn range(&mut self, range: &Range) {
        // The instruction that an exception was taken at: nothing was executed.
        if range.instructions == 0 {
            return;
        }
        let is_wanted = if self.needs_order {
            self.range_in_order(range)
        } else {
            self.step(range);
            true
        };
        if self.hart.counts_cycles {
            let (node, instructions) = (self.hart.stack.node(), range.instructions);
            let (block, node) = if is_wanted { (self.hart.block, node) } else { (NONE, NONE) };
            self.hart.window.push(Stay { block, node, instructions });
        }
    }

    /// The same for somebody who asks for every range in its order. Does it count?
    #[inline(never)]
    fn range_in_order(&mut self, range: &Range) -> bool {
        let is_wanted = !self.selects || self.wants(&Event::Range(*range));
        let before = self.selects.then(|| (self.hart.block, self.hart.way, self.hart.stack.node()));
        let stretches = self.tree.stretches.len();
        self.step(range);
        let block = self.hart.block;
        if let Some(paths) = &mut self.paths {
            paths.step(block, range);
        }
        if let Some(before) = before.filter(|_| is_wanted) {
            self.select(before, block, range.instructions);
            let begun = self.tree.stretches.get_mut(stretches..).and_then(<[Stretch]>::last_mut);
            begun.into_iter().for_each(|stretch| stretch.is_selected = true);
        }
        if let Some(events) = &mut self.events {
            let (functions, space) = (&self.functions, self.hart.space);
            let code = functions.code();
            events.block(block, range.instructions, || BlockOrigins::of(range, &code, space));
        }
        is_wanted
    }

    /// Takes note of an event, and says whether it counts.
    #[inline(never)]
    fn wants(&mut self, event: &Event) -> bool {
        self.filter.as_mut().is_none_or(|(filter, _)| filter.wants(event))
    }

    /// Execution comes to a block and goes through it.
    #[inline]
    fn step(&mut self, range: &Range) {
        let (block, _) = self.follow(range);
        self.arrive(block, range);
        self.run(block, range);
    }

    /// Counts a block and the edge that led there: [`NONE`] if none did.
    #[inline]
    fn follow(&mut self, range: &Range) -> (u32, u32) {
        let followed = self.blocks.follow(self.hart.block, self.hart.way, range, self.hart.space);
        let Followed { block, edge } = match followed {
            Some(followed) => followed,
            None => self.find(range),
        };
        (self.hart.block, self.hart.way) = (block, way_of(range));
        (block, edge)
    }

    /// Whose call is that?
    #[inline]
    fn arrive(&mut self, block: u32, range: &Range) {
        let place = self.place_of(block, range);
        let Self { tree, timeline, hart, .. } = self;
        let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
        calls.arrive(&place, &mut ledger);
    }

    #[inline]
    fn run(&mut self, block: u32, range: &Range) {
        let departure = match self.blocks.blocks.get(block as usize) {
            Some(record) => record.departure(range.executed),
            None => self.functions.departure(range, self.hart.space),
        };
        let Self { tree, timeline, hart, .. } = self;
        let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
        calls.run(range.instructions.into(), departure, &mut ledger);
    }

    #[inline]
    fn place_of(&mut self, block: u32, range: &Range) -> Place {
        match self.blocks.blocks.get(block as usize) {
            Some(record) => record.place(),
            None => self.functions.at(self.hart.space, range.start),
        }
    }

    /// A step that may count, where not everything does: where it came from, and whether it is a call.
    #[inline(never)]
    fn select(&mut self, (from, way, caller): (u32, Way, u32), block: u32, instructions: u32) {
        let node = self.hart.stack.node();
        let is_known = from != NONE && self.blocks.has_edge(from, block, way);
        let is_call = self.tree.nodes.get(node as usize).is_some_and(|node| node.parent == caller);
        let from = if is_known { from } else { NONE };
        let step = Step { from, way, block, node, instructions, is_call };
        self.sampler.iter_mut().for_each(|sampler| sampler.step(step));
        self.filter.iter_mut().for_each(|(_, selection)| selection.add(step));
    }

    /// A block that did not follow the last one before, or follows nothing.
    #[inline(never)]
    fn find(&mut self, range: &Range) -> Followed {
        let Some(block) = self.block_of(range).or_else(|| self.add(range)) else {
            self.totals.uncounted += u64::from(range.instructions);
            return Followed { block: NONE, edge: NONE };
        };
        if let Some((from, way)) = self.way_to(range) {
            match self.blocks.count_edge(from, way, block) {
                Some(followed) => return followed,
                None => self.totals.uncounted_edges += 1,
            }
        }
        if let Some(record) = self.blocks.blocks.get_mut(block as usize) {
            record.entries += 1;
        }
        Followed { block, edge: NONE }
    }

    /// The block of a range, if it was met before, and if the code is what it was then.
    fn block_of(&mut self, range: &Range) -> Option<u32> {
        let space = self.hart.space;
        let block = self.blocks.find(range, space)?;
        if self.blocks.is_known(block) {
            return Some(block);
        }
        let function = self.functions.at(space, range.start).function;
        self.blocks.find_of(range, space, function)
    }

    fn add(&mut self, range: &Range) -> Option<u32> {
        let space = self.hart.space;
        let (place, ending) = self.ends_of(range, space);
        let block = self.blocks.add(range, space, place, ending)?;
        self.blocks.set_time(block, place.function, self.functions.window());
        Some(block)
    }

    /// The function of a new block, and how it ends.
    fn ends_of(&mut self, range: &Range, space: AddressSpace) -> (Place, Ending) {
        let place = self.functions.at(space, range.start);
        let taken = Range { executed: true, ..*range };
        (place, Ending::of(self.functions.departure(&taken, space)))
    }

    /// What follows happened in this span of time: names are those of the code of that time.
    fn change_code(&mut self, window: Window) {
        let is_changed = self.functions.enter(window);
        let (code, blocks) = (self.functions.code(), &mut self.blocks);
        for hart in self.others.iter_mut().chain([&mut self.hart]) {
            // A context may belong to another process now.
            hart.space = hart.context.map_or(hart.space, |context| code.space_of(&context));
            if is_changed {
                hart.walked.forget(blocks);
            }
        }
        if is_changed {
            self.blocks.code_changed();
            self.filter.iter_mut().for_each(|(filter, _)| filter.set_code(code));
        }
    }

    /// How the last block was left to come to this range; `None` if that is not known.
    /// After an exception whose handler is not in the trace, execution goes on as if there had been none.
    fn way_to(&mut self, range: &Range) -> Option<(u32, Way)> {
        if let Some((block, way, address)) = self.hart.interrupted.take() {
            let goes_on = address == range.start;
            self.totals.breaks -= u64::from(goes_on);
            return goes_on.then_some((block, way));
        }
        let from = self.hart.block;
        let last = self.blocks.blocks.get(from as usize)?;
        let follows = last.range.end == range.start;
        match (self.hart.way, self.hart.exception) {
            (Way::Exception, Some((Way::Onwards, _))) if follows => Some((from, Way::Onwards)),
            (Way::Exception, Some((Way::Taken, Some(address)))) if address == range.start => {
                Some((from, Way::Taken))
            }
            (Way::Onwards, _) if !follows => None,
            (way, _) => Some((from, way)),
        }
    }

    /// Where execution goes on after the exception that was taken last: after the block, or at the target of its branch.
    fn resumption(&self) -> Option<(u32, Way, Address)> {
        let last = self.blocks.blocks.get(self.hart.block as usize)?;
        match (self.hart.way, self.hart.exception?) {
            (Way::Exception, (Way::Onwards, _)) => Some((self.hart.block, Way::Onwards, last.range.end)),
            (Way::Exception, (Way::Taken, Some(address))) => Some((self.hart.block, Way::Taken, address)),
            _ => None,
        }
    }

    #[inline(never)]
    fn other(&mut self, event: &Event) {
        let is_wanted = self.wants(event);
        match *event {
            Event::Exception { cause, return_address, .. } => {
                *self.exceptions.entry(cause).or_default() += u64::from(is_wanted);
                self.exception(return_address);
            }
            Event::ExceptionReturn => {
                self.hart.stack.calls.departure = Departure::ExceptionReturn;
                if self.hart.block != NONE {
                    self.hart.way = Way::ExceptionReturn;
                }
            }
            Event::Context(context, _) => self.context(&context),
            Event::Timestamp { value, cycles } => {
                if self.keeps_time {
                    self.hart.axis.add(self.hart.clock.now, value);
                }
                if self.joins_threads && value != 0 {
                    self.give_time(value);
                }
                cycles.into_iter().for_each(|cycles| self.count_cycles(cycles.into()));
            }
            Event::UnitEvents(events) => self.events.iter_mut().for_each(|counter| counter.packet(events)),
            Event::CycleCount(Some(cycles)) => self.count_cycles(cycles.into()),
            // Nothing is known of the blocks since the last count.
            Event::CycleCount(None) if self.keeps_first_count(None) => {}
            Event::CycleCount(None) => self.hart.window.clear(),
            Event::PathUnknown { instructions, .. } => {
                self.totals.unknown_path += u64::from(instructions);
                self.hart.clock.now += u64::from(instructions);
                self.lose();
            }
            Event::Hardware(event) if self.filter.as_ref().is_none_or(|(filter, _)| filter.wants_now()) => {
                self.samples.take(&event);
            }
            Event::UncountedLoop { .. } => self.totals.uncounted_loops += 1,
            // Filters leave out the handler.
            Event::TraceOn(TraceOn::Begin) => {
                let interrupted = self.resumption();
                self.lose();
                self.hart.interrupted = interrupted;
            }
            Event::StartOfTrace
            | Event::NoSync(_)
            | Event::TraceOn(_)
            | Event::AddressUnknown
            | Event::NoMemory { .. }
            | Event::EndOfTrace { .. } => self.lose(),
            _ => {}
        }
    }

    /// An exception is taken: if that is before the first instruction of a function that was called, it is in it anyway.
    fn exception(&mut self, return_address: Option<Address>) {
        let Self { functions, tree, timeline, hart, .. } = self;
        let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
        if let Some(address) = return_address.filter(|_| calls.is_between()) {
            calls.arrive(&functions.at(hart.space, address), &mut ledger);
        }
        calls.departure = Departure::exception(return_address);
        if hart.block == NONE {
            return;
        }
        let before = match (hart.way, hart.exception) {
            (Way::Exception, Some((before, _))) => before,
            (way, _) => way,
        };
        hart.exception = Some((before, return_address));
        hart.way = Way::Exception;
    }

    #[inline(never)]
    fn count_cycles(&mut self, cycles: u64) {
        self.hart.counts_cycles = true;
        if self.keeps_first_count(Some(cycles)) {
            return;
        }
        self.totals.cycles += cycles;
        let Self { cycles: by_block, tree, hart, blocks, certain_cycles, .. } = self;
        if by_block.len() < blocks.blocks.len() {
            by_block.resize(blocks.blocks.len(), 0);
        }
        certain_cycles.add(&hart.window, &blocks.blocks, cycles);
        let shared = hart.window.share_out(cycles, |stay, cycles| {
            if let Some(sum) = by_block.get_mut(stay.block as usize) {
                *sum += cycles;
            }
            if let Some(node) = tree.nodes.get_mut(stay.node as usize) {
                node.cycles += cycles;
            }
        });
        if !shared {
            self.totals.unattributed_cycles += cycles;
        }
    }

    /// Something is missing.
    fn lose(&mut self) {
        self.totals.breaks += u64::from(self.hart.block != NONE);
        self.note_loss();
        let Self { tree, timeline, hart, paths, events, sampler, .. } = self;
        events.iter_mut().for_each(EventCounter::lose);
        sampler.iter_mut().for_each(WindowSampler::lose);
        let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
        calls.lose(&mut ledger);
        paths.iter_mut().for_each(PathCounter::forget);
        hart.block = NONE;
        hart.way = Way::Onwards;
        hart.interrupted = None;
    }
}
