//! Following the path that a packet describes.

use backsight_image::Code;
use backsight_riscv::etrace::ImplicitReturn;

use super::blocks::{Block, End};
use super::goal::{Goal, GoalKind, Position};
use super::rush::Rushed;
use super::{Fault, Follower, Sink};

/// Exits of blocks in a row that need no outcome, before the path is not believed.
pub(super) const MOST_JUMPS: u32 = 1 << 16;

/// A walk under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    pub position: Position,
    /// Blocks that it may still enter.
    pub left: u64,
    /// Exits in a row that it may still take without an outcome.
    pub jumps: u32,
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
        let Block { target, kind, call, sequential, .. } = *block;
        Self { last: block.last, end: block.end, target, kind, call, sequential }
    }
}

impl<C: Code> Follower<'_, C> {
    /// Walks to the goal.
    #[inline(always)]
    pub(super) fn follow(&mut self, goal: &Goal, sink: &mut impl Sink) -> Result<(), Fault> {
        let Some(position) = self.position else { return Err(Fault::Unsynchronised) };
        let mut walk = Walk { position, left: self.settings.longest_path, jumps: MOST_JUMPS };
        let mut rushed = Rushed::Undecided { moved: false };
        if self.may_hurry() {
            rushed = if self.plain {
                self.rush_with::<true>(&mut walk, goal, sink)
            } else {
                self.rush(&mut walk, goal, sink)
            }
            .inspect_err(|_| self.lose_walk(&walk))?;
        }
        let result = match rushed {
            Rushed::Arrived => Ok(()),
            rushed => self.look(rushed, &mut walk, goal, sink)?,
        };
        self.lost_at = walk.position.pc;
        self.position = Some(walk.position);
        if result.is_ok() {
            self.outcomes.settle(walk.position.pc);
        }
        result
    }

    /// Is a walk to a goal like any other?
    #[inline]
    const fn may_hurry(&self) -> bool {
        self.inferred.is_none() && !self.settings.careful
    }

    /// There is no code where the walk is.
    #[cold]
    fn lose_walk(&mut self, walk: &Walk) {
        self.lost_at = walk.position.pc;
        self.position = None;
    }

    /// Goes on block by block and looks at each. The outer error leaves no position: there is no code.
    fn look(
        &mut self,
        mut rushed: Rushed,
        walk: &mut Walk,
        goal: &Goal,
        sink: &mut impl Sink,
    ) -> Result<Result<(), Fault>, Fault> {
        let start = walk.position.pc;
        loop {
            let earlier = self.inferred.is_some();
            match rushed {
                Rushed::Arrived => return Ok(Ok(())),
                Rushed::Undecided { moved: true } => {
                    let Position { pc, block } = walk.position;
                    if let Some(done) = self.stops_at(pc, block, false, goal) {
                        return Ok(done);
                    }
                }
                Rushed::Undecided { moved: false } => {}
            }
            let block = self.blocks.get(walk.position.block);
            if walk.position.pc != block.last {
                if !earlier && let Some((stop, inferred)) = self.stops_inside(block, walk.position.pc, goal) {
                    walk.position.pc = stop;
                    self.inferred = inferred.then_some(*goal);
                    return Ok(Ok(()));
                }
                walk.position.pc = block.last;
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
                Err(fault) => return Ok(Err(fault)),
            };
            self.emit_block(walk.position.block, taken, sink);
            let entered = self.blocks.behind(walk.position.block, taken, next).inspect_err(|_| {
                self.lost_at = next;
                self.position = None;
            })?;
            walk.position = Position { block: entered, pc: next };
            self.run = Some(next);
            if earlier {
                if crossed {
                    self.inferred = None;
                    self.irets = 0;
                }
            } else if let Some(done) = self.stops_at(next, entered, crossed, goal) {
                return Ok(done);
            }
            walk.jumps = if self.outcomes.len() < outcomes_before { MOST_JUMPS } else { walk.jumps - 1 };
            walk.left = walk.left.saturating_sub(1);
            let stuck = exit.kind == End::Jump && next == exit.last;
            if walk.left == 0 || walk.jumps == 0 || stuck {
                return Ok(Err(Fault::PathTooLong));
            }
            rushed = Rushed::Undecided { moved: false };
            if self.may_hurry() {
                rushed = self.rush(walk, goal, sink).inspect_err(|_| self.lose_walk(walk))?;
            }
        }
    }

    /// Does the walk end inside `block`, behind `pc`? Where, and is that a guess?
    #[inline]
    fn stops_inside(&self, block: &Block, pc: u64, goal: &Goal) -> Option<(u64, bool)> {
        let left = self.outcomes.len();
        if left > 1 {
            return None;
        }
        let ends_in_branch = block.kind == End::Branch;
        if left == 1 && ends_in_branch && goal.ends_at_last_branch() {
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
        if left == 1 && at_branch && goal.ends_at_last_branch() {
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

    /// The walk stands on the goal's address with all outcomes used. Does it end, and is that a guess: the packet
    /// may mean the target of an uninferable jump that leads back here.
    fn arrives(&self, goal: &Goal) -> Option<bool> {
        match goal.kind {
            GoalKind::Sync { privilege } => (privilege == self.context.level()).then_some(false),
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
}
