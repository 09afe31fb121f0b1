//! Paths that a follower remembers, counted as one.
//!
//! A follower names the paths that it walks again and again. What a path does is known once it was counted range by range:
//! the edges inside it, and its segments for the stack of calls. From then on it is one addition; its edges get their share
//! when the follower forgets its paths, and at the end.
//!
//! The step to the first range of a path depends on what came before. It mostly is the same as last time: each path
//! knows the edge that led to it last, which gets its share when another one leads to it. Neither blocks nor edges are
//! touched as long as that is so: what is needed for each walk is together in a [`PathRecord`].

use backsight::calls::{Segment, Walk};
use backsight::core::AddressSpace;
use backsight::decode::{Consumer, SavedState};
use backsight::flow::{PathId, Range};
use backsight::image::Window;
use backsight::{Event, Item};

use super::blocks::{Blocks, NONE, Way};
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
    /// The edges inside the paths.
    edges: Vec<u32>,
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
    /// The edges inside it: the first one and how many.
    edges: (u32, u32),
    /// The walks that its edges have got their share of.
    settled: u64,
    /// The edge that led to it last.
    arrival: u32,
    /// The walks before that edge led to it.
    arrived: u64,
}

const UNKNOWN_DETAILS: PathDetails =
    PathDetails { first: None, edges: (0, 0), settled: 0, arrival: NONE, arrived: 0 };

impl WalkedPaths {
    /// Gives edges their share of what was counted by paths.
    pub fn settle(&mut self, blocks: &mut Blocks) {
        for (record, details) in self.records.iter().zip(&mut self.details) {
            details.settle_arrival(record.count, blocks);
            let walks = record.count - std::mem::replace(&mut details.settled, record.count);
            let (first, length) = details.edges;
            let edges = self.edges.iter().skip(first as usize).take(length as usize);
            edges.for_each(|&edge| blocks.add_to_edge(edge, walks));
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
        self.edges.clear();
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
    const TAKES_PATHS: bool = true;

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

    fn begin_at(&mut self, boundary: Option<&SavedState>) {
        boundary.into_iter().for_each(|boundary| Counter::begin_at(self, boundary));
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, hart: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        let range = |item: Item<'_, Event>| match item.value {
            Event::Range(range) => Some(range),
            _ => None,
        };
        self.walk(hart, path, items.filter_map(range));
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
        if self.needs_order || self.hart.counts_cycles || path.number >= MOST {
            self.take_each(&mut { ranges });
        } else {
            match self.walk_again(path) {
                Walk::Whole => {}
                walk => self.walk_ranges(path, walk, &mut { ranges }),
            }
        }
    }

    #[inline(never)]
    fn take_each(&mut self, ranges: &mut dyn Iterator<Item = Range>) {
        ranges.for_each(|range| self.range(&range));
    }

    /// Counts a path that is known.
    #[inline(always)]
    fn walk_again(&mut self, path: PathId) -> Walk {
        let Hart { walked, space, block, way, .. } = &self.hart;
        let Some(record) = walked.records.get(path.number as usize) else { return Walk::Unknown };
        if record.segments == 0 || walked.generation != Some(path.generation) || record.space != *space {
            return Walk::Unknown;
        }
        if (record.before != *block || record.way_before != *way) && self.come_from_elsewhere(path).is_none()
        {
            return Walk::Unknown;
        }
        let Self { tree, timeline, hart, .. } = self;
        let Hart { walked, stack, clock, block, way, .. } = hart;
        let Some(record) = walked.records.get_mut(path.number as usize) else { return Walk::Unknown };
        record.count += 1;
        (*block, *way) = (record.block, record.way);
        let first = record.first_segment as usize;
        let (calls, mut ledger) = stack.split(tree, timeline, clock);
        match walked.segments.get(first..first + usize::from(record.segments)) {
            Some([first, others @ ..]) => calls.walk(first, others, &mut ledger),
            _ => Walk::Unknown,
        }
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
    fn walk_ranges(&mut self, path: PathId, walk: Walk, ranges: &mut dyn Iterator<Item = Range>) {
        match walk {
            Walk::Whole => {}
            // Blocks and edges are counted.
            Walk::Before(count) => {
                for (number, range) in ranges.skip(count).enumerate() {
                    if number > 0 {
                        self.arrive(NONE, &range);
                    }
                    self.run(NONE, &range);
                }
            }
            Walk::Unknown if self.hart.walked.is_known(path) => self.take_each(ranges),
            Walk::Unknown => self.learn(path, ranges),
        }
    }

    /// Counts a path range by range, and notes what it does.
    fn learn(&mut self, path: PathId, ranges: &mut dyn Iterator<Item = Range>) {
        if self.hart.walked.generation != Some(path.generation) {
            self.hart.walked.begin(path.generation, &mut self.blocks);
        }
        let Some(first) = ranges.next() else { return };
        let (edges, segments) = (self.hart.walked.edges.len(), self.hart.walked.segments.len());
        let mut is_plain = self.learn_range(&first, segments);
        for range in ranges {
            let (from, way) = (self.hart.block, self.hart.way);
            is_plain &= self.learn_range(&range, segments);
            match self.blocks.edge(from, self.hart.block, way) {
                Some(edge) => self.hart.walked.edges.push(edge),
                None => is_plain = false,
            }
        }
        let Hart { walked, space, block, way, .. } = &mut self.hart;
        let count = u8::try_from(walked.segments.len() - segments).unwrap_or(0);
        if !is_plain || count == 0 {
            walked.edges.truncate(edges);
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
        let edges = (edges as u32, (walked.edges.len() - edges) as u32);
        walked.insert(path, record, PathDetails { first: Some(first), edges, ..UNKNOWN_DETAILS });
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

    /// Damage: events are missing, exceptions and gaps come where there were none.
    fn damage(events: &[Event], random: &mut Random) -> Vec<Event> {
        let mut damaged = Vec::new();
        for &event in events {
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

    /// Ranges are gathered to paths that end where others may begin, so that the same ones come again.
    fn path_at(events: &[Event], longest: usize) -> Vec<Range> {
        let mut path = Vec::new();
        for event in events.iter().take(longest) {
            let Event::Range(range) = event else { break };
            path.push(*range);
            if range.start.0 / 4 % 5 == 0 {
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
            at += path.len().max(1);
            if path.is_empty() {
                clear.push(hart, event);
                fast.push(hart, event);
            } else {
                path.iter().for_each(|&range| clear.push(hart, &Event::Range(range)));
                let name = names.name(&path);
                recalled += u32::from(fast.hart.walked.is_plain(name));
                fast.walk(hart, name, path.into_iter());
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
                let events = damage(&events[..events.len().min(4000)], &mut random);
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
