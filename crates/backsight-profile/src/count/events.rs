//! Events of the trace unit: which blocks each can have happened in.
//!
//! Windows are counted while the trace is read; what is to be expected of each block is worked out at the end, by repeated
//! estimation. Blocks begin with the same rate of events for each execution of an instruction that can cause one. Each
//! window's events are shared out by these rates, which gives every block a better rate, and so on: a block that was
//! executed often without events gets few, one that is often alone in its window draws more to itself.

use std::collections::{BTreeMap, HashMap, VecDeque};

use backsight::SourceCode;
use backsight::core::AddressSpace;
use backsight::flow::Range;
use backsight::image::Code as _;
use backsight::isa::classify;

use super::blocks::NONE;
use super::hash::NumberMap;
use crate::events::{EventChoice, EventOrigin, EventProfile, EventShare};

/// Most different windows. What comes after them is shared out at once, without estimation.
const MOST_WINDOWS: usize = 1 << 18;
/// Most blocks in a window.
const MOST_CANDIDATES: usize = 256;
/// Rounds of estimation.
const ROUNDS: usize = 30;

/// A block that can have caused an event, and how many of its instructions can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Candidate {
    block: u32,
    instructions: u32,
}

/// What a block can cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockOrigins {
    /// Positions of the instructions that load or store.
    pub accesses: Box<[u32]>,
    /// It ends in a branch.
    pub is_branch: bool,
    /// All of its instructions.
    pub instructions: u32,
}

impl BlockOrigins {
    /// What the instructions of a range can cause.
    pub fn of(range: &Range, code: &SourceCode<'_>, space: AddressSpace) -> Self {
        let (mut accesses, mut address) = (Vec::new(), range.start);
        for position in 0..range.instructions {
            let (bytes, length) = code.opcode_at(space, address);
            let Some(instruction) = classify(range.isa, &bytes[..length], address) else {
                break;
            };
            if instruction.flags.load || instruction.flags.store {
                accesses.push(position);
            }
            address = address.plus(instruction.size.into());
        }
        let is_branch = range.ends_in_branch();
        Self { accesses: accesses.into(), is_branch, instructions: range.instructions }
    }
}

/// What decides where events happened that are reported after a place in a source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EventBoundary<B> {
    recent: Vec<(B, u32)>,
    waiting: Vec<u8>,
}

/// Counts events of one source.
#[derive(Debug)]
pub(crate) struct EventCounter {
    choices: Vec<EventChoice>,
    /// Events come to the trace unit so many instructions late, at least and at most.
    least_skid: u32,
    skid: u32,
    /// Blocks that were executed last, and their instructions.
    recent: VecDeque<(u32, u32)>,
    recent_instructions: u64,
    /// Events that happened in the block that is in progress, or before: indices of choices.
    waiting: Vec<u8>,
    /// What blocks can cause, by their number.
    origins: Vec<Option<BlockOrigins>>,
    windows: HashMap<(u8, Box<[Candidate]>), u64>,
    /// Windows that were too many.
    folded: BTreeMap<(u8, Candidate), f64>,
    totals: Vec<(u64, u64)>,
}

impl EventCounter {
    pub fn new(choices: &[EventChoice], (least_skid, skid): (u32, u32)) -> Self {
        Self {
            choices: choices.to_vec(),
            least_skid: least_skid.min(skid),
            skid,
            recent: VecDeque::new(),
            recent_instructions: 0,
            waiting: Vec::new(),
            origins: Vec::new(),
            windows: HashMap::new(),
            folded: BTreeMap::new(),
            totals: vec![(0, 0); choices.len()],
        }
    }

    /// An event packet: bit i for event i.
    pub fn packet(&mut self, events: u8) {
        for (index, choice) in self.choices.iter().enumerate() {
            if events >> choice.number & 1 == 1 {
                self.waiting.push(index as u8);
            }
        }
        // A trace that says nothing but events does not fill memory.
        if self.waiting.len() > 1 << 12 {
            self.settle();
        }
    }

    /// A block was executed. `origins` says what it can cause, where that is not known yet.
    #[inline]
    pub fn block(&mut self, block: u32, instructions: u32, origins: impl FnOnce() -> BlockOrigins) {
        if block == NONE {
            return self.lose();
        }
        self.set_origins(block, origins);
        self.recent.push_back((block, instructions));
        self.recent_instructions += u64::from(instructions);
        if !self.waiting.is_empty() {
            self.settle();
        }
        // What comes next is a block in progress: before it, only the last instructions matter.
        while let Some(&(_, oldest)) = self.recent.front()
            && (self.recent_instructions - u64::from(oldest) >= u64::from(self.skid)
                || self.recent.len() >= MOST_CANDIDATES)
        {
            self.recent_instructions -= u64::from(oldest);
            self.recent.pop_front();
        }
    }

    /// Something is missing: what happened did so before.
    pub fn lose(&mut self) {
        self.settle();
        self.recent.clear();
        self.recent_instructions = 0;
    }

    /// What is to come may have happened in these blocks, as `block` says them, and these events wait for the next one.
    pub fn boundary<B>(&self, block: impl Fn(u32) -> Option<B>) -> EventBoundary<B> {
        let recent =
            self.recent.iter().filter_map(|&(number, instructions)| Some((block(number)?, instructions)));
        EventBoundary { recent: recent.collect(), waiting: self.waiting.clone() }
    }

    /// Goes on there. `number` numbers blocks, and says what each can cause.
    pub fn begin_at<B>(
        &mut self,
        boundary: &EventBoundary<B>,
        mut number: impl FnMut(&B) -> (u32, BlockOrigins),
    ) {
        for (block, instructions) in &boundary.recent {
            let (block, origins) = number(block);
            self.set_origins(block, || origins);
            self.recent.push_back((block, *instructions));
            self.recent_instructions += u64::from(*instructions);
        }
        self.waiting.clone_from(&boundary.waiting);
    }

    /// Adds what was counted in the next part of the source. False if there is no room for all of it.
    pub fn join(&mut self, later: Self, blocks: &[u32]) -> bool {
        let number = |old: u32| blocks.get(old as usize).copied().unwrap_or(NONE);
        for ((choice, candidates), count) in later.windows {
            let here = |one: &Candidate| Candidate { block: number(one.block), ..*one };
            let mut candidates: Box<[Candidate]> = candidates.iter().map(here).collect();
            candidates.sort_unstable();
            *self.windows.entry((choice, candidates)).or_default() += count;
        }
        for (origins, &block) in later.origins.into_iter().zip(blocks) {
            origins.into_iter().for_each(|origins| self.set_origins(block, || origins));
        }
        for (sum, more) in self.totals.iter_mut().zip(later.totals) {
            *sum = (sum.0 + more.0, sum.1 + more.1);
        }
        self.recent = later.recent.into_iter().map(|(block, length)| (number(block), length)).collect();
        (self.recent_instructions, self.waiting) = (later.recent_instructions, later.waiting);
        later.folded.is_empty() && self.windows.len() < MOST_WINDOWS
    }

    fn set_origins(&mut self, block: u32, origins: impl FnOnce() -> BlockOrigins) {
        let index = block as usize;
        if block != NONE && self.origins.len() <= index {
            self.origins.resize(index + 1, None);
        }
        if let Some(slot) = self.origins.get_mut(index) {
            slot.get_or_insert_with(origins);
        }
    }

    /// The newest of the recent blocks was in progress when the events that wait came.
    fn settle(&mut self) {
        for choice in std::mem::take(&mut self.waiting) {
            let candidates = self.candidates(choice);
            let (total, unattributed) = &mut self.totals[usize::from(choice)];
            *total += 1;
            if candidates.is_empty() {
                *unattributed += 1;
            } else if self.windows.len() < MOST_WINDOWS
                || self.windows.contains_key(&(choice, candidates.clone()))
            {
                *self.windows.entry((choice, candidates)).or_default() += 1;
            } else {
                let sum: u64 = candidates.iter().map(|one| u64::from(one.instructions)).sum();
                for one in &candidates {
                    *self.folded.entry((choice, *one)).or_default() +=
                        f64::from(one.instructions) / sum as f64;
                }
            }
        }
    }

    /// The blocks in which an event can have happened, and how many of their instructions can have caused it.
    fn candidates(&self, choice: u8) -> Box<[Candidate]> {
        let Some(origin) = self.choices.get(usize::from(choice)).map(EventChoice::origin) else {
            return Box::default();
        };
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut reach = u64::from(u32::MAX);
        // The newest instructions that are too late to have caused it.
        let mut late = self.least_skid;
        for (number, &(block, instructions)) in self.recent.iter().rev().enumerate() {
            let last = u64::from(instructions).min(reach) as u32;
            let excluded = late.min(last);
            late -= excluded;
            let able = match (self.origins.get(block as usize), origin) {
                (_, EventOrigin::Instructions) => last - excluded,
                (Some(Some(origins)), EventOrigin::Branches) => {
                    u32::from(origins.is_branch && last > 0 && excluded == 0)
                }
                (Some(Some(origins)), EventOrigin::Accesses) => {
                    let able = instructions - last..instructions - excluded;
                    origins.accesses.iter().filter(|position| able.contains(*position)).count() as u32
                }
                _ => 0,
            };
            if able > 0 {
                match candidates.iter_mut().find(|known| known.block == block) {
                    Some(known) => known.instructions += able,
                    None => candidates.push(Candidate { block, instructions: able }),
                }
            }
            reach = if number == 0 { self.skid.into() } else { reach - u64::from(last) };
            if reach == 0 {
                break;
            }
        }
        candidates.sort_unstable();
        candidates.into()
    }

    /// What blocks and functions caused. `block_of` gives the function of a block, and how often it was executed.
    pub fn finish(mut self, block_of: &dyn Fn(u32) -> (u32, u64)) -> Vec<EventProfile> {
        self.lose();
        let choices = std::mem::take(&mut self.choices);
        choices
            .into_iter()
            .enumerate()
            .map(|(index, choice)| self.profile(index as u8, choice, block_of))
            .collect()
    }

    /// How often a block executed instructions that can cause an event.
    fn exposure(&self, origin: EventOrigin, block: u32, count: u64) -> f64 {
        let able = match (self.origins.get(block as usize), origin) {
            (Some(Some(origins)), EventOrigin::Accesses) => origins.accesses.len() as u32,
            (Some(Some(origins)), EventOrigin::Instructions) => origins.instructions,
            _ => 1,
        };
        f64::from(able.max(1)) * count.max(1) as f64
    }

    fn profile(&self, index: u8, choice: EventChoice, block_of: &dyn Fn(u32) -> (u32, u64)) -> EventProfile {
        let (origin, function_of) = (choice.origin(), |block| block_of(block).0);
        let mut windows: Vec<(&[Candidate], u64)> = self
            .windows
            .iter()
            .filter(|((of, _), _)| *of == index)
            .map(|((_, candidates), count)| (&candidates[..], *count))
            .collect();
        // Sums of fractions come out the same whatever the order of the map.
        windows.sort_unstable();
        let (total, unattributed) = self.totals[usize::from(index)];
        let mut profile = EventProfile { total, unattributed, ..EventProfile::empty(choice) };
        let mut blocks = Shares::default();
        let mut functions = Shares::default();
        for &(candidates, count) in &windows {
            profile.window_blocks += candidates.len() as u64 * count;
            let able: u64 = candidates.iter().map(|one| u64::from(one.instructions)).sum();
            profile.window_instructions += able * count;
            blocks.window(candidates.iter().map(|one| one.block), count);
            functions.window(candidates.iter().map(|one| function_of(one.block)), count);
        }
        for (block, expected) in estimate(&windows, &|block| self.exposure(origin, block, block_of(block).1))
        {
            blocks.expect(block, expected);
            functions.expect(function_of(block), expected);
        }
        for (&(_, one), &expected) in self.folded.iter().filter(|((of, _), _)| *of == index) {
            blocks.expect(one.block, expected);
            functions.expect(function_of(one.block), expected);
        }
        profile.blocks = blocks.0.into_values().collect();
        profile.functions = functions.0.into_values().collect();
        profile
    }
}

/// Shares by number.
#[derive(Debug, Default)]
struct Shares(BTreeMap<u32, EventShare>);

impl Shares {
    fn of(&mut self, of: u32) -> &mut EventShare {
        self.0.entry(of).or_insert(EventShare { of, expected: 0.0, certain: 0, possible: 0 })
    }

    fn expect(&mut self, of: u32, expected: f64) {
        self.of(of).expected += expected;
    }

    /// So many events had these and no others as candidates.
    fn window(&mut self, candidates: impl Iterator<Item = u32>, count: u64) {
        let mut candidates: Vec<u32> = candidates.collect();
        candidates.sort_unstable();
        candidates.dedup();
        if let &[only] = &candidates[..] {
            self.of(only).certain += count;
        }
        candidates.iter().for_each(|&one| self.of(one).possible += count);
    }
}

/// The events to be expected of each block. `exposure` is what its rate is of.
fn estimate(windows: &[(&[Candidate], u64)], exposure: &dyn Fn(u32) -> f64) -> BTreeMap<u32, f64> {
    let all = windows.iter().flat_map(|(candidates, _)| candidates.iter());
    let mut rates: NumberMap<u32, f64> = all.map(|one| (one.block, 1.0)).collect();
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for _ in 0..ROUNDS {
        sums.clear();
        for (candidates, count) in windows {
            let weight =
                |one: &Candidate| f64::from(one.instructions) * rates.get(&one.block).copied().unwrap_or(0.0);
            let all: f64 = candidates.iter().map(weight).sum();
            for one in *candidates {
                let part = if all > 0.0 { weight(one) / all } else { 1.0 / candidates.len() as f64 };
                *sums.entry(one.block).or_default() += part * *count as f64;
            }
        }
        for (block, rate) in &mut rates {
            *rate = sums.get(block).copied().unwrap_or(0.0) / exposure(*block);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(name: &str, skid: u32) -> EventCounter {
        EventCounter::new(&[EventChoice { number: 2, name: name.to_owned() }], (0, skid))
    }

    fn loads(positions: &[u32]) -> BlockOrigins {
        BlockOrigins { accesses: positions.into(), is_branch: true, instructions: 4 }
    }

    fn share(profile: &EventProfile, block: u32) -> (u64, u64, f64) {
        let found = profile.blocks.iter().find(|share| share.of == block);
        found.map_or((0, 0, 0.0), |share| {
            (share.certain, share.possible, (share.expected * 100.0).round() / 100.0)
        })
    }

    #[test]
    fn without_skid_the_block_in_progress_is_certain() {
        let mut events = counter("L1D_CACHE_REFILL", 0);
        events.block(1, 4, || loads(&[0]));
        events.packet(0b0100);
        events.packet(0b1000);
        events.block(2, 4, || loads(&[1]));
        let profile = events.finish(&|block| (block, 10)).remove(0);
        assert_eq!((profile.total, profile.unattributed), (1, 0));
        assert_eq!((share(&profile, 1), share(&profile, 2)), ((0, 0, 0.0), (1, 1, 1.0)));
    }

    #[test]
    fn with_skid_the_last_instructions_before_the_block_in_progress_are_candidates_too() {
        let mut events = counter("L1D_CACHE_REFILL", 3);
        events.block(1, 4, || loads(&[0]));
        events.block(2, 4, || loads(&[3]));
        events.packet(0b0100);
        events.block(3, 4, || loads(&[]));
        events.packet(0b0100);
        events.block(4, 4, || loads(&[1]));
        let profile = events.finish(&|_| (9, 1)).remove(0);
        // Of block 1 only instructions outside the window load; block 3 loads nothing.
        assert_eq!(
            [1, 2, 3, 4].map(|block| share(&profile, block)),
            [(0, 0, 0.0), (1, 1, 1.0), (0, 0, 0.0), (1, 1, 1.0)]
        );
        assert_eq!(profile.functions, [EventShare { of: 9, expected: 2.0, certain: 2, possible: 2 }]);
    }

    #[test]
    fn the_newest_instructions_are_no_candidates_where_events_are_always_late() {
        let branch = EventChoice { number: 0, name: "BR_MIS_PRED".to_owned() };
        let mut events = EventCounter::new(&[branch], (1, 4));
        events.block(1, 4, || loads(&[]));
        events.packet(1);
        events.block(2, 4, || loads(&[]));
        let profile = events.finish(&|block| (block, 1)).remove(0);
        assert_eq!((share(&profile, 1), share(&profile, 2)), ((1, 1, 1.0), (0, 0, 0.0)));
    }

    #[test]
    fn a_block_that_is_often_alone_draws_events_to_itself() {
        let mut events = counter("BUS_ACCESS", 4);
        for _ in 0..9 {
            events.packet(4);
            events.block(1, 4, BlockOrigins::default);
            events.lose();
        }
        events.block(1, 4, BlockOrigins::default);
        events.packet(4);
        events.block(2, 4, BlockOrigins::default);
        let profile = events.finish(&|block| (block, 10)).remove(0);
        assert_eq!(profile.mean_window(), 1.1);
        let (certain, possible, expected) = share(&profile, 1);
        assert!((certain, possible) == (9, 10) && expected > 9.9, "{profile:?}");
    }

    #[test]
    fn an_event_that_nothing_can_have_caused_is_not_attributed() {
        let mut events = counter("L1D_CACHE_REFILL", 8);
        events.packet(4);
        events.block(1, 4, || loads(&[]));
        let profile = events.finish(&|block| (block, 10)).remove(0);
        assert_eq!((profile.total, profile.unattributed, profile.attributed()), (1, 1, 0));
    }
}
