//! The fast way along a path: from block to block, as long as nothing needs a look.

use backsight_image::Code;

use super::Follower;
use super::destination::{Destination, DestinationKind, Position};
use super::walk::{MOST_JUMPS, Walk};
use crate::blocks::{Block, Ending, Origin, Way};
use crate::sink::Sink;
use crate::{Event, Range};

/// How a fast walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FastEnd {
    /// At the destination.
    Arrived,
    /// In a block where the walk may end, or that it leaves in a way that only a closer look decides.
    Undecided,
    /// The sink has enough.
    Paused,
}

/// Where a walk ends or may end. The conditions are put so that one branch, seldom taken, tests them all.
#[derive(Clone, Copy)]
struct Conditions {
    /// It ends at a branch if so many outcomes are left.
    left_at_branch: u64,
    /// It may end at the destination's address if fewer outcomes are left.
    left_near: u64,
    address: u64,
}

impl Conditions {
    #[inline(always)]
    fn of(destination: &Destination) -> Self {
        Self {
            left_at_branch: if destination.ends_at_last_branch() { 1 } else { u64::MAX },
            left_near: if destination.may_be_passed() { 2 } else { 0 },
            address: destination.address,
        }
    }

    /// Does it end at the last instruction of `block`?
    #[inline(always)]
    fn at_branch(&self, block: &Block, left: u64) -> bool {
        block.range.flags.conditional & (left == self.left_at_branch)
    }

    /// May it end in `block`, at least `from` bytes after its start?
    #[inline(always)]
    fn near(&self, block: &Block, left: u64, from: u64) -> bool {
        let start = block.range.start.0;
        let distance = self.address.wrapping_sub(start);
        (left < self.left_near) & (distance >= from) & (distance < block.range.end.0.wrapping_sub(start))
    }
}

/// Why a fast walk stopped.
#[derive(PartialEq, Eq)]
enum Stop {
    /// The walk ends at the last instruction of the block.
    AtBranch,
    /// An uninferable jump.
    AtJump,
    Undecided,
    Paused,
}

impl<C: Code> Follower<C> {
    /// Goes towards the destination.
    pub(super) fn walk_fast(
        &mut self,
        walk: &mut Walk,
        destination: &Destination,
        sink: &mut impl Sink,
    ) -> FastEnd {
        let Position { block: mut number, pc } = walk.position;
        let mut block = self.blocks.get(number);
        if self.unreported != Some(block.range.start.0) {
            return FastEnd::Undecided;
        }
        let (conditions, mut pending) = (Conditions::of(destination), self.outcomes.pending());
        if pc != block.last().0 {
            if conditions.at_branch(block, pending.len()) {
                walk.position.pc = block.last().0;
                return FastEnd::Arrived;
            }
            if conditions.near(block, pending.len(), pc.wrapping_sub(block.range.start.0) + 1) {
                return FastEnd::Undecided;
            }
        }
        let implicit_return = self.options().implicit_return;
        let at = self.at;
        // Steps that are left, and how many there were after the branch before.
        let fuel_at_first = walk.left.min(walk.jumps.into()).saturating_sub(1);
        let mut fuel = fuel_at_first;
        let mut fuel_at_branch = fuel + u64::from(MOST_JUMPS - walk.jumps);
        let (mut instructions, mut not_taken, mut plain) = (0, 0, 0);
        let mut left_block = number;
        let stop = loop {
            if fuel == 0 {
                break Stop::Undecided;
            }
            // Where it goes, if that is not in the block for good.
            let mut elsewhere = None;
            let (taken, executed) = if block.range.flags.conditional {
                self.irets = 0;
                let taken = self.outcomes.take_from(&mut pending, block.last().0);
                let Some(taken) = taken else { break Stop::Undecided };
                fuel_at_branch = fuel - 1;
                not_taken += u64::from(!taken);
                (taken, taken)
            } else if block.way(true).is_known() {
                if implicit_return && block.ending == Ending::Call {
                    self.stack.push(block.range.end, block.range.isa);
                }
                plain += u64::from(!block.is_branch());
                (block.is_branch(), true)
            } else {
                if block.way(true) != Way::Indirect || block.ending == Ending::ExceptionReturn {
                    break Stop::Undecided;
                }
                if block.is_sequential && self.options().sijump {
                    if implicit_return && block.ending == Ending::IndirectCall {
                        self.stack.push(block.range.end, block.range.isa);
                    }
                    elsewhere = Some(block.target.0);
                } else if implicit_return && block.ending == Ending::Return && self.stack.depth() > 0 {
                    if destination.irreport.is_some() {
                        break Stop::Undecided;
                    }
                    self.irets += 1;
                    elsewhere = self.stack.pop().map(|(target, _)| target.0);
                } else {
                    break Stop::AtJump;
                }
                (true, true)
            };
            instructions += u64::from(block.range.instructions);
            sink.take(at.map(|()| Event::Range(Range { executed, ..block.range })));
            fuel -= 1;
            left_block = number;
            number = match block.next(taken) {
                Some(next) if elsewhere.is_none() => next,
                _ => {
                    let on = if taken { block.target.0 } else { block.range.end.0 };
                    self.enter(Origin::new(number, taken), elsewhere.unwrap_or(on))
                }
            };
            block = self.blocks.get(number);
            let left = pending.len();
            let ends = conditions.at_branch(block, left);
            if ends | conditions.near(block, left, 0) {
                break if ends { Stop::AtBranch } else { Stop::Undecided };
            }
            if sink.is_full() {
                // Whether the walk ends in a block whose code changed, only its new code says.
                break if block.is_stale() { Stop::Undecided } else { Stop::Paused };
            }
        };
        let steps = fuel_at_first - fuel;
        walk.left -= steps;
        walk.jumps = MOST_JUMPS - (fuel_at_branch - fuel) as u32;
        self.outcomes.put_back(pending);
        let crosses = stop == Stop::AtJump && self.can_cross(destination, pending.len());
        let block = self.blocks.get(number);
        let ranges = steps + u64::from(crosses);
        self.statistics.instructions += instructions;
        self.statistics.ranges += ranges;
        self.statistics.branches += ranges - plain;
        self.statistics.taken += ranges - plain - not_taken;
        if crosses {
            self.statistics.instructions += u64::from(block.range.instructions);
            sink.take(at.map(|()| Event::Range(block.range)));
            self.cross(number, destination);
            walk.position = Position { block: destination.block, pc: destination.address };
            self.unreported = Some(destination.address);
            return FastEnd::Arrived;
        }
        if steps > 0 {
            walk.position = Position { block: number, pc: block.range.start.0 };
            self.unreported = Some(block.range.start.0);
            walk.undecided_after = (stop != Stop::Paused).then_some(left_block);
        }
        match stop {
            Stop::AtBranch => {
                walk.position.pc = block.last().0;
                FastEnd::Arrived
            }
            Stop::Paused => FastEnd::Paused,
            Stop::AtJump | Stop::Undecided => FastEnd::Undecided,
        }
    }

    /// Does the packet alone say where an uninferable jump leads to?
    #[inline(always)]
    fn can_cross(&self, destination: &Destination, left: u64) -> bool {
        destination.kind != DestinationKind::LastBranch
            && left == u64::from(destination.at_branch)
            && self.blocks.begins(destination.block, destination.address)
    }

    /// An uninferable jump went to the destination.
    fn cross(&mut self, block: u32, destination: &Destination) {
        if self.options().jump_target_cache {
            self.cache.insert(destination.address);
        }
        self.call(&self.blocks.get(block).clone());
    }
}
