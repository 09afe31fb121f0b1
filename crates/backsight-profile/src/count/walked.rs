//! Paths that a follower remembers, counted as one.
//!
//! A follower names the paths that it walks again and again. What a path does is known once it was counted range by range:
//! the edges inside it, and which of them change the calls under way, and how. From then on it is one addition; its
//! edges get their share when the follower forgets its paths, and at the end. The step to the first range of a path is not
//! part of it: that depends on what came before.

use backsight::core::{Address, AddressSpace};
use backsight::decode::Accumulate;
use backsight::flow::{PathId, Range};
use backsight::image::Window;
use backsight::{Event, Item};

use super::blocks::{Blocks, NONE, Way};
use super::calls::{Arrival, Ledger};
use super::{Counter, Hart};

/// Most paths of a generation.
const MOST: u32 = 1 << 18;

/// The paths of one follower.
#[derive(Debug, Default)]
pub(crate) struct WalkedPaths {
    generation: Option<u64>,
    /// By their numbers.
    records: Vec<Option<PathRecord>>,
    /// The edges inside the paths.
    edges: Vec<u32>,
    changes: Vec<CallChange>,
}

/// A path.
#[derive(Clone, Copy, Debug)]
struct PathRecord {
    /// How often it was walked since its edges got their share.
    count: u64,
    first: Range,
    space: AddressSpace,
    /// The last of its blocks, and how it was left.
    block: u32,
    way: Way,
    /// It does what it says. Else it has to be counted range by range.
    is_plain: bool,
    /// Instructions of all ranges but the first.
    instructions: u32,
    edges: Section,
    changes: Section,
}

/// A part of one of the lists that all paths share.
#[derive(Clone, Copy, Debug)]
struct Section {
    first: u32,
    length: u32,
}

impl Section {
    /// From here to the end of a list.
    fn since<T>(first: usize, list: &[T]) -> Self {
        Self { first: first as u32, length: (list.len() - first) as u32 }
    }

    #[inline]
    fn of<T>(self, list: &[T]) -> &[T] {
        let first = self.first as usize;
        list.get(first..first + self.length as usize).unwrap_or_default()
    }
}

/// A step inside a path that changes the calls under way.
#[derive(Clone, Copy, Debug)]
struct CallChange {
    how: Arrival,
    address: Address,
    function: u32,
    /// Instructions of the path before it, but for those of the first range.
    instructions: u32,
}

impl WalkedPaths {
    /// Gives edges their share of what was counted by paths.
    pub fn settle(&mut self, blocks: &mut Blocks) {
        for record in self.records.iter_mut().flatten() {
            let count = std::mem::take(&mut record.count);
            for &edge in record.edges.of(&self.edges) {
                if let Some(edge) = blocks.edges.get_mut(edge as usize) {
                    edge.count += count;
                }
            }
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
        self.edges.clear();
        self.changes.clear();
    }

    #[inline]
    fn get(&self, path: PathId) -> Option<&PathRecord> {
        let record = self.records.get(path.number as usize)?.as_ref();
        record.filter(|_| self.generation == Some(path.generation))
    }

    fn insert(&mut self, path: PathId, record: PathRecord) {
        let index = path.number as usize;
        if self.records.len() <= index {
            self.records.resize(index + 1, None);
        }
        self.records[index] = Some(record);
    }
}

impl Accumulate<Event> for Counter<'_> {
    #[inline]
    fn item(&mut self, item: Item<'_, Event>) {
        self.push(item.sub_source, &item.value);
    }

    fn enter(&mut self, window: Window) {
        self.change_code(window);
    }

    #[inline]
    fn path<'a>(&mut self, path: PathId, hart: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        let range = |item: Item<'_, Event>| match item.value {
            Event::Range(range) => Some(range),
            _ => None,
        };
        self.walk(hart, path, items.filter_map(range));
    }
}

impl Counter<'_> {
    /// A hart walked along a path.
    #[inline]
    fn walk(&mut self, hart: u16, path: PathId, mut ranges: impl Iterator<Item = Range>) {
        if hart != self.hart.number {
            self.switch_hart(hart);
        }
        let is_counted = !self.needs_order && !self.hart.counts_cycles;
        match self.hart.walked.get(path) {
            Some(&record) if is_counted && record.is_plain && record.space == self.hart.space => {
                self.walk_again(path, &record);
            }
            None if is_counted && path.number < MOST => self.learn(path, &mut ranges),
            _ => {
                for range in ranges {
                    self.range(&range);
                }
            }
        }
    }

    #[inline]
    fn walk_again(&mut self, path: PathId, record: &PathRecord) {
        self.step(&record.first);
        let Self { tree, timeline, hart, .. } = self;
        let Hart { walked, stack, clock, .. } = hart;
        if let Some(Some(record)) = walked.records.get_mut(path.number as usize) {
            record.count += 1;
        }
        for change in record.changes.of(&walked.changes) {
            let clock = *clock + u64::from(change.instructions);
            let mut ledger = Ledger { tree: &mut *tree, timeline: &mut *timeline, clock };
            stack.arrive(change.how, change.address, change.function, &mut ledger);
        }
        *clock += u64::from(record.instructions);
        (hart.block, hart.way) = (record.block, record.way);
    }

    /// Counts a path that comes for the first time range by range, and notes what it does.
    #[cold]
    #[inline(never)]
    fn learn(&mut self, path: PathId, ranges: &mut dyn Iterator<Item = Range>) {
        if self.hart.walked.generation != Some(path.generation) {
            self.hart.walked.begin(path.generation, &mut self.blocks);
        }
        let Some(first) = ranges.next() else { return };
        let edges = self.hart.walked.edges.len();
        let changes = self.hart.walked.changes.len();
        self.range(&first);
        let began = self.hart.clock;
        let mut is_plain = first.instructions > 0 && self.hart.block != NONE;
        for range in ranges {
            is_plain &= self.learn_step(&range, began);
        }
        let Hart { walked, space, block, way, clock, .. } = &mut self.hart;
        if !is_plain {
            walked.edges.truncate(edges);
            walked.changes.truncate(changes);
        }
        let record = PathRecord {
            count: 0,
            first,
            space: *space,
            block: *block,
            way: *way,
            is_plain,
            instructions: (*clock - began) as u32,
            edges: Section::since(edges, &walked.edges),
            changes: Section::since(changes, &walked.changes),
        };
        walked.insert(path, record);
    }

    /// Counts a range of a path and notes the edge to it. False if there is none.
    fn learn_step(&mut self, range: &Range, began: u64) -> bool {
        let (from, way, clock) = (self.hart.block, self.hart.way, self.hart.clock);
        self.range(range);
        let to = self.hart.block;
        let Some(number) = self.blocks.edge(from, to, way).filter(|_| range.instructions > 0) else {
            return false;
        };
        let blocks = &self.blocks.blocks;
        let (Some(last), Some(next)) = (blocks.get(from as usize), blocks.get(to as usize)) else {
            return false;
        };
        let changes_calls = self.blocks.edges.get(number as usize).is_some_and(|edge| edge.changes_calls);
        let change = changes_calls.then(|| CallChange {
            how: self.arrival_after(last, way, range.start, next.function),
            address: range.start,
            function: next.function,
            instructions: (clock - began) as u32,
        });
        self.hart.walked.edges.push(number);
        self.hart.walked.changes.extend(change);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight::Capture;
    use backsight::core::Cause;
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
                recalled += u32::from(fast.hart.walked.get(name).is_some_and(|record| record.is_plain));
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
    fn whoever_asks_for_the_order_of_ranges_gets_it() {
        let (mut random, calls) = (Random(15), repository().join("testdata/captures/calls-aarch64"));
        let capture = Capture::open(calls).unwrap();
        let events = events_of(&capture);
        let options = CountOptions { paths: 3, ..CountOptions::default() };
        assert_eq!(both(&capture, &events, &options, &mut random), 0);
    }
}
