//! A source that is counted in parts.
//!
//! Calls and edges lead from one part of a source to the next. What a counter knows where a part ends, the counter of the next
//! one has to know: the calls that are under way, the block that was executed last and how it was left, the blocks since
//! the last count of cycles. It is written down as it is; counts stay where they were counted. So each part counts what
//! happens in it, and the sum is what one counter counts.

use backsight::calls::Departure;
use backsight::core::{Address, AddressSpace, Context};
use backsight::flow::Range;
use backsight::image::Code as _;
use backsight::{Source, SourceCode};

use super::blocks::{NONE, Way};
use super::calls::{Call, CallStack, Clock, Frame, Tree};
use super::cycles::{CycleWindow, Stay};
use super::hash::NumberMap;
use super::timeline::TimeAxis;
use super::walked::WalkedPaths;
use super::{CountOptions, Counter, Hart, ThreadRecord};
use crate::profile::{Profile, ThreadPart};
use crate::wire::{LastInstruction, Reader, Writer};

const WAYS: [Way; 4] = [Way::Onwards, Way::Taken, Way::Exception, Way::ExceptionReturn];

/// Instructions before a place, at most: more were never traced.
const MOST_INSTRUCTIONS: u64 = 1 << 60;

/// What a counter knows at a place in its source: [`Counter::hand_over`] gives it, [`Counter::resume`] takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handover(
    /// As bytes, to be carried anywhere.
    pub Vec<u8>,
);

/// Numbers of what is handed over, in the order in which it was met.
#[derive(Debug, Default)]
struct Numbering {
    known: NumberMap<u32, u32>,
    list: Vec<u32>,
}

impl Numbering {
    /// The new number, and whether it is new.
    fn of(&mut self, old: u32) -> (u32, bool) {
        let next = self.list.len() as u32;
        let number = *self.known.entry(old).or_insert(next);
        if number == next {
            self.list.push(old);
        }
        (number, number == next)
    }
}

/// What is handed over while it is written: functions, blocks and nodes only as far as something names them.
struct Handing<'t> {
    writer: Writer,
    tree: &'t Tree,
    functions: Numbering,
    blocks: Numbering,
    nodes: Numbering,
}

impl Handing<'_> {
    fn function(&mut self, number: u32) {
        let number = self.functions.of(number).0;
        self.writer.number(number.into());
    }

    fn block(&mut self, number: u32) {
        let number = (number != NONE).then(|| self.blocks.of(number).0.into());
        self.writer.optional(number);
    }

    /// A node of the tree. Its callers come before it.
    fn node(&mut self, number: u32) {
        let mut chain = vec![number];
        while let Some(node) = chain.last().and_then(|&last| self.tree.nodes.get(last as usize))
            && node.parent != NONE
            && !self.nodes.known.contains_key(&node.parent)
        {
            chain.push(node.parent);
        }
        for &number in chain.iter().rev() {
            let is_new = self.nodes.of(number).1;
            if is_new
                && let Some(node) = self.tree.nodes.get(number as usize).filter(|node| node.function != NONE)
            {
                self.functions.of(node.function);
            }
        }
        let number = self.nodes.of(number).0;
        self.writer.number(number.into());
    }

    fn hart(&mut self, hart: &Hart) {
        self.writer.number(hart.number.into());
        self.writer.optional(hart.context_id);
        self.block(hart.block);
        self.writer.one_of(&WAYS, hart.way);
        self.writer.flag(hart.exception.is_some());
        if let Some((way, return_address)) = hart.exception {
            self.writer.one_of(&WAYS, way);
            self.writer.address(return_address);
        }
        self.writer.flag(hart.interrupted.is_some());
        if let Some((block, way, address)) = hart.interrupted {
            self.block(block);
            self.writer.one_of(&WAYS, way);
            self.writer.number(address.0);
        }
        self.writer.number(hart.clock.now);
        self.writer.flag(hart.counts_cycles);
        self.stack(&hart.stack);
        let mut paused: Vec<_> = hart.paused.iter().collect();
        paused.sort_unstable_by_key(|(id, _)| **id);
        self.writer.number(paused.len() as u64);
        for (id, stack) in paused {
            self.writer.number(*id);
            self.stack(stack);
        }
        self.writer.number(hart.window.stays.len() as u64);
        for stay in &hart.window.stays {
            self.block(stay.block);
            self.node(stay.node);
            self.writer.number(stay.instructions.into());
        }
    }
}

impl Handing<'_> {
    fn departure(&mut self, departure: Departure) {
        let (kind, address) = match departure {
            Departure::Sequence => (0, None),
            Departure::Jump { is_indirect } => (1 + u64::from(is_indirect), None),
            Departure::Call { return_address } => (3, Some(return_address)),
            Departure::Return => (4, None),
            Departure::ExceptionReturn => (5, None),
            Departure::Exception { return_address } => (6, Some(return_address)),
            Departure::ExceptionSomewhere => (6, None),
        };
        self.writer.number(kind);
        self.writer.address(address);
    }

    fn stack(&mut self, CallStack { calls, root, .. }: &CallStack) {
        self.node(*root);
        self.departure(calls.departure);
        self.writer.flag(calls.is_lost);
        self.writer.number(calls.frames.len() as u64);
        for frame in &calls.frames {
            self.node(frame.kept.node);
            self.function(frame.function);
            self.writer.address(frame.return_address);
            self.writer.flag(frame.is_handler);
        }
    }
}

fn departure(handed: &mut Reader<'_>) -> Option<Departure> {
    let (kind, address) = (handed.number()?, handed.address()?);
    Some(match (kind, address) {
        (0, None) => Departure::Sequence,
        (1 | 2, None) => Departure::Jump { is_indirect: kind == 2 },
        (3, Some(return_address)) => Departure::Call { return_address },
        (4, None) => Departure::Return,
        (5, None) => Departure::ExceptionReturn,
        (6, return_address) => Departure::exception(return_address),
        _ => return None,
    })
}

/// How many there are of what is named by numbers.
#[derive(Clone, Copy)]
struct Known {
    functions: usize,
    blocks: usize,
    nodes: usize,
}

impl Known {
    fn block(self, handed: &mut Reader<'_>) -> Option<u32> {
        Some(handed.optional(|handed| handed.index(self.blocks))?.unwrap_or(NONE))
    }

    fn stack(self, handed: &mut Reader<'_>, began: u64) -> Option<CallStack> {
        let (root, departure, is_lost) = (handed.index(self.nodes)?, departure(handed)?, handed.flag()?);
        let frames = handed.list(|handed| {
            let (node, function) = (handed.index(self.nodes)?, handed.index(self.functions)?);
            let (return_address, is_handler) = (handed.address()?, handed.flag()?);
            Some(Frame { function, is_handler, return_address, kept: Call { node, began } })
        })?;
        let mut stack = CallStack::below(root);
        (stack.calls.frames, stack.calls.departure, stack.calls.is_lost) = (frames, departure, is_lost);
        Some(stack)
    }
}

impl<'c> Counter<'c> {
    /// What somebody has to know who counts what comes next. Parts are counted without paths, events of the trace unit,
    /// windows and calls over time: of these, nothing is handed over.
    pub fn hand_over(&self) -> Handover {
        let mut handing = Handing {
            writer: Writer::default(),
            tree: &self.tree,
            functions: Numbering::default(),
            blocks: Numbering::default(),
            nodes: Numbering::default(),
        };
        handing.writer.number(self.threads.len() as u64);
        for thread in &self.threads {
            handing.node(thread.root);
            handing.writer.number(thread.hart.into());
            handing.writer.optional(thread.context_id);
        }
        handing.writer.number(self.others.len() as u64 + 1);
        self.others.iter().chain([&self.hart]).for_each(|hart| handing.hart(hart));
        // What is named comes first, for those who read it.
        let mut out = Writer::default();
        out.list(handing.functions.list.iter(), |out, &number| {
            if let Some(function) = self.functions.list().get(number as usize) {
                out.space(function.space);
                out.number(function.met.0);
            }
        });
        out.list(handing.blocks.list.iter(), |out, &number| {
            if let Some(block) = self.blocks.blocks.get(number as usize) {
                let Range { start, end, instructions, isa, class, flags, last_size, executed: _ } =
                    block.range;
                out.space(block.space);
                out.number(start.0);
                out.number(end.0);
                out.number(instructions.into());
                out.last_instruction(LastInstruction { isa, class, flags, size: last_size });
            }
        });
        let nodes = handing.nodes.list.iter();
        out.list(nodes, |out, &number| {
            if let Some(node) = self.tree.nodes.get(number as usize) {
                out.optional(handing.functions.known.get(&node.function).map(|&number| number.into()));
                out.optional(handing.nodes.known.get(&node.parent).map(|&number| number.into()));
            }
        });
        out.bytes.append(&mut handing.writer.bytes);
        Handover(out.bytes)
    }

    /// A counter that goes on where another one has [handed over](Self::hand_over). `context_of` says which context a hart
    /// was in. `None` if that is no handover.
    pub fn resume(
        source: &Source,
        code: SourceCode<'c>,
        handover: &Handover,
        context_of: &dyn Fn(u16) -> Option<Context>,
    ) -> Option<Self> {
        let mut counter = Self::new(source, code, &CountOptions::default());
        (counter.tree, counter.threads) = Default::default();
        counter.take_over(&mut Reader::new(&handover.0), context_of)?;
        Some(counter)
    }

    fn take_over(
        &mut self,
        handed: &mut Reader<'_>,
        context_of: &dyn Fn(u16) -> Option<Context>,
    ) -> Option<()> {
        let functions = handed.list(|handed| {
            let space = handed.space()?;
            Some(self.functions.at(space, Address(handed.number()?)).function)
        })?;
        // Those that were different functions are different ones here: the code is the same.
        if functions.iter().zip(0..).any(|(&number, expected)| number != expected) {
            return None;
        }
        let blocks = handed.list(|handed| self.take_block(handed))?.len();
        let (mut nodes, count) = (0, functions.len());
        handed.list(|handed| {
            let function = handed.optional(|handed| handed.index(count))?;
            let parent = handed.optional(|handed| handed.index(nodes))?;
            // A thread has neither.
            if function.is_some() != parent.is_some() {
                return None;
            }
            self.tree.restore(function.unwrap_or(NONE), parent.unwrap_or(NONE));
            nodes += 1;
            Some(())
        })?;
        let known = Known { functions: count, blocks, nodes };
        self.threads = handed.list(|handed| {
            Some(ThreadRecord {
                root: handed.index(nodes)?,
                hart: handed.narrow()?,
                context_id: handed.optional(Reader::number)?,
            })
        })?;
        let mut harts = handed.list(|handed| self.take_hart(handed, known, context_of))?;
        self.hart = harts.pop()?;
        self.others = harts;
        handed.is_at_end().then_some(())
    }

    fn take_block(&mut self, handed: &mut Reader<'_>) -> Option<()> {
        let space = handed.space()?;
        let (start, end) = (handed.number()?, handed.number()?);
        let instructions = handed.narrow()?;
        let LastInstruction { isa, class, flags, size } = handed.last_instruction()?;
        let (start, end) = (Address(start), Address(end));
        let range = Range { start, end, instructions, isa, class, flags, last_size: size, executed: true };
        if self.blocks.find(&range, space).is_some() {
            return None;
        }
        let (place, ending) = self.ends_of(&range, space);
        self.blocks.add(&range, space, place, ending).map(drop)
    }

    fn take_hart(
        &mut self,
        handed: &mut Reader<'_>,
        known: Known,
        context_of: &dyn Fn(u16) -> Option<Context>,
    ) -> Option<Hart> {
        let number = handed.narrow()?;
        let context = context_of(number);
        let code = self.functions.code();
        let space = context.map_or(AddressSpace::ANY, |context| code.space_of(&context));
        let context_id = handed.optional(Reader::number)?;
        let (block, way) = (known.block(handed)?, handed.one_of(&WAYS)?);
        let exception = handed.optional(|handed| Some((handed.one_of(&WAYS)?, handed.address()?)))?;
        let interrupted = handed.optional(|handed| {
            let (block, way) = (known.block(handed)?, handed.one_of(&WAYS)?);
            Some((block, way, Address(handed.number()?)))
        })?;
        // It is a break unless execution goes on there, which is seen here.
        self.totals.breaks += u64::from(interrupted.is_some());
        let now = handed.number().filter(|&clock| clock <= MOST_INSTRUCTIONS)?;
        let counts_cycles = handed.flag()?;
        let stack = known.stack(handed, now)?;
        let paused = handed.list(|handed| Some((handed.number()?, known.stack(handed, now)?)))?;
        let stays = handed.list(|handed| {
            let (block, node) = (known.block(handed)?, handed.index(known.nodes)?);
            Some(Stay { block, node, instructions: handed.narrow()? })
        })?;
        Some(Hart {
            number,
            space,
            context,
            context_id,
            block,
            way,
            exception,
            interrupted,
            clock: Clock { now, began: now },
            walked: WalkedPaths::default(),
            stack,
            paused: paused.into_iter().collect(),
            counts_cycles,
            window: CycleWindow { stays, ..CycleWindow::default() },
            axis: TimeAxis::default(),
            time: None,
            untimed: 0,
        })
    }

    /// What was counted in a part of a source, which begins at this offset. `is_last`: the source ends with it.
    pub fn finish_part(mut self, start: u64, is_last: bool) -> Profile {
        if !is_last {
            let harts = self.others.iter().chain([&self.hart]);
            self.totals.breaks -= harts.filter(|hart| hart.interrupted.is_some()).count() as u64;
        }
        let (buffer, source) = (self.source.buffer().to_owned(), self.source.id().get());
        let mut profile = self.finish();
        for (thread, number) in profile.threads.iter_mut().zip(0..) {
            thread.part = Some(ThreadPart { buffer: buffer.clone(), source, number, start });
        }
        profile
    }
}
