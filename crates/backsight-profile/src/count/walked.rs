//! Paths that a follower remembers, counted as one.
//!
//! A follower names the paths that it walks again and again. What a path does is known once it was counted range by range:
//! the edges inside it, and its segments for the stack of calls. From then on it is one addition; its edges get their share
//! when the follower forgets its paths, and at the end.
//!
//! The step to the first range of a path depends on what came before. It mostly is the same as last time: each path
//! knows the edge that led to it last, which gets its share when another one leads to it. Neither blocks nor edges are
//! touched as long as that is so: what is needed for each walk is together in a [`PathRecord`].

use std::ops;

use backsight::calls::{Segment, Walk};
use backsight::core::AddressSpace;
use backsight::decode::{Consumer, SavedState};
use backsight::flow::{PathId, Range};
use backsight::image::Window;
use backsight::{Event, Item};

use super::blocks::{Blocks, NONE, Way};
use super::cycles::Stay;
use super::{Counter, Hart};

/// Most paths of a generation.
const MOST: u32 = 1 << 18;

/// The paths of one follower.
#[derive(Debug, Default)]
pub(crate) struct WalkedPaths {
    generation: Option<u64>,
    /// By their numbers.
    records: Vec<PathRecord>,
    /// The same: what is seldom needed.
    details: Vec<PathDetails>,
    /// The ranges of all paths.
    steps: Vec<PathStep>,
    /// The segments of all paths.
    segments: Vec<Segment>,
}

/// A path: what each walk needs, in half a line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct PathRecord {
    /// How often it was walked, but for the first time.
    count: u64,
    space: AddressSpace,
    /// The block that came before it last time; [`NOWHERE`] if no edge led to it.
    before: u32,
    /// The last of its blocks.
    block: u32,
    /// The first of its segments.
    first_segment: u32,
    /// How many there are; 0 for paths that have to be counted range by range.
    segments: u8,
    /// How the block before it was left.
    way_before: Way,
    /// How the last of its blocks was left.
    way: Way,
}

const _: () = assert!(size_of::<PathRecord>() == 32);

/// No block, not even the one that [`NONE`] is.
const NOWHERE: u32 = NONE - 1;

/// A path of which nothing is known.
const UNKNOWN: PathRecord = PathRecord {
    count: 0,
    space: AddressSpace::ANY,
    before: NOWHERE,
    block: NOWHERE,
    first_segment: 0,
    segments: 0,
    way_before: Way::Onwards,
    way: Way::Onwards,
};

/// What a path consists of.
#[derive(Clone, Copy, Debug)]
struct PathDetails {
    /// `None` if nothing is known of the path.
    first: Option<Range>,
    /// Its ranges: the first one and how many.
    steps: (u32, u32),
    /// The walks that its edges have got their share of.
    settled: u64,
    /// The edge that led to it last.
    arrival: u32,
    /// The walks before that edge led to it.
    arrived: u64,
}

const UNKNOWN_DETAILS: PathDetails =
    PathDetails { first: None, steps: (0, 0), settled: 0, arrival: NONE, arrived: 0 };

/// A range of a path.
#[derive(Clone, Copy, Debug)]
struct PathStep {
    /// The edge from the range before it; [`NONE`] for the first.
    edge: u32,
    block: u32,
    instructions: u32,
}

/// A range, and the cycle count right before it, if there is one.
type CountedRange = (Option<Event>, Range);

fn no_count() -> Option<Event> {
    None
}

impl WalkedPaths {
    /// Gives edges their share of what was counted by paths.
    pub fn settle(&mut self, blocks: &mut Blocks) {
        for (record, details) in self.records.iter().zip(&mut self.details) {
            details.settle_arrival(record.count, blocks);
            let walks = record.count - std::mem::replace(&mut details.settled, record.count);
            let (first, length) = details.steps;
            let steps = self.steps.iter().skip(first as usize).take(length as usize);
            steps.for_each(|step| blocks.add_to_edge(step.edge, walks));
        }
    }

    /// The code is not what it was.
    pub fn forget(&mut self, blocks: &mut Blocks) {
        self.begin(0, blocks);
        self.generation = None;
    }

    /// The follower has forgotten the paths that it had named before.
    fn begin(&mut self, generation: u64, blocks: &mut Blocks) {
        self.settle(blocks);
        self.generation = Some(generation);
        self.records.clear();
        self.details.clear();
        self.steps.clear();
        self.segments.clear();
    }

    /// Was a path counted range by range?
    fn is_known(&self, path: PathId) -> bool {
        let details = self.details.get(path.number as usize);
        self.generation == Some(path.generation) && details.is_some_and(|details| details.first.is_some())
    }

    fn insert(&mut self, path: PathId, record: PathRecord, details: PathDetails) {
        let index = path.number as usize;
        if self.records.len() <= index {
            self.records.resize(index + 1, UNKNOWN);
            self.details.resize(index + 1, UNKNOWN_DETAILS);
        }
        (self.records[index], self.details[index]) = (record, details);
    }
}

impl PathDetails {
    /// Gives the edge that led to the path its share.
    fn settle_arrival(&mut self, walks: u64, blocks: &mut Blocks) {
        blocks.add_to_edge(self.arrival, walks - std::mem::replace(&mut self.arrived, walks));
    }
}

impl Consumer<Event> for Counter<'_> {
    #[inline]
    fn item(&mut self, item: Item<'_, Event>) {
        self.push(item.sub_source, &item.value);
    }

    fn enter(&mut self, window: Window) {
        self.change_code(window);
    }

    fn boundary(&mut self) -> Option<SavedState> {
        self.part.is_some().then(|| Counter::boundary(self))
    }

    fn can_join(&self) -> bool {
        self.part.is_some()
    }

    fn join(&mut self, later: Self) {
        Counter::join(self, later);
    }

    /// Parts that do not come to the whole are of no use, whatever follows them.
    #[inline(always)]
    fn has_enough(&self) -> bool {
        self.part.is_none() && !self.is_exact
    }

    fn begin_at(&mut self, boundary: Option<&SavedState>) {
        boundary.into_iter().for_each(|boundary| Counter::begin_at(self, boundary));
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, hart: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        self.walk(hart, path, items.filter_map(|item| range_of(&item)));
    }

    #[inline(always)]
    fn counted_path<'a>(
        &mut self,
        path: PathId,
        hart: u16,
        items: impl Iterator<Item = (Option<Item<'a, Event>>, Item<'a, Event>)> + Clone,
    ) {
        let event = |count: Option<Item<'_, Event>>| Some(count?.value);
        let counts = items.clone().map(|(count, _)| event(count));
        let ranges = items.filter_map(|(count, item)| Some((event(count), range_of(&item)?)));
        self.walk_counted(hart, path, counts, ranges);
    }
}

#[inline(always)]
fn range_of(item: &Item<'_, Event>) -> Option<Range> {
    match item.value {
        Event::Range(range) => Some(range),
        _ => None,
    }
}

impl Counter<'_> {
    /// A hart walked along a path. Always part of the caller's loop: the ranges, which hardly any path needs, are not even
    /// put together there.
    #[inline(always)]
    fn walk(&mut self, hart: u16, path: PathId, ranges: impl Iterator<Item = Range>) {
        if hart != self.hart.number {
            self.switch_hart(hart);
        }
        let mut ranges = ranges.map(|range| (None, range));
        if self.needs_order || path.number >= MOST {
            return self.take_each(&mut ranges);
        }
        let walk = match self.hart.counts_cycles {
            false => self.walk_again(path),
            true => self.walk_counting_cycles(path, no_count),
        };
        match walk {
            Walk::Whole => {}
            walk => self.walk_ranges(path, walk, &mut ranges),
        }
    }

    /// The same where cycles were counted between the ranges: `counts` are those right before each, which `ranges` have, too.
    #[inline(always)]
    fn walk_counted(
        &mut self,
        hart: u16,
        path: PathId,
        mut counts: impl Iterator<Item = Option<Event>>,
        ranges: impl Iterator<Item = CountedRange>,
    ) {
        if hart != self.hart.number {
            self.switch_hart(hart);
        }
        if self.needs_order || !self.hart.counts_cycles || path.number >= MOST {
            return self.take_each(&mut { ranges });
        }
        match self.walk_counting_cycles(path, || counts.next().flatten()) {
            Walk::Whole => {}
            walk => self.walk_ranges(path, walk, &mut { ranges }),
        }
    }

    #[inline(never)]
    fn take_each(&mut self, ranges: &mut dyn Iterator<Item = CountedRange>) {
        ranges.for_each(|(count, range)| {
            count.into_iter().for_each(|count| self.event(&count));
            self.range(&range);
        });
    }

    /// Counts a path that is known.
    #[inline(always)]
    fn walk_again(&mut self, path: PathId) -> Walk {
        let Some(segments) = self.recall(path) else { return Walk::Unknown };
        let Self { tree, timeline, hart, .. } = self;
        let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
        match hart.walked.segments.get(segments) {
            Some([first, others @ ..]) => calls.walk(first, others, &mut ledger, |_| {}),
            _ => Walk::Unknown,
        }
    }

    /// The same where cycles are counted: `count` gives what was said of them before each range.
    #[inline(never)]
    fn walk_counting_cycles(&mut self, path: PathId, mut count: impl FnMut() -> Option<Event>) -> Walk {
        let Some(segments) = self.recall(path) else { return Walk::Unknown };
        let details = self.hart.walked.details.get(path.number as usize);
        let first = details.map_or(0, |details| details.steps.0 as usize);
        let mut step = first;
        for segment in segments {
            count().into_iter().for_each(|count| self.event(&count));
            let Self { tree, timeline, hart, .. } = &mut *self;
            let Some(segment) = hart.walked.segments.get(segment) else { break };
            let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
            if let Walk::Before(_) = calls.walk(segment, &[], &mut ledger, |_| {}) {
                return Walk::Before(step - first);
            }
            let (node, ranges) = (hart.stack.node(), segment.ranges);
            for range in 0..ranges {
                if range > 0 {
                    count().into_iter().for_each(|count| self.event(&count));
                }
                let Hart { walked, window, .. } = &mut self.hart;
                let Some(&PathStep { block, instructions, .. }) = walked.steps.get(step) else { break };
                window.push(Stay { block, node, instructions });
                step += 1;
            }
        }
        Walk::Whole
    }

    /// Counts a path by its number, and the step to it, if it is known. Gives where its segments are.
    #[inline(always)]
    fn recall(&mut self, path: PathId) -> Option<ops::Range<usize>> {
        let Hart { walked, space, block, way, .. } = &self.hart;
        let record = walked.records.get(path.number as usize)?;
        if record.segments == 0 || walked.generation != Some(path.generation) || record.space != *space {
            return None;
        }
        if record.before != *block || record.way_before != *way {
            self.come_from_elsewhere(path)?;
        }
        let Hart { walked, block, way, .. } = &mut self.hart;
        let record = walked.records.get_mut(path.number as usize)?;
        record.count += 1;
        (*block, *way) = (record.block, record.way);
        let first = record.first_segment as usize;
        Some(first..first + usize::from(record.segments))
    }

    /// The same where another block than last time came before: the step from there is counted by itself.
    #[inline(never)]
    fn come_from_elsewhere(&mut self, path: PathId) -> Option<()> {
        let number = path.number as usize;
        let first = self.hart.walked.details.get(number)?.first?;
        let (before, way_before) = (self.hart.block, self.hart.way);
        let (_, edge) = self.follow(&first);
        let Self { hart, blocks, .. } = self;
        let WalkedPaths { records, details, .. } = &mut hart.walked;
        let (record, details) = (records.get_mut(number)?, details.get_mut(number)?);
        // After a gap and after an exception, more than the block before decides which edge it is.
        if edge != NONE && before != NONE && way_before != Way::Exception {
            details.settle_arrival(record.count, blocks);
            (details.arrival, details.arrived) = (edge, record.count + 1);
            (record.before, record.way_before) = (before, way_before);
        } else {
            // This walk came over no edge that the path knows of.
            details.arrived += 1;
        }
        Some(())
    }

    /// Counts a path of which not enough is known.
    #[inline(never)]
    fn walk_ranges(&mut self, path: PathId, walk: Walk, ranges: &mut dyn Iterator<Item = CountedRange>) {
        match walk {
            Walk::Whole => {}
            // Blocks and edges are counted, and so are cycles before it.
            Walk::Before(before) => {
                let details = self.hart.walked.details.get(path.number as usize);
                let first = details.map_or(0, |details| details.steps.0 as usize);
                for (number, (count, range)) in ranges.enumerate().skip(before) {
                    let block = self.hart.walked.steps.get(first + number).map_or(NONE, |step| step.block);
                    if number > before {
                        count.into_iter().for_each(|count| self.event(&count));
                        self.arrive(block, &range);
                    }
                    self.run(block, &range);
                    if self.hart.counts_cycles {
                        let (node, instructions) = (self.hart.stack.node(), range.instructions);
                        self.hart.window.push(Stay { block, node, instructions });
                    }
                }
            }
            Walk::Unknown if self.hart.walked.is_known(path) => self.take_each(ranges),
            Walk::Unknown => self.learn(path, ranges),
        }
    }

    /// Counts a path range by range, and notes what it does.
    fn learn(&mut self, path: PathId, ranges: &mut dyn Iterator<Item = CountedRange>) {
        if self.hart.walked.generation != Some(path.generation) {
            self.hart.walked.begin(path.generation, &mut self.blocks);
        }
        let (steps, segments) = (self.hart.walked.steps.len(), self.hart.walked.segments.len());
        let (mut first, mut is_plain) = (None, true);
        for (count, range) in ranges {
            count.into_iter().for_each(|count| self.event(&count));
            let (from, way) = (self.hart.block, self.hart.way);
            is_plain &= self.learn_range(&range, segments);
            let (block, instructions) = (self.hart.block, range.instructions);
            let edge = first.and_then(|_: Range| self.blocks.edge(from, block, way));
            is_plain &= first.is_none() || edge.is_some();
            first.get_or_insert(range);
            self.hart.walked.steps.push(PathStep { edge: edge.unwrap_or(NONE), block, instructions });
        }
        let Some(first) = first else { return };
        let Hart { walked, space, block, way, .. } = &mut self.hart;
        let count = u8::try_from(walked.segments.len() - segments).unwrap_or(0);
        if !is_plain || count == 0 {
            walked.steps.truncate(steps);
            walked.segments.truncate(segments);
        }
        let record = PathRecord {
            space: *space,
            block: *block,
            way: *way,
            first_segment: segments as u32,
            segments: if is_plain { count } else { 0 },
            ..UNKNOWN
        };
        let steps = (steps as u32, (walked.steps.len() - steps) as u32);
        walked.insert(path, record, PathDetails { first: Some(first), steps, ..UNKNOWN_DETAILS });
    }

    /// Counts a range, and adds it to the segments of its path, which begin with this one. False if that cannot be.
    fn learn_range(&mut self, range: &Range, first: usize) -> bool {
        let before = self.hart.stack.calls.departure;
        self.range(range);
        let Hart { walked, stack, block, .. } = &mut self.hart;
        let Some(record) = self.blocks.blocks.get(*block as usize) else { return false };
        let (place, departure) = (record.place(), stack.calls.departure);
        Segment::add(&mut walked.segments, first, before, place, range.instructions, departure);
        range.instructions > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight::Capture;
    use backsight::core::{Address, Cause};
    use backsight::flow::NoSync;
    use backsight_testing::{Random, repository};

    use crate::CountOptions;

    fn events_of(capture: &Capture) -> Vec<Event> {
        let mut events = Vec::new();
        capture.execution().run(|item| events.push(item.value)).unwrap();
        events
    }

    /// Damage: events are missing, exceptions and gaps come where there were none. In some executions cycles are counted.
    fn damage(events: &[Event], counts_cycles: bool, random: &mut Random) -> Vec<Event> {
        let mut damaged = Vec::new();
        for &event in events {
            if counts_cycles && random.below(2) == 0 {
                let cycles = Some(random.below(40) as u32).filter(|&cycles| cycles > 0);
                damaged.push(Event::CycleCount(cycles));
            }
            match random.below(400) {
                0 => {}
                1 => damaged.push(Event::NoSync(NoSync::BadPacket)),
                2 => damaged.push(Event::Exception {
                    cause: Cause::Arm(5),
                    return_address: Some(Address(random.below(2) * 0x1000)),
                    is_branch_target: false,
                    fault_pending: false,
                    value: 0,
                }),
                3 => damaged.push(Event::ExceptionReturn),
                _ => {}
            }
            damaged.push(event);
        }
        damaged
    }

    /// Names paths as a follower does that has room for a few.
    struct Names {
        known: Vec<Vec<Range>>,
        room: usize,
        generation: u64,
    }

    impl Names {
        fn name(&mut self, ranges: &[Range]) -> PathId {
            let known = self.known.iter().position(|known| known == ranges);
            if known.is_none() && self.known.len() == self.room {
                self.known.clear();
                self.generation += 1;
            }
            let number = known.unwrap_or_else(|| {
                self.known.push(ranges.to_vec());
                self.known.len() - 1
            });
            let number = number as u32;
            PathId { generation: self.generation, number }
        }
    }

    /// Ranges are gathered to paths that end where others may begin, so that the same ones come again. Before all but the first
    /// there may be a count of cycles.
    fn path_at(events: &[Event], longest: usize) -> Vec<CountedRange> {
        let (mut path, mut count) = (Vec::new(), None);
        for event in events {
            match event {
                Event::Range(range) => path.push((count.take(), *range)),
                Event::CycleCount(_) if count.is_none() && !path.is_empty() => count = Some(*event),
                _ => break,
            }
            let ends = |(_, range): &CountedRange| range.start.0 / 4 % 5 == 0;
            if count.is_none() && (path.len() == longest || path.last().is_some_and(ends)) {
                break;
            }
        }
        path
    }

    impl WalkedPaths {
        /// Is a path counted by its name alone?
        fn is_plain(&self, path: PathId) -> bool {
            let record = self.records.get(path.number as usize);
            self.generation == Some(path.generation) && record.is_some_and(|record| record.segments > 0)
        }
    }

    fn counter<'c>(capture: &'c Capture, options: &CountOptions) -> Counter<'c> {
        let source = capture.buffers().iter().flat_map(|buffer| buffer.sources()).next().unwrap();
        Counter::new(source, capture.code().unwrap().seen_by(source), options)
    }

    /// Counts by paths and range by range. Gives both, and how many paths were counted by name alone.
    fn both(capture: &Capture, events: &[Event], options: &CountOptions, random: &mut Random) -> u32 {
        let (mut clear, mut fast) = (counter(capture, options), counter(capture, options));
        let room = 1 + random.below(40) as usize;
        let mut names = Names { known: Vec::new(), room, generation: random.next() };
        let (mut at, mut hart, mut recalled) = (0, 0, 0);
        while let Some(event) = events.get(at) {
            match random.below(300) {
                0 => hart = random.below(2) as u16,
                1 => {
                    let space = AddressSpace::ANY.in_process(random.below(2) as u32);
                    (clear.hart.space, fast.hart.space) = (space, space);
                }
                _ => {}
            }
            let path = path_at(&events[at..], 2 + random.below(2) as usize * 30);
            let counts = path.iter().filter(|(count, _)| count.is_some()).count();
            at += (path.len() + counts).max(1);
            if path.is_empty() {
                clear.push(hart, event);
                fast.push(hart, event);
                continue;
            }
            for (count, range) in &path {
                count.iter().for_each(|count| clear.push(hart, count));
                clear.push(hart, &Event::Range(*range));
            }
            let ranges: Vec<_> = path.iter().map(|(_, range)| *range).collect();
            let name = names.name(&ranges);
            recalled += u32::from(fast.hart.walked.is_plain(name));
            match counts {
                0 => fast.walk(hart, name, ranges.into_iter()),
                _ => {
                    let counts: Vec<_> = path.iter().map(|(count, _)| *count).collect();
                    fast.walk_counted(hart, name, counts.into_iter(), path.into_iter());
                }
            }
        }
        assert_eq!(format!("{:?}", fast.finish()), format!("{:?}", clear.finish()));
        recalled
    }

    #[test]
    fn counting_by_paths_is_counting_range_by_range_however_few_paths_are_remembered() {
        let mut random = Random(14);
        for name in ["calls-aarch64", "calls-riscv64", "interwork-arm"] {
            let capture = Capture::open(repository().join("testdata/captures").join(name)).unwrap();
            let events = events_of(&capture);
            let mut recalled = 0;
            for round in 0..20 {
                let options = CountOptions { timeline: 50 * (round % 3), ..CountOptions::default() };
                let events = damage(&events[..events.len().min(4000)], round % 2 == 1, &mut random);
                recalled += both(&capture, &events, &options, &mut random);
            }
            assert!(recalled > 1000, "{name}: {recalled}");
        }
    }

    #[test]
    fn ranges_come_in_order_where_the_order_is_asked_for() {
        let (mut random, calls) = (Random(15), repository().join("testdata/captures/calls-aarch64"));
        let capture = Capture::open(calls).unwrap();
        let events = events_of(&capture);
        let options = CountOptions { paths: 3, ..CountOptions::default() };
        assert_eq!(both(&capture, &events, &options, &mut random), 0);
    }
}
