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
mod functions;
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

use std::collections::BTreeMap;

use backsight::core::{Address, Cause};
use backsight::flow::{Event, Range, TraceOn};
use backsight::image::{Code as _, Window};
use backsight::listing::{Filter, FilterOptions};
use backsight::{Source, SourceCode};

use crate::{EventChoice, Totals};
pub(crate) use blocks::NONE;
use blocks::{BlockRecord, Blocks, Departure, Followed, Way, way_of};
pub use branch_windows::BranchWindows;
use branch_windows::WindowSampler;
use calls::{Arrival, Ledger, Tree};
use cycles::{CertainCycles, Stay};
use events::EventCounter;
use functions::Functions;
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
    filter: Option<(Filter, Selection)>,
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
    pub fn selecting(self, filter: Option<Filter>) -> Self {
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
        match event {
            Event::Range(range) => self.range(range),
            event => self.other(event),
        }
    }

    #[inline]
    fn range(&mut self, range: &Range) {
        // The instruction that an exception was taken at: nothing was executed.
        if range.instructions == 0 {
            return;
        }
        let is_wanted = !self.selects || self.wants(&Event::Range(*range));
        let before = self.selects.then(|| (self.hart.block, self.hart.way, self.hart.stack.node()));
        self.step(range);
        let block = self.hart.block;
        if let Some(paths) = &mut self.paths {
            paths.step(block, range);
        }
        if let Some(before) = before.filter(|_| is_wanted) {
            self.select(before, block, range.instructions);
        }
        if let Some(events) = &mut self.events {
            let (functions, space) = (&self.functions, self.hart.space);
            events.block(block, range.instructions, || functions.origins(range, space));
        }
        if self.hart.counts_cycles {
            let (node, instructions) = (self.hart.stack.node(), range.instructions);
            let (block, node) = if is_wanted { (block, node) } else { (NONE, NONE) };
            self.hart.window.push(Stay { block, node, instructions });
        }
    }

    /// Takes note of an event, and says whether it counts.
    #[inline(never)]
    fn wants(&mut self, event: &Event) -> bool {
        self.filter.as_mut().is_none_or(|(filter, _)| filter.wants(event))
    }

    /// Execution comes to a block and goes through it. Gives the edge that led there, or [`NONE`].
    #[inline]
    fn step(&mut self, range: &Range) -> u32 {
        let followed = self.blocks.follow(self.hart.block, self.hart.way, range, self.hart.space);
        let Followed { block, edge, changes_calls } = match followed {
            Some(followed) => followed,
            None => self.find(range),
        };
        if changes_calls {
            self.change_calls(block, range.start);
        }
        self.hart.block = block;
        self.hart.way = way_of(range);
        self.hart.clock += u64::from(range.instructions);
        edge
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
            return Followed { block: NONE, edge: NONE, changes_calls: true };
        };
        if let Some((from, way, is_direct)) = self.way_to(range) {
            match self.blocks.count_edge(from, way, block) {
                Some(followed) => {
                    // The first block of a part says how execution comes to it.
                    let changes_calls =
                        followed.changes_calls || !is_direct || self.hart.stack.frames.is_empty();
                    return Followed { changes_calls, ..followed };
                }
                None => self.totals.uncounted_edges += 1,
            }
        }
        if let Some(record) = self.blocks.blocks.get_mut(block as usize) {
            record.entries += 1;
        }
        Followed { block, edge: NONE, changes_calls: true }
    }

    /// The block of a range, if it was met before, and if the code is what it was then.
    fn block_of(&mut self, range: &Range) -> Option<u32> {
        let space = self.hart.space;
        let block = self.blocks.find(range, space)?;
        if self.blocks.is_known(block) {
            return Some(block);
        }
        let function = self.functions.at(space, range.start);
        self.blocks.find_of(range, space, function)
    }

    fn add(&mut self, range: &Range) -> Option<u32> {
        let space = self.hart.space;
        let function = self.functions.at(space, range.start);
        let departure = self.functions.departure(range, space);
        let block = self.blocks.add(range, space, function, departure)?;
        self.blocks.set_time(block, function, self.functions.window);
        Some(block)
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
        }
    }

    /// How the last block was left to come to this range, and whether nothing came between; `None` if that is not known.
    /// After an exception whose handler is not in the trace, execution goes on as if there had been none.
    fn way_to(&mut self, range: &Range) -> Option<(u32, Way, bool)> {
        if let Some((block, way, address)) = self.hart.interrupted.take() {
            let goes_on = address == range.start;
            self.totals.breaks -= u64::from(goes_on);
            return goes_on.then_some((block, way, false));
        }
        let from = self.hart.block;
        let last = self.blocks.blocks.get(from as usize)?;
        let follows = last.range.end == range.start;
        match (self.hart.way, self.hart.exception) {
            (Way::Exception, Some((Way::Onwards, _))) if follows => Some((from, Way::Onwards, false)),
            (Way::Exception, Some((Way::Taken, Some(address)))) if address == range.start => {
                Some((from, Way::Taken, false))
            }
            (Way::Onwards, _) if !follows => None,
            (way, _) => Some((from, way, true)),
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

    fn arrival(&self, address: Address, function: u32) -> Arrival {
        let Some(last) = self.blocks.blocks.get(self.hart.block as usize) else {
            return self.hart.before_gap;
        };
        if self.hart.way == Way::Exception {
            let return_address = self.hart.exception.and_then(|(_, return_address)| return_address);
            return Arrival::Exception { return_address };
        }
        self.arrival_after(last, self.hart.way, address, function)
    }

    /// How execution comes to an address after a block that was left in this way, which is no exception.
    fn arrival_after(&self, last: &BlockRecord, way: Way, address: Address, function: u32) -> Arrival {
        match (way, last.departure) {
            (Way::Onwards, _) => Arrival::Sequence,
            (Way::Exception, _) => Arrival::Exception { return_address: None },
            (Way::ExceptionReturn, _) | (Way::Taken, Departure::ExceptionReturn) => Arrival::ExceptionReturn,
            (Way::Taken, Departure::Call) => Arrival::Call { return_address: last.range.end },
            (Way::Taken, Departure::Return) => Arrival::Return,
            (Way::Taken, Departure::Jump { is_indirect }) => {
                Arrival::Jump { into_middle: is_indirect && self.functions.is_inside(function, address) }
            }
        }
    }

    /// Execution comes to another function, or to another call of the same.
    #[inline(never)]
    fn change_calls(&mut self, block: u32, address: Address) {
        let function = match self.blocks.blocks.get(block as usize) {
            Some(record) => record.function,
            None => self.functions.at(self.hart.space, address),
        };
        self.arrive(address, function);
    }

    fn arrive(&mut self, address: Address, function: u32) {
        let how = self.arrival(address, function);
        let Self { tree, timeline, hart, .. } = self;
        let mut ledger = Ledger { tree, timeline, clock: hart.clock };
        hart.stack.arrive(how, address, function, &mut ledger);
    }

    #[inline(never)]
    fn other(&mut self, event: &Event) {
        let is_wanted = self.wants(event);
        match *event {
            Event::Exception { cause, return_address, .. } => {
                *self.exceptions.entry(cause).or_default() += u64::from(is_wanted);
                self.exception(return_address);
            }
            Event::ExceptionReturn if self.hart.block == NONE => {
                self.hart.before_gap = Arrival::ExceptionReturn;
            }
            Event::ExceptionReturn => self.hart.way = Way::ExceptionReturn,
            Event::Context(context, _) => self.context(&context),
            Event::Timestamp { value, cycles } => {
                if self.keeps_time {
                    self.hart.axis.add(self.hart.clock, value);
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
                self.hart.clock += u64::from(instructions);
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
            | Event::NoMemory { .. }
            | Event::EndOfTrace { .. } => self.lose(),
            _ => {}
        }
    }

    /// An exception is taken: if that is before the first instruction of a function that was called, it is in it anyway.
    fn exception(&mut self, return_address: Option<Address>) {
        if self.hart.block == NONE {
            self.hart.before_gap = Arrival::Exception { return_address };
            return;
        }
        if let Some(address) = return_address
            && self.hart.way != Way::Onwards
        {
            let function = self.functions.at(self.hart.space, address);
            self.arrive(address, function);
        }
        let before = match (self.hart.way, self.hart.exception) {
            (Way::Exception, Some((before, _))) => before,
            (way, _) => way,
        };
        self.hart.exception = Some((before, return_address));
        self.hart.way = Way::Exception;
    }

    fn count_cycles(&mut self, cycles: u64) {
        self.hart.counts_cycles = true;
        if self.keeps_first_count(Some(cycles)) {
            return;
        }
        self.totals.cycles += cycles;
        let Self { cycles: by_block, tree, hart, blocks, certain_cycles, .. } = self;
        by_block.resize(blocks.blocks.len(), 0);
        certain_cycles.add(&hart.window, &blocks.blocks, cycles);
        let shared = hart.window.share_out(cycles, &mut |stay, cycles| {
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
        let last = if self.hart.block == NONE {
            self.hart.before_gap
        } else {
            self.totals.breaks += 1;
            self.arrival(Address(0), NONE)
        };
        self.note_loss(last);
        let Self { tree, timeline, hart, paths, events, sampler, .. } = self;
        events.iter_mut().for_each(EventCounter::lose);
        sampler.iter_mut().for_each(WindowSampler::lose);
        let mut ledger = Ledger { tree, timeline, clock: hart.clock };
        hart.stack.lose(Some(last), &mut ledger);
        paths.iter_mut().for_each(PathCounter::forget);
        hart.before_gap = if last == Arrival::Return { Arrival::Sequence } else { last };
        hart.block = NONE;
        hart.way = Way::Onwards;
        hart.interrupted = None;
    }
}
