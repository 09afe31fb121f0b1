//! The quick way along a path: from block to block, as long as nothing needs a second look.

use backsight_core::Located;
use backsight_image::Code;

use super::blocks::{Block, End};
use super::goal::{Goal, GoalKind, Position};
use super::walk::{MOST_JUMPS, Walk};
use super::{Fault, Follower, Sink};
use crate::statistics::Count;

/// How a rush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rushed {
    /// At the goal.
    Arrived,
    /// In a block where the walk may end, or that it leaves in a way that only a closer look decides.
    Undecided {
        /// It is another block than at first.
        moved: bool,
    },
}

/// Where a walk to a goal ends or may end. The conditions are put so that one branch, seldom taken, tests them all.
#[derive(Clone, Copy)]
struct Ending {
    /// It ends at a branch if so many outcomes are left.
    left_at_branch: u64,
    /// It may end at the goal's address if fewer outcomes are left.
    left_near: u64,
    address: u64,
}

impl Ending {
    #[inline(always)]
    fn of(goal: &Goal) -> Self {
        Self {
            left_at_branch: if goal.ends_at_last_branch() { 1 } else { u64::MAX },
            left_near: if goal.may_be_passed() { 2 } else { 0 },
            address: goal.address,
        }
    }

    /// Does it end at the last instruction of `block`?
    #[inline(always)]
    fn at_branch(&self, block: &Block, left: u64) -> bool {
        (block.kind == End::Branch) & (left == self.left_at_branch)
    }

    /// May it end in `block`, at least `from` bytes behind its start?
    #[inline(always)]
    fn near(&self, block: &Block, left: u64, from: u64) -> bool {
        let distance = self.address.wrapping_sub(block.start);
        (left < self.left_near) & (distance >= from) & (distance <= block.last.wrapping_sub(block.start))
    }
}

/// Why a rush stopped.
enum Stop {
    /// The walk ends at the last instruction of the block.
    AtBranch,
    /// An uninferable jump.
    AtJump,
    Undecided,
    /// There is no code at an address.
    NoCode(u64, Fault),
}

impl<C: Code> Follower<'_, C> {
    /// Goes towards the goal; on an error the walk is where code was missing.
    pub(super) fn rush(
        &mut self,
        walk: &mut Walk,
        goal: &Goal,
        sink: &mut impl Sink,
    ) -> Result<Rushed, Fault> {
        self.rush_with::<false>(walk, goal, sink)
    }

    /// The same, compiled into the caller. `PLAIN` says that the trace has no implicit returns, no jump target cache
    /// and no branch prediction.
    #[inline(always)]
    pub(super) fn rush_with<const PLAIN: bool>(
        &mut self,
        walk: &mut Walk,
        goal: &Goal,
        sink: &mut impl Sink,
    ) -> Result<Rushed, Fault> {
        let Position { block: mut index, pc } = walk.position;
        let mut block = self.blocks.get(index);
        if self.run != Some(block.start) {
            return Ok(Rushed::Undecided { moved: false });
        }
        let (ending, mut pending) = (Ending::of(goal), self.outcomes.pending());
        if pc != block.last {
            if ending.at_branch(block, pending.len()) {
                walk.position.pc = block.last;
                return Ok(Rushed::Arrived);
            }
            if ending.near(block, pending.len(), pc.wrapping_sub(block.start) + 1) {
                return Ok(Rushed::Undecided { moved: false });
            }
        }
        let implicit_return = !PLAIN && self.options().implicit_return;
        let (offset, length) = self.place;
        // Steps that are left, and how many there were behind the branch before.
        let fuel_at_first = walk.left.min(walk.jumps.into()).saturating_sub(1);
        let mut fuel = fuel_at_first;
        let mut fuel_at_branch = fuel + u64::from(MOST_JUMPS - walk.jumps);
        let mut count = Count::default();
        let stop = loop {
            if fuel == 0 {
                break Stop::Undecided;
            }
            let mut returns_to = None;
            let taken = match block.kind {
                End::Branch => {
                    let taken = if PLAIN {
                        pending.take()
                    } else {
                        self.irets = 0;
                        self.outcomes.take_from(&mut pending, block.last)
                    };
                    let Some(taken) = taken else { break Stop::Undecided };
                    fuel_at_branch = fuel - 1;
                    taken
                }
                End::Plain => false,
                _ if block.kind == End::Jump || block.sequential && self.options().sijump => {
                    if block.target == block.last {
                        break Stop::Undecided;
                    }
                    if block.call & implicit_return {
                        self.stack.push(block.end);
                    }
                    true
                }
                End::Return if implicit_return && self.stack.depth() > 0 => {
                    if goal.irreport.is_some() {
                        break Stop::Undecided;
                    }
                    self.irets += 1;
                    returns_to = self.stack.pop();
                    true
                }
                End::Return | End::Uninferable => break Stop::AtJump,
                _ => break Stop::Undecided,
            };
            count += block.counts[usize::from(taken)];
            sink(Located { offset, length, value: block.told[usize::from(taken)] });
            fuel -= 1;
            index = match self.blocks.exit(block, taken) {
                Some(entered) if PLAIN || returns_to.is_none() => entered,
                _ => {
                    let next = returns_to.unwrap_or(if taken { block.target } else { block.end });
                    match self.blocks.behind(index, taken, next) {
                        Ok(entered) => entered,
                        Err(fault) => break Stop::NoCode(next, fault),
                    }
                }
            };
            block = self.blocks.get(index);
            let left = pending.len();
            let ends = ending.at_branch(block, left);
            if ends | ending.near(block, left, 0) {
                break if ends { Stop::AtBranch } else { Stop::Undecided };
            }
        };
        let steps = fuel_at_first - fuel;
        walk.left -= steps;
        walk.jumps = MOST_JUMPS - (fuel_at_branch - fuel) as u32;
        self.outcomes.put_back(pending);
        let block = self.blocks.get(index);
        if matches!(stop, Stop::AtJump) && self.can_cross(goal, pending.len()) {
            count += block.counts[1];
            sink(Located { offset, length, value: block.told[1] });
            self.statistics += count.tally(steps + 1);
            if !PLAIN {
                self.remember_crossing(index, goal);
            }
            walk.position = Position { block: goal.block, pc: goal.address };
            self.run = Some(goal.address);
            return Ok(Rushed::Arrived);
        }
        self.statistics += count.tally(steps);
        if let Stop::NoCode(address, fault) = stop {
            walk.position.pc = address;
            return Err(fault);
        }
        let moved = steps > 0;
        if moved {
            walk.position = Position { block: index, pc: block.start };
            self.run = Some(block.start);
        }
        if matches!(stop, Stop::AtBranch) {
            walk.position.pc = block.last;
            return Ok(Rushed::Arrived);
        }
        Ok(Rushed::Undecided { moved })
    }

    /// Does the packet alone say where an uninferable jump leads to?
    #[inline(always)]
    fn can_cross(&self, goal: &Goal, left: u64) -> bool {
        goal.kind != GoalKind::LastBranch
            && left == u64::from(goal.at_branch)
            && self.blocks.begins(goal.block, goal.address)
    }

    /// An uninferable jump went to the goal.
    fn remember_crossing(&mut self, block: u32, goal: &Goal) {
        if self.options().jump_target_cache {
            self.cache.insert(goal.address);
        }
        let block = self.blocks.get(block);
        if block.call & self.options().implicit_return {
            self.stack.push(block.end);
        }
    }
}
