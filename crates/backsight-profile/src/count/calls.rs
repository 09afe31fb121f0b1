//! The calls under way, and what each chain of callers cost.
//!
//! The rules are those of [`backsight::calls::ShadowStack`], which is the clear form of this: here functions are numbers,
//! and nothing happens as long as execution stays in a function. A test holds the two against each other.

use backsight::core::Address;

use super::blocks::NONE;
use super::handover::Handing;
use super::hash::NumberMap;
use super::stretches::{Stretch, TimePoint};
use super::timeline::{Slice, Timeline};
use crate::wire::{Reader, Writer};

/// Calls that are kept. A program that goes deeper has its oldest forgotten.
pub(super) const MOST_FRAMES: usize = 1 << 16;

/// Most chains of callers: what does not fit is added to the caller.
const MOST_NODES: usize = 1 << 20;

/// Deepest calls that have nodes of their own.
const DEEPEST: u32 = 256;

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
    /// Stretches of threads that may go on elsewhere.
    pub stretches: Vec<Stretch>,
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

    /// Is there room for another stretch? Half of the nodes are for those of one thread.
    pub fn has_room(&self) -> bool {
        self.nodes.len() < MOST_NODES / 2
    }

    fn parent(&self, node: u32) -> u32 {
        self.nodes.get(node as usize).map_or(NONE, |node| node.parent)
    }
}

/// How execution came to where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Sequence,
    Jump { into_middle: bool },
    Call { return_address: Address },
    Return,
    ExceptionReturn,
    Exception { return_address: Option<Address> },
}

impl Arrival {
    /// Writes it down for whoever goes on.
    pub fn hand_over(self, out: &mut Writer) {
        let (kind, address) = match self {
            Self::Sequence => (0, None),
            Self::Jump { into_middle } => (1 + u64::from(into_middle), None),
            Self::Call { return_address } => (3, Some(return_address)),
            Self::Return => (4, None),
            Self::ExceptionReturn => (5, None),
            Self::Exception { return_address } => (6, return_address),
        };
        out.number(kind);
        out.address(address);
    }

    pub fn take_over(handed: &mut Reader<'_>) -> Option<Self> {
        let (kind, address) = (handed.number()?, handed.address()?);
        Some(match (kind, address) {
            (0, None) => Self::Sequence,
            (1 | 2, None) => Self::Jump { into_middle: kind == 2 },
            (3, Some(return_address)) => Self::Call { return_address },
            (4, None) => Self::Return,
            (5, None) => Self::ExceptionReturn,
            (6, return_address) => Self::Exception { return_address },
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub node: u32,
    pub function: u32,
    /// Where it will return to, if its call was seen.
    pub return_address: Option<Address>,
    /// Entered by an exception, an interrupt or a signal, and not called.
    pub is_handler: bool,
    /// Instructions executed before it.
    pub began: u64,
}

/// The calls of one thread.
#[derive(Debug)]
pub(crate) struct CallStack {
    pub frames: Vec<Frame>,
    /// The node of the thread, or of the stretch that goes on.
    pub root: u32,
    /// Something is missing between the last block and what comes next.
    pub is_lost: bool,
    /// Instructions executed before the stay in the top frame that goes on.
    pub began: u64,
    /// Where the thread may go on elsewhere.
    pub moving: Option<Box<Moving>>,
}

/// A thread that may go on elsewhere: what was called before a stretch began is not known here.
#[derive(Debug)]
pub(crate) struct Moving {
    pub hart: u16,
    /// The number of the thread in the trace.
    pub thread: u64,
    /// The stretch that goes on.
    pub stretch: Option<usize>,
    /// The last time that the trace gave.
    pub time: Option<TimePoint>,
}

/// What the stack of calls works on.
pub(crate) struct Ledger<'a> {
    pub tree: &'a mut Tree,
    pub timeline: &'a mut Timeline,
    /// Instructions executed so far.
    pub clock: u64,
}

/// Does execution go on after an exception? A system call of RISC-V is reported with the address of its instruction, and
/// goes on after it.
fn is_resumed(return_address: Address, address: Address) -> bool {
    address.0.wrapping_sub(return_address.0) <= 4
}

impl CallStack {
    pub fn new(tree: &mut Tree, clock: u64) -> Self {
        Self::below(tree.thread(), clock)
    }

    /// No call is known, below a node.
    pub fn below(root: u32, clock: u64) -> Self {
        Self { frames: Vec::new(), root, is_lost: true, began: clock, moving: None }
    }

    /// Writes it down for whoever goes on.
    pub fn hand_over(&self, out: &mut Handing<'_>) {
        out.node(self.root);
        out.writer.flag(self.is_lost);
        out.writer.number(self.frames.len() as u64);
        for frame in &self.frames {
            out.node(frame.node);
            out.function(frame.function);
            out.writer.address(frame.return_address);
            out.writer.flag(frame.is_handler);
        }
    }

    /// A stack of calls that are under way, in a tree and functions of so many.
    pub fn take_over(handed: &mut Reader<'_>, nodes: usize, functions: usize, clock: u64) -> Option<Self> {
        let (root, is_lost) = (handed.index(nodes)?, handed.flag()?);
        let frames = handed.list(|handed| {
            Some(Frame {
                node: handed.index(nodes)?,
                function: handed.index(functions)?,
                return_address: handed.address()?,
                is_handler: handed.flag()?,
                began: clock,
            })
        })?;
        Some(Self { frames, is_lost, ..Self::below(root, clock) })
    }

    /// The node of the innermost call.
    #[inline]
    pub fn node(&self) -> u32 {
        self.frames.last().map_or(self.root, |frame| frame.node)
    }

    /// Execution is at an address: whose call is that?
    pub fn arrive(&mut self, how: Arrival, address: Address, function: u32, ledger: &mut Ledger<'_>) {
        let is_lost = std::mem::replace(&mut self.is_lost, false);
        let Some(top) = self.frames.last().copied() else {
            return match self.moving.is_some() {
                true => self.begin_stretch(how, is_lost, address, function, ledger),
                false => self.enter(function, None, false, ledger),
            };
        };
        let is_same = top.function == function;
        match how {
            Arrival::Sequence | Arrival::Jump { .. } if is_same => {}
            Arrival::Call { return_address } if !is_lost => {
                self.enter(function, Some(return_address), false, ledger);
            }
            Arrival::Call { return_address } => {
                // What was called is not in the trace, or not all of it.
                if !is_same && address != return_address && !self.unwind_to_function(function, ledger) {
                    self.enter(function, Some(return_address), false, ledger);
                }
            }
            Arrival::Return => self.return_to(address, function, top.is_handler, ledger),
            Arrival::Exception { return_address } => {
                let goes_on = is_same && return_address.is_none_or(|expected| is_resumed(expected, address))
                    || return_address == Some(address);
                if !goes_on
                    && !self.unwind_to_address(address, function, true, ledger)
                    && !self.depends_on_callers(how, address, function, ledger)
                {
                    self.enter(function, return_address, true, ledger);
                }
            }
            Arrival::ExceptionReturn => {
                if !self.unwind_to_address(address, function, true, ledger)
                    && !self.depends_on_callers(how, address, function, ledger)
                {
                    if let Some(handler) = self.frames.iter().rposition(|frame| frame.is_handler) {
                        self.leave(handler, ledger);
                    }
                    self.continue_in(function, ledger);
                }
            }
            Arrival::Sequence if is_lost => self.continue_in(function, ledger),
            // Out of several calls at once, by longjmp: into a function, not to its beginning.
            Arrival::Jump { into_middle } if into_middle || is_lost => {
                let is_known = self.frames.iter().any(|frame| frame.function == function);
                if is_known || !self.depends_on_callers(how, address, function, ledger) {
                    self.continue_in(function, ledger);
                }
            }
            Arrival::Sequence | Arrival::Jump { .. } => self.replace(function, ledger),
        }
    }

    /// Something is missing. What is known to have returned before that has.
    pub fn lose(&mut self, after: Option<Arrival>, ledger: &mut Ledger<'_>) {
        if after == Some(Arrival::Return) && !self.frames.is_empty() {
            self.leave(self.frames.len() - 1, ledger);
        }
        self.is_lost = true;
        self.end_turn(after, ledger);
    }

    /// Execution goes to another thread, or the trace ends.
    pub fn pause(&mut self, ledger: &mut Ledger<'_>) {
        self.end_stay(ledger);
        self.is_lost = true;
        self.end_turn(None, ledger);
    }

    /// Execution comes back to this thread.
    pub fn resume(&mut self, clock: u64) {
        self.began = clock;
    }

    /// The trace ends.
    pub fn finish(&mut self, ledger: &mut Ledger<'_>) {
        match self.moving.is_some() {
            true => self.end_stretch(Arrival::Sequence, ledger),
            false => self.leave(0, ledger),
        }
    }

    /// A return. It goes to where it was called from, unless somebody changed that: longjmp goes back to a function that
    /// called setjmp, a signal handler to code that ends it.
    fn return_to(&mut self, address: Address, function: u32, from_handler: bool, ledger: &mut Ledger<'_>) {
        if self.unwind_to_address(address, function, false, ledger)
            || self.depends_on_callers(Arrival::Return, address, function, ledger)
        {
            return;
        }
        if from_handler || !self.unwind_to_function(function, ledger) {
            self.replace(function, ledger);
        }
    }

    /// Nobody knows how execution came here: to a function that is under way, or to another in place of the last.
    fn continue_in(&mut self, function: u32, ledger: &mut Ledger<'_>) {
        if self.frames.is_empty() {
            self.enter(function, None, false, ledger);
        } else if !self.unwind_to_function(function, ledger) {
            self.replace(function, ledger);
        }
    }

    /// Leaves the call that returns to this address, and whatever it called.
    fn unwind_to_address(
        &mut self,
        address: Address,
        function: u32,
        of_handler: bool,
        ledger: &mut Ledger<'_>,
    ) -> bool {
        let returns = |frame: &Frame| match frame.return_address {
            Some(expected) if frame.is_handler => is_resumed(expected, address),
            expected => expected == Some(address) && !of_handler,
        };
        let found = self.frames.iter().rposition(returns);
        if let Some(index) = found {
            self.leave(index, ledger);
            if self.frames.is_empty() {
                self.enter(function, None, false, ledger);
            }
        }
        found.is_some()
    }

    /// Leaves what a function has called that is under way.
    fn unwind_to_function(&mut self, function: u32, ledger: &mut Ledger<'_>) -> bool {
        let found = self.frames.iter().rposition(|frame| frame.function == function);
        if let Some(index) = found
            && index + 1 < self.frames.len()
        {
            self.leave(index + 1, ledger);
        }
        found.is_some()
    }

    fn enter(
        &mut self,
        function: u32,
        return_address: Option<Address>,
        is_handler: bool,
        ledger: &mut Ledger<'_>,
    ) {
        self.end_stay(ledger);
        let node = ledger.tree.callee(self.node(), function);
        if self.frames.len() >= MOST_FRAMES {
            self.frames.drain(..MOST_FRAMES / 2);
        }
        // With those that are not known, they may be too many.
        if self.frames.len() >= MOST_FRAMES / 2 && self.moving.is_some() {
            ledger.tree.unjoined += 1;
        }
        self.push(node, function, return_address, is_handler, ledger);
    }

    /// A tail call: another function in place of the last, which returns to the same address.
    fn replace(&mut self, function: u32, ledger: &mut Ledger<'_>) {
        self.end_stay(ledger);
        let Some(top) = self.frames.pop() else { return };
        self.close(&top, ledger);
        let caller = self.frames.last().map_or(self.root, |frame| frame.node);
        // The oldest of a deep stack may be forgotten: then the node above knows the caller.
        let caller = if self.frames.is_empty() { ledger.tree.parent(top.node) } else { caller };
        let node = ledger.tree.callee(caller, function);
        self.push(node, function, top.return_address, top.is_handler, ledger);
    }

    fn push(
        &mut self,
        node: u32,
        function: u32,
        return_address: Option<Address>,
        is_handler: bool,
        ledger: &mut Ledger<'_>,
    ) {
        if let Some(node) = ledger.tree.nodes.get_mut(node as usize)
            && node.function == function
        {
            node.calls += 1;
        }
        self.frames.push(Frame { node, function, return_address, is_handler, began: ledger.clock });
    }

    /// Calls from this one on have ended.
    fn leave(&mut self, index: usize, ledger: &mut Ledger<'_>) {
        self.end_stay(ledger);
        while self.frames.len() > index
            && let Some(frame) = self.frames.pop()
        {
            self.close(&frame, ledger);
        }
    }

    fn close(&self, frame: &Frame, ledger: &mut Ledger<'_>) {
        let depth = self.frames.len() as u32;
        // When the first call of a stretch began is not known here.
        if depth == 0 && self.moving.is_some() {
            return;
        }
        let (begin, end) = (frame.began, ledger.clock);
        ledger.timeline.add(Slice { root: self.root, function: frame.function, depth, begin, end });
    }

    pub fn end_stay(&mut self, ledger: &mut Ledger<'_>) {
        let own = ledger.clock - std::mem::replace(&mut self.began, ledger.clock);
        if let Some(node) = ledger.tree.nodes.get_mut(self.node() as usize) {
            node.instructions += own;
        }
    }
}
