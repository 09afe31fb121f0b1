//! The stack of calls at every instruction of a chunk.
//!
//! The stack is that of [`backsight::calls`]; it is kept here for every run of instructions at once. What most of them share is kept once:
//! a call knows the one around it by its number.

use std::collections::{BTreeMap, HashMap};

use backsight::calls::{Departure, Frame, Functions, KnownCalls, KnownStacks, Ledger, Place, Stack};
use backsight::core::{Address, AddressSpace};
use backsight::flow::Range;
use backsight::image::{Code as _, Window as TimeSpan};
use backsight::moments::InWindow;
use backsight::{Event, Item, SourceCode};

use super::chunk::{Chunk, Scene, matters};

/// Threads of a hart whose calls are kept. Where there are more, those that do not run are forgotten.
const MOST_THREADS: usize = 1 << 12;

/// Places at which all stacks are kept, and calls that they may have in all.
const MOST_KEPT: usize = 256;
const MOST_KEPT_CALLS: usize = 1 << 19;

/// No call.
const NONE: u32 = u32::MAX;

/// A call that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where the function begins, if it has a name.
    pub function: Option<Address>,
    /// Where execution came to it first: names are looked up there.
    pub entered: Address,
    /// Where it will return to, if its call was seen.
    pub return_address: Option<Address>,
    /// Entered by an exception, an interrupt or a signal, and not called.
    pub is_handler: bool,
}

/// A call, and the one around it.
#[derive(Clone, Copy, Debug)]
struct Node {
    call: Call,
    parent: u32,
    /// How many calls there are with this one, those that are forgotten included.
    depth: u32,
}

/// Stacks of calls of a chunk.
#[derive(Debug, Default)]
pub(super) struct ChunkCalls {
    nodes: Vec<Node>,
    /// The innermost call of each run.
    innermost: Vec<u32>,
    /// Some were so deep that calls below are forgotten.
    is_deep: bool,
}

impl ChunkCalls {
    /// The calls under way in a run, the innermost first, and whether there are more that are forgotten.
    pub fn of_run(&self, run: usize) -> (Vec<Call>, bool) {
        let mut calls = Vec::new();
        let mut next = self.innermost.get(run).copied().unwrap_or(NONE);
        while let Some(node) = self.nodes.get(next as usize) {
            calls.push(node.call);
            next = node.parent;
        }
        (calls, self.is_deep)
    }

    /// How many calls are under way in a run.
    pub fn depth_of_run(&self, run: usize) -> u32 {
        let innermost = self.innermost.get(run).and_then(|node| self.nodes.get(*node as usize));
        innermost.map_or(0, |node| node.depth)
    }
}

/// Calls of a hart.
#[derive(Clone, Debug)]
struct HartCalls {
    stack: Stack<Call>,
    space: AddressSpace,
    thread: Option<u64>,
    /// The calls of other threads.
    paused: HashMap<u64, Stack<Call>>,
}

impl Default for HartCalls {
    fn default() -> Self {
        let (stack, thread, paused) = Default::default();
        Self { stack, space: AddressSpace::ANY, thread, paused }
    }
}

/// All stacks at the beginning of a chunk.
#[derive(Clone, Debug, Default)]
pub(super) struct Stacks {
    harts: BTreeMap<u16, HartCalls>,
    span: Option<TimeSpan>,
}

impl Stacks {
    fn len(&self) -> usize {
        let calls = |hart: &HartCalls| {
            let paused = hart.paused.values().map(|stack| stack.frames.len()).sum::<usize>();
            hart.stack.frames.len() + paused
        };
        self.harts.values().map(calls).sum()
    }
}

/// Stacks at the beginnings of some chunks.
#[derive(Debug, Default)]
pub(super) struct KeptStacks {
    by_chunk: BTreeMap<u64, Stacks>,
    calls: usize,
}

impl KeptStacks {
    /// The last that are not after a chunk. At the beginning nothing is under way.
    pub fn before(&self, chunk: u64) -> (u64, Stacks) {
        let found = self.by_chunk.range(..=chunk).next_back();
        found.map_or_else(|| (0, Stacks::default()), |(chunk, stacks)| (*chunk, stacks.clone()))
    }

    /// Keeps stacks. Where there are too many, every second one is dropped.
    pub fn insert(&mut self, chunk: u64, stacks: &Stacks) {
        if self.by_chunk.contains_key(&chunk) {
            return;
        }
        self.calls += stacks.len();
        self.by_chunk.insert(chunk, stacks.clone());
        while self.by_chunk.len() > MOST_KEPT || self.calls > MOST_KEPT_CALLS && self.by_chunk.len() > 1 {
            let mut number = 0_usize;
            self.by_chunk.retain(|_, _| {
                number += 1;
                number % 2 == 1
            });
            self.calls = self.by_chunk.values().map(Stacks::len).sum();
        }
    }
}

/// Follows calls through chunks.
pub(super) struct Follower<'c> {
    functions: Functions<'c>,
    code: SourceCode<'c>,
    stacks: Stacks,
    calls: ChunkCalls,
    /// Of the stack of each hart.
    chains: HashMap<u16, Chain>,
}

/// Says what is kept with a call: what there is to know of it.
struct Notes<'a, 'c> {
    functions: &'a Functions<'c>,
}

impl Notes<'_, '_> {
    fn call(&self, place: &Place) -> Call {
        let record = self.functions.list().get(place.function as usize);
        let function = record.and_then(|record| record.start);
        Call { function, entered: place.address, return_address: None, is_handler: false }
    }
}

impl Ledger<Call> for Notes<'_, '_> {
    fn run(&mut self, _instructions: u64) {}

    fn end_stay<const RETURNS: bool>(&mut self, _calls: &mut [Frame<Call>], _forgotten: usize) {}

    fn begin(&mut self, _callers: &[Frame<Call>], place: &Place, _is_known: bool) -> Call {
        self.call(place)
    }

    fn replace(&mut self, calls: &mut [Frame<Call>], place: &Place) {
        calls.iter_mut().rev().take(1).for_each(|top| top.kept = self.call(place));
    }

    fn begin_stretch(&mut self, arrival: &backsight::calls::Arrival) -> Call {
        self.call(&arrival.place)
    }
}

impl<'c> Follower<'c> {
    pub fn new(code: SourceCode<'c>, stacks: Stacks) -> Self {
        let mut functions = Functions::new(code);
        let mut code = code;
        if let Some(span) = stacks.span {
            functions.enter(span);
            code.enter(span);
        }
        let (calls, chains) = Default::default();
        Self { functions, code, stacks, calls, chains }
    }

    /// All stacks, as they are now.
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// Follows a chunk from its beginning to its end, and gives the calls of each of its runs.
    pub fn follow(&mut self, chunk: &Chunk) -> ChunkCalls {
        self.chains.clear();
        self.calls = ChunkCalls::default();
        let mut notes = chunk.notes.iter().peekable();
        for run in &chunk.runs {
            while let Some(note) = notes.next_if(|note| note.number <= run.number) {
                self.event(note.hart, &note.event);
            }
            if let Some(scene) = chunk.scene(run) {
                self.run(scene, &run.range);
            }
        }
        notes.for_each(|note| self.event(note.hart, &note.event));
        std::mem::take(&mut self.calls)
    }

    fn event(&mut self, hart: u16, event: &Event) {
        let Self { functions, code, stacks, calls, chains } = self;
        let known = stacks.harts.entry(hart).or_default();
        let mut ledger = Notes { functions };
        match *event {
            Event::Exception { return_address, .. } => {
                if let Some(address) = return_address.filter(|_| known.stack.is_between()) {
                    let place = functions.at(known.space, address);
                    known.stack.arrive(&place, &mut Notes { functions });
                    calls.record(&known.stack, chains.entry(hart).or_default());
                }
                known.stack.departure = Departure::exception(return_address);
            }
            Event::ExceptionReturn => known.stack.departure = Departure::ExceptionReturn,
            Event::Context(context, _) => {
                known.space = code.space_of(&context);
                let thread = code.context_id(&context);
                if thread.is_some() && thread != known.thread {
                    known.change_thread(thread, &mut ledger);
                    chains.remove(&hart);
                }
            }
            _ => known.stack.lose(&mut ledger),
        }
    }

    /// Goes on from a point of an index.
    fn resume(&mut self, known: &KnownCalls<'_>) {
        let Self { functions, stacks, .. } = self;
        for number in known.harts() {
            let keep = |functions: &Functions<'_>, place: &Place| Notes { functions }.call(place);
            if let Some(KnownStacks { thread, running, paused }) = known.stacks(number, functions, keep) {
                let hart = stacks.harts.entry(number).or_default();
                (hart.stack, hart.thread, hart.paused) = (running, thread, paused.into_iter().collect());
            }
        }
    }

    fn run(&mut self, scene: &Scene, range: &Range) {
        let Self { functions, code, stacks, .. } = self;
        if scene.span != stacks.span
            && let Some(span) = scene.span
        {
            stacks.span = Some(span);
            functions.enter(span);
            code.enter(span);
        }
        let hart = scene.executor.hart;
        stacks.harts.entry(hart).or_default().space = scene.space;
        let innermost = self.range(hart, range);
        self.calls.innermost.push(innermost);
    }

    /// Gives the innermost call.
    fn range(&mut self, hart: u16, range: &Range) -> u32 {
        let Self { functions, stacks, calls, chains, .. } = self;
        let known = stacks.harts.entry(hart).or_default();
        let place = functions.at(known.space, range.start);
        known.stack.arrive(&place, &mut Notes { functions });
        let departure = functions.departure(range, known.space);
        known.stack.run(range.instructions.into(), departure, &mut Notes { functions });
        calls.is_deep |= known.stack.forgotten > 0;
        let chain = chains.entry(hart).or_default();
        calls.record(&known.stack, chain)
    }
}

/// Follows calls from a point of an index to a moment.
pub(super) struct Approach<'f, 'c> {
    follower: &'f mut Follower<'c>,
    has_come: bool,
}

impl<'f, 'c> Approach<'f, 'c> {
    pub fn new(follower: &'f mut Follower<'c>) -> Self {
        Self { follower, has_come: false }
    }
}

impl InWindow for Approach<'_, '_> {
    fn item(&mut self, _item: Item<'_, Event>) {
        self.has_come = true;
    }

    fn before(&mut self, item: Item<'_, Event>) {
        match &item.value {
            Event::Range(range) if range.instructions > 0 => {
                self.follower.range(item.sub_source, range);
            }
            event if matters(event) || matches!(event, Event::Context(..)) => {
                self.follower.event(item.sub_source, event);
            }
            _ => {}
        }
    }

    fn needs_all(&self) -> bool {
        true
    }

    fn needs_calls(&self) -> bool {
        true
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        self.follower.resume(known);
    }

    fn has_enough(&self) -> bool {
        self.has_come
    }
}

impl HartCalls {
    /// Another thread has its turn, with calls of its own.
    fn change_thread(&mut self, thread: Option<u64>, ledger: &mut Notes<'_, '_>) {
        let Some(before) = std::mem::replace(&mut self.thread, thread) else { return };
        self.stack.pause(ledger);
        if self.paused.len() >= MOST_THREADS {
            self.paused.clear();
        }
        let next = thread.and_then(|thread| self.paused.remove(&thread)).unwrap_or_default();
        self.paused.insert(before, std::mem::replace(&mut self.stack, next));
    }
}

/// What is to be known of a call on a stack.
fn call_of(frame: &Frame<Call>) -> Call {
    Call { return_address: frame.return_address, is_handler: frame.is_handler, ..frame.kept }
}

/// The numbers of the calls on a stack, the outermost first, as they were when it was looked at last.
#[derive(Debug, Default)]
struct Chain {
    numbers: Vec<u32>,
    /// Calls below, which are forgotten.
    forgotten: usize,
}

impl ChunkCalls {
    /// Gives the number of the innermost call of a stack. Since it was looked at last, any number of calls were left, and one was
    /// entered at most: from the top down, calls are compared until one is the same.
    fn record(&mut self, stack: &Stack<Call>, chain: &mut Chain) -> u32 {
        if chain.forgotten != stack.forgotten {
            *chain = Chain { numbers: Vec::new(), forgotten: stack.forgotten };
        }
        let (frames, numbers) = (&stack.frames, &mut chain.numbers);
        numbers.truncate(frames.len());
        let is_known = |number: &u32, frame: &Frame<Call>| {
            self.nodes.get(*number as usize).is_some_and(|node| node.call == call_of(frame))
        };
        while let Some(number) = numbers.last()
            && let Some(frame) = frames.get(numbers.len() - 1)
            && !is_known(number, frame)
        {
            numbers.pop();
        }
        for frame in frames.iter().skip(numbers.len()) {
            let parent = numbers.last().copied().unwrap_or(NONE);
            numbers.push(self.nodes.len() as u32);
            let depth = (stack.forgotten + numbers.len()).try_into().unwrap_or(u32::MAX);
            self.nodes.push(Node { call: call_of(frame), parent, depth });
        }
        numbers.last().copied().unwrap_or(NONE)
    }
}
