//! The calls of threads, put together from stretches that were counted on several harts.
//!
//! The turns of a thread cannot overlap: where two have a timestamp in them, these say which was first. A turn without one
//! was between the timestamps before and after it. Where that leaves several, the one comes next that begins where the
//! thread was interrupted; of several such (in a loop), the one that is earliest if the instructions between two timestamps
//! took equally long. Then each stretch goes on from the calls that the one before has left.

use std::collections::{BTreeMap, HashSet, VecDeque};

use backsight::calls::{Arrival, Departure};
use backsight::core::Address;

use super::blocks::NONE;
use super::calls::{Call, CallStack, Clock, Frame, Tree};
use super::stretches::{Stretch, StretchTime};
use super::timeline::Timeline;
use crate::profile::{CallNode, Profile, Slice, Thread};

/// How threads are called.
pub(crate) struct ThreadNames<'a> {
    /// A thread, by its number in the trace.
    pub of_thread: &'a dyn Fn(u64) -> String,
    /// A hart, by the number of its source.
    pub of_hart: &'a dyn Fn(usize, u16) -> String,
}

/// What a thread did on a hart until something was missing: stretches that follow each other.
#[derive(Debug)]
struct Turn {
    stretches: Vec<usize>,
    /// Not before this, and not after that, as far as is known.
    bounds: (u64, u64),
    /// About then.
    estimate: u64,
    /// The last timestamp in it; 0 if there is none.
    last: u64,
    begins_at: Address,
    left: Departure,
}

/// The turns of a thread on each hart, in their order.
type TurnsByHart = BTreeMap<(usize, u16), VecDeque<Turn>>;

impl Profile {
    /// Puts the calls of threads together. Threads whose turns nothing orders are kept apart by hart.
    pub(crate) fn join_threads(&mut self, names: &ThreadNames<'_>) {
        let stretches = std::mem::take(&mut self.stretches);
        if stretches.is_empty() {
            return;
        }
        let mut joiner = Joiner::new(&self.calls, &stretches);
        for thread in &mut self.threads {
            thread.node = joiner.kept.get(thread.node as usize).copied().unwrap_or(thread.node);
        }
        // What ran before the trace named a thread is one by itself, if there was any.
        let callers: HashSet<u32> = joiner.tree.nodes.iter().map(|node| node.parent).collect();
        self.threads.retain(|thread| callers.contains(&thread.node));
        let mut threads: BTreeMap<u64, BTreeMap<(usize, u16), Vec<usize>>> = BTreeMap::new();
        for (number, stretch) in stretches.iter().enumerate() {
            let by_hart = threads.entry(stretch.thread).or_default();
            by_hart.entry((stretch.source, stretch.hart)).or_default().push(number);
        }
        for (number, by_hart) in threads {
            let turns = |numbers: &Vec<usize>| turns_of(numbers.iter().map(|&one| (one, &stretches[one])));
            let turns_by_hart =
                || -> TurnsByHart { by_hart.iter().map(|(&hart, numbers)| (hart, turns(numbers))).collect() };
            let name = (names.of_thread)(number);
            // Every CPU has an idle thread 0; and 0 is what an operating system leaves that gives no numbers.
            let may_move = number != 0 || by_hart.len() == 1;
            if let Some(ordered) = Some(turns_by_hart()).filter(|_| may_move).and_then(in_order) {
                self.threads.push(joiner.join(name, ordered));
                continue;
            }
            self.totals.unordered_threads += u64::from(may_move);
            for ((source, hart), turns) in turns_by_hart() {
                let name = format!("{} {name}", (names.of_hart)(source, hart));
                self.threads.push(joiner.join(name, turns.into()));
            }
        }
        self.totals.folded_calls = self.totals.folded_calls.saturating_add(joiner.tree.folded);
        self.calls = joiner.tree.nodes.iter().map(CallNode::from).collect();
    }
}

/// The turns of a thread on one hart.
fn turns_of<'s>(stretches: impl Iterator<Item = (usize, &'s Stretch)>) -> VecDeque<Turn> {
    let mut turns: VecDeque<(Turn, StretchTime, (u64, u64))> = VecDeque::new();
    for (number, stretch) in stretches {
        match turns.back_mut().filter(|_| !stretch.arrival.is_lost) {
            // Nothing is missing before it: it belongs to the last turn.
            Some((turn, time, clock)) => {
                turn.stretches.push(number);
                (turn.left, clock.1) = (stretch.left, stretch.clock.1);
                if let Some((first, last)) = stretch.time.inside {
                    time.inside.get_or_insert((first, last)).1 = last;
                }
            }
            None => {
                let (begins_at, left) = (stretch.arrival.place.address, stretch.left);
                let (bounds, estimate, last) = ((0, u64::MAX), 0, 0);
                let turn = Turn { stretches: vec![number], bounds, estimate, last, begins_at, left };
                turns.push_back((turn, stretch.time, stretch.clock));
            }
        }
    }
    // Ticks for each instruction, between the last two timestamps that are known.
    let mut rate = 1.0;
    let settled = turns.into_iter().map(|(mut turn, time, clock)| {
        let (before, after) = (time.before, time.after);
        turn.bounds = (before.map_or(0, |point| point.time), after.map_or(u64::MAX, |point| point.time));
        if let (Some(before), Some(after)) = (before, after)
            && after.clock > before.clock
        {
            rate = after.time.saturating_sub(before.time) as f64 / (after.clock - before.clock) as f64;
        }
        let middle = clock.0 + clock.1.saturating_sub(clock.0) / 2;
        let passed = before.map_or(0, |point| middle.saturating_sub(point.clock)) as f64 * rate;
        turn.estimate = turn.bounds.0.saturating_add(passed as u64).min(turn.bounds.1);
        if let Some((first, last)) = time.inside {
            (turn.bounds, turn.estimate, turn.last) = ((first, first), first, last);
        }
        turn
    });
    settled.collect()
}

impl Turn {
    fn is_timed(&self) -> bool {
        self.bounds != (0, u64::MAX)
    }
}

/// The turns of all harts, in the order of time; `None` if that is not known, or if they overlap: this is no single thread.
fn in_order(mut by_hart: TurnsByHart) -> Option<Vec<Turn>> {
    let mut ordered: Vec<Turn> = Vec::new();
    if by_hart.len() > 1 && !by_hart.values().flatten().all(Turn::is_timed) {
        return None;
    }
    loop {
        by_hart.retain(|_, turns| !turns.is_empty());
        let first = |turns: &VecDeque<Turn>| turns.front().map_or((u64::MAX, u64::MAX), |turn| turn.bounds);
        // Nothing that begins after another has ended comes before it.
        let end = by_hart.values().map(|turns| first(turns).1).min().unwrap_or(u64::MAX);
        let goes_on_at = match ordered.last().map(|turn| turn.left) {
            Some(Departure::Exception { return_address }) => Some(return_address),
            _ => None,
        };
        let next = by_hart.iter_mut().filter(|(_, turns)| first(turns).0 <= end).min_by_key(|(_, turns)| {
            let turn = turns.front();
            let goes_on = goes_on_at.is_some() && turn.map(|turn| turn.begins_at) == goes_on_at;
            (!goes_on, turn.map(|turn| turn.estimate))
        });
        match next.and_then(|(_, turns)| turns.pop_front()) {
            Some(turn) if ordered.last().is_some_and(|before| before.last > turn.bounds.1) => return None,
            Some(turn) => ordered.push(turn),
            None => return Some(ordered),
        }
    }
}

/// Calls on their way to one tree.
struct Joiner<'a> {
    calls: &'a [CallNode],
    stretches: &'a [Stretch],
    tree: Tree,
    /// The new numbers of nodes that are in no stretch.
    kept: Vec<u32>,
    /// The nodes of each stretch, callers first.
    nodes_of: Vec<Vec<u32>>,
}

impl<'a> Joiner<'a> {
    fn new(calls: &'a [CallNode], stretches: &'a [Stretch]) -> Self {
        let mut of: Vec<u32> = vec![NONE; calls.len()];
        for (stretch, number) in stretches.iter().zip(0..) {
            of.get_mut(stretch.root as usize).into_iter().for_each(|slot| *slot = number);
        }
        let mut joiner = Self {
            calls,
            stretches,
            tree: Tree::default(),
            kept: Vec::with_capacity(calls.len()),
            nodes_of: vec![Vec::new(); stretches.len()],
        };
        for (number, node) in calls.iter().enumerate() {
            let parent = node.parent.and_then(|parent| of.get(parent as usize)).copied().unwrap_or(NONE);
            let stretch = if of[number] == NONE { parent } else { NONE };
            if stretch != NONE {
                of[number] = stretch;
                joiner.nodes_of[stretch as usize].push(number as u32);
            }
            let is_kept = of[number] == NONE;
            let new = if is_kept { joiner.keep(node) } else { NONE };
            joiner.kept.push(new);
        }
        joiner
    }

    /// A node that is in no stretch stays as it is.
    fn keep(&mut self, node: &CallNode) -> u32 {
        let parent = node.parent.and_then(|parent| self.kept.get(parent as usize)).copied().unwrap_or(NONE);
        let number = self.tree.nodes.len() as u32;
        self.tree.restore(node.function.unwrap_or(NONE), parent);
        self.add_costs(number, node);
        number
    }

    fn add_costs(&mut self, number: u32, costs: &CallNode) {
        let Some(node) = self.tree.nodes.get_mut(number as usize) else { return };
        // What is added to its caller, for want of room, is no call of that.
        if Some(node.function) == costs.function {
            node.calls = node.calls.saturating_add(costs.calls);
        }
        node.instructions = node.instructions.saturating_add(costs.instructions);
        node.cycles = node.cycles.saturating_add(costs.cycles);
    }

    /// Puts the turns of a thread together.
    fn join(&mut self, name: String, turns: Vec<Turn>) -> Thread {
        let root = self.tree.thread();
        let mut stack = CallStack::below(root);
        let mut thread = Thread { name, node: root, ..Thread::default() };
        let mut timeline = Timeline::new(usize::MAX);
        let (mut clock, mut left) = (Clock::default(), Departure::Sequence);
        for number in turns.iter().flat_map(|turn| &turn.stretches) {
            let Some(stretch) = self.stretches.get(*number) else { continue };
            let Arrival { departure, is_lost, place } = stretch.arrival;
            clock.began = clock.now;
            let (calls, mut ledger) = stack.split(&mut self.tree, &mut timeline, &mut clock);
            // What is missing before it may have been elsewhere: where the thread was last says how it comes here.
            (calls.departure, calls.is_lost) = (if is_lost { left } else { departure }, is_lost);
            calls.arrive(&place, &mut ledger);
            left = stretch.left;
            let depth = (calls.forgotten + calls.frames.len()).saturating_sub(1) as u32;
            let begin = clock.now;
            let moved = |at: u64| at.saturating_sub(stretch.clock.0).saturating_add(begin);
            thread.slices.extend(stretch.slices.iter().map(|slice| Slice {
                depth: slice.depth.saturating_add(depth),
                begin: moved(slice.begin),
                end: moved(slice.end),
                ..*slice
            }));
            thread.timestamps.extend(stretch.timestamps.iter().map(|&(at, time)| (moved(at), time)));
            self.graft(*number, stretch, &mut stack, &moved);
            let now = moved(stretch.clock.1);
            clock = Clock { now, began: now };
            if stretch.frames.is_empty() {
                let (calls, mut ledger) = stack.split(&mut self.tree, &mut timeline, &mut clock);
                calls.departure = Departure::Return;
                calls.lose(&mut ledger);
            }
        }
        clock.began = clock.now;
        let (calls, mut ledger) = stack.split(&mut self.tree, &mut timeline, &mut clock);
        calls.clear(&mut ledger);
        thread.slices.extend(timeline.slices.iter().map(|slice| Slice {
            function: slice.function,
            depth: slice.depth,
            begin: slice.begin,
            end: slice.end,
        }));
        thread.slices.sort_by_key(|slice| (slice.begin, slice.depth));
        thread
    }

    /// Puts the calls of a stretch below the one that called its first function, and those that are under way at its end
    /// onto the stack.
    fn graft(&mut self, number: usize, stretch: &Stretch, stack: &mut CallStack, moved: &dyn Fn(u64) -> u64) {
        let Some(first) = stack.calls.frames.pop() else { return };
        stack.calls.forget_beyond(stack.calls.frames.len() + stretch.peak);
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        numbers.insert(stretch.root, stack.node());
        for node in self.nodes_of.get_mut(number).map(std::mem::take).unwrap_or_default() {
            let Some(record) = self.calls.get(node as usize) else { continue };
            let parent = record.parent.and_then(|parent| numbers.get(&parent)).copied();
            let (Some(parent), Some(function)) = (parent, record.function) else { continue };
            let new = self.tree.callee(parent, function);
            self.add_costs(new, record);
            numbers.insert(node, new);
        }
        if stretch.frames.is_empty() {
            stack.calls.frames.push(first);
        }
        for (depth, frame) in stretch.frames.iter().enumerate() {
            let node = numbers.get(&frame.kept.node).copied().unwrap_or(first.kept.node);
            let parent = self.calls.get(frame.kept.node as usize).and_then(|node| node.parent);
            let kept = Call { node, began: moved(frame.kept.began) };
            // What the stretch began with goes on, or another function in its place.
            stack.calls.frames.push(match depth == 0 && parent == Some(stretch.root) {
                true => Frame { function: frame.function, kept: Call { node, ..first.kept }, ..first },
                false => Frame { kept, ..*frame },
            });
        }
    }
}

impl From<&super::calls::NodeRecord> for CallNode {
    fn from(node: &super::calls::NodeRecord) -> Self {
        Self {
            function: (node.function != NONE).then_some(node.function),
            parent: (node.parent != NONE).then_some(node.parent),
            calls: node.calls,
            instructions: node.instructions,
            cycles: node.cycles,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(bounds: (u64, u64), estimate: u64, begins_at: u64, goes_on_at: u64) -> Turn {
        let left = Departure::Exception { return_address: Address(goes_on_at) };
        let last = if bounds.0 == bounds.1 { bounds.0 + 5 } else { 0 };
        Turn { stretches: Vec::new(), bounds, estimate, last, begins_at: Address(begins_at), left }
    }

    /// The order of turns on two harts, by where they begin.
    fn order(one: Vec<Turn>, other: Vec<Turn>) -> Option<Vec<u64>> {
        let by_hart = [((0, 0), one.into()), ((1, 0), other.into())];
        let ordered = in_order(by_hart.into_iter().collect())?;
        Some(ordered.iter().map(|turn| turn.begins_at.0).collect())
    }

    #[test]
    fn timestamps_in_turns_order_them() {
        let one = vec![turn((10, 10), 10, 1, 0), turn((50, 50), 50, 4, 0)];
        let other = vec![turn((20, 20), 20, 2, 0), turn((30, 30), 30, 3, 0)];
        assert_eq!(order(one, other), Some(vec![1, 2, 3, 4]));
    }

    #[test]
    fn a_turn_without_a_timestamp_comes_after_the_one_that_was_interrupted_where_it_begins() {
        let one = vec![turn((10, 10), 10, 1, 2), turn((10, 90), 60, 3, 9)];
        let other = vec![turn((0, 90), 80, 2, 3)];
        assert_eq!(order(one, other), Some(vec![1, 2, 3]));
    }

    #[test]
    fn in_a_loop_the_turn_is_next_that_is_earliest_by_instructions() {
        let one = vec![turn((10, 10), 10, 7, 7), turn((10, 90), 60, 7, 7)];
        let other = vec![turn((0, 90), 40, 7, 8), turn((0, 90), 80, 8, 9)];
        assert_eq!(order(one, other), Some(vec![7, 7, 8, 7]));
    }

    #[test]
    fn what_runs_on_two_harts_at_the_same_time_is_no_thread() {
        let one = vec![turn((10, 10), 10, 1, 0), turn((40, 40), 40, 3, 0)];
        assert_eq!(order(one, vec![turn((12, 12), 12, 2, 0)]), None);
    }

    #[test]
    fn turns_that_nothing_orders_have_no_order() {
        let one = vec![turn((10, 10), 10, 1, 0)];
        assert_eq!(order(one, vec![turn((0, u64::MAX), 0, 2, 0)]), None);
    }
}
