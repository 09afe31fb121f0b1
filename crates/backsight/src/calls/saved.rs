//! Calls under way at many places, kept in little room.
//!
//! Most calls that are under way at one place still are at the next. So each call is kept once, with the one around it, and a stack is the
//! number of its innermost call. What is kept of a place is all that a [`ShadowStack`] knows there: one that goes on from it comes to
//! what one that began with the source comes to.

use std::collections::HashMap;
use std::sync::Arc;

use backsight_core::{Address, AddressSpace};

use super::clock::Clock;
use super::functions::Functions;
use super::shadow::{ShadowStack, Visited};
use super::stack::{Departure, Frame, MOST_FRAMES, Place, Stack};

/// No call.
pub(crate) const NONE: u32 = u32::MAX;

/// Most calls of all the threads of a hart that are kept of one place.
pub(crate) const MOST_AT_ONCE: usize = 1 << 18;

/// Most calls that are kept of a source.
const MOST_CALLS: usize = 1 << 22;

/// Where a function was entered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallSite {
    pub space: AddressSpace,
    /// The address that execution came to.
    pub address: Address,
    pub return_address: Option<Address>,
    pub is_handler: bool,
    pub is_beginning_known: bool,
}

/// A call that was under way somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedCall {
    /// The call around it, which comes before it; [`NONE`] if none is known.
    pub caller: u32,
    pub site: u32,
    pub was_visited: bool,
    pub entered: Clock,
    /// Instructions that other harts had executed then.
    pub elsewhere: u64,
}

/// The calls that were under way at places of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedCalls {
    pub sites: Vec<CallSite>,
    pub calls: Vec<SavedCall>,
}

/// The stack of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedStack {
    /// The innermost call.
    pub top: u32,
    /// So many calls, from that one outwards.
    pub frames: u32,
    pub forgotten: u64,
    pub departure: Departure,
    pub is_lost: bool,
}

/// What is known of a hart at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HartCalls {
    pub hart: u16,
    pub thread: Option<u64>,
    pub clock: Clock,
    /// When the stay began that goes on.
    pub began: Clock,
    pub running: SavedStack,
    /// Those of threads that do not run, by thread.
    pub paused: Paused,
}

pub(crate) type Paused = Arc<Vec<(u64, SavedStack)>>;

/// Collects the calls of a source.
#[derive(Debug, Default)]
pub(crate) struct CallSaver {
    pub saved: SavedCalls,
    numbers: HashMap<CallSite, u32>,
    /// Calls and stacks of threads that were kept, and how many may be.
    spent: usize,
    allowed: usize,
}

impl CallSaver {
    /// So many more may be kept.
    pub fn allow(&mut self, more: usize) {
        self.allowed += more;
    }

    /// Takes room for so many, if there is.
    pub fn spend(&mut self, count: usize) -> Option<()> {
        let is_allowed = self.spent + count <= self.allowed && self.saved.calls.len() < MOST_CALLS;
        self.spent += if is_allowed { count } else { 0 };
        is_allowed.then_some(())
    }

    /// Keeps a stack. `None`: there is no room for all of it now. What was kept will not have to be kept again.
    fn stack(&mut self, functions: &Functions<'_>, stack: &mut Stack<Visited>) -> Option<SavedStack> {
        let calls = &self.saved.calls;
        let is_kept = |frame: &Frame<Visited>| {
            let known = calls.get(frame.kept.saved as usize);
            known.is_some_and(|known| known.was_visited == frame.kept.was_visited)
        };
        let first = stack.frames.iter().rposition(is_kept).map_or(0, |last| last + 1);
        let around = first.checked_sub(1).and_then(|last| stack.frames.get(last));
        let mut top = around.map_or(NONE, |frame| frame.kept.saved);
        for frame in stack.frames.iter_mut().skip(first) {
            self.spend(1)?;
            top = self.call(functions, top, frame)?;
            frame.kept.saved = top;
        }
        let &mut Stack { ref frames, forgotten, departure, is_lost, .. } = stack;
        Some(SavedStack { top, frames: frames.len() as u32, forgotten: forgotten as u64, departure, is_lost })
    }

    fn call(&mut self, functions: &Functions<'_>, caller: u32, frame: &Frame<Visited>) -> Option<u32> {
        let &Frame { is_handler, return_address, kept, .. } = frame;
        let Visited { name, entered, elsewhere, is_beginning_known, was_visited, .. } = kept;
        let function = functions.name(name)?;
        let (space, address) = (function.space, function.address);
        let site = CallSite { space, address, return_address, is_handler, is_beginning_known };
        let next = self.saved.sites.len() as u32;
        let site = *self.numbers.entry(site).or_insert_with(|| {
            self.saved.sites.push(site);
            next
        });
        self.saved.calls.push(SavedCall { caller, site, was_visited, entered, elsewhere });
        Some(self.saved.calls.len() as u32 - 1)
    }
}

impl<'i> ShadowStack<'i> {
    /// Keeps all that is known here. `None`: there is no room for that now.
    pub(crate) fn save(&mut self, hart: u16, saver: &mut CallSaver) -> Option<HartCalls> {
        let Self { costs, stack, thread, paused, saved_paused, .. } = self;
        let running = saver.stack(&costs.functions, stack)?;
        let paused = match saved_paused {
            Some(known) => Arc::clone(known),
            None => {
                saver.spend(paused.len())?;
                let mut all: Vec<_> = paused.iter_mut().collect();
                all.sort_unstable_by_key(|(thread, _)| **thread);
                let each =
                    |(thread, stack): (&u64, _)| Some((*thread, saver.stack(&costs.functions, stack)?));
                let all: Paused = Arc::new(all.into_iter().map(each).collect::<Option<_>>()?);
                Arc::clone(saved_paused.insert(all))
            }
        };
        let count: usize = paused.iter().map(|(_, stack)| stack.frames as usize).sum();
        let (thread, clock, began) = (*thread, costs.clock, costs.began);
        let calls = HartCalls { hart, thread, clock, began, running, paused };
        (count + running.frames as usize <= MOST_AT_ONCE).then_some(calls)
    }

    /// Goes on from a place where this was known. The context has to be known.
    pub(crate) fn restore(&mut self, known: &HartCalls, calls: &SavedCalls) {
        let HartCalls { thread, clock, began, running, ref paused, .. } = *known;
        self.costs.clock = clock;
        self.costs.began = began.not_after(&clock);
        self.thread = thread;
        self.stack = self.restored(&running, calls);
        self.paused = paused.iter().map(|(thread, stack)| (*thread, self.restored(stack, calls))).collect();
        self.saved_paused = None;
    }

    fn restored(&mut self, stack: &SavedStack, saved: &SavedCalls) -> Stack<Visited> {
        let mut restored = saved.stack(stack, |call, site| self.frame(call, site));
        for above in 1..=restored.frames.len() {
            let Some((top, callers)) = restored.frames.get_mut(..above).and_then(<[_]>::split_last_mut)
            else {
                break;
            };
            let met = self.costs.functions.name(top.kept.name).map(|name| name.address);
            top.kept.is_inside = met.is_some_and(|address| self.costs.is_inside(callers, address));
        }
        restored
    }

    fn frame(&mut self, call: &SavedCall, site: &CallSite) -> Frame<Visited> {
        let &SavedCall { was_visited, entered, elsewhere, .. } = call;
        let &CallSite { space, address, return_address, is_handler, is_beginning_known } = site;
        let place = self.costs.functions.at(space, address);
        let name = self.costs.functions.name_of(space, &place);
        let entered = entered.not_after(&self.costs.clock);
        let is_inside = false;
        let kept =
            Visited { name, entered, elsewhere, is_beginning_known, was_visited, is_inside, saved: NONE };
        Frame { function: place.function, is_handler, return_address, kept }
    }
}

impl SavedCalls {
    /// A stack as it was, with its calls as they are made of what was kept.
    fn stack<K>(
        &self,
        stack: &SavedStack,
        mut frame: impl FnMut(&SavedCall, &CallSite) -> Frame<K>,
    ) -> Stack<K> {
        let &SavedStack { mut top, frames: count, forgotten, departure, is_lost } = stack;
        let mut frames = Vec::new();
        while (frames.len() as u32) < count
            && let Some(call) = self.calls.get(top as usize)
            && let Some(site) = self.sites.get(call.site as usize)
        {
            top = call.caller;
            frames.push(frame(call, site));
        }
        frames.reverse();
        let mut restored = Stack::default();
        (restored.frames, restored.forgotten) = (frames, forgotten as usize);
        (restored.departure, restored.is_lost) = (departure, is_lost);
        restored
    }

    /// Is every call around one that comes after it, and are sites where they are said to be?
    pub(crate) fn is_sound(&self) -> bool {
        let is_sound = |(number, call): (usize, &SavedCall)| {
            (call.caller == NONE || (call.caller as usize) < number)
                && (call.site as usize) < self.sites.len()
        };
        self.calls.iter().enumerate().all(is_sound)
    }

    /// Are these stacks of it, and not too many?
    pub(crate) fn has(&self, hart: &HartCalls) -> bool {
        let stacks = || hart.paused.iter().map(|(_, stack)| stack).chain([&hart.running]);
        let is_known = |stack: &SavedStack| match stack.frames {
            0 => stack.top == NONE,
            frames => (stack.top as usize) < self.calls.len() && frames as usize <= MOST_FRAMES,
        };
        stacks().all(is_known)
            && stacks().map(|stack| stack.frames as usize).sum::<usize>() <= MOST_AT_ONCE
            && hart.paused.is_sorted_by(|one, other| one.0 < other.0)
    }
}

/// What is known of calls at a place of a source, to go on from.
#[derive(Clone, Copy, Debug)]
pub struct KnownCalls<'p> {
    pub(crate) saved: &'p SavedCalls,
    pub(crate) harts: &'p [HartCalls],
    /// Instructions before it, of all harts.
    pub instructions: u64,
}

/// The stacks of a hart at a place of a source, with what somebody keeps of each call.
#[derive(Clone, Debug)]
pub struct KnownStacks<K> {
    /// The thread that runs, where it is known.
    pub thread: Option<u64>,
    /// Its calls.
    pub running: Stack<K>,
    /// Those of threads that do not run.
    pub paused: Vec<(u64, Stack<K>)>,
}

impl KnownCalls<'_> {
    /// The stacks of a hart, for a [`Ledger`](super::Ledger) that keeps of each call what the closure makes of the place that execution
    /// came to.
    pub fn stacks<K>(
        &self,
        hart: u16,
        functions: &mut Functions<'_>,
        keep: impl Fn(&Functions<'_>, &Place) -> K,
    ) -> Option<KnownStacks<K>> {
        let known = self.harts.iter().find(|known| known.hart == hart)?;
        let mut frame = |_: &SavedCall, site: &CallSite| {
            let place = functions.at(site.space, site.address);
            let kept = keep(functions, &place);
            let (is_handler, return_address) = (site.is_handler, site.return_address);
            Frame { function: place.function, is_handler, return_address, kept }
        };
        let running = self.saved.stack(&known.running, &mut frame);
        let paused = known.paused.iter();
        let paused = paused.map(|(thread, stack)| (*thread, self.saved.stack(stack, &mut frame))).collect();
        Some(KnownStacks { thread: known.thread, running, paused })
    }

    /// The harts.
    pub fn harts(&self) -> impl Iterator<Item = u16> {
        self.harts.iter().map(|known| known.hart)
    }

    /// A stack of calls goes on from there. The context of its hart has to be known.
    pub fn resume(&self, hart: u16, stack: &mut ShadowStack<'_>) {
        if let Some(known) = self.harts.iter().find(|known| known.hart == hart) {
            stack.restore(known, self.saved);
        }
    }
}
