//! Following the path that a packet describes.

use backsight_core::{Address, Located};
use backsight_image::Code;
use backsight_isa::{Class, Flags};
use backsight_riscv::etrace::ImplicitReturn;

use super::blocks::{Block, End};
use super::{Fault, Follower, Sink};
use crate::statistics::Tally;
use crate::{Event, Range};

/// Exits of blocks in a row that need no outcome, before the path is not believed.
const MOST_JUMPS: u32 = 1 << 16;

/// Where a packet leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub address: u64,
    pub kind: GoalKind,
    /// The instruction there is a branch.
    pub at_branch: bool,
    pub notify: bool,
    pub updiscon: bool,
    pub irreport: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoalKind {
    /// Formats 0, 1 and 2 with an address.
    Address,
    /// The target of an uninferable discontinuity, from the jump target cache.
    Cached,
    /// No address: to the last branch told.
    LastBranch,
    /// Format 3.
    Sync {
        /// The packet's privilege.
        privilege: u8,
    },
}

/// The instruction that was reached last, inside its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub block: u32,
    pub pc: u64,
}

/// What leaving a block takes to know.
#[derive(Clone, Copy)]
struct Exit {
    last: u64,
    end: u64,
    target: u64,
    kind: End,
    call: bool,
    sequential: bool,
}

impl Exit {
    #[inline]
    const fn of(block: &Block) -> Self {
        let Block { last, end, target, kind, call, sequential, .. } = *block;
        Self { last, end, target, kind, call, sequential }
    }
}

impl<C: Code> Follower<'_, C> {
    /// Walks to the goal.
    pub(super) fn follow(&mut self, goal: &Goal, sink: &mut impl Sink) -> Result<(), Fault> {
        let Some(mut position) = self.position else { return Err(Fault::Unsynchronised) };
        let start = position.pc;
        let (mut left, mut jumps) = (self.settings.longest_path, MOST_JUMPS);
        let result = loop {
            let earlier = self.inferred.is_some();
            if !earlier {
                match self.rush(&mut position, goal, &mut left, &mut jumps, sink) {
                    Err(fault) => {
                        self.lost_at = position.pc;
                        self.position = None;
                        return Err(fault);
                    }
                    Ok(true) => {
                        if let Some(done) = self.stops_at(position.pc, position.block, false, goal) {
                            break done;
                        }
                    }
                    Ok(false) => {}
                }
            }
            let block = self.blocks.get(position.block);
            if position.pc != block.last {
                if !earlier && let Some((stop, inferred)) = self.stops_inside(block, position.pc, goal) {
                    position.pc = stop;
                    self.inferred = inferred.then_some(*goal);
                    break Ok(());
                }
                position.pc = block.last;
            }
            let exit = Exit::of(block);
            let outcomes_before = self.outcomes.len();
            // While the path of an earlier packet is walked on, that packet's fields count.
            let exited = match self.inferred {
                Some(earlier) => self.leave(&exit, &Goal { address: start, ..earlier }, true),
                None => self.leave(&exit, goal, false),
            };
            let (next, taken, crossed) = match exited {
                Ok(exited) => exited,
                Err(fault) => break Err(fault),
            };
            self.emit_block(position.block, taken, sink);
            let entered = match self.blocks.behind(position.block, taken, next) {
                Ok(entered) => entered,
                Err(fault) => {
                    self.lost_at = next;
                    self.position = None;
                    return Err(fault);
                }
            };
            position = Position { block: entered, pc: next };
            self.run = Some(next);
            if earlier {
                if crossed {
                    self.inferred = None;
                    self.irets = 0;
                }
            } else if let Some(done) = self.stops_at(next, position.block, crossed, goal) {
                break done;
            }
            jumps = if self.outcomes.len() < outcomes_before { MOST_JUMPS } else { jumps - 1 };
            left = left.saturating_sub(1);
            let stuck = exit.kind == End::Jump && next == exit.last;
            if left == 0 || jumps == 0 || stuck {
                break Err(Fault::PathTooLong);
            }
        };
        self.lost_at = position.pc;
        self.position = Some(position);
        if result.is_ok() {
            self.outcomes.settle(position.pc);
        }
        result
    }

    /// Goes from block to block as long as branches and jumps lead on and the walk cannot end in the block; did it
    /// go at all? On an error `position` is where code was missing.
    #[inline]
    fn rush(
        &mut self,
        position: &mut Position,
        goal: &Goal,
        left: &mut u64,
        jumps: &mut u32,
        sink: &mut impl Sink,
    ) -> Result<bool, Fault> {
        let calls_count = self.options().implicit_return;
        let ends_at_branch = Self::ends_at_last_branch(goal);
        let (offset, length) = self.place;
        let (mut run, mut told) = (self.run, Tally::default());
        let Position { block: mut index, mut pc } = *position;
        let mut result = Ok(false);
        while *left > 1 && *jumps > 1 {
            let block = self.blocks.get(index);
            let outcomes = self.outcomes.len();
            if outcomes <= 1 {
                let names_branch = ends_at_branch && outcomes == 1 && block.kind == End::Branch;
                let near = goal.address.wrapping_sub(block.start) <= block.last.wrapping_sub(block.start);
                if names_branch || near {
                    break;
                }
            }
            let taken = match block.kind {
                End::Branch => {
                    let Some(taken) = self.outcomes.take(block.last) else { break };
                    *jumps = MOST_JUMPS;
                    self.irets = 0;
                    taken
                }
                End::Jump if !(block.call && calls_count) && block.target != block.last => true,
                End::Plain => false,
                _ => break,
            };
            if let Some(start) = run {
                let mut range = block.range;
                range.executed = taken || block.kind != End::Branch;
                if start != block.start {
                    range.start = Address(start);
                    range.instructions = block.between(start, block.last);
                }
                told.count(&range);
                sink(Located { offset, length, value: Event::Range(range) });
            }
            pc = if taken { block.target } else { block.end };
            run = Some(pc);
            *jumps -= 1;
            *left -= 1;
            match self.blocks.behind(index, taken, pc) {
                Ok(entered) => (index, result) = (entered, Ok(true)),
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        *position = Position { block: index, pc };
        self.run = run;
        self.statistics += told;
        result
    }

    /// Does the walk end inside `block`, behind `pc`? Where, and is that a guess?
    #[inline]
    fn stops_inside(&self, block: &Block, pc: u64, goal: &Goal) -> Option<(u64, bool)> {
        let left = self.outcomes.len();
        if left > 1 {
            return None;
        }
        let ends_in_branch = block.kind == End::Branch;
        if left == 1 && ends_in_branch && Self::ends_at_last_branch(goal) {
            return Some((block.last, false));
        }
        let distance = goal.address.wrapping_sub(block.start);
        if distance <= pc.wrapping_sub(block.start) || distance > block.last.wrapping_sub(block.start) {
            return None;
        }
        let at_branch = ends_in_branch && goal.address == block.last;
        if (left == 1) != at_branch || !block.has(goal.address) {
            return None;
        }
        self.arrives(goal).map(|inferred| (goal.address, inferred))
    }

    /// Does the walk end at `pc`, where a block was just entered?
    #[inline]
    fn stops_at(&mut self, pc: u64, block: u32, crossed: bool, goal: &Goal) -> Option<Result<(), Fault>> {
        let left = self.outcomes.len();
        if left > 1 && !crossed {
            return None;
        }
        let block = self.blocks.get(block);
        let at_branch = block.kind == End::Branch && block.last == pc;
        if left == 1 && at_branch && Self::ends_at_last_branch(goal) {
            return Some(Ok(()));
        }
        let used_up = left == u64::from(at_branch);
        if crossed {
            return Some(if used_up { Ok(()) } else { Err(Fault::OutcomesLeftOver) });
        }
        if pc != goal.address || !used_up {
            return None;
        }
        self.arrives(goal).map(|inferred| {
            self.inferred = inferred.then_some(*goal);
            Ok(())
        })
    }

    /// A packet that names a branch tells its outcome too: the walk ends at the last branch.
    #[inline]
    fn ends_at_last_branch(goal: &Goal) -> bool {
        match goal.kind {
            GoalKind::LastBranch => true,
            GoalKind::Sync { .. } => false,
            GoalKind::Address | GoalKind::Cached => goal.at_branch,
        }
    }

    /// The walk stands on the goal's address with all outcomes used. Does it end, and is that a guess: the packet
    /// may mean the target of an uninferable jump that leads back here.
    fn arrives(&self, goal: &Goal) -> Option<bool> {
        match goal.kind {
            GoalKind::Sync { privilege } => (privilege == self.context.level).then_some(false),
            GoalKind::Address if !goal.at_branch => {
                let returned = match (self.params().implicit_return, goal.irreport) {
                    (_, None) => true,
                    (ImplicitReturn::Returns, Some(irets)) => irets <= self.irets,
                    (ImplicitReturn::Depth, Some(depth)) => {
                        goal.notify || depth as usize == self.stack.depth()
                    }
                };
                match (returned, goal.notify, goal.updiscon) {
                    (false, ..) => None,
                    (true, true, _) => Some(false),
                    (true, false, false) => Some(true),
                    (true, false, true) => None,
                }
            }
            _ => None,
        }
    }

    /// Executes the last instruction of a block: where it goes, by which exit, and whether only the goal told so.
    #[inline]
    fn leave(&mut self, block: &Exit, goal: &Goal, used_up: bool) -> Result<(u64, bool, bool), Fault> {
        match block.kind {
            End::Branch => {
                let taken = self.outcomes.take(block.last).ok_or(Fault::OutcomeMissing)?;
                self.irets = 0;
                Ok((if taken { block.target } else { block.end }, taken, false))
            }
            End::Jump => {
                if block.call {
                    self.call(block.end);
                }
                Ok((block.target, true, false))
            }
            End::Plain | End::Environment => Ok((block.end, false, false)),
            _ => self.leave_uninferable(block, goal, used_up),
        }
    }

    fn leave_uninferable(
        &mut self,
        block: &Exit,
        goal: &Goal,
        used_up: bool,
    ) -> Result<(u64, bool, bool), Fault> {
        if block.sequential && self.options().sijump {
            if block.call {
                self.call(block.end);
            }
            return Ok((block.target, true, false));
        }
        let mut predicted = None;
        if block.kind == End::Return && self.options().implicit_return {
            predicted = self.stack.peek();
            let told = used_up || self.outcomes.len() == u64::from(goal.at_branch);
            let counted = match self.params().implicit_return {
                ImplicitReturn::Returns => self.irets,
                ImplicitReturn::Depth => self.stack.depth() as u32,
            };
            let reported = goal.irreport == Some(counted) && told;
            // Under the ratified scheme a return that fails leaves its entry.
            if !reported || self.params().implicit_return == ImplicitReturn::Returns {
                self.stack.pop();
            }
            if let (Some(target), false) = (predicted, reported) {
                self.irets += 1;
                return Ok((target, true, false));
            }
        }
        if goal.kind == GoalKind::LastBranch {
            return Err(Fault::UnexpectedDiscontinuity);
        }
        if self.options().jump_target_cache && predicted != Some(goal.address) {
            self.cache.insert(goal.address);
        }
        if block.call {
            self.call(block.end);
        }
        Ok((goal.address, true, true))
    }

    #[inline]
    fn call(&mut self, return_address: u64) {
        if self.options().implicit_return {
            self.stack.push(return_address);
        }
    }

    /// Where execution goes from `position`, as far as the program and pending outcomes tell.
    pub(super) fn next_address(&mut self, position: Position) -> Option<u64> {
        let block = *self.blocks.get(position.block);
        if position.pc != block.last {
            return Some(block.behind(position.pc));
        }
        match block.kind {
            End::Plain => Some(block.end),
            End::Environment => Some(block.last),
            End::Jump => Some(block.target),
            End::Branch => self.outcomes.peek().map(|taken| if taken { block.target } else { block.end }),
            End::Uninferable | End::Return if block.sequential && self.options().sijump => Some(block.target),
            End::Return if self.options().implicit_return => self.stack.peek(),
            End::Uninferable | End::Return | End::TrapReturn => None,
        }
    }

    /// Tells the instructions of a block that was walked to its end.
    #[inline]
    pub(super) fn emit_block(&mut self, block: u32, taken: bool, sink: &mut impl Sink) {
        let (Some(start), block) = (self.run, self.blocks.get(block)) else { return };
        let trap_return = block.kind == End::TrapReturn;
        let mut range = block.range;
        range.executed = taken || block.kind != End::Branch;
        if start != block.start {
            range.start = Address(start);
            range.instructions = block.between(start, block.last);
        }
        self.emit(Event::Range(range), sink);
        if trap_return {
            self.emit(Event::ExceptionReturn, sink);
        }
    }

    /// Tells the instructions up to `to` that were walked but not told.
    pub(super) fn emit_part(&mut self, position: Position, to: u64, sink: &mut impl Sink) {
        let (Some(start), block) = (self.run, *self.blocks.get(position.block)) else { return };
        let at_end = to == block.last;
        let end = block.behind(to);
        let taken = at_end && block.kind == End::Branch && self.outcomes.peek() == Some(true);
        let range = Range {
            start: Address(start),
            end: Address(end),
            instructions: block.between(start, to),
            isa: self.isa,
            class: if at_end { block.range.class } else { Class::Other },
            flags: if at_end { block.range.flags } else { Flags::default() },
            last_size: end.wrapping_sub(to) as u8,
            executed: taken || !at_end || block.kind != End::Branch,
        };
        self.run = (!at_end).then_some(end);
        self.emit(Event::Range(range), sink);
    }
}
