//! A source whose parts are counted at the same time, each by a counter of its own.
//!
//! How something is counted depends on what came before. Most of that a counter knows again after a few instructions: the
//! block that was executed last, the context, how the block was left ([`Boundary`]). Two counters that know the same count
//! the same from there on. What they may never come to know are the calls that were under way where a part begins: these
//! are counted in stretches (see [`super::stretches`]), and the first count of cycles of a part is kept with its blocks.
//! When the parts before are known, [`Counter::join`] puts them onto the calls that were left open there. What comes out
//! is what one counter counts, number by number. Where that is not certain, [`Counter::is_exact`] says so, and no more parts
//! are counted.

use std::ops::Range as Numbers;

use backsight::calls::{Departure, Place, UNKNOWN_FUNCTION};
use backsight::core::{Address, AddressSpace, Context};
use backsight::decode::SavedState;
use backsight::flow::Range;
use backsight::listing::Remembered;

use super::blocks::{NONE, Way};
use super::calls::{Call, CallStack, Clock, Frame, Tree};
use super::cycles::Stay;
use super::events::{BlockOrigins, EventBoundary};
use super::paths::PathBoundary;
use super::stretches::Stretch;
use super::timeline::{Slice, Timeline, UNKNOWN};
use super::{CountOptions, Counter};

/// A block, whatever its number.
type KnownBlock = (Range, AddressSpace);

/// What decides how a counter counts what follows, but for the calls that are under way.
#[derive(Clone, Debug, PartialEq)]
struct Boundary {
    hart: u16,
    context: Option<Context>,
    context_id: Option<u64>,
    space: AddressSpace,
    block: Option<KnownBlock>,
    way: Way,
    exception: Option<(Way, Option<Address>)>,
    interrupted: Option<(KnownBlock, Way, Address)>,
    departure: Departure,
    is_lost: bool,
    counts_cycles: bool,
    paths: Option<PathBoundary<KnownBlock>>,
    events: Option<EventBoundary<KnownBlock>>,
    filter: Option<Remembered>,
}

/// What a part keeps until the parts before it are known.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// It begins after a return to something that is not in the trace.
    begins_with_loss: bool,
    /// It begins where the handler of an exception is not in the trace: whether that is a break is seen here.
    is_interrupted: bool,
    /// Context IDs that were reported, each with the number of stretches and the instructions before it.
    contexts: Vec<(usize, u64, u64)>,
    /// The blocks before the first count of cycles, and the count: `None` if it is not known.
    first_count: Option<(Vec<Stay>, Option<u64>)>,
}

impl Part {
    /// A context ID is reported.
    pub(super) fn context(&mut self, stretches: usize, clock: u64, context_id: u64) {
        self.contexts.push((stretches, clock, context_id));
    }
}

/// A stretch of a part, on its way to the whole.
struct JoinedStretch<'a> {
    stretch: &'a Stretch,
    /// Its calls over time.
    slices: &'a [Slice],
    /// The calls of its part.
    tree: &'a Tree,
    /// Its root and its nodes after that, by their numbers in the part.
    nodes: Numbers<usize>,
    /// Instructions before the part.
    base: u64,
    /// The numbers that functions of the part have in the whole.
    functions: &'a [u32],
}

impl<'c> Counter<'c> {
    /// A counter of a part of a source. The part begins anywhere.
    #[must_use]
    pub fn of_part(self) -> Self {
        let mut part = Self { part: Some(Box::default()), ..self };
        part.hart.stack = CallStack::of_moving(0, 0, None);
        part.timeline = Timeline::of_part(part.options.timeline);
        part.hart.axis.is_of_part = true;
        part
    }

    /// Can parts of a source be counted with these options? Where the next sample is depends on all that came before.
    pub fn counts_parts(options: &CountOptions) -> bool {
        options.windows.is_none() && options.filter.functions.is_empty()
    }

    /// Is it certain that the parts which were joined come to what one counter counts? If not, parts may have been left out.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// What decides how it counts what follows.
    pub(super) fn boundary(&self) -> SavedState {
        let hart = &self.hart;
        let block = |number: u32| {
            let record = self.blocks.blocks.get(number as usize)?;
            Some((Range { executed: true, ..record.range }, record.space))
        };
        let interrupted =
            hart.interrupted.and_then(|(number, way, address)| Some((block(number)?, way, address)));
        SavedState::new(Boundary {
            hart: hart.number,
            context: hart.context,
            context_id: hart.context_id,
            space: hart.space,
            block: block(hart.block),
            way: hart.way,
            // It decides nothing once execution has gone on.
            exception: hart.exception.filter(|_| hart.way == Way::Exception),
            interrupted,
            departure: hart.stack.calls.departure,
            is_lost: hart.stack.calls.is_lost,
            counts_cycles: hart.counts_cycles,
            paths: self.paths.as_ref().map(|paths| paths.boundary(block)),
            events: self.events.as_ref().map(|events| events.boundary(block)),
            filter: self.filter.as_ref().map(|(filter, _)| filter.remembered()),
        })
    }

    /// Begins where another counter has come to a boundary.
    pub(super) fn begin_at(&mut self, boundary: &SavedState) {
        let Some(boundary) = boundary.get::<Boundary>() else { return };
        let &Boundary { hart, context, context_id, space, way, exception, .. } = boundary;
        let block = boundary.block.map_or(NONE, |(range, space)| self.block_before(&range, space));
        let interrupted = boundary
            .interrupted
            .map(|((range, space), way, address)| (self.block_before(&range, space), way, address));
        self.hart.number = hart;
        self.hart.counts_cycles = boundary.counts_cycles;
        let calls = &mut self.hart.stack.calls;
        (calls.departure, calls.is_lost) = (boundary.departure, boundary.is_lost);
        self.hart.stack.moving.iter_mut().for_each(|moving| moving.hart = hart);
        (self.hart.context, self.hart.context_id, self.hart.space) = (context, context_id, space);
        (self.hart.block, self.hart.way, self.hart.exception) = (block, way, exception);
        self.hart.interrupted = interrupted;
        // It is a break unless execution goes on there, which is seen here.
        self.totals.breaks += u64::from(interrupted.is_some());
        self.part.iter_mut().for_each(|part| part.is_interrupted = interrupted.is_some());
        if let (Some(mut paths), Some(boundary)) = (self.paths.take(), &boundary.paths) {
            paths.begin_at(boundary, |(range, space)| self.block_before(range, *space));
            self.paths = Some(paths);
        }
        if let (Some(mut events), Some(boundary)) = (self.events.take(), &boundary.events) {
            events.begin_at(boundary, |(range, space)| {
                let origins = BlockOrigins::of(range, &self.functions.code(), *space);
                (self.block_before(range, *space), origins)
            });
            self.events = Some(events);
        }
        if let (Some((filter, _)), Some(remembered)) = (&mut self.filter, boundary.filter) {
            filter.remember(remembered);
        }
    }

    /// A block that the parts before have counted.
    fn block_before(&mut self, range: &Range, space: AddressSpace) -> u32 {
        if let Some(known) = self.blocks.find(range, space) {
            return known;
        }
        let (place, ending) = self.ends_of(range, space);
        self.blocks.add(range, space, place, ending).unwrap_or(NONE)
    }

    /// Something is missing where no call is known. Then the call that is under way has returned, if the last instruction was
    /// a return: that happens before all else in a part.
    pub(super) fn note_loss(&mut self) {
        let calls = &self.hart.stack.calls;
        if let Some(part) = &mut self.part
            && calls.departure == Departure::Return
            && calls.frames.is_empty()
        {
            part.begins_with_loss = true;
        }
    }

    /// The first count of cycles in a part is of blocks before it, too. Is this it?
    #[inline]
    pub(super) fn keeps_first_count(&mut self, cycles: Option<u64>) -> bool {
        let Some(part) = self.part.as_mut().filter(|part| part.first_count.is_none()) else { return false };
        self.is_exact &= !self.hart.window.was_shortened;
        part.first_count = Some((std::mem::take(&mut self.hart.window.stays), cycles));
        true
    }

    /// Adds what was counted in the next part of the source.
    pub fn join(&mut self, later: Self) {
        if self.part.is_some() {
            let first = std::mem::replace(self, self.nothing());
            self.join_part(first);
        }
        self.join_part(later);
    }

    /// The whole source, of which there is one part.
    pub(crate) fn whole(self) -> Self {
        if self.part.is_none() {
            return self;
        }
        let mut whole = self.nothing();
        whole.join_part(self);
        whole
    }

    /// A counter of the same that has not counted anything yet.
    fn nothing(&self) -> Self {
        let counter = Self::new(&self.source, self.functions.code(), &self.options);
        counter.selecting(self.filter.as_ref().map(|(filter, _)| filter.clone()))
    }

    fn join_part(&mut self, mut later: Self) {
        let Some(part) = later.part.take() else { return };
        let Self { tree, timeline, hart, blocks, .. } = &mut later;
        let left = (hart.stack.calls.departure, hart.stack.calls.is_lost);
        let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
        calls.clear(&mut ledger);
        hart.walked.settle(blocks);
        // Which hart a part of several begins with is not known.
        let is_shortened = part.first_count.is_none() && later.hart.window.was_shortened;
        self.is_exact &=
            later.is_exact && later.others.is_empty() && later.tree.unjoined == 0 && !is_shortened;

        let functions = later.functions.list().iter().map(|one| self.functions.at(one.space, one.met));
        let functions: Vec<u32> = functions.map(|place| place.function).collect();
        let blocks = self.join_blocks(&later, &functions);
        let nodes = self.join_calls(&later, &part, &functions);
        self.join_costs(&later, &part, &functions, &blocks);
        self.join_cycles(&mut later, *part, &blocks, &nodes);
        self.join_others(&mut later, &blocks, &nodes);

        let number = |block: u32| blocks.get(block as usize).copied().unwrap_or(NONE);
        let (hart, from) = (&mut self.hart, &later.hart);
        hart.number = from.number;
        (hart.context, hart.context_id, hart.space) = (from.context, from.context_id, from.space);
        (hart.block, hart.way, hart.exception) = (number(from.block), from.way, from.exception);
        hart.interrupted = from.interrupted.map(|(block, way, address)| (number(block), way, address));
        hart.counts_cycles = from.counts_cycles;
        (hart.stack.calls.departure, hart.stack.calls.is_lost) = left;
    }

    /// Adds blocks and edges. Gives the number of each block here.
    fn join_blocks(&mut self, later: &Self, functions: &[u32]) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(later.blocks.blocks.len());
        for record in &later.blocks.blocks {
            let known = self.blocks.find(&record.range, record.space);
            let number = known.or_else(|| {
                let function = functions.get(record.function as usize).copied().unwrap_or(NONE);
                let place = Place { function, ..record.place() };
                self.blocks.add(&record.range, record.space, place, record.ending)
            });
            // More blocks than there is room for are counted as such by one counter.
            self.is_exact &= number.is_some();
            let number = number.unwrap_or(NONE);
            if let Some(block) = self.blocks.blocks.get_mut(number as usize) {
                block.entries += record.entries;
            }
            numbers.push(number);
        }
        for edge in &later.blocks.edges {
            let (from, to) = (numbers[edge.from as usize], numbers[edge.to as usize]);
            let followed = self.blocks.count_edge(from, edge.way, to);
            self.is_exact &= followed.is_some();
            let number = followed.map_or(NONE, |followed| followed.edge);
            self.blocks.add_to_edge(number, edge.count - 1);
        }
        numbers
    }

    fn join_costs(&mut self, later: &Self, part: &Part, functions: &[u32], blocks: &[u32]) {
        for (cause, count) in &later.exceptions {
            *self.exceptions.entry(*cause).or_default() += count;
        }
        let mut totals = later.totals;
        for (sum, more) in self.totals.all_mut().into_iter().zip(totals.all_mut()) {
            *sum += *more;
        }
        self.totals.breaks -= u64::from(part.is_interrupted);
        self.cycles.resize(self.blocks.blocks.len(), 0);
        add(&mut self.cycles, &later.cycles, blocks);
        add(&mut self.certain_cycles.by_block, &later.certain_cycles.by_block, blocks);
        add(&mut self.certain_cycles.by_function, &later.certain_cycles.by_function, functions);
    }

    /// The first count of cycles is of blocks of the parts before, too.
    fn join_cycles(&mut self, later: &mut Self, part: Part, blocks: &[u32], nodes: &[u32]) {
        let number = |numbers: &[u32], old: u32| numbers.get(old as usize).copied().unwrap_or(NONE);
        let here = |stay: &Stay| Stay {
            block: number(blocks, stay.block),
            node: number(nodes, stay.node),
            instructions: stay.instructions,
        };
        if let Some((stays, cycles)) = part.first_count {
            stays.iter().for_each(|stay| self.hart.window.push(here(stay)));
            match cycles {
                Some(cycles) => self.count_cycles(cycles),
                None => self.hart.window.clear(),
            }
        }
        later.hart.window.stays.iter().for_each(|stay| self.hart.window.push(here(stay)));
    }

    /// Adds what only some ask for.
    fn join_others(&mut self, later: &mut Self, blocks: &[u32], nodes: &[u32]) {
        self.is_exact &= self.samples.join(std::mem::take(&mut later.samples));
        if let (Some(paths), Some(later)) = (&mut self.paths, later.paths.take()) {
            self.is_exact &= paths.join(later, blocks);
        }
        if let (Some(events), Some(later)) = (&mut self.events, later.events.take()) {
            self.is_exact &= events.join(later, blocks);
        }
        if let (Some((filter, selection)), Some((later_filter, selected))) =
            (&mut self.filter, later.filter.take())
        {
            // A call for which there is no room is none of its own.
            self.is_exact &= later.tree.folded == 0;
            *filter = later_filter;
            selection.join(selected, blocks, nodes);
        }
    }

    /// Puts the calls of a part onto those that are under way. Gives the number of each node here.
    fn join_calls(&mut self, later: &Self, part: &Part, functions: &[u32]) -> Vec<u32> {
        let base = self.hart.clock.now;
        let mut nodes = vec![NONE; later.tree.nodes.len()];
        if part.begins_with_loss {
            self.lose_returned();
        }
        for &(clock, time) in &later.hart.axis.points {
            self.hart.axis.add(base + clock, time);
        }
        let mut slices = later.timeline.slices.as_slice();
        let mut contexts = part.contexts.iter().peekable();
        let stretches = &later.tree.stretches;
        for (number, stretch) in stretches.iter().enumerate() {
            while let Some(&&(_, clock, id)) = contexts.peek().filter(|(before, ..)| *before <= number) {
                contexts.next();
                self.hart.clock.now = base + clock;
                self.change_context_id(id);
            }
            let end = stretches.get(number + 1).map_or(later.tree.nodes.len(), |next| next.root as usize);
            let (of_stretch, others) =
                slices.split_at(slices.partition_point(|one| one.root <= stretch.root));
            slices = others;
            let joined = JoinedStretch {
                stretch,
                slices: of_stretch,
                tree: &later.tree,
                nodes: stretch.root as usize..end,
                base,
                functions,
            };
            self.join_stretch(&joined, &mut nodes);
        }
        for &(_, clock, id) in contexts {
            self.hart.clock.now = base + clock;
            self.change_context_id(id);
        }
        self.hart.clock.now = base + later.hart.clock.now;
        self.tree.folded += later.tree.folded;
        nodes
    }

    /// Puts a stretch onto the calls that are under way.
    fn join_stretch(&mut self, joined: &JoinedStretch<'_>, nodes: &mut [u32]) {
        let &JoinedStretch { stretch, base, functions, .. } = joined;
        let function = |number: u32| functions.get(number as usize).copied().unwrap_or(NONE);
        let Self { tree, timeline, hart, filter, .. } = self;
        hart.clock.now = base + stretch.clock.0;
        let place = stretch.arrival.place;
        let place = Place { function: function(place.function), ..place };
        let caller = hart.stack.node();
        let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
        (calls.departure, calls.is_lost) = (stretch.arrival.departure, stretch.arrival.is_lost);
        calls.arrive(&place, &mut ledger);
        let Some(first) = calls.frames.pop() else { return };
        let around = (calls.forgotten + calls.frames.len()) as u32;
        // One counter had forgotten the oldest calls where the stretch went deepest.
        calls.forget_beyond(calls.frames.len() + stretch.peak);
        if let (true, Some((_, selection))) = (stretch.is_selected, filter)
            && tree.nodes.get(first.kept.node as usize).is_some_and(|node| node.parent == caller)
        {
            selection.add_call(first.kept.node);
        }
        let began = |began: u64| if began == UNKNOWN { first.kept.began } else { base + began };
        for slice in joined.slices {
            timeline.add(Slice {
                root: hart.stack.root,
                function: function(slice.function),
                depth: slice.depth + around,
                begin: began(slice.begin),
                end: base + slice.end,
            });
        }
        // The caller may be forgotten: then the node of the first call knows it.
        let callers = hart.stack.calls.frames.last();
        nodes[stretch.root as usize] =
            callers.map_or_else(|| tree.parent(first.kept.node), |caller| caller.kept.node);
        let first_node = stretch.root as usize + 1;
        for (old, record) in
            joined.nodes.clone().zip(joined.tree.nodes.iter().skip(joined.nodes.start)).skip(1)
        {
            let (parent, of) = (nodes[record.parent as usize], function(record.function));
            let folded = tree.folded;
            let new = if old == first_node { first.kept.node } else { tree.callee(parent, of) };
            // Where there is no room, each call is added to its caller.
            if tree.folded > folded {
                tree.folded = folded + joined.tree.unfolded(old as u32);
            }
            if let Some(node) = tree.nodes.get_mut(new as usize) {
                node.calls += if node.function == of { record.calls } else { 0 };
                node.instructions += record.instructions;
                node.cycles += record.cycles;
            }
            nodes[old] = new;
        }
        let here = |frame: &Frame| Frame {
            function: function(frame.function),
            kept: Call { node: nodes[frame.kept.node as usize], began: began(frame.kept.began) },
            ..*frame
        };
        let frames = &mut hart.stack.calls.frames;
        match stretch.frames.split_first() {
            None => {
                let returned = stretch.returned.as_ref().map_or(first, here);
                let is_unknown = returned.function == NONE;
                let function = if is_unknown { first.function } else { returned.function };
                frames.push(Frame { function, kept: returned.kept, ..first });
            }
            Some((outermost, others)) => {
                // What the stretch began with goes on, or another function in its place.
                let Frame { function, kept, .. } = here(outermost);
                let is_unknown = outermost.function == UNKNOWN_FUNCTION;
                let function = if is_unknown { first.function } else { function };
                frames.push(Frame { function, kept, ..first });
                frames.extend(others.iter().map(here));
            }
        }
        let now = base + stretch.clock.1;
        hart.clock = Clock { now, began: now };
        hart.stack.calls.departure = Departure::Sequence;
        if stretch.frames.is_empty() {
            self.lose_returned();
        }
    }

    /// Something is missing, after a return.
    fn lose_returned(&mut self) {
        let Self { tree, timeline, hart, .. } = self;
        let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
        calls.departure = Departure::Return;
        calls.lose(&mut ledger);
    }
}

/// Adds sums by number to others, which have these numbers.
fn add(sums: &mut Vec<u64>, more: &[u64], numbers: &[u32]) {
    for (&more, &number) in more.iter().zip(numbers).filter(|(more, _)| **more > 0) {
        let index = number as usize;
        if sums.len() <= index {
            sums.resize(index + 1, 0);
        }
        sums[index] += more;
    }
}
