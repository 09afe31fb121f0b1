//! Harts and threads take turns: the harts of a source, one after the other in its trace, and threads on each hart. Each has
//! its own place in the code and its own calls.

use backsight::core::{Address, AddressSpace, Context};
use backsight::image::Code as _;

use super::Counter;
use super::blocks::{NONE, Way};
use super::branch_windows::WindowSampler;
use super::calls::{CallStack, Clock, Tree};
use super::cycles::CycleWindow;
use super::events::EventCounter;
use super::hash::NumberMap;
use super::paths::PathCounter;
use super::stretches::TimePoint;
use super::timeline::TimeAxis;
use super::walked::WalkedPaths;

/// A thread: what runs on a hart with one context ID.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadRecord {
    pub(super) root: u32,
    pub(super) hart: u16,
    pub(super) context_id: Option<u64>,
}

/// A hart or core, and where it is.
#[derive(Debug)]
pub(super) struct Hart {
    pub(super) number: u16,
    pub(super) space: AddressSpace,
    pub(super) context: Option<Context>,
    pub(super) context_id: Option<u64>,
    /// The block that was executed last, unless something is missing since.
    pub(super) block: u32,
    pub(super) way: Way,
    /// How the block was left before an exception, and where that returns to.
    pub(super) exception: Option<(Way, Option<Address>)>,
    /// The last block before an exception whose handler is not traced, how it was left, and where execution goes on.
    pub(super) interrupted: Option<(u32, Way, Address)>,
    pub(super) clock: Clock,
    pub(super) walked: WalkedPaths,
    pub(super) stack: CallStack,
    /// The stacks of other threads that ran here.
    pub(super) paused: NumberMap<u64, CallStack>,
    pub(super) counts_cycles: bool,
    pub(super) window: CycleWindow,
    pub(super) axis: TimeAxis,
    /// The last time that the trace gave.
    pub(super) time: Option<TimePoint>,
    /// The first stretch that may have begun since.
    pub(super) untimed: usize,
}

/// Threads of a hart whose calls are kept. Where there are more, those that do not run are forgotten.
const MOST_THREADS: usize = 1 << 12;

impl Hart {
    pub(super) fn new(number: u16, counts_cycles: bool, tree: &mut Tree) -> Self {
        Self {
            number,
            space: AddressSpace::ANY,
            context: None,
            context_id: None,
            block: NONE,
            way: Way::Onwards,
            exception: None,
            interrupted: None,
            clock: Clock::default(),
            walked: WalkedPaths::default(),
            stack: CallStack::below(tree.thread()),
            paused: NumberMap::default(),
            counts_cycles,
            window: CycleWindow::default(),
            axis: TimeAxis::default(),
            time: None,
            untimed: 0,
        }
    }
}

impl Counter<'_> {
    /// The context is reported: where it names another thread, that one has calls of its own.
    pub(super) fn context(&mut self, context: &Context) {
        self.hart.space = self.functions.code().space_of(context);
        self.hart.context = Some(*context);
        let before = self.hart.context_id;
        let context_id = self.functions.code().context_id(context);
        if context_id.is_none() || context_id == before {
            return;
        }
        self.hart.context_id = context_id;
        if self.joins_threads {
            return self.change_thread(context_id);
        }
        if let Some(part) = &mut self.part {
            let id = context_id.unwrap_or(0);
            part.context(self.tree.stretches.len(), self.hart.clock.now, id);
            if before.is_some() {
                self.pause();
                self.forget_last_block();
            }
            return;
        }
        self.hart.context_id = before;
        context_id.into_iter().for_each(|id| self.change_context_id(id));
    }

    /// Another context ID: another thread has its turn, with calls of its own.
    pub(super) fn change_context_id(&mut self, id: u64) {
        let context_id = Some(id);
        let before = std::mem::replace(&mut self.hart.context_id, context_id);
        let Some(before) = before else {
            // The first context of a hart: this is what runs on it.
            let number = self.hart.number;
            let thread = self.threads.iter_mut().rev().find(|thread| thread.hart == number);
            thread.into_iter().for_each(|thread| thread.context_id = context_id);
            return;
        };
        self.pause();
        let Self { tree, hart, threads, .. } = self;
        let next = hart.paused.remove(&id).unwrap_or_else(|| {
            let stack = CallStack::below(tree.thread());
            threads.push(ThreadRecord { root: stack.root, hart: hart.number, context_id });
            stack
        });
        if hart.paused.len() >= MOST_THREADS {
            hart.paused.clear();
        }
        hart.paused.insert(before, std::mem::replace(&mut hart.stack, next));
        self.forget_last_block();
    }

    /// Execution goes to another thread.
    fn pause(&mut self) {
        let Self { tree, timeline, hart, .. } = self;
        let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
        calls.pause(&mut ledger);
    }

    /// The last block was of another thread.
    fn forget_last_block(&mut self) {
        self.paths.iter_mut().for_each(PathCounter::forget);
        let hart = &mut self.hart;
        hart.block = NONE;
        hart.way = Way::Onwards;
        hart.interrupted = None;
    }

    /// Another thread has its turn, which may have run on another hart before.
    fn change_thread(&mut self, thread: Option<u64>) {
        self.pause();
        let Self { tree, timeline, hart, .. } = self;
        let id = thread.unwrap_or(0);
        let new = || CallStack::of_moving(hart.number, id, hart.time);
        let mut next = hart.paused.remove(&id).unwrap_or_else(new);
        next.moving.iter_mut().for_each(|moving| moving.time = hart.time);
        let mut last = std::mem::replace(&mut hart.stack, next);
        if last.moving.is_none() {
            let (calls, mut ledger) = last.split(tree, timeline, &mut hart.clock);
            calls.clear(&mut ledger);
        }
        // Calls are kept here only where there is no room to put them together later.
        if let Some(moving) = last.moving.as_ref().filter(|moving| moving.stretch.is_some()) {
            if hart.paused.len() >= MOST_THREADS {
                hart.paused.clear();
            }
            hart.paused.insert(moving.thread, last);
        }
        self.forget_last_block();
    }

    /// The trace gives the time: that of the instruction before, unless an exception was taken since.
    pub(super) fn give_time(&mut self, time: u64) {
        let Self { tree, hart, .. } = self;
        let point = TimePoint { time, clock: hart.clock.now };
        hart.time = Some(point);
        let first = std::mem::replace(&mut hart.untimed, tree.stretches.len());
        for stretch in tree.stretches.iter_mut().skip(first).filter(|one| one.hart == hart.number) {
            stretch.time.after = Some(point);
        }
        let is_running = hart.block != NONE && hart.way != Way::Exception;
        hart.stack.set_time(point, is_running, &mut tree.stretches);
    }

    /// What follows is of another hart.
    #[cold]
    pub(super) fn switch_hart(&mut self, number: u16) {
        let known = self.others.iter().position(|hart| hart.number == number);
        let is_unused = self.hart.clock.now == 0 && self.others.is_empty() && self.hart.block == NONE;
        let mut next = match known {
            Some(known) => self.others.swap_remove(known),
            // The first hart has not run yet: it is this one.
            None if is_unused => {
                self.hart.number = number;
                self.filter.iter_mut().for_each(|(filter, _)| filter.turn_to(number));
                self.threads.iter_mut().for_each(|thread| thread.hart = number);
                return;
            }
            None => {
                let hart = Hart::new(number, self.source.counts_cycles(), &mut self.tree);
                self.threads.push(ThreadRecord { root: hart.stack.node(), hart: number, context_id: None });
                hart
            }
        };
        self.filter.iter_mut().for_each(|(filter, _)| filter.turn_to(number));
        self.paths.iter_mut().for_each(PathCounter::forget);
        self.events.iter_mut().for_each(EventCounter::lose);
        self.sampler.iter_mut().for_each(WindowSampler::lose);
        std::mem::swap(&mut self.hart, &mut next);
        self.others.push(next);
    }
}
