//! What each chain of callers cost, by the stack of calls.

use backsight::calls::{self, Arrival, Departure, Place, Stack};

use super::blocks::NONE;
use super::hash::NumberMap;
use super::stretches::{Moving, Stretch, StretchTime};
use super::timeline::{Slice, Timeline, UNKNOWN};

/// Most chains of callers: what does not fit is added to the caller.
const MOST_NODES: usize = 1 << 20;

/// Deepest calls that have nodes of their own.
const DEEPEST: u32 = 256;

/// Most calls that stretches keep which are under way at their ends: of a source, and of a part of one.
const MOST_KEPT: usize = 1 << 22;
const MOST_KEPT_OF_PART: usize = 1 << 20;

/// A function, called by the same chain of callers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeRecord {
    /// [`NONE`] for the node of a thread.
    pub function: u32,
    /// [`NONE`] for the node of a thread.
    pub parent: u32,
    pub depth: u32,
    /// The node that was called last; [`NONE`] before any was.
    last_callee: u32,
    pub calls: u64,
    pub instructions: u64,
    pub cycles: u64,
}

/// All chains of callers.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub nodes: Vec<NodeRecord>,
    children: NumberMap<(u32, u32), u32>,
    /// Calls that were added to their caller, for want of room.
    pub folded: u64,
    /// Those of them that a function made of itself, by its node, which has counted them.
    recursive: NumberMap<u32, u64>,
    /// Stretches of threads that may go on elsewhere.
    pub stretches: Vec<Stretch>,
    /// The calls that are under way at the ends of those.
    kept: usize,
    /// Times that a thread may have gone on elsewhere, and was taken to go on here for want of room.
    pub unjoined: u64,
}

impl Tree {
    /// The node of a new thread.
    pub fn thread(&mut self) -> u32 {
        self.push(NONE, NONE, 0)
    }

    fn push(&mut self, function: u32, parent: u32, depth: u32) -> u32 {
        let number = self.nodes.len() as u32;
        let last_callee = NONE;
        self.nodes.push(NodeRecord {
            function,
            parent,
            depth,
            last_callee,
            calls: 0,
            instructions: 0,
            cycles: 0,
        });
        number
    }

    /// The node of a function that is called from a node: mostly the one that was called last from there.
    #[inline]
    pub fn callee(&mut self, parent: u32, function: u32) -> u32 {
        let last = self.nodes.get(parent as usize).map_or(NONE, |node| node.last_callee);
        match self.nodes.get(last as usize) {
            Some(callee) if callee.function == function => last,
            _ => self.find_callee(parent, function),
        }
    }

    #[inline(never)]
    fn find_callee(&mut self, parent: u32, function: u32) -> u32 {
        let depth = self.nodes.get(parent as usize).map_or(0, |node| node.depth) + 1;
        let known = if depth > DEEPEST { None } else { self.children.get(&(parent, function)).copied() };
        if known.is_none() && (depth > DEEPEST || self.nodes.len() >= MOST_NODES) {
            self.folded += 1;
            if self.nodes.get(parent as usize).is_some_and(|caller| caller.function == function) {
                *self.recursive.entry(parent).or_default() += 1;
            }
            return parent;
        }
        let number = known.unwrap_or_else(|| {
            let number = self.push(function, parent, depth);
            self.children.insert((parent, function), number);
            number
        });
        if let Some(node) = self.nodes.get_mut(parent as usize) {
            node.last_callee = number;
        }
        number
    }

    /// A node that was counted before: `function` is [`NONE`] for that of a thread.
    pub fn restore(&mut self, function: u32, parent: u32) {
        let depth = self.nodes.get(parent as usize).map_or(0, |node| node.depth + 1);
        let number = self.push(function, parent, depth);
        if parent != NONE {
            self.children.insert((parent, function), number);
        }
    }

    /// The calls of a node that have not been added to their caller.
    pub fn unfolded(&self, node: u32) -> u64 {
        let calls = self.nodes.get(node as usize).map_or(0, |node| node.calls);
        calls - self.recursive.get(&node).copied().unwrap_or(0)
    }

    /// Is there room for another stretch? Half of the nodes are for those of one thread.
    pub fn has_room(&self, is_of_part: bool) -> bool {
        let most_kept = if is_of_part { MOST_KEPT_OF_PART } else { MOST_KEPT };
        self.nodes.len() < MOST_NODES / 2 && self.kept < most_kept
    }

    pub fn parent(&self, node: u32) -> u32 {
        self.nodes.get(node as usize).map_or(NONE, |node| node.parent)
    }
}

/// What is kept with a call: its node, and the instructions that were executed before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Call {
    pub node: u32,
    pub began: u64,
}

/// A call that is under way.
pub(crate) type Frame = calls::Frame<Call>;

/// Instructions of a hart.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// Those that were executed so far.
    pub now: u64,
    /// Those before the stay in a function that goes on.
    pub began: u64,
}

/// The calls of one thread.
#[derive(Debug)]
pub(crate) struct CallStack {
    pub calls: Stack<Call>,
    /// The node of the thread, or of the stretch that goes on.
    pub root: u32,
    /// Where the thread may go on elsewhere.
    pub moving: Option<Box<Moving>>,
}

impl CallStack {
    /// No call is known, below a node.
    pub fn below(root: u32) -> Self {
        Self { calls: Stack::default(), root, moving: None }
    }

    /// The node of the innermost call.
    #[inline]
    pub fn node(&self) -> u32 {
        self.calls.frames.last().map_or(self.root, |frame| frame.kept.node)
    }

    /// The calls, and what takes note of them.
    #[inline(always)]
    pub fn split<'a>(
        &'a mut self,
        tree: &'a mut Tree,
        timeline: &'a mut Timeline,
        clock: &'a mut Clock,
    ) -> (&'a mut Stack<Call>, Ledger<'a>) {
        let Self { calls, root, moving } = self;
        (calls, Ledger { tree, timeline, clock, root, moving, forgotten: 0 })
    }
}

/// What takes note of calls.
pub(crate) struct Ledger<'a> {
    tree: &'a mut Tree,
    timeline: &'a mut Timeline,
    clock: &'a mut Clock,
    root: &'a mut u32,
    moving: &'a mut Option<Box<Moving>>,
    /// Calls around those that are kept, when the last stay ended. No call ends before its stay.
    forgotten: usize,
}

impl Ledger<'_> {
    #[inline(always)]
    fn call(&mut self, caller: u32, function: u32) -> Call {
        let node = self.tree.callee(caller, function);
        if let Some(node) = self.tree.nodes.get_mut(node as usize)
            && node.function == function
        {
            node.calls += 1;
        }
        Call { node, began: self.clock.now }
    }

    fn close(&mut self, frame: &Frame, depth: usize) {
        let (begin, end) = (frame.kept.began, self.clock.now);
        let (root, function, depth) = (*self.root, frame.function, (self.forgotten + depth) as u32);
        self.timeline.add(Slice { root, function, depth, begin, end });
    }
}

impl calls::Ledger<Call> for Ledger<'_> {
    #[inline(always)]
    fn run(&mut self, instructions: u64) {
        self.clock.now += instructions;
    }

    #[inline(always)]
    fn end_stay<const RETURNS: bool>(&mut self, calls: &mut [Frame], forgotten: usize) {
        self.forgotten = forgotten;
        let own = self.clock.now - std::mem::replace(&mut self.clock.began, self.clock.now);
        let node = calls.last().map_or(*self.root, |frame| frame.kept.node);
        if let Some(node) = self.tree.nodes.get_mut(node as usize) {
            node.instructions += own;
        }
    }

    #[inline(always)]
    fn begin(&mut self, callers: &[Frame], place: &Place, _is_known: bool) -> Call {
        self.moving.iter_mut().for_each(|moving| moving.peak = moving.peak.max(callers.len()));
        let caller = callers.last().map_or(*self.root, |frame| frame.kept.node);
        self.call(caller, place.function)
    }

    fn replace(&mut self, calls: &mut [Frame], place: &Place) {
        let Some((top, callers)) = calls.split_last_mut() else { return };
        // When the first call of a stretch began is not known here.
        if !callers.is_empty() || self.moving.is_none() || self.timeline.is_of_part {
            self.close(top, callers.len());
        }
        // The oldest of a deep stack may be forgotten: then the node above knows the caller.
        let caller = callers.last().map_or_else(|| self.tree.parent(top.kept.node), |frame| frame.kept.node);
        top.kept = self.call(caller, place.function);
    }

    #[inline(always)]
    fn end(&mut self, calls: &[Frame], first: usize) {
        if self.timeline.is_wanted() {
            // The first call of a stretch ends where stretches are put together.
            if first == 0
                && let Some(stretch) = self.moving.as_ref().and_then(|moving| moving.stretch)
                && let Some(stretch) = self.tree.stretches.get_mut(stretch)
            {
                stretch.returned = calls.first().copied();
            }
            let first = first.max(usize::from(self.moving.is_some()));
            calls.iter().enumerate().skip(first).rev().for_each(|(depth, frame)| self.close(frame, depth));
        }
    }

    fn has_room(&mut self) -> bool {
        let has_room = self.tree.has_room(self.timeline.is_of_part);
        self.tree.unjoined += u64::from(!has_room);
        has_room
    }

    /// Parts of a source come to what one counter counts: only the parts before say which call it is.
    fn takes_function(&self, arrival: &Arrival) -> bool {
        !self.timeline.is_of_part || arrival.is_of_function()
    }

    fn begin_stretch(&mut self, arrival: &Arrival) -> Call {
        *self.root = self.tree.thread();
        // The same function may come in place of another one later: that is another node if nothing is known of the caller.
        let node = self.tree.push(arrival.place.function, *self.root, 1);
        let now = self.clock.now;
        self.clock.began = now;
        let began = if self.timeline.is_of_part { UNKNOWN } else { now };
        let Some(moving) = self.moving else { return Call { node, began } };
        (moving.stretch, moving.peak) = (Some(self.tree.stretches.len()), 0);
        self.tree.stretches.push(Stretch {
            source: 0,
            hart: moving.hart,
            thread: moving.thread,
            root: *self.root,
            arrival: *arrival,
            frames: Vec::new(),
            returned: None,
            peak: 0,
            is_selected: false,
            clock: (now, now),
            left: Departure::Sequence,
            time: StretchTime { before: moving.time, ..StretchTime::default() },
            slices: Vec::new(),
            timestamps: Vec::new(),
        });
        Call { node, began }
    }

    fn end_stretch(&mut self, mut calls: Vec<Frame>, left: Departure) {
        self.end_stay::<false>(&mut calls, 0);
        let Some(moving) = self.moving else { return };
        let stretch = moving.stretch.take().and_then(|number| self.tree.stretches.get_mut(number));
        if let Some(stretch) = stretch {
            self.tree.kept += calls.len();
            (stretch.frames, stretch.clock.1, stretch.left) = (calls, self.clock.now, left);
            stretch.peak = moving.peak;
        }
    }
}
