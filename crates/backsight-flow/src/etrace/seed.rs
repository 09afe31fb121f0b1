//! The dialect of the thesis's RTL encoder.
//!
//! That encoder looks at blocks of instructions and computes addresses from the block's end. What follows from that
//! for a walk, as the captures show:
//!
//! - Every address is that of the *last* instruction of a block: a branch, a jump, or what retired before a trap. A
//!   packet behind an uninferable jump therefore does not tell its target. For a return it is the return address of the
//!   call, if plain flow leads from there to the named instruction; behind other jumps the instructions before the
//!   named one are not in the trace, and [`Event::PathUnknown`] stands for them.
//! - `updiscon` is set on every packet behind an uninferable jump. Without it the address is reached by the program and
//!   the outcomes alone, and no packet needs to be walked twice.
//! - Only packets with a map empty the map. The outcome of a branch that format 3 names comes with the next map, and
//!   a resync repeats the address of the packet that flushed the map before it: nothing moves. So do idle cycles at the
//!   end, which repeat it again and again.
//! - A resync may stand in for the packet behind an uninferable jump.
//! - 16 to 30 branches with an address are written as 0 branches: the number is the one that leads to the address.
//! - The trace begins with the last instruction of a block, and nothing closes it.

use backsight_core::{Address, Located};
use backsight_image::Code;
use backsight_riscv::etrace::tables::ReturnStack;
use backsight_riscv::etrace::{BranchMap, ContextPacket, Packet, Params, Reported};

use super::blocks::{Block, End};
use super::goal::Position;
use super::{Fault, Follower, Sink};
use crate::Event;

/// Exits of blocks in a row that need no outcome, before the path is not believed.
const MOST_JUMPS: u32 = 1 << 12;
/// Return addresses that are remembered: 2^n.
const RETURN_STACK_SIZE: u8 = 8;

/// Where a packet leads to.
#[derive(Clone, Copy, Debug)]
struct Goal {
    /// The named instruction; without one, the last branch told.
    address: Option<u64>,
    /// Outcomes that are left there.
    left: u64,
    /// It is behind an uninferable discontinuity.
    updiscon: bool,
}

/// How well a walk fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// Instructions before the named one are unknown.
    Partly,
    /// Every instruction is known.
    Whole,
}

/// Calls under way. The encoder keeps none: this is for the follower alone.
pub(super) fn return_stack(params: &Params) -> ReturnStack {
    ReturnStack::new(&Params { return_stack_size: RETURN_STACK_SIZE, call_counter_size: 0, ..*params })
}

impl<C: Code> Follower<'_, C> {
    /// Takes a packet of the dialect.
    pub(super) fn push_seed(&mut self, packet: Packet, sink: &mut impl Sink) -> Result<(), Fault> {
        match packet {
            Packet::Support(support) => self.support(&support, sink),
            Packet::Context(context) => {
                self.flush(sink);
                self.take_context(&context, sink);
                Ok(())
            }
            Packet::Start(start) => {
                self.trace_on(sink);
                let context =
                    ContextPacket { privilege: start.privilege, time: start.time, context: start.context };
                let address = self.absolute(start.address);
                if self.position.is_none() || self.unentered.is_some() {
                    return self.anchor(address, &context, sink);
                }
                let is_there = self.position.is_some_and(|position| position.pc == address);
                let is_repeated =
                    is_there && self.address == address && self.context.level() == start.privilege;
                if !is_repeated {
                    self.address = address;
                    self.seed_walk(Goal { address: Some(address), left: 0, updiscon: false }, sink)?;
                    self.enter_context(&context, sink);
                }
                Ok(())
            }
            Packet::Trap(trap) => {
                self.trace_on(sink);
                self.trap(&trap, sink);
                let context =
                    ContextPacket { privilege: trap.privilege, time: trap.time, context: trap.context };
                match trap.address {
                    Some(field) if trap.thaddr => self.anchor(self.absolute(field), &context, sink),
                    None if trap.thaddr => Err(Fault::HandlerUnknown),
                    _ => Ok(()),
                }
            }
            _ if self.position.is_none() || self.unentered.is_some() => Err(Fault::Unsynchronised),
            Packet::Branches { map: BranchMap { count: 0, bits }, address: Some(reported) } => {
                let goal = self.seed_goal(reported)?;
                self.uncounted(bits, goal, sink)
            }
            Packet::Branches { map, address: Some(reported) } => {
                let goal = self.seed_goal(reported)?;
                self.outcomes.append(map);
                self.seed_walk(goal, sink).map(drop)
            }
            Packet::Branches { map, address: None } => {
                self.outcomes.append(map);
                self.seed_walk(Goal { address: None, left: 1, updiscon: false }, sink).map(drop)
            }
            Packet::Address(reported) => {
                let goal = self.seed_goal(reported)?;
                self.seed_walk(goal, sink).map(drop)
            }
            // The encoder has neither a predictor nor a jump target cache.
            Packet::BranchCount { .. } | Packet::JumpTarget { .. } => Err(Fault::BadPacket),
        }
    }

    fn seed_goal(&mut self, reported: Reported) -> Result<Goal, Fault> {
        let field = self.absolute(reported.address);
        let full = self.options().full_address;
        self.address = if full { field } else { self.params().wrap(self.address.wrapping_add(field)) };
        self.lost_at = self.address;
        let block = self.blocks.at(self.address)?;
        let left = u64::from(self.blocks.get(block).is_branch());
        Ok(Goal { address: Some(self.address), left, updiscon: reported.updiscon })
    }

    /// Begins anew at the last instruction of a block.
    fn anchor(&mut self, address: u64, context: &ContextPacket, sink: &mut impl Sink) -> Result<(), Fault> {
        self.flush(sink);
        if self.position.is_none() && self.unentered.is_none() {
            self.stack.reset();
        }
        (self.unentered, self.address, self.lost_at) = (None, address, address);
        self.outcomes.clear();
        let block = self.blocks.at(address)?;
        if self.position.is_some() {
            self.instructions_unknown(address, sink);
        }
        self.position = Some(Position { block, pc: address });
        self.run = Some(address);
        self.enter_context(context, sink);
        self.lost_trace = false;
        Ok(())
    }

    /// Instructions lead to `next` by plain flow; how many is not known, nor where they begin.
    fn instructions_unknown(&mut self, next: u64, sink: &mut impl Sink) {
        let next = Address(next);
        self.emit(Event::PathUnknown { start: next, next, instructions: 0 }, sink);
    }

    /// 16 to 30 branches with an address: takes the number of them that leads there.
    fn uncounted(&mut self, bits: u32, goal: Goal, sink: &mut impl Sink) -> Result<(), Fault> {
        let Some(position) = self.position else { return Err(Fault::Unsynchronised) };
        let start = self.blocks.get(position.block).start;
        let before = (self.run, self.outcomes.clone(), self.stack.clone(), self.statistics);
        let (mut best, mut others) = (None, false);
        for count in (16..BranchMap::FULL).filter(|&count| bits >> count == 0) {
            self.outcomes.append(BranchMap::new(count, bits));
            let fit = self.seed_walk(goal, &mut |_: Located<Event>| {}).ok();
            if fit > best.map(|(fit, _)| fit) {
                (best, others) = (fit.map(|fit| (fit, count)), false);
            } else {
                others |= fit.is_some() && fit == best.map(|(fit, _)| fit);
            }
            (self.run, self.outcomes, self.stack, self.statistics) = before.clone();
            self.position = Some(Position { block: self.blocks.at(start)?, ..position });
        }
        let (_, count) = best.ok_or(Fault::OutcomesLeftOver)?;
        self.outcomes.append(BranchMap::new(count, bits));
        self.seed_walk(goal, sink)?;
        if others {
            // More turns of a loop would fit as well.
            self.flush(sink);
            self.instructions_unknown(self.address, sink);
        }
        Ok(())
    }

    /// Walks to the goal.
    fn seed_walk(&mut self, mut goal: Goal, sink: &mut impl Sink) -> Result<Fit, Fault> {
        let Some(mut position) = self.position else { return Err(Fault::Unsynchronised) };
        let (mut entered, mut jumps) = (false, MOST_JUMPS);
        loop {
            let block = *self.blocks.get(position.block);
            if let Some(stop) = self.seed_stop(&block, position.pc, entered, &goal) {
                self.position = Some(Position { pc: stop, ..position });
                return Ok(Fit::Whole);
            }
            self.lost_at = block.last;
            let before = self.outcomes.len();
            let next = match block.kind {
                End::Branch => {
                    let taken = self.outcomes.take(block.last).ok_or(Fault::OutcomeMissing)?;
                    self.emit_block(position.block, taken, sink);
                    if taken { block.target } else { block.end }
                }
                End::Jump if block.target == block.last => return Err(Fault::PathTooLong),
                End::Plain | End::Environment | End::Jump => {
                    self.emit_block(position.block, true, sink);
                    if block.kind == End::Jump { block.target } else { block.end }
                }
                End::Return | End::Uninferable | End::TrapReturn => {
                    let address = goal.address.ok_or(Fault::UnexpectedDiscontinuity)?;
                    if self.outcomes.len() != goal.left {
                        return Err(Fault::OutcomesLeftOver);
                    }
                    self.emit_block(position.block, true, sink);
                    match self.returns_to(&block, address) {
                        Some(next) => {
                            goal.updiscon = false;
                            next
                        }
                        None => return self.jump_to(&block, address, sink),
                    }
                }
            };
            self.remember_call(&block);
            (self.position, self.lost_at) = (None, next);
            jumps = if self.outcomes.len() < before { MOST_JUMPS } else { jumps - 1 };
            if jumps == 0 {
                return Err(Fault::PathTooLong);
            }
            position = Position { block: self.blocks.at(next)?, pc: next };
            self.position = Some(Position { pc: self.blocks.get(position.block).last, ..position });
            (self.run, entered) = (Some(next), true);
        }
    }

    /// Does the walk end in `block`, which it entered at `pc`, or behind `pc`, where it stood?
    fn seed_stop(&self, block: &Block, pc: u64, entered: bool, goal: &Goal) -> Option<u64> {
        if goal.updiscon || self.outcomes.len() != goal.left {
            return None;
        }
        let address = match goal.address {
            Some(address) => address,
            None if block.kind == End::Branch => block.last,
            None => return None,
        };
        let distance = address.wrapping_sub(block.start);
        let is_later = entered || distance > pc.wrapping_sub(block.start);
        (is_later && block.has(address)).then_some(address)
    }

    /// The return address, if plain flow leads from there to `address`.
    fn returns_to(&mut self, block: &Block, address: u64) -> Option<u64> {
        if block.kind != End::Return {
            return None;
        }
        let next = self.stack.pop()?;
        let mut at = next;
        for _ in 0..MOST_JUMPS {
            let index = self.blocks.at(at).ok()?;
            let block = self.blocks.get(index);
            if block.has(address) {
                return Some(next);
            }
            if block.kind != End::Plain {
                return None;
            }
            at = block.end;
        }
        None
    }

    /// Goes on at an instruction of which it is not known how execution came there.
    fn jump_to(&mut self, from: &Block, address: u64, sink: &mut impl Sink) -> Result<Fit, Fault> {
        self.remember_call(from);
        (self.position, self.lost_at) = (None, address);
        let block = self.blocks.at(address)?;
        self.instructions_unknown(address, sink);
        self.position = Some(Position { block, pc: address });
        self.run = Some(address);
        Ok(Fit::Partly)
    }

    fn remember_call(&mut self, block: &Block) {
        if block.call {
            self.stack.push(block.end);
        }
    }
}
