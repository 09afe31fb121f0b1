//! Paths of packets of formats 1 and 2 that were walked before.
//!
//! Where the trace has no implicit returns, no jump target cache and no branch prediction, the way that a packet leads
//! depends on nothing but where execution is, on the outcomes, and on the address. Many outcomes are looked up some at a time,
//! so that few paths stand for all of them; the rest together with the address.

use backsight_image::Code;

use super::Follower;
use super::destination::{Destination, Position};
use super::fast::Conditions;
use crate::Range;
use crate::blocks::{Ending, FirstWalk, Path, PathEnd, PathKey, WalkedPath, Way};
use crate::sink::Sink;

/// Outcomes that are looked up at a time.
const SOME: u32 = 8;
/// More outcomes than this are not looked up together with an address.
const MOST: u32 = SOME + 4;

/// Kinds of keys: some outcomes of many, and walks to an end.
const SOME_OF_MANY: u32 = 0;
const TO_END: u32 = 1;
const HAS_ADDRESS: u32 = 2;
/// The walk begins at the last instruction of its block, else at the first.
const FROM_LAST: u32 = 4;

/// The path ends at the first instruction of its last block, or at the last.
const AT_START: u8 = 0;
const AT_LAST: u8 = 1;

/// What is known of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recalled {
    /// It was walked.
    Walked,
    /// It has to be walked block by block, as before.
    Unclear,
    /// Nothing.
    Unknown,
}

impl<C: Code> Follower<C> {
    /// Goes along paths that are remembered, as long as there are many outcomes.
    #[inline(always)]
    pub(super) fn recall_some(&mut self, sink: &mut impl Sink) {
        while self.outcomes.pending().is_more_than(MOST) && !sink.is_full() {
            let Some(position) = self.position else { return };
            let Some(block) = self.block_to_report(position) else { return };
            let outcomes = self.outcomes.pending().first(SOME);
            let key = PathKey { from: block.into(), kind: SOME_OF_MANY, outcomes, end: 0 };
            match self.go_along(key, sink) {
                Recalled::Walked => {}
                Recalled::Unclear => return,
                Recalled::Unknown => return self.remember(key, None),
            }
        }
    }

    /// Goes along the path of a packet that leads to an address, or to the last branch that has an outcome.
    #[inline(always)]
    pub(super) fn recall(&mut self, key: Option<PathKey>, sink: &mut impl Sink) -> Recalled {
        match key {
            Some(key) if !sink.is_full() => self.go_along(key, sink),
            _ => Recalled::Unclear,
        }
    }

    /// What decides the path of a packet; `None` where it is not remembered. What else a packet says of its address (`notify`,
    /// `updiscon`) decides only whether a walk that comes by the address ends there, and such walks are not remembered.
    #[inline(always)]
    pub(super) fn path_key(&self, address: Option<u64>) -> Option<PathKey> {
        let (pending, position) = (self.outcomes.pending(), self.position?);
        let block = self.block_to_report(position)?;
        let code = self.blocks.get(block);
        let at_last = position.pc == code.last().0;
        if pending.is_more_than(MOST) || !at_last && position.pc != code.range.start.0 {
            return None;
        }
        let flags = [(true, TO_END), (address.is_some(), HAS_ADDRESS), (at_last, FROM_LAST)];
        let kind = flags.iter().map(|&(is_set, flag)| if is_set { flag } else { 0 }).sum();
        Some(PathKey { from: block.into(), kind, outcomes: pending.first(MOST), end: address.unwrap_or(0) })
    }

    /// The current block, if nothing of it was reported.
    #[inline(always)]
    fn block_to_report(&self, position: Position) -> Option<u32> {
        let start = self.blocks.get(position.block).range.start.0;
        (self.unreported == Some(start)).then_some(position.block)
    }

    #[inline(always)]
    fn go_along(&mut self, key: PathKey, sink: &mut impl Sink) -> Recalled {
        let Some(path) = self.blocks.paths.get(key) else { return Recalled::Unknown };
        if !path.is_plain {
            return Recalled::Unclear;
        }
        let (id, ranges) = (self.blocks.paths.id(path), self.blocks.paths.steps(path));
        if !ranges.is_empty() {
            sink.take_path(id, ranges.iter().map(|&range| self.at.map(|()| range)));
        }
        self.statistics.count_path(path);
        let &Path { block: number, note, outcomes, .. } = path;
        let block = self.blocks.get(number);
        let pc = if note == AT_LAST { block.last().0 } else { block.range.start.0 };
        self.unreported = Some(block.range.start.0);
        self.position = Some(Position { block: number, pc });
        self.lost_at = pc;
        self.outcomes.pass(outcomes);
        self.blocks.paths.count_use();
        Recalled::Walked
    }

    /// Walks the path of a packet for the first time, by the rules of the fast way; without a destination, some of many outcomes.
    #[cold]
    pub(super) fn remember(&mut self, key: PathKey, destination: Option<&Destination>) {
        let mut walked = self.blocks.paths.begin();
        let walk = self.walk_first(key, destination, &mut walked);
        self.blocks.paths.remember(key, walked, walk);
    }

    fn walk_first(
        &self,
        key: PathKey,
        destination: Option<&Destination>,
        walked: &mut WalkedPath,
    ) -> FirstWalk {
        let conditions = destination.map_or(Conditions::NEVER, Conditions::of);
        let mut branches_left = if destination.is_some() { u32::MAX } else { SOME };
        let mut pending = self.outcomes.pending();
        let mut number = key.block();
        let ends = PathEnd::in_block;
        let mut block = self.blocks.get(number);
        if key.kind & FROM_LAST == 0 {
            if conditions.at_branch(block, pending.len()) {
                return FirstWalk::Path(ends(number, AT_LAST));
            }
            if conditions.near(block, pending.len(), 1) {
                return FirstWalk::Unclear;
            }
        }
        loop {
            let is_branch = block.range.flags.conditional;
            let taken = if is_branch {
                let Some(taken) = pending.take() else { return FirstWalk::Unclear };
                taken
            } else if block.way(true).is_known() {
                block.is_branch()
            } else {
                let is_jump = block.way(true) == Way::Indirect && block.ending != Ending::ExceptionReturn;
                let is_sequential = block.is_sequential && self.options().sijump;
                return match destination {
                    Some(to) if is_jump && !is_sequential && self.can_cross(to, pending.len()) => {
                        walked.push(block.range, false);
                        FirstWalk::Path(ends(to.block, AT_START))
                    }
                    _ => FirstWalk::Unclear,
                };
            };
            if !walked.push(Range { executed: taken || !is_branch, ..block.range }, is_branch) {
                return FirstWalk::Unclear;
            }
            let Some(next) = block.next(taken) else { return FirstWalk::NotYet };
            number = next;
            branches_left -= u32::from(is_branch);
            if branches_left == 0 {
                return FirstWalk::Path(ends(number, AT_START));
            }
            block = self.blocks.get(number);
            let left = pending.len();
            if conditions.at_branch(block, left) {
                return FirstWalk::Path(ends(number, AT_LAST));
            }
            if conditions.near(block, left, 0) {
                return FirstWalk::Unclear;
            }
        }
    }
}
