//! The dialect of the thesis's RTL encoder.
//!
//! That encoder looks at blocks of instructions and computes addresses from the block's end. What follows from that
//! for a walk, as the captures show:
//!
//! - Every address is that of the *last* instruction of a block: a branch, a jump, or what retired before a trap. A
//!   packet after an uninferable jump therefore does not have its target. For a return it is the return address of the
//!   call, if plain flow leads from there to the named instruction; after other jumps the instructions before the
//!   named one are not in the trace, and [`Event::PathUnknown`] stands for them.
//! - `updiscon` is set on every packet after an uninferable jump. Without it the address is reached by the program and
//!   the outcomes alone, and no packet needs to be walked twice.
//! - Only packets with a map empty the map. The outcome of a branch that format 3 names comes with the next map, and
//!   a resync repeats the address of the packet that flushed the map before it: nothing moves. So do idle cycles at the
//!   end, which repeat it again and again.
//! - A resync may stand in for the packet after an uninferable jump.
//! - 16 to 30 branches with an address are written as 0 branches: the number is the one that leads to the address.
//! - The trace begins with the last instruction of a block, and nothing closes it.

use backsight_core::{Address, Located};
use backsight_image::Code;
use backsight_riscv::etrace::{BranchMap, ContextPacket, Packet, Reported};

use super::destination::Position;
use super::{Fault, Follower};
use crate::Event;
use crate::blocks::{Block, Ending, Origin};
use crate::return_stack::ReturnStack;
use crate::sink::Sink;

/// Exits of blocks in a row that need no outcome, before the path is not believed.
const MOST_JUMPS: u32 = 1 << 12;
/// Return addresses that are remembered.
const STACK_DEPTH: usize = 1 << 8;

/// Where a packet leads to.
#[derive(Clone, Copy, Debug)]
struct Target {
    /// The named instruction; without one, the last branch that has an outcome.
    address: Option<u64>,
    /// Outcomes that are left there.
    left: u64,
    /// It is after an uninferable discontinuity.
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
pub(super) fn return_stack() -> ReturnStack {
    ReturnStack::new(STACK_DEPTH)
}

impl<C: Code> Follower<C> {
    /// Takes a packet of the dialect.
    pub(super) fn push_cva6(&mut self, packet: Packet, sink: &mut impl Sink) -> Result<(), Fault> {
        match packet {
            Packet::Support(support) => self.support(&support, sink).map(drop),
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
                    self.cva6_walk(Target { address: Some(address), left: 0, updiscon: false }, sink)?;
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
            Packet::Branches {
                map: BranchMap { count: BranchMap::UNCOUNTED, bits },
                address: Some(reported),
            } => {
                let target = self.cva6_target(reported)?;
                self.uncounted(bits, target, sink)
            }
            Packet::Branches { map, address: Some(reported) } => {
                let target = self.cva6_target(reported)?;
                self.outcomes.append(map);
                self.cva6_walk(target, sink).map(drop)
            }
            Packet::Branches { map, address: None } => {
                self.outcomes.append(map);
                self.cva6_walk(Target { address: None, left: 1, updiscon: false }, sink).map(drop)
            }
            // The encoder has neither a predictor nor a jump target cache.
            Packet::BranchCount { .. } | Packet::JumpTarget { .. } => Err(Fault::BadPacket),
        }
    }

    fn cva6_target(&mut self, reported: Reported) -> Result<Target, Fault> {
        let field = self.absolute(reported.address);
        let full = self.options().full_address;
        self.address = if full { field } else { self.address.wrapping_add(field) & self.reader.mask };
        self.lost_at = self.address;
        let block = self.block_at(Origin::UNKNOWN, self.address)?;
        let left = u64::from(self.blocks.get(block).is_only_a_branch());
        Ok(Target { address: Some(self.address), left, updiscon: reported.updiscon })
    }

    /// Begins again at the last instruction of a block.
    fn anchor(&mut self, address: u64, context: &ContextPacket, sink: &mut impl Sink) -> Result<(), Fault> {
        self.flush(sink);
        if self.position.is_none() && self.unentered.is_none() {
            self.stack.clear();
        }
        (self.unentered, self.address, self.lost_at) = (None, address, address);
        self.outcomes.clear();
        let block = self.block_at(Origin::UNKNOWN, address)?;
        if self.position.is_some() {
            self.instructions_unknown(address, sink);
        }
        self.position = Some(Position { block, pc: address });
        self.unreported = Some(address);
        self.enter_context(context, sink);
        self.lost_trace = false;
        Ok(())
    }

    /// Instructions lead to `next` by plain flow; how many is not known, nor where they begin.
    fn instructions_unknown(&mut self, next: u64, sink: &mut impl Sink) {
        self.emit(Event::PathUnknown { start: None, next: Address(next), instructions: 0 }, sink);
    }

    /// 16 to 30 branches with an address: takes the number of them that leads there.
    fn uncounted(&mut self, bits: u32, target: Target, sink: &mut impl Sink) -> Result<(), Fault> {
        let Some(position) = self.position else { return Err(Fault::Unsynchronised) };
        let start = self.blocks.get(position.block).range.start.0;
        let before = (self.unreported, self.outcomes.clone(), self.stack.clone(), self.statistics);
        let (mut best, mut others) = (None, false);
        for count in (16..BranchMap::FULL).filter(|&count| bits >> count == 0) {
            self.outcomes.append(BranchMap::new(count, bits));
            let fit = self.cva6_walk(target, &mut |_: Located<Event>| {}).ok();
            if fit > best.map(|(fit, _)| fit) {
                (best, others) = (fit.map(|fit| (fit, count)), false);
            } else {
                others |= fit.is_some() && fit == best.map(|(fit, _)| fit);
            }
            (self.unreported, self.outcomes, self.stack, self.statistics) = before.clone();
            self.position = Some(Position { block: self.block_at(Origin::UNKNOWN, start)?, ..position });
        }
        let (_, count) = best.ok_or(Fault::OutcomesLeftOver)?;
        self.outcomes.append(BranchMap::new(count, bits));
        self.cva6_walk(target, sink)?;
        if others {
            // More turns of a loop would fit as well.
            self.flush(sink);
            self.instructions_unknown(self.address, sink);
        }
        Ok(())
    }

    /// Walks to the target.
    fn cva6_walk(&mut self, mut target: Target, sink: &mut impl Sink) -> Result<Fit, Fault> {
        let Some(mut position) = self.position else { return Err(Fault::Unsynchronised) };
        let (mut entered, mut jumps) = (false, MOST_JUMPS);
        loop {
            let block = *self.blocks.get(position.block);
            if let Some(stop) = self.cva6_stop(position, entered, &target) {
                self.position = Some(Position { pc: stop, ..position });
                return Ok(Fit::Whole);
            }
            let (last, end) = (block.last().0, block.range.end.0);
            self.lost_at = last;
            let before = self.outcomes.len();
            let next = match block.ending {
                Ending::Branch => {
                    let taken = self.outcomes.take(last).ok_or(Fault::OutcomeMissing)?;
                    self.report_block(position.block, taken, sink);
                    if taken { block.target.0 } else { end }
                }
                Ending::Jump | Ending::Call if block.target.0 == last => return Err(Fault::PathTooLong),
                Ending::Jump | Ending::Call => {
                    self.report_block(position.block, true, sink);
                    block.target.0
                }
                Ending::Return
                | Ending::IndirectJump
                | Ending::IndirectCall
                | Ending::Swap
                | Ending::ExceptionReturn => {
                    let address = target.address.ok_or(Fault::UnexpectedDiscontinuity)?;
                    if self.outcomes.len() != target.left {
                        return Err(Fault::OutcomesLeftOver);
                    }
                    self.report_block(position.block, true, sink);
                    match self.returns_to(&block, address) {
                        Some(next) => {
                            target.updiscon = false;
                            next
                        }
                        None => return self.jump_to(&block, address, sink),
                    }
                }
                Ending::NoCode => return Err(Fault::NoCode),
                Ending::Plain | Ending::Undefined | Ending::Environment | Ending::Stale => {
                    self.report_block(position.block, true, sink);
                    end
                }
            };
            self.remember_call(&block);
            (self.position, self.lost_at) = (None, next);
            jumps = if self.outcomes.len() < before { MOST_JUMPS } else { jumps - 1 };
            if jumps == 0 {
                return Err(Fault::PathTooLong);
            }
            let origin = Origin::new(position.block, next != end);
            position = Position { block: self.block_at(origin, next)?, pc: next };
            self.position = Some(Position { pc: self.blocks.get(position.block).last().0, ..position });
            (self.unreported, entered) = (Some(next), true);
        }
    }

    /// Does the walk end in the block that it entered at `position`, or after `position`, where it stood?
    fn cva6_stop(&self, position: Position, entered: bool, target: &Target) -> Option<u64> {
        if target.updiscon || self.outcomes.len() != target.left {
            return None;
        }
        let block = self.blocks.get(position.block);
        let address = match target.address {
            Some(address) => address,
            None if block.ending == Ending::Branch => block.last().0,
            None => return None,
        };
        let start = block.range.start.0;
        let is_later = entered || address.wrapping_sub(start) > position.pc.wrapping_sub(start);
        (is_later && self.blocks.has(position.block, address)).then_some(address)
    }

    /// The return address, if plain flow leads from there to `address`.
    fn returns_to(&mut self, block: &Block, address: u64) -> Option<u64> {
        if block.ending != Ending::Return {
            return None;
        }
        let next = self.stack.pop()?.0.0;
        let mut at = next;
        for _ in 0..MOST_JUMPS {
            let number = self.block_at(Origin::UNKNOWN, at).ok()?;
            if self.blocks.has(number, address) {
                return Some(next);
            }
            let block = self.blocks.get(number);
            if block.ending != Ending::Plain {
                return None;
            }
            at = block.range.end.0;
        }
        None
    }

    /// Goes on at an instruction of which it is not known how execution came there.
    fn jump_to(&mut self, from: &Block, address: u64, sink: &mut impl Sink) -> Result<Fit, Fault> {
        self.remember_call(from);
        (self.position, self.lost_at) = (None, address);
        let block = self.block_at(Origin::UNKNOWN, address)?;
        self.instructions_unknown(address, sink);
        self.position = Some(Position { block, pc: address });
        self.unreported = Some(address);
        Ok(Fit::Partly)
    }

    fn remember_call(&mut self, block: &Block) {
        if matches!(block.ending, Ending::Call | Ending::IndirectCall) {
            self.stack.push(block.range.end, block.range.isa);
        }
    }
}
