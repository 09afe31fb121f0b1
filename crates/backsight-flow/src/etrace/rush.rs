//! The quick way along a path: from block to block, as long as nothing needs a second look.

use backsight_core::Located;
use backsight_image::Code;

use super::blocks::End;
use super::goal::{Goal, GoalKind};
use super::walk::{MOST_JUMPS, Walk};
use super::{Fault, Follower, Sink};
use crate::statistics::Tally;

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

impl<C: Code> Follower<'_, C> {
    /// Goes towards the goal; on an error the walk is where code was missing.
    #[inline]
    pub(super) fn rush<S: Sink>(
        &mut self,
        walk: &mut Walk,
        goal: &Goal,
        sink: &mut S,
    ) -> Result<Rushed, Fault> {
        let mut index = walk.position.block;
        let start = self.blocks.get(index).start;
        if self.run != Some(start) {
            return Ok(Rushed::Undecided { moved: false });
        }
        let (implicit_return, sijump) = (self.options().implicit_return, self.options().sijump);
        let (ends_at_branch, may_be_passed) = (goal.ends_at_last_branch(), goal.may_be_passed());
        let ((offset, length), mut tally) = (self.place, Tally::default());
        // The walk ends behind where it stands, or anywhere in a block that it enters.
        let mut from = walk.position.pc.wrapping_sub(start) + 1;
        let mut moved = false;
        let mut pending = self.outcomes.pending();
        let result = loop {
            let block = self.blocks.get(index);
            let left = pending.len();
            if left <= 1 {
                let span = block.last.wrapping_sub(block.start);
                if left == 1 && ends_at_branch && block.kind == End::Branch && from <= span {
                    walk.position.pc = block.last;
                    break Ok(Rushed::Arrived);
                }
                let distance = goal.address.wrapping_sub(block.start);
                if may_be_passed && from <= distance && distance <= span {
                    break Ok(Rushed::Undecided { moved });
                }
            }
            if walk.left <= 1 || walk.jumps <= 1 {
                break Ok(Rushed::Undecided { moved });
            }
            let taken = match block.kind {
                End::Branch => {
                    let Some(taken) = self.outcomes.take_from(&mut pending, block.last) else {
                        break Ok(Rushed::Undecided { moved });
                    };
                    walk.jumps = MOST_JUMPS;
                    self.irets = 0;
                    taken
                }
                End::Plain => false,
                End::Jump if block.target != block.last => {
                    if block.call && implicit_return {
                        self.stack.push(block.end);
                    }
                    true
                }
                End::Return | End::Uninferable if !(block.sequential && sijump) => {
                    if block.kind == End::Return
                        && implicit_return
                        && (goal.irreport.is_some() || self.stack.depth() > 0)
                        || goal.kind == GoalKind::LastBranch
                        || left != u64::from(goal.at_branch)
                        || !self.blocks.begins(goal.block, goal.address)
                    {
                        break Ok(Rushed::Undecided { moved });
                    }
                    if self.settings.options.jump_target_cache {
                        self.cache.insert(goal.address);
                    }
                    if block.call && implicit_return {
                        self.stack.push(block.end);
                    }
                    tally.add(block.instructions, true, true);
                    sink(Located { offset, length, value: *self.blocks.told(index, true) });
                    index = goal.block;
                    moved = true;
                    walk.position.pc = goal.address;
                    break Ok(Rushed::Arrived);
                }
                _ => break Ok(Rushed::Undecided { moved }),
            };
            tally.add(block.instructions, block.branch, block.branch && taken);
            sink(Located { offset, length, value: *self.blocks.told(index, taken) });
            walk.jumps -= 1;
            walk.left -= 1;
            index = match self.blocks.exit(block, taken) {
                Some(entered) => entered,
                None => {
                    let next = if taken { block.target } else { block.end };
                    walk.position.pc = next;
                    match self.blocks.behind(index, taken, next) {
                        Ok(entered) => entered,
                        Err(fault) => break Err(fault),
                    }
                }
            };
            (from, moved) = (0, true);
        };
        self.statistics += tally;
        self.outcomes.put_back(pending);
        let rushed = result?;
        if moved {
            let start = self.blocks.get(index).start;
            self.run = Some(start);
            if rushed != Rushed::Arrived {
                walk.position.pc = start;
            }
        }
        walk.position.block = index;
        Ok(rushed)
    }
}
